"""What people know from NumPy: arctan2, remainder, floor, round, sort, median, diag, hstack, vstack, dot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import Tensor
from tests.helpers import assert_same_bits, assert_within, real_dtypes, seeds, unit_roundoff

U = unit_roundoff(np.float64)


@given(dtype=real_dtypes, seed=seeds)
def test_the_same_as_numpy(dtype, seed):
    rng = np.random.default_rng(seed)
    x, y = (np.asarray(rng.choice([-2, -1.5, -0.0, 0, 0.5, 1, np.inf, np.nan], (3, 4)), dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        for own, numpys in (
            (ad.arctan2(x, y), np.arctan2(x, y)),
            (ad.remainder(x, y), np.remainder(x, y)),
            (x % Tensor(y), np.remainder(x, y)),
            (ad.floor(x), np.floor(x)),
            (ad.round(x * 3, 1), np.round(x * 3, 1)),
            *((ad.sort(x, axis), np.sort(x, axis)) for axis in (0, -1, None)),
            *((ad.median(x, axis), np.median(x, axis)) for axis in (0, (1, 0), None)),
            (ad.median(x, 1, keepdims=True), np.median(x, 1, keepdims=True)),
            *((ad.diag(x, k), np.diag(x, k)) for k in (-1, 0, 2)),
            *((ad.diag(x[0], k), np.diag(x[0], k)) for k in (-1, 0, 2)),
            *((ad.hstack(list(a)), np.hstack(a)) for a in ((x, y), (x[0], y[1]), (x[0, 0], y[0, 0]))),
            *((ad.vstack(list(a)), np.vstack(a)) for a in ((x, y), (x[0], y[1]), (x, y[0]), (x[0, 0], y[0, 0]))),
        ):
            own = own.numpy() if isinstance(own, Tensor) else own
            np.testing.assert_array_equal(own, numpys)
            assert np.asarray(own).dtype == dtype


@given(seeds, st.sampled_from([((), ()), ((), (3,)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)),
                               ((4, 2, 3), (3,)), ((4, 2, 3), (3, 2)), ((3,), (4, 3, 2))]))  # fmt: skip
def test_dot(seed, shapes):
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(shape) for shape in shapes)
    bound = 8 * U * np.dot(np.abs(x), np.abs(y))
    assert_within(ad.dot(x, y), np.dot(x, y), bound)
    assert_within(Tensor(x).dot(y).numpy(), np.dot(x, y), bound)


def test_dot_of_batches_is_told_what_to_use():
    with pytest.raises(ValueError, match=r"dot: y has shape \(4, 3, 2\); use matmul for batches, or einsum"):
        ad.dot(np.ones((2, 3)), np.ones((4, 3, 2)))


def test_ties_and_edges():
    assert ad.grad(ad.median)(np.array([2.0, 2, 2])).tolist() == [0, 1, 0]
    assert ad.vjp(ad.sort, np.array([1.0, 0, 1]))[1](np.array([1.0, 10, 100]))[0].tolist() == [10, 1, 100]
    assert np.isnan(ad.median(np.array([1.0, np.nan])))
    assert [g.tolist() for g in ad.vjp(ad.arctan2, np.zeros(1), np.zeros(1))[1](np.ones(1))] == [[0], [0]]
    assert ad.arctan2(np.array([1e300, -1e-300]), np.array([-1e300, 1e-300])).tolist() == [3 * np.pi / 4, -np.pi / 4]
    assert_within(ad.grad(lambda y: ad.arctan2(y, 1e200))(np.array(1e200)), 0.5e-200, 8 * U * 0.5e-200)
    with pytest.raises(ValueError, match="median: x of shape"):
        ad.median(np.ones((0, 2)), 0)
    with pytest.raises(TypeError, match="hstack: arrays is a float"):
        ad.hstack(1.0)
    with pytest.raises(TypeError, match="vstack: arrays is a float"):
        ad.vstack(1.0)


def test_floor_and_round_are_constants():
    x = np.array([1.5, -0.5])
    for function in (ad.floor, ad.round):
        assert not function(Tensor(x, requires_grad=True)).requires_grad
        gradient = ad.grad(lambda x, f=function: ad.sum(x * f(x)))(x)
        assert_same_bits(gradient, function(x))


def test_a_quotient_that_is_nan_has_no_slope_in_y():
    """z̄/∞ = 0 is no cotangent of 0, behind which NaN would be hidden."""
    x = np.array([np.inf, np.inf, 2.0])
    with np.errstate(invalid="ignore"):
        x_bar, y_bar = ad.vjp(ad.divide, x, np.full(3, np.inf))[1](np.array([1.0, 0.0, 1.0]))
    assert x_bar.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(y_bar, [np.nan, 0, 0])
