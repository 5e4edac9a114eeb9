"""The noise of f is that of its own arithmetic, whatever dtype x has; and an error estimate of differences is one."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gradcheck import complex_step, richardson
from gradcheck.noise import noise_of
from gradcheck.precision import SAFETY, roundoff, wider

SMOOTH = {
    "sin": np.sin,
    "tanh": np.tanh,
    "bell": lambda z: np.exp(-z * z),
    "rational": lambda z: z / (1 + z * z),
    "square": lambda z: z * z / 4,
    "root": lambda z: np.sqrt(2 + z * z),
    "log": lambda z: np.log1p(z * z),
    "cancels": lambda z: (z + 30) - 30,
}
X = np.array([0.4, -1.3, 0.9])
V = np.array([1.0, -0.7, 0.6])


def function(names, slope, shift, factor, scale):
    """A composition on the scale of x, in the dtype that x comes in."""

    def f(x):
        number = x.dtype.type
        z = x * number(slope / scale) + number(shift)
        for name in names:
            z = SMOOTH[name](z)
        return z * number(factor)

    return f


INSIDE = {
    "float64": lambda f: f,
    "longdouble": lambda f: lambda x: f(x.astype(np.longdouble)),
    "float32": lambda f: lambda x: f(x.astype(np.float32)),
    "float32, returned as float64": lambda f: lambda x: f(x.astype(np.float32)).astype(np.float64) * 1.1,
}


@given(
    names=st.lists(st.sampled_from(sorted(SMOOTH)), min_size=1, max_size=4),
    slope=st.floats(0.2, 3),
    shift=st.floats(-1, 1),
    factor=st.sampled_from([1e-6, 0.3, 1.0, 1e4]),
    scale=st.sampled_from([1e-8, 1e-3, 1.0, 1e5]),
    inside=st.sampled_from(sorted(INSIDE)),
)
@example(["sin"], 1.15, 1.0, 32.0, 1.0, "float32, returned as float64")
@example(["cancels"], 1.0, 0.0, 1.0, 1.0, "float32")
def test_the_error_of_a_difference_is_no_larger_than_it_says(names, slope, shift, factor, scale, inside):
    """At three points at once; where f changes by less than 30 roundings of what it adds up, no difference sees it."""
    f = function(names, slope, shift, factor, scale)
    x, v = X * scale, V * scale
    widest = wider(np.float64) or np.float64
    right = complex_step(f, x.astype(widest), v.astype(widest)) * (1.1 if "returned" in inside else 1)
    estimate = richardson(INSIDE[inside](f), x, v)
    u = roundoff(np.float32 if "float32" in inside else np.float64)
    size = (np.abs(f(x)) + (40 * factor if "cancels" in names else factor)) * u
    of_truth = 16 * roundoff(widest) * (np.abs(right) + size / u)
    seen = np.abs(right) > 30 * size
    assume(seen.any())
    assert np.all((np.abs(estimate.value - right) <= estimate.error + of_truth)[seen])


@pytest.mark.parametrize("scale", [1e-10, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("name", sorted(set(SMOOTH) - {"cancels"}))
def test_what_computes_in_float64_has_the_noise_of_float64(name, scale):
    f = function([name], 1.0, 0.35, 2.0, scale)
    found = noise_of(f, X * scale, V * scale)
    assert not found.is_coarse(np.float64)
    assert np.all(found.absolute <= SAFETY * 2.0**-53 * (np.abs(f(X * scale)) + 2))
    assert np.all(found.absolute >= 2.0**-53 * np.abs(f(X * scale)))


@pytest.mark.parametrize("scale", [1e-10, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("name", sorted(set(SMOOTH) - {"cancels"}))
@pytest.mark.parametrize("inside", ["float32", "float32, returned as float64"])
def test_what_computes_in_float32_is_found_out(name, scale, inside):
    f = INSIDE[inside](function([name], 1.0, 0.35, 2.0, scale))
    found = noise_of(f, X * scale, V * scale)
    assert found.is_coarse(np.float64)
    assert np.all(found.absolute >= 2.0**-26 * np.abs(f(X * scale)))
    assert np.all(found.absolute <= SAFETY * 2.0**-24 * (np.abs(f(X * scale)) + 2))


def test_steps_of_whole_roundings_hide_no_noise():
    """At equal distances a straight line may move by a whole number of roundings each time, and scatters nowhere."""
    slopes = np.linspace(0.5, 40, 1000)  # roundings for each first step
    f = lambda x: 0.7 + 2.0**-24 * np.round(slopes * 2.0**18 * x + 3.3)
    assert np.all(noise_of(f, np.ones(1), np.ones(1)).absolute >= 2.0**-27)


def test_cancellation_is_noise():
    found = noise_of(lambda x: (x + 1e6) - 1e6, X, V)
    assert np.all(found.absolute >= 2.0**-53 * 1e6)
    assert np.all(found.absolute <= SAFETY * 2.0**-53 * 1e6)


@pytest.mark.parametrize("sharpness", [1e2, 1e4, 1e6])
def test_a_sharp_bend_is_no_noise(sharpness):
    f = lambda x: np.sin(sharpness * x)
    assert np.all(noise_of(f, np.array([0.3 / sharpness]), np.ones(1)).absolute <= SAFETY * 2.0**-53)


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("f", [np.abs, lambda x: np.maximum(x, 0), np.sign, lambda x: 1.0 * (x > 0)])
def test_a_kink_or_a_jump_is_no_noise(f, distance):
    found = noise_of(f, np.array([distance, -distance]), np.ones(2))
    assert np.all(found.absolute <= SAFETY * 2.0**-53)


@pytest.mark.parametrize("frequency", [1e4, 1e6, 1e8])
def test_waves_that_are_shorter_than_the_first_distances_are_no_noise(frequency):
    """Values scatter at two distances in a row, and not at the closest."""
    relative, _ = noise_of(lambda x: np.sin(frequency * x), np.array([0.3]), np.ones(1))
    assert np.all(relative <= 64 * 2.0**-53 * frequency)
