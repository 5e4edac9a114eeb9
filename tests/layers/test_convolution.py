"""Convolution and its transpose: by hand, one as the gradient of the other, what shifts do to them."""

import unittest.mock

import numpy as np
import pytest

from refnp.autograd import vjp
from refnp.kernels import blocks
from refnp.layers.convolution import Convolution, ConvolutionTranspose, convolution, convolution_transpose
from refnp.verify.layers import pooling as pooling
from tests.helpers import assert_same_bits, normal

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


# ---- what does not fit

X, W = np.ones((1, 2, 5)), np.ones((4, 2, 3))
TURNED = np.ones((2, 4, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: convolution(X, W, padding="same", stride=2), r"needs stride 1, stride is \(2,\); pass the padding"),
        (lambda: convolution(X, W, padding=6, padding_mode="circular"), r"circular padding \(6, 6\) .* at most 5"),
        (lambda: convolution(X, W, padding=5, padding_mode="reflect"), r"reflect padding \(5, 5\) .* at most 4"),
        (lambda: convolution(X, W, dilation=3), r"kernel \(3,\) with dilation \(3,\) reaches over 7 places, but x has"),
        (lambda: convolution(X[..., :2], W), r"over 3 places, but x has lengths \(2,\), 2 there with padding; pad"),
        (lambda: convolution(X[..., :0], W), r"x has lengths \(0,\)"),
        (lambda: convolution_transpose(X, TURNED, output_padding=1),
         r"output_padding \(1,\) must be smaller than the stride \(1,\) or the dilation \(1,\)"),
        (lambda: convolution_transpose(X, TURNED, padding=4),
         r"x with places \(5,\), kernel \(3,\) and padding \(\(4, 4\),\) leave .* of length -1; pad less"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match="^convolution(_transpose)?: .*" + message):
        call()
