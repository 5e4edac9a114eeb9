"""The trials of one claim: what was tried, what was found, and what prevents a verdict, in words."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from refnp.symmetry.actions import SMALL, Arrays, Element
from refnp.symmetry.claim import FLOATS, Claim, DType, Precisions, Refusal, cast, dtype_name, roundoff
from refnp.symmetry.evaluation import BothSides, Evaluations
from refnp.symmetry.inputs import KINDS, Domain, Input, Scales
from refnp.symmetry.judge import NO_NOISE, SAFETY, Bound, Finding, judge
from refnp.symmetry.jumps import OF_ORDER, Jumps, jump_of_roundings
from refnp.symmetry.noise import INSIDE, UNIT_ROUNDOFFS, least_of
from refnp.symmetry.orbits import moves
from refnp.symmetry.shrink import Shrinker, Violation, some_elements
from refnp.symmetry.verdict import CounterExample, Counts, Verdict, in_a_row

DIGITS = 9.0  # of the output that a violation must be visible in, where the precision allows it
REFERENCES = 3  # inputs at which the noise of f is looked up
PERTURBATIONS = 8  # of x, at which rounding errors are estimated
MOST_WITH_STRUCTURE = 8  # elements that are tried on an input with structure
MOST_AMBIGUOUS = 2  # ambiguous findings at one input before the search goes on to the next, because they are slow
FEW_PERTURBATIONS = 2  # of x while a counter-example is made simpler
PRECISIONS = {np.dtype(np.float32): "single", np.dtype(np.float64): "double", np.dtype(np.float16): "half"}
DRAWN_AGAIN = 2**31 + 2  # a stream of the seed
APART = 2.0**-4  # how far equal numbers are moved apart, as a part of each
AS_DRAWN = 8  # inputs that are tried to see whether the draw's own refute a claim that one with structure refutes


def dtype_of(inputs: Arrays) -> DType:
    """The precision that real and complex arrays have together; float64 if there are none."""
    real = [np.asarray(a).real.dtype for a in inputs.values() if a is not None and np.asarray(a).dtype.kind in "fc"]
    return np.result_type(*real) if real else np.dtype(np.float64)


class Trials:
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
        self.jumps = Jumps() if bound is None else None
        self.precisions: Precisions | None = None
        self.counts: Counter[str] = Counter()
        self.left_open = 0  # pairs at which it is not decided
        self.worst = 0.0
        self.resolution: float | None = None  # of pairs that are resolved, if there is one
        self.relative: dict[DType, float] = {}
        self.refusal = self.ambiguous = self.inside = self.jump = ""
        self.alone = ""  # a precision in which both sides differ by infinity, NaN, an error or shape, and no finer one
        self.constants = 0.0  # the largest discrepancy that constants of float64 would leave
        self.sizes: dict[str, set[int]] = {}
        self.not_repeatable = self.only_nan = False
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
        at = Evaluations(self.claim, precisions, x.arrays, rng, perturbations, anchored, self.domain.constraints)
        if all(a.size for a in at.output(0, at.finest).values()):
            self.precisions = precisions  # the same for all further inputs, but an empty result has no precision
        return at

    def _precisions(self, x: Input) -> Precisions:
        """Those of f at x, or the finest of them with the roundoff of the precision that f is said to have inside."""
        precisions = self.claim.precisions(x.arrays)
        inner = UNIT_ROUNDOFFS.get(self.inner_precision or "", 0.0)
        return Precisions(precisions.dtypes[-1:], inner) if inner > precisions.u else precisions

    def _level(self, inside: str) -> dict[str, float] | None:
        """The least noise of each array of f for one of INSIDE, relative to it, at a few inputs of middling sizes.

        Kinks of f are met by few lines, rounding by all. None if there is no input that can be perturbed.
        """
        sizes = {name: sorted(values)[len(values) // 2] for name, values in self.domain.sizes.items()}
        least = None
        for i in range(REFERENCES):
            drawn = self.domain.drawn(np.random.default_rng((self.seed, i)), sizes, np.dtype(np.float64))
            try:
                at = self.evaluations(drawn) if self.domain.contains(drawn) else None
            except Refusal:
                continue
            if at is not None and at.perturbations_differ() and not at.is_zero:
                level = at.noise_relative(INSIDE[inside])
                if inside == "float32" and max(level.values()) > NO_NOISE:
                    # on shorter lines rounding is the same, what is smooth is less
                    level = least_of([level, at.noise_relative(INSIDE[inside] / 4)])
                if max(level.values()) > NO_NOISE and (apart := self._apart(drawn, at)) is not None:
                    level = least_of([level, apart.noise_relative(INSIDE[inside])])
                least = level if least is None else least_of([least, level])
                if max(least.values()) < NO_NOISE:
                    break
        return least

    def _apart(self, x: Input, at: Evaluations) -> Evaluations | None:
        """f near x, where no numbers are equal: where all draws have equals, a choice among them may jump at each.

        None where the domain has no such input, or f refuses it.
        """
        near = replace(x, arrays={**x.arrays, **cast(at.ray(x.arrays, APART)[0], x.dtype)})
        try:
            return self.evaluations(near) if self.domain.contains(near) else None
        except Refusal:
            return None

    @property
    def digits(self) -> float:
        """How many digits of the output must be visible."""
        if self.asked is not None:
            return self.asked
        u = self.precisions.u if self.precisions is not None else 0.0
        return min(DIGITS, -math.log10(100 * u)) if u else DIGITS

    def moves(self, x: Input) -> bool:
        """Whether the group moves anything of this input."""
        rng = np.random.default_rng(self.seed)
        return any(moves(self.claim.action, g, x.arrays) for g in some_elements(self.claim.action, x, rng, SMALL))

    def violation(self, x: Input, elements: list[Element] | None = None) -> Violation | None:
        """Try one input with many elements, by default of the action's choice; the first violation, if there is one.

        Raises ValueError where the output action cannot act on what f gives, and says so if that has no fixed shape.
        """
        try:
            return self._violation(x, elements)
        except ValueError as error:
            if shapes := self._two_shapes(x):
                raise ValueError(
                    f"search: the shape of what f gives depends on numbers, and not on shapes alone: it is {shapes}, "
                    "and one element cannot move both; let f give a mask, for example, in place of what it selects"
                ) from error
            raise

    def _two_shapes(self, x: Input) -> str:
        """Shapes that f gives for inputs of the shapes of x, in words, if there are two."""
        found: dict[str, str] = {}
        words = lambda arrays: ", ".join(f"{name} {np.shape(a)}" for name, a in arrays.items())
        for i in range(AS_DRAWN):
            drawn = self.domain.drawn(np.random.default_rng((self.seed, DRAWN_AGAIN, i)), x.sizes, x.dtype) if i else x
            try:
                given = words(self.claim.at(drawn.arrays, x.dtype))
            except Refusal:
                continue
            if given != found.setdefault(words(drawn.arrays), given):
                return f"{found[words(drawn.arrays)]} and {given} for {words(drawn.arrays)}"
        return ""

    def _violation(self, x: Input, elements: list[Element] | None) -> Violation | None:
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
        for name, n in x.sizes.items():
            self.sizes.setdefault(name, set()).add(n)
        rng = np.random.default_rng((self.seed, self.counts["inputs"]))
        if elements is None:
            elements = some_elements(action, x, rng, SMALL)
            if x.structure and len(elements) > MOST_WITH_STRUCTURE:
                elements = [elements[i] for i in rng.permutation(len(elements))[:MOST_WITH_STRUCTURE]]
        moving = [g for g in elements if not at.is_idle(g)]
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
                    relative = BothSides(at, g).discrepancy(dtype)
                    self._enter_relative(dtype, relative)
                    self.alone = self.alone or dtype_name(dtype) * bool(np.isinf(relative))
                    if self.jumps is not None and dtype == at.coarser and OF_ORDER <= relative < np.inf:
                        self.jumps.suspected = True
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
        """The finding for one element, and whether it was found with whole numbers and halves left as they are.

        What does not agree is asked for once more, and a violation is confirmed at other perturbations and twice as
        many.
        """
        finding, anchored = judge(at, g, self.bound, self.levels, self.jumps), False
        if finding.outcome != "agrees" and not BothSides(at, g).are_repeatable():
            self.not_repeatable = True
            return replace(finding, outcome="unsteady"), anchored
        if finding.outcome in ("unsteady", "jumps") and at.has_anchors():
            found = judge(self.evaluations(x, stream=2, anchored=True), g, self.bound, self.levels, self.jumps)
            finding, anchored = (found, True) if found.outcome == "violated" else (finding, False)
        if finding.outcome == "violated":
            again = self.evaluations(x, 2 * PERTURBATIONS, stream=1, anchored=anchored)
            finding = judge(again, g, self.bound, self.levels, self.jumps)
            stays = anchored or not again.perturbations_differ()  # x does, and g alone is perturbed
            if stays and self.jumps is not None and OF_ORDER <= finding.relative < np.inf:
                jump = jump_of_roundings(BothSides(again, g), finding.relative)
                finding = finding if jump is None else replace(finding, outcome="jumps", reason=str(jump))
        return finding, anchored

    def _enter(self, finding: Finding, at: Evaluations, g: Element, insensitivity: float) -> None:
        """Count one more pair, which does not violate the claim.

        `insensitivity` is a change of the input that does not change f: a violation of that size would not be seen.
        """
        if finding.relative == 0 and at.is_zero:
            self.counts["idle"] += 1
            self.only_nan = self.only_nan or at.gives_nan
            return
        self.counts["nan"] += at.gives_nan
        self.counts["pairs"] += 1
        self.left_open += finding.outcome in ("jumps", "ambiguous", "unsteady")
        if finding.outcome == "jumps":
            self.counts["jumps"] += 1
            self.jump = self.jump or f"{finding.reason}, at {self.claim.action.describe(g)}"
            return
        if finding.outcome == "ambiguous":
            described = self.claim.action.describe(g)
            self.ambiguous = self.ambiguous or f"{finding.relative:.1e} of the output at {described}"
            self.inside = self.inside or finding.inside
            return
        digits = self.digits
        if finding.outcome == "constants":
            self.constants = max(self.constants, finding.relative)
            digits *= np.log(roundoff(self.claim.constants)) / np.log(roundoff(np.float64))  # of as many as there are
        if finding.outcome == "agrees":
            self.worst = max(self.worst, finding.ratio)
        resolution = max(finding.resolution, insensitivity)
        if resolution > 10**-digits:
            self.counts["unresolved"] += 1
        else:
            self.resolution = max(self.resolution or 0.0, resolution)
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

        origin = self._origin(found)
        shrinker = Shrinker(action, self.domain, self.bound, few, found, self.seed, simplify)
        simple = shrinker.smallest()
        at = self.evaluations(simple.input, anchored=found.anchored)
        finding = found.finding if simple is found else judge(at, simple.element, self.bound)
        if finding.outcome != "violated":  # with all perturbations it is none
            at, simple, finding = self.evaluations(found.input), found, found.finding
        g, dtype = simple.element, at.finest
        relative = {
            t: BothSides(at, g).discrepancy(t)
            for t in at.precisions.dtypes
            if t.itemsize >= simple.input.dtype.itemsize or t == dtype
        }
        if np.isclose(relative.get(np.dtype(np.float64), np.nan), finding.relative, rtol=0.1, atol=0):
            dtype = np.dtype(np.float64)  # what can be seen in float64 is shown in float64
        x = cast(at.input_in(0, dtype), dtype)
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
            origin=origin,
        )

    def _origin(self, found: Violation) -> str:
        """How the input was made at which the claim was found to fail, and whether inputs as drawn refute it, too."""
        x = found.input
        if not x.sizes and not self.domain.sizes and not x.structure and not x.scales:
            return ""  # the one pair that was given
        if x.as_drawn:
            return "found at an input as your draw gives it"
        if not x.structure:
            factors = ", ".join(f"{name} times {_power(scale)}" for name, scale in x.scales.items() if scale != 1)
            made = f"found at an input of your draw with {factors}"
        else:
            made = f"found at an input made by '{x.structure}', not by your draw"
        tried, undecided = 0, 0
        for i in range(AS_DRAWN):
            rng = np.random.default_rng((self.seed, DRAWN_AGAIN, i))
            sizes = {name: int(rng.choice(np.asarray(values))) for name, values in self.domain.sizes.items()}
            drawn = self.domain.drawn(rng, sizes if i % 2 else x.sizes, x.dtype)
            if self.domain.contains(drawn):
                tried += 1
                rng = np.random.default_rng((self.seed, DRAWN_AGAIN, i, 1))
                elements = some_elements(self.claim.action, drawn, rng, MOST_WITH_STRUCTURE)
                before = self.left_open
                if self.violation(drawn, elements) is not None:
                    return f"{made}; an input as your draw gives it refutes the claim, too"
                undecided += self.left_open > before
        if undecided:
            return f"{made}; of {tried} more as your draw gives them none refutes the claim, {undecided} are undecided"
        return f"{made}; none of {tried} more as your draw gives them refutes the claim: where= says what it is about"

    def verdict(
        self,
        scope: str,
        counterexample: CounterExample | None,
        neighbours: Callable[[], Sequence[str]] | None = None,
    ) -> Verdict:
        """The verdict that the trials allow; `neighbours` gives the conditions under which a claim that fails holds."""
        undecided = "" if counterexample else self._why_undecided()
        remarks = []
        if self.bound is not None:
            remarks.append("judged by the bound that was given")
        elif self.precisions is not None and len(self.precisions.dtypes) == 1:
            inside = f"{self.inner_precision} inside" if self.inner_precision else f"{self.precisions} only"
            remarks.append(
                f"f computes in {inside}: its rounding is estimated from its noise at inputs beside each other"
            )
        if self.counts["jumps"]:
            remarks.append(self._jumps())
        if self.refusal:
            remarks.append(f"refused, for one, {self.refusal}")
        if self.alone:
            remarks.append(
                f"in {self.alone} one side alone is infinite or NaN, an error or of another shape: what f computes in "
                f"{self.alone} alone is not judged"
            )
        if self.counts["nan"]:
            remarks.append(f"f gave NaN at {self.counts['nan']} pairs, on both sides in the same places, which agrees")
        return Verdict(
            outcome="fails" if counterexample else "undecided" if undecided else "holds",
            claim=str(self.claim),
            sense=scope,
            reason=undecided or "; ".join(remarks),
            counts=Counts(**self.counts),
            worst=self.worst,
            relative={} if 2 * self.counts["jumps"] > self.counts["pairs"] else self._relative(),
            resolution=np.inf if self.resolution is None else self.resolution,
            counterexample=counterexample,
            precision=self._coarse_precision() or (f"its {self.claim.constants} constants" if self.constants else ""),
            neighbours=neighbours,
        )

    def _relative(self) -> dict[str, float]:
        """The largest discrepancies by the names of the precisions, coarse to fine.

        Where f jumps, coarser precisions choose differently, and only the finest says what rounding leaves.
        """
        pairs = [(dtype_name(dtype), self.relative[dtype]) for dtype in FLOATS if dtype in self.relative]
        return dict(pairs[-1:] if self.counts["jumps"] else pairs)

    def _jumps(self) -> str:
        """What is known of jumps."""
        return (
            f"f jumps here: a choice (sort, largest, nearest, sign) hangs on a rounding, at {self.counts['jumps']} of "
            f"{self.counts['pairs']} pairs; {self.jump}"
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
        if 2 * self.counts["jumps"] > pairs:
            return self._jumps()
        if self.inside:
            return (
                f"a discrepancy of {self.ambiguous} is as large as {self.inside} inside f would leave; if f computes "
                f'so, pass inner_precision="{self.inside.split(",")[0]}", and what is larger fails; if not, "float64"; '
                "or give a bound"
            )
        if not self.counts["inputs"]:
            return f"f took no input; {self.refusal}" if self.refusal else "no input was in the domain"
        if not pairs:
            outside = "" if self.claim.border is None else ", or the border left no cell to compare"
            only = "only NaN" if self.only_nan else "only zeros"
            return f"nothing was tested: no element moved anything, or f gave {only}{outside}"
        if 2 * unresolved > pairs or self.resolution is None:
            return (
                f"at {unresolved} of {pairs} pairs rounding would hide a violation of 1e-{self.digits:g} of the "
                "output; ask for fewer digits, draw better conditioned inputs, or give a bound"
            )
        asks = self.levels is not None and not self._coarse_precision() and not self.counts["jumps"]
        level = self.levels("float32") if asks and self.levels is not None else None
        noise = max(level.values()) if level else 0.0
        if noise > max(NO_NOISE, 10**-self.digits / SAFETY):
            return (
                f"f computes in float32 inside: its noise is {noise:.1e} of the output and would hide a violation of "
                f'1e-{self.digits:g}; inner_precision="float32" decides as far as that tells'
            )
        return ""


def scope(trials: Trials, dtypes: Sequence[DType], scales: Scales, seed: int) -> str:
    """On what a claim was tried, in words: the sizes that were, not those that might have been."""
    structured = trials.structured
    parts = [f"{name} = {in_a_row(trials.sizes[name])}" for name in trials.domain.sizes if name in trials.sizes]
    parts.append(f"numbers of {' and '.join(PRECISIONS.get(dtype, dtype_name(dtype)) for dtype in dtypes)} precision")
    for name, values in scales.items() if isinstance(scales, Mapping) else [("inputs", scales)]:
        parts.append(f"{name} times {', '.join(map(_power, values))}")
    if any(structured.values()):
        parts.append("with " + ", ".join(kind for kind in KINDS if structured.get(kind)))
    if rules := trials.domain.constraints.words():
        parts.append("kept as in all draws: " + ", ".join(rules))
    return "; ".join([*parts, f"seed {seed}"])


def _power(scale: float) -> str:
    fraction, exponent = np.frexp(scale)
    return f"{scale:g}" if fraction != 0.5 or abs(exponent - 1) < 5 else f"2^{exponent - 1}"
