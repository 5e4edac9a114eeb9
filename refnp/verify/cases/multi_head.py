"""Cases of multi-head attention, and of the encoder layer made of it."""

from __future__ import annotations

import numpy as np

from refnp.autograd import linear
from refnp.layers.activations import relu
from refnp.layers.layer_norm import layer_norm
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


def encoder_layer(x, *parameters, heads, mask=None):
    """The post-norm encoder layer of S002 §1.5: LayerNorm(x + attention), LayerNorm(x + feed-forward)."""
    *attention, gain_1, shift_1, w1, b1, w2, b2, gain_2, shift_2 = parameters
    x = layer_norm(x + multi_head(x, x, x, *attention, heads=heads, mask=mask), gain_1, shift_1)
    return layer_norm(x + linear(relu(linear(x, w1, b1)), w2, b2), gain_2, shift_2)


MULTI_HEAD = Layer("multi_head", multi_head, equations.multi_head)
WITH_WEIGHTS = Layer("multi_head_with_weights", multi_head, equations.multi_head)
ENCODER_FAST_PATH = Layer("encoder_fast_path", encoder_layer, equations.encoder_layer)


def inputs(*, n=4, m=5, features=6, scale=0.5) -> dict:
    """Two sequences of queries, of keys and of values, and the four maps."""
    found = {"query": normal(2, n, features), "key": normal(2, m, features), "value": normal(2, m, features)}
    for name in NAMES:
        shape = (features, features) if name.startswith("weight") else (features,)
        found[name] = normal(*shape, scale=scale)
    return found


def encoder_inputs(*, n=4, features=6, hidden=8) -> dict:
    """Two sequences and the parameters of an encoder layer."""
    found = {"x": normal(2, n, features)} | {name: draw for name, draw in inputs().items() if name in NAMES}
    found |= {"gain_1": normal(features, shift=1.0, scale=0.3), "shift_1": normal(features, scale=0.3)}
    found |= {"weight_1": normal(features, hidden, scale=0.5), "bias_1": normal(hidden, scale=0.3)}
    found |= {"weight_2": normal(hidden, features, scale=0.5), "bias_2": normal(features, scale=0.3)}
    return found | {"gain_2": normal(features, shift=1.0, scale=0.3), "shift_2": normal(features, scale=0.3)}


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
        Case(
            ENCODER_FAST_PATH,
            "padding",
            encoder_inputs(),
            {"heads": 2, "mask": key_padding(np.array([4, 2]), 4)},
            gradients=(),
        ),
    ]
