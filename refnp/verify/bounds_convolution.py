"""How wrong a convolution may be: every number of it is a sum of products, and so is every number of its gradients.

A sum of n products, rounded after every operation and added up in any order, is within γ_n Σ|products| of the exact
one, γ_n = n u/(1 − n u): each product goes through a rounding of its own and at most n − 1 of additions, (1 + δ)ⁿ.
The bias is one more term, with no product. Fused multiply-add only leaves roundings out. So, to first order,

    |ŷ − y| ≤ N u (|w| ∗ |x| + |β|)     N = (C/groups) Π k + 1                       terms of an output
    |x̄̂ − x̄| ≤ N u (|w| ∗ᵀ |ȳ|)         N = (O/groups) Π k · copies                  `copies` of an x in the padded x
    |w̄̂ − w̄| ≤ N u (|ȳ| ∗ |x|)          N = B Π positions                            likewise β̄, with N u Σ|ȳ|

and with the two maps exchanged for the transposed convolution. The sums of magnitudes are the same maps of |x|, |w|
and |ȳ|, taken in the widest precision. A circular shift changes no term of a sum, only the order: twice the bound.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. (2002), §3.1, Lemma 3.1 and eq. 3.3-3.5.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd import pad, vjp
from refnp.layers.convolution import convolution as convolve
from refnp.layers.convolution import convolution_transpose as convolve_transposed
from refnp.layers.convolution_checks import paddings, per_axis
from refnp.layers.pooling import average_pool as pool
from refnp.verify.rounding import WIDE


class Bounds(NamedTuple):
    """On the value and on the gradients, each with the shape of what it bounds; no bias, no bound on its gradient."""

    y: np.ndarray
    x_bar: np.ndarray
    weight_bar: np.ndarray
    bias_bar: np.ndarray | None


def gamma(n: int, u: Any) -> Any:
    """γ_n = n u/(1 − n u), the relative error of n roundings. Raises ValueError if n u is not small (below 1/2)."""
    n_u = n * WIDE(u)
    if not n_u < 0.5:
        raise ValueError(f"gamma: {n} roundings of {u} may leave no digit right; the bound needs n u below 1/2")
    return n_u / (1 - n_u)


def convolution(x: Any, weight: Any, bias: Any, y_bar: Any, u: Any, **options: Any) -> Bounds:
    """Bounds for `convolution(x, weight, bias, **options)` and, under the cotangent ȳ, its gradients."""
    magnitudes = _magnitudes(convolve, x, weight, bias, y_bar, options)
    groups = options.get("groups", 1)
    taps, samples = math.prod(np.shape(weight)[2:]), _samples(y_bar)
    terms = np.shape(weight)[1] * taps + (bias is not None)
    back = np.shape(weight)[0] // groups * taps * _copies(np.shape(x)[2:], np.shape(weight)[2:], **options)
    return _scaled(magnitudes, (terms, back, samples, samples), u)


def convolution_transpose(x: Any, weight: Any, bias: Any, y_bar: Any, u: Any, **options: Any) -> Bounds:
    """Bounds for `convolution_transpose(x, weight, bias, **options)` and, under the cotangent ȳ, its gradients."""
    magnitudes = _magnitudes(convolve_transposed, x, weight, bias, y_bar, options)
    groups = options.get("groups", 1)
    taps = math.prod(np.shape(weight)[2:])
    terms = np.shape(weight)[0] // groups * taps + (bias is not None)
    return _scaled(magnitudes, (terms, np.shape(weight)[1] * taps, _samples(x), _samples(y_bar)), u)


def average_pool(x: Any, y_bar: Any, u: Any, size: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on the mean over windows and on its gradient: sums of at most k terms, and one division, γ_{k+1}."""
    widest = [np.abs(np.asarray(a)).astype(WIDE) for a in (x, y_bar)]
    y, pullback = vjp(lambda a: pool(a, size, **options), widest[0])
    count = math.prod(size) if isinstance(size, (tuple, list)) else size ** (np.ndim(x) - 2)
    return gamma(count + 1, u) * y, gamma(count + 1, u) * pullback(widest[1])[0]


def _magnitudes(function: Any, x: Any, weight: Any, bias: Any, y_bar: Any, options: dict) -> tuple:
    """Value and gradients of `function` for |x|, |w|, |β| and |ȳ|: sums of the magnitudes of all terms."""
    arguments = [np.abs(np.asarray(a)).astype(WIDE) for a in (x, weight, *(() if bias is None else (bias,)))]
    y, pullback = vjp(lambda *a: function(*a, **options), *arguments)
    return (y, *pullback(np.abs(np.asarray(y_bar)).astype(WIDE)))


def _scaled(magnitudes: tuple, terms: tuple[int, ...], u: Any) -> Bounds:
    bounds = [gamma(n, u) * m for m, n in zip(magnitudes, terms, strict=False)]
    return Bounds(bounds[0], bounds[1], bounds[2], bounds[3] if len(bounds) == 4 else None)


def _samples(y: Any) -> int:
    """Terms of a gradient of weights: samples times places."""
    return math.prod(np.shape(y)[:1] + np.shape(y)[2:])


def _copies(
    lengths: tuple,
    kernel: tuple,
    *,
    stride: Any = 1,
    dilation: Any = 1,
    padding: Any = 0,
    padding_mode: str = "zeros",
    **_: Any,
) -> int:
    """How often, at most, an element of x stands in the padded x."""
    if padding_mode == "zeros":
        return 1
    strides, dilations = (per_axis("bounds", "option", value, len(kernel)) for value in (stride, dilation))
    widths = paddings("bounds", padding, padding_mode, lengths, kernel, strides, dilations)
    sources = (pad(np.arange(n), [width], mode=padding_mode) for n, width in zip(lengths, widths, strict=True))
    return math.prod(int(np.bincount(source).max()) for source in sources)
