"""The command line: exit statuses, messages, and the JSON of `refnp verify`."""

import json
import subprocess
import sys

import numpy as np
import pytest

from refnp import cli
from refnp.verify import run
from refnp.verify.frameworks import pytorch
from refnp.verify.judge import DEVIATES, KNOWN, SKIPPED, WITHIN

FIELDS = [
    "section",
    "case",
    "framework",
    "version",
    "dtype",
    "quantity",
    "error_over_bound",
    "ulps",
    "verdict",
    "issue",
]


def refnp(*words):
    """Run the command in this process, on recordings alone unless told otherwise."""
    live = () if "--live" in words or "verify" not in words else ("--live", "none")
    return cli.main([*words, *live])


def test_all_is_well(tmp_path, capsys):
    file = tmp_path / "v.json"
    assert refnp("verify", "--only", "softmax", "--json", str(file)) == 0
    rows = json.loads(file.read_text())["rows"]
    assert all(list(row) == FIELDS for row in rows)
    assert {row["section"] for row in rows} == {"gradients", "properties", "frameworks"}
    assert {row["verdict"] for row in rows} == {WITHIN, KNOWN}
    assert {row["framework"] for row in rows} == {"refnp", "PyTorch", "JAX"}
    for row in rows:
        if row["verdict"] == WITHIN:
            assert 0 <= row["error_over_bound"] <= 1
        assert (row["verdict"] == KNOWN) == bool(row["issue"])
    output = capsys.readouterr().out
    assert output.startswith("refnp ")
    assert "pytorch/pytorch#113708" in output
    assert "rows judged against" in output


def test_a_framework_that_deviates_makes_status_1(monkeypatch, tmp_path, capsys):
    """A framework that is wrong where it is not known to be: here an adapter that forgets the √d."""
    plain = run.Recording.answer

    def wrong(self, problem):
        answer = plain(self, problem)
        return answer | {"output": answer["output"] * 2} if self.facts["framework"] == "JAX" else answer

    monkeypatch.setattr(run.Recording, "answer", wrong)
    file = tmp_path / "v.json"
    assert refnp("verify", "--only", "frameworks/relu/ordinary", "--json", str(file)) == 1
    assert [row["framework"] for row in json.loads(file.read_text())["rows"] if row["verdict"] == DEVIATES] == [
        "JAX"
    ] * 2
    assert "DEVIATIONS" in capsys.readouterr().out


def test_a_wrong_adapter_makes_status_1(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(pytorch.LAYERS, "softmax", lambda x, *, axis: x.sigmoid())
    assert refnp("verify", "--only", "frameworks/softmax/ordinary", "--live", "pytorch") == 1


def test_a_framework_that_raises_deviates(monkeypatch, capsys):
    def broken(self, problem):
        raise MemoryError("no room for it")

    monkeypatch.setattr(run.Recording, "answer", broken)
    assert refnp("verify", "--only", "frameworks/relu/ordinary") == 1
    assert "MemoryError: no room for it" in capsys.readouterr().out


def test_a_refnp_that_raises_deviates_and_the_rest_goes_on(monkeypatch, capsys):
    from refnp.verify.case import Problem

    plain = Problem.answer

    def broken(self, dtype=None):
        if "far left" in self.case.name:
            raise ZeroDivisionError("somewhere")
        return plain(self, dtype)

    monkeypatch.setattr(Problem, "answer", broken)
    assert refnp("verify", "--only", "frameworks/relu") == 1
    output = capsys.readouterr().out
    assert "ZeroDivisionError: somewhere" in output
    assert "relu/far right" in output


def test_a_wrong_refnp_makes_status_1(monkeypatch):
    """The reference is refnp too; but it is held against the textbook."""
    from refnp.verify.case import Problem

    plain = Problem.answer
    monkeypatch.setattr(Problem, "answer", lambda self, dtype=None: {q: a * 2 for q, a in plain(self, dtype).items()})
    assert refnp("verify", "--only", "frameworks/sigmoid/ordinary") == 1


def test_a_wrong_gradient_makes_status_1(monkeypatch):
    operations = [o for o in run.operations() if o.name == "exp"]
    wrong = type(operations[0])("exp", lambda x: np.exp(x.data) * x, operations[0].args)
    monkeypatch.setattr(run, "operations", lambda: [wrong])
    assert refnp("verify", "--only", "gradients") == 1


def test_pytorch_hidden_is_judged_as_recorded(monkeypatch, capsys):
    monkeypatch.setattr(pytorch, "installed", lambda: False)
    assert refnp("verify", "--only", "frameworks/sigmoid", "--live", "PyTorch") == 0
    assert "PyTorch 2.13" in (output := capsys.readouterr().out)
    assert "(recorded)" in output


def test_what_a_framework_does_not_offer_is_skipped(tmp_path):
    file = tmp_path / "v.json"
    assert refnp("verify", "--only", "frameworks/set_convolution/1-D", "--json", str(file)) == 0
    skipped = [row for row in json.loads(file.read_text())["rows"] if row["verdict"] == SKIPPED]
    assert [row["framework"] for row in skipped] == ["PyTorch", "JAX"]
    assert all(row["error_over_bound"] is None for row in skipped)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("verify", "--only", "no such thing"), "nothing is called 'no such thing'"),
        (("verify", "--json", "/no/such/folder/v.json"), "No such file"),
        (("verify", "--json", "."), "is a folder"),
        (("verify", "--live", "Theano"), "no adapter for 'theano'"),
        (("verify", "--colour"), "unrecognized arguments"),
        (("fly",), "invalid choice"),
        ((), "COMMAND"),
    ],
)
def test_wrong_usage_is_status_2(words, message, capsys):
    assert refnp(*words) == 2
    assert message in capsys.readouterr().err


def test_an_unwritable_file_is_found_before_the_work(monkeypatch):
    monkeypatch.setattr(run.Piece, "rows", lambda self: pytest.fail("work was done"))
    assert refnp("verify", "--json", "/no/such/folder/v.json") == 2


def test_help_tells_the_statuses(capsys):
    assert refnp("verify", "--help") == 0
    output = capsys.readouterr().out
    for words in ("exit status", "known defect", "--only PATTERN", "--json FILE", "within bound"):
        assert words in output


def test_version(capsys):
    assert refnp("--version") == 0
    assert capsys.readouterr().out.startswith("refnp ")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("softmax/rows", {"softmax/rows sum to 1"}), ("properties/attention*1", {"attention/weights sum to 1"})],
)
def test_patterns(pattern, names):
    assert {piece.name for piece in run.pieces([], pattern)} == names


def test_every_section_has_pieces_and_no_pattern_means_all():
    everything = run.pieces([])
    assert {piece.section for piece in everything} == {"gradients", "properties", "frameworks"}
    assert len(everything) > 200


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "refnp", "verify", "--only", "properties/softmax", "--live", "none"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "softmax/rows sum to 1" in done.stdout


def test_without_extended_precision():
    """Where longdouble is float64, that judges, and says so: its own error is part of the bounds."""
    script = (
        "import sys, numpy as np; np.longdouble, np.clongdouble = np.float64, np.complex128; "
        "from refnp.cli import main; sys.exit(main(['verify', '--only', 'frameworks/*norm*', '--live', 'none']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the reference is float64" in done.stdout


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert refnp("verify", "--only", "properties") == 0
    output = capsys.readouterr().out
    assert "rows judged against" in output
    assert "9/9" in output
    assert "  softmax/rows sum to 1" not in output, "no line for each piece"
