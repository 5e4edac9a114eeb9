"""Kinks are found and named, and the claim there is compared with both slopes; what is no kink is not called one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck import GradientError, check, compare
from gradcheck.kinks import has_kink
from tests.gradcheck import claims
from tests.gradcheck.claims import value_of, vjp_of, wrong


def places(report):
    return [(kink.argument, *kink.index) for kink in report.kinks]


@pytest.mark.parametrize("claim", [claims.relu, claims.absolute])
def test_the_kink_at_zero_is_named_and_compared(claim):
    x = np.array([[0.5, 0.0, -1.0], [2.0, -3.0, 0.0]])
    report = check(value_of(claim), (x,), vjp=vjp_of(claim))
    assert places(report) == [(0, 0, 1), (0, 1, 2)]
    assert (report.elements, report.left_out) == (4, 0)
    least = 0.0 if claim is claims.relu else -1.0
    assert [(kink.left, kink.right, kink.claimed) for kink in report.kinks] == [pytest.approx((least, 1, 0))] * 2
    assert "4 elements, 2 kinks, " in str(report)


@pytest.mark.parametrize("claim", [claims.relu, claims.absolute])
def test_at_second_order_kinks_are_left_out_and_counted(claim):
    x = np.array([[0.5, 0.0, -1.0], [2.0, -3.0, 0.0]])
    report = check(value_of(claim), (x,), vjp=vjp_of(claim), order=2)
    assert (places(report), report.left_out) == ([(0, 0, 1), (0, 1, 2)], 2)
    assert "2 elements LEFT OUT" in str(report)
    assert "kink: argument 0 at [0, 1], left out" in str(report)
    nothing = compare(value_of(claim), (np.zeros(3),), vjp=vjp_of(claim), order=2)
    assert (nothing.agrees, nothing.disagrees) == (False, False)
    with pytest.raises(GradientError, match="was not judged; f has a kink at every element"):
        nothing.require()


WAYS = {  # the same function, as analytic code, as code that is not, and in float32
    "where": lambda x, low, high: np.where(x.real > 0, high * x, low * x),
    "maximum": lambda x, low, high: low * x + (high - low) * np.maximum(x, 0),
    "float32": lambda x, low, high: np.where(x > 0, high * x.astype(np.float32), low * x.astype(np.float32)),
    "in a sum": lambda x, low, high: np.where(x.real > 0, high * x, low * x).sum(),
}


@given(
    way=st.sampled_from(sorted(WAYS)),
    slopes=st.tuples(st.integers(-8, 8), st.integers(-8, 8)).filter(lambda both: both[0] != both[1]),
    claimed=st.one_of(st.integers(-12, 12), st.sampled_from([np.nan, np.inf, -np.inf])),
    scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e6, 1e12]),
    beside=st.lists(st.floats(0.1, 2), max_size=3),
)
def test_what_lies_between_the_slopes_agrees_and_nothing_else(way, slopes, claimed, scale, beside):
    """x is 0 at one element; the others, if there are any, are right."""
    low, high = (float(slope) for slope in slopes)
    f = lambda x: WAYS[way](x, np.float32(low), np.float32(high))
    x = np.array([0.0, *beside]) * scale
    vjp = lambda _, x: (f(x), lambda u: (u * np.where(x == 0, claimed, np.where(x > 0, high, low)),))
    report = compare(f, (x,), vjp=vjp)
    between = bool(min(slopes) <= claimed <= max(slopes))
    assert (report.agrees, report.disagrees) == (between, not between), report
    assert places(report) == [(0, 0)]
    if not between:
        assert report.worst.index == (0,)
        with pytest.raises(GradientError, match="the slopes at this kink"):
            report.require()


@given(
    shift=st.floats(0.015625, 1, width=32),
    slope=st.integers(1, 8),
    claimed=st.floats(-4, 12).filter(lambda c: c == 0 or abs(c) > 0.1),
)
def test_a_kink_is_found_behind_the_noise_of_float32(shift, slope, claimed):
    """To one side f is flat, to the other its steps are the roundings of x + shift."""
    b = np.float32(shift)
    f = lambda x: slope * np.maximum((x.astype(np.float32) + b) - b, 0)
    x = np.array([0.0, 0.0, 0.5, -1.0])
    vjp = lambda _, x: (f(x), lambda u: (u * np.where(x == 0, claimed, slope * (x > 0)),))
    report = compare(f, (x,), vjp=vjp)
    assert places(report) == [(0, 0), (0, 1)]
    if not slope < claimed < 1.1 * slope:
        assert (report.agrees, report.disagrees) == (0 <= claimed <= slope, not 0 <= claimed <= slope), report


@given(
    tiny=st.floats(1e-30, 1e-6),
    sign=st.sampled_from([-1.0, 1.0]),
    f=st.sampled_from([lambda x: np.where(x.real > 0, x, 0 * x), lambda x: np.maximum(x, 0), np.abs]),
    error=st.sampled_from([0.0, 1e-6, 0.5, 1.0, np.nan]),
)
def test_beside_a_kink_there_is_one_slope(tiny, sign, f, error):
    """However small the element is beside the others of its array: steps are of its own size."""
    x = np.array([sign * tiny, 1.0, -2.0])
    slope = lambda x: np.where(x > 0, 1.0, -1.0 if f is np.abs else 0.0)
    vjp = lambda _, x: (f(x), lambda u: (u * (slope(x) + np.array([error, 0, 0])),))
    report = compare(f, (x,), vjp=vjp)
    assert report.kinks == ()
    assert report.agrees == (error == 0), report


@given(
    p=st.lists(st.floats(1e-280, 1.0), min_size=1, max_size=5),
    f=st.sampled_from(["-log p", "root"]),
    analytic=st.booleans(),
    error=st.sampled_from([0.0, 1e-4, -1.0]),
)
def test_a_tiny_number_at_the_end_of_a_domain_is_no_kink(p, f, analytic, error):
    p = np.array([*p, 0.3])
    functions = {"-log p": (lambda p: -np.log(p), lambda p: -1 / p), "root": (np.sqrt, lambda p: 0.5 / np.sqrt(p))}
    value, slope = functions[f]
    g = value if analytic else lambda p: value(np.abs(p)) if p.dtype.kind == "c" else value(p)
    spoil = np.ones_like(p)
    spoil[0] += error
    report = compare(g, (p,), vjp=lambda _, p: (value(p), lambda u: (u * slope(p) * spoil,)))
    assert report.kinks == ()
    assert report.agrees == (error == 0), report


@pytest.mark.parametrize("sharpness", [1e11, 1e13, 1e15])
def test_where_the_complex_step_is_trusted_it_decides(sharpness):
    """Differences take a bend as sharp as that for a jump; beside it, the complex step has the same slope."""

    def bend(x):
        y = np.tanh(sharpness * x)
        return y, lambda u: (u * sharpness * (1 - y * y),)

    x = np.array([0.0, 1.0, -0.5])
    assert has_kink(value_of(bend), x, np.ones(3)).any()
    report = check(value_of(bend), (x,), vjp=vjp_of(bend))
    assert (report.kinks, report.elements) == ((), 3)
    assert not compare(value_of(bend), (x,), vjp=vjp_of(wrong(bend, lambda g, u: [g[0] * (1 + 1e-6)]))).agrees


def test_one_convention_for_several_outputs():
    """Each output alone is asked for: x̄ = s W u with one s from 0 to 1, where the sum over outputs would allow more."""
    w = np.array([[1.0, -1.0, 2.0]])

    def layer(x, s):
        return np.where(x.real > 0, x, 0 * x) @ w, lambda u: (s * (u @ w.T),)

    for s, right in ((0.0, True), (0.5, True), (1.0, True), (1.5, False), (-0.2, False)):
        report = compare(lambda x: layer(x, 0)[0], (np.zeros((1, 1)),), vjp=lambda f, x, s=s: layer(x, s))
        assert report.agrees == right, s


def test_the_end_of_a_domain_has_one_slope():
    for claimed, right in ((0.0, True), (1.0, False), (np.nan, False)):
        vjp = lambda f, x, c=claimed: (f(x), lambda u: (u * np.where(x == 0, c, 1.5 * np.sqrt(x)),))
        report = compare(lambda x: x**1.5, (np.array([0.0, 1.0]),), vjp=vjp)
        assert report.agrees == right


@pytest.mark.parametrize(("claimed", "right"), [(np.inf, True), (-np.inf, False), (np.nan, False)])
def test_a_slope_without_a_limit_may_be_infinite(claimed, right):
    with np.errstate(divide="ignore"):
        vjp = lambda f, x: (f(x), lambda u: (u * np.where(x == 0, claimed, 0.5 / np.sqrt(np.maximum(x, 1e-9))),))
        report = compare(np.sqrt, (np.array([0.0, 1.0]),), vjp=vjp)
    assert report.disagrees != right


def test_ties_of_a_maximum_are_kinks_of_both_sides():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 5.0])
    report = check(value_of(claims.maximum), (x, y), vjp=vjp_of(claims.maximum))
    assert places(report) == [(0, 1), (1, 1)]


def test_a_wrong_gradient_next_to_a_kink_is_still_caught():
    def spoil(g, u):
        g[0][2] *= 1 + 1e-9
        return g

    with pytest.raises(GradientError, match=r"at \[2\]"):
        check(value_of(claims.relu), (np.array([0.0, -1.0, 1.0]),), vjp=vjp_of(wrong(claims.relu, spoil)))


def test_nothing_but_kinks_is_an_agreement_of_its_own():
    report = compare(value_of(claims.relu), (np.zeros(3),), vjp=vjp_of(claims.relu))
    assert (report.agrees, report.elements, len(report.kinks)) == (True, 0, 3)
    assert str(report).startswith("relu: agrees, 12 asked (float64, order 1, 0 elements, 3 kinks, ")


def test_after_many_kinks_the_rest_is_left_out_and_counted():
    x = np.zeros(200)
    x[:20] = 1.0
    report = compare(value_of(claims.relu), (x,), vjp=vjp_of(claims.relu))
    assert report.agrees
    assert report.elements + report.projected + len(report.kinks) + report.left_out == 200
    assert f"{report.left_out} elements seem to have kinks too and were left out" in report.remarks
    assert report.left_out > 0


def test_a_kink_among_many_elements_is_found():
    x = np.random.default_rng(0).normal(size=2000)
    x[[17, 1700]] = 0
    assert places(check(value_of(claims.relu), (x,), vjp=vjp_of(claims.relu))) == [(0, 17), (0, 1700)]


def test_a_kink_in_one_term_of_a_sum_is_found():
    def sum_of_moduli(x):
        return np.abs(x).sum(), lambda u: (u * np.sign(x),)

    x = np.random.default_rng(0).normal(size=200)
    x[77] = 0
    assert places(check(value_of(sum_of_moduli), (x,), vjp=vjp_of(sum_of_moduli))) == [(0, 77)]


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("claim", [claims.relu, claims.absolute])
def test_near_a_kink_there_is_a_derivative(claim, distance):
    report = compare(value_of(claim), (np.array([distance, -distance, 1.0]),), vjp=vjp_of(claim))
    assert report.agrees
    assert not report.kinks


def test_a_jump_and_the_edge_of_a_domain_are_kinks():
    x, v = np.array([1.0, 1.5]), np.ones(2)
    assert has_kink(np.floor, x, v).tolist() == [True, False]
    assert has_kink(np.arcsin, np.array([1.0, 0.5]), v).tolist() == [True, False]


@pytest.mark.parametrize("sharpness", [1, 1e2, 1e4, 1e6])
def test_a_sharp_bend_is_no_kink(sharpness):
    def bend(x):
        y = np.tanh(sharpness * x)
        return y, lambda u: (u * sharpness * (1 - y * y),)

    report = compare(value_of(bend), (np.array([0.1 / sharpness, 1.0]),), vjp=vjp_of(bend))
    assert not report.kinks
    assert report.agrees


def test_smooth_functions_have_none():
    rng = np.random.default_rng(3)
    for f in (np.exp, np.tanh, lambda x: x**3, lambda x: 0 * x, lambda x: np.ones_like(x)):
        for scale in (1e-6, 1.0, 1e3):
            assert not has_kink(f, rng.normal(size=20) * min(scale, 10), np.full(20, min(scale, 10))).any()


def at_zero(f, claimed, beside=(0.5,), slope=1.0, at=0.0):
    """The report on f at [at, *beside], where its gradient is `claimed` there and `slope` elsewhere."""
    x = np.array([at, *beside])
    gradient = np.array([claimed, *(slope for _ in beside)])
    return compare(f, (x,), vjp=lambda _, x: (f(x), lambda u: (u * gradient,)))


JUMPS = {  # where, the slope beside it, and whether the complex step is taken
    "to one side": (lambda x: np.where(x.real > 0, x + 1, x), 0.0, 1.0),
    "a little": (lambda x: np.where(x.real > 0, x + 1e-2, x), 0.0, 1.0),
    "at a number": (lambda x: np.where(x == 0, 5.0, x), 0.0, 1.0),
    "with other slopes": (lambda x: np.where(np.abs(x.real) > 1, x, 0 * x), 1.0, 0.0),
    "as floor": (lambda x: np.floor(x), 1.0, 0.0),
    "as floor of the real part": (lambda x: np.floor(x.real) + 0 * x, 1.0, 0.0),
    "as sign": (lambda x: np.sign(x.real) + 0 * x, 0.0, 0.0),
}


@pytest.mark.parametrize("what", JUMPS)
def test_where_f_jumps_it_has_no_slopes(what):
    """No claim is right there or wrong, but for one that is not finite; the other elements are judged."""
    f, at, slope = JUMPS[what]
    for claimed in (0.0, 0.5, 7.0):
        report = at_zero(f, claimed, slope=slope, at=at)
        assert (report.agrees, report.left_out, report.elements) == (True, 1, 1), report
        assert "jump: argument 0 (x) at [0], left out" in str(report)
        assert "1 elements were left out: f jumps there" in report.remarks
    assert at_zero(f, np.nan, slope=slope, at=at).disagrees
    assert at_zero(f, 0.0, slope=slope + 1, at=at).disagrees
    assert compare(f, (np.array([at, 0.5]),), vjp=lambda _, x: (f(x), lambda u: (u * slope,)), order=2).kinks[0].jumps


def modulus(x):
    return np.where(x.real > 0, x, -x)


def x_log_x(size):
    return lambda x: np.where(x == 0, 0 * x, x * np.log(size(np.where(x == 0, 1, x))))


ENDLESS = {  # a function, its slope at 0, and that at 0.5
    "root": (np.sqrt, np.inf, 0.5**0.5),
    "cube root": (np.cbrt, np.inf, 0.5 ** (-2 / 3) / 3),
    "root of the modulus": (lambda x: np.sqrt(modulus(x)), None, 0.5**0.5),
    "x log x": (x_log_x(lambda x: x), -np.inf, np.log(0.5) + 1),
    "x log |x|": (x_log_x(modulus), -np.inf, np.log(0.5) + 1),
    "x log |x|, not analytic": (x_log_x(np.abs), -np.inf, np.log(0.5) + 1),
}


@pytest.mark.parametrize("beside", [(), (0.5,)])
@pytest.mark.parametrize("what", ENDLESS)
def test_a_slope_that_grows_for_ever_is_no_number(what, beside):
    """The infinite slope is not refuted, that of the other sign is, and no number is taken for it."""
    f, infinite, slope = ENDLESS[what]
    for claimed in (infinite, 0.0, -69.7, 29.25) if infinite else (0.0, 29.25):
        report = at_zero(f, claimed, beside, slope)
        assert not report.disagrees, report
        assert (report.left_out, report.elements) == (1, len(beside))
    if infinite:
        assert at_zero(f, -infinite, beside, slope).disagrees
    assert at_zero(f, np.nan, beside, slope).disagrees


@pytest.mark.parametrize("size", [np.abs, modulus])
@pytest.mark.parametrize("power", [1.001, 1.02, 1.05])
def test_slopes_that_have_not_reached_their_limit_are_no_numbers(power, size):
    """That of |x|^1.02 is 0 at 0, and 0.63 at 1e-10: what lies between is not judged, the rest is wrong."""
    f, slope = lambda x: size(x) ** power, power * 0.5 ** (power - 1)
    for claimed in (0.0, 0.1):
        report = at_zero(f, claimed, slope=slope)
        assert (report.agrees, report.left_out, report.elements) == (True, 1, 1), report
    assert at_zero(f, 1e3, slope=slope).disagrees


@pytest.mark.parametrize("size", [np.abs, modulus])
def test_a_kink_in_a_bend_has_two_slopes(size):
    """Both sides bend, on the scale of x or far below it, and the slopes at x have a limit all the same."""
    for f, low, high, slope in (
        (lambda x: size(x) + x * x, -1, 1, 2),
        (lambda x: size(x) + np.tanh(1e5 * x) * 1e-5, 0, 2, 1),
    ):
        for claimed, right in ((low, True), (0.5, True), (high, True), (low - 0.1, False), (high + 0.1, False)):
            assert at_zero(f, claimed, slope=slope).agrees == right, (f, claimed)


def test_the_side_without_values_is_said():
    report = at_zero(lambda x: np.where(x.real < 0, np.nan, x + x * x), 1.0, slope=2.0)
    assert report.agrees
    assert str(report.kinks[0]).endswith("slopes none (left) and 1.0 (right)")
    assert at_zero(lambda x: np.where(x.real < 0, np.nan, x + x * x), 0.9, slope=2.0).disagrees


@pytest.mark.parametrize("x", [1.3345505653442107, -1.2])
def test_the_noise_of_a_flat_function_is_no_kink(x):
    """Beside x the slopes are one unit of rounding over the step, or 0."""
    f = lambda x: 0.7 * np.tanh(10 * x.real)
    report = compare(f, (np.array([x]),), vjp=lambda _, x: (f(x), lambda u: (0 * x * u,)))
    assert report.disagrees
    assert report.kinks == ()


FLAT = {
    "x²": (lambda x: x * x, lambda x: 2 * x),
    "x³": (lambda x: x**3, lambda x: 3 * x * x),
    "x² sin x": (lambda x: x * x * np.sin(x), lambda x: 2 * x * np.sin(x) + x * x * np.cos(x)),
    "x |x|": (lambda x: x * np.abs(x), lambda x: 2 * np.abs(x)),
    "relu²": (lambda x: np.maximum(x, 0) ** 2, lambda x: 2 * np.maximum(x, 0)),
}


@pytest.mark.parametrize("what", FLAT)
@pytest.mark.parametrize("x", [[0.0], [0.0, 0.0], [0.0, 1.0]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_value_and_slope_are_0_there_is_no_kink(what, x, dtype):
    f, slope = FLAT[what]
    claimed = lambda extra: lambda f, x: (f(x), lambda u: (u * (slope(x) + extra * (x == 0)),))
    right, wrong = (compare(f, (np.array(x, dtype),), vjp=claimed(extra)) for extra in (0, 3))
    assert right.agrees
    assert not right.kinks
    assert wrong.disagrees
