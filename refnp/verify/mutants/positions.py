"""Mutants of positions: rotations, sinusoids, distances, and vectors of pairs."""

from refnp.layers.positions.rotary import rotate
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.layers import positions as of
from refnp.verify.mutants.linear import rows_of

OTHER_LAYOUT: Named = {
    "half-split pairs were interleaved, or interleaved ones half-split": (
        "layout =",
        "{'interleaved': 'half', 'half': 'interleaved'}[layout]",
    )
}
SMALLER_EXPONENT, OTHER_BASE = "ω_k were base^(−k/d)", "the base were 500000"
TURNED, SINUSOIDS = "turned(x, sines=sin, cosines=cos, layout=layout)", "words.sinusoids(tokens, at, d, base)"
ROTATIONS: Named = {
    **OTHER_LAYOUT,
    "it were rotated in the other direction": (TURNED, "turned(x, sines=-sin, cosines=cos, layout=layout)"),
    "sines and cosines were exchanged": (TURNED, "turned(x, sines=cos, cosines=sin, layout=layout)"),
    "places were counted from 1": ("places =", "np.asarray(places) + 1"),
    SMALLER_EXPONENT: ("base =", "base**0.5"),
    "the base were 10000, whatever is asked for": ("base =", "10000"),
    OTHER_BASE: ("base =", "500000"),
    "the base were 1000": ("base =", "1000"),
    "all features were rotated": ("features =", "None"),
    "ω_k were those of all features, not of those that are rotated": (
        SINUSOIDS,
        "words.sinusoids(tokens, at, d, base ** (d / tokens.shape[-1]))",
    ),
}
SCHEME, BOTH = "Rotary(layout=layout)", "(scheme.rotated(x, p) for x, p in zip((query, key), at, strict=True))"
TURNED_QUERY, TURNED_KEY = "scheme.rotated(query, at[0])", "scheme.rotated(key, at[1])"
ROTARY: Named = {
    "keys alone were rotated": (BOTH, f"(query, {TURNED_KEY})"),
    "queries alone were rotated": (BOTH, f"({TURNED_QUERY}, key)"),
    "values were rotated too": ("value =", f"{SCHEME}.rotated(value, np.arange(value.shape[-2]))"),
    "queries and keys were rotated in opposite directions": (BOTH, f"({TURNED_QUERY}, scheme.rotated(key, -at[1]))"),
    "the last query stood at the place of the last key": (
        BOTH,
        f"(scheme.rotated(query, at[0] + len(at[1]) - len(at[0])), {TURNED_KEY})",
    ),
    **OTHER_LAYOUT,
    OTHER_BASE: (SCHEME, "Rotary(layout=layout, base=500000)"),
    SMALLER_EXPONENT: (SCHEME, "Rotary(layout=layout, base=100)"),
}
IN_TURN = "SinusoidalPositions: in_turn(sines, cosines, features)"
SINUSOIDAL: Named = {
    "places were counted from 1": ("bound(_m, ())(x)", "bound(_m, ())(x, np.arange(x.shape[-2]) + 1)"),
    "all sines came before all cosines": (IN_TURN, "np.concatenate([sines, cosines], -1)[..., :features]"),
    "cosines came before sines": (IN_TURN, "in_turn(cosines, sines, features)"),
    "the base were 10000, whatever is asked for": ("base =", "10000"),
    SMALLER_EXPONENT: ("base =", "base**0.5"),
    "ω_k were base^(−2k/(d − 2))": ("base =", "base ** (x.shape[-1] / (x.shape[-1] - 2))"),
    "x were multiplied by √d first": ("x =", "x * x.shape[-1] ** 0.5"),
}
LEARNED: Named = {
    "the places that are given were left out": ("places =", "np.arange(len(places))"),
    "of a place that comes several times, the gradient of the last alone were kept": (
        "bound(scheme, (weight,))(x, places)",
        "x + rows_of(weight, tokens=np.asarray(places))",
    ),
}
SLOPES, DISTANCES = "ALiBi: self.slopes[:, None, None]", "np.abs(keys - queries[:, None])"
ALIBI: Named = {
    "the bias were added and not subtracted": ("ALiBi: -self.slopes[:, None, None]", "self.slopes[:, None, None]"),
    "m − n were taken, and not |m − n|": (f"ALiBi: {DISTANCES}", "(queries[:, None] - keys)"),
    "all heads had one slope": (SLOPES, "self.slopes[:1, None, None]"),
    "heads were counted from 0": (SLOPES, "self.slopes[:, None, None] / self.slopes[0]"),
    "heads were counted from the last": (SLOPES, "self.slopes[::-1, None, None]"),
    "slopes were 2^(−8h/H), where H is no power of two either": (
        SLOPES,
        "2.0 ** (-8 * np.arange(1, self.slopes.size + 1) / self.slopes.size)[:, None, None]",
    ),
    "the bias were divided by √d too": (
        f"ALiBi: slopes * {DISTANCES}.astype(slopes.dtype)",
        f"slopes * {DISTANCES}.astype(slopes.dtype) / query.shape[-1] ** 0.5",
    ),
}
PLACES, SCORES = "arange(x.shape[-2]) if places is None else places", "scheme.scores(query, *at)"
NO_SIGN, OTHER_SIGN = "offsets had no sign", "offsets were n − m, of a query from its key"
ONE_BY_ONE, WITHIN = ("Shaw: is_run(queries) and is_run(keys)", "False"), f"({DISTANCES} <= self.distance)"
OF_KEYS = "Shaw: matmul(query, swapaxes(self.key, -1, -2)) * one_over_root(query)"
SHAW: Named = {
    OTHER_SIGN: (PLACES, f"-({PLACES})"),
    NO_SIGN: [ONE_BY_ONE, ("Shaw: key_places - query_places[:, None]", "np.abs(key_places - query_places[:, None])")],
    "places farther away than k had no vector, and not the last": [
        ONE_BY_ONE,
        ("Shaw: read_buckets(x, buckets=_b)", f"ag.where({WITHIN}, read_buckets(x, buckets=_b), 0.0)"),
        (
            "Shaw: sum_buckets(weights, buckets=_b, count=count)",
            f"sum_buckets(ag.where({WITHIN}, weights, 0.0), buckets=_b, count=count)",
        ),
    ],
    "q·a were not divided by √d": (OF_KEYS, "matmul(query, swapaxes(self.key, -1, -2))"),
    "the vectors of keys were left out": (SCORES, "None"),
    "the vectors of values were left out": ("output + scheme.values(weights, *at)", "output"),
}
T5: Named = {
    OTHER_SIGN: (PLACES, f"-({PLACES})"),
    NO_SIGN: ("T5Bias: self.bucket(offsets)", "self.bucket(np.abs(offsets))"),
    "scores were divided by √d": ("'dot'", "'scaled_dot'"),
    "buckets were those of one direction in place of both, or of both in place of one": (
        "bidirectional =",
        "not bidirectional",
    ),
    "the bias were left out": (SCORES, "None"),
    "the last bucket began at a distance of 128": ("6", "128"),
}
GRID = "image_places(rows, columns)"
IMAGES: Named = {
    "rows and columns were exchanged": (GRID, f"{GRID}[:, ::-1]"),
    "offsets were those of a query from its key": (GRID, f"-{GRID}"),
    "vectors and biases of scores were left out": (SCORES, "None"),
}
MUTANTS = [
    *named_edits(rotate, ("rotate",), ROTATIONS),
    *named_edits(of.refnp_rotary, ("rotary_attention",), ROTARY),
    *named_edits(of.refnp_sinusoidal, ("sinusoidal_positions",), SINUSOIDAL),
    *named_edits(of.refnp_learned, ("learned_positions",), LEARNED, words={"rows_of": rows_of}),
    *named_edits(of.refnp_alibi, ("alibi_attention",), ALIBI),
    *named_edits(of.refnp_shaw, ("shaw_attention",), SHAW),
    *named_edits(of.refnp_t5, ("t5_attention",), T5),
    *named_edits(of.refnp_image, ("image_attention",), IMAGES),
]
