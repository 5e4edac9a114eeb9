"""Probability distributions: what a model predicts.

    Normal               p(y) = exp(−½ z²) / (σ √2π),   z = (y − μ)/σ                    numbers, one by one
    Categorical          p(c) = exp(x_c) / Σ_i exp(x_i)                                  one class of V

Numbers that belong together are in multivariate_normal.py, mixtures in mixture.py. A distribution holds its parameters,
arrays or Tensors, and returns the same. Samples of numbers are reparameterised, y = μ + σ ε with ε free of parameters,
so that gradients flow through them; ε is drawn in float64 and then rounded, the same numbers in every precision. Who
has ε already passes it, `sample(shape=…, epsilon=…)`, in place of `rng`.
What does not count under a mask has log p = 0 and gradient 0, NaN or not.
Source: Sivaraya (2023) §2.3 (coherent samples), §3.2 eq. 8 and 9; Kingma & Welling (2014), arXiv 1312.6114.
Transcription: tests/transcriptions/probability.py.
"""

import inspect
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.cross_entropy import cross_entropy
from refnp.layers.density import categorical_entropy, normal_cdf, refuse_impossible
from refnp.layers.divergence import categorical_kl, normal_kl
from refnp.layers.loss import HALF_LOG_TWO_PI, gaussian_nll
from refnp.layers.masked_reductions import broadcast_shape, check_positive, full_mask, numbers
from refnp.layers.softmax import softmax

NO_CLASS = np.iinfo(np.int64).min  # stands where a mask is False


@explained
class Distribution:
    """What distributions share: the `shape` of a batch, and samples, a function of noise ε that no parameter changes.

    A distribution says what ε is and of which shape, what it makes of it, and its KL divergence if there is a formula.
    """

    shape: tuple[int, ...]
    of_noise: tuple[int, ...]  # the shape of ε for one draw
    noise_dtype: np.dtype  # the precision of ε
    _kl: Any = None  # KL(p‖q) of two of the same kind

    def __init_subclass__(cls) -> None:
        """Where a number underflows in a method or property, that is no error, whatever NumPy is told to raise."""
        may_underflow = np.errstate(under="ignore")
        for name, member in [*vars(cls).items()]:
            if inspect.isfunction(member):
                setattr(cls, name, may_underflow(member))
            elif isinstance(member, property) and member.fget is not None:
                setattr(cls, name, property(may_underflow(member.fget)))

    @np.errstate(under="ignore")
    def sample(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """Draws, `shape` of them, axes in front, made of noise ε from `rng` as the class says.

        `epsilon` is ε itself, in place of `rng`, with the same axes in front. Raises ValueError for another shape or
        both of them, TypeError for neither or an `rng` that is no generator.
        """
        return self._from(self._noise("sample", rng, shape, epsilon, self.of_noise))

    def _keep(self, given: tuple, **parameters: Any) -> None:
        """The shape, and what densities take: the parameters, one of them of that shape, or as given if all are
        Python numbers, which change no dtype.
        """
        shapes = {name: value.shape for name, value in parameters.items()}
        self.shape = self.of_noise = broadcast_shape(type(self).__name__, **shapes)
        first, *others = parameters.values()
        self.noise_dtype = common_dtype(first, *others)
        first = first if self.shape in shapes.values() else ag.broadcast_to(first, self.shape)
        self._parameters = given if all(type(a) in (int, float) for a in given) else (first, *others)

    def _noise(self, method: str, rng: Any, shape: Any, epsilon: Any, of_noise: tuple[int, ...]) -> Array | Tensor:
        """ε in the precision of the parameters: what is drawn, or what a caller gives."""
        name, axes = f"{type(self).__name__}.{method}", (*axes_in_front(shape), *of_noise)
        if epsilon is None:
            check_generator(name, rng)
            return self._drawn(rng, axes).astype(self.noise_dtype)
        if rng is not None:
            raise ValueError(f"{name}: rng and epsilon are both given; pass one of them")
        (noise,) = numbers(epsilon)
        if noise.shape != axes:
            raise ValueError(f"{name}: epsilon has shape {noise.shape}; it must be {axes}, the draws in front")
        return noise if isinstance(noise, Tensor) or noise.dtype.kind == "c" else noise.astype(self.noise_dtype)

    def _drawn(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """ε ~ N(0, 1)."""
        return rng.standard_normal(shape)

    def _from(self, noise: Any) -> Array | Tensor:
        """The draw that is made of ε."""
        raise NotImplementedError


def axes_in_front(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """The axes of so many draws."""
    return (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)


def common_dtype(*parameters: Array | Tensor) -> np.dtype:
    """The precision of all parameters together, real."""
    return np.result_type(*(raw(p).real.dtype for p in parameters))


@explained
class Normal(Distribution):
    """Normal numbers, independent of each other, with `mean` and `std` (the standard deviation, not the variance).

    Shapes: mean and std broadcast; `shape` is what they broadcast to. Python numbers change no dtype:
    `Normal(0.0, 1.0).log_prob(y)` has that of y.
    Samples: y = μ + σ ε, ε ~ N(0, 1) of `shape`.   VJP: μ̄ = ȳ, σ̄ = ȳ ε, ε̄ = ȳ σ.
    Raises ValueError for shapes that do not broadcast, or a std that is zero, negative or infinite. NaN may lie under a
    mask: where it counts `log_prob`, `cdf` and the KL divergence refuse it, samples and entropy are NaN.
    """

    def __init__(self, mean: ArrayLike, std: ArrayLike):
        self.mean, self.std = numbers(mean, std)
        values = raw(self.std)
        check_positive("Normal", "std", np.where(np.isnan(values), 1, values))
        self._keep((mean, std), mean=self.mean, std=self.std)

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y) of every element, minus `gaussian_nll`; `mask`, True = counts; 0 where it is False.

        Raises ValueError unless all broadcast to one of y, μ, σ, or for a σ of NaN; TypeError if mask is not boolean.
        """
        return -gaussian_nll(*self._parameters, y, mask=mask, reduction="none")

    def cdf(self, y: ArrayLike) -> Array | Tensor:
        """The probability of a number up to y, Φ((y − μ)/σ).   ValueError as `log_prob`."""
        return normal_cdf(y, *self._parameters)

    def entropy(self) -> Array | Tensor:
        """log σ + ½ log 2πe, of `shape`."""
        return ag.broadcast_to(ag.log(self.std) + (HALF_LOG_TWO_PI + 0.5).like(raw(self.std)), self.shape)

    def _from(self, noise: Any) -> Array | Tensor:
        return self.mean + self.std * noise

    def _kl(self, other: "Normal") -> Array | Tensor:
        return normal_kl(*self._parameters, *other._parameters)


@explained
class Categorical(Distribution):
    """One class of V, with probabilities softmax(logits); a logit of −∞ is a class that cannot be.

    Shapes: logits (..., V), classes last; `shape` is the batch.
    Samples: integers without gradient, argmax_c (x_c + ε_c) with Gumbel noise ε of (*shape, V), whose probabilities are
    exactly p.
    Raises ValueError without a class, or for a row of logits that are all −∞.
    """

    @takes("logits (..., V ≥ 1)")
    def __init__(self, logits: ArrayLike):
        (self.logits,) = numbers(logits)
        refuse_impossible("Categorical", raw(self.logits))
        self.shape, self.of_noise = self.logits.shape[:-1], self.logits.shape
        self.noise_dtype = np.dtype(float)

    def probabilities(self) -> Array | Tensor:
        """softmax(logits), (..., V)."""
        return softmax(self.logits)

    def log_prob(self, classes: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p of integer classes, broadcast with `shape`; 0 where `mask` is False. ValueError outside 0 … V − 1."""
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

    def _drawn(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.gumbel(size=shape)

    def _from(self, noise: Any) -> Array:
        return np.argmax(np.real(raw(self.logits)) + np.real(raw(noise)), -1)

    def _kl(self, other: "Categorical") -> Array | Tensor:
        return categorical_kl(self.logits, other.logits)


@explained
def kl_divergence(p: Distribution, q: Distribution) -> Array | Tensor:
    """KL(p‖q) = E_p[log p − log q] of two distributions of one kind, ≥ 0: of Normal, MultivariateNormal, Categorical.

    Shapes: of Normal element by element (add them up yourself), of the others one number for each of the batch.
    Raises TypeError for distributions of different kinds, or of others (Normal and MultivariateNormal are different; of
    a LowRankNormal pass what `dense` gives), ValueError for shapes that do not fit.
    """
    formula = type(p)._kl
    if formula is not None and type(q)._kl is formula:
        return formula(p, q)
    raise TypeError(
        f"kl_divergence: p is {type(p).__name__} and q is {type(q).__name__}; pass two of one kind, "
        "Normal, MultivariateNormal or Categorical"
    )


def check_generator(name: str, rng: Any) -> None:
    """TypeError unless random numbers can be drawn from `rng`."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"{name}: rng is {type(rng).__name__}; pass numpy.random.default_rng(seed)")
