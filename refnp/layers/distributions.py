"""Probability distributions: what a model predicts.

    Normal               p(y) = exp(−½ z²) / (σ √2π),   z = (y − μ)/σ                    numbers, one by one
    MultivariateNormal   p(y) = exp(−½ |z|²) / (det L (2π)^(N/2)),   z = L⁻¹ (y − μ)     N together, covariance L Lᵀ
    LowRankNormal        the same, z of a covariance F Fᵀ + diag(σ²)                     N together, K columns of F
    Categorical          p(c) = exp(x_c) / Σ_i exp(x_i)                                  one class of V
    Mixture              p(y) = (1/K) Σ_k Π_i N(y_i; μ_ki, σ_ki²)                        K components, i together

A distribution holds its parameters, arrays or Tensors, and returns the same. Samples are reparameterised,
y = μ + σ ε with ε free of parameters, so that gradients flow through them; ε is drawn in float64 and then rounded, the
same numbers in every precision. Who has ε already passes it, `sample(shape=…, epsilon=…)`, in place of `rng`.
What does not count under a mask has log p = 0 and gradient 0, NaN or not.
Source: Sivaraya (2023) §2.3 (coherent samples), §3.2 eq. 8 and 9; Kingma & Welling (2014), arXiv 1312.6114;
Rasmussen & Williams (2006), A.2; Garnelo et al. (2018b), arXiv 1807.01622 (mixtures over a latent variable).
Transcription: tests/transcriptions/probability.py.
"""

from typing import Any, cast

import numpy as np

from refnp import autograd as ag
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.density import (
    categorical_entropy,
    categorical_kl,
    low_rank_normal_log_prob,
    multivariate_normal_kl,
    multivariate_normal_log_prob,
    normal_cdf,
    normal_kl,
    refuse_factors,
    refuse_impossible,
)
from refnp.layers.loss import HALF_LOG_TWO_PI, cross_entropy, gaussian_nll
from refnp.layers.masked_reductions import broadcast_shape, check_positive, full_mask, numbers
from refnp.layers.masks import fits
from refnp.layers.softmax import softmax

NO_CLASS = np.iinfo(np.int64).min  # stands where a mask is False


@explained
class Normal:
    """Normal numbers, independent of each other, with `mean` and `std` (the standard deviation, not the variance).

    Shapes: mean and std broadcast; `shape` is what they broadcast to. Python numbers change no dtype:
    `Normal(0.0, 1.0).log_prob(y)` has that of y.
    Raises ValueError for a std that is zero, negative or infinite. NaN is let in, for it may lie under a mask, and
    refused where it counts.
    """

    def __init__(self, mean: ArrayLike, std: ArrayLike):
        self.mean, self.std = numbers(mean, std)
        python = type(mean) in (int, float) and type(std) in (int, float)  # Python numbers change no dtype
        self._parameters = (mean, std) if python else (self.mean, self.std)
        values = raw(self.std)
        check_positive("Normal", "std", np.where(np.isnan(values), 1, values))
        self.shape = broadcast_shape("Normal", mean=self.mean.shape, std=self.std.shape)

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y) of every element, minus `gaussian_nll`: y and `mask`, True = counts, broadcast to one shape of all.

        Raises ValueError for shapes that do not broadcast, TypeError for a mask that is not boolean.
        """
        return -gaussian_nll(*self._parameters, y, mask=mask, reduction="none")

    def cdf(self, y: ArrayLike) -> Array | Tensor:
        """The probability of a number up to y, Φ((y − μ)/σ)."""
        return normal_cdf(y, *self._parameters)

    def entropy(self) -> Array | Tensor:
        """log σ + ½ log 2πe, of `shape`."""
        return ag.broadcast_to(ag.log(self.std) + (HALF_LOG_TWO_PI + 0.5).like(raw(self.std)), self.shape)

    def sample(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """y = μ + σ ε with ε ~ N(0, 1): `shape` draws, axes in front.   VJP: μ̄ = ȳ, σ̄ = ȳ ε, ε̄ = ȳ σ.

        `epsilon` is ε itself, in place of `rng`, of shape (*shape, *self.shape). Raises ValueError for another shape or
        both of them, TypeError for neither.
        """
        noise = _noise("Normal.sample", rng, _axes(shape) + self.shape, self.mean, self.std, epsilon=epsilon)
        return self.mean + self.std * noise


@explained
class MultivariateNormal:
    """N normal numbers with covariance L Lᵀ, given the Cholesky factor L: `cholesky(covariance)` makes it.

    Shapes: mean (..., N), cholesky_factor (..., N, N), whose part above the diagonal is not read; `shape` is the batch.
    Raises ValueError for shapes that do not fit, a diagonal that is zero, negative or infinite, or a covariance in
    place of its factor.
    """

    @takes("mean (..., N), cholesky_factor triangular (..., N, N)")
    def __init__(self, mean: ArrayLike, cholesky_factor: ArrayLike):
        self.mean, self.cholesky_factor = numbers(mean, cholesky_factor)
        factor = raw(self.cholesky_factor)
        unknown = np.isnan(factor) & np.eye(factor.shape[-1], dtype=bool)  # on the diagonal, let in under a mask
        refuse_factors("MultivariateNormal", np.where(unknown, 1, factor))
        self.shape = np.broadcast_shapes(self.mean.shape[:-1], factor.shape[:-2])

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

    def sample(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """y = μ + L ε with ε ~ N(0, I): `shape` draws, axes in front.   VJP: μ̄ = ȳ, L̄ = tril(ȳ εᵀ), ε̄ = Lᵀ ȳ.

        `epsilon` is ε itself, in place of `rng`, of shape (*shape, *self.shape, N). Raises ValueError for another shape
        or both of them, TypeError for neither.
        """
        all_axes = _axes(shape) + self.shape + self.mean.shape[-1:]
        noise = _noise("MultivariateNormal.sample", rng, all_axes, self.mean, self.cholesky_factor, epsilon=epsilon)
        return self.mean + (noise[..., None, :] @ ag.swapaxes(self.lower(), -1, -2))[..., 0, :]


@explained
class LowRankNormal:
    """N normal numbers with covariance F Fᵀ + diag(σ²): K directions that they have in common, and noise of their own.

    y = μ + F ε + σ ∘ ε′. With K far below N, densities cost N K² where a `MultivariateNormal` costs N³.
    Shapes: mean (..., N), factor F (..., N, K), std σ (..., N); `shape` is the batch.
    Raises ValueError for shapes that do not fit or a std that is zero, negative or infinite. NaN is let in, for it may
    lie under a mask, and refused where it counts.
    """

    @takes("mean (..., N), factor (..., N, K), std positive (..., N)")
    def __init__(self, mean: ArrayLike, factor: ArrayLike, std: ArrayLike):
        self.mean, self.factor, self.std = numbers(mean, factor, std)
        own = raw(self.std)
        check_positive("LowRankNormal", "std", np.where(np.isnan(own), 1, own))
        self.shape = np.broadcast_shapes(self.mean.shape[:-1], self.factor.shape[:-2], self.std.shape[:-1])

    def covariance(self) -> Array | Tensor:
        """F Fᵀ + diag(σ²), (..., N, N)."""
        own = np.eye(self.mean.shape[-1], dtype=bool)
        return self.factor @ ag.swapaxes(self.factor, -1, -2) + ag.where(own, (self.std * self.std)[..., None], 0.0)

    def dense(self) -> MultivariateNormal:
        """The same distribution by the Cholesky factor of its covariance.   ValueError if σ² is lost beside F Fᵀ."""
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
        columns = [self.factor, self.std[..., None]]
        batch = np.broadcast_shapes(*(a.shape[:-1] for a in columns))
        columns = [ag.broadcast_to(a, (*batch, a.shape[-1])) for a in columns]
        return Normal(self.mean, ag.norm(ag.concatenate(columns, -1), -1))

    def entropy(self) -> Array | Tensor:
        """½ log det(F Fᵀ + diag(σ²)) + (N/2) log 2πe = N/2 − log p(μ), of `shape`."""
        at_mean = np.zeros(self.std.shape, raw(self.std).dtype)
        value = self.mean.shape[-1] / 2 - low_rank_normal_log_prob(at_mean, at_mean, self.factor, self.std)
        return ag.broadcast_to(value, self.shape)

    def sample(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """y = μ + F ε + σ ε′ with ε, ε′ ~ N(0, I): `shape` draws, axes in front.   VJP: μ̄ = ȳ, F̄ = ȳ εᵀ, σ̄ = ȳ ε′.

        `epsilon` is [ε, ε′] itself, in place of `rng`, of shape (*shape, *self.shape, K + N). Raises ValueError for
        another shape or both of them, TypeError for neither.
        """
        count, all_axes = self.factor.shape[-1], _axes(shape) + self.shape
        noise = _noise(
            "LowRankNormal.sample",
            rng,
            (*all_axes, count + self.mean.shape[-1]),
            self.mean,
            self.factor,
            self.std,
            epsilon=epsilon,
        )
        return self.mean + self._in_common(noise[..., :count]) + self.std * noise[..., count:]

    def functions(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """μ + F ε, ε ~ N(0, I): draws without the noise that each number has of its own.

        `epsilon` is ε itself, in place of `rng`, of shape (*shape, *self.shape, K). Raises ValueError for another shape
        or both of them, TypeError for neither.
        """
        all_axes = (*_axes(shape), *self.shape, self.factor.shape[-1])
        noise = _noise("LowRankNormal.functions", rng, all_axes, self.mean, self.factor, epsilon=epsilon)
        return self.mean + self._in_common(noise)

    def _in_common(self, noise: Any) -> Any:
        """F ε for ε (..., K)."""
        return (noise[..., None, :] @ ag.swapaxes(self.factor, -1, -2))[..., 0, :]


@explained
class Categorical:
    """One class of V, with probabilities softmax(logits); a logit of −∞ is a class that cannot be.

    Shapes: logits (..., V), classes last; `shape` is the batch.
    Raises ValueError without a class, or for a row of logits that are all −∞.
    """

    @takes("logits (..., V ≥ 1)")
    def __init__(self, logits: ArrayLike):
        (self.logits,) = numbers(logits)
        refuse_impossible("Categorical", raw(self.logits))
        self.shape = self.logits.shape[:-1]

    def probabilities(self) -> Array | Tensor:
        """softmax(logits), (..., V)."""
        return softmax(self.logits)

    def log_prob(self, classes: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p of integer classes, which broadcast with `shape`: minus `cross_entropy`; 0 where `mask` is False."""
        classes = integers("Categorical.log_prob", "classes", classes, ", the numbers of classes", signed=True)
        shape = broadcast_shape("Categorical.log_prob", classes=classes.shape, batch=self.shape)
        logits = ag.broadcast_to(self.logits, (*shape, self.logits.shape[-1]))
        targets = np.broadcast_to(classes, shape)
        if mask is not None:
            targets = np.where(full_mask("Categorical.log_prob", mask, shape), targets, NO_CLASS)
        return -cross_entropy(logits, targets, ignore_index=NO_CLASS, reduction="none")

    def entropy(self) -> Array | Tensor:
        """−Σ p log p, of `shape`."""
        return categorical_entropy(self.logits)

    def mode(self) -> Array:
        """The most probable class (the first of equals), integers of `shape`."""
        return np.argmax(np.real(raw(self.logits)), -1)

    def sample(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array:
        """Classes, integers without gradient: argmax_c (x_c + G_c), G Gumbel noise, has exactly the probabilities p.

        `epsilon` is G itself, in place of `rng`, of shape (*shape, *self.shape, V). Raises ValueError for another shape
        or both of them, TypeError for neither.
        """
        all_axes = _axes(shape) + self.logits.shape
        if epsilon is None:
            check_generator("Categorical.sample", rng)
            noise = cast(np.random.Generator, rng).gumbel(size=all_axes)
        else:
            noise = np.real(raw(_given_noise("Categorical.sample", rng, all_axes, epsilon)))
        return np.argmax(np.real(raw(self.logits)) + noise, -1)


@explained
class Mixture:
    """K normal distributions with equal weights, along the first axis of `components`; the last axes belong together.

    Given the component, the numbers are independent: what they have in common is in the choice of k. A sample chooses
    once for all that belong together, and is coherent: a function, not noise. A latent neural process answers with a
    mixture, one component for each draw of z.

    Shapes: components (K, ...) → elements (...), of which the last `together` axes are one draw; `shape` is what
    remains in front. Normal numbers of (K, B, N, dy) with together=2 are B functions at N places.
    Raises ValueError without a component, or with fewer axes than `together`.
    """

    @takes("", together="whole ≥ 0")
    def __init__(self, components: Normal, *, together: int = 0):
        if not components.shape or not components.shape[0]:
            raise ValueError(
                f"Mixture: components have shape {components.shape}; the first axis must hold at least one"
            )
        if together >= len(components.shape):
            raise ValueError(f"Mixture: together is {together}, components have shape {components.shape}")
        self.components, self.together = components, together
        self.elements = components.shape[1:]
        self.shape = self.elements[: len(self.elements) - together]

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y), of `shape`, by logsumexp over the components; y broadcasts to the elements, as does `mask`.

        Elements where the mask is False are not read and add nothing.   Raises ValueError for a y that does not fit.
        """
        self._check("Mixture.log_prob", y)
        log_p = self.components.log_prob(y, mask=mask)  # (K, ...)
        for _ in range(self.together):
            log_p = ag.sum(log_p, -1)  # (K, ...)
        return log_mean_exp(log_p, 0)

    def marginals(self) -> "Mixture":
        """The distribution of each element alone. Their log p do not add up to the joint one."""
        return Mixture(self.components)

    @property
    def mean(self) -> Array | Tensor:
        """μ = (1/K) Σ_k μ_k of each element."""
        return ag.mean(ag.broadcast_to(self.components.mean, self.components.shape), 0)

    @property
    def std(self) -> Array | Tensor:
        """σ of each element, σ² = (1/K) Σ_k (σ_k² + (μ_k − μ)²): noise, and disagreement of the components."""
        deviation = self.components.mean - self.mean  # (K, ...)
        return ag.sqrt(ag.mean(self.components.std * self.components.std + deviation * deviation, 0))

    def cdf(self, y: ArrayLike) -> Array | Tensor:
        """The probability that an element is at most y, (1/K) Σ_k Φ((y − μ_k)/σ_k); y broadcasts to the elements."""
        self._check("Mixture.cdf", y)
        return ag.mean(self.components.cdf(y), 0)

    def sample(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        chosen: ArrayLike | None = None,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """y = μ_k + σ_k ε, k drawn once for what belongs together: `shape` draws, axes in front.

        `chosen` is k itself, integers of shape (*shape, *self.shape), and `epsilon` ε, (*shape, *self.elements): what
        is not given is drawn from `rng`.
        VJP: μ̄_k = ȳ and σ̄_k = ȳ ε for the components that were drawn; the choice has no gradient.
        Raises ValueError for other shapes, for components that there are not, or with `rng` although nothing is left to
        be drawn; TypeError without `rng` if something is.
        """
        if chosen is None or epsilon is None:
            check_generator("Mixture.sample", rng)
        elif rng is not None:
            raise ValueError("Mixture.sample: rng is given beside chosen and epsilon; nothing is left to be drawn")
        axes, count = _axes(shape), self.components.shape[0]
        if chosen is None:
            k = cast(np.random.Generator, rng).integers(count, size=axes + self.shape)
        else:
            k = _given_components(chosen, axes + self.shape, count)
        places = (k, *np.indices(self.shape, sparse=True))
        mean, std = (ag.broadcast_to(a, self.components.shape) for a in (self.components.mean, self.components.std))
        found = Normal(mean[places], std[places])
        return found.sample(rng) if epsilon is None else found.sample(epsilon=epsilon)

    def _check(self, name: str, y: Any) -> None:
        """ValueError unless y broadcasts to the elements: of a longer one each row would go with another component."""
        if not fits(np.shape(raw(y)), self.elements):
            raise ValueError(f"{name}: y has shape {np.shape(raw(y))}; it must broadcast to {self.elements}")


def log_mean_exp(x: ArrayLike, axis: int = 0) -> Array | Tensor:
    """log of the mean of eˣ along one axis: the logarithm of a mixture's density from those of its components."""
    count = np.asarray(raw(x).shape[axis], raw(x).real.dtype)
    return ag.logsumexp(x, axis) - np.log(count)


@explained
def kl_divergence(
    p: Normal | MultivariateNormal | Categorical, q: Normal | MultivariateNormal | Categorical
) -> Array | Tensor:
    """KL(p‖q) = E_p[log p − log q] of two distributions of one kind, ≥ 0.

    Shapes: of Normal element by element (add them up yourself), of the others one number for each of the batch.
    Raises TypeError for distributions of different kinds; `Normal` and MultivariateNormal are different. Of a
    LowRankNormal pass what `dense` gives.
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        return normal_kl(*p._parameters, *q._parameters)
    if isinstance(p, MultivariateNormal) and isinstance(q, MultivariateNormal):
        return multivariate_normal_kl(p.mean, p.cholesky_factor, q.mean, q.cholesky_factor)
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return categorical_kl(p.logits, q.logits)
    raise TypeError(f"kl_divergence: p is {type(p).__name__} and q is {type(q).__name__}; pass two of one kind")


def _axes(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)


def _noise(name: str, rng: Any, shape: tuple[int, ...], *parameters: Any, epsilon: Any = None) -> Array | Tensor:
    """Standard normal numbers in the precision of the parameters; `epsilon` in their place if it is given."""
    dtype = np.result_type(*(raw(p).real.dtype for p in parameters))
    if epsilon is None:
        check_generator(name, rng)
        return rng.standard_normal(shape).astype(dtype)
    noise = _given_noise(name, rng, shape, epsilon)
    return noise if isinstance(noise, Tensor) or noise.dtype.kind == "c" else noise.astype(dtype)


def _given_noise(name: str, rng: Any, shape: tuple[int, ...], epsilon: ArrayLike) -> Array | Tensor:
    """The noise that a caller gives; ValueError unless of this shape and without `rng`, TypeError for no numbers."""
    (noise,) = numbers(epsilon)
    if rng is not None:
        raise ValueError(f"{name}: rng and epsilon are both given; pass one of them")
    if noise.shape != shape:
        raise ValueError(f"{name}: epsilon has shape {noise.shape}; it must be {shape}, the draws in front")
    return noise


def _given_components(chosen: ArrayLike, shape: tuple[int, ...], count: int) -> Array:
    """The components that a caller chooses: TypeError unless integers, ValueError for other shapes or components."""
    k = np.asarray(raw(chosen))
    if k.dtype.kind not in "iu" and k.size:
        raise TypeError(f"Mixture.sample: chosen is {k.dtype}; pass integers, the numbers of components")
    if k.shape != shape:
        raise ValueError(f"Mixture.sample: chosen has shape {k.shape}; it must be {shape}, one for each draw")
    if k.size and not 0 <= k.min() <= k.max() < count:
        raise ValueError(f"Mixture.sample: chosen holds {k.min()} to {k.max()}; components are 0 to {count - 1}")
    return k.astype(np.intp)


def check_generator(name: str, rng: Any) -> None:
    """TypeError unless random numbers can be drawn from `rng`."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"{name}: rng is {type(rng).__name__}; pass numpy.random.default_rng(seed)")
