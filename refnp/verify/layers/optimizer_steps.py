"""A step of an optimiser of refnp or PyTorch, which change parameters that they hold, as a function of arrays."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd import Parameter
from refnp.autograd.declaration import Declaration
from refnp.autograd.primitives import raw
from refnp.numbers import rounding
from refnp.numbers.parts import with_parts
from refnp.numbers.rounding import WIDE, Rounded, exact
from refnp.numbers.words import constant
from refnp.training.steps import faded, less_power
from refnp.verify.case import Layer
from refnp.verify.judged_pages import Formula, on_rows

ARRAYS = ("parameter", "gradient", "velocity", "mean", "square", "total")
SQUARES = ("square", "total")
OPTIONS = {
    "learning_rate": "positive",
    "step": "whole ≥ 1",
    "momentum": "in [0, 1)",
    "dampening": "in [0, 1)",
    "nesterov": "True or False",
    "beta": "in [0, 1)",
    "beta1": "in [0, 1)",
    "beta2": "in [0, 1)",
    "eps": "≥ 0",
    "weight_decay": "≥ 0",
}
LATER = {"learning_rate": (0.1, 0.7), "step": (7, 2), "momentum": (0.9, 0.5)}  # so that what is kept can be


@dataclass(frozen=True)
class Step:
    """An optimiser of refnp and of PyTorch, and what each calls what is kept, in the order of the arguments.

    `step` is which one it is unless told: a later one where the first reads nothing that was kept.
    """

    page: Callable
    own: Any
    kept: tuple[str, ...]
    torch: str
    kept_by_torch: tuple[str, ...]
    step: int = 1

    def layer(self, kept: str = "") -> Layer:
        """The parameters after a step, or what is `kept`."""
        result = self.kept.index(kept) if kept else None
        place = 0 if result is None else 1 + result
        name = "_".join(filter(None, (self.page.__name__, kept)))
        of_page = inspect.signature(self.page)
        parameters = [p.replace(default=self.step) if p.name == "step" else p for p in of_page.parameters.values()]
        signature = of_page.replace(parameters=parameters)
        page = with_parts(self.page, {less_power: in_their_precision, faded: faded_in_any_form})

        def told(function: Callable) -> Callable:
            """The function, told what it has by default here, the step among it."""

            def of_all(*arrays: Any, **options: Any) -> Any:
                given = signature.bind(*arrays, **options)
                given.apply_defaults()
                return function(*given.args, **given.kwargs)

            return of_all

        def equation(*arrays: Any, **options: Any) -> tuple:
            return told(page)(*arrays, **options)[place], None

        def stepped(*arrays: Any, **options: Any) -> np.ndarray:
            return self.refnp(signature.bind(*arrays, **options), result)

        def stepped_by_torch(torch: Any, *arrays: Any, **options: Any) -> Any:
            return self.pytorch(torch, signature.bind(*arrays, **options), result)

        of = f"What is kept as {kept} by this: " if kept else ""
        function: Any
        for function in (equation, stepped):
            function.__signature__ = signature
            function.takes = declared(function)
            function.__doc__ = f"{of}{self.page.__doc__}\n\n    Shapes: all of one shape → the same."
        formula = Formula(self.page, lambda function: told(on_rows(function, place)))
        return Layer(name, stepped, equation, torch=stepped_by_torch, formula=formula, tried=LATER)

    def refnp(self, given: inspect.BoundArguments, result: int | None) -> np.ndarray:
        """A step of refnp's optimiser, from what was kept before it."""
        arrays, step, options = parts_of(given)
        moved = Parameter(np.array(raw(arrays[0])))
        moved.grad = np.array(raw(arrays[1]))
        optimizer = self.own([moved], **options)
        memory = {f"{name}.0": raw(array) for name, array in zip(self.kept, arrays[2:], strict=False)}
        optimizer.load_state_dict(optimizer.state_dict() | memory | {"steps": np.array([step - 1])})
        if moved.dtype == WIDE:  # so that 1 − ηλ has all its digits
            optimizer.learning_rate = WIDE(optimizer.learning_rate)
        optimizer.step()
        return moved.data if result is None else optimizer.memory()[f"{self.kept[result]}.0"]

    def pytorch(self, torch: Any, given: inspect.BoundArguments, result: int | None) -> Any:
        """A step of PyTorch's."""
        arrays, step, options = parts_of(given)
        moved, gradient, *memory = (array.detach().clone() for array in arrays)
        moved.grad = gradient
        options["lr"] = options.pop("learning_rate")
        if "beta" in options:
            options["alpha"] = options.pop("beta")
        optimizer = getattr(torch.optim, self.torch)([moved.requires_grad_()], **options)
        state = optimizer.state[moved]
        state |= dict(zip(self.kept_by_torch, memory, strict=False))
        state["step"] = torch.tensor(float(step - 1))
        optimizer.step()
        return moved.detach() if result is None else state[self.kept_by_torch[result]]


def declared(function: Callable) -> Declaration:
    """What a step takes: arrays of one shape, of which sums of squares are not negative, and options."""
    names = [*inspect.signature(function).parameters]
    shapes = (f"{name} {'nonnegative ' * (name in SQUARES)}(...)" for name in ARRAYS if name in names)
    options = {name: of for name, of in OPTIONS.items() if name in names}
    return Declaration(function, f"{', '.join(shapes)} → (...)", options)


def faded_in_any_form(kept: Any, new: Any, beta: float) -> Rounded:
    """β m + (1 − β) g, or m + (1 − β)(g − m), as PyTorch has it."""
    return rounding.either(lambda: faded(kept, new, beta), lambda: kept + (1 - constant(beta)) * (new - kept))


def in_their_precision(beta: float, step: int) -> Rounded:
    """1 − βᵗ where all is computed in the precision of the arrays."""
    return 1 - rounding.power(exact(beta), exact(step))


def parts_of(given: inspect.BoundArguments) -> tuple[list, int, dict[str, Any]]:
    """Arrays, the number of the step, and options as optimisers take them: both β together."""
    given.apply_defaults()
    arrays = [value for name, value in given.arguments.items() if name in ARRAYS and value is not None]
    options = {name: value for name, value in given.arguments.items() if name not in (*ARRAYS, "step")}
    if "beta1" in options:
        options["betas"] = options.pop("beta1"), options.pop("beta2")
    return arrays, given.arguments.get("step", 1), options
