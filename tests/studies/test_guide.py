"""The guide to studies: it names what there is, its commands are commands, and its example runs."""

import pathlib
import re

from refnp.cli import main, parser
from refnp.studies import training
from refnp.studies.registry import MODELS, TASKS, listing

TEXT = (pathlib.Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")


def test_it_names_every_model_and_task():
    assert listing() in TEXT
    assert {*MODELS, *TASKS} <= set(listing().split())


def test_every_option_is_explained():
    known = {*re.findall(r"--[a-z]+", TEXT)}
    (commands,) = [action for action in parser()._actions if action.dest == "command"]
    for name in ("train", "evaluate", "plot", "export"):
        options = {text for action in commands.choices[name]._actions for text in action.option_strings}
        assert {text for text in options if text.startswith("--")} <= known, name


def test_its_commands_run_and_the_example_after_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "VALIDATION_BATCHES", 1)
    monkeypatch.chdir(tmp_path)
    (commands,) = re.findall(r"```\n(refnp train.*?)```", TEXT, re.S)
    train, evaluate, _ = (line.split()[1:] for line in commands.splitlines())
    assert train[-2:] == ["--steps", "200"]
    assert main([*train[:-1], "1", "--option", "points_per_unit=8", "--batch", "2"]) == 0
    assert main([*evaluate, "--tasks", "32"]) == 0
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    exec(compile(code, "docs/studies.md", "exec"), {})
    assert "convcnp, trained on eq for 1 steps, seed 0" in capsys.readouterr().out
