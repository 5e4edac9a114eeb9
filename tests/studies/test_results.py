"""docs/results.md says of the shipped weights what they are, and figures that they have."""

import re
from pathlib import Path

import pytest

from refnp.cli import parsed
from refnp.studies.evaluation import evaluate
from refnp.studies.registry import sampler
from refnp.studies.trained import open_trained, shipped
from tests.pages import brought_up_to_date

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results.md"
COUNT = 64


def table():
    """The rows of the table of shipped weights, by name: a dictionary by the heading."""
    text = PAGE.read_text(encoding="utf-8")
    lines = text[text.index("| shipped as |") :].split("\n\n")[0].splitlines()
    heading, _, *rows = ([cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(heading, row, strict=True)) for row in rows}


def figure(cell):
    """Mean and standard error from "1.23 ± .04"."""
    mean, error = (float(part.replace("−", "-")) for part in cell.split("±"))
    return mean, error


def test_all_shipped_weights_have_a_row():
    assert sorted(table()) == shipped()


@pytest.mark.parametrize("name", shipped())
def test_the_row_is_true(name):
    row, trained = table()[name], open_trained(name)
    about = trained.configuration
    assert (row["model"], row["task"]) == (about["model"], about["task"])
    assert parsed(row["options"].split()) == about["options"]
    assert int(row["steps"].replace(" ", "")) == trained.steps
    assert (float(row["rate"]), int(row["seed"])) == (about["learning_rate"], about["seed"])
    assert int(row["parameters"].replace(" ", "")) == sum(p.size for p in trained.model.parameters())


@pytest.mark.parametrize("name", shipped())
def test_the_figures_are_those_of_the_weights(name):
    """Other tasks, fewer of them: within 4 standard errors of the difference, 6e-5 of being wrong by chance."""
    row, trained = table()[name], open_trained(name)
    inside = evaluate(trained.model, sampler(row["task"]), count=COUNT, seed=1)["inside"]
    for kind in ("marginal", "joint"):
        if not re.search(r"\d", row[kind]):
            assert f"{kind} log-likelihood" not in inside
            continue
        mean, error = figure(row[kind])
        found = inside[f"{kind} log-likelihood"]
        assert abs(found.mean - mean) <= 4 * (error**2 + found.error**2) ** 0.5
        assert error < 0.15


def test_tables_of_sweeps_are_those_of_what_was_measured():
    assert brought_up_to_date(PAGE) == PAGE.read_text(encoding="utf-8"), "python -m tests.pages --write"
