"""How the work of a convolution is done: in pieces, on several threads, only what is needed, in the dtype given."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.kernels import convolution as convolutions
from refnp.kernels import convolution_products
from refnp.kernels.convolution_products import even, phases, pieces_of, read
from refnp.layers.convolution import convolution, convolution_transpose
from refnp.numbers.windows import Axis
from refnp.verify import bounds
from refnp.verify.layers import convolution as equations
from tests.helpers import assert_within, normal, seeds
from tests.transcriptions.convolution import reads

CALLS = [(convolution, {"padding": 2}), (convolution_transpose, {"stride": 2, "padding": 2, "output_padding": 1})]


def everything(function, arrays, options):
    """Value and all gradients."""
    y, pullback = vjp(lambda *a: function(*a, **options), *arrays)
    return (y, *pullback(normal(9, y.shape, y.dtype)))


@pytest.mark.parametrize("block", [1, 500, 2000])
@pytest.mark.parametrize(("function", "options"), CALLS)
def test_pieces_of_any_size_give_the_same_within_the_bound(function, options, block, monkeypatch):
    arrays = [normal(i, shape) for i, shape in enumerate(((5, 4, 7, 6), (4, 4, 5, 5), (4,)))]
    whole = everything(function, arrays, options)
    equation = equations.CONVOLUTION.equation if function is convolution else equations.TRANSPOSED.equation
    limits = bounds.of(equation, arrays, normal(9, whole[0].shape), **options)
    monkeypatch.setattr(convolution_products, "COLUMN_BYTES", block)
    for value, right, limit in zip(everything(function, arrays, options), whole, limits, strict=True):
        assert_within(value, right, limit)


IN_CHUNKS = [  # shapes of x and of the weight, options
    ((3, 40, 700), (6, 40, 5), {"padding": 2}),
    ((3, 40, 700), (6, 20, 4), {"padding": [(3, 0)], "groups": 2, "dilation": 3}),
    ((2, 3, 701), (5, 3, 5), {"stride": 2, "padding": 1}),
    ((2, 12, 20, 23), (5, 12, 3, 4), {"padding": [(1, 1), (0, 2)], "dilation": (2, 1)}),
    ((2, 4, 9, 8, 7), (6, 4, 3, 3, 2), {"padding": 1}),
]


@pytest.mark.parametrize(("dtype", "block"), [(np.float32, 50_000), (np.float64, None)])
@pytest.mark.parametrize(("shape", "weight_shape", "options"), IN_CHUNKS)
@pytest.mark.parametrize("function", [convolution, convolution_transpose])
def test_products_by_tap_are_the_plain_ones_within_the_bound(
    function, shape, weight_shape, options, dtype, block, monkeypatch
):
    if function is convolution_transpose:
        weight_shape = shape[1], weight_shape[0], *weight_shape[2:]
        options = options | {"padding": 1}
    bias_length = weight_shape[1] * options.get("groups", 1) if function is convolution_transpose else weight_shape[0]
    arrays = [normal(i, s, dtype) for i, s in enumerate((shape, weight_shape, (bias_length,)))]
    monkeypatch.setattr(convolution_products, "MANY", math.inf)
    plain = everything(function, arrays, options)
    equation = equations.CONVOLUTION.equation if function is convolution else equations.TRANSPOSED.equation
    limits = bounds.of(equation, arrays, normal(9, plain[0].shape, dtype), **options)
    calls = []
    for name in ("correlate_by_tap", "add_weight_products_by_tap"):
        kept = getattr(convolution_products, name)
        monkeypatch.setattr(convolution_products, name, lambda *a, f=kept: (calls.append(f), f(*a))[1])
    monkeypatch.setattr(convolution_products, "MANY", 1)
    if block:
        monkeypatch.setattr(convolution_products, "COLUMN_BYTES", block)
    for value, right, limit in zip(everything(function, arrays, options), plain, limits, strict=True):
        assert value.dtype == dtype
        assert_within(value, right, 2 * limit)  # each of the two is within the bound of what is true
    assert len(set(calls)) == (1 if options.get("stride", 1) == 2 else 2)


@given(st.integers(0, 20), st.integers(0, 9), seeds)
def test_pieces_cover_everything_once(batch, most, seed):
    axes = tuple(Axis(int(n), int(n), 1) for n in np.random.default_rng(seed).integers(1, 9, 2))
    windows_per_place = np.zeros((batch, math.prod(axis.positions for axis in axes)), int)
    for samples, rows, places in pieces_of(batch, convolution_products.COLUMN_BYTES // max(1, most), axes):
        assert places == slice(rows.start * axes[1].positions, rows.stop * axes[1].positions)
        windows_per_place[samples, places] += 1
    assert (windows_per_place == 1).all()
    assert max((s.stop - s.start for s in even(batch, most)), default=0) <= max(1, most)


@given(
    st.integers(1, 7), st.integers(1, 5), st.integers(1, 4), st.integers(1, 5), st.integers(-2, 5), st.integers(0, 9)
)
def test_the_phases_of_an_axis_are_its_way_back(positions, kernel, stride, dilation, before, more):
    """Every (window, tap) that reads place i is found once among the plain walks over y, and nothing else is."""
    length = max(1, (positions - 1) * stride + (kernel - 1) * dilation + 1 - before - 3) + more
    axis = Axis(length, positions, kernel, stride, dilation, before)
    back = []
    for places, taps, walk in phases(axis):
        targets, those = range(length)[places], range(kernel)[taps]
        assert (len(targets), len(those)) == (walk.positions, walk.kernel)
        for (q,), (j,), (p,) in reads(
            (positions,), (walk.positions,), (walk.kernel,), (1,), (walk.dilation,), (walk.before,)
        ):
            back.append((p, those[j], targets[q]))
    there = [
        (p, t, i) for (p,), (t,), (i,) in reads((length,), (positions,), (kernel,), (stride,), (dilation,), (before,))
    ]
    assert sorted(back) == sorted(there)


@given(st.integers(0, 6), st.integers(-4, 9), st.integers(0, 9))
def test_what_is_read_outside_is_filled(n, start, length):
    x = np.arange(1.0, n + 1)[None]
    right = [x[0, i] if 0 <= i < n else -7.0 for i in range(start, start + length)]
    assert read(x, (start,), (length,), -7.0).tolist() == [right]


# ---- types, and what is not asked for


@pytest.mark.parametrize("dtype", [np.complex128, np.clongdouble])
@pytest.mark.parametrize(("function", "options"), CALLS)
def test_complex_numbers_are_pairs_of_real_ones(function, options, dtype):
    """Without conjugates: (a + ib) ∗ (c + id) = a ∗ c − b ∗ d + i (a ∗ d + b ∗ c), exactly for small integers."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 9, (2, 2, 4, 6)).astype(float)
    c, d = rng.integers(-9, 9, (2, 4, 4, 5)).astype(float)
    f = lambda x, w: function(x, w, **options)
    assert np.array_equal(f((a + 1j * b).astype(dtype), c + 1j * d), f(a, c) - f(b, d) + 1j * (f(a, d) + f(b, c)))


@pytest.mark.parametrize(("function", "options"), CALLS)
def test_only_gradients_that_are_needed_are_computed(function, options, monkeypatch):
    x, weight = normal(1, (2, 4, 6)), normal(2, (4, 4, 5))
    backward = vjp(lambda w: function(x, w, **options), weight)[1]
    unused = "correlate_transposed" if function is convolution else "correlate"
    y = function(x, weight, **options)
    monkeypatch.setattr(convolutions, unused, lambda *a: pytest.fail("the gradient of a constant was computed"))
    assert backward(y)[0].shape == weight.shape
    backward = None if function is convolution_transpose else vjp(lambda a: function(a, weight, **options), x)[1]
    if backward:
        monkeypatch.undo()
        monkeypatch.setattr(
            convolutions, "weight_products", lambda *a: pytest.fail("the gradient of a constant was computed")
        )
        assert backward(y)[0].shape == x.shape
