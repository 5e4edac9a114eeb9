"""Properties of the layers that hold for every input, tried on drawn ones, each with the bound that rounding leaves it.

A property says that two computations give the same, or one gives a known number. Both are refnp's, in the precision
judged; their difference is formed in the widest precision and divided by the bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.layers.attention import attention, attention_with_weights
from refnp.layers.convolution import convolution, convolution_transpose
from refnp.layers.layer_norm import layer_norm
from refnp.layers.set_convolution import set_convolution
from refnp.layers.softmax import softmax
from refnp.numbers.rounding import WIDE
from refnp.verify import bounds
from refnp.verify.layers.attention import attention as attention_equation
from refnp.verify.layers.convolution import CONVOLUTION
from refnp.verify.layers.normalization import LAYER_NORM
from refnp.verify.layers.set_convolution import SET_CONVOLUTION

Measured = tuple[np.ndarray, np.ndarray, np.ndarray]  # what came, what it should be, how far apart they may be


@dataclass(frozen=True)
class Property:
    """A statement about a layer, and the experiment that tests it, in one precision with one generator."""

    name: str
    measure: Callable[[np.random.Generator, type, np.floating], Measured]


def rows_sum_to_one(rng, dtype, u):
    """Σ p̂ − 1: what exp does to x is the same above and below the line; left are n − 1 sums and a division, n u, and
    n weights that may underflow."""
    x = (rng.standard_normal((40, 33)) * np.geomspace(1e-3, 1e3, 40)[:, None]).astype(dtype)
    total = softmax(x).astype(WIDE).sum(-1)
    return total, np.ones(40), np.full(40, 33 * (u + np.finfo(dtype).tiny))


def attention_weights_sum_to_one(rng, dtype, u):
    """The same for the rows of attention weights under a mask; a row that may attend to nothing sums to 0 exactly."""
    q, k, v = (rng.standard_normal((9, 5)).astype(dtype) * 3 for _ in range(3))
    mask = rng.random((9, 9)) < 0.5
    mask[4] = False
    _, weights = attention_with_weights(q, k, v, mask=mask)
    return weights.astype(WIDE).sum(-1), mask.any(-1).astype(float), 9 * (u + np.finfo(dtype).tiny) * mask.any(-1)


def attention_is_equivariant(rng, dtype, u):
    """Self-attention of permuted tokens is permuted self-attention: each is within the attention bound of the truth."""
    x = rng.standard_normal((2, 12, 6)).astype(dtype)
    order = rng.permutation(12)
    permuted = x[:, order]
    (bound,) = bounds.of(attention_equation, (permuted, permuted, permuted))
    return attention(permuted, permuted, permuted), attention(x, x, x)[:, order], 2 * bound


def circular_convolution_commutes(rng, dtype, u):
    """conv(roll x) = roll conv(x) on a ring: the same sums, in whatever order, each within its bound."""
    x, w = rng.standard_normal((2, 3, 17)).astype(dtype), rng.standard_normal((4, 3, 5)).astype(dtype)
    b = rng.standard_normal(4).astype(dtype)
    options: dict[str, Any] = {"padding": 2, "padding_mode": "circular"}
    (bound,) = bounds.of(CONVOLUTION.equation, (np.roll(x, 6, -1), w, b), **options)
    given = convolution(np.roll(x, 6, -1), w, b, **options)
    right = np.roll(convolution(x, w, b, **options), 6, -1)
    return given, right, 2 * bound


def convolution_transpose_is_the_adjoint(rng, dtype, u):
    """⟨conv x, y⟩ = ⟨x, convᵀ y⟩: sums of the same products, rounded at most as often as there are terms."""
    x, w = rng.standard_normal((1, 2, 11)).astype(dtype), rng.standard_normal((3, 2, 4)).astype(dtype)
    forward = convolution(x, w, stride=2, padding=1)
    y = rng.standard_normal(forward.shape).astype(dtype)
    back = convolution_transpose(y, w, stride=2, padding=1, output_padding=1)
    left = (forward.astype(WIDE) * y).sum()
    right = (x.astype(WIDE) * back).sum()
    (bound,) = bounds.of(CONVOLUTION.equation, (x, w), stride=2, padding=1)
    sizes = np.abs(x).astype(WIDE), np.abs(w).astype(WIDE)
    magnitude = (convolution(*sizes, stride=2, padding=1) * np.abs(y)).sum()
    return left, right, (bound * np.abs(y)).sum() + 12 * u * magnitude


def layer_norm_has_mean_zero(rng, dtype, u):
    """The mean of a row of x̂ is 0, up to the mean of the bounds of its elements."""
    x = (rng.standard_normal((12, 24)) + np.linspace(0, 1e3, 12)[:, None]).astype(dtype)
    given = layer_norm(x).astype(WIDE).mean(-1)
    (bound,) = bounds.of(LAYER_NORM.equation, (x, dtype(1), dtype(0)), blocked=True)
    return given, np.zeros(12), bound.mean(-1)


def points(rng, dtype, grid=1024):
    """Targets, points and values for a set convolution, on multiples of 1/grid, so that shifts by such are exact."""
    places = [(np.round(rng.uniform(-2, 2, (n, 1)) * grid) / grid).astype(dtype) for n in (15, 11)]
    return (*places, rng.standard_normal((11, 2)).astype(dtype), dtype(0.25))


def set_convolution_is_invariant(rng, dtype, u):
    """The order of the points does not matter: both sums are within the bound of the exact one."""
    x, places, values, scale = points(rng, dtype)
    order = rng.permutation(11)
    (bound,) = bounds.of(SET_CONVOLUTION.equation, (x, places, values, scale), dtype=dtype)
    return set_convolution(x, places[order], values[order], scale), set_convolution(x, places, values, scale), 2 * bound


def set_convolution_is_equivariant(rng, dtype, u):
    """Shifting targets and points by 37.125, exactly representable, changes no difference of theirs."""
    x, places, values, scale = points(rng, dtype)
    shift = dtype(37.125)
    (bound,) = bounds.of(SET_CONVOLUTION.equation, (x, places, values, scale), dtype=dtype)
    given = set_convolution(x + shift, places + shift, values, scale)
    return given, set_convolution(x, places, values, scale), 2 * bound


def set_convolution_under_any_shift(rng, dtype, u):
    """A shift t that is not exact rounds coordinates by u|x + t| each, and so a weight k by k |d|/ℓ² times both."""
    x, places, values, scale = points(rng, dtype, grid=1e5)
    shift = dtype(100 / 3)
    (bound,) = bounds.of(SET_CONVOLUTION.equation, (x, places, values, scale), dtype=dtype)
    given = set_convolution(x + shift, places + shift, values, scale)
    d = np.abs(x - places.T).astype(WIDE)
    rounded = u * (np.abs(x + shift) + np.abs(places + shift).T)
    moved = np.exp(-((d / scale) ** 2) / 2) * d / WIDE(scale) ** 2 * rounded
    carried = np.abs(np.concatenate([np.ones((11, 1)), values], 1))
    return given, set_convolution(x, places, values, scale), 2 * (bound + moved @ carried)


def set_convolution_adds_up(rng, dtype, u):
    """Of two sets it is the sum, of the first four points and the others here; each of three is within its bound.

    A mean of values has not this property (docs/unification.md).
    """
    x, places, values, scale = points(rng, dtype)
    parts = [(x, places[part], values[part], scale) for part in (slice(0, 4), slice(4, None), slice(None))]
    limits = [bounds.of(SET_CONVOLUTION.equation, part, dtype=dtype)[0] for part in parts]
    one, two, both = (set_convolution(*part).astype(WIDE) for part in parts)
    return one + two, both, sum(limits)


def set_convolution_divided_is_attention(rng, dtype, u):
    """Σ k y/Σ k is attention with q = [x/ℓ, 1] and k = [x_m/ℓ, −x_m²/2ℓ²]: with ε it is less by ε/(ρ + ε) of itself.

    ℓ = 1/4 and places on a grid make the features exact; but x_m²/2ℓ² is rounded to u of itself, for it has more bits
    than float32: a score that is off by δ moves a mean by 2δ of the largest value.
    """
    x, places, values, scale = points(rng, dtype)
    q, k, eps = x / scale, places / scale, float(np.finfo(np.float32).tiny)
    query, key = np.concatenate([q, np.ones_like(q)], 1), np.concatenate([k, k * k / -2], 1)
    (bound,) = bounds.of(attention_equation, (query, key, values), similarity="dot")
    (other,) = bounds.of(SET_CONVOLUTION.equation, (x, places, values, scale), dtype=dtype, divide=True, eps=eps)
    right = set_convolution(x, places, values, scale, divide=True, eps=eps).astype(WIDE)
    largest = np.abs(values).max()
    rounded = 2 * (u * (k * k).max() / 2) * largest + largest * eps / right[:, :1]
    return attention(query, key, values, scale=1), right[:, 1:], bound + other[:, 1:] + rounded


def properties() -> list[Property]:
    """All properties."""
    return [
        Property("softmax/rows sum to 1", rows_sum_to_one),
        Property("attention/weights sum to 1", attention_weights_sum_to_one),
        Property("attention/permutation-equivariant without positions", attention_is_equivariant),
        Property("convolution/circular commutes with roll", circular_convolution_commutes),
        Property("convolution/transposed is the adjoint", convolution_transpose_is_the_adjoint),
        Property("layer_norm/rows have mean 0", layer_norm_has_mean_zero),
        Property("set_convolution/permutation-invariant", set_convolution_is_invariant),
        Property("set_convolution/translation-equivariant", set_convolution_is_equivariant),
        Property("set_convolution/any shift, up to rounded coordinates", set_convolution_under_any_shift),
        Property("set_convolution/adds up over sets", set_convolution_adds_up),
        Property("set_convolution/divided, it is attention", set_convolution_divided_is_attention),
    ]
