"""What convolutions refuse, naming the argument, what came, and what to do."""

import numpy as np
import pytest

from refnp.layers.convolution import convolution, convolution_transpose

X, W = np.ones((1, 2, 5)), np.ones((4, 2, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
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
