"""The engine's own operations: arithmetic, selections, reductions, matrices, shapes, indexing, the error function."""

from __future__ import annotations

import numpy as np

import refnp.autograd as ad
from refnp.autograd.special import erf, erfc
from refnp.verify.operations.operation import Operation


def operations(rng: np.random.Generator) -> list[Operation]:
    """Every primitive of the engine, on small inputs that stay clear of kinks and of the ends of domains."""
    return _elements(rng) + _selections(rng) + _reductions(rng) + _matrices(rng) + _shapes(rng) + _places(rng)


def _elements(rng):
    x, y = rng.normal(size=(3, 4)), rng.normal(size=4)
    positive, exponent = rng.uniform(0.3, 2, (3, 4)), rng.normal(size=(3, 1))
    return [
        Operation("add", ad.add, (x, y), order2=False),
        Operation("subtract", ad.subtract, (x, y), order2=False),
        Operation("multiply", ad.multiply, (x, y)),
        Operation("divide", ad.divide, (x, positive)),
        Operation("negative", ad.negative, (x,), order2=False),
        Operation("power, x²", lambda x: ad.power(x, 2), (x,)),
        Operation("power, x³", lambda x: ad.power(x, 3), (x,)),
        Operation("power, x^−1.5", lambda x: ad.power(x, -1.5), (positive,)),
        Operation("power, x^p", ad.power, (positive, exponent)),
        Operation("exp", ad.exp, (x,)),
        Operation("expm1", ad.expm1, (x,)),
        Operation("log", ad.log, (positive,)),
        Operation("log1p", ad.log1p, (x * 0.2,)),
        Operation("sqrt", ad.sqrt, (positive,)),
        Operation("tanh", ad.tanh, (3 * x,)),
        Operation("sin", ad.sin, (x,)),
        Operation("cos", ad.cos, (x,)),
        Operation("erf", erf, (x,)),
        Operation("erfc", erfc, (x,)),
    ]


def _selections(rng):
    x = rng.permutation(12).reshape(3, 4) - 5.7  # no two alike, none 0, none a bound of clip
    y = rng.permutation(12).reshape(3, 4) - 5.4
    condition = rng.random((3, 1)) < 0.5
    return [
        Operation("absolute", ad.absolute, (x,), order2=False),
        Operation("maximum", ad.maximum, (x, y), order2=False),
        Operation("minimum", ad.minimum, (x, y), order2=False),
        Operation("where", ad.where, (condition, x, y), order2=False),
        Operation("clip", ad.clip, (x, -2.0, 3.0), order2=False),
    ]


def _reductions(rng):
    x = rng.normal(size=(3, 4))
    with_zeros = np.where([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], 0.0, x)
    return [
        Operation("sum", ad.sum, (x,), order2=False),
        Operation("sum, axis 0", lambda x: ad.sum(x, 0), (x,), order2=False),
        Operation("mean, axis −1", lambda x: ad.mean(x, -1, keepdims=True), (x,), order2=False),
        Operation("max, axis 1", lambda x: ad.max(x, 1), (x,), order2=False),
        Operation("min", ad.min, (x,), order2=False),
        Operation("prod, axis 1", lambda x: ad.prod(x, 1), (x,)),
        Operation("prod at zeros", lambda x: ad.prod(x, 1), (with_zeros,)),
        Operation("logsumexp, axis 1", lambda x: ad.logsumexp(x, 1), (x,)),
        Operation("norm, axis 0", lambda x: ad.norm(x, 0), (x,)),
        Operation("cumsum, axis 0", lambda x: ad.cumsum(x, 0), (x,), order2=False),
    ]


def _matrices(rng):
    x, y, v = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=4)
    batch, square = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 3))
    positive = square @ square.swapaxes(-1, -2) + 3 * np.eye(3)
    factor, b = np.linalg.cholesky(positive), rng.normal(size=(2, 3, 2))
    return [
        Operation("matmul", ad.matmul, (x, y)),
        Operation("matmul, row times matrix", ad.matmul, (v, y)),
        Operation("matmul, batch", ad.matmul, (batch, rng.normal(size=(2, 4, 3)))),
        Operation("linear", ad.linear, (batch, y, rng.normal(size=2))),
        Operation("outer", ad.outer, (v, rng.normal(size=3))),
        Operation("trace", ad.trace, (batch,), order2=False),
        Operation("einsum, ij,jk->ik", lambda x, y: ad.einsum("ij,jk->ik", x, y), (x, y)),
        Operation("einsum, ...ij,...ij->...", lambda x: ad.einsum("...ij,...ij->...", x, x), (batch,)),
        Operation("einsum, bii->bi", lambda x: ad.einsum("bii->bi", x), (square,), order2=False),
        Operation("cholesky", ad.cholesky, (positive,)),
        Operation("triangular_solve", ad.triangular_solve, (factor, b)),
        Operation("triangular_solve, Lᵀ", lambda f, b: ad.triangular_solve(f, b, transposed=True), (factor, b)),
        Operation("log_determinant", ad.log_determinant, (factor,)),
        Operation("log det of A", lambda a: ad.log_determinant(ad.cholesky(a)), (positive,)),
    ]


def _shapes(rng):
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    functions = {
        "reshape": lambda x, y: ad.reshape(x, (2, 6)),
        "transpose": lambda x, y: ad.transpose(x),
        "swapaxes": lambda x, y: ad.swapaxes(x, 0, 1),
        "broadcast_to": lambda x, y: ad.broadcast_to(x, (2, 3, 4)),
        "flip": lambda x, y: ad.flip(x, 1),
        "roll": lambda x, y: ad.roll(x, 2, 1),
        "concatenate": lambda x, y: ad.concatenate([x, y], axis=1),
        "stack": lambda x, y: ad.stack([x, y], axis=1),
        "split": lambda x, y: ad.split(x, [1, 3]),
    }
    return [Operation(name, function, (x, y), order2=False) for name, function in functions.items()]


def _places(rng):
    x = rng.normal(size=(3, 4))
    mask = np.arange(12).reshape(3, 4) % 3 == 1
    functions = {
        "getitem, slices": lambda x: x[1:, ::-2],
        "getitem, an index twice": lambda x: x[[0, 2, 0], [1, 3, 1]],
        "getitem, a mask": lambda x: x[mask],
        "take, axis 1": lambda x: ad.take(x, np.array([[0, 3], [-1, 0]]), axis=1),
        "pad, zeros": lambda x: ad.pad(x, [(1, 2), (0, 1)]),
        "pad, circular": lambda x: ad.pad(x, [(1, 2), (0, 4)], mode="circular"),
        "pad, reflect": lambda x: ad.pad(x, [(2, 1), (0, 3)], mode="reflect"),
        "pad, replicate": lambda x: ad.pad(x, [(1, 2), (0, 1)], mode="replicate"),
    }
    return [Operation(name, function, (x,), order2=False) for name, function in functions.items()]
