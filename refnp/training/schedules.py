"""Schedules: the learning rate of a step, as plain functions of its number s, which counts from 1.

    constant    η(s) = η · min(1, s/w)
    cosine      η(s) = η s/w                                                      for s ≤ w
                     = f + (η − f) · ½ (1 + cos(π (s − 1 − w)/(S − w)))            for w < s ≤ S
                     = f                                                          for s > S
    noam        η(s) = k · D^(−½) · min(s^(−½), s · w^(−3/2))

η is the full rate, w the steps of warm-up, S all steps, f the floor, D the features of the model, k a factor. No step
is lost on a rate of 0: the first one moves, and so does the last, after which cosine is at its floor.

A schedule for `train` is a function of the step alone:

    train(…, schedule=lambda step: noam(step, features=512, warmup=4000))

Sources: Vaswani et al. (2017), arXiv 1706.03762, eq. 3 (noam);
Loshchilov & Hutter (2017), arXiv 1608.03983, eq. 5 (cosine); Goyal et al. (2017), arXiv 1706.02677, §2.2 (warm-up).
Transcription: tests/transcriptions/training.py.
"""

import math


def constant(step: int, rate: float, *, warmup: int = 0) -> float:
    """η(s) = η · min(1, s/w): the rate, after a warm-up that grows in equal steps to it.

    Raises ValueError for a step before 1, a negative rate or a negative warm-up.
    """
    _check("constant", step, rate=rate, warmup=warmup)
    return rate * step / warmup if step < warmup else float(rate)


def cosine(step: int, rate: float, steps: int, *, warmup: int = 0, floor: float = 0.0) -> float:
    """A warm-up of w steps to the rate η, then half a cosine down to the floor f, which is reached after `steps`.

        η(s) = f + (η − f) · ½ (1 + cos(π (s − 1 − w)/(S − w)))        after the warm-up
             = f + (η − f) · sin²(½π r),   r = (S + 1 − s)/(S − w) the part that remains

    The second form is what is computed: it does not cancel near the end, where the first subtracts nearly 1 from 1.
    Raises ValueError for a step before 1, `warmup` outside 0 … steps − 1, or unless 0 ≤ floor ≤ rate.
    Elsewhere: without warm-up as torch.optim.lr_scheduler.CosineAnnealingLR(T_max=steps, eta_min=floor), which
    counts from 0; Hugging Face's first step of a warm-up has rate 0, ours η/w.
    """
    _check("cosine", step, rate=rate, warmup=warmup, floor=floor)
    if not warmup < steps:
        raise ValueError(f"cosine: warmup is {warmup}; it must be less than the {steps} steps")
    if floor > rate:
        raise ValueError(f"cosine: floor is {floor}; it must not exceed the rate {rate}")
    if step <= warmup:
        return rate * step / warmup
    remaining = max(steps + 1 - step, 0) / (steps - warmup)
    return floor + (rate - floor) * math.sin(math.pi / 2 * remaining) ** 2


def noam(step: int, features: int, warmup: int, scale: float = 1.0) -> float:
    """η(s) = k · D^(−½) · min(s^(−½), s · w^(−3/2)): a linear warm-up of w steps, then a fall as 1/√s.

    Both branches are equal at s = w, the maximum, k/√(D w). Meant for Adam with betas=(0.9, 0.98), eps=1e-9.
    Raises ValueError for a step before 1, features or warm-up that are not positive, or a negative scale.
    """
    _check("noam", step, scale=scale)
    for argument, value in (("features", features), ("warmup", warmup)):
        if not value > 0:
            raise ValueError(f"noam: {argument} is {value}; it must be positive")
    return scale * features**-0.5 * min(step**-0.5, step * warmup**-1.5)


def _check(name: str, step: float, **not_negative: float) -> None:
    if not step >= 1:
        raise ValueError(f"{name}: step is {step}; steps count from 1")
    for argument, value in not_negative.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name}: {argument} is {value}; it must be 0 or positive, and finite")
