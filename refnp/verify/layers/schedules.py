"""Learning rates of a step: constant, a cosine and noam's, each after a warm-up. For `refnp.judge` alone.

Steps count from 1, as in refnp.training. The one array is a number: the full rate η, or noam's factor k.

    constant_schedule    η min(1, s/w)
    cosine_schedule      η s/w for s ≤ w, then f + (η − f) ½ (1 + cos(π (s − 1 − w)/(S − w))), and f after S steps
    noam_schedule        k D^(−½) min(s^(−½), s w^(−3/2))

w are the steps of `warmup`, S all `steps`, f the `floor`, D the `width`.
"""

import numpy as np

from refnp.autograd.primitives import raw
from refnp.numbers.rounding import WIDE, constant, either, exact
from refnp.verify.case import Case, Layer

PI = 4 * np.arctan(WIDE(1))


def constant_schedule(rate, *, step, warmup=0):
    """η(s) = η min(1, s/w): in w steps of warm-up up to the rate η.   Shapes: rate () → ()."""
    number = raw(rate).dtype.type
    return raw(rate) * number(step) / number(warmup) if step < warmup else raw(rate)


def constant_equation(rate, *, step, warmup=0):
    """η min(1, s/w)."""
    return (rate * float(step) / float(warmup) if step < warmup else rate), None


def cosine_schedule(rate, *, step, steps, warmup=0, floor=0.0):
    """η(s) = η s/w for s ≤ w, then f + (η − f) sin²(½ π r), r = (S + 1 − s)/(S − w), and f after S steps.

    Shapes: rate () → ().
    """
    number = raw(rate).dtype.type
    if step <= warmup:
        return raw(rate) * number(step) / number(warmup)
    remaining = number(max(steps + 1 - step, 0)) / number(steps - warmup)
    return number(floor) + (raw(rate) - number(floor)) * np.sin(number(PI / 2) * remaining) ** 2


def cosine_equation(rate, *, step, steps, warmup=0, floor=0.0):
    """The half of a cosine in two forms: sin²(½ π r) and ½ (1 + cos(π (1 − r)))."""
    if step <= warmup:
        return rate * float(step) / float(warmup), None
    remaining = exact(max(steps + 1 - step, 0)) / exact(steps - warmup)
    angle = constant(PI / 2) * remaining
    squared = lambda: np.sin(angle) * np.sin(angle)
    printed = lambda: (np.cos(constant(PI) * (1 - remaining)) + 1) / 2
    return constant(floor) + (rate - constant(floor)) * either(squared, printed), None


def noam_schedule(scale, *, step, width, warmup):
    """η(s) = k D^(−½) min(s^(−½), s w^(−3/2)): up in w steps of warm-up, then down as 1/√s.   Shapes: scale () → ()."""
    step, width, warmup = (raw(scale).dtype.type(number) for number in (step, width, warmup))
    return raw(scale) / np.sqrt(width) * np.minimum(1 / np.sqrt(step), step / (warmup * np.sqrt(warmup)))


def noam_equation(scale, *, step, width, warmup):
    """k D^(−½) s^(−½), or k D^(−½) s w^(−3/2) before w."""
    of_step = WIDE(step) ** WIDE(-0.5) if step >= warmup else WIDE(step) * WIDE(warmup) ** WIDE(-1.5)
    return scale * constant(WIDE(width) ** WIDE(-0.5)) * constant(of_step), None


CONSTANT = Layer("constant_schedule", constant_schedule, constant_equation)
COSINE = Layer("cosine_schedule", cosine_schedule, cosine_equation)
NOAM = Layer("noam_schedule", noam_schedule, noam_equation)


def cases() -> list[Case]:
    """The first step, the middle of a warm-up, its end, the steps after it, the last one and beyond."""
    rate = {"rate": np.array(0.3)}
    found = [Case(CONSTANT, "no warm-up", rate, {"step": 5}, gradients=())]
    found += [Case(CONSTANT, f"step {s}", rate, {"step": s, "warmup": 10}, gradients=()) for s in (1, 7, 10, 11)]
    for s in (1, 2, 60, 99, 100, 150):
        found.append(Case(COSINE, f"step {s}", rate, {"step": s, "steps": 100}, gradients=()))
    for s in (1, 10, 11, 100):
        options = {"step": s, "steps": 100, "warmup": 10, "floor": 0.01}
        found.append(Case(COSINE, f"step {s}, warm-up and floor", rate, options, gradients=()))
    for s in (1, 300, 4000, 4001, 100_000):
        options = {"step": s, "width": 512, "warmup": 4000}
        found.append(Case(NOAM, f"step {s}", {"scale": np.array(1.5)}, options, gradients=()))
    return found
