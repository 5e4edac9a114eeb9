"""examples/predator_prey.py asks the real series as it says, judges rightly, and draws its picture."""

import itertools
import math
import sys

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
from examples import predator_prey
from refnp.layers.distributions import Normal
from refnp.tasks.predator_prey import lynx_hare
from refnp.tasks.task import Task


def test_runs(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "lynx.png"
    monkeypatch.setattr(predator_prey, "WORLDS", 16)
    monkeypatch.setattr(sys, "argv", ["predator_prey.py", "--steps", "2", "--out", str(picture)])
    predator_prey.main()
    printed = capsys.readouterr().out
    (between,) = [line for line in printed.splitlines() if "between: " in line]
    assert " 8.6 " in between  # straight lines between neighbours, whatever was learned
    years = [line for line in printed.splitlines() if "│ 1913 │" in line]
    assert len(years) == 2  # asked for in both panels
    assert all(" 76.6 " in line and " 19.5 " in line for line in years)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_real_series_is_asked_year_by_year():
    years, pelts = lynx_hare()
    task = predator_prey.between()
    for b in range(21):
        assert task.target_x[b, 0, 0] == years[b] - 1900
        np.testing.assert_array_equal(task.target_y[b, 0], pelts[b])
        np.testing.assert_array_equal(task.context_y[b], np.delete(pelts, b, 0))


def test_the_future_is_never_in_the_context():
    tasks = predator_prey.ahead()
    assert [len(task.context_x[0]) for task in tasks] == list(range(9, 18))
    for task in tasks:
        last = task.context_x.max()
        np.testing.assert_array_equal(task.target_x[0, :, 0], last + np.arange(1, 5))


def test_straight_lines_in_z():
    task = Task([[[0.0], [4.0]]], [[[0.0, 3.0], [math.e - 1, 3.0]]], [[[1.0], [9.0]]], [[[0.0, 0.0], [0.0, 0.0]]])
    guess = predator_prey.neighbours(task)
    np.testing.assert_allclose(guess, [[[math.exp(0.25) - 1, 3], [math.e - 1, 3]]], rtol=1e-15)


def test_judged_by_the_density_of_y(monkeypatch):
    """The figures from loops over values, with the density of y by a difference of the distribution function."""
    task = predator_prey.between()[:4]
    rng = np.random.default_rng(0)
    said = Normal(rng.uniform(2, 4, task.target_y.shape), rng.uniform(0.2, 0.6, task.target_y.shape))
    monkeypatch.setattr(predator_prey, "answers", lambda model, task: said)

    def below(y, mean, std):
        return 0.5 * math.erfc((mean - math.log1p(y)) / (std * math.sqrt(2)))

    logs, squares, inside = [], [], []
    for place in itertools.product(*map(range, task.target_y.shape)):
        y, mean, std = (array[place] for array in (task.target_y, said.mean, said.std))
        logs.append(math.log((below(y + 1e-4, mean, std) - below(y - 1e-4, mean, std)) / 2e-4))
        squares.append((math.exp(mean) - 1 - y) ** 2)
        inside.append(0.025 <= below(y, mean, std) <= 0.975)
    found = predator_prey.judged(None, [task])
    wanted = [f"{np.mean(logs):.2f}", f"{np.mean(squares) ** 0.5:.1f}", f"{np.mean(inside):.0%}"]
    assert [found[0], found[1], found[3]] == wanted


def test_an_interval_has_the_median_inside_and_nothing_below_zero():
    low, middle, high = predator_prey.interval(Normal(np.array([0.1, 3.0]), np.array([1.0, 0.1])))
    assert low[0] == 0
    assert (low < middle).all()
    assert (middle < high).all()


def test_batches_are_worlds_in_logs():
    (task,) = itertools.islice(predator_prey.batches(np.random.default_rng(3)), 1)
    worlds = predator_prey.SIMULATED.sample(np.random.default_rng(3), predator_prey.WORLDS)
    np.testing.assert_array_equal(task.target_y, np.log1p(worlds.target_y[: predator_prey.BATCH]).astype(np.float32))
