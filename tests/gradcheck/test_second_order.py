"""Second order: right gradients have right Hessians, and three independent questions catch the wrong ones."""

import numpy as np
import pytest

from gradcheck import GradientError, check, compare
from tests.gradcheck import claims
from tests.gradcheck.claims import value_of, vjp_of, wrong
from tests.gradcheck.test_first_order import ANALYTIC, OTHERS, arguments


@pytest.mark.parametrize("claim", ANALYTIC)
@pytest.mark.parametrize("seed", range(3))
def test_right_hessians_have_thirteen_digits(claim, seed):
    report = check(value_of(claim), arguments(claim, seed=seed), vjp=vjp_of(claim), order=2, seed=seed)
    assert report.order == 2
    assert report.method == "complex step"
    assert report.digits >= 13
    assert report.elements == 2 * sum(a.size for a in arguments(claim))


@pytest.mark.parametrize("seed", range(3))
def test_a_reverse_pass_that_is_not_analytic_is_checked_by_projections(seed):
    def modulus(x):
        y = np.tanh(x)
        return y, lambda u: (u * np.abs(1 - y * y),)

    report = check(value_of(modulus), arguments(modulus), vjp=vjp_of(modulus), order=2, seed=seed)
    assert report.method == "differences of the claimed gradient"
    assert report.digits >= 12
    assert (report.elements, report.projected) == (0, 15)
    with pytest.raises(GradientError, match="Hessian-vector product"):
        check(value_of(modulus), arguments(modulus), vjp=vjp_of(modulus), order=2, seed=seed, method="complex_step")


@pytest.mark.parametrize("claim", OTHERS)
def test_functions_that_are_not_analytic_have_second_orders_too(claim):
    assert compare(value_of(claim), arguments(claim), vjp=vjp_of(claim), order=2).agrees


NOT_LINEAR = [claims.tanh, claims.softmax, claims.layer_norm, claims.matmul]


@pytest.mark.parametrize("claim", NOT_LINEAR)
@pytest.mark.parametrize("error", [1e-10, 1e-6, -2.0])
def test_a_gradient_that_is_wrong_by_a_factor_is_wrong_at_second_order(claim, error):
    spoilt = wrong(claim, lambda g, u: [part * (1 + error) for part in g])
    with pytest.raises(GradientError, match="a second difference of f"):
        check(value_of(claim), arguments(claim), vjp=vjp_of(spoilt), order=2)


def test_a_gradient_that_is_right_at_the_point_alone_is_caught():
    """Right at x, with another slope there: order 1 cannot see it."""
    x = np.linspace(-1, 1, 6)

    def frozen(z):
        y = np.tanh(x)
        return np.tanh(z), lambda u: (u * (1 - y * y),)

    assert compare(value_of(frozen), (x,), vjp=vjp_of(frozen)).agrees
    report = compare(value_of(frozen), (x,), vjp=vjp_of(frozen), order=2)
    assert not report.agrees
    assert report.worst.by == "a second difference of f"
    assert report.worst.index is not None


def test_a_field_that_is_no_gradient_is_not_symmetric():
    """f has the right value, but the claimed gradient is a rotation: its Jacobian has an antisymmetric part."""
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])

    def rotating(x):
        return (x * x).sum() / 2, lambda u: (u * (x + turn @ x),)

    report = compare(value_of(rotating), (np.array([1.0, 2.0]),), vjp=vjp_of(rotating), order=2)
    assert not report.agrees


def product_rule(x):
    y = np.sin(x)
    return y, lambda u: (u * np.cos(x),)


def test_a_claimed_hessian_vector_product_is_judged_element_by_element():
    x = np.linspace(-1, 1, 6)

    def hvp(f, args, tangents, cotangent):
        return (-cotangent * np.sin(args[0]) * tangents[0],)

    report = check(value_of(product_rule), (x,), vjp=vjp_of(product_rule), order=2, hvp=hvp)
    assert (report.method, report.elements) == ("hvp", 12)
    assert report.digits >= 13

    def one_off(f, args, tangents, cotangent):
        product = -cotangent * np.sin(args[0]) * tangents[0]
        product[2] *= 1 + 1e-10
        return (product,)

    with pytest.raises(GradientError, match=r"Hessian-vector product of argument 0 at \[2\]"):
        check(value_of(product_rule), (x,), vjp=vjp_of(product_rule), order=2, hvp=one_off)


def test_constants_and_none_have_no_tangent():
    seen = []

    def f(x, n, nothing, pair):
        return x**n * pair["a"]

    def vjp(_, x, n, nothing, pair):
        return f(x, n, nothing, pair), lambda u: (
            u * n * x ** (n - 1) * pair["a"],
            None,
            None,
            {"a": (u * x**n).sum(), "b": None},
        )

    def hvp(_, args, tangents, u):
        seen.append(tangents)
        (x, n, _, pair), (v, _, _, t) = args, tangents
        slope = n * x ** (n - 1)
        second = n * (n - 1) * x ** (n - 2)
        return u * (second * v * pair["a"] + slope * t["a"]), None, None, {"a": (u * slope * v).sum(), "b": None}

    args = (np.array([0.5, 2.0]), 3, None, {"a": np.array(1.5), "b": np.array([1, 2])})
    assert check(f, args, vjp=vjp, order=2, hvp=hvp).agrees
    assert seen[0][1] is None
    assert seen[0][2] is None
    assert seen[0][3]["b"] is None


@pytest.mark.parametrize("seed", range(3))
def test_hessians_of_pure_rounding_are_no_error(seed):
    x = np.random.default_rng(seed).normal(size=(3, 5))
    report = compare(value_of(claims.softmax_sum), (x,), vjp=vjp_of(claims.softmax_sum), order=2, seed=seed)
    assert report.agrees, report


def test_linear_functions_have_a_hessian_of_zero():
    def doubled(x):
        return 2 * x, lambda u: (2 * u,)

    report = check(value_of(doubled), (np.arange(4.0),), vjp=vjp_of(doubled), order=2)
    assert report.digits >= 16
