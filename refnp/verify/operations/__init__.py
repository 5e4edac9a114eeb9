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
    """All operations, chapter by chapter, on inputs drawn with `seed`."""
    rng = np.random.default_rng(seed)
    layers = (engine, rows, convolutions, sets, probability, positions)
    models = (transformer, vision, neural_processes, tnp, convcnp)
    found = [operation for page in layers for operation in page.operations(rng)]
    return found + [dataclasses.replace(model, model=True) for page in models for model in page.operations(rng)]
