"""Equations of rows and tokens, index by index, in the widest precision of the machine. Slow, and hard to get wrong."""

import mpmath
import numpy as np

from tests.transcriptions import probability
from tests.transcriptions.probability import DIGITS, WIDE, exactly, wide


def softmax(x):
    """p_i = exp(x_i) / Σ_j exp(x_j), row by row."""
    x = np.asarray(x, WIDE)
    p = np.zeros_like(x)
    for row in np.ndindex(x.shape[:-1]):
        n = x.shape[-1]
        largest = max((x[row][i] for i in range(n)), default=WIDE(0))
        if largest == -np.inf:
            continue
        total = sum((np.exp(x[row][j] - largest) for j in range(n)), WIDE(0))
        for i in range(n):
            p[row][i] = np.exp(x[row][i] - largest) / total
    return p


def log_softmax(x):
    """log p_i = −log Σ_j exp(x_j − x_i), row by row."""
    y = np.zeros(x.shape, WIDE)
    with mpmath.workdps(DIGITS):
        for row in np.ndindex(x.shape[:-1]):
            y[row] = [wide(v) for v in probability.log_softmax([exactly(v) for v in x[row]])]
    return y


def _slope(p, bars, i):
    return p[i] * mpmath.fsum(q * (bars[i] - bar) for q, bar in zip(p, bars, strict=True))


def attention_gradients(query, key, value, o_bar, mask=None, bias=None):
    """(Q̄, K̄, V̄, S̄) of attention without axes in front, with 40 digits left of what cancels."""
    (n, d), (m, width) = query.shape, value.shape
    with mpmath.workdps(80 + int(3 * np.abs(query).max() * np.abs(key).max() * d)):
        q, k, v, o = ([[exactly(x) for x in row] for row in a] for a in (query, key, value, o_bar))
        root = mpmath.sqrt(d)
        q_bar, k_bar, v_bar, s_bar = (_zeros(*shape) for shape in ((n, d), (m, d), (m, width), (n, m)))
        for i in range(n):
            shown = [j for j in range(m) if mask is None or mask[i, j]]
            scores = {j: mpmath.fdot(q[i], k[j]) / root for j in shown}
            if bias is not None:
                scores = {j: s + exactly(bias[i, j]) for j, s in scores.items()}
            e = {j: mpmath.exp(s) for j, s in scores.items()}
            total = mpmath.fsum(e.values())
            p = {j: x / total for j, x in e.items()}
            a_bar = {j: mpmath.fdot(o[i], v[j]) for j in shown}
            for j in shown:
                s_bar[i][j] = p[j] * mpmath.fsum(p[l] * (a_bar[j] - a_bar[l]) for l in shown)
                for t in range(width):
                    v_bar[j][t] += p[j] * o[i][t]
                for t in range(d):
                    q_bar[i][t] += s_bar[i][j] * k[j][t] / root
                    k_bar[j][t] += s_bar[i][j] * q[i][t] / root
        return [np.array([[wide(x) for x in row] for row in a], WIDE) for a in (q_bar, k_bar, v_bar, s_bar)]


def _zeros(n, m):
    return [[mpmath.mpf(0)] * m for _ in range(n)]


def layer_norm(x, gain, shift, eps):
    """y_i = γ_i (x_i − μ)/√(σ² + ε) + β_i, row by row."""
    x, gain, shift = (np.asarray(a, WIDE) for a in (x, gain, shift))
    y = np.empty_like(x)
    d = x.shape[-1]
    for row in np.ndindex(x.shape[:-1]):
        mean = sum(x[row][i] for i in range(d)) / d
        variance = sum((x[row][i] - mean) ** 2 for i in range(d)) / d
        for i in range(d):
            y[row][i] = gain[i] * (x[row][i] - mean) / np.sqrt(variance + WIDE(eps)) + shift[i]
    return y


def rms_norm(x, gain, eps):
    """y_i = γ_i x_i / √(mean of squares + ε), row by row."""
    x, gain = (np.asarray(a, WIDE) for a in (x, gain))
    y = np.empty_like(x)
    d = x.shape[-1]
    for row in np.ndindex(x.shape[:-1]):
        square = sum(x[row][i] ** 2 for i in range(d)) / d
        for i in range(d):
            y[row][i] = gain[i] * x[row][i] / np.sqrt(square + WIDE(eps))
    return y


def linear(x, weight, bias=None):
    """y_j = Σ_i x_i W_ij + b_j, row by row."""
    x, weight = np.asarray(x, WIDE), np.asarray(weight, WIDE)
    y = np.zeros((*x.shape[:-1], weight.shape[1]), WIDE)
    for row in np.ndindex(x.shape[:-1]):
        for j in range(weight.shape[1]):
            terms = [x[row][i] * weight[i, j] for i in range(weight.shape[0])]
            y[row][j] = sum(terms, WIDE(0) if bias is None else WIDE(bias[j]))
    return y


def similarity(q, k, name, parameters=()):
    """One number for one query and one key."""
    d = len(q)
    if name == "additive":
        query_weight, key_weight, vector = parameters
        total = WIDE(0)
        for a in range(len(vector)):
            inner = sum(q[i] * query_weight[i, a] for i in range(d)) + sum(
                k[i] * key_weight[i, a] for i in range(len(k))
            )
            total += vector[a] * np.tanh(inner)
        return total
    if name == "general":
        (weight,) = parameters
        return sum(q[i] * weight[i, j] * k[j] for i in range(d) for j in range(len(k)))
    dot = sum((q[i] * k[i] for i in range(d)), WIDE(0))
    if name == "scaled_dot":
        return dot / np.sqrt(WIDE(d))
    if name == "cosine":
        length = np.sqrt(sum(q[i] ** 2 for i in range(d))) * np.sqrt(sum(k[i] ** 2 for i in range(d)))
        return dot / length if length else WIDE(0)
    return dot


def attention(query, key, value, mask=None, bias=None, name="scaled_dot", parameters=(), softcap=None, factors=None):
    """O_i = Σ_j α_ij v_j, α_i = softmax of the similarities with the keys that i may attend to. No leading axes.

    A softcap c makes a similarity c tanh(s/c); `factors` are what dropout multiplies weights with.
    """
    query, key, value = (np.asarray(a, WIDE) for a in (query, key, value))
    parameters = tuple(np.asarray(p, WIDE) for p in parameters)
    n, m = len(query), len(key)
    output, weights = np.zeros((n, value.shape[-1]), WIDE), np.zeros((n, m), WIDE)
    for i in range(n):
        allowed = [j for j in range(m) if mask is None or mask[i, j]]
        scores = [similarity(query[i], key[j], name, parameters) for j in allowed]
        if softcap is not None:
            scores = [softcap * np.tanh(s / softcap) for s in scores]
        if bias is not None:
            scores = [s + bias[i, j] for s, j in zip(scores, allowed, strict=True)]
        if not allowed:
            continue
        for j, weight in zip(allowed, softmax(np.array(scores, WIDE)), strict=True):
            weight = weight if factors is None else weight * factors[i, j]
            weights[i, j] = weight
            for e in range(value.shape[-1]):
                output[i, e] += weight * value[j, e]
    return output, weights


def column_attention(query, key, value, scaled):
    """V · softmax(KᵀQ / √d), tokens as columns, the softmax down the columns: Attention Notes 10-15, 10-16."""
    query, key, value = (np.asarray(a, WIDE) for a in (query, key, value))
    d, n, m = query.shape[0], key.shape[1], query.shape[1]
    output = np.zeros((value.shape[0], m), WIDE)
    for t in range(m):
        scores = [sum(key[i, j] * query[i, t] for i in range(d)) for j in range(n)]
        alpha = softmax(np.array(scores, WIDE) / (np.sqrt(WIDE(d)) if scaled else 1))
        for e in range(value.shape[0]):
            output[e, t] = sum(alpha[j] * value[e, j] for j in range(n))
    return output


def multi_head(x, y, state, heads, mask=None, z=None, bias=None):
    """concat over features of Attention(x W_q^(h), y W_k^(h), z W_v^(h)), times W_o; z = y if it is not given.

    Mask and bias are (N, M) for all heads or (H, N, M), one for each. Sivaraya (2023), eq. 6, its erratum mended.
    """
    x, y, z = (np.asarray(a, WIDE) for a in (x, y, y if z is None else z))
    parts = []
    for h in range(heads):
        projected = []
        for role, a in (("query", x), ("key", y), ("value", z)):
            weight, b = state[f"{role}.weight"], state.get(f"{role}.bias")
            width = weight.shape[1] // heads
            own = slice(h * width, (h + 1) * width)
            projected.append(linear(a, weight[:, own], None if b is None else b[own]))
        of_head = [None if a is None else a if np.ndim(a) == 2 else a[h] for a in (mask, bias)]
        parts.append(attention(*projected, *of_head)[0])
    return linear(np.concatenate(parts, -1), state["output.weight"], state.get("output.bias"))


def linear_attention(query, key, value, allowed):
    """Σ_m φ(q_n)·φ(k_m) v_m / Σ_m φ(q_n)·φ(k_m) over the m that are allowed (N, M), φ(x) = elu(x) + 1; 0 over none."""
    query, key, value = (np.asarray(a, WIDE) for a in (query, key, value))
    features = lambda row: [x + 1 if x > 0 else np.exp(x) for x in row]
    result = np.zeros((len(query), value.shape[1]), WIDE)
    for n in range(len(query)):
        total = WIDE(0)
        for m in range(len(key)):
            if allowed[n, m]:
                weight = sum((a * b for a, b in zip(features(query[n]), features(key[m]), strict=True)), WIDE(0))
                total += weight
                for e in range(value.shape[1]):
                    result[n, e] += weight * value[m, e]
        if total:
            result[n] /= total
    return result


def channel_norm(x, gain, shift, together, eps):
    """y_bc.. = γ_c (x_bc.. − μ)/√(σ² + ε) + β_c, μ and σ² over all elements that belong together.

    `together(b, c)` names what an element of item b and channel c belongs to.
    """
    x = np.asarray(x, WIDE)
    sets = {}
    for place in np.ndindex(x.shape):
        sets.setdefault(together(*place[:2]), []).append(place)
    y = np.zeros_like(x)
    for places in sets.values():
        mean = sum(x[p] for p in places) / len(places)
        variance = sum((x[p] - mean) ** 2 for p in places) / len(places)
        for p in places:
            scale = np.sqrt(variance + WIDE(eps))
            y[p] = WIDE(gain[p[1]]) * ((x[p] - mean) / scale if scale else 0) + WIDE(shift[p[1]])
    return y


def group_norm(x, gain, shift, groups, eps):
    """C/G neighbouring channels of an item together."""
    return channel_norm(x, gain, shift, lambda b, c: (b, c // (x.shape[1] // groups)), eps)


def instance_norm(x, gain, shift, eps):
    """Each channel of an item by itself."""
    return channel_norm(x, gain, shift, lambda b, c: (b, c), eps)


def batch_norm(x, gain, shift, eps):
    """Each channel of all items together."""
    return channel_norm(x, gain, shift, lambda b, c: c, eps)
