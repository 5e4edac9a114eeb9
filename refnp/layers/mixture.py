"""Mixtures: what a latent neural process answers with, one component for each draw of z.

    Mixture   p(y) = (1/K) Σ_k Π_i N(y_i; μ_ki, σ_ki²)        K components, i together

Source: Garnelo et al. (2018b), arXiv 1807.01622.
Transcription: tests/transcriptions/probability.py.
"""

from typing import cast

import numpy as np

from refnp import autograd as ag
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import Normal, axes_in_front, check_generator
from refnp.numbers.words import root


@explained
class Mixture:
    """K normal distributions with equal weights, along the first axis of `components`; the last axes belong together.

    Given the component, the numbers are independent: what they have in common is in the choice of k. A sample chooses
    once for all that belong together, and is coherent: a function, not noise. A latent neural process answers with a
    mixture, one component for each draw of z.

    Shapes: components (K, ...) → elements (...), of which the last `together` axes are one draw; `shape` is what
    remains in front. Normal numbers of (K, B, N, dy) with together=2 are B functions at N places.
    Raises TypeError for another distribution, ValueError without a component, or unless there are more axes than
    `together`.
    """

    @takes("", together="whole ≥ 0")
    def __init__(self, components: Normal, *, together: int = 0):
        if not isinstance(components, Normal):
            raise TypeError(
                f"Mixture: components is a {type(components).__name__}; it must be a Normal, with K in front"
            )
        if together >= len(components.shape) or not components.shape[0]:
            given = f"together is {together}, components have shape {components.shape}"
            raise ValueError(f"Mixture: {given}; the first axis, of components, must hold one, and is not together")
        self.components, self.together = components, together
        self.elements = components.shape[1:]
        self.shape = self.elements[: len(self.elements) - together]

    @takes("y to (*elements)", mask="boolean to (*elements)?, True = counts")
    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y), of `shape`, by logsumexp over the components; y broadcasts to the elements, as does `mask`.

        Elements where the mask is False are not read and add nothing.   Raises as `Normal.log_prob`, of all components.
        """
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
    @np.errstate(under="ignore")
    def std(self) -> Array | Tensor:
        """σ of each element, σ² = (1/K) Σ_k (σ_k² + (μ_k − μ)²), as a length: its squares may be out of range."""
        deviation = self.components.mean - self.mean  # (K, ...)
        sizes = [ag.broadcast_to(a, self.components.shape) for a in (self.components.std, deviation)]
        return ag.norm(ag.concatenate(sizes, 0) / root(self.components.shape[0]).like(raw(deviation)), 0)

    @takes("y to (*elements)")
    def cdf(self, y: ArrayLike) -> Array | Tensor:
        """The probability that an element is at most y, (1/K) Σ_k Φ((y − μ_k)/σ_k); y broadcasts to the elements."""
        return ag.mean(self.components.cdf(y), 0)

    @takes(
        "",
        rng="generator?",
        chosen="whole (*C)?, the numbers of components",
        epsilon="(*E)?",
        needs="not rng is given if chosen is given and epsilon is given, leave rng out: nothing is left to be drawn",
    )
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
        be drawn; TypeError without `rng` if something is, or for a `chosen` that is not integers.
        """
        if chosen is None or epsilon is None:
            check_generator("Mixture.sample", rng)
        axes, count = axes_in_front(shape), self.components.shape[0]
        if chosen is None:
            k = cast(np.random.Generator, rng).integers(count, size=axes + self.shape)
        else:
            k = given_components(chosen, axes + self.shape, count)
        places = (k, *np.indices(self.shape, sparse=True))
        mean, std = (ag.broadcast_to(a, self.components.shape) for a in (self.components.mean, self.components.std))
        found = Normal(mean[places], std[places])
        return found.sample(rng) if epsilon is None else found.sample(epsilon=epsilon)


def log_mean_exp(x: ArrayLike, axis: int = 0) -> Array | Tensor:
    """log of the mean of eˣ along one axis, NaN of none: a mixture's log density from those of its components."""
    count = np.asarray(raw(x).shape[axis], raw(x).real.dtype)
    return ag.logsumexp(x, axis) - np.log(count)


def given_components(chosen: ArrayLike, shape: tuple[int, ...], count: int) -> Array:
    """The components that a caller chooses: TypeError unless integers, ValueError for other shapes or components."""
    k = integers("Mixture.sample", "chosen", chosen, ", the numbers of components", signed=True)
    if k.shape != shape:
        raise ValueError(f"Mixture.sample: chosen has shape {k.shape}; it must be {shape}, one for each draw")
    if k.size and not 0 <= k.min() <= k.max() < count:
        raise ValueError(f"Mixture.sample: chosen holds {k.min()} to {k.max()}; components are 0 to {count - 1}")
    return k
