"""Sawtooth waves: functions for which a Gaussian process is the wrong model, with jumps at unknown places.

    f(x) = u mod 1,   u = ω (d·x + s) + ½        frequency ω, direction d with |d| = 1, shift s

rises from 0 to 1 within 1/ω along d and falls at once. Cut off after K terms, its Fourier series

    f(x) = ½ − (1/π) Σ_{k=1}^{K} (−1)^k sin(2π k ω (d·x + s))/k

is smooth, and overshoots by about 9 % of the jump on either side (Gibbs).
Source: Gordon et al. (2020), app. C, and their code (the sum); Bruinsma (2022) and neuralprocesses (the exact wave).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from refnp.autograd.tensor import Array
from refnp.tasks.task import Places, Task, check_draw, check_hyper_parameter, check_sizes, drawn_number, drawn_sizes


def sawtooth(
    x: np.ndarray, frequency: float | Array, shift: float | Array = 0.0, *, terms: int | Array | None = None
) -> np.ndarray:
    """The wave at x along its direction: exact, or the first `terms` of its series; all arguments broadcast."""
    turns = frequency * (x + shift)
    if terms is None:
        return np.mod(turns + 0.5, 1.0)
    total = np.zeros(np.broadcast_shapes(turns.shape, np.shape(terms)), turns.dtype)
    for k in range(1, int(np.max(terms)) + 1):
        term = np.sin(2 * math.pi * k * turns) / k
        total += np.where(k <= np.asarray(terms), term if k % 2 else -term, 0)
    return 0.5 + total / math.pi


@dataclass(frozen=True, eq=False)
class SawtoothTasks:
    """Tasks from sawtooth waves, without noise: frequency, shift and direction are drawn for each task.

    `frequency` and `shift` are numbers or ranges (low, high); without a shift, it is uniform over one period. `terms`
    (low, high) counts the terms of the series, None is the exact wave. With `directions`, d is uniform on the unit
    sphere (in one dimension ±1: half the waves fall instead of rising), without, it is the first axis.
    """

    frequency: float | tuple[float, float]
    places: Places
    shift: float | tuple[float, float] | None = None
    terms: tuple[int, int] | None = None
    directions: bool = False
    outputs: ClassVar[int] = 1

    def __post_init__(self):
        check_hyper_parameter("SawtoothTasks", "frequency", self.frequency)
        if self.shift is not None:
            check_hyper_parameter("SawtoothTasks", "shift", self.shift, at_least=-math.inf)
        if self.terms is not None:
            check_sizes("SawtoothTasks", "terms", self.terms)

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64 with dy = 1; zeros where masks hide."""
        check_draw("SawtoothTasks", rng, batch)
        frequency = np.reshape(drawn_number(rng, self.frequency, batch), (-1, 1))  # (B, 1) or (1, 1)
        shift = (
            rng.uniform(size=batch) / frequency[:, 0] if self.shift is None else drawn_number(rng, self.shift, batch)
        )
        terms = None if self.terms is None else drawn_sizes(rng, *self.terms, batch, ragged=True)[:, None]

        def wave(x):
            return sawtooth(self._along(rng, x), frequency, np.reshape(shift, (-1, 1)), terms=terms)[..., None]

        return self.places.task(rng, batch, wave)

    def sample_with_posterior(self, rng: np.random.Generator, batch: int) -> tuple[Task, None]:
        """The tasks that `sample` draws, and None: they come from no Gaussian process, and have no exact posterior."""
        return self.sample(rng, batch), None

    def _along(self, rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        """d·x, (B, N)."""
        if not self.directions:
            return x[..., 0]
        direction = rng.standard_normal((len(x), 1, x.shape[-1]))
        return (x * direction).sum(-1) / np.sqrt((direction * direction).sum(-1))
