"""Every differentiable operation of refnp with small inputs, for the table of gradients."""

from __future__ import annotations

import numpy as np

from refnp.verify.operations.convolutions import operations as convolutions
from refnp.verify.operations.engine import operations as engine
from refnp.verify.operations.operation import Operation
from refnp.verify.operations.probability import operations as probability
from refnp.verify.operations.rows import operations as rows
from refnp.verify.operations.sets import operations as sets


def operations(seed: int = 0) -> list[Operation]:
    """All operations, chapter by chapter, on inputs drawn with `seed`."""
    rng = np.random.default_rng(seed)
    return [operation for page in (engine, rows, convolutions, sets, probability) for operation in page(rng)]
