"""The parts of a script that shows a defect: inputs that are short to write, what came and what is right.

The inputs are those of the case, in three digits if that shows the defect too; or, if they are many, drawn from a seed.
"""

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.numbers.rounding import tolerance
from refnp.verify.bounds import deviation
from refnp.verify.case import FailedError, Problem
from refnp.verify.frameworks import Framework
from refnp.verify.judge import Judgement
from refnp.verify.tracing import literal

FEW = 60  # numbers that are written out
MANY = 6  # arrays that have names of their own
SEEDS = range(20)
LINES, WIDTH = 24, 120


@dataclass(frozen=True)
class Language:
    """How a script asks a framework: {x} the gradient's argument, {i} its place, {args} all, {g} the cotangent."""

    imports: tuple[str, ...]
    array: str  # of {numbers} and {dtype}
    output: str
    gradient: str


@dataclass(frozen=True)
class Shown:
    """What came and what is right at one place, and by how much it may be off; or two shapes."""

    claimed: Any
    right: Any
    allowed: float
    place: tuple | None  # None where shapes differ or no answer came


def shows(problem: Problem, framework: Framework, row: Judgement) -> Shown | None:
    """The defect of `row` with other inputs; None if it does not show."""
    try:
        right, bound = problem.reference()[row.quantity], problem.bounds[row.quantity]
    except ValueError:  # refnp refuses such inputs
        return None
    try:
        claimed = framework.answer(problem)[row.quantity]
    except FailedError as failure:
        return Shown(str(failure), right.shape, 0.0, None)
    if claimed.shape != right.shape:
        return Shown(claimed.shape, right.shape, 0.0, None)
    allowed = tolerance(bound, problem.dtype)
    ratio, _, place = deviation(claimed, right, allowed, problem.dtype)
    if ratio <= 1 or place is None:
        return None
    return Shown(claimed[place], right[place], float(allowed[place]), tuple(int(i) for i in place))


@dataclass(frozen=True)
class Inputs:
    """A problem whose inputs are short to write: `lines` write them, `names` are their names after that."""

    problem: Problem
    lines: list[str]
    names: list[str]
    parameters: str  # how the function takes them, and is given them: "x, y" or "*p"
    cotangent: str


def inputs_of(problem: Problem, language: Language) -> Iterator[Inputs]:
    """Problems like this one whose inputs are short to write; at last this one."""
    arrays = problem.arrays | {"cotangent": problem.cotangent}
    short = {name: shortened(array) for name, array in arrays.items()}
    if sum(array.size for array in arrays.values()) <= FEW:
        yield with_names(problem, short, {}, language)
    for seed in SEEDS:
        of_seed = many if len(problem.arrays) > MANY else some
        yield of_seed(problem, short, seed, language)
    yield with_names(problem, arrays, {}, language)


def some(problem: Problem, short: dict[str, np.ndarray], seed: int, language: Language) -> Inputs:
    """Larger arrays of finite numbers drawn, with about the mean and deviation they have; positive ones evenly."""
    rng, drawn, texts = np.random.default_rng(seed), dict(short), {}
    for name, array in short.items():
        if array.size > 8 and np.isfinite(array).all():
            even = array.min() >= 0
            kind = "uniform" if even else "normal"
            one, two = (float(f"{of():.1g}") for of in ((array.min, array.max) if even else (array.mean, array.std)))
            drawn[name] = getattr(rng, kind)(one, two, array.shape).astype(array.dtype)
            texts[name] = f"rng.{kind}({one:g}, {two:g}, {array.shape})"
    return with_names(problem, drawn, texts, language, [f"rng = np.random.default_rng({seed})"] if texts else [])


def many(problem: Problem, short: dict[str, np.ndarray], seed: int, language: Language) -> Inputs:
    """All arrays drawn in one line, p[0], p[1], …, and the cotangent after them."""
    rng = np.random.default_rng(seed)
    drawn = {name: rng.normal(0, 0.5, array.shape).astype(array.dtype) for name, array in short.items()}
    of = lambda shape: language.array.format(numbers=f"rng.normal(0, 0.5, {shape})", dtype=problem.dtype)
    shapes = ", ".join(str(array.shape) for array in problem.arrays.values())
    lines = [f"rng = np.random.default_rng({seed})", f"p = [{of('shape')} for shape in ({shapes})]"]
    names = [f"p[{i}]" for i in range(len(problem.arrays))]
    return Inputs(fixed(problem, drawn), lines, names, "*p", of(short["cotangent"].shape))


def with_names(
    problem: Problem,
    arrays: dict[str, np.ndarray],
    texts: dict[str, str],
    language: Language,
    first: Sequence[str] = (),
) -> Inputs:
    """Every array on a line of its own: as a literal, or as `texts` say."""
    of = lambda name: language.array.format(numbers=texts.get(name) or literal(arrays[name]), dtype=problem.dtype)
    names = [name.replace(".", "_") for name in problem.arrays]
    lines = [*first, *(f"{short} = {of(name)}" for short, name in zip(names, problem.arrays, strict=True))]
    return Inputs(fixed(problem, arrays), lines, names, ", ".join(names), of("cotangent"))


def shortened(array: np.ndarray) -> np.ndarray:
    """Three significant digits."""
    return np.array([float(f"{x:.3g}") for x in array.ravel()], array.dtype).reshape(array.shape)


def fixed(problem: Problem, arrays: dict[str, np.ndarray]) -> Problem:
    """The problem with these inputs and this cotangent."""
    inputs = {name: arrays[name] for name in problem.arrays}
    return dataclasses.replace(problem.case, inputs=inputs, cotangent=arrays["cotangent"]).problem(problem.dtype)


def heading(problem: Problem, framework: Framework, row: Judgement) -> list[str]:
    """What a script shows, as a comment, and its first import."""
    about = f"{framework.name} {framework.version}, {problem.dtype}, {row.quantity}. {row.issue}: {row.why}"
    return [*textwrap.wrap(about, 117, initial_indent="# ", subsequent_indent="# "), "import numpy as np"]


def verdict(shown: Shown) -> list[str]:
    """What came, what is right, and the status."""
    if shown.place is None:
        return [
            f'print(f"claimed {{claimed.shape}}, right {shown.right}")',
            f"raise SystemExit(claimed.shape != {shown.right})",
        ]
    right = f"{float(shown.right)}".replace("inf", "np.inf").replace("nan", "np.nan")
    if np.isfinite(shown.right):
        right = np.format_float_scientific(shown.right, precision=20, trim="-")
    index = f"[{', '.join(map(str, shown.place))}]" if shown.place else ""
    return [
        f"claimed, right, allowed = float(claimed{index}), {right}, {shown.allowed:.2g}",
        'print(f"claimed {claimed}, right {right}, rounding allows {allowed}")',
        "raise SystemExit(not (claimed == right or abs(claimed - right) <= allowed))",
    ]


def wrapped(line: str) -> list[str]:
    """A line in as many as it takes."""
    if line.startswith("#") or len(line) <= WIDTH:
        return [line]
    own = " " * (len(line) - len(line.lstrip()))
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(line.lstrip(), WIDTH, initial_indent=own, subsequent_indent=f"{own}    ", **options)
