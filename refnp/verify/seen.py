"""`python -m refnp.verify.seen --write`: the fingerprints of recorded answers that have to be the ones that were seen.

Where no formula explains what is recorded, or one that says little, nothing else is excused: excuses.py.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from refnp.files import write_whole
from refnp.verify.case import FailedError, NotOfferedError
from refnp.verify.excuses import SEEN, fingerprint, fingerprints, is_to_be_seen
from refnp.verify.judge import WITHIN, frameworks, judged
from refnp.verify.layers import cases_of_layers
from refnp.verify.record import DTYPES, key_of


def recorded_answers() -> Iterator[tuple]:
    """(framework, problem, reference, answer, rows) of every recorded answer to a case of a layer."""
    others = frameworks(live=())
    for case in cases_of_layers():
        for dtype in DTYPES:
            asked = case.problem(dtype)  # once for all: its equation is evaluated once
            for other in others:
                problem = other.posed(asked)
                try:
                    answer = other.answer(problem)
                except (NotOfferedError, FailedError):
                    continue
                reference = problem.reference()
                rows = judged(problem, answer, reference, other.name, other.version, known=other.known_defects)
                yield other, problem, reference, answer, rows


def to_be_seen() -> dict[str, dict[str, str]]:
    """The fingerprints of the recorded answers that are to be the ones that were seen."""
    found: dict[str, dict[str, str]] = {}
    for other, problem, _, answer, rows in recorded_answers():
        known = (*problem.case.known_defects, *other.known_defects)
        for row in rows:
            given = np.asarray(answer[row.quantity])
            if row.verdict != WITHIN and is_to_be_seen(known, other.name, problem, row.quantity, given):
                found.setdefault(other.name, {})[f"{key_of(problem)}: {row.quantity}"] = fingerprint(given)
    return {other.name: found[other.name] for other in frameworks(live=()) if other.name in found}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the fingerprints, or write them."""
    parser = argparse.ArgumentParser(prog="python -m refnp.verify.seen", description="Write what was seen.")
    parser.add_argument("--write", action="store_true", help=f"write {SEEN.name} and not the terminal")
    options = parser.parse_args(argv)
    fingerprints.cache_clear()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = json.dumps(to_be_seen(), indent=1, ensure_ascii=False) + "\n"
    if options.write:
        write_whole(SEEN, text.encode())
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
