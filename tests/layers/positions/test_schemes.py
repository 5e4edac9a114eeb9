"""What every relative scheme keeps: a query alone is its row of the whole, and heads have tables of their own."""

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.layers import masks
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.images import ImagePositions
from refnp.layers.positions.relative import Shaw
from refnp.layers.positions.rotary import Rotary
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import assert_same_bits, assert_within, normal
from tests.layers.positions.judges import at_random, looked_up, rounded_look_up


def shaw(**options):
    return Shaw(4, 2, rng=np.random.default_rng(0), **options)


def images(mode="contextual", **options):
    return ImagePositions(4, axes=1, mode=mode, method="cross", values=True, rng=np.random.default_rng(0), **options)


SCHEMES = {
    "Shaw": shaw(),
    "T5Bias": T5Bias(2, buckets=8, max_distance=6, rng=np.random.default_rng(0)),
    "ALiBi": ALiBi(2),
    "Rotary": Rotary(),
    "Rotary, half": Rotary(layout="half"),
    "ImagePositions": images(),
    "ImagePositions, bias": images("bias"),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_decoding_with_a_cache(name):
    """One query at place 17 against keys 0 to 17 is row 17 of the whole; two at 16 and 17 are the last two."""
    scheme, run, mask = at_random(SCHEMES[name]), np.arange(18), masks.causal(18)
    query, key, value = (normal(i, (2, 2, 18, 4)) for i in range(3))
    whole = raw(looked_up(scheme, query, key, value, run, run, mask))
    for n in (1, 2, 5):
        rounded, _ = rounded_look_up(scheme, *map(exact, (query[..., -n:, :], key, value)), run[-n:], run, mask[-n:])
        last = raw(looked_up(scheme, query[..., -n:, :], key, value, run[-n:], run, mask[-n:]))
        assert_within(last, whole[..., -n:, :], 2 * tolerance(rounded, np.float64))


@pytest.mark.parametrize("of", [shaw, images, lambda **options: images("bias", **options)])
def test_tables_for_each_head(of):
    """With `heads`, head h computes with its own tables, as a scheme of one head would."""
    scheme, alone = at_random(of(heads=2)), of()
    query, weights, run = normal(0, (4, 2, 5, 4)), np.random.default_rng(1).random((4, 2, 5, 5)), np.arange(5)
    scores = np.broadcast_to(raw(scheme.scores(query, run, run)), (4, 2, 5, 5))
    for h in range(2):
        alone.load_state_dict({name: value[h] for name, value in scheme.state_dict().items()})
        own = raw(alone.scores(query[:, h], run, run))
        assert_same_bits(scores[:, h], np.broadcast_to(own, (4, 5, 5)))
        added, own = (raw(s.values(w, run, run)) for s, w in ((scheme, weights), (alone, weights[:, h])))
        np.testing.assert_allclose(added[:, h], own, rtol=0, atol=5 * 8 * 2.0**-53 * 5)
