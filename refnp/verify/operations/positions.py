"""Positions: absolute, relative, biases, rotations, images; alone and inside multi-head attention."""

from __future__ import annotations

import numpy as np

from refnp.layers import masks
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.positions.absolute import LearnedPositions, SinusoidalPositions
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.images import ImagePositions, image_places
from refnp.layers.positions.relative import (
    RelativePositions,
    Shaw,
    read_buckets,
    read_diagonals,
    sum_buckets,
    sum_diagonals,
)
from refnp.layers.positions.rotary import Rotary, rotate
from refnp.verify.operations.operation import Operation
from refnp.verify.operations.rows import with_parameters


def operations(rng: np.random.Generator) -> list[Operation]:
    """Reading and adding up by pairs, rotations, and every scheme."""
    return _absolute(rng) + _pairs(rng) + _schemes(rng) + _in_heads(rng)


def _absolute(rng):
    x, learned = rng.normal(size=(2, 3, 5)), LearnedPositions(4, 5, rng=rng)
    return [
        Operation("SinusoidalPositions", SinusoidalPositions(), (x,), order2=False),
        Operation("LearnedPositions", with_parameters(learned), (x, learned.state_dict()), order2=False),
    ]


def _pairs(rng):
    x, y, buckets = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 5)), rng.integers(0, 4, (3, 5))
    places = np.array([4, 99_999, 0])
    return [
        Operation("read_buckets", lambda x: read_buckets(x, buckets), (x,), order2=False),
        Operation("sum_buckets", lambda y: sum_buckets(y, buckets=buckets, count=4), (y,), order2=False),
        Operation("read_diagonals", lambda x: read_diagonals(x, shift=1, keys=5), (x,), order2=False),
        Operation("sum_diagonals", lambda y: sum_diagonals(y, shift=1, count=4), (y,), order2=False),
        Operation("rotate", lambda x: rotate(x, places=places), (x,), order2=False),
        Operation("rotate, half", lambda x: rotate(x, places=places, layout="half"), (x,), order2=False),
    ]


def _schemes(rng):
    """What schemes add, of a query and of weights in two heads, where ways part that attention does not take."""
    query, weights = rng.normal(size=(2, 3, 2)), rng.random(size=(2, 3, 4))
    scattered, line, grid = np.array([3, 0, 7]), np.arange(4), image_places(1, 3, leading=1)
    shaw, t5 = Shaw(2, 2, rng=rng), T5Bias(2, buckets=8, max_distance=6, rng=rng)
    cross = ImagePositions(2, method="cross", leading=1, values=True, rng=rng)
    bias = ImagePositions(mode="bias", method="euclidean", heads=2, leading=1, rng=rng)

    def scores(name, scheme, *places, order2=True):
        function = lambda query, state: scheme.bind(state).scores(query, *places)
        return Operation(name, function, (query, scheme.state_dict()), order2=order2)

    def values(name, scheme, *places):
        function = lambda weights, state: scheme.bind(state).values(weights, *places)
        return Operation(name, function, (weights, scheme.state_dict()))

    return [
        scores("Shaw.scores", shaw, np.arange(5, 8), line),
        scores("Shaw.scores, scattered", shaw, scattered, line),
        values("Shaw.values", shaw, np.arange(5, 8), line),
        values("Shaw.values, scattered", shaw, scattered, line),
        scores("T5Bias.scores", t5, np.arange(5, 8), line, order2=False),
        scores("T5Bias.scores, scattered", t5, scattered, line, order2=False),
        scores("ImagePositions.scores, cross", cross, grid[:3], grid),
        scores("ImagePositions.scores, bias", bias, grid[:3], grid, order2=False),
        values("ImagePositions.values, cross", cross, grid[:3], grid),
    ]


def _in_heads(rng):
    x, grid = rng.normal(size=(4, 4)), image_places(2, 2)
    schemes: dict[str, tuple[RelativePositions, np.ndarray | None]] = {
        "Shaw": (Shaw(2, 2, rng=rng), None),
        "T5": (T5Bias(2, buckets=8, max_distance=6, bidirectional=False, rng=rng), None),
        "ALiBi": (ALiBi(2), None),
        "RoPE": (Rotary(), None),
        "iRPE, product": (ImagePositions(2, values=True, rng=rng), grid),
        "iRPE, quantised": (ImagePositions(mode="bias", method="quantised", rng=rng), grid),
    }
    return [
        _in_attention(f"MultiHeadAttention, {name}", MultiHeadAttention(4, 2, positions=scheme, rng=rng), x, places)
        for name, (scheme, places) in schemes.items()
    ]


def _in_attention(name, module, x, places):
    def function(x, state):
        return module.bind(state)(x, mask=masks.causal(4), query_places=places, key_places=places)

    return Operation(name, function, (x, module.state_dict()))
