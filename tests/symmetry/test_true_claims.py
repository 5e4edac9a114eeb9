"""No true claim is refuted, however badly it rounds; and those of which nothing can be seen are left undecided."""

import pytest

from refnp.symmetry import search
from tests.symmetry.true_claims import HOLD, NOISE, SCALES


@pytest.mark.parametrize("name", HOLD)
def test_true_claims_hold(name):
    claim, draw, sizes = HOLD[name]
    verdict = search(claim, draw, sizes=sizes, scales=SCALES, count=12)
    verdict.require("holds")
    assert verdict.worst <= 1
    assert verdict.counts.pairs >= 8


@pytest.mark.parametrize("name", NOISE)
def test_where_there_is_only_noise_nothing_is_decided(name):
    claim, draw, sizes = NOISE[name]
    search(claim, draw, sizes=sizes, scales=SCALES, count=12).require("undecided")
