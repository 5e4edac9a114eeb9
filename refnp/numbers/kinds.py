"""Arrays of other kinds of numbers: each answers NumPy's functions, and the words of pages, in its own way.

`Rounded` numbers carry a bound on their error, `Computed` ones are those of an implementation, numbers of a finite
field prove. NumPy asks a `Kind` for a function, and it takes its own from a table, or refuses by name.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np


class Kind:
    """An array of another kind of number: `functions` says what NumPy's functions, and our words, are for it.

    Its numbers have no type; its `dtype` is the widest, so that arrays made to stand beside them lose nothing.
    """

    __slots__ = ()
    functions: ClassVar[dict[Any, Callable]] = {}
    of_others = False  # whether it is made of arrays of another kind, and answers in their place
    dtype: np.dtype = np.dtype(np.longdouble)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if not self.of_others and any(getattr(x, "of_others", False) for x in inputs):
            return NotImplemented
        if method != "__call__" or options:
            raise TypeError(
                f"{type(self).__name__}: no rule for np.{ufunc.__name__}.{method} with {', '.join(options)}"
            )
        return self._own(ufunc)(*inputs)

    def __array_function__(self, function: Callable, types: Any, arguments: tuple, options: dict) -> Any:
        if not self.of_others and any(getattr(kind, "of_others", False) for kind in types):
            return NotImplemented
        return self._own(function)(*arguments, **options)

    def _own(self, function: Any) -> Callable:
        """Its own form of a function; TypeError where it has none."""
        own = self.functions.get(function) or ABOUT.get(function)
        if own is None:
            raise TypeError(f"{type(self).__name__}: no rule for {function.__name__}")
        return own

    def constant(self, number: Any) -> Any:
        """A number of the formula, in this kind."""
        raise NotImplementedError


class OfArrays(Kind):
    """A kind that holds NumPy arrays of one shape, `value` and perhaps others, which are rearranged together."""

    __slots__ = ()
    value: Any

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    mT = property(lambda self: self.swapaxes(-1, -2))

    def moved(self, rearrange: Callable) -> Self:
        """The same numbers elsewhere: `rearrange` reshapes, transposes or selects, and rounds nothing."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: Any) -> Self:
        return self.moved(lambda a: a[index])

    def reshape(self, *shape: Any) -> Self:
        return self.moved(lambda a: a.reshape(*shape))

    def swapaxes(self, i: int, j: int) -> Self:
        return self.moved(lambda a: a.swapaxes(i, j))

    def transpose(self, *axes: Any) -> Self:
        return self.moved(lambda a: a.transpose(*axes))

    def squeeze(self, axis: Any = None) -> Self:
        return self.moved(lambda a: a.squeeze(axis))


def moving(*functions: Callable) -> dict[Any, Callable]:
    """Functions of NumPy that reshape, transpose or select, as those of a kind that holds arrays."""

    def of(rearrange: Callable) -> Callable:
        return lambda x, *places, **options: x.moved(lambda a: rearrange(a, *places, **options))

    return {function: of(function) for function in functions}


OF_ARRAYS: dict[Any, Callable] = moving(
    np.reshape, np.swapaxes, np.moveaxis, np.transpose, np.expand_dims, np.squeeze, np.flip, np.roll, np.repeat,
    np.take, np.take_along_axis, np.diagonal, np.broadcast_to,
) | {
    np.sum: lambda x, axis=None, keepdims=False: x.sum(axis, keepdims),
    np.mean: lambda x, axis=None, keepdims=False: x.mean(axis, keepdims),
    np.max: lambda x, axis=-1, keepdims=False: x.max(axis, keepdims),
}  # fmt: skip
ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "matmul": np.matmul}
ORDER = {"gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
COMPARISONS = ORDER | {"eq": np.equal, "ne": np.not_equal}


def with_operators(kind: type[Kind], operators: Mapping[str, np.ufunc], *, reflected: bool = False) -> None:
    """Gives a kind Python's operators, which are its forms of NumPy's functions; `reflected` behind an array, too.

    What is made of others answers in place of these.
    """

    def operator_of(of: Callable, *, turned: bool = False) -> Callable:

        def operate(x: Any, y: Any) -> Any:
            if getattr(y, "of_others", False):
                return NotImplemented
            return of(y, x) if turned else of(x, y)

        return operate

    for name, ufunc in operators.items():
        setattr(kind, f"__{name}__", operator_of(kind.functions[ufunc]))
        if reflected:
            setattr(kind, f"__r{name}__", operator_of(kind.functions[ufunc], turned=True))


def split(x: Any, sections: Any, axis: int = 0) -> list:
    """In equal parts, or at the given places."""
    return [np.take(x, places, axis) for places in np.split(np.arange(x.shape[axis]), sections)]


ABOUT: dict[Any, Callable] = {  # which are the same for all
    np.split: split,
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x: x.size,
    np.real: lambda x: x.real,
    np.iscomplexobj: lambda _: False,
    np.result_type: lambda *_: Kind.dtype,
}


def is_kind(x: Any) -> bool:
    """Whether x is an array of another kind of number."""
    return isinstance(x, Kind)


def kind_of(values: Any) -> Kind | None:
    """The first array of another kind among the arguments of a function, lists of them included; None for arrays.

    One that is made of others before them.
    """
    found = None
    for value in values:
        kind = value if isinstance(value, Kind) else kind_of(value) if isinstance(value, (list, tuple)) else None
        if kind is not None and kind.of_others:
            return kind
        found = kind if found is None else found
    return found


def word(function: Callable) -> Callable:
    """A function that NumPy lacks: of arrays, unless an argument is of another kind, which then has its own."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        kind = kind_of(arguments)
        return function(*arguments, **options) if kind is None else kind._own(call)(*arguments, **options)

    return call
