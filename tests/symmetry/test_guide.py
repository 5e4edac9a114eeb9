"""The study in examples/ comes to the verdicts that it announces."""

import pathlib
import re
import runpy

import pytest

from refnp.symmetry.claim import FLOATS

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(len(FLOATS) < 3, reason="printed with a longdouble that is wider than float64")


def test_the_study_comes_to_the_verdicts_it_announces(capsys):
    runpy.run_path(str(ROOT / "examples" / "check_a_claim.py"), run_name="__main__")
    said = re.findall(r"^(\w+) is .*: (HOLDS|FAILS|UNDECIDED)$", capsys.readouterr().out, re.M)
    assert said == [
        ("attention", "HOLDS"),
        ("attention_with_positions", "FAILS"),
        ("down_and_up", "HOLDS"),
        ("down_and_up", "FAILS"),
        ("set_conv", "HOLDS"),
        ("set_conv", "HOLDS"),
        ("nearly_symmetric", "FAILS"),
    ]
