"""Decisions: regret where it is known, and the figures that are kept hold for a few functions."""

import numpy as np
import pytest

from refnp.studies import decisions
from refnp.studies.evaluation import plain
from refnp.studies.measured import kept
from refnp.studies.trained import open_trained


def test_every_model_of_the_task_is_in_the_table():
    assert set(kept("decisions")) == {*decisions.names(), decisions.EXACT, decisions.RANDOM}
    (table,) = decisions.tables(kept("decisions"))
    assert len(plain(table)) == len(table.rows) + 2


def test_expected_improvement_is_its_integral():
    rng = np.random.default_rng(0)
    y = 0.3 + 0.5 * rng.standard_normal(400_000)
    found = decisions.expected_improvement(np.array(0.3), np.array(0.5), np.array(0.6))
    assert found == pytest.approx(np.maximum(y - 0.6, 0).mean(), abs=5 * 0.25 / np.sqrt(400_000))


def test_regret_of_who_knows_everything_is_small_and_of_chance_is_not():
    given = decisions.functions(64, decisions.ARMS)

    def knows(x, y, target):
        return given.values, np.full_like(given.values, 1e-9)

    for bandit in (False, True):
        first = decisions.regret(given, knows, 2, bandit=bandit)
        chance = decisions.regret(given, None, 2, bandit=bandit)
        assert first.min() >= 0
        assert first.mean() < (0.6 if bandit else 1e-9) * chance.mean() + 1e-9


@pytest.mark.parametrize("name", ["cnp", "tnpd", decisions.EXACT])
def test_regret_that_is_kept_holds_for_a_few_functions(name):
    if name == decisions.EXACT:
        found = decisions.both(lambda given: decisions.exact(given.process), 32)
    else:
        model = open_trained(name).model
        found = decisions.both(lambda given: decisions.law_of(model), 32)
    for kind, (mean, error) in kept("decisions")[name].items():
        assert abs(found[kind][0] - mean) < 4 * np.hypot(error, found[kind][1])
