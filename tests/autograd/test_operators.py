"""Operators, comparisons and methods of a Tensor do what they do for NumPy's arrays, and keep gradients."""

import operator

import numpy as np
import pytest

from refnp.autograd import Tensor
from tests.helpers import assert_same_bits, check

A, B = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5, 5.0], [2.0, 4.0]])
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_with_tensors_arrays_and_lists(op):
    for left, right in [
        (Tensor(A), Tensor(B)),
        (Tensor(A), B),
        (A, Tensor(B)),
        (Tensor(A), B.tolist()),
        (A.tolist(), Tensor(B)),
    ]:
        result = op(left, right)
        assert isinstance(result, Tensor)
        assert_same_bits(result.numpy(), op(A, B))
    check(op, (A, B))


@pytest.mark.parametrize("op", [op for op in ARITHMETIC if op is not operator.matmul])
@pytest.mark.parametrize(
    "number", [2, 2.5, True, np.float32(2), np.float64(2.5), np.longdouble(3), np.int64(2), np.array(2.0)]
)
def test_arithmetic_with_numbers_on_either_side(op, number):
    for result, expected in [(op(Tensor(A), number), op(A, number)), (op(number, Tensor(A)), op(number, A))]:
        assert isinstance(result, Tensor)
        assert result.dtype == expected.dtype
        assert np.allclose(result.numpy(), expected, rtol=4 * np.finfo(float).eps, atol=0)


def test_signs_and_abs():
    x = Tensor([-1.0, 2.0])
    assert (-x).numpy().tolist() == [1, -2]
    assert +x is x
    assert abs(x).numpy().tolist() == [1, 2]


def test_in_place_operators_make_a_new_tensor():
    x = start = Tensor([1.0], requires_grad=True)
    x += 1
    x *= 3
    assert x is not start
    x.backward()
    assert start.grad == [3]
    array = np.ones(1)
    with pytest.raises(TypeError, match=r"history would be lost; use \.numpy\(\), or refnp\.autograd\.add"):
        array += start


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_are_boolean_arrays_without_gradient(op):
    for left, right in [(Tensor(A), Tensor(B)), (Tensor(A), B), (A, Tensor(B)), (Tensor(A), B.tolist())]:
        result = op(left, right)
        assert type(result) is np.ndarray
        assert_same_bits(result, op(A, B))
    assert_same_bits(op(Tensor(A), 2), op(A, 2))
    assert_same_bits(op(2, Tensor(A)), op(2, A))


def test_complex_numbers_are_ordered_by_their_real_parts():
    """NumPy goes on to compare imaginary parts, so that 0 + 1e-100j > 0, which would lead the complex step astray."""
    z = Tensor(np.array([0 + 1e-100j, 1 - 5j]))
    assert (z > 0).tolist() == [False, True]
    assert (z >= 0).tolist() == [True, True]
    assert (z < 1).tolist() == [True, False]
    assert (z == np.array([0, 1 - 5j])).tolist() == [False, True]


def test_comparison_with_something_else():
    x = Tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "x") is True
    with pytest.raises(TypeError, match="not supported between"):
        x < None  # noqa: B015


METHODS = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(axis=1, keepdims=True),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(-1),
    "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(0),
    "clip": lambda x: x.clip(1.5, 3.5),
    "trace": lambda x: x.trace(),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "take": lambda x: x.take([1, 0, 1], axis=1),
    "reshape": lambda x: x.reshape(4, 1),
    "reshape, tuple": lambda x: x.reshape((1, 4)),
    "reshape, -1": lambda x: x.reshape(-1),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x.reshape(1, 2, 1, 2).squeeze(),
    "squeeze, axis": lambda x: x.reshape(1, 2, 1, 2).squeeze(2),
    "transpose": lambda x: x.transpose(),
    "transpose, axes": lambda x: x.transpose(1, 0),
    "transpose, tuple": lambda x: x.transpose((0, 1)),
    "transpose, array": lambda x: x.transpose(np.array([1, 0])),
    "T": lambda x: x.T,
    "getitem": lambda x: x[:, ::-1],
    "cumprod": lambda x: x.cumprod(1),
    "diagonal": lambda x: x.diagonal(1),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods_are_those_of_arrays(method):
    assert_same_bits(method(Tensor(B)).numpy(), method(B))
    check(method, (B,))


def test_methods_that_numpy_does_not_continue_to_complex_numbers():
    """np.var takes |z|², and astype leaves the imaginary part out."""
    x = Tensor(B)
    assert_same_bits(x.var(0, ddof=1).numpy(), B.var(0, ddof=1))
    assert_same_bits(x.std(axis=1).numpy(), B.std(axis=1))
    assert_same_bits(x.astype(np.float32).numpy(), B.astype(np.float32))


def test_places_of_the_extremes():
    x = Tensor([[1.0, 5.0, 2.0], [9.0, 0.0, 3.0]])
    assert (x.argmax(), x.argmin()) == (3, 4)
    assert x.argmax(1).tolist() == [1, 0]


def test_transpose_of_one_axis():
    assert Tensor([1.0, 2.0]).transpose(0).numpy().tolist() == [1, 2]
    assert Tensor(1.0).T.shape == ()


def test_squeeze_refuses_an_axis_that_is_longer():
    with pytest.raises(
        ValueError, match=r"squeeze: axis is .* and x has shape .*; only axes of length 1 can be left out"
    ):
        Tensor(A).squeeze(0)


@pytest.mark.parametrize(
    ("idiom", "remedy"),
    [
        (lambda x: x.argsort(), r"use x\.numpy\(\)\.argsort$"),
        (lambda x: x.sort(), r"use x\.numpy\(\)\.sort, or refnp\.autograd\.sort\(x\) to keep"),
        (np.ravel, r"or refnp\.autograd\.reshape\("),
        (lambda x: x // 2, r"np\.floor_divide got a Tensor.* refnp\.autograd\.primitive"),
        (lambda x: 2 // x, r"np\.floor_divide got a Tensor.* refnp\.autograd\.primitive"),
    ],
)
def test_what_arrays_have_and_tensors_have_not_names_the_way_that_works(idiom, remedy):
    with pytest.raises((TypeError, AttributeError), match=remedy):
        idiom(Tensor(A))
    assert not hasattr(Tensor(A), "no_such_name")
