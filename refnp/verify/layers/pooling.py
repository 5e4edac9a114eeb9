"""Pooling and upsampling."""

import math
from typing import Any

from refnp import layers
from refnp.layers.pooling import to_the_first
from refnp.layers.upsampling import coordinates
from refnp.numbers.rounding import between, where
from refnp.numbers.windows import axes_in_ceil_mode
from refnp.numbers.words import constant
from refnp.verify.case import (
    Case,
    Convention,
    Layer,
    NotOfferedError,
    normal,
)
from refnp.verify.judged_pages import of_page
from refnp.verify.layers.convolution import pairs_of, per_axis


def shared(seen, y_bar):
    """Some of the gradient to each of equals."""
    off = seen.off
    possible = seen.value + off >= (seen.value - off).max(-1, keepdims=True)
    equals = possible & (possible.sum(-1, keepdims=True) > 1)
    return where(equals, between(y_bar, 0 * y_bar), to_the_first(seen, y_bar))


def centred(x, i, length, step, align_corners):
    """Places c_i that lie evenly around the middle, whatever factor leads there."""
    if align_corners:
        return coordinates(x, i, length, step, align_corners)
    apart = (constant(step.numerator) / step.denominator).like(x)
    return i * apart - (apart * (len(i) - 1) - (length - 1)) / 2


def torch_pool(kind):
    """nn.functional.avg_pool and max_pool have one function for each number of dimensions."""
    return lambda torch, x, size, **options: getattr(torch.nn.functional, f"{kind}_pool{x.ndim - 2}d")(
        x, size, **options
    )


def torch_upsample(torch, x, *, factor=None, size=None, mode="nearest", align_corners=False):
    """interpolate names "linear" by the number of dimensions, and takes align_corners for it alone."""
    name = ("linear", "bilinear", "trilinear")[x.ndim - 3] if mode == "linear" else mode
    corners = align_corners if mode == "linear" else None
    return torch.nn.functional.interpolate(x, size, factor, mode=name, align_corners=corners)


def jax_average_pool(jax, x, *, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Sums over windows, divided by their size, or by how many ones are in the window."""
    total, count = window_reduction(jax, x, 0.0, jax.lax.add, size, stride, padding, ceil_mode=ceil_mode)
    if ceil_mode or not count_include_pad:
        ones = jax.numpy.ones(x.shape, x.dtype)
        if count_include_pad:
            ones = jax.numpy.pad(ones, [(0, 0), (0, 0), *pairs_of(padding, x.ndim - 2)], constant_values=1)
            count, _ = window_reduction(jax, ones, 0.0, jax.lax.add, size, stride, 0, places=total.shape[2:])
        else:
            count, _ = window_reduction(jax, ones, 0.0, jax.lax.add, size, stride, padding, ceil_mode=ceil_mode)
    return total / count


def jax_max_pool(jax, x, *, size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Maxima over windows, with −∞ around."""
    if dilation != 1:
        raise NotOfferedError("JAX: a maximum over dilated windows has no gradient")
    return window_reduction(jax, x, -math.inf, jax.lax.max, size, stride, padding, dilation, ceil_mode=ceil_mode)[0]


def window_reduction(jax, x, start, combine, size, stride, padding, dilation=1, *, ceil_mode=False, places=None):
    """jax.lax.reduce_window over the axes of space, and the number of elements in a window.

    It has no ceil_mode: the end is padded until as many windows fit as there are to be.
    """
    axes = x.ndim - 2
    sizes = per_axis(size, axes)
    strides = sizes if stride is None else per_axis(stride, axes)
    dilations, widths = per_axis(dilation, axes), pairs_of(padding, axes)
    if ceil_mode:
        found = axes_in_ceil_mode(x.shape[2:], sizes, strides, dilations, widths, "max_pool")
        places = [axis.positions for axis in found]
    if places is not None:
        walk = zip(x.shape[2:], places, sizes, strides, dilations, widths, strict=True)
        widths = [(before, (p - 1) * s + d * (k - 1) + 1 - n - before) for n, p, k, s, d, (before, _) in walk]
    pairs = [(0, 0), (0, 0), *widths]
    window = {"window_dilation": (1, 1, *dilations)}
    y = jax.lax.reduce_window(x, start, combine, (1, 1, *sizes), (1, 1, *strides), pairs, **window)
    return y, math.prod(sizes)


def jax_upsample(jax, x, *, factor=None, size=None, mode="nearest", align_corners=False):
    """jax.image.resize, without its filter; its nearest is nearest-exact, the same for whole factors.

    It knows neither align_corners nor factors; scale_and_translate, of which it is made, can say both: it has place i
    at (i + ½ − t)/s − ½. With s = (P − 1)/(n − 1) and t = (1 − s)/2 that is i/s.
    """
    lengths, axes = x.shape[2:], x.ndim - 2
    factors = per_axis(factor, axes) if size is None else None
    sizes = per_axis(size, axes) if factors is None else [int(n * f) for n, f in zip(lengths, factors, strict=True)]
    shape = (*x.shape[:2], *sizes)
    if mode != "linear":
        if mode == "nearest" and any(p % n for p, n in zip(sizes, lengths, strict=True)):
            raise NotOfferedError("JAX: jax.image.resize has nearest-exact, which is not nearest for such sizes")
        return jax.image.resize(x, shape, "nearest", antialias=False)
    if factors is None and not align_corners:
        return jax.image.resize(x, shape, "linear", antialias=False)
    if align_corners and 1 in (*lengths, *sizes):
        raise NotOfferedError("JAX: a scale of 0 or infinity, for one place, is none")
    ends = [(p - 1) / (n - 1) for p, n in zip(sizes, lengths, strict=True)] if align_corners else factors
    scale = jax.numpy.array(ends, x.dtype)
    move = (1 - scale) / 2 if align_corners else 0 * scale
    return jax.image.scale_and_translate(x, shape, range(2, x.ndim), scale, move, "linear", antialias=False)


PLACES = ("return_indices",)
AVERAGE = of_page(layers.average_pool, torch=torch_pool("avg"), jax=jax_average_pool)
MAXIMUM = of_page(layers.max_pool, without=PLACES, torch=torch_pool("max"), jax=jax_max_pool)
SIZES = {"size": (2, (4, 5, 2))}  # of the result, in which 0 is a size too
ADAPTIVE_AVERAGE = of_page(layers.adaptive_average_pool, torch=torch_pool("adaptive_avg"), tried=SIZES)
ADAPTIVE_MAXIMUM = of_page(layers.adaptive_max_pool, without=PLACES, torch=torch_pool("adaptive_max"), tried=SIZES)
LARGER = {"size": (2, (2, 1, 3), (110, 20, 3)), "factor": (2, (2, 3, 1), (1.25, 0.75, 1.5), (40, 3, 2))}  # by far, too
UPSAMPLE = of_page(
    layers.upsample,
    torch=torch_upsample,
    jax=jax_upsample,
    tried={name: (None, *values) for name, values in LARGER.items()},
)


def copied_where_it_stays(x, *, factor, **options):
    """Upsampling that leaves an axis as it is where the factor leaves its length."""
    factors = per_axis(factor, len(x.shape) - 2)
    stays = [math.floor(n * f) == n for n, f in zip(x.shape[2:], factors, strict=True)]
    return UPSAMPLE.equation(x, factor=tuple(1 if s else f for s, f in zip(stays, factors, strict=True)), **options)


SAME_LENGTH = Convention(
    "PyTorch",
    "an axis whose length stays is copied",
    "a factor of 1.125 that leaves 5 places at 5 moves them, c = (i + ½)/f − ½; here they are copied",
    equation=copied_where_it_stays,
)


def cases() -> list[Case]:
    """All cases of this page."""
    found = []
    for layer in (AVERAGE, MAXIMUM):
        found += [
            Case(layer, "1-D", {"x": normal(2, 3, 9)}, {"size": 3}),
            Case(layer, "1-D, overlapping", {"x": normal(2, 3, 10)}, {"size": 4, "stride": 2}),
            Case(layer, "1-D, padding 1", {"x": normal(2, 3, 9)}, {"size": 3, "stride": 2, "padding": 1}),
            Case(layer, "1-D, the whole length", {"x": normal(2, 3, 5)}, {"size": 5}),
            Case(layer, "2-D, sizes 2 and 3", {"x": normal(2, 2, 4, 6)}, {"size": (2, 3)}),
            Case(layer, "2-D, stride 1", {"x": normal(1, 2, 4, 4)}, {"size": 2, "stride": 1}),
            Case(layer, "1-D, ceil mode", {"x": normal(2, 3, 10)}, {"size": 3, "ceil_mode": True}),
            Case(layer, "2-D, ceil mode, padded", {"x": normal(1, 2, 6, 7)},
                 {"size": (3, 4), "stride": (2, 3), "padding": (1, 2), "ceil_mode": True}),
        ]  # fmt: skip
    uncounted: dict[str, Any] = {"size": 3, "stride": 2, "padding": 1, "count_include_pad": False}
    return [
        *found,
        Case(AVERAGE, "1-D, padding not counted", {"x": normal(2, 3, 9)}, uncounted),
        Case(
            AVERAGE, "2-D, padding not counted, ceil mode", {"x": normal(1, 2, 6, 5)}, uncounted | {"ceil_mode": True}
        ),
        Case(MAXIMUM, "1-D, dilation 2", {"x": normal(2, 3, 9)}, {"size": 3, "stride": 2, "dilation": 2, "padding": 1}),
        Case(
            MAXIMUM, "2-D, dilations 1 and 3", {"x": normal(1, 2, 5, 8)}, {"size": 2, "stride": 1, "dilation": (1, 3)}
        ),
        Case(MAXIMUM, "3-D", {"x": normal(1, 2, 4, 5, 3)}, {"size": 2, "stride": (1, 2, 1)}),
        *adaptive(ADAPTIVE_AVERAGE),
        *adaptive(ADAPTIVE_MAXIMUM),
        *upsampled(),
    ]


def adaptive(layer: Layer) -> list[Case]:
    """Windows of one length and of several, fewer and more than places, one for all."""
    return [
        Case(layer, "1-D, 3 of 9", {"x": normal(2, 3, 9)}, {"size": 3}),
        Case(layer, "1-D, 4 of 11", {"x": normal(2, 3, 11)}, {"size": 4}),
        Case(layer, "1-D, 7 of 3", {"x": normal(2, 3, 3)}, {"size": 7}),
        Case(layer, "2-D, one window", {"x": normal(1, 2, 4, 6)}, {"size": 1}),
        Case(layer, "2-D, 3 by 4 of 5 by 7", {"x": normal(1, 2, 5, 7)}, {"size": (3, 4)}),
        Case(layer, "3-D", {"x": normal(1, 2, 3, 4, 5)}, {"size": (2, 3, 2)}),
    ]


def upsampled() -> list[Case]:
    """Both kinds of nearest, and linear with both alignments, on one to three axes."""
    line, image, volume = normal(2, 3, 5), normal(1, 2, 3, 4), normal(1, 1, 3, 2, 3)
    linear: dict[str, Any] = {"mode": "linear"}
    corners: dict[str, Any] = {"mode": "linear", "align_corners": True}
    return [
        Case(UPSAMPLE, "1-D, twice", {"x": normal(2, 3, 5)}, {"factor": 2}),
        Case(UPSAMPLE, "2-D, three times", {"x": normal(1, 2, 3, 2)}, {"factor": 3}),
        Case(UPSAMPLE, "1-D, 5 to 7", {"x": line}, {"size": 7}),
        Case(UPSAMPLE, "1-D, 5 to 3", {"x": line}, {"size": 3}),
        Case(UPSAMPLE, "1-D, factor 1.5", {"x": line}, {"factor": 1.5}),
        Case(UPSAMPLE, "2-D, nearest-exact", {"x": image}, {"size": (5, 7), "mode": "nearest-exact"}),
        Case(UPSAMPLE, "1-D, linear, twice", {"x": line}, linear | {"factor": 2}),
        Case(UPSAMPLE, "1-D, linear, 5 to 8", {"x": line}, linear | {"size": 8}),
        Case(UPSAMPLE, "1-D, linear, 5 to 3", {"x": line}, linear | {"size": 3}),
        Case(UPSAMPLE, "1-D, linear, factor 1.5", {"x": line}, linear | {"factor": 1.5}),
        Case(UPSAMPLE, "1-D, linear, factor 1.125", {"x": line}, linear | {"factor": 1.125}, (SAME_LENGTH,)),
        Case(UPSAMPLE, "1-D, linear, corners, 5 to 8", {"x": line}, corners | {"size": 8}),
        Case(UPSAMPLE, "1-D, linear, corners, 5 to 1", {"x": line}, corners | {"size": 1}),
        Case(UPSAMPLE, "1-D, linear, one place", {"x": normal(2, 3, 1)}, linear | {"size": 4}),
        Case(UPSAMPLE, "1-D, linear, mean 1e4", {"x": normal(2, 3, 9, shift=1e4)}, linear | {"size": 14}),
        Case(UPSAMPLE, "2-D, bilinear", {"x": image}, linear | {"size": (7, 5)}),
        Case(UPSAMPLE, "2-D, bilinear, corners", {"x": image}, corners | {"size": (7, 5)}),
        Case(UPSAMPLE, "3-D, trilinear", {"x": volume}, linear | {"size": (5, 4, 4)}),
        Case(UPSAMPLE, "3-D, trilinear, corners", {"x": volume}, corners | {"factor": 2}),
    ]
