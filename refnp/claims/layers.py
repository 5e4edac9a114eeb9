"""Layers: attention, set convolutions, convolutions with each padding, strides, pooling, networks, normalisation."""

from typing import Any

import numpy as np

from refnp.claims.row import BROKEN, EXACT, ON_SUBGROUP, Row, Trial
from refnp.layers.convolutions import convolution
from refnp.layers.dot_product_attention import attention
from refnp.layers.set_convolutions import set_convolution
from refnp.symmetry import Permute, Roll, Translate, equivariant, invariant

RNG = np.random.default_rng(11)
KERNEL = RNG.normal(size=(2, 1, 3))


def _attended(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    """m queries, n keys and values, and who may attend to whom."""
    return {
        "query": rng.normal(size=(m, 3)),
        "key": rng.normal(size=(n, 3)),
        "value": rng.normal(size=(n, 2)),
        "mask": rng.random((m, n)) < 0.7,
    }


def _cross_attention(query, key, value, mask):
    return attention(query, key, value, mask=mask)


KEYS, QUERIES = Permute({"key": 0, "value": 0, "mask": 1}), Permute({"query": 0, "mask": 0})
SETS = {"n": (2, 4), "m": (3,)}


def _keys_permuted() -> Trial:
    return Trial(invariant(_cross_attention, KEYS), _attended, SETS)


def _queries_permuted() -> Trial:
    return Trial(equivariant(_cross_attention, QUERIES, Permute(axis=0)), _attended, SETS)


def _signal(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.normal(size=(1, 1, n))}


def _rolled(padding: str, stride: int = 1) -> Trial:
    """A convolution on a ring: rolled by k, its output is rolled by k/stride."""

    def f(x):
        return convolution(x, KERNEL, padding=1, padding_mode=padding, stride=stride)

    claims = {k: equivariant(f, Roll("x", step=k), Roll(step=max(1, k // stride))) for k in (1, 2, 3, 4)}
    parts = {} if stride == 1 else {_multiples(k): claim for k, claim in claims.items() if k > 1}
    return Trial(claims[1], _signal, {"n": (4, 8, 12)}, parts)


def _multiples(k: int) -> str:
    return f"multiples of {k}"


def _points(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    return {"target": rng.normal(size=(m, 1)), "x": rng.normal(size=(n, 1)), "y": rng.normal(size=(n, 2))}


def _translated() -> Trial:
    def f(target, x, y):
        return set_convolution(target, x, y, 0.5)

    return Trial(invariant(f, Translate(("target", "x"))), _points, SETS)


ROWS = (
    Row("attention", "keys and values permuted", EXACT, "a sum over pairs of key and value", _keys_permuted),
    Row("attention", "queries permuted", EXACT, "each query by itself", _queries_permuted),
    Row("convolution, circular padding", "roll", EXACT, "the same kernel everywhere", lambda: _rolled("circular")),
    Row("convolution, zero padding", "roll", BROKEN, "zeros stand at the edges", lambda: _rolled("zeros")),
    Row(
        "convolution, circular padding, stride 2",
        "roll",
        ON_SUBGROUP,
        "every second place is kept",
        lambda: _rolled("circular", 2),
        subgroup="multiples of 2",
    ),
    Row("set convolution", "everything translated", EXACT, "differences of places alone", _translated),
)
