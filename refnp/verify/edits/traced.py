"""A page on the tape: numbers that the engine differentiates, whatever a page, or an edit of one, computes with them.

So the gradient of an edited page is that of what it computes, not of the VJP that stands on the page.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive
from refnp.autograd.operators import ARITHMETIC
from refnp.autograd.primitives import raw
from refnp.numbers import words
from refnp.numbers.kinds import Kind, kind_of
from refnp.verify.edits.mutant import root_of

NO_DTYPE = np.dtype(bool)


class Traced(Kind):
    """A Tensor, or an array, that answers NumPy's functions by the engine's."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any):
        self.tensor = tensor

    real = property(lambda self: np.asarray(raw(self.tensor)).real)
    shape = property(lambda self: self.real.shape)
    ndim = property(lambda self: self.real.ndim)
    size = property(lambda self: self.real.size)
    dtype = property(lambda self: self.real.dtype)
    mT = property(lambda self: self.swapaxes(-1, -2))

    def __len__(self) -> int:
        return len(self.real)

    def constant(self, number: Any) -> Any:
        return number.of(words.Wide).astype(self.dtype)

    def __getitem__(self, index: Any) -> "Traced":
        return Traced(self.tensor[index])

    def sum(self, axis: Any = None, keepdims: bool = False) -> "Traced":
        return Traced(ag.sum(self.tensor, axis, keepdims=keepdims))

    def mean(self, axis: Any = None, keepdims: bool = False) -> "Traced":
        return Traced(ag.mean(self.tensor, axis, keepdims=keepdims))

    def max(self, axis: Any = None, keepdims: bool = False) -> "Traced":
        return Traced(ag.max(self.tensor, axis, keepdims=keepdims))

    def reshape(self, *shape: Any) -> "Traced":
        return Traced(ag.reshape(self.tensor, shape[0] if isinstance(shape[0], tuple) else shape))

    def swapaxes(self, i: int, j: int) -> "Traced":
        return Traced(ag.swapaxes(self.tensor, i, j))

    def transpose(self, *axes: Any) -> "Traced":
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes or None
        return Traced(ag.transpose(self.tensor, order))

    def squeeze(self, axis: Any = None) -> "Traced":
        return Traced(ag.squeeze(self.tensor, axis))


def tensor_of(value: Any) -> Any:
    """What the engine computes with: the Tensor of a Traced, those in a list, and anything else as it is."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, Traced) for v in value):
        return [tensor_of(v) for v in value]
    return value.tensor if isinstance(value, Traced) else value


def lifted(function: Callable) -> Callable:
    """A function of the engine, of Traced numbers; of arrays as it is."""

    def of_traced(*arguments: Any, **options: Any) -> Any:
        value = function(*map(tensor_of, arguments), **options)
        return Traced(value) if kind_of(arguments) is not None else value

    return of_traced


def deciding(function: Callable) -> Callable:
    """A function whose result decides, or is a constant: an array, of the values."""
    plain = lambda value: value.real if isinstance(value, Traced) else value
    return lambda *arguments, **options: function(*map(plain, arguments), **options)


def held(x: Any) -> Any:
    """x as a constant: no gradient flows through it."""
    return Traced(x.real) if isinstance(x, Traced) else x.detach() if isinstance(x, ag.Tensor) else x


def traced(x: Any) -> Any:
    """An argument of a page as a number that the engine differentiates; integers and what is absent as they are."""
    return Traced(x) if getattr(x, "dtype", NO_DTYPE).kind in "fc" or isinstance(x, float) else x


def normal_cdf(x: Any) -> tuple[Any, Any]:
    """Φ(x) and φ(x)."""
    density: Any = np.exp(-(x * x) / 2) * words.root(0.5) / words.root(words.pi)
    return 0.5 * words.erfc(-x / words.root(2)), density


@primitive
def added_at(x, *, places, length):
    """y_k = Σ of the x_i with places_i = k.   VJP: x̄_i = ȳ_k."""
    return words.added_at(x, places, length), lambda y_bar: (words.read_at(y_bar, places),)


@primitive
def less_log1p(x):
    """x − log(1 + x).   VJP: x̄ = ȳ x/(1 + x)."""
    return words.less_log1p(x), lambda y_bar: (y_bar * x / (1 + x),)


@primitive
def expm1_less(x):
    """e^x − 1 − x.   VJP: x̄ = ȳ (e^x − 1)."""
    return words.expm1_less(x), lambda y_bar: (y_bar * np.expm1(x),)


def moved(x: Traced, source: int, to: int) -> Traced:
    """x with one axis at another place."""
    order = list(range(x.ndim))
    order.insert(to % x.ndim, order.pop(source))
    return x.transpose(*order)


SAME = """exp expm1 log log1p sqrt tanh sin cos sinh cosh arctan absolute maximum minimum where concatenate stack
take take_along_axis expand_dims squeeze swapaxes transpose reshape flip roll broadcast_to tril triu
cumsum cumprod sum mean max pad""".split()  # noqa: SIM905  # the same in both
Traced.functions = {
    **{getattr(np, name): lifted(getattr(ag, name)) for name in SAME},
    **{own: lifted(ours) for own, ours in ARITHMETIC.values()},
    **{getattr(np, name): deciding(getattr(np, name)) for name in ("greater", "greater_equal", "less", "less_equal")},
    np.negative: lifted(ag.negative),
    np.sqrt: lifted(root_of),  # as automatic differentiation has it
    np.square: lambda x: x * x,
    np.moveaxis: moved,
    np.diagonal: lambda x, axis1, axis2: Traced(ag.diagonal(x.tensor)),  # of the last two axes
    np.shape: lambda x: x.shape,
    np.ones_like: lambda x: np.ones(x.shape, x.dtype),
    np.zeros_like: lambda x: np.zeros(x.shape, x.dtype),
    np.isfinite: deciding(np.isfinite),
    words.peak: deciding(words.peak),
    words.largest: deciding(words.largest),
    words.shares: lambda e: e / words.nonzero(e.sum(-1, keepdims=True)),
    words.einsum: lifted(ag.einsum),
    words.read_at: words.read_at.__wrapped__,  # type: ignore[attr-defined]
    words.added_at: lambda x, places, length: Traced(added_at(x.tensor, places=places, length=length)),
    words.less_log1p: lifted(less_log1p),
    words.expm1_less: lifted(expm1_less),
    words.erf: lifted(ag.erf),
    words.erfc: lifted(ag.erfc),
    words.normal_cdf: normal_cdf,
}


def _number(value: Any, beside: Traced) -> Any:
    return beside.constant(value) if isinstance(value, words.Constant) else tensor_of(value)


def _operators() -> None:
    """Arithmetic and comparisons by the engine's operations."""
    for name, (_, ours) in ARITHMETIC.items():
        setattr(Traced, f"__{name}__", lambda x, y, of=ours: Traced(of(x.tensor, _number(y, x))))
        setattr(Traced, f"__r{name}__", lambda x, y, of=ours: Traced(of(_number(y, x), x.tensor)))
    for name in ("gt", "ge", "lt", "le"):
        of = getattr(operator, name)
        plain = lambda value: value.real if isinstance(value, Traced) else value
        setattr(Traced, f"__{name}__", lambda x, y, of=of, plain=plain: of(x.real, plain(y)))
    Traced.__neg__ = lambda x: Traced(ag.negative(x.tensor))  # type: ignore[operator]
    Traced.__abs__ = lambda x: Traced(ag.absolute(x.tensor))  # type: ignore[attr-defined]


_operators()
