"""What NumPy's functions, and the words of pages, are for arrays whose sizes are letters."""

import itertools
import math
import numbers
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from refnp.numbers import windows, words
from refnp.numbers.indexed.arrays import (
    Condition,
    Indexed,
    Mathematics,
    Places,
    Real,
    boolean,
    compared,
    condition,
    equals,
    every_place,
    finite,
    is_larger,
    largest_of_part,
    lift,
    number_of,
    of_places,
    place_of,
    spread,
    truth,
)
from refnp.numbers.indexed.expressions import (
    Expression,
    assume,
    atom,
    function,
    is_count,
    number,
    power,
    term,
    total,
)
from refnp.numbers.indexed.indices import abstracted, moved
from refnp.numbers.indexed.sizes import (
    Size,
    as_whole,
    broadcast,
    counted,
    is_alike,
    is_number,
    is_one,
    listed,
    pieces,
    product_of,
    sum_of,
)
from refnp.numbers.indexed.sizes import places as axis_places
from refnp.numbers.indexed.terms import NoRule
from refnp.numbers.kinds import ARITHMETIC, COMPARISONS, with_operators
from refnp.numbers.within import noted


def together(of: Callable[..., Expression], *arrays: Any, seen: Condition | None = None) -> Indexed:
    """A function of entries that stand at the same indices."""
    every = [lift(x) for x in arrays]
    shape = broadcast(*(x.shape for x in every))
    return Indexed(shape, lambda i: of(*(spread(x, i) for x in every)), seen)


def _both_seen(x: Indexed, y: Indexed) -> Condition | None:
    """Where neither is −∞."""
    if x.seen is None or y.seen is None:
        found = x.seen if y.seen is None else y.seen
        return found if found is None else condition(found + (x if x.seen is None else y) * 0)
    return x.seen & y.seen


def add(x: Any, y: Any) -> Indexed:
    """−∞ and a number is −∞."""
    x, y = lift(x), lift(y)
    return together(lambda a, b: a + b, x, y, seen=_both_seen(x, y))


def subtract(x: Any, y: Any) -> Indexed:
    """−∞ less a number is −∞."""
    return add(x, multiply(y, -1))


def multiply(x: Any, y: Any) -> Indexed:
    """Products of numbers."""
    x, y = finite(lift(x)), finite(lift(y))
    found = together(lambda a, b: a * b, x, y)
    found.factors = (x, y)
    return found


def divide(x: Any, y: Any) -> Indexed:
    """x y^-1, and x a^-1 b^-1 for y = a b."""
    x, y = finite(lift(x)), finite(lift(y))
    if not y.factors:
        return together(lambda a, b: a * power(b, -1), x, y)
    for factor in y.factors:
        x = divide(x, factor)
    return x


def exp(x: Any) -> Indexed:
    """exp, 0 for −∞."""
    x = lift(x)
    found = Indexed(x.shape, lambda i: function("exp", x.at(i)))
    return found if x.seen is None else x.seen * found


def applied(name: str) -> Callable[[Any], Indexed]:
    """A function of each entry."""
    return lambda x: together(lambda a: function(name, a), finite(lift(x)))


def where(c: Any, x: Any, y: Any) -> Indexed:
    """c x + (1 − c) y."""
    if isinstance(c, (bool, np.bool)):
        return lift(x) if c else lift(y)
    if not isinstance(c, Condition) and not (isinstance(c, np.ndarray) and c.dtype == bool):
        raise NoRule("where of what is no condition")
    c = condition(c)
    if isinstance(x, float) and x == math.inf and not any(c.at(i) for i, _ in axis_places(c.shape)):
        return everywhere(lift(y), c, lift(y))
    x, y = lift(x), lift(y)
    made = Condition if isinstance(x, Condition) and isinstance(y, Condition) else Indexed
    found = together(lambda k, a, b: k * (a - b) + b, c, x, y)
    if x.seen is None and y.seen is None:
        return made(found.shape, found.at)
    seen = condition(where(c, True if x.seen is None else x.seen, True if y.seen is None else y.seen))
    return Indexed(found.shape, found.at, seen if seen.ndim == found.ndim else condition(seen + found * 0))


def matmul(x: Any, y: Any) -> Indexed:
    """Σ_j x_ij y_jk."""
    x, y = finite(lift(x)), finite(lift(y))
    left, right = "...ij" if x.ndim > 1 else "j", "...jk" if y.ndim > 1 else "j"
    return einsum(f"{left},{right}->...{'i' * (x.ndim > 1)}{'k' * (y.ndim > 1)}", x, y)


def dot(x: Any, y: Any) -> Indexed:
    """x @ y, where the second has no more than two axes."""
    if lift(y).ndim > 2:
        raise NoRule("dot with an array of three axes or more, which is no product of matrices")
    return matmul(x, y)


def einsum(subscripts: str, *operands: Any, optimize: bool = False) -> Indexed:
    """Products of entries, summed over the letters that the result has not."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    if not arrow:  # the letters that stand once, in their order
        once = sorted(letter for letter in set(inputs) - {",", "."} if inputs.count(letter) == 1)
        output = "".join(["..." * ("..." in inputs), *once])
    arrays = [finite(lift(x)) for x in operands]
    sizes: dict[str, Any] = {}
    fronts = []
    for text, x in zip(inputs.split(","), arrays, strict=True):
        own = text.replace("...", "")
        fronts.append(x.shape[: x.ndim - len(own)] if "..." in text else ())
        for letter, size in zip(own, x.shape[x.ndim - len(own) :], strict=True):
            if not is_alike(sizes.setdefault(letter, size), size):
                raise NoRule(f"einsum: axes {letter} of sizes {sizes[letter]} and {size} do not fit")
    front = broadcast(*fronts)
    kept = output.replace("...", "")
    summed = [letter for letter in sizes if letter not in kept]

    def at(i: tuple) -> Expression:
        found = Expression()
        for j, bound in axis_places([sizes[letter] for letter in summed]):
            index = dict(zip(kept, i[len(front) :], strict=True)) | dict(zip(summed, j, strict=True))
            one = number(1)
            for text, x in zip(inputs.split(","), arrays, strict=True):
                own = tuple(index[letter] for letter in text.replace("...", ""))
                lead = i[: len(front)][len(front) - (x.ndim - len(own)) :] if "..." in text else ()
                one = one * spread(x, (*lead, *own))
            found = found + one.summed(bound)
        return found

    return Indexed((*(front if "..." in output else ()), *(sizes[letter] for letter in kept)), at)


def peak(x: Indexed) -> Indexed:
    """The entry at the place of the largest."""
    return x.max(-1, keepdims=True)


def largest(x: Any) -> Condition:
    """1 at the place of the largest of each row."""
    x = x.x if isinstance(x, Real) else x
    parts = x.parts(x.ndim - 1)
    if len(parts) > 1:
        measures = [largest_of_part(part, x.ndim - 1)[1] for part in parts]
        own = [one_of(part.shape) if is_one(part.shape[-1]) else largest(part) for part in parts]
        for n, m in itertools.combinations(range(len(parts)), 2):
            first = is_larger(measures[n], measures[m])
            own[n], own[m] = own[n] & first, own[m] & ~first
        return condition(concatenate(own, -1))
    assume("one largest", "each row has one largest element")
    top = place_of(x)
    return Condition(x.shape, lambda i: term((), ((("δ", i[-1], top(i[:-1])), Fraction(1)),)))


def one_of(shape: Sequence[Any]) -> Condition:
    """An array of 1."""
    return Condition(shape, lambda i: number(1))


def shares(e: Indexed) -> Indexed:
    """Each element over the sum of its row, which must not be 0."""
    return divide(e, e.sum(-1, keepdims=True))


def concatenate(arrays: Sequence[Any], axis: int = 0) -> Indexed:
    """One behind the other: an axis in pieces."""
    every = [x for x in map(lift, arrays) if not is_number(x.shape[axis], 0)]
    if len(every) == 1:
        return every[0]
    k = axis % every[0].ndim
    shape = (*every[0].shape[:k], sum_of([x.shape[k] for x in every]), *every[0].shape[k + 1 :])
    starts = list(itertools.accumulate((len(pieces(x.shape[k])) for x in every), initial=0))

    def at(i: tuple) -> Expression:
        if isinstance(shape[k], int):
            counted(i[k], "one of several arrays that are joined,")
            before = list(itertools.accumulate((x.shape[k] for x in every), initial=0))
            n = max(m for m, first in enumerate(before[:-1]) if first <= i[k])
            return every[n].at((*i[:k], i[k] - before[n], *i[k + 1 :]))
        n = max(m for m, start in enumerate(starts) if start <= i[k][1])
        inside = i[k][2] if len(pieces(every[n].shape[k])) == 1 else ("part", i[k][1] - starts[n], i[k][2])
        return every[n].at((*i[:k], inside, *i[k + 1 :]))

    if all(x.seen is None for x in every):
        return (Condition if all(isinstance(x, Condition) for x in every) else Indexed)(shape, at)
    seen = concatenate([one_of(x.shape) if x.seen is None else x.seen for x in every], k)
    return Indexed(shape, at, condition(seen))


def read_at(x: Indexed, places: Any) -> Indexed:
    """x_k at the place k of each; 0 where there is none."""
    k = x.ndim - 1
    known = of_places(places, x.shape[-1])
    return Indexed((*x.shape[:-1], *places.shape), lambda i: known.there(i[k:]) * x.at((*i[:k], known.place(i[k:]))))


def added_at(x: Indexed, places: Any, length: Any) -> Indexed:
    """Σ of the entries with each place: the adjoint of `read_at`."""
    k = x.ndim - places.ndim
    known = of_places(places, length)

    def at(i: tuple) -> Expression:
        parts = []
        for j, letters in axis_places(places.shape):
            there = term((), ((("δ", i[-1], known.place(j)), Fraction(1)),))
            parts.append((known.there(j) * there * x.at((*i[:k], *j))).summed(letters))
        return total(parts)

    return Indexed((*x.shape[:k], length), at)


def take(x: Indexed, places: Any, axis: Any = None) -> Indexed:
    """The entries at these places along an axis."""
    k = axis % x.ndim
    known, n = of_places(places, x.shape[k]), places.ndim
    shape = (*x.shape[:k], *places.shape, *x.shape[k + 1 :])
    return x.moved(shape, lambda i: (*i[:k], known.place(i[k : k + n]), *i[k + n :]))


def roll(x: Indexed, shift: int, axis: Any = None) -> Indexed:
    """y_i = x_π⁻(i) for the bijection π that goes on by `shift`."""
    if axis is None or np.ndim(shift):
        raise NoRule("roll of all elements, or by several shifts")
    shift = int(shift)
    (k,) = listed(axis, x.ndim)
    way, name = "π" if shift < 0 else "π⁻", f"on by {abs(shift)} along {x.shape[k]}"
    if not isinstance(x.shape[k], Size) or x.shape[k].parts:
        raise NoRule(f"roll along an axis of size {x.shape[k]}")
    return x.moved(x.shape, lambda i: (*i[:k], moved(way, name, i[k]), *i[k + 1 :]))


def split(x: Indexed, ends: Any, axis: int = 0) -> list[Indexed]:
    """Its parts up to each of these places, and the rest; or that many of the same length."""
    if isinstance(ends, int):
        part = x.shape[axis] // ends
        if isinstance(part, int) and part * ends != x.shape[axis]:
            raise NoRule(f"split of {x.shape[axis]} in {ends}")
        ends = [part * k for k in range(1, ends)]
    before = (slice(None),) * (axis % x.ndim)
    return [x[(*before, slice(*cut))] for cut in itertools.pairwise([None, *ends, None])]


def sinusoids(x: Any, places: Any, features: Any, base: Any) -> tuple[Indexed, Indexed]:
    """sin p ω_k and cos p ω_k of frequencies ω, of which nothing is known."""
    shape = (*places.shape, features // 2)
    if features % 2:
        raise NoRule(f"sinusoids of {features} features, of which it is not known that they are pairs")
    angle = lambda i: places.at(i[:-1]) * atom("x", f"ω {base}", (i[-1],))
    return tuple(Indexed(shape, lambda i, name=name: function(name, angle(i))) for name in ("sin", "cos"))  # type: ignore


def floor_divide(x: Any, y: Any) -> Indexed:
    """⌊x/y⌋: a number of which no more is known than that it does not change with x or y."""
    ratio = number_of(x) / number_of(y)

    def at(i: tuple) -> Expression:
        name, leaves = abstracted("floor", ratio.at(i))
        return atom("x", name, tuple(leaves))

    return Indexed(ratio.shape, at)


def runs_of(lengths: Any, sizes: Any) -> Places:
    """Some place of the signal, or none, for each window and each of the places that the longest has."""
    shape = product_of(sizes), Size(f"longest of {tuple(sizes)} windows on {tuple(lengths)}")
    return Places(f"run({tuple(lengths)}, {tuple(sizes)})", shape, product_of(lengths), some=True)


def filled(places: Places) -> Places:
    """The first place that a window has where there is none."""
    return Places(f"filled {places.name}", places.shape, places.length)


def windows_of(axes: Any, mode: str = "zeros") -> Places:
    """Some place of the signal for each window and tap, or none: what is proved holds wherever they lie."""
    shape = product_of([axis.positions for axis in axes]), product_of([axis.kernel for axis in axes])
    return Places(f"place({axes}, {mode})", shape, product_of([axis.length for axis in axes]), some=mode == "zeros")


def number_like(value: Any) -> Indexed:
    """A number that takes the place of numbers: also True is 1."""
    return lift(int(value) if isinstance(value, (bool, np.bool)) else value)


def stack(arrays: Sequence[Any], axis: int = 0) -> Indexed:
    """Along a new axis, of a length that is a number."""
    every = [finite(lift(x)) for x in arrays]
    k = axis % (every[0].ndim + 1)
    shape = broadcast(*(x.shape for x in every))
    one = lambda i: every[counted(i[k], "one of several arrays that are stacked,")]
    return Indexed((*shape[:k], len(every), *shape[k:]), lambda i: spread(one(i), (*i[:k], *i[k + 1 :])))


def broadcast_to(x: Any, shape: Sequence[Any]) -> Indexed:
    """The array in a larger shape."""
    x = lift(x)
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if repr(broadcast(x.shape, shape)) != repr(shape):
        raise NoRule(f"broadcast from {x.shape} to {shape}")
    offset = len(shape) - x.ndim
    fixed = [isinstance(n, int) and n == 1 for n in x.shape]
    return x.moved(shape, lambda i: tuple(0 if one else k for one, k in zip(fixed, i[offset:], strict=True)))


def repeat(x: Any, copies: Any, axis: int) -> Any:
    """Every entry along an axis several times, one after the other: a pair of entry and copy."""
    k = axis % x.ndim
    size = product_of([x.shape[k], copies])
    one = is_one(x.shape[k])
    whole = lambda i: 0 if one else i[1] if len(i) == 3 else ("pair", *i[1:-1])
    return x.moved((*x.shape[:k], size, *x.shape[k + 1 :]), lambda i: (*i[:k], whole(i[k]), *i[k + 1 :]))


def moveaxis(x: Indexed, source: Any, to: Any) -> Indexed:
    """Axes at other places."""
    sources, targets = ([a % x.ndim for a in np.atleast_1d(v)] for v in (source, to))
    left = [n for n in range(x.ndim) if n not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        left.insert(target, origin)
    return x.transpose(left)


def expand_dims(x: Indexed, axis: Any) -> Indexed:
    """Axes of length 1 more."""
    axes = listed(axis, x.ndim + len(np.atleast_1d(axis)))
    key = [None if k in axes else slice(None) for k in range(x.ndim + len(axes))]
    return x[tuple(key)]


def sign(x: Any) -> Indexed:
    """[x > 0] − [x < 0]."""
    return 1 * compared(x, 0) - compared(0, x)


def arctan2(y: Any, x: Any) -> Indexed:
    """arctan(y/x), and π more or less where x < 0."""
    x, y = lift(x), lift(y)
    turned = where(Real(y) < 0, -Mathematics.pi, Mathematics.pi)
    return applied("arctan")(y / x) + where(Real(x) < 0, turned, 0)


def maximum(x: Any, y: Any) -> Indexed:
    """The larger of both; max(n, 1) is n where n > 0 and else 1 for a number n of things, which is whole."""
    x = lift(x)
    if is_number(y, 1) and all(is_count(x.at(i)) for i, _ in axis_places(x.shape)):
        return where(compared(x, 0), x, 1)
    return where(compared(x, y), x, y)


def clip(x: Any, low: Any = None, high: Any = None) -> Indexed:
    """min(max(x, low), high)."""
    x = lift(x) if low is None else where(compared(x, low), x, low)
    return x if high is None else where(compared(high, x), x, high)


def power_of(x: Any, p: Any) -> Indexed:
    """x^p; exp(p log x) for a p that is an array."""
    return exp(lift(p) * applied("log")(x)) if isinstance(p, Indexed) else lift(x) ** p


def triangle(x: Indexed, k: int = 0, *, upper: bool) -> Indexed:
    """x_ij where j ≤ i, or where i ≤ j; 0 elsewhere."""
    rows, columns = every_place(x.shape[-2])[:, None], every_place(x.shape[-1])
    columns = columns if k == 0 else columns - int(k)
    return where(compared(rows, columns) if upper else compared(columns, rows), 0, x)


def diagonal(x: Indexed, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Indexed:
    """x_ii."""
    if offset or not is_alike(x.shape[axis1], x.shape[axis2]):
        raise NoRule("a diagonal of an oblong matrix, or another one than the first")
    last = moveaxis(x, (axis1, axis2), (-2, -1))
    return last.moved(last.shape[:-1], lambda i: (*i, i[-1]))


def absolute(x: Any) -> Indexed:
    """−x where x < 0."""
    x = lift(x)
    return where(Real(x) < 0, -x, x)


def everywhere(x: Any, *arrays: Any) -> Any:
    """In the shape that the arrays broadcast to."""
    return broadcast_to(x, broadcast(*(a.shape for a in arrays)))


def at_least_2d(x: Any) -> Any:
    """With axes of length 1 in front."""
    return x[(None,) * max(0, 2 - x.ndim)] if x.ndim < 2 else x


def is_infinite(x: Any) -> Condition:
    """Whether an entry is −∞; unknown numbers are finite."""
    x = x.x if isinstance(x, Real) else lift(x)
    return condition(finite(x) * 0) if x.seen is None else ~x.seen


def summed_to(x: Any, shape: Sequence[Any]) -> Indexed:
    """The sum over axes along which the shape was broadcast."""
    x = lift(x)
    front = x.ndim - len(shape)
    x = x.sum(tuple(range(front))) if front > 0 else x
    wide = tuple(k for k, n in enumerate(shape) if is_one(n) and not is_one(x.shape[k]))
    return x.sum(wide, keepdims=True) if wide else x


def normal_cdf(x: Any) -> tuple[Indexed, Indexed]:
    """Φ(x) = ½ (1 + erf(x/√2)) and φ(x) = exp(−x²/2)/√2π."""
    root_2, root_2_pi = Mathematics.sqrt(lift(2)), Mathematics.sqrt(lift(2) * Mathematics.pi)
    return (1 + applied("erf")(x / root_2)) / 2, exp(-(x * x) / 2) / root_2_pi


def variance(x: Any, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Indexed:
    """Σ (x − mean)²/(N − ddof)."""
    x = lift(x)
    away = x - x.mean(axis, keepdims=True)
    count = product_of([x.shape[k] for k in listed(axis, x.ndim)])
    return (away * away).sum(axis, keepdims) / (count - ddof)


def deviation(x: Any, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Indexed:
    """The root of the variance."""
    return variance(x, axis, ddof, keepdims) ** Fraction(1, 2)


def _first(of: Callable) -> Callable:
    """A method of the first array."""
    return lambda x, *places, **options: of(lift(x), *places, **options)


def of_types(of_numbers: Callable, of_booleans: Callable) -> Callable:
    """A function of numbers that is another one of booleans, as NumPy's are: True + True is True."""

    def of(*arrays: Any) -> Any:
        every = [lift(x) for x in arrays]
        return (of_booleans if all(isinstance(x, Condition) for x in every) else of_numbers)(*arrays)

    return of


def refused(*_: Any) -> Any:
    """What NumPy refuses of booleans."""
    raise NoRule("differences and negatives of booleans, which NumPy refuses")


UFUNCS: dict[Any, Callable] = {
    np.add: of_types(add, operator.or_),
    np.subtract: of_types(subtract, refused),
    np.multiply: of_types(multiply, operator.and_),
    np.true_divide: divide,
    np.negative: of_types(lambda x: multiply(x, -1), refused),
    np.square: lambda x: lift(x) ** 2,
    np.power: power_of,
    np.arctan: applied("arctan"),
    np.arctan2: arctan2,
    np.sign: sign,
    np.matmul: of_types(matmul, lambda x, y: compared(matmul(x, y), 0)),
    np.exp: exp,
    np.expm1: lambda x: exp(x) - 1,
    np.log: applied("log"),
    np.log1p: lambda x: applied("log")(lift(x) + 1),
    np.sqrt: lambda x: lift(x) ** Fraction(1, 2),
    np.tanh: applied("tanh"),
    np.sin: applied("sin"),
    np.cos: applied("cos"),
    np.sinh: lambda x: (exp(x) - exp(-lift(x))) / 2,
    np.cosh: lambda x: (exp(x) + exp(-lift(x))) / 2,
    np.absolute: absolute,
    np.greater: compared,
    np.less: lambda x, y: compared(y, x),
    np.greater_equal: lambda x, y: ~compared(y, x),
    np.less_equal: lambda x, y: ~compared(x, y),
    np.equal: equals,
    np.not_equal: lambda x, y: ~equals(x, y),
    np.maximum: of_types(maximum, operator.or_),
    np.minimum: of_types(lambda x, y: where(compared(y, x), x, y), operator.and_),
    np.logical_and: lambda x, y: truth(x) & truth(y),
    np.logical_or: lambda x, y: truth(x) | truth(y),
    np.isinf: is_infinite,
    np.isneginf: is_infinite,
    np.isfinite: lambda x: ~is_infinite(x),
    np.isnan: lambda x: is_infinite(x) & False,
    np.logical_not: lambda x: ~truth(x),
    np.bitwise_and: lambda x, y: boolean(x) & y,
    np.bitwise_or: lambda x, y: boolean(x) | y,
    np.invert: lambda x: ~boolean(x),
}
FUNCTIONS: dict[Any, Callable] = {
    np.where: where,
    np.sum: _first(Indexed.sum),
    np.mean: _first(Indexed.mean),
    np.max: _first(Indexed.max),
    np.any: lambda x, axis=None, keepdims=False: truth(x).any(axis, keepdims),
    np.all: lambda x, axis=None, keepdims=False: truth(x).all(axis, keepdims),
    np.var: variance,
    np.std: deviation,
    np.concatenate: concatenate,
    np.stack: stack,
    np.take: take,
    np.roll: roll,
    np.split: split,
    np.floor_divide: floor_divide,
    np.remainder: lambda x, y: lift(x) - lift(y) * floor_divide(x, y),
    np.cumsum: _first(Indexed.cumsum),
    np.flip: _first(Indexed.flip),
    np.diagonal: diagonal,
    np.tril: lambda x, k=0: triangle(x, k, upper=False),
    np.triu: lambda x, k=0: triangle(x, k, upper=True),
    np.reshape: _first(Indexed.reshape),
    np.swapaxes: _first(Indexed.swapaxes),
    np.transpose: _first(Indexed.transpose),
    np.moveaxis: moveaxis,
    np.repeat: repeat,
    np.expand_dims: expand_dims,
    np.squeeze: _first(Indexed.squeeze),
    np.broadcast_to: broadcast_to,
    np.atleast_2d: at_least_2d,
    words.everywhere: everywhere,
    np.shape: lambda x: x.shape,
    np.ones_like: lambda x: Indexed(x.shape, lambda i: number(1)),
    np.zeros_like: lambda x: Indexed(x.shape, lambda i: Expression()),
    np.full_like: lambda x, value: broadcast_to(number_like(value), x.shape),
    words.peak: peak,
    words.largest: largest,
    words.shares: shares,
    words.einsum: einsum,
    np.einsum: einsum,
    np.dot: dot,
    np.clip: clip,
    words.read_at: read_at,
    words.added_at: added_at,
    words.erf: applied("erf"),
    words.erfc: lambda x: 1 - applied("erf")(x),
    words.normal_cdf: normal_cdf,
    words.sinusoids: sinusoids,
    words.less_log1p: lambda x: x - applied("log")(x + 1),
    words.expm1_less: lambda x: exp(x) - 1 - x,
    windows.filled: filled,
}
UFUNCS = {function: noted(function, of) for function, of in UFUNCS.items()}
FUNCTIONS = {function: noted(function, of) for function, of in FUNCTIONS.items()}
for _name, _function in (("sum", np.sum), ("mean", np.mean), ("__pow__", np.power)):
    setattr(Indexed, _name, noted(_function, getattr(Indexed, _name)))
Indexed.functions = UFUNCS | FUNCTIONS
Size.functions = Indexed.functions | {windows.windows: windows_of, windows.runs: runs_of, words.arange: every_place}
Size.functions[words.full] = lambda shape, number: broadcast_to(number, shape)
if hasattr(words, "summed_to"):
    Indexed.functions[words.summed_to] = summed_to
_TESTS = (np.isinf, np.isneginf, np.isfinite, np.isnan)
Real.functions = {ufunc: UFUNCS[ufunc] for ufunc in (*COMPARISONS.values(), *_TESTS)}
Real.functions |= {np.floor_divide: floor_divide, words.largest: largest, np.sign: lambda x: sign(x.x)}
Real.functions[np.absolute] = lambda x: Real(absolute(x.x))


def _of_size(ufunc: Any, *, reflected: bool = False) -> Callable:
    """Division of or by a size that is a number among numbers."""
    return lambda x, y: UFUNCS[ufunc](y, lift(x)) if reflected else UFUNCS[ufunc](lift(x), y)


def _or_of_numbers(of_sizes: Callable, ufunc: Any, *, reflected: bool) -> Callable:
    """Arithmetic of a size and a size, or beside a float as a number among numbers."""
    of_numbers = _of_size(ufunc, reflected=reflected)
    return lambda x, y: of_numbers(x, y) if isinstance(y, float) else of_sizes(x, y)


def _of_sizes(order: Callable, of_arrays: Callable) -> Callable:
    """A comparison of sizes and numbers, or of arrays."""

    def compare(x: Any, y: Any) -> Any:
        if all(isinstance(n, (Size, numbers.Real)) for n in (x, y)):
            return order(as_whole(x), as_whole(y))
        return of_arrays(x, y)

    return compare


Size.functions |= {ufunc: _of_sizes(getattr(operator, name), UFUNCS[ufunc]) for name, ufunc in COMPARISONS.items()}
Size.constant = lambda _, number: lift(number)  # type: ignore
_DIVIDED = {"__truediv__": _of_size(np.true_divide), "__rtruediv__": _of_size(np.true_divide, reflected=True)}
_DIVIDED["__pow__"] = lambda x, p: lift(x) ** Fraction(p)
for _name, _by in _DIVIDED.items():
    setattr(Size, _name, _by)
for _name in ("add", "sub", "mul"):
    for _side in ("", "r"):
        _own = getattr(Size, f"__{_side}{_name}__")
        setattr(Size, f"__{_side}{_name}__", _or_of_numbers(_own, ARITHMETIC[_name], reflected=bool(_side)))
Indexed.__neg__ = lambda x: UFUNCS[np.negative](x)
for _name, _method in (("dot", dot), ("clip", clip), ("var", variance), ("std", deviation)):
    setattr(Indexed, _name, _method)
with_operators(Indexed, ARITHMETIC | {"mod": np.remainder, "floordiv": np.floor_divide}, reflected=True)
with_operators(Indexed, COMPARISONS)
