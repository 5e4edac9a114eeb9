"""The models of the studies so small that a step takes milliseconds, and tasks with few points."""

import dataclasses

from refnp.studies.registry import sampler
from refnp.tasks.task import Places

TRANSFORMER = {"features": 8, "heads": 2, "hidden": 8, "layers": 1}
OPTIONS = {
    "cnp": {"hidden": 8},
    "canp": {"hidden": 8, "heads": 2},
    "np": {"hidden": 8, "latent": 3, "loss_samples": 2},
    "anp": {"hidden": 8, "latent": 3, "heads": 2, "loss_samples": 2},
    "tnpd": TRANSFORMER,
    "tnpa": TRANSFORMER,
    "tnpnd": TRANSFORMER | {"target_layers": 1, "rank": 3},
    "convcnp": {"points_per_unit": 8},
    "convcnp-simple": {"points_per_unit": 8},
    "convcnp-bruinsma": {"points_per_unit": 8, "channels": [4, 4]},
    "tetnp": TRANSFORMER | {"kernel": [4]},
}


def few_points(task="eq", *, ragged=False):
    """The sampler of a task with 0 to 5 context points and 1 to 6 targets."""
    tasks = sampler(task)
    places = Places((0, 5), (1, 6), tasks.places.context_range, ragged=ragged)
    return dataclasses.replace(tasks, places=places)
