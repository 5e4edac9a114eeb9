"""Many numbers to one, along one axis: sums, products, the largest, lengths; sums and orders that keep the axis.

The last axis unless told otherwise. For `refnp.judge` alone, as the functions of elements.
"""

from dataclasses import replace
from operator import attrgetter

import numpy as np

import refnp.autograd as ad
from refnp.numbers import rounding
from refnp.numbers.rounding import arranged, contract, exact, where
from refnp.verify.case import Case, Layer, normal
from refnp.verify.layers.engine import STD, VAR, along_last, cumprod


@along_last
def total(x):
    """y = Σ x, x̄ = ȳ."""
    return x.sum(-1), lambda g: (to_all(g, x),)


@along_last
def mean(x):
    """y = Σ x/n, x̄ = ȳ/n."""
    n = x.shape[-1]
    return x.sum(-1) / n, lambda g: (to_all(g / n, x),)


def to_all(g, x):
    """The gradient of a row for each of its numbers."""
    return g[..., None].moved(lambda a: np.broadcast_to(a, x.shape))


@along_last
def product(x):
    """y = Π x, x̄_j = ȳ Π_{i<j} x_i Π_{i>j} x_i."""
    before, after = running_products(x), running_products(x[..., ::-1])[..., ::-1]
    return before[..., -1] * x[..., -1], lambda g: (g[..., None] * (before * after),)


def running_products(x):
    """Π_{i<j} x_i for every j."""
    rows = x.reshape(-1, x.shape[-1])
    products, _ = cumprod(arranged(lambda a: np.concatenate([np.ones((len(a), 1), a.dtype), a[:, :-1]], 1), rows))
    return products.reshape(*x.shape)


@along_last
def largest(x):
    """y = max x, NaN if one is; ȳ goes to the largest."""
    return chosen(x, np.argmax(x.value, -1))


@along_last
def smallest(x):
    """y = min x, NaN if one is; ȳ goes to the smallest."""
    return chosen(x, np.argmin(x.value, -1))


def chosen(x, places):
    """One number of every row, and ȳ at its place."""
    hit = exact(np.arange(x.shape[-1]) == places[..., None])
    return x.moved(lambda a: np.take_along_axis(a, places[..., None], -1)[..., 0]), lambda g: (g[..., None] * hit,)


@along_last
def norm(x):
    """y = √Σ x², x̄ = ȳ x/y."""
    y = rounding.sqrt((x * x).sum(-1))
    return y, lambda g: (g[..., None] * x / y[..., None],)


@along_last
def cumsum(x):
    """y_i = Σ_{j≤i} x_j in any order, x̄_j = Σ_{i≥j} ȳ_i."""
    up_to = np.triu(np.ones((x.shape[-1], x.shape[-1])))
    return contract("...j,ji->...i", x, up_to), lambda g: (contract("...i,ji->...j", g, up_to),)


@along_last
def in_order(x):
    """y = x in ascending order; ȳ goes back to where each number was."""
    order = np.argsort(x.value, -1, kind="stable")
    back = np.argsort(order, -1)
    ordered = lambda number, places: number.moved(lambda a: np.take_along_axis(a, places, -1))
    return ordered(x, order), lambda g: (ordered(g, back),)


@along_last
def median(x):
    """y = the middle number in order, or the mean of the middle two, NaN if there is one; ȳ/2 goes to both."""
    n = x.shape[-1]
    order = np.argsort(x.value, -1, kind="stable")
    middle = [order[..., (n - 1) // 2], order[..., n // 2]]
    (low, low_bar), (high, high_bar) = (chosen(x, places) for places in middle)
    y = where(np.isnan(x.value).any(-1), np.nan, (low + high) / 2)
    return y, lambda g: (low_bar(g / 2)[0] + high_bar(g / 2)[0],)


def rows(name, function, equation, torch=None):
    """A function along one axis, which PyTorch and JAX have with the axis after the array; JAX by the same name."""
    return Layer(
        name,
        lambda x, *, axis=-1: function(x, axis),
        equation,
        torch=None if torch is None else lambda module, x, *, axis=-1: attrgetter(torch)(module)(x, dim=axis),
        jax=lambda module, x, *, axis=-1: attrgetter(name)(module.numpy)(x, axis=axis),
    )


SUM = rows("sum", ad.sum, total, "sum")
MEAN = rows("mean", ad.mean, mean, "mean")
PROD = rows("prod", ad.prod, product, "prod")
MAX = rows("max", ad.max, largest, "amax")
MIN = rows("min", ad.min, smallest, "amin")
CUMSUM = rows("cumsum", ad.cumsum, cumsum, "cumsum")
NORM = replace(
    rows("norm", ad.norm, norm, "linalg.vector_norm"),
    jax=lambda jax, x, *, axis=-1: jax.numpy.linalg.norm(x, axis=axis),
)
SORT = replace(rows("sort", ad.sort, in_order), torch=lambda torch, x, *, axis=-1: torch.sort(x, axis).values)
MEDIAN = rows("median", ad.median, median)
LAYERS = (SUM, MEAN, PROD, MAX, MIN, CUMSUM, NORM, SORT, MEDIAN)


def cases() -> list[Case]:
    """Every one along the last axis and the first; sums that cancel, products of zeros, NaN among the numbers."""
    plain, zeros = {"x": normal(4, 6)}, np.array([[1.5, 0, -2, 3], [2, 0, 0, 1], [1, 2, 3, 4.0]])
    found = [Case(layer, "ordinary", plain) for layer in LAYERS]
    found += [Case(layer, "first axis", {"x": normal(5, 2, 3)}, {"axis": 0}) for layer in LAYERS]
    found += [Case(layer, "one number", {"x": normal(3, 1)}) for layer in LAYERS]
    found += [Case(layer, "mean 1e4", {"x": normal(3, 40, shift=1e4)}) for layer in (SUM, MEAN, CUMSUM, NORM, MEDIAN)]
    special = {"x": np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, 2.0], [-np.inf, -1.0, 0.0]])}
    found += [Case(layer, "nan and infinity", special, gradients=()) for layer in (MAX, MIN, SORT, MEDIAN)]
    found += [Case(layer, "first axis", {"x": normal(5, 2, 3)}, {"axis": 0, "ddof": 1}) for layer in (VAR, STD)]
    return [
        *found,
        Case(SUM, "cancelling terms", {"x": np.array([[1e6, 1.0, -1e6], [1.0, 2.0, -3.0]])}),
        Case(PROD, "zeros", {"x": zeros}),
        Case(NORM, "small and large", {"x": np.array([[3e-10, 4e-10], [3e10, 4e10]])}),
    ]
