"""Waves: sines and cosines of positions against 60 digits, at places where a plain product has lost its digits."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refnp.layers.positions.absolute import sinusoids
from tests.helpers import REAL, assert_same_bits, assert_within, real_dtypes, unit_roundoff
from tests.layers.positions.judges import sinusoid_error
from tests.transcriptions import positions as written

FAR = [0, 1, 2, 17, 710, 99_999, 100_000, -100_000, 2**40 + 1, 2**62, -(2**63)]


def reference(places, features, base=10000):
    """Sines and cosines, (N, ⌈D/2⌉) each, in the widest precision, of all pairs, also of one that is cut off."""
    both = written.table(
        places, 2 * ((features + 1) // 2), lambda p, j: written.sinusoid(p, written.ratio(j - j % 2, features), j, base)
    )
    return both[:, 0::2], both[:, 1::2]


def bound(values, dtype, places):
    """That of the angle and of the sine in the precision of the computation, float64 at least; and the last cast."""
    computed, given_dtype = unit_roundoff(np.result_type(dtype, np.float64)), unit_roundoff(dtype)
    places = np.asarray(places, float)[..., None]
    return sinusoid_error(values, places) * computed + (np.abs(values) * given_dtype if computed < given_dtype else 0)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200_000, 200_000), min_size=1, max_size=4),
    st.integers(1, 9),
    st.sampled_from([10000, 1, 2.5, 500_000]),
    real_dtypes,
)
@example(FAR, 7, 10000, np.float64)
@example(FAR, 6, 10000, np.longdouble)
@example(FAR, 2, 10000, np.float32)
def test_right_at_any_place(places, features, base, dtype):
    for value, expected in zip(
        sinusoids(places, features, base=base, dtype=dtype), reference(places, features, base), strict=True
    ):
        assert value.dtype == dtype
        assert_within(value, expected, bound(expected, dtype, places))


@pytest.mark.parametrize("dtype", REAL)
def test_small_angles_keep_all_their_digits(dtype):
    """Relative error 12u where sin φ ≈ φ: 4u from the angle, 8u from the sine, and a cast."""
    (sines, _), (expected, _) = sinusoids([1, 3], 4, base=1e12, dtype=dtype), reference([1, 3], 4, 1e12)
    assert (expected[:, 1] < 1e-5).all()
    assert_within(sines[:, 1], expected[:, 1], 13 * unit_roundoff(dtype) * expected[:, 1])


def test_a_plain_product_has_lost_digits_at_1e5():
    """sin(p · base^(−2k/D)) in float64 is beyond the bound by a factor of 1000 for some sinusoid at p = 99 999."""
    exponents = -2 * np.arange(32) / 64
    naive, (expected, _) = np.sin(99_999 * 10000.0**exponents), reference([99_999], 64)
    excess = np.abs(naive - expected[0]) / bound(expected[0], np.float64, 99_999)
    assert excess.max() > 1000
    assert_within(sinusoids([99_999], 64)[0], expected, bound(expected, np.float64, [99_999]))


@pytest.mark.parametrize(("place", "features", "k"), [(42_106_686_282, 2, 0), (2**62, 64, 9), (710, 2, 0)])
def test_angles_that_are_nearly_whole_turns(place, features, k):
    """Beside a small angle the error is 4u·21|p|/2⁶⁴, and not 4u|φ|: that would be exceeded 111 times by the first."""
    sines, (expected, _) = sinusoids([place], features), reference([place], features)
    y, right = sines[0][0, k], expected[0, k]
    u = unit_roundoff(np.float64)
    of_the_angle, of_the_sine = 4 * u * (2 * np.abs(right) + 21 * place / 2.0**64), 8 * u * np.abs(right)
    assert np.abs(right) < 0.03
    assert np.abs(y - right) <= of_the_angle + of_the_sine


@pytest.mark.parametrize("places", [[], np.zeros((2, 0), int), 5, np.array([[3, 4], [5, 6]], np.uint8)])
def test_shapes_and_types_of_places(places):
    sines, cosines = sinusoids(places, 5)
    assert sines.shape == cosines.shape == (*np.shape(places), 3)
    for n in np.ndindex(np.shape(places)):
        assert_same_bits(sines[n], sinusoids(int(np.asarray(places)[n]), 5)[0])


def test_results_are_the_callers():
    """What is kept between calls is not what is given out."""
    first = sinusoids([1, 2], 4)[0]
    first[...] = 7
    assert_within(sinusoids([1, 2], 4)[0], reference([1, 2], 4)[0], 22 * unit_roundoff(np.float64))


def test_complex_asks_for_the_real_precision():
    sines, _ = sinusoids([1], 2, dtype=np.complex128)
    assert sines.dtype == np.complex128
    assert_same_bits(sines.real, sinusoids([1], 2)[0])
