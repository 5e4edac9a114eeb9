"""0 · anything = 0 on the way back, and forward mode where the complex step has no derivative to show."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
import refnp.autograd as ad
from gradcheck import richardson
from refnp import layers
from refnp.autograd.trees import is_differentiable, leaves_of, map_leaves, rebuilt
from refnp.numbers.duals import SLOPES, Cotangent, Dual, product, quotient, wrapped
from refnp.verify.layers import engine, gradient_inputs, matrices
from tests.helpers import assert_within, normal, seeds, unit_roundoff

U = unit_roundoff(np.float64)
WILD = st.sampled_from([np.inf, -np.inf, np.nan, 1e308, -1e308, 0.0])
EVERY = {i.names or i.name: i for i in gradient_inputs() if not i.model}  # one of each function
INPUTS = list(EVERY.values())
SMALL = [i for i in INPUTS if sum(np.size(a) for a in leaves_of(i.args) if is_differentiable(a)) < 3000]
ALONE = engine.gradient_inputs() + matrices.gradient_inputs()
OF_CASES = [i for i in INPUTS if i.names and {*i.names} <= {*ad.__all__}]
OPERATIONS = OF_CASES + [i for i in ALONE if i.name != "split"]  # one result
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of values that are not finite


def floats(arguments: list) -> list[int]:
    return [k for k, a in enumerate(arguments) if is_differentiable(a)]


@pytest.mark.parametrize("inputs", SMALL, ids=lambda inputs: inputs.name)
@given(seed=seeds, wild=WILD)
def test_a_cotangent_0_gives_gradient_0(inputs, seed, wild):
    """Whatever stands in the arguments, of operations, functions and modules; of operations at second order too."""
    rng = np.random.default_rng(seed)
    leaves = [np.array(a) if is_differentiable(a) else a for a in leaves_of(inputs.args)]
    arrays = [a for a in leaves if isinstance(a, np.ndarray) and is_differentiable(a)]
    one = arrays[rng.integers(len(arrays))]
    one[rng.random(one.shape) < 0.3] = wild
    arguments = rebuilt(inputs.args, leaves)
    try:
        value, pullback = ad.vjp(inputs.function, *arguments)
    except ValueError:  # a matrix that is singular, or not finite
        return
    zero = map_leaves(np.zeros_like, value)
    for gradient in leaves_of(pullback(zero)):
        assert gradient is None or not np.any(gradient)
    with contextlib.suppress(ValueError):  # a determinant that is 0 has a logarithm, and no gradient
        for gradient in leaves_of(pullback(map_leaves(np.ones_like, value))):
            assert gradient is None or type(gradient) is np.ndarray
    if inputs.name not in {operation.name for operation in OPERATIONS}:
        return
    tangents = tuple(np.ones_like(a) if is_differentiable(a) else None for a in arguments)
    try:
        products = ad.hvp(lambda *a: ad.sum(inputs.function(*a) * zero), tuple(arguments), tangents)[1]
    except ValueError:
        return
    for second in products:
        assert second is None or not np.any(second)


@every_operation
@given(seed=seeds, far=st.sampled_from([np.inf, -np.inf]))
def test_a_slope_0_gives_gradient_0_for_any_cotangent(operation, seed, far):
    """Where an element changes no result, an infinite cotangent changes nothing."""
    rng = np.random.default_rng(seed)
    arguments = [np.array(a) for a in operation.args]
    for k in floats(arguments):
        arguments[k][rng.random(arguments[k].shape) < 0.3] = 0
    try:
        value, pullback = ad.vjp(operation.function, *arguments)
        slopes = [ad.jacobian(operation.function, k)(*arguments) for k in floats(arguments)]
    except ValueError:
        return
    gradients = pullback(np.where(rng.random(value.shape) < 0.7, far, 1.0))
    for k, slope in zip(floats(arguments), slopes, strict=True):
        no_slope = (slope.reshape(value.size, arguments[k].size) == 0).all(0)
        assert not np.any(gradients[k].reshape(-1)[no_slope])


def test_programs_that_people_write():
    x = np.array([1.0, 1000.0])
    softplus = ad.grad(lambda x: ad.sum(ad.where(x > 20, x, ad.log1p(ad.exp(x)))))
    assert_within(softplus(x), [1 / (1 + np.exp(-1.0)), 1], 4 * U)
    assert ad.grad(lambda x: 1 / (1 + ad.exp(-x)))(np.array(-1000.0)) == 0
    assert ad.hvp(lambda x: 1 / (1 + ad.exp(-x)), (np.array(-1000.0),), (np.array(1.0),))[1][0] == 0
    assert ad.grad(lambda x: ad.sqrt(layers.relu(x)))(np.array(-10.0)) == 0
    assert ad.grad(lambda x: ad.where(x > 0, x**0.5, 0.0))(np.array(0.0)) == 0
    w, a = np.array([[np.inf, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0]])
    assert ad.grad(lambda a: ad.sum(ad.where(np.array([[False, True]]), a @ w, 0.0)))(a).tolist() == [[2, 4]]


def test_what_is_nan_for_another_reason_stays_nan():
    x = np.array([0.0, 1.0, np.nan])
    assert np.isnan(ad.grad(lambda x: ad.sum(ad.sin(x)))(x)).tolist() == [False, False, True]
    y = ad.vjp(lambda x: x[:1] @ np.array([1.0]) - x[:1] @ np.array([1.0]), x)[1](np.inf)[0]
    assert np.isnan(y).tolist() == [True, False, False]  # ∞ − ∞, of two uses


def test_leaves_and_recorded_gradients_alike():
    x = ad.Tensor([1000.0, 1.0], requires_grad=True)
    hidden = ad.exp(x)
    loss = ad.sum(ad.where(x.numpy() > 20, 0.0, hidden))
    assert refnp.gradients(loss, [hidden])[0].tolist() == [0, 1]
    loss.backward()
    assert_within(x.grad, [0, np.e], 4 * U)


@given(seeds)
def test_products_of_matrices_with_infinite_elements(seed):
    """Against a sum of products that leaves out what has a factor 0, index by index."""
    rng = np.random.default_rng(seed)
    values = np.array([0, 0, 1, -2, np.inf, -np.inf, np.nan])
    x, y = rng.choice(values, (3, 4)), rng.choice(values, (4, 2))
    expected = np.array([
        [sum(a * b for a, b in zip(row, column, strict=True) if a != 0 != b) for column in y.T] for row in x
    ])  # fmt: skip
    for found in (
        x.view(Cotangent) @ y, np.einsum("ij,jk->ik", x, y.view(Cotangent)), (x.view(Cotangent)[:, :, None] * y).sum(1)
    ):  # fmt: skip
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_quotients_and_products_of_numbers():
    x, y = np.array([0.0, 0, 0, 0, np.inf, 2, -1]), np.array([0.0, np.inf, np.nan, -0.0, np.inf, np.inf, 0])
    assert quotient(x, y).tolist() == [0, 0, 0, 0, 0, 0, -np.inf]
    assert product(x[:3], y[:3]).tolist() == [0, 0, 0]
    assert np.isnan(product(np.nan, 1.0))


# ---- forward mode


@every_operation
@given(seed=seeds, special=st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf]))
def test_forward_mode_is_reverse_mode_or_refused(operation, seed, special):
    """J v from the complex step is Σ_j J_ij v_j of the rows that reverse mode gives, at kinks, poles and ±∞ too.

    A wrong slope has no digits; that half of them agree is what forward mode itself asks for. Where an element is 0 on
    paper, as in an inverse, both are rounding of the largest ones.
    """
    rng = np.random.default_rng(seed)
    arguments = [np.array(a) for a in operation.args]
    for k in floats(arguments):
        arguments[k][rng.random(arguments[k].shape) < 0.3] = special
    tangents = [rng.standard_normal(a.shape) * (rng.random(a.shape) < 0.7) for a in arguments]
    tangents = tuple(t if is_differentiable(a) else None for a, t in zip(arguments, tangents, strict=True))
    try:
        rows = [ad.jacobian(operation.function, k)(*arguments) for k in floats(arguments)]
        value, along = ad.jvp(operation.function, tuple(arguments), tangents)
    except ValueError:
        return
    except TypeError:  # refused: only where something is not finite
        assert not np.isfinite([special, *(np.sum(r) for r in rows)]).all()
        return
    if not value.size:
        return
    terms = np.concatenate(
        [product(r, tangents[k]).reshape(value.size, -1) for r, k in zip(rows, floats(arguments), strict=True)], 1
    )
    expected, size = (a.reshape(value.shape) for a in (terms.sum(1), np.abs(terms).sum(1)))
    finite = np.isfinite(expected)
    largest = sum(
        np.abs(r[np.isfinite(r)]).max(initial=0) * np.abs(tangents[k]).max(initial=0)
        for r, k in zip(rows, floats(arguments), strict=True)
    )
    rounding = U**0.75 * size[finite].max(initial=0) + U * largest
    assert_within(along[finite], expected[finite], U**0.5 * size[finite] + rounding + 1e-150)
    assert not np.isfinite(along[~finite]).any()
    infinite = np.isinf(expected) & ~np.isnan(value)  # and not NaN, as the sum of infinite terms is whose signs differ
    np.testing.assert_array_equal(along[infinite], expected[infinite])


@pytest.mark.parametrize("x", [300.0, 345.6, 370.0, 740.0])
def test_a_slope_that_a_step_cannot_carry_is_0(x):
    """tanh′(345.6) is 4e-300: times the step it is below every number."""
    slope = ad.jvp(ad.tanh, (np.array(x),), (np.array(1.0),))[1]
    assert abs(slope - ad.grad(ad.tanh)(np.array(x))) <= 1e-200


def test_a_branch_that_overflows_and_is_not_taken_has_no_second_derivative():
    x = np.array([1.0, 1000.0])
    for function in (ad.erf, ad.sqrt, ad.log):
        taken = lambda x, f=function: ad.sum(ad.where([True, False], x * x, f(ad.exp(x))))
        assert np.array_equal(ad.hessian(taken)(x), [[2, 0], [0, 0]])


ONE_ARGUMENT = [f for f in SLOPES if f.nin == 1 and f is not np.conjugate]


@pytest.mark.parametrize("function", ONE_ARGUMENT, ids=lambda f: f.__name__)
def test_slopes_of_dual_numbers(function):
    """Beside those of differences, where the function has several values."""
    x = np.array([0.3, 0.7])
    slope = function(wrapped(x + 1j, Dual)).imag
    expected = richardson(function, x, np.ones(2))
    assert_within(np.asarray(slope), expected.value, expected.error + 1e-9)


POINTS = {
    "a pole": (lambda x: 1 / x, 0.0, -np.inf),
    "a branch point": (ad.sqrt, 0.0, np.inf),
    "a step that is nearly small enough": (lambda x: ad.sum(x**1.08), 0.0, 0.0),
    "roots of roots": (lambda x: x * ad.sqrt(ad.sqrt(ad.sqrt(x))), 0.0, 0.0),
    "a root's slope": (lambda x: x**0.5, 0.0, np.inf),
    "log at 0": (ad.log, 0.0, np.inf),
    "log on the left": (ad.log, -2.0, -0.5),
    "root on the left": (ad.sqrt, -2.0, np.nan),
    "the kink of a norm": (lambda x: ad.norm(ad.stack([x, 0 * x])), 0.0, 0.0),
    "the kink of a root of a square": (lambda x: ad.sqrt(x * x), 0.0, 0.0),
    "an angle at the origin": (lambda x: ad.arctan2(x, x), 0.0, 0.0),
    "σ far away": (lambda x: 1 / (1 + ad.exp(-x)), -1000.0, 0.0),
    "tanh at ∞": (ad.tanh, np.inf, 0.0),
    "exp at −∞": (ad.exp, -np.inf, 0.0),
    "a square at ∞": (lambda x: x * x, np.inf, np.inf),
    "abs": (abs, 0.0, 0.0),
    "relu": (layers.relu, 0.0, 0.0),
    "max": (lambda x: ad.max(ad.stack([x, 0 * x])), 0.0, 0.5),
}


@pytest.mark.parametrize("name", POINTS)
def test_both_modes_at_poles_branch_points_and_kinks(name):
    function, at, slope = POINTS[name]
    x, one = np.array(at), np.array(1.0)
    for found in (ad.grad(function)(x), ad.jvp(function, (x,), (one,))[1], ad.hvp(function, (x,), (one,))[0][0]):
        np.testing.assert_array_equal(found, slope)


@pytest.mark.parametrize(
    ("function", "at", "second"),
    [
        (lambda x: 1 / x, 0.0, np.inf),
        (ad.sqrt, 0.0, -np.inf),
        (ad.log, 0.0, -np.inf),
        (lambda x: x * ad.log(x), 0.0, np.inf),
        (lambda x: x**1.5, 0.0, np.inf),
        (ad.log, -2.0, -0.25),
        (abs, 0.0, 0.0),
        (lambda x: ad.norm(ad.stack([x, 0 * x])), 0.0, 0.0),
        (lambda x: ad.where(x > 20, x, ad.log1p(ad.exp(x))), 1000.0, 0.0),
    ],
)
def test_second_derivatives_there(function, at, second):
    assert ad.hvp(function, (np.array(at),), (np.array(1.0),))[1][0] == second
    assert ad.hessian(function)(np.array(at)) == second


@given(seeds, st.sampled_from([np.float16, np.float32, np.float64, np.longdouble]))
def test_every_precision_is_believed(seed, dtype):
    """A tangent in another type too; rounding is no disagreement."""
    x = np.asarray(np.random.default_rng(seed).uniform(0.5, 2, 4), dtype)
    _, along = ad.jvp(lambda x: ad.sum(ad.tanh(x) * ad.exp(x)), (x,), (np.ones(4),))
    wide = x.astype(float)
    expected = (np.exp(wide) * (1 / np.cosh(wide) ** 2 + np.tanh(wide))).sum()
    assert_within(float(along), expected, 64 * unit_roundoff(dtype) * expected + 64 * U * expected)
    ad.hvp(lambda x: ad.sum(ad.tanh(x) * ad.exp(x)), (x,), (np.ones(4),))


def test_constants_are_constants_in_forward_mode_too():
    x, v = np.array(3.0), np.array(1.0)
    for constant in (lambda x: x.detach(), lambda x: x.numpy()):
        assert ad.jvp(lambda x, c=constant: x * c(x), (x,), (v,))[1] == 3
        assert ad.hvp(lambda x, c=constant: x * x * c(x), (x,), (v,))[1][0] == 6


# ---- operations of others that are not analytic


@ad.primitive
def softsign(x):
    d = 1 + np.abs(x)
    return x / d, lambda y_bar: (y_bar / d**2,)


@ad.primitive
def squared_modulus(x):
    return (x * np.conj(x)).real, lambda y_bar: (2 * y_bar * x,)


@ad.primitive
def real_part_only(x):
    return x.real * 1.0, lambda y_bar: (y_bar,)


@ad.primitive
def wrong_rule(x):
    return x * x, lambda y_bar: (3 * y_bar * x,)


@given(seeds)
def test_what_is_not_analytic_is_right_or_refused(seed):
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((2, 4))
    right = {softsign: 1 / (1 + np.abs(x)) ** 2, squared_modulus: 2 * x, real_part_only: np.ones(4)}
    for function, slope in right.items():
        try:
            along = ad.jvp(function, (x,), (v,))[1]
        except TypeError:
            continue
        assert_within(along, slope * v, 64 * U * np.abs(slope * v))


@pytest.mark.parametrize("function", [real_part_only, wrong_rule])
def test_they_are_named_with_the_remedy(function):
    x, v = np.array([1.0, -2.0]), np.ones(2)

    def total(x):
        return ad.sum(ad.sin(function(x)) * x)

    message = f"{function.__name__}: not analytic, or its rule is wrong; .* use vjp or jacobian"
    for call in (lambda: ad.jvp(total, (x,), (v,)), lambda: ad.hvp(total, (x,), (v,)), lambda: ad.hessian(total)(x)):
        with pytest.raises(TypeError, match=message):
            call()


@given(seeds)
def test_analytic_operations_of_others_are_taken(seed):
    @ad.primitive
    def cubed(x):
        return x**3, lambda y_bar: (y_bar * 3 * x**2,)

    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((2, 4))
    assert_within(ad.jvp(cubed, (x,), (v,))[1], 3 * x**2 * v, 16 * U * np.abs(3 * x**2 * v))
    assert_within(ad.hvp(lambda x: ad.sum(cubed(x)), (x,), (v,))[1][0], 6 * x * v, 16 * U * np.abs(6 * x * v))


@pytest.mark.parametrize("kind", [Cotangent, Dual])
@pytest.mark.parametrize("of", [lambda x: 0.3 * x, lambda x: x / 3, lambda x: 2 * x, lambda x: 1 / x])
def test_a_number_of_python_has_no_precision_of_its_own(of, kind):
    """float32 stays float32 and rounds as ever, whatever the array is."""
    x = normal(0, (5,), np.float32) + np.float32(4)
    found = of(x.view(kind))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(found), of(x))
    step = of((x + 1j * x).astype(np.complex64).view(kind))
    assert step.dtype == np.complex64
    np.testing.assert_array_equal(np.asarray(step).real, of(x))
