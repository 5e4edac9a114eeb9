"""For tests of one's own in pytest: one test for each case of a layer, which fails with its reason and nothing else.

@pytest.mark.refnp("softmax")
def test_softmax(case):
    case.check(mypackage.softmax)                          # the options of refnp.judge: gradients=True, mask=…

The mark is that of pytest_refnp.py, a plug-in which is there where refnp is installed.
"""

import glob
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from refnp.verify.findings import Report
from refnp.verify.judging import judge
from refnp.verify.layer_names import named_cases


@dataclass(frozen=True)
class NamedCase:
    """One case of a layer; `str` is its name, "softmax/ordinary"."""

    layer: str
    name: str

    def check(self, function: Callable, **options: Any) -> Report:
        """Judge the function on this case alone; AssertionError with the text of the report unless it holds.

        options: those of `refnp.judge`. Raises ValueError as it does, where the case cannot be asked of the function.
        """
        __tracebackhide__ = True
        alone = f"[{self.name[0]}]{glob.escape(self.name[1:])}"  # a pattern that no longer name contains
        return judge(self.layer, function, only=alone, **options).require()

    def __str__(self) -> str:
        return self.name


def cases(layer: str) -> list[NamedCase]:
    """The cases of a layer, by any of its names; ValueError for a name that there is not."""
    return [NamedCase(layer, case.name) for case in named_cases(layer)]
