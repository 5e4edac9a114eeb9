"""The gradients on pages proved for every size: arrays of unknown numbers are made from what a function declares.

A letter of a declaration is a size, an option that is a number a number, and a mask an array of unknown 0s and 1s. A
page is proved in several `forms`: with what may be left out and without it, for every choice of every option, along
one axis and several. What is proved for every size is also computed at drawn sizes in a finite field, where it would
be found out if it were not so.
"""

import ast
import inspect
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.declaration import Declaration
from refnp.autograd.notation import Argument, Option, Shape
from refnp.autograd.tensor import Node, Tensor
from refnp.layers.positions.biases import alibi_slopes, t5_buckets
from refnp.layers.positions.relative import shaw_rows
from refnp.layers.student_t import gamma_ratio
from refnp.numbers.indexed.arrays import Condition, Indexed, Places, mask, symbol
from refnp.numbers.indexed.expressions import assume
from refnp.numbers.indexed.indices import meaning
from refnp.numbers.indexed.proving import LACKING, Theorem, gradients, in_words, unknown_page
from refnp.numbers.indexed.sizes import Size, length_at, product_of
from refnp.numbers.indexed.sizes import places as indices_of
from refnp.numbers.indexed.terms import NoRule
from refnp.numbers.proving import vjp_is_derivative
from refnp.symmetry.shapes import unknown_arrays
from refnp.verify.case import Case

NUMBERS = ("≥ 0", "≥ 1", "positive", "finite", "number", "in [0, 1)", "in [0, 1]")
OPTION = re.compile(r"(\w+) = ([\w.'-]+)")
DRAWS = 2  # of sizes and numbers, at which a theorem is computed in the field; one of what is made of such pages


Indexed.functions |= {
    shaw_rows: lambda offsets, distance: Places(f"row {distance}", offsets.shape, 2 * distance + 1),
    t5_buckets: lambda offsets, **options: Places(f"row {options}", offsets.shape, options["buckets"]),
}
Size.functions[alibi_slopes] = lambda heads: symbol("slope", heads)


class Form(NamedTuple):
    """One way to call a page: arguments by place, None for what is left out, and options."""

    name: str
    arguments: dict[str, Indexed | None]
    options: dict[str, Any]
    positive: frozenset[str] = frozenset()  # the names of those whose numbers are positive


class Maker:
    """Makes the forms of a function from its declaration."""

    def __init__(self, declaration: Declaration):
        self.of = declaration
        self.sizes: dict[str, Size] = {}
        defaults, options = declaration.defaults, declaration.options
        self.usual = {name: self.value(option, defaults.get(name)) for name, option in options.items()}

    def forms(self) -> Iterator[Form]:
        """The usual form, and every other that differs from it in one thing."""
        optional = [name for name, argument in self.of.arguments.items() if argument.optional]
        yield self.form("usual")
        for name in optional:
            yield self.form(f"with {name}", given=(name,))
        if len(optional) > 1:
            yield self.form("with all", given=tuple(optional))
        for name, argument in self.of.arguments.items():
            for k in range(1, len(argument.shapes)):
                yield self.form(f"{name} {argument.shapes[k]}", shapes={name: k})
        if self.of.moved:
            yield self.form("along the first axis", options={"axis": 0})
            yield self.form("along two axes", options={"axis": (-2, -1)}, rank=2)
        elif any(shape.run for argument in self.of.arguments.values() for shape in argument.shapes):
            yield self.form("of one axis more", rank=2)
        for name, option in self.of.options.items():
            for value in self.others(option, self.usual[name]):
                shown = name if isinstance(value, Indexed) else f"{name}={value}"
                yield self.form(shown, options={name: value})

    def value(self, option: Option, default: Any) -> Any:
        """The value of an option in the usual form: a number of its own for a number, a size for a whole one."""
        if type(default) is float and option.text.removesuffix("?") in NUMBERS:
            return symbol(option.name)
        if default is None and not option.optional and option.text == "whole ≥ 1":
            return self.size(option.name)
        if default is None and not option.optional and option.text == "whole ≥ 0":
            return Places(option.name, (), self.size(f"most of {option.name}"))
        return default

    def others(self, option: Option, usual: Any) -> Iterator[Any]:
        """The other values that are tried."""
        if usual is None and option.text.removesuffix("?") in NUMBERS:
            yield symbol(option.name)
        elif option.text == "True or False":
            yield not usual
        elif option.choices:
            yield from (choice for choice in option.choices if choice != usual)

    def form(self, name: str, *, given: tuple = (), shapes: Any = None, options: Any = None, rank: int = 1) -> Form:
        """One form: what is given of what may be left out, which of its shapes an argument has, options."""
        chosen = self.usual | (options or {})
        for option in self.of.several:
            if option.name not in self.of.defaults:
                chosen[option.name] = tuple(self.size(f"{option.name}{'′' * k}") for k in range(rank))
        arrays: dict[str, Any] = {}
        for argument in self.of.arguments.values():
            left_out = argument.optional and argument.name not in given
            written = argument.shapes[(shapes or {}).get(argument.name, 0)]
            arrays[argument.name] = None if left_out else self.array(argument, written, rank, chosen)
        by_place = {name: arrays.get(name) for name in self.of.places if name in self.of.arguments}
        by_name = {name: array for name, array in arrays.items() if name not in by_place and array is not None}
        kinds = {name: argument.shapes[0].kind for name, argument in self.of.arguments.items()}
        positive = (
            name for name, kind in kinds.items() if kind in ("positive", "nonnegative", "weights", "probability")
        )
        return Form(name, by_place, chosen | by_name, frozenset(positive))

    def array(self, argument: Argument, written: Shape, rank: int, options: Mapping[str, Any]) -> Indexed:
        """An array of unknown numbers of this shape."""
        axes = [self.size("B")] if written.batch else []
        for axis in written.axes:
            if axis[0] == "*":
                axes += [self.size(f"{axis[1:]}{'′' * k}") for k in range(rank)]
            else:
                axes.append(product_of([self.factor(name, options) for name in axis.split("·")]))
        if argument.name == self.of.moved and options.get("axis") == 0:
            axes = axes[1:] + axes[:1]
        if written.kind == "boolean":
            return mask(argument.name, *axes)
        if written.kind == "whole":
            return Places(argument.name, axes, self.size(written.below or "positions"))
        if written.kind == "grid":
            raise TypeError(f"{argument.name}: no rule for a grid")
        return symbol(argument.name, *axes)

    def factor(self, name: str, options: Mapping[str, Any]) -> Any:
        """What a factor of an axis is: a number, an option or a letter."""
        return int(name) if name.isdigit() else options[name] if name in options else self.size(name)

    def size(self, name: str) -> Size:
        """The letter of this name."""
        return self.sizes.setdefault(name, Size(name))


def forms_of(function: Callable, cases: Sequence[Case] = ()) -> list[Form]:
    """The forms in which a function is called; none where it takes what has no rule.

    Forms that it refuses are left out. Where it wants two letters of its declaration to be one, they are. Without a
    declaration there are those that its layer has written, or the form of one of the cases.
    """
    if cases and cases[0].layer.shapes:
        return list(written(cases[0].layer.shapes))
    declaration = getattr(function, "takes", None)
    if not isinstance(declaration, Declaration) or not declaration.arguments:
        return list(filter(lambda form: is_taken(function, form), undeclared(cases)))
    maker = Maker(declaration)
    try:
        forms = list(maker.forms())
    except TypeError:
        forms = []
    if forms and not is_taken(function, forms[0]):
        for one, other in itertools.combinations(list(maker.sizes), 2):
            alike = Maker(declaration)
            alike.sizes[other] = alike.size(one)
            if is_taken(function, alike.form("usual")):
                forms = list(alike.forms())
                break
    return [form for form in forms if is_taken(function, form)] or [
        form for form in undeclared(cases) if is_taken(function, form)
    ]


def written(shapes: Mapping[str, str]) -> Iterator[Form]:
    """The forms that are written: arguments, and behind a semicolon options, "heads = H, mask boolean (N, M)"."""
    for form, text in shapes.items():
        of_arguments, _, of_options = text.partition(";")
        arrays = unknown_arrays(text)
        options: dict[str, Any] = {name: arrays[name] for name in arrays.keys() - unknown_arrays(of_arguments).keys()}
        for name, value in OPTION.findall(of_options):
            options[name] = Size(value) if len(value) == 1 and value.isalpha() else ast.literal_eval(value)
        given: dict[str, Any] = {name: x for name, x in arrays.items() if name not in options}
        yield Form(form, given, options)


def undeclared(cases: Sequence[Case]) -> Iterator[Form]:
    """The form of the case with fewest options, fewest axes of 1 and most lengths; equal lengths are one letter.

    None of a case with integers, of which it is not known what they are places of.
    """
    if not cases:
        return
    lengths_of = lambda case: sorted({n for a in case.problem("float64").arrays.values() for n in a.shape})
    shapes_of = lambda case: [n for a in case.problem("float64").arrays.values() for n in a.shape]
    case = min(cases, key=lambda case: (len(case.options), shapes_of(case).count(1), -len(lengths_of(case))))
    letters = {n: Size(f"n{k}") for k, n in enumerate(lengths_of(case))}

    def unknown(name: str, x: Any) -> Any:
        if isinstance(x, float):
            return symbol(name)
        if not isinstance(x, np.ndarray):
            return x
        shape = [1 if n == 1 else letters.setdefault(n, Size(f"n{len(letters)}")) for n in x.shape]
        return mask(name, *shape) if x.dtype == bool else symbol(name, *shape)

    arrays = {name: unknown(name, x) for name, x in case.problem("float64").arrays.items()}
    options = {name: unknown(name, x) for name, x in case.options.items()}
    if not any(isinstance(x, np.ndarray) and x.dtype.kind in "iu" for x in case.options.values()):
        yield Form("as in a case", arrays, options, frozenset(arrays))


def is_taken(function: Callable, form: Form) -> bool:
    """Whether the function takes a call of this form at some drawn sizes."""
    for seed in range(12):
        arguments, options = numbers_of(form, seed, longest=3 + seed, least=2)
        try:
            with np.errstate(all="ignore"):
                function(*arguments.values(), **options)
        except (TypeError, ValueError):
            continue
        return True
    return False


def of_page(page: Callable, forms: list[Form]) -> Iterator[Form]:
    """The forms that the page knows, where the function around it takes options that the page has not.

    Those are left out in which the gradient is not meant to be the derivative.
    """
    other = getattr(page, "other_gradient", ())
    forms = [form for form in forms if all(form.options.get(name) == forms[0].options.get(name) for name in other)]
    parameters = inspect.signature(getattr(page, "of", page)).parameters.values()
    names = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        yield from forms
        return
    for form in forms:
        left_out = {name: value for name, value in form.options.items() if name not in names}
        if all(isinstance(value, Indexed) or value == forms[0].options.get(name) for name, value in left_out.items()):
            yield form._replace(options={name: value for name, value in form.options.items() if name in names})


def proofs(page: Callable, function: Callable, cases: Sequence[Case] = ()) -> dict[str, dict[str, Theorem]]:
    """{argument: {form: what is known of its gradient}} of the page of a function, each theorem computed in the field.

    Raises AssertionError where the field finds a theorem to be false.
    """
    found: dict[str, dict[str, Theorem]] = {}
    for form in of_page(page, forms_of(function, cases)):
        by_steps = getattr(page, "of", None)
        of = abstract(page) if not by_steps else page
        known = chained(by_steps, form) if by_steps else gradients(of, form.arguments, **form.options)
        for name, theorem in known.items():
            found.setdefault(name, {})[form.name] = theorem
        proved = [name for name, theorem in known.items() if theorem.proved]
        if proved:
            refuse_false(page, form, proved, 1 if by_steps else DRAWS)
    return found


# Functions of pages


def abstract(page: Callable) -> Callable:
    """A page in which functions of elements that are pages themselves are any functions, with their derivatives.

    Of s and s′ of Student's t the second is taken to be the derivative of the first, as an assumption.
    """
    function: Any = inspect.unwrap(page)
    used = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    scope: dict[str, Any] = {}
    for name, of in used.items():
        if of is gamma_ratio:
            scope[name] = unknown_ratio
        elif hasattr(of, "page") and hasattr(of, "takes") and of.takes.takes_any_array:
            scope[name] = SimpleNamespace(page=unknown_page(name))
    if not scope or function.__closure__:
        return page
    made = FunctionType(function.__code__, function.__globals__ | scope, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def unknown_ratio(a: Any) -> tuple:
    """`gamma_ratio` as a function of which nothing is known but that its second result is the slope of its first."""
    if not isinstance(a, Indexed):
        return gamma_ratio(a)
    assume("of a function", "the second result of gamma_ratio is the derivative of its first")
    s, vjp = unknown_page("gamma_ratio")(a)
    return s, *vjp(1), None


def chained(function: Callable, form: Form) -> dict[str, Theorem]:
    """The chain rule: where every step of a function on a tape has a proved VJP, its gradient is proved.

        v_k = f_k(v_i, v_j …)        v̄_i = Σ_k (∂f_k/∂v_i)ᵀ v̄_k, summed over the steps k that take v_i

    The walk back computes this sum from the VJP of each f_k. Each is proved of arrays of unknown numbers in place of
    v_i, v_j …, so of those that come there, wherever the step stands: a deeper model needs no other theorems. What a
    step takes beside the tape must not depend on the arguments, or their gradients would lack what goes that way.
    """
    start = time.perf_counter()
    names = [name for name, x in form.arguments.items() if x is not None]
    given: list[Any] = list(form.arguments.values())
    tensors = [x if x is None else Tensor(x, requires_grad=True) for x in given]
    try:
        nodes = nodes_of(function(*tensors, **form.options))
        steps = [step_theorem(node, names) for node in nodes]
    except LACKING as lacking:
        nodes, steps = [], [Theorem(False, (), in_words(lacking), 0.0)]
    missing = next((step.missing for step in steps if not step.proved), "")
    assumptions = tuple(sorted({a for step in steps for a in step.assumptions}))
    pages = tuple(sorted({node.operation.__name__ for node in nodes}))
    seconds = (time.perf_counter() - start) / len(names)
    found = Theorem(False, (), missing, seconds) if missing else Theorem(True, assumptions, "", seconds, pages)
    return dict.fromkeys(names, found)


def nodes_of(result: Any) -> list[Node]:
    """The steps behind a result, each once."""
    found: dict[int, Node] = {}
    waiting: list[Any] = [result]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (tuple, list)):
            waiting += one
        elif isinstance(one, Tensor) and one.node is not None and id(one.node) not in found:
            found[id(one.node)] = one.node
            waiting += one.node.arguments or ()
    return list(found.values())


def step_theorem(node: Any, names: Sequence[str]) -> Theorem:
    """That the VJP of a step is its derivative by all that has a gradient.

    It is first tried with letters that are as few as can be, one for each axis that is several, one behind the other:
    what holds for every length does for theirs, and for other steps.
    """
    given: list[Any] = [a.data if isinstance(a, Tensor) else a for a in node.arguments]
    moving = tuple(i for i, a in enumerate(node.arguments) if isinstance(a, Tensor) and a.requires_grad)
    for x in (*(a for i, a in enumerate(given) if i not in moving), *node.options.values()):
        if isinstance(x, Indexed) and depends(x, names):
            raise NoRule(f"{node.operation.__name__} takes an array that hangs on the arguments, beside the tape")
    for letters in (Letters(), OwnLetters()):
        full = [unknown_like(x, f"{node.operation.__name__}.{i}", letters, i in moving) for i, x in enumerate(given)]
        others = {name: unknown_like(x, name, letters) for name, x in sorted(node.options.items())}
        options = [(name, form_of_array(x)) for name, x in others.items()]
        key = node.operation, repr([moving, *map(form_of_array, full), options])
        if key not in _steps or "at 0x" in key[1]:
            _steps[key] = of_step(node.operation, full, others, moving)
        if _steps[key]:
            break
    return letters.in_own(_steps[key])


_steps: dict[tuple[Callable, str], Theorem] = {}  # what is known of steps, by what they take


class Letters:
    """Letters n₁, n₂ … in place of those of sizes, in the order in which they come."""

    def __init__(self) -> None:
        self.new: dict[str, Size] = {}

    def of(self, size: Any) -> Any:
        """The size in these letters."""
        if not isinstance(size, Size) or size.way == "difference":
            return size
        if size.way == "product":
            return product_of([self.of(part) for part in size.parts])
        return self.new.setdefault(repr(size), Size(f"n{str(len(self.new) + 1).translate(LOWERED)}"))

    def in_own(self, theorem: Theorem) -> Theorem:
        """The theorem with its assumptions in the letters of the step."""
        own = {repr(new): old for old, new in self.new.items()}
        told = lambda text: INDEXED.sub(lambda found: own.get(found[0], found[0]), text)
        return theorem._replace(assumptions=tuple(map(told, theorem.assumptions)), missing=told(theorem.missing))


LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
INDEXED = re.compile("n[₀-₉]+")


class OwnLetters(Letters):
    """The letters that are there."""

    def of(self, size: Any) -> Any:
        return size


def form_of_array(x: Any) -> Any:
    """What a theorem about a step may depend on: of unknown numbers the shape alone."""
    if not isinstance(x, Indexed) or isinstance(x, Places):
        return x
    if x.shape == () and not isinstance(x, Condition):
        return x.at(())
    return type(x).__name__, x.shape, None if x.seen is None else object()


def of_step(operation: Any, full: Sequence[Any], options: Mapping[str, Any], moving: tuple) -> Theorem:
    """The theorem, of these arrays of unknown numbers."""
    page = getattr(operation, "page", operation.__wrapped__)

    def of_moving(*arrays: Any) -> tuple:
        among = list(full)
        for i, array in zip(moving, arrays, strict=True):
            among[i] = array
        y, vjp = page(*among, **options)

        def vjp_of_moving(*bars: Any) -> tuple:
            gradients = vjp(*bars)
            return tuple(gradients[i] for i in moving)

        return y, vjp_of_moving

    known = gradients(of_moving, {f"{operation.__name__}.{i}": full[i] for i in moving})
    lacking = [theorem.missing or "no gradient" for theorem in known.values() if not theorem.proved]
    if len(known) < len(moving):
        lacking.append("no gradient")
    what = f"{operation.__name__}: {lacking[0]}" if lacking else ""
    assumptions = {a for theorem in known.values() for a in theorem.assumptions}
    return Theorem(not lacking, tuple(sorted(assumptions)), what, 0.0)


def unknown_like(x: Any, name: str, letters: Letters, moving: bool = False) -> Any:
    """An array of unknown numbers like it: 0 or 1 where those are, −∞ where it is. Places, and one number, stay."""
    if type(x) in (tuple, list):
        return type(x)(unknown_like(one, f"{name}.{i}", letters) for i, one in enumerate(x))
    if isinstance(x, Size):
        return letters.of(x)
    if not isinstance(x, Indexed) or isinstance(x, Places):
        return x
    if x.shape == () and not isinstance(x, Condition) and not moving:
        return x
    if x.seen is not None:
        return Indexed(x.shape, symbol(name, *x.shape).at, x.seen)
    return (mask if isinstance(x, Condition) else symbol)(name, *map(letters.of, x.shape))


def depends(x: Indexed, names: Sequence[str]) -> bool:
    """Whether any of these arrays stands in an expression."""
    waiting = [repr(x.at(at)) for at, _ in indices_of(x.shape)]
    waiting += [] if x.seen is None else [repr(x.seen.at(at)) for at, _ in indices_of(x.shape)]
    named: set[str] = set()
    while waiting:
        text = waiting.pop()
        if any(f"('x', {name!r}" in text for name in names):
            return True
        inner = {name for name in meaning if name in text} - named
        waiting += [meaning[name].text for name in inner]
        named |= inner
    return False


def refuse_false(page: Callable, form: Form, proved: list[str], wanted: int = DRAWS) -> None:
    """AssertionError if a gradient that is proved for every size is not the derivative at drawn sizes.

    Sizes that a page refuses, such as a kernel longer than its signal, are drawn anew.
    """
    draws = 0
    for seed in range(10):
        arrays, options = numbers_of(form, seed, longest=2 + seed)
        among = [list(arrays).index(name) for name in proved]
        try:
            found = vjp_is_derivative(page, list(arrays.values()), among=among, seed=seed, **options).holds
        except ValueError:
            continue
        draws += 1
        if found is False:
            shapes = {name: x.shape for name, x in arrays.items() if x is not None}
            raise AssertionError(f"{form.name}: proved for every size and false at {shapes}, options {options}")
        if draws == wanted:
            return
    assert draws, f"{form.name}: proved for every size, and computed at none"


def numbers_of(form: Form, seed: int, longest: int = 3, least: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Drawn numbers in place of the unknown ones of a form: its arguments and options. The first sizes differ."""
    rng = np.random.default_rng(seed)
    lengths = itertools.cycle(rng.permutation(np.arange(least, longest + 6)))
    sizes = cache(lambda name: int(next(lengths)))

    def drawn(name: str, x: Any) -> Any:
        if isinstance(x, Size):
            return length_at(x, sizes)
        if isinstance(x, tuple):
            return tuple(drawn(name, one) for one in x)
        if not isinstance(x, Indexed):
            return x
        shape = [length_at(n, sizes) for n in x.shape]
        if isinstance(x, Condition):
            return (rng.random(shape) < 0.7) | (np.arange(shape[-1]) == 0)  # no row is all 0
        if isinstance(x, Places):
            found = rng.integers(0, length_at(x.length, sizes), shape)
            return found if shape else int(found)
        if not shape and name in form.options:
            return 0.4 + 0.2 * rng.random()
        return 0.1 + 0.8 * rng.random(shape) if name in form.positive else rng.normal(size=shape)

    arguments = {name: drawn(name, x) for name, x in form.arguments.items()}
    return arguments, {name: drawn(name, x) for name, x in form.options.items()}
