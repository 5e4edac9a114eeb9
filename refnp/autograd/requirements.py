"""What arguments and options need of each other, as a declaration writes it, and the error where it does not hold.

    needs="mean with variance; either factor or size; N = M if causal, pass as many keys as queries"

`a with b` says that both are given or neither, `either a or b` that one of them is. All else is a statement, about
numbers, lengths of letters, names of choices, and what an array with two shapes holds, as in `targets = probability`;
in it stand = ≠ < ≤, `is given`, `is a multiple of`, and, or, not. It is asked only where what stands behind `if` holds,
and only where all lengths and options in it are known numbers. Behind a comma stands what is to be done where it does
not hold, which errors say behind the values that were given.
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
HELD = {"whole": "whole numbers", "probability": "probabilities", "": "numbers"}
PAIR = re.compile(r"(?P<a>\w+) with (?P<b>\w+)|either (?P<c>\w+) or (?P<d>\w+)")


class Values(dict):
    """Values by name; a name that is of none of them is one of the names of a choice, and stands for itself."""

    def __missing__(self, name: str) -> str:
        return name


@dataclass(frozen=True)
class Requirement:
    """One of them as it is written, the arguments, options and letters in it, it in Python, and what is to be done."""

    text: str
    names: tuple[str, ...]
    holds: CodeType
    remedy: str

    @classmethod
    def of(cls, text: str, known: Set[str]) -> "Requirement":
        """From what is written; ValueError for what Python cannot read, or what says not what is to be done."""
        text, _, remedy = (part.strip() for part in text.partition(","))
        pair = PAIR.fullmatch(text)
        if pair and pair["a"]:
            python = f"({pair['a']} is None) == ({pair['b']} is None)"
            remedy = f"pass {pair['a']} and {pair['b']}, or neither"
        elif pair:
            python = f"({pair['c']} is None) != ({pair['d']} is None)"
            remedy = f"pass {pair['c']} or {pair['d']}, one of them"
        elif not remedy:
            raise ValueError(
                f"takes: needs is {text!r}; write behind a comma what is to be done where it does not hold"
            )
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
        return cls(text, names, holds, remedy)

    def check(
        self, function: str, values: Mapping[str, Any], owners: Mapping[str, str], held: Mapping[str, str]
    ) -> None:
        """ValueError that says what was given and what is to be done, if it does not hold.

        `owners` are the arguments that have the letters, `held` is what those arrays hold that may hold two things.
        """
        given = {name: held.get(name, values.get(name)) for name in self.names if name in values}
        if len(given) < len(self.names) or any(map(is_kind, given.values())):
            return
        if eval(self.holds, {"__builtins__": {}}, Values(given)):
            return
        is_told = lambda name: given[name] is not None or f"{name} is given" in self.text or PAIR.fullmatch(self.text)
        verb = lambda name: f"{owners[name]} has {name} =" if name in owners else f"{name} is"
        said = lambda name: f"{name} holds {HELD[held[name]]}" if name in held else f"{verb(name)} {shown(given[name])}"
        raise ValueError(f"{function}: {', '.join(map(said, filter(is_told, given)))}; {self.remedy}")
