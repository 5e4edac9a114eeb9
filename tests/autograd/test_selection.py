"""Choosing among values: ties, NaN, bounds, and what the complex step sees."""

import numpy as np
import pytest
from hypothesis import given

import refnp.autograd as ad
from refnp.autograd import Tensor
from tests.helpers import REAL, assert_same_bits, dtypes, normal, seeds


def gradients(function, *arguments):
    value, pullback = ad.vjp(function, *arguments)
    return [g if g is None else g.tolist() for g in pullback(np.ones_like(value))]


@pytest.mark.parametrize("function", [ad.maximum, ad.minimum])
def test_a_tie_is_shared(function):
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 0.0])
    larger = function is ad.maximum
    assert gradients(function, x, y) == [[0.5, 1.0 - larger, 0.0 + larger], [0.5, 0.0 + larger, 1.0 - larger]]


@pytest.mark.parametrize("function", [ad.maximum, ad.minimum])
def test_forward_and_reverse_mode_agree_at_a_tie(function):
    """At a kink both take the same one of the possible derivatives, ½ and ½."""
    _, forward = ad.jvp(function, (np.ones(1), np.ones(1)), (np.array([2.0]), np.array([8.0])))
    assert forward == [5.0]


@pytest.mark.parametrize("function", [ad.maximum, ad.minimum])
def test_nan_is_kept_wherever_it_stands(function):
    nan = np.nan
    assert np.isnan(function(np.array([nan, 1.0, nan]), np.array([1.0, nan, nan]))).all()
    assert gradients(function, np.array([nan, 1.0]), np.array([1.0, nan])) == [[1, 0], [0, 1]]


def test_infinities_tie_without_nan():
    x = np.array([np.inf, -np.inf])
    assert ad.maximum(x, x).tolist() == [np.inf, -np.inf]
    assert ad.maximum(x + 0j, x + 0j).tolist() == [np.inf, -np.inf]


def test_absolute():
    x = np.array([-2.0, -0.0, 0.0, 3.0, np.inf])
    assert ad.absolute(x).tolist() == [2, 0, 0, 3, np.inf]
    assert gradients(ad.absolute, x) == [[-1, 0, 0, 1, 1]]
    assert ad.absolute(-2) == 2
    assert ad.absolute([-1, 2]).tolist() == [1, 2]
    assert ad.absolute(-2 + 1e-100j) == 2 - 1e-100j


@given(seeds, dtypes)
def test_where_with_any_condition(seed, dtype):
    x, y = normal(seed, (2, 3), dtype), normal(seed + 1, (2, 3), dtype)
    condition = x.real > 0
    for given_condition in (condition, Tensor(condition), condition.tolist()):
        assert_same_bits(ad.where(given_condition, Tensor(x), y).numpy(), np.where(condition, x, y))
    assert gradients(ad.where, condition, x, y) == [None, (condition + 0.0).tolist(), (~condition + 0.0).tolist()]
    assert ad.where(condition, x, 0).dtype == ad.where(condition, 1.5, y).dtype == dtype


@pytest.mark.parametrize("condition", [np.ones(2), [1, 0], Tensor([1.0, 0.0]), np.array([1, 0], np.uint8)])
def test_where_wants_booleans(condition):
    with pytest.raises(TypeError, match=r"where: condition is (float64|int64|uint8); pass booleans, for example x > 0"):
        ad.where(condition, 1.0, 2.0)


def test_where_lets_nothing_through_from_the_other_side():
    x, y = Tensor([np.nan, 1.0], requires_grad=True), Tensor([2.0, np.inf], requires_grad=True)
    z = ad.where([False, True], x, y)
    z.sum().backward()
    assert z.numpy().tolist() == [2, 1]
    assert (x.grad.tolist(), y.grad.tolist()) == ([0, 1], [1, 0])


def test_clip():
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, np.nan])
    assert np.array_equal(ad.clip(x, -1.0, 1.0), np.clip(x, -1, 1), equal_nan=True)
    assert gradients(lambda x: ad.clip(x, -1.0, 1.0), x[:-1]) == [[0, 1, 1, 1, 0]]
    assert ad.clip(x[:-1], low=0.0).tolist() == [0, 0, 0, 1, 2]
    assert ad.clip(x[:-1], high=0.0).tolist() == [-2, -1, 0, 0, 0]


def test_clip_passes_gradients_to_its_bounds():
    x, low, high = np.array([-2.0, 0.0, 2.0, 3.0]), np.array(-1.0), np.array([1.0, 1.0, 1.0, 1.0])
    assert gradients(ad.clip, x, low, high) == [[0, 1, 0, 0], 1, [0, 0, 1, 1]]
    assert gradients(lambda x, high: ad.clip(x, None, high), x, high) == [[1, 1, 0, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize("dtype", REAL)
def test_clip_keeps_the_dtype_and_does_not_truncate_bounds(dtype):
    assert ad.clip(np.ones(2, dtype), 0.5, 2).dtype == dtype
    assert ad.clip([1, 2, 3], 1.5, None).tolist() == [1.5, 2, 3]
    assert ad.clip([1, 2, 3], 2, None).dtype.kind == "i"


def test_clip_refuses():
    with pytest.raises(ValueError, match="neither low nor high is given; pass at least one"):
        ad.clip(np.ones(2))
    with pytest.raises(ValueError, match="low is greater than high somewhere"):
        ad.clip(np.ones(2), [0.0, 3.0], [1.0, 2.0])


def test_choices_are_made_by_the_real_part():
    """So that x + i h v takes the branch that x takes, exactly at a threshold as well."""
    z = np.array([0 + 1e-100j, 1 - 5j, -1 + 5j])
    assert ad.maximum(z, -z).tolist() == [0, 1 - 5j, 1 - 5j]
    assert ad.clip(z, 0.0, 0.5).tolist() == [1e-100j, 0.5, 0]
    assert ad.absolute(z).tolist() == [0, 1 - 5j, 1 - 5j]
