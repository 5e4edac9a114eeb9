"""Jacobians and Hessians as whole matrices."""

import numpy as np
import pytest

import refnp.autograd as ad
from tests.helpers import assert_within, normal, unit_roundoff

U = unit_roundoff(np.float64)
A, X = normal(0, (3, 4)), normal(1, 4)


def test_jacobian_of_a_linear_map_is_its_matrix():
    assert_within(ad.jacobian(lambda x: ad.matmul(A, x))(X), A, 0)
    assert_within(ad.jacobian(ad.matmul, 1)(A, X), A, 0)
    assert_within(ad.jacobian(ad.matmul, -2)(A, X), np.einsum("ik,j->ikj", np.eye(3), X), 0)


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
    hessian = ad.hessian(lambda x: x @ (ad.matmul(b, x)) * 0.5)(X)
    assert_within(hessian, (b + b.T) / 2, 4 * U * (abs(b) + abs(b.T)))


def test_hessian_is_the_jacobian_of_the_gradient_and_symmetric():
    def f(x):
        return ad.sum(ad.exp(ad.matmul(A, x))) * ad.prod(x)

    hessian = ad.hessian(f)(X)
    by_steps = np.stack([ad.jvp(ad.grad(f), (X,), (unit,))[1] for unit in np.eye(4)])
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
        function(ad.add, argnum)(X, X)


def test_hessian_wants_one_number():
    with pytest.raises(ValueError, match=r"hvp: the result is of shape \(4,\), not one number"):
        ad.hessian(ad.sin)(X)
