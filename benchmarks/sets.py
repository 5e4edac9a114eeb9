"""SetConv of N points onto a grid of 1024 places, 64 per unit, forward and backward, as a ConvCNP encodes its context.

The gradients are those of the values and of the length scale. refnp takes the pairs that count; the peers take all,
as published code does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from benchmarks import differentiated
from benchmarks.timing import Side, Work

PLACES, PER_UNIT = 1024, 64
COUNTS = (1000, 10_000, 100_000)


def works(counts: tuple[int, ...] = COUNTS, places: int = PLACES) -> list[Work]:
    return [
        Work(
            f"SetConv N={n}",
            dtype,
            {framework: functools.partial(side, framework, n, places, dtype) for framework in FUNCTIONS},
            terms=n + places,
        )
        for n in counts
        for dtype in ("float32", "float64")
        if n < 100_000 or dtype == "float32"
    ]


def side(framework: str, n: int, places: int, dtype: str) -> Side:
    """Of the values (N, 1) and the length scale, with the grid (M, 1) and the points (N, 1) given, and z̄ (M, 2)."""
    rng = np.random.default_rng(0)
    grid = (np.arange(places) / PER_UNIT).astype(dtype)[:, None]
    points = rng.uniform(0, places / PER_UNIT, (n, 1)).astype(dtype)
    values = rng.normal(size=(n, 1)).astype(dtype)
    arrays = [values, np.array(2 / PER_UNIT, dtype)]
    bar = rng.normal(size=(places, 2)).astype(dtype)
    return differentiated.BY[framework](FUNCTIONS[framework](grid, points), arrays, bar)


def refnp_function(grid: np.ndarray, points: np.ndarray) -> Callable:
    from refnp.layers.set_convolution import set_convolution

    return lambda values, scale: set_convolution(grid, points, values, scale)


def torch_function(grid: np.ndarray, points: np.ndarray) -> Callable:
    import torch

    places, positions = torch.from_numpy(grid), torch.from_numpy(points)

    def set_convolution(values, scale):
        weights = torch.exp(-0.5 * ((places - positions.T) / scale) ** 2)  # (M, N)
        return weights @ torch.cat([torch.ones_like(values), values], -1)

    return set_convolution


def jax_function(grid: np.ndarray, points: np.ndarray) -> Callable:
    import jax.numpy as jnp

    def set_convolution(values, scale):
        weights = jnp.exp(-0.5 * ((grid - points.T) / scale) ** 2)  # (M, N)
        return weights @ jnp.concatenate([jnp.ones_like(values), values], -1)

    return set_convolution


FUNCTIONS = {"refnp": refnp_function, "torch": torch_function, "jax": jax_function}
