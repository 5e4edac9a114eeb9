"""The verdict on one array: how far from the reference, in units of what rounding allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.verify.case import Answer, Case, Problem
from refnp.verify.rounding import WIDE, tolerance

WITHIN, KNOWN, DEVIATES, SKIPPED = "within bound", "known defect", "deviates", "skipped"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one quantity of one case, a row of the report. The first ten fields are what `--json` writes."""

    section: str
    case: str
    framework: str
    version: str
    dtype: str
    quantity: str
    error_over_bound: float
    ulps: float
    verdict: str
    issue: str = ""
    claimed: float = math.nan  # the worst element as it was given, and as it should be
    right: float = math.nan
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values; a number that is not finite (a NaN where there should be none, nothing to compare) is null."""
        names = list(Judgement.__dataclass_fields__)[:10]
        values = {name: getattr(self, name) for name in names}
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def deviation(given: np.ndarray, right: np.ndarray, allowed: np.ndarray, dtype: Any) -> tuple[float, float, Any]:
    """The worst error over bound, the worst error in units in the last place, and the index of the first.

    NaN for a NaN is right, and so is an infinity for the same one; any other NaN or infinity is infinitely wrong.
    """
    given, right = np.asarray(given, WIDE), np.asarray(right, WIDE)
    if not right.size:
        return 0.0, 0.0, None
    same = (given == right) | (np.isnan(given) & np.isnan(right))
    with np.errstate(all="ignore"):
        error = np.where(same, 0, np.abs(given - right))
        error = np.where(np.isnan(error), np.inf, error)
        ratio = np.where(error == 0, 0, error / allowed)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)  # inf/inf: the bound is no excuse for an infinity
        info = np.finfo(dtype)
        size = np.clip(np.where(np.isfinite(right), np.abs(right), 1), info.tiny, info.max)
        unit = info.eps * np.exp2(np.floor(np.log2(size)))
        ulps = error / unit
    worst = np.unravel_index(ratio.argmax(), ratio.shape)
    return float(ratio[worst]), float(ulps.max()), worst


def judged(
    problem: Problem, answer: Answer, reference: Answer, framework: str, version: str, *, dtype: str = ""
) -> list[Judgement]:
    """Judge the output and each gradient of `answer`, computed in `dtype` (by default the problem's)."""
    case, dtype, found = problem.case, dtype or problem.dtype, []
    for quantity, rounded in problem.bounds.items():
        given, right = np.asarray(answer[quantity]), np.asarray(reference[quantity])
        common = ("frameworks", case.name, framework, version, dtype, quantity)
        if given.shape != right.shape:
            why = f"shape {given.shape} where {right.shape} is right"
            found.append(Judgement(*common, math.inf, math.inf, DEVIATES, why=why))
            continue
        ratio, ulps, worst = deviation(given, right, tolerance(rounded, dtype), dtype)
        if ratio <= 1:
            found.append(Judgement(*common, ratio, ulps, WITHIN))
            continue
        defect = next((d for d in case.known_defects if d.covers(framework, dtype, quantity)), None)
        verdict, issue, why = (KNOWN, defect.issue, defect.why) if defect else (DEVIATES, "", "")
        found.append(Judgement(*common, ratio, ulps, verdict, issue, float(given[worst]), float(right[worst]), why))
    return found


def failed(section: str, name: str, framework: str, version: str, dtype: str, failure: Exception) -> Judgement:
    """The judgement of something that raised where it should have answered."""
    why = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return Judgement(section, name, framework, version, dtype, "output", math.inf, math.inf, DEVIATES, why=why)


def skipped(case: Case, framework: str, version: str, why: str) -> Judgement:
    """The judgement of a case for which a framework has no function."""
    return Judgement("frameworks", case.name, framework, version, "", "", math.nan, math.nan, SKIPPED, why=why)
