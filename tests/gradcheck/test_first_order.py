"""Right gradients pass and wrong ones are caught: each kind of error that other checkers are known to let through."""

import numpy as np
import pytest

from gradcheck import GradientError, check, compare
from gradcheck.precision import scaled, wider
from tests.gradcheck import claims
from tests.gradcheck.claims import value_of, vjp_of, wrong


def arguments(claim, dtype=np.float64, seed=5):
    rng = np.random.default_rng(seed)
    shapes = {
        claims.layer_norm: [(3, 5), (5,), (5,)],
        claims.matmul: [(3, 4), (4, 2)],
        claims.maximum: [(3, 4), (3, 4)],
    }
    return tuple(rng.normal(size=shape).astype(dtype) for shape in shapes.get(claim, [(3, 5)]))


ANALYTIC = [claims.tanh, claims.softmax, claims.layer_norm, claims.matmul, claims.relu, claims.maximum]
OTHERS = [claims.absolute, claims.variance]


@pytest.mark.parametrize("claim", ANALYTIC)
@pytest.mark.parametrize("seed", range(3))
def test_right_gradients_have_fourteen_digits(claim, seed):
    report = check(value_of(claim), arguments(claim, seed=seed), vjp=vjp_of(claim), seed=seed)
    assert report.method == "complex step"
    assert report.precision == "complex128"
    assert report.digits >= 13.5
    assert report.elements == sum(a.size for a in arguments(claim))
    assert not report.kinks


@pytest.mark.parametrize("claim", OTHERS)
def test_what_is_not_analytic_is_judged_by_differences(claim):
    report = check(value_of(claim), arguments(claim), vjp=vjp_of(claim))
    assert report.method == "Richardson differences"
    assert report.digits >= 12
    assert any("no complex step" in remark for remark in report.remarks)


@pytest.mark.parametrize("claim", ANALYTIC + OTHERS)
@pytest.mark.parametrize("method", ["richardson", "longdouble"])
def test_every_method_gives_the_same_verdict(claim, method):
    args = arguments(claim)
    assert compare(value_of(claim), args, vjp=vjp_of(claim), method=method).agrees
    off = wrong(claim, lambda g, u: [g[0] * (1 + 1e-9), *g[1:]])
    assert not compare(value_of(claim), args, vjp=vjp_of(off), method=method).agrees


@pytest.mark.parametrize("claim", ANALYTIC + OTHERS)
@pytest.mark.parametrize("dtype", [np.float32, np.longdouble])
def test_other_dtypes_are_asked_for_their_share(claim, dtype):
    args = arguments(claim, dtype)
    assert compare(value_of(claim), args, vjp=vjp_of(claim)).agrees
    off = wrong(claim, lambda g, u: [g[0] * (1 + dtype(10) ** (1 - scaled(12, dtype))), *g[1:]])
    assert not compare(value_of(claim), args, vjp=vjp_of(off)).agrees


SPOILT = {
    "a sign": lambda g, u: [-g[0], *g[1:]],
    "a factor of 1 + 1e-10": lambda g, u: [g[0] * (1 + 1e-10), *g[1:]],
    "forgotten": lambda g, u: [0 * g[0], *g[1:]],
    "one element by 1e-9": lambda g, u: [one_off(g[0], 1e-9), *g[1:]],
    "the last argument alone": lambda g, u: [*g[:-1], g[-1] * (1 - 1e-8)],
    "nan": lambda g, u: [one_off(g[0], np.nan), *g[1:]],
    "infinity": lambda g, u: [one_off(g[0], np.inf), *g[1:]],
}


def one_off(gradient, relative):
    gradient = np.array(gradient)
    at = np.unravel_index(np.argmax(np.abs(gradient)), gradient.shape)
    gradient[at] *= 1 + relative
    return gradient


@pytest.mark.parametrize("claim", ANALYTIC + OTHERS)
@pytest.mark.parametrize("error", SPOILT)
def test_wrong_gradients_are_caught(claim, error):
    spoilt = wrong(claim, SPOILT[error])
    with pytest.raises(GradientError, match=claim.__name__):
        check(value_of(claim), arguments(claim), vjp=vjp_of(spoilt))


def test_an_error_that_all_ones_cannot_see_is_caught():
    """Softmax without its second term's weight: for u = 1 both the right gradient and this one are 0."""

    def careless(x):
        p, _ = claims.softmax(x)
        return p, lambda u: (p * (u - (u * p).sum(-1, keepdims=True)) * (1 + x),)

    assert np.abs(careless(np.ones((2, 3)))[1](np.ones((2, 3)))[0]).max() < 1e-15
    with pytest.raises(GradientError):
        check(value_of(claims.softmax), arguments(claims.softmax), vjp=vjp_of(careless))


def test_an_error_along_all_ones_is_caught():
    shifted = wrong(claims.softmax, lambda g, u: [g[0] + 1e-9 * u.mean(-1, keepdims=True)])
    with pytest.raises(GradientError):
        check(value_of(claims.softmax), arguments(claims.softmax), vjp=vjp_of(shifted))


@pytest.mark.parametrize(("size", "seed"), [(10**3, 0), (10**3, 1), (10**3, 2), (2 * 10**4, 3)])
def test_one_wrong_element_of_many_is_found_and_named(size, seed):
    rng = np.random.default_rng(seed)
    x, bad = rng.normal(size=size), int(rng.integers(size))

    def spoil(g, u):
        g[0][bad] *= 1.001
        return g

    assert check(value_of(claims.tanh), (x,), vjp=vjp_of(claims.tanh), seed=seed).projected == size - 40
    with pytest.raises(GradientError, match=rf"argument 0 at \[{bad}\]"):
        check(value_of(claims.tanh), (x,), vjp=vjp_of(wrong(claims.tanh, spoil)), seed=seed)


def test_an_error_in_a_tiny_gradient_beside_large_ones_is_caught():
    """p = 1e-16 at one element (1e-9 in float32): an error of 1e-4 of its gradient is too small to see next to them."""

    def spoil(g, u):
        g[0][0, 1] *= 1 + 1e-4
        return g

    for dtype, far in ((np.float32, -20), (np.float64, -35)):
        args = (np.array([[0, far, 1, 2]], dtype),)
        assert compare(value_of(claims.softmax), args, vjp=vjp_of(claims.softmax)).agrees
        report = compare(value_of(claims.softmax), args, vjp=vjp_of(wrong(claims.softmax, spoil)))
        assert not report.agrees
        assert report.worst.index == (0, 1)


@pytest.mark.parametrize("scale", [1e-6, 1, 30, 300, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("claim", [claims.tanh, claims.softmax])
def test_saturation_is_no_error(claim, dtype, scale):
    """Where tanh is 1 to the last digit, 1 − y² is 0 and the derivative is 1e-30: no float64 code computes it."""
    x = (scale * np.random.default_rng(0).normal(size=(3, 5))).astype(dtype)
    assert check(value_of(claim), (x,), vjp=vjp_of(claim)).agrees
    assert check(value_of(claim), (x,), vjp=vjp_of(claim), order=2).agrees


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_a_gradient_of_pure_rounding_is_no_error(dtype, seed):
    """Softmax sums to 1: the true gradient is 0 and both sides are noise, without a digit in common."""
    x = np.random.default_rng(seed).normal(size=(3, 5)).astype(dtype)
    report = compare(value_of(claims.softmax_sum), (x,), vjp=vjp_of(claims.softmax_sum), seed=seed)
    assert report.agrees, report
    biased = wrong(claims.softmax_sum, lambda g, u: [g[0] + 100 * np.finfo(dtype).eps])
    assert not compare(value_of(claims.softmax_sum), (x,), vjp=vjp_of(biased), seed=seed).agrees


@pytest.mark.parametrize("seed", range(5))
def test_a_badly_conditioned_point_is_no_error(seed):
    """At a mean of 1e6 the centring of LayerNorm loses six digits, in f and in its gradient alike."""
    rng = np.random.default_rng(seed)
    args = (rng.normal(size=(3, 5)) + 1e6, rng.normal(size=5), rng.normal(size=5))
    report = compare(value_of(claims.layer_norm), args, vjp=vjp_of(claims.layer_norm), seed=seed)
    assert report.agrees, report
    assert any("only by rounding" in remark for remark in report.remarks)
    off = wrong(claims.layer_norm, lambda g, u: [g[0] * (1 + 1e-7), *g[1:]])
    assert not compare(value_of(claims.layer_norm), args, vjp=vjp_of(off), seed=seed).agrees


def test_a_small_output_beside_a_large_one_is_checked_by_itself():
    def both(x):
        y, z = np.tanh(x), 1e-9 * np.sin(x)
        return (y, z), lambda u: (u[0] * (1 - y * y) + u[1] * 1e-9 * np.cos(x),)

    def without_the_small(x):
        value, _ = both(x)
        return value, lambda u: (u[0] * (1 - value[0] * value[0]) + u[1] * 1e-9 * np.cos(x) * (1 + 1e-8),)

    x = np.linspace(-1, 1, 7)
    assert check(value_of(both), (x,), vjp=vjp_of(both)).digits >= 14
    with pytest.raises(GradientError):
        check(value_of(both), (x,), vjp=vjp_of(without_the_small))


def test_the_same_seed_gives_the_same_report():
    args = (np.linspace(-1, 1, 300),)
    first, second = (compare(value_of(claims.tanh), args, vjp=vjp_of(claims.tanh), seed=7) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (lambda x: np.exp(-x * x), [7.0, 1.0], lambda x: -2 * x * np.exp(-x * x)),
        (lambda x: 1e20 * x[1] + x[0] ** 2, [2.0, 1.0], lambda x: np.array([2 * x[0], 1e20])),
    ],
)
def test_a_derivative_below_a_rounding_of_f_is_said_to_be_not_judged(f, x, slope):
    """Nothing cancels there, and it is no rounding."""
    judged = lambda factors: compare(f, (np.array(x),), vjp=lambda _, x: (f(x), lambda u: (u * slope(x) * factors,)))
    remark = "2 comparisons were not judged: the difference is below a rounding of f"
    assert judged([1, 1]).agrees
    assert remark not in judged([1, 1]).remarks
    assert judged([1, 1.01]).disagrees
    for factor in (2.0, 0.0, -1.0):
        assert remark in judged([factor, 1]).remarks
        assert not any("cancel" in said for said in judged([factor, 1]).remarks)


@pytest.mark.parametrize(("factor", "digits"), [(1.0, "agrees to"), (1.05, "below a rounding of f")])
def test_what_is_below_a_rounding_of_float16_is_not_called_rounding(factor, digits):
    def claim(x):
        y = np.tanh(x)
        return y, lambda u: ((u * (1 - y * y) * np.float16(factor)).astype(np.float16),)

    report = compare(value_of(claim), (np.array([0.3, -1.2, 0.7, 2.0, -0.4], np.float16),), vjp=vjp_of(claim))
    assert digits in str(report)
    assert "only by rounding" not in str(report)
    assert ("were not judged" in str(report)) == (factor != 1)


@pytest.mark.parametrize("factor", [2.0, -1.0, 0.0, 1.001])
@pytest.mark.parametrize(("dtype", "order"), [(np.float32, 1), (np.float64, 1), (np.float64, 2)])
def test_what_is_wrong_in_the_precision_that_is_asked_about_alone_is_no_rounding(dtype, order, factor):
    own = (np.dtype(dtype), np.result_type(dtype, np.complex64))
    narrow = lambda x: factor if x.dtype in own else 1.0
    vjp = lambda f, x: (f(x), lambda u: (u * (1 - np.tanh(x) ** 2) * np.array(narrow(x), x.dtype),))
    report = compare(np.tanh, (np.array([0.1, 0.7], dtype),), vjp=vjp, order=order)
    assert report.disagrees
    assert wider(dtype) is None or any(f"disagree in {np.dtype(dtype)} alone" in remark for remark in report.remarks)


@pytest.mark.skipif(wider(np.float64) is None, reason="nothing is wider than float64")
def test_the_rounding_of_a_large_output_excuses_no_error_of_a_small_one():
    f = lambda x: (1e15 * np.sin(x), np.tanh(x))
    times = lambda x, factor: np.where(x.dtype in (np.float64, np.complex128), factor, 1).astype(x.dtype)

    def vjp(factor):
        slopes = lambda x: (1e15 * np.cos(x), (1 - np.tanh(x) ** 2) * times(x, factor))
        return lambda f, x: (f(x), lambda u: (sum(bar * slope for bar, slope in zip(u, slopes(x), strict=True)),))

    x = np.array([0.1, 0.7])
    assert compare(f, (x,), vjp=vjp(1)).agrees
    assert compare(f, (x,), vjp=vjp(2)).disagrees


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_gradient_that_is_right_in_one_order_of_memory_is_wrong_in_the_other(order):
    slope = lambda x: (1 - np.tanh(x.ravel(order="K")) ** 2).reshape(x.shape)
    x = np.array(np.random.default_rng(1).normal(size=(4, 6)), order=order)
    assert compare(np.tanh, (x,), vjp=lambda f, x: (f(x), lambda u: (u * slope(x),))).agrees == (order == "C")
