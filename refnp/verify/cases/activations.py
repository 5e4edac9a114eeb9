"""Cases of the activations and of the error function: ordinary numbers, around zero, and both tails."""

from __future__ import annotations

import numpy as np

from refnp.autograd import special
from refnp.layers import activations
from refnp.verify import known
from refnp.verify.case import Case, Layer, uniform
from refnp.verify.equations import activations as equations

NAMES = ("relu", "leaky_relu", "elu", "sigmoid", "silu", "softplus", "gelu")
LAYERS = {name: Layer(name, getattr(activations, name), getattr(equations, name)) for name in NAMES}
ERF = Layer("erf", special.erf, equations.erf)
ERFC = Layer("erfc", special.erfc, equations.erfc)

AROUND_ZERO = np.array([-1e-3, -1e-6, -1e-20, -1e-30, 0.0, 1e-30, 1e-20, 1e-6, 1e-3])
FAR_LEFT = -np.geomspace(4.0, 80.0, 24)
FAR_RIGHT = np.geomspace(4.0, 80.0, 24)


AT_FAR_LEFT = {
    "gelu": (known.GELU_TAIL,),
    "gelu, tanh": (known.GELU_TANH_TAIL, known.JAX_GELU_TANH_TAIL),
    "elu": (known.JAX_ELU_VJP,),
    "softplus": (known.JAX_SOFTPLUS_VJP,),
}
AT_FAR_RIGHT = {
    "sigmoid": (known.SIGMOID_VJP, known.JAX_SIGMOID_VJP),
    "silu": (known.SILU_VJP, known.JAX_SILU_VJP),
    "softplus": (known.SOFTPLUS_THRESHOLD, known.JAX_SOFTPLUS_VJP),
    "gelu, tanh": (known.GELU_TANH_VJP, known.JAX_GELU_TANH_VJP),
}


def cases() -> list[Case]:
    """All cases of this page."""
    found = [case for layer in LAYERS.values() for case in four_ranges(layer)]
    found += four_ranges(LAYERS["gelu"], approximate="tanh")
    x = {"x": uniform(31, low=-4, high=4)}
    found += [
        Case(LAYERS["leaky_relu"], "slope 0.2", x, {"slope": 0.2}),
        Case(LAYERS["elu"], "alpha 0.5", x, {"alpha": 0.5}, (known.JAX_ELU_VJP,)),
    ]
    for layer in (ERF, ERFC):
        far_known = (known.JAX_ERFC_TAIL,) if layer is ERFC else ()
        found += [
            Case(layer, "ordinary", {"x": uniform(6, 9, low=-2.5, high=2.5)}),
            Case(layer, "around zero", {"x": AROUND_ZERO}),
            Case(layer, "right tail", {"x": np.linspace(2.5, 9, 24)}, known=far_known),
            Case(layer, "left tail", {"x": -np.linspace(2.5, 9, 24)}),
        ]
    return found


def four_ranges(layer: Layer, **options: str) -> list[Case]:
    """Where an activation bends, and where it no longer does."""
    name = ", ".join([layer.name, *options.values()])
    prefix = "".join(f"{value}, " for value in options.values())
    low = -1.5 if layer.name == "gelu" else -3  # further left the case is one of the tail
    near = (
        AROUND_ZERO[AROUND_ZERO != 0] if layer.name == "leaky_relu" else AROUND_ZERO
    )  # JAX takes the other slope at 0
    return [
        Case(layer, f"{prefix}ordinary", {"x": uniform(6, 9, low=low, high=3)}, options),
        Case(layer, f"{prefix}around zero", {"x": near}, options),
        Case(layer, f"{prefix}far left", {"x": FAR_LEFT}, options, AT_FAR_LEFT.get(name, ())),
        Case(layer, f"{prefix}far right", {"x": FAR_RIGHT}, options, AT_FAR_RIGHT.get(name, ())),
    ]
