"""The whole Transformer in numbers that carry their rounding error, layer by layer as a model was made."""

import numpy as np

from refnp import layers
from refnp.layers.activation import gelu, relu
from refnp.layers.positions.absolute import LearnedPositions
from refnp.numbers.rounding import Rounded, exact, tolerance
from refnp.verify.layers import normalization
from refnp.verify.layers.linear import embedding, linear
from refnp.verify.layers.multi_head import biased_multi_head, join_heads, multi_head, split_heads
from refnp.verify.layers.transformer_layers import ACTIVATIONS, parts_of
from tests.helpers import assert_within
from tests.layers.positions.judges import rounded_look_up, sinusoid_error
from tests.transcriptions import positions as written

NAMES = {relu: "relu", gelu: "gelu"}


def assert_judged(found, limit, dtype):
    """Within the tolerance; which, since bounds grow a thousandfold a layer, must be one that notices a mistake.

    In float32 it does not always: there, as in the other precisions, the same lines are judged in float64.
    """
    allowed = tolerance(limit, dtype)
    assert_within(found, limit.value, allowed)
    assert dtype == np.float32 or (allowed <= 1e-5 * np.abs(limit.value).max(initial=1)).all()


def given(module):
    """The module's own parameters, which have no error."""
    return [exact(parameter.data) for parameter in module.parameters()]


def chain(*steps):
    """x ↦ f_n(… f_1(x)).   pullback(ȳ) = x̄, then what the pullbacks of f_1, …, f_n add."""

    def chained(x):
        pullbacks = []
        for step in steps:
            x, pull = step(x)
            pullbacks.append(pull)

        def pullback(g):
            bars = []
            for pull in reversed(pullbacks):
                g, *own = pull(g)
                bars = own + bars
            return g, *bars

        return x, pullback

    return chained


def residual(step):
    """x ↦ x + f(x)."""

    def added(x):
        y, step_pullback = step(x)

        def pullback(g):
            x_bar, *bars = step_pullback(g)
            return g + x_bar, *bars

        return x + y, pullback

    return added


def around(sublayer, affine, norm, eps=1e-5):
    """post: x ↦ LayerNorm(x + f(x)); pre: x ↦ x + f(LayerNorm(x)).   pullback(ȳ) = x̄, what f's adds, γ̄, β̄ if any."""

    def normalised(x):
        return norm_of(x, affine, eps)

    if norm == "post":
        return chain(residual(sublayer), normalised)

    def pre(x):
        y, pullback = residual(chain(normalised, sublayer))(x)

        def norm_last(g):
            x_bar, *bars = pullback(g)
            return x_bar, *bars[len(affine) :], *bars[: len(affine)]

        return y, norm_last

    return pre


def norm_of(x, affine, eps=1e-5):
    """LayerNorm with gain and shift, or with a gain alone."""
    if len(affine) == 2:
        return normalization.LAYER_NORM.equation(x, *affine, eps=eps)
    y, pullback = normalization.LAYER_NORM.equation(x, *affine, exact(np.zeros(x.shape[-1])), eps=eps)
    return y, lambda g: pullback(g)[:2]


def attention_to(memory, parameters, heads, mask, bias=None, per_head=False):
    """x ↦ MHA(x, memory, memory), whose pullback adds the memory's gradient first; without memory x ↦ MHA(x, x, x).

    Then comes that of the bias, if there is one.
    """

    def sublayer(x):
        keys = x if memory is None else memory
        equation, given = (multi_head, ()) if bias is None else (biased_multi_head, (bias,))
        y, pullback = equation(x, keys, keys, *given, *parameters, heads=heads, mask=mask, per_head=per_head)

        def summed(g):
            query_bar, key_bar, value_bar, *bars = pullback(g)
            if memory is None:
                return query_bar + key_bar + value_bar, *bars
            return query_bar, key_bar + value_bar, *bars

        return y, summed

    return sublayer


def feed_forward(parameters, activation):
    """x ↦ f(x W + b) W' + b'."""
    first, second = parts_of(parameters, 2, 2)
    return chain(lambda x: linear(x, *first), ACTIVATIONS[activation].page, lambda x: linear(x, *second))


def through(residual, sublayer, x):
    """`around` with the LayerNorm, norm and ε of a Residual."""
    return around(sublayer, given(residual.layer_norm), residual.norm, residual.layer_norm.eps)(x)[0]


def self_attention(attention, mask, places=None):
    """x ↦ MHA(x, x) with the attention's scheme of positions, mask (..., N, N) or None; places 0, 1, … if not given."""
    maps = [given(linear_map) for linear_map in (attention.query, attention.key, attention.value)]
    scheme = attention.positions

    def sublayer(x):
        query, key, value = (split_heads(linear(x, *own)[0], attention.heads) for own in maps)
        own_places = np.arange(x.shape[-2]) if places is None else places
        heads_mask = None if mask is None else np.expand_dims(mask, -3)
        mixed = rounded_look_up(scheme, query, key, value, own_places, own_places, heads_mask)[0]
        return linear(join_heads(mixed), *given(attention.output))[0], None

    return sublayer


def rounded_layer(layer, x, mask, memory=None, memory_mask=None, places=None):
    """An encoder layer, or with a memory a decoder layer."""
    x = through(layer.around_attention, self_attention(layer.attention, mask, places), x)
    if memory is not None:
        attention = layer.memory_attention
        sublayer = attention_to(memory, given(attention), attention.heads, memory_mask)
        x = through(layer.around_memory_attention, sublayer, x)
    network = layer.feed_forward
    return through(layer.around_feed_forward, feed_forward(given(network), NAMES[network.activation]), x)


def rounded_stack(stack, x, mask, memory=None, memory_mask=None):
    """An encoder, or with a memory a decoder: the causal mask is in `mask`."""
    for layer in stack.layers:
        x = rounded_layer(layer, x, mask, memory, memory_mask)
    if stack.final_norm is None:
        return x
    return normalization.LAYER_NORM.equation(x, *given(stack.final_norm), eps=stack.final_norm.eps)[0]


def rounded_embedded(model, table, tokens):
    """√D E[token] + P."""
    x, places = embedding(exact(table.weight.data), tokens=tokens, scaled=True)[0], np.arange(np.shape(tokens)[-1])
    if model.positions is None:
        return x
    if isinstance(model.positions, LearnedPositions):
        return x + exact(model.positions.weight.data[places])
    sinusoids = written.sinusoidal(places, x.shape[-1])
    return x + Rounded(sinusoids, sinusoid_error(sinusoids))


def rounded_memory(model, source, source_mask=None):
    """The encoder's output for source (B, M)."""
    batch, m = source.shape
    mask = None if source_mask is None else np.broadcast_to(source_mask[:, None], (batch, m, m))
    return rounded_stack(model.encoder, rounded_embedded(model, model.source_embedding, source), mask)


def rounded_logits(model, source, target, source_mask=None, target_mask=None):
    """Logits (B, N, V) for source (B, M) and target (B, N), as the model's equations have them."""
    (batch, n), m = target.shape, source.shape[1]
    causal = np.array([[j <= i for j in range(n)] for i in range(n)], bool).reshape(n, n)
    mask = np.broadcast_to(causal, (batch, n, n)) & (True if target_mask is None else target_mask[:, None])
    memory_mask = None if source_mask is None else np.broadcast_to(source_mask[:, None], (batch, n, m))
    memory = rounded_memory(model, source, source_mask)
    x = rounded_embedded(model, model.target_embedding, target)
    x = rounded_stack(model.decoder, x, mask, memory, memory_mask)
    if model.output is not None:
        return linear(x, *given(model.output))[0]
    return linear(x, exact(model.target_embedding.weight.data.T))[0]


def rounded_log_probabilities(model, source, target, source_mask=None):
    """log p of every next word, (B, N, V)."""
    return layers.log_softmax.page(rounded_logits(model, source, target, source_mask))[0]
