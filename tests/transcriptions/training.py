"""Schedules and clipping, a number at a time, in longdouble, as they are printed."""

import numpy as np

LONG = np.longdouble
PI = 4 * np.arctan(LONG(1))


def noam(step, features, warmup, scale=1.0):
    """k · D^(−½) · min(s^(−½), s · w^(−3/2))."""
    s, w = LONG(step), LONG(warmup)
    falling, rising = 1 / np.sqrt(s), s / (w * np.sqrt(w))
    return LONG(scale) / np.sqrt(LONG(features)) * min(falling, rising)


def cosine(step, rate, steps, *, warmup=0, floor=0.0):
    """f + (η − f) · ½ (1 + cos(π (s − 1 − w)/(S − w))), after the warm-up η s/w and before the floor."""
    if step <= warmup:
        return LONG(rate) * step / warmup
    if step > steps:
        return LONG(floor)
    done = LONG(step - 1 - warmup) / (steps - warmup)
    return floor + (LONG(rate) - floor) * (1 + np.cos(PI * done)) / 2


def clipped(gradients, norm):
    """The length of all gradients together, and the gradients times min(1, c/‖g‖)."""
    square = LONG(0)
    for g in gradients:
        for place in np.ndindex(g.shape):
            square += LONG(g[place]) ** 2
    length = np.sqrt(square)
    factor = min(LONG(1), norm / length) if length else LONG(1)
    return length, [g.astype(LONG) * factor for g in gradients]
