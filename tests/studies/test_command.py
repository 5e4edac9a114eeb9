"""What the commands refuse, beside what tests/test_cli.py asks of the command line as a whole; nothing is lost."""

import os

import pytest

from refnp.cli import main
from refnp.studies import training
from refnp.studies.training import Study
from refnp.verify import report
from tests.studies.tiny import OPTIONS


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a short run in it."""
    monkeypatch.setattr(training, "VALIDATION_BATCHES", 1)
    monkeypatch.chdir(tmp_path)
    training.run(Study("cnp", "eq", options=OPTIONS["cnp"], batch=2), steps=1, checkpoint="run.npz", show=False)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "run.npz", "run.npz"), "run.npz is the checkpoint itself, which would be lost; give another file"),
        (("export", "run.npz", "link.npz"), "link.npz is the checkpoint itself"),
        (("evaluate", "run.npz", "--tasks", "2", "--json", "run.npz"), "run.npz is the checkpoint itself"),
        (
            ("evaluate", "run.npz", "--tasks", "2", "--json", "/no/such/x.json"),
            "/no/such/x.json cannot be written: No such",
        ),
        (
            ("evaluate", "run.npz", "--tasks", "2", "--seed", "-1"),
            "seed is -1, shift 4.0; they must be 0 or more, and finite",
        ),
        (("evaluate", "run.npz", "--tasks", "2", "--shift", "nan"), "seed is 0, shift nan"),
        (("plot", "run.npz", "--seed", "-1"), "seed is -1, shift 0"),
        (("plot", "run.npz", "--shift", "inf"), "seed is 0, shift inf"),
        (("train", "cnp", "--option", "hidden=10000000000000000"), "Unable to allocate"),
        (("train", "convcnp-bruinsma", "--option", "channels=[]"), "channels are empty"),
        (("train", "cnp", "--option", "encoders=0"), "CNP: encoders is 0; at least 1 is needed"),
    ],
)
def test_refused(words, message, here, capsys):
    if "plot" in words:
        pytest.importorskip("matplotlib")
    os.symlink("run.npz", "link.npz")
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in here.iterdir()} == before


def test_ctrl_c_before_anything_has_begun(here, monkeypatch, capsys):
    def pressed(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "Study", pressed)
    assert main(["train", "cnp", "--task", "eq"]) == 130
    assert "goes on from cnp-eq.npz" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    report.check_writable(tmp_path / "new.json")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match=r"missing/new\.json cannot be written: No such file"):
        report.check_writable(tmp_path / "missing" / "new.json")
