"""Normal numbers that belong together, with one covariance for all.

    MultivariateNormal   p(y) = exp(−½ |z|²) / (det L (2π)^(N/2)),   z = L⁻¹ (y − μ)     covariance L Lᵀ
    LowRankNormal        the same, z of a covariance F Fᵀ + diag(σ²)                     K columns of F

Source: Rasmussen & Williams (2006), A.2.
Transcription: tests/transcriptions/probability.py.
"""

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.density import low_rank_normal_log_prob, multivariate_normal_log_prob, refuse_factors
from refnp.layers.distributions import Distribution, Normal, common_dtype
from refnp.layers.divergence import multivariate_normal_kl
from refnp.layers.linear import side_by_side
from refnp.layers.loss import HALF_LOG_TWO_PI
from refnp.layers.masked_reductions import broadcast_shape, check_positive, full_mask, numbers
from refnp.numbers.arrays import broadcast_shapes


@explained
class MultivariateNormal(Distribution):
    """N normal numbers with covariance L Lᵀ, given the Cholesky factor L: `cholesky(covariance)` makes it.

    Shapes: mean (..., N), cholesky_factor (..., N, N), whose part above the diagonal is not read; `shape` is the batch.
    Samples: y = μ + L ε, ε ~ N(0, I) of (*shape, N).   VJP: μ̄ = ȳ, L̄ = tril(ȳ εᵀ), ε̄ = Lᵀ ȳ.
    Raises ValueError for shapes that do not fit, a diagonal that is zero, negative or infinite, or a covariance in
    place of its factor. NaN on the diagonal is let in as by `LowRankNormal`.
    """

    @takes("mean (..., N), cholesky_factor triangular (..., N, N)")
    def __init__(self, mean: ArrayLike, cholesky_factor: ArrayLike):
        self.mean, self.cholesky_factor = numbers(mean, cholesky_factor)
        factor = raw(self.cholesky_factor)
        unknown = np.isnan(factor) & np.eye(factor.shape[-1], dtype=bool)  # on the diagonal, let in under a mask
        refuse_factors("MultivariateNormal", np.where(unknown, 1, factor))
        self.shape = broadcast_shapes(self.mean.shape[:-1], factor.shape[:-2])
        self.of_noise = (*self.shape, self.mean.shape[-1])
        self.noise_dtype = common_dtype(self.mean, self.cholesky_factor)

    def lower(self) -> Array | Tensor:
        """The factor with zeros above its diagonal, (..., N, N)."""
        return ag.where(np.tri(self.mean.shape[-1], dtype=bool), self.cholesky_factor, 0.0)

    def covariance(self) -> Array | Tensor:
        """L Lᵀ, (..., N, N)."""
        return self.lower() @ ag.swapaxes(self.lower(), -1, -2)

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """The joint log p of y (..., N), one number for all N; under a mask (..., N), of those that count, together.

        Raises ValueError for shapes that do not fit, TypeError for a mask that is not boolean.
        """
        if mask is None:
            return multivariate_normal_log_prob(y, self.mean, self.cholesky_factor)
        name, (values,) = "MultivariateNormal.log_prob", numbers(y)
        present = full_mask(name, mask, broadcast_shape(name, y=values.shape, mean=self.mean.shape))
        mean, values = ag.where(present, self.mean, 0.0), ag.where(present, values, 0.0)
        hidden = (~present).sum(-1) * HALF_LOG_TWO_PI.like(raw(mean))  # each adds the density of N(0, 1) at 0
        return multivariate_normal_log_prob(values, mean, self._factor_of(present)) + hidden.astype(
            raw(mean).real.dtype
        )

    def _factor_of(self, mask: Array) -> Any:
        """The Cholesky factor of the numbers that count, while the others become standard normal and independent.

        Where no row that counts has entries in the columns of the others, as in ragged sets with padding at the end,
        the rows are the factor; if not, the covariance is factorised anew, which doubles the digits that a poor
        condition costs.
        """
        rows = ag.where(mask[..., None], self.lower(), 0.0)  # (..., N, N)
        others = np.eye(mask.shape[-1], dtype=raw(self.mean).real.dtype) * ~mask[..., None]  # (..., N, N)
        if not (mask[..., None] & ~mask[..., None, :] & (raw(rows) != 0)).any():
            return rows + others
        return ag.cholesky(rows @ ag.swapaxes(rows, -1, -2) + others)

    def marginals(self) -> Normal:
        """The distribution of each of the N alone: σ_i² = Σ_j L_ij². Their log p do not add up to the joint one."""
        return Normal(self.mean, ag.norm(self.lower(), -1))

    def entropy(self) -> Array | Tensor:
        """½ log det(L Lᵀ) + (N/2) log 2πe, of `shape`."""
        constant = (self.mean.shape[-1] * (HALF_LOG_TWO_PI + 0.5)).like(raw(self.cholesky_factor))
        return ag.broadcast_to(0.5 * ag.log_determinant(self.cholesky_factor) + constant, self.shape)

    def _from(self, noise: Any) -> Array | Tensor:
        return self.mean + times_columns(noise, self.lower())

    def _kl(self, other: "MultivariateNormal") -> Array | Tensor:
        return multivariate_normal_kl(self.mean, self.cholesky_factor, other.mean, other.cholesky_factor)


@explained
class LowRankNormal(Distribution):
    """N normal numbers with covariance F Fᵀ + diag(σ²): K directions that they have in common, and noise of their own.

    y = μ + F ε + σ ∘ ε′. With K far below N, densities cost N K² where a `MultivariateNormal` costs N³.
    Shapes: mean (..., N), factor F (..., N, K), std σ (..., N); `shape` is the batch.
    Samples: [ε, ε′] ~ N(0, I) of (*shape, K + N).   VJP: μ̄ = ȳ, F̄ = ȳ εᵀ, σ̄ = ȳ ε′, ε̄ = Fᵀ ȳ, ε̄′ = ȳ σ.
    Raises ValueError for shapes that do not fit or a std that is zero, negative or infinite. NaN is let in, for it may
    lie under a mask; where it counts, densities and entropy refuse it, and samples are NaN.
    """

    @takes("mean (..., N), factor (..., N, K), std positive (..., N)")
    def __init__(self, mean: ArrayLike, factor: ArrayLike, std: ArrayLike):
        self.mean, self.factor, self.std = numbers(mean, factor, std)
        own = raw(self.std)
        check_positive("LowRankNormal", "std", np.where(np.isnan(own), 1, own))
        self.shape = broadcast_shapes(self.mean.shape[:-1], self.factor.shape[:-2], self.std.shape[:-1])
        self.of_noise = (*self.shape, sum(self.factor.shape[-2:]))
        self.noise_dtype = common_dtype(self.mean, self.factor, self.std)

    def covariance(self) -> Array | Tensor:
        """F Fᵀ + diag(σ²), (..., N, N)."""
        own = np.eye(self.mean.shape[-1], dtype=bool)
        return self.factor @ ag.swapaxes(self.factor, -1, -2) + ag.where(own, (self.std * self.std)[..., None], 0.0)

    def dense(self) -> MultivariateNormal:
        """The same by the Cholesky factor of F Fᵀ + diag(σ²), which rounds; ValueError if it is then not definite."""
        return MultivariateNormal(self.mean, ag.cholesky(self.covariance()))

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """The joint log p of y (..., N), one number for all N; under a mask (..., N), of those that count, together.

        Raises ValueError for shapes that do not fit, TypeError for a mask that is not boolean.
        """
        if mask is None:
            return low_rank_normal_log_prob(y, self.mean, self.factor, self.std)
        name, (values,) = "LowRankNormal.log_prob", numbers(y)
        present = full_mask(name, mask, broadcast_shape(name, y=values.shape, mean=self.mean.shape))
        mean, values, std = (
            ag.where(present, a, other) for a, other in ((self.mean, 0.0), (values, 0.0), (self.std, 1.0))
        )
        hidden = (~present).sum(-1) * HALF_LOG_TWO_PI.like(raw(mean))  # each adds the density of N(0, 1) at 0
        factor = ag.where(present[..., None], self.factor, 0.0)  # (..., N, K)
        return low_rank_normal_log_prob(values, mean, factor, std) + hidden.astype(raw(mean).real.dtype)

    def marginals(self) -> Normal:
        """The distribution of each of the N alone: Σ_k F_nk² + σ_n². Their log p do not add up to the joint one."""
        return Normal(self.mean, ag.norm(side_by_side(self.factor, self.std[..., None]), -1))

    def entropy(self) -> Array | Tensor:
        """½ log det(F Fᵀ + diag(σ²)) + (N/2) log 2πe = N/2 − log p(μ), of `shape`."""
        at_mean = np.zeros(self.std.shape, raw(self.std).dtype)
        value = self.mean.shape[-1] / 2 - low_rank_normal_log_prob(at_mean, at_mean, self.factor, self.std)
        return ag.broadcast_to(value, self.shape)

    def functions(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """μ + F ε, ε ~ N(0, I) of (*shape, K): draws without the noise that each number has of its own.

        Options and errors are those of `sample`.
        """
        return self._in_common(self._noise("functions", rng, shape, epsilon, (*self.shape, self.factor.shape[-1])))

    def _in_common(self, noise: Any) -> Any:
        """μ + F ε for ε (..., K)."""
        return self.mean + times_columns(noise, self.factor)

    def _from(self, noise: Any) -> Array | Tensor:
        count = self.factor.shape[-1]
        return self._in_common(noise[..., :count]) + self.std * noise[..., count:]


def times_columns(noise: Any, factor: Any) -> Any:
    """F ε for F (..., N, K), ε (..., K) → (..., N)."""
    return (noise[..., None, :] @ ag.swapaxes(factor, -1, -2))[..., 0, :]
