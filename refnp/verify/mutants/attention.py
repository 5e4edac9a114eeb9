"""Mutants of attention: scale, masks, softmax, heads, and what rounds inside."""

import math

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive
from refnp.autograd.primitives import raw
from refnp.layers.masks import causal
from refnp.verify.mutants.mutant import Mistakes, family, held, rounded_to, stored, through
from refnp.verify.mutants.softmax import EPSILON, weights


@primitive
def product_in(x, y, *, bits):
    """Z = X Y with factors of `bits` bits of mantissa.   VJP: X̄ = Z̄ Yᵀ and Ȳ = Xᵀ Z̄, likewise."""
    x, y = rounded_to(x, bits), rounded_to(y, bits)

    def vjp(z_bar):
        z_bar = rounded_to(z_bar, bits)
        return z_bar @ y.swapaxes(-1, -2), x.swapaxes(-1, -2) @ z_bar

    return x @ y, vjp


def product(x, y, bits=None):
    """X Y, exactly or with factors of fewer bits."""
    return ag.matmul(x, y) if bits is None else product_in(x, y, bits=bits)


def divisor_of(query, key, value, scale):
    """What scores are divided by."""
    d = query.shape[-1]
    return {
        "√d": math.sqrt(d),
        "1": 1.0,
        "d": float(d),
        "√(H d)": math.sqrt(d * (query.shape[-3] if query.ndim > 2 else 1)),
        "√M": math.sqrt(key.shape[-2]),
        "√d_v": math.sqrt(value.shape[-1]),
        "1/√d": 1 / math.sqrt(d),
        "√d, asked for or not": math.sqrt(d),
    }[scale]


def other_mask(mask, change):
    """A mask that is read as another: True may attend."""
    if change == "inverted":
        return ~mask
    if change == "one key further":
        return np.concatenate([mask[..., :1], mask[..., :-1]], -1)
    if change == "one key less":
        return np.concatenate([mask[..., 1:], np.zeros_like(mask[..., :1])], -1)
    if change == "of keys alone":
        return np.broadcast_to(mask[..., :1, :], mask.shape)
    return None if change == "left out" else mask


def scores_of(
    query, key, *, divisor, softcap=None, bias=None, one_head=False, of_bias="added", capped="scores", bits=None
):
    """S = Q Kᵀ/√d, under a softcap c of c tanh(s/c), plus bias."""
    scores = product(query, ag.swapaxes(key, -1, -2), bits) / divisor
    if one_head:
        heads = np.ones((scores.shape[-3], 1, 1))
        heads[0] = divisor
        scores = scores * heads
    cap = (lambda s: softcap * ag.tanh(s / softcap)) if softcap is not None and capped != "no" else lambda s: s
    if bias is None or of_bias == "left out":
        return cap(scores)
    bias = {"added": bias, "scaled": bias / divisor, "subtracted": -bias}[of_bias]
    return cap(scores + bias) if capped in ("bias too", "last") else cap(scores) + bias


def mixed(scores, mask, *, masking="before", empty=0.0, over=-1, p_bits=None, **switches):
    """A = softmax of the scores over the allowed keys; `empty` where there are none."""
    if mask is None:
        a = weights(scores, over, **switches)
    elif masking == "after":
        a = weights(scores, over, **switches) * mask
    elif masking == "to 0":
        a = weights(scores * mask, over, **switches)
    elif masking != "before":
        a = weights(scores + np.where(mask, 0, masking).astype(raw(scores).dtype), over, **switches)
    else:
        a = weights(ag.where(mask, scores, -np.inf), over, **switches)
        if empty == "mean":
            a = ag.where(mask.any(-1, keepdims=True), a, 1 / mask.shape[-1])
        elif empty == "first":
            a = ag.where(mask.any(-1, keepdims=True), a, np.eye(mask.shape[-1])[0])
        elif empty:
            a = ag.where(mask.any(-1, keepdims=True), a, empty)
    return a if p_bits is None else stored(a, bits=p_bits)


OF_SCORES = ("one_head", "of_bias", "capped")


def attention(
    query,
    key,
    value,
    bias=None,
    *,
    mask=None,
    similarity="scaled_dot",
    softcap=None,
    scale="√d",
    masks="",
    hidden="taken for 0",
    gradient="",
    bits=None,
    **switches,
):
    """O = A V, A = softmax over the allowed keys of Q Kᵀ/√d + bias."""
    divisor = divisor_of(query, key, value, scale if similarity == "scaled_dot" or scale != "√d" else "1")
    if mask is not None:
        mask = np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), (query.shape[-2], key.shape[-2])))
        mask = other_mask(mask, masks)
    if mask is not None and hidden == "taken for 0":
        used = mask.any(-2)[..., None]
        key, value = (ag.where(used | np.isfinite(raw(a)), a, 0.0) for a in (key, value))
    if gradient == "of query unscaled":
        query = through(query, bar=lambda g: g * divisor)
    if gradient == "not through the weights":
        query, key, bias = held(query), held(key), held(bias)
    if gradient == "of key unscaled":
        key = through(key, bar=lambda g: g * divisor)
    own = {k: v for k, v in switches.items() if k in OF_SCORES}
    if own.get("capped") == "last" and mask is not None:
        scores = scores_of(query, key, divisor=divisor, softcap=softcap, bias=bias, bits=bits, **own)
        return product(mixed(ag.where(mask, scores, -softcap), None), value, bits)
    rest = {k: v for k, v in switches.items() if k not in OF_SCORES}
    a = mixed(scores_of(query, key, divisor=divisor, softcap=softcap, bias=bias, bits=bits, **own), mask, **rest)
    return product(a, value, bits)


def causal_attention(query, key, value, *, align="top_left", offset=0, flipped=False, masked=True, **switches):
    """Query i attends to keys j ≤ i, aligned top left."""
    mask = causal(query.shape[-2], key.shape[-2], align=align)
    if offset:
        mask = np.tri(query.shape[-2], key.shape[-2], offset, dtype=bool)
    if flipped:
        mask = ~np.tri(query.shape[-2], key.shape[-2], -1, dtype=bool)
    return attention(query, key, value, mask=mask if masked else None, **switches)


def window_attention(query, key, value, *, before, after, wider=0, swapped=False, masked=True, **switches):
    """Query i attends to keys i − before ≤ j ≤ i + after."""
    if swapped:
        before, after = after, before
    n, m = query.shape[-2], key.shape[-2]
    step = np.arange(m) - np.arange(n)[:, None]
    mask = (-before - wider <= step) & (step <= after + wider)
    return attention(query, key, value, mask=mask if masked else None, **switches)


def attention_scores(query, key, bias=None, *, mask=None, softcap=None, scale="√d", masks="", fill=-np.inf, **switches):
    """S = Q Kᵀ/√d + bias, −∞ where the mask hides."""
    mask = None if mask is None else other_mask(np.asarray(mask), masks)
    divisor = divisor_of(query, key, key, scale)
    scores = scores_of(query, key, divisor=divisor, softcap=softcap, bias=bias, **switches)
    return scores if mask is None else ag.where(mask, scores, fill)


def linear_attention(
    query, key, value, *, key_mask=None, causal=False, features="elu + 1", divided=True, masked=True, corner=0
):
    """O = A′ V/r, A′ = φ(Q) φ(K)ᵀ where it is allowed, r = Σ_m A′_nm, φ(x) = elu(x) + 1."""
    n, m = query.shape[-2], key.shape[-2]
    allowed = np.tri(n, m, corner, dtype=bool) if causal else np.ones((n, m), bool)
    if key_mask is not None and masked:
        allowed = allowed & key_mask[..., None, :]
        key, value = (ag.where(key_mask[..., None], a, 0.0) for a in (key, value))
    q, k = FEATURES[features](query), FEATURES[features](key)
    a = ag.where(allowed, ag.matmul(q, ag.swapaxes(k, -1, -2)), 0.0)
    r = ag.sum(a, -1, keepdims=True)
    y = ag.matmul(a, value)
    return y / ag.where(raw(r).real == 0, 1.0, r) if divided else y


def positive(x):
    """elu(x) + 1, which is eˣ to the left of 0."""
    return ag.where(raw(x).real > 0, x + 1.0, ag.exp(ag.minimum(x, 0.0)))


FEATURES = {
    "elu + 1": positive,
    "relu": lambda x: ag.maximum(x, 0.0),
    "exp": ag.exp,
    "elu": lambda x: positive(x) - 1.0,
}


SCALES: Mistakes = {
    "√d were left out": {"scale": "1"},
    "scores were divided by d, √d twice": {"scale": "d"},
    "scores were multiplied by √d": {"scale": "1/√d"},
    "scores were divided by the root of the number of keys": {"scale": "√M"},
}
HEADS: Mistakes = {
    "scores were divided by the root of the width of all heads": {"scale": "√(H d)"},
    "the first head were not divided by √d": {"one_head": True},
}
ASKED: Mistakes = {"scores were divided by √d, asked for or not": {"scale": "√d, asked for or not"}}
MASKS: Mistakes = {
    "the mask were inverted": {"masks": "inverted"},
    "the mask were left out": {"masks": "left out"},
    "the mask let one key more be seen, the next": {"masks": "one key further"},
    "the mask hid one key more, the last": {"masks": "one key less"},
    "the mask of the first query were that of all": {"masks": "of keys alone"},
    "the mask were applied after the softmax, and weights not divided by their sum again": {"masking": "after"},
    "scores were multiplied by the mask, so that what is hidden has score 0": {"masking": "to 0"},
}
EMPTY: Mistakes = {
    "a query that may attend to nothing had the mean of all values": {"empty": "mean"},
    "a query that may attend to nothing had the first value": {"empty": "first"},
    "a query that may attend to nothing had NaN": {"empty": np.nan},
    "hidden keys and values were multiplied by 0, and NaN or infinity in them came through": {"hidden": "kept"},
}
ADDED: Mistakes = {
    "the mask were added to scores as −1e4": {"masking": -1e4},
    "the mask were added to scores as −1e9": {"masking": -1e9},
    "the mask were added to scores as −100": {"masking": -100.0},
    "the mask were added to scores as −1": {"masking": -1.0},
}
BIASES: Mistakes = {
    "the bias were left out": {"of_bias": "left out"},
    "the bias were divided by √d too": {"of_bias": "scaled"},
    "the bias were subtracted": {"of_bias": "subtracted"},
}
NO_CAP: Mistakes = {"the softcap were left out": {"capped": "no"}}
CAPS: Mistakes = {
    **NO_CAP,
    "the softcap went over the bias too": {"capped": "bias too"},
    "the softcap came after the mask, so that what is hidden has the score −c": {"capped": "last"},
}
GRADIENTS: Mistakes = {
    "the weights were constants in the gradient": {"gradient": "not through the weights"},
    "the sums of exponentials were constants in the gradient": {"constant": True},
    "√d were left out in the gradient of query": {"gradient": "of query unscaled"},
    "√d were left out in the gradient of key": {"gradient": "of key unscaled"},
}
SOFTMAX: Mistakes = {
    "the softmax went over the queries": {"over": -2},
    "1 were added to the sum of exponentials": {"more": 1.0},
}
NO_MAXIMUM: Mistakes = {"the maximum were not subtracted": {"largest": False}}
ROUNDED: Mistakes = {
    "the exponentials were added up in bfloat16": {"sum_bits": 8},
    "products were taken in TF32": {"bits": 11},
    "products were taken of bfloat16": {"bits": 8},
    "the weights were stored in bfloat16": {"p_bits": 8},
    "the weights were stored in float16": {"p_bits": 11},
}
CORNERS: Mistakes = {
    "the mask were aligned at the other corner, bottom right": {"align": "bottom_right"},
    "the causal mask hid the query's own place": {"offset": -1},
    "the causal mask let the next place be seen": {"offset": 1},
    "the causal mask hid the past and not the future": {"flipped": True},
    "the causal mask were left out": {"masked": False},
}
WINDOWS: Mistakes = {
    "the window were left out": {"masked": False},
    "the window were one place wider at both ends": {"wider": 1},
    "the window were one place narrower at both ends": {"wider": -1},
    "the window's two ends were exchanged": {"swapped": True},
}
OF_SCORES_ALONE: Mistakes = {
    **{says: switches for says, switches in MASKS.items() if "masks" in switches},
    "what the mask hides had −1e9, not −∞": {"fill": -1e9},
}
ALL = SCALES | SOFTMAX | GRADIENTS
OF_LINEAR: Mistakes = {
    "weights were not divided by their sum": {"divided": False},
    "the mask were left out": {"masked": False},
    "the causal mask let the next place be seen": {"corner": 1},
    "the causal mask hid the query's own place": {"corner": -1},
    "the features were relu(x)": {"features": "relu"},
    "the features were eˣ": {"features": "exp"},
    "the features were elu(x), without 1": {"features": "elu"},
}
MUTANTS = [
    *family(
        attention,
        ("attention",),
        ALL | HEADS | ASKED | BIASES | MASKS | EMPTY | EPSILON,
        narrow=NO_MAXIMUM | ADDED | ROUNDED,
    ),
    *family(attention, ("softcap_attention",), ALL | BIASES | MASKS | CAPS, narrow=ROUNDED),
    *family(attention, ("softcap_attention_output",), SCALES | SOFTMAX | NO_CAP, narrow=ROUNDED),
    *family(causal_attention, ("causal_attention",), CORNERS | ALL, narrow=ROUNDED),
    *family(window_attention, ("window_attention",), WINDOWS | ALL, narrow=ROUNDED),
    *family(attention_scores, ("attention_scores",), SCALES | BIASES | CAPS | OF_SCORES_ALONE),
    *family(linear_attention, ("linear_attention",), OF_LINEAR),
]
