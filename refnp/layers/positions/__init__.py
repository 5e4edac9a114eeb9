"""Positions: what tells attention where its tokens stand, absolutely or relative to each other."""

from refnp.layers.positions.absolute import LearnedPositions, SinusoidalPositions, sinusoidal
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.images import ImagePositions, image_places
from refnp.layers.positions.relative import RelativePositions, Shaw
from refnp.layers.positions.rotary import Rotary, rotate

__all__ = [name for name, value in vars().items() if not (name[0] == "_" or hasattr(value, "__spec__"))]


def __dir__() -> list[str]:
    return __all__
