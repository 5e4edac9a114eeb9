"""BatchNorm, InstanceNorm, GroupNorm: what is taken together, running statistics, and what is refused."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp import layers
from refnp.layers.module import on_tape
from tests.helpers import normal


def test_running_statistics_by_hand():
    """Mean 2 and unbiased variance 2 of (1, 3), with momentum ¼: r = ¾ · 0 + ¼ · 2 and ¾ · 1 + ¼ · 2."""
    norm = layers.BatchNorm(1, momentum=0.25)
    y = norm(ad.Tensor(np.array([[1.0], [3.0]])), training=True)
    assert np.abs(y.numpy() - [[-1], [1]]).max() < 1e-5
    assert norm.running_mean.data == [0.5]
    assert norm.running_variance.data == [1.25]


def test_running_statistics_move_in_training_alone():
    norm, x = layers.BatchNorm(4), normal(0, (5, 4))
    before = norm.state_dict()
    norm(x)
    norm(x, training=True)
    norm(ad.Tensor(x))
    norm.bind(before)(ad.Tensor(x), training=True)
    assert all(np.array_equal(norm.state_dict()[name], before[name]) for name in before)
    with on_tape():
        norm(x, training=True)
    assert not np.array_equal(norm.running_mean.data, before["running_mean"])
    assert {id(p) for p in norm.parameters()} == {id(norm.gain), id(norm.shift)}
    assert norm(x.astype(np.float32), training=True).shape == x.shape


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: layers.batch_norm(np.zeros((0, 4))), ValueError, "axis"),
        (lambda: layers.BatchNorm(4)(np.zeros((1, 4)), training=True), ValueError, "needs two numbers or more"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
