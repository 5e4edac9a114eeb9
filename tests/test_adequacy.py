"""Every fault that a kernel may have is seen by some case of the judge; of all layers: python -m tests.adequacy."""

import pytest

from refnp.verify.made import LONG, LONGEST
from tests import adequacy

SAMPLE = ("softmax", "layer_norm", "attention_scores", "cross_entropy", "matmul")


@pytest.mark.parametrize("name", SAMPLE)
def test_every_fault_is_seen(name):
    (asked,) = adequacy.every(name)
    rows = adequacy.table(asked)
    assert len(rows) >= 30
    assert [row.says for row in rows if not row.case] == []


def test_small_cases_alone_do_not_see_them():
    (asked,) = adequacy.every("layer_norm")
    is_small = lambda case: not any(str(n) in case.name for n in (*LONG, LONGEST))
    small = [case for case in asked.cases if case.made and is_small(case)]
    unseen = [row.says for row in adequacy.table(adequacy.Asked(asked.layer, small)) if not row.case]
    assert "behind the last whole block of 32 along *D nothing is read" in unseen
