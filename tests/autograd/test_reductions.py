"""Reductions against loops over indices, and their corners: zeros, ties, infinities, nothing at all."""

import math
from fractions import Fraction

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd import Tensor
from tests.helpers import assert_same_bits, assert_within, check, normal, unit_roundoff
from tests.transcriptions import autograd as transcriptions

ALL = [ad.sum, ad.mean, ad.max, ad.min, ad.prod, ad.logsumexp, ad.norm]


def gradient_of(function, x):
    value, pullback = ad.vjp(function, x)
    return pullback(np.ones_like(value))[0]


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (-1, 0), (0, 1, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_and_keepdims_as_in_numpy(function, axis, keepdims):
    x = normal(0, (2, 3, 4))
    expected = np.sum(x, axis, keepdims=keepdims).shape
    value, pullback = ad.vjp(lambda x: function(x, axis, keepdims=keepdims), x)
    assert value.shape == expected
    assert pullback(np.ones(expected))[0].shape == x.shape
    check(lambda x: function(x, axis, keepdims=keepdims), (x,))


@pytest.mark.parametrize("function", [ad.mean, ad.max, ad.min])
def test_nothing_has_no_mean_and_no_largest(function):
    with pytest.raises(
        ValueError, match=rf"{function.__name__}: x of shape \(2, 0\) has no elements along axis \(1,\)"
    ):
        function(np.ones((2, 0)), 1)
    assert function(np.ones((0, 2)), 1).shape == (0,)


@pytest.mark.parametrize(("function", "value"), [(ad.sum, 0), (ad.prod, 1), (ad.logsumexp, -np.inf), (ad.norm, 0)])
def test_nothing_has_these(function, value):
    result, pullback = ad.vjp(lambda x: function(x, 1), np.ones((2, 0)))
    assert result.tolist() == [value, value]
    assert pullback(np.ones(2))[0].shape == (2, 0)


@pytest.mark.parametrize("function", [ad.max, ad.min])
def test_ties_share_the_gradient(function):
    sign = 1.0 if function is ad.max else -1.0
    x = sign * np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    expected = [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]
    assert gradient_of(lambda x: function(x, 1), x).tolist() == expected
    _, forward = ad.jvp(lambda x: function(x, 1), (x,), (np.array([[8.0, 2, 4], [3, 6, 9]]),))
    assert_within(forward, np.array([3.0, 6.0]), 32 * unit_roundoff(float))


@pytest.mark.parametrize("function", [ad.max, ad.min])
def test_nan_is_extreme_and_takes_the_gradient(function):
    x = np.array([1.0, np.nan, 2.0])
    assert np.isnan(function(x))
    assert gradient_of(function, x).tolist() == [0, 1, 0]


def test_complex_extremes_are_those_of_the_real_part_exactly():
    z = np.array([0.1 + 1j, 0.1 + 2j, 0.1 + 6j, -5 + 9j])
    assert ad.max(z) == 0.1 + 3j  # the real part as it is, the imaginary one shared like the gradient
    assert ad.min(z) == -5 + 9j


def test_product_at_zeros():
    """HIPS autograd divides the product by each factor: NaN at zeros."""
    x = np.array([[2.0, 0.0, 5.0], [0.0, 0.0, 3.0], [2.0, 3.0, 4.0]])
    assert gradient_of(lambda x: ad.prod(x, 1), x).tolist() == [[0, 10, 0], [0, 0, 0], [12, 8, 6]]
    assert ad.hessian(ad.prod)(np.array([0.0, 0.0, 3.0])).tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
@np.errstate(over="ignore")
def test_products_that_leave_the_range_on_their_way(order):
    """1e-200² is 0 and 1e200² infinite, what they are factors of is neither; each of n products is rounded once."""
    x = np.array([1e-200, 1e-200, 5.0, 1e200, 1e200])[order]
    exact = math.prod(map(Fraction, x))
    for y in (ad.prod(x), ad.cumprod(x)[-1]):
        assert_within(y, float(exact), 5 * unit_roundoff(float) * 5)
    others = np.array([float(exact / Fraction(factor)) for factor in x])
    assert_within(gradient_of(ad.prod, x) / others, np.ones(5), 6 * unit_roundoff(float))


def test_norm_at_zero_and_at_the_ends_of_the_range():
    """The square of 1e200 overflows, that of 1e-200 is 0. At 0 HIPS autograd gives NaN."""
    assert gradient_of(ad.norm, np.zeros(3)).tolist() == [0, 0, 0]
    for scale, u in ((1e200, 2.0**-53), (1e-200, 2.0**-53), (1e-310, 1e-13)):  # the last with fewer digits, subnormal
        x = scale * np.array([3.0, 4.0])
        assert_within(ad.norm(x), 5 * scale, 16 * u * 5 * scale)
        assert_within(gradient_of(ad.norm, x), np.array([0.6, 0.8]), 16 * u)


def test_logsumexp_of_infinities():
    """PyTorch's gradient of logsumexp(−∞, −∞) is NaN."""
    inf = np.inf
    x = np.array([[-inf, -inf], [-inf, 1.0], [inf, 1.0], [inf, inf], [-inf, inf], [800.0, inf]])
    assert ad.logsumexp(x, 1).tolist() == [-inf, 1, inf, inf, inf, inf]
    expected = [[0, 0], [0, 1], [1, 0], [0.5, 0.5], [0, 1], [0, 1]]
    assert gradient_of(lambda x: ad.logsumexp(x, 1), x).tolist() == expected


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 1e6, 1e300])
def test_no_nan_from_finite_numbers(scale):
    x = scale * normal(0, (3, 4))
    for function in (ad.sum, ad.mean, ad.max, ad.logsumexp, ad.norm, ad.cumsum):
        value, pullback = ad.vjp(function, x)
        assert np.isfinite(value).all()
        assert np.isfinite(pullback(np.ones_like(value))[0]).all()


def test_gradient_of_sum_is_safe_to_change():
    x = Tensor(np.ones((2, 2)), requires_grad=True)
    x.sum().backward()  # the rule gives a read-only view of one number
    x.grad += 1
    assert x.grad.tolist() == [[2, 2], [2, 2]]


# ---- var, std, cumprod, argmax


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1e300])
def test_deviations_of_any_size(scale):
    """No square over- or underflows on its way: std is scaled as its argument is, and so is its gradient's length."""
    x = normal(0, (3, 5))
    value, pullback = ad.vjp(ad.std, scale * x)
    assert_within(value / scale, ad.std(x), 8 * unit_roundoff(float))
    assert_within(pullback(np.ones(()))[0], gradient_of(ad.std, x), 1e-15)
    with np.errstate(over="ignore"):
        assert ad.var(scale * x) == pytest.approx(0 if scale < 1 else np.inf, abs=1e-300)


@pytest.mark.parametrize("shift", [1e4, 1e8])
def test_variance_of_numbers_far_from_zero(shift):
    """E[x²] − E[x]² would have no digit; here only x itself is rounded. Whole numbers, so the answer is exact."""
    x = shift + np.array([1.0, 2, 3, 4, 5, 6, 7])
    assert ad.var(x) == 4
    assert ad.var(x, ddof=1) == pytest.approx(28 / 6, rel=2e-16)
    assert ad.var(x.astype(np.float32) if shift < 1e5 else x) == 4


def test_deviations_at_the_kink_and_of_one_number():
    for x in (np.full(4, 0.1), np.array([3.0]), np.zeros((2, 3))):
        for function in (ad.var, ad.std):
            value, pullback = ad.vjp(function, x)
            assert value == 0
            assert_same_bits(pullback(np.ones(()))[0] + 0.0, np.zeros(x.shape))


def test_running_products_with_zeros():
    """The gradient by its definition, Σ_{i≥j} ȳ_i Π_{k≤i, k≠j} x_k, with none, one and two zeros."""
    for line in ([2.0, 3, -1, 4], [2.0, 0, -1, 4], [0.0, 3, 0, 4], [0.0, 0, 0, 0], [5.0]):
        n, bar = len(line), np.arange(1.0, len(line) + 1)
        expected = [
            sum(bar[i] * np.prod([x for k, x in enumerate(line[: i + 1]) if k != j]) for i in range(j, n))
            for j in range(n)
        ]
        value, pullback = ad.vjp(ad.cumprod, np.array(line))
        assert value.tolist() == list(transcriptions.running_products(line))
        assert pullback(bar)[0].tolist() == expected


def test_the_place_of_the_largest():
    x = np.array([[1.0, 3, 3], [-5, 7, np.nan]])
    assert (ad.argmax(x[0]), ad.argmin(x[0]), ad.argmax(x)) == (1, 0, 5)
    assert ad.argmax(x[:1], 1).tolist() == [1]
    assert ad.argmin(np.array([1 + 5j, 0 + 9j])) == 1
    assert ad.argmax(Tensor(x, requires_grad=True), 0).dtype.kind == "i"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.var(np.ones(1), ddof=1), ValueError, r"var: x of shape \(1,\) has 1 numbers along axis \(0,\), .*"),
        (lambda: ad.std(np.ones((0, 2)), 0), ValueError, r"std: x of shape \(0, 2\) has 0 numbers along axis .*"),
        (lambda: ad.argmax(np.ones((2, 0)), 1), ValueError, r"argmax: x of shape \(2, 0\) has no elements along .*"),
        (
            lambda: ad.argmax(np.ones(2), (0,)),
            TypeError,
            r"argmax: axis is \(0,\); pass an integer, or None for all .*",
        ),
        (lambda: ad.argmax([[1.0], [1.0, 2.0]]), TypeError, r"argmax: x is .*; pass an array of one shape"),
        (lambda: ad.argmin(np.ones(2), 1), ValueError, r"argmin: axis 1 is out of range for an array with 1 axes"),
        (lambda: ad.cumprod(np.ones(())), ValueError, r"cumprod: axis -1 is out of range for an array with 0 axes"),
    ],
)
def test_what_has_no_answer_is_refused(call, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        call()
