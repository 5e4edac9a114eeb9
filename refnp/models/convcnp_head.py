"""The way back of a ConvCNP: from features on a grid to a distribution at any x.

    f(x) = Σ_k h_k exp(−|g_k − x|²/2ℓ²)        (μ, s) = MLP(f(x))        σ = log(1 + eˢ), or as asked for

Source: Sivaraya (2023), eq. 11 and 12; Gordon et al., arXiv 1910.13556, and its code: σ; Bruinsma, neuralprocesses: σ².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.layers.activations import softplus
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP
from refnp.layers.module import Module
from refnp.layers.set_convolution import SetConvolution
from refnp.models.convcnp_window import from_grid
from refnp.models.neural_process import normal_of

DEVIATIONS = ("softplus", "exp", "softplus_variance")


class FromGrid(Module):
    """From features on a grid to answers at any x: f(x) = Σ_k h_k k(g_k − x), then an MLP with widths `sizes`, or none.

    Shapes: x (B, T, dx) as distances from the first place, features (B, C, *lengths) → (B, T, sizes[-1]).
    """

    def __init__(
        self,
        channels: int,
        sizes: Sequence[int] | None,
        length_scale: float,
        shared: bool = False,
        *,
        rng: np.random.Generator,
    ):
        self.convolution = SetConvolution(channels, length_scale, density=False, shared=shared)
        self.mlp = None if sizes is None else MLP([channels, *sizes], rng=rng)

    def __call__(self, x: Any, features: Any, points_per_unit: float) -> Any:
        scales = scales_of(self.convolution, features.shape[1])
        f = from_grid(features, x, scales, points_per_unit=points_per_unit)  # (B, T, C)
        return f if self.mlp is None else self.mlp(f)


def scales_of(convolution: SetConvolution, channels: int) -> Any:
    """The length scale of each channel, (channels,)."""
    return ag.broadcast_to(ag.exp(convolution.log_length_scale), (channels,))


def normal_from(answers: Any, deviation: str, floor: float) -> Normal:
    """N(μ, σ²) from [μ, s] (B, T, 2 dy), with f = `floor`, the least σ:

    "softplus"             σ = f + (1 − f) log(1 + eˢ), as `normal_of`
    "exp"                  σ = f + eˢ
    "softplus_variance"    σ² = f² + log(1 + eˢ)
    """
    if deviation == "softplus":
        return normal_of(answers, floor)
    mean, spread = ag.split(answers, 2, -1)  # (B, T, dy)
    if deviation == "exp":
        return Normal(mean, ag.exp(spread) + floor)
    return Normal(mean, ag.sqrt(softplus(spread) + floor**2))
