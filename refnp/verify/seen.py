"""`python -m refnp.verify.seen --write`: the fingerprints of recorded answers that have to be the ones that were seen.

Where no formula explains what is recorded, or one that says little, nothing else is excused: excuses.py.
"""

import json
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from refnp.verify.case import FailedError, NotOfferedError, quiet
from refnp.verify.excuses import SEEN, Given, fingerprint, fingerprints, is_to_be_seen
from refnp.verify.judge import BEYOND, frameworks, judged
from refnp.verify.layers import cases_of_layers
from refnp.verify.record import DTYPES, key_of
from refnp.verify.report import shown_or_written


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
    with quiet():
        for other, problem, _, answer, rows in recorded_answers():
            known = (*problem.case.known_defects, *other.known_defects)
            for row in rows:
                given = Given(problem, row.quantity, np.asarray(answer[row.quantity]))
                if row.verdict in BEYOND and is_to_be_seen(known, other.name, given):
                    found.setdefault(other.name, {})[f"{key_of(problem)}: {row.quantity}"] = fingerprint(given.array)
    return {other.name: found[other.name] for other in frameworks(live=()) if other.name in found}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the fingerprints, or write them."""
    fingerprints.cache_clear()
    text = lambda: json.dumps(to_be_seen(), indent=1, ensure_ascii=False) + "\n"
    return shown_or_written("refnp.verify.seen", "Write what was seen.", SEEN, text, argv)


if __name__ == "__main__":
    sys.exit(main())
