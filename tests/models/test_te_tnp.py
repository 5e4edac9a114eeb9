"""TE-TNP: the model, its symmetry to the bit, and what it does look at."""

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.models.te_tnp import TETNP, TranslationLayer
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_same_bits, assert_within, normal
from tests.models.helpers import drawn_task, predict, rounded, shaken
from tests.transcriptions import tnp as transcription

SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "kernel": (4,), "embedding_depth": 2}


def small(dx=1, dy=1, **options):
    return shaken(TETNP(dx, dy, **(SMALL | options), rng=np.random.default_rng(0)))


def test_shifts_that_round_are_a_rounding_of_places():
    """x + t is rounded to u|t|; that is all a shift can do: places rounded like that give the same bits unshifted."""
    model = small()
    (context_x, context_y, target_x, _), (mask, _) = drawn_task(0, (2, 4, 3, 1, 1))
    shift = 1000 / 3
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + shift, context_y, target_x + shift, mask)
    rounded = [(a + shift) - shift for a in (context_x, target_x)]  # exact, as are all differences: Sterbenz's lemma
    for a, b, c in zip(here, there, predict(model, rounded[0], context_y, rounded[1], mask), strict=True):
        assert_same_bits(b, c)
        assert 0 < np.abs(a - b).max() < 1e4 * np.finfo(float).eps * shift


def test_an_observed_zero_is_not_an_open_question():
    """The flag: a context point with y = 0 changes the prediction."""
    model = small()
    x = np.array([[[0.0], [0.3]]])
    without = predict(model, x[:, :1], np.ones((1, 1, 1)), x)
    with_zero = predict(model, x, np.array([[[1.0], [0.0]]]), x)
    assert np.abs(without[0] - with_zero[0]).max() > 1e-3


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_layer(norm):
    options = {"dx": 2, "kernel": (3,), "moves": True, "norm": norm}
    layer = shaken(TranslationLayer(4, 2, 5, **options, rng=np.random.default_rng(0)))
    arrays = normal(0, (2, 3, 4)), normal(1, (2, 2, 4)), normal(2, (2, 3, 2, 2))
    state = layer.state_dict()
    limits = rounded(layer, *arrays)
    for b, one in enumerate(zip(*arrays, strict=True)):
        expected = transcription.translation_layer(*one, state, 2, norm)
        for value, reference, limit in zip(layer(*arrays), expected, limits, strict=True):
            assert_within(raw(value)[b], reference, tolerance(limit, np.float64)[b])
