"""Matrices: triangles and diagonals, general systems, inverses and determinants, systems of a Cholesky factor."""

import numpy as np

import refnp.autograd as ad
from refnp.verify.case import Case, GradientInputs, KnownDefect, gradient_of, normal
from refnp.verify.judged_pages import by_page, of_page, of_tape
from refnp.verify.layers.linear import without_gradient


def log_of_determinant(a):
    """log |det A|."""
    return ad.slogdet(a)[1]


def with_offset(function, **others):
    """A function of a matrix and of the offset of a diagonal, which frameworks have by the same name."""
    name = function.__name__
    return of_tape(
        function,
        torch=lambda torch, x, offset=0: getattr(torch, name)(x, offset),
        jax=lambda jax, x, offset=0: getattr(jax.numpy, name)(x, offset),
        **others,
    )


TRIL, TRIU = with_offset(ad.tril), with_offset(ad.triu)
DIAGONAL = with_offset(ad.diagonal, tried={"...": ((),)})  # frameworks take the first two axes
SOLVE = of_page(ad.solve, torch="linalg.solve", jax="numpy.linalg.solve")
INV = of_page(ad.inv, torch="linalg.inv", jax="numpy.linalg.inv")
DET = of_page(ad.det, torch="linalg.det", jax="numpy.linalg.det")
SLOGDET = of_tape(
    log_of_determinant,
    name="slogdet",
    torch=lambda torch, a: torch.linalg.slogdet(a)[1],
    jax=lambda jax, a: jax.numpy.linalg.slogdet(a)[1],
)
CHOLESKY_SOLVE = of_page(
    ad.cholesky_solve,
    torch=lambda torch, factor, b: torch.cholesky_solve(b, torch.tril(factor)),
    jax=lambda jax, factor, b: jax.scipy.linalg.cho_solve((jax.numpy.tril(factor), True), b),
)

DET_VJP = KnownDefect(
    "PyTorch",
    "det: gradient 0 if singular",
    "det's gradient solves with det·I, which is 0 for a singular matrix; its cofactors are 0 only below rank N − 1",
    ("gradient of a",),
    equation=without_gradient(by_page(ad.det), 0),
)


def cases() -> list[Case]:
    """Triangles and diagonals; systems and determinants of ordinary, exchanged and singular matrices."""

    def dominant(n):
        return lambda rng: (rng.normal(size=(n, n)) + 2 * n**0.5 * np.eye(n))[rng.permutation(n)]

    lower = lambda rng: np.tril(rng.normal(size=(4, 4)), -1) + np.diag(rng.uniform(1, 2, 4))
    rank_2 = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    found = [
        Case(SOLVE, "ordinary", {"a": dominant(4), "b": normal(4, 2)}),
        Case(SOLVE, "any matrix", {"a": normal(3, 3), "b": normal(3, 2)}),
        Case(CHOLESKY_SOLVE, "ordinary", {"factor": lower, "b": normal(4, 2)}),
        Case(DET, "singular, rank N - 1", {"a": rank_2}, known_defects=(DET_VJP,)),
        Case(DET, "singular, rank N - 2", {"a": np.outer([1.0, 2, 3], [1, 1, 2])}),
    ]
    for layer in (INV, DET, SLOGDET):
        found += [
            Case(layer, "ordinary", {"a": dominant(4)}),
            Case(layer, "any matrix", {"a": normal(3, 3)}),
            Case(layer, "a permutation, scaled", {"a": np.array([[0, 3.0, 0], [0, 0, -2], [0.5, 0, 0]])}),
        ]
    for layer in (TRIL, TRIU, DIAGONAL):
        found += [Case(layer, f"offset {k}", {"x": normal(4, 5)}, {"offset": k}) for k in (0, 2, -1)]
    return found


def gradient_inputs() -> list[GradientInputs]:
    """A system of vectors, and the determinant at a singular matrix."""
    rng = np.random.default_rng(0)
    singular = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    return [
        gradient_of("solve, a vector", ad.solve, rng.normal(size=(2, 3, 3)), rng.normal(size=3)),
        gradient_of("det at a singular matrix", lambda a: ad.det(a) + 1.0, singular),
    ]
