"""Expressions: sums of terms, and how they are added, multiplied, summed and read at other indices.

Every term is made by `term`, which sums out deltas, counts idle sums, and applies the rules (rules.py), each of which
either leaves a term alone or says what it is equal to:

    (a + b) c = a c + b c        a^p a^q = a^(p + q)        a mask, a condition and a delta are their own squares
    Σ_j δ_jk a_j = a_k           Σ_j δ_π(j)k a_j = a_π⁻(k)  Σ_j a = N a where a does not depend on j
    f(c a + (1 − c) b) = c f(a) + (1 − c) f(b)   for c that is 0 or 1

Each holds where all that occurs is a real number. What that takes is noted (`assuming`) and printed with a theorem.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from refnp.numbers.indexed.indices import equal, index, solved
from refnp.numbers.indexed.terms import (
    Atom,
    Bound,
    Factors,
    Index,
    Inside,
    assumed,
    fresh,
    frozen,
    letters_of,
    renamed,
    spend,
    thawed,
)

ONE = Fraction(1)


def assume(what: str, of: Any) -> None:
    """Note an assumption, of an expression or of a text."""
    noted = assumed.get()
    known = what == "≠ 0" and isinstance(of, Expression) and of.keys() == {((), ())}  # of a number that is not 0
    if noted is not None and not known:
        noted[(what, frozen(of) if isinstance(of, Expression) else of)] = None


class Expression(dict):
    """{(bound letters with their sizes, factors with their powers): rational}."""

    def __add__(self, other: "Expression") -> "Expression":
        return total((self, other))

    def times(self, c: Any) -> "Expression":
        """A rational multiple."""
        return Expression({t: c * v for t, v in self.items()} if c else {})

    def __sub__(self, other: "Expression") -> "Expression":
        return self + other.times(-1)

    def __mul__(self, other: "Expression") -> "Expression":
        return total(product(t, c, u, k) for t, c in self.items() for u, k in other.items())

    def summed(self, bound: Iterable[tuple[str, str]]) -> "Expression":
        """Σ over letters, which stand free in it."""
        return total(term((*b, *bound), f, c) for (b, f), c in self.items())


def total(parts: Iterable[Expression]) -> Expression:
    """The sum of several."""
    found = Expression()
    for part in parts:
        if not found:
            found.update(part)
            continue
        for t, c in part.items():
            if t not in found or (c := found[t] + c):
                found[t] = c
            else:
                del found[t]
    return found


def number(c: Any) -> Expression:
    """A rational number."""
    return Expression({((), ()): Fraction(c)} if c else {})


def atom(*of: Any) -> Expression:
    """One atom."""
    return term((), ((of, ONE),))


def opened(inside: Inside) -> Expression:
    """What stands inside of an atom."""
    return Expression({(b, f): c for b, f, c in thawed(inside)})


functions: dict[str, Callable[[Expression], Expression]] = {}  # by name: exp, log … of functions.py
rules: list[Callable[[dict, dict, Fraction], Expression | None]] = []  # of rules.py: what a term is equal to, or None
powers_of: list[Callable[[Expression, Fraction], Expression]] = []  # of rules.py: roots and inverses


def product(t: tuple[Bound, Factors], c: Fraction, u: tuple[Bound, Factors], k: Fraction) -> Expression:
    """The product of two terms; bound letters of the second that the first has get other names."""
    spend(1)
    (b, f), (d, g) = t, u
    new = {letter: fresh() for letter, _ in d if letter in dict(b)}
    if new:
        d = tuple((new.get(letter, letter), size) for letter, size in d)
        g = tuple((renamed(a, new), p) for a, p in g)
    return term((*b, *d), (*f, *g), c * k)


# Terms


def term(bound: Iterable[tuple[str, str]], factors: Iterable[tuple[Atom, Fraction]], c: Fraction = ONE) -> Expression:
    """One term, reduced by the rules."""
    sizes, queue = dict(bound), list(factors)
    powers: dict[Atom, Fraction] = {}
    while queue:
        a, p = queue.pop()
        if a[0] != "δ":
            raised(powers, a, ONE if is_0_or_1(a) else powers[a] + p if a in powers else p)
            continue
        pairs = equal(a[1], a[2])
        if pairs is None:
            return Expression()
        for pair in pairs:
            known = solved(*pair, sizes)
            if known:
                del sizes[known[0]]
                others = [(("δ", *other), ONE) for other in pairs if other != pair]
                rest = Expression({((), (*queue, *powers.items(), *others)): c})
                return substituted(rest, dict([known])).summed(sizes.items())
            powers["δ", *sorted(pair, key=repr)] = ONE
    for letter in [letter for letter in sizes if all(letter not in letters_of(a) for a in powers)]:
        a = ("#", sizes.pop(letter))  # Σ_j 1 = N
        raised(powers, a, powers[a] + 1 if a in powers else ONE)
    for rule in rules:
        found = rule(sizes, powers, c)
        if found is not None:
            return found
    return Expression({(tuple(sizes.items()), tuple(sorted(powers.items(), key=repr))): c} if c else {})


def raised(powers: dict[Atom, Fraction], a: Atom, p: Fraction) -> None:
    """Give an atom this power; with power 0 it is 1."""
    powers[a] = p
    if not p:
        del powers[a]


def substituted(e: Expression, new: Mapping[str, Index]) -> Expression:
    """The expression with indices in place of letters that stand free in it."""
    found = []
    for (b, f), c in e.items():
        own = {letter: fresh() for letter, _ in b}
        every = {**new, **own}
        plain, built = [], []
        for a, p in f:
            if letters_of(a).isdisjoint(every):
                plain.append((a, p))
            elif a[0] in ("x", "m"):
                plain.append(((*a[:2], tuple(index(i, every) for i in a[2])), p))
            elif a[0] == "δ":
                plain.append((("δ", *(index(i, every) for i in a[1:])), p))
            else:
                inside = substituted(opened(a[-1]), every)
                built.append(power(inside if a[0] == "^" else function(a[1], inside), p))
        spend(len(built) / 10)  # a function or a power that is worked out anew takes the time of some products
        whole = term((), plain, c)
        for part in built:
            whole = whole * part
        found.append(whole.summed((own[letter], size) for letter, size in b))
    return total(found)


def function(name: str, e: Expression) -> Expression:
    """A function of an expression, which is taken apart at a condition: f(c a + (1 − c) b) = c f(a) + (1 − c) f(b)."""
    return by_cases(e, functions[name])


def by_cases(e: Expression, of: Callable[[Expression], Expression]) -> Expression:
    """of(e), for each value of the conditions, masks and deltas in it that do not depend on what is summed."""
    for b, f in e:
        for a, _ in f:
            if is_0_or_1(a) and letters_of(a).isdisjoint(dict(b)):
                holds = by_cases(_given(e, a, 1), of)
                fails = by_cases(_given(e, a, 0), of)
                return fails + term((), ((a, ONE),)) * (holds - fails)
    return of(e)


def _given(e: Expression, a: Atom, value: int) -> Expression:
    """The expression where an atom is 0 or 1."""
    kept = (((b, f), c) for (b, f), c in e.items() if value or a not in dict(f))
    return total(term(b, tuple(x for x in f if x[0] != a), c) for (b, f), c in kept)


def is_0_or_1(a: Atom) -> bool:
    """Whether an atom is a mask, a delta or a condition."""
    return a[0] in ("m", "δ")


def is_unit(a: Atom) -> bool:
    """Whether an atom is positive whatever the numbers are."""
    return a[0] in ("#", "n", "c") or a[:2] == ("f", "exp")


def is_whole(e: Expression) -> bool:
    """Whether it is a sum of whole numbers: of places on axes and of sizes, which names that begin with # are."""
    return all(
        not b and c.denominator == 1 and all(p == 1 and (a[0] == "#" or (a[0] == "x" and a[1][0] == "#")) for a, p in f)
        for (b, f), c in e.items()
    )


def is_count(e: Expression) -> bool:
    """Whether it is a number of things: a sum of masks, conditions and sizes."""
    return all(c > 0 and c.denominator == 1 and all(p == 1 and (is_0_or_1(a) or a[0] == "#") for a, p in f)
               for (_, f), c in e.items())  # fmt: skip


def is_positive(e: Expression) -> bool:
    """Whether it is a sum of what is never negative, one of them positive."""
    if not all(c > 0 and is_square(f) for (_, f), c in e.items()):
        return False
    return any(all(is_unit(a) for a, _ in f) for _, f in e)


def is_square(factors: Factors) -> bool:
    """Whether a product is never negative: of squares, roots, positive factors and such that are 0 or 1."""
    return all(is_unit(a) or is_0_or_1(a) or p % 2 == 0 or p.denominator > 1 for a, p in factors)


def power(e: Expression, p: Any) -> Expression:
    """e^p: a product for whole p ≥ 0, else of what must not be 0, and be positive where p is no whole number."""
    p = Fraction(p)
    if p.denominator == 1 and p >= 0:
        found = number(1)
        for _ in range(int(p)):
            found = found * e
        return found
    return by_cases(e, lambda case: powers_of[0](case, p))
