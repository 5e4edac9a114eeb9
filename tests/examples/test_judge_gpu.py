"""The table of a GPU, made on the processor: what holds there, and what is refused by name."""

import sys

import pytest

pytest.importorskip("torch")


def table(monkeypatch, capsys, *words):
    from examples import judge_gpu

    monkeypatch.setattr(sys, "argv", ["judge_gpu.py", *words, "--device", "cpu"])
    assert judge_gpu.main() == 0
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()[2:]]


def test_every_precision_has_a_line(monkeypatch, capsys):
    rows = table(monkeypatch, capsys, "exp")
    assert [row[1] for row in rows] == [
        "float32",
        "float64",
        *(f"{half} in and out, float32 inside" for half in ("bfloat16", "float16")),
    ]
    assert all(row[2] == "holds" for row in rows)


def test_what_deviates_is_named_with_its_cases(monkeypatch, capsys):
    row = table(monkeypatch, capsys, "softmax")[0]
    assert row[2].startswith("deviates in")
    assert "gradient of x" in row[5]
