"""Cases of pooling and upsampling."""

from __future__ import annotations

from refnp.layers import pooling
from refnp.verify.case import Case, Layer, normal
from refnp.verify.equations import pooling as equations


def average_pool(x, *, size, **options):
    """Means over windows."""
    return pooling.average_pool(x, size, **options)


def max_pool(x, *, size, **options):
    """Maxima over windows."""
    return pooling.max_pool(x, size, **options)


def upsample(x, *, factor):
    """Every number repeated."""
    return pooling.upsample(x, factor)


AVERAGE = Layer("average_pool", average_pool, equations.average_pool)
MAXIMUM = Layer("max_pool", max_pool, equations.max_pool)
UPSAMPLE = Layer("upsample", upsample, equations.upsample)


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
        ]
    return [
        *found,
        Case(UPSAMPLE, "1-D, twice", {"x": normal(2, 3, 5)}, {"factor": 2}),
        Case(UPSAMPLE, "2-D, three times", {"x": normal(1, 2, 3, 2)}, {"factor": 3}),
    ]
