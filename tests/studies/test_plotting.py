"""Plots: the curves that are drawn, samples that are functions, and the files."""

import dataclasses
import importlib.util

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.studies import plotting
from refnp.studies.evaluation import by_itself
from refnp.studies.plotting import drawing, panel, plot
from refnp.studies.registry import build, sampler
from refnp.studies.trained import Trained
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within
from tests.studies.exact import Exact, rounding
from tests.studies.tiny import OPTIONS

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not there")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(plotting, "POINTS", 9)
    monkeypatch.setattr(plotting, "DRAWN", 5)


def rng():
    return np.random.default_rng(6)


def made(name):
    return build(name, OPTIONS[name], rng=rng())


def test_the_exact_model_s_curves_are_the_exact_ones():
    found = panel(Exact(), sampler("eq"), 4, 2, seed=1)
    assert_within(found.mean, found.exact[0], rounding(13))
    assert_within(found.std, found.exact[1], rounding(13))
    assert found.truth is None
    assert_same_bits(found.x, np.linspace(-2.0, 2.0, 9))
    assert found.context_x.shape == found.context_y.shape == (4,)
    assert found.samples.shape == (2, 9)


def test_the_true_function_is_drawn_where_there_is_no_gaussian_process():
    found = panel(made("convcnp"), sampler("sawtooth"), 4, 0, seed=1)
    assert found.exact is None
    assert found.truth.shape == (9,)
    assert ((found.truth >= 0) & (found.truth <= 1)).all()
    assert found.samples.shape == (0, 9)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_model_has_a_panel(name):
    found = panel(made(name), sampler("rbf"), 3, 2, seed=0)
    assert np.isfinite(found.samples).all()
    assert (found.samples[0] != found.samples[1]).any()
    assert (found.std > 0).all()
    again = panel(made(name), sampler("rbf"), 3, 2, seed=0)
    assert_same_bits(again.samples, found.samples)


def test_no_context_and_another_seed():
    first, second = (panel(made("tnpd"), sampler("eq"), 0, 1, seed=s) for s in (0, 1))
    assert first.context_x.shape == (0,)
    assert_same_bits(first.mean, second.mean)
    assert (first.samples != second.samples).any()


def test_a_shift_moves_the_same_function_along():
    here, there = (panel(made("convcnp"), sampler("eq"), 3, 0, seed=0, shift=s) for s in (0.0, 8.0))
    assert_same_bits(there.context_y, here.context_y)
    assert_same_bits(there.x, here.x + 8.0)


def test_samples_pass_through_the_values_that_were_drawn():
    """Of a process with little noise, at the places where values were drawn together."""
    model, x = Exact(), np.linspace(-2, 2, 5)[None, :, None]
    model.process = dataclasses.replace(model.process, noise_std=1e-3)
    task = Task(np.zeros((1, 0, 1)), np.zeros((1, 0, 1)), x, np.zeros((1, 5, 1)))
    functions = model.functions(task, rng(), 40)[:, 0, :, 0]
    assert functions.shape == (40, 5)
    spread = functions.std(0)
    assert (spread > 0.5).all(), "they are functions of the prior, whose deviation is 1, and not its mean"
    assert (spread < 2).all()


@pytest.mark.parametrize("name", ["np", "anp"])
def test_samples_of_latent_models_are_their_components(name):
    model = made(name)
    task = Task(*(np.zeros((1, n, 1), np.float32) for n in (2, 2, 4, 4)))
    found = model.functions(task, rng(), 3)
    answer = model(task.context_x, task.context_y, task.target_x, samples=3, rng=rng())
    assert_same_bits(found, raw(answer.components.mean))
    assert raw(by_itself(model, task, rng()).mean).shape == found.shape[1:]


def trained():
    return Trained(made("cnp"), None, {"model": "cnp", "task": "eq", "seed": 0}, 5)


@needs_matplotlib
@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_files(tmp_path, suffix, begins):
    for task in ("eq", "sawtooth"):
        plot(trained(), task, tmp_path / f"{task}{suffix}", contexts=(0, 3), samples=2)
        assert (tmp_path / f"{task}{suffix}").read_bytes().startswith(begins)
    text = (tmp_path / "eq.svg").read_text() if suffix == ".svg" else "<svg"
    assert "<svg" in text


@needs_matplotlib
def test_an_svg_is_the_same_every_time(tmp_path):
    for name in ("a.svg", "b.svg"):
        plot(trained(), "eq", tmp_path / name, contexts=(2,))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@needs_matplotlib
def test_what_is_drawn():
    panels = [panel(made("cnp"), sampler("eq"), n, 2, seed=0) for n in (1, 4)]
    figure = drawing(panels)
    for axes, shown in zip(figure.axes, panels, strict=True):
        assert axes.get_title() == f"{len(shown.context_x)} context points"
        curves = {line.get_label(): line for line in axes.lines}
        assert_same_bits(curves["mean"].get_ydata(), shown.mean)
        exact = curves["exact Gaussian process: mean, 2 σ"]
        assert exact.get_linestyle() == "--"
        assert_same_bits(exact.get_ydata(), shown.exact[0])
        assert_same_bits(curves["context"].get_ydata(), shown.context_y)
        below, above = [line for line in axes.lines if line.get_linestyle() == "--"][1:]
        mean, std = shown.exact
        assert_same_bits(below.get_ydata(), mean - 2 * std)
        assert_same_bits(above.get_ydata(), mean + 2 * std)
        (band,) = axes.collections
        drawn = set(map(tuple, band.get_paths()[0].vertices))
        for sign in (-2, 2):
            assert set(zip(shown.x, shown.mean + sign * shown.std, strict=True)) <= drawn
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "2 σ",
        "samples",
        "mean",
        "exact Gaussian process: mean, 2 σ",
        "context",
    ]


@pytest.mark.parametrize(
    ("file", "settings", "message"),
    [
        ("x.gif", {}, "x.gif ends in '.gif'; give a file that ends in .png, .svg, .pdf"),
        ("x", {}, "ends in 'nothing'"),
        ("x.png", {"contexts": ()}, r"contexts are \[\]"),
        ("x.png", {"contexts": (3, -1)}, r"contexts are \[3, -1\]"),
        ("x.png", {"samples": -1}, "samples -1; they must be 0 or more"),
        ("x.png", {"seed": -1}, "seed is -1, shift 0.0; they must be 0 or more, and finite"),
        ("x.png", {"shift": np.nan}, "seed is 0, shift nan"),
    ],
)
def test_what_cannot_be_drawn(tmp_path, file, settings, message):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=message):
        plot(trained(), "eq", tmp_path / file, **settings)
    assert not list(tmp_path.iterdir())
