"""Every fault that a kernel may have is seen by some case of the judge; of all layers: python -m tests.adequacy."""

import pytest

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
    small = [case for case in asked.cases if "1027" not in case.name and "67" not in case.name and case.made]
    unseen = [row.says for row in adequacy.table(adequacy.Asked(asked.layer, small)) if not row.case]
    assert "behind the last whole block of 32 along *D nothing is read" in unseen
