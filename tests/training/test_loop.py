"""The training loop: what it does at every step, when it stops, what it shows, and what it refuses."""

import time

import numpy as np
import pytest

from refnp.autograd import Tensor, is_recording
from refnp.layers.linear import MLP
from refnp.layers.module import on_tape
from refnp.training.checkpoint import load
from refnp.training.loop import train
from refnp.training.optimizers import SGD, Adam, clip_gradients
from tests.helpers import assert_same_bits
from tests.training.killed import STEPS, loss, make, validation, whole
from tests.training.runs import Point, assert_same_state, downhill, on_point, quiet, state, valley

# What a step is


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
def test_is_the_loop_that_one_would_write(dtype):
    model, optimizer, rng = make(dtype)
    history = quiet(model, loss, optimizer, steps=STEPS, rng=rng, schedule=lambda step: 0.1 / step, clip=0.5)
    ours, moves, draws = make(dtype)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        moves.zero_grad()
        with on_tape():
            value, _ = loss(ours, draws)
        value.backward()
        norms.append(float(clip_gradients(ours.parameters(), 0.5)))
        moves.learning_rate = 0.1 / step
        moves.step()
        losses.append(value.item())
    assert_same_state(state(model, optimizer, rng), state(ours, moves, draws))
    assert_same_bits(history["loss"], np.array(losses, np.float64))
    assert_same_bits(history["norm"], np.array(norms))
    assert_same_bits(history["rate"], np.array([0.1 / step for step in range(1, STEPS + 1)]))
    assert_same_bits(history["log-likelihood"], -history["loss"])
    assert list(history) == ["loss", "log-likelihood", "norm", "rate"]


def test_learns():
    model, optimizer, rng = make()
    history = quiet(model, loss, optimizer, steps=400, rng=rng, schedule=lambda step: 0.03, validate=validation)
    assert history["validation"][-1] < 0.5 * history["validation"][0]


def test_without_a_schedule_the_rate_stays():
    _, history = on_point(steps=3)
    assert history["rate"].tolist() == [1.0] * 3
    assert history["loss"].tolist() == [0.0, -1.0, -2.0]
    assert list(history) == ["loss", "rate"]


def test_figures_may_be_tensors_and_arrays_with_one_element():
    _, history = on_point(lambda model, rng: (model.x.reshape(1), {"a": model.x, "b": np.ones((1, 1))}), steps=2)
    assert history["a"].tolist() == history["loss"].tolist() == [0.0, -1.0]
    assert history["b"].tolist() == [1.0, 1.0]


def test_gradients_of_before_do_not_count():
    model = Point()
    model.x.grad = np.array(100.0)
    quiet(model, downhill, SGD([model.x], learning_rate=1.0), steps=1, rng=np.random.default_rng(0))
    assert model.x.data == -1


def test_a_part_of_the_model_may_be_trained():
    model, _, rng = make()
    before = model.state_dict()
    quiet(model, loss, Adam(model.layers[1].parameters()), steps=3, rng=rng)
    after = model.state_dict()
    assert_same_bits(after["layers.0.weight"], before["layers.0.weight"])
    assert (after["layers.1.weight"] != before["layers.1.weight"]).any()


def test_an_infinite_clip_measures_only():
    plain, _ = on_point(steps=2)
    measured, history = on_point(steps=2, clip=np.inf)
    assert history["norm"].tolist() == [1.0, 1.0]
    assert measured.x.data == plain.x.data


# Validation


def test_validation_does_not_disturb_the_training():
    plain, disturbed, other = make(), make(), make()
    quiet(plain[0], loss, plain[1], steps=STEPS, rng=plain[2])
    quiet(disturbed[0], loss, disturbed[1], steps=STEPS, rng=disturbed[2], validate=validation, every=2)
    assert_same_state(state(*disturbed), state(*plain))

    def greedy(model, rng):  # what would happen if it drew from the same generator
        return validation(model, other[2])

    quiet(other[0], loss, other[1], steps=STEPS, rng=other[2], validate=greedy, every=2)
    assert state(*other)[2] != state(*plain)[2]


def test_all_validations_see_the_same_draws_without_a_tape():
    draws = []

    def validate(model, rng):
        draws.append(rng.random(3))
        assert not is_recording()
        return 1.0

    on_point(steps=5, validate=validate, every=2)
    assert len(draws) == 3
    assert all(np.array_equal(draw, draws[0]) for draw in draws)
    assert not any(np.array_equal(draws[0], np.random.default_rng(seed).random(3)) for seed in range(100))


def test_validates_every_few_steps_and_at_the_end():
    _, history = on_point(steps=7, validate=lambda model, rng: (model.x, {"twice": 2 * model.x}), every=3)
    assert history["validation step"].tolist() == [3, 6, 7]
    assert history["validation"].tolist() == [-3, -6, -7]
    assert history["validation twice"].tolist() == [-6, -12, -14]
    _, history = on_point(steps=6, validate=lambda model, rng: model.x, every=3)
    assert history["validation step"].tolist() == [3, 6]


@pytest.mark.parametrize(
    ("patience", "steps_done", "x"), [(1, 5, -4), (2, 6, -4), (3, 7, -4), (np.inf, 20, -4), (None, 20, -20)]
)
def test_patience(patience, steps_done, x):
    model, history = on_point(steps=20, validate=valley(4), every=1, patience=patience)
    assert len(history["loss"]) == steps_done
    assert model.x.data == x


def test_a_validation_that_is_as_good_is_no_better():
    model, history = on_point(steps=20, validate=lambda model, rng: 1.0, every=1, patience=3)
    assert len(history["loss"]) == 4
    assert model.x.data == -1


# What is not finite


def bad_at(step, bad, gradient=False):
    def loss(model, rng):
        value = downhill(model, rng)
        if model.x.data != 1 - step:
            return value
        return value * bad if not gradient else (model.x + (step - 1.0)) ** 0.5  # finite itself, infinitely steep

    return loss


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_stops(tmp_path, bad):
    with pytest.raises(FloatingPointError, match=r"the loss of step 4 is (nan|-inf), though all parameters") as stop:
        on_point(bad_at(4, bad), steps=9, checkpoint=tmp_path / "c", save_seconds=0)
    assert stop.value.__notes__ == [f"The checkpoint {tmp_path / 'c'} holds the run after step 3."]
    stored = load(tmp_path / "c")
    assert stored.step == 3
    assert stored.parameters["x"] == -3


def test_a_gradient_that_is_not_finite_is_named_where_gradients_are_measured(tmp_path):
    with pytest.raises(FloatingPointError, match="train: step 4: clip_gradients: the gradient of x is inf"):
        on_point(bad_at(4, 0, gradient=True), steps=9, clip=np.inf, checkpoint=tmp_path / "c", save_seconds=0)
    assert load(tmp_path / "c").parameters["x"] == -3


@pytest.mark.parametrize("save_seconds", [0, 60])
@pytest.mark.parametrize("steps", [4, 9])
def test_a_parameter_that_is_not_finite_is_never_saved(tmp_path, save_seconds, steps):
    """Without clipping gradients are not checked; parameters are, before they are saved or returned."""
    with pytest.raises(FloatingPointError, match=r"the parameter x is not finite after step 4|the loss of step 5"):
        on_point(bad_at(4, 0, gradient=True), steps=steps, checkpoint=tmp_path / "c", save_seconds=save_seconds)
    assert load(tmp_path / "c").parameters["x"] == (-3 if save_seconds == 0 else 0)
    with pytest.raises(FloatingPointError, match="the parameter x is not finite after step 4"):
        on_point(bad_at(4, 0, gradient=True), steps=steps)


def test_a_validation_that_is_nan_stops():
    with pytest.raises(FloatingPointError, match="the validation after step 2 is nan"):
        on_point(steps=9, validate=lambda model, rng: np.nan, every=2)
    _, history = on_point(steps=2, validate=lambda model, rng: np.inf, every=2)
    assert history["validation"].tolist() == [np.inf]


# Speed, show, errors


class Nothing(SGD):
    def step(self):
        pass


class Still(Tensor):
    def backward(self):
        pass


def test_costs_less_than_a_hundredth_of_a_step_of_10_ms():
    """The time of the loop itself, around a loss and an optimiser that do nothing, with 150 parameters."""
    model = MLP([1] * 76, rng=np.random.default_rng(0))
    value, optimizer = Still(1.0), Nothing(model.parameters(), learning_rate=0.1)
    steps, best = 2000, np.inf
    for _ in range(3):
        start = time.process_time()
        quiet(
            model, lambda model, rng: (value, {"a": 1.0, "b": 2.0}), optimizer,
            steps=steps, rng=np.random.default_rng(0), schedule=lambda step: 0.1 / step,
        )  # fmt: skip
        best = min(best, (time.process_time() - start) / steps)
    assert best < 1e-2 * 10e-3


def test_shows_figures_on_standard_error_only(capsys):
    model, optimizer, rng = make()
    train(model, loss, optimizer, rng=rng, **whole(show=True))
    output, errors = capsys.readouterr()
    assert output == ""
    for words in (f"step {STEPS}/{STEPS}", "loss ", "log-likelihood -", "validation ", "(best ", "rate ", "steps/s"):
        assert words in errors
    quiet(model, loss, optimizer, steps=1, rng=rng)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"steps": 0}, ValueError, "steps is 0; it must be a whole number"),
        ({"steps": 2.5}, ValueError, "steps is 2.5"),
        ({"every": 0}, ValueError, "every is 0"),
        ({"clip": 0.0}, ValueError, "clip is 0.0; it must be positive, or None"),
        ({"clip": np.nan}, ValueError, "clip is nan"),
        ({"patience": 3}, ValueError, "patience counts validations; pass validate too"),
        ({"patience": 0, "validate": downhill}, ValueError, "patience is 0"),
        ({"save_seconds": -1}, ValueError, "save_seconds is -1"),
        ({"rng": 3}, TypeError, r"rng is a int; pass np.random.default_rng\(seed\)"),
        ({"schedule": lambda step: -1.0}, ValueError, r"schedule\(1\) is -1.0"),
        ({"schedule": lambda step: np.nan}, ValueError, r"schedule\(1\) is nan"),
        (
            {"loss": lambda model, rng: 1.0},
            TypeError,
            "loss returned a float; it must return a Tensor with one element",
        ),
        ({"loss": lambda model, rng: None}, TypeError, "loss returned a NoneType"),
        ({"loss": lambda model, rng: (model.x, 1)}, TypeError, "loss returned a tuple"),
        ({"loss": lambda model, rng: model.x * np.ones(2)}, TypeError, r"the loss is a Tensor of shape \(2,\)"),
        ({"loss": lambda model, rng: Tensor(1.0)}, RuntimeError, "nothing behind this tensor needs a gradient"),
        ({"loss": lambda model, rng: (model.x, {"rate": 1})}, ValueError, "loss returned a figure called 'rate'"),
        ({"validate": lambda model, rng: np.ones(2)}, TypeError, r"the validation is a ndarray of shape \(2,\)"),
        ({"validate": lambda model, rng: None}, TypeError, "the validation is a NoneType; it must be one real"),
        ({"loss": lambda model, rng: (model.x, {"a": "b"})}, TypeError, "loss's figure 'a' is a str; it must be one"),
        ({"configuration": {"a": max}, "checkpoint": "c"}, TypeError, "not JSON serializable"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, monkeypatch, options, error, message):
    monkeypatch.chdir(tmp_path)
    model = Point()
    arguments = {"loss": downhill, "optimizer": SGD([model.x], learning_rate=1.0)}
    arguments |= {"steps": 1, "rng": np.random.default_rng(0)} | options
    with pytest.raises(error, match=message):
        quiet(model, **arguments)
    assert model.x.data == (0 if "validate" not in options or "patience" in options else -1)


def test_an_optimiser_of_another_model_is_refused():
    model, other = Point(), Point()
    with pytest.raises(ValueError, match=r"optimizer.parameters\[0\] is no parameter of the Point"):
        quiet(model, downhill, SGD([other.x], learning_rate=1.0), steps=1, rng=np.random.default_rng(0))
