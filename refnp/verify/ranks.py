"""Of how many axes a function takes its arrays, found out by trying where it raises an error for others."""

import copy
import re
from collections.abc import Sequence

from refnp.verify.asking import BROKEN, Asked
from refnp.verify.conventions import changes
from refnp.verify.findings import Report, first_line

OF_AXES = r"too many indices|tuple index out of range|axis -?\d+ is out of bounds"  # what Python and NumPy say of them
FEW = 12  # cases, of which two are to hold in a layout
OF_MORE_AXES = ("BHND", "BNHD")  # layouts that give arrays of two axes those of batch and heads


def is_mistake(failure: Exception) -> bool:
    """Whether an error is no refusal of so many axes, but a mistake inside of the function."""
    return isinstance(failure, BROKEN) and not re.search(OF_AXES, str(failure))


def of_axes_taken(asked: Asked, report: Report, name: str, dtypes: Sequence[str]) -> Report:
    """The report, or one in which the function is asked arrays of as many axes as it takes, if that can be found out.

    It can if the function raises for every case of some numbers of axes, and answers those of the others. In a layout
    with more axes it is asked all cases, where that makes some right for which it raised; else the others alone, and
    the report says what was left out.
    """
    raised = asked.raised
    axes_of = {problem.case.name: next(iter(problem.arrays.values())).ndim for problem in report.problems}
    taken = {axes for case, axes in axes_of.items() if case not in raised}
    if not raised or not taken or taken & {axes_of[case] for case in raised} or any(map(is_mistake, raised.values())):
        return report
    few = [case for case in asked.cases if case.name in raised][:FEW]
    for layout in OF_MORE_AXES:
        if sum(changes(layout, case) and asked.holds_with([case], dtypes[0], layouts=(layout,)) for case in few) > 1:
            other = copy.copy(asked)
            other.layouts = (layout,)
            found = other.report(name, dtypes)
            found.assumed.append(f"laid out as {layout}, for it raises an error for arrays of other axes")
            return found
    failure = next(iter(raised.values()))
    why = f"{type(failure).__name__}: {first_line(failure)}"
    report.judgements = [row for row in report.judgements if row.case not in raised]
    report.problems = [problem for problem in report.problems if problem.case.name not in raised]
    listed = " or ".join(map(str, sorted(taken)))
    report.skipped[f"{asked.who} takes arrays of {listed} axes alone, and raises {why} for others"] = list(raised)
    report.__dict__.pop("causes", None)
    return report
