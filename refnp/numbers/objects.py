"""Arrays whose elements are Python objects: numbers of one kind, each of which knows its own functions.

`Objects` answers NumPy's functions and the words of pages by doing the same to the array of its elements. NumPy asks
an element of an array of objects for a function by its name: np.exp of the array calls `element.exp()`.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.numbers import words
from refnp.numbers.duals import Array
from refnp.numbers.kinds import ARITHMETIC, COMPARISONS, OF_ARRAYS, ORDER, OfArrays, moving, with_operators
from refnp.numbers.sinusoids import sinusoids_of
from refnp.numbers.summation import sum_of_products
from refnp.numbers.words import Constant


class Objects(OfArrays):
    """`value`, an array of elements of one kind. Numbers, arrays and constants beside it become such.

    A subclass says what an element of a number is (`element`), which float decides for it (`decides`), and in which
    `mathematics` constants are computed.
    """

    __slots__ = ("value",)
    mathematics: Any

    def __init__(self, value: Any):
        self.value = self.elements(value)

    @classmethod
    def element(cls, number: Any) -> Any:
        """An element of this kind."""
        raise NotImplementedError

    @staticmethod
    def decides(element: Any) -> float:
        """The float by which branches are chosen."""
        raise NotImplementedError

    @classmethod
    def elements(cls, value: Any) -> Array:
        """An array of elements."""
        if isinstance(value, Objects):
            return value.value
        if isinstance(value, Constant):
            value = value.of(cls.mathematics)
        array = np.asarray(value, object)
        return np.asarray(np.frompyfunc(cls.element, 1, 1)(array), object) if array.size else array

    def constant(self, number: Constant) -> Any:
        return type(self)(number)

    @property
    def real(self) -> Array:
        """The floats that decide."""
        found = np.frompyfunc(self.decides, 1, 1)(self.value) if self.size else self.value
        return np.asarray(found, float)

    def made(self, value: Any) -> Any:
        """An array of elements as one of this kind; booleans and floats as they are."""
        value = np.asarray(value)
        if value.dtype != object:
            return value
        found = object.__new__(type(self))
        found.value = value
        return found

    def moved(self, rearrange: Callable) -> Any:
        return self.made(np.asarray(rearrange(self.value), object))

    def __neg__(self) -> Any:
        return self.made(-self.value)

    def __pow__(self, power: int) -> Any:
        power_of = np.frompyfunc(lambda element: element**power, 1, 1)
        return self.made(np.asarray(power_of(self.value), object))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        return type(self)(self.value.sum(axis, keepdims=keepdims))

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        total = self.sum(axis, keepdims)
        return total / (self.size // max(total.size, 1))

    def max(self, axis: Any = -1, keepdims: bool = False) -> Any:
        """The first of the largest, by the floats that decide, along an axis or several."""
        found = self.value
        for a in (axis,) if isinstance(axis, int) else axis:
            decides = np.asarray(np.frompyfunc(self.decides, 1, 1)(found), float)
            found = np.take_along_axis(found, np.expand_dims(decides.argmax(a), a), a)
        return self.made(found if keepdims else found.squeeze(axis))


def _elementwise(ufunc: np.ufunc) -> Callable:
    """A function of elements, of one argument or two."""

    def of(*arguments: Any) -> Any:
        kind = next(a for a in arguments if isinstance(a, Objects))
        return kind.made(np.asarray(ufunc(*map(kind.elements, arguments)), object))

    return of


def _compared(ufunc: np.ufunc) -> Callable:
    """A comparison, by the floats that decide."""
    floats = lambda a: a.real if isinstance(a, Objects) else float(a) if isinstance(a, Constant) else a
    return lambda *arguments: ufunc(*map(floats, arguments))


def _joining(join: Callable) -> Callable:
    """A function that makes one array of several."""

    def of(parts: Any, axis: int = 0) -> Any:
        kind = next(a for a in parts if isinstance(a, Objects))
        return kind.made(join([kind.elements(part) for part in parts], axis))

    return of


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y."""
    kind = x if isinstance(x, Objects) else y
    return kind.made(np.where(condition, kind.elements(x), kind.elements(y)))


def peak(x: Objects) -> Any:
    """The largest of each row; 0 for a row of −∞."""
    if not x.shape[-1]:
        return np.zeros((*x.shape[:-1], 1))
    m = x.max(-1, keepdims=True)
    return where(m.real == -np.inf, 0, m)


def shares(e: Objects) -> Any:
    """Each element over the sum of its row; 0 where all are 0."""
    return e / words.nonzero(e.sum(-1, keepdims=True))


def read_at(x: Objects, places: Array) -> Any:
    """The elements at these places; 0 at a negative one."""
    zero = type(x).elements(np.zeros((*x.shape[:-1], 1), int))
    return x.made(np.concatenate([x.value, zero], -1)[..., np.maximum(places, -1)])


def added_at(x: Objects, places: Array, length: int) -> Any:
    """Σ of the elements of each place; a negative one is nowhere."""
    front = x.shape[: x.ndim - places.ndim]
    y = type(x).elements(np.zeros((*front, length + 1), int))
    terms = x.value.reshape(*front, math.prod(places.shape))
    np.add.at(y, (..., np.maximum(places, -1).ravel()), terms)  # type: ignore[arg-type]
    return x.made(y[..., :length])


def einsum(subscripts: str, *operands: Any, optimize: bool = False) -> Any:
    """Products of elements, summed."""
    kind = next(a for a in operands if isinstance(a, Objects))
    return type(kind)(sum_of_products(subscripts, *map(kind.elements, operands)))


def normal_cdf(x: Objects) -> tuple[Any, Any]:
    """Φ(x) and φ(x)."""
    density = np.exp(-np.square(x) / 2) / (words.root(2) * words.root(words.pi))
    return words.erfc(-x / words.root(2)) / 2, density


def remainder(x: Any, y: Any) -> Any:
    """x − y ⌊x/y⌋, with the whole number that the floats give."""
    kind = x if isinstance(x, Objects) else y
    floats = lambda a: a.real if isinstance(a, Objects) else a
    return x - kind.made(kind.elements(np.floor_divide(floats(x), floats(y)))) * y


def _own(name: str) -> Callable:
    """A function that each element has as a method."""
    return lambda x: x.made(np.frompyfunc(operator.methodcaller(name), 1, 1)(x.value))


ELEMENTWISE = (np.add, np.subtract, np.multiply, np.true_divide, np.matmul, np.negative, np.square, np.exp,
               np.expm1, np.log, np.log1p, np.sqrt, np.tanh, np.sin, np.cos, np.sinh, np.cosh, np.arctan, np.arctan2,
               np.power)  # fmt: skip
FUNCTIONS: dict[Any, Callable] = OF_ARRAYS | {
    np.where: where,
    np.tril: lambda x, k=0: type(x)(np.tril(x.value, k)),  # whose zeros are to be elements
    np.triu: lambda x, k=0: type(x)(np.triu(x.value, k)),
    np.remainder: remainder,
    np.prod: lambda x, axis=None, keepdims=False: x.made(np.asarray(x.value.prod(axis, keepdims=keepdims), object)),
    np.maximum: lambda x, y: where(_compared(np.greater)(x, y), x, y),
    np.minimum: lambda x, y: where(_compared(np.less)(x, y), x, y),
    np.absolute: lambda x: where(x.real < 0, -x, x),
    np.concatenate: _joining(np.concatenate),
    np.stack: _joining(np.stack),
    np.ones_like: lambda x: type(x)(np.ones(x.shape, int)),
    np.zeros_like: lambda x: type(x)(np.zeros(x.shape, int)),
    words.peak: peak,
    words.largest: lambda x: words.largest(x.real),
    words.shares: shares,
    words.read_at: read_at,
    words.added_at: added_at,
    words.einsum: einsum,
    words.sinusoids: lambda x, places, features, base: tuple(map(type(x), sinusoids_of(places, features, base, float))),
    words.erf: _own("erf"),
    words.erfc: _own("erfc"),
    words.normal_cdf: normal_cdf,
    words.less_log1p: lambda x: x - np.log1p(x),
    words.expm1_less: lambda x: np.expm1(x) - x,
}
FUNCTIONS[np.isnan] = lambda x: np.isnan(x.real)
FUNCTIONS |= {ufunc: _elementwise(ufunc) for ufunc in ELEMENTWISE}
FUNCTIONS |= {ufunc: _compared(ufunc) for ufunc in COMPARISONS.values()}
FUNCTIONS |= moving(np.cumsum, np.cumprod)
Objects.functions = FUNCTIONS
with_operators(Objects, ARITHMETIC, reflected=True)
with_operators(Objects, ORDER)
