"""How JAX is asked for an answer: compiled, and with float64 switched on for the call alone.

Layers that JAX leaves to other libraries (multi-head attention, set convolution, …) are not judged.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

import numpy as np

from refnp.verify.case import Answer, Problem
from refnp.verify.frameworks import counterpart

NAME = "JAX"


def installed() -> bool:
    """True if JAX can be imported."""
    return importlib.util.find_spec("jax") is not None


def version() -> str:
    """The version; JAX is not imported for it."""
    return importlib.metadata.version("jax")


def answer(problem: Problem) -> Answer:
    """JAX's output and gradients, as arrays. Raises NotOfferedError if it has no such function."""
    import jax

    function = counterpart(problem, "jax", NAME, jax)

    @jax.jit
    def run(arrays: list, cotangent: Any) -> Any:
        output, pullback = jax.vjp(function, *arrays)
        return output, pullback(cotangent)

    with jax.enable_x64(True):
        output, gradients = run(list(problem.arrays.values()), problem.cotangent)
    answer = problem.selected(output, lambda: gradients)
    return {quantity: np.asarray(array) for quantity, array in answer.items()}
