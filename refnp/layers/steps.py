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
from refnp.autograd.tensor import Tensor
from refnp.layers.set_convolutions import Grid, eq, set_convolution
from refnp.numbers.arrays import floating

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
