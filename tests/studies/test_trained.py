"""Trained models in files: opened again as they were, slim, shipped, and what is refused."""

import contextlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.studies import trained, training
from refnp.studies.registry import MODELS, TASKS, build, options_of
from refnp.studies.trained import FEW, SHIPPED, Measured, export, find, open_trained, shipped, slim
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


def test_halves_are_computed_with_in_float32(run, tmp_path):
    whole = export(run, tmp_path / "slim.npz")
    assert export(run, tmp_path / "half.npz", "float16") < whole
    stored, model = files.load(tmp_path / "half.npz").weights, open_trained(tmp_path / "half.npz").model
    for name, array in files.load(run).best.items():
        assert_same_bits(stored[name], array.astype(np.float16))
        assert_same_bits(model.state_dict()[name], stored[name].astype(np.float32))


def test_what_float16_does_not_hold_is_refused():
    with pytest.raises(ValueError, match=r"^export: a holds -70000\.0, too large for float16; use float32$"):
        slim(Checkpoint({"a": np.array([1.0, -7e4])}, {"model": "x"}), "float16")


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
    with pytest.raises(FileNotFoundError, match=r"no file 'rum\.npz'; the shipped weights are run"):
        find("rum.npz")
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
    why = r"run.npz is no checkpoint of `refnp train`: in its configuration task is missing; options is missing; seed"
    with pytest.raises(ValueError, match=why):
        open_trained(resaved(run, configuration={"model": "CNP"}))


@pytest.mark.parametrize("value", [None, 3, 2.5, True, "all", [], [1, 2]])
@pytest.mark.parametrize("name", ["model", "task", "options", "seed", "trained"])
def test_an_entry_of_the_configuration_of_another_kind(run, name, value):
    if type(value) is {"model": str, "task": str, "seed": int}.get(name):
        pytest.skip("of the right kind")
    with pytest.raises(
        ValueError, match=rf"run.npz is no checkpoint .* {name} is .*, not .*; use a file that `refnp tr"
    ):
        open_trained(resaved(run, configuration=files.load(run).configuration | {name: value}))


@pytest.mark.parametrize("group", ["parameters", "best"])
def test_parameters_that_are_not_real_numbers(run, group):
    stored = files.load(run)
    arrays = getattr(stored, group)
    arrays[next(iter(arrays))] = next(iter(arrays.values())) + 1j
    files.save(run, stored)
    with pytest.raises(ValueError, match=r"does not fit this refnp: its parameters are complex128; they must be real"):
        open_trained(run)


def test_without_parameters(run):
    with pytest.raises(ValueError, match=r"run.npz is no checkpoint of `refnp train`: .*there are no parameters"):
        open_trained(resaved(run, parameters={}, best={}))


WIDE = {"hidden", "features", "latent", "rank", "channels", "kernel"}  # no model would be made of 10¹² of these


LESS = 1 << 16  # numbers may be asked for in the next test: 16 times fewer


def sizes(name):
    """(option, value) for all whole numbers among the options of a model, and lists of them."""
    for option, default in options_of(name).items():
        if type(default) in (int, tuple):
            for number in (LESS - 1, 10**12):
                yield option, number if type(default) is int else [number] * len(default)


@pytest.mark.skipif(sys.platform != "linux", reason="the size of the address space is limited")
@pytest.mark.parametrize("name", MODELS)
def test_sizes_that_the_file_does_not_have_are_refused_before_there_is_memory_for_them(name, tmp_path, monkeypatch):
    """Each option of each model as large as can be, in a process that may take 64 MiB more."""
    monkeypatch.setattr(trained, "FEW", LESS)
    study = Study(name, "eq", options=OPTIONS[name])
    run = tmp_path / "run.npz"
    files.save(run, slim(Checkpoint(study.new()[0].state_dict(), study.configuration(), 1)))
    open_trained(run)
    refused = set()
    with address_space(64 * MEGABYTE):
        for option, value in sizes(name):
            changed = files.load(run).configuration | {"options": OPTIONS[name] | {option: value}}
            try:
                open_trained(resaved(run, configuration=changed))
            except ValueError as wrong:
                assert str(run) in str(wrong)  # noqa: PT017
                assert option in str(wrong)  # noqa: PT017
                assert "use an older copy" in str(wrong)  # noqa: PT017
                refused.add(option)
    assert refused >= WIDE & options_of(name).keys()


@contextlib.contextmanager
def address_space(more):
    """The system refuses to give more memory than `more` bytes beyond what is taken."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_generator_that_counts_draws_what_another_does():
    counting, plain = Measured({"a": np.ones(5)}), np.random.default_rng(0)
    assert_same_bits(counting.normal(0, 1, 3), plain.normal(0, 1, 3))
    assert_same_bits(counting.uniform(-1, 1, (2, 1)), plain.uniform(-1, 1, (2, 1)))
    assert counting.normal() == plain.normal()
    with pytest.raises(
        ValueError, match=r"a parameter would have shape \(3, 1000000000000\), the stored ones are 5 num"
    ):
        counting.normal(0, 1, (3, 10**12))


@pytest.mark.parametrize("name", MODELS)
def test_all_weights_are_drawn_from_the_generator_in_ways_that_are_counted(name):
    """A constructor that drew by another method would escape `Measured`."""
    used = set()

    class Watched(Measured):
        def __getattribute__(self, attribute):
            used.add(attribute)
            return super().__getattribute__(attribute)

    model = build(name, OPTIONS[name], rng=Watched({"a": np.ones(1)}))
    assert {a for a in used if not a.startswith("_")} <= {"normal", "uniform", "left", "stored"}
    drawn = sum(p.size for p in model.parameters())
    assert drawn < FEW


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "tnpx"}, "does not fit this refnp: there is no model 'tnpx'"),
        ({"task": "eqq"}, "does not fit this refnp: there is no task 'eqq'"),
        ({"options": {"width": 3}}, "no option 'width'"),
        ({"options": {"hidden": 9}}, r"does not fit this refnp: load_state_dict: .* has shape"),
        ({"model": "canp", "options": {}}, "load_state_dict: .*missing"),
        ({"options": {"hidden": 10**12}}, r"hidden is 1000000000000, and the stored parameters are \d+ numbers in all"),
        (
            {"options": {"hidden": 10**6}},
            r"would have shape \(\d, 1000000\), the stored ones are \d+ numbers in all",
        ),
        ({"options": {"before": 10**12}}, "before is 1000000000000"),
        ({"options": {"hidden": -1}}, r"each a whole number.*; use an older copy of the file"),
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
