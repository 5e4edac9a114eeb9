"""The lines of a page as they run on arrays whose sizes are letters: each names an expression of those before it.

    run = run_lines(layers.softmax)
    [line.name for line in run.lines]        ["e", "p"]

After every assignment the value is exchanged for an array of unknown numbers with the name of the line, so that what
comes after it is an expression of that name and not of all that stands behind it. Functions of the same file are opened
as the page is; what stands elsewhere, as softmax does for attention, is part of the line that uses it.
"""

import ast
import contextlib
import contextvars
import copy
import inspect
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.explanation.page_lines import SHAPES
from refnp.numbers.indexed.arrays import Indexed, symbol
from refnp.numbers.indexed.expressions import (
    Expression,
    function,
    opened,
    power,
    term,
    total,
)
from refnp.numbers.indexed.proving import LACKING, sentences
from refnp.numbers.indexed.sizes import places
from refnp.numbers.indexed.terms import Index, NoRule, assuming, canonical
from refnp.verify.edits.edited import form_of
from refnp.verify.edits.opened import Opened
from refnp.verify.theorems import Form, forms_of, numbers_of


class Line(NamedTuple):
    """A name, what it is a name for, the `symbol` that stands for it in what follows, and the code and its comment."""

    name: str
    value: Indexed
    symbol: Indexed
    code: str
    comment: str

    @property
    def letter(self) -> str:
        """The letter that the comment gives it, or ""."""
        return self.comment if is_letter(self.comment) else ""


@dataclass
class Run:
    """A page that has run: its arguments, its lines, its results with their names, its VJP, and what was assumed."""

    operation: Any
    form: Form
    kept: Collection[str] | None  # the names that lines keep; all of them if None
    lines: list[Line] = field(default_factory=list)
    results: dict[str, Indexed] = field(default_factory=dict)
    vjp: Callable = field(default=lambda *bars: ())
    assumed: dict = field(default_factory=dict)

    def name(self, name: str, value: Any, code: str, comment: str) -> Any:
        """The array of unknown numbers that stands for a value from now on; the value where it needs no name."""
        if type(value) is not Indexed or (self.kept is not None and name not in self.kept) or not needs_name(value):
            return value
        while name in self.taken():
            name += "′"
        stands = symbol(name, *value.shape)
        if value.seen is not None:
            stands = Indexed(value.shape, stands.at, value.seen)
        self.lines.append(Line(name, value, stands, code, comment))
        return stands

    def taken(self) -> set[str]:
        """The names that arguments, options and lines have."""
        return {*self.form.arguments, *self.form.options, *(line.name for line in self.lines)}

    def back(self, *bars: Indexed) -> tuple[list[Line], dict[str, Any]]:
        """The lines of the VJP for these gradients of the results, and the gradient of each argument."""
        count = len(self.lines)
        token = _running.set(self)
        try:
            found = self.vjp(*bars)
        finally:
            _running.reset(token)
        return self.lines[count:], dict(zip(self.form.arguments, found, strict=False))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Under which the lines are what they are."""
        return sentences(self.assumed)


_running = contextvars.ContextVar[Run | None]("running", default=None)


def run_lines(
    operation: Any, form: Form | None = None, kept: Collection[str] | None = None, *, one_form: bool = False
) -> Run:
    """The page of an operation, run forward in its usual form or another. TypeError where a rule is missing.

    With `one_form` a comparison that only chooses between two forms of one function, for their digits, does not hold.
    """
    if form is None:
        form = usual_form(operation)
    run = Run(operation, form, kept)
    token = _running.set(run)
    try:
        with assuming() as assumed:
            results, run.vjp = named_page(operation, one_form)(*form.arguments.values(), **form.options)
    finally:
        _running.reset(token)
    run.assumed = assumed
    several = results if isinstance(results, tuple) else (results,)
    run.results = dict(zip(names_of_results(operation), several, strict=True))
    return run


@cache
def usual_form(operation: Any) -> Form:
    """The form of a call in which all that may be left out is, and what is 0 by default. TypeError if there is none."""
    forms = forms_of(operation)
    if not forms:
        raise NoRule(f"{operation.__name__} declares no shapes that letters can have")
    defaults = operation.takes.defaults
    options = {name: x if defaults.get(name) != 0.0 else defaults[name] for name, x in forms[0].options.items()}
    return forms[0]._replace(options=options)


DRAWS = 3  # of numbers, at which forms of a page are compared
Comparison = tuple[Callable, str]  # the function in which it stands, and its code


@cache
def named_page(operation: Any, one_form: bool) -> Callable:
    """The page, with its parts, whose assignments tell the run that is under way."""
    page = Opened.of(operation)
    idle = idle_comparisons(operation) if one_form else frozenset()
    trees = {one.function: naming(one, idle) for one in opened_parts(page)}
    return form_of(operation, page.compiled(trees, {"_named": _named, "_no": np.False_}))


def opened_parts(page: Opened) -> list[Opened]:
    """The page, what it uses of its file, and parts of pages from elsewhere."""
    return [one for one in page.all() if one.path == page.path or is_part(one)]


@cache
def idle_comparisons(operation: Any) -> frozenset[Comparison]:
    """The comparisons without which the page computes the same at drawn numbers: they choose between forms."""
    page, form = Opened.of(operation), usual_form(operation)
    taken, right = [], []
    for seed in range(12):
        draw = numbers_of(form, seed, longest=4 + seed, least=2)
        with contextlib.suppress(TypeError, ValueError):  # sizes that do not fit together
            right.append(computed(operation.page, draw))
            taken.append(draw)
        if len(taken) == DRAWS:
            break
    found = set()
    for one in opened_parts(page):
        for node in ast.walk(one.tree):
            if isinstance(node, ast.Compare) and is_real(node):
                comparison = one.function, ast.unparse(node)
                tree = Undecided.in_tree(one, frozenset([comparison]))
                without = form_of(operation, page.compiled({one.function: tree}, {"_no": np.False_}))
                with contextlib.suppress(TypeError, ValueError):
                    if all(are_close(computed(without, draw), y) for draw, y in zip(taken, right, strict=True)):
                        found.add(comparison)
    return frozenset(found)


def computed(of: Callable, draw: tuple[dict, dict]) -> Any:
    """The results of a page at drawn numbers."""
    arguments, options = draw
    with np.errstate(all="ignore"):
        return of(*arguments.values(), **options)[0]


def are_close(x: Any, y: Any) -> bool:
    """Whether results agree to ten digits."""
    several = x if isinstance(x, tuple) else (x,)
    others = y if isinstance(y, tuple) else (y,)
    return all(np.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(several, others, strict=True))


def is_real(node: ast.AST) -> bool:
    """Whether a real part stands in a piece of code."""
    return any(isinstance(one, ast.Attribute) and one.attr == "real" for one in ast.walk(node))


def is_part(used: Opened) -> bool:
    """Whether what a page uses is a part of pages, and neither a page itself nor a word."""
    return used.operation is None and not used.file.startswith("words")


def _named(*line: Any) -> Any:
    run = _running.get()
    return line[1] if run is None else run.name(*line)


class Undecided(ast.NodeTransformer):
    """Takes comparisons of a function not to hold."""

    def __init__(self, function: Callable, idle: frozenset[Comparison]):
        self.function, self.idle = function, idle

    @classmethod
    def in_tree(cls, page: Opened, idle: frozenset[Comparison]) -> ast.FunctionDef:
        """The function without them."""
        return ast.fix_missing_locations(cls(page.function, idle).visit(copy.deepcopy(page.tree)))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Of `x.real > 0`."""
        idle = (self.function, ast.unparse(node)) in self.idle
        return ast.copy_location(ast.Name("_no", ast.Load()), node) if idle else node


def naming(page: Opened, idle: frozenset[Comparison]) -> ast.FunctionDef:
    """The function with `x = _named("x", x, code, comment)` behind every assignment to x."""
    lines, _ = inspect.getsourcelines(page.function)
    tree = Undecided.in_tree(page, idle)
    for node in ast.walk(tree):
        for block in ("body", "orelse"):
            body = getattr(node, block, None)
            if isinstance(body, list):
                setattr(node, block, [new for one in body for new in (one, *_told(one, lines))])
    return ast.fix_missing_locations(tree)


def _told(node: ast.stmt, lines: list[str]) -> list[ast.stmt]:
    """What stands behind a statement: nothing but for an assignment to names."""
    if not isinstance(node, ast.Assign):
        return []
    comment = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")[2].strip()
    said = repr(ast.unparse(node)), repr(SHAPES.sub("", comment))
    names = [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    text = "\n".join(f"{name} = _named({name!r}, {name}, {', '.join(said)})" for name in names)
    return ast.parse(text).body


def names_of_results(operation: Any) -> list[str]:
    """What a page calls what it returns; `y` where that has no name."""
    last = Opened.of(operation).tree.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    first = value.elts[0] if isinstance(value, ast.Tuple) else value
    every = first.elts if isinstance(first, ast.Tuple) else [first]
    return [one.id if isinstance(one, ast.Name) else f"y{'′' * k}" for k, one in enumerate(every)]


def needs_name(value: Indexed) -> bool:
    """Whether a value is more than a number, or entries of an array that has a name."""
    try:
        with assuming():
            entries = [value.at(at) for at, _ in places(value.shape)]
    except LACKING:
        return False
    return any(is_more_than_entry(e) for e in entries)


def is_more_than_entry(e: Expression) -> bool:
    """Whether an expression of some entries is not one of them."""
    if "('x'" not in repr(dict(e)):
        return False
    ((bound, factors), c), *others = e.items()
    return bool(others or bound) or c != 1 or len(factors) != 1 or factors[0][0][0] != "x" or factors[0][1] != 1


def is_letter(comment: str) -> bool:
    """Whether a comment is one letter, with or without a mark above it: x̂, s, A."""
    plain = "".join(c for c in unicodedata.normalize("NFD", comment) if not unicodedata.combining(c))
    return len(plain) == 1 and plain.isalpha()


def written_out(e: Expression, lines: Mapping[str, Indexed]) -> Expression:
    """The expression with what these names stand for in their place."""
    parts = []
    for (b, f), c in e.items():
        one = term((), (), c)
        for a, p in f:
            if a[0] == "x" and a[1] in lines:
                one = one * power(Expression(canonical(written_out(lines[a[1]].at(a[2]), lines))), p)
            elif a[0] in ("f", "^"):
                inside = Expression(canonical(written_out(opened(a[-1]), lines)))  # equal terms are one
                one = one * power(inside if a[0] == "^" else function(a[1], inside), p)
            else:
                one = one * term((), ((a, p),))
        parts.append(one.summed(b))
    return total(parts)


def stands_in(name: str, x: Indexed) -> bool:
    """Whether an array stands in an expression."""
    return any(f"('x', {name!r}," in repr(dict(e)) for _, e in entries(x))


def entries(x: Indexed) -> list[tuple[tuple[tuple[Index, ...], list[tuple[str, str]]], Expression]]:
    """The entries of an array, one for each piece of its axes: indices and their letters, and what stands there."""
    return [((at, letters), x.at(at)) for at, letters in places(x.shape)]
