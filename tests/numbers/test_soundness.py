"""Of edits of one place of a page none that is wrong is proved; all of them: python -m tests.numbers.soundness."""

import collections

import pytest

from tests.numbers.soundness import CLAIMED, claims_tried, pages, tried

PAGES = pages()
TRIED = 2  # edits of each page, drawn


@pytest.mark.parametrize("name", PAGES)
def test_no_wrong_edit_of_a_page_is_proved_for_every_size(name):
    counts, unsound = tried(name, PAGES[name], TRIED)
    assert not unsound
    assert sum(counts.values()) >= TRIED


def test_right_edits_of_softmax_are_proved_and_wrong_ones_are_told_from_them():
    counts, _ = tried("softmax", PAGES["softmax"], 30, seed=1)
    verdicts = collections.Counter({name: n for name, n in counts.items() if "right" in name})
    assert counts["wrong, not proved"] >= 10
    assert verdicts["right, proved"] >= 3


@pytest.mark.parametrize("name", CLAIMED)
def test_no_symmetry_that_an_edited_page_lacks_is_proved(name):
    counts = collections.Counter()
    for seed in range(1, 9):
        found, unsound = claims_tried(name, TRIED, seed=seed)
        assert not unsound
        assert found["holds, proved"] >= len(CLAIMED[name][1]) - 2  # of the page as it is; softmax is not odd
        counts += found
        if counts["fails, not proved"]:  # an edit that keeps them all says nothing
            return
    pytest.fail(f"no edit of {name} lacks a symmetry: {counts}")
