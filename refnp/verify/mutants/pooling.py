"""Mutants of pooling and upsampling: what is counted, and where places lie."""

import math

import numpy as np

from refnp import layers
from refnp.numbers.windows import BEYOND
from refnp.verify.edits.edited import Named, named_edits


def runs_of(lengths, sizes, ends):
    """The places (P, T) of windows that do not overlap, or are of one length."""
    places = np.zeros((1, 1), int)
    for n, count in zip(lengths, sizes, strict=True):
        own = [np.arange(*ends(p, n, count)) for p in range(count)]
        wide = np.full((count, max(map(len, own), default=0)), BEYOND)
        for row, at in zip(wide, own, strict=True):
            row[: len(at)] = at
        both = places[:, None, :, None] * n + wide[:, None, :]
        both = np.where((places[:, None, :, None] < 0) | (wide[:, None, :] < 0), BEYOND, both)
        places = both.reshape(len(places) * count, math.prod(both.shape[2:]))
    return places


def apart(p, n, count):
    """Window p from ⌊p n/P⌋ to ⌊(p + 1) n/P⌋."""
    first = p * n // count
    return first, max((p + 1) * n // count, first + 1)


def alike(p, n, count):
    """Window p of as many places as every other, ⌊n/P⌋ from the one before."""
    step = n // count or 1
    first = min(p * step, n - 1)
    return first, min(first + n - (count - 1) * step if n >= count else first + 1, n)


MEAN, MEAN_OF_PLACES = "seen.sum(-1) / count", "seen.sum(-1) / (places >= 0).sum(-1)"
LARGEST = MEAN, "np.where(places >= 0, seen, -np.inf).max(-1)"
RUNS = "runs(x.shape[2:], sizes)"
ADAPTIVE: Named = {
    "windows did not overlap, from ⌊p n/P⌋ to ⌊(p + 1) n/P⌋": (RUNS, "runs_of(x.shape[2:], sizes, apart)"),
    "all windows had one length, and began ⌊n/P⌋ places apart": (RUNS, "runs_of(x.shape[2:], sizes, alike)"),
}
WORDS = {"runs_of": runs_of, "apart": apart, "alike": alike}
MUTANTS = [
    *named_edits(
        layers.average_pool,
        ("average_pool",),
        {
            "the padding were counted, asked for or not": ("count_include_pad =", "True"),
            "the padding were not counted, asked for or not": ("count_include_pad =", "False"),
            "the sum were taken, and not the mean": (MEAN, "seen.sum(-1)"),
            "the largest number were taken": LARGEST,
        },
    ),
    *named_edits(
        layers.max_pool,
        ("max_pool",),
        {
            "padding were 0, and not −∞": ("filled(places)", "np.where(places == BEYOND, filled(places), places)"),
            "the mean were taken": [("filled(places)", "places"), ("seen.max(-1)", "seen.mean(-1)")],
            "the smallest number were taken": ("seen.max(-1)", "-(-seen).max(-1)"),
        },
        words={"BEYOND": BEYOND},
    ),
    *named_edits(
        layers.adaptive_average_pool,
        ("adaptive_average_pool",),
        {**ADAPTIVE, "the largest number were taken": LARGEST},
        words=WORDS,
    ),
    *named_edits(
        layers.adaptive_max_pool,
        ("adaptive_max_pool",),
        {**ADAPTIVE, "the mean were taken": [("filled(places)", "places"), ("seen.max(-1)", MEAN_OF_PLACES)]},
        words=WORDS,
    ),
    *named_edits(
        layers.upsample,
        ("upsample",),
        {
            "corners were aligned where they should not be, and not where they should": (
                "align_corners =",
                "not align_corners",
            ),
            **{
                says: ("mode =", f"{others}.get(mode, mode)")
                for says, others in {
                    "nearest took the place nearest to the middle": {"nearest": "nearest-exact"},
                    "nearest-exact took the place below": {"nearest-exact": "nearest"},
                    "linear were nearest": {"linear": "nearest"},
                    "nearest were linear": {"nearest": "linear"},
                }.items()
            },
        },
    ),
]
