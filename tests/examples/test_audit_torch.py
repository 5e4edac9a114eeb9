"""examples/audit_torch.py comes to the verdicts that it expects, in both directions, with small counter-examples."""

import contextlib
import io
import pathlib
import sys

import pytest

pytest.importorskip("torch")
from examples import audit_torch as example

GUIDE = (pathlib.Path(__file__).parents[2] / "docs" / "symmetry.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def audit():
    """What is printed, by row, and the exit status."""
    printed, before = io.StringIO(), sys.argv
    sys.argv = ["audit_torch.py"]
    try:
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as ended:
            example.main()
    finally:
        sys.argv = before
    found, name = {}, ""
    for line in printed.getvalue().splitlines():
        if line[0] != " ":
            name = line.partition(": ")[0]
        found[name] = found.get(name, "") + line + "\n"
    return found, ended.value.code


def test_every_verdict_is_the_expected_one(audit):
    found, status = audit
    rows = example.rows()
    assert status == 0
    assert list(found) == [name for name, *_ in rows]
    for name, *_, expected in rows:
        assert f": {expected.upper()}, as expected" in found[name]
        assert ("counter-example" in found[name]) == (expected == "fails")
    outcomes = [row[-1] for row in rows]
    said = f"checks {len(rows)} claims about PyTorch's"
    assert said in GUIDE
    assert f"batch norms, {outcomes.count('holds')} of them true" in GUIDE


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nn.MultiheadAttention, output in the old order", "with n = 2, order [1, 0]"),
        ("nn.TransformerEncoder, with positions", "with n = 2, order [1, 0]"),
        ("nn.Conv1d, zeros, on a ring", "with n = 4, shift by "),
        ("nn.Conv1d, zeros, in a window", "with n = 5, shift by "),
        ("strided CNN, circular, by half of it", "with n = 4, shift by 2"),
        ("CNN classifier, by one", "with n = 4, shift by 1"),
        ("coordinates, turned in space", "with n = 1, d = 3, "),
    ],
)
def test_counter_examples_are_small(audit, name, shown):
    assert f"counter-example {shown}" in audit[0][name]


def test_a_verdict_that_is_not_expected_is_said(monkeypatch, capsys):
    (row,) = (row for row in example.rows() if row[0] == "nn.Conv1d, circular, on a ring")
    monkeypatch.setattr(example, "rows", lambda: [(*row[:-1], "fails")])
    monkeypatch.setattr(sys, "argv", ["audit_torch.py", "conv1d"])
    with pytest.raises(SystemExit) as ended:
        example.main()
    assert ended.value.code == 1
    assert "HOLDS, EXPECTED: FAILS" in capsys.readouterr().out
