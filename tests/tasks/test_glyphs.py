"""Drawn characters: upright, seeded, hundreds of classes, apart where their alphabets are, and clear errors."""

import importlib.util

import numpy as np
import pytest

from refnp.tasks.glyphs import ALPHABETS, _fonts, characters, glyphs
from tests.helpers import assert_same_bits

STILL = {"turn": 0.0, "shear": 0.0, "width": 0.0, "shift": 0.0}

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is missing")


@needs_matplotlib
def test_each_character_is_drawn_so_often_and_the_seed_decides_all():
    given = {"alphabets": ("hebrew", "nko"), "each": 3}
    images, labels = glyphs(np.random.default_rng(1), **given)
    classes = len(characters(("hebrew", "nko")))
    assert images.shape == (3 * classes, 28, 28)
    assert_same_bits(labels, np.repeat(np.arange(classes), 3))
    assert images.min() == 0
    assert images.max() == 1
    assert (images.reshape(len(images), -1).max(1) > 0.5).all()  # nothing is empty
    assert_same_bits(images, glyphs(np.random.default_rng(1), **given)[0])
    assert (images != glyphs(np.random.default_rng(2), **given)[0]).any()


@needs_matplotlib
def test_every_letter_stands_in_the_middle_and_upright():
    images, labels = glyphs(np.random.default_rng(0), alphabets=("latin",), each=20, side=80, **STILL)
    for image in images:
        rows, columns = np.flatnonzero(image.sum(1)), np.flatnonzero(image.sum(0))
        assert abs((rows[0] + rows[-1]) / 2 - 39.5) <= 1
        assert abs((columns[0] + columns[-1]) / 2 - 39.5) <= 1
    names = [name for name, _ in characters(("latin",))]
    for image in images[labels == names.index("T")]:
        rows = np.flatnonzero(image.sum(1))
        quarter = len(rows) // 4
        assert image[rows[:quarter]].sum() > 1.2 * image[rows[-quarter:]].sum()  # its bar is at the top


@needs_matplotlib
def test_turns_shears_widths_and_shifts_change_a_drawing():
    fixed = {"alphabets": ("lisu",), "each": 1}
    still = glyphs(np.random.default_rng(3), **fixed, **STILL)[0]
    for name in STILL:
        assert (glyphs(np.random.default_rng(3), **fixed, **STILL | {name: 0.2})[0] != still).any(), name


@needs_matplotlib
def test_there_are_hundreds_of_classes_and_no_outline_is_two_of_them():
    all_of_them = characters(tuple(ALPHABETS))
    assert len(all_of_them) > 800
    assert all(len(characters((name,))) >= 20 for name in ALPHABETS)
    outlines = {outlines[0].vertices.tobytes() for _, outlines in all_of_them}
    assert len(outlines) == len(all_of_them)
    greek = {name for name, _ in characters(("latin", "greek"))}
    assert "α" in greek
    assert "Α" not in greek  # it is Latin A
    assert all(known for _, known in _fonts())


def test_wrong_arguments_are_named(monkeypatch):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="glyphs: each is 0; pass a whole number, at least 1"):
        glyphs(rng, each=0)
    with pytest.raises(ValueError, match=r"glyphs: side is 2\.5"):
        glyphs(rng, side=2.5)
    with pytest.raises(ValueError, match="glyphs: turn is -1"):
        glyphs(rng, turn=-1)
    with pytest.raises(ValueError, match="glyphs: 'klingon' is no alphabet; there are latin, "):
        glyphs(rng, alphabets=("klingon",))
    characters.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(ModuleNotFoundError, match="glyphs: the fonts come with matplotlib; pip install matplotlib"):
        glyphs(rng, alphabets=("latin",))
