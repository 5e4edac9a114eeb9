"""Running error analysis: the bound holds for what float32 and float64 really compute, and is no larger than needed."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from refnp.layers.attention import attention
from refnp.numbers import rounding, words
from refnp.numbers.rounding import (
    WIDE,
    Rounded,
    arithmetic,
    blocked_depth,
    constant,
    contract,
    exact,
    scatter,
    tolerance,
    where,
)
from refnp.numbers.summation import LARGE, MATRICES, most_of_products, sum_of_products
from refnp.verify.layers import attention as attention_equation
from refnp.verify.layers import engine as engine_equation
from refnp.verify.layers import normalization as normalization_equation
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
    alone = scatter(exact(np.where(np.arange(5)[:, None] == 2, x, 0)), places, 4)
    assert (alone.error + alone.lost == 0).all(), "what is 0 adds nothing"


def test_what_is_exact_has_no_error():
    x = exact([1.0, 2.0, 4.0])
    for same in (x, -x, x[1:], x.reshape(3, 1), where([True, False, True], x, 0)):
        assert (same.error == 0).all()
    assert (constant(0.1).error == np.longdouble(0.1)).all()
    third = x / 3.0
    assert (third.error > 0).all()
    for same in (third * exact(1.0), third / exact(1.0), third / exact(-1.0)):
        assert (same.error == third.error).all()


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


# What underflows, and what is more than first order

F32 = arithmetic(np.float32)
SMALLEST = np.finfo(np.float32).tiny


@pytest.mark.parametrize("large", [1.0, 1e37])
def test_what_underflows_is_carried_through_later_factors(large):
    """Logits 0 and −100: a weight of 4e-44 is a subnormal number, or 0, and 1e37 times that is 4e-7, or 0."""
    query, key = np.array([[1.0]], np.float32), np.array([[0.0], [-100.0]], np.float32)
    value = np.array([[0.0], [large]], np.float32)
    bound, _ = attention_equation.attention(*(exact(a, F32) for a in (query, key, value)))
    of_refnp, of_flushing = attention(query, key, value), np.zeros((1, 1), np.float32)
    for answer in (of_refnp, of_flushing):
        assert_within(answer, bound.value, tolerance(bound, np.float32))
    if large > 1:
        relative, _ = attention_equation.attention(*map(exact, (query, key, value)))
        alone = tolerance(Rounded(relative.value, relative.error), np.float32)
        assert np.abs(of_flushing - bound.value) > 1e4 * alone, "relative errors alone do not allow it"


def test_subnormal_inputs_may_be_taken_for_0():
    small = np.array([SMALLEST / 4, SMALLEST, 1.0], np.float32)
    product = exact(small, F32) * exact(np.float32(1e38), F32)
    assert (tolerance(product, np.float32) > np.abs(product.value))[:2].tolist() == [True, False]
    assert exact(small, F32).lost.tolist() == [0.25, 0, 0]
    assert exact(np.longdouble(3), arithmetic(np.longdouble)).lost == 0


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * x,
        lambda x: rounding.sqrt(x * x),
        lambda x: (x * x) / 1e-38,
        lambda x: rounding.exp(x * 1e20 - 120) * 1e38,
        lambda x: contract("i,i->i", x, x) * 1e38,
        lambda x: (x * 1e-20).sum() * 1e30,
    ],
)
def test_underflow_of_every_operation(program):
    """Where one operation on the way underflows, 0 is a correct result."""
    bound = program(exact(np.array([1e-30, 1e-22], np.float32), F32))
    assert (tolerance(bound, np.float32) >= np.abs(bound.value)).all()
    assert np.isfinite(bound.lost).all()


def test_the_root_of_what_may_underflow_is_off_by_the_root_of_the_smallest_number():
    root = rounding.sqrt(exact(np.array([0.0, 1e-30], np.float32), F32) * 1)
    assert_within(root.off, np.sqrt([2.0, 1.0]) * np.sqrt(SMALLEST), np.array([1e-18, 1e-18]))


def test_a_row_of_equal_numbers_may_have_a_variance():
    """1e6 has a mean that is off by 0.1 in float32; the square of that is of second order in u, and far above ε."""
    x = np.full((1, 23), 1e6 / 3, np.float32)
    bound, pullback = normalization_equation.LAYER_NORM.equation(*(exact(np.float32(a), F32) for a in (x, 1, 0)))
    (x_bar, *_) = pullback(exact(np.ones((1, 23), np.float32), F32))
    total = np.float32(0)
    for element in x[0]:
        total += element
    centred = x - total / np.float32(23)
    assert 0.004 < np.abs(centred).max() < 0.2
    sigma = np.sqrt((centred * centred).mean(dtype=np.float32) + np.float32(1e-5))
    assert_within(centred / sigma, bound.value, tolerance(bound, np.float32))
    assert not np.isnan(x_bar.error).any()
    spread, _ = engine_equation.STD.equation(exact(x, F32))
    assert_within(np.sqrt((centred * centred).mean(-1)), spread.value, tolerance(spread, np.float32))


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_many_roundings_of_low_precision_add_up_to_more_than_first_order(n):
    """u = 2⁻⁹ as in bfloat16: the largest sum, every addition rounded up, is beyond n u Σ|x| and within the bound."""
    low = rounding.Arithmetic(np.longdouble(2.0**-9), np.longdouble(2.0**-126))
    total = np.longdouble(1)
    for _ in range(n - 1):
        total = (total + 1) * (1 + low.u)
    of_first_order, bound = exact(np.ones(n)).sum(), exact(np.ones(n), low).sum()
    assert total - n <= low.u * bound.error
    assert n < 100 or total - n > low.u * of_first_order.error / 2
    product = contract("i,i->", exact(np.ones(n), low), exact(np.ones(n), low))
    assert product.error > bound.error


def test_nothing_is_known_beside_a_divisor_that_may_be_0():
    nearly = (exact(np.float32(1e8), F32) + 1) - np.float32(1e8)
    assert (1 / nearly).error == np.inf
    assert (rounding.log(nearly)).error == np.inf
    assert np.isfinite((nearly / 3).error)
    assert (0 / nearly).error == np.inf, "0/0 is NaN"
    assert np.isfinite(rounding.sqrt(nearly).error), "for a sum of squares"
    assert rounding.sqrt(nearly, signed=True).error == np.inf


def test_a_number_that_is_not_known_stays_so_times_0_and_decides_nothing():
    unknown = 1 / ((exact(np.float32(1e8), F32) + 1) - np.float32(1e8))
    weighted = rounding.contract("n,n->", unknown.reshape(1), exact(np.zeros(1), F32)) + 3
    assert weighted.error == np.inf
    assert np.where(weighted > 0, exact(0, F32) + 5, 0).error >= 5 / F32.u


def test_of_an_exponential_that_vanishes_nothing_is_known_where_its_exponent_may_be_nan():
    judged = arithmetic(np.float32)
    smallest = exact(1e-40, judged)
    exponent = -(exact(np.ones(2), judged) / (smallest * smallest))  # −1e80, or −1/0, and 0/0 for another numerator
    assert (exponent.value < -1e79).all()
    assert np.isinf(tolerance(rounding.exp(exponent), np.float32)).all()
    masked = rounding.exp(exact(np.array([-np.inf, -200.0]), judged))
    assert (tolerance(masked, np.float32) < 1e-37).all()


def test_what_is_beyond_the_largest_number_of_an_arithmetic_overflows():
    """In float32 from 2¹²⁸ on, whether or not its largest number is told."""
    x = exact(np.ldexp(np.longdouble(1), [127, 129]), arithmetic(np.float32))
    for judged in (x.arithmetic, x.arithmetic._replace(largest=WIDE(np.finfo(np.float32).max))):
        assert np.isinf(rounding.overflowing(exact(x.value, judged)).value).tolist() == [False, True]


def test_means_of_rows_in_blocks_are_a_class_of_their_own():
    x = np.ones((1, 4096))
    errors = [exact(x, arithmetic(np.float32, blocked=blocked)).row_mean().error.item() for blocked in (False, True)]
    assert errors[0] > 4095 > 30 > errors[1] > 24


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


def test_a_product_with_1_rounds_nothing():
    """And one with any other number does."""
    x = rounding.exact(normal(0, (4,)), F32) * 3
    for one in (1, -1, words.constant(1), np.ones(())):
        y = one * x
        np.testing.assert_array_equal(y.error, x.error)
        np.testing.assert_array_equal(y.lost, x.lost)
    assert ((2 * x).error > 2 * x.error).all()
    almost = rounding.Rounded(np.ones(()), 1, 0, F32)  # not without error
    assert ((almost * x).error > x.error).all()


@pytest.mark.parametrize("spread", [1, 100])
def test_a_bound_of_large_matrices_is_never_less_than_the_sum(spread):
    """In float64 with a BLAS where its range allows it, against sums of fractions; as it stands where it does not."""
    rng = np.random.default_rng(spread)
    x, y = (np.exp2(rng.uniform(-spread, spread, shape).astype(WIDE)) for shape in ((2, 64, 128), (2, 128, 80)))
    y[:, 0] = x[0, :, 3] = 0
    assert x.size * y.shape[-1] >= LARGE
    found = most_of_products(MATRICES, x, y)
    fraction = lambda number: Fraction(*number.as_integer_ratio())
    for b, n, m in rng.integers((2, 64, 80), size=(20, 3)):
        right = sum(fraction(p) * fraction(q) for p, q in zip(x[b, n], y[b, :, m], strict=True))
        assert right <= fraction(found[b, n, m]) <= right * (1 + Fraction(1, 2**40))
    for far in (WIDE(2) ** 600, WIDE(2) ** -600):
        np.testing.assert_array_equal(most_of_products(MATRICES, x * far, y), sum_of_products(MATRICES, x * far, y))
