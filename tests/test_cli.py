"""The command line: exit statuses, messages, files; the JSON of `refnp verify`, and studies from end to end."""

import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from refnp import cli
from refnp.models.neural_process import NeuralProcess
from refnp.studies import training
from refnp.studies.registry import MODELS, TASKS
from refnp.studies.trained import shipped
from refnp.training.checkpoint import Checkpoint, load, save, state_of
from refnp.verify import judge
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, SKIPPED, WITHIN
from refnp.verify.properties import properties

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
    assert {row["verdict"] for row in rows} <= {WITHIN, CONVENTION, KNOWN, SKIPPED}
    assert {row["framework"] for row in rows} >= {"refnp", "PyTorch", "JAX", "MLX", "Paddle"}
    for row in rows:
        if row["verdict"] == WITHIN:
            assert 0 <= row["error_over_bound"] <= 1
        assert (row["verdict"] in (CONVENTION, KNOWN)) == bool(row["issue"])
    output = capsys.readouterr().out
    assert output.startswith("refnp ")
    assert "pytorch/pytorch#113708" in output
    assert "rows judged against" in output


def test_a_framework_that_deviates_makes_status_1(monkeypatch, tmp_path, capsys):
    """A framework that is wrong where it is not known to be: here an adapter that forgets the √d."""
    plain = judge.Recording.answer

    def wrong(self, problem):
        answer = plain(self, problem)
        return answer | {"output": answer["output"] * 2} if self.facts["framework"] == "JAX" else answer

    monkeypatch.setattr(judge.Recording, "answer", wrong)
    file = tmp_path / "v.json"
    assert refnp("verify", "--only", "frameworks/relu/ordinary", "--json", str(file)) == 1
    assert [row["framework"] for row in json.loads(file.read_text())["rows"] if row["verdict"] == DEVIATES] == [
        "JAX"
    ] * 2
    assert "DEVIATIONS" in capsys.readouterr().out


def test_a_wrong_adapter_makes_status_1(monkeypatch):
    pytest.importorskip("torch")
    (case,) = (case for case in judge.cases() if case.name == "softmax/ordinary")
    wrong = dataclasses.replace(case.layer, torch=lambda torch, x, *, axis: x.sigmoid())
    monkeypatch.setattr(judge, "cases", lambda: [dataclasses.replace(case, layer=wrong)])
    assert refnp("verify", "--only", "frameworks/softmax/ordinary", "--live", "pytorch") == 1


def test_a_framework_that_raises_deviates(monkeypatch, capsys):
    def broken(self, problem):
        raise MemoryError("no room for it")

    monkeypatch.setattr(judge.Recording, "answer", broken)
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
    (right,) = (inputs for inputs in judge.gradient_inputs() if inputs.name == "exp/ordinary")
    wrong = dataclasses.replace(right, function=lambda x: np.exp(x.data) * x)
    monkeypatch.setattr(judge, "gradient_inputs", lambda: [wrong])
    assert refnp("verify", "--only", "gradients") == 1


def test_pytorch_hidden_is_judged_as_recorded(monkeypatch, capsys):
    monkeypatch.setattr(judge, "installed", lambda name: False)
    assert refnp("verify", "--only", "frameworks/sigmoid", "--live", "PyTorch") == 0
    assert "PyTorch 2.13" in (output := capsys.readouterr().out)
    assert "(recorded)" in output


def test_what_a_framework_does_not_offer_is_skipped(tmp_path):
    file = tmp_path / "v.json"
    assert refnp("verify", "--only", "frameworks/set_convolution/1-D", "--json", str(file)) == 0
    skipped = [row for row in json.loads(file.read_text())["rows"] if row["verdict"] == SKIPPED]
    assert [row["framework"] for row in skipped][:4] == ["PyTorch", "JAX", "MLX", "Paddle"]
    assert all(row["error_over_bound"] is None for row in skipped)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("verify", "--only", "no such thing"), "nothing is called 'no such thing'"),
        (("verify", "--json", "/no/such/folder/v.json"), "No such file"),
        (("verify", "--json", "."), "is a folder"),
        (("verify", "--live", "Theano"), "no framework 'theano'"),
        (("verify", "--colour"), "unrecognized arguments"),
        (("fly",), "invalid choice"),
        ((), "COMMAND"),
    ],
)
def test_wrong_usage_is_status_2(words, message, capsys):
    assert refnp(*words) == 2
    assert message in capsys.readouterr().err


def test_an_unwritable_file_is_found_before_the_work(monkeypatch):
    monkeypatch.setattr(judge.Check, "run", lambda self: pytest.fail("work was done"))
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
    assert {check.name for check in judge.checks([], pattern)} == names


def test_every_section_has_checks_and_no_pattern_means_all():
    everything = judge.checks([])
    assert {check.section for check in everything} == {"gradients", "properties", "frameworks"}
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
        "from refnp.cli import main; words = ['--only', 'frameworks/*norm*', '--live', 'none', '--jobs', '1']; "
        "sys.exit(main(['verify', *words]))"
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
    assert f"{len(properties())}/{len(properties())}" in output
    assert "  softmax/rows sum to 1" not in output, "no line for each piece"


# studies


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, and short validations."""
    monkeypatch.setattr(training, "VALIDATION_BATCHES", 1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


CNP = ("train", "cnp", "--task", "eq", "--option", "hidden=8", "--batch", "2")


def test_train_evaluate_plot_and_export(here, capsys):
    assert refnp(*CNP, "--steps", "3") == 0
    output = capsys.readouterr()
    assert "cnp on eq, steps 1 to 3, kept in cnp-eq.npz" in output.out
    assert "3 steps: log-likelihood -" in output.out
    assert "oracle gap" in output.out
    assert "log-likelihood" in output.err, "progress"
    assert refnp("evaluate", "cnp-eq.npz", "--tasks", "20", "--json", "figures.json") == 0
    output = capsys.readouterr().out
    assert "cnp, trained on eq for 3 steps, seed 0" in output
    assert "evaluated on eq, 20 tasks at each place" in output
    for words in ("marginal log-likelihood per target", "exact posterior", "KL", "shifted by 4", "90 %"):
        assert words in output
    assert "joint" not in output
    figures = json.loads((here / "figures.json").read_text())
    assert (figures["task"], figures["tasks"], figures["steps"], figures["seed"]) == ("eq", 20, 3, 0)
    assert figures["configuration"]["options"] == {"hidden": 8}
    assert set(figures["figures"]) == {"inside", "shifted", "beyond"}
    assert figures["figures"]["inside"]["KL by itself"]["error"] > 0
    assert refnp("export", "cnp-eq.npz", "slim.npz") == 0
    assert f"slim.npz: {(here / 'slim.npz').stat().st_size} bytes" in capsys.readouterr().out
    assert refnp("evaluate", "slim.npz", "--tasks", "32", "--autoregressive", "--task", "sawtooth", "--shift", "1") == 0
    output = capsys.readouterr().out
    assert "joint log-likelihood per target" in output
    assert "shifted by 1" in output
    assert "evaluated on sawtooth" in output


def test_plot(here, capsys):
    pytest.importorskip("matplotlib")
    assert refnp(*CNP, "--steps", "1") == 0
    assert refnp("plot", "cnp-eq.npz", "--contexts", "0", "2", "--samples", "1") == 0
    assert "drawn on eq in cnp-eq.png" in capsys.readouterr().out
    assert (here / "cnp-eq.png").read_bytes().startswith(b"\x89PNG")
    assert refnp("plot", "cnp-eq.npz", "--contexts", "2", "--samples", "0", "--out", "p.svg", "--task", "rbf") == 0
    assert "<svg" in (here / "p.svg").read_text()


def test_plot_without_matplotlib_says_what_to_install(here, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    assert refnp("plot", "cnp-eq.npz") == 2
    assert "pip install 'refnp[study]'" in capsys.readouterr().err


def test_ctrl_c_is_safe_and_the_same_command_goes_on_to_the_same_bits(here, ctrl_c, monkeypatch, capsys):
    assert refnp(*CNP, "--steps", "4", "--checkpoint", "whole.npz") == 0
    plain, calls = NeuralProcess.loss, []

    def pressed(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 4:  # one before the first step
            signal.raise_signal(signal.SIGINT)
        return plain(*arguments, **options)

    monkeypatch.setattr(NeuralProcess, "loss", pressed)
    capsys.readouterr()
    assert refnp(*CNP, "--steps", "4", "--checkpoint", "parts.npz") == 130
    assert "stopped; the same command goes on from parts.npz" in capsys.readouterr().err
    assert load("parts.npz").step == 3
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setattr(training, "VALIDATION_BATCHES", 1)
    assert refnp(*CNP, "--steps", "4", "--checkpoint", "parts.npz") == 0
    assert "steps 4 to 4" in capsys.readouterr().out
    assert (here / "parts.npz").read_bytes() == (here / "whole.npz").read_bytes()
    assert refnp(*CNP, "--steps", "4", "--checkpoint", "parts.npz") == 0
    assert "all 4 steps are done" in capsys.readouterr().out


def test_numbers_that_are_not_finite_make_status_1(here, capsys):
    with np.errstate(all="ignore"):
        assert refnp(*CNP, "--steps", "9", "--lr", "1e30", "--schedule", "constant") == 1
    error = capsys.readouterr().err
    assert "refnp train: " in error
    assert "The checkpoint cnp-eq.npz holds the run after step 0" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train",), "required: MODEL"),
        (("train", "cpn"), "no model 'cpn'; did you mean cnp"),
        (("train", "cnp", "--task", "eqq"), "no task 'eqq'; did you mean eq"),
        (("train", "cnp", "--option", "hiden=3"), "no option 'hiden'; did you mean hidden"),
        (("train", "cnp", "--option", "hidden=many"), "hidden is 'many'; it must be a whole number"),
        (("train", "cnp", "--option", "hidden"), "write NAME=VALUE"),
        (("train", "cnp", "--option", "floor=2"), "floor is 2; it must lie in"),
        (("train", "cnp", "--steps", "0"), "0 is not a whole number, at least 1"),
        (("train", "cnp", "--steps", "1e3"), "1e3 is not a whole number"),
        (("train", "cnp", "--lr", "-1"), "learning rate is -1.0; it must be positive"),
        (("train", "cnp", "--schedule", "cos"), "no schedule 'cos'; did you mean cosine"),
        (("train", "cnp", "--dtype", "float16"), "no dtype 'float16'"),
        (("train", "cnp", "--checkpoint", "/no/such/x.npz"), "No such file"),
        (("train", "cnp", "--checkpoint", "run.npz", "--seed", "1"), "another run: seed 0 there, 1 here"),
        (("train", "tnpd", "--checkpoint", "run.npz"), "another run: model 'cnp' there, 'tnpd' here"),
        (("train", "cnp", "--checkpoint", "cut.npz"), "cut short or damaged"),
        (("train", "cnp", "--checkpoint", "slim.npz"), "a trained model without the state of its run"),
        (("evaluate",), "required: CHECKPOINT"),
        (("evaluate", "convcpn"), "no checkpoint 'convcpn'"),
        (("evaluate", "cut.npz"), "cut short or damaged"),
        (("evaluate", "other.npz"), "no checkpoint of `refnp train`"),
        (("evaluate", "run.npz", "--task", "eqq"), "no task 'eqq'"),
        (("evaluate", "run.npz", "--tasks", "1"), "a standard error needs at least 2 tasks"),
        (("evaluate", "run.npz", "--json", "/no/such/x.json"), "No such file"),
        (("evaluate", "run.npz", "--dtype", "float16"), "invalid choice"),
        (("plot", "cut.npz"), "cut short or damaged"),
        (("plot", "run.npz", "--out", "x.gif"), "give a file that ends in .png, .svg, .pdf"),
        (("plot", "run.npz", "--out", "/no/such/x.png"), "No such file"),
        (("plot", "run.npz", "--contexts", "-1"), "they must be 0 or more"),
        (("export", "run.npz"), "required: FILE"),
        (("export", "other.npz", "x.npz"), "no checkpoint of `refnp train`"),
        (("export", "run.npz", "/no/such/x.npz"), "No such file"),
    ],
)
def test_wrong_usage_of_studies(words, message, here, capsys):
    if "plot" in words:
        pytest.importorskip("matplotlib")
    configuration = training.Study("cnp", "eq").configuration()
    model, _, rng = training.Study("cnp", "eq").new()
    run = Checkpoint(model.state_dict(), configuration, 0, generator=state_of(rng), optimizer_name="Adam")
    save("run.npz", run)
    save("slim.npz", Checkpoint(model.state_dict(), configuration))
    save("other.npz", Checkpoint(model.state_dict(), {"model": "CNP"}))
    (here / "cut.npz").write_bytes((here / "run.npz").read_bytes()[:3000])
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert refnp(*words) == 2
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in here.iterdir()} == before, "nothing is lost, nothing is left behind"


def test_help_names_every_model_and_task_and_the_weights(capsys):
    assert refnp("train", "--help") == 0
    words = set(capsys.readouterr().out.split())
    assert words >= {*MODELS, *TASKS}
    for command in ("evaluate", "plot"):
        assert refnp(command, "--help") == 0
        assert set(capsys.readouterr().out.split()) >= set(shipped())
    assert refnp("--help") == 0
    output = capsys.readouterr().out
    for command in ("verify", "train", "evaluate", "plot", "export", "convert"):
        assert command in output


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["--help"], ["refnp.studies", "refnp.models", "refnp.verify", "matplotlib", "rich"]),
        (["verify", "--only", "properties/softmax", "--live", "none"], ["refnp.studies", "matplotlib"]),
        (["train", "cpn"], ["matplotlib"]),
    ],
)
def test_a_command_imports_what_it_needs(words, absent):
    script = (
        "import sys; from refnp.cli import main\n"
        f"main({words!r})\n"
        f"print([name for name in {absent!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_what_a_terminal_lacks_loses_no_verdict(tmp_path):
    """Output in cp1252, as on Windows where it is piped; and names from files do not control the terminal."""
    env = os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "refnp", "judge", "--list", "rms_norm"]
    done = subprocess.run(command, env=env, capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert cli.plain("red \x1b[31m\nblue") == "red ?[31m\nblue"


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written_is_one_line():
    """A full disk, and no output at all; a value that is nested too deeply beside them."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "refnp", "--version"], env=env, stdout=full, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (2, b"refnp: error: No space left on device\n")
    closed = f"exec >&-; exec {sys.executable} -m refnp verify --only relu/around --live none"
    done = subprocess.run(["sh", "-c", closed], env=env, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    with pytest.raises(ValueError, match="--option x: its value is nested too deeply"):
        cli.parsed(["x=" + "[" * 100_000])
