"""The search: many inputs, many elements, one verdict.

    verdict = search(equivariant(f, Permute("x", -2), Permute(axis=-2)), draw, sizes={"n": range(8)})
    print(verdict)                  holds, fails with a counter-example, or undecided, and in which exact sense
    verdict.require()               raises unless it holds

For every input that is drawn all elements of the group are tried if there are at most 120, and otherwise its generators
and three that are drawn; for those on which structure is imposed (structure.py) a few of them. The first violation ends
the search and is made as simple as possible (shrink.py).
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import ArrayLike
from refnp.symmetry.actions import SMALL, Arrays, Element
from refnp.symmetry.claim import FLOATS, Claim, DType, Precisions, Refusal, cast, dtype_name, roundoff
from refnp.symmetry.evaluation import Evaluations
from refnp.symmetry.inputs import Domain, Draw, Input, Scales, Sizes
from refnp.symmetry.judge import NO_NOISE, SAFETY, Bound, Finding, discrepancy, judge
from refnp.symmetry.noise import INSIDE, UNIT_ROUNDOFFS
from refnp.symmetry.progress import Progress
from refnp.symmetry.shrink import Shrinker, Violation, some_elements
from refnp.symmetry.structure import KINDS
from refnp.symmetry.verdict import CounterExample, Counts, Verdict

DIGITS = 9.0  # of the output that a violation must be visible in, where the precision allows it
REFERENCES = 3  # inputs at which the noise of f is looked up
PERTURBATIONS = 8  # of x, at which rounding errors are estimated
MOST_WITH_STRUCTURE = 8  # elements that are tried on an input with structure
MOST_AMBIGUOUS = 2  # ambiguous findings at one input before the search goes on to the next, because they are slow
FEW_PERTURBATIONS = 2  # of x while a counter-example is made simpler


def search(
    claim: Claim,
    draw: Draw,
    *,
    sizes: Sizes | None = None,
    dtypes: Sequence[DTypeLike] = (np.float64, np.float32),
    scales: Scales = (1.0, 2.0**-10, 2.0**10),
    where: Callable[..., ArrayLike] | None = None,
    bound: Bound | None = None,
    inner_precision: str | None = None,
    digits: float | None = None,
    structures: Sequence[str] = KINDS,
    count: int = 80,
    simplify: int = 1000,
    seed: int = 0,
) -> Verdict:
    """Look for an input and an element that contradict `claim`; the same call gives the same verdict.

    draw      (rng, **sizes) → dict of arrays, the arguments of f; None for one that is left out
    sizes     name → the values it may have, range(9) for example; 0 and 1 belong there if f allows them
    dtypes    of the inputs, in turn
    scales    what real inputs are multiplied by, each array by its own; a mapping from names scales only those;
              (1,) leaves inputs as they are drawn
    where     (**inputs) → whether the claim is made about these inputs
    bound     (inputs, g, dtype) → what f(g·x) and g·f(x) may differ by: a number, an array that broadcasts to every
              output, or a mapping of these by output; by default the rounding error is estimated (judge.py)
    inner_precision  the coarsest precision in which f computes inside, whatever it takes and gives: "float64",
              "float32", "tfloat32", "float16" or "bfloat16"; its rounding is allowed for, and what is larger is a
              violation. By default a discrepancy that such a precision could leave is "undecided", unless f is seen
              not to compute in it, which takes about half of the time; "longdouble" says that f computes in the
              precision of its inputs throughout
    digits    a violation of 10^−digits of the output must be visible in at least half of the pairs, or the verdict is
              "undecided"; by default 9, or as many as 100 roundings leave: 5.2 in float32
    structures  kinds of structure that are imposed on two of three inputs, such as "a repeated item" or "zeros"; all
              are in `refnp.symmetry.structure.KINDS`. () leaves every input as it is drawn
    count     how many inputs
    simplify  how many inputs may be tried to make a counter-example simpler; with 0 it is given as it was found
    seed      of everything that is drawn

    Raises ValueError for no input, an unknown precision, a negative `simplify`, or actions that do not fit the arrays;
    TypeError if `draw` gives no dict of arrays or f something that is no array; whatever `draw` and `where` raise.
    """
    if count < 1 or not dtypes:
        raise ValueError(f"search: count is {count} and dtypes {dtypes}; there must be something to try")
    if simplify < 0:
        raise ValueError(f"search: simplify is {simplify}; it must be 0, for the counter-example as found, or more")
    types = [np.dtype(dtype) for dtype in dtypes]
    if unknown := [kind for kind in structures if kind not in KINDS]:
        raise ValueError(f"search: there is no structure {unknown[0]!r}; there are {', '.join(KINDS)}")
    trials = _Trials(claim, Domain(draw, sizes or {}, where, structures), bound, inner_precision, digits, seed)
    violation = None
    with Progress() as progress:
        for i, x in enumerate(trials.domain.inputs(types, scales, count, seed)):
            violation = trials.violation(x)
            progress.show(f"{i + 1} of {count} inputs, {trials.counts['pairs']} pairs")
            if violation or trials.not_repeatable:
                break
        told = lambda budget: progress.show(f"a counter-example; {budget} more inputs to make it simpler")
        counterexample = None if violation is None else trials.counterexample(violation, simplify, told)
    return trials.verdict(_scope(sizes or {}, types, scales, seed, trials.structured), counterexample)


def check(
    claim: Claim,
    inputs: Arrays,
    g: Element,
    *,
    bound: Bound | None = None,
    inner_precision: str | None = None,
    digits: float | None = None,
    seed: int = 0,
) -> Verdict:
    """The verdict on `claim` at one pair, these inputs and this element, by the same rule as in `search`.

        check(equivariant(f, Permute("x", 0), Permute(axis=0)), {"x": array}, (1, 0, 2)).require()

    `bound`, `inner_precision` and `digits` are those of `search`, `seed` that of the perturbations from which rounding
    errors are estimated. Inputs are rounded to the coarser of the two precisions that are compared, so that both have
    the same numbers: to float32 where f has float32 and float64. The counter-example shows what was computed with.

    Raises ValueError for an element that cannot act on these inputs; TypeError if f gives something that is no array.
    """
    if not claim.action.fits(g, inputs):
        raise ValueError(
            f"check: {claim.action.describe(g)} cannot act on these inputs; the claim is about {claim.action}"
        )
    dtype = dtype_of(inputs)
    trials = _Trials(claim, Domain(lambda rng: inputs, {}), bound, inner_precision, digits, seed)
    violation = trials.violation(Input({}, dtype, {}, cast(inputs, dtype)), [g])
    counterexample = None if violation is None else trials.counterexample(violation, simplify=0)
    return trials.verdict(f"one pair: {claim.action.describe(g)}; {dtype_name(dtype)}", counterexample)


def dtype_of(inputs: Arrays) -> DType:
    """The precision that real and complex arrays have together; float64 if there are none."""
    real = [np.asarray(a).real.dtype for a in inputs.values() if a is not None and np.asarray(a).dtype.kind in "fc"]
    return np.result_type(*real) if real else np.dtype(np.float64)


class _Trials:
    """The trials of one claim: what was tried, the extremes, and what prevents a verdict, in words."""

    def __init__(
        self,
        claim: Claim,
        domain: Domain,
        bound: Bound | None,
        inner_precision: str | None,
        digits: float | None,
        seed: int,
    ):
        self.claim, self.domain, self.bound, self.seed = claim, domain, bound, seed
        if inner_precision not in (None, *UNIT_ROUNDOFFS):
            known = ", ".join(UNIT_ROUNDOFFS)
            raise ValueError(f"search: inner_precision is {inner_precision!r}; it must be one of {known}")
        self.inner_precision, self.asked = inner_precision, digits
        self.levels = functools.cache(self._level) if inner_precision is None and bound is None else None
        self.precisions: Precisions | None = None
        self.counts: Counter[str] = Counter()
        self.worst, self.resolution = 0.0, 0.0
        self.relative: dict[DType, float] = {}
        self.refusal = self.ambiguous = self.inside = ""
        self.not_repeatable = False
        self.structured: Counter[str] = Counter()
        self.insensitive: list[float] = []

    def evaluations(
        self, x: Input, perturbations: int = PERTURBATIONS, stream: int = 0, anchored: bool = False
    ) -> Evaluations:
        """f at this input, with perturbations from one stream of the seed. Raises Refusal if f refuses x."""
        precisions = self.precisions
        if self.bound is not None:
            precisions = Precisions((x.dtype,), roundoff(x.dtype))
        elif precisions is None:
            precisions = self._precisions(x)
        rng = np.random.default_rng((self.seed, stream))
        at = Evaluations(self.claim, precisions, x.arrays, rng, perturbations, anchored)
        if all(a.size for a in at.output(0, at.finest).values()):
            self.precisions = precisions  # the same for all further inputs, but an empty result has no precision
        return at

    def _precisions(self, x: Input) -> Precisions:
        """Those of f at x, or the finest of them with the roundoff of the precision that f is said to have inside."""
        precisions = self.claim.precisions(x.arrays)
        inner = UNIT_ROUNDOFFS.get(self.inner_precision or "", 0.0)
        return Precisions(precisions.dtypes[-1:], inner) if inner > precisions.u else precisions

    def _level(self, inside: str) -> float | None:
        """The least noise of f for one of INSIDE, relative to the output, at a few inputs of middling sizes.

        Kinks of f are met by few lines, rounding by all. None if there is no input that can be perturbed.
        """
        sizes = {name: sorted(values)[len(values) // 2] for name, values in self.domain.sizes.items()}
        least = None
        for i in range(REFERENCES):
            drawn = self.domain.drawn(np.random.default_rng((self.seed, i)), sizes, np.dtype(np.float64))
            try:
                at = self.evaluations(drawn) if self.domain.contains(drawn.arrays) else None
            except Refusal:
                continue
            if at is not None and at.perturbations_differ() and not at.is_zero():
                level = at.noise_relative(INSIDE[inside])
                if (
                    inside == "float32" and level > NO_NOISE
                ):  # on shorter lines rounding is the same, what is smooth is less
                    level = min(level, at.noise_relative(INSIDE[inside] / 4))
                least = level if least is None else min(least, level)
                if least < NO_NOISE:
                    break
        return least

    @property
    def digits(self) -> float:
        """How many digits of the output must be visible."""
        if self.asked is not None:
            return self.asked
        u = self.precisions.u if self.precisions is not None else 0.0
        return min(DIGITS, -math.log10(100 * u)) if u else DIGITS

    def violation(self, x: Input, elements: list[Element] | None = None) -> Violation | None:
        """Try one input with many elements, by default of the action's choice; the first violation, if there is one."""
        action = self.claim.action
        try:
            at = self.evaluations(x)
        except Refusal as refusal:
            self.counts["refused"] += 1
            sizes = ", ".join(f"{name} = {n}" for name, n in x.sizes.items()) or "an input"
            self.refusal = self.refusal or f"{sizes}: {refusal}"
            return None
        if not x.structure and not at.is_repeatable():
            self.not_repeatable = True
            return None
        self.counts["inputs"] += 1
        self.structured[x.structure] += bool(x.structure)
        rng = np.random.default_rng((self.seed, self.counts["inputs"]))
        elements = some_elements(action, x, rng, SMALL) if elements is None else elements
        if x.structure and len(elements) > MOST_WITH_STRUCTURE:
            elements = [elements[i] for i in rng.permutation(len(elements))[:MOST_WITH_STRUCTURE]]
        moving = [g for g in elements if not at.is_fixed_by(g)]
        self.counts["idle"] += len(elements) - len(moving)
        insensitivity = self._insensitivity(at, x)
        ambiguous, tried, violation = 0, 0, None
        for g in moving:
            tried += 1
            finding, anchored = self._judged(at, x, g)
            if finding.outcome == "violated":
                self.counts["pairs"] += 1
                violation = Violation(x, g, finding, anchored)
                break
            self._enter(finding, at, g, insensitivity)
            ambiguous += finding.outcome == "ambiguous"
            if ambiguous == MOST_AMBIGUOUS:
                break
        every = action.elements(x.arrays) or ()
        self.counts["exhausted"] += tried == len(moving) and len(every) == len(elements)
        if violation is None and moving and not x.structure:
            g = moving[int(rng.integers(len(moving)))]
            for dtype in at.precisions.dtypes[:-1]:  # in coarser ones as well: it should grow as the unit roundoff does
                if dtype.itemsize >= x.dtype.itemsize:  # a float64 number is no float32 number
                    self._enter_relative(dtype, discrepancy(self.claim, x.arrays, g, dtype))
        return violation

    def _insensitivity(self, at: Evaluations, x: Input) -> float:
        """That of f at x; with structure, where f is often constant, the median of those before; 0 with a bound."""
        if self.bound is not None:
            return 0.0
        if x.structure:
            return float(np.median(self.insensitive)) if self.insensitive else 0.0
        self.insensitive.append(at.insensitivity())
        return self.insensitive[-1]

    def _judged(self, at: Evaluations, x: Input, g: Element) -> tuple[Finding, bool]:
        """The finding for one element, and whether it was found with whole numbers left as they are.

        A violation is confirmed at other perturbations and twice as many.
        """
        finding, anchored = judge(at, g, self.bound, self.levels), False
        if finding.outcome == "unsteady" and at.has_whole_numbers():
            found = judge(self.evaluations(x, stream=2, anchored=True), g, self.bound, self.levels)
            finding, anchored = (found, True) if found.outcome == "violated" else (finding, False)
        if finding.outcome == "violated":
            again = self.evaluations(x, 2 * PERTURBATIONS, stream=1, anchored=anchored)
            finding = judge(again, g, self.bound, self.levels)
        return finding, anchored

    def _enter(self, finding: Finding, at: Evaluations, g: Element, insensitivity: float) -> None:
        """Count one more pair, which does not violate the claim.

        `insensitivity` is a change of the input that does not change f: a violation of that size would not be seen.
        """
        self.counts["nan"] += at.gives_nan
        if finding.relative == 0 and at.is_zero():
            self.counts["idle"] += 1
            return
        self.counts["pairs"] += 1
        if finding.outcome == "ambiguous":
            described = self.claim.action.describe(g)
            self.ambiguous = self.ambiguous or f"{finding.relative:.1e} of the output at {described}"
            self.inside = self.inside or finding.inside
            return
        if finding.outcome == "agrees":
            self.worst = max(self.worst, finding.ratio)
        resolution = max(finding.resolution, insensitivity)
        if resolution > 10**-self.digits:
            self.counts["unresolved"] += 1
        else:
            self.resolution = max(self.resolution, resolution)
            self._enter_relative(at.finest, finding.relative)

    def _enter_relative(self, dtype: DType, relative: float) -> None:
        if np.isfinite(relative):
            self.relative[dtype] = max(self.relative.get(dtype, 0.0), relative)

    def counterexample(
        self, found: Violation, simplify: int, told: Callable[[int], None] = lambda budget: None
    ) -> CounterExample:
        """The simplest counter-example near the one that was found, with both sides as f gives them."""
        claim, action = self.claim, self.claim.action

        def few(x: Input) -> Evaluations:
            told(shrinker.budget)
            return self.evaluations(x, FEW_PERTURBATIONS, anchored=found.anchored)

        shrinker = Shrinker(action, self.domain, self.bound, few, found, self.seed, simplify)
        simple = shrinker.smallest()
        at = self.evaluations(simple.input, anchored=found.anchored)
        finding = judge(at, simple.element, self.bound)
        if finding.outcome != "violated":  # with all perturbations it is none
            at, simple, finding = self.evaluations(found.input), found, found.finding
        g, numbers, dtype = simple.element, at.inputs[0], at.finest
        relative = {
            t: discrepancy(claim, numbers, g, t)
            for t in at.precisions.dtypes
            if t.itemsize >= simple.input.dtype.itemsize or t == dtype
        }
        if np.isclose(relative.get(np.dtype(np.float64), np.nan), finding.relative, rtol=0.1, atol=0):
            dtype = np.dtype(np.float64)  # what can be seen in float64 is shown in float64
        x = cast(numbers, dtype)
        moved = action.act(g, x)
        return CounterExample(
            sizes=simple.input.sizes,
            element=g,
            description=action.describe(g),
            inputs=x,
            moved=moved,
            given={} if finding.kind == "raises" else claim.at(moved, dtype),
            expected=claim.action_out.act(g, claim.at(x, dtype)),
            precision=dtype_name(dtype),
            relative={dtype_name(t): value for t, value in relative.items()},
            reason=finding.reason,
            ratio=finding.ratio,
        )

    def verdict(self, scope: str, counterexample: CounterExample | None) -> Verdict:
        """The verdict that the trials allow."""
        undecided = "" if counterexample else self._why_undecided()
        remarks = []
        if self.bound is not None:
            remarks.append("judged by the bound that was given")
        elif self.precisions is not None and len(self.precisions.dtypes) == 1:
            inside = f"{self.inner_precision} inside" if self.inner_precision else f"{self.precisions} only"
            remarks.append(
                f"f computes in {inside}: its rounding is estimated from its noise at inputs beside each other"
            )
        if self.refusal:
            remarks.append(f"refused, for one, {self.refusal}")
        if self.counts["nan"]:
            remarks.append(f"f gave NaN at {self.counts['nan']} pairs, on both sides in the same places, which agrees")
        return Verdict(
            outcome="fails" if counterexample else "undecided" if undecided else "holds",
            claim=str(self.claim),
            sense=scope,
            reason=undecided or "; ".join(remarks),
            counts=Counts(**self.counts),
            worst=self.worst,
            relative={dtype_name(dtype): self.relative[dtype] for dtype in FLOATS if dtype in self.relative},
            resolution=self.resolution,
            counterexample=counterexample,
            precision=self._coarse_precision(),
        )

    def _coarse_precision(self) -> str:
        """The precision of the verdict, if it is coarser than float64."""
        if self.precisions is None or self.precisions.u <= roundoff(np.float64):
            return ""
        return self.inner_precision or dtype_name(self.precisions.dtypes[-1])

    def _why_undecided(self) -> str:
        """Why nothing can be decided; empty if the claim can be said to hold."""
        pairs, unresolved = self.counts["pairs"], self.counts["unresolved"]
        if self.not_repeatable:
            return "f gives different results for the same input; give it a generator with a fixed seed"
        if self.inside:
            return (
                f"a discrepancy of {self.ambiguous} is as large as {self.inside} inside f would leave; if f computes "
                f'so, pass inner_precision="{self.inside.split(",")[0]}", and what is larger fails; if not, "float64"; '
                "or give a bound"
            )
        if self.ambiguous:
            return (
                f"there is a steady discrepancy of {self.ambiguous}: no larger than rounding in a coarser precision, "
                "which rounded constants or a cast inside f would leave, and so would a violation that small"
            )
        if not self.counts["inputs"]:
            return f"f took no input; {self.refusal}" if self.refusal else "no input was in the domain"
        if not pairs:
            outside = "" if self.claim.border is None else ", or the border left no cell to compare"
            only = "only NaN" if self.counts["nan"] else "only zeros"
            return f"nothing was tested: no element moved anything, or f gave {only}{outside}"
        if 2 * unresolved > pairs:
            return (
                f"at {unresolved} of {pairs} pairs rounding would hide a violation of 1e-{self.digits:g} of the "
                "output; ask for fewer digits, draw better conditioned inputs, or give a bound"
            )
        noise = self.levels("float32") or 0.0 if self.levels is not None and not self._coarse_precision() else 0.0
        if noise > max(NO_NOISE, 10**-self.digits / SAFETY):
            return (
                f"f computes in float32 inside: its noise is {noise:.1e} of the output and would hide a violation of "
                f'1e-{self.digits:g}; inner_precision="float32" decides as far as that tells'
            )
        return ""


def _scope(sizes: Sizes, dtypes: Sequence[DType], scales: Scales, seed: int, structured: Mapping[str, int]) -> str:
    """On what a claim is tried, in words."""
    parts = [f"{name} from {min(values)} to {max(values)}" for name, values in sizes.items()]
    parts.append(", ".join(map(dtype_name, dtypes)))
    for name, values in scales.items() if isinstance(scales, Mapping) else [("inputs", scales)]:
        parts.append(f"{name} times {', '.join(map(_power, values))}")
    if any(structured.values()):
        parts.append("with " + ", ".join(kind for kind in KINDS if structured.get(kind)))
    return "; ".join([*parts, f"seed {seed}"])


def _power(scale: float) -> str:
    fraction, exponent = np.frexp(scale)
    return f"{scale:g}" if fraction != 0.5 or abs(exponent - 1) < 5 else f"2^{exponent - 1}"
