"""The rows that a model is compared with: what the exact posterior reaches on the tasks of each protocol.

    python -m refnp.studies.oracle [batches]

prints them for the protocols `tnp` and `bruinsma`: means over tasks, and the standard errors of these means. Counts of
points are drawn for each task there, not for each batch: the means are the same, for every task weighs the same, and
their errors are much smaller.
"""

import sys
from collections.abc import Callable, Sequence

import numpy as np

from refnp.studies.evaluation import independent
from refnp.studies.registry import Sampler
from refnp.tasks.gaussian_process import GaussianProcessTasks, Posterior
from refnp.tasks.protocols import bruinsma, tnp

FLOOR = 0.1  # of the standard deviations of TNP-pytorch's baselines
FIGURES: dict[str, Callable[[Posterior], np.ndarray]] = {
    "marginal": Posterior.marginal_log_likelihood,
    "joint": Posterior.joint_log_likelihood,
    f"floor {FLOOR}": lambda posterior: posterior.marginal_log_likelihood(floor=FLOOR),
    "diagonal KL": Posterior.diagonal_kl,
}


def oracle_row(
    tasks: Sampler, rng: np.random.Generator, batches: int, batch: int = 16
) -> dict[str, tuple[float, float]]:
    """Each of `FIGURES` on `batches` batches: its mean over the tasks, per target, and the standard error of the mean.

    Raises TypeError for tasks that are not from Gaussian processes and have no exact posterior, ValueError for fewer
    than two batches, which have no standard error.
    """
    if not isinstance(tasks, GaussianProcessTasks):
        raise TypeError(
            f"oracle_row: tasks are {type(tasks).__name__}; only GaussianProcessTasks have an exact posterior"
        )
    if batches < 2:
        raise ValueError(f"oracle_row: batches is {batches}; a standard error needs at least 2")
    means = np.empty((batches, len(FIGURES)))
    for row in means:
        _, posterior = tasks.sample_with_posterior(rng, batch)
        row[:] = [figure(posterior).mean() for figure in FIGURES.values()]
    errors = means.std(0, ddof=1) / np.sqrt(batches)
    return {name: (float(m), float(e)) for name, m, e in zip(FIGURES, means.mean(0), errors, strict=True)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table; the first argument is the number of batches of 64 tasks, 50 unless given."""
    arguments = sys.argv[1:] if arguments is None else arguments
    batches = int(arguments[0]) if arguments else 50
    print(f"{'':36}" + "".join(f"{name:>18}" for name in FIGURES))
    rows: list[tuple[str, Sampler]] = [(f"tnp {kernel}", tnp(kernel)) for kernel in ("rbf", "matern", "periodic")]
    for kernel in ("eq", "matern", "weakly_periodic"):
        rows += [(f"bruinsma {kernel}, {where}", bruinsma(kernel, where)) for where in ("inside", "beyond")]
    for name, tasks in rows:
        row = oracle_row(independent(tasks), np.random.default_rng(0), batches, 64)
        print(f"{name:36}" + "".join(f"{f'{mean:.4f} ± {error:.4f}':>18}" for mean, error in row.values()), flush=True)


if __name__ == "__main__":
    main()
