"""Kernels of two sets of points, and the exact posterior of a Gaussian process with the EQ kernel.

    y(x) = f(x) + σ ε, f ~ GP(0, k)        A = K + σ² I = L Lᵀ        K_* the kernel of targets and contexts

For `refnp.judge` alone. refnp's own are in `refnp.tasks`, for tasks and in NumPy; here they are differentiated as well.
"""

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.primitives import raw
from refnp.layers.density import multivariate_normal_log_prob
from refnp.verify.case import Case, normal
from refnp.verify.judged_pages import of_tape

POINTS = "x (N, dx), z (M, dx) → (N, M)"


def square_of(x, z, length_scale):
    """r² of all pairs, (N, M)."""
    d = (ad.expand_dims(x, 1) - ad.expand_dims(z, 0)) / length_scale
    return ad.sum(d * d, -1)


def root_of(square):
    """√ with a slope of 0 at 0."""
    zero = raw(square).real == 0
    return ad.where(zero, 0.0, ad.sqrt(ad.where(zero, 1.0, square)))


@takes_unchecked(POINTS, length_scale="positive", scale="positive")
def eq(x, z, *, length_scale=1.0, scale=1.0):
    """k(x, z) = s² exp(−|x − z|²/2ℓ²), ℓ the `length_scale`, s the `scale`, a deviation; also called RBF.

    Shapes: x (N, dx), z (M, dx) → (N, M).
    """
    return ad.exp(square_of(x, z, length_scale) * -0.5) * scale**2


@takes_unchecked(POINTS, length_scale="positive", scale="positive")
def matern12(x, z, *, length_scale=1.0, scale=1.0):
    """k(x, z) = s² e^(−r), r = |x − z|/ℓ, ℓ the `length_scale`, s the `scale`.   Shapes: (N, dx), (M, dx) → (N, M)."""
    return ad.exp(-root_of(square_of(x, z, length_scale))) * scale**2


@takes_unchecked(POINTS, length_scale="positive", scale="positive")
def matern32(x, z, *, length_scale=1.0, scale=1.0):
    """k(x, z) = s² (1 + √3 r) e^(−√3 r), r = |x − z|/ℓ, ℓ the `length_scale`, s the `scale`.

    Shapes: x (N, dx), z (M, dx) → (N, M).
    """
    a = root_of(square_of(x, z, length_scale) * 3)
    return (1 + a) * ad.exp(-a) * scale**2


@takes_unchecked(POINTS, length_scale="positive", scale="positive")
def matern52(x, z, *, length_scale=1.0, scale=1.0):
    """k(x, z) = s² (1 + √5 r + 5 r²/3) e^(−√5 r), r = |x − z|/ℓ, ℓ the `length_scale`, s the `scale`.

    Shapes: x (N, dx), z (M, dx) → (N, M).
    """
    a = root_of(square_of(x, z, length_scale) * 5)
    return (1 + a + a * a / 3) * ad.exp(-a) * scale**2


def factor(context_x, length_scale, scale, noise_std):
    """L of K + σ² I."""
    covariance = eq(context_x, context_x, length_scale=length_scale, scale=scale)
    return ad.cholesky(covariance + noise_std**2 * np.eye(len(raw(context_x)), dtype=raw(context_x).dtype))


def posterior_mean(context_x, context_y, target_x, *, length_scale=1.0, scale=1.0, noise_std):
    """μ = K_* (K + σ² I)⁻¹ y: the mean of f at the targets, given noisy contexts; σ the `noise_std`, k the EQ kernel.

    Shapes: context_x (N, dx), context_y (N, dy), target_x (M, dx) → (M, dy).
    Source: Rasmussen & Williams (2006), eq. 2.23.
    """
    lower = factor(context_x, length_scale, scale, noise_std)
    weights = ad.cholesky_solve(lower, context_y)
    return ad.matmul(eq(target_x, context_x, length_scale=length_scale, scale=scale), weights)


def posterior_covariance(context_x, target_x, *, length_scale=1.0, scale=1.0, noise_std):
    """Σ = K_** − K_* (K + σ² I)⁻¹ K_*ᵀ: the covariance of f, without noise, at the targets; σ the `noise_std`.

    Shapes: context_x (N, dx), target_x (M, dx) → (M, M).
    Source: Rasmussen & Williams (2006), eq. 2.24.
    """
    lower = factor(context_x, length_scale, scale, noise_std)
    v = ad.triangular_solve(lower, eq(context_x, target_x, length_scale=length_scale, scale=scale))
    prior = eq(target_x, target_x, length_scale=length_scale, scale=scale)
    return prior - ad.matmul(ad.swapaxes(v, 0, 1), v)


def log_marginal_likelihood(context_x, context_y, *, length_scale=1.0, scale=1.0, noise_std):
    """log N(y; 0, K + σ² I) = −½ yᵀ (K + σ² I)⁻¹ y − Σ_i log L_ii − ½ N log 2π; σ the `noise_std`, k the EQ kernel.

    Shapes: context_x (N, dx), context_y (N,) → ().
    Source: Rasmussen & Williams (2006), eq. 2.30.
    """
    lower = factor(context_x, length_scale, scale, noise_std)
    return multivariate_normal_log_prob(context_y, 0 * context_y, lower)


EQ = of_tape(eq, name="eq_kernel")
MATERN_12 = of_tape(matern12, name="matern_12_kernel")
MATERN_32 = of_tape(matern32, name="matern_32_kernel")
MATERN_52 = of_tape(matern52, name="matern_52_kernel")
MEAN = of_tape(posterior_mean, name="gp_posterior_mean")
COVARIANCE = of_tape(posterior_covariance, name="gp_posterior_covariance")
LIKELIHOOD = of_tape(log_marginal_likelihood, name="gp_log_marginal_likelihood")


def cases() -> list[Case]:
    """Points of one and more dimensions, near each other and far from 0, one that stands in both sets; few contexts."""
    pairs = {"x": normal(4, 2), "z": normal(5, 2)}
    line = np.array([[-1.2], [-0.5], [0.1], [0.9], [1.4]])
    shared = {"x": line[:3], "z": line[1:]}
    near = {"x": 100 + line, "z": 100 + line[::-1] + 0.03}
    known = {"context_x": line, "context_y": normal(5, 2)}
    found = []
    for layer in (EQ, MATERN_12, MATERN_32, MATERN_52):
        found += [
            Case(layer, "ordinary", pairs),
            Case(layer, "length scale 0.4, scale 1.5", pairs, {"length_scale": 0.4, "scale": 1.5}),
            Case(layer, "near each other, far from 0", near, {"length_scale": 0.5}),
            Case(layer, "a point in both", shared, gradients=() if layer is MATERN_12 else None),
        ]
    targets = {"target_x": np.array([[-2.0], [0.1], [0.5], [3.0]])}
    for variant, options in (
        ("noise 0.3", {"noise_std": 0.3}),
        ("noise 0.5, length scale 0.7, scale 1.5", {"noise_std": 0.5, "length_scale": 0.7, "scale": 1.5}),
    ):
        own = {"context_x": line, "context_y": normal(5)}
        found += [
            Case(MEAN, variant, known | targets, options, gradients=()),
            Case(COVARIANCE, variant, {"context_x": line} | targets, options, gradients=()),
            Case(LIKELIHOOD, variant, own, options, gradients=()),
        ]
    return found
