"""Products of vectors and matrices, and Cholesky factors: for `refnp.judge` alone, as the functions of elements."""

import functools
from collections.abc import Callable

import numpy as np

import refnp.autograd as ad
from refnp.numbers.rounding import either
from refnp.verify.case import Case, Layer, normal
from refnp.verify.judged_pages import by_page, of_page, of_tape


def einsum(x, y, *, subscripts):
    """Of two operands."""
    return ad.einsum(subscripts, x, y)


DOT = of_tape(ad.dot, torch="dot", jax="numpy.dot")
ALONE: dict[str, tuple] = {"...": ((),)}  # with axes in front, frameworks have other functions
OUTER = of_tape(ad.outer, torch="outer", jax="numpy.outer", tried=ALONE)
TRACE = of_tape(ad.trace, torch="trace", jax="numpy.trace", tried=ALONE)
EINSUM = of_tape(
    einsum,
    torch=lambda torch, x, y, *, subscripts: torch.einsum(subscripts, x, y),
    jax=lambda jax, x, y, *, subscripts: jax.numpy.einsum(subscripts, x, y),
)
CHOLESKY = of_page(ad.cholesky, torch="linalg.cholesky", jax="numpy.linalg.cholesky")
TRIANGULAR_SOLVE = of_page(
    ad.triangular_solve,
    torch=lambda torch, factor, b, *, transposed=False: torch.linalg.solve_triangular(
        torch.tril(factor).mT if transposed else torch.tril(factor), b, upper=transposed
    ),
    jax=lambda jax, factor, b, *, transposed=False: jax.scipy.linalg.solve_triangular(
        factor, b, trans=int(transposed), lower=True
    ),
)
OF_LOGARITHMS = by_page(ad.log_determinant)


@functools.wraps(OF_LOGARITHMS)
def of_squares_too(factor):
    """2 Σ log L_ii, or Σ log L_ii², which loses digits where L_ii is near 1."""
    y, pullback = OF_LOGARITHMS(factor)
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    return either(lambda: y, lambda: np.log(diagonal * diagonal).sum(-1)), pullback


LOG_DETERMINANT = Layer("log_determinant", ad.log_determinant, of_squares_too)
SHAPES = {  # of what is multiplied, by the sum over which letters
    "ij,jk->ik": ((4, 5), (5, 3)),
    "ij,kj->ik": ((4, 5), (3, 5)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bhnd,bhmd->bhnm": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "bnhd,bmhd->bhnm": ((2, 4, 3, 5), (2, 6, 3, 5)),
    "ij,ij->i": ((4, 5), (4, 5)),
    "i,j->ij": ((4,), (5,)),
    "ij,ij->": ((3, 4), (3, 4)),
}


def positive_definite(n: int) -> Callable:
    """A = B Bᵀ + I."""

    def drawn(rng):
        b = rng.normal(size=(n, n))
        return b @ b.T + np.eye(n)

    return drawn


def lower_triangular(n: int) -> Callable:
    """L with a diagonal between 1 and 2."""
    return lambda rng: np.tril(rng.normal(size=(n, n)), -1) + np.diag(rng.uniform(1, 2, n))


def cases() -> list[Case]:
    """Products of each kind; factors of matrices that are well conditioned, and of one that is scaled unevenly."""
    system = {"factor": lower_triangular(4), "b": normal(4, 2)}
    above = {"factor": lambda rng: lower_triangular(4)(rng) + np.triu(np.ones((4, 4)), 1), "b": normal(4, 2)}
    uneven = np.diag([1e-3, 1.0, 1e3])
    found = [
        Case(EINSUM, subscripts, dict(zip("xy", (normal(*shape) for shape in shapes), strict=True)),
             {"subscripts": subscripts})
        for subscripts, shapes in SHAPES.items()
    ]  # fmt: skip
    return [
        *found,
        Case(DOT, "ordinary", {"x": normal(12), "y": normal(12)}),
        Case(DOT, "cancelling terms", {"x": np.array([1e6, 1.0, -1e6]), "y": np.ones(3)}),
        Case(OUTER, "ordinary", {"x": normal(4), "y": normal(5)}),
        Case(TRACE, "ordinary", {"x": normal(5, 5)}),
        Case(CHOLESKY, "ordinary", {"a": positive_definite(4)}),
        Case(CHOLESKY, "one number", {"a": np.array([[4.0]])}),
        Case(CHOLESKY, "scaled unevenly", {"a": uneven @ (np.eye(3) + 0.5) @ uneven}),
        Case(TRIANGULAR_SOLVE, "ordinary", system),
        Case(TRIANGULAR_SOLVE, "transposed", system, {"transposed": True}),
        Case(TRIANGULAR_SOLVE, "numbers above the diagonal", above),
        Case(LOG_DETERMINANT, "ordinary", {"factor": lower_triangular(4)}),
    ]
