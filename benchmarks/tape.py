"""What one small operation costs on the tape: 1000 additions and multiplications on 8 numbers, forward and backward.

The arithmetic takes nanoseconds; what is measured is everything else. JAX is absent: under `jit` nothing of the tape is
left when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.composed import differentiated_by_autograd, differentiated_by_mygrad
from benchmarks.timing import Side, Work

OPERATIONS = 1000


def works(operations: int = OPERATIONS) -> list[Work]:
    makers = {"refnp": in_refnp, "torch": in_torch, "autograd": in_autograd, "mygrad": in_mygrad}
    return [
        Work(
            "one small operation",
            dtype,
            {
                framework: lambda make=make, dtype=dtype: make(operations, dtype) for framework, make in makers.items()
            },
            terms=2 * operations,
            times=operations,
        )
        for dtype in ("float64",)
    ]


def inputs(dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
    return [np.linspace(1, 2, 8, dtype=dtype)], np.ones(8, dtype)


def chain(operations: int) -> Callable:
    """x ↦ (((x · a) + b) · a) + b …, with a near 1 and a small b."""

    def function(x: Any) -> Any:
        for _ in range(operations // 2):
            x = x * 0.999
            x = x + 0.001
        return x

    return function


def in_refnp(operations: int, dtype: str) -> Side:
    from refnp.autograd import Tensor

    (x,), bar = inputs(dtype)
    leaf, function = Tensor(x, requires_grad=True), chain(operations)

    def run() -> Any:
        leaf.grad = None
        y = function(leaf)
        y.backward(bar)
        return y

    return Side(run, lambda: ([run().data], [leaf.grad]))


def in_torch(operations: int, dtype: str) -> Side:
    import torch

    (x,), bar = inputs(dtype)
    leaf, cotangent, function = torch.from_numpy(x).requires_grad_(), torch.from_numpy(bar), chain(operations)

    def run() -> Any:
        leaf.grad = None
        y = function(leaf)
        y.backward(cotangent)
        return y

    return Side(run, lambda: ([run().detach().numpy()], [leaf.grad.numpy()]))


def in_autograd(operations: int, dtype: str) -> Side:
    return differentiated_by_autograd(chain(operations), *inputs(dtype))


def in_mygrad(operations: int, dtype: str) -> Side:
    return differentiated_by_mygrad(chain(operations), *inputs(dtype))
