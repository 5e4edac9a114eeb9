"""PyTorch live: it agrees where it should, the eight known defects are caught, a wrong adapter is too."""

import warnings

import numpy as np
import pytest

from refnp.verify import known
from refnp.verify.cases import cases, defects
from refnp.verify.frameworks import NotOfferedError, pytorch
from refnp.verify.frameworks import pytorch_layers as layers
from refnp.verify.judge import DEVIATES, KNOWN, WITHIN
from refnp.verify.run import Framework, case_rows

pytest.importorskip("torch")

CASES = {case.name: case for case in cases()}
LIVE = [case for case in CASES.values() if case.layer.name in pytorch.LAYERS]


def judged(case):
    live = Framework("PyTorch", pytorch.version(), pytorch.answer)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [row for row in case_rows(case, [live], "0") if row.framework == "PyTorch"]


@pytest.fixture(scope="module")
def rows():
    return [row for case in LIVE for row in judged(case)]


def test_pytorch_deviates_only_where_it_is_known_to(rows):
    assert [row for row in rows if row.verdict == DEVIATES] == []
    assert len({row.case for row in rows}) >= 120
    assert sum(row.verdict == WITHIN for row in rows) > 10 * sum(row.verdict == KNOWN for row in rows)


@pytest.mark.skipif(not pytorch.installed() or not pytorch.version().startswith("2.13"), reason="as seen in 2.13")
@pytest.mark.parametrize("defect", known.EIGHT, ids=lambda defect: defect.issue)
def test_the_eight_defects_are_caught(rows, defect):
    made_for_it = {case.name for case in defects.cases() if defect in case.known}
    found = [row for row in rows if row.issue == defect.issue and row.case in made_for_it]
    assert {row.case for row in found} == made_for_it
    assert {row.verdict for row in found} == {KNOWN}
    assert max(row.error_over_bound for row in found) > 1e4


def test_masks_are_turned_round(monkeypatch):
    """True = may attend in refnp, and forbidden in nn.MultiheadAttention: forgetting it deviates."""
    case = CASES["multi_head/padding"]
    assert {row.verdict for row in judged(case)} == {WITHIN}
    right = layers.multi_head

    def forgetful(*tensors, mask, **options):
        return right(*tensors, mask=~mask, **options)

    monkeypatch.setitem(pytorch.LAYERS, "multi_head", forgetful)
    assert judged(case)[0].verdict == DEVIATES


def test_is_causal_is_aligned_top_left(monkeypatch):
    case = CASES["causal_attention/more keys than queries"]
    assert {row.verdict for row in judged(case)} == {WITHIN}
    import torch

    def bottom_right(query, key, value):
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2])
        return layers.functional("scaled_dot_product_attention")(query, key, value, attn_mask=mask)

    monkeypatch.setitem(pytorch.LAYERS, "causal_attention", bottom_right)
    assert judged(case)[0].verdict == DEVIATES


def test_a_layer_without_counterpart_is_not_offered():
    with pytest.raises(NotOfferedError, match="no set_convolution"):
        pytorch.answer(CASES["set_convolution/1-D"].problem("float32"))


def test_the_number_of_threads_is_left_alone():
    import torch

    before = torch.get_num_threads()
    pytorch.answer(CASES["softmax/ordinary"].problem("float32"))
    assert torch.get_num_threads() == before


def test_answers_keep_their_precision():
    for dtype in ("float32", "float64"):
        problem = CASES["softmax/ordinary"].problem(dtype)
        assert {array.dtype.name for array in pytorch.answer(problem).values()} == {dtype}
