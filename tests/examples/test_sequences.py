"""examples/sequences.py runs, for every task, and says what it found; trained for a moment, it knows little."""

import re
from dataclasses import replace

import numpy as np
import pytest

from examples import sequences
from refnp.tasks.sequences import Reverse


@pytest.mark.parametrize("task", ["copy", "reverse", "sort", "dates"])
def test_runs(task, capsys):
    sequences.main([task, "--steps", "2", "--asked", "5"])
    printed, progress = capsys.readouterr()
    assert re.match(
        rf"{task} +\d+ parameters +2 steps +\d+ s +loss \d\.\d{{4}} +right from end to end: 0\.\d+ of 5\n", printed
    )
    assert printed.count("→") == 3
    assert "step 2/2" in progress


def test_learns_a_little():
    """To reverse two symbols takes a hundred steps or so."""
    study = sequences.STUDIES["reverse"]
    short = replace(study, training=Reverse(4, 2), test=Reverse(4, 2))
    assert sequences.run("reverse", short, seed=0, steps=150, asked=50) == 1


def test_answers_that_are_right_are_counted_right():
    study = sequences.STUDIES["sort"]
    batch = study.test.sample(np.random.default_rng(0), 4)
    right = sequences.right_answers(batch, study.end)
    assert [list(answer) for answer in right] == study.test.answer(batch.source).tolist()
    copies = sequences.STUDIES["copy"]
    batch = copies.test.sample(np.random.default_rng(0), 50)
    assert {len(answer) for answer in sequences.right_answers(batch, copies.end)} == {9}


def test_an_unknown_task_is_an_error(capsys):
    with pytest.raises(SystemExit) as stop:
        sequences.main(["reverse", "sing"])
    assert stop.value.code == 2
    assert "there is no task sing; there are copy, reverse, sort, dates" in capsys.readouterr().err
