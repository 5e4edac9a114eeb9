"""Convolution and its transpose: by hand, one as the gradient of the other, what shifts do to them."""

import functools
import unittest.mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.kernels import blocks
from refnp.layers.convolution import Convolution, ConvolutionTranspose, convolution, convolution_transpose
from refnp.verify import bounds
from refnp.verify.layers import convolution as equations
from refnp.verify.layers import pooling as pooling
from tests.helpers import (
    assert_same_bits,
    assert_within,
    normal,
    seeds,
)

DIMENSIONS = st.integers(1, 3)


def draw_convolution(seed, dimensions, mode="zeros"):
    """Shapes of x and weight, and options: small, with every stride, dilation, padding and number of groups."""
    rng = np.random.default_rng(seed)
    stride, dilation = (tuple(map(int, rng.integers(1, 4, dimensions))) for _ in range(2))
    kernel = tuple(map(int, rng.integers(1, 5 - dimensions // 2, dimensions)))
    widths = [tuple(map(int, rng.integers(0, 4, 2))) for _ in kernel]
    reach = [d * (k - 1) + 1 - sum(w) for d, k, w in zip(dilation, kernel, widths, strict=True)]
    least = {"zeros": 0, "circular": 3, "reflect": 4}.get(mode, 1)
    lengths = tuple(max(least, r) + int(rng.integers(0, 4 - dimensions // 2)) for r in reach)
    batch, groups, ins, outs = (int(rng.integers(*ends)) for ends in ((0, 3), (1, 3), (1, 3), (1, 3)))
    options = {"stride": stride, "dilation": dilation, "groups": groups, "padding": widths, "padding_mode": mode}
    return (batch, groups * ins, *lengths), (groups * outs, ins, *kernel), options


def draw_transpose(seed, dimensions):
    """Likewise for the transposed convolution: x has the places of windows, and y what padding leaves."""
    shape, (rows, others, *kernel), options = draw_convolution(seed, dimensions)
    rng, pairs = np.random.default_rng([seed, 1]), list(zip(options["stride"], options["dilation"], strict=True))
    del options["padding_mode"]
    options["padding"] = [(int(rng.integers(0, 2)), int(rng.integers(0, 2))) for _ in kernel]
    places = tuple(int(rng.integers(3, 5)) for _ in kernel)
    options["output_padding"] = tuple(int(rng.integers(0, max(pair))) for pair in pairs)
    return (shape[0], rows, *places), (rows, others, *kernel), options


def test_by_hand():
    x, w = np.array([[[1.0, 2.0, 3.0]]]), np.array([[[10.0, 1.0]]])
    assert convolution(x, w).tolist() == [[[12, 23]]]  # not turned round: 10·1 + 1·2
    assert convolution(x, w, [0.5], padding=[(1, 0)]).tolist() == [[[1.5, 12.5, 23.5]]]
    assert convolution_transpose(x, w, stride=2).tolist() == [[[10, 1, 20, 2, 30, 3]]]


# ---- one is the gradient of the other


@given(seeds, DIMENSIONS)
def test_the_transpose_is_the_gradient_of_the_convolution(seed, dimensions):
    x_shape, weight_shape, options = draw_transpose(seed, dimensions)
    x, weight = normal(1, x_shape), normal(2, weight_shape)
    longer = convolution_transpose(x, weight, **options)
    plain = {name: value for name, value in options.items() if name != "output_padding"}
    short, pullback = vjp(lambda a: convolution(a, weight, **plain), normal(3, longer.shape))
    if short.shape == x.shape:  # an output_padding beyond the stride makes room for another window
        assert_same_bits(longer, pullback(x)[0])
        turned = vjp(lambda a: convolution_transpose(a, weight, **options), x)[1](normal(3, longer.shape))[0]
        assert_same_bits(turned, short)


# ---- what shifts do


def test_on_a_ring_convolution_commutes_with_every_shift():
    x, weight, bias = normal(1, (2, 3, 12)), normal(2, (4, 3, 5)), normal(3, (4,))
    f = functools.partial(convolution, padding=2, padding_mode="circular")
    y = f(x, weight, bias)
    (limit,) = bounds.of(equations.CONVOLUTION.equation, (x, weight, bias), padding=2, padding_mode="circular")
    for shift in range(-12, 12):
        assert_within(f(np.roll(x, shift, -1), weight, bias), np.roll(y, shift, -1), np.roll(limit, shift, -1))


def test_a_stride_commutes_with_its_multiples_only():
    x, weight = normal(1, (1, 1, 12)), normal(2, (1, 1, 3))
    f = functools.partial(convolution, weight=weight, stride=3, padding=1, padding_mode="circular")
    y, worst = f(x), 2 * 4 * 2.0**-53 * np.abs(weight).sum() * np.abs(x).max()
    for shift in range(1, 12):
        moved = f(np.roll(x, shift, -1))
        nearest = min(np.abs(moved - np.roll(y, q, -1)).max() for q in range(4))
        if shift % 3 == 0:
            assert_within(moved, np.roll(y, shift // 3, -1), worst)
        else:
            assert nearest > 1e6 * worst


def test_zeros_at_the_edges_break_the_symmetry_there_and_only_there():
    x, weight = normal(1, (1, 1, 12)), normal(2, (1, 1, 3))
    y, moved = (convolution(a, weight, padding="same") for a in (x, np.roll(x, 1, -1)))
    inner, limit = slice(2, -1), 2 * 3 * 2.0**-53 * np.abs(weight).sum() * np.abs(x).max()
    assert_within(moved[..., inner], np.roll(y, 1, -1)[..., inner], limit)
    assert np.abs(moved - np.roll(y, 1, -1))[..., [0, 1, -1]].max() > 1e6 * limit


# ---- modules


@pytest.mark.parametrize("module", [Convolution, ConvolutionTranspose])
@pytest.mark.parametrize("kernel", [3, (3,), (2, 3), (1, 2, 3)])
def test_modules_are_their_functions(module, kernel):
    options = {"stride": 2, "dilation": 2, "groups": 2, "padding": 1}
    layer = module(4, 6, kernel, **options, rng=np.random.default_rng(0))
    x = normal(1, (2, 4, *[5] * (1 if isinstance(kernel, int) else len(kernel))))
    function = convolution if module is Convolution else convolution_transpose
    assert_same_bits(layer(x).data, function(x, layer.weight.data, layer.bias.data, **options))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    without = module(4, 6, 3, dimensions=2, bias=False, rng=np.random.default_rng(0))
    assert [p.shape for p in without.parameters()] == [(6, 4, 3, 3) if module is Convolution else (4, 6, 3, 3)]


@pytest.mark.parametrize(("module", "name"), [(Convolution, "Conv2d"), (ConvolutionTranspose, "ConvTranspose2d")])
def test_modules_begin_as_in_pytorch(module, name):
    torch = pytest.importorskip("torch")
    peer = getattr(torch.nn, name)(8, 12, (3, 5), groups=2)
    layer = module(8, 12, (3, 5), groups=2, rng=np.random.default_rng(0))
    fan_in, _ = torch.nn.init._calculate_fan_in_and_fan_out(peer.weight)
    for mine, theirs in zip(layer.parameters(), peer.parameters(), strict=True):
        assert mine.shape == tuple(theirs.shape)
        assert np.abs(mine.data).max() <= fan_in**-0.5
    assert np.abs(layer.weight.data).max() > 0.99 * fan_in**-0.5  # of 720 uniform numbers


# ---- threads


@pytest.mark.parametrize(
    ("channels", "places", "pays"), [(8, 2048, False), (64, 16, False), (16, 320, False), (64, 320, True)]
)
def test_a_second_thread_helps_where_there_is_much_to_multiply_in_large_products(channels, places, pays):
    """Not in short calls, during which threads wait for each other, nor for what is done before a thread wakes."""
    x, weight = normal(0, (16, channels, places), np.float32), normal(1, (channels, channels, 5), np.float32)
    helpers = []
    before, share_out = blocks.get_threads(), blocks._share_out
    try:
        blocks.set_threads(2)
        with unittest.mock.patch.object(blocks, "_share_out", lambda *all: (helpers.append(all[2]), share_out(*all))):
            y, pullback = vjp(lambda x, weight: convolution(x, weight, padding=2), x, weight)
            pullback(y)
    finally:
        blocks.set_threads(before)
    assert set(helpers) <= {int(pays)}
    assert bool(helpers) or not pays
