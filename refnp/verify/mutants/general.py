"""Mistakes that any layer may make: in the precision of what is inside, in its options, in one of its gradients."""

import inspect

import numpy as np

from refnp import autograd as ag
from refnp.verify.case import Layer
from refnp.verify.mutants.mutant import Mutant, stored, through


def in_float32(*arrays, function, **options):
    """The function of arrays brought to float32; its result, and the gradients, brought back."""
    return ag.astype(function(*(ag.astype(a, np.float32) for a in arrays), **options), arrays[0].dtype)


def stored_inside(*arrays, function, bits, **options):
    """The function of arrays with fewer bits of mantissa, whose result is stored so, and the gradients."""
    return stored(function(*(stored(a, bits=bits) for a in arrays), **options), bits=bits)


def with_float32_options(*arrays, function, defaults, **options):
    """The function with options, such as ε, that went through float32."""
    given = {**defaults, **options}
    return function(*arrays, **{k: float(np.float32(v)) if isinstance(v, float) else v for k, v in given.items()})


def with_gradient(*arrays, function, place, factor, **options):
    """The function with the gradient of one argument, or of all, multiplied by a factor."""
    count = max(arrays[0].shape[:1], default=1) or 1
    factor = {"n": float(count), "1/n": 1.0 / count}[factor] if isinstance(factor, str) else factor
    own = [through(a, bar=lambda g: g * factor) if place in (i, "all") else a for i, a in enumerate(arrays)]
    return function(*own, **options)


def float_defaults(function) -> dict[str, float]:
    """The options of a function that are floats unless told otherwise."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # it has none that can be known
        return {}
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and isinstance(p.default, float)}


PRECISIONS = (
    "everything inside were float32",
    "inputs, output and gradients were stored in bfloat16",
    "inputs, output and gradients were stored in float16",
    "options such as ε were rounded to float32",
)
FACTORS: dict[str, float | str] = {"left out, 0": 0.0, "of the other sign": -1.0, "doubled": 2.0, "halved": 0.5}
OF_ALL: dict[str, float | str] = {
    "multiplied by the length of the first axis": "n",
    "divided by the length of the first axis": "1/n",
    **FACTORS,
}
NAMES = [*PRECISIONS, *(f"the gradients were {s}" for s in OF_ALL), *(f"the gradient of x were {s}" for s in FACTORS)]


def of_precision(layer: Layer) -> list[Mutant]:
    """Inside, in storage, and in options."""
    layers, own = (layer.name,), {"function": layer.function}
    float32, bfloat16, float16, options = PRECISIONS
    return [
        Mutant(float32, layers, in_float32, own, narrow=True, inside="float32"),
        Mutant(bfloat16, layers, stored_inside, {**own, "bits": 8}, narrow=True),
        Mutant(float16, layers, stored_inside, {**own, "bits": 11}, narrow=True),
        Mutant(options, layers, with_float32_options, {**own, "defaults": float_defaults(layer.function)}),
    ]


def of_gradients(layer: Layer, names: list[str]) -> list[Mutant]:
    """All gradients, or that of one argument, left out or multiplied; `names` are those of the arguments."""

    def multiplied(which: str, says: str, place: int | str, factor: float | str) -> Mutant:
        switches = {"function": layer.function, "place": place, "factor": factor}
        return Mutant(f"the {which} were {says}", (layer.name,), with_gradient, switches)

    of_all = [multiplied("gradients", says, "all", factor) for says, factor in OF_ALL.items()]
    return of_all + [
        multiplied(f"gradient of {name}", says, place, factor)
        for place, name in enumerate(names)
        for says, factor in FACTORS.items()
    ]
