"""The exact posterior of a known Gaussian process as a model: what every figure of a study is known for."""

import math

import numpy as np

from refnp.autograd import Parameter
from refnp.layers.distributions import Normal
from refnp.models.neural_process import NeuralProcess
from refnp.tasks.gaussian_process import GaussianProcess
from refnp.tasks.kernels import EQ
from refnp.tasks.task import Task


class Exact(NeuralProcess):
    """The posterior of Bruinsma's EQ process, each target by itself; standard deviations `wide` times as large."""

    def __init__(self, wide=1.0):
        super().__init__()
        self.process, self.wide = GaussianProcess(EQ(0.25), math.sqrt(0.05)), wide
        self.unused = Parameter(np.zeros(1))

    def __call__(self, context_x, context_y, target_x, context_mask=None):
        context_x, context_y, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
        task = Task(context_x, context_y, target_x, np.zeros_like(target_x), mask)
        exact = self.process.posterior(task).marginals()
        return Normal(exact.mean, self.wide * exact.std)


def rounding(points):
    """How far two ways to the same log density of N values of this process may part, for each of them.

    Cholesky's backward error is at most N (N + 1) ε times the matrix (Higham (2002), th. 10.3), whose condition is at
    most (N + σ²)/σ²; the quadratic forms of the values, a few σ each, carry it on. Both ways have one such error.
    """
    noise = 0.05
    return 2 * 9 * points * (points + 1) * (points + noise) / noise * np.finfo(float).eps
