"""Normalisation of channels: BatchNorm, InstanceNorm and GroupNorm bring channels to mean 0 and standard deviation 1.

    x̂ = (x − μ)/√(σ² + ε)        y_bcl = γ_c x̂_bcl + β_c

They differ in what μ and σ² are taken over, and LayerNorm with them:

    batch_norm       for each channel c, over the batch and all places       (the batch's, or statistics that are given)
    instance_norm    for each channel of each item, over its places
    group_norm       for each item and each group of C/G channels, over these channels and all places
    layer_norm       for each item and place, over the features

With one group, group_norm takes everything of an item together; with C groups it is instance_norm. Only batch_norm lets
items of a batch see each other, so that a set or a task in it changes the prediction for another one.

Source: Ioffe & Szegedy (2015); Ulyanov et al. (2016); Wu & He (2018).
Transcription: tests/transcriptions/rows.py.
"""

import math
from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.layer_norm import layer_norm
from refnp.layers.module import Module
from refnp.numbers.arrays import in_order


@explained
@takes(
    "x (B, groups·c ≥ 1, *L ≥ 1), gain (groups·c) or (), shift (groups·c) or () → (B, groups·c, *L)",
    groups="whole ≥ 1",
    eps="≥ 0",
)
def group_norm(
    x: ArrayLike, gain: ArrayLike = 1.0, shift: ArrayLike = 0.0, *, groups: int, eps: float = 1e-5
) -> Array | Tensor:
    """y = γ x̂ + β, with μ and σ² of each item over C/G neighbouring channels and all places, G = `groups`.

    Shapes: x (B, C, *lengths), gain and shift (C,) or scalars → y like x.
    The variance is the population's; a group that is constant gives x̂ = 0.
    Raises ValueError if x has no channels, if `groups` does not divide them, if ε is negative, or if gain or shift do
    not fit, TypeError unless `groups` is an integer.
    VJP: layer_norm's for each group as a row; γ̄_c = Σ_bl ȳ x̂ and β̄_c = Σ_bl ȳ.
    Source: Wu & He (2018), eq. 1 to 7.
    """
    x = x if isinstance(x, Tensor) else np.asarray(x)
    shape, (items, channels) = raw(x).shape, raw(x).shape[:2]
    rows = ad.reshape(x, (items, groups, channels // groups * math.prod(shape[2:])))  # (B, G, C/G · lengths)
    return _scaled(ad.reshape(layer_norm(rows, eps=eps), shape), gain, shift)


@explained
@takes("x (B, C ≥ 1, L ≥ 1, *Ls ≥ 1), gain (C) or (), shift (C) or () → (B, C, L, *Ls)", eps="≥ 0")
def instance_norm(x: ArrayLike, gain: ArrayLike = 1.0, shift: ArrayLike = 0.0, *, eps: float = 1e-5) -> Array | Tensor:
    """y = γ x̂ + β, with μ and σ² of each channel of each item over its places: group_norm with C groups.

    Shapes: x (B, C, *lengths), gain and shift (C,) or scalars → y like x. One place alone gives y = β.
    Raises ValueError if x has no axis of places, if ε is negative, or if gain or shift do not fit.
    VJP: layer_norm's for each channel of an item as a row.
    Source: Ulyanov et al. (2016), arXiv 1607.08022.
    """
    return group_norm(x, gain, shift, groups=np.shape(raw(x))[1], eps=eps)


@explained
@takes(
    "x (B, C ≥ 1, *L), gain (C) or (), shift (C) or () → (B, C, *L)",
    mean="(C) or ()?",
    variance="nonnegative (C) or ()?",
    eps="≥ 0",
)
def batch_norm(
    x: ArrayLike,
    gain: ArrayLike = 1.0,
    shift: ArrayLike = 0.0,
    *,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    eps: float = 1e-5,
) -> Array | Tensor:
    """y = γ (x − μ)/√(σ² + ε) + β, with μ and σ² of each channel over the batch and all places, or those given.

    Shapes: x (B, C, *lengths), gain, shift, `mean` μ and `variance` σ² (C,) or scalars → y like x. Give both statistics
    or neither; with them, which differentiate too, each item is for itself.
    Raises ValueError if one of `mean` and `variance` is missing or does not fit, if a variance or ε is negative, if
    gain or shift do not fit, or if there is nothing to take statistics of.
    VJP: layer_norm's for each channel as a row; with given statistics, s = √(σ² + ε):

        x̄ = γ ȳ/s        μ̄_c = −Σ_bl x̄        (σ²)̄_c = −½ Σ_bl x̄ x̂/s

    Source: Ioffe & Szegedy (2015), algorithm 1.
    """
    x = x if isinstance(x, Tensor) else np.asarray(x)
    if (mean is None) != (variance is None):
        missing = "mean" if mean is None else "variance"
        raise ValueError(f"batch_norm: {missing} is missing; give mean and variance, or neither")
    if mean is None:
        return _scaled(layer_norm(x, axis=(0, *range(2, raw(x).ndim)), eps=eps), gain, shift)
    if np.any(np.real(raw(variance)) < 0):
        raise ValueError(f"batch_norm: variance holds {np.min(np.real(raw(variance)))}; it must be 0 or positive")
    ndim = raw(x).ndim
    scale = ad.sqrt(_of_channels(variance, ndim) + eps)  # (C, 1, …)
    return _scaled((x - _of_channels(mean, ndim)) / scale, gain, shift)


class GroupNorm(Module):
    """`group_norm` with its own gain γ (ones) and shift β (zeros), both (channels,); affine=False has neither.

    Shapes: x (B, channels, *lengths) → the same. `groups` must divide `channels`; `eps` is the ε ≥ 0 under the root.
    """

    @takes("", channels="whole ≥ 1, a multiple of groups", groups="whole ≥ 1", eps="≥ 0", affine="True or False")
    def __init__(self, channels: int, groups: int, *, eps: float = 1e-5, affine: bool = True):
        self.gain, self.shift = _parameters(channels, affine)
        self.groups, self.eps = groups, eps

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return group_norm(x, self.gain, self.shift, groups=self.groups, eps=self.eps)


class InstanceNorm(Module):
    """`instance_norm` with its own gain γ (ones) and shift β (zeros), both (channels,); affine=False has neither.

    Shapes: x (B, channels, *lengths) → the same. `eps` is the ε ≥ 0 under the root.
    Elsewhere: PyTorch's InstanceNorm has affine=False unless told otherwise.
    """

    @takes("", channels="whole ≥ 1", eps="≥ 0", affine="True or False")
    def __init__(self, channels: int, *, eps: float = 1e-5, affine: bool = True):
        self.gain, self.shift = _parameters(channels, affine)
        self.eps = eps

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return instance_norm(x, self.gain, self.shift, eps=self.eps)


class BatchNorm(Module):
    """`batch_norm` with its own gain γ (ones) and shift β (zeros), and running statistics of what it was trained on.

        training=True     μ and σ² of the batch; the running statistics r become (1 − m) r + m s, m = `momentum`
        training=False    μ and σ² are the running statistics, and every item is for itself

    s are the mean and the unbiased variance, n/(n − 1) σ², of the n numbers of a channel. r moves where the call writes
    a tape: given a Tensor, or in the loss that `train` is given. With arrays and in bound copies nothing changes.
    `running_mean` (zeros) and `running_variance` (ones) are frozen parameters, stored and never trained.
    Shapes: x (B, channels, *lengths) → the same. `eps` is the ε ≥ 0 under the root; affine=False has no γ and β.
    Raises ValueError for a momentum outside [0, 1], or in training for channels of fewer than two numbers.
    Elsewhere: PyTorch's momentum is the same; Keras and flax call 1 − m momentum (.99), and keep the biased variance.
    """

    @takes("", channels="whole ≥ 1", eps="≥ 0", momentum="in [0, 1]", affine="True or False")
    def __init__(self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True):
        self.gain, self.shift = _parameters(channels, affine)
        self.running_mean = Parameter(np.zeros(channels), trainable=False)
        self.running_variance = Parameter(np.ones(channels), trainable=False)
        self.eps, self.momentum = eps, momentum

    def __call__(self, x: ArrayLike, *, training: bool = False) -> Array | Tensor:
        if not training:
            statistics: Any = {"mean": self.running_mean, "variance": self.running_variance}
            return batch_norm(x, self.gain, self.shift, eps=self.eps, **statistics)
        y = batch_norm(x, self.gain, self.shift, eps=self.eps)
        mean, variance = _statistics(raw(x))
        if not self._is_bound:
            for running, found in ((self.running_mean, mean), (self.running_variance, variance)):
                running.data = ((1 - self.momentum) * running.data + self.momentum * found).astype(running.dtype)
        return y


def _statistics(x: Any) -> tuple[Array, Array]:
    """The mean and the unbiased variance of every channel, (C,) each."""
    x = np.asarray(x).real
    count = x.size // max(x.shape[1], 1)
    if count < 2:
        raise ValueError(f"BatchNorm: x has shape {x.shape}; in training a channel needs two numbers or more")
    rows = in_order(np.moveaxis(x, 1, 0).reshape(x.shape[1], count))
    mean = rows.mean(-1)
    centred = rows - mean[:, None]
    return mean, (centred * centred).sum(-1) / (count - 1)


def _parameters(channels: int, affine: bool) -> tuple[Any, Any]:
    """γ and β of a module, or the numbers 1 and 0."""
    return (Parameter(np.ones(channels)), Parameter(np.zeros(channels))) if affine else (1.0, 0.0)


def _scaled(unit: Any, gain: Any, shift: Any) -> Any:
    """γ x̂ + β, a number of each for every channel, axis 1; the numbers 1 and 0 are left out."""
    ndim = raw(unit).ndim
    y = unit if type(gain) is float and gain == 1 else unit * _of_channels(gain, ndim)
    return y if type(shift) is float and shift == 0 else y + _of_channels(shift, ndim)


def _of_channels(value: Any, ndim: int) -> Any:
    """(C,) → (C, 1, …) with as many axes as x has from its channels on; a Python number stays one."""
    if isinstance(value, (int, float)):
        return value
    value = value if isinstance(value, Tensor) else np.asarray(value)
    return ad.reshape(value, (*value.shape, *(1,) * (ndim - 2))) if value.ndim else value
