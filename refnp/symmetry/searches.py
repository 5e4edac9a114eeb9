"""What a search has tried so far and what came of it, and the verdict that this allows.

The search: many inputs, many elements, one verdict.

    verdict = search(equivariant(f, Permute("x", -2), Permute(axis=-2)), draw, sizes={"n": range(8)})
    print(verdict)                  holds, fails with a counter-example, or undecided, and in which exact sense
    verdict.require()               raises unless it holds

For every input that is drawn all elements of the group are tried if there are at most 120, and otherwise its generators
and some that are drawn. The first violation ends the search and is made as simple as it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.symmetry.actions import SMALL
from refnp.symmetry.claim import FLOATS, Claim, DType, Ladder, Refusal, called, cast, ladder
from refnp.symmetry.inputs import Case, Domain, Draw, Scales, Sizes, cases
from refnp.symmetry.judge import SAMPLES, Bound, BoundedJudge, Finding, Judge, discrepancy
from refnp.symmetry.shrink import Found, Shrinker, few_elements
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


ENOUGH = 2  # faint discrepancies at one input before the search goes on to the next, for they take long to tell
FEW = 2  # inputs beside x while a counter-example is made simpler


def search(
    claim: Claim,
    draw: Draw,
    *,
    sizes: Sizes | None = None,
    dtypes: Sequence[Any] = (np.float64, np.float32),
    scales: Scales = (1.0, 2.0**-10, 2.0**10),
    where: Callable[..., Any] | None = None,
    bound: Bound | None = None,
    digits: float = 9.0,
    count: int = 48,
    seed: int = 0,
) -> Verdict:
    """Look for an input and an element that contradict `claim`; the same call gives the same verdict.

    draw      (rng, **sizes) → dict of arrays, the arguments of f; None for one that is left out
    sizes     name → the values it may have, range(9) say; 0 and 1 belong there if f allows them
    dtypes    of the inputs, in turn
    scales    what real inputs are multiplied by, each array by its own; a mapping from names scales only those;
              (1,) leaves inputs as they are drawn
    where     (**inputs) → whether the claim is made about these inputs
    bound     (inputs, g, dtype) → what f(g·x) and g·f(x) may differ by; the law of rounding otherwise
              (refnp/symmetry/judge.py)
    digits    a violation of 10^−digits of the output must be visible in at least half of the pairs, or the verdict is
              "undecided"
    count     how many inputs

    Raises ValueError for no input, or actions that do not fit the arrays; whatever `draw` and `where` raise.
    """
    if count < 1 or not dtypes:
        raise ValueError(f"search: count is {count} and dtypes {dtypes}; there must be something to try")
    dtypes = [np.dtype(dtype) for dtype in dtypes]
    looking = _Search(claim, Domain(draw, sizes or {}, where), bound, Tally(digits), seed)
    counterexample = None
    for case in cases(looking.domain, dtypes, scales, count, seed):
        if (found := looking.at(case)) is not None:
            counterexample = looking.counterexample(found)
        if counterexample or looking.tally.unsteady:
            break
    return looking.tally.verdict(str(claim), _sense(sizes or {}, dtypes, scales, seed), counterexample)


class _Search:
    """One claim, the inputs it is about, and a tally of what was tried."""

    def __init__(self, claim: Claim, domain: Domain, bound: Bound | None, tally: Tally, seed: int):
        self.claim, self.domain, self.bound, self.tally, self.seed = claim, domain, bound, tally, seed
        self.ladder: Ladder | None = None

    def second_judge(self, case: Case) -> Judge:
        """A second judge, who looks at other inputs beside this one, and at twice as many: once in a search it pays."""
        return self.judge(case, 2 * SAMPLES, 1)

    def judge(self, case: Case, samples: int = SAMPLES, turn: int = 0) -> Judge:
        """The judge of this input. Raises Refusal if f does not take it."""
        if self.bound is not None:
            return BoundedJudge(self.claim, self.bound, case.dtype, case.inputs)
        steps = self.ladder or ladder(self.claim, case.inputs)
        judge = Judge(self.claim, steps, case.inputs, np.random.default_rng((self.seed, turn)), samples)
        if self.ladder is None and all(a.size for a in judge.site.here(0, steps.top).values()):
            self.ladder = steps  # the same for all further inputs; an empty result proves nothing
        return judge

    def at(self, case: Case) -> Found | None:
        """Try one input with many elements; the first violation, if there is one."""
        claim, tally = self.claim, self.tally
        try:
            judge = self.judge(case)
        except Refusal as refusal:
            tally.count(refused=1)
            tally.refusal = tally.refusal or f"{_told(case.sizes)}: {refusal}"
            return None
        if judge.changes_its_mind():
            tally.unsteady = "f gives different results for the same input; give it a generator with a fixed seed"
            return None
        tally.count(inputs=1)
        rng = np.random.default_rng((self.seed, tally.counts.inputs))
        elements = few_elements(claim.action, case, rng, SMALL)
        moving = [g for g in elements if not judge.site.moves_nothing(g)]
        tally.count(idle=len(elements) - len(moving))
        found, tried = self._tried(judge, case, moving)
        every = claim.action.elements(case.inputs)
        tally.count(exhausted=int(tried == len(moving) and every is not None and len(every) == len(elements)))
        if found is None and moving:
            self._compare_precisions(judge, case, moving[int(rng.integers(len(moving)))])
            tally.remark = self._remark()
        return found

    def _tried(self, judge: Judge, case: Case, elements: list[Any]) -> tuple[Found | None, int]:
        """The first violation among these elements, if there is one, and how many of them were tried."""
        unheard, faint, tally = judge.unheard(), 0, self.tally
        for i, g in enumerate(elements):
            finding = judge(g)
            if finding.outcome == "violated":
                finding = self.second_judge(case)(g)
            if finding.outcome == "violated":
                tally.count(pairs=1)
                return Found(case, g, finding), i + 1
            if finding.relative == 0 and judge.site.says_nothing:
                tally.count(idle=1)
            else:
                tally.enter(finding, judge.ladder.top, self.claim.action.written(g), unheard)
            faint += finding.outcome == "faint"
            if faint == ENOUGH:
                return None, i + 1
        return None, len(elements)

    def _compare_precisions(self, judge: Judge, case: Case, g: Any) -> None:
        """The discrepancy in the coarser precisions as well: it should shrink as the unit roundoff does."""
        for dtype in judge.ladder.dtypes[:-1]:
            if dtype.itemsize >= case.dtype.itemsize:  # a float64 number is no float32 number
                try:
                    self.tally.see(dtype, discrepancy(self.claim, case.inputs, g, dtype))
                except Refusal:
                    continue

    def _remark(self) -> str:
        if self.bound is not None:
            return "judged by the bound that was given"
        if self.ladder is not None and self.ladder.below is None:
            return f"f computes in {self.ladder} only: its rounding is estimated from inputs beside each other"
        return ""

    def counterexample(self, found: Found) -> CounterExample:
        """The simplest counter-example near the one that was found, with both sides as f gives them."""
        claim, action = self.claim, self.claim.action
        simple = Shrinker(action, self.domain, lambda case: self.judge(case, FEW), found, self.seed).smallest()
        judge = self.judge(simple.case)
        finding, case, g = judge(simple.element), simple.case, simple.element
        if finding.outcome != "violated":  # few samples were too few
            judge, finding, case, g = self.judge(found.case), found.finding, found.case, found.element
        relative, numbers = self._at_every_precision(judge, case, g), judge.site.inputs[0]
        dtype, plain = judge.ladder.top, np.dtype(np.float64)
        if plain in relative and _about(relative[plain], finding.relative):
            dtype = plain  # what can be seen in float64 is shown in float64
        x = cast(numbers, dtype)
        return CounterExample(
            sizes=case.sizes,
            element=g,
            written=action.written(g),
            inputs=x,
            moved=action.act(g, x),
            given={} if finding.kind == "raises" else claim.at(action.act(g, x), dtype),
            expected=claim.action_out.act(g, claim.at(x, dtype)),
            precision=called(dtype),
            relative={called(t): value for t, value in relative.items()},
            reason=finding.reason,
        )

    def _at_every_precision(self, judge: Judge, case: Case, g: Any) -> dict[Any, float]:
        """The discrepancy over the output in every precision that the numbers fit in; infinite where f raises."""
        found = {}
        for dtype in judge.ladder.dtypes:
            if dtype.itemsize >= case.dtype.itemsize or dtype == judge.ladder.top:
                try:
                    found[dtype] = discrepancy(self.claim, judge.site.inputs[0], g, dtype)
                except Refusal:
                    found[dtype] = np.inf
        return found


def _about(a: float, b: float) -> bool:
    return a == b or abs(a - b) < 0.1 * b


def _sense(sizes: Sizes, dtypes: Sequence[Any], scales: Scales, seed: int) -> str:
    parts = [f"{name} from {min(values)} to {max(values)}" for name, values in sizes.items()]
    parts.append(", ".join(called(dtype) for dtype in dtypes))
    for name, values in scales.items() if isinstance(scales, Mapping) else [("inputs", scales)]:
        parts.append(f"{name} times {', '.join(map(_power, values))}")
    return "; ".join([*parts, f"seed {seed}"])


def _power(scale: float) -> str:
    fraction, exponent = np.frexp(scale)
    return f"{scale:g}" if fraction != 0.5 or abs(exponent - 1) < 5 else f"2^{exponent - 1}"


def _told(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sizes.items()) or "an input"
