"""Positions: absolute ones, and attention with vectors, numbers and rotations that belong to pairs of places."""

import functools
from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp import layers
from refnp.autograd.declaration import takes
from refnp.layers.masks import causal
from refnp.layers.positions import absolute, relative, rotary
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.images import ImagePositions, image_places
from refnp.layers.positions.relative import Shaw
from refnp.layers.positions.rotary import Rotary
from refnp.numbers.indexed.proving import drawing
from refnp.numbers.words import arange
from refnp.verify.case import Case, GradientInputs, Layer, Without, gradient_of, module_gradient, normal
from refnp.verify.judged_pages import by_tape, of_tape, worst_of
from refnp.verify.layers.attention import IN_ANY_FORM, tensors
from refnp.verify.layers.attention_forms import OR_PRINTED
from refnp.verify.layers.multi_head import bound


def gathered(query, key, value, *tables, buckets, mask=None):
    """Shaw's attention and iRPE's as most write it: every pair takes its vectors, and then they are multiplied.

        S_ij = (q_i·k_j + q_i·a_ij)/√d        A = softmax of S over the allowed keys        O_i = Σ_j A_ij (v_j + a'_ij)

    Shapes: query (..., N, d), key and value (..., M, d), tables (L, d), buckets and mask (N, M). There are as many
    tables as buckets, or twice as many: then those for values come after those for keys.
    refnp multiplies by the rows of a table first. A row of a table adds up here what all pairs bring, in any order.
    """
    vectors = [ad.take(table, b) for table, b in zip(tables, [*buckets, *buckets], strict=False)]  # each (N, M, d)
    of_keys, of_values = vectors[: len(buckets)], vectors[len(buckets) :]
    bias = sum(ad.einsum("...nd,nmd->...nm", query, a) for a in of_keys) * relative.one_over_root(query)
    if not of_values:
        return layers.attention(query, key, value, bias, mask=mask)
    output, weights = layers.attention_with_weights(query, key, value, bias, mask=mask)
    return output + sum(ad.einsum("...nm,nmd->...nd", weights, a) for a in of_values)


def gathered_shaw(query, key, value, *tables, distance, mask=None):
    """`gathered`, the rows clip(j − i, −k, k) + k of two tables."""
    buckets = np.clip(offsets(query, key), -distance, distance) + distance
    return gathered(query, key, value, *tables, buckets=[buckets], mask=mask)


def gathered_image(query, key, value, *tables, rows, columns, mode="contextual", method="product"):
    """`gathered`, by the buckets of places on a grid; of biases, which are taken in one way only, refnp's."""
    if mode == "bias":
        return refnp_image(query, key, value, *tables, rows=rows, columns=columns, mode=mode, method=method)
    scheme = ImagePositions(query.shape[-1], mode=mode, method=method, rng=np.random.default_rng(0))
    return gathered(query, key, value, *tables, buckets=scheme.buckets(*[image_places(rows, columns)] * 2))


@takes("x (..., N, D) → (..., N, D)")
def refnp_sinusoidal(x, *, base=10000):
    """y_n = x_n + P(n)."""
    return bound(absolute.SinusoidalPositions(base=base), ())(x)


@takes("x (..., N, D), weight (V, D) → (..., N, D)", places="whole < V (N)")
def refnp_learned(x, weight, *, places):
    """y_n = x_n + W[p_n]."""
    scheme = absolute.LearnedPositions(*weight.shape, rng=drawing(*weight.shape))
    return bound(scheme, (weight,))(x, places)


def offsets(query, key):
    """m − n for query n and key m."""
    return np.arange(key.shape[-2]) - np.arange(query.shape[-2])[:, None]


def t5_buckets(query, key, bidirectional=True):
    """The columns of T5's table for all pairs, (N, M), from arrays of any framework."""
    return T5_BUCKETS[bidirectional][np.clip(offsets(query, key), -7, 7) + 7]


T5_BUCKETS = {  # of offsets −7 … 7; the distances 0, 1, …, half of the buckets have one of their own, then logarithmic
    True: np.array([3, 3, 3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7, 7, 7]),
    False: np.array([7, 7, 6, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
}


def with_scheme(scheme, query, key, value, *tables, mask=None, places=None, similarity="scaled_dot"):
    """refnp's attention in heads, with a scheme of positions and the tables that it reads."""
    scheme = bound(scheme, tables)
    at = [arange(x.shape[-2]) if places is None else places for x in (query, key)]
    query, key = (scheme.rotated(x, p) for x, p in zip((query, key), at, strict=True))
    attend = functools.partial(
        layers.similarity_attention, query, key, value, scheme.scores(query, *at), mask=mask, similarity=similarity
    )
    if not scheme.adds_values:
        return attend()
    output, weights = attend(return_weights=True)
    return output + scheme.values(weights, *at)


IN_HEADS = "query (..., H, N, d), key (..., H, M, d), value (..., H, M, e) → (..., H, N, e)"
OF_HEADS = "boolean to (..., H, N, M)? hides (key, value)"


@takes(IN_HEADS.replace("d)", "2·h)"), mask=OF_HEADS, layout="interleaved | half")
def refnp_rotary(query, key, value, *, mask=None, layout="interleaved"):
    """refnp's attention of queries and keys that are rotated, each by the angles of its place 0, 1, …"""
    return with_scheme(Rotary(layout=layout), query, key, value, mask=mask)


@takes(IN_HEADS, mask=OF_HEADS)
def refnp_alibi(query, key, value, *, mask=None):
    """refnp's attention with the bias −s_h |m − n|, s_h = 2^(−8h/H) if H is a power of two; if it is none, the slopes
    of the largest power of two below H, then every other one of twice that power.
    """
    return with_scheme(ALiBi(query.shape[-3]), query, key, value, mask=mask)


def refnp_shaw(query, key, value, *tables, distance, mask=None):
    """refnp's attention with Shaw's vectors, tables of keys and perhaps of values."""
    scheme = Shaw(query.shape[-1], distance, values=len(tables) > 1, rng=drawing(query.shape[-1]))
    return with_scheme(scheme, query, key, value, *tables, mask=mask)


@takes(IN_HEADS.replace(" →", ", table (H, L) →"), mask=OF_HEADS, bidirectional="True or False")
def refnp_t5(query, key, value, table, *, bidirectional=True, mask=None):
    """refnp's attention with T5's biases, distances up to 6."""
    options = {"buckets": table.shape[1], "max_distance": 6, "bidirectional": bidirectional}
    scheme = T5Bias(table.shape[0], **options, rng=drawing(*table.shape))
    return with_scheme(scheme, query, key, value, table, mask=mask, similarity="dot")


def refnp_image(query, key, value, *tables, rows, columns, mode="contextual", method="product"):
    """refnp's attention with iRPE, tables of keys and perhaps of values."""
    options = {"mode": mode, "method": method, "rng": np.random.default_rng(0)}
    places = image_places(rows, columns)
    if mode == "bias":
        scheme = ImagePositions(heads=len(tables[0]), **options)
    else:
        scheme = ImagePositions(query.shape[-1], values=len(tables) > (2 if method == "cross" else 1), **options)
    return with_scheme(scheme, query, key, value, *tables, places=places)


def torch_learned(torch, x, weight, *, places):
    """A table is added."""
    return x + weight[torch.tensor(places)]


IN_PAIRS = "query (..., H, N, K·2), key (..., H, M, K·2), value (..., H, M, e)"
WITH_NUMBERS = "query (..., H, N, d), key (..., H, M, d), value (..., H, M, e), table (H, L)"
attending = functools.partial(by_tape, parts=IN_ANY_FORM | OR_PRINTED)
SINUSOIDAL = of_tape(
    refnp_sinusoidal,
    name="sinusoidal_positions",
    names=("sinusoidal", "SinusoidalPositions"),
    shapes={"usual": "x (..., N, K·2)"},
)
LEARNED = of_tape(
    refnp_learned,
    name="learned_positions",
    torch=torch_learned,
    jax=lambda jax, x, weight, *, places: x + weight[np.asarray(places)],
    names=("LearnedPositions",),
    shapes={"usual": "x (..., N, D), weight (V, D); places whole < V (N)"},
)
ROTATE = of_tape(
    rotary.rotate,
    shapes={
        "usual": "x (..., N, K·2); places whole < P (N)",
        "layout=half": "x (..., N, 2·K); places whole < P (N), layout = 'half'",
    },
    tried={  # places, and more than one frequency
        "places": (True, "(B, N)"),
        "sines": (),
        "cosines": (),
        "D": (6, 2, 4, 68, 1028),
        "features": (None, 4, 2),
    },
)
ROTARY = Layer(
    "rotary_attention",
    refnp_rotary,
    attending(refnp_rotary),
    names=("Rotary",),
    shapes={
        "usual": IN_PAIRS,
        "with mask": f"{IN_PAIRS}; mask boolean (N, M)",
        "layout=half": f"{IN_PAIRS.replace('K·2', '2·K')}; layout = 'half'",
    },
)
OF_OFFSETS = "query (..., H, N, d), key (..., H, M, d), value (..., H, M, d), key_table (2·k + 1, d)"
SHAW = Layer(
    "shaw_attention",
    refnp_shaw,
    worst_of(attending(refnp_shaw), attending(gathered_shaw)),
    names=("Shaw",),
    shapes={
        "of keys": f"{OF_OFFSETS}; distance = k",
        "usual": f"{OF_OFFSETS}, value_table (2·k + 1, d); distance = k",
        "with mask": f"{OF_OFFSETS}, value_table (2·k + 1, d); distance = k, mask boolean (N, M)",
    },
)
T5 = Layer(
    "t5_attention",
    refnp_t5,
    attending(refnp_t5),
    names=("T5Bias",),
    tried={"L": (8, 4, 6, 10)},
    shapes={
        "usual": f"{WITH_NUMBERS}",
        "with mask": f"{WITH_NUMBERS}; mask boolean (N, M)",
        "one direction": f"{WITH_NUMBERS}; bidirectional = False",
    },
)
ALIBI = Layer("alibi_attention", refnp_alibi, attending(refnp_alibi), names=("ALiBi",))
IMAGE = Layer(
    "image_attention",
    refnp_image,
    worst_of(attending(refnp_image), attending(gathered_image)),
    names=("ImagePositions",),
)


def cases() -> list[Case]:
    """Absolute positions, rotations, and attention with every scheme."""
    heads = tensors(batch=(2, 2), n=5, m=5)
    of_keys, of_both = {"key_table": normal(5, 4)}, {"key_table": normal(5, 4), "value_table": normal(5, 4)}
    hidden, numbers = {"mask": causal(5)}, {"table": normal(2, 8)}
    pixels = tensors(batch=(2, 2), n=6, m=6, d=3)
    grid: dict[str, Any] = {"rows": 2, "columns": 3}
    each = {name: normal(7, 3) for name in ("rows_table", "columns_table")}
    return [
        Case(SINUSOIDAL, "ordinary", {"x": normal(2, 6, 8)}),
        Case(SINUSOIDAL, "odd features", {"x": normal(5, 7)}),
        Case(SINUSOIDAL, "base 100", {"x": normal(9, 4)}, {"base": 100}),
        Case(LEARNED, "ordinary", {"x": normal(2, 4, 3), "weight": normal(6, 3)}, {"places": (0, 1, 2, 3)}),
        Case(LEARNED, "places twice", {"x": normal(4, 3), "weight": normal(6, 3)}, {"places": (5, 0, 5, 5)}),
        Case(ROTATE, "interleaved", {"x": normal(2, 4, 6)}, {"places": (0, 1, 2, 3)}),
        Case(ROTATE, "half", {"x": normal(2, 4, 6)}, {"places": (0, 1, 2, 3), "layout": "half"}),
        Case(ROTATE, "some features", {"x": normal(4, 6)}, {"places": (3, 0, 7, 1), "features": 4}),
        Case(ROTATE, "far places", {"x": normal(3, 8)}, {"places": (99_999, 1_000_000, 123_456_789)}),
        Case(ROTATE, "base 500000", {"x": normal(5, 8)}, {"places": (0, 10, 100, 1000, 8191), "base": 500_000}),
        Case(ROTARY, "ordinary", heads),
        Case(ROTARY, "causal, half", heads, {**hidden, "layout": "half"}),
        Case(ROTARY, "more keys", tensors(batch=(2,), n=3, m=7)),
        Case(SHAW, "keys", heads | of_keys, {"distance": 2}),
        Case(SHAW, "keys and values", heads | of_both, {"distance": 2}),
        Case(SHAW, "causal", heads | of_both, {"distance": 2, **hidden}),
        Case(SHAW, "distance 0", heads | {"key_table": normal(1, 4), "value_table": normal(1, 4)}, {"distance": 0}),
        Case(T5, "both directions", heads | numbers),
        Case(T5, "causal", heads | numbers, {"bidirectional": False, **hidden}),
        Case(ALIBI, "two heads", heads),
        Case(ALIBI, "eight heads, causal", tensors(batch=(8,), n=5, m=5, d=2), hidden),
        Case(IMAGE, "product", pixels | {"table": normal(49, 3)}, grid),
        Case(IMAGE, "product, values", pixels | {"table": normal(49, 3), "value_table": normal(49, 3)}, grid),
        Case(IMAGE, "cross", pixels | each, grid | {"method": "cross"}),
        Case(IMAGE, "euclidean", pixels | {"table": normal(4, 3)}, grid | {"method": "euclidean"}),
        Case(
            IMAGE, "quantised, biases", pixels | {"table": normal(2, 4)}, grid | {"method": "quantised", "mode": "bias"}
        ),
    ]


WITHOUT = (
    Without("equation", ("RelativePositions", "image_places"), "the base class of the schemes, and their integers"),
    Without("gradient inputs", ("RelativePositions", "image_places"), "the base class of the schemes, and integers"),
)


def gradient_inputs() -> list[GradientInputs]:
    """Reading and adding up by pairs, rotations, and every scheme, alone and inside multi-head attention."""
    rng = np.random.default_rng(0)
    return _absolute(rng) + _pairs(rng) + _schemes(rng) + _in_heads(rng)


def _absolute(rng):
    x, learned = rng.normal(size=(2, 3, 5)), absolute.LearnedPositions(4, 5, rng=rng)
    return [
        gradient_of("SinusoidalPositions", absolute.SinusoidalPositions(), x),
        module_gradient("LearnedPositions", learned, x),
    ]


def _pairs(rng):
    x, y, buckets = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 5)), rng.integers(0, 4, (3, 5))
    tables = np.cos(np.arange(12.0)).reshape(2, 3, 2)
    return [
        gradient_of("read_buckets", relative.read_buckets, x, buckets=buckets),
        gradient_of("sum_buckets", relative.sum_buckets, y, buckets=buckets, count=4),
        gradient_of("read_diagonals", relative.read_diagonals, x, shift=1, keys=5),
        gradient_of("sum_diagonals", relative.sum_diagonals, y, shift=1, count=4),
        gradient_of("rotate, places for each sequence", rotary.rotate, x, places=[[4, 7, 1], [0, 2, 5]]),
        gradient_of("rotate, given tables", rotary.rotate, x, sines=tables[0], cosines=tables[1]),
    ]


def _schemes(rng):
    """What schemes add, of a query and of weights in two heads, where ways part that attention does not take."""
    query, weights = rng.normal(size=(2, 3, 2)), rng.random(size=(2, 3, 4))
    scattered, line, grid = np.array([3, 0, 7]), np.arange(4), image_places(1, 3, leading=1)
    shaw, t5 = Shaw(2, 2, rng=rng), T5Bias(2, buckets=8, max_distance=6, rng=rng)
    cross = ImagePositions(2, method="cross", leading=1, values=True, rng=rng)
    bias = ImagePositions(mode="bias", method="euclidean", heads=2, leading=1, rng=rng)

    def scores(name, scheme, *places):
        function = lambda query, state: scheme.bind(state).scores(query, *places)
        return gradient_of(name, function, query, scheme.state_dict())

    def values(name, scheme, *places):
        function = lambda weights, state: scheme.bind(state).values(weights, *places)
        return gradient_of(name, function, weights, scheme.state_dict())

    return [
        scores("Shaw.scores", shaw, np.arange(5, 8), line),
        scores("Shaw.scores, scattered", shaw, scattered, line),
        values("Shaw.values", shaw, np.arange(5, 8), line),
        values("Shaw.values, scattered", shaw, scattered, line),
        scores("T5Bias.scores", t5, np.arange(5, 8), line),
        scores("T5Bias.scores, scattered", t5, scattered, line),
        scores("ImagePositions.scores, cross", cross, grid[:3], grid),
        scores("ImagePositions.scores, bias", bias, grid[:3], grid),
        values("ImagePositions.values, cross", cross, grid[:3], grid),
    ]


def _in_heads(rng):
    x, grid = rng.normal(size=(4, 4)), image_places(2, 2)
    schemes: dict[str, tuple[relative.RelativePositions, np.ndarray | None]] = {
        "Shaw": (Shaw(2, 2, rng=rng), None),
        "T5": (T5Bias(2, buckets=8, max_distance=6, bidirectional=False, rng=rng), None),
        "ALiBi": (ALiBi(2), None),
        "RoPE": (Rotary(), None),
        "iRPE, product": (ImagePositions(2, values=True, rng=rng), grid),
        "iRPE, quantised": (ImagePositions(mode="bias", method="quantised", rng=rng), grid),
    }

    def within(name, scheme, places):
        module = layers.MultiHeadAttention(4, 2, positions=scheme, rng=rng)
        options = {"mask": layers.masks.causal(4), "query_places": places, "key_places": places}
        names = type(scheme).__name__, "MultiHeadAttention"
        return module_gradient(f"MultiHeadAttention, {name}", module, x, names=names, **options)

    return [within(name, *scheme) for name, scheme in schemes.items()]
