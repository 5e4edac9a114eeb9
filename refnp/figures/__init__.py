"""`refnp figure`: the pictures of the texts, drawn from what refnp computes, with the numbers that they show.

A figure is a sentence that says what it shows and a function `draw()`, which computes, draws with matplotlib, and
returns the picture with its numbers: what a reader would otherwise measure in it.
"""

from refnp.figures.canvas import Drawn, style
from refnp.figures.registry import FIGURES, FORMATS, Figure, draw, files, listing, save, text

__all__ = [name for name, value in vars().items() if not (name[0] == "_" or hasattr(value, "__spec__"))]


def __dir__() -> list[str]:
    return __all__
