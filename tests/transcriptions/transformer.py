"""Encoder layer, decoder layer and the whole model of Sivaraya (2023) §1.2 to §1.6; GPT and LLaMA. Token by token, in
longdouble."""

import numpy as np

from tests.transcriptions.positions import rotate, sinusoidal
from tests.transcriptions.rows import WIDE, attention, layer_norm, linear, multi_head, rms_norm


def part(state, prefix):
    """The entries of a state dict under `prefix.`, without it."""
    return {name.removeprefix(f"{prefix}."): value for name, value in state.items() if name.startswith(f"{prefix}.")}


def relu(x):
    return np.array([max(value, WIDE(0)) for value in x.reshape(-1)], WIDE).reshape(x.shape)


def feed_forward(x, state):
    """W₂ relu(W₁ x + b₁) + b₂ for every token."""
    hidden = relu(linear(x, state["layers.0.weight"], state.get("layers.0.bias")))
    return linear(hidden, state["layers.1.weight"], state.get("layers.1.bias"))


def around(sublayer, x, state, norm, eps):
    """LayerNorm(x + Sublayer(x)) as Sivaraya (2023) §1.5 prints it, or x + Sublayer(LayerNorm(x))."""
    gain = state["layer_norm.gain"]
    shift = state.get("layer_norm.shift", np.zeros_like(gain))
    if norm == "post":
        return layer_norm(x + sublayer(x), gain, shift, eps)
    return x + sublayer(layer_norm(x, gain, shift, eps))


def encoder_layer(x, state, heads, norm="post", eps=1e-5, mask=None, bias=None):
    """Self-attention, feed-forward. Mask and bias are (N, N), or (H, N, N), one for each head."""
    x = np.asarray(x, WIDE)
    own = part(state, "attention")
    x = around(lambda x: multi_head(x, x, own, heads, mask, bias=bias), x, part(state, "around_attention"), norm, eps)
    own = part(state, "feed_forward")
    return around(lambda x: feed_forward(x, own), x, part(state, "around_feed_forward"), norm, eps)


def decoder_layer(
    x, memory, state, heads, norm="post", eps=1e-5, memory_mask=None, bias=None, memory_bias=None, causal=True
):
    """Self-attention to tokens up to one's own, or to all, attention to the memory, feed-forward."""
    x, memory = np.asarray(x, WIDE), np.asarray(memory, WIDE)
    n = len(x)
    before = np.array([[j <= i or not causal for j in range(n)] for i in range(n)])
    own, other, maps = (part(state, name) for name in ("attention", "memory_attention", "feed_forward"))
    x = around(lambda x: multi_head(x, x, own, heads, before, bias=bias), x, part(state, "around_attention"), norm, eps)
    x = around(
        lambda x: multi_head(x, memory, other, heads, memory_mask, bias=memory_bias),
        x,
        part(state, "around_memory_attention"),
        norm,
        eps,
    )
    return around(lambda x: feed_forward(x, maps), x, part(state, "around_feed_forward"), norm, eps)


def embedded(tokens, table):
    """√D E[token] + p for every token: eq. 2."""
    n, d = len(tokens), table.shape[1]
    p = sinusoidal(range(n), d)
    return np.array(
        [[np.sqrt(WIDE(d)) * WIDE(table[tokens[i], j]) + p[i, j] for j in range(d)] for i in range(n)], WIDE
    ).reshape(n, d)


def logits(source, target, state, heads, layers, source_mask=None):
    """One sentence pair: embeddings with positions, the stacks, the final linear map. Post-norm."""
    to_source = None if source_mask is None else np.tile(source_mask, (len(source), 1))
    from_target = None if source_mask is None else np.tile(source_mask, (len(target), 1))
    x = embedded(source, state["source_embedding.weight"])
    for i in range(layers):
        x = encoder_layer(x, part(state, f"encoder.layers.{i}"), heads, mask=to_source)
    y = embedded(target, state["target_embedding.weight"])
    for i in range(layers):
        y = decoder_layer(y, x, part(state, f"decoder.layers.{i}"), heads, memory_mask=from_target)
    return linear(y, state["output.weight"], state["output.bias"])


def beam_search(next_log_p, beams, end, longest, alpha):
    """Beams and ended sentences of one source, to the last step: best first, (words, log p, score, whether it ended).

    `next_log_p(words)` are the log probabilities of the next word. Every continuation of every beginning stands in one
    list; a sentence ends where fewer than `beams` words come before its end. Nothing is cut short, so that stopping
    early has something to be equal to.
    """
    alive, ended = [((), 0.0)], []
    for _ in range(longest):
        following = [
            (log_p + step, i, word, words)
            for i, (words, log_p) in enumerate(alive)
            for word, step in enumerate(next_log_p(words))
        ]
        following.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
        alive = []
        for log_p, _, word, words in following:
            if len(alive) == beams:
                break
            if word == end:
                ended.append((words, log_p, log_p / ((6 + len(words)) / 6) ** alpha, True))
            else:
                alive.append(((*words, word), log_p))
    cut = [(words, log_p, log_p / ((5 + len(words)) / 6) ** alpha, False) for words, log_p in alive]
    best = [sorted(found, key=lambda sentence: -sentence[2]) for found in (ended, cut)]
    return [*best[0], *best[1]][:beams]


# ---- decoder-only models


def gpt_logits(tokens, state, heads, layers, activation, eps=1e-5):
    """One sequence: rows of two tables, pre-norm layers under the causal mask, LayerNorm, and the first table again."""
    table, places = state["embedding.weight"], state["positions.weight"]
    n, d = len(tokens), table.shape[1]
    x = np.array([[WIDE(table[tokens[i], j]) + WIDE(places[i, j]) for j in range(d)] for i in range(n)], WIDE)
    before = np.array([[j <= i for j in range(n)] for i in range(n)])
    for i in range(layers):
        own = part(state, f"layers.{i}")
        gain, shift = own["around_attention.layer_norm.gain"], own["around_attention.layer_norm.shift"]
        u = layer_norm(x, gain, shift, eps)
        x = x + multi_head(u, u, part(own, "attention"), heads, before)
        gain, shift = own["around_feed_forward.layer_norm.gain"], own["around_feed_forward.layer_norm.shift"]
        maps = part(own, "feed_forward.layers")
        hidden = linear(layer_norm(x, gain, shift, eps), maps["0.weight"], maps["0.bias"])
        hidden = np.array([activation(h) for h in hidden.reshape(-1)], WIDE).reshape(hidden.shape)
        x = x + linear(hidden, maps["1.weight"], maps["1.bias"])
    x = layer_norm(x, state["final_norm.gain"], state["final_norm.shift"], eps)
    return linear(x, state.get("output.weight", table.T))


def gelu_by_tanh(x):
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    return x / 2 * (1 + np.tanh(np.sqrt(1 / np.arctan(WIDE(1)) / 2) * (x + WIDE("0.044715") * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def llama_logits(tokens, state, heads, key_heads, layers, layout="half", base=10000, eps=1e-5):
    """One sequence: RMSNorm, rotated queries and keys, each head of keys for several of queries, gated networks."""
    table = state["embedding.weight"]
    x = np.array([[WIDE(number) for number in table[token]] for token in tokens], WIDE)
    before = np.array([[j <= i for j in range(len(tokens))] for i in range(len(tokens))])
    for i in range(layers):
        own = part(state, f"layers.{i}")
        n = rms_norm(x, own["attention_norm.gain"], eps)
        q, k, v = (linear(n, own[f"attention.{name}.weight"]) for name in ("query", "key", "value"))
        parts, width = [], q.shape[1] // heads
        for h in range(heads):
            g = h // (heads // key_heads)
            turned = [
                rotate(a[:, j * width : (j + 1) * width], range(len(tokens)), layout, base) for a, j in ((q, h), (k, g))
            ]
            parts.append(attention(*turned, v[:, g * width : (g + 1) * width], before)[0])
        x = x + linear(np.concatenate(parts, -1), own["attention.output.weight"])
        n, maps = rms_norm(x, own["feed_forward_norm.gain"], eps), part(own, "feed_forward")
        gate, up = linear(n, maps["gate.weight"]), linear(n, maps["up.weight"])
        gate = np.array([silu(g) for g in gate.reshape(-1)], WIDE).reshape(gate.shape)
        x = x + linear(gate * up, maps["down.weight"])
    return linear(rms_norm(x, state["final_norm.gain"], eps), state.get("output.weight", table.T))
