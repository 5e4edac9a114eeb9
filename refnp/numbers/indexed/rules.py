"""The rules of terms and powers: each says what a term is equal to, and is applied wherever it fits.

sums           Σ_j a_π(j) = Σ_j a_j for a bijection π
roots          (b^½)² = b;  12^½ = 2 · 3^½;  (a b)^n = a^n b^n for a whole n, for other n where a > 0
turns          cos² = 1 − sin²
deltas         δ_ik a_i = δ_ik a_k
denominators   a b^p = b^(p + 1) − r b^p where b = a + r and p < 0: what stands in a denominator is divided out
"""

import contextlib
import functools
import itertools
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from refnp.numbers.indexed.expressions import (
    ONE,
    Expression,
    assume,
    function,
    is_positive,
    is_square,
    is_unit,
    number,
    opened,
    power,
    powers_of,
    raised,
    rules,
    substituted,
    term,
    total,
)
from refnp.numbers.indexed.indices import REVERSED, exchanged, index, inverse_of, meaning, ways
from refnp.numbers.indexed.terms import (
    INNER,
    WORDS,
    Atom,
    Index,
    Inside,
    NoRule,
    assuming,
    canonical,
    first_of,
    frozen,
    indices_within,
    letters,
    letters_of,
    renamed,
    thawed,
)

BEFORE = "before"  # [i < j] for places on one axis
LETTER = re.compile(r"[ijt]\d+")
Sizes = dict[str, str]
Powers = dict[Atom, Fraction]


def _replaced(sizes: Sizes, powers: Powers, c: Fraction, a: Atom, left: Fraction, by: Expression) -> Expression:
    """The term with another power of one atom, times an expression."""
    rest = tuple((b, q) for b, q in powers.items() if b != a) + (((a, left),) if left else ())
    return (term((), rest, c) * by).summed(sizes.items())


def _reordered(sizes: Sizes, powers: Powers, c: Fraction) -> Expression | None:
    """Σ_j a_π(j) = Σ_j a_j; for a reversal r also Σ_j [i < j] a_r(j) = Σ_j [i < r(j)] a_j."""
    for letter in sizes:
        under = set().union(*(ways(letter, a) for a in powers))
        others = set().union(*(ways(letter, a) for a in powers if a[:2] != ("m", BEFORE)))
        if len(others) == 1 and all(way and way[1].startswith(REVERSED) for way in others):
            under = others
        if len(under) == 1 and None not in under:
            back = {letter: (*inverse_of(*under.pop()), letter)}
            return substituted(Expression({((), tuple(powers.items())): c}), back).summed(sizes.items())
    return None


def _root_squared(sizes: Sizes, powers: Powers, c: Fraction) -> Expression | None:
    """(b^½)² = b, and (2^½)² = 2."""
    for a, p in powers.items():
        if a[0] == "^" and p >= 1:
            return _replaced(sizes, powers, c, a, p - int(p), power(opened(a[1]), int(p)))
        if a[0] == "n" and not 0 < p < 1:
            whole = p.numerator // p.denominator
            return _replaced(sizes, powers, c, a, p - whole, number(Fraction(a[1]) ** whole))
    return None


def _cosine_squared(sizes: Sizes, powers: Powers, c: Fraction) -> Expression | None:
    """cos² = 1 − sin²."""
    for a, p in powers.items():
        if a[:2] == ("f", "cos") and p >= 2:
            square = term((), ((("f", "sin", a[2]), Fraction(2)),))
            return _replaced(sizes, powers, c, a, p - 2, number(1) - square)
    return None


def _same_index(sizes: Sizes, powers: Powers, c: Fraction) -> Expression | None:
    """δ_ik a_i = δ_ik a_k, the name that comes first for both."""
    for a in powers:
        if a[0] == "δ":
            one, other = (a[2], a[1]) if isinstance(a[2], str) else (a[1], a[2])
            rest = {b: p for b, p in powers.items() if b != a}
            if isinstance(one, str) and one not in letters(other) and any(one in letters_of(b) for b in rest):
                with_other = substituted(Expression({((), tuple(rest.items())): c}), {one: other})
                return _replaced({}, {a: ONE}, ONE, a, ONE, with_other).summed(sizes.items())
            if isinstance(one, tuple) and isinstance(other, tuple) and any(repr(one) in repr(b) for b in rest):
                found = term((), ((a, ONE),), c)
                for b, p in rest.items():
                    found = found * _exchanged(b, p, one, other)
                return found.summed(sizes.items())
    return None


def _exchanged(a: Atom, p: Fraction, old: Index, new: Index) -> Expression:
    """A power of an atom in which an index is another."""
    if a[0] not in ("f", "^") or repr(old) not in a[-1].text:
        return term((), ((exchanged(a, old, new), p),))
    parts = []
    for b, factors, c in thawed(a[-1]):
        part = term((), (), c)
        for inner, q in factors:
            part = part * _exchanged(inner, q, old, new)
        parts.append(part.summed(b))
    return power(total(parts) if a[0] == "^" else function(a[1], total(parts)), p)


def _one_of_them(sizes: Sizes, powers: Powers, c: Fraction) -> Expression | None:
    """m_j [Σ_i m_i > 0] = m_j for a mask m: where one is 1, their number is above 0."""
    for a in powers:
        inside = meaning.get(a[1]) if a[0] == "m" and a[1].startswith("above 0 ") else None
        if inside is None or len(inside.terms) != 1:
            continue
        ((bound, factors), k) = inside.terms[0]
        if k > 0 and len(factors) == 1 and factors[0][0][0] == "m":
            known = {f"t{n}": i for n, i in enumerate(a[2], start=1)}
            of, found = factors[0][0], dict[str, Index]()
            for other in powers:
                found.clear()
                if other[:2] == of[:2] and all(
                    _is_of_form(j, index(i, known), dict(bound), found) for i, j in zip(of[2], other[2], strict=True)
                ):
                    return _replaced(sizes, powers, c, a, Fraction(0), number(1))
    return None


def _is_of_form(i: Index, form: Index, free: Sizes, found: dict[str, Index]) -> bool:
    """Whether an index is `form` with others in place of its free letters: of each the one that was found before."""
    if isinstance(form, str) and form in free:
        return found.setdefault(form, i) == i
    if not (isinstance(form, tuple) and isinstance(i, tuple)) or len(form) != len(i):
        return form == i
    first = first_of(form)
    return form[:first] == i[:first] and all(
        _is_of_form(k, m, free, found) for k, m in zip(i[first:], form[first:], strict=True)
    )


def _ordered(sizes: Sizes, powers: Powers, c: Fraction) -> Expression | None:
    """[i < i] = 0, [i < j] [j < i] = 0, and [r(i) < r(j)] = [j < i] for a reversal r."""
    for a in powers:
        if a[:2] == ("m", BEFORE):
            i, j = a[2]
            if i == j or ("m", BEFORE, (j, i)) in powers:
                return Expression()
            if all(isinstance(k, tuple) and k[0] == "π" and k[1].startswith(REVERSED) for k in (i, j)):
                swapped = term((), ((("m", BEFORE, (j[2], i[2])), ONE),))
                return _replaced(sizes, powers, c, a, Fraction(0), swapped)
    return None


def _divided(sizes: Sizes, powers: Powers, c: Fraction) -> Expression | None:
    """a b^p = b^(p + 1) − r b^p where b = a + r and p < 0: in a numerator a is replaced."""
    for base, p in powers.items():
        if base[0] == "^" and p < 0:
            terms = list(thawed(base[1]))
            for k in _leads(base[1], powers):
                found = _quotient(terms[k], sizes, powers, c)
                if found is None:
                    continue
                bound, left, c = found
                up = term(bound, _not_0({**left, base: p + 1}), c)
                rest = (term((*bound, *b), (*left.items(), *f), -c * q) for b, f, q in terms[:k] + terms[k + 1 :])
                return total((up, *rest))
    return None


def _not_0(powers: Powers) -> list[tuple[Atom, Fraction]]:
    return [(a, p) for a, p in powers.items() if p]


def _quotient(lead: tuple, sizes: Sizes, powers: Powers, c: Fraction) -> tuple | None:
    """What is left of a term when a term of its denominator is taken out of it; None where it does not stand in it."""
    bound, factors, k = lead
    tied = [(a, q) for a, q in factors if not letters_of(a).isdisjoint(dict(bound))]
    free = [(a, q) for a, q in factors if letters_of(a).isdisjoint(dict(bound))]
    units_count = not tied and all(is_unit(a) for a, _ in free)
    for names in itertools.permutations(sizes, len(bound)):
        if any(sizes[name] != size for name, (_, size) in zip(names, bound, strict=True)):
            continue
        new = {letter: name for (letter, _), name in zip(bound, names, strict=True)}
        want = {renamed(a, new): q for a, q in tied}
        left = {a: q for a, q in powers.items() if want.get(a) != q}
        if len(left) != len(powers) - len(want) or any(not letters_of(a).isdisjoint(names) for a in left):
            continue
        for a, q in free:
            have = left.get(a, Fraction(0))
            if (units_count or not is_unit(a)) and not (have >= q > 0 or have <= q < 0):
                break
            raised(left, a, have - q)
        else:
            return [(b, size) for b, size in sizes.items() if b not in names], left, c / k
    return None


def _leads(inside: Inside, powers: Powers) -> list[int]:
    """The terms of a denominator by which numerators are divided: one, and of two the other where that one divides."""
    k, other = leading(inside)
    if other is None:
        return [k]
    form = inside.terms[k][0][1]
    if inside.terms[other][0][1]:
        return [k, other] if any(powers.get(a, Fraction(0)) * q < 0 for a, q in form) else [k]
    below = all(powers.get(a, Fraction(0)) * q < 0 and abs(powers[a]) >= abs(q) for a, q in form)
    return [k, other] if below else [k]


@functools.lru_cache(maxsize=10_000)
def leading(inside: Inside) -> tuple[int, int | None]:
    """The place of the term by which numerators are divided, and of the other one, where two of no sum are all."""
    forms = [form for form, _ in inside.terms]
    rank = lambda k: (
        not all(is_unit(a) for a, _ in forms[k][1]),
        len(forms[k][0]),
        len(forms[k][1]),
        _blind([f for f in forms[k][1] if not is_unit(f[0])]),
        _blind(forms[k][1]),
        repr(forms[k]),
    )
    first = max(range(len(forms)), key=rank)
    if len(forms) != 2 or any(bound for bound, _ in forms):
        return first, None
    units = all(is_unit(a) for a, _ in forms[first][1])
    return first, 1 - first if units != bool(forms[1 - first][1]) else None


def _blind(factors: Any) -> str:
    """The words of factors, whatever their letters are called."""
    return " ".join(
        sorted("○" if LETTER.fullmatch(w) or INNER.fullmatch(w) else w for w in WORDS.findall(repr(factors)))
    )


# Powers


def _inverse_or_root(e: Expression, p: Fraction) -> Expression:
    """Factors that may be taken out are, and a sum is written in one way of the many that differ by a unit."""
    if not canonical(e):
        if p > 0:
            return Expression()
        raise NoRule("something is divided by 0")
    if p < 0 and alike(e):
        raise NoRule("a division by what is 0 where two places are the same")
    if not is_positive(e):
        assume("≠ 0" if p.denominator == 1 else "> 0" if p < 0 else "≥ 0", e)
    k, outside, rest = common(e, signed=p.denominator == 1)
    found = power_of_number(k, p) * term((), ((a, q * p) for a, q in outside))
    if rest == number(1):
        return found
    return found * term((), ((("^", frozen(rest)), p),))


def alike(e: Expression) -> list[tuple[Index, Index]]:
    """Each two indices of e that make it 0 where they are the same, whatever its numbers are: i and j of a_i − a_j."""
    totals: dict[str, Fraction] = {}
    for form, c in e.items():
        form_alone = repr(_without_places(form[1]))
        totals[form_alone] = totals.get(form_alone, Fraction(0)) + c
    if any(totals.values()):
        return []
    inside = frozen(e)
    own = sorted(inside.letters)
    places = {i: None for i in indices_within(inside) if isinstance(i, tuple) and letters(i) <= inside.letters}
    pairs = [*itertools.combinations(own, 2), *((i, at) for i in own for at in places if i not in letters(at))]
    return [(one, other) for one, other in pairs if _vanishes(e, one, other)]


def _without_places(factors: Any) -> list:
    """The factors of a term, wherever their entries stand."""
    inner = lambda a: [(_without_places(f), c) for (_, f), c in a[-1].terms] if a[0] in ("f", "^") else []
    word = lambda a: a[1] if a[0] != "^" and isinstance(a[1], str) else ""
    return sorted(((a[0], word(a), sorted(inner(a), key=repr), p) for a, p in factors), key=repr)


def _vanishes(e: Expression, letter: str, at: Index) -> bool:
    """Whether e is 0 with this index in place of the letter; where it is computed otherwise then, it is not."""
    with assuming(), contextlib.suppress(NoRule):
        return not canonical(substituted(e, {letter: at}))
    return False


def common(e: Expression, *, signed: bool) -> tuple[Fraction, list[tuple[Atom, Fraction]], Expression]:
    """e = k · outside · rest: a number, factors that do not depend on what is summed, and a sum.

    For roots and logarithms, that is unless `signed`, k and all factors are positive.
    """
    takes = lambda a, q: signed or is_unit(a) or (a[0] == "^" and q.denominator > 1)
    outside: dict[Atom, Fraction] = {}
    every = [{a: q for a, q in f if takes(a, q) and letters_of(a).isdisjoint(dict(b))} for b, f in e]
    for a in every[0]:
        powers = [other.get(a, Fraction(0)) for other in every]
        if all(q > 0 for q in powers) or all(q < 0 for q in powers):
            outside[a] = min(powers, key=abs)
    for a in {a: None for other in every for a, q in other.items() if signed and a[0] in ("x", "f") and q < 0}:
        if not is_unit(a) and a not in outside:  # 1 + b/a = (a + b)/a
            outside[a] = min(other.get(a, Fraction(0)) for other in every)
    e = e * Expression({((), tuple((a, -q) for a, q in outside.items())): ONE})
    ways = {tuple((a, q) for a, q in f if is_unit(a) and letters_of(a).isdisjoint(dict(b))) for b, f in e}
    forms = [(way, e * term((), ((a, -q) for a, q in way))) for way in ways]
    way, rest = min(
        forms, key=lambda form: (_blind(sorted(form[1].items(), key=repr)), repr(sorted(form[1].items(), key=repr)))
    )
    for a, q in way:
        outside[a] = outside.get(a, Fraction(0)) + q
    inside = frozen(rest)
    k = inside.terms[leading(inside)[0]][1]
    signs = [(c > 0) - (c < 0) for _, c in inside.terms]
    of_squares = [s for s, (form, _) in zip(signs, inside.terms, strict=True) if is_square(form[1])]
    sign = sum(of_squares) or sum(signs) or signs[leading(inside)[0]]
    k = -abs(k) if signed and sign < 0 else abs(k)
    return k, [(a, q) for a, q in outside.items() if q], rest.times(1 / k)


def power_of_number(k: Fraction, p: Fraction) -> Expression:
    """k^p; of primes for a p that is no whole number."""
    if p.denominator == 1:
        return number(k ** int(p))
    found = number(1)
    for n, sign in ((k.numerator, 1), (k.denominator, -1)):
        for prime in primes_of(n):
            found = found * term((), ((("n", prime), p * sign),))
    return found


def primes_of(n: int) -> Iterator[int]:
    """The prime factors of a whole number; what has none below 1000 stays as it is."""
    for small in range(2, 1000):
        while n % small == 0:
            yield small
            n //= small
    if n > 1:
        yield n


rules += [_reordered, _root_squared, _cosine_squared, _same_index, _one_of_them, _ordered, _divided]
powers_of.append(_inverse_or_root)
