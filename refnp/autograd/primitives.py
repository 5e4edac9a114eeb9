"""How a NumPy function and its gradient become an operation on Tensors.

A primitive is written as one function of arrays that returns its value and its VJP:

    @primitive
    def multiply(x, y):
        def vjp(z_bar):
            return z_bar * y, z_bar * x  # one gradient per array argument, in their order
        return x * y, vjp

What is common to all is done here and in backward.py: arrays are taken out of Tensors, the node is written, gradients
are summed over broadcast axes and brought to the argument's dtype. Instead of a gradient a rule may give a function
without arguments that computes it, which is called only if that gradient is needed. None stands for "no gradient",
as an array of integers or booleans has none; for a float that needs one it is an error.

Where ȳ is 0, or a derivative is, their product is 0, whatever the other is: the walk back sees to it (duals.py), so a
rule is written as the formula stands.

Who owns what: a rule of refnp leaves its arguments unchanged, and returns new arrays or views of the gradient it was
given, never an array that it keeps: the walk back may add to a returned array in place. A rule that is not refnp's gets
read-only views, of its arguments and of the gradient, and what it returns is copied.

Arrays in, array out, and no tape; if any argument is a Tensor, so is the result. A primitive with several results
returns a tuple of values, and its VJP takes one gradient for each; of integers, such as places, there is none.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, overload

import numpy as np

from refnp.autograd.analytic import refuse_what_is_not
from refnp.autograd.errors import refuse
from refnp.autograd.tensor import Array, Node, NoTensor, Tensor, is_stepping, off_tape, recording, result
from refnp.numbers import duals
from refnp.numbers.duals import Dual, as_array
from refnp.numbers.kinds import Kind

LARGEST_INTEGER = np.iinfo(np.int64).max
NO_NUMBERS = "OSUVMma"  # dtypes of objects, text, records and dates
PLAIN = {np.ndarray, np.float32, np.float64, int, float, bool, complex, str, tuple, type(None)}  # kept as they come


class Operation(Protocol):
    """What is called with arrays, and gives an array, or with a Tensor among them, and gives a Tensor."""

    __name__: str

    @overload
    def __call__(self, *arguments: NoTensor, **options: NoTensor) -> Array: ...

    @overload
    def __call__(self, *arguments: Any, **options: Any) -> Tensor: ...


class OfSeveral(Protocol):
    """An operation or a page with several results, a tuple of what an `Operation` gives."""

    page: Callable

    def __call__(self, *arguments: Any, **options: Any) -> tuple: ...


def of_several(operation: Any) -> OfSeveral:
    """The same operation, for type checkers."""
    return operation


def primitive(function: Callable) -> Operation:
    """Make `function(*arrays, **options) → (value, vjp)` an operation on arrays and Tensors.

    Arrays may be passed by position or by name; lists become arrays and so does what has `__array__` (`received`),
    Python scalars stay as they are (so that they do not change the dtype), None means absent. What follows `*` in the
    signature is an option, never an array.
    A function that is not refnp's gets read-only arrays, and one that declares what it takes (`takes`) what fits that.
    Raises TypeError if an option is a Tensor, whose gradient would be lost, or an argument no numbers; ValueError for a
    Python integer that no floating type holds.
    """
    foreign = not is_own(function)
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}

    declaration = getattr(function, "takes", None)
    declaration = declaration if getattr(declaration, "checked", None) is function else None
    formula = function if declaration is None else function.__wrapped__  # type: ignore[attr-defined]
    names = [*inspect.signature(function).parameters]
    rng_place = names.index("rng") if "rng" in names else None
    is_special = foreign or declaration is not None or rng_place is not None

    @functools.wraps(function)
    def operation(*arguments: Any, **options: Any) -> Any:
        if options:
            arguments = _by_position(arguments, options, defaults)
            for name, option in options.items():
                if option.__class__ in PLAIN:
                    continue
                if isinstance(option, Tensor):
                    raise TypeError(f"{function.__name__}: {name} is an option, not an array; no Tensor fits there")
                if hasattr(option, "__array__"):
                    options[name] = received(option, function.__name__, name)
        any_tensor = needs_gradient = False
        arrays: list[Any] = []
        try:
            for argument in arguments:
                if isinstance(argument, Tensor):
                    any_tensor = True
                    needs_gradient = needs_gradient or argument.requires_grad
                    arrays.append(argument.data)
                elif argument.__class__ in PLAIN or not (isinstance(argument, list) or hasattr(argument, "__array__")):
                    arrays.append(argument)
                else:
                    arrays.append(received(argument, function.__name__, len(arrays), [*defaults]))
            given, rule = options, formula
            if is_special:
                if foreign:
                    arrays = [read_only(array) for array in arrays]
                if declaration is not None:
                    given = options.copy()
                    arrays = declaration.fitted(tuple(arrays), given)
                if rng_place is not None and (given.get("rng") is not None or len(arrays) > rng_place):
                    rule = functools.partial(drawing_once, formula)
            try:
                value, vjp = rule(*arrays, **given) if given else rule(*arrays)
            except (FloatingPointError, RuntimeWarning) as raised:
                value, vjp = without_flags(formula, arrays, given, raised)
            if foreign:
                value = tuple(map(copied, value)) if isinstance(value, tuple) else copied(value)
                if is_stepping():
                    refuse_what_is_not(function, arrays, given, value, vjp, needs_gradient and recording.get())
                vjp = owning(function.__name__, vjp, arguments, len(defaults))
        except (AttributeError, OverflowError, RuntimeError, TypeError, ValueError) as error:
            refuse(function, arguments, options, error)
            raise
        if duals.in_use and any(isinstance(array, Dual) for array in arrays):
            value = duals.wrapped(value)
        if value.__class__ is np.ndarray:  # nearly always
            if value.dtype.char in NO_NUMBERS:
                refuse(function, arguments, options)
            if not any_tensor:
                return value
            if not (needs_gradient and recording.get()):
                return result(value)
            if off_tape.modules:
                off_tape.refuse(function.__name__, arguments)
            return result(value, Node(operation, arguments, options, vjp))
        if not _are_numbers(value):
            refuse(function, arguments, options)
        if not any_tensor:
            return value
        several = isinstance(value, tuple)
        values = [as_array(v) for v in value] if several else [as_array(value)]
        node = None
        if needs_gradient and recording.get():
            outputs = tuple((v.shape, v.dtype) for v in values)
            node = Node(operation, arguments, options, vjp, outputs)
        if several:
            return tuple(v if v.dtype.kind in "iu" else result(v, node, slot) for slot, v in enumerate(values))
        return result(values[0], node)

    operation.rule = function  # type: ignore[attr-defined]
    return operation


def received(given: Any, function: str, place: int | str, names: Sequence[str] = ()) -> Any:
    """What an operation computes on: an array for a list, for a subclass of arrays, for a tensor of PyTorch or JAX.

    Numbers, and kinds of numbers, stay as they are. TypeError for a masked array, since its mask would be lost, and
    for what does not give its numbers, such as a tensor that needs a gradient.
    """
    if isinstance(given, (np.generic, Kind, Dual, type)):
        return given
    name = names[place] if isinstance(place, int) and place < len(names) else place
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"{function}: {name} is a masked array, and its mask would be lost; pass x.filled(…), or x.data"
        )
    try:
        return np.asarray(given)
    except Exception as wrong:  # each library has its own
        if isinstance(given, list):
            raise
        kind = f"{type(given).__module__.partition('.')[0]}.{type(given).__name__}"
        why = (str(wrong).splitlines() or [type(wrong).__name__])[0]
        raise TypeError(f"{function}: {name} is a {kind}, which gives no array: {why}") from wrong


def drawing_once(rule: Callable, /, *arrays: Any, **options: Any) -> Any:
    """(value, vjp), with the generator as it was where NumPy is told to raise: `without_flags` asks once more."""
    generators = [given for given in (*arrays, *options.values()) if isinstance(given, np.random.Generator)]
    before = [rng.bit_generator.state for rng in generators]
    try:
        return rule(*arrays, **options)
    except (FloatingPointError, RuntimeWarning):
        for rng, state in zip(generators, before, strict=True):
            rng.bit_generator.state = state
        raise


def without_flags(rule: Callable, arrays: list, options: dict, raised: Exception) -> Any:
    """(value, vjp) once more, where NumPy is told to raise errors or warnings: what is harmless does not count.

    An underflow is harmless, and an overflow or an invalid operation on the way to a finite value. RuntimeWarning or
    FloatingPointError, as NumPy raised it, for any other.
    """
    with np.errstate(all="ignore"):
        value, vjp = rule(*arrays, **options)
    values = value if isinstance(value, tuple) else (value,)
    if "underflow" not in str(raised) and not all(np.isfinite(v).all() for v in values):
        raise raised
    return value, vjp


def _are_numbers(value: Any) -> bool:
    """Whether a result is a number, an array of them, or several."""
    if isinstance(value, tuple):
        return all(map(_are_numbers, value))
    if isinstance(value, (np.ndarray, Kind)):
        return value.dtype.char not in NO_NUMBERS
    return isinstance(value, (np.number, np.bool_, float, complex)) or (isinstance(value, int) and abs(value) < 2**63)


def _by_position(arguments: tuple, options: dict, defaults: dict) -> tuple:
    """Move array arguments that were passed by name to their places, filling gaps with defaults."""
    if defaults.keys().isdisjoint(options) or len(arguments) > len(defaults):
        return arguments
    given = defaults.keys() & options.keys()
    places, names = list(arguments), list(defaults)
    for name in names[len(places) : max(map(names.index, given)) + 1]:
        if name in options:
            places.append(options.pop(name))
        elif defaults[name] is inspect.Parameter.empty:
            break  # Python's own message about the missing argument is the best one
        else:
            places.append(defaults[name])
    return tuple(places)


def raw(value: Any) -> Any:
    """The array of a Tensor; anything else as it is. For code that needs values but no gradient."""
    return value.data if isinstance(value, Tensor) else value


def integers(name: str, argument: str, values: Any, hint: str = "", *, signed: bool = False) -> Array:
    """As an array of int64, an empty list too, which NumPy takes for floats: −1 and lengths have no place in uint8.

    What int64 cannot hold stays uint64, for a caller that says where its numbers must lie; others ask for `signed`.
    Raises TypeError for any other type than integers, with `signed` ValueError for a number that int64 cannot hold.
    """
    array = as_array(raw(values))
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name}: {argument} are {array.dtype}; pass integers{hint}")
    if array.dtype.kind == "u" and array.max(initial=0) > LARGEST_INTEGER:
        if not signed:
            return array
        raise ValueError(f"{name}: {argument} hold {array.max()}; pass integers up to {LARGEST_INTEGER}")
    return array.astype(np.int64, copy=False)


def is_own(function: Callable) -> bool:
    """Whether a function or an operation is refnp's."""
    return function.__module__.partition(".")[0] == "refnp"


def owning(name: str, vjp: Callable, arguments: tuple, most: int) -> Callable:
    """A rule that is not refnp's: it gets read-only gradients, and what it returns is checked and copied.

    Raises ValueError for more gradients than the `most` arguments that it takes, and for a shape that is neither the
    argument's nor a result's, to which the argument was broadcast; TypeError for what is no real number where the
    argument is.
    """

    def rule(*bars: Array) -> Any:
        gradients = vjp(*map(read_only, bars))
        if not isinstance(gradients, tuple):
            return gradients
        if len(gradients) > max(most, len(arguments)):
            raise ValueError(f"backward: the rule of {name} returned {len(gradients)} gradients for {most} arguments")
        found: list[Any] = []
        for place, (argument, gradient) in enumerate(zip(arguments, gradients, strict=False)):
            if not (isinstance(argument, Tensor) and argument.requires_grad):
                found.append(None)
                continue
            gradient = gradient() if callable(gradient) else gradient
            if gradient is not None and np.shape(gradient) not in (argument.shape, *(bar.shape for bar in bars)):
                raise ValueError(
                    f"backward: the rule of {name} returned shape {np.shape(gradient)} for argument {place}, "
                    f"of shape {argument.shape}"
                )
            if (came := getattr(gradient, "dtype", argument.dtype)).kind not in "fiu" + argument.dtype.kind:
                raise TypeError(f"backward: the rule of {name} returned {came} for argument {place}, {argument.dtype}")
            found.append(gradient if gradient is None or isinstance(gradient, Kind) else np.array(gradient))
        return tuple(found)

    return rule


def copied(value: Any) -> Any:
    """A copy of an array, which its function may fill once more; anything else as it is."""
    return value.copy(order="K") if type(value) is np.ndarray else value


def read_only(value: Any) -> Any:
    """A view of an array that cannot be written to; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
