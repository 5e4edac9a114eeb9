"""Numbers that carry a bound on their rounding error: running error analysis, operation by operation.

A `Rounded` holds the value z of a formula, in the widest precision of the machine, an error e and a loss l with

    |computed z − exact z| ≤ u·e + η·l

where u is the unit roundoff of the precision that is judged and η its smallest normal number: an implementation may
flush to 0 what is smaller. Every operation adds the error it inherits (through its derivative) and the one it makes
itself, |fl(z) − z| ≤ u|z| + η, to first order in u:

    z = x ± y:  e_z = e_x + e_y + |z|                 z = f(x):  e_z = |f′(x)| e_x + 8|z|
    z = x · y:  e_z = |y| e_x + |x| e_y + |z|         Σ of n:    e_z = Σ e_x + (n − 1) Σ|x|     in any order
    z = x / y:  e_z = (e_x + |z| e_y)/|y| + |z|       √x:        e_z = e_x / 2z + |z|

and l likewise: inherited through the same derivatives, plus 1 for each operation on the way. What rounds in no
implementation has no error of its own: an exact 0 in a sum or product, 1 · x, x/1, x − x of a given x, −∞ plus what is
known, the mean of one number. A sum of sums of products is one sum of all their products, in any order; and so is a
sum of products with another number.

A number also knows the `Arithmetic` that is judged, and passes it on. With it the bound is not of first order alone:
x̂ is no farther from x than δ = u·e + η·l, so what is inherited takes the steepest slope within δ of x, the product
adds δ_x e_y, the quotient divides by |y| − δ_y, and n roundings grow to ((1 + u)ⁿ − 1)/u. Where nothing is known, such
as beside a divisor that may be 0, the bound is infinite. Without an `Arithmetic` (`exact(x)` without a dtype) it is of
first order.

exp, log, tanh, erf, erfc … are trusted to 4 units in the last place, 8u: what the vector libraries behind NumPy,
PyTorch and XLA promise. Sums and products are the usual ones, in any order, fused or not; Winograd, FFT and Strassen
have other bounds. Errors are added up as if they all pointed the same way: a formula that is evaluated well stays well
below the bound, and one that cancels shows in its e. A float that is written in a formula is rounded once, unless it is
as short as ½; an array is given, and exact. `.real` chooses between forms by the exact value; a comparison of the
number itself is in `Doubt` where rounding may decide.
The value may also be of arbitrary precision (`refnp.numbers.exact`), and then there is no error.
Source: Wilkinson (1963); Higham (2002), §2.8 (underflow), §3.3 and §4.2.
"""

import contextlib
import contextvars
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refnp.numbers.arithmetic import Arithmetic, blocked_depth
from refnp.numbers.exact import as_numbers
from refnp.numbers.kinds import OfArrays
from refnp.numbers.precision import WIDE
from refnp.numbers.summation import most_of_products, sum_of_products
from refnp.numbers.within import within
from refnp.numbers.words import Constant, Wide


class Rounded(OfArrays):
    """`value`, `error` and `lost`, arrays of one shape; made by `exact` or `constant`, or by operations on others.

    `arithmetic` is what is judged, or None. `products` belongs to a sum of products: the sum of their sizes, and how
    many they are.
    """

    __slots__ = ("arithmetic", "error", "lost", "products", "value")

    def __init__(self, value: Any, error: Any, lost: Any = 0, arithmetic: Arithmetic | None = None):
        value = np.asarray(value)
        if value.dtype == object:  # numbers of arbitrary precision have no error
            value, error, lost = as_numbers(value), 0, 0
        self.value = value if value.dtype == object else value.astype(WIDE, copy=False)
        self.error, self.lost = _shaped(error, self.value.shape), _shaped(lost, self.value.shape)
        self.arithmetic = arithmetic
        self.products: tuple[np.ndarray, np.ndarray] | None = None

    real = property(lambda self: self.value)  # decides between forms of one function, and has no error

    @property
    def off(self) -> Any:
        """δ = u·e + η·l, how far the computed value may be from the exact one; 0 where no arithmetic is judged."""
        return np.broadcast_to(_off(self.error, self.lost, self.arithmetic), self.shape)

    @property
    def is_exact_zero(self) -> Any:
        """Where it is 0 without error: it adds nothing to a sum, and makes a product 0."""
        zero = self.value == 0
        return zero & (self.error == 0) & (self.lost == 0) if zero.any() else zero

    @property
    def is_exact_one(self) -> bool:
        """Whether it is the number 1 or −1 without error: what is multiplied or divided by it is not rounded."""
        return self.size == 1 and bool((np.abs(self.value) == 1) & (self.error == 0) & (self.lost == 0))

    def __add__(self, other: Any) -> "Rounded":
        x, y, judged = _joined(self, other)
        z = _computed(x.value + y.value, x.error + y.error, x.lost + y.lost, judged)
        if z.value.dtype == object:
            return z
        for one, other in ((x, y), (y, x)):
            if one.products is not None and other.products is None:  # one sum of all, which may begin with the other
                z.error = z.error + times(growth(one.products[1], judged), np.abs(other.value) + other.off)
        infinite = np.isinf(z.value)
        if infinite.any():  # −∞ without error plus a known number
            known = np.where(np.isinf(x.value), np.isfinite(y.off), np.isfinite(x.off))
            sure = infinite & known & np.where(np.isinf(x.value), x.error == 0, y.error == 0)
            z = Rounded(z.value, np.where(sure, 0, z.error), np.where(sure, 0, z.lost), judged)
        return z._without_loss(lambda: x.off + y.off == 0)  # x − x of a given x

    def __sub__(self, other: Any) -> "Rounded":
        return self + -number(other)

    def __rsub__(self, other: Any) -> "Rounded":
        return number(other) + -self

    def __neg__(self) -> "Rounded":
        return Rounded(-self.value, self.error, self.lost, self.arithmetic)

    def __mul__(self, other: Any) -> "Rounded":
        x, y, judged = _joined(self, other)
        z = x.value * y.value
        if without_error(x, y):
            return exact(z)
        for one, other in ((x, y), (y, x)):
            if one.is_exact_one:
                return Rounded(z, other.error, other.lost, judged)
        size_x, size_y = np.abs(x.value) + x.off, np.abs(y.value)  # |x| + δ_x and |y|
        error = times(size_y, x.error) + times(size_x, y.error)
        product = _computed(z, error, times(size_y, x.lost) + times(size_x, y.lost), judged)
        absent = lambda: (x.is_exact_zero & np.isfinite(y.value)) | (y.is_exact_zero & np.isfinite(x.value))
        return product._without_loss(absent)

    def __truediv__(self, other: Any) -> "Rounded":
        x, y, judged = _joined(self, other)
        z = x.value / y.value
        if without_error(x, y):
            return exact(z)
        if y.is_exact_one:
            return Rounded(z, x.error, x.lost, judged)
        off = y.off
        slope, size = inverse(np.abs(y.value), off), np.abs(z)
        error, lost = _one(x.error) + times(size, y.error), _one(x.lost) + times(size, y.lost)
        error = unknown_where((off > 0) & np.isinf(slope), times(slope, error))  # 0/0 is NaN
        return _computed(z, error, times(slope, lost), judged)._without_loss(lambda: x.is_exact_zero & (y.value != 0))

    def __rtruediv__(self, other: Any) -> "Rounded":
        return number(other) / self

    def __pow__(self, power: int) -> "Rounded":
        if not isinstance(power, int) or power < 1:
            raise TypeError(f"Rounded: no rule for a power of {power!r}; write it with products or np.sqrt")
        return self if power == 1 else self * self ** (power - 1)

    __radd__, __rmul__ = __add__, __mul__

    def __matmul__(self, other: Any) -> "Rounded":
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> "Rounded":
        return matmul(other, self)

    def compared(self, of: Callable, other: Any) -> Any:
        """The answer of a comparison, in doubt where rounding may decide."""
        other = number(other)
        off = self.off + other.off
        same = (self.value == other.value) & (off == 0)
        return Doubt(of(self.value, other.value), (off > 0) & (np.abs(self.value - other.value) <= off), same)

    def moved(self, rearrange: Callable) -> Any:
        return arranged(rearrange, self)

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Rounded":
        """Σ over `axis`, in any order of summation."""
        axes = self._axes(axis)
        return self.added(lambda a: a.sum(axes, keepdims=keepdims))

    def added(self, add: Callable, depth: int | None = None) -> "Rounded":
        """Sums, `add` of arrays: in any order; or with no more than `depth` roundings on the way of any term."""
        if without_error(self):
            return exact(add(self.value))
        if depth is None and self.products is not None:
            return self.summed(add)
        additions = np.maximum(add(np.where(self.is_exact_zero, 0, 1)) - 1, 0)
        roundings = growth(additions if depth is None else depth, self.arithmetic)
        error = add(self.error)
        if np.any(roundings):
            error = error + roundings * add(np.abs(self.value) + self.off)
        return stored(add(self.value), error, add(self.lost) + additions, self.arithmetic)

    def summed(self, add: Callable) -> "Rounded":
        """The sum of sums of products, `add` of arrays: one sum of all their products, in any order."""
        assert self.products is not None
        size, count = self.products
        inherited = add(self.error - growth(count, self.arithmetic) * size)
        size, count = add(size), add(count)
        error = inherited + growth(count, self.arithmetic) * size
        z = stored(add(self.value), error, add(self.lost) + 2 * count, self.arithmetic)
        z.products = size, count
        return z

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Rounded":
        """The mean over `axis`, added up in any order, or in blocks where the arithmetic says so; of one, itself."""
        axes = self._axes(axis)
        add = lambda a: a.sum(axes, keepdims=keepdims)
        n = math.prod(self.shape[i] for i in axes)
        if n == 1:
            return self.moved(add)
        noted = _long_means.get()
        if noted is not None and blocked_depth(n) < n - 1:
            noted.append(n)
        blocked = self.arithmetic is not None and self.arithmetic.blocked
        return self.added(add, blocked_depth(n) if blocked else None) / n

    def row_mean(self) -> "Rounded":
        """The mean over the last axis, kept."""
        return self.mean(-1, keepdims=True)

    def max(self, axis: int = -1, keepdims: bool = False) -> "Rounded":
        """The largest: an implementation may find any that may be the largest."""
        value = self.value.max(axis, keepdims=keepdims)
        if without_error(self):
            return exact(value)
        possible = self.value + self.off >= (self.value - self.off).max(axis, keepdims=True)
        of_possible = lambda part: np.where(possible, part, 0).max(axis, keepdims=keepdims)
        return Rounded(value, of_possible(self.error), of_possible(self.lost), self.arithmetic)

    def with_bound(self, error: Any, lost: Any = 0) -> "Rounded":
        """The number, known to be no farther off than this; an implementation's own number is what it is."""
        return Rounded(self.value, error, lost, self.arithmetic)

    def _axes(self, axis: int | tuple[int, ...] | None) -> tuple[int, ...]:
        if axis is None:
            return tuple(range(self.ndim))
        return tuple(a % self.ndim for a in ((axis,) if isinstance(axis, int) else axis))

    def _without_loss(self, where: Callable[[], Any]) -> "Rounded":
        """The number, with no loss where it is 0 without error and the condition holds."""
        zero = self.value == 0
        if not zero.any():
            return self
        zero &= self.error == 0
        return Rounded(self.value, self.error, np.where(zero & where(), 0, self.lost), self.arithmetic)

    def constant(self, number: Constant) -> "Rounded":
        return constant(number.of(Wide))

    @staticmethod
    def arranged(rearrange: Callable, *parts: "Rounded") -> "Rounded":
        """What the function `arranged` does."""
        value = rearrange(*(x.value for x in parts))
        if without_error(*parts):
            return exact(value)
        error, lost = rearrange(*(x.error for x in parts)), rearrange(*(x.lost for x in parts))
        z = Rounded(value, error, lost, judged_of(*parts))
        if len(parts) == 1 and parts[0].products is not None:
            size, count = parts[0].products
            z.products = rearrange(size), rearrange(count)
        return z

    @staticmethod
    def contracted(subscripts: str, x: "Rounded", y: "Rounded", terms: int | None) -> "Rounded":
        """What `contract` does."""
        x, y, judged = _joined(x, y)
        value = sum_of_products(subscripts, x.value, y.value)
        if without_error(x, y):
            return exact(value)
        count: Any = terms
        if terms is None:
            none = x.is_exact_zero, y.is_exact_zero
            count = terms_of(subscripts, x.shape, y.shape)
            if none[0].any() or none[1].any():
                count = sum_of_products(subscripts, *(np.where(zero, 0.0, 1.0) for zero in none))
        x, y = _factor(x, judged), _factor(y, judged)
        size_x, size_y = np.abs(x.value) + x.off, np.abs(y.value) + y.off
        size = most_of_products(subscripts, size_x, size_y)

        def inherited(errors_x: np.ndarray, errors_y: np.ndarray) -> Any:
            """Σ(e_x|y| + |x|e_y)."""
            found = most_of_products(subscripts, errors_x, size_y) if errors_x.any() else 0
            return found + most_of_products(subscripts, size_x, errors_y) if errors_y.any() else found

        error = inherited(x.error, y.error) + growth(count, judged) * size
        z = stored(value, error, inherited(x.lost, y.lost) + 2 * count, judged)
        if terms is None and not (judged is not None and judged.stored):  # else each sum is stored by itself
            z.products = size, np.broadcast_to(np.asarray(count, WIDE), size.shape)
        return z

    @staticmethod
    def chosen(first: "Rounded", forms: Sequence[Callable[[], "Rounded"]]) -> "Rounded":
        """What `either` does."""
        if without_error(first):
            return first
        error, lost = first.error, first.lost
        for other in (form() for form in forms[1:]):
            error, lost = np.maximum(error, other.error), np.maximum(lost, other.lost)
        return Rounded(first.value, error, lost, first.arithmetic)

    def scattered(self, places: np.ndarray, length: int) -> "Rounded":
        """What `scatter` does."""

        def add(terms: Any) -> np.ndarray:
            total = np.zeros((length, *self.shape[1:]), terms.dtype)
            np.add.at(total, places, terms)
            return total

        return self.added(add)

    def applied(self, value: np.ndarray, slope: Any, units: int) -> "Rounded":
        """What `function` does."""
        if without_error(self):
            return exact(value)
        slope = np.abs(slope)
        return _computed(value, times(slope, self.error), times(slope, self.lost), self.arithmetic, units)


_long_means = contextvars.ContextVar[list[int] | None]("long_means", default=None)


def noting_long_means() -> contextlib.AbstractContextManager[list[int]]:
    """Within this block the lengths of means are noted whose bounds depend on the blocks in which they are added up."""
    return within(_long_means, list[int]())


class Doubt(OfArrays):
    """Booleans, where rounding may decide otherwise, and where equal numbers were compared.

    `np.where` covers both sides where there is doubt. Equal numbers, at a kink, are `at_kink` of rounding.py.
    """

    __slots__ = ("doubtful", "same", "value")
    dtype = np.dtype(bool)

    def __init__(self, value: Any, doubtful: Any, same: Any = False):
        self.value = np.asarray(value)
        self.doubtful, self.same = (np.broadcast_to(a, self.value.shape) for a in (doubtful, same))

    def __invert__(self) -> "Doubt":
        return Doubt(~self.value, self.doubtful, self.same)

    def __and__(self, other: Any) -> "Doubt":
        other = other if isinstance(other, Doubt) else Doubt(other, False)
        sure = (~self.value & ~self.doubtful) | (~other.value & ~other.doubtful)
        return Doubt(self.value & other.value, (self.doubtful | other.doubtful) & ~sure, self.same | other.same)

    def __or__(self, other: Any) -> "Doubt":
        return ~(~self & ~(other if isinstance(other, Doubt) else Doubt(other, False)))

    __rand__, __ror__ = __and__, __or__

    def moved(self, rearrange: Callable) -> "Doubt":
        return Doubt(*map(rearrange, (self.value, self.doubtful, self.same)))


def exact(value: ArrayLike, arithmetic: Arithmetic | None = None) -> Rounded:
    """A number that is given, like an input: it has no error, unless it is so small that it may be taken for 0.

    With an `arithmetic` the bounds of what is computed from it are those of that arithmetic, and not of first order.
    """
    if arithmetic is None:
        return Rounded(value, 0)
    size = np.abs(np.asarray(value, WIDE))
    lost = np.where(size < arithmetic.smallest, size, 0) / arithmetic.smallest
    return Rounded(value, 0, lost, arithmetic)


def constant(value: ArrayLike) -> Rounded:
    """A number of the formula, such as ε or √2, which is rounded once when it is written down; as short as ½, never."""
    size = np.abs(np.asarray(value, WIDE))
    mantissa = np.frexp(size)[0] * 2**8
    return Rounded(value, np.where(mantissa == np.rint(mantissa), 0, size))


def number(value: Any) -> Rounded:
    """What stands beside a Rounded: an array is given, and a float or a `Constant` written."""
    if isinstance(value, Rounded):
        return value
    if isinstance(value, Constant):
        return constant(value.of(Wide))
    return constant(value) if isinstance(value, (float, np.floating)) and np.isfinite(value) else exact(value)


def arranged(rearrange: Callable, *parts: Rounded) -> Rounded:
    """Several as one: `rearrange` of their arrays concatenates, stacks or selects, and rounds nothing."""
    return kind(*parts).arranged(rearrange, *parts)


def contract(subscripts: str, x: Rounded | ArrayLike, y: Rounded | ArrayLike, *, terms: int | None = None) -> Rounded:
    """Σ x·y over the letters that the result lacks (as `einsum` does): e = Σ(e_x|y| + |x|e_y) + N Σ|x||y|.

    N products and N − 1 sums round on the way of no term more than N times, in whatever order (Higham (2002), eq. 3.5),
    and each may underflow. N counts no product with an exact 0. `terms` is N if the sum is part of a longer one.
    """
    x, y = number(x), number(y)
    return kind(x, y).contracted(subscripts, x, y, terms)


def matmul(x: Any, y: Any) -> Rounded:
    """x y of matrices, and of vectors, as NumPy has it."""
    x, y = number(x), number(y)
    rows, columns = "n" if x.ndim > 1 else "", "m" if y.ndim > 1 else ""
    front_x, front_y = "..." if x.ndim > 1 else "", "..." if y.ndim > 1 else ""
    return contract(f"{front_x}{rows}d,{front_y}d{columns}->{front_x or front_y}{rows}{columns}", x, y)


def terms_of(subscripts: str, *shapes: tuple[int, ...]) -> int:
    """How many products each element of a contraction is the sum of."""
    operands, result = subscripts.split("->")
    sizes: dict[str, int] = {}
    for letters, shape in zip(operands.split(","), shapes, strict=True):
        sizes |= dict(zip(reversed(letters.replace("...", "")), reversed(shape), strict=False))
    return math.prod(n for letter, n in sizes.items() if letter not in result)


def kind(*parts: Rounded) -> type[Rounded]:
    """Rounded, or the kind of number that stands among the parts in its place: a class made of it."""
    return next((type(x) for x in parts if type(x) is not Rounded), Rounded)


def without_error(*parts: Rounded) -> bool:
    """Whether any of them is of arbitrary precision, and so is what is made of them."""
    return any(x.value.dtype == object for x in parts)


def judged_of(*parts: Rounded) -> Arithmetic | None:
    """The arithmetic of the first number that has one."""
    return next((x.arithmetic for x in parts if x.arithmetic is not None), None)


def stored(value: np.ndarray, error: Any, lost: Any, judged: Arithmetic | None) -> Rounded:
    """What comes of storing a result: nothing, unless the storage is narrower than what an operation computes in.

    Beside 0 · ∞, such as a weight of 0 times a number that is not known, nothing is known, and comparisons must see it.
    """
    error, lost = unknown_where(np.isnan(error), error), unknown_where(np.isnan(lost), lost)
    if judged is not None and judged.stored:
        size = np.abs(value) + _off(error, lost, judged)
        error = np.where(size > judged.largest, np.inf, error + judged.stored * size)
    return Rounded(value, error, lost, judged)


def growth(roundings: Any, judged: Arithmetic | None) -> Any:
    """So many roundings one after the other, in units of u."""
    return roundings if judged is None else judged.growth(roundings)


def times(factor: np.ndarray, error: np.ndarray) -> np.ndarray:
    """factor · error, where no error is no error even beside an infinite factor; ∞ where nothing is known."""
    error = _one(error)
    if not np.ndim(error) and error == 0:
        return error
    with np.errstate(invalid="ignore"):
        product = factor * error
    unknown = np.isnan(product)
    return np.where(unknown, np.where(error == 0, WIDE(0), WIDE(np.inf)), product) if unknown.any() else product


def unknown_where(condition: Any, error: np.ndarray) -> np.ndarray:
    """The error, ∞ where the condition holds."""
    return np.where(condition, WIDE(np.inf), error) if np.any(condition) else error


def inverse(size: np.ndarray, off: Any) -> np.ndarray:
    """1/(|x| − δ): ∞ where x may be 0."""
    with np.errstate(divide="ignore"):
        return 1 / np.maximum(size - off, 0)


def _joined(x: Any, y: Any) -> tuple[Rounded, Rounded, Arithmetic | None]:
    """Two operands and the arithmetic they are computed in, where constants are stored as well."""
    x, y = number(x), number(y)
    judged = judged_of(x, y)
    if judged is None or not judged.stored:
        return x, y, judged
    x, y = (a if a.arithmetic else Rounded(a.value, a.error * (1 + judged.stored), a.lost) for a in (x, y))
    return x, y, judged


def _shaped(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    values = np.asarray(values, WIDE)
    return values if values.shape == shape else np.broadcast_to(values, shape)


def _one(values: Any) -> Any:
    """The one number of an array that holds it everywhere, as the errors of inputs are: sums of it are one sum."""
    values = np.asarray(values)
    return values if not values.size or any(values.strides) else values[(0,) * values.ndim]


def _off(error: Any, lost: Any, judged: Arithmetic | None) -> Any:
    return 0 if judged is None else judged.u * _one(error) + judged.smallest * _one(lost)


def _computed(value: np.ndarray, error: Any, lost: Any, judged: Arithmetic | None, units: int = 1) -> Rounded:
    """The result of an operation: beside what it inherits, an error of its own of `units` u, and one underflow."""
    if np.asarray(value).dtype == object:
        return exact(value)
    own = np.abs(value)
    own += _off(error, lost, judged)
    if units != 1:
        own *= units
    own += error
    return stored(value, own, _one(lost) + 1, judged)


def _factor(x: Rounded, judged: Arithmetic | None) -> Rounded:
    """The factor of a product, which is rounded first where the arithmetic says so."""
    if judged is None or not judged.products:
        return x
    error = x.error + judged.products * (np.abs(x.value) + x.off)
    return Rounded(x.value, np.where(x.error == 0, 0, error) if judged.given else error, x.lost, judged)
