"""Gaussian processes: random functions whose values at any places are jointly normal; their exact posterior.

    y(x) = f(x) + σ ε,   f ~ GP(0, k),   ε ~ N(0, 1)        y(x_1), …, y(x_N) ~ N(0, K + σ² I),   K_ij = k(x_i, x_j)

A sample is L ε with L Lᵀ = K + σ² I. The matrix of a smooth kernel at close places is singular in floating point: in
float64 L exists for up to 900 points where σ² ≥ NUGGET · k(x, x) (Higham (2002), th. 10.7: N² u < NUGGET). With less
noise than that, samples are V √Λ ε of the eigenvalues Λ, and the posterior is computed in the widest precision of the
machine; where no digits are left in that either, it is refused, and the message says what would help. Noise is never
added that was not asked for: `nugget` asks for it. Tasks without noise are drawn with a nugget, a standard deviation of
1e-5 s, and answered with the same: `process.nugget` of `GaussianProcessTasks.sample_with_process`.

Given the contexts, the targets are y ~ N(μ, Σ), exactly: the best prediction there is. All figures are per target: sums
over the N targets present and their dy outputs, divided by N; one number for each task, (B,). A task without targets
has 0.

    marginal log-likelihood   (1/N) Σ_n log N(y_n; μ_n, Σ_nn)    each target by itself: the bar for CNPs and TNP-D
    joint log-likelihood      (1/N) log N(y; μ, Σ)               all together: for TNP-A, TNP-ND, autoregressive use
    KL                        (1/N) KL(N(μ, Σ) ‖ q)              from the posterior to a model's q of all targets

The KL is taken over all targets at once. So a model with independent targets, q = Π_n N(m_n, s_n²), cannot reach 0:

    KL = Σ_n KL(N(μ_n, Σ_nn) ‖ N(m_n, s_n²))  +  ½ (Σ_n log Σ_nn − log det Σ)

The second part does not depend on the model. It is the `diagonal_kl`, the KL of the posterior's own marginals, and the
row called "diagonal GP" in Bruinsma's tables. Marginal and joint figures are different quantities.
Source: Rasmussen & Williams (2006), ch. 2, eq. 2.23-2.24 and A.2; Sivaraya (2023) §2.1 for tasks; Bruinsma (2022),
ch. 6.
Transcription: tests/transcriptions/gaussian_process.py.
"""

import math
from dataclasses import dataclass

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike
from refnp.autograd.triangular import cholesky
from refnp.kernels.triangular import solve_lower
from refnp.layers.distributions import Normal, check_generator
from refnp.layers.divergence import multivariate_normal_kl, normal_kl
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.numbers.summation import sum_of_products
from refnp.tasks.kernels import Kernel
from refnp.tasks.task import Places, Task, check_draw, check_hyper_parameter, drawn_number, zeroed

NUGGET = 1e-10  # a noise variance, as a part of k(x, x), from which on float64 has digits enough
MOVED = 10  # standard deviations, by a bound on how far rounding moves a mean that is some ten times what it does
KEPT = 1e4  # times its rounding error a pivot must be: four digits of it are right at least


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """y = f + noise with known hyper-parameters: the kernel's and `noise_std` σ, each one number or (B,), one a task.

    With dy outputs, each is a function of its own with the same kernel. `nugget` is the least noise variance, as a part
    of k(x, x): a σ² below nugget · k(x, x) is raised to that; 0 raises none.
    """

    kernel: Kernel
    noise_std: float | Array = 0.0
    nugget: float = 0.0

    def __post_init__(self):
        check_hyper_parameter("GaussianProcess", "noise_std", self.noise_std, at_least=0)
        check_hyper_parameter("GaussianProcess", "nugget", self.nugget, at_least=0)
        if isinstance(self.noise_std, tuple):
            raise ValueError(f"GaussianProcess: noise_std is the range {self.noise_std}; draw a number for each task")

    def noise_variance(self) -> np.floating | Array:
        """σ², and at least nugget · k(x, x): a number or (B,)."""
        return np.maximum(np.square(self.noise_std), self.nugget * self.kernel.variance())

    def is_noisy(self) -> bool:
        """Whether σ² ≥ NUGGET · k(x, x) in every task, so that float64 has the digits of K + σ² I."""
        return bool(np.all(self.noise_variance() >= NUGGET * self.kernel.variance()))

    def covariance(self, x: Array) -> Array:
        """K + σ² I of the values at x: (B, N, dx) → (B, N, N). Raises ValueError if B is not that of the kernel."""
        return self._covariance(np.asarray(x, np.float64))

    def _covariance(self, x: Array) -> Array:
        """In the precision of the places."""
        if np.shape(self.noise_std) not in ((), (len(x),)):
            raise ValueError(
                f"GaussianProcess: noise_std has shape {np.shape(self.noise_std)} but x holds {len(x)} tasks; "
                "it must be a number or one for each"
            )
        noise, matrix = self.noise_variance(), self.kernel(x, x)  # matrix (B, N, N)
        sum_of_products("bnn->bn", matrix)[...] += np.reshape(noise, (-1, 1))
        return matrix

    def sample(self, rng: np.random.Generator, x: Array, outputs: int = 1) -> Array:
        """y = L ε at x (B, N, dx), noise included: (B, N, dy) with dy = `outputs`."""
        check_generator("GaussianProcess.sample", rng)
        matrix = self.covariance(x)
        if self.is_noisy():
            root = cholesky(matrix)
        else:  # whose rounding may hide the smallest eigenvalues, so that there is no factor
            values, vectors = np.linalg.eigh(matrix)
            root = vectors * np.sqrt(np.maximum(values, 0))[:, None]  # those below 0 are of rounding alone
        return root @ rng.standard_normal((*x.shape[:2], outputs))

    def posterior(self, task: Task) -> "Posterior":
        """The exact distribution of the targets given the contexts, noise included.

        One factor gives all of it. With contexts c first and targets t after them,

            K + σ² I = L Lᵀ,   L = [[L_cc, 0], [L_tc, L_tt]]        y_t | y_c ~ N(L_tc L_cc⁻¹ y_c, L_tt L_ttᵀ)

        so the covariance is never the difference K_tt − K_tc K_cc⁻¹ K_ct, and never indefinite. What a mask hides
        becomes a standard normal number, independent of everything, and has no part in the figures.
        Raises ValueError where there is so little noise between places so near each other that no digits are left, of
        the covariance, or of the mean if the contexts are far from what the process gives.
        """
        precision = np.float64 if self.is_noisy() else np.longdouble
        task = task.astype(np.float64)
        present = np.concatenate([task.context_present, task.target_present], 1)  # (B, M + N)
        context_x, context_y = zeroed(task.context_mask, task.context_x, task.context_y)
        (target_x,) = zeroed(task.target_mask, task.target_x)
        matrix = self._covariance(np.concatenate([context_x, target_x], 1).astype(precision))
        if not present.all():
            matrix = np.where(present[:, :, None] & present[:, None, :], matrix, np.eye(present.shape[1]))
        factor = cholesky(matrix) if self.is_noisy() else self._wide_factor(matrix)  # (B, M + N, M + N)
        contexts = context_x.shape[1]
        whitened = solve_lower(factor[:, :contexts, :contexts], context_y.astype(precision))  # (B, M, dy)   L_cc⁻¹ y_c
        mean = factor[:, contexts:, :contexts] @ whitened  # (B, N, dy)
        self._refuse_lost_mean(matrix, factor, whitened)
        mean, own = mean.astype(np.float64), factor[:, contexts:, contexts:].astype(np.float64)
        return Posterior(mean, own, task.target_y, task.target_present)

    def _refuse_lost_mean(self, matrix: Array, factor: Array, whitened: Array) -> None:
        """ValueError unless rounding moves the mean by less than MOVED standard deviations, by a bound.

        A pivot L_nn² is off by (N + 1) u K_nn, so L_tc by that over L_nn, and the mean by that times |L_cc⁻¹ y_c|. A
        standard deviation is no less than the least L_nn.
        """
        u, n = np.finfo(matrix.dtype).eps / 2, matrix.shape[-1]
        largest = np.diagonal(matrix, axis1=-2, axis2=-1).max(-1, initial=0)  # (B,)
        least = np.diagonal(factor, axis1=-2, axis2=-1).min(-1, initial=np.inf)
        far = np.sqrt((whitened * whitened).sum(-2)).max(-1, initial=0)  # (B,) as many standard deviations
        if ((n + 1) * u * largest * far > MOVED * least**2).any():
            raise ValueError(
                f"GaussianProcess.posterior: noise_std is {self.noise_std}, and these contexts lie {far.max():.1g} "
                f"standard deviations from the mean of the process: no digits of the posterior's are left in "
                f"{np.dtype(matrix.dtype).name}; pass a larger noise_std, or contexts that such a process gives"
            )

    def _wide_factor(self, matrix: Array) -> Array:
        """L in the widest precision; ValueError unless every pivot L_nn² is KEPT times what rounding does to it.

        A pivot is off by no more than (N + 1) u K_nn (Higham (2002), th. 10.3).
        """
        u, n = np.finfo(matrix.dtype).eps / 2, matrix.shape[-1]
        least = KEPT * (n + 1) * u * np.diagonal(matrix, axis1=-2, axis2=-1)  # (B, N)
        try:
            factor = cholesky(matrix)
        except ValueError:
            factor = np.zeros_like(matrix)
        if (np.diagonal(factor, axis1=-2, axis2=-1) ** 2 < least).any():
            enough = math.sqrt(float(least.max(initial=0)))
            raise ValueError(
                f"GaussianProcess.posterior: noise_std is {self.noise_std}, and of the covariance of {n} places so "
                f"near each other no digits are left in {np.dtype(matrix.dtype).name}; pass a noise_std of at least "
                f"{enough:.1g}, fewer places or such that lie farther apart, or nugget={NUGGET:g}, which makes it 1e-5 "
                "of the kernel's scale"
            )
        return factor


@dataclass(frozen=True, eq=False)
class GaussianProcessTasks:
    """Tasks from Gaussian processes: hyper-parameters that are ranges are drawn anew for each task.

    `kernel` and `noise_std` as in `GaussianProcess`, each number possibly a range (low, high); `places` say how many
    points and where; `outputs` is dy. With a noise_std of 0 the processes have a nugget of NUGGET.
    Source: Sivaraya (2023) §2.1; Garnelo et al. (2018a), §4.1.
    """

    kernel: Kernel
    noise_std: float | tuple[float, float]
    places: Places
    outputs: int = 1

    def __post_init__(self):
        check_hyper_parameter("GaussianProcessTasks", "noise_std", self.noise_std, at_least=0)
        if self.outputs < 1:
            raise ValueError(f"GaussianProcessTasks: outputs is {self.outputs}; there must be at least one")

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64; zeros where masks hide."""
        return self.sample_with_process(rng, batch)[0]

    def sample_with_process(self, rng: np.random.Generator, batch: int) -> tuple[Task, GaussianProcess]:
        """The tasks that `sample` draws, and the process they came from: process.posterior(task) is the oracle."""
        check_draw("GaussianProcessTasks", rng, batch)
        nugget = NUGGET if np.ndim(self.noise_std) == 0 and self.noise_std == 0 else 0.0
        process = GaussianProcess(self.kernel.drawn(rng, batch), drawn_number(rng, self.noise_std, batch), nugget)
        return self.places.task(rng, batch, lambda x: process.sample(rng, x, self.outputs)), process

    def sample_with_posterior(self, rng: np.random.Generator, batch: int) -> tuple[Task, "Posterior"]:
        """The tasks that `sample` draws, and the exact posterior of their targets."""
        task, process = self.sample_with_process(rng, batch)
        return task, process.posterior(task)


class Posterior:
    """N(μ, L Lᵀ) of the targets of each task, with the values y that they really had.

    Shapes: mean μ (B, N, dy), factor L (B, N, N), the same for all outputs, y (B, N, dy), present (B, N) booleans.
    `GaussianProcess.posterior` makes it; targets that are not present are standard normal there, and have no part in
    the figures.
    """

    def __init__(self, mean: Array, factor: Array, y: Array, present: Array):
        self.mean, self.factor, self.present = mean, factor, present
        self.y = np.where(present[..., None], y, 0)
        self.std = np.sqrt((factor * factor).sum(-1))  # (B, N)   √Σ_nn
        self.targets = np.maximum(present.sum(-1), 1)  # (B,)

    def marginals(self, *, floor: float = 0.0) -> Normal:
        """Each target by itself, (B, N, dy): N(μ_n, Σ_nn), with standard deviations of at least `floor`."""
        return Normal(self.mean, np.broadcast_to(np.maximum(self.std, floor)[..., None], self.mean.shape))

    def joint(self) -> MultivariateNormal:
        """All targets together, a distribution of N numbers for each task and output: its shape is (B, dy)."""
        return MultivariateNormal(self.mean.swapaxes(1, 2), self.factor[:, None])

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> Array:
        """Values of all targets together, drawn `shape` times: (*shape, B, N, dy)."""
        return self.joint().sample(rng, shape).swapaxes(-1, -2)

    def marginal_log_likelihood(self, *, floor: float = 0.0) -> Array:
        """(1/N) Σ_n log N(y_n; μ_n, Σ_nn), (B,).

        With a `floor` under the standard deviations it is the best that a model with such a floor can reach.
        """
        mask = np.broadcast_to(self.present[..., None], self.mean.shape)
        return self.marginals(floor=floor).log_prob(self.y, mask=mask).sum((1, 2)) / self.targets

    def joint_log_likelihood(self) -> Array:
        """(1/N) log N(y; μ, Σ), (B,)."""
        y = self.y.swapaxes(1, 2)  # (B, dy, N)
        mask = np.broadcast_to(self.present[:, None], y.shape)
        return self.joint().log_prob(y, mask=mask).sum(1) / self.targets

    def diagonal_kl(self) -> Array:
        """½ (Σ_n log Σ_nn − log det Σ)/N for each output, added up, (B,): what independent targets lose at least.

        Σ_nn = Σ_j L_nj² is never less than L_nn², so no term is negative.
        """
        ratio = np.tril(self.factor, -1) / np.diagonal(self.factor, axis1=-2, axis2=-1)[..., None]  # (B, N, N)
        lost = 0.5 * np.log1p((ratio * ratio).sum(-1))  # (B, N)
        return self.mean.shape[-1] * np.where(self.present, lost, 0).sum(-1) / self.targets

    def kl(self, prediction: Normal | MultivariateNormal) -> Array:
        """(1/N) KL(N(μ, Σ) ‖ prediction), (B,), in float64.

        `prediction` is what a model says: Normal of shape (B, N, dy), or MultivariateNormal of shape (B,) with N · dy
        numbers, the outputs of a target next to each other. What it says of absent targets is not read.
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

    def kl_estimate(self, log_prob: ArrayLike) -> Array:
        """(1/N) (log N(y; μ, Σ) − log q(y)), (B,), whose mean over tasks tends to the KL.

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

    def _kl_of_independent(self, prediction: Normal) -> Array:
        self._check_shape("a Normal", prediction.shape, self.mean.shape)
        own = self.marginals()
        mean, std = (
            np.where(self.present[..., None], np.asarray(raw(theirs), np.float64), ours)
            for theirs, ours in ((prediction.mean, own.mean), (prediction.std, own.std))
        )
        return normal_kl(own.mean, own.std, mean, std).sum((1, 2)) / self.targets + self.diagonal_kl()

    def _kl_of_joint(self, prediction: MultivariateNormal) -> Array:
        tasks, targets, outputs = self.mean.shape
        numbers = targets * outputs
        theirs = np.asarray(raw(prediction.mean), np.float64)
        self._check_shape("the mean of a MultivariateNormal", theirs.shape, (tasks, numbers))
        own = self.factor[:, :, None, :, None] * np.eye(outputs)[:, None]  # (B, N, dy, N, dy)
        own = own.reshape(tasks, numbers, numbers)
        factor = np.broadcast_to(np.asarray(raw(prediction.cholesky_factor), np.float64), own.shape)
        mean = self.mean.reshape(tasks, numbers)
        if not self.present.all():
            mask = np.repeat(self.present, outputs, -1)  # (B, N·dy)
            theirs = np.where(mask, theirs, mean)
            rows = np.where(mask[..., None], np.tril(factor), 0)
            others = np.eye(numbers) * ~mask[..., None]
            factor = cholesky(rows @ rows.swapaxes(-1, -2) + others)
        return multivariate_normal_kl(mean, own, theirs, factor) / self.targets

    def _check_shape(self, what: str, shape: tuple[int, ...], right: tuple[int, ...]) -> None:
        if shape != right:
            raise ValueError(f"Posterior.kl: {what} has shape {shape}; it must be {right}")
