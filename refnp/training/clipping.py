"""Clipping: all gradients of a model shortened together, so that their common length is at most c.

    ‖g‖ = √(Σ_p Σ_i g_{p,i}²)        g_p ← g_p · min(1, c/‖g‖)

The direction stays; one bad batch can move the model no further than c allows.

Source: Pascanu, Mikolov & Bengio, On the difficulty of training recurrent neural networks, arXiv 1211.5063 (ICML
2013), alg. 1.
Elsewhere: torch.nn.utils.clip_grad_norm_ multiplies by min(1, c/(‖g‖ + 1e-6)), so that what is clipped becomes shorter
than c by 1e-6 c/‖g‖, and gradients just below c shrink a little as well; here, as in optax and TensorFlow, there is no
such constant. PyTorch's sum of float32 gradients is a float32, and infinite from 2e19 on; a NaN makes all of them NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from refnp.autograd import Parameter

# A sum of squares in between these lost nothing to underflow and nothing to overflow.
SMALLEST = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps ** 2)
LARGEST = float(np.finfo(np.float64).max)


def clip_gradients(parameters: Mapping[str, Parameter] | Iterable[Parameter], norm: float) -> float:
    """Scale the gradients in `.grad` so that their common length is at most `norm`; returns the length they had.

    Gradients that are short enough keep their bits; the others are replaced by new arrays of the same dtype. The sum
    is float64 (longdouble for longdouble), scaled by a power of two if it over- or underflows: huge gradients are
    clipped as they should be. Parameters without a gradient are left out; `norm` = inf measures and changes nothing.

    `parameters` are Parameters, or a dict of them by name, `dict(module.named_parameters())`, for better messages.
    Raises FloatingPointError that names the first parameter with a NaN or infinite gradient, and nothing is changed;
    ValueError unless `norm` is positive, TypeError for complex gradients.
    """
    if not norm > 0:
        raise ValueError(f"clip_gradients: norm is {norm}; it must be positive")
    named = parameters if isinstance(parameters, Mapping) else {f"parameters[{i}]": p for i, p in enumerate(parameters)}
    gradients = {name: p.grad for name, p in named.items() if p.grad is not None}
    for name, g in gradients.items():
        if g.dtype.kind != "f":
            raise TypeError(f"clip_gradients: the gradient of {name} is {g.dtype}; pass parameters with real gradients")

    exponent, square = 0, _square(gradients, 0)
    if not SMALLEST < square <= LARGEST:
        exponent = _exponent(gradients)
        square = _square(gradients, exponent)
    length = np.sqrt(square)  # of the gradients divided by 2 to the exponent
    with np.errstate(over="ignore"):
        total = np.ldexp(length, exponent)
    if total > norm:
        factor = norm / length
        clipped = {name: (_scaled(g, exponent) * factor).astype(g.dtype) for name, g in gradients.items()}
        for name, g in clipped.items():
            named[name].grad = g
    return total.item()


def _square(gradients: Mapping[str, np.ndarray], exponent: int) -> Any:
    """Σ (g/2^exponent)², in at least float64."""
    with np.errstate(over="ignore"):
        return sum((np.square(_scaled(g, exponent)).sum() for g in gradients.values()), np.float64(0))


def _scaled(gradient: np.ndarray, exponent: int) -> np.ndarray:
    """g/2^exponent in at least float64: exact, but for what becomes too small to matter beside the largest."""
    wide = gradient.astype(np.result_type(gradient, np.float64), copy=False)
    return np.ldexp(wide, -exponent) if exponent else wide


def _exponent(gradients: Mapping[str, np.ndarray]) -> int:
    """That of the largest |g|, 0 if all are 0; FloatingPointError if one is NaN or infinite."""
    largest = np.float64(0)
    for name, g in gradients.items():
        if not np.isfinite(g).all():
            bad = g[~np.isfinite(g)]
            raise FloatingPointError(
                f"clip_gradients: the gradient of {name} is {bad[0]} in {bad.size} of {g.size} elements; nothing was "
                "changed; look for overflow or a division by 0 in the loss"
            )
        largest = np.maximum(largest, np.abs(g).max(initial=0))
    return int(np.frexp(largest)[1])
