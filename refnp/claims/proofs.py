"""What of the ledger is proved for every size, row by row, and what is missing for the other rows.

    python -m refnp.claims.proofs                     the table of all rows that are expected to be exact
    python -m refnp.claims.proofs --only "TNP-D: *"    of some
    python -m refnp.claims.proofs --broken             that no row that is expected to be broken is proved

Nothing is searched here. The exit status is 1 if a claim is proved that is expected to be broken.
"""

import argparse
import functools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from refnp.claims.decision import proof_of
from refnp.claims.ledger import rows
from refnp.claims.row import BROKEN, EXACT, Row
from refnp.pieces import in_order, workers_for
from refnp.symmetry.proving import Proof

KINDS = {  # how assumptions end, and what is said of all of these
    "≠ 0": "what is divided by or compared is not 0",
    "> 0": "what stands under a root or a logarithm is positive",
    "≥ 0": "what stands under a root is not negative",
}
PLAIN = {  # of messages of Python and NumPy, and what they mean here
    "where Python needs a number": "an array or a loop whose length is a letter",
    "len of an array": "a number is asked for, where the length of an axis is a letter",
    "which only decides": "numbers are computed with, of which a rule only decides",
    "unsupported operand": "a length that is a letter times a number that is no whole one",
    "pass an array": "an array of numbers is asked for",
    "pass integers": "places that are unknown numbers",
    "must be (N,)": "orders of a number of targets that is a letter",
    "terms are left": "terms are left that no rule makes 0",
    "products": "expressions that grow beyond the limit",
    "__array_struct__": "numbers are asked of an array of unknown ones",
    "trained weights": "trained weights are tried in their own precision alone",
}


def proved(only: str | None, expected: str, n: int) -> Proof:
    """The proof of one of the rows, or what is missing for it."""
    row = asked(only, expected)[n][1]
    try:
        return proof_of(row.trial())
    except Exception as error:  # a row that cannot be tried is not proved
        return Proof(row.name, "", False, (), f"{type(error).__name__}: {error}", 0.0)


def asked(only: str | None, expected: str) -> list[tuple[str, Row]]:
    """The rows of which that is expected."""
    return [(family, row) for family, row in rows(only) if row.expected == expected]


def conditions(proof: Proof) -> str:
    """What a proof assumes, those of one kind together."""
    of_kind = lambda one: next((text for end, text in KINDS.items() if one.endswith(end)), one)
    return "; ".join(dict.fromkeys(map(of_kind, proof.assumptions)))


def lacking(proof: Proof) -> str:
    """What is missing, in plain words."""
    return next((text for part, text in PLAIN.items() if part in proof.missing), proof.missing.partition(";")[0])


def lines(work: Sequence[tuple[str, Row]], found: Sequence[Proof]) -> Iterator[str]:
    """The table: under each subject its symmetries, those together of which the same is known."""
    family = subject = ""
    together: dict[str, dict[tuple[bool, str], list[str]]] = {}
    families: dict[str, str] = {}
    for (own, row), proof in zip(work, found, strict=True):
        known = (True, conditions(proof)) if proof else (False, lacking(proof))
        together.setdefault(row.subject, {}).setdefault(known, []).append(row.symmetry)
        families[row.subject] = own
    for subject, groups in together.items():
        if families[subject] != family:
            family = families[subject]
            yield family
        yield f"  {subject}"
        for (holds, why), symmetries in groups.items():
            names = "; ".join(symmetries)
            yield f"    PROVED      {names}" if holds else f"    not proved  {names}"
            if why:
                yield f"                {'if ' if holds else ''}{why}"


def counted(work: Sequence[tuple[str, Row]], found: Sequence[Proof]) -> str:
    """How many of each family are proved."""
    every, proofs = (Counter(f for f, _ in work), Counter(f for (f, _), p in zip(work, found, strict=True) if p))
    of_families = ", ".join(f"{proofs[family]} of {n} of {family}" for family, n in every.items())
    return f"{proofs.total()} of {every.total()} claims that are exact are proved for every size: {of_families}."


def main(argv: Sequence[str] | None = None) -> int:
    """Prove what can be, and print it."""
    parser = argparse.ArgumentParser(prog="python -m refnp.claims.proofs", description="Claims proved for every size.")
    parser.add_argument("--only", metavar="WHAT", help="rows whose name contains this, or matches its wildcards")
    parser.add_argument("--broken", action="store_true", help="the rows that are expected to be broken")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one for each core, up to 4)")
    options = parser.parse_args(argv)
    expected = BROKEN if options.broken else EXACT
    work = asked(options.only, expected)
    own = functools.partial(proved, options.only, expected)
    found = list(in_order(own, range(len(work)), workers_for(len(work), options.jobs)))
    if options.broken:
        wrong = [row.name for (_, row), proof in zip(work, found, strict=True) if proof]
        print(*(f"proved, though it is broken: {name}" for name in wrong), sep="\n", end="\n" if wrong else "")
        print(f"{len(wrong)} of {len(work)} claims that are broken are proved")
        return int(bool(wrong))
    print(counted(work, found), "", *lines(work, found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
