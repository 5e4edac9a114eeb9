"""Places, classes, shifts and lengths may be integers of any type: results and gradients have the bits of int64."""

import numpy as np
import pytest
from hypothesis import given

import refnp.autograd as ad
from refnp import layers, plain
from refnp.autograd.trees import leaves_of
from refnp.layers import masks
from refnp.layers.positions.absolute import LearnedPositions
from refnp.layers.positions.biases import T5Bias
from refnp.layers.positions.relative import Shaw, read_diagonals, sum_diagonals
from refnp.layers.positions.rotary import rotate
from refnp.layers.translation_attention import pair_kernel
from tests.helpers import assert_same_bits, normal, seeds

LONG = 300  # places: more than int8 and uint8 can count
TABLE = normal(0, (LONG, 2))

FUNCTIONS = {  # of a table (LONG, 2) and places, at most 127 and, where signed, −128 at least: what comes of them
    "getitem": lambda x, i: ad.getitem(x, i),
    "take": lambda x, i: ad.take(x, i),
    "take_along_axis": lambda x, i: ad.take_along_axis(x, i[:, None], 0),
    "scatter": lambda x, i: ad.scatter(x, i[:, None], np.ones((len(i), 2)), 0),
    "scatter, put": lambda x, i: ad.scatter(x, i[:1, None], 5.0, 0, mode="put"),
    "roll": lambda x, i: ad.roll(x, i[0], 0),
    "roll, two axes": lambda x, i: ad.roll(x, i[:2], (0, 1)),
}
COUNTS = {  # of places that are not negative
    "pad": lambda x, i: ad.pad(x, np.resize(i, (2, 2))),
    "embedding": lambda x, i: layers.embedding(i, x),
    "cross_entropy": lambda x, i: layers.cross_entropy(ad.swapaxes(x, 0, 1), i[:2]),
    "cross_entropy, ignored": lambda x, i: layers.cross_entropy(ad.swapaxes(x, 0, 1), i[:2], ignore_index=int(i[0])),
    "Categorical": lambda x, i: layers.Categorical(ad.swapaxes(x, 0, 1)).log_prob(i[:2], mask=np.array([True, False])),
    "key_padding": lambda x, i: masks.key_padding(i, LONG),
    "rotate": lambda x, i: rotate(x[:6], places=i),
    "T5Bias": lambda x, i: T5Bias(2, rng=np.random.default_rng(0)).scores(ad.reshape(x[:12], (2, 6, 2)), i, i),
    "Shaw": lambda x, i: Shaw(2, 3, rng=np.random.default_rng(0)).scores(x[:6], i, i),
    "sinusoidal": lambda x, i: layers.sinusoidal(i, 4),
    "LearnedPositions": lambda x, i: LearnedPositions(LONG, 2, rng=np.random.default_rng(0))(x[:6], places=i),
}
INTEGERS = [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64]


def bits(function, places):
    """Results, and the table's gradient."""
    value, pullback = ad.vjp(lambda x: function(x, places), TABLE)
    return leaves_of((value, *pullback(normal(2, np.shape(value)))))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [*FUNCTIONS, *COUNTS])
@given(seed=seeds)
def test_every_type_of_integers_gives_the_bits_of_int64(name, dtype, seed):
    least = np.iinfo(dtype).min if name in FUNCTIONS else 0
    places = np.random.default_rng(seed).integers(max(least, -128), 128, 6)
    function = (FUNCTIONS | COUNTS)[name]
    for found, expected in zip(bits(function, places.astype(dtype)), bits(function, places), strict=True):
        assert_same_bits(found, expected)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS | COUNTS if name != "cross_entropy, ignored"])
def test_what_no_axis_is_long_enough_for_is_told(name):
    """Nor does int64 hold it: −1 if it were taken for one."""
    with pytest.raises((ValueError, IndexError), match="18446744073709551615"):
        (FUNCTIONS | COUNTS)[name](TABLE, np.full(6, 2**64 - 1, np.uint64))


WHOLE = {  # functions whose arrays may hold whole numbers, of which they make floats
    "pair_kernel": lambda one: pair_kernel(one(1, 2, 2, 1), one(1, 1, 2, 2), one(2, 3), one(3)),
    "read_diagonals": lambda one: read_diagonals(one(2, 3), shift=0, keys=2),
    "sum_diagonals": lambda one: sum_diagonals(one(2, 2), shift=0, count=3),
    "layer_norm": lambda one: layers.layer_norm(one(2, 3)),
    "convolution": lambda one: layers.convolution(one(1, 1, 3), one(1, 1, 2).astype(np.float32)),
}


@pytest.mark.parametrize("dtype", [int, np.int8, bool])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_floats_of_64_bits_in_pages_and_kernels(name, dtype):
    one = lambda *shape: np.ones(shape, dtype)
    assert WHOLE[name](one).dtype == np.float64
    assert_same_bits(WHOLE[name](one), WHOLE[name](lambda *shape: np.ones(shape)))
    with plain():
        assert WHOLE[name](one).dtype == np.float64
