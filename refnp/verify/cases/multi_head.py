"""Cases of multi-head attention."""

from __future__ import annotations

import numpy as np

from refnp.layers.masks import causal, key_padding
from refnp.layers.multi_head import MultiHeadAttention
from refnp.verify.case import Case, Layer, normal
from refnp.verify.equations import attention as equations

NAMES = tuple(f"{part}_{map_}" for map_ in ("query", "key", "value", "output") for part in ("weight", "bias"))


def multi_head(query, key, value, *parameters, heads, mask=None):
    """refnp's MultiHeadAttention with the given weights and biases, in the order of NAMES."""
    module = MultiHeadAttention(query.shape[-1], heads, rng=np.random.default_rng(0))
    maps = (module.query, module.key, module.value, module.output)
    for i, linear_map in enumerate(maps):
        linear_map.weight, linear_map.bias = parameters[2 * i : 2 * i + 2]
    return module(query, key, value, mask=mask)


MULTI_HEAD = Layer("multi_head", multi_head, equations.multi_head)
WITH_WEIGHTS = Layer("multi_head_with_weights", multi_head, equations.multi_head)


def inputs(*, n=4, m=5, features=6, scale=0.5) -> dict:
    """Two sequences of queries, of keys and of values, and the four maps."""
    found = {"query": normal(2, n, features), "key": normal(2, m, features), "value": normal(2, m, features)}
    for name in NAMES:
        shape = (features, features) if name.startswith("weight") else (features,)
        found[name] = normal(*shape, scale=scale)
    return found


def cases() -> list[Case]:
    """All cases of this page."""
    padded = key_padding(np.array([5, 2]), 5)
    return [
        Case(MULTI_HEAD, "two heads", inputs(), {"heads": 2}),
        Case(MULTI_HEAD, "one head", inputs(), {"heads": 1}),
        Case(MULTI_HEAD, "heads of one feature", inputs(), {"heads": 6}),
        Case(MULTI_HEAD, "padding", inputs(), {"heads": 2, "mask": np.broadcast_to(padded, (2, 4, 5))}),
        Case(MULTI_HEAD, "causal", inputs(m=4), {"heads": 3, "mask": causal(4)}),
        Case(MULTI_HEAD, "large logits", inputs(scale=4.0), {"heads": 2}),
        Case(WITH_WEIGHTS, "two heads", inputs(), {"heads": 2}),
        Case(WITH_WEIGHTS, "padding", inputs(), {"heads": 2, "mask": np.broadcast_to(padded, (2, 4, 5))}),
    ]
