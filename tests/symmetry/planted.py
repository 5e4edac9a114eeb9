"""Functions that have their symmetry at nearly every input, and lack it where inputs have some structure.

Each is a true claim but for one condition, at which random inputs never arrive, or hardly ever. `sizes` is what the
smallest counter-example has.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry import Claim, Negate, Permute, Roll, Scale, Translate, equivariant, invariant
from tests.symmetry import functions as f

SIZES = {"n": range(9)}
SET, LINE = Permute("x", 0), Translate("i", axis=None, step=1)


@dataclass(frozen=True)
class Plant:
    """A claim, how inputs are drawn, the sizes that are allowed and those of the smallest counter-example."""

    claim: Claim
    draw: Any
    least: dict[str, int]
    sizes: Any = None


def where(condition):
    """The sum over rows, to which the first row is added where the condition holds."""
    return lambda x: np.sin(x).sum(0) + (x[0] if len(x) and condition(x) else 0)


def rows(rng, n):
    return f.rows(rng, n, 2)


def permuted(condition, least, draw=rows, sizes=None):
    return Plant(invariant(where(condition), SET), draw, {"n": least}, sizes)


def negated(condition, least):
    """An even function, but for where the condition holds."""
    odd = lambda x: np.cos(x).sum() + (x.sum() if condition(x) else 0)
    return Plant(invariant(odd, Negate("x")), f.vector, {"n": least})


def repeats(a):
    return len(np.unique(a, axis=0)) < len(a)


def alike(a):
    return len(a) > 1 and bool(np.all(a == a[0]))


def apart(x):
    """Rows of very different lengths; random ones differ less."""
    lengths = np.abs(x).max(1)
    return lengths.max() > 700 * lengths.min() > 0


def crossed(rng, n, m):
    return {"x": rng.normal(size=(n, 2)), "target": rng.normal(size=(m, 2))}


def pairs(rng, n):
    return {"x": rng.normal(size=(n, 1)), "y": rng.normal(size=(n, 2))}


def gram(rng, n):
    a = rng.normal(size=(n, 3))
    return {"x": a @ a.T}


def masked(rng, n):
    return {"x": rng.normal(size=(n, 2)), "mask": rng.random((n, n)) < 0.6}


def ids(rng, n):
    return {"i": rng.integers(0, 10**6, n)}


def with_targets(condition):
    """Depends on the set through its sum, and where the condition holds on its first row."""
    return lambda x, target: np.sin(x).sum(0) + target.sum(0) + (x[0] if len(x) and condition(x, target) else 0)


def with_mask(condition):
    return lambda x, mask: np.sin(x).sum(0) + (x[0] if len(x) > 4 and condition(mask) else 0)


def at_one_place(x, y):
    """Two observations at one place that differ."""
    first = y[0] if len(y) and repeats(x) and not repeats(y) else 0
    return (np.sin(x) * y).sum(0) + first


def normalised(x):
    """x / |x|, with a wrong answer for the first row if it is 0."""
    length = np.sqrt((x * x).sum(-1, keepdims=True))
    return np.where(
        length > 0, x / np.where(length > 0, length, 1), np.where(np.arange(len(x)) == 0, np.nan, 0)[:, None]
    )


def fussy(x):
    if len(x) > 1 and x[0, 0] == x[1, 0]:
        raise ZeroDivisionError("two equal numbers in the beginning")
    return np.sin(x).sum(0)


def on_a_ring(x):
    return np.where((x == 0) & (np.arange(x.shape[-1]) == 0), 1, np.roll(x, 1, -1) + np.sin(x))


def largest_first(x):
    """Which is the largest, and of two that are equally large the first."""
    return np.where(np.arange(len(x)) == np.argmax(x), x, 0)


def squared(x):
    """Homogeneous of degree 2, but for vectors of ones."""
    return (x * x).sum() + (1 if len(x) and np.all(x == 1) else 0)


PLANTS = {
    "repeated rows": permuted(repeats, 3),
    "exact zeros": permuted(lambda x: np.any(x == 0), 2),
    "a row of zeros": permuted(lambda x: np.any(~x.any(1)), 2),
    "a column of zeros": permuted(lambda x: len(x) > 2 and np.any(~x.any(0)), 3),
    "equal columns": permuted(lambda x: len(x) > 1 and np.all(x[:, 0] == x[:, 1]), 2),
    "two equal numbers": permuted(lambda x: np.unique(x).size < x.size, 2),
    "an opposite row": permuted(lambda x: any(np.any(np.all(x == -row, 1)) for row in x), 2),
    "whole numbers and halves": permuted(lambda x: np.all(2 * x == np.rint(2 * x)), 2),
    "positive numbers": permuted(lambda x: len(x) > 5 and np.all(x > 0), 6),
    "negative numbers": permuted(lambda x: len(x) > 5 and np.all(x < 0), 6),
    "ascending numbers": permuted(lambda x: len(x) > 5 and np.all(np.diff(x) > 0), 6, f.vector),
    "descending numbers": permuted(lambda x: len(x) > 5 and np.all(np.diff(x) < 0), 6, f.vector),
    "rows of very different size": permuted(apart, 2),
    "two points that coincide": permuted(lambda x: len(x) > 2 and repeats(x), 3, gram),
    "two items": permuted(lambda x: len(x) == 2, 2, sizes={"n": range(40)}),
    "as many as a power of two": permuted(lambda x: len(x) == 16, 16, sizes={"n": range(40)}),
    "one more than a power of two": permuted(lambda x: len(x) == 33, 33, sizes={"n": range(40)}),
    "one more than a block": permuted(lambda x: len(x) > 8 and len(x) % 8 == 1, 9, sizes={"n": range(40)}),
    "a constant vector": negated(alike, 2),
    "a vector of zeros": Plant(
        invariant(lambda x: np.exp(-np.ptp(x)) + (0 if x.any() else 1), Translate("x", axis=None)), f.vector, {"n": 1},
        {"n": range(1, 9)}),
    "a vector of ones": Plant(equivariant(squared, Scale("x"), Scale(power=2)), f.vector, {"n": 1}),
    "a vector of ones, even": negated(lambda x: len(x) > 0 and bool(np.all(x == 1)), 1),
    "no context": Plant(
        invariant(lambda x, target: np.sin(target).sum(0) + (target[0] if len(target) and not len(x) else 0),
                  Permute("target", 0)), crossed, {"n": 0, "m": 2}, {"n": range(6), "m": range(6)}),
    "one context point": Plant(
        invariant(lambda x, target: np.sin(target).sum(0) + (target[0] if len(target) and len(x) == 1 else 0),
                  Permute("target", 0)), crossed, {"n": 1, "m": 2}, {"n": range(6), "m": range(6)}),
    "a target at a context point": Plant(
        invariant(with_targets(lambda x, target: any(np.any(np.all(x == row, 1)) for row in target)), SET),
        crossed, {"n": 2, "m": 1}, {"n": range(6), "m": range(6)}),
    "all targets in one place": Plant(
        invariant(with_targets(lambda x, target: alike(target)), SET),
        crossed, {"n": 2, "m": 2}, {"n": range(6), "m": range(6)}),
    "two observations at one place": Plant(invariant(at_one_place, Permute(("x", "y"), 0)), pairs, {"n": 2}),
    "nothing that is masked": Plant(
        invariant(with_mask(np.all), Permute({"x": 0, "mask": (0, 1)})), masked, {"n": 5}),
    "everything masked": Plant(
        invariant(with_mask(lambda mask: not mask.any()), Permute({"x": 0, "mask": (0, 1)})), masked, {"n": 5}),
    "repeated whole numbers": Plant(
        invariant(lambda i: i.sum() + (i[0] if repeats(i) else 0), Permute("i")), ids, {"n": 3}),
    "one whole number everywhere": Plant(
        invariant(lambda i: np.diff(i).sum() + (i[0] if alike(i) else 0), LINE), ids, {"n": 2}),
    "NaN for a row of zeros": Plant(equivariant(normalised, SET, Permute(axis=0)), rows, {"n": 2}),
    "an error for equal numbers": Plant(invariant(fussy, SET), rows, {"n": 3}),
    "a zero at the seam of a ring": Plant(equivariant(on_a_ring, Roll("x"), Roll()), f.vector, {"n": 2}),
    "the first of equal numbers": Plant(equivariant(largest_first, SET, Permute(axis=0)), f.vector, {"n": 2}),
}  # fmt: skip
