"""One row decided: the search for the whole group, then for its parts, then what refining does.

the whole group holds                     exact
it fails, a part holds                    exact on a subgroup: the largest part that holds
no part holds, the discrepancy falls      approximate: its rate is the slope of log discrepancy against log level
it does not                               broken
the search cannot tell                    undecided, which no row expects
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refnp.claims.row import APPROXIMATE, BROKEN, EXACT, NO_PROOF, ON_SUBGROUP, UNDECIDED, Row, Trial
from refnp.numbers.indexed.terms import TOO_MANY
from refnp.symmetry import Claim, Verdict, prove, search
from refnp.symmetry.judge import discrepancy
from refnp.symmetry.proving import Proof

COUNT, THOROUGH_COUNT = 6, 48  # inputs for each claim
SIMPLIFY, THOROUGH_SIMPLIFY = 60, 1000  # inputs that may be tried to make a counter-example that is shown simpler
REFINED, ELEMENTS = 4, 4  # inputs at each level and for each point of a picture, and elements with each
DIFFERENT = (23, 29, 31)  # lengths that nothing else has
FALLS = 0.25  # the least rate at which a discrepancy is said to fall


@dataclass(frozen=True)
class Found:
    """What was expected of a row and what was found; numbers and words only, so that processes can exchange it.

    subject, symmetry, expected, expected_subgroup, reason   as the row has them
    verdict, subgroup   what was found; "nothing" where no part that is listed is exact
    discrepancy         the largest |f(g·x) − g·f(x)| over the output, that of the counter-example if there is one
    bound               what rounding could leave of it, likewise
    pairs               of an input and an element, for the verdict and for all parts
    right               whether it is what was expected
    rate, levels        of a refined claim: the slope, and level → discrepancy
    shifts              the size of a shift → its discrepancy, for a picture
    counterexample      in words and as code: as it was found, or a simpler one where it is shown
    remark              why it is undecided or could not be tried
    proved              whether an exact symmetry is proved for every size and any weights, with what that `assumes`;
                        `missing` is why it is not: a rule, or what is left of the difference
    """

    subject: str
    symmetry: str
    expected: str
    expected_subgroup: str
    reason: str
    verdict: str = UNDECIDED
    subgroup: str = ""
    discrepancy: float = math.nan
    bound: float = math.nan
    pairs: int = 0
    right: bool = False
    rate: float = math.nan
    finer: str = ""
    levels: Mapping[float, float] = field(default_factory=dict)
    shifts: Mapping[float, float] = field(default_factory=dict)
    counterexample: str = ""
    code: str = ""
    remark: str = ""
    proved: bool = False
    assumes: tuple[str, ...] = ()
    missing: str = ""

    @property
    def name(self) -> str:
        return f"{self.subject}: {self.symmetry}"

    @property
    def ratio(self) -> float:
        """The discrepancy over its bound; 0 where there is neither."""
        if not self.discrepancy or math.isnan(self.discrepancy):
            return 0.0
        return self.discrepancy / self.bound if self.bound else math.inf


def decide(row: Row, *, thorough: bool = False, simplify: bool = False) -> Found:
    """What the search finds of a row, beside what is expected. Never raises: what goes wrong is a remark.

    Its counter-example is made simpler where that is asked for, or the row is not as expected, and so it is shown.
    """
    about = Found(row.subject, row.symmetry, row.expected, row.subgroup, row.reason)
    try:
        found = _decided(about, row.trial(), thorough, simplify)
    except Exception as error:  # a row that cannot be tried is a row that is not as expected
        return replace(about, remark=f"{type(error).__name__}: {error}")
    found = replace(found, right=as_expected(found, row))
    is_enough = found.right or simplify or not found.counterexample
    return found if is_enough else decide(row, thorough=thorough, simplify=True)


def as_expected(found: Found, row: Row) -> bool:
    """Whether the verdict is the one expected: the same word, the same subgroup, a rate no lower than promised."""
    if found.verdict != row.expected:
        return False
    if row.expected == ON_SUBGROUP:
        return found.subgroup == row.subgroup
    return row.expected != APPROXIMATE or found.rate >= row.rate


def _decided(about: Found, trial: Trial, thorough: bool, simplify: bool) -> Found:
    options: dict[str, Any] = {
        "sizes": trial.sizes,
        "scales": (1.0,),
        "count": COUNT,
        "simplify": SIMPLIFY,
        "structures": (),  # few inputs, all as they are drawn
        "inner_precision": "longdouble",  # what is refnp's own computes in the precision that it is given
        **trial.options,
    }
    if thorough:
        options |= {"count": THOROUGH_COUNT, "simplify": THOROUGH_SIMPLIFY}
        del options["structures"]
    if not simplify:
        options["simplify"] = 0
    whole = search(trial.claim, trial.draw, **options)
    found = _with_numbers(about, whole)
    if whole.holds:
        return replace(proved(found, trial), verdict=EXACT)
    if not whole.fails:
        return replace(found, remark=whole.reason)
    pairs, subgroup = whole.counts.pairs, "nothing" if trial.parts else ""
    for name, claim in reversed(list(trial.parts.items())):
        part = search(claim, trial.draw, **{**options, "simplify": 0})
        pairs += part.counts.pairs
        if not part.holds:
            break
        subgroup = name
    found = replace(found, subgroup=subgroup, pairs=pairs, shifts=_against_shift(trial))
    if subgroup not in ("", "nothing"):
        return replace(found, verdict=ON_SUBGROUP)
    if trial.refined is None:
        return replace(found, verdict=BROKEN)
    levels = {level: _largest(trial.refined.claim(level), trial) for level in trial.refined.levels}
    rate = slope(levels)
    verdict = APPROXIMATE if rate >= FALLS else BROKEN
    return replace(found, verdict=verdict, rate=rate, levels=levels, finer=trial.refined.finer)


def proved(found: Found, trial: Trial) -> Found:
    """With the proof for every size, of a claim that holds where it is tried; or with what is missing."""
    proof = proof_of(trial)
    return replace(found, proved=proof.proved, assumes=proof.assumptions, missing=proof.missing)


def proof_of(trial: Trial) -> Proof:
    """The proof of a claim: step by step, or else of the whole."""
    if trial.shapes == NO_PROOF:
        return Proof(str(trial.claim), "", False, (), TOO_MANY, 0.0)
    shapes = trial.shapes or shapes_of(trial)
    steps = prove(trial.claim, shapes, in_steps=True)
    return steps or prove(trial.claim, shapes) or steps


def shapes_of(trial: Trial) -> str:
    """The shapes of what is drawn, as `prove` reads them: an axis that is as long as a size says has its letter."""
    lengths = dict(zip(trial.sizes, DIFFERENT, strict=False))
    letters = {str(length): name for name, length in lengths.items()}
    written = []
    for name, x in trial.draw(np.random.default_rng(0), **lengths).items():
        array = np.asarray(x)
        kind = {"b": "boolean ", "i": f"whole < {name}s "}.get(array.dtype.kind, "")
        written.append(f"{name} {kind}({', '.join(letters.get(str(n), str(n)) for n in array.shape)})")
    return ", ".join(written)


def _with_numbers(about: Found, verdict: Verdict) -> Found:
    """The numbers of a verdict: of its counter-example, or else the largest over all pairs."""
    found = verdict.counterexample
    if found is None:
        relative = list(verdict.relative.values())
        size = relative[-1] if relative else math.nan
        return replace(about, discrepancy=size, bound=verdict.resolution, pairs=verdict.counts.pairs)
    size = found.relative.get(found.precision, math.inf)
    bound = size / found.ratio if math.isfinite(size) and found.ratio else 0.0
    code = found.code()
    return replace(
        about, discrepancy=size, bound=bound, pairs=verdict.counts.pairs, counterexample=str(found), code=code
    )


def _largest(claim: Claim, trial: Trial) -> float:
    """The largest discrepancy of a claim over a few inputs, each with a few elements, in float64."""
    worst = 0.0
    for i in range(REFINED):
        rng = np.random.default_rng((0, i))
        x = trial.draw(rng, **{name: max(values) for name, values in trial.sizes.items()})
        elements = list(trial.shifts.values()) or [claim.action.draw(rng, x) for _ in range(ELEMENTS)]
        worst = max([worst, *(discrepancy(claim, x, g, np.dtype(np.float64)) for g in elements)])
    return worst


def slope(levels: Mapping[float, float]) -> float:
    """The rate r of a discrepancy ∝ level^−r, by least squares over the levels; infinite if the finest leaves none."""
    sizes = list(levels.values())
    if not all(map(math.isfinite, sizes)) or not sizes[0] > 0:
        return math.nan
    if min(sizes) == 0:
        return math.inf
    return float(-np.polyfit(np.log(list(levels)), np.log(sizes), 1)[0])


def _against_shift(trial: Trial) -> dict[float, float]:
    """The size of each shift → the largest discrepancy of the whole claim over a few inputs, in float64."""
    found = dict.fromkeys(trial.shifts, 0.0)
    for i in range(REFINED if trial.shifts else 0):
        rng = np.random.default_rng((0, i))
        x = trial.draw(rng, **{name: max(values) for name, values in trial.sizes.items()})
        for size, g in trial.shifts.items():
            found[size] = max(found[size], discrepancy(trial.claim, x, g, np.dtype(np.float64)))
    return found
