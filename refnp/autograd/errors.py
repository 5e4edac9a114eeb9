"""Errors that name the function, the argument, what it is, and what it must be.

Most checks stand on the page of the function. What these leave, a list where a number belongs or an object that no
array holds, fails somewhere inside, with a message of Python's or NumPy's. Here such an accident becomes an error that
says which argument it was. It acts when something went wrong already, so that right arguments cost nothing.

`refuse` is for primitives, whose arguments are arrays; `explained` for functions, classes and modules, whose
annotations say what arguments must be. An error that begins with a name, as those of refnp do, stays as it is.
"""

import difflib
import functools
import inspect
import re
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from refnp.autograd.tensor import Tensor
from refnp.numbers.kinds import is_kind

F = typing.TypeVar("F", bound=Callable)
NAMED = re.compile(r"(?!arange: )\w[\w.]*: ")  # how a message of refnp begins, with the name of a function
PLACES = {"axes", "axis", "first", "index", "second", "sections", "shape", "shift", "widths"}  # by position, no arrays
ACCIDENTS = (AttributeError, IndexError, OverflowError, TypeError, ValueError, ZeroDivisionError)


class OutOfRangeError(IndexError, ValueError):
    """A number of a row, a class or a place that there is not."""


def closest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean 'softmax'?", or all the names where none is near."""
    names = sorted(set(known))
    name = str(name)
    near = difflib.get_close_matches(name, names, 3, 0.5)
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    return f"; there are {', '.join(names)}" if names else ""


def refuse(function: Callable, arguments: tuple, options: dict, error: Exception | None = None) -> None:
    """Raise what names a primitive and the argument that is wrong, unless the message of `error` does."""
    name = function.__name__.lstrip("_")
    if error is not None and (NAMED.match(str(error)) or str(error).startswith(f"{function.__name__}()")):
        _say_which_are_options(function, name, arguments, error)
        return
    if isinstance(error, RuntimeError) and type(error) is not RuntimeError:  # too deep, or not written
        return
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    given = [(f"argument {i}", a) for i, a in enumerate(arguments)]
    if not several:
        given = [
            (p.name, a) for p, a in zip(parameters, arguments, strict=False) if a is not None or p.default is not a
        ]
    for place, argument in given:
        if place not in PLACES:
            _check_numbers(name, place, argument, error)
    arrays = [pair for pair in (*given, *options.items()) if pair[0] not in PLACES and not isinstance(pair[1], str)]
    for place, argument in arrays[len(given) :]:
        if isinstance(argument, (list, tuple)):
            _check_numbers(name, place, argument, error)
    shapes = [(place, np.shape(_plain(argument))) for place, argument in arrays if argument is not None]
    if isinstance(error, ValueError) and "broadcast" in str(error):
        listed = ", ".join(f"{place} {shape}" for place, shape in shapes)
        raise ValueError(f"{name}: the shapes of {listed} do not broadcast; make them agree") from error
    if error is not None and not isinstance(error, AttributeError):  # which is a rule's own mistake
        raise _named(error, name, dict(given) | options) from error


def explained(thing: F) -> F:
    """A function, or a class with all its public methods, whose accidents name the argument.

    The annotations say what is wrong: `features: int` must be a whole number, `rng: np.random.Generator` a generator,
    `x: ArrayLike` an array of numbers. If all are what they must be, the error keeps its words and says what was given.
    """
    if inspect.isclass(thing):
        for method, function in list(vars(thing).items()):
            if inspect.isfunction(function) and (method[0] != "_" or method in ("__init__", "__call__")):
                setattr(thing, method, explained(function))
        return thing

    @functools.wraps(thing)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return thing(*arguments, **options)
        except ACCIDENTS as error:
            explain(thing, arguments, options, error)
            raise

    return typing.cast(F, call)


def explain(function: Callable, arguments: tuple, options: dict, error: Exception) -> None:
    """Raise the error that names the first argument which is not what its annotation says; or all that were given.

    It does nothing if the error begins with a name, or is a mistake inside and of no argument.
    """
    if str(error).startswith(f"{function.__qualname__}()"):
        if function.__name__ == "__init__":  # of a class that this one is derived from
            own = f"{type(arguments[0]).__qualname__}.__init__"
            raise TypeError(str(error).replace(function.__qualname__, own, 1)) from None
        return
    if NAMED.match(str(error)):
        return
    signature, name = inspect.signature(function), function.__name__
    if next(iter(signature.parameters), "") == "self":
        kind = type(arguments[0]).__name__
        name = kind if name in ("__init__", "__call__") else f"{kind}.{name}"
    try:
        given = signature.bind(*arguments, **options).arguments
    except TypeError as wrong:  # Python's own words about missing and unknown arguments
        raise TypeError(f"{name}: {wrong}") from error
    given.pop("self", None)
    for argument, value in given.items():
        parameter = signature.parameters[argument]
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        must = "" if several or value is parameter.default else fault(parameter.annotation, value)
        if isinstance(error, AttributeError) and (
            parameter.annotation is parameter.empty or _means_array(parameter.annotation)
        ):
            must = must or ("" if value is None or isinstance(value, (np.ndarray, Tensor)) else "pass an array")
        if must:
            raise TypeError(f"{name}: {argument} is {shown(value)}; {must}") from error
    if not isinstance(error, AttributeError):
        raise _named(error, name, given) from error


def _means_array(annotation: Any) -> bool:
    return np.ndarray in (kinds := typing.get_args(annotation) or (annotation,)) or Tensor in kinds


def fault(annotation: Any, value: Any) -> str:
    """What a value of this annotation must be, if this one is not; else nothing, as of an argument without one."""
    if annotation is inspect.Parameter.empty:
        return ""
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    plain = [typing.get_origin(kind) or kind for kind in kinds]
    if _means_array(annotation):
        try:
            wrong = None if value is None and types.NoneType in plain else _no_numbers(value)
        except TypeError:  # of a list of Tensors
            return "pass an array of one shape"
        return "" if wrong is None else wrong[2]
    if not all(isinstance(kind, type) or kind is Callable for kind in plain) or Any in plain:
        return ""
    if any(_is(value, kind, inner) for kind, inner in zip(plain, kinds, strict=True)):
        return ""
    return f"it must be {' or '.join(WORDS.get(kind, f'a {kind.__name__}') for kind in plain)}"


WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a name",
    bool: "True or False",
    tuple: "a tuple of whole numbers",
    Sequence: "a sequence",
    types.NoneType: "None",
    np.random.Generator: "a generator, such as np.random.default_rng(0)",
}


def _is(value: Any, kind: Any, annotation: Any) -> bool:
    """Whether a value is of a kind, as NumPy's numbers are of Python's."""
    if kind is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind in (tuple, Sequence) and isinstance(value, (tuple, list)):
        inner = [item for item in typing.get_args(annotation) if item is not ...]
        return all(fault(inner[0], item) == "" for item in value) if len(set(inner)) == 1 else True
    return callable(value) if kind is Callable else isinstance(value, kind)


def _no_numbers(value: Any) -> tuple[type[Exception], str, str] | None:
    """The kind of error, what a value is, and what to pass, if it is no array of numbers."""
    if type(value) is int and abs(value) >= 2**63:
        return ValueError, f"is an integer of {value.bit_length()} bits", "pass a float, or less than 2**63"
    value = _plain(value)
    if is_kind(value):
        return None
    try:
        dtype = np.asarray(value).dtype
    except ValueError:
        return ValueError, "holds lists of different lengths", "pass an array of one shape"
    if dtype.kind in "biufc":
        return None
    return TypeError, f"is {dtype} ({type(value).__name__})", "pass an array of numbers"


def shown(value: Any) -> str:
    """A value in a message: arrays by shape and type, all else in a few words."""
    value = _plain(value)
    if type(value).__repr__ is object.__repr__:  # whose address says nothing
        return f"{type(value).__name__} object"
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else reprlib.repr(value)


def _named(error: Exception, name: str, given: dict) -> Exception:
    """The same error with the name of the function, and what it was given."""
    kind = next((kind for kind in (TypeError, ValueError) if isinstance(error, kind)), ValueError)
    return kind(f"{name}: {error}; it was given {', '.join(f'{n} = {shown(v)}' for n, v in given.items())}")


def _plain(value: Any) -> Any:
    return value.data if isinstance(value, Tensor) else value


def _check_numbers(name: str, place: str, argument: Any, error: Exception | None) -> None:
    """TypeError or ValueError if the argument is not an array of numbers."""
    if (wrong := _no_numbers(argument)) is not None:
        kind, what, remedy = wrong
        raise kind(f"{name}: {place} {what}; {remedy}") from error


def _say_which_are_options(function: Callable, name: str, arguments: tuple, error: Exception) -> None:
    """Beside Python's message about too many arguments, the options that are passed by name: softmax(x, 1)."""
    parameters = inspect.signature(function).parameters.values()
    places = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if "positional argument" in str(error) and options and len(arguments) > len(places):
        example = f"{name}({', '.join(places)}, {options[0]}={_plain(arguments[len(places)])!r})"
        raise TypeError(f"{error}; its options are passed by name: {example}") from error
