"""How the cost of a prediction grows with the number of points: neural processes beside the exact posterior.

    python -m refnp.studies.growth [--write]

M context points and as many targets. Multiply-adds are counted on the tape and are a polynomial in M, whose degree and
value at 1000 points follow from small sizes exactly. Times are those of one machine: the least of three, and the
exponent of M between the two largest sizes.
"""

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import cholesky, matmul, no_grad, triangular_solve
from refnp.autograd.primitives import raw
from refnp.models.neural_process import NeuralProcess
from refnp.studies.cost import degree, multiply_adds, tensors
from refnp.studies.evaluation import Table
from refnp.studies.measured import Rows, command, table
from refnp.studies.registry import build
from refnp.tasks.gaussian_process import GaussianProcess
from refnp.tasks.kernels import EQ

MODELS = ("cnp", "np", "canp", "anp", "tnpd", "tetnp", "pseudo-tnp")
EXACT = "exact posterior"
PROCESS = GaussianProcess(EQ(0.5), 0.02)
SIZES = (256, 512, 1024)  # of the times
STEP, POINTS = 2, 5  # of the counts: at 2, 4, 6, 8, 10 points
SHOWN = 1000


def points(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M context points and M targets: x, y, target x."""
    rng = np.random.default_rng(count)
    return rng.uniform(-2, 2, (1, count, 1)), rng.normal(size=(1, count, 1)), rng.uniform(-2, 2, (1, count, 1))


def exact(x: Any, y: Any, target: Any) -> tuple[Any, Any]:
    """Mean and factor of the exact posterior, as `GaussianProcess.posterior` has them, its products on the tape."""
    m = np.shape(y)[1]
    covariance = PROCESS.covariance(np.concatenate([raw(x), raw(target)], 1))
    factor = cholesky(tensors(covariance)[0])
    whitened = triangular_solve(factor[:, :m, :m], y)
    return matmul(factor[:, m:, :m], whitened), factor[:, m:, m:]


def new(name: str) -> NeuralProcess:
    """The model with random weights, and its default sizes."""
    return build(name, {}, dtype=np.float64, rng=np.random.default_rng(0))


def count(name: str) -> Callable[[int], int]:
    """The multiply-adds of a prediction, as a function of the number of points."""
    model = None if name == EXACT else new(name)

    def of(size: int) -> int:
        sets = tensors(*points(size))
        if model is None:
            return multiply_adds(exact(*sets)[0])
        prediction = model(*sets)
        return multiply_adds(prediction.mean)

    return of


def at(of: Callable[[int], int], size: int) -> int:
    """A polynomial in the number of points at any `size`, a multiple of STEP, from its values at small sizes."""
    row, total, steps = [of(STEP * (i + 1)) for i in range(POINTS)], 0, size // STEP - 1
    for order in range(POINTS):
        total += row[0] * math.comb(steps, order)
        row = [b - a for a, b in itertools.pairwise(row)]
    return total


def seconds(name: str, size: int) -> float:
    """Processor time of a prediction, the least of three."""
    model = None if name == EXACT else new(name).without_tape()
    x, y, target = points(size)
    found = []
    with no_grad():
        for _ in range(3):
            start = time.process_time()
            if model is None:
                exact(x, y, target)
            else:
                model(x, y, target)
            found.append(time.process_time() - start)
    return min(found)


def counted(name: str) -> dict[str, Any]:
    """The degree of the multiply-adds in M, and their number for 1000 points, in millions."""
    of = count(name)
    return {"degree": degree(of, STEP, POINTS), "million multiply-adds": at(of, SHOWN) / 1e6}


def timed(name: str) -> dict[str, Any]:
    """Seconds for the largest size, and the exponent of M between the two largest."""
    times = [seconds(name, size) for size in SIZES]
    return {"ms at 1024": 1000 * times[-1], "exponent of time": math.log2(times[-1] / times[-2])}


def measure() -> Rows:
    """All models and the exact posterior."""
    return {name: counted(name) | timed(name) for name in (*MODELS, EXACT)}


def tables(rows: Rows) -> list[Table]:
    """Counts and times."""
    columns = {"degree": "d", "million multiply-adds": ",.0f", "ms at 1024": ".0f", "exponent of time": ".2f"}
    return [table("a prediction for M targets from M context points", "", columns, rows)]


if __name__ == "__main__":
    command("growth", measure, tables)
