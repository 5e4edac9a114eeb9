"""The precisions, and the digits that are asked in each."""

import numpy as np
import pytest

from gradcheck.precision import dtype_name, roundoff, scaled, wider, working


def test_roundoff_is_the_largest_that_adds_nothing_to_one():
    for dtype in (np.float32, np.float64, np.longdouble):
        one, u = dtype(1), dtype(roundoff(dtype))
        assert one + u == one
        assert one + 3 * u > one


def test_wider_is_wider_until_there_is_nothing():
    assert wider(np.float32) == np.float64
    assert wider(np.longdouble) is None
    above = wider(np.float64)
    assert above is None or roundoff(above) < roundoff(np.float64)


def test_float32_is_differentiated_in_float64():
    assert working(np.float32) == np.float64
    assert working(np.longdouble) == np.longdouble


@pytest.mark.parametrize(("dtype", "asked"), [(np.float64, 12.0), (np.float32, 5.3)])
def test_digits_are_the_same_share_of_every_dtype(dtype, asked):
    assert scaled(12, dtype) == pytest.approx(asked, abs=0.02)


def test_names_are_the_same_on_every_platform():
    assert dtype_name(np.float32) == "float32"
    assert dtype_name(np.complex128) == "complex128"
    assert dtype_name(np.longdouble) in ("longdouble", "float64")
