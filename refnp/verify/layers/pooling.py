"""Pooling and upsampling, from the table of windows that convolution uses."""

import math

import numpy as np

from refnp import layers
from refnp.verify.case import Case, GradientInputs, Layer, generator, gradient_of, normal
from refnp.verify.layers.convolution import gathered, pairs_of, per_axis, places_of, scattered, sources
from refnp.verify.rounding import Rounded, exact


def windows(x: Rounded, size, stride, padding) -> tuple[np.ndarray, tuple[int, ...]]:
    """The table (P, T) of positions in the flattened input, −1 outside, and the number of windows per axis."""
    axes = len(x.shape) - 2
    sizes = per_axis(size, axes)
    strides = sizes if stride is None else per_axis(stride, axes)
    walk = sizes, strides, (1,) * axes, pairs_of(padding, axes)
    places = places_of(x.shape[2:], *walk)
    return sources("zeros", x.shape[2:], places, *walk), places


def average_pool(x, *, size, stride=None, padding=0):
    """y[p] = (1/k) Σ_t x[source(p, t)], zeros outside counted;   x̄[i] = Σ of ȳ[p]/k over the windows of i."""
    table, places = windows(x, size, stride, padding)
    flat = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    count = table.shape[1]
    y = (gathered(flat, table).sum((-1,)) / count).reshape(*x.shape[:2], *places)

    def pullback(g):
        share = (g.reshape(*x.shape[:2], len(table)) / count).moved(lambda a: np.repeat(a[..., None], count, -1))
        return (scattered(share, table, math.prod(x.shape[2:])).reshape(*x.shape),)

    return y, pullback


def max_pool(x, *, size, stride=None, padding=0):
    """y[p] = the largest x of window p;   ȳ[p] goes to it, the first among equals."""
    table, places = windows(x, size, stride, padding)
    flat = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    under = np.where(table < 0, -np.inf, gathered(flat, table).value)  # (B, C, P, T)
    first = under.argmax(-1)[..., None]

    def pullback(g):
        at_first = np.arange(table.shape[1]) == first
        bar = Rounded(g.value.reshape(*x.shape[:2], len(table), 1) * at_first, np.zeros(at_first.shape))
        return (scattered(bar, table, math.prod(x.shape[2:])).reshape(*x.shape),)

    return exact(under.max(-1)).reshape(*x.shape[:2], *places), pullback


def upsample(x, *, factor):
    """y[i] = x[⌊i/f⌋];   x̄[j] = Σ of ȳ over the places of x[j]."""
    factors = per_axis(factor, len(x.shape) - 2)

    def repeated(a):
        for axis, f in enumerate(factors, start=2):
            a = np.repeat(a, f, axis)
        return a

    def pullback(g):
        split = [n for pair in zip(x.shape[2:], factors, strict=True) for n in pair]
        return (g.reshape(*x.shape[:2], *split).sum(tuple(range(3, 3 + 2 * len(factors), 2))),)

    return x.moved(repeated), pullback


def torch_pool(kind):
    """nn.functional.avg_pool and max_pool have one function for each number of dimensions."""
    return lambda torch, x, size, **options: getattr(torch.nn.functional, f"{kind}_pool{x.ndim - 2}d")(
        x, size, **options
    )


def jax_average_pool(jax, x, *, size, stride=None, padding=0):
    """Sums over windows, divided by their size."""
    total, count = window_reduction(jax, x, 0.0, jax.lax.add, size, stride, padding)
    return total / count


def jax_max_pool(jax, x, *, size, stride=None, padding=0):
    """Maxima over windows, with −∞ around."""
    return window_reduction(jax, x, -math.inf, jax.lax.max, size, stride, padding)[0]


def window_reduction(jax, x, start, combine, size, stride, padding):
    """jax.lax.reduce_window over the axes of space, and the number of elements in a window."""
    axes = x.ndim - 2
    sizes = per_axis(size, axes)
    strides = sizes if stride is None else per_axis(stride, axes)
    pairs = [(0, 0), (0, 0), *pairs_of(padding, axes)]
    return jax.lax.reduce_window(x, start, combine, (1, 1, *sizes), (1, 1, *strides), pairs), math.prod(sizes)


AVERAGE = Layer("average_pool", layers.average_pool, average_pool, torch=torch_pool("avg"), jax=jax_average_pool)
MAXIMUM = Layer("max_pool", layers.max_pool, max_pool, torch=torch_pool("max"), jax=jax_max_pool)
UPSAMPLE = Layer(
    "upsample",
    layers.upsample,
    upsample,
    torch=lambda torch, x, factor: torch.nn.functional.interpolate(x, scale_factor=factor, mode="nearest"),
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
        ]
    return [
        *found,
        Case(UPSAMPLE, "1-D, twice", {"x": normal(2, 3, 5)}, {"factor": 2}),
        Case(UPSAMPLE, "2-D, three times", {"x": normal(1, 2, 3, 2)}, {"factor": 3}),
    ]


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Windows with and without overlap and padding."""
    x = generator(seed, skip=1864).permutation(2 * 2 * 5 * 6).reshape(2, 2, 5, 6) / 7 - 8.0  # no two alike
    return [
        gradient_of("average_pool", layers.average_pool, x, size=2, order2=False),
        gradient_of("average_pool, padded", layers.average_pool, x, size=3, stride=2, padding=1, order2=False),
        gradient_of("max_pool", layers.max_pool, x, size=2, order2=False),
        gradient_of("max_pool, padded", layers.max_pool, x, size=3, stride=2, padding=1, order2=False),
        gradient_of("upsample", layers.upsample, x, factor=(2, 3), order2=False),
    ]
