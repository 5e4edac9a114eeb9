"""Functions with and without symmetries, and ways to draw their inputs, for the tests of this folder."""

import functools

import numpy as np

import refnp.symmetry
from refnp.autograd import concatenate
from refnp.layers import relu, upsample
from refnp.layers.attention import attention
from refnp.layers.convolution import convolution

search = functools.partial(refnp.symmetry.search, count=16)
RNG = np.random.default_rng(20)
KERNELS = {
    name: RNG.normal(size=shape) for name, shape in {"in": (2, 1, 3), "down": (2, 2, 4), "up": (2, 2, 3)}.items()
}
RING = {"padding_mode": "circular"}


def vector(rng, n):
    return {"x": rng.normal(size=n)}


def rows(rng, n, m=3):
    return {"x": rng.normal(size=(n, m))}


def plane(rng, n):
    return {"x": rng.normal(size=(n, 2)), "y": rng.normal(size=(n, 2))}


def signal(rng, n):
    return {"x": rng.normal(size=(1, 1, n))}


def masked(rng, n):
    return {"x": rng.normal(size=(n, 4)), "mask": rng.random((n, n)) < 0.7}


def self_attention(x, mask=None):
    return attention(x, x, x, mask=mask)


def sinusoidal_attention(x):
    """Self-attention of tokens to which their places were added."""
    place, wave = np.indices(x.shape).astype(x.dtype)
    return self_attention(x + np.sin(place / 10 ** (wave / 2)))


def ring_convolution(x):
    return convolution(x, KERNELS["in"], padding=1, **RING)


def padded_convolution(x):
    return convolution(x, KERNELS["in"], padding=1)


def ring_unet(x):
    """Two steps with stride 2 down a ring, two up, joined with what came down: total stride 4."""
    x = ring_convolution(x)
    one = relu(convolution(x, KERNELS["down"], stride=2, padding=1, **RING))
    two = relu(convolution(one, KERNELS["down"], stride=2, padding=1, **RING))
    up = convolution(upsample(two, 2), KERNELS["up"], padding=1, **RING) + one
    return concatenate([convolution(upsample(up, 2), KERNELS["up"], padding=1, **RING), x], axis=1)


def squared_distances(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def nearest_other(x):
    """The item that is nearest to each, the first of several."""
    d = ((x[:, None] - x[None]) ** 2).sum(-1) + np.diag(np.full(len(x), np.inf))
    return x[d.argmin(1)]
