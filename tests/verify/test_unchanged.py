"""The comparison of two tables: what differs is found, what may differ is not."""

import json

import pytest

from tests import unchanged

VERIFY = {
    "section": "frameworks", "case": "relu/ordinary", "framework": "JAX", "version": "1", "dtype": "float32",
    "quantity": "output", "error_over_bound": 0.25, "ulps": 1.0, "verdict": "within bound", "issue": "",
}  # fmt: skip
GRADCHECK = {"name": "relu", "dtype": "float64", "order": 1, "method": "complex step", "elements": 30, "digits": 15.7}


@pytest.mark.parametrize("row", [VERIFY, GRADCHECK])
def test_a_table_is_like_itself_in_any_order(row):
    other = row | ({"case": "other"} if "case" in row else {"name": "other"})
    assert unchanged.differences([row, other, row], [row, row, other]) == []


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (VERIFY, {"error_over_bound": 0.25001}),
        (VERIFY, {"ulps": 3.0, "version": "2"}),
        (GRADCHECK, {"digits": 15.71}),
    ],
)
def test_what_may_differ(row, change):
    assert unchanged.differences([row], [row | change]) == []


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (VERIFY, {"error_over_bound": 0.251}),
        (VERIFY, {"error_over_bound": None}),
        (VERIFY, {"verdict": "deviates"}),
        (VERIFY, {"issue": "them#1"}),
        (GRADCHECK, {"digits": 15.6}),
        (GRADCHECK, {"elements": 29}),
        (GRADCHECK, {"method": "richardson"}),
    ],
)
def test_what_must_not_differ(row, change):
    (said,) = unchanged.differences([row], [row | change])
    assert "relu" in said


def test_rows_that_are_missing_or_new():
    assert unchanged.differences([VERIFY, VERIFY], [VERIFY]) == [
        "missing: frameworks | relu/ordinary | JAX | float32 | output (2)"
    ]
    assert unchanged.differences([], [GRADCHECK]) == ["new: relu | float64 | 1"]


def test_the_exit_status(tmp_path, capsys):
    files = [tmp_path / "before.json", tmp_path / "after.json"]
    for file, row in zip(files, (GRADCHECK, GRADCHECK | {"elements": 1}), strict=True):
        file.write_text(json.dumps({"rows": [row]}))
    assert unchanged.main([str(files[0]), str(files[0])]) == 0
    assert "1 rows, unchanged" in capsys.readouterr().out
    assert unchanged.main([str(file) for file in files]) == 1
    assert "elements 30 → 1" in capsys.readouterr().out
    assert unchanged.main([]) == 2
