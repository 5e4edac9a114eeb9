"""BatchNorm, InstanceNorm, GroupNorm: what is taken together, running statistics, and what is refused."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp import layers
from refnp.layers.module import on_tape
from refnp.numbers.rounding import tolerance
from refnp.verify.layers import normalization as equations
from tests.helpers import assert_same_bits, assert_within, check, laid_out, layouts, normal, real_dtypes, scales, seeds
from tests.layers.judges import assert_as_derived
from tests.transcriptions import rows as printed

KINDS = {"group_norm": {"groups": 2}, "instance_norm": {}, "batch_norm": {}}
every_kind = pytest.mark.parametrize("kind", KINDS)
spatial = st.lists(st.integers(1, 4), max_size=2).map(tuple)


@every_kind
@given(st.integers(1, 3), spatial, real_dtypes, scales, st.sampled_from([0.0, 30.0]), layouts, seeds)
def test_value_and_gradients(kind, items, lengths, dtype, scale, mean, layout, seed):
    """Against the transcription, and against running error analysis."""
    lengths = lengths or ((2,) if kind == "instance_norm" else ())
    x = laid_out(normal(seed, (items, 4, *lengths), dtype, scale) + dtype(mean), layout)
    gain, shift = normal(seed + 1, (2, 4), dtype)
    function, equation = getattr(layers, kind), getattr(equations, kind.upper()).equation
    options = KINDS[kind] | {"eps": 1e-5}
    y, rounded = assert_as_derived(
        functools.partial(function, **options), functools.partial(equation, **options), [x, gain, shift]
    )
    assert_within(y, getattr(printed, kind)(x, gain, shift, **options), tolerance(rounded, dtype))
    assert_same_bits(function(laid_out(x, "C"), gain, shift, **options), y)


@every_kind
@pytest.mark.parametrize("order", [1, 2])
def test_gradients_by_complex_step(kind, order):
    x, (gain, shift) = normal(0, (2, 4, 3)), normal(1, (2, 4))
    check(functools.partial(getattr(layers, kind), **KINDS[kind]), (x, gain, shift), order=order)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_of_given_statistics_by_complex_step(order):
    x, (gain, shift, mean) = normal(0, (2, 4, 3)), normal(1, (3, 4))
    check(
        lambda x, gain, shift, mean, variance: layers.batch_norm(x, gain, shift, mean=mean, variance=variance),
        (x, gain, shift, mean, np.exp(mean)),
        order=order,
    )


@given(real_dtypes, layouts, seeds)
def test_given_statistics_are_its_equation(dtype, layout, seed):
    x = laid_out(normal(seed, (3, 4, 2), dtype), layout)
    gain, shift, mean = normal(seed + 1, (3, 4), dtype)
    function = lambda x, gain, shift, mean, variance: layers.batch_norm(x, gain, shift, mean=mean, variance=variance)
    assert_as_derived(function, equations.WITH_STATISTICS.equation, [x, gain, shift, mean, np.exp(mean)])


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


@every_kind
def test_dtypes_empty_batches_and_tensors(kind):
    function = functools.partial(getattr(layers, kind), **KINDS[kind])
    for dtype in (np.float32, np.float64, np.longdouble, np.complex128):
        assert function(normal(0, (2, 4, 3), dtype)).dtype == dtype
    assert isinstance(function(ad.Tensor(normal(0, (2, 4, 3)))), ad.Tensor)
    if kind != "batch_norm":
        y, pullback = ad.vjp(function, np.zeros((0, 4, 3)))
        assert y.shape == pullback(y)[0].shape == (0, 4, 3)


def test_running_statistics_are_those_of_torch():
    torch = pytest.importorskip("torch")
    ours, theirs = layers.BatchNorm(3, momentum=0.3), torch.nn.BatchNorm1d(3, momentum=0.3).double()
    for seed in range(4):
        x = normal(seed, (5, 3, 4), scale=2.0) + seed
        ours(ad.Tensor(x), training=True)
        theirs(torch.tensor(x))
    assert np.abs(ours.running_mean.data - theirs.running_mean.numpy()).max() <= 1e-14
    assert np.abs(ours.running_variance.data - theirs.running_var.numpy()).max() <= 1e-14
    theirs.eval()
    assert np.abs(ours(x) - theirs(torch.tensor(x)).detach().numpy()).max() <= 1e-14


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
        (lambda: layers.batch_norm(np.zeros((2, 4)), mean=0.0), ValueError, "variance is missing"),
        (lambda: layers.batch_norm(np.zeros((2, 4)), mean=0.0, variance=-1.0), ValueError, "variance holds -1.0"),
        (lambda: layers.batch_norm(np.zeros((0, 4))), ValueError, "axis"),
        (lambda: layers.GroupNorm(4, 3), ValueError, "GroupNorm: channels is 4; it must be a multiple of groups, 3"),
        (lambda: layers.BatchNorm(4)(np.zeros((1, 4)), training=True), ValueError, "needs two numbers or more"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
