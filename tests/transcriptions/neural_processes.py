"""The classical neural processes, task by task, point by point, in the widest precision of the machine.

A task is context_x (M, dx), context_y (M, dy), target_x (N, dx) and a mask (M,); `state` is a model's state_dict.
"""

import numpy as np

from tests.transcriptions import rows

WIDE = np.longdouble


def mlp(x, state, prefix):
    """x W_1 + b_1, max(·, 0), x W_2 + b_2, … for one vector x."""
    i = 0
    while f"{prefix}.layers.{i}.weight" in state:
        if i:
            x = [max(v, WIDE(0)) for v in x]
        x = rows.linear([x], state[f"{prefix}.layers.{i}.weight"], state[f"{prefix}.layers.{i}.bias"])[0]
        i += 1
    return x


def block(query, key, value, state, prefix, heads, scaling):
    """LN(u + max(u W + b, 0)), u = LN(q + [attention of each head]); query (N, D), key and value (M, D)."""
    q, k, v = (
        rows.linear(a, state[f"{prefix}.{role}.weight"])
        for role, a in (("query", query), ("key", key), ("value", value))
    )
    root = np.sqrt(WIDE(q.shape[1] // heads if scaling == "head" else q.shape[1]))
    found = attended(q, k, v, heads, root)
    u = norm(q + found, state, f"{prefix}.first_norm")
    bent = rows.linear(u, state[f"{prefix}.output.weight"], state[f"{prefix}.output.bias"])
    for i in np.ndindex(bent.shape):
        bent[i] = max(bent[i], WIDE(0))
    return norm(u + bent, state, f"{prefix}.second_norm")


def attended(q, k, v, heads, root):
    """What each head finds with its part of the features, side by side; 0 without keys."""
    width, found = q.shape[1] // heads, np.zeros_like(q)
    for h in range(heads):
        own = range(h * width, (h + 1) * width)
        for i in range(len(q)):
            scores = [sum(q[i, a] * k[j, a] for a in own) / root for j in range(len(k))]
            for j, weight in enumerate(rows.softmax(np.array(scores, WIDE))):
                for a in own:
                    found[i, a] += weight * v[j, a]
    return found


def norm(x, state, prefix):
    """LayerNorm with ε = 1e-5."""
    return rows.layer_norm(x, state[f"{prefix}.gain"], state[f"{prefix}.shift"], 1e-5)


def set_vector(pairs, state, prefix, heads=None, scaling=None, pooling="mean"):
    """ρ of the mean of φ over the pairs (M, F); with heads, after a block in which they attend to each other.

    With pooling "sum" ρ of the sum; if `state` has no ρ, the mean or the sum itself.
    """
    tokens = [mlp(pair, state, f"{prefix}.before") for pair in pairs]
    if heads is not None and tokens:
        tokens = [[max(v, WIDE(0)) for v in token] for token in tokens]
        tokens = block(tokens, tokens, tokens, state, f"{prefix}.attention", heads, scaling)
    last = max(i for i in range(len(state)) if f"{prefix}.before.layers.{i}.weight" in state)
    width = state[f"{prefix}.before.layers.{last}.weight"].shape[1]
    count = 1 if pooling == "sum" else max(len(tokens), 1)
    mean = [sum((token[a] for token in tokens), WIDE(0)) / count for a in range(width)]
    return mlp(mean, state, f"{prefix}.after")


def cross(context_x, pairs, target_x, state, prefix, heads, scaling):
    """r_t, a block of each target with the context."""
    values = [mlp(pair, state, f"{prefix}.value") for pair in pairs]
    if values:
        values = block(values, values, values, state, f"{prefix}.self_attention", heads, scaling)
    places = [[mlp(x, state, f"{prefix}.place") for x in xs] for xs in (target_x, context_x)]
    width = state[f"{prefix}.cross_attention.query.weight"].shape[0]
    queries, keys, values = (np.reshape(a, (len(a), width)) for a in (*places, values))
    return block(queries, keys, values, state, f"{prefix}.cross_attention", heads, scaling)


def present(context_x, context_y, mask):
    """The context points that are there, x and pairs (x, y)."""
    there = [i for i in range(len(mask)) if mask[i]]
    context_x, context_y = np.asarray(context_x, WIDE), np.asarray(context_y, WIDE)
    return [context_x[i] for i in there], [[*context_x[i], *context_y[i]] for i in there]


def normal(values, floor, deviation="softplus"):
    """μ and floor + (1 − floor) log(1 + eˢ), or floor + eˢ, or √(floor² + log(1 + eˢ)), from one vector [μ, s]."""
    dy, f = len(values) // 2, WIDE(floor)
    of_s = {
        "softplus": lambda s: f + (1 - f) * np.log1p(np.exp(s)),
        "exp": lambda s: f + np.exp(s),
        "softplus_variance": lambda s: np.sqrt(f**2 + np.log1p(np.exp(s))),
    }
    return values[:dy], [of_s[deviation](s) for s in values[dy:]]


def decoded(told, target_x, state, floor, deviation="softplus"):
    """Mean and standard deviation (N, dy): the decoder's, of what each target is given, and x."""
    answers = [
        normal(mlp([*r, *x], state, "decoder"), floor, deviation)
        for r, x in zip(told, np.asarray(target_x, WIDE), strict=True)
    ]
    return tuple(np.array(part, WIDE) for part in zip(*answers, strict=True))


def cnp(context_x, context_y, target_x, mask, state, floor, pooling="mean", deviation="softplus"):
    """The CNP: encoders.0, encoders.1, … side by side."""
    _, pairs = present(context_x, context_y, mask)
    r, i = [], 0
    while f"encoders.{i}.before.layers.0.weight" in state:
        r = [*r, *set_vector(pairs, state, f"encoders.{i}", pooling=pooling)]
        i += 1
    return decoded([r] * len(target_x), target_x, state, floor, deviation)


def canp(context_x, context_y, target_x, mask, state, floor, heads, scaling):
    """The CANP: r_t and r."""
    places, pairs = present(context_x, context_y, mask)
    local = cross(places, pairs, target_x, state, "cross_encoder", heads, scaling)
    common = set_vector(pairs, state, "encoder", heads, scaling)
    return decoded([[*r, *common] for r in local], target_x, state, floor)


def attn_cnp(context_x, context_y, target_x, mask, state, heads):
    """The CNP of Gordon et al.: r_t = LN(u + u W + b), u = LN(q + heads of attention through W_o), then MLP(x, r_t)."""
    places, pairs = present(context_x, context_y, mask)
    query, key = ([mlp(x, state, "place") for x in xs] for xs in (np.asarray(target_x, WIDE), places))
    width = len(query[0])
    given = query, key, [mlp(pair, state, "value") for pair in pairs]
    maps = [state[f"{role}_map.weight"] for role in ("query", "key", "value")]
    q, k, v = (rows.linear(np.reshape(a, (len(a), width)), w) for a, w in zip(given, maps, strict=True))
    found = attended(q, k, v, heads, np.sqrt(WIDE(width // heads)))
    u = norm(query + rows.linear(found, state["combine.weight"], state["combine.bias"]), state, "first_norm")
    r = norm(u + rows.linear(u, state["output.weight"], state["output.bias"]), state, "second_norm")
    answers = [
        normal(mlp([*x, *own], state, "decoder"), 0) for x, own in zip(np.asarray(target_x, WIDE), r, strict=True)
    ]
    return tuple(np.array(part, WIDE) for part in zip(*answers, strict=True))


def bootstrapped(context_x, context_y, target_x, mask, state, floor, draws, heads=None, scaling=None):
    """One member of a BNP's ensemble, or with heads of a BANP's; `draws` name points for pairs and for residuals."""
    there = [i for i in range(len(mask)) if mask[i]]
    x, y = np.asarray(context_x, WIDE), np.asarray(context_y, WIDE)

    def told(pairs, at):
        if heads is None:
            r, i = [], 0
            while f"encoders.{i}.before.layers.0.weight" in state:
                r = [*r, *set_vector(pairs, state, f"encoders.{i}")]
                i += 1
            return [r] * len(at)
        local = cross([pair[: x.shape[1]] for pair in pairs], pairs, at, state, "cross_encoder", heads, scaling)
        return [[*r, *set_vector(pairs, state, "encoder", heads, scaling)] for r in local]

    points = [[*x[i], *y[i]] for i in there]
    chosen = [[*x[draws[0][i]], *y[draws[0][i]]] for i in there]
    residuals, said = {}, {}
    for i, r in zip(there, told(chosen, [x[i] for i in there]), strict=True):
        said[i] = normal(mlp([*r, *x[i]], state, "decoder"), floor)
        residuals[i] = [(a - m) / s for a, m, s in zip(y[i], *said[i], strict=True)]
    drawn = [residuals[draws[1][i]] for i in there]
    mean = [sum((e[d] for e in drawn), WIDE(0)) / max(len(there), 1) for d in range(y.shape[1])]
    adapted = []
    for i, e in zip(there, drawn, strict=True):
        new = [m + s * (v - c) for m, s, v, c in zip(*said[i], e, mean, strict=True)]
        adapted.append([*x[i], *new])
    answers = []
    targets = [np.asarray(a, WIDE) for a in target_x]
    for r, more, at in zip(told(points, targets), told(adapted, targets), targets, strict=True):
        h = rows.linear([[*r, *at]], state["decoder.layers.0.weight"], state["decoder.layers.0.bias"])[0]
        h = h + rows.linear([more], state["adaptation.weight"])[0]
        rest, i = {}, 1
        while f"decoder.layers.{i}.weight" in state:
            rest |= {
                f"decoder.layers.{i - 1}.{part}": state[f"decoder.layers.{i}.{part}"] for part in ("weight", "bias")
            }
            i += 1
        answers.append(normal(mlp([max(v, WIDE(0)) for v in h], rest, "decoder") if rest else h, floor))
    return tuple(np.array(part, WIDE) for part in zip(*answers, strict=True))


def latent(x, y, mask, state, floor, heads=None, scaling=None):
    """m and v = floor + (1 − floor)/(1 + e^(−s)) of q(z | S)."""
    _, pairs = present(x, y, mask)
    values = set_vector(pairs, state, "latent_encoder", heads, scaling)
    half = len(values) // 2
    return values[:half], np.array(
        [WIDE(floor) + (1 - WIDE(floor)) / (1 + np.exp(-s)) for s in values[half:]], WIDE
    )  # fmt: skip


def latent_np(context_x, context_y, target_x, mask, z, state, floor):
    """The latent NP, given z: with a deterministic path if `state` has one."""
    _, pairs = present(context_x, context_y, mask)
    r = set_vector(pairs, state, "encoder") if "encoder.before.layers.0.weight" in state else []
    return decoded([[*r, *z]] * len(target_x), target_x, state, floor)


def anp(context_x, context_y, target_x, mask, z, state, floor, heads, scaling):
    """The ANP, given z."""
    places, pairs = present(context_x, context_y, mask)
    local = cross(places, pairs, target_x, state, "cross_encoder", heads, scaling)
    return decoded([[*r, *z] for r in local], target_x, state, floor)


def log_normal(y, mean, std):
    """log N(y; μ, σ²) of one number."""
    return -((y - mean) ** 2) / (2 * std**2) - np.log(std) - np.log(8 * np.arctan(WIDE(1))) / 2


def log_density(y, mean, std, mask):
    """Σ log N over targets that are there, and all outputs."""
    return sum(
        (log_normal(WIDE(y[t, e]), mean[t, e], std[t, e]) for t in range(len(y)) if mask[t] for e in range(len(y[t]))),
        WIDE(0),
    )


def normal_kl(mean_p, std_p, mean_q, std_q):
    """Σ log(σ_q/σ_p) + (σ_p² + (μ_p − μ_q)²)/(2 σ_q²) − ½, the textbook's."""
    total = WIDE(0)
    for a, s, b, t in zip(mean_p, std_p, mean_q, std_q, strict=True):
        total += np.log(t / s) + (s**2 + (a - b) ** 2) / (2 * t**2) - WIDE(1) / 2
    return total


def log_mean_exp(values):
    """log of the mean of eᵛ."""
    largest = max(values)
    return largest + np.log(sum(np.exp(v - largest) for v in values) / WIDE(len(values)))
