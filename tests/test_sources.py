"""Every work that is cited is listed in docs/sources.md under that name, and every listed one is cited."""

import functools
import pathlib
import re

from tests.helpers import of_every

ROOT = pathlib.Path(__file__).parents[1]
SOURCES = ROOT / "docs" / "sources.md"
THIS = pathlib.Path(__file__)
PYTHON = sorted(
    path for top in ("refnp", "gradcheck", "tests", "benchmarks", "examples") for path in (ROOT / top).rglob("*.py")
)
GUIDE = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if path != SOURCES)
CITING = [path for path in [*PYTHON, *GUIDE] if path != THIS]

NAME = r"[A-Z][\w’'-]*[a-zé]"
WORK = re.compile(rf"({NAME}(?:, {NAME})*(?: & {NAME}| et al\.)?) \((\d{{4}}[a-z]?)\)")
ARXIV = re.compile(r"arXiv:? ?(\d{4}\.\d{4,5})")
SOURCE = re.compile(r"\bSources?(?: of the VJPs)?: (.*?)(?=\n\s*\n|\bElsewhere:|\"\"\"|\Z)", re.S)


def one_line(text):
    """A text with its lines joined; the # of comments goes."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", text)


@functools.cache
def listed():
    """{name of a work: the rest of its line} from docs/sources.md."""
    return dict(re.findall(r"^- \*\*(.*?)\*\*: (.*(?:\n  .*)*)", SOURCES.read_text(encoding="utf-8"), re.M))


@functools.cache
def software():
    (line,) = re.findall(r"^- Frameworks and libraries.*?: (.*)\.$", SOURCES.read_text(encoding="utf-8"), re.M)
    return line.split(", ")


def cited_works(text):
    """The "Author (year)" of a text on one line, years being those of a century of papers."""
    return [f"{authors} ({year})" for authors, year in WORK.findall(text) if 1850 < int(year[:4]) < 2100]


@of_every(CITING)
def test_what_is_cited_is_listed(path):
    text, works = one_line(path.read_text(encoding="utf-8")), listed()
    ends = tuple(f", {name}" for name in works)  # "… is True, Higham (2002)" reads as two authors
    assert [work for work in cited_works(text) if work not in works and not work.endswith(ends)] == []
    numbers = {number: name for name, rest in works.items() for number in ARXIV.findall(rest)}
    assert [number for number in ARXIV.findall(text) if number not in numbers] == []
    for number in ARXIV.findall(text):  # "Kim et al. (2019), arXiv 1901.05761"
        assert re.search(rf"{re.escape(numbers[number])}, arXiv:? ?{number}", text), (
            f"arXiv {number} is {numbers[number]}"
        )
    for author in re.findall(rf"({NAME}) et al\.", text):
        assert any(name.startswith(author) for name in works), f"{author} et al."


@of_every(CITING)
def test_every_source_names_a_work(path):
    names = [*listed(), "first two drafts of Sivaraya (2023)", *software()]
    for source in SOURCE.findall(path.read_text(encoding="utf-8")) if path.suffix == ".py" else []:
        assert any(name in one_line(source) for name in names), f"Source: {one_line(source)}"


def test_what_is_listed_is_cited():
    text = "\n".join(one_line(path.read_text(encoding="utf-8")) for path in CITING)
    missing = [name for name in listed() if name[0].lower() + name[1:] not in text and name not in text]
    assert missing == []


def test_the_list_is_in_order():
    """Works stand under a heading in the order of the alphabet; each arXiv number is linked to its page."""
    text = SOURCES.read_text(encoding="utf-8")
    for part in text.split("\n## ")[2:]:
        names = [re.sub(r"^The ", "", name) for name in re.findall(r"^- \*\*(.*?)\*\*", part, re.M)]
        assert names == sorted(names, key=str.lower)
    for number, link in re.findall(r"\[arXiv (.*?)\]\((.*?)\)", text):
        assert link == f"https://arxiv.org/abs/{number}"


def test_the_texts_have_names():
    """The five texts go by their titles; the numbers they once had are nowhere."""
    number = re.compile(r"\bS00[0-4]\b")
    assert [path.name for path in CITING if number.search(path.read_text(encoding="utf-8"))] == []


def test_citations_are_found():
    text = "Kim et al. (2019), arXiv 1901.05761; Shaw, Uszkoreit & Vaswani (2018), eq. 3; Higham (2002); of 12 (2000)"
    assert cited_works(text) == ["Kim et al. (2019)", "Shaw, Uszkoreit & Vaswani (2018)", "Higham (2002)"]
    assert SOURCE.findall('a\n\nSource: Kim et al.\n(2019).\nElsewhere: no.\n"""') == ["Kim et al.\n(2019).\n"]
