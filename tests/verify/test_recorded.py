"""Recordings: what goes in comes out, other inputs are refused, and what ships is small, complete and honest."""

import dataclasses

import numpy as np
import pytest

from refnp.verify import record, recorded
from refnp.verify.cases import cases
from refnp.verify.frameworks import NotOfferedError, jax, pytorch
from refnp.verify.judge import DEVIATES, KNOWN, SKIPPED
from refnp.verify.run import Framework, case_rows, frameworks

CASES = {case.name: case for case in cases()}
ADAPTERS = {"PyTorch": pytorch, "JAX": jax}


@pytest.fixture
def file(tmp_path):
    """A recording of refnp's own answers to two cases, and a refusal of a third."""
    answers = {}
    for name in ("softmax/ordinary", "layer_norm/one element"):
        problem = CASES[name].problem("float32")
        answers[recorded.key_of(problem)] = (problem.checksum(), problem.answer())
    answers[recorded.key_of(CASES["relu/ordinary"].problem("float32"))] = ("", "it has no relu")
    recorded.write(tmp_path / "some.npz", {"framework": "Some", "version": "1.2"}, answers)
    return tmp_path / "some.npz"


def test_what_is_written_is_read(file):
    recording = recorded.Recording(file)
    assert recording.version == "1.2 (recorded)"
    for name in ("softmax/ordinary", "layer_norm/one element"):
        problem = CASES[name].problem("float32")
        answer, right = recording.answer(problem), problem.answer()
        assert answer.keys() == right.keys()
        for quantity, array in answer.items():
            np.testing.assert_array_equal(array, right[quantity], strict=True)
    assert [path.name for path in file.parent.iterdir()] == ["some.npz"], "nothing else is left behind"


def test_refusals_are_kept_and_unknown_cases_refused(file):
    recording = recorded.Recording(file)
    with pytest.raises(NotOfferedError, match="it has no relu"):
        recording.answer(CASES["relu/ordinary"].problem("float32"))
    with pytest.raises(NotOfferedError, match="no such case"):
        recording.answer(CASES["softmax/ordinary"].problem("float64"))


def test_a_recording_of_other_inputs_is_skipped(file):
    changed = dataclasses.replace(CASES["softmax/ordinary"], cotangent=np.ones((5, 8)))
    recording = recorded.Recording(file)
    with pytest.raises(NotOfferedError, match="other inputs"):
        recording.answer(changed.problem("float32"))
    rows = case_rows(changed, [Framework("Some", recording.version, recording.answer)], "0")
    assert [row.verdict for row in rows if row.framework == "Some"] == [SKIPPED]


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()
    monkeypatch.setattr(np, "savez_compressed", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        recorded.write(file, {}, {})
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == 1


def test_what_ships_is_small():
    sizes = [path.stat().st_size for path in recorded.FOLDER.glob("*.npz")]
    assert len(sizes) == 2
    assert sum(sizes) <= 3e6


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_ships_says_where_it_comes_from(name):
    facts = recorded.Recording(recorded.FOLDER / f"{name.lower()}.npz").facts
    assert facts["framework"] == name
    assert facts.keys() >= {"version", "platform", "python", "numpy", "date"}


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("dtype", recorded.DTYPES)
def test_what_ships_is_complete_and_of_these_inputs(name, dtype):
    recording = recorded.Recording(recorded.FOLDER / f"{name.lower()}.npz")
    for case in CASES.values():
        problem = case.problem(dtype)
        try:
            answer, refused = recording.answer(problem), ""
        except NotOfferedError as reason:
            answer, refused = None, str(reason)
        assert "again" not in refused, case.name
        assert answer is None or answer.keys() == problem.bounds.keys()
        assert answer is not None or case.layer.name not in ADAPTERS[name].LAYERS or name == "JAX"


def test_recorded_answers_deviate_only_where_it_is_known():
    found = frameworks(live=())
    assert [framework.name for framework in found] == ["PyTorch", "JAX"]
    assert all("(recorded)" in framework.version for framework in found)
    with np.errstate(all="ignore"):
        rows = [row for case in CASES.values() for row in case_rows(case, found, "0")]
    assert [row for row in rows if row.verdict == DEVIATES] == []
    listed = {(k.framework, k.issue) for case in CASES.values() for k in case.known}
    assert {(row.framework, row.issue) for row in rows if row.verdict == KNOWN} == listed, "none is listed in vain"


def test_recording_pytorch_again(tmp_path, capsys):
    """The script runs the real framework; what it writes today is what ships, to the bit, on the same machine."""
    pytest.importorskip("torch")
    assert record.main(["PyTorch", "--folder", str(tmp_path)]) == 0
    assert "answers of PyTorch" in capsys.readouterr().out
    fresh = recorded.Recording(tmp_path / "pytorch.npz")
    problem = CASES["attention/ordinary"].problem("float64")
    np.testing.assert_allclose(fresh.answer(problem)["output"], problem.answer()["output"], rtol=1e-12)


def test_recording_nobody_knows(capsys):
    with pytest.raises(SystemExit) as stop:
        record.main(["Theano"])
    assert stop.value.code == 2
    assert "no adapter for Theano" in capsys.readouterr().err
