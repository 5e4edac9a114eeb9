"""What is verified of the layers, a page for each family, and of the models. On a page stand, one under the other:

    def softmax(x)             the equations and their gradients in `Rounded` numbers
    def torch_softmax(…)       adapters, where PyTorch, JAX or refnp take other arguments or have other conventions
    SOFTMAX = of_page(…)       what is the same: refnp's function, judged by its page, and the names or adapters
    X_CANCELS = KnownDefect(…) what a framework is known to get wrong
    def cases()                inputs and options, with the known defects that they may show
    WITHOUT = (…)              why a public name has no equation, cases, gradient inputs or transcription
    def gradient_inputs()      small inputs on which gradcheck checks gradients, beside those that are cases

`sizes` has more cases of them all, larger ones. The pages of ASKED are for `refnp.judge` alone: functions of other
arguments than refnp's public ones, and what is so small a part of a layer that `refnp verify` has no row for it.

An equation takes `Rounded` numbers and returns (y, pullback), pullback(ȳ) one gradient for each argument, in the form
in which the textbooks print them and independent of refnp's own code. So each gives two things at once: a second
opinion on refnp's value, and the bound by which it and every framework is judged (`refnp.numbers.rounding`). Where two
forms of an equation are equal on paper, the one that cancels least is written down: erfc and not 1 + erf, log1p of the
rest and not log of the sum, σ(−x) and not 1 − σ(x).
"""

import dataclasses
from types import ModuleType
from typing import Any

import numpy as np

from refnp import autograd
from refnp import layers as public
from refnp.verify.case import Case, GradientInputs, Without, gradient_of_case
from refnp.verify.layers import (
    activations,
    attention,
    attention_forms,
    convolution,
    distributions,
    elementary,
    elsewhere,
    engine,
    gaussian_processes,
    linear,
    losses,
    matrices,
    moves,
    multi_head,
    neural_process_parts,
    neural_processes,
    normalization,
    optimizers,
    pooling,
    positions,
    probabilities,
    products,
    reductions,
    resizing,
    schedules,
    set_convolution,
    sizes,
    softmax,
    training_parts,
    transformer,
    transformer_layers,
    vision,
    whole_models,
)

LAYERS: tuple[ModuleType, ...] = (
    engine, matrices, activations, softmax, normalization, linear, attention, multi_head, positions, convolution,
    pooling, set_convolution, losses, distributions, sizes,
)  # fmt: skip
MODELS: tuple[ModuleType, ...] = (
    transformer_layers,
    transformer,
    vision,
    neural_process_parts,
    neural_processes,
    whole_models,
)
ASKED: tuple[ModuleType, ...] = (
    elsewhere, elementary, reductions, products, attention_forms, training_parts, optimizers, schedules,
    gaussian_processes, probabilities, resizing, moves,
)  # fmt: skip
MOST = 270  # numbers of a case on which gradients are checked
AT_THE_EDGE = (losses.BINARY, losses.OF_PROBABILITIES, distributions.STUDENT_T)  # steps leave the domain
WITHOUT = [
    Without(what, ("Module",), "the base class of the layers computes nothing")
    for what in ("equation", "gradient inputs", "transcription")
]


def cases() -> list[Case]:
    """Every case of every page, those of whole models among them; names are unique."""
    return [case for page in (*LAYERS, *MODELS) for case in cases_of(page)]


def cases_to_ask() -> list[Case]:
    """All that `refnp.judge` may ask: every case, and those of the pages of ASKED."""
    return cases() + [case for page in ASKED for case in cases_of(page)]


def cases_of(page: ModuleType) -> list[Case]:
    """The cases of a page, made anew; none where it has none."""
    return page.cases() if hasattr(page, "cases") else []


def cases_of_layers() -> list[Case]:
    """The cases of what other frameworks may have as well: all but those of whole models."""
    return [case for case in cases() if not case.layer.whole]


def without() -> list[Without]:
    """Why some public names lack something, as their pages say in WITHOUT."""
    return WITHOUT + [lack for page in (*LAYERS, *MODELS) for lack in getattr(page, "WITHOUT", ())]


def gradient_inputs() -> list[GradientInputs]:
    """Those that are cases, and those that pages have beside; those of models are marked as such."""
    of_layers = [inputs for page in LAYERS for inputs in getattr(page, "gradient_inputs", list)()]
    of_models = [inputs for page in MODELS for inputs in getattr(page, "gradient_inputs", list)()]
    return gradient_inputs_of_cases() + of_layers + [dataclasses.replace(inputs, model=True) for inputs in of_models]


def gradient_inputs_of_cases() -> list[GradientInputs]:
    """Of each function the first case of every kind: of other arguments, axes or options.

    Of the functions that `refnp.judge` alone asks, those that refnp has by that name.
    """
    asked = [case for page in ASKED for case in cases_of(page)]
    offered = {*autograd.__all__, *public.__all__}
    found: dict[tuple, Case] = {}
    for case in filter(is_checked, cases_of_layers() + [case for case in asked if case.layer.name in offered]):
        x = next(iter(case.problem("float64").arrays.values()))
        options = [(name, kind_of(value)) for name, value in sorted(case.options.items())]
        found.setdefault((case.layer.equation, x.ndim, *case.inputs, *options), case)
    return [gradient_of_case(case) for case in found.values()]


def kind_of(option: Any) -> Any:
    """A word or a truth value, which may choose another branch; of anything else its type."""
    return option if isinstance(option, str | bool) else type(option)


def is_checked(case: Case) -> bool:
    """Whether numbers of a case are drawn, few and finite, and its gradient is the derivative of what is computed."""
    is_drawn = any(callable(value) for value in case.inputs.values())
    others = {*getattr(case.layer.equation, "other_gradient", ())} & {*case.options}
    if case.gradients is not None or not is_drawn or others or case.layer in AT_THE_EDGE:
        return False
    arrays = [*case.problem("float64").arrays.values()]
    if not 0 < sum(x.size for x in arrays) <= MOST or not all(np.isfinite(x).all() for x in arrays):
        return False
    return bool(np.isfinite(case.layer.function(*arrays, **case.options)).all())


__all__ = ["ASKED", "LAYERS", "MODELS", "cases", "cases_of_layers", "cases_to_ask", "gradient_inputs"]


def __dir__() -> list[str]:
    return __all__
