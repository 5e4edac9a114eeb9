"""What a function takes, said once: the shapes as a paper writes them, and what each option may be.

    @takes("query (..., N, d ≥ 1), key (..., M, d), value (..., M, e), bias floating to (..., N, M)? → (..., N, e)",
           mask="boolean to (..., N, M)?, True = may attend", softcap="positive?", method="auto | full | blocks")

notation.py says how it is written. From this line follow the check of every call, with errors that name the function,
the argument, what came and what would be right; the documents; and the inputs that tests draw.
"""

import functools
import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refnp.autograd.errors import ACCIDENTS, OutOfRangeError, explain, shown
from refnp.autograd.notation import ARGUMENT, KINDS, SHAPE, Argument, Option, Several, Shape, is_listed
from refnp.autograd.requirements import Requirement
from refnp.autograd.tensor import Tensor
from refnp.numbers.arrays import broadcast_shapes, fits, normalize_axes
from refnp.numbers.kinds import Kind

F = typing.TypeVar("F", bound=Callable)
PLAIN = {list, tuple, bool, int, float, complex}  # what is no array yet
REMEMBERED = 256  # calls of a function that fitted, by options of these kinds
REMEMBERED_KINDS = {type(None), bool, int, float, str}
GIVEN = re.compile(rf"(\w+) ({SHAPE}(?: or {SHAPE})*\??)")


class Declaration:
    """What `function` takes: `arguments` and `options` by name, and the `result`, as `takes` has them.

    The option axis="axes of x" says that the run of axes of x (..., *D) are not the last ones, but those given; `needs`
    what they need of each other (requirements.py). In a method a word in place of a letter, as in
    x (B, channels_in, *L), is an attribute of the object, if it is no option.
    """

    def __init__(self, function: Callable, text: str, options: Mapping[str, str]):
        needs, options = options.get("needs", ""), {name: of for name, of in options.items() if name != "needs"}
        owner, _, method = function.__qualname__.rpartition(".")
        self.name = function.__name__.lstrip("_")
        if owner and not owner.endswith("<locals>"):
            self.name = owner if method in ("__init__", "__call__") else f"{owner}.{method}"
        arrays = {name: of for name, of in options.items() if ARGUMENT.fullmatch(of)}
        found = [dict(GIVEN.findall(form.partition("→")[0])) for form in text.split(";")]
        written = [{**given, **arrays, **given} for given in found]
        self.forms = [{name: Argument.of(name, of) for name, of in form.items()} for form in written]
        self.arguments, self.result = self.forms[0], text.split(";")[0].partition("→")[2].strip()
        self.moved = next((of.removeprefix("axes of ") for of in options.values() if of.startswith("axes of ")), "")
        plain = {n: of for n, of in options.items() if n not in arrays and not of.startswith("axes of ")}
        self.options = {name: Option.of(name, of) for name, of in plain.items()}
        self.several = [option for option in self.options.values() if isinstance(option, Several)]
        parameters = inspect.signature(function).parameters
        for name in (*self.arguments, *options):
            if name not in parameters:
                raise ValueError(f"takes: {self.name} has no parameter {name}; it has {', '.join(parameters)}")
        self.places = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
        self.by_place = {i: self.arguments[n] for i, n in enumerate(self.places) if n in self.arguments}
        self._bare = max((i for i, a in self.by_place.items() if not a.may_be_number), default=-1) + 1
        self.by_name = [name for name in self.arguments if name not in self.places]
        self.defaults = {p.name: p.default for p in parameters.values() if p.default is not p.empty}
        named = [p for p in parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.required = {p.name for p in named} - self.defaults.keys()
        self.runs = {option.run.lower() for option in self.several if option.run}
        forms = dict.fromkeys(options, form_of_option) | dict.fromkeys(self.arguments, shape_and_kind)
        self._forms: dict[str, Callable] = forms
        self._forms_by_place = [self._forms.get(name) for name in self.places]
        self.checked: Callable | None = None  # the function with its checks, of which a primitive takes the place
        self._fitted: dict[tuple, Callable] = {}
        free = [[(shape.kind, shape.batch, shape.axes) for shape in a.shapes] for a in self.arguments.values()]
        self.takes_any_array = free == [[("", True, ())]]  # whose elements are for themselves
        every = [shape for form in self.forms for argument in form.values() for shape in argument.shapes]
        letters = {factor for shape in every for axis in (*shape.axes, shape.below) for factor in axis.split("·")}
        is_method = self.places[:1] == ["self"] and function.__name__ != "__init__"
        words = {letter.lstrip("*") for letter in letters} - {*parameters} if is_method else set()
        self.attributes = sorted(word for word in words if len(word) > 1 and word.isidentifier())
        self.needs = [Requirement.of(need, {*parameters, *letters}) for need in filter(None, needs.split(";"))]
        self.numbered = [argument for argument in self.arguments.values() if argument.below]
        others = letters & {*options, *(name for need in self.needs for name in need.names)}
        is_compared = self.numbered or self.attributes or others or any("·" in a for shape in every for a in shape.axes)
        self._is_about_equality = not is_compared  # of lengths to each other, and to those up to `_named`
        numbers = [int(letter) for letter in letters if letter.isdigit()]
        self._named = max([1, *numbers, *(n for shape in every for n in shape.least.values())])

    @property
    def shapes(self) -> str:
        """The shapes of the arguments and of the result, as they are written; nothing where there are no arrays."""
        return ", ".join(map(str, self.arguments.values())) + f" → {self.result}" * bool(self.result)

    def __str__(self) -> str:
        options = {name: option.text for name, option in self.options.items()}
        options |= {"axis": f"axes of {self.moved}"} if self.moved else {}
        options |= {"needs": "; ".join(need.text for need in self.needs)} if self.needs else {}
        return "; ".join(filter(None, (self.shapes, *(f"{name}: {of}" for name, of in options.items()))))

    def fitted(self, arguments: tuple, options: dict[str, Any]) -> tuple:
        """The arguments as the function is given them; options are replaced in place. TypeError or ValueError if wrong.

        What was found to fit is remembered, so that later calls with such shapes and options cost little.
        """
        for name in self.by_name:
            option = options.get(name)
            if option is not None and not hasattr(option, "dtype"):
                options[name] = np.asarray(option)
        key: list[Any] = []
        for form, a in zip(self._forms_by_place, arguments, strict=False):
            if form is form_of_option:
                key += type(a), form_of_option(a)
            elif type(a) is np.ndarray:
                key += a.shape, a.dtype
            elif form is not None:
                key += type(a), form(a)
        for name, of in options.items():
            if type(of) in REMEMBERED_KINDS:
                key += name, type(of), of
            elif name in self._forms:
                key += name, type(of), self._forms[name](of)
        for name in self.attributes if arguments else ():
            own = getattr(arguments[0], name, None)
            key += type(own), form_of_option(own)
        try:
            change = self._fitted.get(tuple(key))
        except TypeError:  # a length that is a letter has no hash
            return self._checked(arguments, options)(arguments, options)
        if change is None:
            change = self._found_to_fit(tuple(key), arguments, options)
        return change(arguments, options)

    def _found_to_fit(self, key: tuple, arguments: tuple, options: dict[str, Any]) -> Callable:
        """What `fitted` does to a call with such shapes, types and options, and to all that are like it."""
        alike = self._alike(key)
        change = self._fitted.get(alike) or self._checked(arguments, options)
        if len(self._fitted) >= REMEMBERED:
            self._fitted.clear()
        self._fitted[key] = self._fitted[alike] = change
        return change

    def _checked(self, arguments: tuple, options: dict[str, Any]) -> Callable:
        """What `fitted` does to a call, which is checked."""
        listed = not PLAIN.isdisjoint(map(type, arguments[: self._bare]))
        arrays = self._in_arrays(arguments) if listed else arguments
        given = {**dict(zip(self.places, arrays, strict=False)), **options}
        if not self.required <= given.keys():
            return self._change(listed, [], {}, [])  # Python says best which argument is missing
        return self._change(listed, self.places[: len(arguments)], *self.check(given))

    def _alike(self, key: tuple) -> tuple:
        """What all calls have in common in which the same lengths are equal, if a check depends on nothing else."""
        if not self._is_about_equality:
            return key
        numbers: dict[Any, int] = {}

        def of(part: Any) -> Any:
            if type(part) is tuple:
                return tuple(map(of, part))
            return numbers.setdefault(part, ~len(numbers)) if type(part) is int and part > self._named else part

        return tuple(of(part) if type(part) is tuple else part for part in key)

    def _change(self, listed: bool, places: list[str], tuples: dict[str, tuple], below: list) -> Callable:
        """What `fitted` does to a call: arrays in place of lists, the tuples that `check` found, numbers checked."""
        numbered = [(a, places.index(a.name) if a.name in places else a.name, bound) for a, bound in below]
        placed = [(i, tuples[name]) for i, name in enumerate(places) if name in tuples]
        named = {name: of for name, of in tuples.items() if name not in places}

        def changed(arguments: tuple, options: dict[str, Any]) -> tuple:
            arguments = self._in_arrays(arguments) if listed else arguments
            for argument, place, bound in numbered:
                values = arguments[place] if isinstance(place, int) else options.get(place)
                self._refuse_numbers(argument, values, bound, arguments, options)
            options.update(named)
            for i, value in placed:
                arguments = (*arguments[:i], value, *arguments[i + 1 :])
            return arguments

        return changed if listed or tuples or below else lambda arguments, _: arguments

    def _in_arrays(self, given: tuple) -> tuple:
        """Lists as arrays; Python numbers, which have no precision of their own, as arrays in that of the others.

        Those that stand for integers or booleans alone are what they are, and so is what may be one number.
        """
        listed = (list, tuple)
        found = [np.asarray(a) if type(a) in listed and i in self.by_place else a for i, a in enumerate(given)]
        dtypes = [a.dtype for i, a in enumerate(found) if i in self.by_place and hasattr(a, "dtype")]
        for i, argument in self.by_place.items():
            if i < len(found) and type(found[i]) in PLAIN and not argument.may_be_number:
                found[i] = np.asarray(found[i], None if argument.is_discrete else np.result_type(found[i], *dtypes))
        return tuple(found)

    def _refuse_numbers(self, argument: Argument, values: Any, below: tuple, given: tuple, options: dict) -> None:
        """OutOfRangeError that names the first number which an array cannot hold, of those written `whole < V`."""
        values = values.data if isinstance(values, Tensor) else values
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu" or not values.size:
            return
        most, said = below
        from_0 = values.view(values.dtype.str.replace("i", "u"))  # where a negative number is a large one
        if from_0.item(from_0.argmax()) < most:  # nearly always
            return
        wrong = (values < 0) | (values >= most)
        but = {**self.defaults, **dict(zip(self.places, given, strict=False)), **options}.get(argument.excepted)
        wrong &= True if but is None else values != but
        if wrong.any():
            at, also = np.argwhere(wrong)[0].tolist(), f", or {argument.excepted}" * bool(argument.excepted)
            must = f"use 0 to {most - 1}{also}{argument.remark}"
            raise OutOfRangeError(
                f"{self.name}: {argument.name} holds {values[wrong].flat[0]} at {at}, and {said}; {must}"
            )

    def check(self, given: Mapping[str, Any]) -> tuple[dict[str, tuple], list[tuple[Argument, tuple]]]:
        """What options become of which there may be several; arrays, the lengths their numbers are below, and of what.

        TypeError or ValueError that names what does not fit.
        """
        for option in self.options.values():
            if option.name in given:
                option.check(self.name, given[option.name])
        try:
            fit = self.fit(given)
        except ValueError:  # of which options may be the cause
            for need in self.needs:
                if self.options.keys() >= {*need.names}:
                    need.check(self.name, {**self.defaults, **given}, {}, {})
            raise
        sizes = fit.lengths | {name: getattr(given["self"], name, None) for name in self.attributes}
        values = {**self.defaults, **given}
        for option in self.several:
            several = sizes.get(option.run) if option.run else values.get(option.along)
            count = None if several is None else len(several)
            values[option.name] = option.spread(self.name, values[option.name], count)
        for option in self.options.values():
            value, factor = values[option.name], values.get(option.factor or "")
            if value is not None and factor is not None and value % factor:
                must = f"it must be a multiple of {option.factor}, {factor}"
                raise ValueError(f"{self.name}: {option.name} is {value}; {must}")
        for need in self.needs:
            need.check(self.name, {**sizes, **values}, fit.owners, fit.held)
        known = [(argument, argument.below) for argument in self.numbered if argument.below in sizes]
        below = [(argument, (sizes[letter], fit.said(letter, sizes[letter]))) for argument, letter in known]
        return {option.name: values[option.name] for option in self.several}, below

    def sizes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The lengths of the letters, and of "..."; TypeError or ValueError that names what does not fit."""
        return self.fit(given).lengths

    def fit(self, given: Mapping[str, Any]) -> "Fit":
        """A call held against this; TypeError or ValueError that names what does not fit."""
        forms = {name: shape_and_kind(given[name]) for name in self.arguments if name in given}
        holds = lambda form: all(shape is None or shape[1] in form[name].kinds for name, shape in forms.items())
        found = Fit(self, next(filter(holds, self.forms), self.arguments), given)
        found.learn(forms)
        return found


def form_of_option(value: Any) -> Any:
    """What is remembered of an option beside its type: of a function or a generator nothing; or what equals nothing."""
    if type(value) in REMEMBERED_KINDS or isinstance(value, np.generic):
        return value
    if callable(value) or isinstance(value, np.random.Generator):
        return None
    return repr(value) if type(value) in (tuple, list) else object()


def shape_and_kind(value: Any) -> Any:
    """Shape of an array and the kind of its numbers, "G" for a Grid of places; None for what is left out."""
    if value is None:
        return None
    if not hasattr(value, "dtype"):
        if hasattr(value, "lengths"):
            return value.shape, "G"
        if isinstance(value, Kind):
            return value.shape, "f"  # type: ignore[attr-defined]
        value = np.asarray(value)
    return value.shape, value.dtype.kind


class Fit:
    """One call held against a declaration: the lengths of letters, and which argument said them first."""

    def __init__(self, declaration: Declaration, arguments: Mapping[str, Argument], given: Mapping[str, Any]):
        self.of, self.name, self.arguments, self.given = declaration, declaration.name, arguments, given
        self.lengths: dict[str, Any] = {}
        self.owners: dict[str, str] = {}
        self.fronts: dict[str, tuple[int, ...]] = {}
        self.ranks: dict[str, tuple[int | None, str]] = {}
        self.held: dict[str, str] = {}  # what arrays hold that may hold one of two things

    def learn(self, forms: Mapping[str, Any]) -> None:
        """The lengths of all letters, and of the axes in front.

        Axes that are products of letters are compared when all others are known, and last what broadcasts.
        """
        arguments = self.arguments
        found = {name: self._shape(arguments[name], form) for name, form in forms.items()}
        shapes = {name: shape for name, shape in found.items() if shape is not None}
        self._count_axes(shapes)
        for name in sorted(shapes, key=lambda name: (arguments[name].has_product, not arguments[name].run)):
            if not arguments[name].broadcast:
                self._learn(arguments[name], shapes[name])
        front = self._front()
        late = [name for name in shapes if arguments[name].broadcast]
        for run in {axis for name in late for axis in arguments[name].shapes[0].axes if axis[0] == "*"}:
            if self._value(run) is None:  # the shape of the largest
                given = [shapes[name] for name in late if name not in self.of.by_name]
                self.lengths[run] = max(given, key=lambda shape: (len(shape), math.prod(shape)))
        for name in late:
            self._broadcasts(arguments[name], shapes[name], front)
        self.lengths["..."] = front

    def _shape(self, argument: Argument, form: tuple[tuple[int, ...], str] | None) -> tuple[int, ...] | None:
        """The shape of an array that holds what it must; None for what is left out."""
        if form is None:
            if argument.optional:
                return None
            raise TypeError(f"{self.name}: {argument.name} is None; pass an array of shape {argument.shape}")
        shape, kind = form
        if kind not in argument.kinds and not (0 in shape and kind == "f"):  # an empty list is one of floats for NumPy
            remedy = " or ".join(dict.fromkeys(KINDS[written.kind][1] for written in argument.shapes))
            value = shown(self.given[argument.name])
            raise TypeError(f"{self.name}: {argument.name} is {value}; {remedy}{argument.remark}")
        return shape

    def _count_axes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """How many axes runs have, by their letters in small.

        An attribute says so, an array, or the first option per axis of it.
        """
        for name in self.of.attributes:
            if isinstance(own := self._value(name), tuple):
                self.ranks[f"*{name}"] = (len(own), f"{name} is {own}")
        for name, shape in shapes.items():
            argument = self.arguments[name]
            if argument.run:
                count: int | None = max(len(shape) + 1 - len(argument.shapes[0].axes), 0)
                self.ranks.setdefault(argument.run.lower(), (count, f"{name} has shape {shape}"))
        for option in self.of.several:
            value: Any = self.given.get(option.name)
            if option.run and value is not None:
                count = (len(value) or None) if is_listed(value) else None
                self.ranks.setdefault(option.run.lower(), (count, f"{option.name} is {value}"))

    def _learn(self, argument: Argument, shape: tuple[int, ...]) -> None:
        """Its lengths; ValueError where it has too few axes, an empty one, or others than an argument before it."""
        moved, (run, said) = shape, self.ranks.get(argument.shapes[0].run.lower(), (None, ""))
        if argument.name == self.of.moved:
            axes = normalize_axes(self.name, self.given.get("axis", self.of.defaults.get("axis")), len(shape))
            run = len(axes)
            moved = tuple(n for i, n in enumerate(shape) if i not in axes) + tuple(shape[i] for i in axes)
        whys: list[str] = []
        kind = shape_and_kind(self.given[argument.name])[1]
        for written in argument.shapes:
            found = written.split(moved, run) if kind in KINDS[written.kind][0] or 0 in shape else None
            open_rank = run is None and whys
            if found and written.run.lower() in self.of.runs and ((written.run, ()) in found[1] or open_rank):
                found = None  # there is one for each axis, and so an axis; where their number is open, it is the first
            alone = sum(shape.batch for shape in argument.shapes) == 1
            why = self._why_not(written, *found, alone=alone) if found else ""
            if found and not why:
                break
            whys.append(why)
        else:
            known = [*filter(None, whys), *([said] if said and not said.startswith(f"{argument.name} has") else [])]
            why = f", and {known[0]}; make them agree" if known else ""
            fitting = [written for written in argument.shapes if kind in KINDS[written.kind][0] or 0 in shape]
            lacking = [f"{KINDS[other.kind][1]} of shape {other}" for other in argument.shapes if other not in fitting]
            remedy = f"; or {', or '.join(lacking)}" if lacking else ""
            allowed = " or ".join(map(str, fitting))
            raise ValueError(f"{self.name}: {argument.name} has shape {shape}; it must be {allowed}{why}{remedy}")
        front, lengths = found
        if len({shape.kind for shape in argument.shapes} - {""}) > 1:
            self.held[argument.name] = written.kind
        for axis, length in lengths:
            least = written.least.get(axis, 0)
            if any(n < least for n in (length if isinstance(length, tuple) else (length,))):
                raise ValueError(
                    f"{self.name}: {argument.name} has shape {shape}; its axis {axis.lstrip('*')} must not be empty"
                )
            self._keep(axis, length, argument.name)
        if written.batch:
            self.fronts[argument.name] = front

    def _value(self, factor: str) -> Any:
        """What a factor of an axis is: a number, an option, or a letter that is known; None if it is not."""
        if factor.isdigit():
            return int(factor)
        if factor in self.of.options:
            return self.given.get(factor, self.of.defaults.get(factor))
        if factor.lstrip("*") in self.of.attributes:
            return getattr(self.given["self"], factor.lstrip("*"), None)
        return self.lengths.get(factor)

    def _keep(self, axis: str, length: Any, argument: str) -> None:
        """The length of the letter, or of the factor of a product, that was not known."""
        factors = axis.split("·")
        for factor in factors:
            if self._value(factor) is None:
                known = math.prod(self._value(other) for other in factors if other != factor) if len(factors) > 1 else 0
                self.lengths[factor], self.owners[factor] = (length // known if known else length), argument

    def _why_not(self, written: Shape, front: tuple, lengths: list[tuple[str, Any]], *, alone: bool) -> str:
        """What is known already and does not agree; of two shapes with axes in front, these must be the same too."""
        for axis, length in lengths:
            if length != (last := dict(lengths)[axis]):
                return f"its axes {axis} are {length} and {last}"
            known = {factor: self._value(factor) for factor in axis.split("·") if self._value(factor) is not None}
            whole = len(known) == axis.count("·") + 1
            product = known.get(axis) if axis in known else math.prod(known.values())
            if known and (product != length if whole else product == 0 or length % product):
                return " and ".join(self.said(*one) for one in known.items())
        others = [(name, other) for name, other in self.fronts.items() if other != front]
        if others and written.batch and not alone:
            return f"{others[0][0]} has {others[0][1]} in front"
        return ""

    def said(self, factor: str, value: Any) -> str:
        """Who said what a factor of an axis is."""
        if factor in self.owners:
            return f"{self.owners[factor]} has {factor.lstrip('*')} = {value}"
        is_named = factor in self.of.options or factor.lstrip("*") in self.of.attributes
        factor = factor.lstrip("*")
        return f"{factor} is {value}" if is_named else f"{value} is fixed"

    def _front(self) -> tuple[int, ...]:
        """The axes in front of all arguments, broadcast."""
        try:
            return broadcast_shapes(*self.fronts.values())
        except ValueError:
            *most, last = [f"{name} {shape_and_kind(self.given[name])[0]}" for name in self.fronts]
            listed = f"{', '.join(most)} and {last}"
            raise ValueError(f"{self.name}: the axes in front of {listed} do not broadcast; make them agree") from None

    def _broadcasts(self, argument: Argument, shape: tuple[int, ...], front: tuple[int, ...]) -> None:
        """ValueError unless it broadcasts to the shape that is written."""
        (written,) = argument.shapes
        target = front if written.batch else ()
        for axis in written.axes:
            target += self._value(axis) if axis[0] == "*" else (math.prod(map(self._value, axis.split("·"))),)
        if not fits(shape, target):
            raise ValueError(
                f"{self.name}: {argument.name} has shape {shape}; it must broadcast to {written} = {target}"
            )


def takes(text: str, **options: str) -> Callable[[F], F]:
    """Declare what a function takes, and check every call; the function's `takes` is the Declaration.

    An option that holds an array becomes one, and one of which there may be several a tuple. Accidents inside are
    `explained`.
    Of a class its constructor is meant. Raises ValueError for a declaration that cannot be read.
    """

    def declared(function: F) -> F:
        if inspect.isclass(function):
            function.__init__ = takes(text, **options)(function.__init__)  # type: ignore[method-assign]
            return function
        declaration = Declaration(function, text, options)
        if declaration.takes_any_array and not options:  # nothing is to be checked
            function.takes = declaration  # type: ignore[attr-defined]
            return function

        @functools.wraps(function)
        def fitting(*arguments: Any, **options: Any) -> Any:
            given = options.copy()
            try:
                return function(*declaration.fitted(arguments, given), **given)
            except ACCIDENTS as error:
                if not str(error).startswith(f"{declaration.name}: "):
                    explain(function, arguments, options, error)
                raise

        fitting.takes = declaration  # type: ignore[attr-defined]
        declaration.checked = fitting
        return typing.cast(F, fitting)

    return declared


def takes_unchecked(text: str, **options: str) -> Callable[[F], F]:
    """Declare what an operation takes, and check no call: for those that are called most, and find errors as early."""

    def declared(function: F) -> F:
        function.takes = Declaration(function, text, options)  # type: ignore[attr-defined]
        return function

    return declared
