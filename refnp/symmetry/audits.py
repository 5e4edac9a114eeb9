"""What does a function keep? All axes of all its arguments, by permutations and selections, unasked.

    print(audit(attention, draw, sizes={"n": range(1, 6), "m": range(1, 6)}))

Axes of arguments and results that are equally long in all draws may move together. For each axis alone, and for those
that are equally long together, it is asked whether the result stays, or moves along an axis of its own.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import Action, Arrays, Trivial
from refnp.symmetry.claim import Function, InPrecision, Read, Refusal, equivariant
from refnp.symmetry.inputs import Draw, Sizes, check_sizes, large_sizes
from refnp.symmetry.places import Permute, Select
from refnp.symmetry.searches import search
from refnp.symmetry.verdict import Verdict, in_a_row

SAMPLES = 4  # draws that show which axes are equally long
COUNT = 16  # inputs for each claim

Axis = tuple[str, int]  # the name of an array, and an axis of it


@dataclass(frozen=True)
class Kept:
    """What a function keeps when these axes of its arguments are moved.

    permutations, selections   in words: what the result does, or the counter-example; each with its verdicts
    """

    moved: str
    permutations: str
    selections: str
    verdicts: Mapping[str, Verdict] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Audit:
    """A table of what a function keeps, a row for each axis of its arguments and for axes that move together."""

    name: str
    sense: str
    rows: tuple[Kept, ...]

    def __str__(self) -> str:
        table = [("moved", "in another order", "some left out or repeated")]
        table += [(row.moved, row.permutations, row.selections) for row in self.rows]
        widths = [max(len(row[i]) for row in table) for i in range(3)]
        lines = [
            "  " + "   ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        return "\n".join([f"what {self.name} keeps, {self.sense}", *lines])


def audit(
    f: Function,
    draw: Draw,
    *,
    sizes: Sizes | None = None,
    read: Read = None,
    in_precision: InPrecision | None = None,
    name: str | None = None,
    count: int = COUNT,
    seed: int = 0,
    **options: Any,
) -> Audit:
    """A table of what f keeps: all axes of all arguments, by permutations and selections, unasked.

    f, draw, sizes    as in `search`: any function of arrays by name, and how its arguments are drawn
    read, in_precision, name   as in `equivariant`
    count             inputs for each claim: what "stays" or "moves" was found by a search as short as that
    seed, options     of `search`

    Axes are taken together if they are equally long in all of a few draws; so give sizes that differ from one another
    and from fixed numbers of features. Raises what `search` raises; ValueError if f takes none of the draws.
    """
    asked = dict(sizes or {})
    check_sizes(draw, asked)
    rng = np.random.default_rng((seed, 2**31 + 4))
    samples: list[Arrays] = []
    outputs: list[dict[str, Array]] = []
    told = "there was no draw"
    for i in range(4 * SAMPLES):
        sample = draw(rng, **large_sizes(asked, rng, i % 2 == 0))
        arrays = {key: None if a is None else np.asarray(a) for key, a in sample.items()}
        try:
            outputs.append(equivariant(f, Trivial(), Trivial(), read=read, in_precision=in_precision).at(arrays, float))
            samples.append(arrays)
        except Refusal as refusal:
            told = str(refusal)
        if len(samples) == SAMPLES:
            break
    if not samples:
        raise ValueError(f"audit: f took none of the inputs that were drawn; {told}")
    lengths, results = _lengths(samples), _lengths(outputs)
    together: dict[tuple[int, ...], list[Axis]] = {}
    for axis, length in lengths.items():
        together.setdefault(length, []).append(axis)
    rows = []
    shown = str(name or getattr(f, "__name__", "f"))
    of_claim: dict[str, Any] = {"read": read, "in_precision": in_precision, "name": shown}
    options = {"sizes": asked, "count": count, "seed": seed, "simplify": 0, **options}
    searched = lambda action, out: search(equivariant(f, action, out, **of_claim), draw, **options)
    for length, axes in together.items():
        if max(length) < 2:
            continue
        outs = [axis for axis, other in results.items() if other == length]
        for moved in _moves(axes):
            permuted, of_orders = _asked(searched, moved, outs, Permute)
            selected, of_choices = _asked(searched, moved, outs, Select)
            rows.append(Kept(_in_words(moved), permuted, selected, of_orders | of_choices))
    sense = "; ".join(
        [f"{key} = {in_a_row(set(values))}" for key, values in asked.items()] + [f"{count} inputs or more each"]
    )
    return Audit("f" if shown == "<lambda>" else shown, sense, tuple(rows))


def _lengths(samples: Sequence[Mapping[str, Any]]) -> dict[Axis, tuple[int, ...]]:
    """The lengths of every axis in all samples."""
    found: dict[Axis, tuple[int, ...]] = {}
    for name, a in samples[0].items():
        present = all(sample.get(name) is not None and np.ndim(sample[name]) == np.ndim(a) for sample in samples)
        for axis in range(np.ndim(a)) if a is not None and present else ():
            found[name, axis] = tuple(np.shape(sample[name])[axis] for sample in samples)
    return found


def _moves(axes: Sequence[Axis]) -> list[tuple[Axis, ...]]:
    """Each axis alone, all of each array, each pair of arrays, and all together."""
    found: list[tuple[Axis, ...]] = [(axis,) for axis in axes]
    names = list(dict.fromkeys(name for name, _ in axes))
    of = {name: tuple(axis for axis in axes if axis[0] == name) for name in names}
    found += [of[name] for name in names]
    found += [(*of[one], *of[other]) for one, other in itertools.combinations(names, 2)]
    return list(dict.fromkeys([*found, tuple(axes)]))


def _by_name(axes: Sequence[Axis]) -> dict[str, Any]:
    each = {name: tuple(axis for other, axis in axes if other == name) for name, _ in axes}
    return {name: found[0] if len(found) == 1 else found for name, found in each.items()}


def _in_words(axes: Sequence[Axis]) -> str:
    return ", ".join(
        f"{name} axis {axis}" if isinstance(axis, int) else f"{name} axes {' and '.join(map(str, axis))}"
        for name, axis in _by_name(axes).items()
    )


def _asked(
    searched: Callable[[Action, Action], Verdict], moved: Sequence[Axis], outs: Sequence[Axis], kind: Any
) -> tuple[str, dict[str, Verdict]]:
    """What the result does when the axes move, in words: the first claim that holds, or why none does; all verdicts."""
    candidates: list[tuple[str, Action]] = []
    if outs:
        candidates.append((f"moves: {_in_words(outs)}", kind(_by_name(outs))))
        candidates += [(f"moves: {_in_words([out])}", kind(_by_name([out]))) for out in outs if len(outs) > 1]
    candidates.append(("stays", Trivial()))
    verdicts: dict[str, Verdict] = {}
    undecided = ""
    for words, out in candidates:
        verdicts[f"{kind.group}, {words}"] = verdict = searched(kind(_by_name(moved)), out)
        if verdict.holds:
            return words, verdicts
        undecided = undecided or (f"undecided whether it {words}" if verdict.outcome == "undecided" else "")
    return undecided or "neither", verdicts
