"""`refnp derive`: the gradient of a page from its lines, the last one first, until it is the VJP that is written.

    x̂̄_bi = γ_i ȳ_bi                   from y = γ x̂ + β
    x̄_bi = …                          from the lines in which x stands

Every line says how what stands in it moves its result; the gradient of a name is the sum of what comes from all lines
in which it stands. Where all names are written out, what is derived and what is written on the page are two expressions
of the arguments, and they are the same if the rules of refnp/numbers/indexed make 0 of their difference.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import refnp.autograd
import refnp.layers
from refnp.autograd.errors import closest
from refnp.formulas.formula import Formula, formula, writer_of, written
from refnp.formulas.lines import Run, entries, run_lines, stands_in, written_out
from refnp.formulas.writing import Latex, Text, Writer, aligned
from refnp.numbers.indexed.arrays import Indexed, lift, symbol
from refnp.numbers.indexed.expressions import Expression, total
from refnp.numbers.indexed.functions import derivative
from refnp.numbers.indexed.proving import LACKING, Theorem, in_words, numbers_alone, summed_to, theorem
from refnp.numbers.indexed.sizes import places
from refnp.numbers.indexed.terms import Assumptions, Atom, NoRule, assuming, letters_of, renamed, thawed

BAR = "\u0304"
NUMBER = re.compile(r"−?[\d/]+ ")  # of which it need not be assumed that it is not 0
RULES = {  # what is said of how an atom moves
    "exp": "exp′ = exp",
    "log": "log′ x = 1/x",
    "tanh": "tanh′ = 1 − tanh²",
    "sin": "sin′ = cos",
    "cos": "cos′ = −sin",
    "erf": "erf′ x = 2 exp(−x²)/√π",
    "arctan": "arctan′ x = 1/(1 + x²)",
}


@dataclass(frozen=True)
class Step:
    """The gradient of a name or an argument: its equation, and the lines and rules that it comes from."""

    name: str
    value: Indexed
    rules: str


@dataclass(frozen=True)
class Derivation:
    """The steps of a gradient, the lines of the VJP that is written, and what is known of their being the same."""

    of: Formula
    steps: tuple[Step, ...]
    written: tuple[tuple[str, str], ...]  # lines of code with their formulas
    theorems: Mapping[str, Theorem]  # by argument

    def writer(self, style: Text) -> Writer:
        """A writer that knows the letters of gradients too."""
        return with_bars(writer_of(self.of.operation, self.of.run, style))

    @property
    def text(self) -> str:
        """As lines of Unicode."""
        writer = self.writer(Text())
        rows = [
            (" = ".join(sides), step.rules) for step in self.steps for sides in written(writer, step.name, step.value)
        ]
        wide = max(40, *(len(left) for left, _ in rows))
        lines = [self.of.text, "", "derived, from the last line to the first:"]
        lines += [f"    {left:{wide}s}    {rules}" for left, rules in rows]
        lines += [
            "",
            "written on the page:",
            *(f"    {said:{wide}s}    {code}".rstrip() for code, said in self.written),
            "",
        ]
        for name, one in self.theorems.items():
            bar = writer.letters[bar_of(name)]
            if one.proved:
                lines.append(f"{bar}: derived and written are the same, for every size, {1e3 * one.seconds:.0f} ms")
                lines += [f"    if {assumed}" for assumed in one.assumptions if not NUMBER.match(assumed)]
            else:
                lines.append(f"{bar}: not shown to be the same: {one.missing}")
        return "\n".join(lines)

    @property
    def latex(self) -> str:
        """The steps as LaTeX, aligned."""
        writer = self.writer(Latex())
        return aligned([sides for step in self.steps for sides in written(writer, step.name, step.value)])


def bar_of(name: str) -> str:
    """The name of the gradient of what has a name."""
    return f"{name}.bar"


def with_bars(writer: Writer) -> Writer:
    """The writer with letters and shapes of the gradients of all that has a name."""
    letters, shapes = dict(writer.letters), dict(writer.shapes)
    for name in list(shapes):
        shapes[bar_of(name)] = shapes[name]
        letters[bar_of(name)] = f"{letters.get(name, name)}{BAR}"
        shapes[f"{bar_of(name)}.given"] = shapes[name]
        letters[f"{bar_of(name)}.given"] = f"{letters[bar_of(name)]}′"
        if name.endswith("_bar"):
            letters[name] = f"{letters.get(name.removesuffix('_bar'), name.removesuffix('_bar'))}{BAR}"
    return Writer(writer.style, letters, shapes)


@cache
def derive(operation: Any) -> Derivation:
    """The gradient of a page by all its arguments, in its usual form. TypeError where a rule is missing."""
    of = formula(operation)
    steps = tuple(steps_of(of))
    return Derivation(of, steps, tuple(written_lines(of)), compared(of, steps))


def steps_of(of: Formula) -> Iterator[Step]:
    """The gradients of names, from the last line to the first, and then those of the arguments."""
    run = of.run
    values = dict(of.results)
    order = [name for name in values if name in {line.name for line in run.lines}]
    order += [name for name, _ in of.parts]
    lines = {line.name: line.value for line in run.lines}
    every = {**values, **{name: lines[name] for name in order}}
    patterns = {name: x for name, x in every.items() if is_product(x)}
    latest = [line.name for line in reversed(run.lines) if line.name in order]
    for name in [*latest, *moving(run)]:
        shape = lines[name].shape if name in lines else lift(run.form.arguments[name]).shape
        users = {user: x for user, x in every.items() if user != name and stands_in(name, x)}
        if users:
            bar = gradient_by(name, shape, users, patterns)
            bar = bar + symbol(given_bar(of, name), *shape) if name in values else bar
            by = (f"{of.letters.get(user, user)}: {rules}" for user, rules in rules_of(name, users))
            yield Step(bar_of(name), bar, "; ".join(by))


def given_bar(of: Formula, name: str) -> str:
    """The name of the gradient of a result that is given; of one that stands in another result, a part of it."""
    others = [x for other, x in (*of.results, *of.parts) if other != name]
    return f"{bar_of(name)}.given" if any(stands_in(name, x) for x in others) else bar_of(name)


def moving(run: Run) -> list[str]:
    """The arguments that have a gradient."""
    return [name for name, x in run.form.arguments.items() if type(x) is Indexed]


def gradient_by(name: str, shape: Any, users: Mapping[str, Indexed], patterns: Mapping[str, Indexed]) -> Indexed:
    """Σ over the lines in which a name stands of what comes back from each, with the names of products in it."""
    bars = {user: symbol(bar_of(user), *x.shape) for user, x in users.items()}

    def at(i: tuple) -> Expression:
        parts = [
            (bars[user].at(over) * derivative(numbers_alone(x).at(over), name, i)).summed(bound)
            for user, x in users.items()
            for over, bound in places(x.shape)
        ]
        return total(parts)

    plain = Indexed(shape, at)
    return Indexed(shape, lambda i: folded(plain.at(i), patterns))


# What rules are said


def rules_of(name: str, users: Mapping[str, Indexed]) -> Iterator[tuple[str, str]]:
    """For each line in which a name stands the rules by which it moves the result."""
    for user, x in users.items():
        found: dict[str, None] = {}
        for _, e in entries(x):
            for _, factors in e:
                for a, p in factors:
                    found |= dict.fromkeys(rules_for(name, a, p))
        yield user, ", ".join(found) or "linear"


def rules_for(name: str, a: Atom, p: Fraction) -> Iterator[str]:
    """The rules for a power of an atom in which a name stands."""
    if f"('x', {name!r}," not in repr(a):
        return
    if p != 1 and a[:2] != ("f", "exp"):
        yield {Fraction(-1): "(1/a)′ = −1/a²", Fraction(1, 2): "√a′ = 1/(2√a)"}.get(p, f"power {p}")
    if a[0] == "f":
        yield RULES.get(a[1], f"{a[1]}′")
    if a[0] in ("f", "^"):
        for _, factors, _ in thawed(a[-1]):
            for inner, q in factors:
                yield from rules_for(name, inner, q)


# Products that have a name


def is_product(x: Indexed) -> bool:
    """Whether a line is one product, such as exp(x)/Σ exp(x), or a function, and neither a sum nor linear."""
    found = entries(x)
    if len(found) != 1 or x.seen is not None or len(found[0][1]) != 1:
        return False
    ((bound, factors), _) = next(iter(found[0][1].items()))
    return not bound and (any(p < 0 for _, p in factors) or [a[0] in ("f", "^") for a, _ in factors] == [True])


def folded(e: Expression, patterns: Mapping[str, Indexed]) -> Expression:
    """The expression with the names of products in their place."""
    return total(folded_term(b, dict(f), c, patterns) for (b, f), c in e.items())


def folded_term(bound: Any, factors: dict[Atom, Fraction], c: Fraction, patterns: Mapping[str, Indexed]) -> Expression:
    """One term; a name is put in place of all that it stands for, at any indices."""
    free = sorted({letter for a in factors for letter in letters_of(a)} | {letter for letter, _ in bound})
    for name, x in patterns.items():
        ((at, letters), e) = entries(x)[0]
        ((_, own), k) = next(iter(e.items()))
        names = [letter for letter, _ in letters]
        for chosen in itertools.permutations(free, len(names)):
            new = dict(zip(names, chosen, strict=True))
            want = {renamed(a, new): p for a, p in own}
            stands: Atom = ("x", name, tuple(new.get(i, i) for i in at))
            if len(want) == 1:  # any whole power of it
                ((a, p),) = want.items()
                power = factors.get(a, Fraction(0)) / p
                if power and power.denominator == 1:
                    factors = {b: q for b, q in factors.items() if b != a}
                    factors[stands] = factors.get(stands, Fraction(0)) + power
                    c = c / k ** int(power)
                continue
            while all(factors.get(a, 0) * p > 0 and abs(factors.get(a, 0)) >= abs(p) for a, p in want.items()):
                left = {a: p - want.get(a, 0) for a, p in factors.items()}
                factors = {a: p for a, p in left.items() if p}
                factors[stands] = factors.get(stands, Fraction(0)) + 1
                c = c / k
    return Expression({(tuple(bound), tuple(sorted(factors.items(), key=repr))): c} if c else {})


# What is written


def written_lines(of: Formula) -> Iterator[tuple[str, str]]:
    """The lines of the VJP on the page, each with its formula."""
    run = run_lines(of.operation, kept=None, one_form=True)
    bars = [symbol(bar_of(name), *y.shape) for name, y in run.results.items()]
    try:
        lines, gradients = run.back(*bars)
        writer = with_bars(writer_of(of.operation, run, Text()))
        for line in lines:
            yield line.code.partition(" = ")[2], " = ".join(written(writer, line.name, line.value)[0])
        for name in moving(run):
            if gradients.get(name) is not None:
                bar = summed_to(lift(called(gradients[name])), lift(run.form.arguments[name]))
                left, right = written(writer, bar_of(name), bar)[0]
                if left != right:
                    yield "", f"{left} = {right}"
    except LACKING as lacking:
        yield "", f"not written out: {in_words(lacking)}"


def called(gradient: Any) -> Any:
    """A gradient that is computed when it is asked for."""
    return gradient() if callable(gradient) else gradient


def compared(of: Formula, steps: tuple[Step, ...]) -> dict[str, Theorem]:
    """For each argument whether what is derived is what the page's VJP gives.

    First with the names of lines, of any numbers, in both: it is a proof where every line is the same in the page's
    own run. Else with all names written out.
    """
    run = of.run
    bars = {step.name: step.value for step in steps}
    lines = {line.name: line.value for line in run.lines} | dict(of.results) | bars
    own = run_lines(of.operation, run.form, kept={line.name for line in run.lines})
    alike = [theorem(line_by_line(of, own), Assumptions(own.assumed))]
    found: dict[str, Theorem] = {}
    for kept, names in ((own, bars), (run_lines(of.operation, run.form, kept=()), lines)):
        if kept is own and not alike[0]:
            continue
        with assuming() as common:
            pairs = zip(of.results, kept.results.values(), strict=True)
            given = kept.back(*(symbol(given_bar(of, name), *y.shape) for (name, _), y in pairs))[1]
        for name in moving(run):
            step = next((step for step in steps if step.name == bar_of(name)), None)
            if step is not None and given.get(name) is not None and not found.get(name):
                both = Assumptions({**common, **kept.assumed})
                one = theorem(differences(step, given[name], run.form.arguments[name], names), both)
                found[name] = one
        if found and all(found.values()):
            break
    return found


def line_by_line(of: Formula, own: Run) -> Callable:
    """What the lines of the formula, and its results, are less those of the page's own run, by their names in both."""

    def differences() -> Iterator[Expression]:
        known = {line.name: line.value for line in own.lines}
        if known.keys() != {line.name for line in of.run.lines}:
            raise NoRule("lines of other names")
        pairs = [(line.value, known[line.name]) for line in of.run.lines]
        pairs += zip(of.run.results.values(), own.results.values(), strict=True)
        for x, y in pairs:
            for at, _ in places(x.shape):
                yield x.at(at) - y.at(at)

    return differences


def differences(step: Step, gradient: Any, x: Any, lines: Mapping[str, Indexed]) -> Callable:
    """What is derived less what is written, at all indices."""

    def of() -> Iterator[Expression]:
        bar = summed_to(lift(called(gradient)), x)
        for at, _ in places(x.shape):
            yield written_out(step.value.at(at), lines) - bar.at(at)

    return of


# The command


def page_named(name: str) -> Any:
    """The page of this name. ValueError, with the nearest names, where there is none."""
    known = operations()
    if name not in known:
        raise ValueError(f"{name} is no page{closest(name, known)}")
    return known[name]


def operations() -> dict[str, Any]:
    """The pages that have a name in refnp.layers or refnp.autograd."""
    modules = (refnp.autograd, refnp.layers)
    every = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {name: operation for name, operation in every.items() if hasattr(operation, "page")}


def command(name: str) -> int:
    """Print the derivation of a page; 1 if a gradient is not shown to be what is written. ValueError for no page."""
    operation = page_named(name)
    try:
        found = derive(operation)
    except LACKING as lacking:
        print(f"{name}: not derived: {in_words(lacking)}")
        return 1
    print(found.text)
    return int(not all(found.theorems.values()))
