"""What an indexed expression is worth where letters are numbers: by loops over all that is summed."""

import itertools
import math

import numpy as np

from refnp.numbers.indexed.indices import REVERSED, meaning
from refnp.numbers.indexed.rules import BEFORE


class Values:
    """Numbers for sizes and arrays by name, and orders for bijections."""

    def __init__(self, sizes, arrays, orders=None):
        self.sizes, self.arrays, self.orders = sizes, arrays, orders or {}

    def of(self, e, letters=None):
        """The value of an expression, or of what stands inside of an atom."""
        letters = letters or {}
        total = 0.0
        for (bound, factors), c in e.items() if isinstance(e, dict) else e.terms:
            for places in itertools.product(*(range(self.sizes[size]) for _, size in bound)):
                at = letters | {letter: k for (letter, _), k in zip(bound, places, strict=True)}
                total += float(c) * math.prod(self.atom(a, at) ** self.exponent(p) for a, p in factors)
        return total

    @staticmethod
    def exponent(p):
        return int(p) if p.denominator == 1 else float(p)

    def atom(self, a, letters):
        kind, name = a[0], a[1]
        if name == BEFORE:
            return float(self.index(a[2][0], letters) < self.index(a[2][1], letters))
        if kind == "x" and name in meaning:  # the whole number below
            return float(np.floor(self.of(meaning[name], self.template(a[2], letters))))
        if kind == "x" or (kind == "m" and name not in meaning):
            return float(self.arrays[name][tuple(self.index(i, letters) for i in a[2])])
        if kind == "m":
            return float(self.of(meaning[name], self.template(a[2], letters)) > 0)
        if kind == "δ":
            return float(self.index(a[1], letters) == self.index(a[2], letters))
        if kind == "#":
            return float(self.sizes[name])
        if kind == "n":
            return float(name)
        if kind == "c":
            return math.pi
        functions = {
            "exp": math.exp,
            "log": math.log,
            "sin": math.sin,
            "cos": math.cos,
            "erf": math.erf,
            "arctan": math.atan,
        }
        inside = self.of(a[-1], letters)
        return functions[name](inside) if kind == "f" else inside

    def template(self, indices, letters):
        return {f"t{k}": self.index(i, letters) for k, i in enumerate(indices, start=1)}

    def index(self, i, letters):
        if isinstance(i, int):
            return i
        if isinstance(i, str):
            return letters[i]
        if i[0] in ("π", "π⁻"):
            k = self.index(i[2], letters)
            if i[1].startswith(REVERSED):
                return self.sizes[i[1].removeprefix(REVERSED)] - 1 - k
            order = self.orders[i[1]]
            return order[k] if i[0] == "π" else order.index(k)
        if i[0] == "at" and i[1] in meaning:
            known, size = self.template(i[2:], letters), self.sizes[i[1].split()[1]]
            return int(np.argmax([self.of(meaning[i[1]], known | {"t0": k}) for k in range(size)]))
        raise AssertionError(i)

    def array(self, x):
        """An array of sizes as an array of numbers."""
        shape = [self.sizes[n.name] if not isinstance(n, int) else n for n in x.shape]
        names = [f"i{k}" for k in range(x.ndim)]
        e = x.at([0 if isinstance(n, int) and n == 1 else name for n, name in zip(x.shape, names, strict=True)])
        found = np.empty(shape)
        for place in np.ndindex(*shape):
            found[place] = self.of(e, dict(zip(names, place, strict=True)))
        return found
