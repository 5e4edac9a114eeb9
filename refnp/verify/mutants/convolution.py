"""Mutants of convolution and its transpose: kernels, padding, groups."""

import math

import numpy as np

from refnp import layers
from refnp.autograd import primitive
from refnp.numbers.windows import windows
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.mutant import rounded_to
from refnp.verify.edits.traced import lifted
from refnp.verify.mutants.normalization import dealt, last


@primitive
def nearest(x, *, bits):
    """x with fewer bits of mantissa.   VJP: x̄ = ȳ, as if nothing had been rounded."""
    return rounded_to(x, bits), lambda y_bar: (y_bar,)


@primitive
def nearest_back(y, *, bits):
    """y itself.   VJP: ȳ with fewer bits of mantissa."""
    return +y, lambda y_bar: (rounded_to(y_bar, bits),)


def windows_padded(axes, mode, **others):
    """The places that windows read, where the padding of some modes is another one of numpy.pad's."""
    if mode not in others:
        return windows(axes, mode)
    lengths, edges = [axis.length for axis in axes], [(axis.before, axis.after) for axis in axes]
    places = np.pad(np.arange(math.prod(lengths)).reshape(lengths), edges, mode=others[mode])
    inside = [axis._replace(length=n, before=0, after=0) for axis, n in zip(axes, places.shape, strict=True)]
    return places.reshape(-1)[windows(tuple(inside))]


SPACE, TURNED = "tuple(range(2, weight.ndim))", "weight.transpose(0, 1, *range(2, weight.ndim)[::-1])"
Y, W_BAR = 'einsum("bgcpt,goct->bgop", seen, w)', 'einsum("bgop,bgcpt->goct", rows, seen)'
PADDED, PAIRS = "windows(axes, padding_mode)", "pairs_of(padding, lengths, kernel, stride, dilation, padding_mode)"
KERNELS: Named = {
    "the kernel were flipped": ("weight =", f"np.flip(weight, {SPACE})"),
    "channel c belonged to group c mod G": ("x =", "np.take(x, dealt(groups, x.shape[1]), 1)"),
    "the bias were left out": ("y + by_channel(bias, y)", "y"),
}
AVERAGED, LAST = (
    "the gradient of the bias were averaged, not summed",
    "the gradient of the bias were that of the last place of the last item alone",
)


def in_fewer_bits(y: str) -> Named:
    """Products with factors of fewer bits, forward and back."""
    edits = {"products were taken in TF32": 11, "products were taken of bfloat16": 8}
    return {
        says: [
            ("x =", f"nearest(x, bits={bits})"),
            ("weight =", f"nearest(weight, bits={bits})"),
            (y, f"nearest_back({y}, bits={bits})"),
        ]
        for says, bits in edits.items()
    }


WORDS = {
    "dealt": dealt,
    "last": last,
    "windows_padded": windows_padded,
    "nearest": lifted(nearest),
    "nearest_back": lifted(nearest_back),
}
SUM, SUM_OF_TRANSPOSE = "rows.sum((0, 3))", "y_bar.sum((0, *range(2, y_bar.ndim)))"
ADDED = 'added_at(einsum("bgcp,gcot->bgopt", rows, w), places, n)'
MUTANTS = [
    *named_edits(
        layers.convolution,
        ("convolution",),
        {
            **KERNELS,
            "the axes of the kernel were exchanged": ("weight =", TURNED),
            "padding were zeros, whatever is asked for": (PADDED, "windows(axes)"),
            "reflection repeated the edge": (PADDED, "windows_padded(axes, padding_mode, reflect='symmetric')"),
            "the edge were repeated, and not reflected": (PADDED, "windows_padded(axes, padding_mode, reflect='edge')"),
            "x were reflected, and the edge not repeated": (
                PADDED,
                "windows_padded(axes, padding_mode, replicate='reflect')",
            ),
            "the edge were repeated, and x not continued from its other end": (
                PADDED,
                "windows_padded(axes, padding_mode, circular='edge')",
            ),
            "the larger half of the padding came before x": (
                PAIRS,
                f"[pair[::-1] for pair in {PAIRS}] if padding == 'same' else {PAIRS}",
            ),
            "the padding before and after x were exchanged": (PAIRS, f"[pair[::-1] for pair in {PAIRS}]"),
        },
        of_vjp={
            AVERAGED: (SUM, "rows.mean((0, 3))"),
            LAST: (SUM, "last(y_bar)"),
            "the gradient of the weight were averaged over the batch": (W_BAR, f"({W_BAR} / batch)"),
        },
        narrow=in_fewer_bits(Y),
        words=WORDS,
    ),
    *named_edits(
        layers.convolution_transpose,
        ("convolution_transpose",),
        {
            **KERNELS,
            "what output_padding adds came first": (
                "padding =",
                "tuple((a - e, b + e) for (a, b), e in zip(padding, output_padding, strict=True))",
            ),
        },
        of_vjp={
            AVERAGED: (SUM_OF_TRANSPOSE, "y_bar.mean((0, *range(2, y_bar.ndim)))"),
            LAST: (SUM_OF_TRANSPOSE, "last(y_bar)"),
        },
        narrow=in_fewer_bits(ADDED),
        words=WORDS,
    ),
]
