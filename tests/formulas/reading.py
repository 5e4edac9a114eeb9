"""A formula that is printed as text is read again, and computed in numbers: so what is tested is what a reader sees."""

import itertools
import math
import re

import numpy as np

LETTER = r"[^\W\d_²³][\u0302\u0304]*"
NAME = rf"{LETTER}(?:[^\W²³]|[\u0304′″])*(?:_\{{[^}}]*\}})?"
TOKEN = re.compile(rf"\s*(Σ_[^\W²³](?:[′″,]|[^\W²³])*|√|\d+(?:\.\d+)?|[\[\]()]|[-+−/=<>²³^]|{NAME})")
FUNCTIONS = {
    "exp": math.exp,
    "log": math.log,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "arctan": math.atan,
}


class Reader:
    """Computes formulas: `arrays` by their letters, sizes by theirs, and what stands in the formula itself."""

    def __init__(self, text, arrays, sizes, lengths):
        self.arrays, self.sizes, self.lengths = arrays, sizes, lengths
        self.equations, self.known = {}, {}
        for line in text.splitlines():
            left, _, right = line.strip().removeprefix("where ").partition(" = ")
            name, indices = self.name_and_indices(left)
            self.equations.setdefault(name, []).append((indices, right))

    def name_and_indices(self, word):
        if word in self.arrays or word in self.sizes:
            return word, []
        name, _, indices = word.rpartition("_") if "_{" not in word else word.partition("_{")
        indices = indices.rstrip("}")
        split = indices.split(",") if "," in indices else re.findall(r".[′″]*", indices)
        return (name, split) if name else (indices, [])

    def value(self, name, places):
        """An entry, worked out once."""
        key = name, *places
        if key not in self.known:
            self.known[key] = self.entry(name, places)
        return self.known[key]

    def array(self, name, shape):
        """All entries."""
        return np.array([self.value(name, list(at)) for at in np.ndindex(*shape)]).reshape(shape)

    def entry(self, name, places):
        """An entry: of an array, or of what an equation says."""
        if name in self.equations:
            for indices, right in self.equations[name]:
                pairs = [(*i.rpartition("+")[::2], p) for i, p in zip(indices, places, strict=True)]
                known = {i: p - int(first or 0) for first, i, p in pairs if not i.isdigit()}
                if all(not i.isdigit() or int(i) == p for _, i, p in pairs) and min(known.values(), default=0) >= 0:
                    return Sentence(self, right, known).read()
        if name not in self.arrays:
            return self.sizes[name]
        *front, last = places or [None]
        row = self.arrays[name][tuple(front)]
        return row.max() if last == "ℓ" else row if last is None else row[last]


class Sentence:
    """One right side, read once for given places of its letters."""

    def __init__(self, reader, text, scope):
        self.reader, self.scope = reader, scope
        self.words = TOKEN.findall(text)
        assert "".join(self.words) == re.sub(r"\s", "", text), text
        self.at = 0

    def read(self):
        found = self.sum()
        assert self.at == len(self.words), self.words[self.at :]
        return found

    def next(self, *expected):
        word = self.words[self.at] if self.at < len(self.words) else ""
        if expected and word not in expected:
            return ""
        self.at += bool(word)
        return word

    def peek(self):
        return self.words[self.at] if self.at < len(self.words) else ""

    def sum(self):
        total = -self.product() if self.next("−", "-") else self.product()
        while sign := self.next("+", "−", "-"):
            total += self.product() if sign == "+" else -self.product()
        return total

    def product(self):
        """Factors; a Σ takes all that follows of the product."""
        found, divide = 1.0, False
        while self.peek() and self.peek() not in ("+", "−", "-", ")", "]", ">", "<", "="):
            if self.next("/"):
                divide = True
                continue
            factor = self.summed() if self.peek().startswith("Σ") else self.power()
            found = found / factor if divide else found * factor
            divide = False
        return found

    def summed(self):
        letters = self.next()[2:].split(",")
        start, total, end = self.at, 0.0, self.at
        for places in itertools.product(*(range(self.length(letter, start)) for letter in letters)):
            outer = self.scope
            self.scope, self.at = {**outer, **dict(zip(letters, places, strict=True))}, start
            total += self.product()
            self.scope, end = outer, self.at
        self.at = end
        return total

    def length(self, letter, start):
        """The length of the axis along which a letter stands, from an array in which it does."""
        for word in self.words[start:]:
            name, indices = self.reader.name_and_indices(word)
            if letter in indices and name in self.reader.lengths:
                return self.reader.lengths[name][indices.index(letter)]
        raise AssertionError(f"no axis of {letter}")

    def power(self):
        if self.next("√"):
            return math.sqrt(self.power())
        found = self.atom()
        sign = self.next("²", "³", "^")
        exponent = {"²": 2, "³": 3}.get(sign, 1) if sign != "^" else self.atom()
        return found**exponent

    def atom(self):
        if self.next("("):
            found = self.sum()
            assert self.next(")")
            return found
        if self.next("["):
            left = self.sum()
            sign, right = self.next(), self.sum()
            assert self.next("]")
            return float({">": left > right, "<": left < right, "=": left == right}[sign])
        word = self.next()
        if re.fullmatch(r"[\d.]+", word):
            return float(word)
        if word in FUNCTIONS:
            return FUNCTIONS[word](self.atom())
        if word == "π":
            return math.pi
        name, indices = self.reader.name_and_indices(word)
        return self.reader.value(
            name, [self.scope[i] if i in self.scope else i if i == "ℓ" else int(i) for i in indices]
        )


def computed(formula, arrays, sizes):
    """The results of a formula, by name, from arrays by their names in the code."""
    reader = reader_of(formula.text, formula.letters, formula.shapes, arrays, sizes)
    names = [formula.letters.get(name, name) for name, _ in formula.results]
    return [reader.array(name, reader.lengths[name]) for name in names]


def reader_of(text, letters, shapes, arrays, sizes):
    """A reader of equations in which names have these letters and shapes, with arrays by their names in the code."""
    number = lambda n: n if isinstance(n, int) else sizes(n)
    letter = lambda name: letters.get(name, name)
    long = lambda shape: [number(n) for n in shape if not (isinstance(n, int) and n == 1)]  # axes of 1 have no index
    lengths = {letter(name): long(shape) for name, shape in shapes.items()}
    known = {name: x for name, x in arrays.items() if x is not None and name in shapes}
    given = {letter(name): np.reshape(x, long(shapes[name])) for name, x in known.items()}
    of_axes = {str(n): sizes(n) for shape in shapes.values() for n in shape if not isinstance(n, int)}
    return Reader(text, given, of_axes, lengths)
