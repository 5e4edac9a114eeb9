"""Scripts that show a defect with one framework alone: they run, they show it, and they are short."""

import contextlib
import os
import warnings

import numpy as np
import pytest

from refnp.cli import main
from refnp.verify import record, reproduce
from refnp.verify.judge import CONVENTION, KNOWN, case_judgements
from refnp.verify.layers import cases

DECIDED_BY_ROUNDING = {"det/singular, rank N - 1"}  # of the processor: whether the last pivot is 0
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def first_cases(name, *, most=None):
    """A case for each defect and convention that the recording of a framework shows."""
    recording, found = record.Recording(record.FOLDER / f"{name.lower()}.npz").framework, {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases():
            issues = {d.issue for d in (*case.known_defects, *recording.known_defects) if d.framework == name}
            if issues - set(found):
                for row in case_judgements(case, [recording]):
                    if row.framework == name and row.verdict in (KNOWN, CONVENTION):
                        found.setdefault(row.issue, case.name)
    return list(dict.fromkeys(found.values()))[:most]


def run(script):
    """The exit status of a script, which is run here."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(SystemExit) as stop:
            exec(compile(script, "<script>", "exec"), {})
    return stop.value.code


def test_every_defect_of_pytorch_is_reproduced(capsys):
    """In fewer than 25 lines, without refnp; each shows the defect and ends with status 1."""
    pytest.importorskip("torch")
    for name in first_cases("PyTorch"):
        try:
            with np.errstate(all="ignore"):
                script = reproduce.script(name, "pytorch")
        except ValueError:
            if name not in DECIDED_BY_ROUNDING:
                raise
            continue
        assert len(script.splitlines()) < 25, name
        assert max(map(len, script.splitlines())) <= 120, name
        assert "refnp" not in script, name
        assert run(script), name
        claimed, right = capsys.readouterr().out.removeprefix("claimed ").split(", ")[:2]
        assert claimed != right.removeprefix("right "), name


def test_defects_of_jax_are_reproduced(monkeypatch):
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    try:
        for name in first_cases("JAX", most=None if THOROUGH else 4):
            script = reproduce.script(name, "JAX")
            assert len(script.splitlines()) < 25, name
            assert run(script), name
    finally:
        jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("name", ["MLX", "Paddle"])
def test_defects_of_others_are_reproduced_where_they_are_installed(name):
    pytest.importorskip(name.lower())
    for case in first_cases(name):
        script = reproduce.script(case, name)
        with contextlib.suppress(RuntimeError, ValueError):  # the framework's own: the defect is that it raises
            assert run(script), case


def test_the_command_prints_the_script(capsys):
    pytest.importorskip("torch")
    assert main(["verify", "--reproduce", "log_softmax/20 and 0", "pytorch"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("# PyTorch ")
    assert "x = torch.tensor([[20, 0]], dtype=torch.float" in output
    assert "-2.06115362031438" in output


@pytest.mark.parametrize(
    ("name", "framework", "message"),
    [
        ("log_softmax/20 and 1", "PyTorch", "no case 'log_softmax/20 and 1'; similar are 'log_softmax/20 and 0'"),
        ("relu/ordinary", "Theano", "no scripts for 'Theano'; name PyTorch"),
        ("relu/ordinary", "PyTorch", "is right in 'relu/ordinary'"),
        ("set_convolution/1-D", "PyTorch", "PyTorch has no set_convolution"),
    ],
)
def test_what_cannot_be_reproduced_is_told(capsys, name, framework, message):
    pytest.importorskip("torch")
    assert main(["verify", "--reproduce", name, framework]) == 2
    assert message in capsys.readouterr().err


def test_a_framework_that_is_not_installed_is_named(monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "installed", lambda name: False)
    assert main(["verify", "--reproduce", "relu/ordinary", "MLX"]) == 2
    assert "MLX is not installed" in capsys.readouterr().err
