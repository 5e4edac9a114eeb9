"""`refnp train` from a program: what a step is, the oracle gap, resuming to the same bits, and what is refused."""

import numpy as np
import pytest

from refnp.studies import training
from refnp.studies.registry import MODELS, sampler
from refnp.studies.training import Study, figures, outcome, plan, run, steps_done
from refnp.training.checkpoint import Checkpoint, load, save
from tests.helpers import assert_same_bits
from tests.studies.tiny import OPTIONS, few_points
from tests.training.runs import assert_same_checkpoint

CNP = {"hidden": 8}


@pytest.fixture(autouse=True)
def short_validations(monkeypatch):
    monkeypatch.setattr(training, "VALIDATION_BATCHES", 1)


def small(model="cnp", task="eq", **settings):
    return Study(model, task, options=OPTIONS[model], batch=2, **settings)


def quiet(study, file, steps, **settings):
    return run(study, steps=steps, checkpoint=str(file), show=False, **settings)


def assert_same_run(first, second):
    assert_same_checkpoint(load(first), load(second))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains(name, tmp_path):
    history = quiet(small(name), tmp_path / "c.npz", 2)
    assert list(history)[:3] == ["loss", "log-likelihood", "oracle gap"]
    assert_same_bits(history["log-likelihood"], -history["loss"])
    assert {"validation", "validation oracle gap"} <= set(history)
    assert np.isfinite(list(history["loss"])).all()


@pytest.mark.parametrize(("name", "kind"), [("cnp", "marginal"), ("tnpa", "joint"), ("np", "joint")])
def test_the_gap_is_to_the_oracle_of_the_same_kind(name, kind):
    study = small(name)
    model, tasks, rng = study.new()
    task, posterior = tasks.sample_with_posterior(rng, 3)
    loss = model.loss(task.astype(np.float32), rng=rng)
    found = figures(model, loss, posterior)
    exact = getattr(posterior, f"{kind}_log_likelihood")()  # every task has the same number of targets
    terms = 4 * len(exact) * np.finfo(float).eps * np.abs(exact).sum()
    assert abs(found["oracle gap"] + found["log-likelihood"] - exact.mean()) <= terms
    assert found["log-likelihood"] == -loss.item()


def test_tasks_weigh_in_the_gap_as_they_do_in_the_loss():
    """By their number of targets, where these differ."""
    model, _, rng = small().new()
    task, posterior = few_points(ragged=True).sample_with_posterior(rng, 3)
    assert len(set(posterior.targets)) > 1
    loss = model.loss(task.astype(np.float32), rng=rng)
    exact = posterior.marginal_log_likelihood() * posterior.targets
    bound = 8 * np.finfo(float).eps * np.abs(exact).sum()
    assert (
        abs(figures(model, loss, posterior)["oracle gap"] - loss.item() - exact.sum() / posterior.targets.sum())
        <= bound
    )


def test_the_loop_is_told_rates_and_clip(tmp_path, monkeypatch):
    told = {}
    monkeypatch.setattr(training.loop, "train", lambda **settings: told.update(settings))
    study = small(clip=0.25, learning_rate=0.5)
    quiet(study, tmp_path / "c.npz", 60, every=7)
    assert told["clip"] == 0.25
    assert told["every"] == 7
    rates = [told["schedule"](step) for step in (1, 2, 30, 60, 61)]
    assert rates == [study.rate(step, 60) for step in (1, 2, 30, 60, 61)]
    assert len(set(rates)) == 5


def test_no_gap_where_there_is_no_gaussian_process(tmp_path):
    history = quiet(small("cnp", "sawtooth"), tmp_path / "c.npz", 2)
    assert not [name for name in history if "gap" in name]
    assert "gap" not in outcome(history)


@pytest.mark.parametrize("name", ["cnp", "np", "tnpd", "convcnp"])
def test_continued_to_the_same_bits(name, tmp_path):
    """Latent models draw from the same generator as the tasks."""
    study = small(name, schedule="constant")
    quiet(study, tmp_path / "whole.npz", 5, every=2)
    for steps in (2, 5):
        quiet(study, tmp_path / "parts.npz", steps, every=2)
    assert_same_run(tmp_path / "whole.npz", tmp_path / "parts.npz")


def test_the_seed_is_that_of_weights_and_tasks(tmp_path):
    files = [tmp_path / f"{i}.npz" for i in range(3)]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        quiet(small(seed=seed), file, 2)
    assert_same_run(files[0], files[1])
    first, other = load(files[0]), load(files[2])
    assert all((first.parameters[name] != other.parameters[name]).any() for name in first.parameters)
    assert (first.history["loss"] != other.history["loss"]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype(dtype, tmp_path):
    quiet(small(dtype=dtype), tmp_path / "c.npz", 2)
    stored = load(tmp_path / "c.npz")
    assert {array.dtype for array in stored.parameters.values()} == {np.dtype(dtype)}


def test_a_clip_of_infinity_clips_nothing_and_is_json(tmp_path):
    quiet(small(clip=np.inf), tmp_path / "c.npz", 2)
    assert load(tmp_path / "c.npz").configuration["clip"] is None
    assert steps_done(small(clip=np.inf), str(tmp_path / "c.npz")) == 2


def test_rates():
    constant, cosine = (Study("cnp", "eq", schedule=name, learning_rate=1.0) for name in ("constant", "cosine"))
    assert [constant.rate(step, 7) for step in (1, 50, 100, 5000)] == [0.01, 0.5, 1.0, 1.0]
    rates = [cosine.rate(step, 200) for step in range(1, 202)]
    assert rates[:10] == [s / 10 for s in range(1, 11)]
    assert rates == [*sorted(rates[:10]), *sorted(rates[10:], reverse=True)]
    assert rates[199] > 0 == rates[200]


def test_every_default_rate_is_the_model_s():
    for name, kind in MODELS.items():
        assert Study(name, "eq").configuration()["learning_rate"] == kind.learning_rate


def test_words():
    assert plan(0, 7) == "steps 1 to 7"
    assert plan(3, 7) == "steps 4 to 7"
    assert plan(7, 7) == plan(7, 3) == "all 7 steps are done"


def test_another_run_is_refused_with_what_differs(tmp_path):
    file = str(tmp_path / "c.npz")
    assert steps_done(small(), file) == 0
    quiet(small(), file, 2)
    assert steps_done(small(), file) == 2
    with pytest.raises(
        ValueError, match=r"another run: seed 0 there, 1 here\. Give another --checkpoint, or --restart"
    ):
        steps_done(small(seed=1), file)
    with pytest.raises(ValueError, match="task 'eq' there, 'matern' here"):
        steps_done(small(task="matern"), file)
    save(file, Checkpoint({"a": np.ones(1)}, {"no": "names"}))
    with pytest.raises(ValueError, match="another run: model None there, 'cnp' here"):
        steps_done(small(), file)


def test_restart_replaces(tmp_path):
    file = tmp_path / "c.npz"
    quiet(small(), file, 2)
    quiet(small(seed=3), file, 1, resume=False)
    assert load(file).configuration["seed"] == 3
    assert load(file).step == 1


def test_options_that_only_the_first_call_refuses_leave_no_file(tmp_path):
    with pytest.raises(ValueError, match="floor is 2; it must lie in"):
        quiet(Study("cnp", "eq", options={"floor": 2}), tmp_path / "c.npz", 2)
    assert not (tmp_path / "c.npz").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "cpn"}, "no model 'cpn'"),
        ({"task": "eqq"}, "no task 'eqq'"),
        ({"options": {"hiden": 1}}, "no option 'hiden'"),
        ({"schedule": "cos"}, "no schedule 'cos'; did you mean cosine"),
        ({"dtype": "float16"}, "no dtype 'float16'"),
        ({"batch": 0}, "batch is 0; it must be positive"),
        ({"learning_rate": -1.0}, "learning rate is -1.0; it must be positive"),
        ({"learning_rate": np.nan}, "learning rate is nan"),
        ({"clip": 0.0}, "clip is 0.0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_makes_no_study(settings, message):
    with pytest.raises(ValueError, match=message):
        Study(**{"model": "cnp", "task": "eq"} | settings)


def test_training_brings_the_model_nearer_to_the_oracle(tmp_path):
    history = quiet(Study("cnp", "eq", options=CNP, learning_rate=1e-2), tmp_path / "c.npz", 40, every=39)
    first, last = history["oracle gap"][:10].mean(), history["oracle gap"][-10:].mean()
    assert 0 < last < first
    assert sampler("eq").places.context == (0, 30), "the published protocol"
    assert "oracle gap" in outcome(history)


@pytest.mark.parametrize("objective", ["deepmind", "tnp_pytorch"])
def test_another_objective_has_no_oracle_gap(objective, tmp_path):
    """Its loss covers the context too, the exact posterior's likelihood the targets alone."""
    study = Study("np", "eq", options=OPTIONS["np"] | {"objective": objective}, batch=2)
    history = quiet(study, tmp_path / "c.npz", 2)
    assert "oracle gap" not in history
    assert np.isfinite(history["loss"]).all()
