"""What arguments and options need of each other, as a declaration writes it, and the error where it does not hold.

    needs="mean with variance; either factor or size; N = M if causal, or pass keys that are as many"

`a with b` says that both are given or neither, `either a or b` that one of them is. All else is a statement, about
numbers, lengths of letters, names of choices, and what an array with two shapes holds, as in `targets = probability`;
in it stand = ≠ < ≤, `is given`, `is a multiple of`, and, or, not. It is asked only where what stands behind `if` holds,
and only where all lengths and options in it are known numbers. What stands behind a comma is said beside it in errors.
"""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import CodeType
from typing import Any

from refnp.autograd.errors import shown
from refnp.numbers.kinds import is_kind

IN_PYTHON = {
    r"is given": "is not None", r"(\w+) is a multiple of (\w+)": r"\1 % \2 = 0",
    "≠": "!=", "≤": "<=", "≥": ">=", r"(?<![<>!])=": "==",
}  # fmt: skip
PAIR = re.compile(r"(?P<a>\w+) with (?P<b>\w+)|either (?P<c>\w+) or (?P<d>\w+)")


class Values(dict):
    """Values by name; a name that is of none of them is one of the names of a choice, and stands for itself."""

    def __missing__(self, name: str) -> str:
        return name


@dataclass(frozen=True)
class Requirement:
    """One of them: how it is written, the arguments, options and letters in it, and it as an expression of Python."""

    text: str
    names: tuple[str, ...]
    holds: CodeType
    remark: str

    @classmethod
    def of(cls, text: str, known: Set[str]) -> "Requirement":
        """From what is written; ValueError for what Python cannot read."""
        text, comma, remark = text.strip().partition(",")
        pair = PAIR.fullmatch(text)
        if pair and pair["a"]:
            python = f"({pair['a']} is None) == ({pair['b']} is None)"
        elif pair:
            python = f"({pair['c']} is None) != ({pair['d']} is None)"
        else:
            python = text
            for written, meant in IN_PYTHON.items():
                python = re.sub(written, meant, python)
            must, _, where = python.partition(" if ")
            python = f"({must}) if ({where}) else True" if where else must
        try:
            holds = compile(python, "needs", "eval")
        except SyntaxError as wrong:
            raise ValueError(f"takes: needs is {text!r}, which cannot be read: {wrong}") from None
        names = tuple(dict.fromkeys(word for word in re.findall(r"\w+", text) if word in known))
        return cls(text, names, holds, comma + remark)

    def check(self, function: str, values: Mapping[str, Any], owners: Mapping[str, str]) -> None:
        """ValueError that says what was given and what is needed, if that does not hold; `owners` have the letters."""
        given = {name: values[name] for name in self.names if name in values}
        if len(given) < len(self.names) or any(map(is_kind, given.values())):
            return
        if eval(self.holds, {"__builtins__": {}}, Values(given)):
            return
        is_needed = lambda name: values[name] is not None or f"{name} is given" in self.text
        must = f"this must hold: {self.text}{self.remark}"
        if pair := PAIR.fullmatch(self.text):
            is_needed = given.__contains__
            must = f"pass {' and '.join(self.names)}, or neither" if pair["a"] else "pass one of them"
        said = lambda name: f"{owners[name]} has {name} =" if name in owners else f"{name} is"
        shows = ", ".join(f"{said(name)} {shown(value)}" for name, value in given.items() if is_needed(name))
        raise ValueError(f"{function}: {shows}; {must}")
