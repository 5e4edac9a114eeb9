"""`refnp claims`: rows that are as expected, wrong expectations in both directions, JSON, --only, processes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from refnp import cli
from refnp.claims import APPROXIMATE, BROKEN, EXACT, ON_SUBGROUP, UNDECIDED, Row, Trial, decide, decision, ledger, rows
from refnp.symmetry import Permute, equivariant, invariant

FIELDS = ["subject", "symmetry", "expected", "verdict", "subgroup", "discrepancy", "bound", "pairs", "reason"]
FIELDS += ["proved", "assumes", "missing"]


def planted(monkeypatch, *own):
    monkeypatch.setattr(ledger, "FAMILIES", {"layers": own})


def one(name):
    (found,) = [row for _, row in rows() if row.name == name]
    return found


ATTENTION = "attention: keys and values permuted"
ZEROS = "convolution, zero padding: roll"
STRIDED = "convolution, circular padding, stride 2: roll"


def test_a_few_rows_as_expected(tmp_path, capsys):
    file = tmp_path / "claims.json"
    assert cli.main(["claims", "--only", "convolutions/convolution*roll", "--json", str(file)]) == 0
    found = json.loads(file.read_text())["rows"]
    assert all(list(row) == FIELDS for row in found)
    by_name = {f"{row['subject']}: {row['symmetry']}": row for row in found}
    assert by_name[ZEROS]["verdict"] == BROKEN
    assert by_name[ZEROS]["discrepancy"] > 1e3 * by_name[ZEROS]["bound"]
    assert (by_name[STRIDED]["verdict"], by_name[STRIDED]["subgroup"]) == (ON_SUBGROUP, "multiples of 2")
    for row in found:
        assert row["pairs"] > 0
        assert row["reason"]
        if row["verdict"] == EXACT:
            assert row["discrepancy"] <= row["bound"]
    printed = capsys.readouterr().out
    assert printed.startswith("refnp ")
    assert "all as expected" in printed


WRONG = {
    "exact, where it is broken": (ZEROS, {"expected": EXACT}),
    "broken, where it is exact": (ATTENTION, {"expected": BROKEN}),
    "exact, where it is so on a subgroup": (STRIDED, {"expected": EXACT, "subgroup": ""}),
    "another subgroup": (STRIDED, {"subgroup": "multiples of 4"}),
    "a subgroup, where it is exact": (ATTENTION, {"expected": ON_SUBGROUP, "subgroup": "exchanges"}),
    "approximate, where it is broken": (ZEROS, {"expected": APPROXIMATE, "rate": 1.0}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_expectation_in_either_direction_makes_status_1(case, monkeypatch, capsys, tmp_path):
    name, change = WRONG[case]
    right = one(name)
    wrong = replace(right, **change)
    planted(monkeypatch, right)
    assert cli.main(["claims"]) == 0
    planted(monkeypatch, right, wrong)
    file = tmp_path / "claims.json"
    assert cli.main(["claims", "--json", str(file)]) == 1
    written = json.loads(file.read_text())["rows"]
    assert written[0]["verdict"] == written[1]["verdict"] == right.expected
    assert written[1]["expected"] == wrong.expected
    printed = capsys.readouterr().out
    assert "1 not as expected" in printed
    assert f"{name}: expected " in printed
    if right.expected == BROKEN:
        assert "counter-example with" in printed


def test_a_row_that_cannot_be_tried_or_decided_is_not_as_expected(monkeypatch, capsys):
    def broken():
        raise RuntimeError("no such model")

    def nothing():
        zero = invariant(lambda x: 0 * x, Permute("x"))
        return Trial(zero, lambda rng: {"x": rng.normal(size=3)})

    planted(monkeypatch, Row("a", "b", EXACT, "c", broken), Row("d", "e", BROKEN, "f", nothing))
    assert cli.main(["claims"]) == 1
    printed = capsys.readouterr().out
    assert "RuntimeError: no such model" in printed
    assert "nothing was tested" in printed
    assert f"2 {UNDECIDED}" in printed


def test_a_counter_example_is_made_simpler_where_it_is_shown():
    row = one("attention: keys permuted without their values")
    found, simpler, wrong = decide(row), decide(row, simplify=True), decide(replace(row, expected=EXACT))
    assert found.right
    assert not wrong.right
    assert wrong.counterexample == simpler.counterexample
    assert len(simpler.counterexample) < len(found.counterexample)


def test_the_larger_of_two_subgroups_is_found():
    def trial():
        claim = lambda power: equivariant(lambda x: x * np.arange(1, 3) ** (power - 1), Permute("x"), Permute())
        return Trial(
            invariant(lambda x: x[0] + 2 * x[1], Permute("x")),
            lambda rng: {"x": rng.normal(size=2)},
            parts={"most": claim(1), "many": claim(2), "some": claim(1), "few": claim(1)},
        )

    found = decide(Row("f", "order", ON_SUBGROUP, "…", trial, subgroup="few"))
    assert (found.verdict, found.subgroup, found.right) == (ON_SUBGROUP, "some", False)


@pytest.mark.parametrize("wrong", [{"expected": "perhaps"}, {"subgroup": "some"}, {"rate": 1.0}])
def test_expectations_that_contradict_themselves(wrong):
    with pytest.raises(ValueError, match="Row: f: order: "):
        Row(**{"subject": "f", "symmetry": "order", "expected": EXACT, "reason": "", "trial": Trial} | wrong)


def test_the_slope_of_a_power():
    levels = [8, 16, 32, 64]
    assert decision.slope({n: 3.0 * n**-2.0 for n in levels}) == pytest.approx(2)
    assert abs(decision.slope(dict.fromkeys(levels, 0.3))) < 1e-12
    assert decision.slope({8: 0.1, 16: 0.0}) == np.inf
    assert np.isnan(decision.slope({8: 0.0, 16: 0.0}))


def test_patterns_and_files_that_are_wrong(tmp_path, capsys):
    assert cli.main(["claims", "--only", "nonsense"]) == 2
    assert "no row is called 'nonsense'" in capsys.readouterr().err
    assert cli.main(["claims", "--json", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_names_are_unique():
    names = [row.name for _, row in rows()]
    assert len(names) == len(set(names))


def test_what_holds_is_proved_for_every_size_where_the_rules_suffice():
    found = decide(one("CNP: context permuted"))
    assert found.right
    assert found.proved, found.missing
    assert "PROVED for every size" in ledger.line(found)
    broken = decide(one("encoder, relative positions: tokens permuted"))
    assert broken.right
    assert not broken.proved
    without = decide(one("BNP: targets permuted"))
    assert without.right
    assert without.missing
