"""Learning rates of a step: constant, a cosine and noam's, each after a warm-up. For `refnp.judge` alone.

Steps count from 1, as in refnp.training. The one array is a number: the full rate η, or noam's factor k.

    constant_schedule    η min(1, s/w)
    cosine_schedule      η s/w for s ≤ w, then f + (η − f) ½ (1 + cos(π (s − 1 − w)/(S − w))), and f after S steps
    noam_schedule        k D^(−½) min(s^(−½), s w^(−3/2))

w are the steps of `warmup`, S all `steps`, f the `floor`, D the `width`.
"""

import numpy as np

from refnp.numbers.parts import part
from refnp.numbers.rounding import either
from refnp.numbers.words import constant, pi, root
from refnp.verify.case import Case
from refnp.verify.judged_pages import of_value


def constant_schedule(rate, *, step, warmup=0):
    """η(s) = η min(1, s/w): in w steps of warm-up up to the rate η.   Shapes: rate () → ()."""
    return rate * float(step) / float(warmup) if step < warmup else rate


def cosine_schedule(rate, *, step, steps, warmup=0, floor=0.0):
    """η(s) = η s/w for s ≤ w, then f + (η − f) sin²(½ π r), r = (S + 1 − s)/(S − w), and f after S steps.

    Shapes: rate () → ().
    """
    if step <= warmup:
        return rate * float(step) / float(warmup)
    after = steps - warmup
    left = max(after - (step - 1 - warmup), 0)
    remaining = (0 * rate + float(left)) / float(after)  # r
    return constant(floor) + (rate - constant(floor)) * half_cosine(remaining)


@part
def half_cosine(remaining):
    """½ (1 − cos π r), as the square that does not cancel."""
    sine = np.sin(pi / 2 * remaining)
    return sine * sine


def in_either_form(remaining):
    """The square, or the half of a cosine as it is printed."""
    return either(lambda: half_cosine(remaining), lambda: (np.cos(pi * (1 - remaining)) + 1) / 2)


def noam_schedule(scale, *, step, width, warmup):
    """η(s) = k D^(−½) min(s^(−½), s w^(−3/2)): up in w steps of warm-up, then down as 1/√s.   Shapes: scale () → ()."""
    of_step = 1 / root(step) if step >= warmup else step / (warmup * root(warmup))
    return scale / root(width) * of_step


CONSTANT = of_value("constant_schedule", constant_schedule)
COSINE = of_value("cosine_schedule", cosine_schedule, {half_cosine: in_either_form})
NOAM = of_value("noam_schedule", noam_schedule)


def cases() -> list[Case]:
    """The first step, the middle of a warm-up, its end, the steps after it, the last one and beyond; rates differ, so
    that what is a part of the rate is not taken for a constant.
    """
    asked: list[tuple] = [(CONSTANT, {"step": 5}, "no warm-up")]
    asked += [(CONSTANT, {"step": s, "warmup": 10}, f"step {s}") for s in (1, 7, 10, 11)]
    asked += [(COSINE, {"step": s, "steps": 100}, f"step {s}") for s in (1, 2, 60, 99, 100, 150)]
    after = {"steps": 100, "warmup": 10, "floor": 0.01}
    asked += [(COSINE, {"step": s, **after}, f"step {s}, warm-up and floor") for s in (1, 10, 11, 100)]
    asked += [(NOAM, {"step": s, "width": 512, "warmup": 4000}, f"step {s}") for s in (1, 300, 4000, 4001, 100_000)]
    return [
        Case(layer, name, {"scale" if layer is NOAM else "rate": np.array(0.3 + 0.1 * i)}, options, gradients=())
        for i, (layer, options, name) in enumerate(asked)
    ]
