"""Biases of offsets: a number for each head and each distance from query to key, added to the score of the pair.

    T5:      s_nm = table[h, bucket(m − n)], learned         ALiBi:   s_nm = −slope_h |m − n|, nothing to learn

T5 adds it to q·k without 1/√d: that is `MultiHeadAttention(…, similarity="dot")`.

Source: T5: Raffel et al. (2020), arXiv 1910.10683 §2.1. ALiBi: Press, Smith & Lewis (2022), arXiv 2108.12409 §3. Forms
of the relative positions of Sivaraya (2023) §1.2.
Transcription: tests/transcriptions/positions.py.
"""

import functools

import numpy as np

from refnp.autograd import broadcast_to, reshape, take
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.positions.relative import PLACES, SCALE, RelativePositions, is_run, read_diagonals, signed
from refnp.numbers.kinds import word
from refnp.numbers.words import constant

OPTIONS = {"buckets": "whole ≥ 1", "max_distance": "whole ≥ 1", "bidirectional": "True or False"} | {
    "needs": "buckets ≥ 4 and buckets is a multiple of 2 if bidirectional, pass an even number of buckets, 4 or more;"
    "buckets ≥ 2 if not bidirectional, pass 2 or more buckets;"
    "max_distance > buckets // 4 if bidirectional, pass a larger max_distance, or fewer buckets;"
    "max_distance > buckets // 2 if not bidirectional, pass a larger max_distance, or fewer buckets"
}


@word
@takes("offsets whole (...) → (...)", **OPTIONS)
def t5_buckets(offsets: ArrayLike, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> Array:
    """The bucket of each offset m − n of a key from its query: small distances one by one, larger ones by logarithm.

        n = |m − n|,  L buckets for them,  e = ⌊L/2⌋:   n if n < e, else min(L − 1, e + ⌊(L − e) log(n/e)/log(F/e)⌋)

    with F = max_distance. Bidirectional: L is half of the buckets, and keys after the query have the upper half.
    Causal: L is all of them, and all keys after the query are in bucket 0 with the query itself.
    The logarithm is not taken: n^(L−e) e^r ≥ F^r e^(L−e) decides in integers, where floats depend on rounding.
    Shapes: offsets (...) integers → (...). Raises ValueError for an odd number of buckets in two directions, none that
    count one by one, or a max_distance that these reach already; TypeError unless offsets are integers.
    """
    count = buckets // 2 if bidirectional else buckets
    exact = count // 2
    offsets = integers("t5_buckets", "offsets", offsets, signed=True)
    offsets = np.maximum(offsets, -np.iinfo(np.int64).max)  # the lowest number has no positive of its own
    distances = np.abs(offsets) if bidirectional else np.maximum(-offsets, 0)
    starts = [_first_distance(r, count - exact, exact, max_distance) for r in range(1, count - exact)]
    found = np.where(distances < exact, distances, exact + np.searchsorted(starts, distances, side="right"))
    return found + count * (offsets > 0) if bidirectional else found


def _first_distance(r: int, buckets: int, exact: int, last: int) -> int:
    """The smallest n with (n/e)^buckets ≥ (F/e)^r, that is ⌊buckets · log(n/e)/log(F/e)⌋ ≥ r, between e and F."""
    below, found = exact, last
    while found - below > 1:
        n = (below + found) // 2
        if n**buckets * exact**r < last**r * exact**buckets:
            below = n
        else:
            found = n
    return found


class T5Bias(RelativePositions):
    """s_nm = table[h, bucket(m − n)], a learned number for each head and bucket.

    Shapes: table (H, buckets), drawn from N(0, 0.02²). In T5 all layers share one: give them the same object.
    Shifting all places changes no bit. Permuting tokens does, and so does reversing their order.
    buckets: how many. bidirectional: half of them are for keys after the query; else these are all in bucket 0.
    max_distance: all distances from here on are in the last bucket, often with some below it.
    Raises ValueError for no heads or impossible buckets; when called, for places or heads that do not fit.
    """

    @takes("", heads="whole ≥ 1", **OPTIONS, rng="generator")
    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        rng: np.random.Generator,
    ):
        self.bucket = functools.partial(
            t5_buckets, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional
        )
        self.heads, self.table = heads, Parameter(rng.normal(0, SCALE, (heads, buckets)))

    @takes(f"query (..., heads, N, d), {PLACES} → (..., N, M)")
    def scores(self, query: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor:
        queries, keys = signed(query_places, key_places)
        if not (is_run(queries) and is_run(keys)):
            return take(self.table, self.bucket(keys - queries[:, None]), axis=1)  # (H, N, M)
        offsets = np.arange(keys[0] - queries[-1], keys[-1] - queries[0] + 1)
        line = reshape(take(self.table, self.bucket(offsets), axis=1), (self.heads, 1, -1))  # (H, 1, W)
        band = broadcast_to(line, (self.heads, len(queries), len(offsets)))  # (H, N, W)
        return read_diagonals(band, shift=len(queries) - 1, keys=len(keys))


@word
@takes("→ (H,)", heads="whole ≥ 1")
def alibi_slopes(heads: int) -> Array:
    """slope_h = 2^(−8h/H), h = 1 … H, if H is a power of two.

    If not, the authors' code: the slopes of the largest power of two P below H, then every other one of 2P. (Not the
    formula with that H, which other code takes.)
    Shapes: (H,), in longdouble.   Raises ValueError for no heads.
    """
    power = 1 << heads.bit_length() - 1
    exponents = [8 * h / power for h in range(1, power + 1)]
    exponents += [4 * h / power for h in range(1, 2 * (heads - power), 2)]
    return np.exp2(np.negative(exponents, dtype=np.longdouble))


class ALiBi(RelativePositions):
    """s_nm = −slope_h |m − n|: the further away, the less; steeply in some heads, gently in others.

    The paper has −slope_h (n − m) under a causal mask: the same under that mask; without a mask this goes both ways.
    Shifting all places changes no bit, reversing tokens nothing, to rounding; permuting does. ValueError for no heads.
    """

    @takes("", heads="whole ≥ 1")
    def __init__(self, heads: int):
        self.heads, self.slopes = heads, alibi_slopes(heads)

    @takes(f"query (..., heads, N, d), {PLACES} → (..., N, M)")
    def scores(self, query: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array:
        queries, keys = signed(query_places, key_places)
        slopes = constant(-self.slopes[:, None, None]).like(raw(query))  # (H, 1, 1)
        return slopes * np.abs(keys - queries[:, None]).astype(slopes.dtype)  # (H, N, M)
