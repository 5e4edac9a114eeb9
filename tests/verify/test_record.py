"""Recordings: what goes in comes out, other inputs are refused, and what ships is small, complete and honest."""

import contextlib
import dataclasses

import numpy as np
import pytest

from refnp.numbers.rounding import judging_precision
from refnp.verify import record, table
from refnp.verify.case import FailedError, NotOfferedError
from refnp.verify.frameworks import PACKAGES, PAGES, Framework, unchanged
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, SKIPPED, case_judgements, frameworks
from refnp.verify.layers import cases_of_layers

CASES = {case.name: case for case in cases_of_layers()}
KEYS = {"PyTorch": "torch", "JAX": "jax"}  # which CI installs, and records again with every new case
SHIPPED = [name for name in PACKAGES if (record.FOLDER / f"{name.lower()}.npz").exists()]


@pytest.fixture
def file(tmp_path):
    """A recording of refnp's own answers to two cases, and a refusal of a third."""
    answers = {}
    for name in ("softmax/ordinary", "layer_norm/one element"):
        problem = CASES[name].problem("float32")
        answers[record.key_of(problem)] = {"checksum": problem.checksum(), "answer": problem.answer()}
    answers[record.key_of(CASES["relu/ordinary"].problem("float32"))] = {"refused": "it has no relu"}
    record.write(tmp_path / "some.npz", {"framework": "Some", "version": "1.2"}, answers)
    return tmp_path / "some.npz"


def test_what_is_written_is_read(file):
    recording = record.Recording(file)
    assert recording.framework == Framework("Some", "1.2 (recorded)", recording.answer)
    for name in ("softmax/ordinary", "layer_norm/one element"):
        problem = CASES[name].problem("float32")
        answer, right = recording.answer(problem), problem.answer()
        assert answer.keys() == right.keys()
        for quantity, array in answer.items():
            np.testing.assert_array_equal(array, right[quantity], strict=True)
    assert [path.name for path in file.parent.iterdir()] == ["some.npz"], "nothing else is left behind"


def test_refusals_are_kept_and_unknown_cases_refused(file):
    recording = record.Recording(file)
    with pytest.raises(NotOfferedError, match="it has no relu"):
        recording.answer(CASES["relu/ordinary"].problem("float32"))
    with pytest.raises(NotOfferedError, match="no such case"):
        recording.answer(CASES["softmax/ordinary"].problem("float64"))


def test_a_recording_of_other_inputs_is_skipped(file):
    changed = dataclasses.replace(CASES["softmax/ordinary"], cotangent=np.ones((5, 8)))
    recording = record.Recording(file)
    with pytest.raises(NotOfferedError, match="other inputs"):
        recording.answer(changed.problem("float32"))
    rows = case_judgements(changed, [recording.framework])
    assert [row.verdict for row in rows if row.framework == "Some"] == [SKIPPED]


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()
    monkeypatch.setattr(np, "savez_compressed", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        record.write(file, {}, {})
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == 1


def test_what_ships_is_small():
    sizes = [path.stat().st_size for path in record.FOLDER.glob("*.npz")]
    assert len(sizes) == len(SHIPPED)
    assert sum(sizes) <= 6e6


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_says_where_it_comes_from(name):
    facts = record.Recording(record.FOLDER / f"{name.lower()}.npz").facts
    assert facts["framework"] == name
    assert facts.keys() >= {"version", "platform", "python", "numpy", "date"}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("dtype", record.DTYPES)
def test_what_ships_is_complete_and_of_these_inputs(name, dtype):
    recording = record.Recording(record.FOLDER / f"{name.lower()}.npz")
    for case in CASES.values():
        problem = case.problem(dtype)
        try:
            answer, refused = recording.answer(problem), ""
        except NotOfferedError as reason:
            answer, refused = None, str(reason)
        assert "again" not in refused, case.name
        assert answer is None or answer.keys() == problem.bounds.keys()
        assert answer is not None or getattr(case.layer, KEYS[name]) is None or name == "JAX"


@pytest.mark.parametrize("name", PAGES)
def test_what_is_recorded_elsewhere_has_most_of_what_its_page_names(name):
    """Cases may have come since; what has been recorded is of these inputs, or says that it is not."""
    recording, answered = record.Recording(record.FOLDER / f"{name.lower()}.npz"), 0
    offered = [case for case in CASES.values() if case.layer.name in PAGES[name].FUNCTIONS]
    for case in offered:
        with contextlib.suppress(NotOfferedError, FailedError):
            answered += recording.answer(case.problem("float32")).keys() <= set(case.quantities)
    assert answered >= 0.8 * len(offered)


@pytest.fixture(scope="module")
def rows():
    return table.recorded_rows()


@pytest.mark.skipif("float64" in judging_precision(), reason="the page was made with a wider longdouble")
def test_the_page_of_frameworks_says_what_was_recorded(rows):
    assert table.PAGE.read_text(encoding="utf-8") == table.page(rows), (
        "out of date: python -m refnp.verify.table --write"
    )


def test_recorded_answers_deviate_only_where_it_is_known(rows):
    found = frameworks(live=())
    assert [framework.name for framework in found] == SHIPPED
    assert SHIPPED[:2] == ["PyTorch", "JAX"]
    assert all("(recorded)" in framework.version for framework in found)
    assert [row for row in rows if row.verdict == DEVIATES] == []
    listed = {(k.framework, k.issue) for case in CASES.values() for k in case.known_defects}
    listed |= {(k.framework, k.issue) for framework in found for k in framework.known_defects}
    shown = {(row.framework, row.issue) for row in rows if row.verdict in (KNOWN, CONVENTION)}
    assert shown == listed, "none is listed in vain"


def test_recording_pytorch_again(tmp_path, capsys):
    """The script runs the real framework; what it writes today is what ships, to the bit, on the same machine."""
    pytest.importorskip("torch")
    assert record.main(["PyTorch", "--folder", str(tmp_path)]) == 0
    assert "answers of PyTorch" in capsys.readouterr().out
    fresh = record.Recording(tmp_path / "pytorch.npz")
    problem = CASES["attention/ordinary"].problem("float64")
    np.testing.assert_allclose(fresh.answer(problem)["output"], problem.answer()["output"], rtol=1e-12)


class Stub:
    """A framework that answers with refnp's own, of a version that can be set."""

    name = "Some"
    posed = staticmethod(unchanged)

    def __init__(self, version="1.2"):
        self.version, self.asked = version, []

    def answer(self, problem):
        self.asked.append(problem.case.name)
        if problem.case.layer.name == "relu":
            raise NotOfferedError("it has no relu")
        return problem.answer()


def named(*names):
    return [CASES[name] for name in names]


def test_only_what_is_new_is_asked(file):
    """Two of these answers, and the refusal, are in the file in float32; what is there stays as it is."""
    stub, before = Stub(), record.Recording(file).entries()
    assert record.record(stub, file, named("softmax/ordinary", "relu/ordinary", "erf/ordinary")) == 3
    assert stub.asked == ["softmax/ordinary", "relu/ordinary", "relu/ordinary", "erf/ordinary", "erf/ordinary"]
    after = record.Recording(file)
    assert after.facts == {"framework": "Some", "version": "1.2"}
    for key, entry in before.items():
        assert after.entries()[key].keys() == entry.keys()
    new = after.entries()["erf/ordinary in float64"]
    assert "date" in new["facts"], "recorded on another day than the rest"
    problem = CASES["erf/ordinary"].problem("float64")
    np.testing.assert_array_equal(after.answer(problem)["output"], problem.answer()["output"])
    assert record.record(Stub(), file, named("softmax/ordinary", "erf/ordinary")) == 0


def test_other_inputs_are_asked_about_again(file):
    changed = dataclasses.replace(CASES["softmax/ordinary"], cotangent=np.ones((5, 8)))
    assert record.record(Stub(), file, [changed]) == 2
    assert record.Recording(file).answer(changed.problem("float32"))


def test_a_recording_is_of_one_version(file):
    with pytest.raises(ValueError, match=r"some.npz is of Some 1.2, and 1.3 is installed: record every case --again"):
        record.record(Stub("1.3"), file, named("erf/ordinary"))
    every = named("softmax/ordinary", "layer_norm/one element", "relu/ordinary")
    with pytest.raises(ValueError, match="--again"):  # in float64 they are not there, in float32 they would stay
        record.record(Stub("1.3"), file, every)
    assert record.record(Stub("1.3"), file, every, again=True) == 4
    assert record.Recording(file).framework.version == "1.3 (recorded)"


def test_recording_an_unknown_framework(capsys):
    with pytest.raises(SystemExit) as stop:
        record.main(["Theano"])
    assert stop.value.code == 2
    assert "no framework Theano" in capsys.readouterr().err
