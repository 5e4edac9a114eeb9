"""PyTorch live: it agrees where it should, its known defects and conventions are caught, a wrong adapter is too."""

import dataclasses
import warnings

import numpy as np
import pytest

from refnp.verify.case import NotOfferedError
from refnp.verify.frameworks import framework_of, installed
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, WITHIN, case_judgements
from refnp.verify.layers import cases_of_layers, multi_head

pytest.importorskip("torch")

CASES = {case.name: case for case in cases_of_layers()}
answer_of = framework_of("PyTorch").answer
LIVE = [case for case in CASES.values() if case.layer.torch is not None]
SEVEN = {  # defects, and the cases that were made to show them
    "pytorch/pytorch#160064": ["multi_head_with_weights/fully masked row"],
    "pytorch/pytorch#190486": ["encoder_fast_path/a sequence of padding"],
    "pytorch/pytorch#187806": ["gelu/at -5 and -8"],
    "pytorch/pytorch#113708": ["log_softmax/20 and 0", "log_softmax/one component of the gradient"],
    "pytorch/pytorch#195680": ["log_softmax/one component of the gradient"],
    "pytorch/pytorch#188372": ["layer_norm/one element of 1e6"],
    "logsumexp of -inf: NaN gradient": ["logsumexp/-inf alone"],
}
CONVENTIONS = {
    "NaN behind a mask comes through (pytorch/pytorch#101967)": [
        f"attention/{value} in a masked {name}" for name in ("key", "value") for value in ("nan", "inf")
    ],
    "softplus is linear above 20": ["softplus/far right"],
    "an axis whose length stays is copied": ["upsample/1-D, linear, factor 1.125"],
}


def with_adapter(case, adapter):
    """The case with another function of PyTorch."""
    return dataclasses.replace(case, layer=dataclasses.replace(case.layer, torch=adapter))


def judged(case):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [row for row in case_judgements(case, [framework_of("PyTorch")]) if row.framework == "PyTorch"]


@pytest.fixture(scope="module")
def rows():
    return [row for case in LIVE for row in judged(case)]


def test_pytorch_deviates_only_where_it_is_known_to(rows):
    assert [row for row in rows if row.verdict == DEVIATES] == []
    assert len({row.case for row in rows}) >= 120
    assert sum(row.verdict == WITHIN for row in rows) > 10 * sum(row.verdict == KNOWN for row in rows)


@pytest.mark.skipif(
    not (installed("PyTorch") and framework_of("PyTorch").version.startswith("2.13")), reason="as seen in 2.13"
)
@pytest.mark.parametrize("issue", SEVEN)
def test_the_seven_defects_are_caught(rows, issue):
    found = [row for row in rows if row.issue == issue and row.case in SEVEN[issue]]
    assert {row.case for row in found} == set(SEVEN[issue])
    assert {row.verdict for row in found} == {KNOWN}
    assert max(row.error_over_bound for row in found) > 1e4


@pytest.mark.parametrize("name", CONVENTIONS)
def test_other_conventions_are_told_apart_from_defects(rows, name):
    found = [row for row in rows if row.issue == name]
    assert {row.case for row in found} == set(CONVENTIONS[name])
    assert {row.verdict for row in found} == {CONVENTION}
    assert {row.case for row in rows if row.verdict == CONVENTION} == {
        c for names in CONVENTIONS.values() for c in names
    }


def test_masks_are_inverted():
    """True = may attend in refnp, and forbidden in nn.MultiheadAttention: forgetting it deviates."""
    case = CASES["multi_head/padding"]
    assert {row.verdict for row in judged(case)} == {WITHIN}

    def forgetful(*arguments, mask, **options):
        return multi_head.torch_multi_head(*arguments, mask=~mask, **options)

    assert judged(with_adapter(case, forgetful))[0].verdict == DEVIATES


def test_is_causal_is_aligned_top_left():
    case = CASES["causal_attention/more keys than queries"]
    assert {row.verdict for row in judged(case)} == {WITHIN}

    def bottom_right(torch, query, key, value):
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2])
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    assert judged(with_adapter(case, bottom_right))[0].verdict == DEVIATES


def test_a_layer_without_counterpart_is_not_offered():
    with pytest.raises(NotOfferedError, match="no set_convolution"):
        answer_of(CASES["set_convolution/1-D"].problem("float32"))


@pytest.mark.parametrize("name", ["nn.functional.no_such_relu", lambda torch, x: torch.nn.functional.no_such_relu(x)])
def test_what_an_older_version_lacks_is_not_offered(name):
    with pytest.raises(NotOfferedError, match=r"PyTorch .* no_such_relu|PyTorch .*'no_such_relu'"):
        answer_of(with_adapter(CASES["relu/ordinary"], name).problem("float32"))


def test_a_mistake_in_an_adapter_is_not_taken_for_an_older_version():
    with pytest.raises(AttributeError):
        answer_of(with_adapter(CASES["relu/ordinary"], lambda torch, x: x.no_such_method()).problem("float32"))


def test_the_number_of_threads_is_left_alone():
    import torch

    before = torch.get_num_threads()
    answer_of(CASES["softmax/ordinary"].problem("float32"))
    assert torch.get_num_threads() == before


def test_answers_keep_their_precision():
    for dtype in ("float32", "float64"):
        problem = CASES["softmax/ordinary"].problem(dtype)
        assert {array.dtype.name for array in answer_of(problem).values()} == {dtype}
