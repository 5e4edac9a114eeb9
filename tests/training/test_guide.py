"""The guide to training: its example runs and prints what it says."""

import contextlib
import io
import pathlib
import re

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "training.md"


def test_the_example_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (expected,) = re.findall(r"```text output\n(.*?)```", text, re.S)
    for _ in range(2):  # the second time it goes on from its own checkpoint, where nothing is left to do
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/training.md", "exec"), {})
        assert printed.getvalue().rstrip() == expected.rstrip()
