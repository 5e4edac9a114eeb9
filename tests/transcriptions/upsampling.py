"""Upsampling, place by place: where each place of y is on the axes of x, as a fraction, and what stands there."""

import itertools
import math
from fractions import Fraction

import numpy as np

WIDE = np.longdouble


def neighbours(i, length, count, step, mode, align_corners):
    """[(j, w)] with y[i] = Σ w x[j] on one axis."""
    if mode == "nearest":
        return [(min(math.floor(i * step), length - 1), Fraction(1))]
    if mode == "nearest-exact":
        return [(min(math.floor((i + Fraction(1, 2)) * step), length - 1), Fraction(1))]
    if align_corners:
        c = Fraction(i * (length - 1), count - 1) if count > 1 else Fraction(0)
    else:
        c = (i + Fraction(1, 2)) * step - Fraction(1, 2)
        c = Fraction(0) if c < 0 else Fraction(length - 1) if c > length - 1 else c
    j = math.floor(c)
    return [(j, 1 - (c - j)), (j + 1, c - j)] if c > j else [(j, Fraction(1))]


def upsample(x, *, positions, steps, mode, align_corners=False):
    """y[i] = Σ_j w_ij x[j], with the product of the weights of all axes."""
    x = np.asarray(x, WIDE)
    y = np.zeros((*x.shape[:2], *positions), WIDE)
    for i in np.ndindex(*positions):
        along = [neighbours(*one, mode, align_corners) for one in zip(i, x.shape[2:], positions, steps, strict=True)]
        for choice in itertools.product(*along):
            j, w = tuple(place for place, _ in choice), math.prod(weight for _, weight in choice)
            w = WIDE(w.numerator) / WIDE(w.denominator)
            y[(..., *i)] += w * x[(..., *j)]
    return y
