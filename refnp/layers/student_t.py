"""Student's t: a number with heavier tails than a normal one has, for errors among which there are outliers.

    p(y) = Γ((ν + 1)/2) / (Γ(ν/2) √(νπ) σ) · (1 + z²/ν)^(−(ν + 1)/2),        z = (y − μ)/σ

ν are the degrees of freedom: with ν = 1 it is Cauchy's distribution, as ν → ∞ the normal one. Of Γ only one thing is
needed, which is small where ν is large and is never a difference of large logarithms:

    s(a) = log Γ(a + ½) − log Γ(a) − ½ log a = ½ Σ_{j≥0} log(1 − 1/(2a + 2j + 1)²)

    log p = s(ν/2) − ½ log 2π − log σ − ½ (ν + 1) log(1 + z²/ν)

From a = 24 on s is an asymptotic series in 1/a, the same for all precisions; below, terms of the sum lead there.
Source: Student (1908); Abramowitz & Stegun (1964), 6.1.40 (the series of log Γ).
Transcription: tests/transcriptions/probability.py.
"""

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.declaration import takes
from refnp.autograd.elementary import log1p_of
from refnp.autograd.errors import explained
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import check_generator
from refnp.layers.masked_reductions import (
    HALF_LOG_TWO_PI,
    broadcast_shape,
    check_positive,
    counts,
    masked,
    numbers,
    product,
)

FAR = 24  # where the series begins: eight terms of it leave 1e-24
# (2^(−k) − 2) B_(k+1) / (k (k + 1)) for k = 1, 3, …, 15, with Bernoulli's numbers B, as numerator and denominator
SERIES = (
    (-1, 8), (1, 192), (-1, 640), (17, 14336), (-31, 18432), (691, 180224), (-5461, 425984), (929569, 15728640),
)  # fmt: skip


@primitive
@takes(
    "y to (*S), degrees_of_freedom positive to (*S), location to (*S), scale positive to (*S) → (*S)",
    mask="boolean to (*S)? hides (y, location), True = counts",
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
    name, arguments = "student_t_log_prob", (y, degrees_of_freedom, location, scale)
    mask = counts(mask, *arguments)
    y, nu, location, scale = (masked(mask, a, n) for a, n in zip(numbers(*arguments), (0, 1, 0, 1), strict=True))
    check_positive(name, "degrees_of_freedom", nu)
    check_positive(name, "scale", scale)
    z = np.asarray((y - location) / scale)
    root = np.sqrt(nu)
    r = z / root
    far = np.abs(r.real) > 1
    inner, outer = np.where(far, 0, r), np.where(far, r, 1)
    outer = np.where(outer.real < 0, -outer, outer)  # |r|
    log_sum = np.where(far, 2 * np.log(outer) + log1p_of(1 / outer / outer), log1p_of(inner * inner))  # log(1 + t)
    constant = HALF_LOG_TWO_PI.astype(z.real.dtype)
    value = s_of(0.5 * nu)[0] - constant - np.log(scale) - 0.5 * (nu + 1) * log_sum
    share = np.where(far, 1 / (1 + 1 / outer / outer), inner * inner / (1 + inner * inner))  # t/(1 + t)
    rest = np.where(far, 1 / outer / outer / (1 + 1 / outer / outer), 1 / (1 + inner * inner))  # 1/(1 + t)

    def vjp(bar):
        bar = masked(mask, bar, 0)
        over = np.where(far, share / np.where(far, r, 1), r * rest)  # r/(1 + t)
        y_bar = -product(bar, (nu + 1) / root * over / scale)
        minus = np.where(far, share - rest / nu, rest * (z - 1) * (z + 1) / nu)  # (t − 1/ν)/(1 + t)
        small = _log_less_share(share, log_sum)
        return (
            y_bar,
            lambda: product(bar, 0.5 * (s_of(0.5 * nu)[1] - small + share / nu)),
            lambda: -y_bar,
            lambda: product(bar, nu * minus / scale),
        )

    return masked(mask, np.asarray(value), 0), vjp


@primitive
@takes("degrees_of_freedom positive (...), scale positive (...) → (...)")
def student_t_entropy(degrees_of_freedom, scale):
    """H = ½ (ν + 1) (s′(ν/2) + 1/ν) − s(ν/2) + ½ log 2π + log σ.

    Shapes: both broadcast → that shape.   Raises ValueError for what is not positive and finite.
    VJP: ν̄ = H̄ (¼ (ν + 1) s″(ν/2) − 1/(2ν²)), σ̄ = H̄/σ.
    """
    nu, scale = numbers(degrees_of_freedom, scale)
    check_positive("student_t_entropy", "degrees_of_freedom", nu)
    check_positive("student_t_entropy", "scale", scale)
    s, slope, curvature = s_of(0.5 * nu)
    constant = HALF_LOG_TWO_PI.astype(np.result_type(nu, scale).type(0).real.dtype)
    value = np.asarray(0.5 * (nu + 1) * (slope + 1 / nu) - s + constant + np.log(scale))

    def vjp(bar):
        return product(bar, 0.25 * (nu + 1) * curvature - 0.5 / nu / nu), product(bar, 1 / scale)

    return value, vjp


@explained
class StudentT:
    """Numbers with Student's t distribution, independent of each other: ν `degrees_of_freedom`, `location`, `scale`.

    Shapes: all three broadcast; `shape` is what they broadcast to. The scale is not the standard deviation, which is
    σ √(ν/(ν − 2)).   Raises ValueError for a ν or σ that is not positive and finite.
    Elsewhere: torch.distributions.StudentT takes (df, loc, scale), scipy.stats.t the same.
    """

    def __init__(self, degrees_of_freedom: ArrayLike, location: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        given = degrees_of_freedom, location, scale
        self.degrees_of_freedom, self.location, self.scale = parameters = numbers(*given)
        python = all(type(a) in (int, float) for a in given)  # Python numbers change no dtype
        self._parameters = given if python else tuple(parameters)
        for name, value in (("degrees_of_freedom", self.degrees_of_freedom), ("scale", self.scale)):
            check_positive("StudentT", name, np.where(np.isnan(raw(value)), 1, raw(value)))
        parts = {"degrees_of_freedom": self.degrees_of_freedom, "location": self.location, "scale": self.scale}
        self.shape = broadcast_shape("StudentT", **{name: value.shape for name, value in parts.items()})

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y) of every element; y and `mask`, True = counts, broadcast to one shape of all; elsewhere 0."""
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

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> Array | Tensor:
        """y = μ + σ τ with τ of ν degrees of freedom: `shape` draws, axes in front.   VJP: μ̄ = ȳ, σ̄ = ȳ τ; ν none."""
        check_generator("StudentT.sample", rng)
        axes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        nu = raw(self.degrees_of_freedom)
        dtype = np.result_type(nu, raw(self.location), raw(self.scale)).type(0).real.dtype
        draws = np.asarray(rng.standard_t(np.asarray(nu.real, np.float64), axes + self.shape)).astype(dtype)
        return self.location + self.scale * draws


def s_of(a: Any) -> tuple[Any, Any, Any]:
    """s(a), s′(a) and s″(a): the series from FAR on, below it FAR terms of the sum before; none of them cancels.

    s = s(a + n) + ½ Σ_{j<n} log(1 − ¼/(a_j + ½)²)        a_j = a + j
    s′ = s′(a + n) + ¼ Σ 1/(a_j (a_j + ½)(a_j + 1))        s″ = s″(a + n) − ¼ Σ (3a_j² + 3a_j + ½)/(…)²
    """
    a = np.asarray(a)
    near = a.real < FAR
    x = np.where(near, a + FAR, a)
    inverse = 1 / x
    square = inverse * inverse
    s = slope = curvature = np.zeros_like(x)
    for order, (above, below) in reversed([*zip(range(1, 16, 2), SERIES, strict=True)]):
        c = a.real.dtype.type(above) / below
        s, slope, curvature = s * square + c, slope * square - order * c, curvature * square + order * (order + 1) * c
    s, slope, curvature = s * inverse, slope * square, curvature * square * inverse
    if near.any():
        start = np.where(near, a, 1)
        for j in range(FAR):
            b = start + j
            half = b + 0.5
            term = 0.5 * log1p_of(np.where(half.real > 0.75, -0.25 / (half * half), 0))
            if j == 0:  # near a = 0 the logarithm is of nearly 0
                term = np.where(half.real > 0.75, term, 0.5 * (np.log(b) + log1p_of(b)) - np.log(half))
            cube = b * half * (b + 1)
            s = s + np.where(near, term, 0)
            slope = slope + np.where(near, 0.25 / cube, 0)
            curvature = curvature - np.where(near, 0.25 * (3 * b * (b + 1) + 0.5) / cube / cube, 0)
    return s, slope, curvature


def _log_less_share(share: Any, log_sum: Any) -> Any:
    """f = log(1 + t) − t/(1 + t) from u = t/(1 + t): Σ_{k≥2} u^k/k for u < 0.1, where the difference would cancel."""
    small = share.real < 0.1
    u = np.where(small, share, 0)
    total = np.zeros_like(u)
    for k in range(20, 1, -1):
        total = total * u + u.real.dtype.type(1) / k
    return np.where(small, total * u * u, log_sum - share)
