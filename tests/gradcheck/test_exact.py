"""Element by element: what cancels in f or in its gradient is seen, whatever the norm and the complex step say."""

import decimal

import mpmath
import numpy as np
import pytest

from gradcheck import Exact, GradientError, check, compare
from gradcheck.precision import wider
from tests.gradcheck import claims
from tests.gradcheck.claims import value_of, vjp_of, wrong

SATURATED = np.array([0.0, -40.0])


def softmax_equation(x):
    e = np.array([mpmath.exp(v) for v in x], object)
    return e / e.sum()


def exactly(equation):
    return Exact(equation, mpmath.mpf, mpmath.workdps)


softmax, relu = value_of(claims.softmax), value_of(claims.relu)
softmax_vjp, relu_vjp = vjp_of(claims.softmax), vjp_of(claims.relu)  # as every library has them: x̄ = p (p̄ − Σ p̄ p)


def mended_vjp(_, x):
    """x̄ = p (r − Σ r p) with r = p̄ − p̄_L: what is added to every cotangent changes nothing, and r_L is 0."""
    p = softmax(x)

    def pullback(u):
        r = u - u[p.argmax()]
        return (p * (r - (r * p).sum()),)

    return p, pullback


def test_a_lost_component_is_seen_element_by_element_alone():
    others = compare(softmax, (SATURATED,), vjp=softmax_vjp, method="complex_step")
    assert others.agrees
    report = compare(softmax, (SATURATED,), vjp=softmax_vjp, exact=exactly(softmax_equation))
    assert (report.agrees, report.element_wise, report.digits) == (False, True, 0)
    assert report.worst.index == (0,)
    assert "DISAGREES to 0.0 digits element-wise, 12 asked" in str(report)
    with pytest.raises(GradientError, match=r"0\.0 digits agree element-wise"):
        report.require()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("x", [[0.0, -40.0], [0.0, -10.0, -700.0, 3.0], [1e-20, 5.0, -80.0], [0.5, 0.25, -1.0]])
def test_a_gradient_that_keeps_it_agrees(x, dtype):
    report = check(softmax, (np.array(x, dtype),), vjp=mended_vjp, exact=exactly(softmax_equation))
    assert report.elements == len(x)
    assert report.digits > 0.9 * -np.log10(np.finfo(dtype).eps)


def test_any_numbers_of_arbitrary_precision_serve():
    def equation(x):
        e = np.array([v.exp() for v in x], object)
        return e / e.sum()

    exact = Exact(equation, decimal.Decimal, lambda digits: decimal.localcontext(prec=digits))
    for claim in (softmax_vjp, mended_vjp):
        given = compare(softmax, (SATURATED,), vjp=claim, exact=exact)
        with_mpmath = compare(softmax, (SATURATED,), vjp=claim, exact=exactly(softmax_equation))
        assert given.digits == pytest.approx(with_mpmath.digits, abs=1e-9)
        assert given.worst.numeric == with_mpmath.worst.numeric


def test_the_exact_value_is_that_of_the_textbook():
    """x̄₀ = p₀ p₁ (p̄₀ − p̄₁)."""
    report = compare(softmax, (SATURATED,), vjp=softmax_vjp, exact=exactly(softmax_equation), cotangents=1)
    _, pullback = mended_vjp(None, SATURATED)
    (right,) = pullback(np.array([1.0, 0.0]))
    assert right[0] == pytest.approx(np.exp(-40.0), rel=1e-15)
    assert 0 < abs(report.worst.numeric) < 2 * right[0]


def test_a_gradient_of_zero_is_measured_by_what_cancels():
    def total(x):
        return softmax(x).sum()

    def equation(x):
        return softmax_equation(x).sum()

    def claimed(leftover):
        return lambda _, x: (total(x), lambda u: (np.full(x.shape, leftover),))

    x = np.array([0.3, -0.2, 0.5])
    assert check(total, (x,), vjp=claimed(1e-17), exact=exactly(equation)).digits > 15
    assert not compare(total, (x,), vjp=claimed(1e-9), exact=exactly(equation)).agrees


def test_what_underflows_may_be_zero():
    x = np.array([0.0, -1000.0])
    exact = exactly(softmax_equation)

    def claimed(value):
        return lambda _, x: (softmax(x), lambda u: (np.full(2, value),))

    assert check(softmax, (x,), vjp=claimed(0.0), exact=exact).digits == 17
    assert check(softmax, (x,), vjp=claimed(2e-308), exact=exact).digits == 17
    assert not compare(softmax, (x,), vjp=claimed(1e-300), exact=exact).agrees
    assert not compare(softmax, (x,), vjp=claimed(np.nan), exact=exact).agrees


def test_what_underflows_takes_no_more_digits_than_it_needs():
    """A value of 1e-435 is settled by what float64 can hold, beside a claim of 0; beside one of 1e-300 it is not."""
    used = []

    def precision(digits):
        used.append(digits)
        return mpmath.workdps(digits)

    x, exact = np.array([0.0, -1000.0]), Exact(softmax_equation, mpmath.mpf, precision)
    for claimed, digits, most in ((0.0, 17, 480), (1e-300, 0, 2400)):
        claim = lambda _, x, claimed=claimed: (softmax(x), lambda u: (np.full(2, claimed),))
        assert compare(softmax, (x,), vjp=claim, exact=exact).digits == digits
        assert max(used) == most


def test_columns_are_kept_for_the_same_numbers_alone():
    asked = []

    def equation(x):
        asked.append(x)
        return softmax_equation(x)

    def evaluations(x, exact):
        asked.clear()
        check(softmax, (x,), vjp=mended_vjp, exact=exact)
        return len(asked)

    kept, narrow = Exact(equation, mpmath.mpf, mpmath.workdps, columns={}), SATURATED.astype(np.float32)
    assert evaluations(SATURATED, kept) == evaluations(SATURATED, exactly(equation)) > 8
    assert evaluations(narrow, kept) == 1  # to see that it is the equation of f
    assert evaluations(SATURATED + 0.1, kept) > 8


def test_arguments_as_small_as_can_be():
    x = np.array([1e-300, 3e-160, -1e-20, 0.0, 1e300])
    square = lambda x: x * x
    vjp = lambda _, x: (x * x, lambda u: (2 * x * u,))
    assert check(square, (x[1:4],), vjp=vjp, exact=exactly(square)).digits > 15
    cubic = lambda x: x + x**3
    slope = lambda _, x: (cubic(x), lambda u: ((1 + 3 * x * x) * u,))
    assert check(cubic, (x[:4],), vjp=slope, exact=exactly(cubic)).digits > 15


def test_at_a_kink_a_claim_between_the_slopes_is_exact():
    exact = exactly(lambda x: np.array([max(v, 0 * v) for v in x], object))
    report = check(relu, (np.array([0.0, 1.0, -2.0, 0.0]),), vjp=relu_vjp, exact=exact)
    assert [kink.index for kink in report.kinks] == [(0,), (3,)]
    assert report.elements == 2
    for slope, right in ((0.0, True), (0.25, True), (1.0, True), (1.0 + 1e-9, False), (-0.5, False), (np.nan, False)):
        vjp = lambda f, x, slope=slope: (f(x), lambda u: (u * slope,))
        report = compare(relu, (np.zeros(2),), vjp=vjp, exact=exact)
        assert (report.agrees, report.disagrees, len(report.kinks)) == (right, not right, 2)


def test_a_slope_of_zero_is_no_kink():
    square, vjp = lambda x: x * x, lambda _, x: (x * x, lambda u: (2 * x * u,))
    report = check(square, (np.array([0.0, 1.0]),), vjp=vjp, exact=exactly(square))
    assert (report.kinks, report.elements) == ((), 2)


def test_nested_arguments_constants_and_many_elements():
    rng = np.random.default_rng(0)
    args = ({"w": rng.normal(size=(9, 9)), "b": rng.normal(size=9)}, rng.normal(size=9), 3, None)

    def f(parameters, x, n, nothing):
        return {"y": parameters["w"] @ x + parameters["b"] * n}

    def vjp(_, parameters, x, n, nothing):
        def pullback(u):
            u = u["y"]
            return {"w": np.outer(u, x), "b": u * n}, u @ parameters["w"], None, None

        return f(parameters, x, n, nothing), pullback

    report = check(f, args, vjp=vjp, exact=exactly(f))
    assert report.elements == 40 + 9 + 9
    assert "41 elements were not compared" in str(report)
    assert check(f, args, vjp=vjp, exact=exactly(f), max_elements=81, argnums=0).elements == 90


def test_a_factor_in_one_element_is_found():
    claim = wrong(claims.softmax, lambda g, u: [g[0] * np.array([1, 1, 1 + 1e-10])])
    x = np.array([0.3, -0.4, 0.1])
    report = compare(softmax, (x,), vjp=vjp_of(claim), exact=exactly(softmax_equation))
    assert report.digits == pytest.approx(10, abs=0.01)
    assert report.worst.index == (2,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exact": exactly(lambda x: 2 * x)}, "the equation differs from f by up to"),
        ({"exact": exactly(lambda x: x[:1])}, "the equation gives 1 numbers where f gives 2"),
        ({"exact": softmax_equation}, r"exact is a function at order 1; it must be gradcheck\.Exact, at order 1"),
        ({"order": 2}, "exact is a Exact at order 2"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes, message):
    options = {"vjp": softmax_vjp, "exact": exactly(softmax_equation)} | changes
    with pytest.raises(ValueError, match=message):
        compare(softmax, (SATURATED,), **options)


def test_an_equation_in_floating_point_is_noticed():
    exact = exactly(lambda x: np.array([mpmath.mpf(float(v)) ** 2 for v in x], object))
    vjp = lambda _, x: (x * x, lambda u: (2 * x * u,))
    assert compare(lambda x: x * x, (np.array([1.5]),), vjp=vjp, exact=exact).digits == 0


def test_longdouble_has_its_own_bar():
    if wider(np.float64) is None:
        pytest.skip("longdouble is float64 here")
    x = SATURATED.astype(np.longdouble)
    report = compare(softmax, (x,), vjp=mended_vjp, exact=exactly(softmax_equation))
    assert report.asked == pytest.approx(14.5, abs=0.1)
    assert report.digits > 18
