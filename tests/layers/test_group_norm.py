"""BatchNorm, InstanceNorm, GroupNorm: what is taken together, running statistics, and what is refused."""

import functools

import numpy as np
import pytest
from hypothesis import given

import refnp.autograd as ad
from refnp import layers
from refnp.layers.module import on_tape
from tests.helpers import assert_same_bits, normal, seeds

KINDS = {"group_norm": {"groups": 2}, "instance_norm": {}, "batch_norm": {}}
every_kind = pytest.mark.parametrize("kind", KINDS)


@given(seeds)
def test_one_group_of_all_and_one_for_each(seed):
    x = normal(seed, (2, 6, 5))
    assert_same_bits(layers.group_norm(x, groups=6), layers.instance_norm(x))
    whole = layers.layer_norm(x, axis=(1, 2))
    assert_same_bits(layers.group_norm(x, groups=1), whole)


@every_kind
@given(seeds)
def test_who_sees_whom(kind, seed):
    """Another first item changes what the second becomes in batch_norm alone; another channel, in its group alone."""
    x, changed, channel = (normal(seed, (2, 4, 5)) for _ in range(3))
    changed[0] += normal(seed + 1, (4, 5))
    channel[:, 0] += normal(seed + 2, (2, 5))
    function = functools.partial(getattr(layers, kind), **KINDS[kind])
    assert np.array_equal(function(x)[1], function(changed)[1]) == (kind != "batch_norm")
    assert np.array_equal(function(x)[:, 1], function(channel)[:, 1]) == (kind != "group_norm")
    assert_same_bits(function(x)[:, 2:], function(channel)[:, 2:])


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
