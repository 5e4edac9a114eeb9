"""The layers in steps, as `refnp.explain(…, expand=True)` opens them: the equation of each line, and its value.

Every other page computes its gradient in one formula, by hand. Here stands the same arithmetic once more in operations
of the engine, which give the gradient of each step; nothing is saved at extreme inputs, and nothing is checked. Values
and gradients are held against those of the pages within the bounds that judge any framework
(tests/layers/test_steps.py). A row maximum is a constant, for it changes no weight.

A form yields (equation, value) for each step and returns its result; it returns None for what it does not open.
"""

from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.autograd.explanation.opening import Steps, steps_of
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, Tensor
from refnp.layers.dot_product_attention import attention, attention_with_weights, scale_of, soft_capped
from refnp.layers.set_convolutions import Grid, eq, set_convolution
from refnp.numbers.arrays import floating


def log_softmax_steps(x: Any, *, axis: Any = -1) -> Steps:
    """The row maximum, the logarithm of the sum of exponentials, and the difference."""
    m = _maximum(x, axis)
    yield "m = max_j x_j, a constant", m
    s = x - m
    yield "s_i = x_i − m", s
    log_total = ad.log(ad.sum(ad.exp(s), axis, keepdims=True))
    yield "log Z = log Σ_j exp(s_j)", log_total
    y = s - log_total
    yield "log p_i = s_i − log Z", y
    return y


def _maximum(x: Any, axis: Any) -> Array:
    """The maximum along the axis, 0 where it is −∞."""
    m = np.asarray(raw(x)).real.max(axis, keepdims=True)
    return np.where(m == -np.inf, 0, m)


# ---- attention


@steps_of(attention)
def attention_steps(
    query: Any, key: Any, value: Any, bias: Any = None, *, mask: Any = None, scale: Any = None, softcap: Any = None,
    dropout: float = 0.0, rng: Any = None, method: str = "auto",
) -> Steps:  # fmt: skip
    """Scaled scores, the bias, the mask, the row maximum, weights, and the mean of the values."""
    output, _ = yield from _attend(query, key, value, bias, mask, scale, softcap)
    return output


@steps_of(attention_with_weights)
def attention_with_weights_steps(
    query: Any, key: Any, value: Any, bias: Any = None, *, mask: Any = None, scale: Any = None, softcap: Any = None,
    dropout: float = 0.0, rng: Any = None,
) -> Steps:  # fmt: skip
    """The same, with the weights."""
    return (yield from _attend(query, key, value, bias, mask, scale, softcap))


def _attend(query: Any, key: Any, value: Any, bias: Any, mask: Any, scale: Any, softcap: Any) -> Steps:
    query, key, value = (a if isinstance(a, Tensor) else floating(a) for a in (query, key, value))
    factor = scale_of(scale, raw(query))
    scores = ad.matmul(query, ad.swapaxes(key, -1, -2)) * factor
    yield f"S = scale · Q Kᵀ, scale = {factor:.4g}", scores
    if softcap is not None:
        scores = soft_capped(scores, softcap)
        yield f"S ← c tanh(S/c), c = {softcap:.4g}", scores
    if bias is not None:
        scores = scores + bias
        yield "S ← S + bias", scores
    if mask is not None:
        scores = ad.where(np.asarray(mask), scores, -np.inf)
        yield "S ← S where the mask allows, else −∞", scores
    m = _maximum(scores, -1)
    yield "m_n = max_m S_nm, a constant", m
    e = ad.exp(scores - m)
    yield "E_nm = exp(S_nm − m_n)", e
    total = ad.sum(e, -1, keepdims=True)
    yield "Z_n = Σ_m E_nm", total
    if not np.all(raw(total)):  # a query that may attend to nothing
        total = ad.where(raw(total) == 0, 1, total)
    a = e / total
    yield "A = E / Z, the weights", a
    output = ad.matmul(a, value)
    yield "O = A V", output
    return output, a


# ---- set convolution


@steps_of(set_convolution)
def set_convolution_steps(
    target_x: Any, context_x: Any, context_y: Any, length_scale: Any, *, mask: Any = None, kernel: Any = eq,
    density: bool = True, divide: bool = False, eps: float = 1e-8, method: str = "auto",
) -> Steps:  # fmt: skip
    """Differences, squared distances, weights, the density and the signal. Grids stay closed."""
    if isinstance(target_x, Grid) or isinstance(context_x, Grid):
        return None
    target_x, context_x, context_y = (
        a if isinstance(a, Tensor) else floating(a) for a in (target_x, context_x, context_y)
    )
    each = np.ndim(raw(length_scale)) > 0  # a length scale for each channel
    difference = ad.expand_dims(target_x, -2) - ad.expand_dims(context_x, -3)
    yield "d_nm = x_n − x_m", ad.squeeze(difference, -1) if difference.shape[-1] == 1 else difference
    square = ad.sum(difference * difference, -1, keepdims=each)
    s = square / (length_scale * length_scale)
    yield "s_nm = |d_nm|²/ℓ²", s
    weights = primitive(_of_tensors(kernel))(s)
    if mask is not None:
        present = np.asarray(mask)[..., None, :]
        weights = ad.where(present[..., None] if each else present, weights, 0)
    yield "k_nm = k(s_nm), the weights", weights
    flags = int(density)
    parts = []
    if density:
        parts.append(ad.sum(weights[..., 0] if each else weights, -1, keepdims=True))
        yield "ρ_n = Σ_m k_nm, the density", parts[0]
    if context_y.shape[-1]:
        if each:
            signal = ad.einsum("...nmc,...mc->...nc", weights[..., flags:], context_y)
        else:
            signal = ad.matmul(weights, context_y)
        yield "t_n = Σ_m k_nm y_m, the signal", signal
        if divide:
            signal = signal / (parts[0] + eps)
            yield f"q_n = t_n/(ρ_n + ε), ε = {eps:.4g}", signal
        parts.append(signal)
    z = ad.concatenate(parts, -1) if len(parts) > 1 else parts[0]
    return z


def _of_tensors(kernel: Any) -> Any:
    """A kernel s → (k(s), function for k′(s)) as an operation."""

    def weights(s):
        k, slope = kernel(s)
        return k, lambda bar: (bar * slope(),)

    return weights
