"""The README and the guide say what is true: examples run, links lead somewhere, every file is described."""

import pathlib
import pkgutil
import re
import tomllib

import numpy as np
import pytest

import refnp
from refnp.cli import main
from refnp.layers import layer_norm
from tests.helpers import of_every
from tests.structure import Entered

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize(
    "command", re.findall(r"\| `(refnp .*?)` \|", (ROOT / "README.md").read_text(encoding="utf-8"))
)
def test_the_first_commands_of_the_readme_work(command, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    status = main(command.split()[1:])
    assert status == ("does not hold" in capsys.readouterr().out)  # 1 is the verdict on a wrong function


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def rows_of(chapter):
    """The rows of docs/equations.md that a chapter names in its first line, "[Rows 7, 8 and 16](../equations.md)"."""
    named = re.search(r"^\[Rows? ([^\]]*)\]\(\.\./equations\.md\)", chapter.read_text(encoding="utf-8"), re.M)
    runs = re.findall(r"(\d+)(?: to (\d+))?", named[1]) if named else []
    return {row for first, last in runs for row in range(int(first), int(last or first) + 1)}


def test_from_an_equation_to_its_chapter_and_back():
    """One click each: the chapters that a row links name the row."""
    table = (ROOT / "docs/equations.md").read_text(encoding="utf-8")
    linked = {
        int(row): re.findall(r"\(course/(\w+)\.md\)", rest)
        for row, rest in re.findall(r"^\| (\d+) \|(.*)$", table, re.M)
    }
    assert sorted(linked) == list(range(1, 32))
    for row, chapters in linked.items():
        for chapter in chapters:
            assert row in rows_of(ROOT / f"docs/course/{chapter}.md"), (
                f"row {row} links {chapter}, which does not name it"
            )


SOURCES = sorted(path for package in ("refnp", "gradcheck") for path in (ROOT / package).rglob("*.py"))


@of_every([*PAGES, *SOURCES])
def test_names_of_refnp_lead_somewhere(path):
    """refnp.layers.attention, in code, docstrings and pages, is a module or what one of them has."""
    for name in set(re.findall(r"\brefnp(?:\.[A-Za-z_]\w*)+", path.read_text(encoding="utf-8"))):
        if not name.endswith(".md"):
            assert pkgutil.resolve_name(name) is not None


def test_the_architecture_names_every_file():
    plan = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)`", plan))
    folders = tuple(re.findall(r"`([\w/]+/)`", plan))  # a folder that is named stands for its pages
    pages = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.py", "refnp/**/*.py", "gradcheck/**/*.py", "benchmarks/**/*.py", "docs/site/**/*.py")
        for path in ROOT.glob(pattern)
        if path.name not in ("__init__.py", "__main__.py")
    }
    missing = {page for page in pages - named if not page.startswith(tuple(f for f in folders if f.count("/") > 1))}
    assert missing == set(), "pages that docs/architecture.md does not name"
    assert named - pages == set(), "pages that are named but do not exist"


def a_layer(_):
    layer_norm(refnp.Tensor(np.ones((3, 2)), requires_grad=True)).sum().backward()


def refnp_train(folder):
    file = str(folder / "run.npz")
    main(["train", "convcnp-simple", "--task", "eq", "--steps", "1", "--checkpoint", file])


@pytest.mark.parametrize(("title", "call"), [("a layer", a_layer), ("refnp train", refnp_train)])
def test_the_paths_of_the_data_are_those_of_the_architecture(title, call, tmp_path):
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (path,) = re.findall(rf"```text calls of {title}\n(.*?)```", text, re.S)
    with Entered() as entered:
        call(tmp_path)
    calls = iter(entered.calls)
    for line in path.splitlines():
        file, name, _ = line.split(maxsplit=2)
        assert any(
            code.co_filename == str(ROOT / file) and f".{code.co_qualname}".endswith(f".{name}") for code in calls
        ), line


def test_ci_runs_the_commands_of_the_readme():
    for pattern in re.findall(r"readme '(.*?)'", (ROOT / ".ci/run").read_text(encoding="utf-8")):
        assert pattern in README


def test_the_version_is_said_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "refnp/version.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", refnp.__version__)


def test_nothing_but_numpy_is_needed_at_run_time():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert [re.match(r"[\w-]+", name).group() for name in project["project"]["dependencies"]] == ["numpy"]
