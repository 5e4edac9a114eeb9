"""Student's t: a number with heavier tails than a normal one has, for errors among which there are outliers.

    p(y) = Γ((ν + 1)/2) / (Γ(ν/2) √(νπ) σ) · (1 + z²/ν)^(−(ν + 1)/2),        z = (y − μ)/σ

ν are the degrees of freedom: with ν = 1 it is Cauchy's distribution, as ν → ∞ the normal one. Of Γ only one thing is
needed, which is small where ν is large and is never a difference of large logarithms:

    s(a) = log Γ(a + ½) − log Γ(a) − ½ log a = ½ Σ_{j≥0} log(1 − 1/(2a + 2j + 1)²)

    log p = s(ν/2) − ½ log 2π − log σ − ½ (ν + 1) log(1 + z²/ν)

From a = 24 on s is an asymptotic series in 1/a, the same for all precisions; below, terms of the sum lead there.
Source: Student (1908); Abramowitz & Stegun (1964), 6.1.40 (the series of log Γ).
Words: layers/__init__.py.   Transcription: tests/transcriptions/probability.py.
"""

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.errors import explained
from refnp.autograd.pages import page
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import Distribution
from refnp.layers.loss import HALF_LOG_TWO_PI, counts, magnitude
from refnp.layers.masked_reductions import check_positive, numbers
from refnp.numbers.parts import part
from refnp.numbers.words import constant, less_log1p

FAR = 24  # where the series begins: eight terms of it leave 1e-24
# (2^(−k) − 2) B_(k+1) / (k (k + 1)) for k = 1, 3, …, 15, with Bernoulli's numbers B, as numerator and denominator
SERIES = (
    (-1, 8), (1, 192), (-1, 640), (17, 14336), (-31, 18432), (691, 180224), (-5461, 425984), (929569, 15728640),
)  # fmt: skip


@page(
    "y to (*S), degrees_of_freedom positive to (*S), location to (*S), scale positive to (*S) → (*S)",
    mask="boolean to (*S)? hides (y, degrees_of_freedom, location, scale), True = counts",
)
def student_t_log_prob(y, degrees_of_freedom, location, scale, *, mask=None):
    """log p(y) = s(ν/2) − ½ log 2π − log σ − ½ (ν + 1) log(1 + z²/ν) of every element, z = (y − μ)/σ.

    Shapes: y, degrees_of_freedom ν, location μ and scale σ broadcast, one of them to the shape of all; `mask` too,
    True = counts; elsewhere 0 → that shape.
    Raises ValueError for a ν or a σ that counts and is not positive and finite, or for shapes that do not fit,
    TypeError for a mask that is not boolean.
    VJP, with t = z²/ν and f(t) = log(1 + t) − t/(1 + t), which near 0 is summed as a series:

        ȳ = −ℓ̄ (ν + 1) z/((ν + z²) σ)     μ̄ = −ȳ     σ̄ = ℓ̄ ν (z − 1)(z + 1)/((ν + z²) σ)
        ν̄ = ½ ℓ̄ (s′(ν/2) − f(t) + (t/ν)/(1 + t))
    """
    present = counts(mask, y, degrees_of_freedom, location, scale)  # (*S)
    nu, scale = np.where(present, degrees_of_freedom, 1), np.where(present, scale, 1)  # (*S)
    z = np.where(present, y - location, 0) / scale  # (*S)
    far = (z * z).real > nu.real
    at = np.where(far, z, 1)  # (*S)   z where it is far
    small = np.where(far, nu / at / at, z / nu * z)  # (*S)   t = z²/ν, or 1/t where it is above 1
    tiny = far & (small.real < 1e-30)
    log_small = np.where(tiny, np.log(nu) - 2 * np.log(magnitude(at)), np.log(np.where(far & ~tiny, small, 1)))
    log_sum = np.log1p(small) - np.where(far, log_small, 0)  # (*S)   log(1 + t)
    s, slope, _ = gamma_ratio(nu / 2)
    value = s - HALF_LOG_TWO_PI - np.log(scale) - (nu + 1) / 2 * log_sum  # (*S)

    def vjp(bar):
        bar = np.where(present, bar, 0)
        below = 1 + small
        share = np.where(far, 1, small) / below  # (*S)   t/(1 + t)
        over = np.where(far, 1 / at, z / nu) / below  # (*S)   z/(ν + z²)
        y_bar = -(bar * ((nu + 1) * over / scale))  # (*S)
        minus = ((z - 1) / at) * ((z + 1) / np.where(far, z, nu)) / below  # (*S)   (z² − 1)/(ν + z²)
        t = np.where(far, 0, small)
        f = np.where(far, log_sum - share, t * share - less_log1p(t))  # (*S)   f(t)
        nu_bar = bar * (slope - f + share / nu) / 2  # (*S)
        scale_bar = bar * (nu * minus / scale)  # (*S)
        return y_bar, nu_bar, -y_bar, scale_bar

    return np.where(present, value, 0), vjp


@page("degrees_of_freedom positive (...), scale positive (...) → (...)")
def student_t_entropy(degrees_of_freedom, scale):
    """H = ½ (ν + 1) (s′(ν/2) + 1/ν) − s(ν/2) + ½ log 2π + log σ.

    Shapes: both broadcast → that shape.   Raises ValueError for what is not positive and finite.
    VJP: ν̄ = H̄ (¼ (ν + 1) s″(ν/2) − 1/(2ν²)), σ̄ = H̄/σ.
    """
    nu = degrees_of_freedom
    s, slope, curvature = gamma_ratio(nu / 2)
    value = (nu + 1) / 2 * (slope + 1 / nu) - s + HALF_LOG_TWO_PI + np.log(scale)  # (...)

    def vjp(bar):
        nu_bar, scale_bar = bar * ((1 + 1 / nu) * curvature - 1 / nu / nu) / 2, bar / scale  # (...)
        return nu_bar, scale_bar

    return value, vjp


@part
def gamma_ratio(a):
    """s(a), s′(a) and a s″(a): the first terms of the sum, and the series from there on; none of them cancels.

    s = s(a + n) + ½ Σ_{j<n} log(1 − ¼/(a_j + ½)²)        a_j = a + j
    s′ = s′(a + n) + ¼ Σ 1/c_j        s″ = s″(a + n) − ¼ Σ (1/a_j + 1/(a_j + ½) + 1/(a_j + 1))/c_j
    with c_j = a_j (a_j + ½)(a_j + 1). For a large a s″, as 1/a³, is out of range where a s″ is not.
    """
    inverse = 1 / (a + FAR)
    square = inverse * inverse
    s = slope = curvature = 0
    for order, (above, below) in reversed([*zip(range(1, 16, 2), SERIES, strict=True)]):
        c = (constant(above) / below).like(a)
        s, slope, curvature = s * square + c, slope * square - order * c, curvature * square + order * (order + 1) * c
    s, slope, curvature = s * inverse, slope * square, curvature * square * (a * inverse)
    for j in range(FAR):
        b = a + j
        half = b + 0.5
        cube = b * half * (b + 1)
        s = s + log_of_term(b, half) / 2
        slope = slope + 0.25 / cube
        curvature = curvature - 0.25 / cube * (a / b + a / half + a / (b + 1))
    return s, slope, curvature


@part
def log_of_term(b, half):
    """log(1 − ¼/(b + ½)²) = log(b (b + 1)/(b + ½)²), the second where the first is of nearly 0."""
    near = half.real < 0.75
    apart = np.log(np.where(near, b, 1)) + np.log1p(b) - 2 * np.log(half)
    return np.where(near, apart, np.log1p(-0.25 / np.where(near, 1, half * half)))


@explained
class StudentT(Distribution):
    """Numbers with Student's t distribution, independent of each other: ν `degrees_of_freedom`, `location`, `scale`.

    Shapes: all three broadcast; `shape` is what they broadcast to. The scale is not the standard deviation, which is
    σ √(ν/(ν − 2)).   Raises ValueError for shapes, or a ν or σ zero, negative or infinite; NaN as `LowRankNormal`.
    Samples: y = μ + σ ε, ε of ν degrees of freedom and of `shape`.   VJP: μ̄ = ȳ, σ̄ = ȳ ε, ε̄ = ȳ σ; ν none.
    Elsewhere: torch.distributions.StudentT takes (df, loc, scale), scipy.stats.t the same.
    """

    def __init__(self, degrees_of_freedom: ArrayLike, location: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        given = degrees_of_freedom, location, scale
        self.degrees_of_freedom, self.location, self.scale = nu, mu, sigma = numbers(*given)
        for name, value in (("degrees_of_freedom", nu), ("scale", sigma)):
            check_positive("StudentT", name, np.where(np.isnan(raw(value)), 1, raw(value)))
        self._keep(given, degrees_of_freedom=nu, location=mu, scale=sigma)

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y) of every element, 0 where `mask` (True = counts) is False: `student_t_log_prob`, and its errors."""
        return student_t_log_prob(y, *self._parameters, mask=mask)

    def entropy(self) -> Array | Tensor:
        """E[−log p(y)], of `shape`."""
        return ag.broadcast_to(student_t_entropy(self.degrees_of_freedom, self.scale), self.shape)

    @property
    def mean(self) -> Array | Tensor:
        """μ where ν > 1; NaN where ν ≤ 1, for the integral does not exist there."""
        exists = np.broadcast_to(raw(self.degrees_of_freedom).real > 1, self.shape)
        return ag.where(exists, ag.broadcast_to(self.location, self.shape), np.nan)

    @property
    def std(self) -> Array | Tensor:
        """σ √(ν/(ν − 2)) where ν > 2; ∞ where 1 < ν ≤ 2, NaN where ν ≤ 1."""
        nu: Any = ag.broadcast_to(self.degrees_of_freedom, self.shape)
        finite = raw(nu).real > 2
        shown = ag.where(finite, nu, 3.0)
        return ag.where(finite, self.scale * ag.sqrt(shown / (shown - 2.0)), np.where(raw(nu).real > 1, np.inf, np.nan))

    def _drawn(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        nu = np.asarray(raw(self.degrees_of_freedom).real, np.float64)
        return np.asarray(rng.standard_t(nu, shape))

    def _from(self, noise: Any) -> Array | Tensor:
        return self.location + self.scale * noise
