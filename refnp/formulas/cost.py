"""What a page costs, as polynomials in its sizes: `refnp prove --cost`.

    cost(layers.attention).forward["multiplications"]      B N M d + B N M d_v + …

The page runs on arrays whose sizes are letters, and its operations are noted: a product of matrices is as many
multiplications as pairs of numbers are multiplied, another operation as many as its result has numbers. What is kept is
what its VJP closes over, beside the arguments. Numbers of the formula, sums and comparisons are not counted; a kernel
may need fewer operations than its page, and keep less.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.formulas.derivation import operations, page_named
from refnp.formulas.lines import usual_form
from refnp.numbers import words
from refnp.numbers.indexed.arrays import Condition, Indexed, lift, symbol
from refnp.numbers.indexed.expressions import Expression, number, total
from refnp.numbers.indexed.proving import LACKING, in_words
from refnp.numbers.indexed.sizes import Size, as_number
from refnp.numbers.within import Note, noting

EACH = {  # what an operation is, once for each number of its result
    np.multiply: "multiplications",
    np.square: "multiplications",
    np.true_divide: "divisions",
    np.mean: "divisions",
    words.shares: "divisions",
    np.exp: "exponentials",
    np.expm1: "exponentials",
    np.sqrt: "roots",
    np.log: "logarithms",
    np.log1p: "logarithms",
    np.tanh: "other functions",
    np.sin: "other functions",
    np.cos: "other functions",
    np.arctan: "other functions",
    words.erf: "other functions",
    words.erfc: "other functions",
}
PRODUCTS = {np.matmul, words.einsum, np.einsum}
Counts = Mapping[str, Expression]


@dataclass(frozen=True)
class Cost:
    """How many operations of each kind the value takes, and all gradients; how many numbers are kept."""

    forward: Counts
    gradient: Counts
    kept: Expression
    sizes: tuple[str, ...]  # in the order of the arguments

    def at(self, count: Expression, **sizes: int) -> int:
        """A polynomial at these sizes."""
        return sum(int(c) * math.prod(sizes[a[1]] ** int(p) for a, p in factors) for (_, factors), c in count.items())

    def text(self, count: Expression) -> str:
        """A polynomial, the terms of highest degree first."""
        place = lambda a: (a[1][0].islower(), self.sizes.index(a[1]) if a[1] in self.sizes else len(self.sizes))
        name = lambda a: f"({a[1]})" if " " in a[1] else a[1]
        ordered = [(sorted(f, key=lambda x: (place(x[0]), x[0])), c) for (_, f), c in count.items()]
        ordered.sort(key=lambda one: (-sum(p for _, p in one[0]), [place(a) for a, _ in one[0]]))
        to = lambda p: {1: "", 2: "²", 3: "³"}.get(int(p), f"^{p}")
        written = (" ".join(name(a) + to(p) for a, p in f) for f, _ in ordered)
        terms = (f"{c} {t}" if c != 1 and t else t or str(c) for t, (_, c) in zip(written, ordered, strict=True))
        return " + ".join(terms) or "0"


@functools.cache
def cost(operation: Any) -> Cost:
    """The cost of a page in its usual form. TypeError where a rule is missing."""
    form = usual_form(operation)
    with noting() as forward:
        results, vjp = operation.page(*form.arguments.values(), **form.options)
    several = results if isinstance(results, tuple) else (results,)
    with noting() as back:
        gradients = vjp(*(symbol(f"y.bar{k}", *y.shape) for k, y in enumerate(several)))
        for gradient in gradients:
            if callable(gradient):
                gradient()
    arguments = [x for x in form.arguments.values() if x is not None]
    kept = {id(x): x for x in closed_over(vjp) if x.ndim and not any(x is argument for argument in arguments)}
    axes = (n for x in arguments for n in x.shape if isinstance(n, Size))
    return Cost(
        counted(forward), counted(back), total(map(numbers_of, kept.values())), tuple(dict.fromkeys(map(str, axes)))
    )


def counted(notes: list[Note]) -> Counts:
    """How many operations there are of each kind."""
    found: dict[str, Expression] = {}
    for note in notes:
        for kind, count in counts_of(note):
            found[kind] = found.get(kind, Expression()) + count
    return {kind: found[kind] for kind in sorted(found)}


def counts_of(note: Note) -> Iterator[tuple[str, Expression]]:
    """The kinds of an operation, and how many."""
    function, arguments, result = note
    arrays = [x for x in arguments if isinstance(x, Indexed)]
    decides = isinstance(result, Condition) or all(isinstance(x, Condition) for x in arrays)
    if not isinstance(result, Indexed) or decides or not result.ndim:
        return
    count = numbers_of(result)
    if function in PRODUCTS:
        yield "multiplications", pairs_of(note)
    elif function is words.normal_cdf:
        yield from (("other functions", count), ("exponentials", count))
    elif function is words.sinusoids:
        yield "other functions", count.times(2)
    elif function is np.power:
        p = arguments[1]
        known = isinstance(p, int) and p > 1
        yield ("multiplications", count.times(p - 1)) if known else ("roots" if p == 0.5 else "other functions", count)
    elif function in EACH and not (function in (np.multiply, np.true_divide) and any(map(is_one, arguments))):
        yield EACH[function], count


def is_one(x: Any) -> bool:
    """Whether an argument is 1 or −1, by which nothing is multiplied."""
    return isinstance(x, (int, float)) and abs(x) == 1


def pairs_of(note: Note) -> Expression:
    """The products of numbers in a product of arrays: Π of all its axes."""
    if note.function is np.matmul:
        return numbers_of(note.result) * as_number(lift(note.arguments[0]).shape[-1])
    subscripts, *arrays = note.arguments
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    sizes: dict[str, Any] = {}
    for text, x in zip(inputs.split(","), arrays, strict=True):
        own = text.replace("...", "")
        sizes |= dict(zip(own, lift(x).shape[lift(x).ndim - len(own) :], strict=True))
    summed = [as_number(n) for letter, n in sizes.items() if letter not in output]
    return functools.reduce(lambda a, b: a * b, summed, numbers_of(note.result)).times(len(arrays) - 1)


def numbers_of(x: Indexed) -> Expression:
    """How many numbers an array has."""
    return functools.reduce(lambda a, b: a * b, map(as_number, x.shape), number(1))


def closed_over(function: Any, seen: set[int] | None = None) -> Iterator[Indexed]:
    """The arrays that a function keeps in what it closes over, and functions in that."""
    seen = set() if seen is None else seen
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, Indexed):
        yield function
    elif isinstance(function, (tuple, list)):
        for one in function:
            yield from closed_over(one, seen)
    elif isinstance(function, functools.partial):
        yield from closed_over((function.func, *function.args), seen)
    elif isinstance(function, Callable):  # type: ignore[arg-type]
        for cell in getattr(function, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # a cell that nothing is in
                yield from closed_over(cell.cell_contents, seen)


def command(name: str | None) -> int:
    """Print the cost of a page, or of all that have one. ValueError for a name that is no page."""
    chosen = operations() if name is None else {name: page_named(name)}
    for page, operation in sorted(chosen.items()):
        try:
            found = cost(operation)
        except LACKING as lacking:
            print(f"{page}: not counted: {in_words(lacking)}")
            continue
        print(page)
        for what, counts in (("value", found.forward), ("gradient", found.gradient)):
            for kind, count in counts.items():
                print(f"    {what:10s}{kind:17s}{found.text(count)}")
        print(f"    {'kept':10s}{'numbers':17s}{found.text(found.kept)}")
    return 0
