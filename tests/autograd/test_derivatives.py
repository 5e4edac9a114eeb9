"""grad, value_and_grad, vjp, jvp, hvp, jacobian, hessian: against each other and formulas, refusals."""

import contextlib
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import Parameter, Tensor
from tests.helpers import assert_same_bits, assert_within, normal, seeds, unit_roundoff

U = unit_roundoff(np.float64)


class Layer(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray


def network(parameters, x):
    """A function of nested parameters, smooth and not symmetric in anything."""
    y = ad.tanh(x @ parameters["first"].weight + parameters["first"].bias)
    for gain, shift in parameters["rest"]:
        y = ad.exp(y * gain * 0.3) + shift * parameters["scale"]
    return ad.mean(y * y)


def parameters(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return {
        "first": Layer(normal(rng, (3, 4), dtype), normal(rng, 4, dtype)),
        "rest": [(normal(rng, 4, dtype), normal(rng, (), dtype)), (normal(rng, 4, dtype), normal(rng, 1, dtype))],
        "scale": dtype(0.7),
        "names": ["a", None, 3, True],
    }


X = normal(9, (5, 3))


def flattened(tree):
    floats = [np.ravel(leaf) for leaf in ad.trees.leaves_of(tree) if np.asarray(leaf).dtype.kind == "f"]
    return np.concatenate(floats)


def test_grad_keeps_the_nesting():
    gradient = ad.grad(network)(parameters(), X)
    assert type(gradient["first"]) is Layer
    assert type(gradient["rest"][0]) is tuple
    assert gradient["names"] == [None, None, None, None]
    assert gradient["scale"].shape == ()
    assert gradient["rest"][1][1].shape == (1,)


def test_grad_by_the_complex_step_of_every_element():
    p = parameters()
    flat = flattened(p)
    gradient = flattened(ad.grad(network)(p, X))
    for k in range(flat.size):
        units = iter(np.split(np.eye(flat.size)[k], np.cumsum([np.size(a) for a in _floats(p)])[:-1]))
        tangent = ad.trees.map_leaves(lambda a, u=units: _like(a, u), p)
        assert_within(ad.jvp(network, (p, X), (tangent, 0 * X))[1], gradient[k], 64 * U * abs(gradient).max())


def _floats(tree):
    return [leaf for leaf in ad.trees.leaves_of(tree) if np.asarray(leaf).dtype.kind == "f"]


def _like(leaf, units):
    return next(units).reshape(np.shape(leaf)) if np.asarray(leaf).dtype.kind == "f" else None


@given(seeds)
def test_hvp_is_symmetric_and_agrees_with_jvp_of_grad(seed):
    """⟨u, H v⟩ = ⟨v, H u⟩, and H v = D(∇f) v: reverse over the complex step, and the complex step over reverse."""
    p, u, v = parameters(), parameters(seed), parameters(seed + 1)
    fixed = {"names": p["names"]}

    def f(q):
        return network({**q, **fixed}, X)

    p, u, v = ({k: a for k, a in tree.items() if k != "names"} for tree in (p, u, v))
    gradient, (hv,) = ad.hvp(f, (p,), (v,))
    _, (hu,) = ad.hvp(f, (p,), (u,))
    plain = ad.grad(f)(p)
    assert_within(flattened(gradient), flattened(plain), 64 * U * abs(flattened(plain)).max())
    value, along = ad.jvp(ad.grad(f), (p,), (v,))
    assert_same_bits(flattened(value), flattened(plain))
    assert_same_bits(flattened(along), flattened(hv))
    size = np.sum(abs(flattened(u)) * abs(flattened(hv))) + np.sum(abs(flattened(v)) * abs(flattened(hu)))
    assert_within(flattened(u) @ flattened(hv), flattened(v) @ flattened(hu), 256 * U * size)


def test_jvp_has_more_digits_than_any_difference_quotient():
    x = np.array([0.3, 5.0, 30.0])
    _, slope = ad.jvp(ad.tanh, (x,), (np.ones(3),))
    wide = x.astype(np.longdouble)
    assert_within(slope, 1 / np.cosh(wide) ** 2, 64 * U / np.cosh(wide) ** 2)


def test_value_and_grad_of_chosen_arguments():
    def f(x, y, z):
        return ad.sum(x * y) + z

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    value, gradient = ad.value_and_grad(f)(x, y, 5.0)
    assert (value, gradient.tolist()) == (16, [3, 4])
    assert ad.grad(f, 1)(x, y, 5.0).tolist() == ad.grad(f, -2)(x, y, 5.0).tolist() == [1, 2]
    by_y, by_x = ad.grad(f, (1, 0))(x, y, 5)  # z is whole, hence a constant
    assert (by_y.tolist(), by_x.tolist()) == ([1, 2], [3, 4])


def test_pullback_may_be_called_again_and_results_changed():
    value, pullback = ad.vjp(ad.sin, np.ones(2))
    (first,) = pullback(np.ones(2))
    first += 7
    assert pullback(np.ones(2))[0].tolist() == np.cos(np.ones(2)).tolist()
    assert type(value) is np.ndarray


def test_nested_results_take_nested_cotangents():
    def f(x):
        return {"sum": ad.sum(x), "parts": [x * 2, (x[0], 5)]}

    value, pullback = ad.vjp(f, np.array([1.0, 2.0]))
    assert value["sum"] == 3
    assert value["parts"][1] == (1, 5)
    assert pullback({"sum": 1.0, "parts": [np.array([10.0, 20.0]), (100.0, 0.0)]})[0].tolist() == [121, 41]
    _, along = ad.jvp(f, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    assert along["sum"] == 11
    assert along["parts"][0].tolist() == [2, 20]
    assert along["parts"][1] == (1, 0)


def test_what_does_not_depend_has_gradient_zero():
    value, pullback = ad.vjp(lambda x, y: ad.sum(x), np.ones(2), np.ones((2, 3)))
    assert pullback(1.0)[1].tolist() == np.zeros((2, 3)).tolist()
    assert ad.jvp(lambda x: 3.0, (np.ones(2),), (np.ones(2),)) == (3, 0)
    assert value == 2


def test_parameters_in_the_closure_keep_their_grad():
    w = Parameter(np.ones(2))
    assert ad.grad(lambda x: ad.sum(x * w))(np.ones(2)).tolist() == [1, 1]
    assert w.grad is None
    value, along = ad.jvp(lambda x: ad.sum(x * w), (np.ones(2),), (np.ones(2),))
    assert (value, along) == (2, 2)
    assert type(value) is not Tensor


def test_tensors_that_are_leaves_may_be_differentiated_at():
    assert ad.grad(ad.sum)(Parameter(np.ones(2))).tolist() == [1, 1]
    assert ad.jvp(ad.sum, (Parameter(np.ones(2)),), (np.ones(2),))[1] == 2


def test_methods_operators_and_abs_are_analytic_in_forward_mode():
    """On a complex NumPy array abs is the modulus and max compares imaginary parts; jvp hands out Tensors."""
    x = np.array([-1.0, 2.0, 0.5])

    def f(x):
        return abs(x).max() + x.min() * 3 + ad.where(x > 0, x.exp(), 0.0).sum() - x.clip(0.0, 1.0).sum()

    _, along = ad.jvp(f, (x,), (np.array([1.0, 10.0, 100.0]),))
    expected = 10 + 3 + 10 * np.exp(2.0) + 100 * np.exp(0.5) - 100
    assert_within(along, expected, 64 * U * expected)


NOT_ANALYTIC = {  # right on real numbers: the value, and the rule for its gradient
    "np.var": lambda x: (np.var(x), lambda g: (g * 2 * (x - x.mean()) / x.size,)),
    "np.std": lambda x: (np.std(x), lambda g: (g * (x - x.mean()) / (x.size * np.std(x)),)),
    "np.var in the rule": lambda x: (
        ((x - x.mean()) ** 2).mean() ** 2,
        lambda g: (g * 4 * np.var(x) * (x - x.mean()) / x.size,),
    ),
    "np.abs": lambda x: (np.abs(x).sum(), lambda g: (g * np.sign(x),)),
    "np.abs in the rule": lambda x: ((x * x * x).sum(), lambda g: (g * 3 * np.abs(x) ** 2,)),
    "np.linalg.norm": lambda x: (np.linalg.norm(x), lambda g: (g * x / np.linalg.norm(x),)),
    "conj": lambda x: ((x * x.conj()).real.sum(), lambda g: (g * 2 * x,)),
    ".real in the rule": lambda x: (np.exp(x).sum(), lambda g: (g * np.exp(x.real),)),
}


@pytest.mark.parametrize("name", NOT_ANALYTIC)
@given(seed=seeds, beside=st.sampled_from([0.0, 1.0, 1e6, 1e12]))
def test_an_operation_that_is_not_analytic_is_found_beside_any_other_term(name, seed, beside):
    """The derivative is right, or the operation refused by its name."""
    operation = ad.primitive(NOT_ANALYTIC[name])
    rng = np.random.default_rng(seed)
    x, v = rng.normal(size=(2, 4))
    v -= v.mean() / 2
    f = lambda x: operation(x) + beside * ad.sum(x)
    gradient = lambda x: ad.grad(operation)(x)
    expected, ends = gradient(x) @ v, [gradient(x + side * 1e-6 * v) for side in (-1, 1)]
    with contextlib.suppress(Refused):
        along = refused_or(lambda: ad.jvp(f, (x,), (v,))[1])
        assert_within(along - beside * v.sum(), expected, 1e-6 * np.abs(expected) + 64 * U * beside)
    with contextlib.suppress(Refused):
        second = refused_or(lambda: ad.hvp(f, (x,), (v,))[1][0])
        difference = (ends[1] - ends[0]) / 2e-6
        assert_within(second, difference, 1e-3 * np.linalg.norm(difference) + 1e-7)  # as far as differences tell


class Refused(Exception):
    """A derivative was refused, because something is not analytic."""


def refused_or(derivative):
    try:
        return derivative()
    except TypeError as error:
        if "not analytic" in str(error):
            raise Refused from error
        raise


@pytest.mark.parametrize(
    ("name", "nested"),
    [
        ("grad of grad", lambda x: ad.grad(lambda x: ad.sum(ad.grad(lambda y: ad.sum(y**3))(x)))(x)),
        ("of a computed value", lambda x: ad.grad(lambda x: ad.sum(ad.grad(lambda y: ad.sum(y**3))(x * 2)))(x)),
        ("by closure", lambda x: ad.grad(lambda x: ad.sum(ad.grad(lambda y: ad.sum(y * x))(x.numpy())))(x)),
        ("jvp in grad", lambda x: ad.grad(lambda x: ad.sum(ad.jvp(lambda y: y**3, (x,), (0 * X[0],))[1]))(x)),
        ("jvp by closure", lambda x: ad.grad(lambda x: ad.sum(ad.jvp(lambda y: y * x, (X[0],), (X[0],))[1]))(x)),
        ("hvp in grad", lambda x: ad.grad(lambda x: ad.sum(ad.hvp(lambda y: ad.sum(y**3), (x,), (X[0],))[1][0]))(x)),
    ],
)
def test_a_derivative_inside_a_reverse_pass_is_refused(name, nested):
    """It would be cut off from the outer one, whose gradient would silently be 0."""
    with pytest.raises(
        TypeError, match=r"(grad|vjp|jvp): a value here is already being differentiated.* use hvp, hessian or jvp"
    ):
        nested(np.array([1.0, 2.0, 3.0]))


def test_a_complex_step_inside_another_is_refused():
    one = np.ones(())
    with pytest.raises(TypeError, match="jvp: arguments must be real; the complex step has used up the imaginary part"):
        ad.jvp(lambda x: ad.jvp(ad.sin, (x,), (one,))[1], (one,), (one,))
    with pytest.raises(TypeError, match="jvp: the result is complex, but only a real function can be stepped"):
        ad.jvp(lambda x: ad.jvp(lambda y: x * y, (one,), (one,))[1], (one,), (one,))


def test_jvp_of_grad_is_the_way_to_second_derivatives():
    _, second = ad.jvp(ad.grad(lambda x: ad.sum(x**3)), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    assert second.tolist() == [6, 0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ad.grad(ad.sin)(X),
            ValueError,
            r"grad: the result is of shape \(5, 3\), not one number; use vjp or jacobian",
        ),
        (lambda: ad.grad(lambda x: None)(X), ValueError, "grad: the result is NoneType, not one number"),
        (lambda: ad.grad(lambda x: (ad.sum(x),))(X), ValueError, "grad: the result is tuple, not one number"),
        (lambda: ad.hvp(ad.sin, (X,), (X,)), ValueError, "hvp: the result is of shape"),
        (lambda: ad.grad(ad.sum)(3), TypeError, r"grad: argument 0 \(int\) has no floats to differentiate"),
        (lambda: ad.grad(ad.sum)({"n": [1, None]}), TypeError, r"grad: argument 0 \(dict\) has no floats"),
        (lambda: ad.grad(ad.sum, 1)(X), ValueError, "grad: argnums 1 must name different ones of 1 arguments"),
        (
            lambda: ad.grad(ad.add, (0, -2))(X, X),
            ValueError,
            r"argnums \(0, -2\) must name different ones of 2 arguments",
        ),
        (lambda: ad.vjp(ad.sin, X)[1](X.T), ValueError, r"cotangent has shape \(3, 5\), the result has \(5, 3\)"),
        (lambda: ad.vjp(ad.sin, X)[1]([X, X]), ValueError, "vjp: the cotangent has 2 leaves, the result has 1"),
        (lambda: ad.jvp(ad.sin, (X,), (X.T,)), ValueError, r"jvp: a tangent has shape \(3, 5\), its argument \(5, 3\)"),
        (lambda: ad.jvp(ad.sin, (X,), ()), ValueError, "nesting differs: 1 branches are paired with 0 branches"),
        (
            lambda: ad.jvp(ad.sum, ({"x": X},), ({"y": X},)),
            ValueError,
            r"a dict with keys \['x'\] is paired with a dict",
        ),
        (lambda: ad.jvp(ad.sum, ([X],), (X,)), ValueError, "nesting differs: 1 branches are paired with one ndarray"),
        (lambda: ad.jvp(ad.sin, (X + 0j,), (X,)), TypeError, "jvp: arguments must be real"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@given(seeds, st.sampled_from([1e-6, 1e6]))
def test_scales_of_tangents_do_not_matter(seed, scale):
    x, v = normal(seed, 4), normal(seed + 1, 4)
    _, plain = ad.jvp(ad.sin, (x,), (v,))
    _, scaled = ad.jvp(ad.sin, (x,), (v * scale,))
    assert_within(scaled, plain * scale, 8 * U * abs(plain * scale))


A, V = normal(0, (3, 4)), normal(1, 4)


def test_jacobian_of_a_linear_map_is_its_matrix():
    assert_within(ad.jacobian(lambda x: ad.matmul(A, x))(V), A, 0)
    assert_within(ad.jacobian(ad.matmul, 1)(A, V), A, 0)
    assert_within(ad.jacobian(ad.matmul, -2)(A, V), np.einsum("ik,j->ikj", np.eye(3), V), 0)


@pytest.mark.parametrize(
    ("inside", "outside"), [((), ()), ((2,), ()), ((), (2,)), ((2, 3), (3, 2)), ((0,), (2,)), ((2,), (0,))]
)
def test_shapes(inside, outside):
    def f(x):
        return ad.broadcast_to(ad.sum(x), outside) * 1.0

    assert ad.jacobian(f)(np.ones(inside)).shape == outside + inside
    assert ad.hessian(lambda x: ad.sum(f(x)))(np.ones(inside)).shape == inside + inside


def test_hessian_of_a_quadratic_form():
    """½ xᵀ B x has the Hessian ½ (B + Bᵀ)."""
    b = normal(2, (4, 4))
    hessian = ad.hessian(lambda x: x @ (ad.matmul(b, x)) * 0.5)(V)
    assert_within(hessian, (b + b.T) / 2, 4 * U * (abs(b) + abs(b.T)))


def test_hessian_is_the_jacobian_of_the_gradient_and_symmetric():
    def f(x):
        return ad.sum(ad.exp(ad.matmul(A, x))) * ad.prod(x)

    hessian = ad.hessian(f)(V)
    by_steps = np.stack([ad.jvp(ad.grad(f), (V,), (unit,))[1] for unit in np.eye(4)])
    assert_within(hessian, by_steps, 0)
    assert_within(hessian, hessian.T, 64 * U * abs(hessian).max())


def test_nested_arguments_and_results():
    def f(p, c):
        return {"product": p["a"] * p["b"], "count": 3, "sum": ad.sum(p["b"]) * c}

    p = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0]), "n": 7}
    matrix = ad.jacobian(f)(p, 2.0)
    assert matrix["product"]["a"].tolist() == [[3, 0], [0, 4]]
    assert matrix["product"]["b"].tolist() == [[1, 0], [0, 2]]
    assert matrix["sum"]["b"].tolist() == [2, 2]
    assert matrix["count"]["a"].tolist() == [0, 0]
    assert matrix["sum"]["n"] is None
    hessian = ad.hessian(lambda p: ad.sum(p["a"] * p["b"] ** 2))(p)
    assert hessian["a"]["b"].tolist() == [[6, 0], [0, 8]]
    assert hessian["b"]["a"].tolist() == [[6, 0], [0, 8]]
    assert hessian["b"]["b"].tolist() == [[2, 0], [0, 4]]
    assert hessian["n"] is None


def test_complex_results_have_complex_jacobians():
    assert ad.jacobian(ad.exp)(np.array([1j])).tolist() == [[np.exp(1j)]]


@pytest.mark.parametrize("function", [ad.jacobian, ad.hessian])
@pytest.mark.parametrize("argnum", [2, -3])
def test_argnum_out_of_range(function, argnum):
    with pytest.raises(ValueError, match=f"argnum {argnum} is out of range for 2 arguments"):
        function(ad.add, argnum)(V, V)


def test_hessian_wants_one_number():
    with pytest.raises(ValueError, match=r"hvp: the result is of shape \(4,\), not one number"):
        ad.hessian(ad.sin)(V)
