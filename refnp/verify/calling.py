"""How the arguments of a case reach a function that is not refnp's: which of its parameters is which argument.

An argument goes to the parameter that is called like it, or as frameworks call it (`refnp.verify.signatures`), or as
`arguments` says; what is left goes by its place, but never against what a parameter's name says.
`refnp.verify.conventions` turns masks and layouts round.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.autograd.declaration import Declaration
from refnp.autograd.errors import closest
from refnp.numbers.precision import policy
from refnp.verify.case import Case, NotOfferedError, Problem
from refnp.verify.conventions import AS_IT_IS, MASKS, Layout, Turn, in_convention, joined, turns_of
from refnp.verify.parameters import Parameters
from refnp.verify.signatures import AS_ARRAYS, CALLED, LEFT_OPEN, VALUES, may_be, told, words

OPTIONS = ("mask", "causal", "eps", "axis", "dropout", "dropout_p", "scale", "training", "return_weights", "enable_gqa")
FOLLOWS = {"normalized_shape": lambda x: x.shape[-1:]}  # what frameworks ask for beside the first array
CHANGES_NOTHING = {
    "gain": 1.0,
    "shift": 0.0,
    "bias": 0.0,
}  # a function without these arguments is judged with these values
USUAL = {"axis": -1}  # where a function takes no such option


class Binding:
    """Which parameter of a function is which argument of a layer's cases.

    `places` has the function's parameters, `inside` the parameters of a module that an argument replaces, `neutral`
    the arguments that a function does not take and that can be given a value that changes nothing. A function of
    `*arrays` gets all arrays by their places, one of `**parameters` those of a whole model by their names. `stated` are
    options that the function may compute with without taking, `also` more options that it may take, `order` the
    arguments as they are listed where the layer's name comes from, and `own` values of parameters that are none.
    """

    def __init__(
        self,
        who: str,
        function: Callable,
        cases: Sequence[Case],
        arguments: Mapping[str, str] | None = None,
        inside: Mapping[str, tuple[int, ...]] | None = None,
        stated: Iterable[str] = (),
        also: Iterable[str] = (),
        order: Sequence[str] = (),
        own: Mapping[str, Any] | None = None,
    ):
        self.who, self.cases, self.stated = who, cases, frozenset(stated)
        self.parameters = Parameters.of(function)
        taken = self.parameters.names or ()
        self.own = told(cases[0].layer.name, lambda name: name in taken) | dict(own or {})
        self.order = order
        self.arrays = list(dict.fromkeys(name for case in cases for name in case.inputs))
        self.options = list(dict.fromkeys(name for case in cases for name in case.options))
        self.options += [name for name in also if name not in self.options]
        self.options += [name for name in defaults(cases[0]) if name not in (*self.options, *self.arrays)]
        self.places: dict[str, str] = {}
        self.inside: dict[str, str] = {}
        self.neutral: dict[str, float] = {}
        self.completed: dict[str, str] = {}  # what cases leave out and the function must be given, and with what
        self.collects = False  # **parameters gets those of a whole model, and no options
        self._rename(dict(arguments or {}), inside or {})
        self._by_name(inside or {})
        self._by_place()
        self._by_shape(inside or {})
        self._left_over(inside or {})

    def _rename(self, arguments: dict[str, str], inside: Mapping[str, Any]) -> None:
        for name, theirs in arguments.items():
            if name not in (*self.arrays, *self.options):
                known = [*self.arrays, *self.options]
                layer = self.cases[0].layer.name
                raise ValueError(f"arguments: {layer} has no argument {name!r}{closest(name, known)}")
            if not self._free(theirs):
                other = next(n for n, taken in (self.places | self.inside).items() if taken == theirs)
                raise ValueError(f"arguments: both {other} and {name} are {theirs!r}; name another for one of them")
            if theirs in inside:
                self.inside[name] = theirs
            elif self._has(theirs):
                self.places[name] = theirs
            else:
                known = [*(self.parameters.names or ()), *inside]
                raise ValueError(f"arguments: {self.who} has no parameter {theirs!r}{closest(theirs, known)}")

    def _has(self, theirs: str) -> bool:
        return self.parameters.names is None or self.parameters.any_option or theirs in self.parameters.names

    def _free(self, theirs: str) -> bool:
        taken = (*self.places.values(), *self.inside.values(), *self.own)
        return theirs not in taken

    def _by_name(self, inside: Mapping[str, Any]) -> None:
        """The same names first, of all arguments, then what frameworks call them; of parts of modules, "fc.weight"."""
        plain = self.parameters.names or []
        last = [theirs.rpartition(".")[2] for theirs in inside]
        parts = {own: theirs for own, theirs in zip(last, inside, strict=True) if last.count(own) == 1}
        for called in (lambda n: (n,), lambda n: CALLED.get(n, ())):
            for name in (*self.arrays, *self.options):
                if name in self.places or name in self.inside:
                    continue
                by_place = self.parameters.any_array and name in self.arrays
                for word in called(name):
                    if word in plain and self._free(word) and not (by_place and self.parameters.by_place(word)):
                        self.places[name] = word
                        break
                    own = word if word in inside else parts.get(word, "")
                    if own and self._free(own) and name in self.arrays:
                        self.inside[name] = own
                        break

    @property
    def required(self) -> list[str]:
        """Arrays of every case, and options of every case that are arrays and have no default: targets, tokens."""
        always = [name for name in self.arrays if all(name in case.inputs for case in self.cases)]
        given = defaults(self.cases[0])
        return always + [
            name
            for name in self.options
            if name not in given
            and all(name in case.options and holds_arrays(case.options[name]) for case in self.cases)
        ]

    def _by_place(self) -> None:
        """What no name has found, in the listed order: first what every case has, then the rest if it is required."""
        if self.parameters.any_array:
            return
        for name in sorted(self.required, key=lambda n: self.order.index(n) if n in self.order else len(self.order)):
            if name not in self.places and name not in self.inside:
                theirs = self._next(lambda n: True, name)
                if theirs is not None:
                    self.places[name] = theirs
        for name in self.arrays:
            if name not in self.places and name not in self.inside and name not in self.required:
                theirs = self._next(self.parameters.required, name)
                if theirs is not None:
                    self.places[name] = theirs

    def _next(self, accepted: Callable[[str], bool], argument: str) -> str | None:
        """The next parameter that may be given by its place, is not known to be an option, and says nothing else."""
        options = {word for name in (*self.options, *OPTIONS) for word in words(name)}
        others = (*self.arrays, *self.options)
        for theirs in self.parameters.names or ():
            is_option = theirs in options and not self.parameters.required(theirs)
            taken = not self._free(theirs) or theirs in FOLLOWS
            if taken or is_option or not self.parameters.by_place(theirs) or not accepted(theirs):
                continue
            if len(self.required) == 1 or may_be(theirs, argument, others):
                return theirs
        return None

    def _by_shape(self, inside: Mapping[str, tuple[int, ...]]) -> None:
        """The parameters of a module that have the shape of just one argument that is left."""
        if not inside:
            return
        case = self.cases[0]
        shapes = {name: np.ndim(array) for name, array in case.problem("float64").arrays.items()}
        for name in self.required:
            if name in self.places or name in self.inside or name not in shapes:
                continue
            fit = [theirs for theirs, shape in inside.items() if self._free(theirs) and len(shape) == shapes[name]]
            if len(fit) == 1:
                self.inside[name] = fit[0]

    def _left_over(self, inside: Mapping[str, Any]) -> None:
        """What has found no place: a value that changes nothing, or a ValueError that says what to write."""
        if self.parameters.any_array:
            return
        layer = self.cases[0].layer.name
        for name in self.required:
            if name in self.places or name in self.inside:
                continue
            free = [theirs for theirs in inside if self._free(theirs)]
            if self.parameters.any_option and "." in name:  # a parameter of a whole model, among **parameters
                self.places[name], self.collects = name, True
                continue
            if name in CHANGES_NOTHING and not free:
                self.neutral[name] = CHANGES_NOTHING[name]
                continue
            remedy = f'say which it is, arguments={{"{name}": …}}'
            if unlike := [n for n in self.parameters.names or () if self.parameters.required(n) and self._free(n)]:
                remedy = f"{' and '.join(unlike)} would be something else by name; {remedy}"
            if free:
                raise ValueError(
                    f"{self.who}: which of its parameters {', '.join(free)} is {name}? {remedy}; a module that keeps "
                    "several arguments in one parameter is judged by refnp.judge_model, or as a function of them"
                )
            raise ValueError(
                f"{self.who} takes ({', '.join(self.parameters.names or ())}), and has no place for {name} of "
                f"{layer}({', '.join(self.required)}); {remedy}, or judge a function of these arguments"
            )
        if left := [theirs for theirs in inside if self._free(theirs)]:
            raise ValueError(
                f"{self.who}: its parameter {left[0]} is no argument of {layer}({', '.join(self.arrays)}), and would "
                "keep a value of its own; judge a function of the arguments that calls the module"
            )
        for theirs in self.parameters.names or ():
            if self.parameters.required(theirs) and self._free(theirs) and theirs not in FOLLOWS:
                raise ValueError(
                    f"{self.who} must be given {theirs!r}, which no argument of {layer}({', '.join(self.arrays)}) is; "
                    f"say which it is, arguments={{…: {theirs!r}}}, give it a value, options={{{theirs!r}: …}}, "
                    f"or judge a function without it, such as lambda {', '.join(self.required)}: …"
                )

    def takes(self, name: str) -> bool:
        """Whether an array or option reaches the function."""
        if name in self.places or name in self.inside:
            return True
        if name in self.arrays:
            return self.parameters.any_array
        return self.parameters.any_option and not self.collects

    def assumed(self) -> list[str]:
        """What was not asked and may be asked: which argument is which, and what is computed with."""
        others = {name: theirs for name, theirs in (self.places | self.inside).items() if name != theirs}
        found = [", ".join(f"{name} is {theirs}" for name, theirs in others.items())] if others else []
        if self.neutral:
            values = ", ".join(f"{name} = {value:g}" for name, value in self.neutral.items())
            found.append(f"{values}, which {self.who} does not take")
        if self.own:
            found.append(f"{self.who} is given {', '.join(f'{name}={value!r}' for name, value in self.own.items())}")
        return found


def holds_arrays(value: Any) -> bool:
    """Whether an option is an array, or a sequence of them."""
    return isinstance(value, np.ndarray) or (isinstance(value, tuple) and any(map(holds_arrays, value)))


def defaults(case: Case) -> dict[str, Any]:
    """What refnp's function takes for options that a case does not set."""
    try:
        found = inspect.signature(case.layer.function).parameters.values()
    except (ValueError, TypeError):
        return {}
    return {p.name: p.default for p in found if p.default is not p.empty and p.name not in case.inputs}


def adapted(binding: Binding, case: Case, *, gradients: bool, additive: bool = False) -> Case:
    """The case as the function can be asked: NotOfferedError if it sets what the function does not take."""
    for name in case.inputs:
        carried = additive and name == "bias" and binding.takes("mask")
        if not (binding.takes(name) or name in binding.neutral or carried):
            raise NotOfferedError(f"{binding.who} takes no {name}")
    given = defaults(case)
    for name, value in case.options.items():
        usual = USUAL.get(name, given.get(name))
        if not binding.takes(name) and not same(value, usual) and name not in binding.stated:
            raise NotOfferedError(f"{binding.who} takes no {name}")
        if binding.takes(name) and another_kind(binding, name, value) and not same(value, usual):
            raise NotOfferedError(f"{name} of {binding.who} is of another kind than {value!r}")
    for name, theirs in binding.inside.items():
        if name not in case.inputs:
            raise NotOfferedError(f"{binding.who} has a parameter {theirs}, and the case has no {name}")
    for name, theirs in binding.places.items():
        missing = name not in case.inputs if name in binding.arrays else name not in case.options
        missing = missing and given.get(name) is None
        if missing and theirs in binding.parameters.kinds and binding.parameters.required(theirs):
            if (value := changing_nothing(case, name)) is None:
                raise NotOfferedError(f"{binding.who} must be given {theirs}, and there is no {name}")
            binding.completed[name] = "True everywhere" if value.dtype == bool else "zeros"
            if name in binding.arrays:
                case = replace(case, inputs={**case.inputs, name: value}, gradients=gradients_of(case))
            else:
                case = replace(case, options={**case.options, name: value})
    inputs = {
        name: np.full(case.problem("float64").arrays[name].shape, binding.neutral[name])
        if name in binding.neutral
        else drawn
        for name, drawn in case.inputs.items()
    }
    chosen = tuple(name for name in gradients_of(case) if name not in binding.neutral) if gradients else ()
    return replace(case, inputs=inputs, gradients=chosen)


def gradients_of(case: Case) -> tuple[str, ...]:
    """The arguments whose gradients are judged."""
    return tuple(case.inputs) if case.gradients is None else case.gradients


def changing_nothing(case: Case, name: str) -> np.ndarray | None:
    """A mask that hides nothing or a bias of zeros, in the shape that the layer declares; None of anything else."""
    declaration = getattr(case.layer.function, "takes", None)
    argument = declaration.arguments.get(name) if isinstance(declaration, Declaration) else None
    if argument is None or name not in ("mask", "bias"):
        return None
    sizes = declaration.sizes({**case.problem("float64").arrays, **case.options})  # type: ignore[union-attr]
    shape = argument.shapes[0].lengths({**declaration.defaults, **case.options, **sizes})  # type: ignore[union-attr]
    return np.ones(shape, bool) if name == "mask" else np.zeros(shape)


def same(value: Any, usual: Any) -> bool:
    """Whether an option has its usual value."""
    return type(value) is type(usual) and not holds_arrays(value) and value == usual


def own_default(binding: Binding, name: str) -> Any:
    """The function's own default of an option; `inspect.Parameter.empty` where it has none."""
    parameter = binding.parameters.kinds.get(binding.places.get(name, ""))
    return inspect.Parameter.empty if parameter is None else parameter.default


def as_array(case: Case, name: str, value: Any) -> Any:
    """The value of an option: an array, where the layer declares that, of what a case writes as a tuple."""
    declaration = getattr(case.layer.function, "takes", None)
    is_argument = isinstance(declaration, Declaration) and name in declaration.arguments
    return np.asarray(value) if is_argument and isinstance(value, (tuple, list)) else value


def another_kind(binding: Binding, name: str, value: Any) -> bool:
    """Whether the function's own default is a truth value where refnp's option is none, or the other way round."""
    default = own_default(binding, name)
    if default is None or default is inspect.Parameter.empty or as_theirs(binding, name, value) is not value:
        return False
    return isinstance(default, bool) != isinstance(value, bool)


def as_theirs(binding: Binding, name: str, value: Any) -> Any:
    """The value of an option as the function writes it."""
    if isinstance(own_default(binding, name), bool) and isinstance(value, str):
        return VALUES.get(name, {}).get(value, value)
    return np.asarray(float(value)) if name in AS_ARRAYS and own_default(binding, name) is None else value


def filled(binding: Binding, name: str, usual: Any) -> bool:
    """Whether refnp's usual value of an option that a case does not set is handed over.

    It is where the function has a value of its own that may be another, and not where its default is no value, such as
    `dropout=None`.
    """
    default = own_default(binding, name)
    if not isinstance(usual, (int, float, str)) or another_kind(binding, name, usual):
        return False
    return (
        default is inspect.Parameter.empty
        or isinstance(default, (int, float, str))
        or (default is None and name in LEFT_OPEN)
    )


@dataclass
class Call:
    """One call of the function: NumPy arrays in its conventions, and how what comes is turned back.

    `names` are those arrays that a gradient may be asked of; `options` are values and NumPy arrays by the names of the
    function; `output` turns the output. It has `answered` once the function returned without an exception, whatever is
    raised afterwards.
    """

    binding: Binding
    names: list[str]
    arrays: list[np.ndarray]
    options: dict[str, Any]
    turns: dict[str, Turn]
    output: Turn
    results: int = 1  # that the function returned when it was called last
    answered: bool = False

    def converted(self, convert: Callable[[np.ndarray], Any]) -> dict[str, Any]:
        """The options as the framework takes them."""
        return {name: converted(value, convert) for name, value in self.options.items()}

    def asked(self, function: Callable, convert: Callable[[np.ndarray], Any], module: Callable | None) -> Callable:
        """A function of the framework's arrays alone; `module(values)` is the module with these parameters."""
        binding, parameters = self.binding, self.binding.parameters
        options = self.converted(convert)

        def call(*given: Any, **more: Any) -> Any:
            if len(given) != len(self.names) or more:
                wanted = f"{', '.join(self.names)} alone: its options are given already"
                what = " and ".join(more) or f"{len(given)} arguments"
                raise TypeError(f"{binding.who} was called with {what}; call it with {wanted}")
            by_name, values, in_order = dict(options), {}, []
            for name, array in zip(self.names, given, strict=True):
                if name in binding.inside:
                    values[binding.inside[name]] = array
                elif name in binding.places:
                    by_name[binding.places[name]] = array
                else:
                    in_order.append(array)
            first = [by_name.pop(n) for n in parameters.names or () if n in by_name and parameters.only_by_place(n)]
            self.answered = False
            try:
                result = (function if module is None else module(values))(*first, *in_order, **by_name)
            except SystemExit as end:  # which would end the judgement, perhaps with status 0
                raise RuntimeError(f"{binding.who} ends Python: SystemExit({end.code!r})") from end
            self.answered = True
            return self.first_of(result)

        return call

    def first_of(self, result: Any) -> Any:
        """An output, or the first of several (an attention's, which returns its weights beside it)."""
        if result is None:
            raise TypeError(f"{self.binding.who} returns None, and not an array")
        several = isinstance(result, tuple)
        self.results = len(result) if several else 1
        return result[0] if several and result else result


def converted(value: Any, convert: Callable[[np.ndarray], Any]) -> Any:
    """An option as the framework takes it: arrays as its own."""
    if isinstance(value, np.ndarray):
        return convert(value)
    return tuple(converted(v, convert) for v in value) if holds_arrays(value) else value


def call_of(
    binding: Binding, problem: Problem, layouts: Sequence[str | Layout] = (), mask: str = MASKS[0], passed: Mapping = {}
) -> Call:
    """The call that asks the function for the answer to a problem; `passed` are more options that it is given."""
    case, form = problem.case, policy(problem.dtype)
    options = {name: as_array(case, name, value) for name, value in case.options.items()} | dict(passed)
    given = defaults(case)
    for name in binding.places:  # what a function may take otherwise where nothing is said
        if name in given and name not in options and filled(binding, name, given[name]):
            options[name] = given[name]
    hidden = {n: v for n, v in options.items() if n.endswith("mask") and isinstance(v, np.ndarray) and v.dtype == bool}
    ndims = {name: array.ndim for name, array in (problem.arrays | hidden).items()}
    ndims["output"] = len(problem.textbook[0].shape) if layouts else 0
    turns = turns_of(layouts, case, ndims)
    arrays = {name: array for name, array in problem.arrays.items() if name not in binding.neutral}
    if mask == "additive" and "bias" in arrays and not binding.takes("bias"):
        turns["bias"] = joined(turns.get("bias", AS_IT_IS), arrays["bias"], options.pop("mask", None))
        binding = placed_like_mask(binding)
    by_name = dict(binding.own)
    for name, value in options.items():
        value = as_theirs(binding, name, value)
        if binding.takes(name) and not (another_kind(binding, name, value) and name in given):
            value = in_convention(value, mask, form.dtype) if name in hidden else value
            value = turns[name].there(value) if name in turns else value
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                value = form.typed(form.given(value))
            by_name[binding.places.get(name, name)] = value
    first = next(iter(arrays.values()))
    by_name |= {name: rule(first) for name, rule in FOLLOWS.items() if name in binding.parameters.kinds}
    return Call(
        binding,
        list(arrays),
        [np.array(turns.get(name, AS_IT_IS).there(array), order="C") for name, array in arrays.items()],
        by_name,
        turns,
        turns.get("output", AS_IT_IS),
    )


def placed_like_mask(binding: Binding) -> Binding:
    """The same binding, with the bias where the mask goes."""
    found = copy.copy(binding)
    others = {name: theirs for name, theirs in binding.places.items() if name != "mask"}
    found.places = others | {"bias": binding.places.get("mask", "mask")}
    return found
