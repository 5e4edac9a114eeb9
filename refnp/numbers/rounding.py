"""Numbers that carry a bound on their rounding error: running error analysis, operation by operation.

A `Rounded` holds the value z of a formula, in the widest precision of the machine, an error e and a loss l with

    |computed z − exact z| ≤ u·e + η·l

where u is the unit roundoff of the precision that is judged and η its smallest normal number: an implementation may
flush to 0 what is smaller. Every operation adds the error it inherits (through its derivative) and the one it makes
itself, |fl(z) − z| ≤ u|z| + η, to first order in u:

    z = x ± y:  e_z = e_x + e_y + |z|                 z = f(x):  e_z = |f′(x)| e_x + 8|z|
    z = x · y:  e_z = |y| e_x + |x| e_y + |z|         Σ of n:    e_z = Σ e_x + (n − 1) Σ|x|     in any order
    z = x / y:  e_z = (e_x + |z| e_y)/|y| + |z|       √x:        e_z = e_x / 2z + |z|

and l likewise: inherited through the same derivatives, plus 1 for each operation on the way.

A number also knows the `Arithmetic` that is judged, and passes it on. With it the bound is not of first order alone:
x̂ is no farther from x than δ = u·e + η·l, so what is inherited takes the steepest slope within δ of x, the product
adds δ_x e_y, the quotient divides by |y| − δ_y, and n roundings grow to ((1 + u)ⁿ − 1)/u. Where nothing is known, such
as beside a divisor that may be 0, the bound is infinite. Without an `Arithmetic` (`exact(x)` without a dtype) it is of
first order.

exp, log, tanh, erf, erfc … are trusted to 4 units in the last place, 8u: what the vector libraries behind NumPy,
PyTorch and XLA promise. Sums and products are the usual ones, in any order, fused or not; Winograd, FFT and Strassen
have other bounds. Errors are added up as if they all pointed the same way: a formula that is evaluated well stays well
below the bound, and one that cancels shows in its e. Choices between branches are those of the exact value, and either
of them where rounding may decide (`where_positive`).
The value may also be of arbitrary precision (`refnp.numbers.exact`), and then there is no error.
Source: Wilkinson (1963); Higham (2002), §2.8 (underflow), §3.3 and §4.2; Hallman & Ipsen (2023), Ipsen & Zhou (2020)
(sums beyond first order).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refnp.numbers import special
from refnp.numbers.exact import as_numbers, each
from refnp.numbers.parts import part
from refnp.numbers.precision import WIDE, policy
from refnp.numbers.summation import sum_of_products

ELEMENTARY = 8  # error of exp, log, … in units of u
ASSUMED = (
    "IEEE arithmetic in the precision judged, sums in any order, fused or not, what is subnormal flushed to 0 or not",
    "exp, log, tanh, erf and their like within 4 units in the last place; square roots rounded correctly",
    "no Winograd, FFT or Strassen, no products in TF32 unless that is judged, and nothing that overflows on the way",
)  # what every bound assumes of an implementation, for reports


def judging_precision() -> str:
    """What the widest precision of this machine is, in words: the reference is computed in it."""
    bits = np.finfo(WIDE).nmant + 1
    if bits == np.finfo(np.float64).nmant + 1:
        return "float64 (longdouble is no wider on this machine)"
    return f"longdouble, {bits} bits"


class Arithmetic(NamedTuple):
    """What is judged: a precision with unit roundoff u and smallest normal number η, and how rows are added up.

    `blocked` names a class of implementations, those that add up the rows of a mean in blocks (`blocked_depth`), as
    NumPy and refnp do. Otherwise any order is right.
    """

    u: np.longdouble
    smallest: np.longdouble
    blocked: bool = False
    stored: np.longdouble = WIDE(0)  # rounding the result of each operation to a narrower format, in units of u
    products: np.longdouble = WIDE(0)  # rounding the factors of products first, in units of u
    given: bool = True  # whether factors that are inputs have that narrower format already
    largest: np.longdouble = WIDE(np.inf)  # beyond it, nothing is known

    def growth(self, roundings: Any) -> Any:
        """((1 + u)ⁿ − 1)/u: n roundings one after the other, in units of u."""
        return np.expm1(roundings * np.log1p(self.u)) / self.u


def arithmetic(precision: Any, *, blocked: bool = False) -> Arithmetic:
    """That of a floating-point type or of a policy (`refnp.numbers.precision`)."""
    form = policy(precision)
    u, stored, products = form.inside.u, form.stored, form.products
    return Arithmetic(
        u,
        stored.lost if form.every else form.inside.lost,
        blocked,
        stored.u / u if form.every else WIDE(0),
        WIDE(0) if products is None else products.u / u,
        products is None or products.bits >= stored.bits,
        WIDE(stored.largest) if form.every else WIDE(np.inf),
    )


class Rounded:
    """`value`, `error` and `lost`, arrays of one shape; made by `exact` or `constant`, or by operations on others.

    `arithmetic` is what is judged, or None.
    """

    __slots__ = ("arithmetic", "error", "lost", "value")
    __array_ufunc__ = None  # array * Rounded asks Rounded

    def __init__(self, value: Any, error: Any, lost: Any = 0, arithmetic: Arithmetic | None = None):
        value = np.asarray(value)
        if value.dtype == object:  # numbers of arbitrary precision have no error
            value, error, lost = as_numbers(value), 0, 0
        self.value = value if value.dtype == object else value.astype(WIDE, copy=False)
        self.error, self.lost = _shaped(error, self.value.shape), _shaped(lost, self.value.shape)
        self.arithmetic = arithmetic

    shape = property(lambda self: self.value.shape)

    @property
    def off(self) -> Any:
        """δ = u·e + η·l, how far the computed value may be from the exact one; 0 where no arithmetic is judged."""
        return _off(self.error, self.lost, self.arithmetic)

    def __add__(self, other: Any) -> "Rounded":
        x, y, judged = _joined(self, other)
        return _computed(x.value + y.value, x.error + y.error, x.lost + y.lost, judged)

    def __sub__(self, other: Any) -> "Rounded":
        return self + -_number(other)

    def __rsub__(self, other: Any) -> "Rounded":
        return _number(other) + -self

    def __neg__(self) -> "Rounded":
        return Rounded(-self.value, self.error, self.lost, self.arithmetic)

    def __mul__(self, other: Any) -> "Rounded":
        x, y, judged = _joined(self, other)
        z = x.value * y.value
        if _without_error(x, y):
            return exact(z)
        size_x, size_y = np.abs(x.value) + x.off, np.abs(y.value)  # |x| + δ_x and |y|
        error = _product(size_y, x.error) + _product(size_x, y.error)
        return _computed(z, error, _product(size_y, x.lost) + _product(size_x, y.lost), judged)

    def __truediv__(self, other: Any) -> "Rounded":
        x, y, judged = _joined(self, other)
        z = x.value / y.value
        if _without_error(x, y):
            return exact(z)
        off = y.off
        slope, size = _inverse(np.abs(y.value), off), np.abs(z)
        error, lost = x.error + _product(size, y.error), x.lost + _product(size, y.lost)
        error = _unknown_where((off > 0) & np.isinf(slope), _product(slope, error))  # 0/0 is NaN
        return _computed(z, error, _product(slope, lost), judged)

    def __rtruediv__(self, other: Any) -> "Rounded":
        return _number(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, index: Any) -> "Rounded":
        return self.moved(lambda a: a[index])

    def moved(self, rearrange: Callable) -> "Rounded":
        """The same numbers elsewhere: `rearrange` reshapes, transposes or selects, and rounds nothing."""
        return arranged(rearrange, self)

    def reshape(self, *shape: int) -> "Rounded":
        return self.moved(lambda a: a.reshape(*shape))

    def swapaxes(self, i: int, j: int) -> "Rounded":
        return self.moved(lambda a: a.swapaxes(i, j))

    def sum(
        self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, depth: int | None = None
    ) -> "Rounded":
        """Σ over `axis`, in any order of summation; or with no more than `depth` roundings on the way of any term."""
        axes = tuple(range(self.value.ndim)) if axis is None else axis
        value = self.value.sum(axes, keepdims=keepdims)
        if _without_error(self):
            return exact(value)
        additions = max(math.prod(np.take(self.shape, axes).reshape(-1).tolist()) - 1, 0)
        roundings = _growth(additions if depth is None else depth, self.arithmetic)
        error = self.error + roundings * (np.abs(self.value) + self.off) if roundings else self.error
        lost = self.lost.sum(axes, keepdims=keepdims) + (additions if depth != 0 else 0)
        return _stored(value, error.sum(axes, keepdims=keepdims), lost, self.arithmetic)

    def row_mean(self) -> "Rounded":
        """The mean over the last axis, kept; added up in any order, or in blocks where the arithmetic says so."""
        n = self.shape[-1]
        blocked = self.arithmetic is not None and self.arithmetic.blocked
        return self.sum(-1, keepdims=True, depth=blocked_depth(n) if blocked else None) / n

    @staticmethod
    def arranged(rearrange: Callable, *parts: "Rounded") -> "Rounded":
        """What the function `arranged` does."""
        value = rearrange(*(x.value for x in parts))
        if _without_error(*parts):
            return exact(value)
        error, lost = rearrange(*(x.error for x in parts)), rearrange(*(x.lost for x in parts))
        return Rounded(value, error, lost, _judged(*parts))

    @staticmethod
    def contracted(subscripts: str, x: "Rounded", y: "Rounded", terms: int | None) -> "Rounded":
        """What `contract` does."""
        x, y, judged = _joined(x, y)
        if _without_error(x, y):
            return exact(sum_of_products(subscripts, x.value, y.value))
        terms = terms or terms_of(subscripts, x.shape, y.shape)
        x, y = _factor(x, judged), _factor(y, judged)
        size_x, size_y = np.abs(x.value) + x.off, np.abs(y.value) + y.off

        def inherited(errors_x: np.ndarray, errors_y: np.ndarray) -> np.ndarray:
            """Σ(e_x|y| + |x|e_y)."""
            found = sum_of_products(subscripts, errors_x, size_y)
            return found + sum_of_products(subscripts, size_x, errors_y) if errors_y.any() else found

        error = inherited(x.error + _growth(terms, judged) * size_x, y.error)
        lost = inherited(x.lost, y.lost) + 2 * terms
        return _stored(sum_of_products(subscripts, x.value, y.value), error, lost, judged)

    @staticmethod
    def chosen(first: "Rounded", forms: Sequence[Callable[[], "Rounded"]]) -> "Rounded":
        """What `either` does."""
        if _without_error(first):
            return first
        error, lost = first.error, first.lost
        for other in (form() for form in forms[1:]):
            error, lost = np.maximum(error, other.error), np.maximum(lost, other.lost)
        return Rounded(first.value, error, lost, first.arithmetic)

    def scattered(self, places: np.ndarray, length: int, depth: int | None) -> "Rounded":
        """What `scatter` does."""

        def added(terms: Any) -> np.ndarray:
            total = np.zeros((length, *self.shape[1:]), terms.dtype)
            np.add.at(total, places, terms)
            return total

        value = added(self.value)
        if _without_error(self):
            return exact(value)
        repeats = np.bincount(places, minlength=length).reshape(-1, *[1] * (value.ndim - 1))
        additions = np.maximum(repeats - 1, 0) if depth is None else depth
        error = added(self.error) + _growth(additions, self.arithmetic) * added(np.abs(self.value) + self.off)
        return _stored(value, error, added(self.lost) + np.maximum(repeats - 1, 0), self.arithmetic)

    def applied(self, value: np.ndarray, slope: Any, units: int) -> "Rounded":
        """What `function` does."""
        if _without_error(self):
            return exact(value)
        slope = np.abs(slope)
        return _computed(value, _product(slope, self.error), _product(slope, self.lost), self.arithmetic, units)


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
    """A number of the formula, such as ε or √2, which is rounded once when it is written down."""
    return Rounded(value, np.abs(np.asarray(value, WIDE)))


def tolerance(rounded: Rounded, precision: Any) -> np.ndarray:
    """The error that is allowed: that of a computation in `precision`, that of the reference, and what underflows.

    `precision` is a floating-point type or a policy. Twice what the textbook's own sequence of roundings allows: an
    equal formula may take a few roundings more. A result below the smallest normal number may be flushed to 0, as XLA
    does on CPUs. Where only the result is stored in a narrower format, it is rounded once more.
    """
    form, judged = policy(precision), arithmetic(precision)
    u = judged.u + np.finfo(WIDE).eps / 2
    allowed = 2 * (u * rounded.error + judged.smallest * (rounded.lost + 0.5))
    if not form.every and form.stored.bits < form.inside.bits:
        size = np.abs(rounded.value) + allowed
        allowed = np.where(size > form.stored.largest, np.inf, allowed + form.stored.u * size + form.stored.lost)
    return np.where(np.isnan(allowed), np.inf, allowed)  # where nothing is known, nothing is judged


def arranged(rearrange: Callable, *parts: Rounded) -> Rounded:
    """Several as one: `rearrange` of their arrays concatenates, stacks or selects, and rounds nothing."""
    return _kind(*parts).arranged(rearrange, *parts)


def _kind(*parts: Rounded) -> type[Rounded]:
    """Rounded, or the kind of number that stands among the parts in its place: a class made of it."""
    return next((type(x) for x in parts if type(x) is not Rounded), Rounded)


def _number(value: Any) -> Rounded:
    return value if isinstance(value, Rounded) else exact(value)


def _without_error(*parts: Rounded) -> bool:
    """Whether any of them is of arbitrary precision, and so is what is made of them."""
    return any(x.value.dtype == object for x in parts)


def _joined(x: Any, y: Any) -> tuple[Rounded, Rounded, Arithmetic | None]:
    """Two operands and the arithmetic they are computed in, where constants are stored as well."""
    x, y = _number(x), _number(y)
    judged = _judged(x, y)
    if judged is None or not judged.stored:
        return x, y, judged
    x, y = (a if a.arithmetic else Rounded(a.value, a.error * (1 + judged.stored), a.lost) for a in (x, y))
    return x, y, judged


def _shaped(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    values = np.asarray(values, WIDE)
    return values if values.shape == shape else np.broadcast_to(values, shape)


def _judged(*parts: Rounded) -> Arithmetic | None:
    """The arithmetic of the first number that has one."""
    return next((x.arithmetic for x in parts if x.arithmetic is not None), None)


def _off(error: Any, lost: Any, judged: Arithmetic | None) -> Any:
    return 0 if judged is None else judged.u * error + judged.smallest * lost


def _growth(roundings: Any, judged: Arithmetic | None) -> Any:
    return roundings if judged is None else judged.growth(roundings)


def _computed(value: np.ndarray, error: Any, lost: Any, judged: Arithmetic | None, units: int = 1) -> Rounded:
    """The result of an operation: beside what it inherits, an error of its own of `units` u, and one underflow."""
    if np.asarray(value).dtype == object:
        return exact(value)
    error = error + units * (np.abs(value) + _off(error, lost, judged))
    return _stored(value, error, lost + 1, judged)


def _stored(value: np.ndarray, error: Any, lost: Any, judged: Arithmetic | None) -> Rounded:
    """What comes of storing a result: nothing, unless the storage is narrower than what an operation computes in.

    Beside 0 · ∞, such as a weight of 0 times a number that is not known, nothing is known, and comparisons must see it.
    """
    error, lost = _unknown_where(np.isnan(error), error), _unknown_where(np.isnan(lost), lost)
    if judged is not None and judged.stored:
        size = np.abs(value) + _off(error, lost, judged)
        error = np.where(size > judged.largest, np.inf, error + judged.stored * size)
    return Rounded(value, error, lost, judged)


def _factor(x: Rounded, judged: Arithmetic | None) -> Rounded:
    """The factor of a product, which is rounded first where the arithmetic says so."""
    if judged is None or not judged.products:
        return x
    error = x.error + judged.products * (np.abs(x.value) + x.off)
    return Rounded(x.value, np.where(x.error == 0, 0, error) if judged.given else error, x.lost, judged)


def _product(factor: np.ndarray, error: np.ndarray) -> np.ndarray:
    """factor · error, where no error is no error even beside an infinite factor; ∞ where nothing is known."""
    with np.errstate(invalid="ignore"):
        product = factor * error
    unknown = np.isnan(product)
    return np.where(unknown, np.where(error == 0, WIDE(0), WIDE(np.inf)), product) if unknown.any() else product


def _unknown_where(condition: Any, error: np.ndarray) -> np.ndarray:
    """The error, ∞ where the condition holds."""
    return np.where(condition, WIDE(np.inf), error) if np.any(condition) else error


def _inverse(size: np.ndarray, off: Any) -> np.ndarray:
    """1/(|x| − δ): ∞ where x may be 0."""
    with np.errstate(divide="ignore"):
        return 1 / np.maximum(size - off, 0)


def blocked_depth(n: int) -> int:
    """Roundings on the way of a term through a sum of n in eight lanes, joined in pairs, and blocks of 128 in pairs."""
    return max(n - 1, 0) if n <= 8 else min(n, 128) // 8 + 3 + max(0, math.ceil(math.log2(n / 128)))


def contract(subscripts: str, x: Rounded | ArrayLike, y: Rounded | ArrayLike, *, terms: int | None = None) -> Rounded:
    """Σ x·y over the letters that the result lacks (as `einsum` does): e = Σ(e_x|y| + |x|e_y) + N Σ|x||y|.

    N products and N − 1 sums round on the way of no term more than N times, in whatever order (Higham (2002), eq. 3.5),
    and each may underflow. `terms` is N if the sum is part of a longer one.
    """
    x, y = _number(x), _number(y)
    return _kind(x, y).contracted(subscripts, x, y, terms)


def begun_with(x: Rounded, terms: int) -> Rounded:
    """x as a sum of so many terms may begin with it, as products of matrices do with a bias: it rounds with each."""
    return x[..., None].sum(-1, depth=terms)


def terms_of(subscripts: str, *shapes: tuple[int, ...]) -> int:
    """How many products each element of a contraction is the sum of."""
    operands, result = subscripts.split("->")
    sizes: dict[str, int] = {}
    for letters, shape in zip(operands.split(","), shapes, strict=True):
        sizes |= dict(zip(reversed(letters.replace("...", "")), reversed(shape), strict=False))
    return math.prod(n for letter, n in sizes.items() if letter not in result)


def scatter(x: Rounded, places: np.ndarray, length: int, *, depth: int | None = None) -> Rounded:
    """y_k = Σ x_i over the i with places_i = k, along the first axis: adds up repeats, in any order.

    Or with no more than `depth` roundings on the way of any term: 0 if x counts those of the whole sum already.
    """
    return x.scattered(places, length, depth)


def either(*forms: Callable[[], Rounded]) -> Rounded:
    """One number in several forms that are equal on paper and all correct: its bound is that of the worst of them.

    The value is that of the first; an implementation computes one of them.
    """
    first = forms[0]()
    return type(first).chosen(first, forms)


def where(
    condition: ArrayLike, x: Rounded | ArrayLike, y: Rounded | ArrayLike, *, doubtful: ArrayLike = False
) -> Rounded:
    """x where the condition holds, else y. Where it is `doubtful`, and rounding may decide, the error covers both."""
    x, y = _number(x), _number(y)
    chosen, judged = arranged(lambda a, b: np.where(condition, a, b), x, y), _judged(x, y)
    if judged is None or not np.any(doubtful):
        return chosen
    other = arranged(lambda a, b: np.where(condition, b, a), x, y)
    error = np.abs(chosen.value - other.value) / judged.u + other.error
    return Rounded(
        chosen.value,
        np.where(doubtful, np.maximum(chosen.error, error), chosen.error),
        np.where(doubtful, np.maximum(chosen.lost, other.lost), chosen.lost),
        judged,
    )


def no_farther(x: Rounded, farthest: np.ndarray, roundings: int) -> Rounded:
    """x where it is known to be no farther off than so, but for so many roundings of a number near 1."""
    judged = x.arithmetic
    if judged is None:
        return x
    most = farthest / judged.u + roundings * (1 + judged.stored)
    beyond = ~(x.off <= most * judged.u)  # also where nothing is known of the error
    return Rounded(x.value, np.where(beyond, most, x.error), np.where(beyond, 0, x.lost), judged)


def overflowing(x: Rounded) -> Rounded:
    """x as it is stored: ±∞ beyond the largest number of the arithmetic, (2 − 2u)/½η."""
    judged = x.arithmetic
    if judged is None:
        return x
    beyond = np.abs(x.value) > (2 - 2 * judged.u) * 2 / judged.smallest
    return where(beyond, np.sign(x.value) * np.inf, x)


@part
def where_positive(x: Rounded, above: Rounded | ArrayLike, below: Rounded | ArrayLike) -> Rounded:
    """`above` where x > 0, else `below`; either where x may have another sign once it is rounded."""
    return where(x.value > 0, above, below, doubtful=(x.off > 0) & (np.abs(x.value) <= x.off))


def between(x: Rounded | ArrayLike, y: Rounded | ArrayLike) -> Rounded:
    """Anything from x to y: the middle, and an error that makes the tolerance half of what lies between them."""
    x, y = _number(x), _number(y)
    judged = _judged(x, y)
    middle, half = (x.value + y.value) / 2, np.abs(x.value - y.value) / 2
    width = half / (2 * judged.u) if judged is not None else np.where(half == 0, 0, np.inf)
    return Rounded(middle, np.maximum(x.error, y.error) + width, np.maximum(x.lost, y.lost), judged)


def function(value: np.ndarray, slope: Any, x: Rounded, *, units: int = ELEMENTARY) -> Rounded:
    """z = f(x), with what is inherited, and an error of its own of `units` u: 4 units in the last place.

    `slope` is the largest |f′| within x.off of x; of first order, f′(x).
    """
    return x.applied(value, slope, units)


def _nearer(x: Rounded) -> np.ndarray:
    """The number within x.off of x that is nearest to 0: where a slope that falls away from 0 is steepest."""
    return np.maximum(np.abs(x.value) - x.off, 0)


def _exp_slope(x: Rounded, z: np.ndarray) -> np.ndarray:
    """(e^(x + δ) − eˣ)/δ ≥ |eʸ − eˣ|/|y − x| for all y within δ of x; below z (1 + δ) while δ < 1."""
    if x.arithmetic is None:
        return z
    off = x.off
    slope = _product(z, 1 + off)
    large = (off > 1) & np.isfinite(off)
    if large.any():
        slope = np.where(large, (np.exp(x.value + np.where(large, off, 0)) - z) / np.where(large, off, 1), slope)
    return slope


@part
def exp(x: Rounded) -> Rounded:
    """eˣ: e_z = z e_x + 8z."""
    z = np.exp(x.value)
    if _without_error(x):
        return exact(z)
    x = where(np.isneginf(x.value), exact(x.value), x)  # −∞ is what a mask adds, and has no error
    return function(z, _exp_slope(x, z), x)


def expm1(x: Rounded) -> Rounded:
    """eˣ − 1."""
    z = np.expm1(x.value)
    return exact(z) if _without_error(x) else function(z, _exp_slope(x, np.exp(x.value)), x)


def log(x: Rounded) -> Rounded:
    """log x: e_z = e_x/x + 8|z|."""
    z = np.log(x.value)
    return exact(z) if _without_error(x) else function(z, _inverse(x.value, x.off), x)


def log1p(x: Rounded) -> Rounded:
    """log(1 + x)."""
    z = np.log1p(x.value)
    return exact(z) if _without_error(x) else function(z, _inverse(1 + x.value, x.off), x)


def tanh(x: Rounded) -> Rounded:
    """tanh x."""
    z = np.tanh(x.value)
    return exact(z) if _without_error(x) else function(z, 1 - np.tanh(_nearer(x)) ** 2, x)


def sqrt(x: Rounded, *, signed: bool = False) -> Rounded:
    """Rounded correctly everywhere (IEEE 754), and so to 1u. |√y − √x| is |y − x|/(√y + √x), and at most √|y − x|.

    Nothing is known of the root of a difference, which is `signed`, if rounding may make it negative.
    """
    z = np.sqrt(x.value)
    if _without_error(x):
        return exact(z)
    least = z + np.sqrt(np.maximum(x.value - x.off, 0))
    least = np.maximum(least, np.sqrt(x.off))
    root = function(z, 1 / np.where(least == 0, 1, least), x, units=1)
    if signed and np.any(x.off > x.value):
        root.error = _unknown_where(x.off > x.value, root.error)
    return root


def erf(x: Rounded) -> Rounded:
    """erf x."""
    if _without_error(x):
        return exact(each("erf", x.value))
    return function(special.erf_of(x.value), special.TWO_OVER_SQRT_PI * special.gaussian_of(_nearer(x)), x)


def erfc(x: Rounded) -> Rounded:
    """erfc x."""
    if _without_error(x):
        return exact(each("erfc", x.value))
    return function(special.erfc_of(x.value), special.TWO_OVER_SQRT_PI * special.gaussian_of(_nearer(x)), x)


def normal_cdf(z: Rounded) -> tuple[Rounded, Rounded]:
    """Φ(z) and φ(z), the normal distribution and its density, whose slope is −z φ(z)."""
    if _without_error(z):
        return exact(each("ncdf", z.value)), exact(each("npdf", z.value))
    value, density = special.normal_cdf_of(z.value)
    _, steepest = special.normal_cdf_of(_nearer(z))
    return function(value, steepest, z), function(density, (np.abs(z.value) + z.off) * steepest, z)
