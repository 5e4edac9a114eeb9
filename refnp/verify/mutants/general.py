"""Mistakes that any layer may make in the precision of what is inside."""

import numpy as np

from refnp import autograd as ag
from refnp.verify.case import Layer
from refnp.verify.mutants.mutant import Mutant


def in_float32(*arrays, function, everything, **options):
    """The function of arrays brought to float32; its result, and the gradients, brought back."""
    return ag.astype(function(*(ag.astype(a, np.float32) for a in arrays), **options), arrays[0].dtype)


EVERYTHING, SOMETHING = "everything inside were float32", "something inside were rounded to float32"
NAMES = [
    EVERYTHING,
    SOMETHING,
    "options such as ε were rounded to float32",
    "inputs, output and gradients were stored in bfloat16, float16, … or some of them",
    "the gradient of x were 2 times what is right, or divided by the length of an axis, or of another ȳ",
]


def of_precision(layer: Layer) -> list[Mutant]:
    """All that is inside, which shows in the results, or something."""
    own = {"function": layer.function}
    return [
        Mutant(
            says, (layer.name,), in_float32, {**own, "everything": says == EVERYTHING}, narrow=True, inside="float32"
        )
        for says in (EVERYTHING, SOMETHING)
    ]
