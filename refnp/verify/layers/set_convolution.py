"""Set convolution, all pairs at once, and its kernels. No framework offers it.

In dx dimensions s = |d|²/ℓ² takes dx + 4 roundings on the way of each term: a subtraction (the square makes two of it),
the square, dx − 1 sums, ℓ², and the division. A kernel turns the relative error of s into |s k′(s)| of its own.
"""

import numpy as np

from refnp import layers
from refnp.layers.set_convolutions import kernels
from refnp.numbers import rounding
from refnp.numbers.rounding import Rounded, arranged, constant, contract, exact, where
from refnp.verify.case import (
    Case,
    GradientInputs,
    Layer,
    Without,
    exact_gradient,
    generator,
    gradient_of,
    module_gradient,
    normal,
    uniform,
)


def eq(s):
    """k = exp(−s/2), and so is −2k′."""
    k = rounding.exp(-s.moved(lambda a: a / 2))  # to halve a number rounds nothing
    return k, k


def matern_32(s):
    """k = (1 + a) exp(−a) with a = √(3s): dk/da = −a exp(−a), and −2k′ = 3 exp(−a)."""
    a = rounding.sqrt(s * 3)
    return evaluated(lambda a: 1 + a, lambda a: a, a), rounding.exp(-a) * 3


def matern_52(s):
    """k = (1 + a + a²/3) exp(−a) with a = √(5s): dk/da = −(a/3)(1 + a) exp(−a), and −2k′ = (5/3)(1 + a) exp(−a)."""
    a = rounding.sqrt(s * 5)
    k = evaluated(lambda a: 1 + a + a**2 / 3, lambda a: a * (1 + a) / 3, a)
    return k, (a + 1) * rounding.exp(-a) * 5 / 3


def evaluated(polynomial, factor, a):
    """k = polynomial(a) exp(−a), whose slope is −factor(a) exp(−a).

    It rounds 4 units in the last place for exp, and 7 times for the polynomial and the product. Within δ of a the
    factor is largest at a + δ, and exp(−a) at a − δ. Where exp(−a) underflows, that is multiplied by the polynomial.
    """
    value = polynomial(a.value) * rounding.exp(-a).value
    steepest = factor(a.value + a.off) * rounding.exp(exact(-np.maximum(a.value - a.off, 0))).value
    k = rounding.function(value, steepest, a, units=rounding.ELEMENTARY + 7)
    return Rounded(k.value, k.error, k.lost + polynomial(a.value + a.off), k.arithmetic)


def set_convolution(
    target_x, context_x, context_y, length_scale, *, mask=None, kernel=eq, density=True, divide=False, eps=1e-8
):
    """z_n = Σ_m [1, y_m] k(s_nm), s = |x_n − x_m|²/ℓ²; with `divide`, all but the density ρ over ρ + ε.

    v̄_m = Σ_n z̄_n k;   x̄_n = −Σ_m w_nm (x_n − x_m)/ℓ² with w = −2 Σ_c z̄_nc v_mc k′, x̄_m = −x̄_n's terms;   ℓ̄ = Σ w s/ℓ.
    """
    present = np.ones((), bool) if mask is None else mask[..., None]
    steps = target_x[..., :, None, :] - where(present, context_x, 0)[..., None, :, :]  # (..., N, M, dx)
    flags = int(density)
    v = joined(exact(np.ones((*context_y.shape[:-1], flags))), context_y)  # (..., M, C)
    v = where(present, v, 0)
    square = length_scale * length_scale  # () or (C,)
    s = (steps * steps).sum((-1,))[..., None] / square  # (..., N, M, C), or (..., N, M, 1)
    k, fall = (f.moved(lambda a: np.broadcast_to(a, (*a.shape[:-1], v.shape[-1]))) for f in kernel(s))
    z = contract("...nmc,...mc->...nc", k, v)
    means = z[..., 1:]
    if divide:
        shifted = z[..., :1] + constant(eps)
        means = means / shifted

    def pullback(g):
        if divide:
            rest = g[..., 1:] / shifted
            g = joined(g[..., :1] - (rest * means).sum((-1,), keepdims=True), rest)
        pairs = (g[..., :, None, :] * v[..., None, :, :]) * fall  # (..., N, M, C)   −2 z̄ v k′
        along = (pairs / square).sum((-1,))[..., None] * steps  # (..., N, M, dx)
        y_bar = where(present, contract("...nmc,...nc->...mc", k, g), 0)[..., flags:]
        scale_bar = pairs * s / length_scale
        axes = tuple(range(len(s.shape) - (1 if length_scale.shape else 0)))
        return -along.sum((-2,)), along.sum((-3,)), y_bar, scale_bar.sum(axes)

    return (joined(z[..., :1], means) if divide else z), pullback


def joined(x, y):
    """x and y side by side along the last axis."""
    return arranged(lambda *arrays: np.concatenate(arrays, -1), x, y)


SET_CONVOLUTION = Layer("set_convolution", layers.set_convolution, set_convolution)


def cases() -> list[Case]:
    """All cases of this page."""

    def case(variant, *, targets=7, points=5, axes=1, channels=1, scale=0.4, reach=1.0, **options):
        inputs = {
            "target_x": uniform(targets, axes, low=-reach, high=reach),
            "context_x": uniform(points, axes, low=-reach, high=reach),
            "context_y": normal(points, channels),
            "length_scale": np.asarray(scale),
        }
        return Case(SET_CONVOLUTION, variant, inputs, options)

    return [
        case("1-D"),
        case("2-D", axes=2),
        case("3-D, two channels", axes=3, channels=2),
        case("a length scale for each channel", channels=2, scale=[0.2, 0.5, 1.0]),
        case("divided by the density", channels=2, divide=True),
        case("one point", points=1),
        case("empty set", points=0),
        case("far points", reach=8.0),
        case("shifted by 1e3", scale=0.7, reach=1.0e3),
    ]


WITHOUT = tuple(
    Without(what, ("Grid", "GridOptions"), "places are numbered by whole numbers, which have no gradient")
    for what in ("equation", "gradient inputs")
)


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Set convolution in 1 to 3 dimensions: plain, divided, masked, truncated, with other kernels, as a module."""
    rng = generator(seed, skip=2338)
    line, plane, space = (_points(rng, axes) for axes in (1, 2, 3))
    scale, scales = np.array(0.7), np.array([0.5, 0.9, 0.7])
    mask = np.array([[True, False, True, True, False], [True, True, True, False, True]])
    wide = rng.uniform(0, 40, (30, 1)), rng.uniform(0, 40, (20, 1)), rng.normal(size=(20, 2))
    module = layers.SetConvolution(2, 0.6, divide=True)
    function = layers.set_convolution
    return [
        gradient_of("set_convolution", function, *line, scale),
        gradient_of("set_convolution, 2-D", function, *plane, scale),
        gradient_of("set_convolution, 3-D", function, *space, scale),
        gradient_of("set_convolution, a length scale per channel", function, *plane, scales),
        gradient_of("set_convolution, without density", function, *line, scales[1:], density=False),
        gradient_of("set_convolution, divided", function, *line, scales, divide=True),
        gradient_of("set_convolution, masked", function, *line, scale, mask=mask, divide=True),
        gradient_of("set_convolution, truncated", function, *wide, scale, method="truncated"),
        gradient_of("set_convolution, Matérn-3/2", function, *plane, scale, kernel=kernels.matern_32),
        gradient_of("set_convolution, Matérn-5/2", function, *plane, scale, kernel=kernels.matern_52),
        exact_gradient("set_convolution, far from all points", function, set_convolution, *FAR, np.array(1.0)),
        module_gradient("SetConvolution", module, *line),
    ]


FAR = np.array([[0.0], [9.0], [-30.0]]), np.array([[0.5], [-1.0]]), np.array([[2.0], [-3.0]])


def _points(rng: np.random.Generator, axes: int) -> tuple:
    """N = 4 targets and M = 5 context points with 2 channels, twice."""
    return rng.normal(size=(2, 4, axes)), rng.normal(size=(2, 5, axes)), rng.normal(size=(2, 5, 2))
