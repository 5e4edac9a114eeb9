"""Positions: what tells attention where its tokens stand, absolutely or relative to each other."""

from refnp.layers.positions.absolute import LearnedPositions, SinusoidalPositions, sinusoidal
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.images import ImagePositions, image_places
from refnp.layers.positions.relative import RelativePositions, Shaw
from refnp.layers.positions.rotary import Rotary, rotate

# fmt: off
__all__ = [
    "ALiBi", "ImagePositions", "LearnedPositions", "RelativePositions", "Rotary", "Shaw", "SinusoidalPositions",
    "T5Bias", "image_places", "rotate", "sinusoidal",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
