"""examples/translation.py runs on refnp's own sentences and on a file, draws its pictures, and names bad lines."""

import numpy as np
import pytest

from examples import translation
from refnp.tasks.words import tokenize

PERSONS, VERBS = {"I": "je", "you": "tu"}, {"eat": "mange", "sing": "chante"}
PAIRS = [(f"{a} {b}", f"{PERSONS[a]} {VERBS[b]}") for a in PERSONS for b in VERBS]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join("\t".join(pair) for pair in PAIRS), encoding="utf-8")
    return path


def test_runs_on_its_own_sentences(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    translation.main(["--steps=2", "--held-out=4", f"--out={tmp_path / 'new'}", "--sentence=I live in Paris"])
    printed = capsys.readouterr().out
    assert "4 held-out sentences: token accuracy 0." in printed
    assert "greedy  BLEU" in printed
    assert "beam    BLEU" in printed
    assert "I live in Paris → " in printed
    picture = (tmp_path / "new" / "translation-attention-1.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 300_000


def test_takes_a_file_of_four_sentences(file, tmp_path, capsys):
    translation.main([f"--pairs={file}", "--held-out=0", "--steps=2", f"--out={tmp_path}", "--sentence=you sing, Ann"])
    printed = capsys.readouterr().out
    assert "4 sentences to learn from" in printed
    assert "you sing, Ann → " in printed
    assert "words it has never seen: ,, ann" in printed


def test_every_head_adds_up_to_one():
    rng = np.random.default_rng(0)
    translator = translation.make(PAIRS, rng)
    maps, source, target = translation.attention_of(translator, "you sing")
    assert source == ["you", "sing"]
    assert list(maps) == ["encoder 1", "encoder 2", "decoder 1", "cross 1", "decoder 2", "cross 2"]
    for name, weights in maps.items():
        asks, answers = source if "encoder" in name else target, target if "decoder" in name else source
        assert weights.shape == (4, len(asks), len(answers))
        # as many roundings as there are terms, and those of the exponentials
        assert np.abs(weights.sum(-1) - 1).max() <= (len(answers) + 4) * np.finfo(weights.dtype).eps
        if "decoder" in name:
            assert not np.triu(weights, 1).any()  # no word sees those after it


def test_remembers_what_it_has_learned():
    rng = np.random.default_rng(0)
    translator = translation.make(PAIRS, rng)
    translation.learn(translator, PAIRS, 60, rng)
    for beams in (1, 3):
        assert translator.translate([source for source, _ in PAIRS], beams=beams) == [tokenize(t) for _, t in PAIRS]


@pytest.mark.parametrize("option", ["--steps=0", "--sentence= "])
def test_nothing_to_do_is_an_error(option, capsys):
    with pytest.raises(SystemExit) as stop:
        translation.main([option])
    assert stop.value.code == 2
    assert "must" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\tun\ntwo\n", "no tab in line 2"),
        (b"a\tb\nc\td\n", "only 0 of 2 pairs can be held out"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_an_error(tmp_path, content, message, capsys):
    path = tmp_path / "bad.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit) as stop:
        translation.main(["--pairs", str(path), "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
