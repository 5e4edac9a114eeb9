"""Layers on sets and on features: attention, set convolutions, normalisation."""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.claims.common import tried
from refnp.claims.row import APPROXIMATE, BROKEN, EXACT, Refinement, Row, Trial
from refnp.layers import masks
from refnp.layers.attention import attention, column_attention
from refnp.layers.group_norm import batch_norm, group_norm
from refnp.layers.layer_norm import layer_norm, rms_norm
from refnp.layers.linear_attention import linear_attention
from refnp.layers.set_convolution import set_convolution
from refnp.layers.similarity import similarity_attention
from refnp.layers.softmax import softmax
from refnp.symmetry import Negate, Permute, Repeat, Rotate, Scale, Select, Translate, equivariant, invariant

# ---- attention


def crossed(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    """m queries, n keys with their values, and who may attend to whom; all to the first."""
    mask = rng.random((m, n)) < 0.7
    mask[:, :1] = True
    query, key, value = (rng.normal(size=shape) for shape in ((m, 3), (n, 3), (n, 2)))
    return {"query": query, "key": key, "value": value, "mask": mask}


def dot_product(query: Array, key: Array, value: Array, mask: Array) -> Any:
    """Attention between two sets."""
    return attention(query, key, value, mask=mask)


def cosine(query: Array, key: Array, value: Array, mask: Array) -> Any:
    """Attention by the cosine of query and key."""
    return similarity_attention(query, key, value, mask=mask, similarity="cosine")


def of_features(query: Array, key: Array, value: Array, mask: Array) -> Any:
    """Linear attention, whose mask says who is there: the first query's."""
    return linear_attention(query, key, value)


def in_columns(query: Array, key: Array, value: Array, mask: Array) -> Any:
    """Attention whose tokens are columns, given and answered as rows."""
    return column_attention(query.T, key.T, value.T).T


SOME = Select({"query": 0, "mask": 0})
KEYS, QUERIES = Permute({"key": 0, "value": 0, "mask": 1}), Permute({"query": 0, "mask": 0})
ORDER, PAIRS = Permute(axis=0), {"n": (2, 4), "m": (1, 3)}
BOTH, TWICE = ("query", "key"), Repeat({"key": 0, "value": 0, "mask": 1}, alike=True)
on_pairs: dict[str, Any] = {"draw": crossed, "sizes": PAIRS}

ATTENTION = tuple(
    Row(subject, symmetry, expected, reason, tried(f, action, out, **on_pairs))
    for subject, f in (
        ("attention", dot_product),
        ("attention by cosine", cosine),
        ("linear attention", of_features),
        ("attention in columns", in_columns),
    )
    for symmetry, action, out, expected, reason in (
        ("keys and values permuted", KEYS, None, EXACT, "a sum over keys"),
        ("queries permuted", QUERIES, ORDER, EXACT, "each query by itself"),
        ("queries left out or repeated", SOME, Select(axis=0), EXACT, "each query by itself"),
        ("every key given k times", TWICE, None, EXACT, "weights are normalised"),
        ("values scaled", Scale("value"), Scale(), EXACT, "linear in the values"),
        ("keys permuted without their values", Permute("key", 0), None, BROKEN, "a value belongs to its key"),
    )
) + tuple(
    Row(subject, symmetry, expected, reason, tried(f, action, **on_pairs))
    for subject, f, symmetry, action, expected, reason in (
        ("attention", dot_product, "all keys translated", Translate("key"), EXACT, "softmax(s + q·t) = softmax(s)"),
        ("attention", dot_product, "all queries translated", Translate("query"), BROKEN, "t·k differs for each key"),
        ("attention", dot_product, "queries and keys translated", Translate(BOTH), BROKEN, "q·k is no distance"),
        ("attention", dot_product, "queries and keys negated", Negate(BOTH), EXACT, "(−q)·(−k) = q·k"),
        ("attention", dot_product, "queries scaled", Scale("query"), BROKEN, "a longer query is sharper"),
        ("attention by cosine", cosine, "queries and keys scaled", Scale(BOTH), EXACT, "a cosine has no length"),
        ("attention by cosine", cosine, "all keys translated", Translate("key"), BROKEN, "a cosine has an origin"),
        ("linear attention", of_features, "all keys translated", Translate("key"), BROKEN, "features have an origin"),
    )
)  # fmt: skip


def sequence(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """n tokens, and others in the place of all but the first two."""
    return {"x": rng.normal(size=(2, 3)), "later": rng.normal(size=(n, 3))}


def causal(x: Array) -> Any:
    """Self-attention under a causal mask."""
    return attention(x, x, x, mask=masks.causal(len(x)))


def first_two(x: Array, later: Array) -> Any:
    """What the first two tokens of a causal sequence see."""
    return causal(np.concatenate([x, later]))[:2]


def last(x: Array, later: Array) -> Any:
    """What the last token of a causal sequence sees."""
    return causal(np.concatenate([later, x]))[-1]


CAUSAL = (
    Row("self-attention, causal mask", "tokens permuted", BROKEN, "a token sees those before it",
        tried(causal, Permute("x", 0), ORDER, draw=lambda rng, n: {"x": rng.normal(size=(n, 3))}, sizes={"n": (2, 4)})),
    Row("self-attention, causal mask", "later tokens translated", EXACT, "the mask hides later tokens",
        tried(first_two, Translate("later"), draw=sequence, sizes={"n": (1, 3)})),
    Row("self-attention, causal mask", "later tokens permuted", EXACT, "the mask hides later tokens",
        tried(first_two, Permute("later", 0), draw=sequence, sizes={"n": (2, 3)})),
    Row("self-attention, causal mask", "earlier tokens permuted", EXACT, "the last token sees a set",
        tried(last, Permute("later", 0), draw=sequence, sizes={"n": (2, 4)})),
)  # fmt: skip


# ---- set convolutions


def points(rng: np.random.Generator, n: int, m: int, d: int = 1) -> dict[str, Any]:
    """n points with values, m targets, and a length scale for each channel and the density."""
    target, x, y = (rng.normal(size=shape) for shape in ((m, d), (n, d), (n, 2)))
    return {"target": target, "x": x, "y": y, "length_scale": rng.uniform(0.3, 1, 3)}


def near(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    """The same within reach of each other, so that no density is small, and with one length scale for all channels."""
    target, x = rng.uniform(-0.5, 0.5, (m, 1)), rng.uniform(-0.5, 0.5, (n, 1))
    return {**points(rng, n, m), "target": target, "x": x, "length_scale": np.full(3, rng.uniform(0.3, 1))}


def set_conv(target: Array, x: Array, y: Array, length_scale: Array) -> Any:
    """Σ_m [1, y_m] k(t − x_m)."""
    return set_convolution(target, x, y, length_scale)


def divided(eps: float) -> Callable[..., Any]:
    """The same, values divided by density + ε."""

    def divided_set_conv(target: Array, x: Array, y: Array, length_scale: Array) -> Any:
        return set_convolution(target, x, y, length_scale, divide=True, eps=eps)[..., 1:]

    return divided_set_conv


SPACE, SETS = ("target", "x"), {"n": (1, 3), "m": (2,)}
POINTS = Permute({"x": 0, "y": 0})
on_points: dict[str, Any] = {"draw": points, "sizes": SETS}
COPIES = Repeat({"x": 0, "y": 0}, alike=True)


def copies_divided() -> Trial:
    """Divided by ρ + ε, copies of all points change what ε adds to ρ: less with a smaller ε."""
    claim = lambda finer: invariant(divided(1 / finer), COPIES)
    return Trial(claim(1e4), near, SETS, refined=Refinement("1/ε", (1e2, 1e3, 1e4), claim), options={"digits": 6})


SET_CONVOLUTION = (
    *(
        Row("set convolution", symmetry, expected, reason, tried(set_conv, action, out, **(on_points | more)))
        for symmetry, action, out, expected, reason, more in (
            ("points permuted", POINTS, None, EXACT, "a sum over points", {"sizes": {"n": (2, 4), "m": (2,)}}),
            ("targets permuted", Permute("target", 0), ORDER, EXACT, "each target by itself", {}),
            ("targets left out or repeated", Select("target", 0), Select(axis=0), EXACT, "each target by itself", {}),
            ("everything translated", Translate(SPACE), None, EXACT, "differences of places alone", {}),
            ("points translated alone", Translate("x"), None, BROKEN, "differences change", {}),
            ("reflection", Negate(SPACE), None, EXACT, "k(−d) = k(d)", {}),
            ("turned and mirrored", Rotate(SPACE, mirror=True), None, EXACT, "distances alone",
             {"sizes": {**SETS, "d": (2,)}}),
            ("places and length scale scaled", Scale((*SPACE, "length_scale"), reach=16), None, EXACT,
             "d/ℓ alone", {}),
            ("places scaled", Scale(SPACE, reach=16), None, BROKEN, "ℓ stays", {}),
            ("every point given k times", COPIES, None, BROKEN, "a sum, not a mean", {}),
        )
    ),
    Row("set convolution divided by its density", "every point given k times", APPROXIMATE, "ρ/(ρ + ε), ε stays",
        copies_divided, rate=0.9),
    Row("set convolution divided by its density", "everything translated", EXACT, "differences of places alone",
        tried(divided(1e-8), Translate(SPACE), **on_points)),
    Row("set convolution divided by its density", "values translated, one length scale", APPROXIMATE,
        "weights add up to ρ/(ρ + ε)", lambda: values_translated(), rate=0.9),
    Row("set convolution divided by its density", "values translated, a length scale for each channel", BROKEN,
        "the density has a scale of its own", tried(divided(1e-8), Translate("y"), Translate(), **on_points)),
    Row("set convolution", "values translated", BROKEN, "weights add up to ρ, not to 1",
        tried(lambda **x: set_conv(**x)[..., 1:], Translate("y"), Translate(), **on_points)),
)  # fmt: skip


def unified(rng: np.random.Generator, n: int, m: int, d: int) -> dict[str, Any]:
    """Points in d dimensions, targets, a length scale, and which of two functions is asked."""
    found = points(rng, n, m, d)
    return {**found, "length_scale": rng.uniform(0.7, 1, 1), "which": np.ones(1)}


def by_distance(factor: float) -> Callable[..., Any]:
    """Attention with scores −|x − x′|²/(factor ℓ²) where `which` is positive, else the normalised set convolution."""

    def either(target: Array, x: Array, y: Array, length_scale: Array, which: Array) -> Any:
        z = set_convolution(target, x, y, length_scale[0])
        scores = -((target[:, None] - x) ** 2).sum(-1) / (factor * length_scale[0] ** 2)
        return np.where(which > 0, attention(0 * target, 0 * x, y, scores), z[..., 1:] / z[..., :1])

    return either


UNIFICATION = tuple(
    Row(f"attention with scores −‖x − x′‖²/{written}ℓ²", "the normalised set convolution in its place", expected,
        reason, tried(by_distance(factor), Negate("which"), draw=unified, sizes={"n": (1, 3), "m": (2,), "d": (1, 2)}))
    for written, factor, expected, reason in (
        ("2", 2, EXACT, "exp(−‖d‖²/2ℓ²) over its sum"),
        ("", 1, BROKEN, "another length scale"),
    )
)  # fmt: skip


def values_translated() -> Trial:
    """Weights that add up to 1 would let a constant pass."""
    claim = lambda finer: equivariant(divided(1 / finer), Translate("y"), Translate())
    refined = Refinement("1/ε", (1e2, 1e3, 1e4), claim)
    return Trial(claim(1e4), near, SETS, refined=refined, options={"digits": 6})


# ---- normalisation


def rows_of(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Two tokens of n features."""
    return {"x": rng.normal(size=(2, n))}


def scaled_norm(norm: Callable[..., Any]) -> Callable[[], Trial]:
    """A normalisation is blind to scale but for ε inside the root."""
    claim = lambda finer: invariant(lambda x: norm(x, eps=1 / finer), Scale("x", reach=4))
    refined = Refinement("1/ε", (1e4, 1e5, 1e6), claim)
    return lambda: Trial(claim(1e5), rows_of, {"n": (3, 5)}, refined=refined, options={"digits": 6})


FEATURES: dict[str, Any] = {"draw": rows_of, "sizes": {"n": (3, 5)}}
SHIFTED = Translate("x", axis=None)

NORMALIZATION = (
    *(
        Row(subject, symmetry, expected, reason, tried(norm, action, out, **FEATURES))
        for subject, norm, symmetry, action, out, expected, reason in (
            ("LayerNorm", layer_norm, "features permuted", Permute("x"), Permute(), EXACT, "moments are sums"),
            ("LayerNorm", layer_norm, "negation", Negate("x"), Negate(), EXACT, "odd"),
            ("LayerNorm", layer_norm, "the same added to all features", SHIFTED, None, EXACT, "the mean is taken off"),
            ("RMSNorm", rms_norm, "features permuted", Permute("x"), Permute(), EXACT, "the mean square is a sum"),
            ("RMSNorm", rms_norm, "negation", Negate("x"), Negate(), EXACT, "odd"),
            ("RMSNorm", rms_norm, "the same added to all features", SHIFTED, None, BROKEN, "no mean is taken off"),
            ("softmax", softmax, "permutation", Permute("x"), Permute(), EXACT, "a sum over all"),
            ("softmax", softmax, "the same added to all", SHIFTED, None, EXACT, "e^t cancels"),
            ("softmax", softmax, "scaling", Scale("x"), None, BROKEN, "a temperature"),
        )
    ),
    Row("LayerNorm", "scaling", APPROXIMATE, "but for ε in √(σ² + ε)", scaled_norm(layer_norm), rate=0.9),
    Row("RMSNorm", "scaling", APPROXIMATE, "but for ε in √(mean x² + ε)", scaled_norm(rms_norm), rate=0.9),
    Row("batch normalisation", "items of the batch permuted", EXACT, "moments are sums over the batch",
        tried(lambda x: batch_norm(x), Permute("x", 0), ORDER, draw=lambda rng, n: {"x": rng.normal(size=(n, 2, 3))},
              sizes={"n": (2, 4)})),
    Row("batch normalisation", "items left out or repeated", BROKEN, "items share their moments",
        tried(lambda x: batch_norm(x), Select("x", 0), Select(axis=0),
              draw=lambda rng, n: {"x": rng.normal(size=(n, 2, 3))}, sizes={"n": (2, 4)})),
    Row("group normalisation", "items left out or repeated", EXACT, "moments of one item",
        tried(lambda x: group_norm(x, groups=2), Select("x", 0), Select(axis=0),
              draw=lambda rng, n: {"x": rng.normal(size=(n, 4, 3))}, sizes={"n": (2, 4)})),
)  # fmt: skip

ROWS = (*ATTENTION, *CAUSAL, *SET_CONVOLUTION, *UNIFICATION, *NORMALIZATION)
