"""The models of the studies so small that a step takes milliseconds, and tasks with few points."""

import dataclasses

import numpy as np

from refnp.studies.registry import MODELS, options_of, sampler
from refnp.tasks.task import Places

NUMBERS = {"hidden": 8, "features": 8, "heads": 2, "layers": 1, "target_layers": 1, "rank": 3}
NUMBERS |= {"latent": 3, "loss_samples": 2, "points_per_unit": 8}
LISTS = {"channels": [4, 4], "kernel": [4]}


def small_options(name):
    """Of the numbers and lists above those that the model has as options: a new model needs no line here."""
    defaults = options_of(name)
    small = {option: value for option, value in NUMBERS.items() if option in defaults}
    return small | {option: value for option, value in LISTS.items() if isinstance(defaults.get(option), tuple)}


OPTIONS = {name: small_options(name) for name in MODELS}


def spoiled(task):
    """The same task with NaN wherever its masks hide a point."""
    hidden = {}
    for kind in ("context", "target"):
        mask = getattr(task, f"{kind}_mask")[..., None]
        hidden |= {name: np.where(mask, getattr(task, name), np.nan) for name in (f"{kind}_x", f"{kind}_y")}
    return dataclasses.replace(task, **hidden)


def few_points(task="eq", *, ragged=False):
    """The sampler of a task with 0 to 5 context points and 1 to 6 targets."""
    tasks = sampler(task)
    places = Places((0, 5), (1, 6), tasks.places.context_range, ragged=ragged)
    return dataclasses.replace(tasks, places=places)
