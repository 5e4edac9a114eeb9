"""The guide to the engine: its table names every operation."""

import pathlib
import re

from tests.autograd.test_operations import primitives

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "engine.md"


def test_the_table_names_every_operation():
    table = {
        word for line in GUIDE.read_text("utf-8").splitlines() if line[:1] == "|" for word in re.findall(r"\w+", line)
    }
    arithmetic = {"add", "subtract", "multiply", "divide", "negative"}
    assert {name.lstrip("_") for name in primitives()} - arithmetic <= table
