"""Kernels and Gaussian process regression as the textbooks print them, index by index, with 50 digits.

The posterior is the one with an inverse, μ = K_tc K_cc⁻¹ y, Σ = K_tt − K_tc K_cc⁻¹ K_ct (Rasmussen & Williams, 2.23).
"""

import mpmath
import numpy as np
from mpmath import mpf

from tests.transcriptions.probability import DIGITS, exactly, wide


def distance(x, z, length_scale):
    """|x − z|/ℓ of two points."""
    return mpmath.sqrt(mpmath.fsum((a - b) ** 2 for a, b in zip(x, z, strict=True))) / length_scale


def eq(x, z, length_scale, scale):
    """s² exp(−½ r²)."""
    return scale**2 * mpmath.exp(-(distance(x, z, length_scale) ** 2) / 2)


def matern12(x, z, length_scale, scale):
    """s² exp(−r)."""
    return scale**2 * mpmath.exp(-distance(x, z, length_scale))


def matern32(x, z, length_scale, scale):
    """s² (1 + √3 r) exp(−√3 r)."""
    r = distance(x, z, length_scale)
    return scale**2 * (1 + mpmath.sqrt(3) * r) * mpmath.exp(-mpmath.sqrt(3) * r)


def matern52(x, z, length_scale, scale):
    """s² (1 + √5 r + 5 r²/3) exp(−√5 r)."""
    r = distance(x, z, length_scale)
    return scale**2 * (1 + mpmath.sqrt(5) * r + 5 * r**2 / 3) * mpmath.exp(-mpmath.sqrt(5) * r)


def periodic(x, z, period, length_scale, scale):
    """s² exp(−2 Σ_i sin²(π d_i/p)/ℓ²)."""
    sines = (mpmath.sin(mpmath.pi * (a - b) / period) for a, b in zip(x, z, strict=True))
    return scale**2 * mpmath.exp(-2 * mpmath.fsum(s**2 for s in sines) / length_scale**2)


def values(formula, x, z, *parameters):
    """The formula for every pair of points x (N, dx), z (M, dx), with exact arguments: (N, M)."""
    result = np.zeros((len(x), len(z)), np.longdouble)
    with mpmath.workdps(DIGITS):
        numbers = [exactly(p) for p in parameters]
        for i, j in np.ndindex(result.shape):
            result[i, j] = wide(formula([exactly(a) for a in x[i]], [exactly(b) for b in z[j]], *numbers))
    return result


@mpmath.workdps(DIGITS)
def posterior(formula, parameters, noise_variance, context_x, context_y, target_x):
    """Mean (T, dy) and covariance (T, T) of the targets of one task, mpmath matrices; noise included."""
    numbers = [exactly(p) for p in parameters]

    def gram(a, b):
        return mpmath.matrix(
            [[formula([exactly(v) for v in p], [exactly(v) for v in q], *numbers) for q in b] for p in a]
        )

    def noise(n):
        return mpmath.eye(n) * exactly(noise_variance)

    covariance = gram(target_x, target_x) + noise(len(target_x))
    outputs = context_y.shape[-1]
    if not len(context_x):
        return mpmath.zeros(len(target_x), outputs), covariance
    y = mpmath.matrix([[exactly(v) for v in row] for row in context_y])
    inverse = mpmath.inverse(gram(context_x, context_x) + noise(len(context_x)))
    across = gram(target_x, context_x)
    return across * inverse * y, covariance - across * inverse * across.T


@mpmath.workdps(DIGITS)
def figures(mean, covariance, y, prediction_mean, prediction_std):
    """Of one task: marginal and joint log-likelihood, diagonal KL, KL to a prediction; each per target, as printed.

    The KLs are ½ (tr(S⁻¹ Σ) + (m − μ)ᵀ S⁻¹ (m − μ) − T + log(det S/det Σ)), added up over the outputs.
    """
    targets, outputs = y.shape
    two_pi = 2 * mpmath.pi
    inverse, determinant = mpmath.inverse(covariance), mpmath.det(covariance)
    diagonal = [covariance[t, t] for t in range(targets)]

    def kl(means, variances, o):
        terms = (
            (diagonal[t] + (means[t] - mean[t, o]) ** 2) / variances[t] - 1 + mpmath.log(variances[t])
            for t in range(targets)
        )
        return (mpmath.fsum(terms) - mpmath.log(determinant)) / 2

    totals = [mpf(0)] * 4
    for o in range(outputs):
        r = mpmath.matrix([exactly(y[t, o]) - mean[t, o] for t in range(targets)])
        totals[0] -= mpmath.fsum(r[t] ** 2 / diagonal[t] + mpmath.log(two_pi * diagonal[t]) for t in range(targets)) / 2
        totals[1] -= ((r.T * inverse * r)[0] + mpmath.log(determinant) + targets * mpmath.log(two_pi)) / 2
        totals[2] += kl([mean[t, o] for t in range(targets)], diagonal, o)
        means = [exactly(prediction_mean[t, o]) for t in range(targets)]
        totals[3] += kl(means, [exactly(prediction_std[t, o]) ** 2 for t in range(targets)], o)
    return [wide(total / targets) for total in totals]
