"""Upsampling: more places along each axis, each a copy of one place of x, or between two of them.

    nearest:        y[i] = x[⌊i n/P⌋]                                       P places from n
    nearest-exact:  y[i] = x[⌊(i + ½) n/P⌋]
    linear:         y[i] = (1 − λ) x[j] + λ x[j + 1]                        j = ⌊c_i⌋, λ = c_i − j

    c_i = (i + ½) n/P − ½, brought to 0 … n − 1        align_corners=False: places are cells, and the ends of x and of y
                                                       are the outer edges of the first and of the last cell
    c_i = i (n − 1)/(P − 1)                            align_corners=True: places are points, and the first and the last
                                                       of y are those of x

On several axes at once linear is bilinear, trilinear and so on: it is done along one axis after the other. With a
factor f in place of a size, P = ⌊n f⌋ and 1/f stands for n/P (but not with align_corners), which differs where n f is
no whole number.

Elsewhere: PyTorch's interpolate has the same options and equations, in floating point: λ then errs by c_i units of
rounding; and it copies an axis whose length stays the same, whatever the factor. jax.image.resize is nearest-exact, and
linear with align_corners=False; with a smaller size it averages, unless antialias=False. jax.image.scale_and_translate
can say the others.
Words: layers/__init__.py.   Transcription: tests/transcriptions/upsampling.py.   Kernel: refnp/kernels/upsampling.py.
"""

import numpy as np

from refnp.autograd.pages import page
from refnp.kernels import upsampling as kernels
from refnp.numbers.parts import part
from refnp.numbers.windows import resampled
from refnp.numbers.words import constant


@page(
    "x (B, C, *L) or (C, *L) → (B, C, *P)",
    factor="positive per axis of L?",
    size="whole ≥ 1 per axis of L?",
    mode="nearest | nearest-exact | linear",
    align_corners="True or False",
    needs="either factor or size; mode = linear if align_corners, leave align_corners out, or pass mode='linear'",
    kernel=kernels.upsample,
)
def upsample(x, factor=None, *, size=None, mode="nearest", align_corners=False):
    """y[i] = x[⌊i/f⌋], for whole f each number f times on each axis; or y[i] = (1 − λ) x[j] + λ x[j + 1], between two.

    Shapes: x (B, C, *lengths) → y (B, C, *positions), positions = ⌊length · factor⌋ or `size`; also (C, *lengths) →
    (C, *positions), if factor or size is a tuple: its length says how many axes of space there are.
    factor: a number for all axes, or one for each, whole or not. size: in place of it the lengths of y, a whole number
    or one for each axis. Both may make y shorter than x: nothing is smoothed before, so places may be left out.
    mode: "nearest", "nearest-exact" or "linear", over all axes of space (bilinear on two, trilinear on three).
    align_corners: with "linear", whether the first and last places are kept or the outer edges of cells; the equations
    are at the top of this file.
    Raises ValueError unless there is one of factor and size, for one that leaves no place, a size of an axis without
    any, another mode, align_corners without "linear"; TypeError for no number, an align_corners not True or False.

    VJP: x̄[j] = Σ_i w_ij ȳ[i], where y[i] = Σ_j w_ij x[j]: the transpose. For whole factors and "nearest" the sum of ȳ
    over the copies of x[j]. The kernel leaves out w_ij = 0; in these lines 0 times a NaN or ∞ of x gives NaN.
    """
    positions, steps = resampled(x.shape[2:], factor, size)
    axes = zip(x.shape[2:], positions, steps, strict=True)
    weights = [interpolation(x, n, count, step, mode, align_corners) for n, count, step in axes]  # W of each axis
    y, vjp = combined(x, weights)
    return y, vjp


@part
def combined(x, weights):
    """y = W x along one axis of space after the other, with weights W (P, n) for each; and the VJP, with Wᵀ."""
    y = x
    for axis, w in enumerate(weights, start=2):
        y = (y.swapaxes(axis, -1) @ w.swapaxes(-1, -2)).swapaxes(axis, -1)

    def vjp(y_bar):
        x_bar = y_bar
        for axis, w in enumerate(weights, start=2):
            x_bar = (x_bar.swapaxes(axis, -1) @ w).swapaxes(axis, -1)
        return (x_bar,)

    return y, vjp


@part
def interpolation(x, length, count, step, mode, align_corners):
    """w_ij, in the numbers of x: what place i of `count` takes of place j of `length`; `step` is n/P.   (P, n)"""
    i, j = np.arange(count)[:, None], np.arange(length)  # (P, 1), (n,)
    if mode != "linear":
        half = 1 if mode == "nearest-exact" else 0
        nearest = (2 * i + half) * step.numerator // (2 * step.denominator)  # (P, 1)   ⌊i n/P⌋ or ⌊(i + ½) n/P⌋
        w = 1.0 * (np.minimum(nearest, length - 1) == j)
        return w
    c = coordinates(x, i, length, step, align_corners)  # (P, 1)
    inside = (c.real > 0) & (c.real < length - 1)
    c = np.where(inside, c, np.clip(c.real, 0, length - 1))
    away = np.where(c.real < j, j - c, c - j)  # (P, n)   |c_i − j|
    w = np.where(away.real > 1, 0, 1 - away)
    return w


@part
def coordinates(x, i, length, step, align_corners):
    """c_i, where on the axis of x the places i (P, 1) of y are."""
    if align_corners:
        c = i * (constant(length - 1) / max(len(i) - 1, 1)).like(x)
    else:
        c = (i + 0.5) * (constant(step.numerator) / step.denominator).like(x) - 0.5
    return c
