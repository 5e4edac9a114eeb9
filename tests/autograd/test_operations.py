"""Every operation of the engine's table, its gradient and its second derivatives checked to 12 digits and more."""

from importlib import import_module

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd import trees
from refnp.autograd.backward import tape_of
from refnp.autograd.tensor import Tensor
from refnp.verify.layers import gradient_inputs
from tests.helpers import check

OPERATIONS = [inputs for inputs in gradient_inputs() if not inputs.model]


def test_a_wrong_gradient_is_noticed():
    @ad.primitive
    def careless_tanh(x):
        y = np.tanh(x)
        return y, lambda y_bar: (y_bar * (1 - y),)

    with pytest.raises(AssertionError, match="careless_tanh"):
        check(careless_tanh, (np.array([0.3, -1.0]),))


PAGES = ["elementary", "indexing", "linalg", "reductions", "shapes", "special", "summation", "systems", "triangular"]


def primitives():
    """The names of all differentiable operations of the engine: what `primitive` made in its modules."""
    things = [thing for page in PAGES for thing in vars(import_module(f"refnp.autograd.{page}")).values()]
    return {thing.__name__ for thing in things if getattr(thing, "__code__", None) == CODE}


CODE = ad.add.__code__  # that of the wrapper which `primitive` puts around every operation


def test_the_table_is_complete():
    """Every primitive of the engine stands on the tape of some operation of the table."""
    taped = set()
    for operation in OPERATIONS:
        arguments = [Tensor(a, requires_grad=True) if trees.is_differentiable(a) else a for a in operation.args]
        results = [y for y in trees.leaves_of(operation.function(*arguments)) if isinstance(y, Tensor)]
        taped |= {node.operation.__name__ for node in tape_of(results)}
    assert taped >= primitives()
