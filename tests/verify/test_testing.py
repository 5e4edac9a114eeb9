"""Tests of users: one for each case, whose failure shows the line of the test and the reason."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradcheck
import refnp
from refnp import testing
from refnp.layers import relu
from refnp.symmetry import Permute, SymmetryError, invariant, search

ROOT = str(Path(__file__).parents[2])


@pytest.mark.parametrize("case", testing.cases("relu"), ids=str)
def test_a_right_function_holds_case_by_case(case):
    report = case.check(relu)
    assert {row.case for row in report.judgements} == {case.name}


def test_a_marked_test_runs_once_for_each_case(tmp_path):
    """With the plug-in; a failure shows the line of the test, the reason and the worst number, and no line of refnp."""
    (tmp_path / "test_own.py").write_text(
        "import pytest, refnp\n"
        "@pytest.mark.refnp('relu')\n"
        "def test_right(case):\n"
        "    case.check(refnp.layers.relu)\n"
        "@pytest.mark.refnp('relu')\n"
        "def test_wrong(case):\n"
        "    case.check(lambda x: x)\n"
    )
    options = [
        "-p",
        "pytest_refnp",
        "-k",
        "test_right or ordinary",
        "-n0",
        "-pno:cacheprovider",
        "--strict-markers",
        "--rootdir=.",
        "--tb=long",
    ]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ROOT})
    assert f"1 failed, {len(testing.cases('relu'))} passed" in done.stdout, done.stdout + done.stderr
    first = done.stdout.split("test_wrong[")[1]
    assert ">       case.check(lambda x: x)" in first
    assert "where 0 is right" in first
    assert "refnp/testing.py" not in done.stdout


def wrong_case():
    testing.cases("relu")[0].check(lambda x: x)


def wrong_numbers():
    refnp.assert_close("relu", np.full(2, -1.0), [np.array([-1.0, 1.0])], precision="float64")


def wrong_gradient():
    gradcheck.check(np.sin, (np.ones(2),), vjp=lambda f, x: (f(x), lambda u: (u,)))


def wrong_claim():
    claim = invariant(lambda x: x[0], Permute("x", axis=0))
    search(claim, lambda rng, n: {"x": rng.normal(size=n)}, sizes={"n": (2, 4)}).require()


@pytest.mark.parametrize("wrong", [wrong_case, wrong_numbers, wrong_gradient, wrong_claim])
def test_a_failure_shows_the_line_of_the_test(wrong):
    with pytest.raises((AssertionError, gradcheck.GradientError, SymmetryError)) as caught:
        wrong()
    shown = caught.traceback.filter(caught)
    assert shown[-1].name == wrong.__name__
    assert str(caught.value).strip()


def test_a_layer_that_there_is_not():
    with pytest.raises(ValueError, match="no_such_layer"):
        testing.cases("no_such_layer")
