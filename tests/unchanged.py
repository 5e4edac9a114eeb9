"""Whether two tables say the same: those of `refnp verify --json` or of `python -m gradcheck --json`.

    python -m tests.unchanged BEFORE.json AFTER.json

Rows are matched by what they are about, in any order. Their verdicts, issues, methods and numbers of elements must be
equal; errors over bound to 3 digits, and digits to 0.01. Units in the last place and versions may differ. Prints what
differs; exit status 1 if anything does.
"""

import json
import math
import sys
from itertools import count
from pathlib import Path

KEYS = {
    "error_over_bound": ("section", "case", "framework", "dtype", "quantity"),  # of refnp verify
    "digits": ("name", "dtype", "order"),  # of gradcheck
}
EQUAL = ("verdict", "issue", "method", "elements")


def differences(before, after):
    """A line for each row that differs, is missing or is new."""
    old, new = by_key(before), by_key(after)
    found = [f"missing: {key}" for key in old.keys() - new.keys()]
    found += [f"new: {key}" for key in new.keys() - old.keys()]
    for key in old.keys() & new.keys():
        found += [f"{key}: {said}" for said in changed(old[key], new[key])]
    return sorted(found)


def by_key(rows):
    """{what the row is about: the row}; of several rows about one thing, the second is called "… (2)"."""
    found: dict[str, dict] = {}
    for row in rows:
        names = next(names for measure, names in KEYS.items() if measure in row)
        key = " | ".join(str(row[name]) for name in names)
        found[next(k for n in count(1) if (k := f"{key} ({n})" if n > 1 else key) not in found)] = row
    return found


def changed(old, new):
    """What is not the same in two rows about one thing."""
    found = [f"{name} {old[name]} → {new[name]}" for name in EQUAL if name in old and old[name] != new[name]]
    a, b = old.get("error_over_bound"), new.get("error_over_bound")
    if (a is None) != (b is None) or (a is not None and not math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-300)):
        found.append(f"error over bound {a} → {b}")
    if "digits" in old and abs(old["digits"] - new["digits"]) > 0.0101:
        found.append(f"digits {old['digits']} → {new['digits']}")
    return found


def main(words):
    if len(words) != 2:
        print(__doc__)
        return 2
    before, after = (json.loads(Path(word).read_text(encoding="utf-8"))["rows"] for word in words)
    found = differences(before, after)
    print("\n".join(found) or f"{len(before)} rows, unchanged")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
