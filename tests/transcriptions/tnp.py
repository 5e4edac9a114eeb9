"""Transformer neural processes of one task, token by token and pair by pair, in longdouble: every token in full."""

import numpy as np

from tests.transcriptions.rows import WIDE, layer_norm, linear, multi_head, softmax
from tests.transcriptions.transformer import around, encoder_layer, feed_forward, part, relu


def mlp(x, state):
    """Linear maps with relu between them."""
    count = len(state) // 2
    for i in range(count):
        x = linear(x, state[f"layers.{i}.weight"], state[f"layers.{i}.bias"])
        x = relu(x) if i < count - 1 else x
    return x


def attends(kind, place, other_kind, other_place):
    """Whether a token attends to another: context to context; real t to context and real ≤ t; padded t to real < t."""
    if other_kind == "context":
        return True
    if other_kind == "padded" or kind == "context":
        return False
    return other_place <= place if kind == "real" else other_place < place


def tokens(context_x, context_y, target_x, target_y=None, flag=False, flags=(1, 0)):
    """The list of (kind, place, numbers): contexts, then real targets if y is given, then padded ones.

    With flag the first of `flags` stands beside y that is known, the second beside 0.
    """
    found = []
    for i, (x, y) in enumerate(zip(context_x, context_y, strict=True)):
        found.append(("context", i, [*x, *y, *([flags[0]] if flag else [])]))
    if target_y is not None:
        for i, (x, y) in enumerate(zip(target_x, target_y, strict=True)):
            found.append(("real", i, [*x, *y, *([flags[0]] if flag else [])]))
    for i, x in enumerate(target_x):
        found.append(("padded", i, [*x, *[0] * context_y.shape[1], *([flags[1]] if flag else [])]))
    return found


def reading_layer(x, keys, state, heads, norm, mask):
    """Attention to other tokens, feed-forward."""
    first = part(state, "around_attention")
    if norm == "pre":
        keys = layer_norm(keys, first["layer_norm.gain"], first["layer_norm.shift"], 1e-5)
    own, maps = part(state, "attention"), part(state, "feed_forward")
    x = around(lambda x: multi_head(x, keys, own, heads, mask), x, first, norm, 1e-5)
    return around(lambda x: feed_forward(x, maps), x, part(state, "around_feed_forward"), norm, 1e-5)


def encoded(found, state, heads, layers, present, norm="post", untied=False, updated=False):
    """All tokens through all layers under the whole mask; `present` (context or real, by place) are there at all.

    untied: padded tokens have layers of their own. updated: they attend to what a layer has made of the others.
    """
    mask = np.array(
        [
            [attends(kind, place, *other[:2]) and present.get(other[:2], False) for other in found]
            for kind, place, _ in found
        ],
        bool,
    ).reshape(len(found), len(found))
    width = state["embedder.layers.0.weight"].shape[0]
    x = mlp(np.array([numbers for *_, numbers in found], WIDE).reshape(-1, width), part(state, "embedder"))
    padded = np.array([kind == "padded" for kind, *_ in found], bool)
    for i in range(layers):
        before, own = x, part(state, f"layers.{i}")
        if own:  # what the last layer makes of tokens that nothing attends to any more is not computed
            x = encoder_layer(x, own, heads, norm, mask=mask)
        if untied or updated:
            reader = part(state, f"reading_layers.{i}") if untied else own
            keys, x = (x if updated else before)[~padded], x.copy()
            x[padded] = reading_layer(before[padded], keys, reader, heads, norm, mask[padded][:, ~padded])
    return np.array([row for row, (kind, *_) in zip(x, found, strict=True) if kind == "padded"], WIDE).reshape(
        -1, x.shape[1]
    )


def normal(values):
    """(μ, exp(s)) of [μ, s]."""
    dy = values.shape[1] // 2
    return values[:, :dy], np.exp(values[:, dy:])


def tnp_d(context_x, context_y, target_x, context_mask, state, heads, layers, flag=False, **form):
    """TNP-D: mean and standard deviation of every target."""
    found = tokens(context_x, context_y, target_x, flag=flag)
    present = {("context", i): bool(there) for i, there in enumerate(context_mask)}
    return normal(mlp(encoded(found, state, heads, layers, present, **form), part(state, "predictor")))


def tnp_a(context_x, context_y, target_x, target_y, context_mask, target_mask, state, heads, layers, **form):
    """TNP-A: mean and standard deviation of every target given those before it that are there."""
    found = tokens(context_x, context_y, target_x, target_y)
    present = {("context", i): bool(there) for i, there in enumerate(context_mask)}
    present |= {("real", i): bool(there) for i, there in enumerate(target_mask)}
    return normal(mlp(encoded(found, state, heads, layers, present, **form), part(state, "predictor")))


def tnp_nd(context_x, context_y, target_x, context_mask, state, heads, layers, target_layers, dy, low_rank, **form):
    """TNP-ND: mean (N·dy,), and Σ = PPᵀ + diag(exp d), or L = tril(PPᵀ)."""
    present = {("context", i): bool(there) for i, there in enumerate(context_mask)}
    z = encoded(tokens(context_x, context_y, target_x), state, heads, layers, present, **form)
    mean, x = mlp(z, part(state, "mean")).reshape(-1), z
    for i in range(target_layers):
        x = encoder_layer(x, part(state, f"target_layers.{i}"), heads, form.get("norm", "post"))
    p = mlp(x, part(state, "projector"))
    p = p.reshape(len(target_x) * dy, p.shape[1] // dy)
    n = len(p)
    products = np.array([[sum(p[i] * p[j], WIDE(0)) for j in range(n)] for i in range(n)], WIDE).reshape(n, n)
    if low_rank:
        diagonal = np.exp(mlp(z, part(state, "diagonal")).reshape(-1))
        for i in range(n):
            products[i, i] += diagonal[i]
        return mean, products
    return mean, np.array([[products[i, j] if j <= i else 0 for j in range(n)] for i in range(n)], WIDE).reshape(n, n)


def pseudo_tnp(context_x, context_y, target_x, context_mask, state, heads, layers, norm, flags=(1, 0)):
    """A TNP with pseudo-tokens: mean and standard deviation of every target."""
    there = [i for i, present in enumerate(context_mask) if present]
    numbers = [[*context_x[i], *context_y[i], flags[0]] for i in there]
    numbers += [[*x, *[0] * context_y.shape[1], flags[1]] for x in target_x]
    width = state["embedder.layers.0.weight"].shape[0]
    z = mlp(np.array(numbers, WIDE).reshape(-1, width), part(state, "embedder"))
    context, target, u = z[: len(there)], z[len(there) :], np.asarray(state["pseudo_tokens"], WIDE)
    for i in range(layers):
        own = part(state, f"layers.{i}")

        def to(x, keys, name, own=own):
            return reading_layer(x, keys, part(own, name), heads, norm, None) if part(own, name) else x

        u = to(u, context, "collect")
        u = to(u, u, "mix")
        target = to(target, u, "read")
        context = to(context, u, "spread")
    return normal(mlp(target, part(state, "predictor")))


def pseudo_te_tnp(context_x, context_y, target_x, context_mask, state, heads, layers, norm, moves, flags=(1, 0)):
    """A TE-TNP with pseudo-tokens at places; where the context is empty targets attend to nothing."""
    there = [i for i, present in enumerate(context_mask) if present]
    known = [[*context_y[i], flags[0]] for i in there] + [[0] * context_y.shape[1] + [flags[1]] for _ in target_x]
    z = mlp(np.array(known, WIDE).reshape(-1, context_y.shape[1] + 1), part(state, "embedder"))
    context_x = np.array([context_x[i] for i in there], WIDE).reshape(len(there), target_x.shape[1])
    mean = np.zeros(target_x.shape[1], WIDE)
    for x in context_x:
        mean += x / len(there)
    context, target = (z[: len(there)], context_x), (z[len(there) :], np.asarray(target_x, WIDE))
    u = np.asarray(state["pseudo_tokens"], WIDE), np.array([mean + v for v in state["pseudo_places"]], WIDE)
    for i in range(layers):
        own = part(state, f"layers.{i}")

        def to(x, keys, name, own=own):
            if not part(own, name):
                return x
            differences = np.array([[a - b for b in keys[1]] for a in x[1]], WIDE)
            differences = differences.reshape(len(x[1]), len(keys[1]), target_x.shape[1])
            new, steps = translation_layer(x[0], keys[0], differences, part(own, name), heads, norm)
            return new, x[1] + steps if moves else x[1]

        u = to(u, context, "collect")
        u = to(u, u, "mix")
        target = to(target, u if there else (u[0][:0], u[1][:0]), "read")
        context = to(context, u, "spread")
    return normal(mlp(target[0], part(state, "predictor")))


def translation_attention(query, key, differences, state, heads, mask=None, *, squares=False, normalization="softmax"):
    """Output (N, D) and Δx (N, dx) for one task, a pair at a time; `differences` (N, M, dx)."""
    query, key = np.asarray(query, WIDE), np.asarray(key, WIDE)
    n, m, width = len(query), len(key), query.shape[1] // heads
    q, k, v = (
        a @ np.asarray(state[f"{role}.weight"], WIDE) + np.asarray(state.get(f"{role}.bias", 0), WIDE)
        for role, a in (("query", query), ("key", key), ("value", key))
    )
    parts = [slice(h * width, (h + 1) * width) for h in range(heads)]
    mixed, steps = np.zeros((n, heads * width), WIDE), np.zeros((n, differences.shape[2]), WIDE)
    for i in range(n):
        allowed = [j for j in range(m) if mask is None or mask[i, j]]
        if not allowed:
            continue
        logits = []
        for j in allowed:
            scores = [sum(q[i, c] * k[j, c]) / np.sqrt(WIDE(width)) for c in parts]
            steps_squared = [d * d for d in differences[i, j]] if squares else []
            pair = np.array([[*differences[i, j], *steps_squared, *scores]], WIDE)
            logits.append(mlp(pair, part(state, "kernel"))[0])
        weights = weights_of(np.array(logits, WIDE).T, normalization, state.get("sink"))  # a row for each head
        for h, c in enumerate(parts):
            mixed[i, c] = sum(weights[h, a] * v[j, c] for a, j in enumerate(allowed))
        if part(state, "movement"):
            factors = [mlp(weights[:, a][None], part(state, "movement"))[0] for a in range(len(allowed))]
            steps[i] = sum(differences[i, j] * factor for j, factor in zip(allowed, factors, strict=True)) / len(
                allowed
            )
    return linear(mixed, state["output.weight"], state["output.bias"]), steps


def weights_of(logits, normalization, sink):
    """e^a over their sum, over e^b and their sum, or over nothing: (H, M)."""
    if normalization == "softmax":
        return softmax(logits)
    weights = np.exp(logits)
    for h in range(len(logits)):
        weights[h] /= np.exp(WIDE(sink[h])) + sum(weights[h]) if normalization == "sink" else 1
    return weights


def translation_layer(x, keys, differences, state, heads, norm, mask=None, **options):
    """The two sub-layers in their residual connections, and Δx; `options` are those of `translation_attention`."""
    first, second = (
        (state[f"{name}.layer_norm.gain"], state[f"{name}.layer_norm.shift"], 1e-5)
        for name in ("around_attention", "around_feed_forward")
    )
    own, maps = part(state, "attention"), part(state, "feed_forward")
    if norm == "pre":
        query, keys = layer_norm(x, *first), layer_norm(keys, *first)
        change, steps = translation_attention(query, keys, differences, own, heads, mask, **options)
        x = x + change
        return x + feed_forward(layer_norm(x, *second), maps), steps
    change, steps = translation_attention(x, keys, differences, own, heads, mask, **options)
    x = layer_norm(x + change, *first)
    return layer_norm(x + feed_forward(x, maps), *second), steps


def te_tnp(
    context_x,
    context_y,
    target_x,
    context_mask,
    state,
    heads,
    layers,
    norm,
    moves=False,
    untied=False,
    updated=False,
    flags=(1, 0),
    **options,
):
    """TE-TNP: all tokens in full through all layers, places and all; mean and standard deviation of every target.

    flags: what stands beside the y of the context and beside the 0 of the targets.
    options: those of `translation_attention`.
    """
    c = len(context_x)
    known = [[*y, flags[0]] for y in context_y] + [[0] * context_y.shape[1] + [flags[1]] for _ in target_x]
    z = mlp(np.array(known, WIDE).reshape(-1, context_y.shape[1] + 1), part(state, "embedder"))
    places = np.concatenate([np.asarray(context_x, WIDE), np.asarray(target_x, WIDE)])
    mask = np.array([[bool(there) for there in context_mask] for _ in z], bool).reshape(len(z), c)

    def through(rows, z, key_z, places, key_places, own):
        """Some tokens through one layer, and their places after it."""
        differences = np.array([[a - b for b in key_places] for a in places[rows]], WIDE)
        differences = differences.reshape(len(z[rows]), c, places.shape[1])
        new, steps = translation_layer(z[rows], key_z, differences, own, heads, norm, mask[rows], **options)
        return new, places[rows] + steps if moves else places[rows]

    context, target = slice(0, c), slice(c, None)
    for i in range(layers):
        new_z, new_places, own = z.copy(), places.copy(), part(state, f"layers.{i}")
        if own:
            new_z[context], new_places[context] = through(context, z, z[:c], places, places[:c], own)
        keys = (new_z[:c], new_places[:c]) if updated else (z[:c], places[:c])
        reader = part(state, f"reading_layers.{i}") if untied else own
        new_z[target], new_places[target] = through(target, z, keys[0], places, keys[1], reader)
        z, places = new_z, new_places
    return normal(mlp(z[c:], part(state, "predictor")))
