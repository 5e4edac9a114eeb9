"""An equation in place of a layer's name: a function of refnp's operations, judged by the bound of what it computes.

    refnp.judge(lambda x, gain: x / sqrt(mean(x * x, -1, keepdims=True)) * gain, my_norm, {"x": x, "gain": gain})

The equation is run in the widest precision, on a tape, and its bound is what the rounding of every operation can do to
the output (`refnp.verify.propagation`), of first order. An operation without a bound is refused by its name. Gradients
are those of the tape in `Rounded` numbers, with the bound that these carry.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array, Tensor
from refnp.numbers.rounding import Rounded
from refnp.verify.asking import real
from refnp.verify.case import Case, Layer, quiet
from refnp.verify.findings import Report, first_line
from refnp.verify.frameworks.native import NATIVES, NUMPY
from refnp.verify.judged_pages import Formula, by_tape
from refnp.verify.propagation import bounded, wide

Inputs = Mapping[str, Any] | Sequence[Any]
DRAWN = 3  # cases, where a function draws the inputs
ROUNDS_ELSEWHERE = (
    "an equation is judged where every operation rounds to one format, float32 or float64, and where only what comes "
    "out is stored in a narrower one: 'bfloat16 in and out, float32 inside'"
)


def is_equation(name: Any) -> bool:
    """Whether this is a function that stands in place of a layer's name; a class or a module is neither."""
    return callable(name) and not inspect.isclass(name)


def said(function: Callable) -> str:
    """What a report calls the equation: "gated", or "of (q, k, v)" where it has no name."""
    name = getattr(function, "__name__", type(function).__name__)
    return f"of ({', '.join(inspect.signature(function).parameters)})" if name == "<lambda>" else name


def layer_of(function: Callable) -> Layer:
    """The equation as a layer."""
    parameters = inspect.signature(function).parameters.values()
    if any(place.kind in (place.VAR_POSITIONAL, place.VAR_KEYWORD) for place in parameters):
        raise ValueError(f"the equation takes {inspect.signature(function)}; name its arguments one by one")

    on_tape = by_tape(function)

    @functools.wraps(function)
    def equation(*arrays: Rounded, **options: Any) -> tuple[Rounded, Callable]:
        judged = arrays[0].arithmetic
        if judged is not None and (judged.stored or judged.products):
            raise ValueError(ROUNDS_ELSEWHERE)
        output = one_result(function, function(*(wide(x.value) for x in arrays), **options))
        (found,) = bounded([output])
        return Rounded(found.value, found.error, found.lost, judged), lambda bar: on_tape(*arrays, **options)[1](bar)

    name = getattr(function, "__name__", type(function).__name__)
    name = "equation" if name == "<lambda>" else name
    return Layer(name, on_arrays(function), equation, whole=True, formula=Formula(function, on_arrays))


def on_arrays(function: Callable) -> Callable:
    """The equation as a function that takes and gives arrays where no Tensor is among them."""

    @functools.wraps(function)
    def computed(*arrays: Any, **options: Any) -> Any:
        output = one_result(function, function(*map(as_tensor, arrays), **options))
        return output if any(isinstance(x, Tensor) for x in arrays) else output.data

    return computed


def as_tensor(x: Any) -> Tensor:
    """What the equation is given in place of an array."""
    return x if isinstance(x, Tensor) else Tensor(x)


def one_result(function: Callable, output: Any) -> Tensor:
    """The output; TypeError for anything but one Tensor."""
    if isinstance(output, Tensor):
        return output
    raise TypeError(f"the equation {said(function)} gives {type(output).__name__}; it must give one Tensor")


def cases_of(function: Callable, inputs: Any, *, gradients: bool) -> list[Case]:
    """The equation on its inputs: a dict or a sequence of arrays, a list of these, or a function that draws them."""
    if inputs is None:
        raise ValueError("inputs: an equation has no cases of its own; give a dict of arrays, or several in a list")
    layer = layer_of(function)
    known = sorted(taken_by(layer), key=len)
    found = []
    for variant, given in each_of(inputs):
        arrays = inputs_by_name("judge", said(function), given, known)
        for name, array in arrays.items():
            if array.dtype.kind in "iub":
                raise ValueError(f"inputs: {name} is {array.dtype}; what is no real number belongs inside the equation")
        try:
            with quiet():
                layer.function(*arrays.values())
        except (ValueError, TypeError, AttributeError, IndexError) as wrong:
            raise ValueError(
                f"the equation {said(function)} cannot be computed: {first_line(wrong)}; write it with functions of "
                "refnp.autograd and refnp.layers"
            ) from wrong
        found.append(Case(layer, variant, arrays, gradients=None if gradients else ()))
    return found


def each_of(inputs: Any) -> list[tuple[str, Any]]:
    """(variant, inputs) of each case."""
    if callable(inputs):
        return [(f"drawn {k + 1}", inputs(np.random.default_rng(k))) for k in range(DRAWN)]
    if isinstance(inputs, list) and inputs and all(isinstance(one, Mapping | tuple) for one in inputs):
        return [(f"given {k + 1}", one) for k, one in enumerate(inputs)]
    return [("given", inputs)]


def completed(report: Report, function: Callable) -> Report:
    """The report with what it was judged against."""
    report.about = report.about.replace(", against ", f", against the equation {said(function)}, in ")
    return report


# ---- inputs as they are given


def taken_by(layer: Layer) -> set[tuple[str, ...]]:
    """The inputs of a layer by its equation, with and without those that may be left out; none if it takes any."""
    places = inspect.signature(layer.equation).parameters.values()
    if any(place.kind is place.VAR_POSITIONAL for place in places):
        return set()
    arrays = [place for place in places if place.kind is place.POSITIONAL_OR_KEYWORD]
    least = sum(place.default is place.empty for place in arrays)
    return {tuple(place.name for place in arrays[:count]) for count in range(max(least, 1), len(arrays) + 1)}


def inputs_by_name(function: str, layer: str, inputs: Inputs, known: list[tuple[str, ...]]) -> dict[str, Array]:
    """The inputs as arrays by refnp's names, in the layer's order."""
    listed = " or ".join(f"({', '.join(names)})" for names in known)
    if not isinstance(inputs, Mapping | list | tuple):
        raise ValueError(f"{function}: inputs: give a dict or a tuple of arrays; those of {layer} are {listed}")
    array_of = lambda name, given: real_of(function, f"inputs: {name}", given)
    if isinstance(inputs, Mapping):
        for names in known:
            if set(names) == set(inputs):
                return {name: array_of(name, inputs[name]) for name in names}
        raise ValueError(f"{function}: inputs are ({', '.join(inputs)}); those of {layer} are {listed}")
    for names in known:
        if len(names) == len(inputs):
            return {name: array_of(name, array) for name, array in zip(names, inputs, strict=True)}
    raise ValueError(f"{function}: there are {len(inputs)} inputs; those of {layer} are {listed}")


def real_of(function: str, what: str, x: Any) -> Array:
    """An array of any framework as NumPy's; ValueError for what are no real numbers."""
    native = next((native for native in NATIVES.values() if native.owns(x)), NUMPY)
    try:
        return real(native.numpy(x))
    except (TypeError, ValueError, RuntimeError) as wrong:  # PyTorch's for tensors without data, or sparse
        raise ValueError(f"{function}: {what}: {first_line(wrong)}; give an array of real numbers") from wrong
