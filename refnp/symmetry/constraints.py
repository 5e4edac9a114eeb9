"""What all draws have in common: the domain of a claim, as far as draws can show it.

    values     few different ones, whole numbers, one sign, between 0 and 1 or −1 and 1, an order along an axis
    rows       the same sum, norm, largest or least number along an axis; all numbers of an order, 0 … n − 1
    matrices   symmetric, antisymmetric, Hermitian; one constant diagonal; triangular; positive definite; orthogonal
    pairs      one array that follows from another: a mask of what is not 0, a length, distances, one-hot rows

The rules of one array are in rules.py, those of pairs in relations.py.

Each is kept only if it was so in every draw, and if random numbers would hardly have it by chance. Inputs that are made
otherwise than by the draw (scaled, with structure, perturbed, simplified, rounded to another precision) are *restored*,
in the precision of the array: rows are divided by their sum, matrices made symmetric, masks made anew. What then still
differs from all draws is not tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.relations import Constraint, relations
from refnp.symmetry.rules import Holds, Restored, along_axes, masks, matrices, values

Arrays = Mapping[str, Any]

SMALL_LAST_AXIS = 8  # columns, each with a rule of its own


class Constraints:
    """What all samples keep: each array alone first, then arrays that follow from others."""

    def __init__(self, samples: Sequence[Arrays]):
        common = set.intersection(*(set(sample) for sample in samples)) if samples else set()
        self.kept: list[Constraint] = []
        given: dict[str, list[Array]] = {}
        for name in samples[0] if samples else ():
            arrays = [np.asarray(sample[name]) for sample in samples if name in common and sample[name] is not None]
            if arrays and len({a.ndim for a in arrays}) == 1 and arrays[0].dtype.kind in "biufc":
                given[name] = arrays
                if not all(np.array_equal(a, arrays[0]) for a in arrays):  # what never changes is never touched
                    self.kept += _of_one(name, arrays)
        complete = [sample for sample in samples if all(sample.get(name) is not None for name in given)]
        self.kept += relations(complete, list(given))

    def __bool__(self) -> bool:
        return bool(self.kept)

    def hold(self, arrays: Arrays) -> bool:
        """Whether these arrays keep all of it."""
        return all(c.holds(arrays) for c in self.kept)

    def unlearn(self, arrays: Arrays) -> None:
        """Drop what these arrays, which were drawn, do not keep."""
        self.kept = [c for c in self.kept if c.holds(arrays)]

    def restored(self, arrays: Arrays) -> dict[str, Any]:
        """The arrays with one constraint restored after the other, in their own dtypes."""
        with np.errstate(all="ignore"):
            for c in self.kept:
                arrays = c.restored(arrays)
        return dict(arrays)

    def names(self, name: str, words: str) -> bool:
        """Whether the array keeps something of this kind, such as "ascending"."""
        return any(c.name == name and words in c.words for c in self.kept)

    def words(self) -> list[str]:
        """All of it in words."""
        return [f"{c.name} {c.words}" for c in self.kept]


def _of_one(name: str, arrays: Sequence[Array]) -> Iterator[Constraint]:
    """The rules of one array, those of its values last, so that they are restored last."""
    made = lambda rules: [Constraint(name, words, holds, back) for words, holds, back in rules]
    kind = arrays[0].dtype.kind
    if kind in "fc":
        yield from made(along_axes(arrays))
    yield from made(matrices(arrays))
    if kind == "c":
        return
    if kind == "b":
        yield from made(masks(arrays))
    found = made(values(arrays))
    yield from found
    width = arrays[0].shape[-1] if arrays[0].ndim > 1 else 0
    if not found and 1 < width <= SMALL_LAST_AXIS and all(a.shape[-1] == width for a in arrays):
        for j in range(width):
            for words, holds, back in values([a[..., j] for a in arrays]):
                yield Constraint(name, f"[..., {j}] {words}", _of_column(j, holds), _column_restored(j, back))


def _of_column(j: int, holds: Holds) -> Holds:
    return lambda a: holds(a[..., j])


def _column_restored(j: int, restored: Restored | None) -> Restored | None:
    if restored is None:
        return None

    def back(a: Array) -> Array:
        a = a.copy()
        a[..., j] = restored(a[..., j])
        return a

    return back
