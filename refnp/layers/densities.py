"""Densities, entropies and divergences of the distributions, each one primitive with its gradient.

    normal_cdf                      Φ(z)                                       z = (y − μ)/σ
    multivariate_normal_log_prob    −½ |z|² − Σ_i log L_ii − (N/2) log 2π      z = L⁻¹ (y − μ)
    low_rank_normal_log_prob        the same for the covariance F Fᵀ + diag(σ²), in time N K² and not N³
    categorical_entropy             −Σ_c p_c log p_c
    normal_kl, multivariate_normal_kl, categorical_kl                          E_p[log p − log q] ≥ 0

The log density of a normal number and of a class are losses, with another sign: `gaussian_nll` and `cross_entropy`.

Written as in the textbooks, a Kullback-Leibler divergence is a difference of nearly equal numbers when p and q are
close: of the order δ², lost where δ² falls below the rounding error of 1. Here every one is a sum of terms that are
never negative, made of

    g(t) = t − log(1 + t) ≥ 0        φ(δ) = e^δ − 1 − δ ≥ 0

which near 0 are computed by series: small divergences keep their digits, and none is negative.
Source: Rasmussen & Williams (2006), A.2 and A.23; Murray (2016), arXiv 1602.07527, for the gradient of L; Kullback &
Leibler (1951).
Transcription: tests/transcriptions/probability.py.
"""

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.elementary import log1p_of
from refnp.autograd.linalg import cholesky, refuse_covariance, solve_lower
from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import Array, ArrayLike
from refnp.kernels.softmax import softmax_vjp
from refnp.layers.masked_reductions import HALF_LOG_TWO_PI, check_positive, numbers, product
from refnp.layers.softmax import log_softmax
from refnp.numbers.arrays import floating, in_order
from refnp.numbers.special import normal_cdf_of


@primitive
@takes("y to (*S), mean to (*S), std positive to (*S) → (*S)")
def normal_cdf(y, mean, std):
    """The probability Φ(z) that a normal number is at most y, z = (y − μ)/σ; it keeps its digits where it is nearly 0.

    Shapes: all broadcast, one of them to the shape of all → that shape.
    Raises ValueError for shapes that do not fit or a std that is not positive and finite.
    VJP, with φ(z) = exp(−½ z²)/√2π:   ȳ = Φ̄ φ/σ,   μ̄ = −ȳ,   σ̄ = −z ȳ.
    """
    y, mean, std = numbers(y, mean, std)
    check_positive("normal_cdf", "std", std)
    z = np.asarray((y - mean) / std)
    value, density = normal_cdf_of(z)

    def vjp(bar):
        y_bar = product(bar, density / std)
        return y_bar, lambda: -y_bar, lambda: -product(y_bar, z)

    return value, vjp


@primitive
@takes("y (..., N), mean (..., N), factor (..., N, N) → (...)")
def multivariate_normal_log_prob(y, mean, factor):
    """ℓ = −½ |z|² − Σ_i log L_ii − (N/2) log 2π with z = L⁻¹ (y − μ): all N numbers of y at once.

    Shapes: y and mean (..., N), lower triangular L (..., N, N), of which nothing above the diagonal is read → (...).
    Raises ValueError for shapes that do not fit or a diagonal of L that is not positive and finite.
    VJP, with w = L⁻ᵀ z, from dz = L⁻¹ (dy − dμ − dL z):

        ȳ = −ℓ̄ w        μ̄ = ℓ̄ w        L̄ = ℓ̄ (tril(w zᵀ) − diag(1/L_ii))
    """
    mean, factor = mean_and_factor("multivariate_normal_log_prob", mean, factor)
    y, diagonal = floating(y), diagonal_of(factor)  # (..., N)
    z = solve_vectors(factor, y - mean)  # (..., N)
    constant = z.shape[-1] * HALF_LOG_TWO_PI
    value = -0.5 * (z * z).sum(-1) - np.log(diagonal).sum(-1) - constant.astype(z.real.dtype)

    def vjp(bar):
        y_bar = -product(bar[..., None], solve_vectors(factor, z, transposed=True))  # (..., N)

        def factor_bar():
            if factor.ndim > 2:
                outer, total = y_bar[..., :, None] * z[..., None, :], bar[..., None]
            else:  # one factor for all: the sum over them is a matrix product
                rows = bar.size, z.shape[-1]
                outer, total = y_bar.reshape(rows).T @ z.reshape(rows), bar.sum()
            on_diagonal = np.eye(z.shape[-1], dtype=bool)
            return -np.tril(outer) - np.where(on_diagonal, (total / diagonal)[..., None], 0)

        return y_bar, lambda: -y_bar, factor_bar

    return value, vjp


@primitive
@takes("y (..., N), mean (..., N), factor (..., N, K), std positive (..., N) → (...)")
def low_rank_normal_log_prob(y, mean, factor, std):
    """log p(y) of N numbers with covariance F Fᵀ + diag(σ²), by matrices of K × K: K columns of F for N numbers.

    With r_n = (y_n − μ_n)/σ_n, A_nk = F_nk/σ_n and the Cholesky factor L of I + AᵀA:

        w = L⁻ᵀ L⁻¹ Aᵀ r        e = r − A w
        ℓ = −½ (|e|² + |w|²) − Σ_k log L_kk − Σ_n log σ_n − (N/2) log 2π

    The matrix inversion lemma says (I + A Aᵀ)⁻¹ r = e, and the determinant lemma det(I + A Aᵀ) = det(I + AᵀA). With the
    first, |z|² of the density is |r|² − |L⁻¹ Aᵀ r|², which cancels where F explains y; it is also the least value
    over w of |r − A w|² + |w|², a sum of squares.
    Shapes: y, mean and std (..., N), factor (..., N, K) → (...).
    Raises ValueError for shapes that do not fit or a std that is not positive and finite.
    VJP, with H = L⁻¹ Aᵀ, (I + A Aᵀ)⁻¹ = I − Hᵀ H, G = Hᵀ L⁻¹:

        ȳ = −ℓ̄ e/σ        μ̄ = ℓ̄ e/σ        F̄_nk = ℓ̄ (e_n w_k − G_nk)/σ_n        σ̄_n = ℓ̄ (e_n² − 1 + Σ_k H_kn²)/σ_n

    Source: Rasmussen & Williams (2006), A.9 and A.10.
    Elsewhere: torch.distributions.LowRankMultivariateNormal takes σ² for σ, and the difference.
    """
    y, mean, factor, std = parts_of_low_rank("low_rank_normal_log_prob", y, mean, factor, std)
    r, a = (y - mean) / std, factor / std[..., None]  # (..., N), (..., N, K)
    a_t = a.swapaxes(-1, -2)  # (..., K, N)
    lower = cholesky(np.eye(a.shape[-1], dtype=a.dtype) + a_t @ a)  # (..., K, K)
    h = solve_lower(lower, a_t)  # (..., K, N)
    w = solve_lower(lower, h @ r[..., None], transposed=True)[..., 0]  # (..., K)
    e = r - (a @ w[..., None])[..., 0]  # (..., N)
    constant = (r.shape[-1] * HALF_LOG_TWO_PI).astype(r.real.dtype)
    logarithms = np.log(diagonal_of(lower)).sum(-1) + np.log(std).sum(-1)
    value = -0.5 * ((e * e).sum(-1) + (w * w).sum(-1)) - logarithms - constant

    def vjp(bar):
        y_bar = -product(bar[..., None], e / std)  # (..., N)

        def factor_bar():
            g = solve_lower(lower, h, transposed=True).swapaxes(-1, -2)  # (..., N, K)
            return product(bar[..., None, None], (e[..., None] * w[..., None, :] - g) / std[..., None])

        def std_bar():
            return product(bar[..., None], (e * e - (1 - (h * h).sum(-2))) / std)

        return y_bar, lambda: -y_bar, factor_bar, std_bar

    return value, vjp


@primitive
@takes("logits (..., V ≥ 1) → (...)")
def categorical_entropy(logits):
    """H = −Σ_c p_c log p_c of p = softmax(logits); a class with p_c = 0 adds 0.

    Shapes: logits (..., V), classes last → H (...).
    Raises ValueError without a class, or for a row of logits that are all −∞.
    VJP: x̄_c = −H̄ p_c (log p_c + H) = −H̄ p_c (x_c − Σ_i p_i x_i), and 0 where p_c = 0: the softmax's VJP of x, in
    which nothing is lost as p_c → 1, or where logits nearly agree.
    """
    logits = check_logits("categorical_entropy", logits)
    log_p = log_softmax(logits)  # (..., V)
    p = np.exp(log_p)  # (..., V)
    log_p = np.where(p == 0, 0, log_p)
    value = -(p * log_p).sum(-1)  # (...)

    def vjp(bar):
        return (-bar[..., None] * softmax_vjp(from_likeliest(logits, p), p),)

    return value, vjp


@primitive
@takes("mean_p to (*S), std_p positive to (*S), mean_q to (*S), std_q positive to (*S) → (*S)")
def normal_kl(mean_p, std_p, mean_q, std_q):
    """Divergence of normal distributions by elements: ½ d² + h(t) with d = (μ_p − μ_q)/σ_q, t = (σ_p − σ_q)/σ_q and

        h(t) = ½ ((1 + t)² − 1) − log(1 + t) = ½ t² + g(t)

    Shapes: all broadcast, one of them to the shape of all → that shape.
    Raises ValueError for shapes that do not fit or a standard deviation that is not positive and finite.
    VJP, with h'(t) = t (2 + t)/(1 + t):

        μ̄_p = k̄ d/σ_q,   μ̄_q = −μ̄_p,   σ̄_p = k̄ t (2 + t)/σ_p,   σ̄_q = −k̄ (d² + t (2 + t))/σ_q
    """
    mean_p, std_p, mean_q, std_q = numbers(mean_p, std_p, mean_q, std_q)
    check_positive("normal_kl", "std of p", std_p)
    check_positive("normal_kl", "std of q", std_q)
    d = (mean_p - mean_q) / std_q
    t = np.asarray((std_p - std_q) / std_q)
    value = 0.5 * d * d + ratio_excess(t, std_p, std_q)

    def vjp(bar):
        mean_bar = product(bar, d / std_q)
        excess = t * (2 + t)  # (σ_p² − σ_q²)/σ_q²
        return (
            mean_bar,
            lambda: product(bar, excess / std_p),
            lambda: -mean_bar,
            lambda: -product(bar, (d * d + excess) / std_q),
        )

    return value, vjp


@primitive
@takes("mean_p (..., N), factor_p (..., N, N), mean_q (..., N), factor_q (..., N, N) → (...)")
def multivariate_normal_kl(mean_p, factor_p, mean_q, factor_q):
    """Divergence of multivariate normal distributions, of covariances L_p L_pᵀ and L_q L_qᵀ:

        KL = ½ |d|² + ½ Σ_{i>j} T_ij² + Σ_i h(T_ii),    d = L_q⁻¹ (μ_p − μ_q),    T = L_q⁻¹ (L_p − L_q)

    with h as in `normal_kl`: I + T is the factor of p in coordinates where q is a standard normal distribution.
    Shapes: means (..., N), lower triangular L (..., N, N), of which nothing above the diagonal is read → KL (...).
    Raises ValueError for shapes that do not fit or a factor whose diagonal is not positive and finite.
    VJP, with T̄_ij = k̄ T_ij below and T̄_ii = k̄ h'(T_ii) on the diagonal, and w = L_q⁻ᵀ d:

        μ̄_p = k̄ w,  μ̄_q = −k̄ w,  L̄_p = tril(L_q⁻ᵀ T̄),  L̄_q = −tril(L_q⁻ᵀ T̄ (I + T)ᵀ + k̄ w dᵀ)
    """
    mean_p, factor_p = mean_and_factor("multivariate_normal_kl", mean_p, factor_p)
    mean_q, factor_q = mean_and_factor("multivariate_normal_kl", mean_q, factor_q)
    d = solve_vectors(factor_q, mean_p - mean_q)  # (..., N)
    below = solve_lower(factor_q, factor_p - factor_q)  # (..., N, N)   T
    t, below = diagonal_of(below), np.tril(below, -1)
    excess = ratio_excess(t, diagonal_of(factor_p), diagonal_of(factor_q))  # (..., N)
    value = 0.5 * ((d * d).sum(-1) + (below * below).sum((-2, -1))) + excess.sum(-1)

    def vjp(bar):
        identity = np.eye(t.shape[-1], dtype=bool)
        ratio = diagonal_of(factor_p) / diagonal_of(factor_q)  # (..., N)   1 + t
        slope = np.where(identity, (t * (1 + 1 / ratio))[..., None], below)  # (..., N, N)   h'(t) = t (2 + t)/r
        w = product(bar[..., None], solve_vectors(factor_q, d, transposed=True))  # (..., N)
        p_bar = solve_lower(factor_q, product(bar[..., None, None], slope), transposed=True)
        moved = np.where(identity, ratio[..., None], below)  # (..., N, N)   I + T
        q_bar = p_bar @ moved.swapaxes(-1, -2) + w[..., :, None] * d[..., None, :]
        return w, np.tril(p_bar), -w, -np.tril(q_bar)

    return value, vjp


@primitive
@takes("logits_p (..., V ≥ 1), logits_q (..., V) → (...)")
def categorical_kl(logits_p, logits_q):
    """Divergence of categorical distributions, Σ_c p_c (log p_c − log q_c).

    It is Σ_c p_c φ(δ_c) with δ_c = log q_c − log p_c, for Σ p_c (e^δ_c − 1) = Σ (q_c − p_c) = 0. A class with logit −∞
    in p adds q_c, its part of that sum; one with logit −∞ only in q makes the divergence +∞.
    Shapes: logits (..., V) each, classes last → KL (...).
    Raises ValueError if the numbers of classes differ, or if no class is possible.
    VJP, for logits a of p and b of q: ā_c = −k̄ p_c (δ_c + KL), b̄_c = k̄ (q_c − p_c) = k̄ p_c (e^δ_c − 1). As in
    `categorical_entropy`, ā is the softmax's VJP of b − a. Where the divergence is +∞, ā is 0.
    """
    logits_p, logits_q = check_logits("categorical_kl", logits_p), check_logits("categorical_kl", logits_q)
    log_p, log_q = log_softmax(logits_p), log_softmax(logits_q)
    shape = np.broadcast_shapes(log_p.shape, log_q.shape)
    logits_p, logits_q, log_p, log_q = (np.broadcast_to(a, shape) for a in (logits_p, logits_q, log_p, log_q))
    p, q = np.exp(log_p), np.exp(log_q)
    possible = log_p.real != -np.inf  # (..., V)
    delta = log_ratio(logits_p, logits_q, log_p, log_q)  # (..., V)
    near = np.abs(delta.real) < 1
    small = np.where(near, delta, 0)
    far = np.where(near, 0, q - p - product(p, np.where(near, 0, delta)))
    far = np.where(delta.real == -np.inf, np.inf, far)  # p > 0 even where its exponential underflows
    value = (far + p * exponential_excess(small) + np.where(possible, 0, q)).sum(-1)  # (...)
    infinite = np.isposinf(value.real)[..., None]  # (..., 1)

    def vjp(bar):
        gap = difference_from_likeliest(np.where(infinite, 0, logits_q), logits_p, p)  # (..., V)   b − a
        a_bar = np.where(infinite, 0, softmax_vjp(gap, p))
        b_bar = np.where(near & possible, p * np.expm1(small), q - p) * bar[..., None]
        return -product(bar[..., None], a_bar), b_bar

    return value, vjp


def ratio_excess(t, numerator, denominator):
    """h(t) = ½ t² + t − log(1 + t) for 1 + t = numerator/denominator, whose logarithm is taken where t is not small.

    With s = t/(2 + t), log(1 + t) = 2 artanh s = 2 (s + s³/3 + s⁵/5 + …), so g(t) = t s − 2 s³ (⅓ + s²/5 + …).
    """
    near = np.abs(t.real) < 0.5
    small = np.where(near, t, 0)
    s = small / (2 + small)  # |s| ≤ 1/3
    series = np.zeros_like(s)
    for k in range(41, 1, -2):  # 3⁻⁴¹ is below the last place of every precision
        series = series * (s * s) + 1 / s.real.dtype.type(k)
    g = small * s - 2 * s * s * s * series
    ratio = np.where(near, 1, numerator / denominator)
    representable = (ratio.real > np.finfo(ratio.dtype).tiny) & (ratio.real < np.inf)
    difference = np.log(numerator) - np.log(denominator)
    far = t - np.where(representable, np.log(np.where(representable, ratio, 1)), difference)
    return 0.5 * t * t + np.where(near, g, far)


def log_ratio(a, b, log_p, log_q):
    """δ = log q − log p of two rows of logits, 0 where a logit of p is −∞.

    In a row where the differences c = b − a vary little, so does δ, and log q − log p would lose its digits. There
    Σ q = 1 says q_i = p_i exp(c_i)/Σ_j p_j exp(c_j), and δ = c − log(1 + Σ_j p_j (e^c_j − 1)) loses none.
    """
    possible = log_p.real != -np.inf
    delta = np.where(possible, log_q - np.where(possible, log_p, 0), 0)
    likeliest = log_p.real.argmax(-1)[..., None]
    c = np.where(possible, b - np.where(possible, a, 0), 0)
    middle = np.take_along_axis(c, likeliest, -1)  # a constant in all logits changes nothing
    c = c - np.where(np.isfinite(middle), middle, 0)
    near = (np.abs(c.real) < 1).all(-1, keepdims=True) & (possible | (log_q.real == -np.inf)).all(-1, keepdims=True)
    c = np.where(near, c, 0)
    return np.where(near & possible, c - log1p_of((np.exp(log_p) * np.expm1(c)).sum(-1, keepdims=True)), delta)


def exponential_excess(delta):
    """φ(δ) = e^δ − 1 − δ for |δ| < 1, by its series δ²/2! + δ³/3! + …"""
    series = np.zeros_like(delta)
    for k in range(22, 1, -1):  # 1/23! is below the last place of every precision
        series = (series * delta + 1) / k
    return series * delta * delta


def solve_vectors(factor, r, *, transposed=False):
    """L⁻¹ r, or L⁻ᵀ r, for vectors r (..., N); if all have the same factor (N, N), side by side as one matrix."""
    if factor.ndim > 2:
        return solve_lower(factor, r[..., None], transposed=transposed)[..., 0]
    columns = np.moveaxis(r, -1, 0).reshape(r.shape[-1], r.size // max(r.shape[-1], 1))
    return np.moveaxis(solve_lower(factor, columns, transposed=transposed).reshape(r.shape[-1:] + r.shape[:-1]), 0, -1)


def mean_and_factor(name: str, mean: ArrayLike, factor: ArrayLike) -> tuple[Array, Array]:
    """Mean (..., N) and lower triangular factor (..., N, N) in floating numbers; ValueError if that is no factor."""
    mean, factor = floating(mean), floating(factor)
    check_positive(name, "the diagonal of the factor", diagonal_of(factor))
    refuse_covariance(name, "the factor", factor)
    return mean, np.tril(factor)


def parts_of_low_rank(name: str, y: ArrayLike, mean: ArrayLike, factor: ArrayLike, std: ArrayLike) -> tuple:
    """y, mean and std (..., N) and factor (..., N, K) in floating numbers; ValueError unless the stds are positive."""
    arrays: list[Array] = [in_order(floating(a)) for a in (y, mean, factor, std)]
    check_positive(name, "std", arrays[3])
    return tuple(arrays)


def check_logits(name: str, logits: ArrayLike) -> Array:
    """Logits as an array; ValueError for a row in which no class is possible."""
    logits = floating(logits)
    nothing = np.isneginf(logits.real).all(-1)
    if nothing.any():
        place = np.argwhere(nothing)[0].tolist()
        raise ValueError(f"{name}: the logits{place or ''} are all −∞; at least one class must be possible")
    return logits


def from_likeliest(x: Array, p: Array) -> Array:
    """x (..., V) less its value at the largest p of the row; 0 where p = 0."""
    likeliest = np.take_along_axis(x, p.real.argmax(-1)[..., None], -1)
    return np.where(p == 0, 0, x - likeliest)


def difference_from_likeliest(b: Array, a: Array, p: Array) -> Array:
    """b − a (..., V) less its value at the largest p of the row, in the order that rounds less; 0 where p = 0."""
    b, a = (np.where(p == 0, 0, x) for x in (b, a))
    likeliest = p.real.argmax(-1)[..., None]
    b_own, a_own = (np.take_along_axis(x, likeliest, -1) for x in (b, a))
    within, across = (b - b_own, a - a_own), (b - a, b_own - a_own)
    rounding = [np.abs(x.real) + np.abs(y.real) for x, y in (within, across)]
    return np.where(rounding[0] <= rounding[1], within[0] - within[1], across[0] - across[1])


def diagonal_of(matrices: Array) -> Array:
    """(..., N, N) → (..., N)."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)
