"""How PyTorch is asked for an answer."""

from __future__ import annotations

import importlib.metadata
import importlib.util

from refnp.verify.case import Answer, Problem
from refnp.verify.frameworks import counterpart

NAME = "PyTorch"


def installed() -> bool:
    """True if PyTorch can be imported."""
    return importlib.util.find_spec("torch") is not None


def version() -> str:
    """The version, with its build: "2.13.0+cpu". PyTorch is not imported for it."""
    return importlib.metadata.version("torch")


def answer(problem: Problem) -> Answer:
    """PyTorch's output and gradients, as arrays. Raises NotOfferedError if it has no such function."""
    import torch

    function = counterpart(problem, "torch", NAME, torch)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # cases are small: on a busy machine threads would wait for each other most of the time
    try:
        quantities = problem.case.quantities
        inputs = {name: torch.from_numpy(array.copy()) for name, array in problem.arrays.items()}
        for name, tensor in inputs.items():
            tensor.requires_grad_(f"gradient of {name}" in quantities)
        with torch.set_grad_enabled(len(quantities) > 1):
            output = function(*inputs.values())
        found = {"output": output.detach().numpy()}
        if len(quantities) > 1:
            chosen = [inputs[quantity.removeprefix("gradient of ")] for quantity in quantities[1:]]
            cotangent = torch.from_numpy(problem.cotangent)
            gradients = torch.autograd.grad(output, chosen, cotangent, materialize_grads=True)
            found |= {q: g.detach().numpy() for q, g in zip(quantities[1:], gradients, strict=True)}
        return found
    finally:
        torch.set_num_threads(threads)
