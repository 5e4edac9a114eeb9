"""Expressions as a reader writes them: p_bi = exp(x_bi) / Σ_j exp(x_bj), as a line of text or as LaTeX.

An expression is a sum of products of powers. What all its products share is written once in front of a bracket, what
has a negative power below a fraction's line, a sum behind what does not depend on its letter. The letters of axes and
arrays are those of docs/conventions.md.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from refnp.numbers.indexed.expressions import Expression, opened, term, total
from refnp.numbers.indexed.indices import meaning
from refnp.numbers.indexed.rules import BEFORE
from refnp.numbers.indexed.sizes import pieces
from refnp.numbers.indexed.terms import Atom, Index, first_of, letters_of, thawed

LETTERS = {  # of arguments and lines of pages, by their names; docs/conventions.md has the same table
    "query": "Q",
    "key": "K",
    "value": "V",
    "scores": "S",
    "capped": "S",
    "weights": "A",
    "output": "O",
    "gain": "γ",
    "shift": "β",
    "eps": "ε",
    "mean": "μ",
    "std": "σ",
    "scale": "s",
    "length_scale": "ℓ",
    "weight": "W",
    "unit": "x̂",
    "centred": "c",
    "difference": "d",
    "logits": "z",
}
OF_AXES = {"B": "b", "N": "n", "M": "m", "H": "h", "C": "c", "L": "l", "S": "s", "K": "k"}
OTHERS = "ijkuvwpqr"
GREEK_NAMES = """α alpha β beta γ gamma δ delta ε epsilon ζ zeta η eta θ theta κ kappa λ lambda μ mu ν nu ξ xi π pi
    ρ rho σ sigma τ tau φ varphi χ chi ψ psi ω omega Γ Gamma Δ Delta Θ Theta Λ Lambda Σ Sigma Φ Phi Ψ Psi ℓ ell"""
GREEK = dict(zip(GREEK_NAMES.split()[::2], GREEK_NAMES.split()[1::2], strict=True))
MARKS = {"\u0302": "hat", "\u0304": "bar", "\u0303": "tilde"}
KNOWN = ("exp", "log", "tanh", "sin", "cos", "arctan")


class Written(NamedTuple):
    """A piece of a formula, and how tightly it holds together: a sum 0, a product 1, a power 2, a name 3."""

    text: str
    hold: int


class Text:
    """A line of Unicode."""

    times, minus = " ", "−"

    def name(self, name: str, indices: Sequence[str]) -> str:
        joined = joined_indices(indices)
        plain = joined.replace("′", "").replace("″", "").isalnum()
        return name if not indices else f"{name}_{joined}" if plain else f"{name}_{{{joined}}}"

    def fraction(self, above: Written, below: Written) -> Written:
        if below.hold == 0 and is_one_sum(below.text):
            return Written(f"{self.held(above, 1)} / {below.text}", 0)
        texts = self.held(above, 1), self.held(below, 2)
        return Written((" / " if any(" " in text for text in texts) else "/").join(texts), 1)

    def in_front(self, fraction: Written) -> Written:
        """A fraction that stands in front of a sum."""
        return Written(f"({fraction.text})", 3)

    def root(self, inside: Written) -> Written:
        return Written(f"√{self.held(inside, 3)}", 2)

    def power(self, base: Written, p: str) -> Written:
        return Written(f"{self.held(base, 3)}{p if p in '²³' else f'^{p}' if p.isalnum() else f'^({p})'}", 2)

    def sum(self, letters: Sequence[str], inside: Written) -> Written:
        return Written(f"Σ_{','.join(letters)} {self.held(inside, 1)}", 0)

    def function(self, name: str, inside: Written) -> Written:
        return Written(f"{name}({inside.text})", 3)

    def number(self, above: int, below: int) -> Written:
        return Written(f"{above}/{below}" if below != 1 else str(above), 2 if below != 1 else 3)

    def size(self, name: str) -> str:
        return name

    def word(self, text: str) -> str:
        return text

    def held(self, piece: Written, least: int) -> str:
        """In brackets where it does not hold together tightly enough."""
        return piece.text if piece.hold >= least else f"({piece.text})"

    def condition(self, text: str) -> str:
        return f"[{text}]"

    def only_where(self, text: str) -> str:
        return f" where {text} = 1, else −∞"


class Latex(Text):
    """LaTeX."""

    times, minus = r"\,", "-"

    def name(self, name: str, indices: Sequence[str]) -> str:
        joined = joined_indices(indices)
        joined = "".join(f"\\{GREEK[c]} " if c in GREEK else c for c in joined)
        return latex_of(name) + (
            f"_{{{joined.replace('″', chr(39) * 2).replace('′', chr(39)).strip()}}}" if indices else ""
        )

    def fraction(self, above: Written, below: Written) -> Written:
        return Written(rf"\frac{{{above.text}}}{{{below.text}}}", 2)

    def in_front(self, fraction: Written) -> Written:
        return fraction

    def root(self, inside: Written) -> Written:
        return Written(rf"\sqrt{{{inside.text}}}", 3)

    def power(self, base: Written, p: str) -> Written:
        return Written(f"{self.held(base, 3)}^{{{p.translate(str.maketrans('²³', '23'))}}}", 2)

    def sum(self, letters: Sequence[str], inside: Written) -> Written:
        below = ",".join(letters).replace("″", "''").replace("′", "'")
        return Written(rf"\sum_{{{below}}} {self.held(inside, 1)}", 0)

    def function(self, name: str, inside: Written) -> Written:
        word = rf"\{name}" if name in KNOWN else rf"\operatorname{{{name}}}"
        return Written(rf"{word}\left({inside.text}\right)", 3)

    def number(self, above: int, below: int) -> Written:
        return Written(rf"\tfrac{{{above}}}{{{below}}}" if below != 1 else str(above), 3)

    def size(self, name: str) -> str:
        return latex_of(name)

    def word(self, text: str) -> str:
        return rf"\text{{{text}}}"

    def held(self, piece: Written, least: int) -> str:
        return piece.text if piece.hold >= least else rf"\left({piece.text}\right)"

    def condition(self, text: str) -> str:
        return rf"\left[{text}\right]"

    def only_where(self, text: str) -> str:
        return rf" \quad\text{{where }} {text} = 1, \text{{ else }} -\infty"


def aligned(equations: Sequence[tuple[str, str]]) -> str:
    """Equations of LaTeX in lines, aligned at their signs of equality."""
    rows = " \\\\\n".join(f"{left} &= {right}" for left, right in equations)
    return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


def joined_indices(indices: Sequence[str]) -> str:
    """Indices side by side, with commas between them if one is more than a letter."""
    return ("" if all(len(i) == 1 or i[1:] in ("′", "″") for i in indices) else ",").join(indices)


def latex_of(name: str) -> str:
    """A name: a letter with its mark, or a word."""
    primes = "'" * name.count("′")
    plain = unicodedata.normalize("NFD", name.replace("′", ""))
    base, marks = plain[:1], plain[1:]
    known = [MARKS[mark] for mark in marks if mark in MARKS]
    if len(marks) == len(known):
        found = f"\\{GREEK[base]}" if base in GREEK else base
        for mark in known:
            found = rf"\{mark}{{{found}}}"
    else:
        bar = plain.endswith("\u0304")
        front, _, below = plain.rstrip("\u0304").partition("_")
        if len(front) == 1 and below:
            found = rf"{front}_{{\mathrm{{{below}}}}}"
        else:
            found = rf"\mathrm{{{plain.rstrip(chr(0x304)).replace('_', chr(92) + '_')}}}"
        found = rf"\overline{{{found}}}" if bar else found
    return found + primes


class Writer:
    """Writes expressions: the letters that arrays have by their names, their shapes, and a style."""

    def __init__(self, style: Text, letters: Mapping[str, str], shapes: Mapping[str, Sequence[Any]]):
        self.style, self.letters, self.shapes = style, letters, shapes

    def place(self, a: Atom) -> tuple:
        """In which order factors stand: numbers, entries with few indices and those of lines first, functions, sums."""
        rank = {"n": 0, "#": 0, "c": 0, "x": 1, "f": 2, "^": 3, "δ": 4, "m": 4}[a[0]]
        known = list(self.shapes)
        entry = (len(a[2]), known.index(a[1]) if a[1] in known else -1) if a[0] == "x" else ()
        return rank, entry, repr(a)

    def array(self, name: str, indices: Sequence[Index], scope: Mapping[str, str]) -> str:
        """An entry of an array; indices of axes of 1 are not written."""
        shape = self.shapes.get(name, [None] * len(indices))
        shown = [
            self.index(i, size, scope) for i, size in zip(indices, shape, strict=True) if not (i == 0 and size == 1)
        ]
        return self.style.name(self.letters.get(name, name), shown)

    def index(self, i: Index, size: Any, scope: Mapping[str, str]) -> str:
        """A letter, a number, or what stands for one."""
        if not isinstance(i, tuple):
            return scope.get(str(i), str(i))
        if i[0] == "at" and i[1].startswith("argmax"):
            return "ℓ"
        inner = [self.index(k, None, scope) for k in i[first_of(i) :]]
        if i[0] == "pair":
            return "".join(inner)
        if i[0] == "part":
            before = [] if size is None else list(map(str, pieces(size)[: i[1]]))
            return "+".join([*before, *(k for k in inner if k != "0" or not before)])
        name = i[0] if i[0] in ("π", "π⁻") else place_name(i[1])
        return self.style.name(name, inner) if i[0] == "at" else f"{name}({','.join(inner)})"

    def expression(self, e: Expression, scope: Mapping[str, str]) -> Written:
        """A sum of products."""
        if not e:
            return Written("0", 3)
        terms = sorted(e.items(), key=place_in_sum)
        shared = common_factors(e) if len(terms) > 1 else {}
        if shared:
            rest = e * term((), ((a, -p) for a, p in shared.items()))
            inside = self.expression(rest, scope)
            if len(rest) > 1:
                return self.product(shared, Fraction(1), [inside], scope)
        parts = [(c < 0, self.term(bound, dict(factors), abs(c), scope)) for (bound, factors), c in terms]
        text = "".join(f" {self.style.minus if negative else '+'} {one.text}" for negative, one in parts)
        negative, first = parts[0]
        text = self.style.minus + text[3:] if negative else text[3:]
        return Written(text, first.hold if len(parts) == 1 and not negative else 0)

    def term(self, bound: Sequence, factors: dict[Atom, Fraction], c: Fraction, scope: Mapping[str, str]) -> Written:
        """A product, of which what does not depend on the letters of a sum stands in front of it."""
        if not bound:
            return self.product(factors, c, [], scope)
        inner = with_letters(scope, sorted(bound, key=str))
        tied = {a: p for a, p in factors.items() if not letters_of(a).isdisjoint(dict(bound))}
        free = {a: p for a, p in factors.items() if a not in tied}
        summed = self.style.sum([inner[letter] for letter, _ in bound], self.product(tied, Fraction(1), [], inner))
        return self.product(free, c, [summed], scope)

    def product(
        self, factors: Mapping[Atom, Fraction], c: Fraction, last: Sequence[Written], scope: Mapping[str, str]
    ) -> Written:
        """Factors above and below a line, a number in front of them, and what stands behind them."""
        exponents = total(opened(a[2]).times(p) for a, p in factors.items() if is_exp(a))
        ordered = sorted(((a, p) for a, p in factors.items() if not is_exp(a)), key=lambda item: self.place(item[0]))
        above = [self.power(a, p, scope) for a, p in ordered if p > 0]
        if exponents:
            above.append(self.style.function("exp", self.expression(exponents, scope)))
        above += last
        below = [self.power(a, -p, scope) for a, p in ordered if p < 0]
        if c.numerator != 1 or (not above and c.denominator == 1):
            above.insert(0, self.style.number(c.numerator, 1))
        if c.denominator != 1:
            below.insert(0, self.style.number(c.denominator, 1))
        if below and last and last[-1].hold == 0 and all(a[0] in ("#", "n") for a, p in ordered if p < 0):
            front = self.style.fraction(Written("1", 3), self.beside(below))
            return self.beside([self.style.in_front(front), *above])
        if not below:
            return self.beside(above)
        return self.style.fraction(self.beside(above) if above else Written("1", 3), self.beside(below))

    def beside(self, pieces: list[Written]) -> Written:
        """A product of pieces; a sum stands behind all others without brackets if it begins with Σ."""
        if len(pieces) == 1:
            return pieces[0]
        texts = [self.style.held(piece, 1) for piece in pieces]
        ends = pieces[-1]
        if ends.hold == 0 and is_one_sum(ends.text):
            texts[-1] = ends.text
            return Written(self.style.times.join(texts), 0)
        return Written(self.style.times.join(texts), 1)

    def power(self, a: Atom, p: Fraction, scope: Mapping[str, str]) -> Written:
        """An atom to a positive power."""
        base = self.atom(a, scope)
        if p == 1:
            return base
        whole = p.numerator
        if p.denominator == 2:
            root = self.style.root(base)
            return root if whole == 1 else self.style.power(root, exponent(whole))
        return self.style.power(base, exponent(p))

    def atom(self, a: Atom, scope: Mapping[str, str]) -> Written:
        """An entry, a size, a function, a bracket or a condition."""
        kind = a[0]
        if kind == "x":
            return Written(self.array(a[1], a[2], scope), 3)
        if kind == "m":
            return Written(self.condition(a, scope), 3)
        if kind == "δ":
            i, j = sorted((self.index(k, None, scope) for k in a[1:]), key=lambda shown: (len(shown), shown))
            return Written(self.style.condition(f"{i} = {j}"), 3)
        if kind in ("f", "^"):
            inside = self.expression(opened(a[-1]), scope)
            return inside if kind == "^" else self.style.function(a[1], inside)
        return Written(self.style.size(str(a[1])), 3)

    def condition(self, a: Atom, scope: Mapping[str, str]) -> str:
        """A mask, or what is asked: 1 where it holds, 0 elsewhere."""
        name, at = a[1], a[2]
        if name == BEFORE:
            return self.style.condition(" < ".join(self.index(i, None, scope) for i in at))
        if name.endswith(" is one"):
            place = self.style.name(place_name(name), [self.index(i, None, scope) for i in at])
            return self.style.condition(f"{place} {self.style.word('is a place')}")
        if name not in meaning:
            return self.array(name, at, scope)
        own = {f"t{k}": self.index(i, None, scope) for k, i in enumerate(at, start=1)}
        inside = self.expression(Expression({(b, f): c for b, f, c in thawed(meaning[name])}), {**scope, **own})
        return self.style.condition(f"{inside.text} {'>' if name.startswith('above 0') else '='} 0")


def exponent(p: Fraction | int) -> str:
    """A power as it is written."""
    return "²" if p == 2 else "³" if p == 3 else str(p)


def is_one_sum(text: str) -> bool:
    """Whether a text that holds loosely is one Σ: then it needs no brackets behind a product."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 and c in "+−-" and text[k - 1 : k] == " ":
            return False
    return text.startswith(("Σ", r"\sum"))


def place_name(name: str) -> str:
    """What integers are called: those of windows p, those of an argument as it is."""
    return "p" if name.removeprefix("filled ").startswith(("place(", "run(")) else name.rpartition(" ")[0] or name


def is_exp(a: Atom) -> bool:
    """Whether an atom is exp of something: all those of a product are written as one."""
    return a[:2] == ("f", "exp")


def place_in_sum(item: tuple) -> tuple:
    """In which order the terms of a sum stand: numbers, long ones, short ones, constants; then what is taken off."""
    (bound, factors), c = item
    indexed = any(letters_of(a) for a, _ in factors)
    return c < 0, bool(factors), not indexed, -len(bound), -len(factors), repr(item)


def common_factors(e: Expression) -> dict[Atom, Fraction]:
    """What all products share, outside of their sums."""
    every = [{a: p for a, p in f if letters_of(a).isdisjoint(dict(b))} for b, f in e]
    found = {}
    for a in every[0]:
        powers = [one.get(a, Fraction(0)) for one in every]
        if all(p > 0 for p in powers) or all(p < 0 for p in powers):
            found[a] = min(powers, key=abs)
    return found


def with_letters(scope: Mapping[str, str], indices: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The scope with letters for further indices of axes of these sizes, other than those that are taken."""
    found = dict(scope)
    for index, size in indices:
        found[index] = next(one for one in letters_for(size) if one not in found.values())
    return found


def letters_for(size: str) -> Iterator[str]:
    """Letters of an index of an axis of this size, the best one first."""
    own = OF_AXES.get(size)
    if own:
        yield from (own, f"{own}′", f"{own}″")
    yield from OTHERS
    yield from (f"{letter}{k}" for k in range(1, 100) for letter in OTHERS)
