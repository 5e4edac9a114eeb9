"""Mutants of other similarities: cosine, general and additive attention, and attention on differences of places."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.layers.multi_head import merge_heads, over_heads, split_heads
from refnp.layers.translation_attention import pair_weights
from refnp.verify.mutants.attention import attention, mixed
from refnp.verify.mutants.mutant import Mistakes, family
from refnp.verify.mutants.softmax import weights


def divided_by_length(x, power=1, more=0.0):
    """x/|x| of each row; 0, with a gradient of 0, in a row of zeros."""
    zero = ~raw(x).any(-1, keepdims=True)
    length = ag.sqrt(ag.where(zero, 1.0, ag.sum(x * x, -1, keepdims=True))) + more
    return ag.where(zero, 0.0, x) / (length if power == 1 else length * length)


def cosine_attention(query, key, value, *, mask=None, divided="both", more=0.0, **switches):
    """A = softmax of the cosines q·k/(|q| |k|)."""
    power = 2 if divided == "squares" else 1
    query = query if divided in ("keys", "nothing") else divided_by_length(query, power, more)
    key = key if divided in ("queries", "nothing") else divided_by_length(key, power, more)
    return attention(query, key, value, mask=mask, similarity="dot", **switches)


def general_attention(query, key, value, weight, *, mask=None, rooted=False, **switches):
    """A = softmax of q W k."""
    changed = ag.matmul(query, weight)
    changed = changed / math.sqrt(query.shape[-1]) if rooted else changed
    return attention(changed, key, value, mask=mask, similarity="dot", **switches)


def additive_attention(
    query, key, value, query_weight, key_weight, vector, *, mask=None, bend=ag.tanh, rooted=False, weighed=True, over=-1
):
    """A = softmax of v · tanh(q W_q + k W_k)."""
    inner = ag.expand_dims(ag.matmul(query, query_weight), -2) + ag.expand_dims(ag.matmul(key, key_weight), -3)
    scores = ag.sum(bend(inner) * vector if weighed else bend(inner), -1)
    scores = scores / math.sqrt(query_weight.shape[-1]) if rooted else scores
    return ag.matmul(mixed(scores, mask, over=over), value)


def pair_kernel(differences, scores, *parameters, sign=1.0, of_scores=1.0, bend=layers.relu, bent=False):
    """The MLP on [d, s] of every pair."""
    x = ag.concatenate([differences * sign, ag.transpose(scores, (0, 2, 3, 1)) * of_scores], -1)
    for i in range(0, len(parameters), 2):
        x = ag.linear(x, *parameters[i : i + 2])
        x = bend(x) if bent or i + 2 < len(parameters) else x
    return ag.transpose(x, (0, 3, 1, 2))


def translation_attention(
    query,
    key,
    differences,
    *parameters,
    heads,
    mask=None,
    squares=False,
    normalization="softmax",
    bias=False,
    rooted=True,
    added=False,
    own=None,
    sign=1.0,
    **switches,
):
    """A = weights of MLP([x_n − x_m, q·k/√d of every head])."""
    count, ends = (6 if bias else 3), len(parameters) - (normalization == "sink")
    maps = [parameters[i : i + count // 3] for i in range(0, count, count // 3)]
    q, k, v = (split_heads(ag.linear(x, *own_map), heads) for x, own_map in zip((query, key, key), maps, strict=True))
    scores = ag.matmul(q, ag.swapaxes(k, -1, -2)) / (math.sqrt(q.shape[-1]) if rooted else 1.0)
    steps = differences * sign
    steps = ag.concatenate([steps, steps * steps], -1) if squares else steps
    logits = pair_kernel(steps, scores, *parameters[count : ends - 2], **switches)
    logits = logits + scores if added else logits
    logits = logits if mask is None else ag.where(over_heads(np.asarray(mask)), logits, -np.inf)
    a = weights(logits, -2) if own == "queries" else pair_weights(logits, own or normalization, *parameters[ends:])
    return ag.linear(merge_heads(ag.matmul(a, v)), *parameters[ends - 2 : ends])


QUERIES: Mistakes = {"the softmax went over the queries": {"over": -2}}
ROOTED: Mistakes = {"scores were divided by √d too": {"rooted": True}}
COSINE: Mistakes = {
    "queries alone were divided by their length": {"divided": "queries"},
    "keys alone were divided by their length": {"divided": "keys"},
    "it were q·k, divided by no length": {"divided": "nothing"},
    "q·k were divided by the squares of both lengths": {"divided": "squares"},
    "1e-8 were added to lengths": {"more": 1e-8},
    "cosines were divided by √d too": {"scale": "√d, asked for or not"},
}
ADDITIVE: Mistakes = {
    "tanh were left out": {"bend": lambda x: x},
    "relu were in place of tanh": {"bend": layers.relu},
    "σ were in place of tanh": {"bend": layers.sigmoid},
    "the vector v were left out": {"weighed": False},
}
KERNEL: Mistakes = {
    "differences were x_m − x_n": {"sign": -1.0},
    "differences were left out": {"sign": 0.0},
    "scores were left out": {"of_scores": 0.0},
    "gelu were in place of relu": {"bend": layers.gelu},
    "tanh were in place of relu": {"bend": ag.tanh},
    "relu came after the last map too": {"bent": True},
}
TRANSLATION: Mistakes = {
    "scores were not divided by √d": {"rooted": False},
    "the kernel of pairs were added to scores, not put in their place": {"added": True},
    "the softmax went over the queries": {"own": "queries"},
    "weights were not divided by their sum": {"own": "sum"},
}
MUTANTS = [
    *family(cosine_attention, ("cosine_attention",), COSINE | QUERIES),
    *family(general_attention, ("general_attention",), ROOTED | QUERIES),
    *family(additive_attention, ("additive_attention",), ADDITIVE | ROOTED | QUERIES),
    *family(pair_kernel, ("pair_kernel",), KERNEL),
    *family(translation_attention, ("translation_attention",), TRANSLATION | KERNEL),
]
