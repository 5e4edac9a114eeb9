"""What is printed, and what programs read."""

import json
import math
import os

import numpy as np
import pytest

import refnp
from refnp.verify import report
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, SKIPPED, WITHIN, Check, Judgement


def row(verdict=WITHIN, ratio=0.5, framework="PyTorch", **fields):
    known = {"issue": "them#7", "why": "it cancels"} if verdict in (KNOWN, CONVENTION) else {}
    return Judgement(
        "frameworks", "softmax/x", framework, "1", "float32", "output", ratio, 2.0, verdict, **known | fields
    )


CHECK = Check("frameworks", "softmax/x", list)


def test_a_line_shows_the_worst_of_each_framework():
    rows = [
        row(ratio=0.1),
        row(ratio=0.6),
        row(framework="refnp", ratio=0.02),
        row(DEVIATES, math.inf, framework="JAX"),
    ]
    line = report.line(CHECK, rows)
    assert "PyTorch 0.6   refnp 0.02   JAX inf DEVIATES" in line


def test_a_line_shows_known_defects_and_leaves_out_the_skipped():
    rows = [row(KNOWN, 1e9), row(), row(SKIPPED, math.nan, framework="JAX")]
    assert report.line(CHECK, rows).endswith("PyTorch 1.0e+09 known defect")


def test_the_table_has_a_line_for_each_layer():
    rows = [row(ratio=0.2), row(ratio=0.4), row(KNOWN, 7.0), row(framework="refnp"), row(SKIPPED, math.nan, "JAX")]
    assert report.by_layer(rows) == [
        ["", "cases", "PyTorch", "refnp", "JAX"],
        ["softmax", "1", "0.4, 1 known defect", "0.5", ""],
    ]


def test_deviations_say_what_came_and_what_is_right():
    (text,) = report.deviations([row(), row(KNOWN, 9.0), row(DEVIATES, 3.0, claimed=1.0000001, right=1.0)])
    assert text == "softmax/x: PyTorch 1, float32, output: 3 times its bound, 1.0000001 where 1 is right"


def test_known_defects_come_once_for_each_issue():
    (text,) = report.known_defects([row(KNOWN, math.inf, claimed=math.nan, right=0.25), row(KNOWN, 5.0), row()])
    assert "PyTorch  them#7" in text
    assert "it cancels" in text
    assert "nan, right is 0.25  (2 rows)" in text


def test_other_conventions_have_a_section_of_their_own():
    rows = [row(KNOWN, 5.0), row(CONVENTION, 7.0, claimed=1.0, right=0.0), row()]
    (text,) = report.known_defects(rows, CONVENTION)
    assert "1, right is 0  (1 row)" in text
    assert report.line(CHECK, rows[1:]).endswith("PyTorch 7 another convention")


@pytest.mark.parametrize(
    ("claimed", "right", "texts"),
    [
        (1.0, 2.0, ("1", "2")),
        (0.123456789, 0.123456788, ("0.123456789", "0.123456788")),
        (-0.0, -5e-15, ("-0", "-5e-15")),
    ],
)
def test_as_many_digits_as_it_takes(claimed, right, texts):
    assert report.exactly(claimed, right) == texts


def test_the_summary_counts():
    lines = "\n".join(report.summary([row(), row(KNOWN, 3.0), row(SKIPPED, math.nan)], "longdouble, 64 bits", 1.234))
    assert "2 rows judged against longdouble, 64 bits, in 1.2 s" in lines
    assert "1 within bound" in lines
    assert "1 cases of PyTorch 1" in lines


def test_json_is_strict_and_whole(tmp_path):
    file = tmp_path / "v.json"
    rows = [row(), row(DEVIATES, math.inf, claimed=math.nan), row(SKIPPED, math.nan)]
    report.write(file, report.as_json(rows))
    text = file.read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    found = json.loads(text)
    assert list(found) == ["judge", "rows"]
    assert [*found["judge"]] == ["refnp", "numpy", "reference", "platform"]
    assert [r["error_over_bound"] for r in found["rows"]] == [0.5, None, None]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "v.json"
    file.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.write(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file], "nothing else is left behind"


def test_what_cannot_be_written_is_found_before_the_work(tmp_path):
    report.check_writable(tmp_path / "new.json")
    with pytest.raises(OSError, match="is a folder"):
        report.check_writable(tmp_path)
    with pytest.raises(OSError):
        report.check_writable(tmp_path / "missing" / "v.json")
    if os.geteuid():  # root may write anywhere
        (tmp_path / "fixed.json").touch(0o400)
        with pytest.raises(OSError, match="read-only"):
            report.check_writable(tmp_path / "fixed.json")


def test_a_report_is_short_where_it_is_not_printed():
    """In a debugger, a list or a notebook, where a name may hold what HTML would read."""

    def own(x):
        return np.exp(x)

    own.__name__ = "<b>own"
    found = refnp.judge("softmax", own, dtypes="float64", skip="*made*")
    assert repr(found) == f"<Report of {found.who} as softmax: {len(found.judgements)} rows, " + (
        f"{len(found.deviations)} of them deviate>"
    )
    assert "&lt;b&gt;own" in found._repr_html_()
    assert "<b>" not in found._repr_html_()
