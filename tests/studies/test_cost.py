"""Multiply-adds and chains are those that are counted by hand."""

import numpy as np
import pytest

from refnp.autograd import Tensor, cholesky, matmul, triangular_solve
from refnp.layers import MLP, attention, convolution, set_convolution
from refnp.studies.cost import degree, depth, multiply_adds, tensors


def ones(*shapes):
    return tensors(*(np.ones(shape) for shape in shapes))


def by_loops(n, right):
    """The products of a factorisation column by column, and of substitution row by row."""
    factor = sum(j for j in range(n) for i in range(j, n))
    return factor, right * sum(range(n))


@pytest.mark.parametrize(
    ("y", "count"),
    [
        (lambda: matmul(*ones((3, 4), (4, 5))), 3 * 4 * 5),
        (lambda: MLP([2, 7, 3], rng=np.random.default_rng(0))(*ones((6, 2))), 6 * (2 * 7 + 7 * 3)),
        (lambda: attention(*ones((2, 3, 4), (2, 5, 4), (2, 5, 6))), 2 * 3 * 5 * (4 + 6)),
        (lambda: convolution(*ones((2, 3, 10), (4, 3, 5))), 2 * 4 * 6 * 3 * 5),
        (lambda: cholesky(Tensor(np.eye(7), requires_grad=True)), by_loops(7, 0)[0]),
        (lambda: triangular_solve(Tensor(np.eye(7), requires_grad=True), *ones((7, 3))), by_loops(7, 3)[1]),
    ],
    ids=["matmul", "linear", "attention", "convolution", "cholesky", "triangular_solve"],
)
def test_products_are_counted(y, count):
    y = y()
    assert multiply_adds(y) == count
    assert multiply_adds(y + y) == count  # what is used twice is computed once


def test_a_product_that_is_not_known_is_refused():
    x, y = ones((3, 1), (3, 1))
    with pytest.raises(ValueError, match="set_convolution is not counted"):
        multiply_adds(set_convolution(x, x, y, 1.0))


def test_the_longest_chain():
    (x,) = ones((2, 2))
    assert depth(x + x) == 1
    assert depth((x + x) * x + matmul(x, x)) == 3


def test_the_degree_of_counts():
    assert [degree(lambda n, p=p: 7 * n**p + 3) for p in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="no polynomial"):
        degree(lambda n: 2**n)
