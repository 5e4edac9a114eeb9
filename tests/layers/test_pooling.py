"""Pooling: against index loops and PyTorch, by hand, at ties, and as the transpose of upsampling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import Tensor, vjp
from refnp.layers.pooling import adaptive_average_pool, adaptive_max_pool, average_pool, max_pool
from refnp.verify import bounds
from refnp.verify.layers import pooling as equations
from tests.helpers import REAL, assert_same_bits, assert_within, laid_out, layouts, normal, scales, seeds
from tests.transcriptions import convolution as transcriptions

EQUATIONS = {
    layer.function: layer.equation
    for layer in (equations.AVERAGE, equations.MAXIMUM, equations.ADAPTIVE_AVERAGE, equations.ADAPTIVE_MAXIMUM)
}


def draw(seed, dimensions):
    """A shape, and options: windows of every size, stride and padding that fit, with ⌊…⌋ and with ⌈…⌉."""
    rng = np.random.default_rng(seed)
    size, stride = (tuple(map(int, rng.integers(1, 4, dimensions))) for _ in range(2))
    widths = [(int(rng.integers(0, k)), int(rng.integers(0, k))) for k in size]
    lengths = [max(1, k - sum(w)) + int(rng.integers(0, 5)) for k, w in zip(size, widths, strict=True)]
    options = {"stride": stride, "padding": widths, "ceil_mode": bool(rng.integers(2))}
    return (int(rng.integers(0, 3)), int(rng.integers(1, 3)), *lengths), size, options


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), scales, layouts)
def test_average(seed, dimensions, dtype, scale, layout):
    shape, size, options = draw(seed, dimensions)
    options["count_include_pad"] = counted = seed % 2 == 0
    x = laid_out(normal(seed, shape, dtype, scale), layout)
    y, pullback = vjp(lambda a: average_pool(a, size, **options), x)
    y_bar = laid_out(normal([seed, 1], y.shape, dtype), layout)
    places = {"stride": options["stride"], "widths": options["padding"], "ceil": options["ceil_mode"]}
    right = transcriptions.pool(x, y_bar, size=size, largest=False, counted=counted, **places)
    limits = bounds.of(equations.AVERAGE.equation, (x,), y_bar, size=size, **options)
    for value, exact, limit in zip((y, pullback(y_bar)[0]), right, limits, strict=True):
        assert value.dtype == dtype
        assert_within(value, exact, limit)


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), layouts, st.booleans(), st.integers(1, 3))
def test_maximum(seed, dimensions, dtype, layout, ties, dilation):
    shape, size, options = draw(seed, dimensions)
    places = {"stride": options["stride"], "widths": options["padding"], "ceil": options["ceil_mode"]}
    if dilation > 1:  # windows that hold a place of x whatever the padding
        options |= {"dilation": dilation, "padding": 0}
        places |= {"dilation": (dilation,) * dimensions, "widths": [(0, 0)] * dimensions}
        shape = (*shape[:2], *(n + dilation * k for n, k in zip(shape[2:], size, strict=True)))
    x = normal(seed, shape, dtype)
    x = laid_out(np.round(x) if ties else x, layout)
    y, pullback = vjp(lambda a: max_pool(a, size, **options), x)
    y_bar = laid_out(np.random.default_rng(seed).integers(-9, 9, y.shape).astype(dtype), layout)
    *right, indices = transcriptions.pool(x, y_bar, size=size, largest=True, **places)
    for value, exact in zip((y, pullback(y_bar)[0]), right, strict=True):
        assert value.dtype == dtype
        assert np.array_equal(value, exact)  # nothing is rounded: a choice, and sums of small integers
    also, found = max_pool(x, size, **options, return_indices=True)
    assert_same_bits(also, y)
    assert {place: found[place] for place in np.ndindex(*found.shape)} == indices
    assert found.dtype == np.int64


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), scales, layouts)
def test_adaptive_average(seed, dimensions, dtype, scale, layout):
    rng = np.random.default_rng(seed)
    shape, size = (2, 1, *rng.integers(1, 7, dimensions)), tuple(map(int, rng.integers(1, 8, dimensions)))
    x = laid_out(normal(seed, shape, dtype, scale), layout)
    y, pullback = vjp(lambda a: adaptive_average_pool(a, size), x)
    y_bar = laid_out(normal([seed, 1], y.shape, dtype), layout)
    right = transcriptions.adaptive_pool(x, y_bar, size=size, largest=False)[:2]
    limits = bounds.of(equations.ADAPTIVE_AVERAGE.equation, (x,), y_bar, size=size)
    for value, exact, limit in zip((y, pullback(y_bar)[0]), right, limits, strict=True):
        assert value.dtype == dtype
        assert_within(value, exact, limit)
    assert_same_bits(adaptive_average_pool(laid_out(x, "C"), size), y)


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), layouts, st.booleans())
def test_adaptive_maximum(seed, dimensions, dtype, layout, ties):
    rng = np.random.default_rng(seed)
    shape, size = (2, 1, *rng.integers(1, 7, dimensions)), tuple(map(int, rng.integers(1, 8, dimensions)))
    x = normal(seed, shape, dtype)
    x = laid_out(np.round(x) if ties else x, layout)
    y, pullback = vjp(lambda a: adaptive_max_pool(a, size), x)
    y_bar = laid_out(rng.integers(-9, 9, y.shape).astype(dtype), layout)
    *right, indices = transcriptions.adaptive_pool(x, y_bar, size=size, largest=True)
    for value, exact in zip((y, pullback(y_bar)[0]), right, strict=True):
        assert value.dtype == dtype
        assert np.array_equal(value, exact)
    also, found = adaptive_max_pool(x, size, return_indices=True)
    assert_same_bits(also, y)
    assert {place: found[place] for place in np.ndindex(*found.shape)} == indices


def with_options(rng, dimensions):
    """A shape of integers with many ties, and options within PyTorch's limits."""
    size, stride, dilation = (tuple(map(int, rng.integers(1, 4, dimensions))) for _ in range(3))
    padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in size)
    lengths = [d * (k - 1) + 1 + int(rng.integers(0, 5)) for k, d in zip(size, dilation, strict=True)]
    batch = [2] if rng.integers(2) else []
    x = rng.integers(-3, 4, (*batch, 2, *lengths)).astype(float)
    return x, size, {"stride": stride, "padding": padding, "ceil_mode": bool(rng.integers(2))}, dilation


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_option_as_pytorch(dimensions):
    """Values, gradients and indices; with and without a batch, with ties, in ceil mode, dilated, adaptive."""
    functional = pytest.importorskip("torch.nn.functional")
    torch = pytest.importorskip("torch")
    for seed in range(25):
        rng = np.random.default_rng(seed)
        x, size, options, dilation = with_options(rng, dimensions)
        counted = bool(rng.integers(2))
        wanted = tuple(map(int, rng.integers(1, 8, dimensions)))
        pairs = [
            (average_pool, "avg", (size,), options | {"count_include_pad": counted}),
            (max_pool, "max", (size,), options | {"dilation": dilation}),
            (adaptive_average_pool, "adaptive_avg", (wanted,), {}),
            (adaptive_max_pool, "adaptive_max", (wanted,), {}),
        ]
        for mine, name, place, given_options in pairs:
            theirs = getattr(functional, f"{name}_pool{dimensions}d")
            y, pullback = vjp(lambda a, f=mine, p=place, o=given_options: f(a, *p, **o), x)
            leaf = torch.tensor(x, requires_grad=True)
            result = theirs(leaf, *place, **given_options)
            y_bar = rng.integers(-3, 4, y.shape).astype(float)
            result.backward(torch.tensor(y_bar))
            batched = x if x.ndim == dimensions + 2 else x[None]
            cotangent = y_bar if x.ndim == dimensions + 2 else y_bar[None]
            equation = EQUATIONS[mine]
            limits = bounds.of(equation, (batched,), cotangent, size=place[0], **given_options)
            for value, other, limit in zip((y, pullback(y_bar)[0]), (result.detach(), leaf.grad), limits, strict=True):
                assert_within(value, other.numpy(), limit.reshape(value.shape))
            if "max" in name:
                _, found = mine(x, *place, **given_options, return_indices=True)
                assert np.array_equal(found, theirs(leaf, *place, **given_options, return_indices=True)[1].numpy())


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
        (limit,) = bounds.of(equations.AVERAGE.equation, (x,), size=size, stride=stride, padding=padding)
        assert_within(y, theirs.detach().numpy(), limit)
        magnitude = pullback(np.abs(y_bar))[0]
        assert_within(pullback(y_bar)[0], leaf.grad.numpy(), 2 * (size**dimensions + 1) * 2.0**-53 * magnitude)


def test_by_hand():
    x = np.array([[[1.0, 5.0, 5.0, 2.0, 0.0]]])
    assert average_pool(x, 2).tolist() == [[[3, 3.5]]]
    assert average_pool(x, 2, padding=1).tolist() == [[[0.5, 5, 1]]]  # the zeros count
    assert max_pool(-x, 3, stride=1, padding=1).tolist() == [[[-1, -1, -2, 0, 0]]]  # padding is never the largest


def test_at_a_tie_the_first_has_the_gradient():
    x = np.zeros((1, 1, 2, 2))
    assert vjp(lambda a: max_pool(a, 2), x)[1](np.ones((1, 1, 1, 1)))[0].tolist() == [[[[1, 0], [0, 0]]]]
    assert max_pool(np.array([[[1 + 3j, 2 + 1j]]]), 2).tolist() == [[[2 + 1j]]]  # complex: the largest real part


@pytest.mark.parametrize("pool", [max_pool, adaptive_max_pool])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_nan_is_passed_on_by_the_maximum_and_its_gradient_goes_to_the_first(pool, dtype):
    x = np.array([[[1.0, np.nan, np.nan, 2.0, 3.0, 2.0]]], dtype)
    y, indices = pool(x, 3 if pool is max_pool else 2, return_indices=True)
    assert np.isnan(y).tolist() == [[[True, False]]]
    assert indices.tolist() == [[[1, 4]]]
    _, pullback = vjp(lambda a: pool(a, 3 if pool is max_pool else 2), x)
    assert pullback(np.ones((1, 1, 2), dtype))[0].tolist() == [[[0, 1, 0, 0, 1, 0]]]


def test_where_all_is_minus_infinity_padding_is_not_the_largest():
    x = np.full((1, 1, 3), -np.inf)
    y, indices = max_pool(x, 2, padding=1, return_indices=True)
    assert y.tolist() == [[[-np.inf, -np.inf]]]
    assert indices.tolist() == [[[0, 1]]]
    assert vjp(lambda a: max_pool(a, 2, padding=1), x)[1](np.ones((1, 1, 2)))[0].tolist() == [[[1, 1, 0]]]


def test_ceil_mode_by_hand():
    """A last window that is cut off; none that starts in the padding after x."""
    x = np.arange(1.0, 6.0).reshape(1, 1, 5)
    assert max_pool(x, 2, ceil_mode=True).tolist() == [[[2, 4, 5]]]
    assert average_pool(x, 2, ceil_mode=True).tolist() == [[[1.5, 3.5, 5]]]
    assert average_pool(x, 4, stride=3, padding=1, ceil_mode=True).tolist() == [[[6 / 4, 12 / 4]]]
    assert average_pool(x[..., :4], 2, stride=2, padding=1, ceil_mode=True).shape == (1, 1, 3)
    assert average_pool(x, 3, stride=2, padding=1, count_include_pad=False).tolist() == [[[1.5, 3, 4.5]]]


@pytest.mark.parametrize("dtype", [*REAL, np.complex128])
def test_without_a_batch(dtype):
    """(C, *lengths) with a tuple for the size: what the batch of one gives, gradients too."""
    x = normal(0, (2, 5, 6), dtype)
    for pool in (average_pool, max_pool, adaptive_average_pool, adaptive_max_pool):
        y, pullback = vjp(lambda a, f=pool: f(a, (2, 3)), x)
        batched, batched_pullback = vjp(lambda a, f=pool: f(a, (2, 3)), x[None])
        assert_same_bits(y, batched[0])
        assert_same_bits(pullback(y)[0], batched_pullback(batched)[0][0])
    assert max_pool(x, (2, 3), return_indices=True)[1].shape == (2, 2, 2)


def test_tensors_keep_their_tape_and_indices_have_none():
    x = Tensor(normal(0, (1, 2, 7)), requires_grad=True)
    for pool in (max_pool, adaptive_max_pool):
        y, indices = pool(x, 3, return_indices=True)
        assert isinstance(y, Tensor)
        assert type(indices) is np.ndarray
        taken = np.take_along_axis(x.data, indices, -1)
        assert_same_bits(y.data, taken)


def test_a_length_is_kept_by_none():
    x = normal(0, (2, 3, 4, 5))
    assert adaptive_average_pool(x, (None, 2)).shape == (2, 3, 4, 2)
    assert_same_bits(adaptive_max_pool(x, (None, None)), x)
    assert_same_bits(adaptive_average_pool(x, [4, None]), x)


@pytest.mark.parametrize("pool", [adaptive_average_pool, adaptive_max_pool])
def test_no_windows_and_no_samples(pool):
    for shape, size in (((2, 1, 4), 0), ((2, 1, 0), 0), ((0, 3, 4), 2), ((2, 0, 4), 2)):
        y, pullback = vjp(lambda a, s=size: pool(a, s), np.zeros(shape))
        assert y.shape == (*shape[:2], size)
        assert_same_bits(pullback(y)[0], np.zeros(shape))
        assert pool(np.zeros(shape, np.float32), size).dtype == np.float32
    assert pool(np.arange(4).reshape(1, 1, 4), 2).dtype == np.float64


@pytest.mark.parametrize("pool", [average_pool, max_pool])
def test_no_samples_and_whole_numbers(pool):
    y, pullback = vjp(lambda a: pool(a, 2), np.zeros((0, 3, 4)))
    assert y.shape == (0, 3, 2)
    assert pullback(y)[0].shape == (0, 3, 4)
    assert pool(np.arange(4).reshape(1, 1, 4), 2).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average_pool(np.ones((2, 3)), 2), r"x has shape \(2, 3\); .* or \(C, \*L\), and size is 2"),
        (lambda: max_pool(np.ones((1, 1, 4)), (2, 2, 2)), r"x has shape \(1, 1, 4\); .* and size is \(2, 2, 2\); make"),
        (lambda: max_pool(np.ones((1, 1, 1)), 2, stride=1, padding=1, dilation=2),
         "max_pool: a window of size 2 with dilation 2 reads nothing but padding on an axis of length 1; pad less"),
        (lambda: max_pool(np.ones((1, 1, 0)), 2, padding=1), r"max_pool: x has shape \(1, 1, 0\); its axis L must not"),
        (lambda: max_pool(np.ones((1, 1, 1)), 4, stride=2, ceil_mode=True),
         r"max_pool: size \(4,\) with dilation \(1,\) reaches over 4 .* and stride \(2,\) lets ceil_mode add fewer"),
        (lambda: adaptive_max_pool(np.ones((1, 1, 0)), 2), r"adaptive_max_pool: x has lengths \(0,\); an axis"),
        (lambda: adaptive_average_pool(np.ones(4), 2), r"x has shape \(4,\); it must be .*, and size is 2"),
        (lambda: max_pool(np.ones((1, 1, 4)), 5), r"max_pool: size \(5,\) .* reaches over 5 places, but x has"),
        (lambda: max_pool(np.ones((1, 1, 4)), 2, padding=2), r"padding \(\(2, 2\),\) makes windows .* of nothing but"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
