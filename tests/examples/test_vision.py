"""examples/vision.py runs at all three levels, says what they cost, and draws its picture."""

import sys

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
from examples import vision
from refnp.layers import cross_entropy


@pytest.fixture
def few(monkeypatch):
    """Fewer digits."""
    images, labels = vision.digits()
    monkeypatch.setattr(vision, "digits", lambda: (images[:120], labels[:120]))


@pytest.mark.parametrize("positions", ["learned", "euclidean"])
def test_runs(few, positions, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "digits.png"
    options = ["--epochs", "1", "--positions", positions, "--no-mnist", "--out", str(picture)]
    monkeypatch.setattr(sys, "argv", ["vision.py", *options])
    vision.main()
    printed = capsys.readouterr().out
    costs = {"pixel": (64, "5,346,176", "1,081,600"), "patch": (16, "1,192,832", "73,984")}
    costs["feature"] = (16, "1,502,080", "73,984")
    for level, (tokens, whole, between) in costs.items():
        (row,) = [line for line in printed.splitlines() if f" {level} " in line]
        assert f" {tokens} " in row
        assert f" {whole} " in row or positions != "learned"  # what relative positions multiply comes on top
        assert f" {between} " in row
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_moved_images_keep_their_ink_or_lose_it_at_an_edge():
    images = np.zeros((200, 1, 8, 8), np.float32)
    images[:, 0, 3, 4] = 1
    moved = vision.shaken(images, np.random.default_rng(0))
    rows, columns = np.nonzero(moved[:, 0])[1:]
    assert set(rows) == {2, 3, 4}
    assert set(columns) == {3, 4, 5}
    corner = np.zeros((200, 1, 8, 8), np.float32)
    corner[:, 0, 0, 0] = 1
    assert 0 < vision.shaken(corner, np.random.default_rng(0)).sum() < 200


def test_training_moves_downhill(few):
    (images, labels), _ = vision.data_sets(with_mnist=False)["digits 8 × 8"]
    model = vision.classifier("patch", 8, "learned", seed=0)
    before = float(cross_entropy(model(images), labels))
    vision.fit(model, images, labels, epochs=10, seed=0)
    assert float(cross_entropy(model(images), labels)) < before - 0.02
