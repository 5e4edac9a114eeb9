"""The words of this project: those of the glossary are used, and figures of speech are not."""

import pathlib
import re

import pytest

from tests.helpers import of_every

ROOT = pathlib.Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
CODE = sorted(path for top in ("refnp", "gradcheck") for path in (ROOT / top).rglob("*.py"))
GUIDE = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")] if path != GLOSSARY)

# A docstring says what, why and how exact; these say it in a picture, or in a word that the field does not have.
BANNED = (
    "hears",
    "is heard",
    "room",
    "luck",
    "deaf",
    "is_deaf",
    "loud",
    "wanders?",
    "nobody",
    "somebody",
    "everybody",
    "anybody",
    "gives? away",
    "changes_its_mind",
    "says_nothing",
    "is for luck",
    "meets?",
    "stranger",
    "looks? at",
    "looked at",
    "learns of",
    "house",
    "boldly",
    "by heart",
    "seeds?' ",
    "the mission",
    "this book",
    "a book that runs",
    "two halves of the title",
    "S00[0-4]",
)


def terms():
    """The terms of the glossary, one by one."""
    rows = re.findall(r"^\| (?!term |---)(.*?) \| .* \| \[", GLOSSARY.read_text(encoding="utf-8"), re.M)
    return [term for row in rows for term in row.split(", ")]


def occurs(term, paths):
    """Whether the words of a term stand next to each other in one of these files, also as `length_scale`."""
    words = re.compile(r"[\s_-]*".join(map(re.escape, re.split(r"[ -]", term))), re.I)
    return any(words.search(path.read_text(encoding="utf-8")) for path in paths)


@pytest.mark.parametrize("term", terms())
def test_each_term_is_used(term):
    assert occurs(term, CODE), "no file of refnp or gradcheck has it"
    assert occurs(term, GUIDE), "no other page of the guide has it"


def test_terms_are_explained_once():
    assert len(terms()) == len(set(terms())) > 20
    assert not occurs("flux capacitor", CODE)


@of_every(CODE)
def test_plain_words(path):
    """None of the figures of speech that were replaced comes back."""
    pattern = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.I)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [f"{number}: {line.strip()}" for number, line in enumerate(lines, 1) if pattern.search(line)] == []
