"""docs/contributing.md is true: an activation is added as it says, in a copy of the repository; tests pass there."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
PARTS = ("refnp", "gradcheck", "tests", "docs", "pyproject.toml", "README.md", "CHANGELOG.md")
PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")


def steps():
    """{file: the text of its step} of the list under "An activation"."""
    (section,) = re.findall(r"^## An activation\n(.*?)(?=^## )", PAGE, re.M | re.S)
    return dict(re.findall(r"^\d\. `([\w/.]+)`: (.*?)(?=^\d\. |^Then:)", section, re.M | re.S))


def commands():
    """The commands under "Then:"."""
    (section,) = re.findall(r"^## An activation\n.*?^Then:\n\n(.*?)\n\n", PAGE, re.M | re.S)
    return [line.split() for line in section.splitlines()]


def edited(source, step):
    """A source with the edits of a step: items put first in a list, and code before a name or at the end."""
    for name, item in re.findall(r"- (?:first in|among) `(\w+)`: `(.*)`$", step, re.M):
        source = inserted(source, rf"^{name} = [\[({{]", item)
    for place, code in re.findall(r"- (at the end|before `\w+`):\n\n\s*```python\n(.*?)^\s*```", step, re.M | re.S):
        code = textwrap.dedent(code).strip()
        if place == "at the end":
            source = f"{source}\n\n{code}\n"
        else:
            name = re.search(r"`(\w+)`", place)[1]
            source = inserted(source, rf"^(?={name} = )", f"{code}\n")
    return source


def inserted(source, pattern, text):
    """A source with a text after the first match of a pattern, which must be there."""
    found = re.search(pattern, source, re.M)
    assert found, f"there is no {pattern}"
    return f"{source[: found.end()]}{text}{source[found.end() :]}"


INSTALLED = all(importlib.util.find_spec(name) for name in ("torch", "jax"))


def copied(folder):
    """A copy of the repository with the activation of the page in it; returns a function that runs Python there."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "weights"))
        else:
            shutil.copy(ROOT / part, folder / part)
    for file, step in steps().items():
        path = folder / file
        path.write_text(edited(path.read_text(encoding="utf-8"), step), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(folder)}

    def run(*words):
        done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"python {' '.join(words)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    return run


def test_five_files_are_edited():
    assert len(steps()) == 5
    assert all((ROOT / file).exists() for file in steps())


def test_an_activation_is_added(tmp_path):
    """Its own tests and gradcheck pass."""
    run = copied(tmp_path)
    run(*PYTEST, "tests/layers/test_activations.py", "-k", "mish")
    assert re.search(r"\bmish\b.* 1[0-9]\.", run("-m", "gradcheck", "--only", "mish"))


@pytest.mark.skipif(not INSTALLED, reason="PyTorch and JAX are both asked")
def test_recorded_it_is_judged(tmp_path):
    """And no test says that anything was forgotten."""
    run = copied(tmp_path)
    for _, *words in commands():
        run(*words)
    report = run("-m", "refnp", "verify", "--only", "mish")
    assert "deviates" not in report
    assert "known defect" in report
    run(*PYTEST, "tests/test_api.py")
    run(*PYTEST, "tests/verify/test_cases.py", "-k", "mish")
    run(*PYTEST, "tests/verify/test_record.py", "-k", "what_ships")  # the page of frameworks was written above
    run(*PYTEST, "tests/verify/test_completeness.py")


def test_the_files_that_are_named_exist():
    for file in re.findall(r"`((?:refnp|gradcheck|tests|docs|benchmarks)/[\w/.]*)`", PAGE):
        assert (ROOT / file).exists(), file
