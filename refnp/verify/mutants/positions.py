"""Mutants of positions: rotations, sinusoids, distances, and other similarities of attention."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.layers.positions.absolute import sinusoids
from refnp.layers.positions.biases import alibi_slopes, t5_buckets
from refnp.layers.positions.images import ImagePositions, image_places
from refnp.layers.positions.rotary import rotate as right_rotation
from refnp.verify.mutants.attention import attention, mixed
from refnp.verify.mutants.linear import rows
from refnp.verify.mutants.mutant import Mistakes, family


def rotate(
    x,
    *,
    places,
    layout="interleaved",
    base=10000,
    features=None,
    other_layout=False,
    turned="forward",
    own_base=None,
    first=0,
    frequencies="2k/d",
    all_features=False,
):
    """(a, b) at place p → (a cos pω_k − b sin pω_k, a sin pω_k + b cos pω_k), ω_k = base^(−2k/d)."""
    layout = {"interleaved": "half", "half": "interleaved"}[layout] if other_layout else layout
    features = None if all_features else features
    base = base if own_base is None else own_base
    places = np.asarray(places) + first
    if turned == "forward" and frequencies == "2k/d":
        return right_rotation(x, places=places, layout=layout, base=base, features=features)
    d = features or x.shape[-1]
    base = {"2k/d": base, "k/d": math.sqrt(base), "of all features": base ** (d / x.shape[-1])}[frequencies]
    sines, cosines = sinusoids(places, d, base=base, dtype=x.dtype)
    sines = {"forward": sines, "back": -sines, "sines and cosines exchanged": cosines}[turned]
    cosines = sinusoids(places, d, base=base, dtype=x.dtype)[0] if turned.startswith("sines") else cosines
    return right_rotation(x, sines=sines, cosines=cosines, layout=layout, features=features)


def rotary_attention(
    query, key, value, *, mask=None, layout="interleaved", only="", key_places="own", of_rotation=None
):
    """Attention of queries and keys that are rotated, each by the angles of its place."""
    turn = lambda x, first=0, **own: rotate(
        x, places=np.arange(x.shape[-2]) + first, layout=layout, **{**(of_rotation or {}), **own}
    )
    n, m = query.shape[-2], key.shape[-2]
    query = query if only == "keys" else turn(query, m - n if key_places == "at the end" else 0)
    key = key if only == "queries" else turn(key, **({"turned": "back"} if only == "keys back" else {}))
    value = turn(value) if only == "values too" else value
    return layers.attention(query, key, value, mask=mask)


def sinusoidal_positions(x, *, base=10000, first=0, joined="", own_base=None, frequencies="2k/d", scaled=False):
    """x_n + P(n), P(n, 2k) = sin n ω_k, P(n, 2k + 1) = cos n ω_k."""
    base, d = base if own_base is None else own_base, x.shape[-1]
    base = {"2k/d": base, "k/d": math.sqrt(base), "2k/(d − 2)": base ** (d / (d - 2))}[frequencies]
    sines, cosines = sinusoids(np.arange(x.shape[-2]) + first, d, base=base, dtype=x.dtype)
    pairs = [sines, cosines] if joined != "cosines first" else [cosines, sines]
    table = np.concatenate(pairs, -1) if joined == "halves" else np.stack(pairs, -1).reshape(len(sines), -1)
    return (x * math.sqrt(d) if scaled else x) + table[:, :d]


def learned_positions(x, weight, *, places, in_order=False, lost=False):
    """x_n + W[p_n]."""
    places = np.arange(len(places)) if in_order else np.asarray(places)
    return x + (layers.embedding(places, weight) if not lost else rows(weight, tokens=places))


def alibi_attention(query, key, value, *, mask=None, sign=-1.0, slope="", scaled=True):
    """Attention with the bias −2^(−8h/H) |m − n|."""
    heads, offsets = query.shape[-3], np.arange(key.shape[-2]) - np.arange(query.shape[-2])[:, None]
    slopes = {
        "": alibi_slopes(heads),
        "one for all": np.full(heads, 2.0 ** (-8 / heads)),
        "from h = 0": 2.0 ** (-8 * np.arange(heads) / heads),
        "the other way round": alibi_slopes(heads)[::-1],
    }[slope][:, None, None]
    distances = offsets if sign == "signed" else np.abs(offsets)
    bias = (1.0 if sign == "signed" else sign) * slopes * distances
    bias = bias if scaled else bias / math.sqrt(query.shape[-1])
    return layers.attention(query, key, value, np.broadcast_to(bias, bias.shape).astype(query.dtype), mask=mask)


def offsets_of(query, key, *, sign=1):
    """m − n for query n and key m, or the other way round, or without sign."""
    steps = np.arange(key.shape[-2]) - np.arange(query.shape[-2])[:, None]
    return np.abs(steps) if sign == "none" else sign * steps


def shaw_attention(
    query, key, value, *tables, distance, mask=None, sign=1, beyond="last", root=True, of_keys=True, of_values=True
):
    """S_nm = q_n·(k_m + a_nm)/√d, O_n = Σ_m A_nm (v_m + a'_nm), a_nm the row clip(m − n, −k, k) + k of a table."""
    steps = offsets_of(query, key, sign=sign)
    buckets = np.clip(steps, -distance, distance) + distance
    seen = (np.abs(steps) <= distance)[..., None] if beyond == "nothing" else None
    pairs = [ag.take(table, buckets, 0) for table in tables]
    pairs = pairs if seen is None else [ag.where(seen, pair, 0.0) for pair in pairs]
    d = math.sqrt(query.shape[-1])
    scores = ag.matmul(query, ag.swapaxes(key, -1, -2)) / d
    if of_keys:
        scores = scores + ag.einsum("...nd,nmd->...nm", query, pairs[0]) / (d if root else 1.0)
    a = mixed(scores, mask)
    y = ag.matmul(a, value)
    return y + ag.einsum("...nm,nmd->...nd", a, pairs[1]) if of_values and len(pairs) > 1 else y


def t5_attention(
    query, key, value, table, *, bidirectional=True, mask=None, sign=1, other=False, root=False, part=1.0, last=6
):
    """Attention with the bias table[h, bucket(m − n)], of q·k without 1/√d."""
    both = bidirectional is not other
    places = t5_buckets(
        offsets_of(query, key, sign=sign), buckets=table.shape[1], max_distance=last, bidirectional=both
    )
    bias = ag.take(table, places, 1) * part
    return attention(query, key, value, bias, mask=mask, similarity="scaled_dot" if root else "dot")


def image_attention(
    query, key, value, *tables, rows, columns, mode="contextual", method="product", exchanged=False, sign=1, part=1.0
):
    """iRPE: vectors, or biases, by the buckets of places on a grid."""
    places = image_places(rows, columns) * sign
    scheme = ImagePositions(query.shape[-1], mode=mode, method=method, rng=np.random.default_rng(0))
    buckets = scheme.buckets(*[places[:, ::-1] if exchanged else places] * 2)
    d = math.sqrt(query.shape[-1])
    scores = ag.matmul(query, ag.swapaxes(key, -1, -2))
    of_keys, of_values = tables[: len(buckets)], tables[len(buckets) :]
    for table, b in zip(of_keys, buckets, strict=True):
        pairs = ag.take(table, b, int(mode == "bias")) * part
        scores = scores + (pairs if mode == "bias" else ag.einsum("...nd,nmd->...nm", query, pairs))
    a = mixed(scores / d, None)
    y = ag.matmul(a, value)
    for table, b in zip(of_values, buckets, strict=False):
        y = y + ag.einsum("...nm,nmd->...nd", a, ag.take(table, b, 0))
    return y


ROTATIONS: Mistakes = {
    "half-split pairs were interleaved, or interleaved ones half-split": {"other_layout": True},
    "it were rotated in the other direction": {"turned": "back"},
    "sines and cosines were exchanged": {"turned": "sines and cosines exchanged"},
    "places were counted from 1": {"first": 1},
    "ω_k were base^(−k/d)": {"frequencies": "k/d"},
}
BASES: Mistakes = {
    "the base were 10000, whatever is asked for": {"own_base": 10000},
    "the base were 500000": {"own_base": 500000},
    "the base were 1000": {"own_base": 1000},
    "all features were rotated": {"all_features": True},
    "ω_k were those of all features, not of those that are rotated": {"frequencies": "of all features"},
}
ROTARY: Mistakes = {
    "keys alone were rotated": {"only": "keys"},
    "queries alone were rotated": {"only": "queries"},
    "values were rotated too": {"only": "values too"},
    "queries and keys were rotated in opposite directions": {"only": "keys back"},
    "the last query stood at the place of the last key": {"key_places": "at the end"},
    "half-split pairs were interleaved, or interleaved ones half-split": {"of_rotation": {"other_layout": True}},
    "the base were 500000": {"of_rotation": {"own_base": 500000}},
    "ω_k were base^(−k/d)": {"of_rotation": {"frequencies": "k/d"}},
}
SINUSOIDS: Mistakes = {
    "places were counted from 1": {"first": 1},
    "all sines came before all cosines": {"joined": "halves"},
    "cosines came before sines": {"joined": "cosines first"},
    "the base were 10000, whatever is asked for": {"own_base": 10000},
    "ω_k were base^(−k/d)": {"frequencies": "k/d"},
    "ω_k were base^(−2k/(d − 2))": {"frequencies": "2k/(d − 2)"},
    "x were multiplied by √d first": {"scaled": True},
}
LEARNED: Mistakes = {
    "the places that are given were left out": {"in_order": True},
    "of a place that comes several times, the gradient of the last alone were kept": {"lost": True},
}
ALIBI: Mistakes = {
    "the bias were added and not subtracted": {"sign": 1.0},
    "m − n were taken, and not |m − n|": {"sign": "signed"},
    "all heads had one slope": {"slope": "one for all"},
    "heads were counted from 0": {"slope": "from h = 0"},
    "heads were counted from the last": {"slope": "the other way round"},
    "the bias were divided by √d too": {"scaled": False},
}
OFFSETS: Mistakes = {
    "offsets were n − m, of a query from its key": {"sign": -1},
    "offsets had no sign": {"sign": "none"},
}
SHAW: Mistakes = {
    **OFFSETS,
    "places farther away than k had no vector, and not the last": {"beyond": "nothing"},
    "q·a were not divided by √d": {"root": False},
    "the vectors of keys were left out": {"of_keys": False},
    "the vectors of values were left out": {"of_values": False},
}
OF_T5: Mistakes = {
    **OFFSETS,
    "scores were divided by √d": {"root": True},
    "buckets were those of one direction in place of both, or of both in place of one": {"other": True},
    "the bias were left out": {"part": 0.0},
    "the last bucket began at a distance of 128": {"last": 128},
}
IMAGES: Mistakes = {
    "rows and columns were exchanged": {"exchanged": True},
    "offsets were those of a query from its key": {"sign": -1},
    "vectors and biases of scores were left out": {"part": 0.0},
}
MUTANTS = [
    *family(rotate, ("rotate",), ROTATIONS | BASES),
    *family(rotary_attention, ("rotary_attention",), ROTARY),
    *family(sinusoidal_positions, ("sinusoidal_positions",), SINUSOIDS),
    *family(learned_positions, ("learned_positions",), LEARNED),
    *family(alibi_attention, ("alibi_attention",), ALIBI),
    *family(shaw_attention, ("shaw_attention",), SHAW),
    *family(t5_attention, ("t5_attention",), OF_T5),
    *family(image_attention, ("image_attention",), IMAGES),
]
