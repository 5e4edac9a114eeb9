"""Tables: what stands where, in plain text and drawn."""

import sys

import pytest

from refnp.studies.evaluation import Figure, Table, plain, show, tables

FIGURE = Figure(0.5, 0.01)
MARGINAL = ["marginal log-likelihood", "RMSE", "coverage 50 %", "coverage 90 %", "coverage 95 %"]
EXACT = ["exact marginal log-likelihood", "exact joint log-likelihood", "marginal gap", "exact RMSE"]


def made(*names):
    return tables({place: dict.fromkeys(names, FIGURE) for place in ("inside", "shifted", "beyond")}, 4.0)


def test_marginal_and_joint_never_share_a_table():
    found = made(*MARGINAL, *EXACT, "joint log-likelihood", "joint gap", "KL by itself", "exact KL by itself")
    assert [table.title.split()[0] for table in found] == ["marginal", "joint", "KL(exact", "RMSE", "targets"]
    for table in found[:2]:
        assert table.heading == ["", "model", "exact posterior", "oracle gap"]
    assert found[2].heading == ["", "each by itself", "exact marginals"]
    assert found[3].heading == ["", "model", "exact posterior"]
    assert found[4].heading == ["", "50 %", "90 %", "95 %"]
    for table in found:
        assert [row[0] for row in table.rows] == ["inside", "shifted by 4", "beyond the range"]
        assert {len(row) for row in table.rows} == {len(table.heading)}


def test_what_there_is_not_is_left_out():
    assert [table.heading for table in made(*MARGINAL)] == [["", "model"], ["", "model"], ["", "50 %", "90 %", "95 %"]]
    assert "joint" not in " ".join(table.title for table in made(*MARGINAL, *EXACT)), "the oracle's alone is no table"
    assert made("KL together")[0].heading == ["", "all together"]


def test_cells():
    likelihood, _, coverage = made(*MARGINAL)
    assert likelihood.rows[0] == ["inside", "0.5000 ± 0.0100"]
    assert coverage.rows[0] == ["inside", *["50.0 ± 1.0 %"] * 3]


def test_every_line_fits_a_terminal():
    found = made(
        *MARGINAL, *EXACT, "joint log-likelihood", "joint gap", "KL by itself", "exact KL by itself", "KL together"
    )
    assert max(len(line) for table in found for line in plain(table)) <= 79


def test_plain_text_is_aligned(capsys):
    lines = plain(Table("a title", ["", "one", "two"], [["here", "1", "22222"], ["somewhere", "-1.5", "3"]]))
    assert lines == [
        "a title",
        "              one    two",
        "  here          1  22222",
        "  somewhere  -1.5      3",
    ]
    show(Table("a title", ["", "one"], [["here", "1"]]))
    assert capsys.readouterr().out == "\na title\n        one\n  here    1\n"


def test_drawn_on_a_terminal(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(Table("a title", ["", "one"], [["here", "1"]]))
    output = capsys.readouterr().out
    assert "━" in output
    assert "here" in output
    monkeypatch.setenv("COLUMNS", "20")  # a figure that has no room is cut, not broken
    show(Table("a title", ["", "one"], [["here", "1 2 3 4 5 6 7 8 9 10 11 12"]]))
    assert len(capsys.readouterr().out.splitlines()) == len(output.splitlines())
