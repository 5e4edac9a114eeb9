"""Every function is its transcription: the page, index by index, on all cases that are listed and made."""

import numpy as np
import pytest

from refnp.numbers.rounding import tolerance
from refnp.verify import layers
from refnp.verify.made import made_cases
from tests.helpers import assert_within
from tests.transcriptions.every import transcription

MOST = 300  # numbers of a case
LISTED = {}
for case in layers.cases():
    LISTED.setdefault(case.layer.name, []).append(case)


@pytest.mark.parametrize("name", [name for name in LISTED if transcription(name)])
def test_page_is_transcription(name):
    """In the widest precision: what bounds the page's rounding may come in twice, once for each."""
    listed, judged = LISTED[name], 0
    for case in [*listed, *made_cases(listed[0].layer, listed)]:
        problem = case.problem("longdouble")
        if sum(array.size for array in problem.arrays.values()) <= MOST:
            with np.errstate(all="ignore"):
                right = transcription(name)(*problem.arrays.values(), **case.options)
                page, bound = problem.bounds["output"].value, tolerance(problem.bounds["output"], "longdouble")
                assert_within(page, right, 2 * bound)
            judged += 1
    assert judged >= min(len(listed), 3)
