"""Correct implementations of every layer: its own equation, computed in a precision, in many orders and ways.

The equations of `refnp.verify.layers` calculate with whatever number they are given. `Computed` numbers are those of a
precision: each operation is rounded to it, once, as IEEE 754 says. An `Implementation` states what may differ between
correct ones: the order in which sums are added up, products fused with sums, what is below the smallest normal number
flushed to 0, and elementary functions off by up to 4 units in the last place. So the bounds can be tried: whatever an
implementation gives for an output or a gradient is within its bound, or the bound is none.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.numbers.arithmetic import Arithmetic
from refnp.numbers.precision import WIDE
from refnp.numbers.rounded import Rounded, number
from refnp.numbers.summation import sum_of_products
from refnp.numbers.words import Constant, Wide

Add = Callable[[np.ndarray, np.ndarray], np.ndarray]
ULPS = 3  # that elementary functions are moved by, beside the one that NumPy's are off by


@dataclass(frozen=True)
class Implementation:
    """One way to compute: in `dtype`, with sums by `order` (of terms along the first axis, and one addition).

    `fused`: the products of a contraction are added without being rounded. `flush`: results below the smallest normal
    number are 0, and so are such inputs. `ulps` moves the results of elementary functions by so many units in the last
    place; with a generator each by a number drawn from −ulps to ulps. Of several forms that are all correct it takes
    the one with the number `form`, or the last one there is.
    """

    name: str
    dtype: Any
    order: Callable[[np.ndarray, Add], np.ndarray]
    fused: bool = False
    flush: bool = False
    ulps: int = 0
    rng: np.random.Generator | None = None
    form: int = 0

    @property
    def kind(self) -> type["Computed"]:
        """The class of its numbers."""
        return Computed

    def number(self, value: Any) -> "Computed":
        """A number of the precision: an input, or a constant of the formula."""
        return self.kind(self.rounded(np.asarray(value)), self)

    def rounded(self, value: Any) -> np.ndarray:
        """The nearest number of the precision, or 0 for what is flushed."""
        if getattr(value, "dtype", None) != self.dtype:
            value = np.asarray(value, self.dtype)
        return np.where(np.abs(value) < np.finfo(self.dtype).tiny, self.dtype(0), value) if self.flush else value

    def total(self, terms: np.ndarray, *, fused: bool = False) -> np.ndarray:
        """Σ over the first axis. `fused`: the terms are in a wider precision, and rounded only when they are added."""
        if not len(terms):
            return np.zeros(terms.shape[1:], self.dtype)
        return self.rounded(self.order(terms if fused else self.rounded(terms), lambda a, b: self.rounded(a + b)))

    def moved(self, value: np.ndarray) -> np.ndarray:
        """The result of an elementary function, off by `ulps`."""
        if not self.ulps:
            return value
        steps = self.ulps if self.rng is None else self.rng.integers(-self.ulps, self.ulps, value.shape, endpoint=True)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(value) & (value != 0), value + steps * np.spacing(value), value)


class Computed(Rounded):
    """A number of an implementation, without a bound: its error is there."""

    __slots__ = ("by",)

    def __init__(self, value: Any, by: Implementation):
        self.value, self.by = np.asarray(value), by
        self.error = self.lost = np.zeros((), WIDE)
        self.arithmetic: Arithmetic | None = None
        self.products = None

    def like(self, value: Any) -> np.ndarray:
        """The values of another number, or a plain one, in the precision of this one."""
        return value.value if isinstance(value, Computed) else self.by.rounded(number(value).value)

    def result(self, value: Any) -> "Computed":
        """The result of an operation, rounded by NumPy, and flushed where the implementation flushes."""
        return type(self)(self.by.rounded(value), self.by)

    def __add__(self, other: Any) -> "Computed":
        return self.result(self.value + self.like(other))

    def __sub__(self, other: Any) -> "Computed":
        return self.result(self.value - self.like(other))

    def __rsub__(self, other: Any) -> "Computed":
        return self.result(self.like(other) - self.value)

    def __neg__(self) -> "Computed":
        return type(self)(-self.value, self.by)

    def __mul__(self, other: Any) -> "Computed":
        return self.result(self.value * self.like(other))

    def __truediv__(self, other: Any) -> "Computed":
        return self.result(self.value / self.like(other))

    def __rtruediv__(self, other: Any) -> "Computed":
        return self.result(self.like(other) / self.value)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Computed":
        """Σ over `axis` in the order of the implementation."""
        count = self.value.ndim
        axes = range(count) if axis is None else (axis,) if isinstance(axis, int) else axis
        over = sorted(a % count for a in axes)
        rest = [i for i in range(count) if i not in over]
        length = math.prod(self.shape[i] for i in over)
        terms = self.value.transpose([*over, *rest]).reshape(length, *(self.shape[i] for i in rest))
        total = self.by.total(terms)
        return type(self)(np.expand_dims(total, tuple(over)) if keepdims else total, self.by)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Computed":
        """The mean over `axis`, the sum over the number of terms."""
        total = self.sum(axis, keepdims)
        return total / (self.size // max(total.size, 1))

    def max(self, axis: int = -1, keepdims: bool = False) -> "Computed":
        """The largest."""
        return type(self)(self.value.max(axis, keepdims=keepdims), self.by)

    def compared(self, of: Callable, other: Any) -> Any:
        """The answer of a comparison."""
        return of(self.value, self.like(other))

    def with_bound(self, error: Any, lost: Any = 0) -> "Computed":
        """The number itself."""
        return self

    def constant(self, number: Constant) -> "Computed":
        """The number of the formula, rounded."""
        return self.by.number(number.of(Wide))

    @staticmethod
    def arranged(rearrange: Callable, *parts: Rounded) -> "Computed":
        """Moves numbers."""
        one = next(x for x in parts if isinstance(x, Computed))
        return type(one)(rearrange(*map(one.like, parts)), one.by)

    @staticmethod
    def contracted(subscripts: str, x: Rounded, y: Rounded, terms: int | None) -> "Computed":
        """All products, and their sums."""
        one = x if isinstance(x, Computed) else y
        assert isinstance(one, Computed)
        factors = [one.like(x), one.like(y)]
        if one.by.fused:  # the product of two numbers of the precision has no more than twice its digits
            factors = [factor.astype(np.float64 if one.by.dtype is not np.float64 else WIDE) for factor in factors]
        operands, result = subscripts.split("->")
        summed = sorted(set(operands) - set(result) - set(",."))
        products = sum_of_products(f"{operands}->{''.join(summed)}{result}", *factors)
        if np.isinf(products).any() and all(np.isfinite(factor).all() for factor in factors):
            raise FloatingPointError("overflow in a product")  # of which einsum does not tell
        shape = products.shape[len(summed) :]
        length = math.prod(products.shape[: len(summed)])
        return type(one)(one.by.total(products.reshape(length, *shape), fused=one.by.fused), one.by)

    @staticmethod
    def chosen(first: Rounded, forms: Sequence[Callable[[], Rounded]]) -> Rounded:
        """The form that the implementation takes."""
        assert isinstance(first, Computed)
        number = min(first.by.form, len(forms) - 1)
        return forms[number]() if number else first

    def scattered(self, places: np.ndarray, length: int) -> "Computed":
        """Adds up the terms of each place in the order of the implementation."""
        total = np.zeros((length, *self.shape[1:]), self.by.dtype)
        for place in np.unique(places):
            total[place] = self.by.total(self.value[places == place])
        return type(self)(total, self.by)

    def applied(self, value: np.ndarray, slope: Any, units: int) -> "Computed":
        """An elementary function; a root is rounded correctly."""
        value = np.asarray(value, self.by.dtype)
        return self.result(value if units == 1 else self.by.moved(value))


def in_sequence(terms: np.ndarray, add: Add) -> np.ndarray:
    """((x₁ + x₂) + x₃) + …"""
    total = np.zeros_like(terms[0])
    for term in terms:
        total = add(total, term)
    return total


def backwards(terms: np.ndarray, add: Add) -> np.ndarray:
    """From the last to the first."""
    return in_sequence(terms[::-1], add)


def in_pairs(terms: np.ndarray, add: Add) -> np.ndarray:
    """Halves, quarters, …: log₂ n additions on the way of each term."""
    while len(terms) > 1:
        even = len(terms) - len(terms) % 2
        terms = np.concatenate([add(terms[:even:2], terms[1:even:2]), terms[even:]])
    return terms[0]


def in_lanes(terms: np.ndarray, add: Add, lanes: int = 4) -> np.ndarray:
    """Every fourth term in sequence, and the four sums in pairs, as vector units do."""
    sums = [in_sequence(terms[lane::lanes], add) for lane in range(min(lanes, len(terms)))]
    return in_pairs(np.stack(sums), add)


def in_blocks(terms: np.ndarray, add: Add, block: int = 8) -> np.ndarray:
    """Blocks in sequence, and their sums in sequence, as matrix products do."""
    sums = [in_sequence(terms[i : i + block], add) for i in range(0, len(terms), block)]
    return in_sequence(np.stack(sums), add)


def largest_first(terms: np.ndarray, add: Add) -> np.ndarray:
    """In sequence by falling size: the worst order for what cancels, of those that are easily found."""
    return in_sequence(np.take_along_axis(terms, np.argsort(-np.abs(terms), axis=0, kind="stable"), 0), add)


def implementations(dtype: DTypeLike, rng: np.random.Generator) -> list[Implementation]:
    """Seven correct ones: six orders of summation, with and without fused products, flushed, elementary functions off
    by up to 4 units in the last place, in one direction or in any."""
    kind: Any = np.dtype(dtype).type
    return [
        Implementation("in sequence", kind, in_sequence),
        Implementation("in pairs, functions too large", kind, in_pairs, ulps=ULPS, form=1),
        Implementation(
            "in lanes, fused, functions off by chance", kind, in_lanes, fused=True, ulps=ULPS, rng=rng, form=2
        ),
        Implementation("in blocks, flushed to 0", kind, in_blocks, flush=True, ulps=-ULPS),
        Implementation("backwards, functions too small", kind, backwards, ulps=-ULPS, form=2),
        Implementation("largest first, fused, flushed to 0", kind, largest_first, fused=True, flush=True, form=1),
        Implementation(
            "in sequence, fused, flushed, functions off by chance", kind, in_sequence, True, True, ULPS, rng
        ),
    ]


def compute(equation: Callable, by: Implementation, arrays: list, cotangent: Any = None, **options: Any) -> list:
    """Output and, given a cotangent, gradients of an equation as an implementation computes them.

    FloatingPointError where something overflows on the way, which no bound covers.
    """
    with np.errstate(all="ignore", over="raise"):
        output, pullback = equation(*map(by.number, arrays), **options)
        found = [output] if cotangent is None else [output, *pullback(by.number(cotangent))]
    return [x.value if isinstance(x, Computed) else by.rounded(x.value) for x in found]
