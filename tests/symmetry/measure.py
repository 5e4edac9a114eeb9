"""How often the search errs, as tables: true claims that it refutes, and false ones that it misses.

python -m tests.symmetry.measure 20              with 20 seeds; docs/symmetry.md quotes the last lines
python -m tests.symmetry.measure 80 coarser      one of the tables: true, coarser, planted, slight
"""

import sys
import time

import numpy as np

from refnp.symmetry import Permute, Rotate, Translate, invariant, search
from tests.symmetry import functions as f
from tests.symmetry.mixed_precision import installed
from tests.symmetry.planted import PLANTS, SIZES
from tests.symmetry.true_claims import HOLD, NOISE, SCALES

OUTCOMES = ("holds", "fails", "undecided")


def false_alarms(seeds, claims, what):
    pairs = refuted = 0
    print(f"{what:36}{'holds':>7}{'fails':>7}{'undecided':>11}{'pairs':>9}{'seconds':>9}  of what rounding allows")
    for name, (claim, draw, sizes) in claims.items():
        start = time.process_time()
        verdicts = [search(claim, draw, sizes=sizes, scales=SCALES, seed=seed) for seed in range(seeds)]
        counts = [sum(v.outcome == outcome for v in verdicts) for outcome in OUTCOMES]
        tried, worst = sum(v.counts.pairs for v in verdicts), max(v.worst for v in verdicts)
        seconds = (time.process_time() - start) / seeds
        print(f"{name:36}{counts[0]:7}{counts[1]:7}{counts[2]:11}{tried:9}{seconds:9.2f}  {worst:.2g}", flush=True)
        pairs, refuted = pairs + tried, refuted + counts[1]
    print(f"{what}: {refuted} of {seeds * len(claims)} searches refuted it, at {pairs} pairs\n", flush=True)


def planted(seeds):
    print(f"{'wrong only for':36}{'found':>7}{'smallest':>10}{'seconds':>9}")
    found = smallest = 0
    for name, plant in PLANTS.items():
        start = time.process_time()
        verdicts = [search(plant.claim, plant.draw, sizes=plant.sizes or SIZES, seed=seed) for seed in range(seeds)]
        least = [v.fails and v.counterexample.sizes == plant.least for v in verdicts]
        counts = sum(v.fails for v in verdicts), sum(least)
        print(f"{name:36}{counts[0]:7}{counts[1]:10}{(time.process_time() - start) / seeds:9.2f}", flush=True)
        found, smallest = found + counts[0], smallest + counts[1]
    print(f"planted: {found} of {seeds * len(PLANTS)} found, {smallest} at the smallest size\n", flush=True)


def false_claims(size):
    """Functions that are symmetric but for a part of this size."""
    slightly = lambda x: 1 + size * np.tanh(x.ravel()[:1].sum())
    return {
        "sum, permuted": (invariant(lambda x: x.sum(0) * slightly(x), Permute("x", 0)), f.rows, {"n": range(2, 6)}),
        "attention, permuted": (
            invariant(lambda x: f.self_attention(x).sum(0) * slightly(x), Permute("x", 0)),
            f.rows,
            {"n": range(2, 6)},
        ),
        "distances, moved": (
            invariant(lambda x, y: f.squared_distances(x, y) * slightly(x), Translate(("x", "y"))),
            f.plane,
            {"n": range(1, 5)},
        ),
        "distances, turned": (
            invariant(lambda x, y: f.squared_distances(x, y) * slightly(x), Rotate(("x", "y"))),
            f.plane,
            {"n": range(1, 5)},
        ),
    }


def power(seeds):
    names = list(false_claims(0))
    print(f"{'violation':>12}" + "".join(f"{name:>22}" for name in names) + "      caught (undecided)")
    for size in 10.0 ** np.arange(-3, -19, -3):
        row = []
        for claim, draw, sizes in false_claims(size).values():
            outcomes = [search(claim, draw, sizes=sizes, seed=seed).outcome for seed in range(seeds)]
            row.append(f"{outcomes.count('fails')}/{seeds} ({outcomes.count('undecided')})")
        print(f"{size:12.0e}" + "".join(f"{cell:>22}" for cell in row), flush=True)


TABLES = {
    "true": lambda seeds: false_alarms(seeds, HOLD | NOISE, "true claim"),
    "coarser": lambda seeds: false_alarms(seeds, installed(), "true claim, f coarser inside"),
    "planted": planted,
    "slight": power,
}


if __name__ == "__main__":
    given = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for table in sys.argv[2:] or TABLES:
        TABLES[table](given)
