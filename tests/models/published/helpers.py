"""Modules of PyTorch: with other numbers than those they start with, as arrays by name, and loaded here."""

import itertools

import pytest

from tests.helpers import assert_same_arrays

torch = pytest.importorskip("torch")


def sequence(*sizes, dtype=None):
    """Linear maps with relu between, as torch.nn.Sequential numbers them."""
    maps = [torch.nn.Linear(n, m, dtype=dtype) for n, m in itertools.pairwise(sizes)]
    return torch.nn.Sequential(*[module for linear in maps for module in (linear, torch.nn.ReLU())][:-1])


def shaken(module, scale=0.3):
    """Biases of 0 and gains of 1 hide mistakes."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=scale)
    return module


def arrays(module):
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def tensors(*given):
    return [torch.tensor(array) for array in given]


def loaded(names, ours, theirs, without_a_model=None):
    """Ours with the weights of theirs: tensors with a gradient go in, the same arrays come out.

    The function `without_a_model` gives what `load` does.
    """
    names.load(ours, dict(theirs.named_parameters()))
    assert_same_arrays(names.save(ours), arrays(theirs))
    if without_a_model is not None:
        assert_same_arrays(without_a_model(arrays(theirs)), ours.state_dict())
    return ours
