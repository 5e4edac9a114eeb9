"""Functions of indexed expressions, and derivatives."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from refnp.numbers.indexed.expressions import (
    ONE,
    Expression,
    assume,
    atom,
    function,
    functions,
    is_count,
    is_positive,
    is_unit,
    is_whole,
    number,
    opened,
    power,
    substituted,
    term,
    total,
)
from refnp.numbers.indexed.indices import abstracted, index, inverse_of, moved, ways
from refnp.numbers.indexed.rules import BEFORE, alike, common, primes_of
from refnp.numbers.indexed.terms import Atom, Index, NoRule, canonical, frozen, letters_of

ARGMAX = "argmax "  # of the names of such places


def exp(e: Expression) -> Expression:
    """exp(Σ c_k t_k) = Π exp(t_k)^c_k, and exp(c log a) = a^c."""
    found = number(1)
    for (b, f), c in e.items():
        if not b and len(f) == 1 and f[0][0][:2] == ("f", "log") and f[0][1] == 1:
            found = found * power(opened(f[0][0][2]), c)
        else:
            found = found * term((), ((("f", "exp", frozen({(b, f): ONE})), c),))
    return found


def log(e: Expression) -> Expression:
    """log(k Π a^p r) = log k + Σ p log a + log r for positive a, with log exp t = t."""
    if not e:
        raise NoRule("log 0")
    if not is_positive(e):
        assume("> 0", e)
    k, outside, rest = common(e, signed=False)
    found = Expression()
    for n, sign in ((k.numerator, 1), (k.denominator, -1)):
        for prime in primes_of(n):
            found = found + atom("f", "log", frozen(number(prime))).times(sign)
    for a, p in outside:
        if a[:2] == ("f", "exp"):
            found = found + opened(a[2]).times(p)
        elif a[0] == "n":
            found = found + atom("f", "log", frozen(number(a[1]))).times(p)
        else:
            found = found + atom("f", "log", frozen(opened(a[1]) if a[0] == "^" else atom(*a))).times(p)
    if rest == number(1):
        return found
    ((b, f), c), *others = rest.items()
    if not others and not b and c == 1 and len(f) == 1 and f[0][1] % 2 == 1:  # log aᵖ = p log a for odd p, as a > 0
        a, p = f[0]
        return found + atom("f", "log", frozen(opened(a[1]) if a[0] == "^" else atom(*a))).times(p)
    return found + atom("f", "log", frozen(rest))


def tanh(e: Expression) -> Expression:
    """tanh a = 1 − 2/(1 + exp 2a)."""
    return number(1) - power(number(1) + function("exp", e.times(2)), -1).times(2)


def sin(e: Expression) -> Expression:
    """sin(a + b) = sin a cos b + cos a sin b, sin(−a) = −sin a."""
    return _turned(e)[0]


def cos(e: Expression) -> Expression:
    """cos(a + b) = cos a cos b − sin a sin b, cos(−a) = cos a."""
    return _turned(e)[1]


def _turned(e: Expression) -> tuple[Expression, Expression]:
    s, c = Expression(), number(1)
    for t, k in e.items():
        angle = frozen({t: abs(k)})
        s2, c2 = atom("f", "sin", angle).times(1 if k > 0 else -1), atom("f", "cos", angle)
        s, c = s * c2 + c * s2, c * c2 - s * s2
    return s, c


def odd(name: str) -> Callable[[Expression], Expression]:
    """f(−a) = −f(a), f(0) = 0."""

    def of(e: Expression) -> Expression:
        if not e:
            return e
        sign = _sign(e)
        return atom("f", name, frozen(e.times(sign))).times(sign)

    return of


def _sign(e: Expression) -> int:
    """That of the term that is written first; −e has the other."""
    return 1 if frozen(e).terms[0][1] > 0 else -1


def is_above_0(e: Expression) -> Expression:
    """[a > 0], 1 or 0; [−a > 0] = 1 − [a > 0] − [a = 0], and [c a > 0] = [a > 0] for c > 0."""
    if set(e) <= {((), ())}:
        return number(int(e.get(((), ()), 0) > 0))
    if is_positive(e):
        return number(1)
    if is_positive(e.times(-1)):
        return Expression()
    if is_whole(e):
        return _is_above_whole(e)
    zero = Expression() if is_count(e) else is_0(e)
    _, _, rest = common(e, signed=False)
    if _sign(rest) < 0:
        return number(1) - zero - is_above_0(e.times(-1))
    name, indices = abstracted("above 0", rest)
    return atom("m", name, tuple(indices))


def _is_above_whole(e: Expression) -> Expression:
    """[a > 0] of whole numbers, of which nothing else is known; of places on one axis [j < i] is an order."""
    pair = _two_entries(e)
    if pair is not None:
        _, (i,), (j,) = pair
        return term((), ((("m", BEFORE, (j, i)), ONE),))
    name, indices = abstracted("above 0", e)
    return atom("m", name, tuple(indices))


def _two_entries(e: Expression) -> tuple[str, tuple, tuple] | None:
    """a, i and j of a_i − a_j, entries of one array; None of all else."""
    if sorted(e.values()) != [-1, 1] or any(b or len(f) != 1 or f[0][0][0] != "x" or f[0][1] != 1 for b, f in e):
        return None
    (one, other) = (next(f[0][0] for (_, f), c in e.items() if c == sign) for sign in (1, -1))
    return (one[1], one[2], other[2]) if one[1] == other[1] else None


def largest_at(axis: Index, sizes: Sequence[tuple[str, str]], e: Expression) -> Index:
    """Where e is largest along an axis with these letters: an integer that depends on the other indices in e.

    Of a_π(j) it is π⁻ of where a_j is largest, of c a_j with c > 0 where a_j is. Along an axis that is a product it is
    a pair, of which one index is 0 if e is the same at all of them. Of several that are equally large it is any one:
    they all have that value.
    """
    if idle := {letter: 0 for letter, _ in sizes if all(letter not in letters_of(a) for _, f in e for a, _ in f)}:
        left = [pair for pair in sizes if pair[0] not in idle]
        return index(axis, idle) if not left else largest_at(index(axis, idle), left, e)
    own = [letter for letter, _ in sizes]
    e = without_scale(e, own)
    under = set().union(*(ways(own[0], a) for _, f in e for a, _ in f))
    if len(own) == 1 and len(under) == 1 and None not in under:
        back = inverse_of(*under.pop())
        return moved(*back, largest_at(axis, sizes, substituted(e, {own[0]: (*back, own[0])})))
    name, leaves = abstracted(ARGMAX + "·".join(size for _, size in sizes), e, own)
    found = {letter: ("at", f"{name} {k}" if len(own) > 1 else name, *leaves) for k, letter in enumerate(own)}
    return index(axis, found)


def without_scale(e: Expression, own: Sequence[str] = ()) -> Expression:
    """The expression without positive factors of all its terms that do not depend on these letters."""
    every = [{(a, p) for a, p in f if is_unit(a) and letters_of(a).isdisjoint((*own, *dict(b)))} for b, f in e]
    scale = set.intersection(*every) if every else set()
    return e * term((), ((a, -p) for a, p in scale))


def is_0(e: Expression) -> Expression:
    """[a = 0], which is taken not to be so where nothing is known of a; [a_i = a_j] is δ_ij where no two are equal.

    So is that of any a that is 0 where two of its indices are the same.
    """
    if not e:
        return number(1)
    pair = _two_entries(e)
    if pair is not None:
        name, one, other = pair
        if not is_whole(e):
            assume("no two alike", f"no two entries of {name} are equal")
        return term((), ((("δ", i, j), ONE) for i, j in zip(one, other, strict=True)))
    if is_whole(e) and set(e) != {((), ())}:
        name, indices = abstracted("is 0", e.times(_sign(e)))
        return atom("m", name, tuple(indices))
    if set(e) == {((), ())} or is_positive(e) or is_positive(e.times(-1)):
        return Expression()
    if pairs := alike(e):
        if len(pairs) > 1:
            raise NoRule("what is 0 where one or another two places are the same")
        assume("≠ 0 but where it is of any numbers", e)
        return term((), ((("δ", *pairs[0]), ONE),))
    assume("≠ 0", e)
    return Expression()


functions |= {"exp": exp, "log": log, "tanh": tanh, "sin": sin, "cos": cos, "erf": odd("erf"), "arctan": odd("arctan")}
functions |= {">0": is_above_0, "=0": is_0}

SLOPES: dict[str, Callable[[Expression], Expression]] = {
    "exp": lambda e: function("exp", e),
    "log": lambda e: power(e, -1),
    "sin": lambda e: function("cos", e),
    "cos": lambda e: function("sin", e).times(-1),
    "arctan": lambda e: power(number(1) + e * e, -1),
    "erf": lambda e: (function("exp", (e * e).times(-1)) * power(atom("c", "π"), Fraction(-1, 2))).times(2),
}


def unknown_function(name: str) -> tuple[str, str]:
    """The names of a function of which nothing is known, and of its derivative, which has none."""
    slope = f"{name}′"
    functions[name], functions[slope] = (lambda e, n=n: atom("f", n, frozen(e)) for n in (name, slope))
    SLOPES[name] = lambda e: function(slope, e)
    SLOPES[slope] = _refused
    return name, slope


def _refused(e: Expression) -> Expression:
    raise NoRule("the second derivative of a function of which nothing is known")


def derivative(e: Expression, name: str, at: Sequence[Index]) -> Expression:
    """∂e/∂(the entry of the array of this name at these indices), term by term."""
    parts = []
    for (b, f), c in e.items():
        for k, (a, p) in enumerate(f):
            slope = _slope(a, name, at)
            if slope:
                left = (*f[:k], *f[k + 1 :], *(((a, p - 1),) if p != 1 else ()))
                parts.append((term((), left, c * p) * slope).summed(b))
    return total(parts)


def _slope(a: Atom, name: str, at: Sequence[Index]) -> Expression:
    """The derivative of an atom."""
    if a[:2] == ("x", name):
        if ARGMAX in repr(a[2]):
            assume("one largest", "each row has one largest element")
        return term((), ((("δ", i, k), ONE) for i, k in zip(a[2], at, strict=True)))
    if a[0] == "^":
        return derivative(opened(a[1]), name, at)
    if a[0] == "f" and a[1] in SLOPES:
        inner = derivative(opened(a[2]), name, at)
        return SLOPES[a[1]](opened(a[2])) * inner if inner else inner
    return Expression()


def is_zero(e: Expression) -> bool:
    """Whether the rules make 0 of it."""
    return not canonical(e)
