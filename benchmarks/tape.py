"""What one small operation costs on the tape: 1000 additions and multiplications on 8 numbers, forward and backward.

The arithmetic takes nanoseconds; what is measured is everything else. JAX is absent: under `jit` nothing of the tape is
left when the program runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import differentiated
from benchmarks.timing import Needs, Work

OPERATIONS = 1000


def works(operations: int = OPERATIONS) -> list[Work]:
    arrays, bar = [np.linspace(1, 2, 8)], np.ones(8)
    return [
        Work(
            "one small operation",
            "float64",
            {
                framework: functools.partial(differentiated.BY[framework], chain(operations), arrays, bar)
                for framework in ("refnp", "torch", "autograd", "mygrad")
            },
            terms=2 * operations,
            units=operations,
            aims={"torch": 1.0},
            needs=Needs(calls=1.5),  # an addition has none on the way back
        )
    ]


def chain(operations: int) -> Callable:
    """x ↦ (((x a + b) a + b) a + b) …, with a near 1 and a small b."""

    def function(x: Any) -> Any:
        for _ in range(operations // 2):
            x = x * 0.999
            x = x + 0.001
        return x

    return function
