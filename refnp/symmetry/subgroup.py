"""Which shifts are exact? The smallest multiple of a step under which a function is equivariant.

    found = find_subgroup(f, Roll("x", -1), Roll(axis=-1), draw=draw, sizes={"n": (8, 12, 24)})
    found.multiple                       2 for a convolution with stride 2; None where none is exact

The shifts by multiples of a step that a function respects are a subgroup: with two of them their sum is one. A subgroup
of the whole numbers is d·ℤ, or 0 alone, so it is known by its smallest positive member d. `find_subgroup` asks `search`
of the multiples 1, 2, 3, … in turn, and ends at the first that holds: each before it has a counter-example.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from refnp.symmetry.actions import Action, Trivial
from refnp.symmetry.claim import Claim, Function, InPrecision, Read, equivariant
from refnp.symmetry.inputs import Draw
from refnp.symmetry.searches import search
from refnp.symmetry.shifts import in_steps
from refnp.symmetry.verdict import Verdict

MOST = 16  # multiples of a step are tried up to this one, unless others are named

Out = Action | Callable[[int], Action | None] | None


@dataclass(frozen=True)
class Subgroup:
    """The exact shifts of a function, and how they were found.

    multiple   d where the multiples of d steps are exact and no smaller one that was tried; None if none was exact
    verdicts   the multiple → what the search found of it, in the order of the search; None where the output has no such
               shift
    claim      the claim for the multiples of `multiple`, or of the first that was tried, in words
    """

    multiple: int | None
    verdicts: Mapping[int, Verdict | None]
    claim: str

    def __bool__(self) -> bool:
        """Whether a multiple is exact."""
        return self.multiple is not None

    @property
    def counts(self) -> tuple[int, int]:
        """How many inputs and how many pairs of input and shift were tried, over all multiples."""
        found = [verdict.counts for verdict in self.verdicts.values() if verdict is not None]
        return sum(counts.inputs for counts in found), sum(counts.pairs for counts in found)

    def __str__(self) -> str:
        lines = [f"{self.claim}: " + ("NO MULTIPLE" if self.multiple is None else f"MULTIPLES OF {self.multiple}")]
        for multiple, verdict in self.verdicts.items():
            lines.append(f"  multiples of {multiple}: {_in_words(verdict)}")
        inputs, pairs = self.counts
        return "\n".join([*lines, f"  {inputs} inputs, {pairs} pairs of input and shift"])


def _in_words(verdict: Verdict | None) -> str:
    if verdict is None:
        return "no shift of the output belongs to them"
    if verdict.counterexample is None:
        reason = f", {verdict.reason}" if verdict.outcome == "undecided" else ""
        return f"{verdict.outcome}, {verdict.counts.pairs} pairs{reason}"
    found = verdict.counterexample
    relative = list(found.relative.values())
    size = f", {relative[-1]:.1e} of the output" if relative and math.isfinite(relative[-1]) else ""
    return f"{verdict.outcome} at {found.description}{size}"


def find_subgroup(
    f: Function,
    translations: Action,
    translations_out: Out = None,
    *,
    draw: Draw,
    multiples: Iterable[int] = range(1, MOST + 1),
    read: Read = None,
    in_precision: InPrecision | None = None,
    name: str | None = None,
    **options: Any,
) -> Subgroup:
    """The smallest of the `multiples` of a step under which f is exactly equivariant.

    f                 any function of arrays by name
    translations      of the inputs, by multiples of a step: `Roll`, `Slide`, or `Translate(…, step=1 / 64)`; or a
                      product of these, whose steps are multiplied alike
    translations_out  of the output: an action whose step is multiplied as well, nothing for invariance, or a function
                      multiple → action for another step on the output; None where the output has no such shift.
                      A stride of 2: `lambda k: Roll(step=k // 2) if k % 2 == 0 else None`
    draw, options     the inputs, and what else `search` takes: sizes, count, digits …
    multiples         in the order in which they are tried; the search ends at the first that holds. If a large one is
                      known to be exact, its divisors are enough: the exact shifts are a subgroup
    read, in_precision, name   as `equivariant` has them

    Counter-examples of the multiples that fail are given as they are found, unless `simplify` says otherwise.
    Raises ValueError for translations without a step, multiples below 1, or none; and what `search` raises.
    """
    tried = [int(multiple) for multiple in multiples]
    if not tried or min(tried) < 1:
        raise ValueError(f"find_subgroup: multiples are {tried}; give whole numbers from 1, such as range(1, 9)")
    verdicts: dict[int, Verdict | None] = {}
    claims: dict[int, Claim] = {}
    found = None
    for multiple in tried:
        out = _out(translations_out, multiple)
        if out is None:
            verdicts[multiple] = None
            continue
        moved = in_steps(translations, multiple)
        claims[multiple] = equivariant(f, moved, out, read=read, in_precision=in_precision, name=name)
        verdicts[multiple] = verdict = search(claims[multiple], draw, **{"simplify": 0, **options})
        if verdict.holds:
            found = multiple
            break
    told = claims.get(found) if found is not None else next(iter(claims.values()), None)
    return Subgroup(found, verdicts, str(told) if told is not None else str(name or "f"))


def _out(out: Out, multiple: int) -> Action | None:
    """What moves the output under that multiple."""
    if out is None:
        return Trivial()
    return in_steps(out, multiple) if isinstance(out, Action) else out(multiple)
