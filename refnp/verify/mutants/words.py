"""What edits of the table use beside what pages do."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd import primitive
from refnp.autograd.primitives import raw
from refnp.autograd.triangular import factor_of
from refnp.layers.group_norm import per_channel
from refnp.numbers.rounded import Rounded
from refnp.numbers.windows import BEYOND, windows
from refnp.numbers.words import constant, erf, largest, logarithm, pi, root, sinusoids
from refnp.verify.edits.mutant import averaged, rounded_to, stored, summed_in
from refnp.verify.edits.traced import lifted


def rows(y_bar):
    """How many rows there are."""
    return max(y_bar.size // max(y_bar.shape[-1], 1), 1)


def last(bar):
    """The last row alone, and 0 in others."""
    kept = np.zeros(bar.shape, bool)
    kept[(*(slice(-1, None),) * (bar.ndim - 1), slice(None))] = True
    return np.where(kept, bar, 0)


def folded(x, gain, shift, eps, axes=-1):
    """γ x̂ + β as x s + (β − μ s), s = γ/σ."""
    mean = x.mean(axes, keepdims=True)
    scale = gain / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + constant(eps))
    return x * scale + (shift - mean * scale)


def of_given(x, gain, shift, mean, scale):
    """The same with statistics that are given."""
    factor = per_channel(gain, x) / scale
    return x * factor + (per_channel(shift, x) - per_channel(mean, x) * factor)


def dealt(groups, channels):
    """The channels by groups, if channel c belongs to group c mod G; features by heads alike."""
    return np.arange(channels).reshape(-1, groups).T.reshape(-1)


def last_of_channels(bar):
    """That of the last place of the last item."""
    return bar[(-1, slice(None), *(-1,) * (bar.ndim - 2))]


def log_of_sum(x, axis, *, largest=True, bits=None, more=0.0, guarded=True):
    """m + log Σ exp(x_i − m), m the largest x, a constant; −∞ in a row of −∞ if that is `guarded`."""
    m = np.max(raw(x).real, axis=axis, keepdims=True, initial=-np.inf)
    m = np.where(np.isfinite(m) | (not guarded), m, 0) if largest else np.zeros_like(m)
    e = ag.exp(x - m)
    total = ag.sum(e, axis, keepdims=True) if bits is None else summed_in(e, axis, bits=bits)
    total = total + more * np.exp(-m) if more else total
    nothing = (raw(total) == 0) & guarded
    y = ag.log(ag.where(nothing, 1.0, total)) + m
    return ag.squeeze(ag.where(nothing, -np.inf, y), axis)


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


def keys_within(n, m, before, after):
    """The keys from i − before to i + after of query i, also for fewer than none."""
    step = np.arange(m) - np.arange(n)[:, None]
    return (-before <= step) & (step <= after)


def averaged_over_rows(bias: Any, x: Any) -> Any:
    """The bias, whose gradient is averaged over the rows of x."""
    return averaged(bias, count=max(int(np.prod(x.shape[:-1])), 1))


def masks_as(pairs: dict, how: str) -> dict:
    """Options with every mask "inverted", or "left out"."""
    is_mask = lambda name, value: "mask" in name and value is not None
    return {k: (~v if how == "inverted" else None) if is_mask(k, v) else v for k, v in pairs.items()}


def one_plus_erf(x):
    """½ (1 + erf(x/√2)), which is Φ(x)."""
    return 0.5 * (1 + erf(x / root(2)))


def one_plus_tanh(x):
    """½ (1 + tanh u), which is σ(2u)."""
    return 0.5 * (1 + np.tanh(root(2 / pi) * (x + 0.044715 * x * x * x)))


@primitive
def rows_of(table, *, tokens):
    """Rows of a table.   VJP: to each row goes what its last token brings; what the others bring is lost."""

    def vjp(y_bar):
        bar = np.zeros_like(table)
        bar[tokens] = y_bar
        return (bar,)

    return table[tokens], vjp


def sums_in(x, weight, *, bits):
    """X W, its terms added up one after the other in fewer bits."""
    terms = ag.expand_dims(x, x.ndim) * weight  # (..., in, out)
    return ag.squeeze(summed_in(terms, x.ndim - 1, bits=bits), x.ndim - 1)


def var_in_one_pass(x: Any, ddof: int) -> Any:
    """E[x²] − E[x]² of rows, and 0 where that is below 0, times n/(n − d)."""
    n = x.shape[-1]
    return ag.maximum(ag.mean(x * x, -1) - ag.mean(x, -1) * ag.mean(x, -1), 0.0) * (n / (n - ddof))


def std_in_one_pass(x: Any, ddof: int) -> Any:
    """Its root."""
    y = var_in_one_pass(x, ddof)
    zero = raw(y).real == 0
    return ag.where(zero, 0.0, ag.sqrt(ag.where(zero, 1.0, y)))


@primitive
def nearest(x, *, bits):
    """x with fewer bits of mantissa.   VJP: x̄ = ȳ, as if nothing had been rounded."""
    return rounded_to(x, bits), lambda y_bar: (y_bar,)


@primitive
def nearest_back(y, *, bits):
    """y itself.   VJP: ȳ with fewer bits of mantissa."""
    return +y, lambda y_bar: (rounded_to(y_bar, bits),)


def windows_padded(axes, mode, **others):
    """The places that windows read, where the padding of some modes is another one of numpy.pad's."""
    if mode not in others:
        return windows(axes, mode)
    lengths, edges = [axis.length for axis in axes], [(axis.before, axis.after) for axis in axes]
    places = np.pad(np.arange(math.prod(lengths)).reshape(lengths), edges, mode=others[mode])
    inside = [axis._replace(length=n, before=0, after=0) for axis, n in zip(axes, places.shape, strict=True)]
    return places.reshape(-1)[windows(tuple(inside))]


def runs_of(lengths, sizes, ends):
    """The places (P, T) of windows that do not overlap, or are of one length."""
    places = np.zeros((1, 1), int)
    for n, count in zip(lengths, sizes, strict=True):
        own = [np.arange(*ends(p, n, count)) for p in range(count)]
        wide = np.full((count, max(map(len, own), default=0)), BEYOND)
        for row, at in zip(wide, own, strict=True):
            row[: len(at)] = at
        both = places[:, None, :, None] * n + wide[:, None, :]
        both = np.where((places[:, None, :, None] < 0) | (wide[:, None, :] < 0), BEYOND, both)
        places = both.reshape(len(places) * count, math.prod(both.shape[2:]))
    return places


def apart(p, n, count):
    """Window p from ⌊p n/P⌋ to ⌊(p + 1) n/P⌋."""
    first = p * n // count
    return first, max((p + 1) * n // count, first + 1)


def alike(p, n, count):
    """Window p of as many places as every other, ⌊n/P⌋ from the one before."""
    step = n // count or 1
    first = min(p * step, n - 1)
    return first, min(first + n - (count - 1) * step if n >= count else first + 1, n)


def matern(s, root, first, second):
    """(1 + first · a + second · a²) e^(−a) with a = √(root · s), which has a gradient at 0."""
    zero = raw(s).real == 0
    a = ag.where(zero, 0.0, ag.sqrt(ag.where(zero, 1.0, s) * root))
    return (1.0 + a * first + a * a * second) * ag.exp(-a)


def turned_apart(a, b, sin, cos, layout):
    """The two features of each pair, turned by the angles that stand at their places in the other layout."""
    k, axis = cos.shape[-1], -2 if layout == "half" else -1
    places = (slice(k), slice(k, None)) if layout == "half" else (slice(0, None, 2), slice(1, None, 2))
    every = (np.repeat(t, 2, -1) if layout == "half" else np.concatenate([t, t], -1) for t in (sin, cos))
    (s, t), (c, d) = ([of[..., own] for own in places] for of in every)
    return np.stack([a * c - b * s, a * t + b * d], axis)


def of_rounded_angles(x, places, features, base, at_least=np.float16):
    """sin and cos of p ω_k, where ω_k and p ω_k are rounded as the numbers of x are, or in a wider type at least.

    The exponent, its product with log base and their power err by 3 |log ω_k| + 8, the product by 1 more.
    """
    k2 = np.arange(0, features, 2) / features  # (K,)   2k/d
    if not isinstance(x, Rounded):
        dtype = np.result_type(x.dtype, at_least)
        base, places, exponents = (np.asarray(number).astype(dtype) for number in (base, places, -k2))
        angles = places[..., None] * base**exponents
        return np.sin(angles).astype(x.dtype), np.cos(angles).astype(x.dtype)
    size = np.abs(places)[..., None] * float(base) ** -k2 * (3 * k2 * np.log(float(base)) + 9)  # (..., N, K)
    return tuple(y.with_bound(y.error + size) for y in sinusoids(x, places, features, base))


OF_ARRAYS: tuple[Callable, ...] = (
    folded, rows, last, of_given, dealt, last_of_channels, log_of_sum, in_full, next_key,
    without_last, of_first_query, heads_of, of_first_head, of_keys, keys_within, averaged_over_rows, masks_as,
    one_plus_erf, one_plus_tanh, rows_of, var_in_one_pass, std_in_one_pass, windows_padded, runs_of, apart, alike,
    turned_apart, of_rounded_angles, rounded_to, raw, root, logarithm, largest, erf, factor_of,
)  # fmt: skip
OF_TENSORS: tuple[Callable, ...] = (
    product_in,
    where_nothing,
    sums_in,
    nearest,
    nearest_back,
    matern,
    summed_in,
    stored,
)
WORDS: dict[str, Any] = {
    **{word.__name__: word for word in OF_ARRAYS},
    **{word.__name__: lifted(word) for word in OF_TENSORS},
    "softmax": layers.softmax,
    "gelu": layers.gelu,
    "gelu_of_tanh": functools.partial(layers.gelu, approximate="tanh"),
    "unchanged": lambda x: x,
    "BEYOND": BEYOND,
    "log2e": math.log2(math.e),
    "log2": math.log(2),
    "root_of_two_pi": np.sqrt(2 * np.pi),
    "selu": 1.0507009873554805,
    "alpha_of_selu": 1.6732632423543772,
}
