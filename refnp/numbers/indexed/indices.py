"""Indices: letters, numbers, bijections of an axis, and integers that depend on other indices."""

from collections.abc import Mapping, Sequence
from typing import Any

from refnp.numbers.indexed.terms import Atom, Index, Inside, first_of, frozen, indices_of, letters, letters_of

REVERSED = "reversed "  # i ↦ N − 1 − i, with the name of the axis behind it


def index(i: Index, new: Mapping[str, Index]) -> Index:
    """The index with indices in place of letters."""
    if isinstance(i, str):
        return new.get(i, i)
    if isinstance(i, int) or letters(i).isdisjoint(new):
        return i
    if i[0] in ("π", "π⁻"):
        return moved(i[0], i[1], index(i[2], new))
    first = first_of(i)
    return (*i[:first], *(index(k, new) for k in i[first:]))


def exchanged(a: Atom, old: Index, new: Index) -> Atom:
    """The atom with another index in place of one, where that stands in it and not within a function."""

    def of(i: Index) -> Index:
        inner = isinstance(i, tuple) and i != old
        return (*i[: first_of(i)], *map(of, i[first_of(i) :])) if inner else new if i == old else i

    if a[0] in ("x", "m"):
        return (*a[:2], tuple(map(of, a[2])))
    return ("δ", *sorted(map(of, a[1:]), key=repr)) if a[0] == "δ" else a


def inverse_of(way: str, name: str) -> tuple[str, str]:
    """The bijection that undoes another: a reversal is its own."""
    return (way, name) if name.startswith(REVERSED) else ({"π": "π⁻", "π⁻": "π"}[way], name)


def moved(way: str, name: str, i: Index) -> Index:
    """π(i), or π⁻(i); each undoes the other."""
    return i[2] if isinstance(i, tuple) and i[:2] == inverse_of(way, name) else (way, name, i)


def ways(letter: str, a: Atom) -> set:
    """The bijections under which a letter stands in an atom; None where it stands under none."""
    if letter not in letters_of(a):
        return set()
    if a[0] in ("f", "^"):
        return set().union(*(ways(letter, inner) for (_, f), _ in a[-1].terms for inner, _ in f))
    return set().union(*(_ways_of_index(letter, i) for i in indices_of(a)))


def _ways_of_index(letter: str, i: Index) -> set:
    if i == letter:
        return {None}
    if letter not in letters(i):
        return set()
    if i[0] in ("π", "π⁻") and i[2] == letter:
        return {i[:2]}
    return set().union(*(_ways_of_index(letter, k) for k in i[first_of(i) :]))


def equal(i: Index, j: Index) -> list[tuple[Index, Index]] | None:
    """What must be equal for i = j; None if they never are."""
    if i == j:
        return []
    if isinstance(i, int) and isinstance(j, int):
        return None
    if isinstance(i, tuple) and isinstance(j, tuple) and i[0] == j[0]:
        if i[0] == "pair" and len(i) == len(j):
            parts = [equal(k, m) for k, m in zip(i[1:], j[1:], strict=True)]
            return None if None in parts else [pair for part in parts for pair in part or ()]
        if i[0] == "part":
            return equal(i[2], j[2]) if i[1] == j[1] else None
        if i[0] in ("π", "π⁻") and i[1] == j[1]:
            return equal(i[2], j[2])
    for one, other in ((i, j), (j, i)):
        is_moved = isinstance(one, tuple) and one[0] in ("π", "π⁻") and isinstance(one[2], str)
        if is_moved and (
            not isinstance(other, str) or one[0] == "π⁻" or (one[1].startswith(REVERSED) and other < one[2])
        ):
            return equal(one[2], moved(*inverse_of(*one[:2]), other))
    return [(i, j)]


def solved(i: Index, j: Index, sizes: Mapping[str, str]) -> tuple[str, Index] | None:
    """A letter that is summed over, and what it is if i = j."""
    for one, other in ((i, j), (j, i)):
        if isinstance(one, str) and one in sizes and one not in letters(other):
            return one, other
        if isinstance(one, tuple) and one[0] in ("π", "π⁻") and one[2] in sizes and one[2] not in letters(other):
            return one[2], moved(*inverse_of(*one[:2]), other)
    return None


_names: dict[str, str] = {}  # of expressions, by what they are
meaning: dict[str, Inside] = {}  # of names


def abstracted(kind: str, e: Mapping, own: Sequence[str] = ()) -> tuple[str, list[Index]]:
    """A name for a function of the indices that stand free in e, and these: the same name for the same function."""
    leaves: list[Index] = []
    new: dict[Any, str] = {letter: f"t0{k or ''}" for k, letter in enumerate(own)}

    def leaf(i: Index, bound: Mapping[str, str]) -> Index:
        if isinstance(i, int) or (isinstance(i, str) and i in bound):
            return i
        if i not in new and (isinstance(i, str) or letters(i).isdisjoint((*own, *bound))):
            leaves.append(i)
            new[i] = f"t{len(leaves)}"
        return new[i] if i in new else (*i[: first_of(i)], *(leaf(k, bound) for k in i[first_of(i) :]))

    def of(terms: Any, bound: Mapping[str, str]) -> Inside:
        found = {}
        for (b, f), c in terms:
            every = {**bound, **dict(b)}
            found[b, tuple((each(a, every), p) for a, p in f)] = c
        return frozen(found)

    def each(a: Atom, bound: Mapping[str, str]) -> Atom:
        if a[0] in ("x", "m"):
            return (*a[:2], tuple(leaf(i, bound) for i in a[2]))
        if a[0] == "δ":
            return ("δ", *sorted((leaf(i, bound) for i in a[1:]), key=repr))
        return (*a[:-1], of(a[-1].terms, bound)) if a[0] in ("f", "^") else a

    inside = of(frozen(e).terms, {})
    name = _names.setdefault(f"{kind} {inside}", f"{kind} {len(_names)}")
    meaning[name] = inside
    return name, leaves
