"""python -m tests.fuzz --calls N --seed S [--only NAME] [--processes P]"""

import argparse
import functools
import operator
import sys
import time
from collections import Counter

from refnp.pieces import Workers, in_order
from tests.fuzz.run import Outcome, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Call every public function with anything."
    )
    parser.add_argument("--calls", type=int, default=20_000, help="how many (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="of the calls (default: 0)")
    parser.add_argument("--only", default="", metavar="NAME", help="only functions whose names begin so")
    parser.add_argument("--processes", type=int, default=1, help="that share the work (default: 1)")
    parser.add_argument("--most", type=int, default=20, metavar="K", help="stop after K failures (default: 20)")
    options = parser.parse_args()
    began = time.perf_counter()
    work = functools.partial(run, options.calls, options.seed, options.only, step=options.processes, most=options.most)
    parts = [functools.partial(work, start=start) for start in range(options.processes)]
    outcomes = list(in_order(operator.call, parts, Workers(options.processes)))
    return report(outcomes, options.seed, time.perf_counter() - began)


def report(outcomes: list[Outcome], seed: int, seconds: float) -> int:
    """Print what came of it; the exit status is 1 if a property was not kept."""
    counts = sum((outcome.counts for outcome in outcomes), Counter())
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    for failure in failures:
        print(failure)
    by_end: Counter = Counter()
    for (_, _, how), count in counts.items():
        by_end[how] += count
    names = len({name for name, _, _ in counts})
    total, violated = counts.total(), by_end["violated"]
    print(
        f"{total} calls of {names} functions, seed {seed}, {seconds:.0f} s: {by_end['kept']} kept every property, "
        f"{by_end['refused']} were refused with a reason, {violated} did not keep one"
    )
    for (name, letter), count in sorted(sum((o.kinds for o in outcomes), Counter()).items()):
        print(f"  {name}: ({letter}) {count} times")
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
