"""Mutants of attention: scale, masks, softmax, heads, and what rounds inside."""

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd import primitive
from refnp.autograd.primitives import raw
from refnp.numbers.words import nonzero
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.mutant import rounded_to, stored
from refnp.verify.edits.traced import lifted
from refnp.verify.layers.attention import with_causal_mask, with_window
from refnp.verify.mutants.softmax import OF_SOFTMAX, SUM
from refnp.verify.mutants.softmax import WORDS as OF_SUMS


@primitive
def product_in(x, y, *, bits):
    """Z = X Y with factors of `bits` bits of mantissa, from float32.   VJP: X̄ = Z̄ Yᵀ and Ȳ = Xᵀ Z̄, likewise."""
    narrow = lambda z: rounded_to(rounded_to(z, 24), bits)
    x, y = narrow(x), narrow(y)

    def vjp(z_bar):
        z_bar = narrow(z_bar)
        return z_bar @ y.swapaxes(-1, -2), x.swapaxes(-1, -2) @ z_bar

    return x @ y, vjp


def in_full(mask, query, key):
    """A mask of every query and every key."""
    return None if mask is None else np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), one_of(query, key)))


def one_of(query, key):
    """The shape of the scores of one head."""
    return query.shape[-2], key.shape[-2]


def next_key(mask):
    """The mask of each key for the next."""
    return None if mask is None else np.concatenate([mask[..., :1], mask[..., :-1]], -1)


def without_last(mask):
    """The mask of the key behind each, and the last is hidden."""
    return None if mask is None else np.concatenate([mask[..., 1:], np.zeros_like(mask[..., :1])], -1)


def of_first_query(mask):
    """The mask of the first query for all."""
    return None if mask is None else np.broadcast_to(mask[..., :1, :], mask.shape)


def heads_of(query):
    """How many heads there are."""
    return query.shape[-3] if query.ndim > 2 else 1


def of_first_head(query):
    """√d for the first head, and 1 for others."""
    heads = np.ones((heads_of(query), 1, 1))
    heads[0] = query.shape[-1] ** 0.5
    return heads[0] if query.ndim == 2 else heads


def where_nothing(weights, mask, what):
    """The weights, and others for a query that may attend to nothing: the "mean", the "first", or a number."""
    if mask is None:
        return weights
    keys = weights.shape[-1]
    other = {"mean": 1 / keys, "first": np.eye(keys)[0]}.get(what, what)
    return ag.where(mask.any(-1, keepdims=True), weights, other)


def of_keys(mask):
    """What is multiplied by a mask; by 1 without one."""
    return 1 if mask is None else mask


WORDS = {
    **OF_SUMS,
    **{of.__name__: of for of in (next_key, without_last, of_first_query, heads_of, of_first_head, of_keys, in_full)},
    **{of.__name__: lifted(of) for of in (product_in, stored, where_nothing)},
    "rounded_to": rounded_to,
    "raw": raw,
    "nonzero": nonzero,
}
SCALE, PRODUCT, MIXED = "1 / root(query.shape[-1])", "query @ key.mT", "drop(weights) @ value"
WEIGHTS, MASKED, CAPPED = "softmax.page(scores)", "masked(capped, bias, mask)", "soft_capped(_s, softcap)"
SHOWN = "np.where(shown, _s, -np.inf)"


def weights_as(form: str) -> tuple[str, str]:
    """Other weights than A."""
    return WEIGHTS, f"({form.replace('_A', WEIGHTS + '[0]')}, None)"


SCALES: Named = {
    "√d were left out": (SCALE, "1"),
    "scores were divided by d, √d twice": (SCALE, "1 / constant(query.shape[-1])"),
    "scores were multiplied by √d": (SCALE, "root(query.shape[-1])"),
    "scores were divided by the root of the number of keys": (SCALE, "1 / root(key.shape[-2])"),
}
HEADS: Named = {
    "scores were divided by the root of the width of all heads": (
        SCALE,
        "1 / root(query.shape[-1] * heads_of(query))",
    ),
    "the first head were not divided by √d": (f"scale * ({PRODUCT})", f"of_first_head(query) * (scale * ({PRODUCT}))"),
}
ASKED: Named = {"scores were divided by √d, asked for or not": ("constant(scale)", SCALE)}
MASKS: Named = {
    "the mask were inverted": ("mask =", "None if mask is None else ~mask"),
    "the mask were left out": ("mask =", "None if mask is None else np.ones_like(mask)"),
    "the mask let one key more be seen, the next": ("mask =", "next_key(in_full(mask, query, key))"),
    "the mask hid one key more, the last": ("mask =", "without_last(in_full(mask, query, key))"),
    "the mask of the first query were that of all": ("mask =", "of_first_query(in_full(mask, query, key))"),
}
UNREAD = "np.where(read, x, 0)", "np.where(read | np.isfinite(x.real), x, 0)"  # values that no query may see are read
AFTER: Named = {
    "the mask were applied after the softmax, and weights not divided by their sum again": [
        weights_as("_A * of_keys(mask)"),
        (MASKED, "masked(capped, bias, None)"),
    ],
    "scores were multiplied by the mask, so that what is hidden has score 0": [UNREAD, (SHOWN, "_s * shown")],
}
WITH_WEIGHTS: Named = {
    f"a query that may attend to nothing had {says}": [UNREAD, weights_as(f"where_nothing(_A, mask, {what})")]
    for says, what in {"the mean of all values": "'mean'", "the first value": "'first'", "NaN": "np.nan"}.items()
}
EMPTY: Named = {
    **WITH_WEIGHTS,
    "hidden keys and values were multiplied by 0, and NaN or infinity in them came through": [
        ("value =", "value"),
        ("as_read(value, mask)", "value"),
        ("as_read(key, mask)", "key"),
    ],
}
ADDED: Named = {
    f"the mask were added to scores as −{n}": [UNREAD, (SHOWN, f"np.where(shown, _s, _s - {n})")]
    for n in ("1e4", "1e9", "100", "1")
}
BIASES: Named = {
    "the bias were left out": ("capped if bias is None else capped + bias", "capped"),
    "the bias were divided by √d too": (MASKED, "masked(capped, None if bias is None else scale * bias, mask)"),
    "the bias were subtracted": ("capped + bias", "capped - bias"),
}
NO_CAP: Named = {"the softcap were left out": (CAPPED, "(_s, 1)")}
OVER_BIAS = CAPPED, "soft_capped(_s if bias is None else _s + bias, softcap)"
CAPS: Named = {
    **NO_CAP,
    "the softcap went over the bias too": [OVER_BIAS, (MASKED, "masked(capped, None, mask)")],
    "the softcap came after the mask, so that what is hidden has the score −c": [
        UNREAD,
        OVER_BIAS,
        (MASKED, "(capped if mask is None else np.where(mask, capped, -softcap), None)"),
    ],
}
SOFTMAX: Named = {
    "the softmax went over the queries": (WEIGHTS, "(softmax.page(scores.mT)[0].mT, None)"),
    "1 were added to the sum of exponentials": OF_SOFTMAX["1 were added to the sum of exponentials"],
}
GRADIENTS: Named = {
    "the weights were constants in the gradient": weights_as("held(_A)"),
    "the sums of exponentials were constants in the gradient": (SUM, f"held({SUM})"),
}
OF_VJP: Named = {
    "√d were left out in the gradient of query": ("products_bar @ key", "scaled_bar @ key"),
    "√d were left out in the gradient of key": ("products_bar.mT @ query", "scaled_bar.mT @ query"),
}
NO_MAXIMUM: Named = {"the maximum were not subtracted": ("x - peak(x)", "x")}


def products_of(bits: int) -> list[tuple[str, str]]:
    """Both products with factors of fewer bits."""
    return [
        (PRODUCT, f"product_in(query, key.mT, bits={bits})"),
        (MIXED, f"product_in(drop(weights), value, bits={bits})"),
    ]


ROUNDED: Named = {
    "the exponentials were added up in bfloat16": (SUM, "summed_in(e, -1, bits=8)"),
    "products were taken in TF32": products_of(11),
    "products were taken of bfloat16": products_of(8),
    "the weights were stored in bfloat16": weights_as("stored(_A, bits=8)"),
    "the weights were stored in float16": weights_as("stored(_A, bits=11)"),
}
EPSILON: Named = {
    says: OF_SOFTMAX[says] for says in OF_SOFTMAX if says.startswith(("1e-8 were added", "1e-12 were added"))
}
TRI = "np.tri(query.shape[-2], key.shape[-2], {}, dtype=bool)"
CORNER = "causal(query.shape[-2], key.shape[-2], align=align)"
CORNERS: Named = {
    "the mask were aligned at the other corner, bottom right": ("align =", "'bottom_right'"),
    "the causal mask hid the query's own place": (CORNER, TRI.format(-1)),
    "the causal mask let the next place be seen": (CORNER, TRI.format(1)),
    "the causal mask hid the past and not the future": (CORNER, f"~{TRI.format(-1)}"),
    "the causal mask were left out": (CORNER, "None"),
}
WINDOW = "window(_n, _m, before, after, align=align)"
WINDOWS: Named = {
    "the window were left out": (WINDOW, "None"),
    "the window were one place wider at both ends": (WINDOW, "window(_n, _m, before + 1, after + 1, align=align)"),
    "the window were one place narrower at both ends": (
        WINDOW,
        "in_window(_n, _m, before - 1, after - 1)",
    ),
    "the window's two ends were exchanged": (WINDOW, "window(_n, _m, after, before, align=align)"),
}


def in_window(n, m, before, after):
    """The keys from i − before to i + after of query i, also for fewer than none."""
    step = np.arange(m) - np.arange(n)[:, None]
    return (-before <= step) & (step <= after)


FILL: Named = {"what the mask hides had −1e9, not −∞": (SHOWN, "np.where(shown, _s, -1e9)")}
ALL = SCALES | SOFTMAX | GRADIENTS
PAGES = (layers.attention,)
BELOW_0 = "np.where(x > 0, x + 1, e)"
CAUSAL_SUMS = "np.cumsum(k[..., :, None] * values[..., None, :], -3)"
LINEAR: Named = {
    "weights were not divided by their sum": ("np.where(nothing, 0, above) / r", "above"),
    "the mask were left out": ("key_mask =", "None"),
    "the causal mask let the next place be seen": (
        CAUSAL_SUMS,
        f"np.take({CAUSAL_SUMS}, np.minimum(np.arange(k.shape[-2]) + 1, k.shape[-2] - 1), -3)",
    ),
    "the causal mask hid the query's own place": (
        CAUSAL_SUMS,
        f"{CAUSAL_SUMS} - k[..., :, None] * values[..., None, :]",
    ),
    "the features were relu(x)": (BELOW_0, "np.where(x > 0, x, 0)"),
    "the features were eˣ": (BELOW_0, "np.exp(x)"),
    "the features were elu(x), without 1": (BELOW_0, "np.where(x > 0, x, e - 1)"),
}
MUTANTS = [
    *named_edits(
        layers.similarity_attention,
        ("attention",),
        ALL | HEADS | ASKED | BIASES | MASKS | AFTER | EMPTY | EPSILON,
        of_vjp=OF_VJP,
        narrow=NO_MAXIMUM | ADDED | ROUNDED,
        words=WORDS,
        pages=PAGES,
    ),
    *named_edits(
        layers.similarity_attention,
        ("softcap_attention",),
        ALL | BIASES | MASKS | AFTER | CAPS,
        of_vjp=OF_VJP,
        narrow=ROUNDED,
        words=WORDS,
        pages=PAGES,
    ),
    *named_edits(
        layers.similarity_attention,
        ("softcap_attention_output",),
        SCALES | SOFTMAX | NO_CAP,
        narrow=ROUNDED,
        words=WORDS,
        pages=PAGES,
    ),
    *named_edits(
        with_causal_mask,
        ("causal_attention",),
        CORNERS | ALL,
        of_vjp=OF_VJP,
        narrow=ROUNDED,
        words=WORDS,
        pages=PAGES,
    ),
    *named_edits(
        with_window,
        ("window_attention",),
        WINDOWS | ALL,
        of_vjp=OF_VJP,
        narrow=ROUNDED,
        words=WORDS | {"in_window": in_window},
        pages=PAGES,
    ),
    *named_edits(
        layers.attention_scores,
        ("attention_scores",),
        SCALES | BIASES | CAPS | MASKS | FILL,
        words=WORDS,
    ),
    *named_edits(layers.linear_attention, ("linear_attention",), LINEAR),
]
