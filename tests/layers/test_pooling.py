"""Pooling and upsampling: against index loops and PyTorch, by hand, at ties, and as each other's transpose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.layers.pooling import average_pool, max_pool, upsample
from refnp.verify import bounds
from refnp.verify.layers import pooling as equations
from tests.helpers import REAL, assert_same_bits, assert_within, laid_out, layouts, normal, scales, seeds
from tests.transcriptions import convolution as transcriptions


def draw(seed, dimensions):
    """A shape, and options: windows of every size, stride and padding that fit."""
    rng = np.random.default_rng(seed)
    size, stride = (tuple(map(int, rng.integers(1, 4, dimensions))) for _ in range(2))
    widths = [(int(rng.integers(0, k)), int(rng.integers(0, k))) for k in size]
    lengths = [max(1, k - sum(w)) + int(rng.integers(0, 5)) for k, w in zip(size, widths, strict=True)]
    return (int(rng.integers(0, 3)), int(rng.integers(1, 3)), *lengths), size, {"stride": stride, "padding": widths}


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), scales, layouts)
def test_average(seed, dimensions, dtype, scale, layout):
    shape, size, options = draw(seed, dimensions)
    x = laid_out(normal(seed, shape, dtype, scale), layout)
    y, pullback = vjp(lambda a: average_pool(a, size, **options), x)
    y_bar = laid_out(normal([seed, 1], y.shape, dtype), layout)
    right = transcriptions.pool(x, y_bar, size=size, stride=options["stride"], widths=options["padding"], largest=False)
    limits = bounds.of(equations.average_pool, (x,), y_bar, size=size, **options)
    for value, exact, limit in zip((y, pullback(y_bar)[0]), right, limits, strict=True):
        assert value.dtype == dtype
        assert_within(value, exact, limit)


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), layouts, st.booleans())
def test_maximum(seed, dimensions, dtype, layout, ties):
    shape, size, options = draw(seed, dimensions)
    x = normal(seed, shape, dtype)
    x = laid_out(np.round(x) if ties else x, layout)
    y, pullback = vjp(lambda a: max_pool(a, size, **options), x)
    y_bar = laid_out(np.random.default_rng(seed).integers(-9, 9, y.shape).astype(dtype), layout)
    right = transcriptions.pool(x, y_bar, size=size, stride=options["stride"], widths=options["padding"], largest=True)
    for value, exact in zip((y, pullback(y_bar)[0]), right, strict=True):
        assert value.dtype == dtype
        assert np.array_equal(value, exact)  # nothing is rounded: a choice, and sums of small integers


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(("size", "stride", "padding"), [(2, None, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_as_pytorch(dimensions, size, stride, padding):
    functional = pytest.importorskip("torch.nn.functional")
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).integers(-3, 4, (2, 3, 7, 6, 5)[: dimensions + 2]).astype(float)  # with ties
    for mine, name in ((average_pool, "avg_pool"), (max_pool, "max_pool")):
        y, pullback = vjp(lambda a, f=mine: f(a, size, stride=stride, padding=padding), x)
        y_bar, leaf = normal(2, y.shape), torch.tensor(x, requires_grad=True)
        theirs = getattr(functional, f"{name}{dimensions}d")(leaf, size, stride=stride, padding=padding)
        theirs.backward(torch.tensor(y_bar))
        (limit,) = bounds.of(equations.average_pool, (x,), size=size, stride=stride, padding=padding)
        assert_within(y, theirs.detach().numpy(), limit)
        magnitude = pullback(np.abs(y_bar))[0]
        assert_within(pullback(y_bar)[0], leaf.grad.numpy(), 2 * (size**dimensions + 1) * 2.0**-53 * magnitude)


def test_by_hand():
    x = np.array([[[1.0, 5.0, 5.0, 2.0, 0.0]]])
    assert average_pool(x, 2).tolist() == [[[3, 3.5]]]
    assert average_pool(x, 2, padding=1).tolist() == [[[0.5, 5, 1]]]  # the zeros count
    assert max_pool(-x, 3, stride=1, padding=1).tolist() == [[[-1, -1, -2, 0, 0]]]  # padding is never the largest
    assert upsample(x[..., :2], 3).tolist() == [[[1, 1, 1, 5, 5, 5]]]


def test_at_a_tie_the_first_has_the_gradient():
    x = np.zeros((1, 1, 2, 2))
    assert vjp(lambda a: max_pool(a, 2), x)[1](np.ones((1, 1, 1, 1)))[0].tolist() == [[[[1, 0], [0, 0]]]]
    assert max_pool(np.array([[[1 + 2j, 1 + 3j]]]), 2).tolist() == [[[1 + 2j]]]  # complex: equal real parts


def test_nan_is_passed_on_by_the_maximum():
    assert np.isnan(max_pool(np.array([[[1.0, np.nan, 2.0, 3.0]]]), 2)).tolist() == [[[True, False]]]


@given(seeds, st.integers(1, 3), layouts)
def test_upsampling_is_the_transpose_of_average_pooling_but_for_the_mean(seed, dimensions, layout):
    rng = np.random.default_rng(seed)
    shape, factor = (2, 1, *rng.integers(1, 4, dimensions)), tuple(map(int, rng.integers(1, 4, dimensions)))
    x = laid_out(rng.integers(-99, 99, shape).astype(float) * np.prod(factor), layout)
    y, pullback = vjp(lambda a: upsample(a, factor), x)
    assert_same_bits(average_pool(y, factor), x)
    other, pool_pullback = vjp(lambda a: average_pool(a, factor), y)
    assert_same_bits(pool_pullback(other * np.prod(factor))[0], y)
    assert_same_bits(pullback(y)[0], x * np.prod(factor))


@pytest.mark.parametrize("pool", [average_pool, max_pool])
def test_no_samples_and_whole_numbers(pool):
    y, pullback = vjp(lambda a: pool(a, 2), np.zeros((0, 3, 4)))
    assert y.shape == (0, 3, 2)
    assert pullback(y)[0].shape == (0, 3, 4)
    assert pool(np.arange(4).reshape(1, 1, 4), 2).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average_pool(np.ones((2, 3)), 2), r"average_pool: x has shape \(2, 3\); it must be \(B, C, \*space\)"),
        (lambda: max_pool(np.ones((1, 1, 4)), 5), r"max_pool: the kernel \(5,\) .* reaches over 5 places, but x has"),
        (lambda: max_pool(np.ones((1, 1, 4)), 2, padding=2), "max_pool: padding 2 makes windows .* of nothing but"),
        (lambda: max_pool(np.ones((1, 1, 4)), (2, 2)), r"max_pool: size is \(2, 2\); .* one for each of 1 axes"),
        (lambda: average_pool(np.ones((1, 1, 4)), 2, stride=0), "average_pool: stride is 0; pass a whole number ≥ 1"),
        (lambda: average_pool(np.ones((1, 1, 4)), 2, padding=-1), "average_pool: padding is -1; pass a whole number"),
        (lambda: upsample(np.ones((1, 1, 4)), 0), "upsample: factor is 0; pass a whole number ≥ 1"),
        (lambda: upsample(np.ones(4), 2), r"upsample: x has shape \(4,\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
