"""What the fuzzer found and was mended, where no other page of the tests has it."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp import layers


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.roll(np.ones(3), 1.5), TypeError, r"^roll: shift are float64; pass integers"),
        (lambda: ad.roll(np.ones(3), "a"), TypeError, r"^roll: shift are <U1; pass integers"),
        (lambda: ad.Tensor([[1.0], [1.0, 2.0]]), ValueError, r"^Tensor: value is a list that is no array of numbers"),
        (lambda: ad.Parameter([[1.0], [1.0, 2.0]]), ValueError, r"^Parameter: value is a list that is no array of num"),
        (
            lambda: ad.argmax([[1.0], [1.0, 2.0]]),
            TypeError,
            r"^argmax: x is \[\[1.0\], \[1.0, 2.0\]\]; pass an array of",
        ),
        (
            lambda: ad.split(np.array(["a", "b"]), 2),
            TypeError,
            r"^split: x is <U1 \(ndarray\); pass an array of numbers$",
        ),
        (lambda: ad.flip({}), TypeError, r"^flip: x is object \(dict\); pass an array of numbers$"),
        (
            lambda: ad.power(np.ones(1), -(10**400)),
            ValueError,
            r"^power: exponent has 1329 binary digits; pass a number",
        ),
        (
            lambda: ad.roll(np.ones(1), (1, 1), ()),
            ValueError,
            r"^roll: shift is \[1 1\] and axis \(\); pass one shift, or one for each axis$",
        ),
        (lambda: ad.negative(10**400), ValueError, r"^negative: x is an integer of 1329 bits; pass a float, or less"),
        (
            lambda: layers.SetConvolution(1, 1j),
            TypeError,
            r"^SetConvolution: length_scale is 1j; beside real numbers it must be real$",
        ),
        (
            lambda: layers.cross_entropy(np.ones((1, 2)), np.zeros(1, int), class_weights=np.ones(2) * 1j),
            TypeError,
            r"^cross_entropy: class_weights is complex128 \(2,\); pass real numbers$",
        ),
    ],
)
def test_the_argument_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("function", [ad.cosh, ad.log1p, ad.exp, lambda x: ad.power(x, np.float32(3.0043466))])
def test_one_number_has_the_same_bits_with_a_negative_stride(function):
    """NumPy takes it for contiguous, and yet goes another way through it: 1 of 6 results differs in float32."""
    for x in np.linspace(0.3, 4.5, 90, dtype=np.float32)[:, None]:
        assert function(x[::-1]) == function(x)


def test_a_convolution_may_have_no_channels_out():
    x, nothing = np.ones((2, 3, 5)), np.zeros((0, 3, 1))
    (y, pullback) = ad.vjp(layers.convolution, x, nothing)
    assert y.shape == (2, 0, 5)
    assert [bar.shape for bar in pullback(y)] == [x.shape, nothing.shape]
    assert layers.convolution_transpose(y, np.zeros((0, 1, 1)), np.ones(1)).shape == (2, 1, 5)


def test_a_base_may_be_one_of_numpys_numbers():
    x = np.ones((2, 4))
    assert np.array_equal(layers.rotate(x, places=[0, 1], base=np.int8(3)), layers.rotate(x, places=[0, 1], base=3))


def test_what_is_dropped_is_the_same_where_numpy_raises():
    """The generator had drawn already where an overflow was raised, and drew other numbers when all began again."""
    query, key, value = np.full((20, 1), 1e200), np.full((2, 1), 1e200), np.ones((2, 1))
    dropped = lambda: layers.attention(query, key, value, dropout=0.5, softcap=2.0, rng=np.random.default_rng(4))
    with np.errstate(all="ignore"):
        right = dropped()
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(dropped(), right)
