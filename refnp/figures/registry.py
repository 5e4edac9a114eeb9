"""The figures by name: drawing one, writing it, and its numbers as text.

Every page of this package has one figure or a few that belong together; `FIGURES` lists them.
"""

import importlib.util
import inspect
import io
import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refnp.figures import attention, coherence, heads, masks, positions, shapes, shift, unification
from refnp.figures.canvas import DPI, Drawn, style
from refnp.studies.registry import KINDS, named
from refnp.verify.record import write_whole
from refnp.verify.report import check_writable

FORMATS = (".png", ".svg")


@dataclass(frozen=True)
class Figure:
    """What a figure shows, in a sentence, the function that draws it, and one that draws the same of something else.

    The keyword arguments of the latter, numbers and words with defaults, are the options of the figure.
    """

    says: str
    draw: Callable[[], Drawn]
    other: Callable[..., Drawn] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options with their defaults."""
        given = {} if self.other is None else inspect.signature(self.other).parameters
        return {name: parameter.default for name, parameter in given.items()}


FIGURES: Mapping[str, Figure] = {
    "transformer": Figure(
        "The Transformer, with the shape at each arrow, of the translator on a sentence.",
        shapes.draw,
        shapes.draw_sizes,
    ),
    "multi-head": Figure(
        "Multi-head attention, with the shape at each arrow, of the translator on a sentence.",
        heads.draw,
        heads.draw_sizes,
    ),
    "attention-sentence": Figure(
        'What each word attends to while "I live in Paris" is translated, head by head.',
        attention.draw_sentence,
        attention.draw_sentence,
    ),
    "attention-image": Figure(
        "What the class token attends to in handwritten digits, between pixels, patches and features.",
        attention.draw_image,
    ),
    "masks": Figure("Who may attend to whom: the causal mask, and those of TNP-D, TNP-A and TNP-ND.", masks.draw),
    "positions": Figure("Sinusoidal positions and their Gram matrix, right and as misprinted.", positions.draw),
    "attention-and-setconv": Figure(
        "Weights of a set convolution and of attention on the same points, their sums, and what comes of the values.",
        unification.draw_attention,
    ),
    "setconv-pipeline": Figure(
        "A task on its way through a ConvCNP: set, density and signal on a grid, network, read-out.",
        unification.draw_pipeline,
    ),
    "shift": Figure(
        "Predictions of TNP-D, ConvCNP and TE-TNP, and how they change when everything is shifted.", shift.draw
    ),
    "coherent-samples": Figure(
        "Draws of all targets: each by itself, with one latent z, and target by target.", coherence.draw
    ),
}


def draw(name: str, **options: Any) -> Drawn:
    """The figure of that name, and its numbers; with options the same of something else, such as another model.

    Raises ValueError for a name that is not in `FIGURES` and for options that the figure does not have, or of another
    kind than their defaults; ModuleNotFoundError if matplotlib is not installed.
    """
    figure = named("figure", name, FIGURES)
    for option, value in options.items():
        kind, fits = KINDS[type(named(f"option of {name}", option, figure.options))]
        if not fits(value):
            default = json.dumps(figure.options[option])
            raise ValueError(f"{name}: {option} is {value!r}; it must be {kind}, such as {default}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError("figures need matplotlib; python -m pip install 'refnp[study]'")
    with style():
        return figure.draw() if figure.other is None or not options else figure.other(**options)


def save(drawn: Drawn, file: str | Path) -> None:
    """Write a picture, .png or .svg, whole or not at all; the same picture is the same bytes.

    Raises ValueError for a file that ends in anything else, OSError if it cannot be written.
    """
    file = Path(file)
    kind = kind_of(file)
    content = io.BytesIO()
    with style():
        drawn.figure.savefig(content, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None)
    write_whole(file, content.getvalue())


def files(name: str | None, out: str | None, *, every: bool = False, kind: str = "png") -> dict[str, Path]:
    """The file of each figure that is wanted: `name` in the file `out`, or with `every` all in the folder `out`.

    Everything is checked before anything is drawn; the folder is made if it is not there. Raises ValueError for an
    unknown name, a name beside `every`, or a file that is neither .png nor .svg, OSError where one cannot be written.
    """
    if not every:
        named("figure", str(name), FIGURES)
        wanted = {str(name): Path(out or f"{name}.{kind}")}
    elif name is not None:
        raise ValueError(f"figure: {name!r} was named, and --all; give one of them")
    else:
        folder = Path(out or "figures")
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file; with --all, --out is a folder")
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {each: folder / f"{each}.{kind}" for each in FIGURES}
    for file in wanted.values():
        kind_of(file)
        check_writable(file)
    return wanted


def kind_of(file: Path) -> str:
    """ "png" or "svg"; ValueError for a file that ends in anything else."""
    if file.suffix.lower() not in FORMATS:
        raise ValueError(
            f"figure: {file} ends in {file.suffix or 'nothing'!r}; give a file that ends in {' or '.join(FORMATS)}"
        )
    return file.suffix.lower()[1:]


def text(name: str, drawn: Drawn, options: Mapping[str, Any] | None = None) -> str:
    """The name of a figure, what it shows or with which options, and a line for each of its numbers."""
    says = named("figure", name, FIGURES).says
    if options:
        says = f"with {', '.join(f'{option}={json.dumps(value)}' for option, value in options.items())}"
    width = max(map(len, drawn.numbers), default=0)
    lines = [f"  {what:{width}}  {shown(value)}" for what, value in drawn.numbers.items()]
    return "\n".join([f"{name}: {says}", *lines])


def shown(value: float | str) -> str:
    """A number of a figure with four digits, a whole one with all of them; words as they are."""
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def listing() -> str:
    """A line for each figure, and one for the options that it has."""
    width = max(map(len, FIGURES))
    lines = ["figures:"]
    for name, figure in FIGURES.items():
        lines.append(f"  {name:{width}}  {figure.says}")
        if figure.options:
            words = (f"{option}={json.dumps(default)}" for option, default in figure.options.items())
            lines += textwrap.wrap(f"--option {', '.join(words)}", 110, initial_indent=(indent := " " * (width + 4)),
                                   subsequent_indent=indent)  # fmt: skip
    return "\n".join(lines)
