"""What is verified of the layers, a page for each family, and of the models. On a page stand, one under the other:

    def softmax(x)             the equations and their gradients in `Rounded` numbers
    def torch_softmax(…)       adapters, where PyTorch, JAX or refnp take other arguments or have other conventions
    SOFTMAX = Layer(…)         what is the same: refnp's function, the equation, and the names or adapters
    X_CANCELS = KnownDefect(…) what a framework is known to get wrong
    def cases()                inputs and options, with the known defects that they may show
    WITHOUT = (…)              why a public name has no equation, cases, gradient inputs or transcription
    def gradient_inputs()      small inputs on which gradcheck checks the gradients of functions and modules

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

from refnp.verify.case import Case, GradientInputs, Without
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
    """The gradient inputs of every page; those of models are marked as such."""
    of_layers = [inputs for page in LAYERS for inputs in getattr(page, "gradient_inputs", list)()]
    of_models = [inputs for page in MODELS for inputs in getattr(page, "gradient_inputs", list)()]
    return of_layers + [dataclasses.replace(inputs, model=True) for inputs in of_models]


__all__ = ["ASKED", "LAYERS", "MODELS", "cases", "cases_of_layers", "cases_to_ask", "gradient_inputs"]


def __dir__() -> list[str]:
    return __all__
