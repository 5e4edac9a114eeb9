"""Names: what is close is suggested."""

import pytest

from refnp.studies.registry import named, unknown


def test_found():
    assert named("fruit", "pear", {"pear": 1}) == 1


def test_close_ones_are_suggested_and_all_are_listed():
    with pytest.raises(ValueError, match=r"no fruit 'paer'; did you mean pear\? There are pear, quince"):
        named("fruit", "paer", {"pear": 1, "quince": 2})


def test_nothing_close_and_nothing_at_all():
    assert unknown("fruit", "xyz", ["pear"]) == "there is no fruit 'xyz'. There are pear"
    assert unknown("fruit", "xyz", []) == "there is no fruit 'xyz'. There are none"
