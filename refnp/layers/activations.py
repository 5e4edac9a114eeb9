"""Activations: the nonlinear functions between linear maps, element by element.

    relu max(x, 0)      leaky_relu x or a x      elu x or a(eˣ − 1)      sigmoid σ(x) = 1/(1 + e^(−x))
    softplus log(1 + eˣ)      silu x σ(x)      gelu x Φ(x), Φ the normal distribution function

All are written so that neither tail loses digits or overflows: exponentials are of −|x|, and 1 − σ is never formed.
Infinite arguments give the limits, for silu and gelu too (there PyTorch and JAX give NaN). At a NaN value and slope
are NaN.
The first two and elu have a kink at 0 and take the left side's slope there. Complex values decide by the real part.
In every VJP, x̄ = ȳ f'(x). Shapes: any → the same. float16 is computed in float32, and rounded once.
Source: Sivaraya (2023) §1.5 (feed-forward); Hendrycks & Gimpel (2016), arXiv 1606.08415 (GELU);
Clevert et al. (2016), arXiv 1511.07289 (ELU).

Transcription: tests/transcriptions/activations.py.
"""

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.elementary import log1p_of
from refnp.autograd.primitives import primitive
from refnp.kernels.blocks import elementwise, result_block
from refnp.numbers.special import in_precision, normal_cdf_of

__all__ = ["elu", "gelu", "leaky_relu", "relu", "sigmoid", "silu", "softplus"]  # these are names of refnp.layers too

ROOT_EIGHT_OVER_PI = np.longdouble("1.59576912160573071175978423973752747")
CUBIC = np.longdouble("0.044715")
NUMBER = (int, float, np.integer, np.floating)
SIGMOID_VANISHES = 12_000.0  # from here on e^(−x) is 0 in every precision
MODERATE = 80.0  # up to here e^x neither over- nor underflows in any precision


@primitive
@takes("x (...) → (...)")
@elementwise
def relu(x):
    """y = max(x, 0).   VJP: x̄ = ȳ where x > 0, else 0 (also at the kink, as everywhere else)."""
    # clip takes a third of the time of np.maximum(x, 0), whose loop for a single number is not vectorised
    if x.dtype.kind == "c":
        y = np.where(x.real > 0, x, np.where(np.isnan(x.real), np.nan * x, 0))
    else:
        y = np.clip(x, 0, np.inf, out=result_block())

    def vjp(y_bar):
        slope = y.real > 0
        if np.isnan(y.real.max(initial=0)):
            slope = np.where(np.isnan(y.real), np.nan, slope)
        x_bar = y_bar * slope
        return (x_bar,)

    return y, vjp


@primitive
@takes("x (...) → (...)", slope="number")
@elementwise
def leaky_relu(x, *, slope=0.01):
    """y = x for x > 0, else `slope` · x.   VJP: x̄ = ȳ or `slope` ȳ; at the kink 0 the second."""
    factor = np.where(x.real > 0, 1, slope).astype(x.real.dtype)
    factor = np.where(np.isnan(x.real), np.nan, factor)
    return np.multiply(x, factor, out=result_block()), lambda y_bar: (y_bar * factor,)


@primitive
@takes("x (...) → (...)", alpha="number")
@elementwise
def elu(x, *, alpha=1.0):
    """y = x for x > 0, else α (eˣ − 1).   VJP: x̄ = ȳ for x > 0, else ȳ α eˣ. With α = 1 there is no kink."""
    positive = x.real > 0
    below = np.where(positive, 0, x)
    y = np.where(positive, x, alpha * np.expm1(below))
    return y, lambda y_bar: (y_bar * np.where(positive, 1, alpha * np.exp(below)),)


@primitive
@takes("x (...) → (...)")
@elementwise
def sigmoid(x):
    """y = σ(x) = 1 / (1 + e^(−x)).   VJP: x̄ = ȳ σ(x) (1 − σ(x)), with 1 − σ(x) as σ(−x)."""
    y, slope = sigmoid_of(x)
    return y, lambda y_bar: (_sloped(y_bar, slope),)


@primitive
@takes("x (...) → (...)", beta="positive", threshold="number?")
@elementwise
def softplus(x, *, beta=1.0, threshold=None):
    """y = log(1 + e^(βx))/β = max(x, 0) + log1p(e^(−β|x|))/β, which tends to max(x, 0) as β grows.   VJP: x̄ = ȳ σ(βx).

    threshold: where βx is larger, y = x and x̄ = ȳ. None is needed here, and none is the default: the equation loses no
    digit and overflows nowhere. It is for comparing with PyTorch, where it is 20 by default, and y there less than it
    should be by e^(−βx)/β: at 20 by 2·10⁻⁹, which float64 shows and float32 does not.
    Raises ValueError unless β is a finite number above 0, and the threshold a number or None.
    """
    positive = x.real > 0
    scaled = x if beta == 1 else _scaled(x, beta)
    small = log1p_of(np.exp(np.where(positive, -scaled, scaled)))
    y = np.where(positive, x, 0) + (small if beta == 1 else small / beta)
    if threshold is None:
        return y, lambda y_bar: (y_bar * sigmoid_of(scaled)[0],)
    linear = scaled.real > threshold
    return np.where(linear, x, y), lambda y_bar: (y_bar * np.where(linear, 1, sigmoid_of(scaled)[0]),)


def _scaled(x, beta):
    """βx, infinite without a warning where it overflows: e^(−β|x|) is 0 there."""
    with np.errstate(over="ignore"):
        return x * beta


@primitive
@takes("x (...) → (...)")
@elementwise
def silu(x):
    """y = x σ(x), also called swish.   VJP: x̄ = ȳ (σ(x) + x σ(x) σ(−x))."""
    sigma, slope = sigmoid_of(x)
    slope *= x if is_moderate(x) else np.clip(x, -SIGMOID_VANISHES, SIGMOID_VANISHES)
    slope += sigma
    return _weighted(x, sigma), lambda y_bar: (_sloped(y_bar, slope),)


@primitive
@takes("x (...) → (...)", approximate="none | tanh")
@elementwise
def gelu(x, *, approximate="none"):
    """y = x Φ(x), Φ(x) = ½ erfc(−x/√2); or with `approximate="tanh"` y = ½ x (1 + tanh u) = x σ(2u), where
    u = √(2/π) (x + 0.044715 x³).

    VJP: x̄ = ȳ (Φ(x) + x φ(x)), φ(x) = e^(−x²/2)/√(2π);   for tanh x̄ = ȳ (σ(2u) + 2 x u' σ(2u) σ(−2u)).
    Raises ValueError for another `approximate`.
    Elsewhere: PyTorch defaults to the first, jax.nn.gelu and flax to the second. ½ x (1 + erf(x/√2)), as it is often
    written, has no correct digit left of x = −6 in float32.
    """
    near = x if is_moderate(x) else np.clip(x, -SIGMOID_VANISHES, SIGMOID_VANISHES)  # beyond, x² may overflow
    if approximate == "none":
        weight, slope = normal_cdf_of(x)
        slope *= near
    else:
        root, cubic = (in_precision(x.dtype, c) for c in (ROOT_EIGHT_OVER_PI, CUBIC))
        square = near * near
        double_u = square * (root * cubic)
        double_u += root
        double_u *= near
        weight, slope = sigmoid_of(double_u)
        square *= 3 * root * cubic
        square += root
        square *= near
        slope *= square
    slope += weight
    return _weighted(x, weight), lambda y_bar: (_sloped(y_bar, slope),)


def _weighted(x, weight):
    """x · weight, for a weight that is 0 left of −SIGMOID_VANISHES: 0 there, at −∞ too, where 0 · ∞ would be NaN."""
    if is_moderate(x):
        return np.multiply(x, weight, out=result_block())
    y = np.maximum(x, -SIGMOID_VANISHES, out=result_block())
    y *= weight
    return y


def _sloped(y_bar, slope):
    """x̄ = ȳ f'(x), written where it belongs."""
    return np.multiply(y_bar, slope, out=result_block(np.result_type(y_bar, slope)))


def is_moderate(x):
    """Whether all x are real, and so small that neither x² nor e^x nor e^(−x) over- or underflows.

    This is for speed alone: to find the largest and the smallest takes a fifth of the care that other x need.
    """
    return x.dtype.kind == "f" and bool(x.size) and bool(x.min() > -MODERATE and x.max() < MODERATE)


def sigmoid_of(x):
    """σ(x) and σ'(x) = σ(x) σ(−x), both with full relative precision in both tails: with e = e^(−|x|),

    σ = 1/(1 + e) or e/(1 + e),   σ' = e/(1 + e)².

    Where e^(−x) does not overflow, it may stand for e on both sides, and σ is 1/(1 + e).
    """
    if is_moderate(x):
        e = np.negative(x)
        np.exp(e, out=e)
        bottom = e + 1
        sigma = 1 / bottom
        e /= bottom
        e /= bottom
        return sigma, e
    positive = x.real > 0
    if x.dtype.kind == "c":
        e = np.exp(np.where(positive, -x, x))
        top = np.where(positive, 1, e)
    else:  # the same; np.where takes ten times as long as arithmetic
        e = np.exp(-np.abs(x))
        top = np.maximum(e, positive)
    bottom = 1 + e
    sigma = top / bottom
    e /= bottom
    e /= bottom
    return sigma, e
