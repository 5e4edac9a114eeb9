"""What the cases of a report asked: how many, how long each axis was, axes in front, options, and what was hidden."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd.declaration import Declaration
from refnp.verify.case import Problem


def asked_of(problems: Sequence[Problem]) -> str:
    """In a line: "46 cases, N to 1027, M to 67, 2 to 4 axes, options mask and scale in all pairs, NaN hidden"."""
    by_name = {problem.case.name: problem for problem in problems}
    found = list(by_name.values())
    parts = [f"{len(found)} case{'s' * (len(found) != 1)}"]
    parts += [f"{letter} to {n}" if n > 1 else f"{letter} = 1" for letter, n in longest(found).items()]
    parts += [axes_of(found), options_of(found), hidden_in(found)]
    return ", ".join(filter(None, parts))


def longest(problems: Sequence[Problem]) -> dict[str, int]:
    """The largest length of each letter of the declaration; without one, of any axis."""
    largest: dict[str, int] = {}
    for problem in problems:
        for letter, n in lengths(problem).items():
            letter = letter.lstrip("*")
            largest[letter] = max(largest.get(letter, 0), *np.atleast_1d(n)) if np.size(n) else largest.get(letter, 0)
    if len(largest) > 1:
        largest.pop("axes", None)  # of those that declare nothing
    return {letter: int(n) for letter, n in largest.items() if n}


def lengths(problem: Problem) -> dict[str, Any]:
    """The lengths of the letters, as the function that is asked declares them."""
    takes = getattr(problem.case.layer.function, "takes", None)
    if isinstance(takes, Declaration) and not takes.takes_any_array:
        found = takes.sizes(dict(problem.arrays) | dict(problem.case.options))
        return {letter: n for letter, n in found.items() if letter != "..."}
    return {"axes": max((n for array in problem.arrays.values() for n in array.shape), default=0)}


def axes_of(problems: Sequence[Problem]) -> str:
    """How many axes the first argument had."""
    counts = {next(iter(problem.arrays.values())).ndim for problem in problems if problem.arrays}
    least, most = min(counts, default=0), max(counts, default=0)
    return f"{least} to {most} axes" if least < most else f"{most} {'axis' if most == 1 else 'axes'}"


def options_of(problems: Sequence[Problem]) -> str:
    """The options that were set, and whether every two of them stood together."""
    chosen = [frozenset(problem.case.options) for problem in problems]
    names = list(dict.fromkeys(name for problem in problems for name in problem.case.options))
    if not names:
        return ""
    pairs = set(itertools.combinations(names, 2))
    together = {pair for pair in pairs if any({*pair} <= names for names in chosen)}
    *first, last = names
    listed = f"options {', '.join(first)} and {last}" if first else f"option {last}"
    return f"{listed} in all pairs" if pairs and together == pairs else listed


def hidden_in(problems: Sequence[Problem]) -> str:
    """Whether an argument held NaN or infinity."""
    numbers = [array for problem in problems for array in problem.arrays.values() if array.dtype.kind == "f"]
    kinds = {"NaN": np.isnan, "infinity": np.isinf}
    found = [name for name, test in kinds.items() if any(test(array).any() for array in numbers)]
    return f"{' and '.join(found)} among the inputs" if found else ""
