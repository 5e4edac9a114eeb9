"""Terms: products of entries, summed over indices, and the one form in which they are compared.

An expression is a sum of terms. A term is a rational number times powers of atoms, summed over bound letters:

    Σ_j N⁻¹ exp(x_ij) δ_ik        {((("j", "N"),), ((("#", "N"), −1), (("f", "exp", x_ij), 1), (("δ", i, k), 1))): 1}

    atoms    ("x", name, indices)   an entry of an array          ("δ", i, j)        1 where i = j, else 0
             ("m", name, indices)   one of a mask, 0 or 1         ("#", letter)      a size, at least 1
             ("f", name, inside)    a function of an expression   ("n", p)           a prime number, under a root
             ("^", inside)          an expression under a power   ("c", name)        a positive constant

    indices  a letter, or a number   ("pair", i, j …)     of an axis that is a product of several
             ("π", name, i), ("π⁻", name, i)   a bijection of an axis and its inverse
             ("part", k, i)          the k-th piece of an axis that is several, one behind the other
             ("at", name, i …)       an integer that depends on i …: of an array of such, or where a row is largest

This file renames letters and writes terms in their canonical form, and counts what is formed; the rules of arithmetic
stand in rules.py.
"""

import contextlib
import contextvars
import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from refnp.numbers.within import within

Index = Any  # a letter, a number, or a tuple whose first entry says what it is
Atom = tuple
Bound = tuple[tuple[str, str], ...]  # letters that are summed over, with the names of their sizes
Factors = tuple[tuple[Atom, Fraction], ...]
Terms = Iterable[tuple[tuple[Bound, Factors], Fraction]]

_count = itertools.count()
ORDERS_OF_A_PRODUCT, TEXT_OF_A_PRODUCT = 10, 1000  # orders of letters, or characters written, that take as long
WORDS = re.compile(r"[\w.·πδ⁻^#-]+")
INNER = re.compile(r"s\d+\.\d+")  # letters of sums within an atom
MOST = 200_000  # products formed for one theorem
TOO_MANY = "more than the products that a proof may take"


class NoRule(TypeError):
    """Something for which no rule is known, or which would take too long."""


class Assumptions(dict):
    """{(what is assumed of it, the expression): None}, and how many products were formed, of `most`."""

    products, most = 0.0, float(MOST)


assumed = contextvars.ContextVar[Assumptions | None]("assumed", default=None)


@contextlib.contextmanager
def assuming() -> Iterator[Assumptions]:
    """Within this block what rules assume is noted: that an expression is not 0, or that it is positive."""
    found, outer = Assumptions(), assumed.get()
    found.most = MOST if outer is None else outer.most - outer.products
    token = assumed.set(found)
    try:
        yield found
    finally:
        assumed.reset(token)
        if outer is not None:
            outer.products += found.products


def uncounted() -> contextlib.AbstractContextManager[Any]:
    """Within this block nothing is noted or counted, as while what was noted is written."""
    return within(assumed, None)


def also(own: Assumptions) -> None:
    """Note what was noted before, when something that is used again was worked out."""
    noted = assumed.get()
    if noted is not None:
        noted.update(own)


def spend(products: float) -> None:
    """Count what was formed. NoRule for more than a theorem may take."""
    noted = assumed.get()
    if noted is not None:
        noted.products += products
        if noted.products > noted.most:
            raise NoRule(TOO_MANY)


# ---- terms


def fresh() -> str:
    """A letter that stands nowhere else."""
    return f"j{next(_count)}"


class Inside:
    """An expression within an atom, in canonical form: equal ones are written alike."""

    __slots__ = ("_hash", "letters", "level", "terms", "text")

    def __init__(self, terms: tuple):
        self.terms, self.text = terms, repr(terms)
        self._hash = hash(self.text)
        free: set[str] = set()
        self.level = 0
        for (bound, factors), _ in terms:
            free |= letters_of_factors(factors) - dict(bound).keys()
            self.level = max([self.level, *(level_of(atom) + 1 for atom, _ in factors)])
        self.letters = frozenset(free)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inside) and self.text == other.text

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.text


def letters(i: Index) -> frozenset[str]:
    """The letters that stand free in an index."""
    if isinstance(i, str):
        return frozenset((i,))
    if isinstance(i, int):
        return frozenset()
    return frozenset().union(*map(letters, i[first_of(i) :]))


def first_of(i: tuple) -> int:
    """Where the indices within an index begin, behind its kind and its name."""
    return 1 if i[0] == "pair" else 2


@functools.lru_cache(maxsize=100_000)
def letters_of(atom: Atom) -> frozenset[str]:
    """The letters that stand free in an atom."""
    kind = atom[0]
    if kind in ("x", "m"):
        return frozenset().union(*map(letters, atom[2]))
    if kind == "δ":
        return letters(atom[1]) | letters(atom[2])
    return atom[-1].letters if kind in ("f", "^") else frozenset()


def letters_of_factors(factors: Factors) -> set[str]:
    """The letters that stand free in any of the factors."""
    return {letter for atom, _ in factors for letter in letters_of(atom)}


def indices_of(atom: Atom) -> tuple[Index, ...]:
    """The indices of an atom itself, not of what is inside of it."""
    return atom[2] if atom[0] in ("x", "m") else atom[1:] if atom[0] == "δ" else ()


def indices_within(inside: Inside) -> Iterator[Index]:
    """The indices of all atoms in it, and of what is inside of them."""
    for (_, factors), _ in inside.terms:
        for atom, _ in factors:
            yield from indices_of(atom)
            if atom[0] in ("f", "^"):
                yield from indices_within(atom[-1])


def level_of(atom: Atom) -> int:
    """How deep expressions stand within an atom: a sum has a level above all that stands in it."""
    return atom[-1].level if atom[0] in ("f", "^") else 0


def thawed(inside: Inside) -> Iterator[tuple[Bound, Factors, Fraction]]:
    """The terms of what stands inside of an atom, their bound letters renamed, so that no free one is caught."""
    for (bound, factors), c in inside.terms:
        new = {letter: fresh() for letter, _ in bound}
        named = tuple((new[letter], size) for letter, size in bound)
        yield named, tuple((renamed(atom, new), p) for atom, p in factors) if new else factors, c


def renamed_index(i: Index, new: Mapping[str, str]) -> Index:
    """The index with other letters for its own."""
    if isinstance(i, str):
        return new.get(i, i)
    if isinstance(i, int):
        return i
    first = first_of(i)
    return (*i[:first], *(renamed_index(k, new) for k in i[first:]))


def renamed(atom: Atom, new: Mapping[str, str]) -> Atom:
    """The atom with other letters for its free ones, a different one for each: so no two become one."""
    if not new or letters_of(atom).isdisjoint(new):
        return atom
    if atom[0] in ("x", "m"):
        return (*atom[:2], tuple(renamed_index(i, new) for i in atom[2]))
    if atom[0] == "δ":
        return ("δ", *sorted((renamed_index(i, new) for i in atom[1:]), key=repr))
    terms = [(b, tuple((renamed(a, new), p) for a, p in f), c) for b, f, c in thawed(atom[-1])]
    return (*atom[:-1], frozen({(b, f): c for b, f, c in terms}))


def frozen(terms: Mapping[tuple[Bound, Factors], Fraction]) -> Inside:
    """Terms as what stands inside of an atom."""
    found = Inside(tuple(sorted(canonical(terms).items(), key=repr)))
    spend(len(found.text) / TEXT_OF_A_PRODUCT)
    return found


def canonical(terms: Mapping[tuple[Bound, Factors], Fraction]) -> dict[tuple[Bound, Factors], Fraction]:
    """The terms with bound letters named by level and order: equal sums are written alike.

    Σ_j a_j = Σ_k a_k, and Σ_j Σ_k = Σ_k Σ_j. Of all orders of the bound letters that whose text is least is taken;
    those that stand in different places of a term need not be tried in each other's place.
    """
    found: dict[tuple[Bound, Factors], Fraction] = {}
    for (bound, factors), c in terms.items():
        form = bound, tuple(sorted(factors, key=repr))
        if bound:
            level = max(level_of(atom) for atom, _ in factors) + 1
            forms = (_named(order, factors, level) for order in _orders(bound, factors))
            form = min(forms, key=repr)
        found[form] = found.get(form, Fraction(0)) + c
    return {form: c for form, c in found.items() if c}


def _named(order: Iterable[tuple[str, str]], factors: Factors, level: int) -> tuple[Bound, Factors]:
    """A term whose bound letters are named in this order."""
    order = tuple(order)
    new = {letter: f"s{level}.{k}" for k, (letter, _) in enumerate(order)}
    named = tuple((new[letter], size) for letter, size in order)
    return named, tuple(sorted(((renamed(atom, new), p) for atom, p in factors), key=repr))


def _orders(bound: Bound, factors: Factors) -> Iterator[list[tuple[str, str]]]:
    """The orders of bound letters that may give the least text: by where they stand, and all of those that tie."""
    if len(bound) == 1:
        return iter([list(bound)])
    others = {letter: "·" for letter, _ in bound}

    def seat(letter: str, size: str) -> str:
        """The words of the factors in which the letter stands, whatever other letters that are summed over are."""

        def of(word: str) -> str:
            return "○" if word == letter else "s" if INNER.fullmatch(word) else others.get(word, word)

        texts = [f"{atom!r} {p}" for atom, p in factors if letter in letters_of(atom)]
        return size + repr(sorted(sorted(map(of, WORDS.findall(text))) for text in texts))

    groups: dict[str, list[tuple[str, str]]] = {}
    for letter, size in bound:
        groups.setdefault(seat(letter, size), []).append((letter, size))
    spend(math.prod(math.factorial(len(group)) for group in groups.values()) / ORDERS_OF_A_PRODUCT)
    runs = [itertools.permutations(groups[text]) for text in sorted(groups)]
    return (list(itertools.chain(*choice)) for choice in itertools.product(*runs))
