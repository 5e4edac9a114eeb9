"""How exact refnp is, element by element: the table of docs/exactness.md.

    python -m tests.exactness [--only WORDS]      what the worst elements of every case are
    python -m tests.exactness --write             the same, and the table into docs/exactness.md: about five minutes
    python -m tests.exactness --write --missing   of the functions that the table does not have yet

The cases are those of `refnp verify` and the hard ones of tests/hard_cases.py. Each is computed in float64 and in
float32, and once more by its equation in arbitrary precision (`refnp.numbers.exact`), value and gradients; every
element is compared by its own relative error. Where that is above 1e-12, or the same share of float32's digits, the
condition number of the element says what can be had at all:

    κ = √(Σ_k (x_k ∂z/∂x_k)²) / |z|        over all numbers x_k that z depends on, cotangents included

To round the inputs alone moves z by about u κ, so error / (u κ) must be a small number. κ is the root mean square of
what DRAWS random movements of all inputs at once do to z. tests/test_exactness.py holds it.
Source: Kenney & Laub (1994), for the estimate of condition numbers.
"""

import argparse
import dataclasses
import sys
from functools import cached_property
from pathlib import Path

import mpmath
import numpy as np

from gradcheck.agreement import SAFETY
from gradcheck.precision import scaled
from refnp.files import between_marks, renewed, write_whole
from refnp.numbers import rounding
from refnp.numbers.exact import Number
from refnp.verify import layers
from refnp.verify.bounds import unit_roundoff
from tests.hard_cases import hard_cases

PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
DIGITS = 400  # of exact values: more than a pullback loses where the result is as small as float64 can hold
STEP = 10**100  # of a condition number: x (1 ± 1/STEP)
ZERO = mpmath.mpf(10) ** -60  # what is as much smaller than its terms is 0
DRAWS = 8
BY_ROWS = ("layer_norm", "rms_norm")  # x̂ᵢ is known to u of the largest of its row: κ moves every xᵢ by as much
DTYPES = ("float64", "float32")
KINDS = ("output", "gradients")
HEADING = [
    "| function | value | gradients | κ | error/(u κ) | where | float32: value | gradients | κ | error/(u κ) |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


@dataclasses.dataclass(frozen=True)
class Worst:
    """The worst element of the output, or of the gradients, of one case; `condition` where the error is above the bar.

    `ratio` is error / (u κ).
    """

    case: str
    layer: str
    dtype: str
    quantity: str
    error: float
    condition: float = np.nan
    ratio: float = np.nan

    def __str__(self):
        why = f", κ {self.condition:.1e}, error/(u κ) {self.ratio:.2g}" if self.error > bar(self.dtype) else ""
        return (
            f"{'      ' if self.holds else 'FAILS '}{self.case}, {self.dtype}, {self.quantity}: {self.error:.1e}{why}"
        )

    @property
    def holds(self) -> bool:
        """Whether the error is small, or explained."""
        return self.error <= bar(self.dtype) or self.ratio <= SAFETY


def bar(dtype):
    """1e-12 in float64, and in float32 the same share of its digits."""
    return 10.0 ** -scaled(12, np.dtype(dtype))


def problems(chosen, dtypes=DTYPES):
    """Every case of these functions, in every precision that holds its inputs; models in float64 alone."""
    models = {case.name for page in layers.MODELS for case in getattr(page, "cases", list)()}
    for case in [*layers.cases(), *hard_cases()]:
        for dtype in dtypes[:1] if case.name in models else dtypes:
            if case.layer.name in chosen and fits(case, dtype):
                yield case.problem(dtype)


def fits(case, dtype):
    """Whether all inputs are finite (what is masked may be anything, and is not asked here) and none underflows."""
    info = np.finfo(dtype)
    for array in case.problem("float64").arrays.values():
        sizes = np.abs(array[array != 0])
        if not np.all(sizes < info.max) or (dtype != "float64" and np.any(sizes < info.tiny)):
            return False
    return True


def objects(array):
    """An array of NumPy numbers as `Number`s."""
    found = np.empty(array.shape, object)
    for place, value in np.ndenumerate(array):
        found[place] = number(value)
    return found


def number(value):
    """A number of NumPy without rounding."""
    numerator, denominator = value.as_integer_ratio()
    return Number(mpmath.mpf(numerator) / denominator)


class Exactly:
    """A problem in exact numbers; `weights` are the options that are arrays of such."""

    def __init__(self, problem):
        self.problem = problem
        with mpmath.workdps(DIGITS):
            self.arrays = {name: objects(array) for name, array in problem.arrays.items()}
            self.cotangent = objects(np.asarray(problem.cotangent))
            options = problem.case.options
            self.weights = {k: objects(v) for k, v in options.items() if getattr(v, "dtype", None) == np.float64}

    def answer(self, *, moved=None):
        """Output and gradients; with all inputs, cotangent and weights `moved`, if it is given."""
        with mpmath.workdps(DIGITS):
            arrays, bars, weights = list(self.arrays.values()), self.cotangent, self.weights
            if moved is not None:
                *arrays, bars = (moved(array) for array in (*arrays, bars))
                weights = {name: moved(array) for name, array in weights.items()}
            options = {**self.problem.case.options, **weights}
            y, pullback = self.problem.case.layer.equation(*map(rounding.exact, arrays), **options)
            return {q: r.value for q, r in self.problem.selected(y, lambda: pullback(rounding.exact(bars))).items()}

    @cached_property
    def conditions(self):
        """{quantity: κ of every element}, from DRAWS movements of all inputs at once by x_k (1 ± 1/STEP)."""
        rng, here = np.random.default_rng(0), self.answer()
        sums = {quantity: np.zeros(value.shape) for quantity, value in here.items()}

        def moved(array):
            sizes = np.abs(array)
            if self.problem.case.layer.name in BY_ROWS and array.ndim:
                sizes = np.broadcast_to(sizes.max(-1, keepdims=True), array.shape)
            return array + sizes * (rng.choice([-1, 1], array.shape) * Number(mpmath.mpf(1) / STEP))

        for _ in range(DRAWS):
            there = self.answer(moved=moved)
            with mpmath.workdps(DIGITS):
                for quantity, value in here.items():
                    for place in np.ndindex(value.shape):
                        right = exact_of(value[place])
                        if right:
                            sums[quantity][place] += float(
                                ((exact_of(there[quantity][place]) - right) * STEP / right) ** 2
                            )
        return {quantity: np.sqrt(total / DRAWS) for quantity, total in sums.items()}


def exact_of(value):
    """A number of an exact answer in mpmath; a page may leave others where nothing was calculated."""
    return value.mpf if isinstance(value, Number) else mpmath.mpf(float(value))


def errors(given, exact, sizes):
    """|given − exact| / |exact| of every element, a difference up to the smallest normal number for none.

    What is 0 because its terms cancel is measured by `sizes`, those of its terms.
    """
    found = np.zeros(given.shape)
    smallest, largest = (float(limit) for limit in (np.finfo(given.dtype).tiny, np.finfo(given.dtype).max))
    with mpmath.workdps(DIGITS):
        for place, value in np.ndenumerate(given):
            right = exact_of(exact[place])
            if not np.isfinite(value):
                found[place] = 0 if np.isinf(value) and abs(right) >= largest else np.inf
                continue
            difference = abs(number(value).mpf - right) - smallest
            size = mpmath.mpf(float(sizes[place])) if abs(right) <= ZERO * float(sizes[place]) else abs(right)
            if difference > 0:
                found[place] = float(difference / size) if size else np.inf
    return found


def sizes_of(problem, quantity):
    """The sizes of the terms of every element, as running error analysis adds them up."""
    error = problem.bounds[quantity].error
    return np.where(np.isfinite(error), error, 0)


def judged(problem):
    """The worst element of the output and that of the gradients."""
    case, dtype = problem.case, problem.dtype
    exactly = Exactly(problem)
    with np.errstate(all="ignore"):  # what overflows is judged
        given = problem.answer()
    exact = exactly.answer()
    found = {}
    for quantity in given:
        all_of = errors(np.asarray(given[quantity]), exact[quantity], sizes_of(problem, quantity))
        if not all_of.size:
            continue
        ratios = np.zeros(all_of.shape)
        if (all_of > bar(dtype)).any():
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = all_of / (float(unit_roundoff(dtype)) * exactly.conditions[quantity])
        unexplained = np.where((all_of > bar(dtype)) & (ratios > SAFETY), np.inf, all_of)
        place = np.unravel_index(unexplained.argmax(), all_of.shape)
        worst = Worst(case.name, case.layer.name, dtype, quantity, float(all_of[place]))
        if worst.error > bar(dtype):
            condition = exactly.conditions[quantity][place]
            worst = dataclasses.replace(worst, condition=float(condition), ratio=float(ratios[place]))
        kind = "output" if quantity == "output" else "gradients"
        if kind not in found or rank(worst) > rank(found[kind]):
            found[kind] = worst
    return found


def rank(worst):
    """What does not hold is worst; then what has the larger error."""
    return (not worst.holds, worst.error)


def row(name, found):
    """One line of the table, from what was judged of the cases of one function."""
    kinds = {(dtype, kind): [w[kind] for w in found[dtype] if kind in w] for dtype in DTYPES for kind in KINDS}
    cells = [f"`{name}`"]
    for dtype in DTYPES:
        worst = [max(kinds[dtype, kind], key=rank, default=None) for kind in KINDS]
        cells += [f"{w.error:.0e}" if w else "" for w in worst]
        most = max((w for w in worst if w and w.error > bar(dtype)), key=rank, default=None)
        cells += [f"{most.condition:.0e}", f"{most.ratio:.2g}"] if most else ["", ""]
        if dtype == "float64":
            cells.append(f"{most.quantity} of {most.case.partition('/')[2]}" if most else "")
    return "| " + " | ".join(cells) + " |"


def judged_rows(chosen):
    """{function: its line of the table}, and what does not hold; prints every worst element."""
    found, broken = {}, []
    for problem in problems(chosen):
        worst = judged(problem)
        found.setdefault(problem.case.layer.name, {dtype: [] for dtype in DTYPES})[problem.dtype].append(worst)
        broken += [w for w in worst.values() if not w.holds]
        print("".join(f"{w}\n" for w in worst.values()), end="", flush=True)
    return {name: row(name, of) for name, of in found.items()}, broken


def table():
    """{function: its line} of the table as it is."""
    lines = between_marks(PAGE.read_text(encoding="utf-8"), "functions")[1].splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def write(new):
    """Put these lines into the table, in the order of the pages, and drop those of functions that are no more."""
    lines = table() | new
    lines = [*HEADING, *(lines[name] for name in functions() if name in lines)]
    text = renewed(PAGE.read_text(encoding="utf-8"), "functions", "\n".join(lines) + "\n")
    write_whole(PAGE, text.encode())


def functions():
    """The names of the functions that have cases, in the order of the pages."""
    return list(dict.fromkeys(case.layer.name for case in [*layers.cases_of_layers(), *hard_cases()]))


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.exactness", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORDS", help="functions whose name contains them")
    parser.add_argument("--missing", action="store_true", help="functions that the table does not have")
    parser.add_argument("--write", action="store_true", help="write their lines into the table of docs/exactness.md")
    options = parser.parse_args(argv)
    known = table() if options.missing else ()
    chosen = [name for name in functions() if options.only in name and name not in known]
    lines, broken = judged_rows(chosen)
    if options.write:
        write(lines)
    print(f"{len(broken)} are neither small nor explained" if broken else "all are small or explained")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
