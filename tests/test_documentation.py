"""The README and the guide say what is true: examples run, links lead somewhere, every file is described."""

import contextlib
import io
import pathlib
import re
import tomllib

import pytest

import refnp

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_example_in_the_readme_runs_and_prints_what_it_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    (expected,) = re.findall(r"```text output\n(.*?)```", text, re.S)
    assert printed.getvalue().rstrip() == expected.rstrip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_architecture_names_every_file():
    plan = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)`", plan))
    folders = tuple(re.findall(r"`([\w/]+/)`", plan))  # a folder that is named stands for its pages
    pages = {
        path.relative_to(ROOT).as_posix()
        for top in ("refnp", "gradcheck", "benchmarks")
        for path in (ROOT / top).rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    missing = {page for page in pages - named if not page.startswith(tuple(f for f in folders if f.count("/") > 1))}
    assert missing == set(), "pages that docs/architecture.md does not name"
    assert named - pages == set(), "pages that are named but do not exist"


def test_ci_runs_the_commands_of_the_readme():
    readme, ci = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", ".ci/run"))
    for pattern in re.findall(r"readme '(.*?)'", ci):
        assert pattern in readme


def test_the_version_is_said_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"]["attr"] == "refnp.version.__version__"
    assert re.fullmatch(r"\d+\.\d+\.\d+", refnp.__version__)


def test_nothing_but_numpy_is_needed_at_run_time():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert [re.match(r"[\w-]+", name).group() for name in project["project"]["dependencies"]] == ["numpy"]
