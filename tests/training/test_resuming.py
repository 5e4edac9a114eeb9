"""Resuming: a run that was killed, interrupted or stopped goes on to the same bits as one that ran through."""

import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from refnp.training.checkpoint import load
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from tests.training.killed import STEPS, loss, make, whole
from tests.training.runs import Point, assert_same_in_order, assert_same_state, downhill, on_point, quiet, state, valley

ROOT = pathlib.Path(__file__).parents[2]


def test_a_run_that_has_ended_returns_at_once(tmp_path):
    path = tmp_path / "run.npz"
    first, second = make(), make()
    history = train(first[0], loss, first[1], rng=first[2], checkpoint=path, **whole())
    content = path.read_bytes()
    again = train(second[0], loss, second[1], rng=second[2], checkpoint=path, **whole(save_seconds=60))
    assert_same_in_order(again, history)
    assert_same_state(state(*second), state(*first))
    assert path.read_bytes() == content


@pytest.mark.parametrize("stops", [[1], [2, 3, 5], [6]])
def test_going_on_gives_the_same_bits(tmp_path, stops):
    straight, resumed = make(), None
    options = {"validate": None, "patience": None}  # the last step of each part would validate once more
    history = train(straight[0], loss, straight[1], rng=straight[2], **whole(**options))
    for steps in [*stops, STEPS]:
        resumed = make()
        parts = train(
            resumed[0], loss, resumed[1], rng=resumed[2], checkpoint=tmp_path / "c", **whole(steps=steps, **options)
        )
    assert_same_in_order(parts, history)
    assert_same_state(state(*resumed), state(*straight))


def test_the_seed_of_the_generator_that_goes_on_does_not_matter(tmp_path):
    straight, resumed = make(), make()
    quiet(straight[0], loss, straight[1], steps=STEPS, rng=straight[2])
    quiet(resumed[0], loss, resumed[1], steps=3, rng=resumed[2], checkpoint=tmp_path / "c")
    other = *make()[:2], np.random.default_rng(99)
    quiet(other[0], loss, other[1], steps=STEPS, rng=other[2], checkpoint=tmp_path / "c")
    assert_same_state(state(*other), state(*straight))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_killed_at_any_moment_a_run_ends_with_the_same_bits(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.killed", str(tmp_path), "6"],
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 in mid-write" in done.stdout
    assert "4 from outside" in done.stdout


def test_starting_afresh_replaces_the_file(tmp_path):
    on_point(steps=5, checkpoint=tmp_path / "c")
    model, history = on_point(steps=2, checkpoint=tmp_path / "c", resume=False)
    assert len(history["loss"]) == 2
    assert model.x.data == -2
    assert load(tmp_path / "c").step == 2


def test_a_checkpoint_is_written_before_the_first_step(tmp_path):
    def look(model, rng):
        assert load(tmp_path / "c").step == 0
        return downhill(model, rng)

    on_point(look, steps=1, checkpoint=tmp_path / "c")
    assert load(tmp_path / "c").step == 1


def test_checkpoints_come_by_the_clock(tmp_path, monkeypatch):
    from refnp.training import loop

    seconds = itertools.count(0, 10)
    monkeypatch.setattr(loop.time, "monotonic", lambda: next(seconds))
    written = []
    monkeypatch.setattr(loop.files, "save", lambda path, checkpoint: written.append(checkpoint.step))
    on_point(steps=20, checkpoint=tmp_path / "c", save_seconds=45)
    # a look at the clock is 10 s, and another one sets it after each checkpoint
    assert written == [0, 5, 10, 15, 20]


def test_a_configuration_is_kept_and_compared(tmp_path):
    options = {"steps": 2, "checkpoint": tmp_path / "c"}
    on_point(configuration={"model": "Point", "options": {"sizes": (1, 2)}}, **options)
    assert load(tmp_path / "c").configuration == {"model": "Point", "options": {"sizes": [1, 2]}}
    on_point(configuration={"model": "Point", "options": {"sizes": (1, 2)}}, **options)
    with pytest.raises(ValueError, match=r"is the checkpoint of another model, .*\[1, 2\].* and this is .*\[1, 3\]"):
        on_point(configuration={"model": "Point", "options": {"sizes": (1, 3)}}, **options)
    with pytest.raises(ValueError, match=r"this is \{'model': 'Point'\}"):
        on_point(**options)


def test_a_checkpoint_of_another_run_is_refused_and_left(tmp_path):
    on_point(steps=2, checkpoint=tmp_path / "c")
    content = (tmp_path / "c").read_bytes()
    model = Point()
    with pytest.raises(ValueError, match="the optimiser was SGD, this is Adam"):
        quiet(model, downhill, Adam([model.x]), steps=5, rng=np.random.default_rng(0), checkpoint=tmp_path / "c")
    (tmp_path / "d").write_bytes(content[:-9])
    with pytest.raises(ValueError, match="cut short or damaged"):
        on_point(steps=5, checkpoint=tmp_path / "d")
    assert (tmp_path / "c").read_bytes() == content
    assert (tmp_path / "d").read_bytes() == content[:-9]


def test_a_place_that_cannot_be_written_is_found_before_the_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="save: No such file or directory"):
        on_point(lambda model, rng: pytest.fail("work was done"), steps=1, checkpoint=tmp_path / "none" / "c")


def test_a_disk_that_fills_up_stops_the_run_and_leaves_the_checkpoint(tmp_path, monkeypatch):
    def full_after_3(model, rng):
        if model.x.data == -3:
            monkeypatch.setattr(os, "fsync", fail)
        return downhill(model, rng)

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device; the checkpoint was not written"):
        on_point(full_after_3, steps=9, checkpoint=tmp_path / "c", save_seconds=0)
    assert load(tmp_path / "c").step == 3
    monkeypatch.undo()
    model, _ = on_point(steps=9, checkpoint=tmp_path / "c")
    assert model.x.data == -9


def test_a_run_that_gave_up_stays_given_up(tmp_path):
    """Its patience, too, is in the checkpoint."""
    options = {"steps": 20, "validate": valley(4), "every": 1, "checkpoint": tmp_path / "run.npz", "save_seconds": 0}
    _, first = on_point(patience=2, **options)
    model, second = on_point(lambda model, rng: pytest.fail("it went on"), patience=2, **options)
    assert_same_in_order(second, first)
    assert model.x.data == -4
    stored = load(tmp_path / "run.npz")
    assert stored.weights["x"] == -4
    assert stored.parameters["x"] == -6
    _, longer = on_point(patience=3, **options)  # one who has more goes on from where it stopped
    assert len(longer["loss"]) == 7


def test_patience_counts_over_an_interruption(tmp_path):
    options = {"validate": valley(4), "every": 1, "patience": 3, "checkpoint": tmp_path / "run.npz"}
    on_point(steps=6, **options)
    model, history = on_point(steps=20, **options)
    assert len(history["loss"]) == 7
    assert model.x.data == -4


# Ctrl-C


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals come to the main thread")
@pytest.mark.parametrize("moment", range(1, STEPS + 1))
def test_ctrl_c_stops_between_two_steps_and_the_run_goes_on_to_the_same_bits(tmp_path, moment):
    straight, resumed = make(), make()
    history = train(straight[0], loss, straight[1], rng=straight[2], **whole())
    calls = []

    def interrupted(model, rng):
        calls.append(1)
        if len(calls) == moment:
            os.kill(os.getpid(), signal.SIGINT)
        return loss(model, rng)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    options = whole(save_seconds=60) | {"checkpoint": tmp_path / "c"}
    try:
        with pytest.raises(KeyboardInterrupt, match=f"stopped after step {moment}") as stop:
            train(resumed[0], interrupted, resumed[1], rng=resumed[2], **options)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.__notes__ == [f"The checkpoint {tmp_path / 'c'} holds the run after step {moment}."]
    assert load(tmp_path / "c").step == len(calls) == moment
    resumed = make()
    parts = train(resumed[0], loss, resumed[1], rng=resumed[2], **options)
    assert_same_in_order(parts, history)
    assert_same_state(state(*resumed), state(*straight))


def test_in_another_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(on_point(steps=3)))
    thread.start()
    thread.join()
    assert results[0][0].x.data == -3
