"""Sets of points for the tests of layers on them, drawn by seed."""

import numpy as np
from hypothesis import strategies as st

from refnp.verify import bounds
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import normal

lengths = st.one_of(st.integers(2, 6), st.integers(0, 6))
sizes = st.tuples(st.integers(1, 3), lengths, lengths, st.integers(0, 3), st.integers(1, 3))  # B, N, M, C, dx


def sets(seed, size, dtype=np.float64, *, scale=1.0):
    """Targets (B, N, dx), points (B, M, dx) and their values (B, M, C)."""
    rng = np.random.default_rng(seed)
    b, n, m, c, dx = size
    return tuple(
        normal(rng, shape, dtype, s) for shape, s in (((b, n, dx), scale), ((b, m, dx), scale), ((b, m, c), 1))
    )


def within(x, points, y, length_scale, **options):
    """The bound on the rounding error of a set convolution of these, in the dtype of x."""
    (bound,) = bounds.of(SET_CONVOLUTION.equation, (x, points, y, length_scale), **options)
    return bound


def one(array):
    """The only set: (1, ...) → (...)."""
    return array.reshape(array.shape[1:])
