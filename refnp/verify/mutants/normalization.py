"""Mutants of the norms of channels."""

import numpy as np

from refnp import layers
from refnp.layers.group_norm import per_channel
from refnp.numbers.words import constant
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.mutants.layer_norm import AVERAGED, CENTRE, EPSILON, FOLDED, IN_ONE_PASS, LAST, SIZE


def folded(x, gain, shift, eps, axes):
    """γ x̂ + β as x s + (β − μ s), s = γ/σ."""
    mean = x.mean(axes, keepdims=True)
    scale = gain / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + constant(eps))
    return x * scale + (shift - mean * scale)


def of_given(x, gain, shift, mean, scale):
    """The same with statistics that are given."""
    factor = per_channel(gain, x) / scale
    return x * factor + (per_channel(shift, x) - per_channel(mean, x) * factor)


def dealt(groups, channels):
    """The channels by groups, if channel c belongs to group c mod G."""
    return np.arange(channels).reshape(-1, groups).T.reshape(-1)


def last(bar):
    """That of the last place of the last item."""
    return bar[(-1, slice(None), *(-1,) * (bar.ndim - 2))]


GAIN, SHIFT = "per_channel(gain, unit)", "per_channel(shift, unit)"
AFFINE: Named = {
    "the gain were left out": (f"{GAIN} * unit + _s", "unit + _s"),
    "the gain were 1 + γ": (f"{GAIN} * unit + _s", f"(1 + {GAIN}) * unit + _s"),
    "the shift were left out": (f"_y + {SHIFT}", "_y"),
    "the gain multiplied the shift too, γ (x̂ + β)": (f"{GAIN} * unit + {SHIFT}", f"{GAIN} * (unit + {SHIFT})"),
}
SUMS = "(y_bar * unit).sum(places)", "y_bar.sum(places)"
OF_VJP: Named = {
    AVERAGED: [(SUMS[0], "(y_bar * unit).mean(places)"), (SUMS[1], "y_bar.mean(places)")],
    LAST: [(SUMS[0], "last(y_bar * unit)"), (SUMS[1], "last(y_bar)")],
}
ROWS, IN_GROUPS = "x.reshape(items, groups, _n)", "group_norm.page(x, gain, shift, groups=x.shape[1], eps=eps)"
OVER_BATCH, GIVEN = "standardized(x, eps, places)", "variance + constant(eps)"
OF_PLACES = "(folded(x, per_channel(gain, x), per_channel(shift, x), eps, {}), None)"
WORDS = {"folded": folded, "of_given": of_given, "dealt": dealt, "last": last}
MUTANTS = [
    *named_edits(
        layers.group_norm,
        ("group_norm",),
        {
            **SIZE,
            **CENTRE,
            **AFFINE,
            "there were one group": (ROWS, "x.reshape(items, 1, x.size // items)"),
            "every channel were a group": (ROWS, "x.reshape(items, channels, x.size // items // channels)"),
            "channel c belonged to group c mod G": [
                (ROWS, "np.take(x, dealt(groups, channels), 1).reshape(items, groups, _n)"),
                ("unit.reshape(x.shape)", "np.take(unit.reshape(x.shape), np.argsort(dealt(groups, channels)), 1)"),
            ],
        },
        of_vjp=OF_VJP,
        narrow=IN_ONE_PASS,
        words=WORDS,
    ),
    *named_edits(
        layers.instance_norm,
        ("instance_norm",),
        {
            **SIZE,
            **CENTRE,
            **AFFINE,
            "statistics were taken over the batch too": (IN_GROUPS, "batch_norm.page(x, gain, shift, eps=eps)"),
            "statistics were taken over the channels too": (
                IN_GROUPS,
                "group_norm.page(x, gain, shift, groups=1, eps=eps)",
            ),
        },
        of_vjp=OF_VJP,
        narrow={**IN_ONE_PASS, FOLDED: (IN_GROUPS, OF_PLACES.format("tuple(range(2, x.ndim))"))},
        words=WORDS,
    ),
    *named_edits(
        layers.batch_norm,
        ("batch_norm",),
        {
            **SIZE,
            **CENTRE,
            **AFFINE,
            "statistics were taken for each item": (OVER_BATCH, "standardized(x, eps, tuple(range(2, x.ndim)))"),
            "statistics were taken over the channels": (OVER_BATCH, "standardized(x, eps, 1)"),
        },
        of_vjp=OF_VJP,
        narrow={**IN_ONE_PASS, FOLDED: ("scaled(unit, gain, shift)", OF_PLACES.format("places"))},
        words=WORDS,
    ),
    *named_edits(
        layers.batch_norm,
        ("batch_norm of statistics",),
        {
            "ε stood outside the root": ("np.sqrt(variance + constant(eps))", "np.sqrt(variance) + constant(eps)"),
            "the variance were taken for the deviation": ("np.sqrt(variance + constant(eps))", GIVEN),
            "the statistics of the batch were taken, not those given": (
                "(x - per_channel(mean, x)) / scale",
                "standardized(x, eps, places)[0]",
            ),
            **{f"ε were {eps}": (GIVEN, f"variance + constant({eps})") for eps in (*EPSILON, "1e-5")},
            **AFFINE,
        },
        of_vjp=OF_VJP,
        narrow={FOLDED: ("scaled(unit, gain, shift)", "(of_given(x, gain, shift, mean, scale), None)")},
        words=WORDS,
    ),
]
