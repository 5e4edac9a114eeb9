"""Many numbers to one, along one axis: sums, products, the largest, lengths; sums and orders that keep the axis.

The last axis unless told otherwise. For `refnp.judge` alone, as the functions of elements.
"""

from dataclasses import replace
from operator import attrgetter

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes_unchecked
from refnp.numbers.rounding import where
from refnp.verify.case import Case, KnownDefect, normal
from refnp.verify.judged_pages import of_tape
from refnp.verify.layers.engine import STD, VAR
from refnp.verify.layers.pooling import MAXIMUM


def rows(name, function, torch=None, result="(...)", **others):
    """A function along one axis, which PyTorch and JAX have with the axis after the array; JAX by the same name."""

    @takes_unchecked(f"x (..., n ≥ 1) → {result}")
    def along(x, *, axis=-1):
        return function(x, axis)

    along.__doc__ = function.__doc__
    return of_tape(
        along,
        name=name,
        torch=None if torch is None else lambda module, x, *, axis=-1: attrgetter(torch)(module)(x, dim=axis),
        jax=lambda module, x, *, axis=-1: attrgetter(name)(module.numpy)(x, axis=axis),
        **others,
    )


OF_PRODUCTS = {"n": (7, 1, 2, 67)}  # of more numbers there is nothing left, or too much
SUM = rows("sum", ad.sum, "sum")
MEAN = rows("mean", ad.mean, "mean")
PROD = rows("prod", ad.prod, "prod", tried=OF_PRODUCTS)
WITHOUT_TIES = {"structure": ("normal", "mean 1000", "far apart", "far below", "tiny")}  # "equal numbers" is listed
MAX = rows("max", ad.max, "amax", tried=WITHOUT_TIES)
MIN = rows("min", ad.min, "amin", tried=WITHOUT_TIES)
CUMSUM = rows("cumsum", ad.cumsum, "cumsum", "(..., n)")


def slope_of_root(x, *, axis=-1):
    """√(Σ x²) by the slope of its root, which is 0/0 at a row of zeros."""
    y, pullback = NORM.equation(x, axis=axis)
    zero = np.expand_dims(y.value == 0, axis)
    return y, lambda g: [where(zero, np.nan, x_bar) for x_bar in pullback(g)]


NAN_AT_ZERO = KnownDefect(
    "JAX",
    "norm: gradient at 0",
    "jnp.linalg.norm is √(Σ x²) without a word on zeros: its gradient at a row of zeros is NaN",
    ("gradient of x",),
    equation=slope_of_root,
)
NORM = replace(
    rows("norm", ad.norm, "linalg.vector_norm", known=(NAN_AT_ZERO,)),
    jax=lambda jax, x, *, axis=-1: jax.numpy.linalg.norm(x, axis=axis),
)
SORT = replace(rows("sort", ad.sort, result="(..., n)"), torch=lambda torch, x, *, axis=-1: torch.sort(x, axis).values)
MEDIAN = rows("median", ad.median)
LAYERS = (SUM, MEAN, PROD, MAX, MIN, CUMSUM, NORM, SORT, MEDIAN)


def cases() -> list[Case]:
    """Every one along the last axis and the first; sums that cancel, products of zeros, NaN among the numbers.

    And windows of such numbers, of which max pooling takes the largest.
    """
    plain, zeros = {"x": normal(4, 6)}, np.array([[1.5, 0, -2, 3], [2, 0, 0, 1], [1, 2, 3, 4.0]])
    found = [Case(layer, "ordinary", plain) for layer in LAYERS]
    found += [Case(layer, "first axis", {"x": normal(5, 2, 3)}, {"axis": 0}) for layer in LAYERS]
    found += [Case(layer, "one number", {"x": normal(3, 1)}) for layer in LAYERS]
    found += [Case(layer, "mean 1e4", {"x": normal(3, 40, shift=1e4)}) for layer in (SUM, MEAN, CUMSUM, NORM, MEDIAN)]
    equal = np.array([[1.0, 3, 3, 2], [0, 0, 0, 0], [3, 1, 2, 1]])
    found += [Case(layer, "equal numbers", {"x": equal}) for layer in (MAX, MIN)]
    found.append(Case(MAXIMUM, "equal numbers", {"x": equal[None]}, {"size": 3, "stride": 1}))
    special = {"x": np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, 2.0], [-np.inf, -1.0, 0.0]])}
    found += [Case(layer, "nan and infinity", special, gradients=()) for layer in (MAX, MIN, SORT, MEDIAN)]
    found += [Case(layer, "first axis", {"x": normal(5, 2, 3)}, {"axis": 0, "ddof": 1}) for layer in (VAR, STD)]
    windows = np.array([[[1.0, np.nan, 2.0, 0, -np.inf, -np.inf, -np.inf, 3, np.inf]]])
    found += [Case(MAXIMUM, f"nan and infinity, {k} places", {"x": windows}, {"size": k}, gradients=()) for k in (2, 3)]
    return [
        *found,
        Case(SUM, "cancelling terms", {"x": np.array([[1e6, 1.0, -1e6], [1.0, 2.0, -3.0]])}),
        Case(PROD, "zeros", {"x": zeros}),
        Case(NORM, "small and large", {"x": np.array([[3e-10, 4e-10], [3e10, 4e10]])}),
    ]
