"""Gaussian processes: random functions whose values at any places are jointly normal.

    y(x) = f(x) + σ ε,   f ~ GP(0, k),   ε ~ N(0, 1)        y(x_1), …, y(x_N) ~ N(0, K + σ² I),   K_ij = k(x_i, x_j)

A sample is L ε with L Lᵀ = K + σ² I. The matrix of a smooth kernel at close places is singular in floating point,
so a noise variance below NUGGET · k(x, x) is raised to that. Only processes without noise (or almost) are touched:
it adds a standard deviation of 1e-5 s, L exists for up to 900 points (Higham 2002, th. 10.7: N² u < NUGGET), and the
posterior, which knows of the nugget, keeps its digits. Everything is computed in float64.
Source: Rasmussen & Williams (2006), ch. 2 and A.2; Sivaraya (2023) §2.1 for tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd.linalg import cholesky, solve_lower
from refnp.tasks.draws import Places, check_draw, check_hyper_parameter, check_rng, hidden, number
from refnp.tasks.kernels import Kernel
from refnp.tasks.posterior import Posterior
from refnp.tasks.task import Task

NUGGET = 1e-10  # the least noise variance, as a part of k(x, x)


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """y = f + noise with known hyper-parameters: the kernel's and `noise_std` σ, each one number or (B,), one a task.

    With dy outputs, each is a function of its own with the same kernel.
    """

    kernel: Kernel
    noise_std: float | np.ndarray = 0.0

    def __post_init__(self):
        check_hyper_parameter("GaussianProcess", "noise_std", self.noise_std, at_least=0)
        if isinstance(self.noise_std, tuple):
            raise ValueError(f"GaussianProcess: noise_std is the range {self.noise_std}; draw a number for each task")

    def noise_variance(self) -> Any:
        """σ², and at least NUGGET · k(x, x): a number or (B,)."""
        return np.maximum(np.square(self.noise_std), NUGGET * self.kernel.variance())

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """K + σ² I of the values at x: (B, N, dx) → (B, N, N). Raises ValueError if B is not that of the kernel."""
        x = np.asarray(x, np.float64)
        if np.shape(self.noise_std) not in ((), (len(x),)):
            raise ValueError(
                f"GaussianProcess: noise_std has shape {np.shape(self.noise_std)} but x holds {len(x)} tasks; "
                "it must be a number or one for each"
            )
        noise, matrix = self.noise_variance(), self.kernel(x, x)  # matrix (B, N, N)
        np.einsum("bnn->bn", matrix)[...] += np.reshape(noise, (-1, 1))
        return matrix

    def sample(self, rng: np.random.Generator, x: np.ndarray, outputs: int = 1) -> np.ndarray:
        """y = L ε at x (B, N, dx), noise included: (B, N, dy) with dy = `outputs`."""
        check_rng("GaussianProcess.sample", rng)
        return cholesky(self.covariance(x)) @ rng.standard_normal((*x.shape[:2], outputs))

    def posterior(self, task: Task) -> Posterior:
        """The exact distribution of the targets given the contexts, noise included.

        One factor gives all of it. With contexts c first and targets t after them,

            K + σ² I = L Lᵀ,   L = [[L_cc, 0], [L_tc, L_tt]]        y_t | y_c ~ N(L_tc L_cc⁻¹ y_c, L_tt L_ttᵀ)

        so the covariance is never the difference K_tt − K_tc K_cc⁻¹ K_ct, and never indefinite. What a mask hides
        becomes a standard normal number, independent of everything, and is not counted.
        """
        task = task.astype(np.float64)
        present = np.concatenate([task.context_present, task.target_present], 1)  # (B, C + T)
        context_x, context_y = hidden(task.context_mask, task.context_x, task.context_y)
        (target_x,) = hidden(task.target_mask, task.target_x)
        matrix = self.covariance(np.concatenate([context_x, target_x], 1))
        if not present.all():
            matrix = np.where(present[:, :, None] & present[:, None, :], matrix, np.eye(present.shape[1]))
        factor = cholesky(matrix)  # (B, C + T, C + T)
        contexts = context_x.shape[1]
        whitened = solve_lower(factor[:, :contexts, :contexts], context_y)  # (B, C, dy)   L_cc⁻¹ y_c
        mean = factor[:, contexts:, :contexts] @ whitened  # (B, T, dy)
        return Posterior(mean, factor[:, contexts:, contexts:], task.target_y, task.target_present)


@dataclass(frozen=True, eq=False)
class GaussianProcessTasks:
    """Tasks from Gaussian processes: hyper-parameters that are ranges are drawn anew for each task.

    `kernel` and `noise_std` as in `GaussianProcess`, each number possibly a range (low, high); `places` say how many
    points and where; `outputs` is dy.   Source: Sivaraya (2023) §2.1; Garnelo et al. (2018), §4.1.
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
        process = GaussianProcess(self.kernel.drawn(rng, batch), number(rng, self.noise_std, batch))
        return self.places.task(rng, batch, lambda x: process.sample(rng, x, self.outputs)), process
