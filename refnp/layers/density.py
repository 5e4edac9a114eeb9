"""Densities and entropies of the distributions.

    normal_cdf                      Φ(z)                                       z = (y − μ)/σ
    multivariate_normal_log_prob    −½ |z|² − Σ_i log L_ii − (N/2) log 2π      z = L⁻¹ (y − μ)
    low_rank_normal_log_prob        the same for the covariance F Fᵀ + diag(σ²), in time N K² and not N³
    categorical_entropy             −Σ_c p_c log p_c

The log density of a normal number and of a class are losses, with another sign: `gaussian_nll` and `cross_entropy`.

Source: Rasmussen & Williams (2006), A.2; Murray (2016), arXiv 1602.07527, for the gradient of L.
Words: layers/__init__.py.   Transcription: tests/transcriptions/probability.py.   Kernel: refnp/kernels/triangular.py.
"""

import functools

import numpy as np

from refnp.autograd.pages import page
from refnp.autograd.triangular import KERNELS, joined, refuse_covariance, solved
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
        std_bar = -(y_bar * z)
        return y_bar, -y_bar, std_bar

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
    Raises ValueError for shapes that do not fit, a diagonal that is not positive and finite, or a covariance for L.
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


@page("y (..., N), mean (..., N), factor (..., N, K), std positive (..., N) → (...)")
def low_rank_normal_log_prob(y, mean, factor, std):
    """log p(y) of N numbers with covariance F Fᵀ + diag(σ²): K columns of F for N numbers, in time N K².

    With r_n = (y_n − μ_n)/σ_n, A_nk = F_nk/σ_n, and e, w what is left of r and 0 without what the columns of A and I
    explain of them together (modified Gram-Schmidt: column after column, each taken off all that follow):

        q_k = column k of [A; I] less its parts along q_1 … q_(k−1)
        [e; −w] = [r; 0] − Σ_k q_k (q_k · [r; 0])/|q_k|²
        ℓ = −½ (|e|² + |w|²) − ½ Σ_k log |q_k|² − Σ_n log σ_n − (N/2) log 2π

    The matrix inversion lemma says (I + A Aᵀ)⁻¹ r = e = r − A w, and |e|² + |w|² is the least value over w of
    |r − A w|² + |w|²; the determinant lemma det(I + A Aᵀ) = det(I + AᵀA) = Π_k |q_k|². In AᵀA itself the 1 would be
    lost beside the squares of large factors; here |q_k| ≥ 1, whatever is rounded.
    Shapes: y, mean and std (..., N), factor (..., N, K) → (...).
    Raises ValueError for shapes that do not fit or a std that is not positive and finite.
    VJP, with the upper part h_k of q_k, (N,), the lower part l_k, (K,), G = Σ_k h_k l_kᵀ/|q_k|²:

        ȳ = −ℓ̄ e/σ     μ̄ = ℓ̄ e/σ     F̄_nk = ℓ̄ (e_n w_k − G_nk)/σ_n     σ̄_n = ℓ̄ (e_n² − 1 + Σ_k h_nk²/|q_k|²)/σ_n

    Source: Rasmussen & Williams (2006), A.9 and A.10; Björck (1967), BIT 7, for Gram-Schmidt.
    Elsewhere: torch.distributions.LowRankMultivariateNormal takes σ² for σ, and AᵀA.
    """
    n, k = factor.shape[-2:]
    r, a = ((y - mean) / std)[..., None], factor / std[..., None]  # (..., N, 1), (..., N, K)
    rest = joined(joined(a, r, -1), np.eye(k, k + 1, dtype=bool), -2)  # of N + K rows and K + 1 columns
    found, squares = [rest[..., :0]], [rest[..., :0].sum(-2)]
    for _ in range(k):
        column = rest[..., :1]  # (..., N + K, 1)   q_k
        size = (column * column).sum(-2)  # (..., 1)   |q_k|²
        parts = (column * rest[..., 1:]).sum(-2) / size  # along q_k, of what follows
        rest = rest[..., 1:] - column * parts[..., None, :]
        found, squares = [*found, column], [*squares, size]
    columns, sizes = np.concatenate(found, -1), np.concatenate(squares, -1)  # (..., N + K, K), (..., K)
    e, w = rest[..., :n, 0], -rest[..., n:, 0]  # (..., N), (..., K)
    h, share = columns[..., :n, :], columns / sizes[..., None, :]  # (..., N, K), (..., N + K, K)
    logarithms = np.log(sizes).sum(-1) / 2 + np.log(std).sum(-1)  # (...)
    value = -((e * e).sum(-1) + (w * w).sum(-1)) / 2 - logarithms - n * HALF_LOG_TWO_PI  # (...)

    def vjp(bar):
        y_bar = -(bar[..., None] * (e / std))  # (..., N)
        g = share[..., :n, :] @ columns[..., n:, :].mT  # (..., N, K)
        factor_bar = bar[..., None, None] * ((e[..., None] * w[..., None, :] - g) / std[..., None])  # (..., N, K)
        std_bar = bar[..., None] * ((e * e - (1 - (h * share[..., :n, :]).sum(-1))) / std)  # (..., N)
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
