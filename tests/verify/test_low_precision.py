"""Kernels of low precision: right ones stay within the bound of their policy, those with a mistake do not."""

import re

import numpy as np
import pytest

from tests.verify import low_precision
from tests.verify.low_precision import RIGHT, WRONG, judged, passes_for_1_percent

pytest.importorskip("ml_dtypes")
named = lambda kernel: f"{kernel.layer}, {kernel.policy}: {kernel.mistake or 'right'}"


@pytest.mark.parametrize("kernel", RIGHT, ids=named)
def test_a_right_kernel_holds(kernel):
    report = judged(kernel)
    assert report.holds, str(report)
    assert len(report.rows) >= 4


@pytest.mark.parametrize("kernel", WRONG, ids=named)
def test_a_mistake_is_found(kernel):
    assert not judged(kernel).holds


def test_a_guessed_tolerance_lets_most_mistakes_pass():
    """15 mistakes at least are found that 1e-2 does not see on ordinary numbers."""
    assert sum(passes_for_1_percent(judged(kernel)) for kernel in WRONG) >= 15


def test_the_page_has_the_table():
    """But for the figures, which depend on the machine's exp."""
    page = low_precision.PAGE.read_text(encoding="utf-8")
    without = lambda line: re.sub(r"\| [^|]+ \| (passes|fails) \|$", r"| \1 |", line)
    shown = {without(line) for line in page.splitlines()}
    for line in low_precision.kernel_lines():
        assert without(line) in shown


def test_rounding_by_hand_is_rounding():
    x = np.random.default_rng(0).normal(size=100).astype(np.float32)
    np.testing.assert_array_equal(low_precision.f16(x), x.astype(np.float16).astype(np.float32))
