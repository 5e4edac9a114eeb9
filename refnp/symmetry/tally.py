"""What a search has tried so far and what came of it, and the verdict that this allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from refnp.symmetry.judge import Finding
from refnp.symmetry.precision import FLOATS, DType, called
from refnp.symmetry.verdict import CounterExample, Counts, Verdict


class Tally:
    """Counts, extremes, and what stands in the way of a verdict: `refusal`, `faint` and `unsteady` say it in words."""

    def __init__(self, digits: float):
        self.digits, self.counts = digits, Counts()
        self.worst, self.resolution = 0.0, 0.0
        self.relative: dict[DType, float] = {}
        self.refusal = self.faint = self.unsteady = self.remark = ""

    def count(self, **more: int) -> None:
        """Add to the counts named."""
        self.counts = replace(self.counts, **{name: getattr(self.counts, name) + n for name, n in more.items()})

    def enter(self, finding: Finding, dtype: DType, element: str, unheard: float) -> None:
        """One more pair that was judged, in this precision, and found not to violate the claim.

        `unheard` is a change of the input that f does not notice; where that is, a violation would go unnoticed, too.
        """
        self.count(pairs=1)
        if finding.outcome == "faint":
            self.faint = self.faint or f"{finding.relative:.1e} of the output at {element}"
            return
        if finding.outcome == "agrees":
            self.worst = max(self.worst, finding.ratio)
        resolution = max(finding.resolution, unheard)
        if resolution > 10**-self.digits:
            self.count(blurred=1)
        else:
            self.resolution = max(self.resolution, resolution)
            self.see(dtype, finding.relative)

    def see(self, dtype: DType, relative: float) -> None:
        """A discrepancy, relative to the output, in one precision."""
        if np.isfinite(relative):
            self.relative[dtype] = max(self.relative.get(dtype, 0.0), relative)

    def reason(self) -> str:
        """Why nothing can be decided; empty if the claim can be said to hold."""
        counts = self.counts
        if self.unsteady:
            return self.unsteady
        if self.faint:
            return (
                f"there is a steady discrepancy of {self.faint}: no larger than rounding in a coarser precision, which "
                "rounded constants or a cast inside f would leave, and so would a violation that small"
            )
        if not counts.inputs:
            return f"f took no input; {self.refusal}" if self.refusal else "no input was in the domain"
        if not counts.pairs:
            return "nothing was tested: no element moved anything, or f gave only zeros"
        if 2 * counts.blurred > counts.pairs:
            return (
                f"at {counts.blurred} of {counts.pairs} pairs rounding would hide a violation of 1e-{self.digits:g} of "
                "the output; ask for fewer digits, draw better conditioned inputs, or give a bound"
            )
        return ""

    def verdict(self, claim: str, sense: str, counterexample: CounterExample | None) -> Verdict:
        """All of it in one object."""
        reason = "" if counterexample else self.reason()
        outcome = "fails" if counterexample else "undecided" if reason else "holds"
        refused = f"refused, for one, {self.refusal}" if self.refusal else ""
        return Verdict(
            outcome,
            claim,
            sense,
            reason or "; ".join(filter(None, (self.remark, refused))),
            self.counts,
            self.worst,
            {called(dtype): self.relative[dtype] for dtype in FLOATS if dtype in self.relative},
            self.resolution,
            counterexample,
        )
