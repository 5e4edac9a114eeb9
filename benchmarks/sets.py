"""SetConv of N points onto a grid of 1024 places, 64 per unit, forward and backward, as a ConvCNP encodes its context.

The gradients are those of the values and of the length scale. refnp takes the pairs that count; the peers take all,
as published code does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.composed import differentiated_by_jax
from benchmarks.timing import Side, Work

PLACES, PER_UNIT = 1024, 64
LENGTH_SCALE = 2 / PER_UNIT
COUNTS = (1000, 10_000, 100_000)


def works(counts: tuple[int, ...] = COUNTS, places: int = PLACES) -> list[Work]:
    makers = {"refnp": in_refnp, "torch": in_torch, "jax": in_jax}
    return [
        Work(
            f"SetConv N={n}",
            dtype,
            {
                framework: lambda make=make, n=n, dtype=dtype: make(*inputs(n, places, dtype))
                for framework, make in makers.items()
            },
            terms=n + places,
        )
        for n in counts
        for dtype in ("float32", "float64")
        if n < max(COUNTS) or dtype == "float32"
    ]


def inputs(n: int, places: int, dtype: str) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], np.ndarray]:
    """Grid (M, 1), points (N, 1), what is differentiated: values (N, 1) and length scale; and z̄ (M, 2)."""
    rng = np.random.default_rng(0)
    grid = (np.arange(places) / PER_UNIT).astype(dtype)[:, None]
    points = rng.uniform(0, places / PER_UNIT, (n, 1)).astype(dtype)
    values = rng.normal(size=(n, 1)).astype(dtype)
    return grid, points, [values, np.array(LENGTH_SCALE, dtype)], rng.normal(size=(places, 2)).astype(dtype)


def in_refnp(grid: np.ndarray, points: np.ndarray, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    from refnp.autograd import Tensor
    from refnp.layers.set_convolution import set_convolution

    leaves = [Tensor(a, requires_grad=True) for a in arrays]

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        z = set_convolution(grid, points, *leaves)
        z.backward(bar)
        return z

    return Side(run, lambda: ([run().data], [leaf.grad for leaf in leaves]))


def in_torch(grid: np.ndarray, points: np.ndarray, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import torch

    leaves = [torch.from_numpy(a).requires_grad_() for a in arrays]
    places, positions, cotangent = (torch.from_numpy(a) for a in (grid, points, bar))

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        values, scale = leaves
        weights = torch.exp(-0.5 * ((places - positions.T) / scale) ** 2)  # (M, N)
        z = weights @ torch.cat([torch.ones_like(values), values], -1)
        z.backward(cotangent)
        return z

    return Side(run, lambda: ([run().detach().numpy()], [leaf.grad.numpy() for leaf in leaves]))


def in_jax(grid: np.ndarray, points: np.ndarray, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import jax.numpy as jnp

    def set_convolution(values, scale):
        weights = jnp.exp(-0.5 * ((grid - points.T) / scale) ** 2)  # (M, N)
        return weights @ jnp.concatenate([jnp.ones_like(values), values], -1)

    return differentiated_by_jax(set_convolution, arrays, bar)
