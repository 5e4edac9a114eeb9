"""Every differentiable operation of refnp with small inputs, for the table of gradients."""

from __future__ import annotations

import dataclasses

import numpy as np

from refnp.verify.operations import (
    convcnp,
    convolutions,
    engine,
    neural_processes,
    positions,
    probability,
    rows,
    sets,
    tnp,
    transformer,
    vision,
)
from refnp.verify.operations.operation import Operation


def operations(seed: int = 0) -> list[Operation]:
    """All operations, chapter by chapter; those of the layers, and each page of models, on inputs drawn with `seed`."""
    rng = np.random.default_rng(seed)
    layers = (engine, rows, convolutions, sets, probability, positions)
    models = (transformer, vision, neural_processes, tnp, convcnp)
    found = [operation for page in layers for operation in page.operations(rng)]
    for page in models:
        drawn = page.operations(np.random.default_rng(seed))
        found += [dataclasses.replace(operation, model=True) for operation in drawn]
    return found
