"""Every differentiable operation of refnp with small inputs, for the table of gradients."""

from __future__ import annotations

import numpy as np

from refnp.verify.operations import convolutions, engine, positions, probability, rows, sets, transformer, vision
from refnp.verify.operations.operation import Operation


def operations(seed: int = 0) -> list[Operation]:
    """All operations, chapter by chapter, on inputs drawn with `seed`."""
    rng = np.random.default_rng(seed)
    pages = (engine, rows, convolutions, sets, probability, positions, transformer, vision)
    return [operation for page in pages for operation in page.operations(rng)]
