"""One step of an optimiser: parameters, their gradient and what is kept of the past → parameters, or what is kept now.

Of a step that changes several things each is a function of its own: `adam` gives θ, `adam_mean` m and `adam_square` v.
And gradients that are clipped by their norm. For `refnp.judge` alone; nothing here has a gradient.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import Parameter
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.primitives import raw
from refnp.numbers import rounding
from refnp.numbers.rounding import constant, where
from refnp.training import SGD, Adagrad, Adam, AdamW, RMSprop, clip_gradients, steps
from refnp.verify.case import Case, Convention, Layer, normal, uniform
from refnp.verify.layers.optimizer_steps import Step


def clip_by_norm(gradient, *, norm, added=0.0):
    """g ← g min(1, c/‖g‖), c the `norm`; either of the two where rounding may decide. PyTorch adds 1e-6 to ‖g‖.

    TensorFlow computes g c/max(‖g‖, c), and so rounds twice where nothing is clipped, too.
    """
    length = rounding.sqrt((gradient * gradient).sum()) + constant(added)
    clipped = gradient * (constant(norm) / where(length.value == 0, 1, length))
    close = np.abs(length.value - norm) <= length.off
    return where(length.value > norm, clipped, gradient * (constant(norm) / constant(norm)), doubtful=close), None


@takes_unchecked("gradient (...) → (...)", norm="positive")
def refnp_clipped(gradient, *, norm):
    """g ← g min(1, c/‖g‖), c the `norm`.   Shapes: any → the same."""
    parameter = Parameter(np.zeros_like(raw(gradient)))
    parameter.grad = np.array(raw(gradient))
    clip_gradients([parameter], norm)
    return parameter.grad


def torch_clipped(torch, gradient, *, norm):
    """clip_grad_norm_ changes the gradient of a parameter."""
    parameter = torch.zeros_like(gradient).requires_grad_()
    parameter.grad = gradient.detach().clone()
    torch.nn.utils.clip_grad_norm_([parameter], norm)
    return parameter.grad


MOMENTS = ("exp_avg", "exp_avg_sq")
OF_SGD = Step(steps.sgd, SGD, ("velocity",), "SGD", ("momentum_buffer",), step=2)  # the first makes a velocity
OF_ADAM = Step(steps.adam, Adam, ("mean", "square"), "Adam", MOMENTS)
SGD_STEP, SGD_VELOCITY = OF_SGD.layer(), OF_SGD.layer("velocity")
ADAM, ADAM_MEAN, ADAM_SQUARE = OF_ADAM.layer(), OF_ADAM.layer("mean"), OF_ADAM.layer("square")
ADAMW = Step(steps.adamw, AdamW, ("mean", "square"), "AdamW", MOMENTS).layer()
RMSPROP = Step(steps.rmsprop, RMSprop, ("square",), "RMSprop", ("square_avg",)).layer()
ADAGRAD = Step(steps.adagrad, Adagrad, ("sum",), "Adagrad", ("sum",)).layer()
CLIP = Layer("clip_by_norm", refnp_clipped, clip_by_norm, torch=torch_clipped)
LITTLE_MORE = Convention(
    "PyTorch",
    "clipped to c/(‖g‖ + 1e-6)",
    "clip_grad_norm_ divides by ‖g‖ + 1e-6, so that what is clipped is a little shorter than c",
    options={"added": 1e-6},
)


def cases() -> list[Case]:
    """First steps and later ones, each option, small gradients and none; gradients longer and shorter than the norm."""
    given = {"parameter": normal(3, 4), "gradient": normal(3, 4)}
    sgd_given = given | {"velocity": normal(3, 4)}
    square = uniform(3, 4, low=0.0, high=2.0)
    adam_given = given | {"mean": normal(3, 4, scale=0.5), "square": square}
    first = given | {"mean": np.zeros((3, 4)), "square": np.zeros((3, 4))}
    small = adam_given | {name: normal(3, 4, scale=1e-6) for name in ("gradient", "mean")} | {"square": square_of(1e-6)}
    one_is_0 = first | {"gradient": lambda rng: rng.normal(size=(3, 4)) * (np.arange(12).reshape(3, 4) != 5)}

    def case(layer: Layer, variant: str, inputs: dict, **options: Any) -> Case:
        return Case(layer, variant, inputs, options, gradients=())

    found = [
        case(SGD_STEP, "plain", given, learning_rate=0.1),
        case(SGD_STEP, "weight decay", given, learning_rate=0.1, weight_decay=0.05),
    ]
    rate = {"learning_rate": 0.1}
    for layer, options in ((SGD_STEP, rate), (SGD_VELOCITY, {})):
        found += [
            case(layer, "dampening at the first step", given, **options, momentum=0.9, step=1, dampening=0.5),
            case(layer, "momentum", sgd_given, **options, momentum=0.9),
            case(layer, "dampening", sgd_given, **options, momentum=0.9, step=4, dampening=0.5),
            case(layer, "momentum, weight decay", sgd_given, **options, momentum=0.9, weight_decay=0.05),
        ]
    for layer in (ADAM, ADAMW):
        found += [
            case(layer, "step 7", adam_given, **rate, step=7),
            case(layer, "first step", first, **rate, step=1),
            case(layer, "betas 0.8 and 0.95", adam_given, **rate, step=3, beta1=0.8, beta2=0.95),
            case(layer, "weight decay 0.2", adam_given, **rate, step=7, weight_decay=0.2),
        ]
    for layer, beta in ((ADAM_MEAN, "beta1"), (ADAM_SQUARE, "beta2")):
        found += [
            case(layer, "ordinary", adam_given),
            case(layer, f"{beta} 0.8", adam_given, **{beta: 0.8}),
            case(layer, "weight decay 0.2", adam_given, weight_decay=0.2),
        ]
    for layer in (ADAM, ADAMW):
        found += [
            case(layer, "eps 0.1", adam_given, **rate, step=7, eps=0.1),
            case(layer, "small gradients", small, **rate, step=7),
            case(layer, "a gradient of 0", one_is_0, **rate),
        ]
    for layer, inputs in ((RMSPROP, given | {"square": square}), (ADAGRAD, given | {"total": square})):
        found += [
            case(layer, "ordinary", inputs, **rate),
            case(layer, "eps 0.1, weight decay", inputs, **rate, eps=0.1, weight_decay=0.05),
        ]
    found.append(case(SGD_STEP, "Nesterov", sgd_given, **rate, momentum=0.9, nesterov=True))
    clipped = {"gradient": normal(4, 5)}
    return [
        *found,
        case(RMSPROP, "beta 0.9", given | {"square": square}, **rate, beta=0.9),
        Case(CLIP, "longer", clipped, {"norm": 1.0}, (LITTLE_MORE,), gradients=()),
        Case(CLIP, "much longer", {"gradient": normal(4, 5, scale=1e3)}, {"norm": 0.5}, (LITTLE_MORE,), gradients=()),
        case(CLIP, "shorter", clipped, norm=100.0),
        case(CLIP, "zeros", {"gradient": np.zeros(3)}, norm=1.0),
    ]


def square_of(size: float) -> Callable:
    """Squares of numbers of this size."""
    return lambda rng: (size * rng.normal(size=(3, 4))) ** 2
