"""examples/image_completion.py runs, prints a row for each model, draws its picture; its tables rest on truths."""

import sys

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
from examples import image_completion as example


def test_runs(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "images.png"
    options = ["--steps", "1", "--seeds", "2", "--tests", "3", "--each", "4", "--floor", "0.1", "--out", str(picture)]
    monkeypatch.setattr(sys, "argv", ["image_completion.py", *options])
    monkeypatch.setattr(example, "LEARNED", ("latin",))
    monkeypatch.setattr(example, "NEW", ("hebrew",))
    example.main()
    lines = capsys.readouterr().out.splitlines()
    rows = {cells[1].strip(): cells[2:] for cells in (line.split("│") for line in lines) if len(cells) > 3}
    trained = ("CNP, seed 0, ", "TNP-D, seed 0, ", "ConvCNP, seed 0, ", "ConvCNP, seed 1, ")
    for name in ("mean image", "linear regression", "Gaussian process", "nearest images", *trained):
        (scored,) = (cells for own, cells in rows.items() if own.startswith(name))
        log_p, rmse = np.array(scored[:3], float), np.array(scored[3:6], float)
        assert (log_p < -np.log(0.1 * np.sqrt(2 * np.pi))).all()  # the floor's bound
        assert ((rmse > 0) & (rmse < 1)).all()
    assert "±" in rows["ConvCNP, all seeds"][0]
    assert all(len(rows[name]) == 5 for name in ("ConvCNP", "TNP-D", "CNP"))
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_moving_a_character_changes_what_the_others_say_and_not_the_conv_cnp():
    task = example.questions(example.drawn(("nko",), 1, 0), 78, 2)
    changes = {name: float(example.moved_row(example.model(name, 0.05, 0), task)[-1]) for name in example.RATES}
    assert changes["ConvCNP"] < 100 * np.spacing(np.float32(1))
    assert changes["TNP-D"] > 0.01


def test_linear_regression_is_the_exact_answer_for_images_that_are_normal():
    """Where all pixels of an image are equal, one that is known says what the others are; without it, σ is theirs."""
    rng = np.random.default_rng(0)
    images = np.full((400, 28, 28), 0.5) + 0.2 * rng.standard_normal((400, 1, 1))
    task, pixels = example.questions(images, 1, 50), images.reshape(400, -1)
    given = example.asked(example.Fitted(pixels.mean(0), np.cov(pixels.T), 0.01), task)
    alone = example.asked(example.MeanImage(images, 0.01), task)
    # with variances s² of an image and f² of a pixel, a mean is drawn by f²/(s² + f²) < 0.3 % towards that of all
    assert example.scores(given, task)[1] < 0.003 * 4 * 0.2
    assert 0.15 < example.scores(alone, task)[1] < 0.25
    assert np.allclose(given.std**2, 0.01**2 * (1 + 1), rtol=0.01)  # its own f², and that of the pixel known


def test_nearest_images_know_an_image_that_they_hold_fifty_times():
    images = np.concatenate([np.repeat(example.drawn(("nko",), 1, 0)[:1], 50, 0), example.drawn(("lao",), 1, 0)])
    task = example.questions(images[:1], 78, 1)
    answer = example.asked(example.Nearest(images, 0.05), task)
    assert np.abs(answer.mean - task.target_y).max() < 1e-12
    assert (answer.std == 0.05).all()


def test_known_pixels_stand_where_they_are():
    images = np.arange(784).reshape(1, 28, 28) / 784
    task = example.questions(images, 392, 1)
    known = example.as_image(task.context_x[0], task.context_y[0, :, 0])
    wanted = example.as_image(task.target_x[0], task.target_y[0, :, 0])
    assert (np.isnan(known) != np.isnan(wanted)).all()
    assert (np.where(np.isnan(known), wanted, known) == images[0]).all()


def test_training_moves_downhill():
    images = example.drawn(("nko",), 2, 0)
    task, model = example.questions(images, 78, 4), example.model("ConvCNP", 0.05, 0)
    before = example.scores(example.asked(model, task), task)[0]
    example.fit(model, images, 8, 2e-3, seed=0)
    assert example.scores(example.asked(model, task), task)[0] > before + 0.01
