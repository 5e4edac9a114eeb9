"""Characters of many alphabets, drawn with the fonts that come with matplotlib: images with hundreds of classes.

Each drawing of a character has a font of its own, of those that have it, and is turned, sheared, made wider and moved:

    places of the outline → A · outline + b,   A = size · turn(α) · shear(s) · diag(w, 1)

so a class is what such drawings have in common. Classes for training and test are apart where their alphabets are.
The fonts are DejaVu Sans, Serif and Mono, STIX and Computer Modern, regular, bold and oblique; nothing is downloaded.

Source of the idea: Lake, Salakhutdinov & Tenenbaum (2015), whose Omniglot has 50 alphabets drawn by people.
"""

import functools
import importlib.util
import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array
from refnp.tasks.task import check_hyper_parameter

ALPHABETS = {  # the numbers of their characters in Unicode, first and last
    "latin": ((0x41, 0x5A), (0x61, 0x7A)),
    "greek": ((0x391, 0x3A9), (0x3B1, 0x3C9)),
    "cyrillic": ((0x410, 0x44F),),
    "armenian": ((0x531, 0x556), (0x561, 0x586)),
    "georgian": ((0x10A0, 0x10C5), (0x10D0, 0x10F6)),
    "hebrew": ((0x5D0, 0x5EA),),
    "arabic": ((0x621, 0x64A),),
    "lao": ((0xE81, 0xEAE),),
    "nko": ((0x7CA, 0x7EA),),
    "tifinagh": ((0x2D30, 0x2D65),),
    "canadian": ((0x1401, 0x1676),),
    "lisu": ((0xA4D0, 0xA4F7),),
    "italic": ((0x10300, 0x1031E),),
}
SIZE = 2048  # of a font from which outlines are read: so large that no edge is moved to a pixel's
EM = 0.95  # the size of a font, of the side of an image


def glyphs(
    rng: np.random.Generator,
    *,
    alphabets: Sequence[str] = tuple(ALPHABETS),
    each: int = 20,
    side: int = 28,
    turn: float = 0.2,
    shear: float = 0.2,
    width: float = 0.2,
    shift: float = 0.06,
) -> tuple[Array, Array]:
    """`each` drawings of every character of the `alphabets`: images (M, side, side) in [0, 1], labels (M,) from 0.

    Bright on black, with grey edges; row 0 is at the top. Labels count the characters in the order of the alphabets.
    A character whose outline another one has already, such as Greek Α beside Latin A, is left out.
    turn: the largest angle, in radians. shear: by how much of the height the top may lean to one side. width: the
    largest part by which a drawing is wider or narrower. shift: how far it may be moved along each axis, in sides.
    All are drawn evenly between ± these, for each image.
    Raises ModuleNotFoundError without matplotlib; ValueError for an alphabet that is not in `ALPHABETS`, numbers below
    1, and movements that are negative or not finite.
    """
    for name, number in (("each", each), ("side", side)):
        if not (isinstance(number, (int, np.integer)) and number >= 1):
            raise ValueError(f"glyphs: {name} is {number}; pass a whole number, at least 1")
    for name, most in (("turn", turn), ("shear", shear), ("width", width), ("shift", shift)):
        check_hyper_parameter("glyphs", name, most, at_least=0)
    images, labels = [], []
    for label, (_, outlines) in enumerate(characters(tuple(alphabets))):
        for _ in range(each):
            outline = outlines[rng.integers(len(outlines))]
            angle, lean, wide, *moved = rng.uniform(-1, 1, 5) * (turn, shear, width, shift, shift)
            turned = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            matrix = EM * turned @ np.array([[1 + wide, lean], [0, 1]])
            images.append(_drawn(outline, matrix, np.array(moved), side))
            labels.append(label)
    return np.array(images), np.array(labels)


@functools.cache
def characters(alphabets: tuple[str, ...]) -> list[tuple[str, list]]:
    """The characters of the alphabets, each with its outlines in the fonts that have it, of size 1 and centred at 0."""
    for name in alphabets:
        if name not in ALPHABETS:
            raise ValueError(f"glyphs: {name!r} is no alphabet; there are {', '.join(ALPHABETS)}")
    fonts, found, seen = _fonts(), [], set()
    codes = (code for name in alphabets for first, last in ALPHABETS[name] for code in range(first, last + 1))
    for code in codes:
        is_letter = unicodedata.category(chr(code))[0] == "L"
        outlines = [_outline(font, code) for font, known in fonts if is_letter and code in known]
        if outlines and (first := outlines[0].vertices.tobytes()) not in seen:
            seen.add(first)
            found.append((chr(code), outlines))
    return found


def _fonts() -> list[tuple[Any, frozenset[int]]]:
    """The fonts, DejaVu Sans first, which has every alphabet, and the numbers of the characters of each."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError("glyphs: the fonts come with matplotlib; pip install matplotlib")
    import matplotlib
    from matplotlib.ft2font import FT2Font

    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    names = [
        *(f"DejaVu{family}{style}" for family in ("Sans", "SansMono") for style in ("", "-Bold", "-Oblique")),
        *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic")),
        *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic")),
        *(f"cm{style}10" for style in ("r", "b", "ss", "ti", "tt")),
    ]
    fonts = [FT2Font(str(folder / f"{name}.ttf")) for name in names]
    return [(font, frozenset(font.get_charmap())) for font in fonts]


def _outline(font: Any, code: int) -> Any:
    """The outline of a character of size 1, its middle at 0."""
    from matplotlib.path import Path as Outline

    font.set_size(SIZE, 72)
    font.load_char(code)
    vertices, kinds = font.get_path()
    box = Outline(vertices, kinds).get_extents()  # of what is drawn: a path notes other places too
    return Outline((vertices - box.get_points().mean(0)) / SIZE, kinds)


def _drawn(outline: Any, matrix: Array, moved: Array, side: int) -> Array:
    """A picture (side, side) of an outline that is turned and moved, in parts of the side."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import IdentityTransform

    renderer = RendererAgg(side, side, 72)
    places = (outline.vertices @ matrix.T + moved + 0.5) * side
    pen = renderer.new_gc()
    pen.set_linewidth(0)
    renderer.draw_path(pen, Outline(places, outline.codes), IdentityTransform(), (1.0, 1.0, 1.0))
    return np.asarray(renderer.buffer_rgba())[..., 3] / 255
