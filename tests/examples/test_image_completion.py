"""examples/image_completion.py runs, prints a row for each model, draws its picture; its tables rest on truths."""

import sys

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
from examples import image_completion as example


def test_runs(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "images.png"
    options = ["--steps", "2", "--tests", "8", "--floor", "0.1", "--out", str(picture)]
    monkeypatch.setattr(sys, "argv", ["image_completion.py", *options])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    for name in ("ConvCNP", "TE-TNP", "TNP-D", "CNP"):
        scored, moved = (line.split("│") for line in lines if f"│ {name} " in line)
        log_p, rmse = np.array(scored[2:5], float), np.array(scored[5:8], float)
        assert (log_p < -np.log(0.1 * np.sqrt(2 * np.pi))).all()  # the floor's bound
        assert ((rmse > 0) & (rmse < 1)).all()
        assert len(moved) == 7
    for known in example.KNOWN:
        assert sum(f"│ {known} known " in line for line in lines) == 1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_moving_a_digit_changes_what_tnp_d_says_and_neither_conv_cnp_nor_te_tnp():
    """ConvCNP: products of other blocks. TE-TNP: places in pixels, off by an ulp of 16. A hundred ulps are allowed."""
    _, images = example.halves()
    task = example.questions(images, 16, 5, seed=0)
    changes = {name: float(example.moved_row(m, task)[-1]) for name, m in example.models(0.05, seed=0).items()}
    assert changes["ConvCNP"] < 100 * np.spacing(np.float32(1))
    assert changes["TE-TNP"] < 100 * np.spacing(np.float32(16))
    assert changes["TNP-D"] > 0.01


def test_the_joint_normal_is_the_exact_answer_for_images_that_are_normal():
    """Where all pixels of an image are equal, one that is known says what the others are; without it, σ is theirs."""
    rng = np.random.default_rng(0)
    images = np.full((400, 8, 8), 0.5) + 0.2 * rng.standard_normal((400, 1, 1))
    task = example.questions(images, 1, 50, seed=0)
    given = example.Fitted(images, 0.01, conditional=True)(task.context_x, task.context_y, task.target_x)
    alone = example.Fitted(images, 0.01, conditional=False)(task.context_x, task.context_y, task.target_x)
    # with variances s² of an image and f² of a pixel, a mean is drawn by f²/(s² + f²) < 0.3 % towards that of all
    assert example.scores(given, task)[1] < 0.003 * 4 * 0.2
    assert 0.15 < example.scores(alone, task)[1] < 0.25
    assert np.allclose(given.std**2, 0.01**2 * (1 + 1), rtol=0.01)  # its own f², and that of the pixel known


def test_known_pixels_stand_where_they_are():
    images = np.arange(64).reshape(1, 8, 8) / 64
    task = example.questions(images, 32, 1, seed=0)
    known = example.as_image(task.context_x[0], task.context_y[0, :, 0])
    asked = example.as_image(task.target_x[0], task.target_y[0, :, 0])
    assert (np.isnan(known) != np.isnan(asked)).all()
    assert (np.where(np.isnan(known), asked, known) == images[0]).all()


def test_training_moves_downhill():
    learned_from, new = example.halves()
    task = example.questions(new, 16, 50, seed=0)
    model = example.models(0.05, seed=0)["ConvCNP"]
    before = example.scores(example.asked(model, task), task)[0]
    example.fit(model, learned_from, 10, 1e-3, seed=0)
    assert example.scores(example.asked(model, task), task)[0] > before + 0.01
