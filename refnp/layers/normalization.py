"""Layer normalisation: every row of features gets mean 0 and standard deviation 1.

    μ = (1/D) Σᵢ xᵢ        σ² = (1/D) Σᵢ (xᵢ − μ)²        yᵢ = γᵢ x̂ᵢ + βᵢ,   x̂ᵢ = (xᵢ − μ) / √(σ² + ε)

and RMS normalisation, which leaves the mean where it is: yᵢ = γᵢ xᵢ / √(mean(x²) + ε).

Source: Sivaraya (2023) §1.5 (no ε, no γ, β: `layer_norm(x, eps=0.0)`); Ba, Kiros & Hinton (2016);
Zhang & Sennrich (2019).
Elsewhere: PyTorch ε = 1e-5, flax 1e-6, Keras 1e-3; the Annotated Transformer divides by D − 1 and adds ε outside
the root.

Transcription: tests/transcriptions/rows.py.
"""

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.kernels.blocks import column_sum, result_block, row_dot, row_sum, rowwise
from refnp.layers.module import Module


@primitive
@takes("x (..., *D ≥ 1), gain (*D) or (), shift (*D) or () → (..., *D)", axis="axes of x", eps="≥ 0")
@rowwise
def layer_norm(x, gain=1.0, shift=0.0, *, axis=-1, eps=1e-5):
    """y = γ (x − μ)/√(σ² + ε) + β over `axis` (an int or several), γ the `gain`, β the `shift`, ε the `eps`.

    Shapes: x (..., D), gain and shift (D,) or scalars → y (..., D); over several axes, gain and shift have their shape.
    The variance is the population's, taken from the centred values (E[x²] − E[x]² would cancel).
    A constant row gives x̂ = 0, so y = β, with ε = 0 too (there Sivaraya (2023) divides by zero; the gradient is 0).
    Raises ValueError if an axis is empty or out of range, if ε is negative, or if gain or shift do not fit.

    VJP, with s = √(σ² + ε) and ŷ = γ ȳ. Both μ and σ depend on every xᵢ; the chain rule through
    x̂ = (x − μ)/s removes from ŷ its mean and its part along x̂:

        x̄ = (ŷ − mean(ŷ) − x̂ mean(ŷ x̂)) / s        γ̄ = Σ_rows ȳ x̂        β̄ = Σ_rows ȳ
    """

    def standardized(x, eps):
        centred = x - row_mean(x)  # (R, D)   x − μ
        variance = mean_product(centred, centred)  # (R, 1)   σ²
        centre_again(centred, variance)
        scale = root(variance + eps)  # (R, 1)   s
        centred /= scale
        return centred, scale

    unit, scale = for_any_size_of_rows(standardized, x, eps)  # (R, D), (R, 1)   x̂, s

    def vjp(y_bar):
        along = y_bar * unit  # (R, D)   ȳ x̂
        gain_bar, shift_bar = sum_of_rows(along, gain), sum_of_rows(y_bar, shift)
        x_bar = np.multiply(y_bar, gain, out=result_block(along.dtype))  # (R, D)   ŷ
        x_bar -= row_mean(x_bar)
        if x.shape[-1] == 2:  # there is nothing beside the part along x̂
            x_bar *= left_along_unit(scale, eps)
        else:
            x_bar -= np.multiply(unit, mean_product(along, gain), out=along)
        divide_rows(x_bar, scale)
        return x_bar, gain_bar, shift_bar

    y = np.multiply(unit, gain, out=result_block())
    y += shift
    return y, vjp


@primitive
@takes("x (..., *D ≥ 1), gain (*D) or () → (..., *D)", axis="axes of x", eps="≥ 0")
@rowwise
def rms_norm(x, gain=1.0, *, axis=-1, eps=1e-5):
    """y = γ x/s with s = √((1/D) Σᵢ xᵢ² + ε) over `axis` (an int or several), γ the `gain`, ε the `eps`; x̂ = x/s.

    Shapes: x (..., D), gain (D,) or scalar → y (..., D); over several axes, gain has their shape.
    A row of zeros gives 0, with ε = 0 too (and gradient 0).
    Raises ValueError if an axis is empty or out of range, if ε is negative, or if gain does not fit.
    VJP: layer_norm's without the mean, x̄ = (ŷ − x̂ mean(ŷ x̂)) / s with ŷ = γ ȳ, and γ̄ = Σ_rows ȳ x̂.
    Source: Zhang & Sennrich (2019), eq. 4 (no ε); PyTorch's default ε is the dtype's machine epsilon.
    """

    def standardized(x, eps):
        scale = root(mean_product(x, x) + eps)  # (R, 1)   s
        return x / scale, scale

    unit, scale = for_any_size_of_rows(standardized, x, eps)  # (R, D), (R, 1)   x̂, s

    def vjp(y_bar):
        u_bar = y_bar * gain  # (R, D)   ŷ
        x_bar = u_bar - unit * mean_product(u_bar, unit)  # (R, D)
        if x.shape[-1] == 1:  # there is nothing beside the part along x̂
            x_bar = u_bar * left_along_unit(scale, eps)
        divide_rows(x_bar, scale)
        return x_bar, sum_of_rows(y_bar * unit, gain)

    return np.multiply(unit, gain, out=result_block()), vjp


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
        self.gain = Parameter(np.ones(shape)) if affine else 1.0
        self.shift = Parameter(np.zeros(shape)) if affine and bias else 0.0
        self.eps = eps

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return layer_norm(x, self.gain, self.shift, axis=self.axis, eps=self.eps)


class RMSNorm(Module):
    """`rms_norm` over the last axis with its own gain γ (ones), (features,).

    Shapes: x (..., features) → the same.   `eps` is the ε ≥ 0 that is added to the mean of the squares.
    `features` may be a tuple, the lengths of several last axes that are normalised together.
    Raises TypeError unless features are integers, ValueError unless they are positive.
    """

    @takes("", features="whole ≥ 1 per axis", eps="≥ 0")
    def __init__(self, features: int | tuple[int, ...], *, eps: float = 1e-5):
        shape, self.axis = last_axes(features)
        self.gain = Parameter(np.ones(shape))
        self.eps = eps

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return rms_norm(x, self.gain, axis=self.axis, eps=self.eps)


@np.errstate(over="ignore", invalid="ignore")
def for_any_size_of_rows(standardized, x, eps):
    """x̂ (R, D) and s (R, 1) by `standardized(x, eps)`; rows whose squares overflow or underflow are computed again.

    They are computed in units of their own size, a power of two: x̂ is the same, and s is that size times as large.
    Constant rows, beside which ε in these units is nothing, are taken for rows of 0: s is √ε.
    """
    unit, scale = standardized(x, eps)
    smallest = np.sqrt(x.shape[-1] * np.finfo(x.dtype).tiny)
    in_range = (smallest <= scale.real) & (scale.real < np.inf)
    if not in_range.all():
        size = np.maximum(np.abs(x.real).max(-1, keepdims=True), eps**0.5)  # (R, 1)
        rows = np.flatnonzero(~in_range & (size > 0) & (size < np.inf))
        own = np.ldexp(np.ones_like(size), np.frexp(size)[1] - 1)[rows]
        unit[rows], scale[rows] = standardized(x[rows] / own, eps / own / own)
        scale[rows] *= own
        lost = (eps / own / own < np.finfo(x.dtype).tiny)[:, 0] & ~unit.real[rows].any(-1)
        if eps and lost.any():
            constant = x[rows[lost]]
            unit[rows[lost]], scale[rows[lost]] = for_any_size_of_rows(standardized, constant - constant[:, :1], eps)
    return unit, scale


def centre_again(centred, variance):
    """Subtract, in place, what is left of the mean, in rows where the rounding error of μ is not small beside σ."""
    rest = row_mean(centred)  # (R, 1)
    far = np.abs(rest.real) > np.finfo(centred.dtype).eps / 4 * np.sqrt(variance.real)
    if far.any():
        centred -= np.where(far, rest, 0)
        variance[...] = mean_product(centred, centred)


def left_along_unit(scale, eps):
    """1 − mean(x̂²) = ε/s²: what is left of ŷ along x̂, with the digits that a difference of numbers near 1 loses."""
    return eps / scale / scale


def root(square):
    """√ of each row's σ² + ε; ∞ for a constant row with ε = 0, so that x̂ and its gradient are 0 and not 0/0."""
    scale = np.sqrt(square)
    return np.where(scale.real == 0, np.inf, scale)


def divide_rows(x, scale):
    """x /= s, in place; 0 where s is ∞, for of complex numbers NumPy's x/∞ is NaN."""
    if x.dtype.kind != "c":
        x /= scale
        return
    constant = np.isinf(scale.real)
    x /= np.where(constant, 1, scale)
    x[constant[:, 0]] = 0


def row_mean(x):
    """(1/D) Σᵢ xᵢ of each row, (R, D) → (R, 1)."""
    return row_sum(x) / x.shape[-1]


def mean_product(x, y):
    """(1/D) Σᵢ xᵢ yᵢ of each row, (R, D) and (R, D), (D,) or a scalar → (R, 1)."""
    return (row_dot(x, y) if np.ndim(y) else row_sum(x * y)) / x.shape[-1]


def sum_of_rows(bars, parameter):
    """Σ_rows of the gradients, in the shape of the parameter, (D,) or (); None for a Python number, a constant."""
    if isinstance(parameter, (int, float)):
        return None
    return column_sum(bars) if np.ndim(parameter) else bars.sum()


def last_axes(features: int | tuple[int, ...]) -> tuple[tuple[int, ...], int | tuple[int, ...]]:
    """The shape of what is normalised together, and its axes, the last ones."""
    shape = features if isinstance(features, tuple) else (features,)
    return shape, -1 if len(shape) == 1 else tuple(range(-len(shape), 0))
