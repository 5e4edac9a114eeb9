"""Layer normalisation: every row of features gets mean 0 and standard deviation 1.

    μ = (1/D) Σᵢ xᵢ        σ² = (1/D) Σᵢ (xᵢ − μ)²        yᵢ = γᵢ x̂ᵢ + βᵢ,   x̂ᵢ = (xᵢ − μ) / √(σ² + ε)

and RMS normalisation, which leaves the mean where it is: yᵢ = γᵢ xᵢ / √(mean(x²) + ε).

Source: Sivaraya (2023) §1.5 (no ε, no γ, β: `layer_norm(x, eps=0.0)`); Ba, Kiros & Hinton (2016);
Zhang & Sennrich (2019).
Elsewhere: PyTorch ε = 1e-5, flax 1e-6, Keras 1e-3; the Annotated Transformer divides by D − 1 and adds ε outside
the root.

Words: layers/__init__.py.   Transcription: tests/transcriptions/rows.py.   Kernel: refnp/kernels/layer_norm.py.
"""

import numpy as np

from refnp.autograd.declaration import takes, takes_unchecked
from refnp.autograd.pages import page
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.kernels import layer_norm as kernels
from refnp.layers.module import Module
from refnp.numbers.parts import part
from refnp.numbers.words import constant, full, nonzero


@page(
    "x (..., *D ≥ 1), gain (*D) or (), shift (*D) or () → (..., *D)",
    axis="axes of x",
    eps="≥ 0",
    kernel=kernels.layer_norm,
    of_every_array=True,
)
def layer_norm(x, gain=1.0, shift=0.0, *, eps=1e-5):
    """y = γ (x − μ)/√(σ² + ε) + β over `axis` (an int or several), γ the `gain`, β the `shift`, ε the `eps`.

    Shapes: x (..., D), gain and shift (D,) or scalars → y (..., D); over several axes, gain and shift have their shape.
    The variance is the population's, taken from the centred values (E[x²] − E[x]² would cancel).
    A constant row gives y = β, with ε = 0 too, and then the gradient 0 (there Sivaraya (2023) divides by zero).
    Raises ValueError if an axis is empty or out of range, if ε is negative, or if gain or shift do not fit.

    VJP, with s = √(σ² + ε) and ŷ = γ ȳ, the gradient of x̂. Both μ and σ depend on every xᵢ; the chain rule through
    x̂ = (x − μ)/s removes from ŷ its mean, and its part along x̂ (all of it if ε = 0):

        x̄ = (ŷ − mean(ŷ) − x̂ mean(ŷ x̂)) / s        γ̄ = Σ_rows ȳ x̂        β̄ = Σ_rows ȳ
    """
    unit, unit_vjp = standardized(x, eps)  # (..., D)   x̂
    y = gain * unit + shift  # (..., D)

    def vjp(y_bar):
        u_bar = gain * y_bar  # (..., D)   ŷ
        x_bar = unit_vjp(u_bar)  # (..., D)
        gain_bar, shift_bar = y_bar * unit, y_bar  # (..., D)   the walk back sums over rows
        return x_bar, gain_bar, shift_bar

    return y, vjp


@part
def standardized(x, eps, axes=-1):
    """x̂ = (x − μ)/s with s = √(σ² + ε) over `axes`, the last one or several, x − μ where s is 0; and ŷ ↦ x̄."""
    centred = x - x.mean(axes, keepdims=True)  # (..., D)   x − μ
    scale = np.sqrt((centred**2).mean(axes, keepdims=True) + constant(eps))  # (..., 1)   s
    unit = centred / nonzero(scale)  # (..., D)   x̂

    def vjp(u_bar):
        along = (u_bar * unit).mean(axes, keepdims=True)  # (..., 1)
        x_bar = (u_bar - u_bar.mean(axes, keepdims=True) - unit * along) / nonzero(scale)  # (..., D)
        x_bar = np.where(scale.real == 0, 0, x_bar)  # of a constant row
        return x_bar

    return unit, vjp


@page(
    "x (..., *D ≥ 1), gain (*D) or () → (..., *D)",
    axis="axes of x",
    eps="≥ 0",
    kernel=kernels.rms_norm,
    of_every_array=True,
)
def rms_norm(x, gain=1.0, *, eps=1e-5):
    """y = γ x/s with s = √((1/D) Σᵢ xᵢ² + ε) over `axis` (an int or several), γ the `gain`, ε the `eps`; x̂ = x/s.

    Shapes: x (..., D), gain (D,) or scalar → y (..., D); over several axes, gain has their shape.
    A row of zeros gives 0, with ε = 0 too (and gradient 0).
    Raises ValueError if an axis is empty or out of range, if ε is negative, or if gain does not fit.
    VJP: layer_norm's without the mean, x̄ = (ŷ − x̂ mean(ŷ x̂)) / s with ŷ = γ ȳ, and γ̄ = Σ_rows ȳ x̂.
    Source: Zhang & Sennrich (2019), eq. 4 (no ε); PyTorch's default ε is the dtype's machine epsilon.
    """
    scale = np.sqrt((x**2).mean(-1, keepdims=True) + constant(eps))  # (..., 1)   s
    unit = x / nonzero(scale)  # (..., D)   x̂
    y = gain * unit  # (..., D)

    def vjp(y_bar):
        u_bar = gain * y_bar  # (..., D)   ŷ
        along = (u_bar * unit).mean(-1, keepdims=True)  # (..., 1)
        x_bar = np.where(scale.real == 0, 0, (u_bar - unit * along) / nonzero(scale))  # (..., D)
        gain_bar = y_bar * unit  # (..., D)   the walk back sums over rows
        return x_bar, gain_bar

    return y, vjp


class LayerNorm(Module):
    """`layer_norm` over the last axis with its own gain γ (ones) and shift β (zeros), both (features,).

    Shapes: x (..., features) → the same.   `eps` is the ε ≥ 0 that is added to the variance.
    `features` may be a tuple, the lengths of several last axes that are normalised together, as PyTorch's
    normalized_shape; gain and shift have that shape.
    With affine=False there is neither gain nor shift: the form that Sivaraya (2023) prints, with eps=0.0. With
    bias=False there is no shift.
    Raises TypeError unless features are integers, ValueError unless they are positive.
    """

    @takes("", features="whole ≥ 1 per axis", eps="≥ 0", **dict.fromkeys(("affine", "bias"), "True or False"))
    def __init__(self, features: int | tuple[int, ...], *, eps: float = 1e-5, affine: bool = True, bias: bool = True):
        shape, self.axis = last_axes(features)
        self.gain = Parameter(full(shape, 1.0)) if affine else 1.0
        self.shift = Parameter(full(shape, 0.0)) if affine and bias else 0.0
        self.eps = eps

    @takes_unchecked("x (..., *features) → (..., *features)")
    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return layer_norm(x, self.gain, self.shift, axis=self.axis, eps=self.eps)


class RMSNorm(Module):
    """`rms_norm` over the last axis with its own gain γ (ones), (features,).

    Shapes: x (..., features) → the same.   `features`, `eps` and what is raised are those of `LayerNorm`.
    """

    @takes("", features="whole ≥ 1 per axis", eps="≥ 0")
    def __init__(self, features: int | tuple[int, ...], *, eps: float = 1e-5):
        shape, self.axis = last_axes(features)
        self.gain = Parameter(full(shape, 1.0))
        self.eps = eps

    @takes_unchecked("x (..., *features) → (..., *features)")
    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return rms_norm(x, self.gain, axis=self.axis, eps=self.eps)


def last_axes(features: int | tuple[int, ...]) -> tuple[tuple[int, ...], int | tuple[int, ...]]:
    """The shape of what is normalised together, and its axes, the last ones."""
    shape = features if isinstance(features, tuple) else (features,)
    return shape, -1 if len(shape) == 1 else tuple(range(-len(shape), 0))
