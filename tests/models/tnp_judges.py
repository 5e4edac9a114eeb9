"""Transformer neural processes in numbers that carry their rounding error, all tokens in full; and tasks to draw."""

import numpy as np
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.layers.activation import relu
from refnp.layers.softmax import softmax
from refnp.numbers import rounding
from refnp.numbers.rounding import Rounded, constant, contract, exact, tolerance, where
from refnp.verify.layers.linear import linear
from refnp.verify.layers.multi_head import join_heads, split_heads
from refnp.verify.layers.neural_process_parts import PAIR_KERNEL
from refnp.verify.layers.neural_processes import joined
from refnp.verify.layers.normalization import LAYER_NORM
from refnp.verify.layers.transformer_layers import ENCODER_PARTS, encoder_layer, parts_of
from tests.helpers import assert_within, normal
from tests.models.transformer_judges import around, attention_to, chain, feed_forward

few = st.one_of(st.integers(1, 4), st.integers(0, 4))
FORMS = [  # of layers, by options of the models
    {},
    {"norm": "pre"},
    {"untied": True},
    {"updated": True},
    {"norm": "pre", "untied": True, "updated": True},
]
forms = st.sampled_from(FORMS)
sizes = st.tuples(st.integers(1, 3), few, few, st.integers(1, 2), st.integers(1, 2))  # B, C, T, dx, dy


def task(seed, size, dtype=np.float64):
    """(context_x, context_y, target_x, target_y) and masks (B, M), (B, N)."""
    rng = np.random.default_rng(seed)
    b, c, t, dx, dy = size
    arrays = tuple(normal(rng, shape, dtype) for shape in ((b, c, dx), (b, c, dy), (b, t, dx), (b, t, dy)))
    return arrays, (rng.random((b, c)) < 0.7, rng.random((b, t)) < 0.7)


def shaken(model, seed=0):
    """With other numbers than those a module starts with: gains of 1 and shifts of 0 hide mistakes."""
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.2 * rng.standard_normal(parameter.shape)
    return model


def predict(model, *arrays):
    """(mean, std) of the answer, as arrays."""
    answer = model(*arrays)
    return raw(answer.mean), raw(answer.std)


def assert_prediction(found, expected, rounded, dtype):
    """Mean and standard deviation in the dtype, and within the tolerance of their bounds."""
    for value, reference, limit in zip(found, expected, rounded, strict=True):
        assert value.dtype == dtype
        assert_within(value, reference, tolerance(limit, dtype))


def under_whole_mask(model, tokens, mask):
    """Tokens (B, K, F) through the model's layers under a mask (B, K, K), each as query, key and value."""
    z = model.embedder(tokens)
    for layer in model.layers:
        z = layer(z, mask=mask)
    return z


def own(state, prefix):
    """The parameters under `prefix.`, in their order."""
    return [exact(value) for name, value in state.items() if name.startswith(f"{prefix}.")]


def mlp(x, parameters):
    """Linear maps with relu between them."""
    for i in range(0, len(parameters), 2):
        x, _ = linear(x, *parameters[i : i + 2])
        x = relu.page(x)[0] if i + 2 < len(parameters) else x
    return x


def distribution(values, model):
    """(μ, σ) of [μ, s], σ = exp(s) unless the model has another deviation or a floor."""
    from tests.models.np_judges import normal as heads  # which imports this page

    published = "softplus" if model.floor else "exp"
    return heads(values, model.floor, published if model.deviation == "published" else model.deviation)


def reading_layer(x, keys, parameters, heads, norm, mask):
    """Attention of x (B, N, D) to keys (B, M, D) and a feed-forward network, in their residual connections."""
    attention, norm_1, maps, norm_2 = parts_of(parameters, *ENCODER_PARTS)
    keys = LAYER_NORM.equation(keys, *norm_1)[0] if norm == "pre" else keys
    steps = attention_to(keys, attention, heads, mask), feed_forward(maps, "relu")
    return chain(around(steps[0], norm_1, norm), around(steps[1], norm_2, norm))(x)[0]


def encoded(model, found, mask, wanted):
    """Tokens (B, N, F) under the whole mask (B, N, N): the last `wanted` after all layers."""
    state = model.state_dict()
    x = mlp(exact(found), own(state, "embedder"))
    layer, count = (model.reading_layers or model.layers)[0], len(found[0]) - wanted
    heads, norm = layer.attention.heads, layer.around_attention.norm
    for i in range(len(model.reading_layers or model.layers)):
        known, asked, parameters = x[:, :count], x[:, count:], own(state, f"layers.{i}")
        if not model.apart:
            x, _ = encoder_layer(x, *parameters, heads=heads, norm=norm, mask=mask)
            continue
        after = known
        if parameters:
            after, _ = encoder_layer(known, *parameters, heads=heads, norm=norm, mask=mask[:, :count, :count])
        reader = own(state, f"reading_layers.{i}") if model.reading_layers else parameters
        asked = reading_layer(asked, after if model.updated else known, reader, heads, norm, mask[:, count:, :count])
        x = stacked(after, asked)
    return x[:, count:]


def stacked(*parts):
    """One after the other, along the axis of tokens."""
    return Rounded(np.concatenate([p.value for p in parts], 1), np.concatenate([p.error for p in parts], 1))


def tnp_d(model, context_x, context_y, target_x, context_mask):
    """Mean and standard deviation of TNP-D."""
    known, asked = model.observed(context_x, context_y), model.unobserved(target_x)
    found, c, t = np.concatenate([known, asked], 1), known.shape[1], asked.shape[1]
    mask = np.zeros((len(found), c + t, c + t), bool)
    mask[:, :, :c] = context_mask[:, None]
    return distribution(mlp(encoded(model, found, mask, t), own(model.state_dict(), "predictor")), model)


def tnp_a(model, context_x, context_y, target_x, target_y, context_mask, target_mask, attention_mask):
    """Mean and standard deviation of TNP-A's conditionals."""
    real, padded = model.observed(target_x, target_y), model.unobserved(target_x)
    found = np.concatenate([model.observed(context_x, context_y), real, padded], 1)
    there = np.concatenate([context_mask, target_mask, np.zeros_like(target_mask)], 1)
    mask = attention_mask & there[:, None]
    return distribution(mlp(encoded(model, found, mask, padded.shape[1]), own(model.state_dict(), "predictor")), model)


def tnp_nd(model, context_x, context_y, target_x, context_mask):
    """Mean of TNP-ND, and P Pᵀ + diag(exp(d)) or tril(P Pᵀ)."""
    known, asked = model.observed(context_x, context_y), model.unobserved(target_x)
    found, c, t = np.concatenate([known, asked], 1), known.shape[1], asked.shape[1]
    mask = np.zeros((len(found), c + t, c + t), bool)
    mask[:, :, :c] = context_mask[:, None]
    state, n = model.state_dict(), t * model.dy
    x = z = encoded(model, found, mask, t)
    for i in range(len(model.target_layers)):
        layer = model.target_layers[i]
        options = {"heads": layer.attention.heads, "norm": layer.around_attention.norm}
        x, _ = encoder_layer(x, *own(state, f"target_layers.{i}"), **options)
    p = mlp(x, own(state, "projector")).reshape(len(found), n, model.rank)
    products = contract("bnr,bmr->bnm", p, p)
    if model.diagonal is None:
        return mlp(z, own(state, "mean")).reshape(len(found), n), products.moved(np.tril)
    diagonal = rounding.exp(mlp(z, own(state, "diagonal"))).reshape(len(found), n, 1)
    return mlp(z, own(state, "mean")).reshape(len(found), n), products + where(np.eye(n, dtype=bool), diagonal, 0)


def in_every_task(parameter, tasks):
    """(K, D) → (B, K, D)."""
    return exact(np.repeat(parameter[None], tasks, 0))


def flagged(model, values, of_targets):
    """Numbers (B, N, ·) with the flag of tokens of the targets, or of the context, beside them."""
    flag = float((model.flagged == "targets") == of_targets)
    return np.concatenate([values, np.full_like(values[..., :1], flag)], -1)


def pseudo_tnp(model, context_x, context_y, target_x, context_mask):
    """Mean and standard deviation of a TNP with pseudo-tokens."""
    b, c, t = *context_x.shape[:2], target_x.shape[1]
    known = flagged(model, np.concatenate([context_x, context_y], -1), False)
    asked = flagged(model, np.concatenate([target_x, np.zeros((b, t, model.dy), target_x.dtype)], -1), True)
    state = model.state_dict()
    z = mlp(exact(np.concatenate([known, asked], 1)), own(state, "embedder"))
    context, target, u = z[:, :c], z[:, c:], in_every_task(state["pseudo_tokens"], b)
    layer = model.layers[0].collect
    heads, norm, k = layer.attention.heads, layer.around_attention.norm, u.shape[1]
    there = np.repeat(context_mask[:, None], k, 1)
    for i in range(len(model.layers)):

        def to(x, keys, name, mask=None, i=i):
            parameters = own(state, f"layers.{i}.{name}")
            return reading_layer(x, keys, parameters, heads, norm, mask) if parameters else x

        u = to(u, context, "collect", there)
        u = to(u, u, "mix")
        target = to(target, u, "read")
        context = to(context, u, "spread")
    return distribution(mlp(target, own(state, "predictor")), model)


def pseudo_te_tnp(model, context_x, context_y, target_x, context_mask):
    """Mean and standard deviation of a TE-TNP with pseudo-tokens; places from the least ones of the context."""
    b, c, t = *context_x.shape[:2], target_x.shape[1]
    known, state = flagged(model, context_y, False), model.state_dict()
    found = np.concatenate([known, flagged(model, np.zeros((b, t, model.dy), known.dtype), True)], 1)
    z = mlp(exact(found), own(state, "embedder"))
    least = np.where(context_mask[..., None], context_x, np.inf).min(1, keepdims=True, initial=np.inf)
    least = exact(np.where(np.isfinite(least), least, 0))
    context, target = (z[:, :c], exact(context_x) - least), (z[:, c:], exact(target_x) - least)
    weights = exact(context_mask[..., None] / 1.0) / exact(np.maximum(context_mask.sum(-1), 1)[:, None, None])
    u = in_every_task(state["pseudo_tokens"], b), in_every_task(state["pseudo_places"], b)
    u = u[0], u[1] + (weights * where(context_mask[..., None], context[1], 0)).sum((1,))[:, None]
    layer = model.layers[0].collect
    heads, norm, k = layer.attention.heads, layer.around_attention.norm, u[0].shape[1]
    there = np.repeat(context_mask[:, None], k, 1)
    some = np.broadcast_to(context_mask.any(-1)[:, None, None], (b, t, k))
    for i in range(len(model.layers)):

        def to(x, keys, name, mask=None, i=i):
            parameters = under(state, f"layers.{i}.{name}")
            if not parameters:
                return x
            mask = np.ones((b, x[0].shape[1], keys[0].shape[1]), bool) if mask is None else mask
            differences = x[1][:, :, None] - keys[1][:, None]
            new, step = translation_layer(x[0], keys[0], differences, parameters, heads, norm, mask)
            return new, x[1] if step is None else x[1] + step

        u = to(u, context, "collect", there)
        u = to(u, u, "mix")
        target = to(target, u, "read", some)
        context = to(context, u, "spread")
    return distribution(mlp(target[0], own(state, "predictor")), model)


def attention_weights(query, key, differences, state, heads, mask, *, squares=False, normalization="softmax"):
    """α (B, H, N, M) of attention on differences."""
    if squares:
        differences = rounding.arranged(lambda *a: np.concatenate(a, -1), differences, differences * differences)
    q, k = (split_heads(linear(a, *own(state, role))[0], heads) for role, a in (("query", query), ("key", key)))
    scores = contract("bhnd,bhmd->bhnm", q, k) * constant(1 / np.sqrt(np.longdouble(q.shape[-1])))
    logits, _ = PAIR_KERNEL.equation(differences, scores, *own(state, "kernel"))
    logits = where(mask[:, None], logits, -np.inf)
    if normalization == "sum":
        return rounding.exp(logits)
    if "sink" not in state:
        return softmax.page(logits)[0]
    column = np.broadcast_to(state["sink"][:, None, None], (*logits.shape[:-1], 1))
    return softmax.page(joined(logits, exact(column)))[0][..., :-1]


def translation_attention(query, key, differences, state, heads, mask, **options):
    """Output (B, N, D) of attention on differences, value only."""
    alpha = attention_weights(query, key, differences, state, heads, mask, **options)
    v = split_heads(linear(key, *own(state, "value"))[0], heads)
    return linear(join_heads(contract("bhnm,bhmd->bhnd", alpha, v)), *own(state, "output"))[0]


def steps(query, key, differences, state, heads, mask, **options):
    """Δx (B, N, dx): the mean over keys that may be attended to of d φ(α)."""
    alpha = attention_weights(query, key, differences, state, heads, mask, **options)
    factors = mlp(alpha.moved(lambda a: a.transpose(0, 2, 3, 1)), own(state, "movement"))
    total = where(mask[..., None], differences * factors, 0).sum((2,))
    return total / exact(np.maximum(mask.sum(-1, keepdims=True), 1))


def under(state, prefix):
    """The entries of a state dict under `prefix.`, without it."""
    return {name.removeprefix(f"{prefix}."): array for name, array in state.items() if name.startswith(f"{prefix}.")}


def translation_layer(x, keys, differences, state, heads, norm, mask, **options):
    """A layer's output (B, N, D), and Δx (B, N, dx) or None; `options` are `squares` and `normalization`."""
    first, second = (own(state, f"around_{name}.layer_norm") for name in ("attention", "feed_forward"))
    attention, maps = under(state, "attention"), feed_forward(own(state, "feed_forward"), "relu")
    unit = LAYER_NORM.equation(x, *first)[0] if norm == "pre" else x
    keys = LAYER_NORM.equation(keys, *first)[0] if norm == "pre" else keys
    arguments = unit, keys, differences, attention, heads, mask
    moved = steps(*arguments, **options) if own(attention, "movement") else None
    x = x + translation_attention(*arguments, **options)
    if norm == "pre":
        return x + maps(LAYER_NORM.equation(x, *second)[0])[0], moved
    x, _ = LAYER_NORM.equation(x, *first)
    return LAYER_NORM.equation(x + maps(x)[0], *second)[0], moved


def te_tnp(model, context_x, context_y, target_x, context_mask):
    """Mean and standard deviation of TE-TNP."""
    c, t = context_x.shape[1], target_x.shape[1]
    known = flagged(model, context_y, False)
    found = np.concatenate([known, flagged(model, np.zeros((len(known), t, model.dy), known.dtype), True)], 1)
    state, mask = model.state_dict(), np.broadcast_to(context_mask[:, None], (len(known), c + t, c))
    places = np.concatenate([context_x, target_x], 1)
    differences = exact(places[:, :, None]) - exact(context_x[:, None])
    z = mlp(exact(found), own(state, "embedder"))
    layer = (model.reading_layers or model.layers)[0]
    heads, norm = layer.attention.heads, layer.around_attention.norm
    options = {"squares": layer.attention.squares, "normalization": layer.attention.normalization}
    for i in range(len(model.reading_layers or model.layers)):
        here = under(state, f"layers.{i}")
        if not model.apart:
            z, moved = translation_layer(z, z[:, :c], differences, here, heads, norm, mask, **options)
            differences = differences if moved is None else differences + (moved[:, :, None] - moved[:, None, :c])
            continue
        among, toward = differences[:, :c], differences[:, c:]
        known, step, after, after_toward = z[:, :c], None, z[:, :c], toward
        if here:
            after, step = translation_layer(known, known, among, here, heads, norm, mask[:, :c], **options)
        if step is not None:
            among, after_toward = among + (step[:, :, None] - step[:, None]), toward - step[:, None]
        keys, towards = (after, after_toward) if model.updated else (known, toward)
        reader = under(state, f"reading_layers.{i}") if model.reading_layers else here
        asked, own_step = translation_layer(z[:, c:], keys, towards, reader, heads, norm, mask[:, c:], **options)
        after_toward = after_toward if own_step is None else after_toward + own_step[:, :, None]
        z, differences = stacked(after, asked), stacked(among, after_toward)
    return distribution(mlp(z[:, c:], own(state, "predictor")), model)
