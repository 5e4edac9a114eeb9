"""Densities and entropies of the distributions.

    normal_cdf                      Φ(z)                                       z = (y − μ)/σ
    multivariate_normal_log_prob    −½ |z|² − Σ_i log L_ii − (N/2) log 2π      z = L⁻¹ (y − μ)
    low_rank_normal_log_prob        the same for the covariance F Fᵀ + diag(σ²), in time N K² and not N³
    categorical_entropy             −Σ_c p_c log p_c

The log density of a normal number and of a class are losses, with another sign: `gaussian_nll` and `cross_entropy`.

Source: Rasmussen & Williams (2006), A.2; Murray (2016), arXiv 1602.07527, for the gradient of L.
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
from refnp.numbers.words import peak


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
