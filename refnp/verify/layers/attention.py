"""Attention: full, masked, causal, biased."""

import importlib
import math
from dataclasses import replace
from functools import partial

import numpy as np

from refnp import layers
from refnp.autograd.declaration import takes
from refnp.layers.attention import as_read, masked, soft_capped, weights_vjp
from refnp.layers.masks import causal, key_padding, window
from refnp.layers.softmax import softmax_vjp
from refnp.numbers import rounding
from refnp.numbers.rounding import WIDE, constant, either, where
from refnp.verify.case import (
    Case,
    Convention,
    GradientInputs,
    KnownDefect,
    Layer,
    NotOfferedError,
    Without,
    beside,
    exact_gradient,
    gradient_of,
    normal,
)
from refnp.verify.judged_pages import by_tape, of_page
from refnp.verify.layers.softmax import printed_pullback

TOKENS = "query (..., N, d), key (..., M, d), value (..., M, e) → (..., N, e)"
TOKENS_HIDDEN = "boolean to (..., N, M)? hides (key, value), True = may attend"


def in_any_form(weights, weights_bar, output, output_bar):
    """S̄ = A ∘ (Ā − D), D = Σ_j Ā A or Σ_e Ō O, one number on paper (Dao et al. (2022), §B.2); or as in softmax.

    Where one weight is near 1, Ā_L − D cancels; where one key is alone S̄ is 0, and kernels leave of it what rounding
    leaves of two sums in different orders.
    """
    of_rows = lambda: weights * (weights_bar - (output_bar * output).sum(-1, keepdims=True))
    return either(lambda: softmax_vjp(weights, weights_bar), of_rows, lambda: printed_pullback(weights, weights_bar))


def or_printed(p, p_bar):
    """x̄ of softmax, as on its page or as it is printed."""
    return either(lambda: softmax_vjp(p, p_bar), lambda: printed_pullback(p, p_bar))


def softcap_or_printed(scores, softcap):
    """c tanh(s/c) and its slope, 4e/(1 + e)² or as printed, 1 − tanh², which cancels where the tanh is near 1."""
    capped, slope = soft_capped(scores, softcap)
    printed = lambda: 1 - (capped / constant(softcap)) * (capped / constant(softcap))
    return capped, slope if softcap is None else either(lambda: slope, printed)


SLOPE_IN_ANY_FORM = {soft_capped: softcap_or_printed}
IN_ANY_FORM = {weights_vjp: in_any_form} | SLOPE_IN_ANY_FORM
OR_PRINTED = {softmax_vjp: or_printed} | SLOPE_IN_ANY_FORM


def of_similarity(query, key, value, bias=None, *, mask=None, similarity="scaled_dot", softcap=None):
    """refnp's attention, with the options that are judged."""
    return layers.similarity_attention(query, key, value, bias, mask=mask, similarity=similarity, softcap=softcap)


attention = by_tape(of_similarity, IN_ANY_FORM)


def attending(*, no_keys="zero", hidden="unread"):
    """Parts of attention by which other frameworks have other conventions.

    `no_keys` is what a query gets that may attend to no key: the "mean" of all values, or "nan"; or a number, such as
    −1e9, that a mask adds to scores in place of −∞. With `hidden` not "unread" what no query may attend to is
    multiplied by its weight of 0, so that NaN and infinity come through; its score is −∞ if "selected", and NaN where
    −∞ is "added".
    """
    if hidden != "unread":
        own = {masked: added_where_hidden(-np.inf)} if hidden == "added" else {}
        return own | {as_read: lambda x, mask: x}
    if isinstance(no_keys, float):
        return {masked: added_where_hidden(no_keys), as_read: read_by_all}
    if no_keys == "mean":
        return {layers.softmax.page: partial(softmax_of_nothing, to_all=True), as_read: read_by_all}
    return (
        {layers.softmax.page: partial(softmax_of_nothing, to_all=False), masked: selected} if no_keys == "nan" else {}
    )


def added_where_hidden(number):
    """A mask that adds a number to the scores that it hides, whose gradient they have; that of the bias is 0 there."""

    def added(capped, bias, mask):
        shown = True if mask is None else mask
        scores = (capped if bias is None else capped + bias) + np.where(shown, 0, number)
        return scores, lambda bar: (bar, where(shown, bar, 0))

    return added


def selected(capped, bias, mask):
    """A mask that selects −∞; scores that it hides have a gradient, which is 0 unless it is NaN."""
    scores, vjp = masked(capped, bias, mask)
    return scores, lambda bar: (bar, vjp(bar)[1])


def read_by_all(x, mask):
    """Keys or values, which a query that may attend to none reads all."""
    return x if mask is None else as_read(x, np.atleast_2d(mask) | ~np.atleast_2d(mask).any(-1, keepdims=True))


def softmax_of_nothing(x, *, to_all):
    """Softmax, of which a row of −∞ gives equal weights, or NaN."""
    nothing = (x.value == -np.inf).all(-1, keepdims=True)
    p, vjp = layers.softmax.page(x)
    a = where(nothing, constant(1 / WIDE(x.shape[-1])) if to_all else np.nan, p)
    return a, (lambda bar: (softmax_vjp(a, bar),)) if nothing.any() else vjp


def in_window(mask, before, after):
    """The diagonals of a mask from −before to after."""
    return np.triu(np.tril(mask, after), -before)


def own_key(n, m, align):
    """Which key is the first query's own place."""
    return m - n if align == "bottom_right" else 0


def without_window(query, key, value, *, before, after, align="top_left"):
    """Attention to all keys."""
    return attention(query, key, value)


@takes(TOKENS, align="top_left | bottom_right")
def with_causal_mask(query, key, value, *, align="top_left"):
    """Query i attends to keys j ≤ i, or j ≤ i + M − N where the last query attends to all: align="bottom_right"."""
    return layers.attention(query, key, value, mask=causal(query.shape[-2], key.shape[-2], align=align))


@takes(TOKENS, before="whole ≥ 0", after="whole ≥ 0", align="top_left | bottom_right")
def with_window(query, key, value, *, before, after, align="top_left"):
    """Query i attends to keys from i − before to i + after, or all by M − N later: align="bottom_right"."""
    mask = window(query.shape[-2], key.shape[-2], before, after, align=align)
    return layers.attention(query, key, value, mask=mask)


causal_equation, window_equation = by_tape(with_causal_mask, IN_ANY_FORM), by_tape(with_window, IN_ANY_FORM)


def torch_attention(torch, query, key, value, bias=None, *, mask=None, similarity="scaled_dot"):
    """A bias goes in as a float mask; with a mask beside it, −∞ where the mask hides."""
    allowed = None if mask is None else torch.tensor(mask)
    if bias is not None:
        allowed = bias if allowed is None else torch.where(allowed, bias, -math.inf)
    scale = None if similarity == "scaled_dot" else 1.0
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=scale)


def torch_softcapped(torch, query, key, value, *, softcap):
    """flex_attention puts scores through any function; on a CPU it has no gradients."""
    flexible = importlib.import_module("torch.nn.attention.flex_attention").flex_attention
    arrays = [a.reshape((1,) * (4 - a.ndim) + a.shape) for a in (query, key, value)]
    mixed = flexible(*arrays, score_mod=lambda score, *_: softcap * torch.tanh(score / softcap))
    return mixed.reshape(*query.shape[:-1], value.shape[-1])


def jax_attention(
    jax, query, key, value, bias=None, *, mask=None, similarity="scaled_dot", is_causal=False, window=None
):
    """dot_product_attention takes the heads before the features: (..., H, N, d) becomes (B, N, H, d)."""
    if value.shape[-1] != key.shape[-1]:
        raise NotOfferedError("JAX: dot_product_attention wants values as wide as keys")
    if query.ndim > 4 or not query.ndim == key.ndim == value.ndim or query.shape[:-2] != key.shape[:-2]:
        raise NotOfferedError("JAX: dot_product_attention does not broadcast over axes in front")
    arrays = [a.reshape((1,) * (4 - a.ndim) + a.shape).swapaxes(1, 2) for a in (query, key, value)]
    masks = [None if m is None else m.reshape((1,) * (4 - m.ndim) + m.shape) for m in (bias, mask)]
    scale = None if similarity == "scaled_dot" else 1.0
    mixed = jax.nn.dot_product_attention(*arrays, *masks, scale=scale, is_causal=is_causal, local_window_size=window)
    return mixed.swapaxes(1, 2).reshape(*query.shape[:-1], value.shape[-1])


LONG_QUERIES = {"N": (1027, 1, 2, 67, 4)}  # of which the last ones see the last keys; or one fewer than keys
WIDTHS = (20, 0, 1, 70)  # of a window: more than a block of 16, and than all keys
DOTS = {"similarity": ("scaled_dot", "dot"), "longest": ("M",)}
ATTENTION = Layer(
    "attention",
    layers.similarity_attention,
    attention,
    torch=torch_attention,
    jax=jax_attention,
    names=("attention", "similarity_attention"),
    tried=DOTS,
)
CAUSAL = Layer(
    "causal_attention",
    with_causal_mask,
    causal_equation,
    torch=lambda torch, *qkv: torch.nn.functional.scaled_dot_product_attention(*qkv, is_causal=True),
    jax=lambda jax, *qkv: jax_attention(jax, *qkv, is_causal=True),
    names=("attention",),
    tried=LONG_QUERIES,
)

WINDOW = Layer(
    "window_attention",
    with_window,
    window_equation,
    torch=lambda torch, query, key, value, *, before, after: torch_attention(
        torch, query, key, value, mask=in_window(np.ones((query.shape[-2], key.shape[-2]), bool), before, after)
    ),
    jax=lambda jax, *qkv, before, after: jax_attention(jax, *qkv, window=(before, after)),
    names=("attention",),
    tried={"N": (67, 1, 2, 4, 1027), "M": (40, 1, 2, 67, 1027), "before": WIDTHS, "after": WIDTHS},
)
SOFTCAP = Layer("softcap_attention", layers.similarity_attention, attention, names=("attention",), tried=DOTS)
SOFTCAP_OUTPUT = replace(SOFTCAP, name="softcap_attention_output", torch=torch_softcapped)
SCORES = of_page(layers.attention_scores, SLOPE_IN_ANY_FORM)

MASKED_NAN = Convention(
    "PyTorch",
    "NaN behind a mask comes through (pytorch/pytorch#101967)",
    "scaled_dot_product_attention adds −∞ to the scores of masked keys, and multiplies their values by 0: NaN and "
    "infinity stay",
    parts=attending(hidden="added"),
)
JAX_ATTENTION_DOUBLE = KnownDefect(
    "JAX",
    "dot_product_attention: float32 softmax",
    "dot_product_attention takes its softmax in float32, also of float64",
    dtypes=("float64",),
    computed_in="float32",
)
JAX_MASKED_ROW = Convention(
    "JAX",
    "a fully masked row gives the mean of all values",
    "a query that may attend to nothing gets the mean of all values, not 0",
    parts=attending(no_keys="mean"),
)
JAX_MASKED_NAN = Convention(
    "JAX",
    "NaN behind a mask comes through",
    "masked values are multiplied by 0: NaN and infinity stay",
    parts=attending(hidden="selected"),
)
CHECKERED = np.add.outer(np.arange(5), np.arange(6)) % 2 == 0
OF_EACH_HEAD = np.add.outer(np.arange(6).reshape(2, 3), np.add.outer(np.arange(5), np.arange(6) ** 2)) % 3 != 0
ONE_ROW_HIDDEN = np.arange(5)[:, None] != np.zeros(6, int) + 2
LAST_KEY_HIDDEN = np.broadcast_to(np.arange(6) < 5, (5, 6))
IN_FLOAT32 = (JAX_ATTENTION_DOUBLE, *beside(JAX_ATTENTION_DOUBLE, JAX_MASKED_ROW, JAX_MASKED_NAN))  # JAX's float64
MASKED_ROW = (JAX_MASKED_ROW,)


def tensors(*, batch=(), n=5, m=6, d=4, width=None, scale=1.0, shift=0.0) -> dict:
    """Query (…, n, d), key (…, m, d), value (…, m, width)."""
    return {
        "query": normal(*batch, n, d, scale=scale, shift=shift),
        "key": normal(*batch, m, d, scale=scale),
        "value": normal(*batch, m, width or d),
    }


def longer_rows(eps):
    """u = x/√(|x|² + ε)."""

    def rows(x):
        length = rounding.sqrt((x * x).sum(-1, keepdims=True) + constant(eps))
        u = x / length
        return u, lambda g: ((g - u * (u * g).sum(-1, keepdims=True)) / length,)

    return rows


@takes(TOKENS, mask=TOKENS_HIDDEN)
def refnp_cosine(query, key, value, *, mask=None):
    """refnp's attention by angles."""
    return layers.similarity_attention(query, key, value, mask=mask, similarity="cosine")


@takes(TOKENS.replace("key (..., M, d)", "key (..., M, d_k)").replace(" →", ", weight (d, d_k) →"), mask=TOKENS_HIDDEN)
def refnp_general(query, key, value, weight, *, mask=None):
    """refnp's attention by a bilinear form."""
    return layers.similarity_attention(query, key, value, mask=mask, similarity="general", parameters=(weight,))


@takes(
    "query (..., N, d), key (..., M, d_k), value (..., M, e), query_weight (d, a), key_weight (d_k, a), vector (a) "
    "→ (..., N, e)",
    mask=TOKENS_HIDDEN,
)
def refnp_additive(query, key, value, query_weight, key_weight, vector, *, mask=None):
    """refnp's attention by a small network."""
    parameters = query_weight, key_weight, vector
    return layers.similarity_attention(query, key, value, mask=mask, similarity="additive", parameters=parameters)


COSINE, GENERAL, ADDITIVE = (
    Layer(f"{name}_attention", function, equation, names=("similarity_attention",))
    for name, function, equation in (
        ("cosine", refnp_cosine, by_tape(refnp_cosine, IN_ANY_FORM)),
        ("general", refnp_general, by_tape(refnp_general, IN_ANY_FORM)),
        ("additive", refnp_additive, by_tape(refnp_additive, OR_PRINTED)),
    )
)


def similarity_cases() -> list[Case]:
    """Cosine, general and additive similarity: batches, masks, long and short rows, saturated ones."""
    given = tensors(batch=(2,))
    unlike = tensors() | {"key": normal(6, 3)}
    weight = {"weight": normal(4, 3)}
    maps = {"query_weight": normal(4, 5), "key_weight": normal(3, 5), "vector": normal(5)}
    lengths = np.geomspace(1e-3, 1e3, 6)[:, None]
    return [
        Case(COSINE, "ordinary", given),
        Case(COSINE, "mask", given, {"mask": CHECKERED}),
        Case(COSINE, "keys of any length", tensors() | {"key": lambda rng: rng.normal(size=(6, 4)) * lengths}),
        Case(COSINE, "a query of zeros", tensors() | {"query": np.array([[0.0] * 4, [1.0, -2.0, 0.5, 3.0]])}),
        Case(GENERAL, "ordinary", tensors(batch=(2,)) | {"key": normal(2, 6, 3)} | weight),
        Case(GENERAL, "mask", unlike | weight, {"mask": CHECKERED}),
        Case(GENERAL, "large logits", unlike | {"weight": normal(4, 3, scale=20.0)}),
        Case(ADDITIVE, "ordinary", tensors(batch=(2,)) | {"key": normal(2, 6, 3)} | maps),
        Case(ADDITIVE, "mask", unlike | maps, {"mask": CHECKERED}),
        Case(ADDITIVE, "one key", unlike | maps | {"key": normal(1, 3), "value": normal(1, 4)}),
    ]


FEATURES = of_page(layers.positive_features)
LINEAR = of_page(
    layers.linear_attention,
    tried={"structure": ("normal", "equal rows", "a row of zeros", "mean 1000", "tiny")},  # no sum is below 1e-31
)


def linear_cases() -> list[Case]:
    """Linear attention: all keys, some, those up to the query; the features' left tail."""
    tokens = {"query": normal(2, 5, 3), "key": normal(2, 5, 3), "value": normal(2, 5, 4)}
    far = {"query": normal(4, 3, shift=-30.0), "key": normal(6, 3, shift=-30.0), "value": normal(6, 2)}
    return [
        Case(FEATURES, "both sides", {"x": normal(20, scale=10)}),
        Case(LINEAR, "all keys", tokens),
        Case(LINEAR, "causal", tokens, {"causal": True}),
        Case(LINEAR, "some keys", tokens, {"key_mask": np.arange(5) < np.array([[3], [5]])}),
        Case(LINEAR, "small features", far),
    ]


def cases() -> list[Case]:
    """Shapes, masks, and what a mask hides; first the cases that were made to show a defect."""

    def case(variant, inputs, *, also=(), **options):
        return Case(ATTENTION, variant, inputs, options, also + IN_FLOAT32)

    return [
        *linear_cases(),
        *similarity_cases(),
        *(poisoned(name, value) for name in ("key", "value") for value in (np.nan, np.inf)),
        case("saturated rows", tensors(batch=(6,), scale=16.0)),
        case("saturated rows, mask and bias", tensors(scale=16.0) | {"bias": normal(5, 6)}, mask=CHECKERED),
        case("ordinary", tensors()),
        case("batch and heads", tensors(batch=(2, 3))),
        case("values of another width", tensors(width=7)),
        case("one query", tensors(n=1)),
        case("one key", tensors(m=1)),
        case("one feature", tensors(d=1)),
        case("32 keys of 16 features", tensors(n=4, m=32, d=16)),
        case("large logits", tensors(scale=20.0)),
        case("queries with mean 1e4", tensors(shift=1e4)),
        case("no root of d", tensors(), similarity="dot"),
        case("mask", tensors(), mask=CHECKERED),
        case("mask of padding", tensors(batch=(2,)), mask=key_padding(np.array([6, 2]), 6)),
        case("fully masked row", tensors(), mask=ONE_ROW_HIDDEN, also=MASKED_ROW),
        case("everything masked", tensors(), mask=np.zeros((5, 6), bool), also=MASKED_ROW),
        case("causal, square", tensors(m=5), mask=causal(5, 5)),
        case("causal, more keys, bottom right", tensors(), mask=causal(5, 6, align="bottom_right")),
        case(
            "causal, fewer keys, bottom right",
            tensors(n=6, m=4),
            mask=causal(6, 4, align="bottom_right"),
            also=MASKED_ROW,
        ),
        case("bias", tensors() | {"bias": normal(5, 6)}),
        case("bias and mask", tensors() | {"bias": normal(5, 6)}, mask=CHECKERED),
        case("bias and mask, scores near -2e4", tensors() | {"bias": normal(5, 6, shift=-2e4)}, mask=CHECKERED),
        case("bias for each head", tensors(batch=(2, 3)) | {"bias": normal(3, 5, 6)}),
        case("bias and mask for each head", tensors(batch=(2, 3)) | {"bias": normal(2, 3, 5, 6)}, mask=OF_EACH_HEAD),
        Case(SOFTCAP, "ordinary", tensors(scale=4.0), {"softcap": 2.0}),
        Case(
            SOFTCAP, "bias and mask", tensors(scale=4.0) | {"bias": normal(5, 6)}, {"mask": CHECKERED, "softcap": 1.5}
        ),
        Case(SOFTCAP_OUTPUT, "ordinary", tensors(scale=4.0), {"softcap": 2.0}, gradients=()),
        Case(WINDOW, "2 before, 1 after", tensors(), {"before": 2, "after": 1}, IN_FLOAT32),
        Case(WINDOW, "causal, 2 before", tensors(m=5), {"before": 2, "after": 0}, IN_FLOAT32),
        Case(SCORES, "ordinary", scores()),
        Case(SCORES, "softcap, mask and bias", scores() | {"bias": normal(5, 6)}, {"softcap": 1.5, "mask": CHECKERED}),
        Case(CAUSAL, "square", tensors(m=5), known_defects=IN_FLOAT32),
        Case(CAUSAL, "more keys than queries", tensors(n=3, m=7), known_defects=IN_FLOAT32),
        Case(CAUSAL, "more queries than keys", tensors(n=7, m=3), known_defects=IN_FLOAT32),
    ]


def scores() -> dict:
    """Query and key."""
    return {name: draw for name, draw in tensors().items() if name != "value"}


def poisoned(name: str, value: float) -> Case:
    """Attention with a last key that no query may attend to, and a NaN or infinity in it or in its value."""
    draw = tensors()[name]

    def with_poison(rng):
        array = draw(rng)
        array[-1, 1] = value
        return array

    shown = (MASKED_NAN, JAX_MASKED_NAN, *IN_FLOAT32)
    return Case(
        ATTENTION, f"{value} in a masked {name}", tensors() | {name: with_poison}, {"mask": LAST_KEY_HIDDEN}, shown
    )


WITHOUT = (
    Without(
        "equation",
        ("attention_with_weights", "grouped_attention", "column_attention"),
        "attention with its weights beside it, with fewer heads of keys, and on transposed arrays",
    ),
)


def gradient_inputs() -> list[GradientInputs]:
    """Other forms of attention; and weights of which one is nearly 1."""
    rng = np.random.default_rng(0)
    qkv = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 2))
    bias, mask = rng.normal(size=(4, 5)), rng.random((2, 4, 5)) < 0.6
    mask[0, 1] = False  # a query that may attend to nothing
    columns = rng.normal(size=(3, 4)), rng.normal(size=(3, 5)), rng.normal(size=(2, 5))
    with_weights = ("attention_with_weights",)
    tokens = (np.round(rng.normal(0, 4, (n, 4)) * 2) / 2 for n in (3, 4))  # whose products are exact
    saturated = *tokens, rng.normal(size=(4, 2))
    in_blocks = partial(layers.attention, method="blocks")

    def dropped(*arrays, mask):
        return layers.attention(*arrays, mask=mask, dropout=0.4, rng=np.random.default_rng(1))

    return [
        gradient_of("attention, mask, bias and softcap", layers.attention, *qkv, bias, mask=mask, softcap=0.75),
        gradient_of("attention, with weights", layers.attention_with_weights, *qkv, mask=mask, names=with_weights),
        gradient_of("attention, in blocks", layers.attention, *qkv, bias, mask=mask, scale=1, method="blocks"),
        gradient_of("attention, dropout", dropped, *qkv, bias, mask=mask),
        gradient_of("column_attention", layers.column_attention, *columns),
        exact_gradient("attention, saturated", layers.attention, attention, *saturated),
        exact_gradient("attention, saturated, in blocks", in_blocks, attention, *saturated, mask=CHECKERED[:3, :4]),
    ]
