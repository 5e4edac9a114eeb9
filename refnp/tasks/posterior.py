"""The oracle: the best prediction there is, and how far a model's prediction is from it.

For a task from a known Gaussian process the targets are y_t ~ N(μ, Σ) given the contexts, exactly. All figures are per
target: sums over the T targets present and their dy outputs, divided by T; one number for each task, (B,). A task
without targets has 0.

    marginal log-likelihood   (1/T) Σ_t log N(y_t; μ_t, Σ_tt)    each target by itself: the bar for CNPs and TNP-D
    joint log-likelihood      (1/T) log N(y; μ, Σ)               all together: for TNP-A, TNP-ND, autoregressive use
    KL                        (1/T) KL(N(μ, Σ) ‖ q)              from the oracle to a model's q of all targets

The KL is taken over all targets at once. So a model with independent targets, q = Π_t N(m_t, s_t²), cannot reach 0:

    KL = Σ_t KL(N(μ_t, Σ_tt) ‖ N(m_t, s_t²))  +  ½ (Σ_t log Σ_tt − log det Σ)

The second part does not depend on the model. It is the `diagonal_kl`, the KL of the oracle's own marginals, and the row
called "diagonal GP" in Bruinsma's tables. Marginal and joint figures are different quantities.
Source: Bruinsma (2022), Convolutional Conditional Neural Processes, ch. 6; Rasmussen & Williams (2006), eq. 2.23-2.24.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd.linalg import cholesky
from refnp.autograd.primitives import raw
from refnp.layers.densities import diagonal_of
from refnp.layers.distributions import MultivariateNormal, Normal
from refnp.layers.divergences import multivariate_normal_kl, normal_kl


class Posterior:
    """N(μ, L Lᵀ) of the targets of each task, with the values y that they really had.

    Shapes: mean μ (B, T, dy), factor L (B, T, T), the same for all outputs, y (B, T, dy), present (B, T) booleans.
    `GaussianProcess.posterior` makes it; targets that are not present are standard normal there, and never counted.
    """

    def __init__(self, mean: np.ndarray, factor: np.ndarray, y: np.ndarray, present: np.ndarray):
        self.mean, self.factor, self.present = mean, factor, present
        self.y = np.where(present[..., None], y, 0)
        self.std = np.sqrt((factor * factor).sum(-1))  # (B, T)   √Σ_tt
        self.targets = np.maximum(present.sum(-1), 1)  # (B,)

    def marginals(self, *, floor: float = 0.0) -> Normal:
        """Each target by itself, (B, T, dy): N(μ_t, Σ_tt), with standard deviations of at least `floor`."""
        return Normal(self.mean, np.broadcast_to(np.maximum(self.std, floor)[..., None], self.mean.shape))

    def joint(self) -> MultivariateNormal:
        """All targets together, a distribution of T numbers for each task and output: its shape is (B, dy)."""
        return MultivariateNormal(self.mean.swapaxes(1, 2), self.factor[:, None])

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> np.ndarray:
        """Values of all targets together, drawn `shape` times: (*shape, B, T, dy)."""
        return self.joint().sample(rng, shape).swapaxes(-1, -2)

    def marginal_log_likelihood(self, *, floor: float = 0.0) -> np.ndarray:
        """(1/T) Σ_t log N(y_t; μ_t, Σ_tt), (B,).

        With a `floor` under the standard deviations it is the best that a model with such a floor can hope for.
        """
        counts = np.broadcast_to(self.present[..., None], self.mean.shape)
        return self.marginals(floor=floor).log_prob(self.y, mask=counts).sum((1, 2)) / self.targets

    def joint_log_likelihood(self) -> np.ndarray:
        """(1/T) log N(y; μ, Σ), (B,)."""
        y = self.y.swapaxes(1, 2)  # (B, dy, T)
        counts = np.broadcast_to(self.present[:, None], y.shape)
        return self.joint().log_prob(y, mask=counts).sum(1) / self.targets

    def diagonal_kl(self) -> np.ndarray:
        """½ (Σ_t log Σ_tt − log det Σ)/T for each output, added up, (B,): what independent targets lose at least.

        Σ_tt = Σ_j L_tj² is never less than L_tt², so no term is negative.
        """
        ratio = np.tril(self.factor, -1) / diagonal_of(self.factor)[..., None]  # (B, T, T)
        lost = 0.5 * np.log1p((ratio * ratio).sum(-1))  # (B, T)
        return self.mean.shape[-1] * np.where(self.present, lost, 0).sum(-1) / self.targets

    def kl(self, prediction: Normal | MultivariateNormal) -> np.ndarray:
        """(1/T) KL(N(μ, Σ) ‖ prediction), (B,), in float64.

        `prediction` is what a model says: Normal of shape (B, T, dy), or MultivariateNormal of shape (B,) with T · dy
        numbers, the outputs of a target next to each other. What it says of absent targets is not looked at.
        Raises TypeError for another distribution, ValueError for another shape.
        """
        if isinstance(prediction, Normal):
            return self._kl_of_independent(prediction)
        if isinstance(prediction, MultivariateNormal):
            return self._kl_of_joint(prediction)
        raise TypeError(
            f"Posterior.kl: prediction is {type(prediction).__name__}; pass Normal or MultivariateNormal, "
            "or estimate it from log densities with kl_estimate"
        )

    def kl_estimate(self, log_prob: Any) -> np.ndarray:
        """(1/T) (log N(y; μ, Σ) − log q(y)), (B,), whose mean over tasks tends to the KL.

        For models that have a density and no formula, such as autoregressive ones: `log_prob` (B,) is log q of all
        present targets of a task together. A single one may be negative.
        """
        log_prob = np.asarray(raw(log_prob), np.float64)
        if log_prob.shape != self.targets.shape:
            raise ValueError(
                f"Posterior.kl_estimate: log_prob has shape {log_prob.shape}; it must be {self.targets.shape}, "
                "the joint log density of each task"
            )
        return self.joint_log_likelihood() - log_prob / self.targets

    def _kl_of_independent(self, prediction: Normal) -> np.ndarray:
        self._check_shape("a Normal", prediction.shape, self.mean.shape)
        own = self.marginals()
        mean, std = (
            np.where(self.present[..., None], np.asarray(raw(theirs), np.float64), ours)
            for theirs, ours in ((prediction.mean, own.mean), (prediction.std, own.std))
        )
        return normal_kl(own.mean, own.std, mean, std).sum((1, 2)) / self.targets + self.diagonal_kl()

    def _kl_of_joint(self, prediction: MultivariateNormal) -> np.ndarray:
        tasks, targets, outputs = self.mean.shape
        numbers = targets * outputs
        theirs = np.asarray(raw(prediction.mean), np.float64)
        self._check_shape("the mean of a MultivariateNormal", theirs.shape, (tasks, numbers))
        own = self.factor[:, :, None, :, None] * np.eye(outputs)[:, None]  # (B, T, dy, T, dy)
        own = own.reshape(tasks, numbers, numbers)
        factor = np.broadcast_to(np.asarray(raw(prediction.cholesky_factor), np.float64), own.shape)
        mean = self.mean.reshape(tasks, numbers)
        if not self.present.all():
            counts = np.repeat(self.present, outputs, -1)  # (B, T·dy)
            theirs = np.where(counts, theirs, mean)
            rows = np.where(counts[..., None], np.tril(factor), 0)
            others = np.eye(numbers) * ~counts[..., None]
            factor = cholesky(rows @ rows.swapaxes(-1, -2) + others)
        return multivariate_normal_kl(mean, own, theirs, factor) / self.targets

    def _check_shape(self, what: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        if shape != wanted:
            raise ValueError(f"Posterior.kl: {what} has shape {shape}; it must be {wanted}")
