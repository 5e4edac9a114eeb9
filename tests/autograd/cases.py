"""Every operation of the engine, with what a property test needs to draw inputs for it and to know the right value.

`Case.draw(rng, shape)` gives arguments in float64 for a shape that the case accepts; floating ones are then cast and
laid out by the test. `Case.reference` computes the value with plain NumPy in whatever precision it is given (the tests
give it longdouble), and `Case.bound(reference, arguments, u)` is the rounding error that float arithmetic with unit
roundoff u may make: from u |y| for every elementary step (NumPy's functions are within 4 u), and n u Σ|terms| for
sums (Higham, Accuracy and Stability of Numerical Algorithms, §3.1, §4.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.autograd.special import erf, erfc
from tests.transcriptions import autograd as transcriptions


@dataclass(frozen=True)
class Case:
    name: str
    function: Callable
    reference: Callable
    draw: Callable
    bound: Callable = lambda y, arguments, u: 8 * u * np.abs(y)
    axes: tuple[int, int] = (0, 3)
    empty: bool = True  # whether axes of length 0 make sense
    scaled: bool = True  # whether arguments may be multiplied by 1e±6
    any_layout: bool = True  # whether the bits do not depend on memory layout (BLAS chooses its loops by it)
    shortest: int = 0

    def accepts(self, shape: tuple[int, ...]) -> bool:
        return (
            self.axes[0] <= len(shape) <= self.axes[1]
            and (self.empty or 0 not in shape)
            and all(n >= self.shortest for n in shape)
        )


def one(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple:
    return (rng.standard_normal(shape),)


def positive(rng, shape):
    return (rng.uniform(0.3, 2.0, shape),)


def partner(rng, shape):
    """A shape that broadcasts with `shape`: some axes of length 1, some leading ones missing."""
    other = [1 if rng.random() < 0.3 else n for n in shape]
    return tuple(other[rng.integers(0, len(other) + 1) :] if rng.random() < 0.4 else other)


def two(rng, shape):
    pair = rng.standard_normal(shape), rng.standard_normal(partner(rng, shape))
    return pair if rng.random() < 0.5 else pair[::-1]


def dividend_and_divisor(rng, shape):
    x, y = two(rng, shape)
    return x, np.copysign(np.abs(y) + 0.1, y)


def dividend_and_whole(rng, shape):
    """Divisors ±1, ±2 or ±4, so that ⌊x/y⌋ is the same in every precision."""
    x, y = two(rng, shape)
    return x, np.copysign(2.0 ** rng.integers(0, 3, y.shape), y)


def remainders(y, arguments, u):
    return 4 * u * (np.abs(arguments[0]) + np.abs(arguments[1]))


def base_and_exponent(rng, shape):
    x, y = two(rng, shape)
    return np.abs(x) + 0.1, y


def choice(rng, shape):
    return (rng.random(partner(rng, shape)) < 0.5, *two(rng, shape))


def value_and_bounds(rng, shape):
    x, low = two(rng, shape)
    return x, low, low + 1


def terms(y, arguments, u):
    """n u Σ|x| for a sum of at most n terms: all of x may be one sum."""
    x = arguments[0]
    return 2 * (x.size + 2) * u * np.abs(x).sum()


def of_size(y, arguments, u):
    """A few u times the largest number in play: for sums of a few terms, and for logarithms of them."""
    x = arguments[0]
    return (2 * x.size + 16) * u * (np.max(np.abs(x), initial=0) + np.log(max(x.size, 1)))


def factors(y, arguments, u):
    return 2 * (arguments[0].size + 2) * u * np.abs(y)


def powers(y, arguments, u):
    """Rounding of x^p computed within 4 u, times the rounding of log x magnified by p."""
    return 8 * u * np.abs(y)


def products(y, arguments, u):
    """(K + 2) u |X| |Y| for matrix products over at most all elements of x."""
    return 2 * (max(a.size for a in arguments) + 2) * u * np.prod([np.sqrt((a * a).sum()) for a in arguments])


def products_and_bias(y, arguments, u):
    x, w, b = arguments
    return products(y, (x, w), u) + 2 * u * np.abs(b)


def moved(y, arguments, u):
    return 0.0


def logsumexp(x, axis=None):
    x = np.asarray(x)
    top = x.max(axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        y = np.log(np.exp(x - top).sum(axis, keepdims=True)) + top
    return y.sum(axis)


def last(function):
    """The function along the last axis."""
    return lambda x: function(x, -1)


def middle(x):
    """An index for any array with at least one axis: part of the first, backwards along the last."""
    return (slice(1, None), ..., slice(None, None, -1)) if x.ndim > 1 else slice(None, None, -1)


def twice(rng, shape):
    return rng.standard_normal(shape), rng.integers(-shape[0], shape[0], size=(2, 3))


def some(rng, shape):
    return rng.standard_normal(shape), rng.random(shape) < 0.5


def same(rng, shape):
    return rng.standard_normal(shape), rng.standard_normal(shape)


def around(n):
    """(1, 2) at the first axis, none at the others."""
    return [(1, 2), *[(0, 0)] * (n - 1)]


def matrices(rng, shape):
    *batch, _, k = shape
    return rng.standard_normal(shape), rng.standard_normal((*partner(rng, batch), k, 3))


def vectors_or_layer(rng, shape):
    return rng.standard_normal(shape), rng.standard_normal((shape[-1],) if rng.random() < 0.5 else (shape[-1], 3))


def rows_and_layer(rng, shape):
    return rng.standard_normal(shape), rng.standard_normal((shape[-1], 3)), rng.standard_normal(3)


def square(rng, shape):
    """Symmetric matrices with eigenvalues between n and n + 4n or so: condition number below 10 or so."""
    n = shape[-1]
    a = rng.uniform(-1, 1, (*shape[:-2], n, n))
    return (a @ a.swapaxes(-1, -2) + max(n, 1) * np.eye(n),)


def factor(rng, shape):
    return (np.linalg.cholesky(square(rng, shape)[0]),)


def factor_and_sides(rng, shape):
    (lower,) = factor(rng, shape)
    return lower, rng.standard_normal((*lower.shape[:-1], 2))


def invertible(rng, shape):
    """Matrices with a dominant element in each row, off the diagonal: pivots are needed; condition below 10 or so."""
    n = shape[-1]
    a = rng.uniform(-1, 1, (*shape[:-2], n, n)) + 2 * n * np.eye(n)
    return (a[..., rng.permutation(n), :],)


def system(rng, shape):
    (a,) = invertible(rng, shape)
    return a, rng.standard_normal((*a.shape[:-1], 2))


def places(rng, shape):
    x, n = rng.standard_normal(shape), shape[-1]
    return x, rng.integers(-n, n, (*shape[:-1], 3))


def additions(rng, shape):
    x, indices = places(rng, shape)
    return x, indices, rng.standard_normal(indices.shape)


def replacements(rng, shape):
    """Every line gets two places of its own."""
    x = rng.standard_normal(shape)
    indices = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)[..., :2]
    return x, indices, rng.standard_normal(indices.shape)


def determined(y, arguments, u):
    """n² u |det A| times the condition number of the matrices drawn, at most 10."""
    return 20 * (arguments[0].shape[-1] + 2) ** 2 * u * np.abs(y)


def spread(y, arguments, u):
    """n u Σ x², by which also the mean's rounding comes in."""
    x = arguments[0]
    return 8 * (x.size + 4) * u * (x * x).sum()


def spread_root(y, arguments, u):
    return 8 * (arguments[0].size + 4) * u * np.sqrt((arguments[0] ** 2).sum())


def population_variance(x):
    return transcriptions.along(transcriptions.variance, x, -1)


def solved(y, arguments, u):
    """n u ‖X‖ times the condition number of the matrices drawn, at most 10 (Higham, §8.1, §10.1)."""
    return 20 * (arguments[0].shape[-1] + 2) ** 2 * u * np.abs(y).max(initial=0)


def logarithms(y, arguments, u):
    n = arguments[0].shape[-1]
    return 8 * (n + 1) ** 2 * u * np.log(5.0 * (n + 2))


ELEMENTWISE = [
    Case("add", ad.add, np.add, two),
    Case("subtract", ad.subtract, np.subtract, two),
    Case("multiply", ad.multiply, np.multiply, two),
    Case("divide", ad.divide, np.true_divide, dividend_and_divisor),
    Case("negative", ad.negative, np.negative, one),
    Case("power 2", lambda x: ad.power(x, 2), lambda x: x**2, one),
    Case("power 3", lambda x: ad.power(x, 3), lambda x: x**3, one),
    Case("power −2", lambda x: ad.power(x, -2), lambda x: 1 / (x * x), positive),
    Case("power 0.5", lambda x: ad.power(x, 0.5), np.sqrt, positive),
    Case("power", ad.power, np.power, base_and_exponent, powers, scaled=False),
    Case("exp", ad.exp, np.exp, one, scaled=False),
    Case("expm1", ad.expm1, np.expm1, one, scaled=False),
    Case("log", ad.log, np.log, positive),
    Case("log1p", ad.log1p, np.log1p, positive),
    Case("sqrt", ad.sqrt, np.sqrt, positive),
    Case("tanh", ad.tanh, np.tanh, one),
    Case("sin", ad.sin, np.sin, one, scaled=False),
    Case("cos", ad.cos, np.cos, one, scaled=False),
    Case("sinh", ad.sinh, np.sinh, one, scaled=False),
    Case("cosh", ad.cosh, np.cosh, one, scaled=False),
    Case("arctan", ad.arctan, np.arctan, one),
    Case("arctan2", ad.arctan2, np.arctan2, two),
    Case("astype", lambda x: ad.astype(ad.astype(x, np.longdouble), x.dtype), lambda x: x, one),
    Case("erf", erf, erf, one, scaled=False),
    Case("erfc", erfc, erfc, one, scaled=False),
]
SELECTIONS = [
    Case("absolute", ad.absolute, np.abs, one, moved),
    Case("remainder", ad.remainder, np.remainder, dividend_and_whole, remainders, scaled=False),
    Case("maximum", ad.maximum, np.maximum, two, moved),
    Case("minimum", ad.minimum, np.minimum, two, moved),
    Case("where", ad.where, np.where, choice, moved),
    Case("clip", ad.clip, lambda x, a, b: np.minimum(np.maximum(x, a), b), value_and_bounds, moved),
]
REDUCTIONS = [
    Case("sum", ad.sum, np.sum, one, terms),
    Case("sum, last axis", last(ad.sum), last(np.sum), one, terms, axes=(1, 3)),
    Case("mean", ad.mean, np.mean, one, terms, empty=False),
    Case("mean, last axis", last(ad.mean), last(np.mean), one, terms, axes=(1, 3), empty=False),
    Case("max", ad.max, np.max, one, moved, empty=False),
    Case("max, last axis", last(ad.max), last(np.max), one, moved, axes=(1, 3), empty=False),
    Case("min, last axis", last(ad.min), last(np.min), one, moved, axes=(1, 3), empty=False),
    Case("prod", ad.prod, np.prod, one, factors, scaled=False),
    Case("prod, last axis", last(ad.prod), last(np.prod), one, factors, axes=(1, 3), scaled=False),
    Case("logsumexp", ad.logsumexp, logsumexp, one, of_size, empty=False),
    Case("logsumexp, last axis", last(ad.logsumexp), last(logsumexp), one, of_size, axes=(1, 3), empty=False),
    Case("norm", ad.norm, lambda x: np.sqrt((x * x).sum()), one, factors),
    Case("norm, last axis", last(ad.norm), lambda x: np.sqrt((x * x).sum(-1)), one, factors, axes=(1, 3)),
    Case("cumsum", ad.cumsum, last(np.cumsum), one, terms, axes=(1, 3)),
    Case("cumprod", ad.cumprod, last(np.cumprod), one, factors, axes=(1, 3), scaled=False),
    Case("var", ad.var, lambda x: ((x - x.mean()) ** 2).mean(), one, spread, empty=False),
    Case("var, last axis", last(ad.var), population_variance, one, spread, axes=(1, 3), empty=False),
    Case(
        "var, ddof 1",
        lambda x: ad.var(x, 0, ddof=1),
        lambda x: transcriptions.along(lambda e: transcriptions.variance(e, 1), x, 0),
        one,
        spread,
        axes=(1, 3),
        empty=False,
        shortest=2,
    ),
    Case("sort", ad.sort, last(np.sort), one, moved, axes=(1, 3)),
    Case("median", ad.median, np.median, one, terms, empty=False),
    Case("median, last axis", last(ad.median), last(np.median), one, terms, axes=(1, 3), empty=False),
    Case(
        "std, last axis",
        last(ad.std),
        lambda x: np.sqrt(population_variance(x)),
        one,
        spread_root,
        axes=(1, 3),
        shortest=2,
    ),
]
MATRICES = [
    Case("matmul", ad.matmul, np.matmul, matrices, products, axes=(2, 3), any_layout=False),
    Case(
        "linear", ad.linear, lambda x, w, b: x @ w + b, rows_and_layer, products_and_bias, axes=(1, 3),
        any_layout=False,
    ),
    Case("dot", ad.dot, np.dot, vectors_or_layer, products, axes=(1, 2), any_layout=False),
    Case("outer", ad.outer, lambda x, y: x[..., :, None] * y[..., None, :], same, products, axes=(1, 2)),
    Case("trace", ad.trace, lambda x: np.trace(x, axis1=-2, axis2=-1), one, terms, axes=(2, 3)),
    Case(
        "einsum", lambda x, y: ad.einsum("...i,...i->...", x, y), lambda x, y: (x * y).sum(-1), same, products,
        axes=(1, 3), any_layout=False,
    ),
]  # fmt: skip
FACTORS = [
    Case("cholesky", ad.cholesky, transcriptions.cholesky, square, solved, axes=(2, 3)),
    Case(
        "triangular_solve", ad.triangular_solve, transcriptions.triangular_solve, factor_and_sides, solved, axes=(2, 3),
        scaled=False,
    ),
    Case(
        "cholesky_solve", ad.cholesky_solve,
        lambda l, b: transcriptions.solve(np.tril(l) @ np.tril(l).swapaxes(-1, -2), b), factor_and_sides, solved,
        axes=(2, 3), scaled=False,
    ),
    Case("solve", ad.solve, transcriptions.solve, system, solved, axes=(2, 3), scaled=False),
    Case("inv", ad.inv, transcriptions.inv, invertible, solved, axes=(2, 3), scaled=False),
    Case("det", ad.det, transcriptions.det, invertible, determined, axes=(2, 3)),
    Case(
        "slogdet", lambda a: ad.slogdet(a)[1], lambda a: np.log(np.abs(transcriptions.det(a))), invertible, logarithms,
        axes=(2, 3),
    ),
    Case(
        "log_determinant", ad.log_determinant, transcriptions.log_determinant, factor, logarithms, axes=(2, 3),
        scaled=False,
    ),
]  # fmt: skip
SHAPES = [
    Case("reshape", lambda x: ad.reshape(x, (-1, 1)), lambda x: x.reshape(-1, 1), one, moved),
    Case("transpose", ad.transpose, np.transpose, one, moved),
    Case("swapaxes", lambda x: ad.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1), one, moved, axes=(1, 3)),
    Case(
        "broadcast_to", lambda x: ad.broadcast_to(x, (2, *x.shape)), lambda x: np.stack([x, x]), one, moved
    ),
    Case("expand_dims", lambda x: ad.expand_dims(x, (0, -1)), lambda x: x[None, ..., None], one, moved),
    Case("squeeze", lambda x: ad.squeeze(x[None], 0), lambda x: x, one, moved),
    Case("tril", ad.tril, lambda x: transcriptions.triangle(x, lambda i, j: j <= i), one, moved, axes=(2, 3)),
    Case("tril, 1", lambda x: ad.tril(x, 1), lambda x: transcriptions.triangle(x, lambda i, j: j <= i + 1), one, moved,
         axes=(2, 3)),
    Case("triu, −1", lambda x: ad.triu(x, -1), lambda x: transcriptions.triangle(x, lambda i, j: j >= i - 1), one,
         moved, axes=(2, 3)),
    Case("diagonal", ad.diagonal, lambda x: transcriptions.diagonal(x, 0), one, moved, axes=(2, 3)),
    Case("diagonal, 1", lambda x: ad.diagonal(x, 1), lambda x: transcriptions.diagonal(x, 1), one, moved, axes=(2, 3)),
    Case("diagonal, −2", lambda x: ad.diagonal(x, -2), lambda x: transcriptions.diagonal(x, -2), one, moved,
         axes=(2, 3)),
    Case("flip", ad.flip, np.flip, one, moved),
    Case("roll", lambda x: ad.roll(x, 2, -1), lambda x: np.roll(x, 2, -1), one, moved, axes=(1, 3)),
    Case(
        "concatenate", lambda x, y: ad.concatenate([x, y], -1), lambda x, y: np.concatenate([x, y], -1), same, moved,
        axes=(1, 3),
    ),
    Case("stack", lambda x, y: ad.stack([x, y], -1), lambda x, y: np.stack([x, y], -1), same, moved),
    Case("hstack", lambda x, y: ad.hstack([x, y]), lambda x, y: np.hstack([x, y]), same, moved),
    Case("vstack", lambda x, y: ad.vstack([x, y]), lambda x, y: np.vstack([x, y]), same, moved),
    Case("diag", ad.diag, np.diag, one, moved, axes=(1, 2)),
    Case("diag, −2", lambda x: ad.diag(x, -2), lambda x: np.diag(x, -2), one, moved, axes=(1, 2)),
    Case("split", lambda x: ad.split(x, [1], 0)[1], lambda x: x[1:], one, moved, axes=(1, 3), shortest=1),
    Case("pad", lambda x: ad.pad(x, around(x.ndim)), lambda x: np.pad(x, around(x.ndim)), one, moved, axes=(1, 3)),
    Case(
        "pad, circular", lambda x: ad.pad(x, around(x.ndim), mode="circular"),
        lambda x: np.pad(x, around(x.ndim), mode="wrap"), one, moved, axes=(1, 3), shortest=2,
    ),
    Case(
        "pad, reflect", lambda x: ad.pad(x, around(x.ndim), mode="reflect"),
        lambda x: np.pad(x, around(x.ndim), mode="reflect"), one, moved, axes=(1, 3), shortest=3,
    ),
    Case(
        "pad, replicate", lambda x: ad.pad(x, around(x.ndim), mode="replicate"),
        lambda x: np.pad(x, around(x.ndim), mode="edge"), one, moved, axes=(1, 3), shortest=1,
    ),
    Case("getitem", lambda x: ad.getitem(x, middle(x)), lambda x: x[middle(x)], one, moved, axes=(1, 3)),
    Case("getitem, integers", ad.getitem, lambda x, i: x[i], twice, moved, axes=(1, 3), shortest=1),
    Case("getitem, a mask", ad.getitem, lambda x, m: x[m], some, moved),
    Case("take", ad.take, lambda x, i: np.take(x, i, 0), twice, moved, axes=(1, 3), shortest=1),
    Case(
        "take_along_axis", ad.take_along_axis, lambda x, i: transcriptions.take_along_axis(x, i, -1), places, moved,
        axes=(1, 3), shortest=1,
    ),
    Case(
        "scatter, add", ad.scatter, lambda x, i, u: transcriptions.scatter(x, i, u, -1, "add"), additions,
        lambda y, arguments, u: 4 * u * (np.abs(y) + 4 * np.abs(arguments[2]).sum() + np.abs(arguments[0])),
        axes=(1, 3), shortest=1,
    ),
    Case(
        "scatter, put", lambda x, i, u: ad.scatter(x, i, u, mode="put"),
        lambda x, i, u: transcriptions.scatter(x, i, u, -1, "put"), replacements, moved, axes=(1, 3), shortest=1,
    ),
]  # fmt: skip

CASES = [*ELEMENTWISE, *SELECTIONS, *REDUCTIONS, *MATRICES, *FACTORS, *SHAPES]


def cast(argument: Any, dtype: Any, scale: float = 1.0) -> Any:
    """A floating argument in another precision, scaled; masks and indices as they are."""
    argument = np.asarray(argument)
    return np.asarray(argument * scale, dtype) if argument.dtype.kind in "fc" else argument
