"""The formula that a page computes, with the names of its lines where one expression would be long.

    print(formula(layers.softmax).text)        p_bi = exp(x_bi) / Σ_j exp(x_bj)

A name that its line gives a letter is kept, as x̂ is; another is where the formula is shorter with it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from refnp.formulas.lines import Run, entries, is_more_than_entry, run_lines, stands_in
from refnp.formulas.writing import LETTERS, Latex, Text, Writer, aligned, with_letters
from refnp.numbers.indexed.arrays import Indexed

SAID = re.compile(r"(\w[\u0302\u0304]?) the `(\w+)`")  # "γ the `gain`", in a docstring


@dataclass(frozen=True)
class Formula:
    """What a page computes: its results first, then what stands in them, `where`; and what is assumed."""

    operation: Any
    run: Run

    @property
    def results(self) -> list[tuple[str, Indexed]]:
        """What is computed, by names."""
        return [self.definition(name, y) for name, y in self.run.results.items()]

    @property
    def parts(self) -> list[tuple[str, Indexed]]:
        """What stands in it, from the last line to the first."""
        results = self.results
        known = {name for name, _ in results}
        rest = [(line.name, line.value) for line in reversed(self.run.lines) if line.name not in known]
        return [pair for pair in rest if any(stands_in(pair[0], x) for _, x in (*results, *rest))]

    @property
    def letters(self) -> Mapping[str, str]:
        """The letters of what has a name in the code."""
        return letters_of_page(self.operation, self.run)

    @property
    def shapes(self) -> dict[str, Sequence[Any]]:
        """Its shape."""
        return shapes_of(self.run)

    def definition(self, name: str, y: Indexed) -> tuple[str, Indexed]:
        """What a result is, where it is no more than a name of a line."""
        lines = {line.name: line.value for line in self.run.lines}
        known = {a[1] for _, e in entries(y) if not is_more_than_entry(e) for (_, f) in e for a, _ in f if a[0] == "x"}
        own = known & lines.keys()
        return (own.pop(), lines[next(iter(known))]) if len(own) == len(known) == 1 else (name, y)

    @property
    def length(self) -> int:
        """How many entries, functions and brackets stand in it."""
        return sum(atoms_in(e) for _, x in (*self.results, *self.parts) for _, e in entries(x))

    def lines(self, style: Text) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """The left and the right side of each equation: of the results, and of what stands in them."""
        writer = writer_of(self.operation, self.run, style)
        sides = lambda pairs: [side for pair in pairs for side in written(writer, *pair)]
        return sides(self.results), sides(self.parts)

    @property
    def text(self) -> str:
        """As lines of Unicode."""
        results, parts = self.lines(Text())
        rows = [*(" = ".join(sides) for sides in results), *(f"    where {left} = {right}" for left, right in parts)]
        return "\n".join(rows)

    @property
    def latex(self) -> str:
        """As LaTeX, aligned where there are several lines."""
        results, parts = self.lines(Latex())
        if len(results) == 1 and not parts:
            return " = ".join(results[0])
        return aligned([*results, *parts])


def atoms_in(e: Mapping) -> int:
    """How many atoms stand in an expression, and in what is inside of them."""
    return sum(1 + (atoms_in(dict(a[-1].terms)) if a[0] in ("f", "^") else 0) for _, f in e for a, _ in f)


def written(writer: Writer, name: str, x: Indexed) -> list[tuple[str, str]]:
    """The sides of the equations for an array: one, or one for each piece of an axis that is several."""
    found = []
    for (at, letters), e in entries(x):
        scope = with_letters({}, letters)
        right = writer.expression(e, scope).text
        if x.seen is not None:
            right += writer.style.only_where(writer.expression(x.seen.at(at), scope).text)
        found.append((writer.array(name, at, scope), right))
    return found


def writer_of(operation: Any, run: Run, style: Text) -> Writer:
    """A writer that knows the letters and shapes of a page's arguments and lines."""
    return Writer(style, letters_of_page(operation, run), shapes_of(run))


def letters_of_page(operation: Any, run: Run) -> Mapping[str, str]:
    """The letters of names: those that the docstring says, those of the lines' comments, and those of all pages.

    A letter that two names would have stays with the one that said so itself; the other is written as it is.
    """
    of_lines = {line.name: line.letter for line in run.lines if line.letter}
    said = {name: letter for letter, name in SAID.findall(operation.__doc__ or "")}
    found: dict[str, str] = {}
    for letters in (of_lines, said, LETTERS):
        for name in letters.keys() & shapes_of(run).keys() - found.keys():
            is_other = name in ("query", "key", "value") and name not in run.form.arguments
            if not is_other and letters[name] not in (*found.values(), *shapes_of(run)):
                found[name] = letters[name]
    return found


def shapes_of(run: Run) -> dict[str, Sequence[Any]]:
    """The shapes of all that has a name."""
    options = {name: x.shape for name, x in run.form.options.items() if isinstance(x, Indexed)}
    arguments = {name: x.shape for name, x in run.form.arguments.items() if x is not None}
    results = {name: y.shape for name, y in run.results.items()}
    lines = {line.name: line.value.shape for line in run.lines}
    return {**lines, **arguments, **options, **results}


@cache
def formula(operation: Any) -> Formula:
    """The formula of a page in its usual form. TypeError where a rule is missing."""
    best = Formula(operation, run_lines(operation, one_form=True))
    names = {line.name: line.letter for line in best.run.lines}
    kept = set(names)
    for name in [name for name, letter in names.items() if not letter]:
        other = Formula(operation, run_lines(operation, kept=kept - {name}, one_form=True))
        if other.length <= best.length:
            best, kept = other, kept - {name}
    return best
