"""Layers that work on rows and tokens: activations, softmax, norms, embedding, attention."""

from __future__ import annotations

import numpy as np

from refnp.autograd import linear
from refnp.layers import activations, masks
from refnp.layers.dot_product_attention import attend_in_blocks, attention, column_attention
from refnp.layers.embeddings import embedding
from refnp.layers.linear import MLP
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.normalization import LayerNorm, RMSNorm, layer_norm, rms_norm
from refnp.layers.softmaxes import log_softmax, softmax
from refnp.verify.operations.operation import Operation


def operations(rng: np.random.Generator) -> list[Operation]:
    """Activations, softmax, norms, embedding, every form of attention, and their modules."""
    return _elements(rng) + _rows(rng) + _attention(rng) + _modules(rng)


def away_from_zero(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers between 0.1 and 2 of either sign, clear of the kinks at 0."""
    return rng.uniform(0.1, 2, shape) * rng.choice([-1.0, 1.0], shape)


def _elements(rng):
    x = away_from_zero(rng, 3, 5)
    return [
        Operation("relu", activations.relu, (x,), order2=False),
        Operation("leaky_relu", activations.leaky_relu, (x,), order2=False),
        Operation("elu", activations.elu, (x,)),
        Operation("elu, α = 0.7", lambda x: activations.elu(x, alpha=0.7), (x,)),
        Operation("sigmoid", activations.sigmoid, (x,)),
        Operation("softplus", activations.softplus, (x,)),
        Operation("silu", activations.silu, (x,)),
        Operation("gelu", activations.gelu, (x,)),
        Operation("gelu, tanh", lambda x: activations.gelu(x, approximate="tanh"), (x,)),
    ]


def _rows(rng):
    x, gain, shift = rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=5)
    tokens = np.array([[1, 0, 2], [2, 2, 5]])
    return [
        Operation("softmax", softmax, (x,)),
        Operation("softmax, axis 0", lambda x: softmax(x, axis=0), (x,)),
        Operation("log_softmax", log_softmax, (x,)),
        Operation("log_softmax, axis (0, 1)", lambda x: log_softmax(x, axis=(0, 1)), (x,)),
        Operation("layer_norm", layer_norm, (x, gain, shift)),
        Operation("layer_norm, ε = 0", lambda x: layer_norm(x, eps=0.0), (x,)),
        Operation("layer_norm, axis (0, 1)", lambda x, g: layer_norm(x, g, axis=(0, 1)), (x, rng.normal(size=(3, 5)))),
        Operation("rms_norm", rms_norm, (x, gain)),
        Operation("linear", linear, (x, rng.normal(size=(5, 4)), rng.normal(size=4))),
        Operation("embedding", lambda e: embedding(tokens, e, scaled=True), (rng.normal(size=(6, 3)),), order2=False),
    ]


def _attention(rng):
    q, k, v = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 2))
    bias, mask = rng.normal(size=(4, 5)), rng.random((2, 4, 5)) < 0.6
    mask[0, 1] = False  # a query that may attend to nothing
    weight, query_weight, key_weight, vector = (rng.normal(size=s) for s in ((3, 3), (3, 4), (3, 4), (4,)))
    grouped = rng.normal(size=(4, 3, 2)), rng.normal(size=(2, 4, 2)), rng.normal(size=(2, 4, 2))
    columns = rng.normal(size=(3, 4)), rng.normal(size=(3, 5)), rng.normal(size=(2, 5))

    def similar(name):
        return lambda q, k, v, *p: attention(q, k, v, mask=mask, similarity=name, parameters=p)

    return [
        Operation("attention", attention, (q, k, v)),
        Operation("attention, mask and bias", lambda *a: attention(*a[:3], mask=mask, bias=a[3]), (q, k, v, bias)),
        Operation("attention, causal", lambda *a: attention(*a, mask=masks.causal(4, 5)), (q, k, v)),
        Operation("attention, with weights", lambda *a: attention(*a, mask=mask, return_weights=True), (q, k, v)),
        Operation("attention, dot", similar("dot"), (q, k, v)),
        Operation("attention, cosine", similar("cosine"), (q, k, v)),
        Operation("attention, general", similar("general"), (q, k, v, weight)),
        Operation("attention, additive", similar("additive"), (q, k, v, query_weight, key_weight, vector)),
        Operation("attention, grouped heads", lambda *a: attention(*a, grouped_heads=True), grouped),
        Operation("attention, in blocks", lambda *a: attend_in_blocks(*a, mask=mask), (q, k, v, bias)),
        Operation("column_attention", column_attention, columns),
    ]


def _modules(rng):
    x = rng.normal(size=(3, 4))
    modules = {
        "LayerNorm": LayerNorm(4),
        "RMSNorm": RMSNorm(4),
        "MLP": MLP([4, 5, 2], activation=activations.gelu, rng=rng),
        "MultiHeadAttention": MultiHeadAttention(4, 2, rng=rng),
    }
    return [Operation(name, with_parameters(module), (x, module.state_dict())) for name, module in modules.items()]


def with_parameters(module):
    """The module as a function (x, parameters) → y, so that its parameters' gradients are checked as well."""
    return lambda x, parameters: module.bind(parameters)(x)
