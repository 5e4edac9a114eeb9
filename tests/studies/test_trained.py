"""Trained models in files: opened again as they were, slim, shipped, and what is refused."""

import json
import os

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.studies import trained, training
from refnp.studies.registry import TASKS
from refnp.studies.trained import SHIPPED, export, find, open_trained, shipped, slim
from refnp.studies.training import Study
from refnp.training import checkpoint as files
from refnp.training.checkpoint import Checkpoint
from tests.helpers import assert_same_bits
from tests.studies.tiny import OPTIONS

MEGABYTE = 2**20


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The file of a short run, with three validations."""
    monkeypatch.setattr(training, "VALIDATION_BATCHES", 1)
    study = Study("cnp", "matern", options=OPTIONS["cnp"], batch=2, dtype="float64", seed=7)
    training.run(study, steps=3, checkpoint=str(tmp_path / "run.npz"), every=1, show=False)
    return tmp_path / "run.npz"


def test_opened_with_the_best_weights(run):
    found, stored = open_trained(run), files.load(run)
    for name, array in found.model.state_dict().items():
        assert_same_bits(array, stored.best[name])
    assert (found.file, found.steps, found.title) == (run, 3, "cnp, trained on matern for 3 steps, seed 7")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_in_another_precision(run, dtype):
    assert {p.dtype for p in open_trained(run, dtype).model.parameters()} == {np.dtype(dtype)}
    assert {p.dtype for p in open_trained(run).model.parameters()} == {np.dtype("float64")}


def test_slim_says_the_same_in_float32(run, tmp_path):
    size = export(run, tmp_path / "slim.npz")
    assert size == os.path.getsize(tmp_path / "slim.npz") < 0.6 * os.path.getsize(run)
    whole, short = open_trained(run, "float32"), open_trained(tmp_path / "slim.npz")
    x, y, at = np.ones((2, 3, 1), np.float32), np.ones((2, 3, 1), np.float32), np.ones((2, 4, 1), np.float32)
    assert_same_bits(raw(short.model(x, y, at).mean), raw(whole.model(x, y, at).mean))
    assert (short.steps, short.title) == (whole.steps, whole.title)
    stored = files.load(run)
    best = int(np.argmin(stored.history["validation"]))
    assert short.configuration["trained"] == {
        name: stored.history[name][best] for name in ("validation step", "validation", "validation oracle gap")
    }
    assert not files.load(tmp_path / "slim.npz").optimizer


def test_slim_twice_is_slim_once(run, tmp_path):
    export(run, tmp_path / "once.npz")
    export(tmp_path / "once.npz", tmp_path / "twice.npz")
    assert (tmp_path / "once.npz").read_bytes() == (tmp_path / "twice.npz").read_bytes()


def test_without_validation_the_last_weights():
    assert slim(Checkpoint({"a": np.ones(2)}, {"model": "x"})).configuration == {"model": "x", "trained": {}}


@pytest.mark.parametrize("name", ["convcnp", "tnpd", "tetnp", "cnp", "np"])
def test_what_is_to_be_shipped_fits_into_a_megabyte(name, tmp_path):
    model, _, _ = Study(name, "eq").new()
    files.save(tmp_path / "s.npz", slim(Checkpoint(model.state_dict(), Study(name, "eq").configuration(), 100_000)))
    assert os.path.getsize(tmp_path / "s.npz") <= MEGABYTE
    assert open_trained(tmp_path / "s.npz").steps == 100_000


@pytest.mark.parametrize("name", shipped())
def test_shipped_weights(name):
    found = open_trained(name)
    assert found.file == SHIPPED / f"{name}.npz"
    assert os.path.getsize(found.file) <= MEGABYTE
    assert {p.dtype for p in found.model.parameters()} == {np.dtype(np.float32)}
    assert found.configuration["task"] in TASKS
    assert found.steps > 0


def test_found_by_path_or_by_name(run, tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "SHIPPED", tmp_path)
    assert shipped() == ["run"]
    assert find("run") == find(run) == run
    with pytest.raises(FileNotFoundError, match="no checkpoint 'rum'; did you mean run"):
        find("rum")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").write_bytes(b"a file of that name comes first")
    assert str(find("run")) == "run"


def resaved(run, **changes):
    stored = files.load(run)
    for name, value in changes.items():
        setattr(stored, name, value)
    files.save(run, stored)
    return run


def test_the_checkpoint_of_another_program(run):
    with pytest.raises(ValueError, match=r"run.npz is no checkpoint of `refnp train`: its configuration is .*'CNP'"):
        open_trained(resaved(run, configuration={"model": "CNP"}))
    with pytest.raises(ValueError, match=r"its configuration is \['CNP'\]"):
        open_trained(resaved(run, configuration=["CNP"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "tnpx"}, "does not fit this refnp: there is no model 'tnpx'"),
        ({"task": "eqq"}, "does not fit this refnp: there is no task 'eqq'"),
        ({"options": {"width": 3}}, "no option 'width'"),
        ({"options": {"hidden": 9}}, r"does not fit this refnp: load_state_dict: .* has shape"),
        ({"model": "canp", "options": {}}, "load_state_dict: .*missing"),
        ({"model": 3}, "does not fit this refnp"),
        ({"options": None}, "does not fit this refnp"),
    ],
)
def test_a_configuration_that_does_not_fit(run, change, message):
    with pytest.raises(ValueError, match=message):
        open_trained(resaved(run, configuration=files.load(run).configuration | change))


def test_damaged_files(run, tmp_path):
    cut = tmp_path / "cut.npz"
    cut.write_bytes(run.read_bytes()[:2000])
    with pytest.raises(ValueError, match="cut short or damaged"):
        open_trained(cut)
    cut.write_text(json.dumps({"not": "npz"}))
    with pytest.raises(ValueError, match="not a checkpoint"):
        open_trained(cut)


def test_a_checkpoint_is_not_exported_onto_itself(run, tmp_path):
    before = run.read_bytes()
    (tmp_path / "link.npz").symlink_to(run)
    for target in (run, tmp_path / "link.npz"):
        with pytest.raises(ValueError, match=r"npz is the checkpoint itself, which would be lost; give another file$"):
            export(run, target)
    assert run.read_bytes() == before


def test_nothing_is_exported_that_could_not_be_opened(run, tmp_path):
    with pytest.raises(ValueError, match="no checkpoint of"):
        export(resaved(run, configuration={}), tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()
