"""Mutants of pooling and upsampling: what is counted, and where places lie."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.verify.layers.convolution import per_axis
from refnp.verify.mutants.mutant import Mistakes, family


def average_pool(x, *, size, count_include_pad=True, own_count=None, summed=False, largest=False, **options):
    """The mean of each window."""
    if largest:
        return layers.max_pool(x, size, **options)
    own = count_include_pad if own_count is None else own_count
    y = layers.average_pool(x, size, count_include_pad=own, **options)
    return y * math.prod(per_axis(size, x.ndim - 2)) if summed else y


def max_pool(x, *, size, padding=0, dilation=1, zeros=False, average=False, smallest=False, dilated=True, **options):
    """The largest number of each window."""
    if average:
        return layers.average_pool(x, size, padding=padding, **options)
    options |= {"dilation": dilation if dilated else 1}
    if smallest:
        return -layers.max_pool(-x, size, padding=padding, **options)
    if zeros:
        widths = [(a, a) for a in per_axis(padding, x.ndim - 2)]
        return layers.max_pool(ag.pad(x, [(0, 0), (0, 0), *widths]), size, **options)
    return layers.max_pool(x, size, padding=padding, **options)


def adaptive(x, *, size, largest, windows="", other=False):
    """The mean or the largest of P windows that cover each axis."""
    reduce = ag.max if largest != other else ag.mean
    for axis, count in zip(range(2, x.ndim), per_axis(size, x.ndim - 2), strict=True):
        n = x.shape[axis]
        x = ag.concatenate(
            [
                reduce(ag.take(x, np.arange(*window_of(p, n, count, windows)), axis), axis, keepdims=True)
                for p in range(count)
            ],
            axis=axis,
        )
    return x


def window_of(p, n, count, windows):
    """The first place of window p and the one after its last."""
    first, last = p * n // count, -(-(p + 1) * n // count)
    if windows == "without overlap":
        last = max((p + 1) * n // count, first + 1)
    if windows == "of one length":
        step = n // count or 1
        first = min(p * step, n - 1)
        last = min(first + n - (count - 1) * step if n >= count else first + 1, n)
    return first, last


def adaptive_average_pool(x, *, size, windows="", other=False):
    """The mean of each window."""
    if windows or other:
        return adaptive(x, size=size, largest=False, windows=windows, other=other)
    return layers.adaptive_average_pool(x, size)


def adaptive_max_pool(x, *, size, windows="", other=False):
    """The largest number of each window."""
    if windows or other:
        return adaptive(x, size=size, largest=True, windows=windows, other=other)
    return layers.adaptive_max_pool(x, size)


def upsample(x, *, mode="nearest", align_corners=False, corners="asked", modes=None, **size):
    """Numbers at more places."""
    align_corners = {"asked": align_corners, "other": not align_corners}[corners]
    mode = (modes or {}).get(mode, mode)
    return layers.upsample(x, mode=mode, align_corners=align_corners and mode == "linear", **size)


AVERAGE: Mistakes = {
    "the padding were counted, asked for or not": {"own_count": True},
    "the padding were not counted, asked for or not": {"own_count": False},
    "the sum were taken, and not the mean": {"summed": True},
    "the largest number were taken": {"largest": True},
}
MAXIMUM: Mistakes = {
    "padding were 0, and not −∞": {"zeros": True},
    "the mean were taken": {"average": True},
    "the smallest number were taken": {"smallest": True},
}
ADAPTIVE: Mistakes = {
    "windows did not overlap, from ⌊p n/P⌋ to ⌊(p + 1) n/P⌋": {"windows": "without overlap"},
    "all windows had one length, and began ⌊n/P⌋ places apart": {"windows": "of one length"},
}
TAKES_LARGEST: Mistakes = {"the largest number were taken": {"other": True}}
TAKES_MEAN: Mistakes = {"the mean were taken": {"other": True}}
UPSAMPLE: Mistakes = {
    "corners were aligned where they should not be, and not where they should": {"corners": "other"},
    "nearest took the place nearest to the middle": {"modes": {"nearest": "nearest-exact"}},
    "nearest-exact took the place below": {"modes": {"nearest-exact": "nearest"}},
    "linear were nearest": {"modes": {"linear": "nearest"}},
    "nearest were linear": {"modes": {"nearest": "linear"}},
}
MUTANTS = [
    *family(average_pool, ("average_pool",), AVERAGE),
    *family(max_pool, ("max_pool",), MAXIMUM),
    *family(adaptive_average_pool, ("adaptive_average_pool",), ADAPTIVE | TAKES_LARGEST),
    *family(adaptive_max_pool, ("adaptive_max_pool",), ADAPTIVE | TAKES_MEAN),
    *family(upsample, ("upsample",), UPSAMPLE),
]
