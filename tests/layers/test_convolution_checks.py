"""What convolutions refuse, naming the argument, what came, and what to do."""

import numpy as np
import pytest

from refnp.layers.convolution import Convolution, ConvolutionTranspose, convolution, convolution_transpose

X, W = np.ones((1, 2, 5)), np.ones((4, 2, 3))
IMAGE, KERNEL = np.ones((1, 2, 5, 5)), np.ones((4, 2, 3, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": (1, 2)}, r"stride is \(1, 2\); .* or one for each axis, 1 in all"),
        ({"groups": 3}, r"weight has shape \(4, 2, 3\); it must be \(groups·o, c, \*l\), and groups is 3; make them"),
        ({"groups": 2}, r"x has shape \(1, 2, 5\); it must be .* and groups is 2 and weight has c = 2; make them"),
        ({"padding": (1, 2)}, r"padding is \(1, 2\); .* or one or a pair \(before, after\) for each axis, 1 in all"),
        ({"padding": "same", "stride": 2}, r"padding 'same' needs stride 1, stride is \(2,\); pass the padding"),
        ({"padding": 6, "padding_mode": "circular"}, r"circular padding \(6, 6\) takes more .* has; at most 5"),
        ({"padding": 5, "padding_mode": "reflect"}, r"reflect padding \(5, 5\) takes more .*; at most 4"),
        ({"dilation": 3}, r"kernel \(3,\) with dilation \(3,\) reaches over 7 places, but x has lengths \(5,\)"),
    ],
)  # fmt: skip
def test_options(options, message):
    with pytest.raises(ValueError, match="convolution: .*" + message):
        convolution(X, W, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, np.ones((4, 2))), r"weight has shape \(4, 2\); it must be \(groups·o, c, \*l\)"),
        ((X, np.ones((4, 2, 0))), r"weight has shape \(4, 2, 0\); its axis l must not be empty"),
        (
            (X[0, 0], W),
            r"x has shape \(5,\); it must be .* or \(groups·c, \*L\), and weight has shape \(4, 2, 3\)",
        ),
        ((np.ones((3, 5)), W), r"x has shape \(3, 5\); .* and groups is 1 and weight has c = 2; make them agree"),
        ((IMAGE, W), r"x has shape \(1, 2, 5, 5\)"),
        ((np.ones((1, 3, 5)), W), r"x has shape \(1, 3, 5\); .* and groups is 1 and weight has c = 2; make them agree"),
        ((X, W, np.ones(3)), r"bias has shape \(3,\); it must be \(groups·o,\), and groups is 1 and weight has o = 4"),
        ((X[..., :2], W), r"reaches over 3 places, but x has lengths \(2,\), 2 there with padding; pad more"),
        ((X[..., :0], W), r"x has lengths \(0,\)"),
    ],
)
def test_arguments(arguments, message):
    with pytest.raises(ValueError, match="convolution: .*" + message):
        convolution(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 3}, r"weight has shape \(2, 4, 3\); it must be \(groups·c, o, \*l\), and groups is 3; make them"),
        ({"output_padding": 1}, r"output_padding \(1,\) must be smaller than the stride \(1,\) or the dilation \(1,\)"),
        (
            {"padding": 4},
            r"x with places \(5,\), kernel \(3,\) and padding \(\(4, 4\),\) leave .* of length -1; pad less",
        ),
    ],
)
def test_options_of_the_transpose(options, message):
    with pytest.raises(ValueError, match="convolution_transpose: .*" + message):
        convolution_transpose(X, np.ones((2, 4, 3)), **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, W), r"x has shape \(1, 2, 5\); .* and groups is 1 and weight has c = 4; make them agree"),
        ((X, np.ones((2, 4))), r"weight has shape \(2, 4\); it must be \(groups·c, o, \*l\)"),
        (
            (X, np.ones((2, 4, 3)), np.ones(2)),
            r"bias has shape \(2,\); .* and weight has o = 4",
        ),
    ],
)
def test_arguments_of_the_transpose(arguments, message):
    with pytest.raises(ValueError, match="convolution_transpose: .*" + message):
        convolution_transpose(*arguments)


@pytest.mark.parametrize("module", [Convolution, ConvolutionTranspose])
@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((2, 3, 3), {"groups": 2}, r"channels_out is 3; it must be a multiple of groups, 2"),
    ],
)
def test_sizes_of_modules(module, sizes, options, message):
    with pytest.raises(ValueError, match=f"{module.__name__}: .*{message}"):
        module(*sizes, **options, rng=np.random.default_rng(0))
