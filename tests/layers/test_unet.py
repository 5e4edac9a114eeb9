"""Networks on a grid: sizes, what an output depends on, which shifts they respect, checkerboards, and PyTorch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import Tensor, vjp
from refnp.layers.unet import SimpleCNN, UNet
from tests.helpers import generator, seeds

BOTH = pytest.mark.parametrize("upsampling", ["transposed", "nearest"])


def whole(module, rng, *, least=-2):
    """The module with small whole numbers for parameters: on whole numbers its sums are exact, in whatever order."""
    for parameter in module.parameters():
        parameter.data = rng.integers(least, 3, parameter.shape).astype(float)
    return module


def count(module):
    return sum(parameter.size for parameter in module.parameters())


# ---- sizes


def test_the_networks_of_gordon_et_al():
    cnn, unet = SimpleCNN((8, 16, 32, 16, 8), rng=generator()), UNet(8, (8, 16, 16, 32, 32, 64), rng=generator())
    # with one linear map before (2 → 8), two after (to mean and deviation), and four length scales: 6 532 and 50 612
    assert (count(cnn), count(unet)) == (6532 - 60, 50612 - 92)
    assert (cnn.total_stride, cnn.receptive_field, cnn.channels_out) == (1, 17, 8)
    assert (unet.total_stride, unet.channels_out) == (64, 16)
    assert [layer.weight.shape[:2] for layer in unet.down] == [(8, 8), (16, 8), (16, 16), (32, 16), (32, 32), (64, 32)]
    assert [layer.weight.shape[:2] for layer in unet.up] == [(64, 32), (64, 32), (64, 16), (32, 16), (32, 8), (16, 8)]


@BOTH
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, (2, 3)), ((5, 3), (3, 1))])
def test_lengths_stay(dimensions, kernel, stride, upsampling):
    unet = UNet(2, (3, 4), kernel=kernel, stride=stride, dimensions=dimensions, upsampling=upsampling, channels_out=3,
                rng=generator())  # fmt: skip
    lengths = [unet.total_stride * n for n in (2, 1, 1)[:dimensions]]
    assert unet(np.ones((2, 2, *lengths))).shape == (2, 3, *lengths)
    assert unet(np.ones((0, 2, *lengths))).shape == (0, 3, *lengths)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (4, 2), (6, 4), (3, 3), (4, 3), (1, 1)])
def test_lengths_stay_with_any_kernel_that_leaves_no_gaps(kernel, stride):
    unet = UNet(1, (2, 2), kernel=kernel, stride=stride, rng=generator())
    assert unet(np.ones((1, 1, 3 * stride**2))).shape == (1, 3, 3 * stride**2)


# ---- what an output depends on


@BOTH
@given(seeds, st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=3))
def test_receptive_field(upsampling, seed, steps):
    """With positive weights nothing cancels: the gradient of an output is positive on all that it depends on."""
    strides, kernels = zip(*((s, s + more + (s + more + 1) % 2) for s, more in steps), strict=True)
    unet = UNet(1, [1] * len(steps), kernel=kernels, stride=strides, upsampling=upsampling, channels_out=1,
                activation=lambda x: x, rng=np.random.default_rng(seed))  # fmt: skip
    for parameter in unet.parameters():
        parameter.data = np.abs(parameter.data)
    total = unet.total_stride
    n = total * (2 * (unet.receptive_field // total) + 3)
    pullback = vjp(unet, np.ones((1, 1, n)))[1]
    widths = []
    for place in range(n // 2 // total * total, n // 2 // total * total + total):
        y_bar = np.zeros((1, 1, n))
        y_bar[0, 0, place] = 1
        heard = np.flatnonzero(pullback(y_bar)[0])
        widths.append(heard[-1] - heard[0] + 1)
    assert max(widths) == unet.receptive_field


def test_receptive_field_of_a_plain_stack():
    cnn = SimpleCNN((1, 2, 1), kernel=3, activation=lambda x: x, rng=generator())
    y_bar = np.zeros((1, 1, 11))
    y_bar[0, 0, 5] = 1
    assert np.flatnonzero(vjp(cnn, np.ones((1, 1, 11)))[1](y_bar)[0]).tolist() == list(range(3, 8))
    assert cnn.receptive_field == 5


# ---- which shifts they respect


def test_checkerboards_come_from_transposed_convolutions_and_not_from_nearest_neighbours():
    """On a constant input, between the edges, with all weights equal."""
    rough = {}
    for upsampling, kernel in (("transposed", 5), ("nearest", 5), ("transposed", 4)):
        unet = UNet(1, (2, 2), kernel=kernel, upsampling=upsampling, rng=generator())
        for parameter in unet.parameters():
            parameter.data = np.ones(parameter.shape)
        y = unet(np.ones((1, 1, 64)))[0, -1, 24:40]  # behind the input, which is channel 0
        rough[upsampling, kernel] = np.ptp(y) > 0.01 * np.abs(y).max()
    assert rough == {("transposed", 5): True, ("nearest", 5): False, ("transposed", 4): False}


# ---- PyTorch


@BOTH
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_as_pytorch(dimensions, upsampling):
    """The same network of torch's own functions, on whole numbers: exactly the same, gradients included."""
    functional = pytest.importorskip("torch.nn.functional")
    torch, rng = pytest.importorskip("torch"), generator()
    unet = whole(UNet(2, (2, 3), kernel=3, dimensions=dimensions, upsampling=upsampling, channels_out=2, rng=rng), rng)
    x = rng.integers(-2, 3, (2, 2, 8, 4, 4)[: dimensions + 2]).astype(float)
    conv, conv_transpose = (getattr(functional, f"{name}{dimensions}d") for name in ("conv", "conv_transpose"))
    leaves = {name: torch.tensor(p.data, requires_grad=True) for name, p in unet.named_parameters()}

    def layer(function, name, x, **options):
        return function(x, leaves[f"{name}.weight"], leaves[f"{name}.bias"], **options)

    skips, h = [], torch.tensor(x)
    for i in range(2):
        skips.append(h)
        h = torch.relu(layer(conv, f"down.{i}", h, stride=2, padding=1))
    for i in range(2):
        if upsampling == "nearest":
            h = layer(conv, f"up.{i}", functional.interpolate(h, scale_factor=2), padding=1)
        else:
            h = layer(conv_transpose, f"up.{i}", h, stride=2, padding=1, output_padding=1)
        h = torch.cat([skips.pop(), torch.relu(h)], 1)
    theirs = layer(conv, "last", h)

    mine = unet(Tensor(x))
    assert np.array_equal(mine.data, theirs.detach().numpy())
    assert np.abs(mine.data).max() < 2**40  # so that every sum was exact
    y_bar = rng.integers(-1, 2, mine.shape).astype(float)
    mine.backward(y_bar)
    theirs.backward(torch.tensor(y_bar))
    for name, parameter in unet.named_parameters():
        assert np.array_equal(parameter.grad, leaves[name].grad.numpy()), name


# ---- what does not fit


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda **o: UNet(1, (2,), kernel=1, **o),
            "UNet: kernel 1 is shorter than stride 2, .* pass a kernel of at least 2",
        ),
        (lambda **o: UNet(1, (2,), kernel=4, upsampling="nearest", **o), "UNet: kernel 4 .* must be odd; pass 5"),
        (lambda **o: UNet(1, (2,), kernel=2, stride=1, **o), "UNet: kernel 2 .* must be odd; pass 3"),
    ],
)
def test_sizes_that_make_no_network(build, message):
    with pytest.raises(ValueError, match=message):
        build(rng=generator())


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 2, 30), r"UNet: x has lengths \(30,\), not multiples of total_stride 4; pad it to \(32,\)"),
        ((1, 2, 0), r"pad it to \(4,\)"),
        ((1, 3, 32), r"UNet: x has shape \(1, 3, 32\); it must be \(B, channels_in, \*L\), and channels_in is 2"),
        ((1, 2, 32, 32), r"UNet: x has shape \(1, 2, 32, 32\)"),
    ],
)
def test_inputs_that_do_not_fit(shape, message):
    with pytest.raises(ValueError, match=message):
        UNet(2, (2, 2), rng=generator())(np.ones(shape))
