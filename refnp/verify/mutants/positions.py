"""Mutants of positions: rotations, sinusoids, distances, and other similarities of attention."""

import math

import numpy as np

from refnp import layers
from refnp.layers.positions.absolute import sinusoids
from refnp.layers.positions.biases import alibi_slopes
from refnp.layers.positions.rotary import rotate as right_rotation
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
MUTANTS = [
    *family(rotate, ("rotate",), ROTATIONS | BASES),
    *family(rotary_attention, ("rotary_attention",), ROTARY),
    *family(sinusoidal_positions, ("sinusoidal_positions",), SINUSOIDS),
    *family(learned_positions, ("learned_positions",), LEARNED),
    *family(alibi_attention, ("alibi_attention",), ALIBI),
]
