"""A row of the ledger: a subject, a symmetry, and what is expected of them, written down before anything is tried.

    exact                  f(g·x) = g·f(x) for every g of the group, in exact arithmetic
    exact on a subgroup    for the g of a subgroup that the row names, and of no larger one that its trial lists
    approximate            for no subgroup, but the discrepancy falls as something is refined, at the rate that is named
    broken                 there is an input and a g at which it is wrong, and refining mends nothing

What the search finds is one of the same four, or "undecided". It must be what was expected, in both directions: a
symmetry that a model should lack and has is as wrong as one that it should have and lacks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refnp.symmetry import Claim

EXACT, ON_SUBGROUP, APPROXIMATE, BROKEN = "exact", "exact on a subgroup", "approximate", "broken"
UNDECIDED = "undecided"
NO_PROOF = "none"  # in place of shapes, where a proof would take minutes
EXPECTATIONS = (EXACT, ON_SUBGROUP, APPROXIMATE, BROKEN)


@dataclass(frozen=True)
class Refinement:
    """Something that can be made finer, of which the discrepancy is a power: discrepancy ∝ (1/finer)^rate.

    finer        what it is, in words: "points per unit"
    levels       its values, each twice the one before or more
    claim        a level → the claim for the whole group, for a model with that level
    """

    finer: str
    levels: Sequence[float]
    claim: Callable[[float], Claim]


@dataclass(frozen=True)
class Trial:
    """What of a row is given to the search.

    claim        for the whole group
    draw, sizes  how inputs are drawn, as `search` has them
    parts        name → the claim for that subgroup; each has all elements of the next, and the first that holds is the
                 verdict. (The search begins with the last, and ends where one fails: then those before it fail, too.)
    refined      what makes an approximate symmetry better
    shifts       elements of the group, in order, for a picture of the discrepancy against them, with their sizes
    options      what else `search` takes
    shapes       of the arguments, for the proof, where those drawn do not say all; NO_PROOF where none is tried
    """

    claim: Claim
    draw: Callable[..., Mapping[str, Any]]
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    parts: Mapping[str, Claim] = field(default_factory=dict)
    refined: Refinement | None = None
    shifts: Mapping[float, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    shapes: str = ""


@dataclass(frozen=True)
class Row:
    """What is expected, as data, and how it is tried.

    subject, symmetry   in words; both together name the row
    expected            one of EXPECTATIONS
    reason              why, in a few words: the analytical reason
    trial               () → what is tried, made only when the row's turn comes
    subgroup            the name of the part on which it is exact, where only on one
    rate                of an approximate symmetry: the least power of the refinement with which the discrepancy falls
    """

    subject: str
    symmetry: str
    expected: str
    reason: str
    trial: Callable[[], Trial]
    subgroup: str = ""
    rate: float = 0.0

    def __post_init__(self) -> None:
        if self.expected not in EXPECTATIONS:
            raise ValueError(f"Row: {self.name}: expected is {self.expected!r}; use one of {', '.join(EXPECTATIONS)}")
        if (self.expected == ON_SUBGROUP) != bool(self.subgroup):
            raise ValueError(f"Row: {self.name}: subgroup is {self.subgroup!r}, expected {self.expected!r}; name one")
        if (self.expected == APPROXIMATE) != (self.rate > 0):
            raise ValueError(f"Row: {self.name}: rate is {self.rate}, expected {self.expected!r}; give a positive one")

    @property
    def name(self) -> str:
        return f"{self.subject}: {self.symmetry}"
