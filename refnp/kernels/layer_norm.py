"""LayerNorm and RMSNorm on arrays of floats: in blocks of rows, for rows of any size.

Rows whose squares overflow or underflow are computed in units of their own size, and what rounding leaves of the mean
is taken off once more; in longdouble and for the complex step too. The pages are refnp/layers/layer_norm.py, and
refnp/layers/group_norm.py, which has `standardized` from here.
"""

import numpy as np

from refnp.kernels.blocks import result_block, row_dot, row_sum, rowwise
from refnp.numbers.summation import column_sum


@rowwise
def layer_norm(x, gain=1.0, shift=0.0, *, eps):
    """y = γ (x − μ)/√(σ² + ε) + β of rows (R, D)."""

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
            x_bar += along - along  # NaN in a row with NaN, where on the way back 0 times it is 0
        else:
            x_bar -= np.multiply(unit, mean_product(along, gain), out=along)
        divide_rows(x_bar, scale)
        return x_bar, gain_bar, shift_bar

    y = np.multiply(unit, gain, out=result_block())
    y += shift
    return y, vjp


def standardized(x, eps, axes=-1):
    """x̂ = (x − μ)/√(σ² + ε) over `axes`, and the function from ŷ to x̄: the part of that name of pages."""
    unit, vjp = layer_norm(x, axis=axes, eps=eps)
    return unit, lambda u_bar: vjp(u_bar)[0]


@rowwise
def rms_norm(x, gain=1.0, *, eps):
    """y = γ x/√(mean(x²) + ε) of rows (R, D)."""

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


def unit_rows(x):
    """u = x/|x| of rows (..., d), in units of a power of two, so that no square overflows or vanishes."""
    _, power = np.frexp(np.abs(x).max(-1, keepdims=True, initial=0))  # (..., 1)
    unit = np.ldexp(x, -power)  # (..., d)
    length = np.sqrt((unit * unit).sum(-1, keepdims=True))  # (..., 1)
    zero = length == 0
    length[zero] = 1
    unit /= length

    def vjp(unit_bar):
        along = (unit * unit_bar).sum(-1, keepdims=True)  # (..., 1)
        x_bar = np.ldexp((unit_bar - unit * along) / length, -power)  # (..., d)
        return (np.where(zero, 0, x_bar),)

    return unit, vjp


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
