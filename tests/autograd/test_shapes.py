"""Other shapes for the same elements: errors, joins and cuts. Values and gradients are in test_contract.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import Tensor
from tests.helpers import assert_same_bits, normal, seeds, shapes

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("shape", [6, (6,), [3, 2], (-1, 2), np.array([3, 2]), (1, 6, 1)])
def test_reshape_to_any_form_of_shape(shape):
    assert ad.reshape(X, shape).shape == X.reshape(shape).shape
    assert ad.reshape(Tensor(X), shape).shape == X.reshape(shape).shape


@given(shapes(), seeds)
def test_moving_there_and_back_changes_nothing(shape, seed):
    x = normal(seed, shape)
    axes = np.random.default_rng(seed).permutation(len(shape))
    assert_same_bits(ad.transpose(ad.transpose(x, axes), np.argsort(axes)), x)
    assert_same_bits(ad.reshape(ad.reshape(x, -1), shape), x)
    assert_same_bits(ad.flip(ad.flip(x)), x)
    if shape:
        shift = int(seed % 7) - 3
        assert_same_bits(ad.roll(ad.roll(x, shift, 0), -shift, 0), x)
        assert_same_bits(ad.swapaxes(ad.swapaxes(x, 0, -1), -1, 0), x)
        assert_same_bits(ad.concatenate(ad.split(x, shape[0] or 1, 0), 0), x)
        assert_same_bits(ad.stack(list(x)), x) if shape[0] else None


def test_views_share_memory_with_x():
    for view in (
        ad.reshape(X, 6),
        ad.transpose(X),
        ad.swapaxes(X, 0, 1),
        ad.broadcast_to(X, (2, 2, 3)),
        ad.split(X, 3)[0],
    ):
        assert np.shares_memory(view, X)
    assert not ad.broadcast_to(X, (2, 2, 3)).flags.writeable


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_flip_along_some_or_all_axes(axis):
    assert ad.flip(X, axis).tolist() == np.flip(X, axis).tolist()


@pytest.mark.parametrize(("shift", "axis"), [(1, None), (-2, 1), ((1, 2), (0, 1)), ([1, -1], (1, 0)), (1, (0, 1))])
def test_roll_along_one_axis_several_or_all_elements(shift, axis):
    value, pullback = ad.vjp(lambda x: ad.roll(x, shift, axis), X)
    assert value.tolist() == np.roll(X, shift, axis).tolist()
    assert pullback(value)[0].tolist() == X.tolist()


@pytest.mark.parametrize("sections", [1, 3, [1], [0, 3], [1, 1, 2], [-1], (1, 2), np.array([2])])
def test_split_and_join(sections):
    x = Tensor(X, requires_grad=True)
    parts = ad.split(x, sections)
    assert [p.numpy().tolist() for p in parts] == [p.tolist() for p in np.split(X, sections, -1)]
    joined = ad.concatenate(parts, axis=-1)
    assert_same_bits(joined.numpy(), X)
    joined.backward(X + 1)
    assert_same_bits(x.grad, X + 1)


def test_split_without_tensors_gives_arrays():
    assert all(type(part) is np.ndarray for part in ad.split(X, 3))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), seeds)
def test_concatenate_of_different_lengths(lengths, seed):
    arrays = [normal(seed, (2, n)) for n in lengths]
    value, pullback = ad.vjp(lambda *a: ad.concatenate(a, axis=1), *arrays)
    assert_same_bits(value, np.concatenate(arrays, 1))
    for gradient, array in zip(pullback(value), arrays, strict=True):
        assert_same_bits(gradient, array)


def test_join_mixes_tensors_arrays_and_lists():
    x = Tensor([1.0, 2.0], requires_grad=True)
    ad.concatenate([x, np.ones(2), [5.0], x]).backward(np.arange(7.0))
    assert x.grad.tolist() == [0 + 5, 1 + 6]
    ad.stack([x, [3.0, 4.0]], axis=-1).sum().backward()
    assert x.grad.tolist() == [6, 8]
    assert ad.concatenate(Tensor(X)).shape == (6,)  # the rows of a Tensor


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.reshape(X, (4, 2)), ValueError, r"x of shape \(2, 3\) has 6 elements; they do not fill \(4, 2\)"),
        (lambda: ad.transpose(X, (0,)), ValueError, r"transpose: axes \(0,\) do not name all 2 axes of x"),
        (lambda: ad.transpose(X, (0, 0)), ValueError, "names an axis twice"),
        (lambda: ad.transpose(X, (0, 2)), ValueError, "out of range for an array with 2 axes"),
        (lambda: ad.swapaxes(X, 0, 2), ValueError, "swapaxes: axis 2 is out of range"),
        (lambda: ad.broadcast_to(X, (2, 4)), ValueError, r"x of shape \(2, 3\) does not broadcast to \(2, 4\)"),
        (lambda: ad.flip(X, 5), ValueError, "flip: axis 5 is out of range"),
        (lambda: ad.roll(X, 1, 2), ValueError, "roll: axis 2 is out of range"),
        (lambda: ad.concatenate([]), ValueError, "concatenate: no arrays were given; pass at least one"),
        (lambda: ad.concatenate([X, X.T]), ValueError, r"shapes \(2, 3\), \(3, 2\) may differ along axis 0 only"),
        (lambda: ad.concatenate([X, X[0]]), ValueError, r"shapes \(2, 3\), \(3,\) may differ along axis 0 only"),
        (lambda: ad.concatenate([X], axis=2), ValueError, "concatenate: axis 2 is out of range"),
        (lambda: ad.stack([]), ValueError, "stack: no arrays were given"),
        (lambda: ad.stack([X, X.T]), ValueError, r"stack: shapes \[\(2, 3\), \(3, 2\)\] differ; all must be the same"),
        (lambda: ad.stack([X, X], axis=3), ValueError, "stack: axis 3 is out of range for an array with 3 axes"),
        (lambda: ad.split(X, 2), ValueError, "axis 1 of length 3 does not divide into 2 equal parts"),
        (lambda: ad.split(X, 0), ValueError, "does not divide into 0 equal parts"),
        (lambda: ad.split(X, [2, 1]), ValueError, r"split: places \[2, 1\] do not ascend along an axis of length 3"),
        (lambda: ad.split(X, [4]), ValueError, r"places \[4\] do not ascend along an axis of length 3"),
        (lambda: ad.split(X, 1, axis=2), ValueError, "split: axis 2 is out of range"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
