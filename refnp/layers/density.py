"""Densities, entropies and divergences of the distributions.

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

of which no digit is lost near 0: small divergences keep theirs, and none is negative.
Source: Rasmussen & Williams (2006), A.2 and A.23; Murray (2016), arXiv 1602.07527, for the gradient of L; Kullback &
Leibler (1951).
Transcription: tests/transcriptions/probability.py.   On arrays of floats: refnp/kernels/triangular.py.
"""

import functools

import numpy as np

from refnp.autograd.pages import page
from refnp.autograd.triangular import KERNELS, factor_of, refuse_covariance, solved
from refnp.layers.loss import HALF_LOG_TWO_PI, times
from refnp.layers.masked_reductions import check_positive
from refnp.layers.softmax import log_softmax, softmax_vjp
from refnp.numbers import words
from refnp.numbers.parts import part
from refnp.numbers.words import expm1_less, largest, less_log1p, peak


@page("y to (*S), mean to (*S), std positive to (*S) → (*S)")
def normal_cdf(y, mean, std):
    """The probability Φ(z) that a normal number is at most y, z = (y − μ)/σ; it keeps its digits where it is nearly 0.

    Shapes: all broadcast, one of them to the shape of all → that shape.
    Raises ValueError for shapes that do not fit or a std that is not positive and finite.
    VJP, with φ(z) = exp(−½ z²)/√2π:   ȳ = Φ̄ φ/σ,   μ̄ = −ȳ,   σ̄ = −z ȳ.
    """
    z = (y - mean) / std  # (*S)
    value, density = words.normal_cdf(z)  # (*S)   Φ(z), φ(z)

    def vjp(bar):
        y_bar = bar * (density / std)  # (*S)
        return y_bar, -y_bar, -(y_bar * z)

    return value, vjp


def refuse_factors(name, *factors):
    """ValueError unless each matrix is a factor: with a diagonal that is positive and finite, and no covariance."""
    for factor in factors:
        check_positive(name, "the diagonal of the factor", np.diagonal(factor, axis1=-2, axis2=-1))
        refuse_covariance(name, "the factor", factor)


def refuse_impossible(name, *rows):
    """ValueError for a row of logits in which no class is possible."""
    for logits in rows:
        nothing = np.isneginf(np.real(logits)).all(-1)
        if nothing.any():
            place = np.argwhere(nothing)[0].tolist()
            raise ValueError(f"{name}: the logits{place or ''} are all −∞; at least one class must be possible")


@page(
    "y (..., N), mean (..., N), factor triangular (..., N, N) → (...)",
    kernel=KERNELS,
    check=lambda y, mean, factor: refuse_factors("multivariate_normal_log_prob", factor),
)
def multivariate_normal_log_prob(y, mean, factor):
    """ℓ = −½ |z|² − Σ_i log L_ii − (N/2) log 2π with z = L⁻¹ (y − μ): all N numbers of y at once.

    Shapes: y and mean (..., N), lower triangular L (..., N, N), of which nothing above the diagonal is read → (...).
    Raises ValueError for shapes that do not fit or a diagonal of L that is not positive and finite.
    VJP, with w = L⁻ᵀ z, from dz = L⁻¹ (dy − dμ − dL z):

        ȳ = −ℓ̄ w        μ̄ = ℓ̄ w        L̄ = ℓ̄ (tril(w zᵀ) − diag(1/L_ii))
    """
    n, diagonal = y.shape[-1], np.diagonal(factor, axis1=-2, axis2=-1)  # (), (..., N)
    z = solved(factor, (y - mean)[..., None])[..., 0]  # (..., N)
    value = -(z * z).sum(-1) / 2 - np.log(diagonal).sum(-1) - n * HALF_LOG_TWO_PI  # (...)

    def vjp(bar):
        w = solved(factor, z[..., None], transposed=True)[..., 0]  # (..., N)
        mean_bar = bar[..., None] * w  # (..., N)
        if factor.ndim > 2:
            outer, total = mean_bar[..., None] * z[..., None, :], bar[..., None]  # (..., N, N), (..., 1)
        else:  # one factor for all
            rows = bar.size, n
            outer, total = mean_bar.reshape(rows).mT @ z.reshape(rows), bar.sum()
        factor_bar = np.tril(outer) - np.where(np.eye(n, dtype=bool), (total / diagonal)[..., None], 0)  # (..., N, N)
        return -mean_bar, mean_bar, factor_bar

    return value, vjp


@page("y (..., N), mean (..., N), factor (..., N, K), std positive (..., N) → (...)", kernel=KERNELS)
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
    n, k = factor.shape[-2:]
    r, a = (y - mean) / std, factor / std[..., None]  # (..., N), (..., N, K)
    lower = factor_of(a.mT @ a + np.eye(k, dtype=int))  # (..., K, K)   L
    h = solved(lower, a.mT)  # (..., K, N)
    w = solved(lower, h @ r[..., None], transposed=True)[..., 0]  # (..., K)
    e = r - (a @ w[..., None])[..., 0]  # (..., N)
    logarithms = np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(-1) + np.log(std).sum(-1)  # (...)
    value = -((e * e).sum(-1) + (w * w).sum(-1)) / 2 - logarithms - n * HALF_LOG_TWO_PI  # (...)

    def vjp(bar):
        y_bar = -(bar[..., None] * (e / std))  # (..., N)
        g = solved(lower, h, transposed=True).mT  # (..., N, K)
        factor_bar = bar[..., None, None] * ((e[..., None] * w[..., None, :] - g) / std[..., None])  # (..., N, K)
        std_bar = bar[..., None] * ((e * e - (1 - (h * h).sum(-2))) / std)  # (..., N)
        return y_bar, -y_bar, factor_bar, std_bar

    return value, vjp


@page("logits (..., V ≥ 1) → (...)", check=functools.partial(refuse_impossible, "categorical_entropy"))
def categorical_entropy(logits):
    """H = −Σ_c p_c log p_c of p = softmax(logits); a class with p_c = 0 adds 0.

    Shapes: logits (..., V), classes last → H (...).
    Raises ValueError without a class, or for a row of logits that are all −∞.
    VJP: x̄_c = −H̄ p_c (log p_c + H) = −H̄ p_c (x_c − Σ_i p_i x_i), and 0 where p_c = 0: the softmax's VJP of x, in
    which nothing is lost as p_c → 1, or where logits nearly agree.
    """
    log_p, _ = log_softmax.page(logits)  # (..., V)
    p = np.exp(log_p)  # (..., V)
    value = -times(p, log_p).sum(-1)  # (...)
    ahead = logits - peak(logits)  # (..., V)   less the likeliest

    def vjp(bar):
        x_bar = -(bar[..., None] * softmax_vjp(p, np.where(ahead.real == -np.inf, 0, ahead)))  # (..., V)
        return (x_bar,)

    return value, vjp


@page("mean_p to (*S), std_p positive to (*S), mean_q to (*S), std_q positive to (*S) → (*S)")
def normal_kl(mean_p, std_p, mean_q, std_q):
    """Divergence of normal distributions by elements: ½ d² + h(t) with d = (μ_p − μ_q)/σ_q, t = (σ_p − σ_q)/σ_q and

        h(t) = ½ ((1 + t)² − 1) − log(1 + t) = ½ t² + g(t)

    Shapes: all broadcast, one of them to the shape of all → that shape.
    Raises ValueError for shapes that do not fit or a standard deviation that is not positive and finite.
    VJP, with h'(t) = t (2 + t)/(1 + t):

        μ̄_p = k̄ d/σ_q,   μ̄_q = −μ̄_p,   σ̄_p = k̄ t (2 + t)/σ_p,   σ̄_q = −k̄ (d² + t (2 + t))/σ_q
    """
    d, t = (mean_p - mean_q) / std_q, (std_p - std_q) / std_q  # (*S)
    value = d * d / 2 + ratio_excess(t, std_p, std_q)  # (*S)

    def vjp(bar):
        mean_bar, growth = bar * (d / std_q), t * (2 + t)  # (*S)   growth is (σ_p² − σ_q²)/σ_q²
        std_q_bar = -(bar * ((d * d + growth) / std_q))  # (*S)
        return mean_bar, bar * (growth / std_p), -mean_bar, std_q_bar

    return value, vjp


@page(
    "mean_p (..., N), factor_p triangular (..., N, N), mean_q (..., N), factor_q triangular (..., N, N) → (...)",
    kernel=KERNELS,
    check=lambda mean_p, factor_p, mean_q, factor_q: refuse_factors("multivariate_normal_kl", factor_p, factor_q),
)
def multivariate_normal_kl(mean_p, factor_p, mean_q, factor_q):
    """Divergence of multivariate normal distributions, of covariances L_p L_pᵀ and L_q L_qᵀ:

        KL = ½ |d|² + ½ Σ_{i>j} T_ij² + Σ_i h(T_ii),    d = L_q⁻¹ (μ_p − μ_q),    T = L_q⁻¹ (L_p − L_q)

    with h as in `normal_kl`: I + T is the factor of p in coordinates where q is a standard normal distribution.
    Shapes: means (..., N), lower triangular L (..., N, N), of which nothing above the diagonal is read → KL (...).
    Raises ValueError for shapes that do not fit or a factor whose diagonal is not positive and finite.
    VJP, with T̄_ij = k̄ T_ij below and T̄_ii = k̄ h'(T_ii) on the diagonal, and w = L_q⁻ᵀ d:

        μ̄_p = k̄ w,  μ̄_q = −k̄ w,  L̄_p = tril(L_q⁻ᵀ T̄),  L̄_q = −tril(L_q⁻ᵀ T̄ (I + T)ᵀ + k̄ w dᵀ)
    """
    on_diagonal = np.eye(mean_p.shape[-1], dtype=bool)  # (N, N)
    lower_p, lower_q = np.tril(factor_p), np.tril(factor_q)  # (..., N, N)
    own_p, own_q = (np.diagonal(a, axis1=-2, axis2=-1) for a in (factor_p, factor_q))  # (..., N)
    d = solved(lower_q, (mean_p - mean_q)[..., None])[..., 0]  # (..., N)
    moved = solved(lower_q, lower_p - lower_q)  # (..., N, N)   T
    t, below = np.diagonal(moved, axis1=-2, axis2=-1), np.tril(moved, -1)
    value = ((d * d).sum(-1) + (below * below).sum((-2, -1))) / 2 + ratio_excess(t, own_p, own_q).sum(-1)

    def vjp(bar):
        ratio = own_p / own_q  # (..., N)   1 + t
        slope = np.where(on_diagonal, (t + t / ratio)[..., None], below)  # (..., N, N)   h'(t) = t (2 + t)/(1 + t)
        w = bar[..., None] * solved(lower_q, d[..., None], transposed=True)[..., 0]  # (..., N)
        p_bar = solved(lower_q, bar[..., None, None] * slope, transposed=True)  # (..., N, N)
        q_bar = p_bar @ np.where(on_diagonal, ratio[..., None], below).mT + w[..., None] * d[..., None, :]
        return w, np.tril(p_bar), -w, -np.tril(q_bar)

    return value, vjp


@page("logits_p (..., V ≥ 1), logits_q (..., V) → (...)", check=functools.partial(refuse_impossible, "categorical_kl"))
def categorical_kl(logits_p, logits_q):
    """Divergence of categorical distributions, Σ_c p_c (log p_c − log q_c).

    It is Σ_c p_c φ(δ_c) with δ_c = log q_c − log p_c, for Σ p_c (e^δ_c − 1) = Σ (q_c − p_c) = 0. A class with logit −∞
    in p adds q_c, its part of that sum; one with logit −∞ only in q makes the divergence +∞.
    Shapes: logits (..., V) each, classes last → KL (...).
    Raises ValueError if the numbers of classes differ, or if no class is possible.
    VJP, for logits a of p and b of q: ā_c = −k̄ p_c (δ_c + KL), b̄_c = k̄ (q_c − p_c) = k̄ p_c (e^δ_c − 1). As in
    `categorical_entropy`, ā is the softmax's VJP of b − a. Where the divergence is +∞, ā is 0.
    """
    (log_p, _), (log_q, _) = log_softmax.page(logits_p), log_softmax.page(logits_q)  # (..., V)
    p, q = np.exp(log_p), np.exp(log_q)  # (..., V)
    possible = log_p.real != -np.inf
    delta = log_ratio(logits_p, logits_q, log_p, log_q)  # (..., V)   δ
    near = np.abs(delta.real) < 1
    small = np.where(near, delta, 0)
    terms = np.where(near, p * expm1_less(small), q - p - p * np.where(near, 0, delta))
    terms = np.where(delta.real == -np.inf, np.inf, terms)  # p > 0 even where its exponential underflows
    value = np.where(possible, terms, q).sum(-1)  # (...)
    infinite = (value.real == np.inf)[..., None]  # (..., 1)

    def vjp(bar):
        gap = less_likeliest(np.where(infinite, 0, logits_q), logits_p, p)  # (..., V)   b − a
        a_bar = -(bar[..., None] * np.where(infinite, 0, softmax_vjp(p, gap)))
        b_bar = bar[..., None] * np.where(near & possible, p * np.expm1(small), q - p)
        return a_bar, b_bar

    return value, vjp


@part
def ratio_excess(t, a, b):
    """h(t) = ½ t² + t − log(1 + t) for 1 + t = a/b; log(1 + t) = log a − log b where a/b may be out of range."""
    near = np.abs(t.real) < 0.5
    difference = np.log(a) - np.log(b)
    logarithm = np.where(np.abs(difference.real) > 64, difference, np.log(a / b))
    return t * t / 2 + np.where(near, less_log1p(np.where(near, t, 0)), t - logarithm)


@part
def log_ratio(a, b, log_p, log_q):
    """δ = log q − log p of two rows of logits, 0 where a logit of p is −∞.

    In a row where the differences c = b − a vary little, so does δ, and log q − log p would lose its digits. There
    Σ q = 1 says q_i = p_i exp(c_i)/Σ_j p_j exp(c_j), and δ = c − log(1 + Σ_j p_j (e^c_j − 1)) loses none.
    """
    possible = log_p.real != -np.inf  # (..., V)
    delta = np.where(possible, log_q - np.where(possible, log_p, 0), 0)
    c = np.where(possible, b - np.where(possible, a, 0), 0)
    c = c - at_likeliest(c, log_p)  # a constant in all logits changes nothing
    near = (np.abs(c.real) < 1).all(-1, keepdims=True) & (possible | (log_q.real == -np.inf)).all(-1, keepdims=True)
    c = np.where(near, c, 0)
    rest = (np.exp(log_p) * np.expm1(c)).sum(-1, keepdims=True)  # (..., 1)
    return np.where(near & possible, c - np.log1p(rest), delta)


@part
def less_likeliest(b, a, p):
    """b − a (..., V) less its value at the largest p of the row, in the order that rounds less; 0 where a is −∞."""
    b, a = (np.where(a.real == -np.inf, 0, x) for x in (b, a))
    within, across = (b - at_likeliest(b, p), a - at_likeliest(a, p)), (b - a, at_likeliest(b - a, p))
    first, second = (np.abs(x.real) + np.abs(y.real) for x, y in (within, across))
    return np.where(first <= second, within[0] - within[1], across[0] - across[1])


def at_likeliest(x, p):
    """x (..., 1) where p is the largest of its row."""
    return np.where(largest(p.real), x, 0).sum(-1, keepdims=True)
