"""examples/regression.py trains, compares and draws; trained models can be compared instead."""

import inspect
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
from examples import regression
from refnp.layers.mixture import Mixture
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.models.chain_rule import ChainRule, OneByOne
from refnp.models.latent import LatentModel
from refnp.models.neural_process import NeuralProcess
from refnp.models.tnp import TNPA
from refnp.studies import plotting
from refnp.studies.plotting import Panel
from refnp.studies.registry import MODELS, build
from refnp.studies.trained import open_trained
from refnp.tasks.task import Task
from tests.studies.tiny import OPTIONS


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run it with options; what it printed, by the first word of each row of its table."""
    monkeypatch.setattr(regression.os, "environ", dict(os.environ))

    def run(*options):
        picture = tmp_path / "regression.png"
        monkeypatch.setattr(sys, "argv", ["regression.py", *options, "--tasks", "8", "--out", str(picture)])
        regression.main()
        assert picture.read_bytes().startswith(b"\x89PNG")
        rows = [line.strip("│ ").split("│") for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
        return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}

    return run


def test_trains_in_other_processes(run):
    rows = run("--models", "cnp", "np", "--steps", "2", "--workers", "1")
    assert list(rows) == ["cnp", "np", "exact"]
    assert rows["cnp"][:2] == ["116,354", "2"]
    assert rows["cnp"][5] == ""  # it has no joint likelihood, a latent model has
    assert float(rows["np"][5]) < float(rows["exact"][5])
    assert float(rows["exact"][6]) < float(rows["cnp"][6])


def test_trained_models_are_compared(run):
    rows = run("tnpd", "tetnp")
    assert rows["tnpd"][:2] == ["222,082", str(open_trained("tnpd").steps)]
    shifted = {name: float(rows[name][4]) - float(rows[name][3]) for name in ("tnpd", "tetnp", "exact")}
    assert shifted["tetnp"] == shifted["exact"] == 0
    assert shifted["tnpd"] < -1


def test_what_is_shown_together_is_in_the_guide():
    """Nine of the models; the others are trained when they are named."""
    guide = (Path(__file__).parents[2] / "docs" / "regression.md").read_text(encoding="utf-8")
    assert set(regression.NAMES) <= set(MODELS)
    for name in regression.NAMES:
        assert re.search(rf"^\W*{name}\b", guide, re.MULTILINE)


def test_distance_from_the_exact_posterior():
    x, ones = np.arange(3.0), np.ones(3)
    shown = Panel(x, x + 1, 2 * ones, np.zeros((0, 3)), x, x, (x - 1, 4 * ones), None)
    assert regression.from_exact(shown) == ("2.000", "0.50")
    assert regression.from_exact(Panel(x, x, ones, np.zeros((0, 3)), x, x, None, x)) == ("", "")


# ---- which samples are autoregressive


def how_it_draws(name, monkeypatch):
    """The row of the table in docs/regression.md that describes what `functions` of a model does."""
    model, made = build(name, OPTIONS[name], rng=np.random.default_rng(0)), []
    monkeypatch.setattr(OneByOne, "__init__", recorded(OneByOne.__init__, made))
    task = Task(*(np.zeros((1, n, 1), np.float32) for n in (2, 2, 4, 4)))
    assert model.functions(task, np.random.default_rng(1), 2).shape == (2, 1, 4, 1)
    joint = model.joint(task)
    if isinstance(model, LatentModel):
        assert not made[:-1], "the last is that of `joint` above"
        assert isinstance(model(*model.inputs(task), samples=2, rng=np.random.default_rng(0)), Mixture)
        return "one z for each curve", "no"
    if isinstance(joint, MultivariateNormal):
        assert not made
        return "40 values at once", "no"
    assert isinstance(joint, ChainRule)
    if isinstance(model, TNPA):
        assert not made
        return "40 values in the same way", "yes, by itself"
    assert made
    return "40 values one after the other", "yes, by the chain rule"


def recorded(method, calls):
    """The method, and a note of each call."""

    def call(self, *arguments, **options):
        if type(self) is OneByOne:  # and not a model that is all factors in one pass
            calls.append(self)
        return method(self, *arguments, **options)

    return call


@pytest.mark.parametrize("name", regression.NAMES)
def test_the_guide_says_which_samples_are_autoregressive(name, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "regression.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines() if line[:2] == "| "]
    (row,) = [row for row in rows if name in row[0].split(", ")]
    how, autoregressive = how_it_draws(name, monkeypatch)
    assert row[1].startswith(how)
    assert row[2].startswith(autoregressive)


def test_forty_values_are_drawn():
    assert inspect.signature(NeuralProcess.functions).parameters["places"].default == 40
    assert plotting.DRAWN == 40
