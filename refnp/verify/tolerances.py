"""For tests of one's own: how far an answer may be from the exact one, element by element, and a test in one line.

    allowed = refnp.tolerance("attention", {"query": q, "key": k, "value": v}, precision="bfloat16")
    refnp.assert_close("attention", got, {"query": q, "key": k, "value": v}, precision="bfloat16")

The inputs are one's own, and so the tolerance is that of these numbers: no guess has to serve all of them. `precision`
says where the answer was rounded (`refnp.numbers.precision`).
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array
from refnp.numbers import rounding
from refnp.numbers.precision import FORMATS, Policy, checked_formats, format_of, policy
from refnp.verify import equations
from refnp.verify.asking import another_format
from refnp.verify.case import Case, Problem, quiet
from refnp.verify.equations import Inputs, inputs_by_name, real_of, taken_by
from refnp.verify.findings import first_line
from refnp.verify.judge import DEVIATES, KNOWN, Judgement, judged
from refnp.verify.layer_names import named_cases
from refnp.verify.report import came, number


def tolerance(
    name: str | Callable,
    inputs: Inputs,
    *,
    precision: str = "float32",
    formats: Mapping[str, str] | None = None,
    cotangent: Any = None,
    **options: Any,
) -> Array | dict[str, Array]:
    """How far a right answer of the layer `name` may be from the exact one on these inputs, for each element.

    name        of a layer, or a function of refnp's operations, an equation in its place
    inputs      arrays by refnp's names, {"x": x, "gain": gain, "shift": shift}, or in that order, of NumPy or another
                framework; in low precision, numbers of the stored format
    precision   where the answer is rounded, such as "float32" or "bfloat16 in and out, float32 inside"
    formats     of inputs that are stored in another format than the precision says, {"gain": "float32"}; where some
                input has the type of the stored format, the types of the others say it
    cotangent   ȳ, of the shape of the output: then {"output": …, "gradient of x": …} with the bounds of all gradients
    options     of the layer, by refnp's names: eps=1e-6

    It is ∞ where a number on the way leaves the range of the stored format. Raises ValueError for a name, inputs or a
    precision that there is not, and for inputs that the stored format does not hold or the layer does not take.
    """
    problem = problem_of("tolerance", name, inputs, precision, cotangent, options, formats)
    with quiet():
        bounds = problem.bounds
        allowed = {name: rounding.tolerance(bound, problem.precision(name)) for name, bound in bounds.items()}
    return allowed if cotangent is not None else allowed["output"]


def assert_close(
    name: str | Callable,
    got: Any,
    inputs: Inputs,
    *,
    precision: str = "float32",
    formats: Mapping[str, str] | None = None,
    cotangent: Any = None,
    **options: Any,
) -> None:
    """AssertionError if `got` is farther from the exact answer of the layer `name` than `tolerance` allows.

    got         the output; with a cotangent {"output": …, "gradient of x": …}, or some of these
    inputs, precision, formats, cotangent, options   as for `tolerance`

    The message says by how much, where, what is right, and which known mistake gives such numbers. A result of another
    type than the stored format's, where an input has that, is a warning.
    Raises ValueError as `tolerance` does, and for what is no quantity of the layer.
    """
    __tracebackhide__ = True  # for pytest, which then shows the line of the test
    problem = problem_of("assert_close", name, inputs, precision, cotangent, options, formats)
    given = dict(got) if isinstance(got, Mapping) else {"output": got}
    known = ", ".join(problem.case.quantities)
    if not given:
        raise ValueError(f"assert_close: got is empty; its quantities are {known}")
    if unknown := [quantity for quantity in given if quantity not in problem.case.quantities]:
        raise ValueError(f"assert_close: got has {unknown[0]!r}; its quantities are {known}")
    numbers = {quantity: real_of("assert_close", f"{quantity} of got", array) for quantity, array in given.items()}
    with quiet():
        reference = problem.reference()
        answer = {quantity: numbers.get(quantity, right) for quantity, right in reference.items()}
        rows = judged(problem, answer, reference, "what was got", "")
    typed = form_is_typed(problem, inputs)
    for quantity, array in numbers.items() if typed else ():
        if came := another_format(array, problem.precision(quantity)):
            warnings.warn(f"assert_close: {quantity}: {came}", stacklevel=2)
    if wrong := [row for row in rows if row.verdict in (DEVIATES, KNOWN)]:  # such as another subgradient
        raise AssertionError("\n".join(told(problem, answer, wrong)))


def told(problem: Problem, answer: dict[str, Array], rows: list[Judgement]) -> list[str]:
    """What is wrong, a line for each quantity, and the known mistakes that give such numbers."""
    from refnp.verify.causes import causes

    found = [f"{problem.case.layer.name} in {problem.dtype}:"]
    for row in rows:
        text = f"  {row.quantity}: {number(row.error_over_bound)} times what rounding allows"
        text += f" ({row.why})" if row.why else f", {came(row)}"
        if (other := another_format(answer[row.quantity], problem.precision(row.quantity))) and not row.why:
            text += f"; {other}"
        found.append(text)
    numbers = [row for row in rows if not row.why]
    named = causes([(problem, answer)], numbers) if numbers else []
    return found + [f"  as if {cause.says}" for cause in named if cause.says]


def problem_of(
    function: str,
    name: Any,
    inputs: Inputs,
    precision: str,
    cotangent: Any,
    options: dict[str, Any],
    formats: Mapping[str, str] | None = None,
) -> Problem:
    """The inputs as a case of the layer, in one precision; ValueError if they are none."""
    form, of_equation = policy(precision), equations.is_equation(name)
    named = [] if of_equation else named_cases(name)
    layer = equations.layer_of(name) if of_equation else named[0].layer
    names = {tuple(case.inputs) for case in named if case.layer is layer} | taken_by(layer)
    arrays = inputs_by_name(function, layer.name, inputs, sorted(names, key=len))
    own = formats_of(form, arrays) | checked_formats(function, formats, layer.name, arrays)
    for argument, array in arrays.items():
        stored = policy(own.get(argument, form))
        if not np.array_equal(stored.given(array), array, equal_nan=True):
            wider = 'precision="float64"' if form.name == "float32" else f'formats={{"{argument}": "float32"}}'
            raise ValueError(
                f"{function}: inputs: {argument} has numbers that {stored.stored.name} does not hold; pass {wider}, or "
                "round it first"
            )
    gradients = None if cotangent is not None else ()
    bar = None if cotangent is None else real_of(function, "cotangent", cotangent)
    problem = Case(layer, "given", arrays, options, gradients=gradients, cotangent=bar, formats=own).problem(form.name)
    try:
        with quiet():
            layer.function(*arrays.values(), **options)  # which knows what shapes and options there are
            problem.textbook  # noqa: B018  # computed here, without warnings
    except (ValueError, TypeError, IndexError) as wrong:
        shapes = ", ".join(f"{argument} {array.shape}" for argument, array in arrays.items())
        raise ValueError(f"{function}: {layer.name} of {shapes}: {first_line(wrong)}") from wrong
    if cotangent is not None and problem.cotangent.shape != problem.textbook[0].shape:
        shapes = f"{problem.cotangent.shape}; the output has {problem.textbook[0].shape}"
        raise ValueError(f"{function}: cotangent has shape {shapes}")
    return problem


def formats_of(form: Policy, arrays: Mapping[str, Array]) -> dict[str, str]:
    """The formats of inputs by their types, where one of them has the type of the stored format: of the others."""
    types = {name: format_of(array) for name, array in arrays.items()}
    if form.stored.name not in types.values():
        return {}
    return {name: kind for name, kind in types.items() if kind in FORMATS and kind != form.stored.name}


def form_is_typed(problem: Problem, inputs: Inputs) -> bool:
    """Whether an input has the type of the stored format, and not numbers of it in a wider type."""
    arrays = inputs.values() if isinstance(inputs, Mapping) else inputs
    return policy(problem.dtype).stored.name in [format_of(real_of("assert_close", "inputs", x)) for x in arrays]
