"""Running error analysis: the bound holds for what float32 and float64 really compute, and is no larger than needed."""

import numpy as np
import pytest
from hypothesis import given

from refnp.verify import rounding
from refnp.verify.rounding import Rounded, blocked_depth, constant, contract, exact, scatter, tolerance, where
from tests.helpers import assert_within, normal, seeds

# Each program is run twice: by NumPy in the precision judged, and in Rounded numbers, on the same inputs.
PROGRAMS = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "3 - x": lambda x, y: 3 - x,
    "x y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "2 / y": lambda x, y: 2 / y,
    "cancellation": lambda x, y: (x * y + x) - x * y,
    "sum": lambda x, y: x.sum((0,)),
    "mean": lambda x, y: x.row_mean() if isinstance(x, Rounded) else x.mean(-1, keepdims=True),
}
FUNCTIONS = {
    "exp": (np.exp, rounding.exp, 0),
    "expm1": (np.expm1, rounding.expm1, 0),
    "tanh": (np.tanh, rounding.tanh, 0),
    "log": (np.log, rounding.log, 0.1),
    "log1p": (np.log1p, rounding.log1p, -0.9),
    "sqrt": (np.sqrt, rounding.sqrt, 0.0),
}


def draw(seed, dtype, least=None):
    x = normal(seed, (5, 9), dtype)
    return x if least is None else np.maximum(np.abs(x), dtype(least) + dtype(0.01))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
@given(seeds)
def test_arithmetic_stays_within_its_bound(name, dtype, seed):
    x, y = draw(seed, dtype), draw(seed + 1, dtype)
    computed, bound = PROGRAMS[name](x, y), PROGRAMS[name](exact(x), exact(y))
    assert computed.dtype == dtype
    assert_within(computed, bound.value, tolerance(bound, dtype) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
@given(seeds)
def test_functions_of_rounded_numbers_stay_within_their_bound(name, dtype, seed):
    plain, rounded, least = FUNCTIONS[name]
    x, y = draw(seed, dtype, least), draw(seed + 1, dtype, 0.5)
    bound = rounded(exact(x) * exact(y) / exact(y))
    assert_within(plain(x * y / y), bound.value, tolerance(bound, dtype) / 2)


@given(seeds)
def test_contraction_and_scatter(seed):
    x, y = draw(seed, np.float32), draw(seed + 1, np.float32)
    product = contract("ik,jk->ij", exact(x), exact(y))
    assert_within(x @ y.T, product.value, tolerance(product, np.float32) / 2)
    batched = contract("...ik,...jk->...ij", exact(x[None]), exact(y[None]))
    np.testing.assert_array_equal(batched.error[0], product.error)
    places = np.array([3, 0, 3, 3, 1])
    total = np.zeros((4, 9), np.float32)
    np.add.at(total, places, x)
    bound = scatter(exact(x), places, 4)
    assert_within(total, bound.value, tolerance(bound, np.float32) / 2)
    assert (bound.error[[0, 1, 2]] == 0).all(), "moving numbers rounds nothing"


def test_what_is_exact_has_no_error():
    x = exact([1.0, 2.0, 4.0])
    for same in (x, -x, x[1:], x.reshape(3, 1), where([True, False, True], x, 0)):
        assert (same.error == 0).all()
    assert (constant(0.1).error == np.longdouble(0.1)).all()


def test_cancellation_shows():
    """(1 + δ) − 1 keeps the error of the sum, which is large beside δ."""
    small = exact(2.0**-20)
    difference = (small + 1) - 1
    assert difference.error / difference.value > 2**19


def test_infinite_weights_pass_without_nan():
    x = exact([0.0, -np.inf])
    e = rounding.exp(Rounded(x.value, [1.0, np.inf]))
    assert e.value.tolist() == [1.0, 0.0]
    assert e.error.tolist() == [9.0, 0.0]


def test_blocked_sums_take_few_roundings():
    depths = [blocked_depth(n) for n in (0, 1, 2, 8, 16, 64, 128, 1024)]
    assert depths == [0, 0, 1, 7, 5, 11, 19, 22]


def test_the_precision_that_judges_is_named():
    words = rounding.judging_precision()
    assert ("float64" in words) == (np.finfo(np.longdouble).nmant == np.finfo(np.float64).nmant)


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "...ij,jk->...ik"])
def test_contraction_counts_its_terms(subscripts):
    ones = exact(np.ones((3, 7))), exact(np.ones((7, 2)))
    assert (contract(subscripts, *ones).error == 7 * 7).all()
    assert (contract(subscripts, *ones, terms=21).error == 21 * 7).all()
