"""Every case: it runs, refnp is within its bound, and its reference agrees with the textbook's equation."""

import numpy as np
import pytest

from refnp.verify import layers
from refnp.verify.case import KnownDefect
from refnp.verify.judge import NOT_JUDGED, WITHIN, case_judgements
from refnp.verify.layers import sizes

CASES = layers.cases()
SIZES = {case.name for case in sizes.cases()}  # larger ones


def test_names_are_unique():
    names = [case.name for case in layers.cases_to_ask()]
    assert len(set(names)) == len(names)


def test_there_are_at_least_500_cases_and_400_that_pytorch_offers():
    assert len(CASES) >= 500
    assert sum(case.layer.torch is not None for case in CASES) >= 400


WITHOUT_BOUND = {  # gradients of stacks in float32: before, their infinite bounds counted as kept
    "encoder_layer/weights of 3": 4,
    "transformer/post-norm": 24,
    "transformer/padded source": 17,
    "transformer/no biases": 14,
    "transformer/no biases, pre-norm, gelu": 1,
    "transformer/not causal": 22,
}


@pytest.mark.parametrize("case", layers.cases_to_ask(), ids=lambda case: case.name)
def test_refnp_is_right(case):
    """In float32 and float64 against the reference, and the reference against the textbook, if it is another one."""
    with np.errstate(all="ignore"):
        rows = case_judgements(case, [])
    dtypes = ("float32", "float64") if case.layer.whole else ("float32", "float64", "longdouble")
    assert [row.dtype for row in rows] == [dtype for dtype in dtypes for _ in case.quantities]
    others = [row for row in rows if row.verdict != WITHIN]
    assert {(row.dtype, row.verdict) for row in others} <= {("float32", NOT_JUDGED)}, others
    assert len(others) <= WITHOUT_BOUND.get(case.name, 0), others


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inputs_are_small_and_outputs_finite(case):
    """Recordings must stay small; and from finite input refnp makes nothing but finite numbers, and scores that a mask
    hides −∞."""
    problem = case.problem("float32")
    large = case.name in SIZES or case.layer.whole
    assert sum(array.size for array in problem.arrays.values()) < (3100 if large else 1500)
    with np.errstate(all="ignore"):
        answer = problem.answer()
    if "scores" in case.layer.name and "mask" in case.options:
        answer["output"] = np.where(case.options["mask"], answer["output"], 0)
    if all(np.isfinite(array).all() for array in problem.arrays.values()):
        for quantity, array in answer.items():
            if not np.isfinite(array).all():
                hidden = np.isneginf(problem.bounds[quantity].value)  # scores that a mask hides are −∞ by definition
                assert (np.isfinite(array) | (hidden & np.isneginf(array))).all()
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


@pytest.mark.parametrize("page", layers.LAYERS + layers.MODELS, ids=lambda page: page.__name__.rpartition(".")[2])
def test_every_known_defect_is_used_and_says_what_is_wrong(page):
    stated = {value for value in vars(page).values() if isinstance(value, KnownDefect)}
    assert stated <= {defect for case in CASES for defect in (*case.known_defects, *case.layer.known)}
    for defect in stated:
        assert defect.framework in ("PyTorch", "JAX")
        assert defect.issue
        assert len(defect.why) > 20
