"""examples/few_shot.py runs, prints a row for each model, draws its picture; its baselines are what they say."""

import sys

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
from examples import few_shot as example
from refnp.tasks.few_shot import Episodes
from refnp.tasks.task import Task

NAMES = ("CNP", "CANP", "TNP-D")


def test_runs(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "shots.png"
    monkeypatch.setattr(sys, "argv", ["few_shot.py", "--steps", "2", "--tests", "20", "--out", str(picture)])
    example.main()
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")] for line in printed.splitlines()]
    for name in NAMES:
        wave, digit = (row for row in rows if row[1:2] == [name])
        assert (np.array(wave[2:6], float) < -np.log(0.05 * np.sqrt(2 * np.pi))).all()  # the floor's bound
        accuracies = [float(cell.split("±")[0]) for cell in digit[2:5]]
        assert all(0 <= a <= 1 for a in accuracies)
        assert f"{name}: log p" in printed
    (fitted,) = (row for row in rows if row[1:2] == ["sine fitted"])
    assert float(fitted[6]) > 0.5  # one point leaves the wave open
    assert fitted[7:10] == ["0.000"] * 3  # two do not
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_each_way_of_turning_is_a_class_and_none_is_an_image_twice():
    images, labels = np.arange(2 * 9).reshape(2, 3, 3), np.array([3, 7])
    turned, classes = example.in_eight_ways(images, labels)
    assert sorted(set(classes)) == sorted(way * 10 + label for way in range(8) for label in (3, 7))
    assert len({image.tobytes() for image in turned}) == 16
    for image, label in zip(turned, classes, strict=True):
        assert set(image.ravel()) == set(images[int(label % 10 == 7)].ravel())


def test_scrambled_images_keep_their_distances_and_their_classes():
    images, labels = np.random.default_rng(0).integers(0, 9, (30, 3, 3)), np.repeat([0, 1, 2], 10)
    task = Episodes(images, labels, ways=3, shots=2, queries=4).sample(np.random.default_rng(0), 6)
    other = example.scrambled(task, np.random.default_rng(1))
    before, after = (example.squares(t.target_x, t.context_x) for t in (task, other))
    assert (before == after).all()  # whole numbers: sums in any order
    assert (other.context_y == task.context_y).all()
    assert (np.sort(other.target_x) == np.sort(task.target_x)).all()
    assert (other.target_x != task.target_x).any((1, 2)).sum() >= 5  # of 6 orders one may be no change


def test_no_digit_of_the_test_is_trained_on(monkeypatch):
    seen = []
    monkeypatch.setattr(example, "fit", lambda model, loss, steps, seed: 0.0)
    monkeypatch.setattr(example, "episode_loss", lambda images, labels: seen.append(set(labels.tolist())))
    monkeypatch.setattr(example, "draw", lambda *rest: [])
    monkeypatch.setattr(sys, "argv", ["few_shot.py", "--tests", "5"])
    example.main()
    assert seen == [set(range(10)) - set(example.NEW)]


def test_baselines_classify_by_distance():
    """A at 0, B at 4, C at 9 but for an image at 5.5: the nearest image to 5.2 is C's, the nearest mean B's."""
    context_x = np.array([0.0, 0.0, 4.0, 4.0, 5.5, 12.5])[None, :, None]
    context_y = np.eye(3)[[0, 0, 1, 1, 2, 2]][None]
    target_x = np.array([1.0, 4.2, 5.2, 11.0])[None, :, None]
    task = Task(context_x, context_y, target_x, np.eye(3)[[0, 1, 1, 2]][None])
    assert example.nearest_image(task).tolist() == [[0, 1, 2, 2]]
    assert example.nearest_mean(task).tolist() == [[0, 1, 1, 2]]
    assert example.accuracy(np.array([[0, 1, 2, 2]] * 2), Task(*(np.repeat(a, 2, 0) for a in (
        context_x, context_y, target_x, task.target_y)))) == (0.75, 0.0)  # fmt: skip


def test_classes_are_learned_when_they_are_easy():
    """Episodes of images that say their class outright: a CNP soon does better than chance."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 30)
    images = (np.eye(9)[labels % 9] * 4 + 0.1 * rng.standard_normal((300, 9))).reshape(-1, 3, 3)
    task = example.heard(Episodes(images, labels, ways=5, shots=2, queries=5, classes=range(5)).sample(rng, 20))
    model = example.models(9, 5, 0.05, seed=0)["CNP"]

    def loss(model, rng):
        logits = model(task.context_x, task.context_y, task.target_x).mean
        return example.cross_entropy(logits, task.target_y.argmax(-1))

    before = float(loss(model, rng))
    example.fit(model, loss, 30, seed=0)
    assert float(loss(model, rng)) < before - 0.05
