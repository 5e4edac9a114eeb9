"""examples/few_shot.py runs, prints a row for each model, draws its picture; its baselines are what they say."""

import sys

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
from examples import few_shot as example
from refnp.tasks.few_shot import Episodes
from refnp.tasks.glyphs import characters, glyphs
from refnp.tasks.task import Task

NAMES = ("CNP", "CANP", "TNP-D")


def test_runs(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "shots.png"
    options = ["--steps", "2", "--tests", "3", "--seeds", "2", "--each", "10", "--out", str(picture)]
    monkeypatch.setattr(sys, "argv", ["few_shot.py", *options])
    monkeypatch.setattr(example, "LEARNED", ("latin",))
    monkeypatch.setattr(example, "NEW", ("hebrew",))
    example.main()
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")] for line in printed.splitlines()]
    for name in NAMES:
        (wave,) = (row for row in rows if row[1:2] == [name])
        assert (np.array(wave[2:6], float) < -np.log(0.05 * np.sqrt(2 * np.pi))).all()  # the floor's bound
        assert f"{name}: log p" in printed
    for name in (
        "nearest drawing",
        "ridge regression",
        "prototypes, seed 0",
        "prototypes, seed 1",
        "mean of the seeds",
    ):
        (of_characters,) = (row for row in rows if row[1:2] == [name])
        assert all(0 <= float(cell.split("±")[0]) <= 1 for cell in of_characters[2:6])
    (fitted,) = (row for row in rows if row[1:2] == ["sine fitted"])
    assert float(fitted[6]) > 0.5  # one point leaves the wave open
    assert fitted[7:10] == ["0.000"] * 3  # two do not
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_no_alphabet_of_the_test_is_trained_on():
    assert not {name for name, _ in characters(example.LEARNED)} & {name for name, _ in characters(example.NEW)}


def test_baselines_classify_by_distance_and_by_regression():
    """A at 0, B at 4, C at 9 but for an image at 5.5: the nearest image to 5.2 is C's."""
    context_x = np.array([0.0, 0.0, 4.0, 4.0, 5.5, 12.5])[None, :, None]
    context_y = np.eye(3)[[0, 0, 1, 1, 2, 2]][None]
    target_x = np.array([1.0, 4.2, 5.2, 11.0])[None, :, None]
    task = Task(context_x, context_y, target_x, np.eye(3)[[0, 1, 1, 2]][None])
    assert example.nearest_image(task).tolist() == [[0, 1, 2, 2]]
    twice = Task(*(np.repeat(a, 2, 0) for a in (context_x, context_y, target_x, task.target_y)))
    assert example.accuracy(np.array([[0, 1, 2, 2]] * 2), twice) == (0.75, 0.0)
    rng = np.random.default_rng(0)
    x, y, new = rng.normal(size=(6, 4)), np.eye(3)[[0, 1, 2, 0, 1, 2]], rng.normal(size=(5, 4))
    centred = x - x.mean(0)
    weights = (
        np.linalg.inv(centred.T @ centred + 10 * np.eye(4)) @ centred.T @ (y - y.mean(0))
    )  # of pixels, not of rows
    expected = ((new - x.mean(0)) @ weights + y.mean(0)).argmax(-1)
    assert (example.ridge(Task(x[None], y[None], new[None], np.zeros((1, 5, 3))))[0] == expected).all()


def test_prototypes_know_no_order_of_examples_and_soon_learn_a_few_characters():
    images, labels = glyphs(np.random.default_rng(0), alphabets=("hebrew",), each=8)
    task = Episodes(images, labels, ways=5, shots=3, queries=4).sample(np.random.default_rng(1), 2).astype(np.float32)
    model = example.PrototypicalNetwork(channels=8, rng=np.random.default_rng(0)).astype(np.float32)
    order = np.random.default_rng(2).permutation(15)
    logits = model(task.context_x, task.context_y, task.target_x)
    assert logits.shape == (2, 20, 5)
    again = model(task.context_x[:, order], task.context_y[:, order], task.target_x)
    assert np.abs(again - logits).max() < 1e-4

    def loss(model, rng):
        given = model(task.context_x, task.context_y, task.target_x)
        return example.cross_entropy(given, task.target_y.argmax(-1))

    before = float(loss(model, None))
    example.fit(model, loss, 20, seed=0)
    assert float(loss(model, None)) < before - 0.5
