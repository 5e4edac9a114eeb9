"""The table of the oracle: means and standard errors of what they say."""

import numpy as np
import pytest

from refnp.studies.oracle import FIGURES, main, oracle_row
from refnp.tasks.protocols import gordon, tnp


def test_a_row_holds_means_and_their_standard_errors():
    row = oracle_row(tnp("rbf"), np.random.default_rng(0), 5, 4)
    rng, values = np.random.default_rng(0), []
    for _ in range(5):
        task, process = tnp("rbf").sample_with_process(rng, 4)
        values.append(process.posterior(task).joint_log_likelihood().mean())
    assert row["joint"] == pytest.approx((np.mean(values), np.std(values, ddof=1) / np.sqrt(5)), rel=1e-12)
    assert set(row) == set(FIGURES)
    assert row["marginal"][0] > row["floor 0.1"][0]


def test_the_table_has_a_row_for_each_protocol(capsys):
    main(["2"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 3 + 6
    assert lines[1].startswith("tnp rbf")
    assert lines[-1].startswith("bruinsma weakly_periodic, beyond")
    assert all(line.count("±") == 4 for line in lines[1:])


def test_what_has_no_row_is_named():
    with pytest.raises(TypeError, match="oracle_row: tasks are SawtoothTasks; only GaussianProcessTasks have an exact"):
        oracle_row(gordon("sawtooth"), np.random.default_rng(0), 2)
    with pytest.raises(ValueError, match="oracle_row: batches is 1; a standard error needs at least 2"):
        oracle_row(tnp(), np.random.default_rng(0), 1)
