"""Theorems: that a VJP is the derivative of its page, and that two functions are the same, for every size.

    gradients(softmax.page, {"x": symbol("x", B, D)})["x"]     Theorem(proved=True, assumptions=(), …)

A difference that the rules make 0 is 0 for all numbers and all sizes for which what is assumed holds. A difference that
they do not make 0 is not proved, and may be 0 all the same.
"""

import functools
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refnp.numbers.indexed import operations
from refnp.numbers.indexed.arrays import Indexed, Places, lift, symbol
from refnp.numbers.indexed.expressions import Expression, number, total
from refnp.numbers.indexed.functions import derivative, unknown_function
from refnp.numbers.indexed.indices import meaning, moved
from refnp.numbers.indexed.rules import BEFORE
from refnp.numbers.indexed.sizes import Size, is_alike, is_one, places
from refnp.numbers.indexed.terms import (
    Assumptions,
    Atom,
    Index,
    Inside,
    NoRule,
    assuming,
    canonical,
    first_of,
    fresh,
    frozen,
    uncounted,
)

LACKING = (TypeError, LookupError, ValueError, AttributeError, ArithmeticError, RecursionError)  # NoRule is a TypeError
LETTERS = re.compile(r"(?<![A-Za-z\d])[ijst]\d+(?:\.\d+)?")
ALPHABET = "ijklmnopqrst"
LONGEST = 120  # characters of an assumption, a term


class Theorem(NamedTuple):
    """Whether an identity is `proved` for every size, what it assumes, and what is `missing`: a rule, or terms left.

    `rests_on` are the functions of whose theorems it is made by the chain rule, if it is.
    """

    proved: bool
    assumptions: tuple[str, ...]
    missing: str
    seconds: float
    rests_on: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.proved


def gradients(page: Callable, arguments: Mapping[str, Indexed | None], **options: Any) -> dict[str, Theorem]:
    """For each argument whether what the VJP gives is ∂(Σ ȳ y)/∂x, summed over axes along which x was broadcast.

    None stands for an argument that is left out. A page may return several arrays, and takes a gradient of each back.
    Raises ValueError for a symbol that is not called as its argument.
    """
    check_names(arguments)
    start, found = time.perf_counter(), {}
    with assuming() as common:
        try:
            results, vjp = page(*arguments.values(), **options)
            several = results if isinstance(results, tuple) else (results,)
            ys = [numbers_alone(lift(y)) for y in several]
            y_bars = [symbol("ȳ" + "′" * k, *y.shape) for k, y in enumerate(ys)]
            bars = vjp(*y_bars)
            values = [
                (y_bar.at(over), bound, y.at(over))
                for y, y_bar in zip(ys, y_bars, strict=True)
                for over, bound in places(y.shape)
            ]
        except LACKING as lacking:
            missing = Theorem(False, (), in_words(lacking), time.perf_counter() - start)
            return {name: missing for name, x in arguments.items() if x is not None}
    for (name, x), bar in zip(arguments.items(), bars, strict=False):
        if x is not None and bar is not None:
            found[name] = theorem(functools.partial(_differences, name, x, bar, values), common)
    return found


def check_names(arguments: Mapping[str, Indexed | None]) -> None:
    """ValueError for a symbol that is not called as its argument: a derivative is taken by a name."""
    for name, x in arguments.items():
        if x is not None and x.size != 0 and not isinstance(x, Places):
            at, _ = next(places(x.shape))
            found = {a[1] for _, factors in x.at(at) for a, _ in factors if a[0] == "x"}
            if found and name not in found:
                raise ValueError(f"gradients: the symbol of {name} is called {', '.join(found)}; call it {name!r}")


def unknown_page(name: str) -> Callable:
    """The page of a function of elements of which nothing is known but that its VJP is its derivative."""
    value, slope = unknown_function(name)

    def page(x: Indexed) -> tuple:
        y, along = (operations.applied(n)(x) for n in (value, slope))
        return y, lambda y_bar: (y_bar * along,)

    return page


class Unknown(np.random.Generator):
    """A generator whose numbers are unknown ones."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Indexed:  # type: ignore[override]
        """Unknown numbers, whatever they are spread around."""
        shape = size if isinstance(size, tuple) else () if size is None else (size,)
        return symbol(f"drawn {fresh()}", *shape)

    uniform = normal  # type: ignore[assignment]


def drawing(*sizes: Any) -> np.random.Generator:
    """The generator for a module with these sizes, whose numbers others take the place of."""
    return Unknown() if any(isinstance(n, Size) for n in sizes) else np.random.default_rng(0)


def _differences(name: str, x: Indexed, bar: Any, values: list) -> Iterable[Expression]:
    """∂(Σ ȳ y)/∂x less what the VJP gives, at all indices of x."""
    given = summed_to(lift(bar() if callable(bar) else bar), x)
    for at, _ in places(x.shape):
        parts = ((y_bar * derivative(y, name, at)).summed(bound) for y_bar, bound, y in values)
        yield total(parts) - given.at(at)


def numbers_alone(y: Indexed) -> Indexed:
    """The array with 0 where it is −∞: what is −∞ whatever the numbers are has no gradient, and its ȳ no effect."""
    return y if y.seen is None else y.seen * Indexed(y.shape, y.at)


def summed_to(bar: Indexed, x: Indexed) -> Indexed:
    """The sum over axes along which x was broadcast; a gradient of a smaller shape than x is refused."""
    front = bar.ndim - x.ndim
    wide = [k for k, n in enumerate(x.shape) if front >= 0 and is_one(n) and not is_one(bar.shape[front + k])]
    fits = front >= 0 and all(is_one(n) or is_alike(n, m) for n, m in zip(x.shape, bar.shape[front:], strict=True))
    if not fits:
        raise NoRule(f"a gradient has shape {bar.shape}, its argument {x.shape}")
    bar = bar.sum(tuple(range(front))) if front else bar
    return bar.sum(tuple(wide), keepdims=True) if wide else bar


def same(f: Callable[[], Any], g: Callable[[], Any]) -> Theorem:
    """Whether two arrays, made by these functions, are equal: in shape, in every entry, and in where they are −∞."""

    def difference() -> Iterable[Expression]:
        x, y = lift(f()), lift(g())
        if len(x.shape) != len(y.shape) or not all(map(is_alike, x.shape, y.shape)):
            raise NoRule(f"shapes {x.shape} and {y.shape} differ")
        if x.seen is not None or y.seen is not None:
            raise NoRule("an entry may be −∞")
        return zeros(x.shape, lambda at: x.at(at) - y.at(at))

    return theorem(difference, Assumptions())


def permuted(x: Any, axis: int, name: str = "π") -> Any:
    """The array with an axis in any order: its entry at i is that of x at π(i)."""
    k = axis % x.ndim
    return x.moved(x.shape, lambda i: (*i[:k], moved("π", name, i[k]), *i[k + 1 :]))


def zeros(shape: Any, of: Callable[[tuple], Expression]) -> Iterable[Expression]:
    """The expressions that must be 0, at all indices."""
    return (of(at) for at, _ in places(shape))


def theorem(differences: Callable[[], Iterable[Expression]], common: Assumptions) -> Theorem:
    """Whether all of these are 0."""
    start, missing = time.perf_counter(), ""
    with assuming() as own:
        try:
            for e in differences():
                left = canonical(e)
                if left:
                    missing = f"{len(left)} terms are left, {shortened(text(Expression(left)))}"
                    break
        except LACKING as lacking:
            missing = in_words(lacking)
    assumptions = () if missing else sentences(common | own)
    return Theorem(not missing, assumptions, missing, time.perf_counter() - start)


def in_words(lacking: Exception) -> str:
    """What is missing: the rule that was, where another error followed from it."""
    cause: BaseException | None = lacking
    while cause is not None and not isinstance(cause, NoRule):
        cause = cause.__cause__
    if cause is not None:
        return str(cause)
    if isinstance(lacking, AttributeError) and isinstance(lacking.obj, Indexed):
        return f"no rule for .{lacking.name} of an array"
    if isinstance(lacking, RecursionError):
        return "expressions within expressions, without end"
    told = re.sub("^(Indexed|Size|Both): ", "", str(lacking))
    frames = traceback.extract_tb(lacking.__traceback__)
    line = next((frame.line for frame in reversed(frames) if not is_own(frame.filename)), "")
    return told if told.startswith("no rule") or not line else f"{told}; an error of Python's in `{shortened(line)}`"


def is_own(file: str) -> bool:
    """Whether a file is one of refnp's, or of NumPy's."""
    return any(Path(file).is_relative_to(folder) for folder in (Path(__file__).parents[2], Path(np.__file__).parent))


def sentences(assumed: Mapping[tuple[str, Any], None]) -> tuple[str, ...]:
    """Assumptions as a reader sees them: each once, whatever its letters are called."""
    with uncounted():
        found = [of if isinstance(of, str) else _sentence(what, named(of)) for what, of in assumed]
    return tuple(sorted(set(map(shortened, found))))


def _sentence(what: str, of: Expression) -> str:
    """What is assumed of an expression; of a condition, and of its opposite, that it is so, or not."""
    opposite = number(1) - of
    if what == "= 1" and list(of.values()) == [1]:
        return text(of)
    return f"not {text(opposite)}" if what == "= 1" and list(opposite.values()) == [1] else f"{text(of)} {what}"


def shortened(line: str) -> str:
    """The line, without its middle if it is long."""
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 20]} … {line[-17:]}"


# The text of an expression


def named(inside: Inside) -> Expression:
    """What stands inside of an atom, as an expression."""
    return Expression(dict(inside.terms))


def text(e: Expression) -> str:
    """An expression as a line: what a page computes, with letters i, j, k …, those that stand free first."""
    line = " + ".join(map(_term, sorted(e.items(), key=repr))).replace("+ −", "− ") or "0"
    free = frozen(e).letters
    words = list(dict.fromkeys(LETTERS.findall(line)))
    names = sorted(words, key=lambda word: (word not in free, words.index(word)))
    name = {word: ALPHABET[k % 12] + "′" * (k // 12) for k, word in enumerate(names)}
    return LETTERS.sub(lambda found: name[found[0]], line)


def _term(item: tuple) -> str:
    (bound, factors), c = item
    sums = "".join(f"Σ_{letter} " for letter, _ in bound)
    parts = [_factor(a, p) for a, p in factors]
    sign, size = ("−" if c < 0 else ""), abs(c)
    scale = "" if size == 1 and parts else f"{size} "
    return f"{sign}{scale}{sums}{' '.join(parts)}".strip()


def _factor(a: Atom, p: Fraction) -> str:
    kind = a[0]
    if kind in ("x", "m"):
        of = f"{a[1]}[{','.join(map(_index, a[2]))}]" if a[2] else a[1]
        if a[1].startswith("#") and not a[2]:
            of = f"({a[1][1:]})"
        if a[1] == BEFORE:
            of = f"[{' < '.join(map(_index, a[2]))}]"
        if a[1] in meaning:
            own = {f"t{k}": _index(i) for k, i in enumerate(a[2], start=1)}
            inner = LETTERS.sub(lambda found: own.get(found[0], found[0]), _inner(meaning[a[1]]))
            sign = ">" if a[1].startswith("above 0") else "="
            of = f"⌊{inner}⌋" if a[1].startswith("floor") else f"[{inner} {sign} 0]"
    elif kind == "δ":
        of = f"[{_index(a[1])} = {_index(a[2])}]"
    elif kind == "f":
        of = f"{a[1]}({_inner(a[2])})"
    else:
        of = f"({_inner(a[1])})" if kind == "^" else str(a[1])
    return of if p == 1 else f"{of}^{p if p.denominator == 1 else f'({p})'}"


def _inner(inside: Inside) -> str:
    return " + ".join(map(_term, inside.terms)).replace("+ −", "− ") or "0"


def _index(i: Index) -> str:
    if not isinstance(i, tuple):
        return str(i)
    return f"{' '.join(map(str, i[: first_of(i)]))}({','.join(map(_index, i[first_of(i) :]))})"
