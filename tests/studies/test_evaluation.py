"""Evaluation, judged by a model that is the exact posterior, and by one that is wrong in a known way."""

import json
import math

import numpy as np
import pytest

from refnp.studies.evaluation import BATCH, COVERAGES, PLACES, Figure, as_json, evaluate, figures_on, summary
from refnp.studies.registry import build
from tests.helpers import assert_same_arrays, assert_within
from tests.studies.exact import Exact, rounding
from tests.studies.tiny import OPTIONS, few_points, spoiled

EPS = np.finfo(float).eps
MARGINAL, JOINT = "marginal log-likelihood", "joint log-likelihood"
POINTS = 11  # contexts and targets of a task at most


def rng():
    return np.random.default_rng(4)


@pytest.fixture(scope="module")
def exact():
    return evaluate(Exact(), few_points(), count=640, seed=1, autoregressive=True)


def test_the_exact_posterior_is_at_no_distance(exact):
    for figures in exact.values():
        for name in ("marginal gap", "joint gap", "KL together"):
            assert abs(figures[name].mean) <= rounding(POINTS), name
        assert abs(figures["KL by itself"].mean - figures["exact KL by itself"].mean) <= rounding(POINTS)
        assert abs(figures["RMSE"].mean - figures["exact RMSE"].mean) <= rounding(POINTS)
        assert figures[JOINT].mean > figures[MARGINAL].mean, "targets know of each other"


def test_its_intervals_hold_what_they_should(exact):
    """With a fixed seed; 4 standard errors."""
    for figures in exact.values():
        for percent in COVERAGES:
            found = figures[f"coverage {percent} %"]
            assert abs(found.mean - percent / 100) < 4 * found.error < 0.2


def test_a_shift_changes_nothing_but_roundings_of_places(exact):
    """x + 4 is rounded by 4 ε, which moves an element of the matrix by at most (4 ε/ℓ) e^(−½)."""
    moved = 2 * 4 * 4 * EPS / 0.25 * POINTS**2 / 0.05
    for name in (MARGINAL, JOINT, "KL by itself"):
        there, here = (exact[place][name].mean for place in ("shifted", "inside"))
        assert abs(there - here) <= moved + rounding(POINTS)
        assert exact["beyond"][name].mean != here


def test_tasks_have_counts_of_their_own_even_if_batches_share_them_in_training():
    model = build("cnp", OPTIONS["cnp"], rng=np.random.default_rng(0))
    assert evaluate(model, few_points(), count=20) == evaluate(model, few_points(ragged=True), count=20)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"shift": np.nan}, {"shift": -np.inf}])
def test_seeds_and_shifts_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match=r"^evaluate: seed is .*, shift .*; they must be 0 or more, and finite$"):
        evaluate(Exact(), few_points(), count=2, **wrong)


def test_deviations_twice_as_large_cost_what_the_formula_says():
    """KL(N(μ, σ²) ‖ N(μ, (2σ)²)) = log 2 + 1/8 − 1/2 for each target, whatever σ; intervals hold too much."""
    figures = evaluate(Exact(wide=2.0), few_points(), count=160)["inside"]
    excess = figures["KL by itself"].mean - figures["exact KL by itself"].mean
    assert abs(excess - (math.log(2) - 3 / 8)) <= rounding(POINTS)
    within = figures["coverage 50 %"]
    assert abs(within.mean - math.erf(2 * 0.6744897501960817 / math.sqrt(2))) < 4 * within.error
    assert within.mean - 0.5 > 8 * within.error


@pytest.mark.parametrize("name", OPTIONS)
def test_every_model_has_figures(name):
    model = build(name, OPTIONS[name], rng=rng())
    figures = figures_on(model, *few_points(ragged=True).sample_with_posterior(rng(), 3), rng(), False)
    joint = name in ("tnpa", "tnpnd", "convgnp", "np", "anp")
    assert (JOINT in figures) == ("joint gap" in figures) == ("KL together" in figures) == joint
    assert ("KL by itself" in figures) == (name not in ("np", "anp", "bnp", "banp"))
    assert {values.shape for values in figures.values()} == {(3,)}
    assert np.isfinite(list(figures.values())).all()
    assert {"squared error", "exact squared error", *(f"coverage {p} %" for p in COVERAGES)} <= set(figures)


def test_figures_written_out():
    """Each as a sum over the targets that are present."""
    tasks, model = few_points(ragged=True), Exact()
    task, posterior = tasks.sample_with_posterior(rng(), 4)
    figures = figures_on(model, task, posterior, rng(), False)
    rows = []
    for b in range(4):
        n = task.target_mask[b].sum()
        y, mean, std = task.target_y[b, :n, 0], posterior.mean[b, :n, 0], posterior.std[b, :n]
        z = (y - mean) / std
        density = -0.5 * z * z - np.log(std) - 0.5 * math.log(2 * math.pi)
        rows.append([density.mean(), ((y - mean) ** 2).mean(), (np.abs(z) <= 1.6448536269514722).mean()])
    found = [figures[name] for name in (MARGINAL, "squared error", "coverage 90 %")]
    assert_within(found, np.transpose(rows), rounding(POINTS))


def test_what_masks_hide_has_no_part():
    tasks, model = few_points(ragged=True), build("cnp", OPTIONS["cnp"], rng=rng())
    task, posterior = tasks.sample_with_posterior(rng(), 3)
    ours, theirs = (figures_on(model, t, posterior, rng(), True) for t in (task, spoiled(task)))
    assert_same_arrays(ours, theirs)


def test_without_an_oracle():
    places = evaluate(build("cnp", OPTIONS["cnp"], rng=rng()), few_points("sawtooth"), count=2)
    assert list(places) == list(PLACES)
    assert set(places["inside"]) == {MARGINAL, "RMSE", *(f"coverage {p} %" for p in COVERAGES)}


def test_the_seed_is_that_of_the_tasks_and_every_batch_is_watched():
    model, seen = build("np", OPTIONS["np"], rng=rng()), []

    def watched(steps):
        for step in steps:
            seen.append(step)
            yield step

    first, again, other = (evaluate(model, few_points(), count=BATCH + 1, seed=s, watched=watched) for s in (0, 0, 1))
    assert first == again != other
    assert [size for _, size in seen] == [BATCH, 1] * len(PLACES) * 3


def test_means_and_standard_errors():
    one, two = ({"a": np.array(a), "squared error": np.full(len(a), 4.0)} for a in ([1.0], [3.0, 2.0]))
    (a, rmse) = summary([one, two]).values()
    assert a.mean == rmse.mean == 2.0
    assert abs(a.error - 3**-0.5) <= 4 * EPS
    assert rmse.error == 0
    assert summary([{"squared error": np.zeros(2)}]) == {"RMSE": Figure(0.0, 0.0)}
    (found,) = summary([{"exact squared error": np.array([1.0, 7.0])}]).values()
    assert found.mean == 2.0
    assert abs(found.error - 3.0 / (2 * 2.0)) <= 4 * EPS, "the error of a root, to first order"


def test_one_task_has_no_standard_error():
    with pytest.raises(ValueError, match="count is 1; a standard error needs at least 2 tasks"):
        evaluate(Exact(), few_points(), count=1)


def test_json_has_no_nan():
    text = json.dumps(as_json({"inside": {"a": Figure(1.0, 0.5), "b": Figure(math.nan, math.inf)}}), allow_nan=False)
    assert json.loads(text)["inside"] == {"a": {"mean": 1.0, "error": 0.5}, "b": {"mean": None, "error": None}}
