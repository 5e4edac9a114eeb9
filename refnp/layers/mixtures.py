"""Mixtures of normal distributions: K answers, one of which is true, and nobody knows which.

    p(y) = (1/K) Σ_k Π_i N(y_i; μ_ki, σ_ki²)

The product runs over the numbers that belong together: given the component they are independent, and so whatever they
have in common is in the choice of k. A sample chooses once for all of them, and is coherent: a function, not noise.
A latent neural process answers with such a mixture, one component for each draw of z.

Source: Sivaraya (2023) §2.3 (coherent sample paths); Garnelo et al., arXiv 1807.01622.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.layers.distributions import Normal
from refnp.layers.masks import fits


class Mixture:
    """K normal distributions with equal weights, along the first axis of `components`; the last axes belong together.

    Shapes: components (K, ...) → elements (...), of which the last `together` axes are one draw; `shape` is what
    remains in front. Normal numbers of (K, B, T, dy) with together=2 are B functions at T places.
    Raises ValueError without a component, or with fewer axes than `together`.
    """

    def __init__(self, components: Normal, *, together: int = 0):
        if not components.shape or not components.shape[0]:
            raise ValueError(
                f"Mixture: components have shape {components.shape}; the first axis must hold at least one"
            )
        if not 0 <= together < len(components.shape):
            raise ValueError(f"Mixture: together is {together}, components have shape {components.shape}")
        self.components, self.together = components, together
        self.elements = components.shape[1:]
        self.shape = self.elements[: len(self.elements) - together]

    def log_prob(self, y: Any, *, mask: Any = None) -> Any:
        """log p(y), of `shape`, by logsumexp over the components; y broadcasts to the elements, as does `mask`.

        Elements under the mask are not looked at and add nothing.   Raises ValueError for a y that does not fit.
        """
        self._check("Mixture.log_prob", y)
        log_p = self.components.log_prob(y, mask=mask)  # (K, ...)
        for _ in range(self.together):
            log_p = ag.sum(log_p, -1)  # (K, ...)
        return log_mean_exp(log_p, 0)

    def marginals(self) -> Mixture:
        """The distribution of each element alone. Their log p do not add up to the joint one."""
        return Mixture(self.components)

    @property
    def mean(self) -> Any:
        """μ = (1/K) Σ_k μ_k of each element."""
        return ag.mean(ag.broadcast_to(self.components.mean, self.components.shape), 0)

    @property
    def std(self) -> Any:
        """σ of each element, σ² = (1/K) Σ_k (σ_k² + (μ_k − μ)²): noise, and disagreement of the components."""
        away = self.components.mean - self.mean  # (K, ...)
        return ag.sqrt(ag.mean(self.components.std * self.components.std + away * away, 0))

    def cdf(self, y: Any) -> Any:
        """The probability of each element's being at most y, (1/K) Σ_k Φ((y − μ_k)/σ_k); y as for `log_prob`."""
        self._check("Mixture.cdf", y)
        return ag.mean(self.components.cdf(y), 0)

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> Any:
        """y = μ_k + σ_k ε, k drawn once for what belongs together: `shape` draws, axes in front.

        VJP: μ̄_k = ȳ and σ̄_k = ȳ ε for the components that were drawn; the choice has no gradient.
        """
        check_generator("Mixture.sample", rng)
        draws = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        chosen = rng.integers(self.components.shape[0], size=draws + self.shape)
        places = (chosen, *np.indices(self.shape, sparse=True))
        mean, std = (ag.broadcast_to(a, self.components.shape) for a in (self.components.mean, self.components.std))
        return Normal(mean[places], std[places]).sample(rng)

    def _check(self, name: str, y: Any) -> None:
        """ValueError unless y broadcasts to the elements: a longer one would meet another component with each row."""
        if not fits(np.shape(raw(y)), self.elements):
            raise ValueError(f"{name}: y has shape {np.shape(raw(y))}; it must broadcast to {self.elements}")


def log_mean_exp(x: Any, axis: int = 0) -> Any:
    """log of the mean of eˣ along one axis: the logarithm of a mixture's density from those of its components."""
    count = np.asarray(raw(x).shape[axis], raw(x).real.dtype)
    return ag.logsumexp(x, axis) - np.log(count)


def check_generator(name: str, rng: Any) -> None:
    """TypeError unless random numbers can be drawn from `rng`."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"{name}: rng is {type(rng).__name__}; pass numpy.random.default_rng(seed)")
