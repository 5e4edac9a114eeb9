"""What a computation costs, counted on its tape: the multiplications that are added up, and how many steps wait.

    multiply_adds(y)     of all products behind y: linear maps, attention, convolutions, factorisations
    depth(y)             the longest chain of operations, each of which needs the result of the one before

Both are exact numbers of what was computed, the same on every machine. Element-wise functions, sums and means are not
counted by the first: they grow with the size of what the products give. Products of pairs that a mask hides are
counted, for they are computed.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.backward import tape_of
from refnp.autograd.tensor import Tensor


def multiply_adds(y: Any) -> int:
    """The multiply-adds of all products on the tape of y, a Tensor.

    Raises ValueError for an operation with products that is not known here, such as a set convolution.
    """
    total, nodes = 0, tape_of([y])
    shapes = {
        a.node: a.shape for a in (y, *(a for node in nodes for a in node.arguments or ())) if isinstance(a, Tensor)
    }
    for node in nodes:
        name = node.operation.__name__
        if name in NOT_KNOWN:
            raise ValueError(f"multiply_adds: {name} is not counted; there are {', '.join(PRODUCTS)}")
        if name in PRODUCTS:
            total += PRODUCTS[name]([np.shape(a) for a in node.arguments or ()], shapes[node])
    return total


def depth(y: Any) -> int:
    """How many operations the longest chain behind y, a Tensor, has."""
    steps: dict[int, int] = {}
    last = 0
    for node in tape_of([y]):
        before = [steps[id(a.node)] for a in node.arguments or () if isinstance(a, Tensor) and a.node is not None]
        last = steps[id(node)] = 1 + max(before, default=0)
    return last


Shapes = list[tuple[int, ...]]
NOT_KNOWN = ("set_convolution", "einsum", "convolution_transpose", "cholesky_solve", "outer")


def _matrix(shapes: Shapes, out: tuple[int, ...]) -> int:
    return math.prod(out) * shapes[0][-1]


def _attention(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Scores and weighted values: N M (d + d_v) in each head."""
    (*lead, queries, width), (*_, keys, _) = shapes[0], shapes[1]
    return math.prod(lead) * queries * keys * (width + out[-1])


def _pairs(shapes: Shapes, out: tuple[int, ...]) -> int:
    """An MLP at every pair: weights are the third argument and every second one after it."""
    batch, _, queries, keys = out
    return batch * queries * keys * sum(math.prod(shape) for shape in shapes[2::2])


def _convolution(shapes: Shapes, out: tuple[int, ...]) -> int:
    return math.prod(out) * math.prod(shapes[1][1:])


def _cholesky(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Σ_j Σ_{i ≥ j} j, the products of column j with those before it."""
    n = out[-1]
    return math.prod(out[:-2]) * (n * (n - 1) * (n + 1) // 6)


def _triangular(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Row i takes i products, for every column of the right side."""
    n = shapes[0][-1]
    return math.prod(out[:-2]) * (n * (n - 1) // 2) * out[-1]


PRODUCTS: dict[str, Callable[[Shapes, tuple[int, ...]], int]] = {
    "linear": _matrix,
    "matmul": _matrix,
    "attention": _attention,
    "pair_kernel": _pairs,
    "convolution": _convolution,
    "cholesky": _cholesky,
    "triangular_solve": _triangular,
}


def degree(count: Callable[[int], int], step: int = 4, points: int = 6) -> int:
    """The degree of count(n), a polynomial in n, from its differences at step, 2 step, …: the last that is not 0.

    Raises ValueError if no difference vanishes, so that it is no polynomial of a degree below points − 1.
    """
    row, found = np.array([count(step * (i + 1)) for i in range(points)], object), 0
    for order in range(1, points):
        row = row[1:] - row[:-1]
        if row.any():
            found = order
    if found == points - 1:
        raise ValueError(f"degree: the counts are no polynomial of a degree below {points - 1}; use more points")
    return found


def tensors(*arrays: Any) -> list[Tensor]:
    """Arrays as leaves of a tape."""
    return [Tensor(np.asarray(a, float), requires_grad=True) for a in arrays]
