"""Every case: it runs, refnp is within its bound, and its reference agrees with the textbook's equation."""

import numpy as np
import pytest

from refnp.verify import cases as pages
from refnp.verify import known
from refnp.verify.case import Known
from refnp.verify.frameworks import jax, pytorch
from refnp.verify.judge import WITHIN
from refnp.verify.run import case_rows

CASES = pages.cases()


def test_names_are_unique():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_there_are_at_least_120_cases_that_pytorch_offers():
    assert sum(case.layer.name in pytorch.LAYERS for case in CASES) >= 120


@pytest.mark.parametrize("adapter", [pytorch, jax])
def test_adapters_serve_layers_that_exist(adapter):
    assert set(adapter.LAYERS) <= {case.layer.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refnp_is_right(case):
    """In float32 and float64 against the reference, and the reference against the textbook."""
    with np.errstate(all="ignore"):
        rows = case_rows(case, [], "0")
    assert [row.dtype for row in rows] == [d for d in ("float32", "float64", "longdouble") for _ in case.quantities]
    assert {row.verdict for row in rows} == {WITHIN}, [row for row in rows if row.verdict != WITHIN]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inputs_are_small_and_outputs_finite(case):
    """Recordings must stay small; and from finite input refnp makes nothing but finite numbers."""
    problem = case.problem("float32")
    assert sum(array.size for array in problem.arrays.values()) < 1500
    with np.errstate(all="ignore"):
        answer = problem.answer()
    if all(np.isfinite(array).all() for array in problem.arrays.values()):
        assert all(np.isfinite(array).all() for array in answer.values())
    assert not any(np.isnan(array).any() for array in answer.values())


def test_edge_cases_are_there():
    names = " ".join(case.name for case in CASES)
    for words in (
        "length 1",
        "one element",
        "masked",
        "logits 1e4",
        "mean 1e4",
        "kernel longer than the input",
        "empty",
    ):
        assert words in names, words


def test_the_eight_defects_have_cases():
    shown = {defect for case in CASES for defect in case.known}
    assert set(known.EIGHT) <= shown
    numbers = " ".join(defect.issue for defect in known.EIGHT)
    for number in ("160064", "190486", "187806", "113708", "195680", "188372", "101967", "logsumexp"):
        assert number in numbers


def test_every_known_defect_is_used_and_says_what_is_wrong():
    all_known = {value for value in vars(known).values() if isinstance(value, Known)}
    assert all_known == {defect for case in CASES for defect in case.known}
    for defect in all_known:
        assert defect.framework in ("PyTorch", "JAX")
        assert defect.issue
        assert len(defect.why) > 20
