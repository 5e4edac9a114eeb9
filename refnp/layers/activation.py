"""Activations: the nonlinear functions between linear maps, element by element.

    relu max(x, 0)      leaky_relu x or a x      elu x or a(eˣ − 1)      sigmoid σ(x) = 1/(1 + e^(−x))
    softplus log(1 + eˣ)      silu x σ(x)      gelu x Φ(x), Φ the normal distribution function

No exponential overflows, and 1 − σ is never formed; no tail loses digits, but gelu's left one, by x² roundings.
The first two and elu have a kink at 0 and take the left side's slope there. In every VJP, x̄ = ȳ f'(x).
Kernels (float16, 32 and 64) give the limits at ±∞, for silu and gelu too (these lines, PyTorch and JAX: NaN), and the
slope NaN at NaN (these lines: relu 1, leaky_relu a). Shapes: any → the same. TypeError for an option of no number.
Source: Sivaraya (2023) §1.5 (feed-forward); Hendrycks & Gimpel (2016), arXiv 1606.08415 (GELU);
Clevert et al. (2016), arXiv 1511.07289 (ELU).

Words: layers/__init__.py.   Transcription: tests/transcriptions/activations.py.   Kernel: refnp/kernels/activation.py.
"""

import numpy as np

from refnp.autograd.pages import page
from refnp.kernels import activation as kernels
from refnp.numbers.parts import part
from refnp.numbers.words import constant, erfc, pi, root

__all__ = ["elu", "gelu", "leaky_relu", "relu", "sigmoid", "silu", "softplus"]  # these are names of refnp.layers too


@page("x (...) → (...)", kernel=kernels.relu)
def relu(x):
    """y = max(x, 0).   VJP: x̄ = ȳ where x > 0, else 0 (also at the kink, as everywhere else)."""
    y = np.where(x <= 0, 0, x)

    def vjp(y_bar):
        x_bar = np.where(x <= 0, 0, y_bar)
        return (x_bar,)

    return y, vjp


@page("x (...) → (...)", slope="number", kernel=kernels.leaky_relu)
def leaky_relu(x, *, slope=0.01):
    """y = x for x > 0, else `slope` · x.   VJP: x̄ = ȳ or `slope` ȳ; at 0 the second. Slope 0 gives NaN at −∞."""
    a = constant(slope)
    y = np.where(x > 0, x, a * x)

    def vjp(y_bar):
        x_bar = np.where(x > 0, y_bar, a * y_bar)
        return (x_bar,)

    return y, vjp


@page("x (...) → (...)", alpha="number")
def elu(x, *, alpha=1.0):
    """y = x for x > 0, else α (eˣ − 1).   VJP: x̄ = ȳ for x > 0, else ȳ α eˣ. With α = 1 there is no kink."""
    a, below = constant(alpha), np.where(x.real > 0, 0, x)
    y = np.where(x > 0, x, a * np.expm1(below))

    def vjp(y_bar):
        x_bar = np.where(x > 0, y_bar, y_bar * (a * np.exp(below)))
        return (x_bar,)

    return y, vjp


@page("x (...) → (...)", kernel=kernels.sigmoid)
def sigmoid(x):
    """y = σ(x) = 1 / (1 + e^(−x)).   VJP: x̄ = ȳ σ(x) (1 − σ(x)), with 1 − σ(x) as σ(−x)."""
    y = logistic(x)

    def vjp(y_bar):
        x_bar = y_bar * logistic_slope(x)
        return (x_bar,)

    return y, vjp


@part
def logistic(x):
    """σ(x) = 1/(1 + e^(−x)), or eˣ/(1 + eˣ) for negative x: neither overflows."""
    e = np.exp(np.where(x.real > 0, -x, x))
    return np.where(x.real > 0, 1, e) / (1 + e)


@part
def logistic_slope(x):
    """σ'(x) = σ(x) σ(−x), which keeps its digits in both tails."""
    return logistic(x) * logistic(-x)


@part
def log_of_one_more(x, scaled, beta):
    """log(1 + e^(βx))/β = max(x, 0) + log1p(e^(−β|x|))/β, which overflows nowhere; βx is `scaled`."""
    rest = np.log1p(np.exp(np.where(x.real > 0, -scaled, scaled)))
    return np.where(x.real > 0, x, 0) + (rest if beta == 1 else rest / constant(beta))


@page("x (...) → (...)", beta="positive", threshold="number?", kernel=kernels.softplus)
def softplus(x, *, beta=1.0, threshold=None):
    """y = log(1 + e^(βx))/β = max(x, 0) + log1p(e^(−β|x|))/β, which tends to max(x, 0) as β grows.   VJP: x̄ = ȳ σ(βx).

    threshold: where βx is larger, y = x and x̄ = ȳ. None is needed here, and none is the default: the equation loses no
    digit and overflows nowhere. It is for comparing with PyTorch, where it is 20 by default, and y there less than it
    should be by e^(−βx)/β: at 20 by 2·10⁻⁹, which float64 shows and float32 does not.
    Raises ValueError unless β is positive and finite.
    """
    limit = np.inf if threshold is None else threshold
    scaled = x if beta == 1 else constant(beta) * x
    y = np.where(scaled > limit, x, log_of_one_more(x, scaled, beta))

    def vjp(y_bar):
        x_bar = np.where(scaled > limit, y_bar, y_bar * logistic(scaled))
        return (x_bar,)

    return y, vjp


@page("x (...) → (...)", kernel=kernels.silu)
def silu(x):
    """y = x σ(x), also called swish.   VJP: x̄ = ȳ (σ(x) + x σ(x) σ(−x))."""
    weight = logistic(x)
    y = x * weight

    def vjp(y_bar):
        slope = weight + x * logistic_slope(x)
        x_bar = y_bar * slope
        return (x_bar,)

    return y, vjp


@page("x (...) → (...)", approximate="none | tanh", kernel=kernels.gelu)
def gelu(x, *, approximate="none"):
    """y = x Φ(x), Φ(x) = ½ erfc(−x/√2); or with `approximate="tanh"` y = ½ x (1 + tanh u) = x σ(2u), where
    u = √(2/π) (x + 0.044715 x³).

    VJP: x̄ = ȳ (Φ(x) + x φ(x)), φ(x) = e^(−x²/2)/√(2π);   for tanh x̄ = ȳ (σ(2u) + 2 x u' σ(2u) σ(−2u)).
    Raises ValueError for another `approximate`. The slope of these lines for tanh is NaN where x³ overflows.
    Elsewhere: PyTorch defaults to the first, jax.nn.gelu and flax to the second. ½ x (1 + erf(x/√2)), as it is often
    written, has no correct digit left of x = −6 in float32.
    """
    weight, density = of_tanh(x) if approximate == "tanh" else of_normal(x)
    y = x * weight

    def vjp(y_bar):
        slope = weight + x * density
        x_bar = y_bar * slope
        return (x_bar,)

    return y, vjp


@part
def of_normal(x):
    """Φ(x) = ½ erfc(−x/√2) and φ(x) = e^(−x²/2)/√(2π)."""
    weight = erfc(-(root(constant(1) / 2) * x)) / 2
    density = np.exp(-(x * x) / 2) / root(2 * pi)
    return weight, density


@part
def of_tanh(x):
    """σ(2u) and its derivative 2u' σ(2u) σ(−2u)."""
    a, c = 2 * root(2 / pi), constant(44_715) / 1_000_000
    double_u = a * (x + c * (x * x * x))
    density = a * (1 + 3 * (c * (x * x))) * logistic_slope(double_u)
    return logistic(double_u), density
