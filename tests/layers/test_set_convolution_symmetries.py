"""What leaves a set convolution as it is, to the bit or to rounding; and what is said to, and does not."""

import functools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.layers.set_convolution import set_convolution
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import assert_same_bits, assert_within, normal, seeds, unit_roundoff
from tests.layers.sets import sets, sizes, within


@given(seeds, sizes, st.booleans(), st.integers(-512, 512))
def test_a_shift_that_rounds_nothing_changes_nothing(seed, size, divide, shift):
    x, points, y = (np.round(a * 1024) / 1024 for a in sets(seed, size))
    f = functools.partial(set_convolution, divide=divide)
    results = []
    for t in (0, shift / 8):
        z, pullback = vjp(f, x + t, points + t, y, 0.6)
        results.append((z, *pullback(normal(np.random.default_rng(seed), z.shape))[:3]))
    for moved, here in zip(*results, strict=True):
        assert_same_bits(moved, here)


@given(seeds, sizes, st.floats(-1e4, 1e4), st.sampled_from([np.float32, np.float64]))
def test_any_shift_changes_no_more_than_the_rounding_of_positions_does(seed, size, shift, dtype):
    x, points, y = sets(seed, size, dtype)
    """The first order by running error analysis; the second, δ²/ℓ² in s and |k′| ≤ ½, is all there is where d is 0."""
    t, u = dtype(shift), unit_roundoff(dtype)
    moved, moved_points = exact(x) + t, exact(points) + t  # each rounds
    bound = tolerance(SET_CONVOLUTION.equation(moved, moved_points, exact(y), exact(0.6))[0], dtype)
    delta = u * (moved.error[:, :, None] + moved_points.error[:, None])  # (B, N, M, dx)
    carried = np.concatenate([np.ones_like(y[..., :1], shape=(*y.shape[:-1], 1)), np.abs(y)], -1)
    second = (delta**2).sum(-1) / 0.6**2 / 2 @ carried
    assert_within(
        set_convolution(x + t, points + t, y, 0.6),
        set_convolution(x, points, y, 0.6),
        within(x, points, y, 0.6) + bound + 2 * second,
    )


def test_linear_in_y_and_additive_over_sets_but_not_when_divided():
    x, points, y = sets(5, (1, 6, 8, 2, 1))
    f = lambda y, n, **options: set_convolution(x, points[:, n], y[:, n], 0.6, **options)
    every, first, rest = slice(None), slice(0, 3), slice(3, None)
    bound = 2 * within(x, points, y, 0.6)
    assert_within(f(2.5 * y, every)[..., 1:], 2.5 * f(y, every)[..., 1:], 2.5 * bound[..., 1:])
    assert_within(f(y, first) + f(y, rest), f(y, every), bound)
    apart = f(y, first, divide=True) + f(y, rest, divide=True) - f(y, every, divide=True)
    assert np.abs(apart[..., 1:]).max() > 0.1


def test_density_counts_points_and_tells_a_zero_from_nothing():
    x, points = np.array([[0.25]]), np.full((7, 1), 0.25)
    assert set_convolution(x, points, np.zeros((7, 1)), 0.1).tolist() == [[7.0, 0.0]]
    empty = np.zeros((0, 1))
    assert set_convolution(x, empty, empty, 0.1).tolist() == [[0.0, 0.0]]
    silent = set_convolution(x, points, np.zeros((7, 1)), 0.1, density=False)
    assert_same_bits(silent, set_convolution(x, empty, empty, 0.1, density=False))


def test_division_makes_a_mean():
    x, points, _ = sets(5, (1, 6, 8, 1, 1))
    z = set_convolution(x, points, np.full((1, 8, 1), 3.0), 0.6, divide=True)
    assert_within(z[..., 1], 3 * z[..., 0] / (z[..., 0] + 1e-8), 40 * unit_roundoff(float))
