"""One step of an optimiser as an equation: a parameter, its gradient and what is kept of the past → the same after it.

g = ∂L/∂θ, η is the `learning_rate`, t the `step` from 1, λ the `weight_decay`. The first result is θ, then comes what
is kept, in the order of the arguments; all arrays have one shape.
`refnp.training.optimizers` does the same in place, on parameters that lie one behind the other, and is judged by these.
Sources: Polyak (1964); Kingma & Ba (2015).   Transcription: tests/transcriptions/optimizers.py.
"""

import numpy as np

from refnp.numbers.parts import part
from refnp.numbers.words import Constant, constant


def sgd(
    parameter,
    gradient,
    velocity=None,
    *,
    learning_rate=1e-3,
    step=1,
    momentum=0.0,
    dampening=0.0,
    nesterov=False,
    weight_decay=0.0,
):
    """θ ← θ − η v, v ← μ v + (1 − τ) g, or θ − η (g + μ v) for Nesterov's; first g ← g + λ θ.

    μ the `momentum`, τ the `dampening` (0 at step 1).   Source: Polyak (1964); Sutskever et al. (2013).
    """
    g = decayed(parameter, gradient, weight_decay)
    own = (1 - constant(dampening)) * g if dampening and step > 1 else g
    v = own if velocity is None else constant(momentum) * velocity + own
    moved = g + constant(momentum) * v if nesterov else v
    return parameter - constant(learning_rate) * moved, v


def adam(
    parameter, gradient, mean, square, *, step=1, learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0
):
    """θ ← θ − η m̂/(√v̂ + ε), m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ), m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g².

    First g ← g + λ θ.   Source: Kingma & Ba (2015), alg. 1.
    """
    g = decayed(parameter, gradient, weight_decay)
    m = faded(mean, g, beta1)
    v = faded(square, g * g, beta2)
    taken = m / less_power(beta1, step) / (np.sqrt(v / less_power(beta2, step)) + constant(eps))
    return parameter - constant(learning_rate) * taken, m, v


def adamw(
    parameter,
    gradient,
    mean,
    square,
    *,
    step=1,
    learning_rate=1e-3,
    beta1=0.9,
    beta2=0.999,
    eps=1e-8,
    weight_decay=0.01,
):
    """θ ← θ − η λ θ − η m̂/(√v̂ + ε), all else as `adam`: weights shrink without a part in the gradient.

    Source: Loshchilov & Hutter (2019), alg. 2.
    """
    options = {"step": step, "learning_rate": learning_rate, "beta1": beta1, "beta2": beta2, "eps": eps}
    moved, m, v = adam(parameter, gradient, mean, square, **options)
    shrunk = constant(learning_rate) * constant(weight_decay) * parameter
    return moved - shrunk, m, v


def rmsprop(parameter, gradient, square, *, learning_rate=1e-2, beta=0.99, eps=1e-8, weight_decay=0.0):
    """θ ← θ − η g/(√v + ε), v ← β v + (1 − β) g²; first g ← g + λ θ.

    Source: Tieleman & Hinton (2012), lecture 6e; Graves (2013).
    """
    g = decayed(parameter, gradient, weight_decay)
    v = faded(square, g * g, beta)
    return parameter - constant(learning_rate) * (g / (np.sqrt(v) + constant(eps))), v


def adagrad(parameter, gradient, total, *, learning_rate=1e-2, eps=1e-10, weight_decay=0.0):
    """θ ← θ − η g/(√s + ε), s ← s + g²; first g ← g + λ θ.   Source: Duchi, Hazan & Singer (2011), fig. 1."""
    g = decayed(parameter, gradient, weight_decay)
    s = total + g * g
    return parameter - constant(learning_rate) * (g / (np.sqrt(s) + constant(eps))), s


def decayed(parameter, gradient, weight_decay):
    """g + λ θ."""
    return gradient + constant(weight_decay) * parameter if weight_decay else gradient


@part
def faded(kept, new, beta):
    """β m + (1 − β) g: a mean that forgets."""
    return constant(beta) * kept + (1 - constant(beta)) * new


@part
def less_power(beta, step):
    """1 − βᵗ, the weights of a mean that began with 0."""
    return Constant(lambda m: 1 - constant(beta).of(m) ** step)
