"""What all figures share: their size and style, the result of drawing one, and tables of numbers as pictures.

matplotlib is imported inside functions: it is needed only where something is drawn. Nothing here has a state of its
own, and the reader's settings of matplotlib do not change a figure.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refnp.autograd.tensor import Array

WIDTH, DPI = 9.0, 100  # inches, and pixels in one of them: a .png is 900 pixels wide
STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "svg.hashsalt": "refnp",  # with a salt, the same figure is the same file
}
ALLOWED, FORBIDDEN = "#3b6ea5", "#f1f1f1"


class Drawn(NamedTuple):
    """A picture, a `matplotlib.figure.Figure`, and the numbers it shows, each under a few words that say what it is."""

    figure: Any
    numbers: Mapping[str, float | str]


def style() -> contextlib.AbstractContextManager[None]:
    """matplotlib's own settings and those of `STYLE`, whatever the reader's are."""
    from matplotlib import style

    return style.context(["default", STYLE])


def canvas(height: float, rows: int = 1, columns: int = 1, **settings: Any) -> tuple[Any, Any]:
    """A figure 9 inches wide and `height` inches high, and its axes, (rows, columns) of them.

    `settings` are those of matplotlib's `Figure.subplots`, such as `width_ratios`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **settings)


def mask_picture(axes: Any, mask: Array, rows: Sequence[str], columns: Sequence[str] | None = None) -> None:
    """A mask (N, M) as cells, dark where a query (a row) may attend to a key (a column), with the tokens' names."""
    from matplotlib.colors import ListedColormap

    columns = rows if columns is None else columns
    axes.pcolormesh(mask, cmap=ListedColormap([FORBIDDEN, ALLOWED]), vmin=0, vmax=1, edgecolors="white", lw=1.5)
    name_cells(axes, rows, columns)


def name_cells(axes: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Names beside the rows and above the columns of a table of square cells, the first row on top."""
    axes.set_xticks([i + 0.5 for i in range(len(columns))], columns)
    axes.set_yticks([i + 0.5 for i in range(len(rows))], rows)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_aspect("equal")
    axes.set_ylim(len(rows), 0)
    for side in axes.spines.values():
        side.set_visible(False)
