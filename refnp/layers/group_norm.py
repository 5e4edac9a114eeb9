"""Norms of channels: BatchNorm, InstanceNorm and GroupNorm bring channels to mean 0 and standard deviation 1.

    x̂ = (x − μ)/√(σ² + ε)        y_bcl = γ_c x̂_bcl + β_c

They differ in what μ and σ² are taken over, and LayerNorm with them:

    batch_norm       for each channel c, over the batch and all places       (the batch's, or statistics that are given)
    instance_norm    for each channel of each item, over its places
    group_norm       for each item and each group of C/G channels, over these channels and all places
    layer_norm       for each item and place, over the features

With one group, group_norm takes everything of an item together; with C groups it is instance_norm. Only batch_norm lets
items of a batch see each other, so that a set or a task in it changes the prediction for another one.

Source: Ioffe & Szegedy (2015); Ulyanov et al. (2016); Wu & He (2018).
Words: layers/__init__.py.   Transcription: tests/transcriptions/rows.py.   Kernel of x̂: refnp/kernels/layer_norm.py.
"""

import math
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes, takes_unchecked
from refnp.autograd.pages import page
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.kernels import layer_norm as kernels
from refnp.layers.layer_norm import standardized
from refnp.layers.module import Module
from refnp.numbers.arrays import in_order
from refnp.numbers.parts import part
from refnp.numbers.words import constant

OF_ANY_SIZE = {standardized: kernels.standardized}


@page(
    "x (B, groups·c ≥ 1, *L ≥ 1), gain (groups·c) or (), shift (groups·c) or () → (B, groups·c, *L)",
    groups="whole ≥ 1",
    eps="≥ 0",
    kernel=OF_ANY_SIZE,
    of_every_array=True,
)
def group_norm(x, gain=1.0, shift=0.0, *, groups, eps=1e-5):
    """y = γ x̂ + β, with μ and σ² of each item over C/G neighbouring channels and all places, G = `groups`.

    Shapes: x (B, C, *lengths), gain and shift (C,) or scalars → y like x.
    The variance is the population's; a group that is constant gives x̂ = 0 (these lines, if its mean is exact).
    Raises ValueError for an empty axis but B, `groups` that do not divide C, ε negative or infinite, gain or shift that
    do not fit, TypeError unless `groups` is an integer.
    VJP: layer_norm's for each group as a row; γ̄_c = Σ_bl ȳ x̂ and β̄_c = Σ_bl ȳ.
    Source: Wu & He (2018), eq. 1 to 7.
    """
    items, channels, *lengths = x.shape
    rows = x.reshape(items, groups, channels // groups * math.prod(lengths))  # (B, G, C/G · lengths)
    unit, unit_vjp = standardized(rows, eps)  # x̂
    y, y_vjp = scaled(unit.reshape(x.shape), gain, shift)  # (B, C, *lengths)

    def vjp(y_bar):
        u_bar, gain_bar, shift_bar = y_vjp(y_bar)
        x_bar = unit_vjp(u_bar.reshape(rows.shape)).reshape(x.shape)  # (B, C, *lengths)
        return x_bar, gain_bar, shift_bar

    return y, vjp


@page(
    "x (B, C ≥ 1, L ≥ 1, *Ls ≥ 1), gain (C) or (), shift (C) or () → (B, C, L, *Ls)",
    eps="≥ 0",
    kernel=OF_ANY_SIZE,
    of_every_array=True,
)
def instance_norm(x, gain=1.0, shift=0.0, *, eps=1e-5):
    """y = γ x̂ + β, with μ and σ² of each channel of each item over its places: group_norm with C groups.

    Shapes: x (B, C, *lengths), gain and shift (C,) or scalars → y like x. One finite place alone gives y = β.
    Raises ValueError if x has no axis of places, and what `group_norm` raises.
    VJP: layer_norm's for each channel of an item as a row; γ̄ and β̄ are group_norm's.
    Source: Ulyanov et al. (2016), arXiv 1607.08022.
    """
    y, vjp = group_norm.page(x, gain, shift, groups=x.shape[1], eps=eps)
    return y, vjp


def refuse_empty(x, gain=1.0, shift=0.0, mean=None, variance=None, *, eps=1e-5):
    """ValueError if there is nothing to take mean and variance of."""
    if mean is None and not x.size:
        raise ValueError(f"batch_norm: x has shape {x.shape}; an empty axis has no mean and no variance")


@page(
    "x (B, C ≥ 1, *L), gain (C) or (), shift (C) or (), mean (C) or ()?, variance nonnegative (C) or ()? → (B, C, *L)",
    eps="≥ 0",
    needs="mean with variance",
    kernel=OF_ANY_SIZE,
    of_every_array=True,
    check=refuse_empty,
)
def batch_norm(x, gain=1.0, shift=0.0, mean=None, variance=None, *, eps=1e-5):
    """y = γ (x − μ)/√(σ² + ε) + β, with μ and σ² of each channel over the batch and all places, or those given.

    Shapes: x (B, C, *lengths), gain, shift, `mean` μ and `variance` σ² (C,) or scalars → y like x. Give both statistics
    or neither; with them, which differentiate too, each item is for itself, and σ² = ε = 0 divides by 0.
    Raises ValueError if one of `mean` and `variance` is missing or does not fit, if a variance or ε is negative or not
    finite, if gain or shift do not fit, for no channels, or if there is nothing to take statistics of.
    VJP: layer_norm's for each channel as a row, γ̄ and β̄ as group_norm's; with given statistics, s = √(σ² + ε):

        x̄ = γ ȳ/s        μ̄_c = −Σ_bl x̄        (σ²)̄_c = −½ Σ_bl x̄ x̂/s

    Source: Ioffe & Szegedy (2015), algorithm 1.
    """
    places = (0, *range(2, x.ndim))  # the batch's axis, and those of space
    if mean is None:
        unit, unit_vjp = standardized(x, eps, places)  # (B, C, *lengths)   x̂
    else:
        scale = per_channel(np.sqrt(variance + constant(eps)), x)  # (C, 1, …)   s
        unit = (x - per_channel(mean, x)) / scale  # (B, C, *lengths)
    y, y_vjp = scaled(unit, gain, shift)

    def vjp(y_bar):
        u_bar, gain_bar, shift_bar = y_vjp(y_bar)
        if mean is None:
            x_bar = unit_vjp(u_bar)  # (B, C, *lengths)
            return x_bar, gain_bar, shift_bar
        x_bar = u_bar / scale  # (B, C, *lengths)
        mean_bar, variance_bar = -x_bar.sum(places), -(x_bar * unit / scale).sum(places) / 2  # (C,), (C,)
        return x_bar, gain_bar, shift_bar, mean_bar, variance_bar

    return y, vjp


@part
def scaled(unit, gain, shift):
    """γ_c x̂ + β_c of x̂ (B, C, *lengths), and the function from ȳ to ŷ, γ̄ and β̄."""
    y = per_channel(gain, unit) * unit + per_channel(shift, unit)  # (B, C, *lengths)

    def vjp(y_bar):
        places = (0, *range(2, unit.ndim))  # Σ_bl
        u_bar = per_channel(gain, unit) * y_bar  # (B, C, *lengths)   ŷ
        gain_bar, shift_bar = (y_bar * unit).sum(places), y_bar.sum(places)  # (C,)
        return u_bar, gain_bar, shift_bar

    return y, vjp


def per_channel(p, x):
    """(C,) → (C, 1, …), beside x (B, C, *lengths); a number is what it is."""
    return np.expand_dims(p, tuple(range(1, x.ndim - 1))) if np.shape(p) else p


class GroupNorm(Module):
    """`group_norm` with its own gain γ (ones) and shift β (zeros), both (channels,); affine=False has neither.

    Shapes: x (B, channels, *lengths) → the same. `groups` must divide `channels`; `eps` is the ε ≥ 0 under the root.
    """

    @takes("", channels="whole ≥ 1, a multiple of groups", groups="whole ≥ 1", eps="≥ 0", affine="True or False")
    def __init__(self, channels: int, groups: int, *, eps: float = 1e-5, affine: bool = True):
        self.gain, self.shift = _parameters(channels, affine)
        self.groups, self.eps = groups, eps

    @takes_unchecked("x (B, channels, *L) → (B, channels, *L)")
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

    @takes_unchecked("x (B, channels, L, *Ls) → (B, channels, L, *Ls)")
    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return instance_norm(x, self.gain, self.shift, eps=self.eps)


class BatchNorm(Module):
    """`batch_norm` with its own gain γ (ones) and shift β (zeros), and running statistics of what it was trained on.

        training=True     μ and σ² of the batch; the running statistics r become (1 − m) r + m s, m = `momentum`
        training=False    μ and σ² are the running statistics, and every item is for itself

    s are the mean and the unbiased variance, n/(n − 1) σ², of the n numbers of a channel. r moves given a
    Tensor (in no_grad too), or in the loss that `train` is given. With arrays and in bound copies nothing changes.
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

    @takes_unchecked("x (B, channels, *L) → (B, channels, *L)")
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
