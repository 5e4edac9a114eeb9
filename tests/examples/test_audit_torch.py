"""examples/audit_torch.py comes to the verdicts that it expects, in both directions, with small counter-examples."""

import pathlib
import sys

import pytest

pytest.importorskip("torch")
from examples import audit_torch as example

GUIDE = (pathlib.Path(__file__).parents[2] / "docs" / "symmetry.md").read_text(encoding="utf-8")


SMALL = {
    "nn.MultiheadAttention, output in the old order": "with n = 2, order [1, 0]",
    "nn.TransformerEncoder, with positions": "with n = 2, order [1, 0]",
    "nn.Conv1d, zeros, on a ring": "with n = 4, shift by ",
    "nn.Conv1d, zeros, in a window": "with n = 5, shift by ",
    "strided CNN, circular, by half of it": "with n = 4, shift by 2",
    "CNN classifier, by one": "with n = 4, shift by 1",
    "coordinates, turned in space": "with n = 1, d = 3, ",
}


def test_every_verdict_is_the_expected_one_and_counter_examples_are_small(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["audit_torch.py"])
    with pytest.raises(SystemExit) as ended:
        example.main()
    assert ended.value.code == 0
    found, name = {}, ""
    for line in capsys.readouterr().out.splitlines():
        if line[0] != " ":
            name = line.partition(": ")[0]
        found[name] = found.get(name, "") + line + "\n"
    rows = example.rows()
    assert list(found) == [name for name, *_ in rows]
    for name, *_, expected in rows:
        assert f": {expected.upper()}, as expected" in found[name]
        assert ("counter-example" in found[name]) == (expected == "fails")
    for name, shown in SMALL.items():
        assert f"counter-example {shown}" in found[name]
    outcomes = [row[-1] for row in rows]
    assert f"checks {len(rows)} claims about PyTorch's" in GUIDE
    assert f"batch norms, {outcomes.count('holds')} of them true" in GUIDE


def test_a_verdict_that_is_not_expected_is_said(monkeypatch, capsys):
    (row,) = (row for row in example.rows() if row[0] == "nn.Conv1d, circular, on a ring")
    monkeypatch.setattr(example, "rows", lambda: [(*row[:-1], "fails")])
    monkeypatch.setattr(sys, "argv", ["audit_torch.py", "conv1d"])
    with pytest.raises(SystemExit) as ended:
        example.main()
    assert ended.value.code == 1
    assert "HOLDS, EXPECTED: FAILS" in capsys.readouterr().out
