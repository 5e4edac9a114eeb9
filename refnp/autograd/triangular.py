"""Symmetric positive definite matrices A = L Lᵀ, L lower triangular: the factor, systems of it, and log det A.

Element by element, L Lᵀ = A says L_ij = (A_ij − Σ_{m<j} L_im L_jm)/L_jj, column after column, and
L_jj² = A_jj − Σ_{m<j} L_jm². A system with L is solved row by row, x_i = (b_i − Σ_{m<i} L_im x_m)/L_ii.

Matrices are the last two axes; axes before them are a batch and broadcast.
Source: Higham (2002), §8.1, §10.1; Murray (2016), arXiv 1602.07527 (the gradient of L).
Transcription: tests/transcriptions/linalg.py.   On arrays of floats: refnp/kernels/triangular.py.
"""

import functools
from typing import Any

import numpy as np

from refnp.autograd.pages import page
from refnp.kernels import triangular as kernels
from refnp.numbers.arrays import Array, broadcast_shapes
from refnp.numbers.kinds import is_kind
from refnp.numbers.parts import Parts, part


@part
def solved(factor, b, *, transposed=False):
    """L⁻¹ B by substitution, or L⁻ᵀ B, from the last row; b (..., N, M). What is above the diagonal is not read."""
    if transposed:
        return np.flip(solved(np.flip(factor.mT, (-2, -1)), np.flip(b, -2)), -2)
    x = joined(factor[..., :0, :0], b[..., :0, :], -1)  # (..., 0, M)   the rows that are known
    for i in range(factor.shape[-1]):
        diagonal = factor[..., i : i + 1, i : i + 1]
        row = joined(np.ones_like(diagonal), -factor[..., i : i + 1, :i], -1)  # (..., 1, 1 + i)
        x_i = row @ joined(b[..., i : i + 1, :], x, -2) / diagonal  # (..., 1, M)   b_i − Σ_j L_ij x_j, in any order
        x = joined(x, x_i, -2)
    return x


@part
def factor_of(a):
    """L with L Lᵀ = A, column by column; a (..., N, N) symmetric."""
    rows, factor = np.arange(a.shape[-1])[:, None], a[..., :0]  # the columns that are known
    for j in range(a.shape[-1]):
        rest = a[..., j : j + 1] - factor @ factor[..., j : j + 1, :].mT  # (..., N, 1)
        column = np.where(rows < j, 0, rest / np.sqrt(rest[..., j : j + 1, :]))  # (..., N, 1)
        factor = joined(factor, column, -1)
    return factor


def joined(x, y, axis):
    """x and y beside each other along an axis of a matrix; axes in front broadcast."""
    front = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return np.concatenate([np.broadcast_to(a, (*front, *a.shape[-2:])) for a in (x, y)], axis)


KERNELS: Parts = {solved: kernels.solved, factor_of: kernels.factor_of}


@np.errstate(all="ignore")
def refuse_covariance(name: str, argument: str, factor: Array) -> None:
    """ValueError for a matrix that is symmetric, within the rounding of products, and not diagonal: no factor is.

    What stands above the diagonal of a factor is not read, so that a covariance would be another one in silence.
    """
    matrix, n = factor.real, factor.shape[-1]
    if n < 2 or not (above := matrix != 0)[..., 0, 1:].any():
        return
    size = np.sqrt(np.abs(np.diagonal(matrix, axis1=-2, axis2=-1)))
    rounding = 4 * n * np.finfo(matrix.dtype).eps * size[..., :, None] * size[..., None, :]
    differ = ~(np.abs(matrix - matrix.swapaxes(-1, -2)) <= rounding)  # NaN differs
    if (~differ.any((-1, -2)) & np.triu(above, 1).any((-1, -2))).any():
        raise ValueError(
            f"{name}: {argument} is symmetric, as a covariance is; pass its Cholesky factor, "
            "refnp.autograd.cholesky(covariance)"
        )


def refuse_singular(name):
    """The check of a function of a factor: ValueError for a zero on its diagonal, or for a covariance in its place."""

    def check(factor, *_, **__):
        if name != "triangular_solve":
            refuse_covariance(name, "factor", factor)
        diagonal = np.diagonal(np.real(factor), axis1=-2, axis2=-1)
        if (diagonal == 0).any():
            raise ValueError(f"{name}: factor has a zero on its diagonal; the system has no unique solution")

    return check


def refuse_not_finite(name):
    """The check of a function of matrices: ValueError naming the first that holds NaN or an infinite number."""

    def check(a, *_):
        wrong = ~np.isfinite(a).all((-2, -1)) if not is_kind(a) else np.zeros(())
        if wrong.any():
            raise ValueError(f"{name}: a{first(wrong)} holds a value that is not finite; look for it further up")

    return check


def first(wrong: Any) -> Any:
    """[place] of the first that is wrong, in a batch."""
    return [int(i) for i in np.argwhere(wrong)[0]] or ""


def refuse_triangle(a: Array) -> None:
    """ValueError for a matrix with numbers below its diagonal and nothing but 0 above."""
    if not is_kind(a) and not np.triu(a, 1).any() and np.tril(a, -1).any():
        raise ValueError("cholesky: a is lower triangular, as a factor is; pass the covariance, both of its halves")


def refuse_indefinite(of):
    """The rule of Cholesky factors: ValueError for a matrix without one, naming it and its smallest eigenvalue."""

    @functools.wraps(of)
    def rule(a):
        factor, vjp = of(a)
        pivots = np.diagonal(factor, axis1=-2, axis2=-1)
        if (pivots.real > np.abs(pivots.imag)).all():  # as √x has them for Re x > 0
            return factor, vjp
        refuse_not_finite("cholesky")(a)
        smallest = np.linalg.eigvalsh((a / 2 + a.mT / 2).real.astype(np.float64))[..., 0]
        raise ValueError(
            f"cholesky: a{first(smallest == smallest.min())} is not positive definite, its smallest eigenvalue is "
            f"{smallest.min():.3g}; add something to its diagonal"
        )

    return rule


@page("a definite (..., N, N) → (..., N, N)", kernel=KERNELS, check=refuse_triangle, around=refuse_indefinite)
def cholesky(a):
    """L lower triangular with L Lᵀ = A, for a symmetric positive definite A (the symmetric part of a is used).

    Shapes: a (..., N, N) → L (..., N, N).
    VJP: Ā = ½ L⁻ᵀ (Φ + Φᵀ) L⁻¹, Φ = the lower triangle of Lᵀ L̄ with its diagonal halved: from dL = L Φ(L⁻¹ dA L⁻ᵀ).
    Raises ValueError if A is not square, a lower triangle (a factor, or half of a covariance, whose other half would be
    taken for 0), holds NaN, or is not positive definite, naming the matrix and its smallest eigenvalue.
    """
    factor = factor_of((a + a.mT) / 2)  # (..., N, N)

    def vjp(l_bar):
        phi = np.tril(factor.mT @ np.tril(l_bar))
        phi = np.where(np.eye(a.shape[-1], dtype=bool), phi / 2, phi)
        left = solved(factor, (phi + phi.mT) / 2, transposed=True)  # L⁻ᵀ M
        a_bar = solved(factor, left.mT, transposed=True)  # L⁻ᵀ (L⁻ᵀ M)ᵀ, symmetric
        return (a_bar,)

    return factor, vjp


def refuse_no_factor(factor):
    """ValueError for a covariance, or a diagonal that is not positive."""
    refuse_covariance("log_determinant", "factor", factor)
    if not (np.diagonal(np.real(factor), axis1=-2, axis2=-1) > 0).all():
        raise ValueError("log_determinant: factor must have a positive diagonal; pass the result of cholesky")


@page("factor triangular (..., N, N) → (...)", check=refuse_no_factor)
def log_determinant(factor):
    """log det A = 2 Σ_i log L_ii from the Cholesky factor L of A.

    Shapes: factor (..., N, N) → y (...).   VJP: L̄_ii = 2 ȳ / L_ii, 0 elsewhere.
    Raises ValueError unless the factor is square and its diagonal positive, and for a covariance in its place.
    """
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)  # (..., N)
    y = 2 * np.log(diagonal).sum(-1)  # (...)

    def vjp(y_bar):
        bars = 2 * y_bar[..., None] / diagonal  # (..., N)
        factor_bar = np.where(np.eye(diagonal.shape[-1], dtype=bool), bars[..., None], 0)
        return (factor_bar,)

    return y, vjp


SYSTEM = "factor triangular (..., N, N), b (..., N, M) → (..., N, M)"


@page(SYSTEM, transposed="True or False", kernel=KERNELS, check=refuse_singular("triangular_solve"))
def triangular_solve(factor, b, *, transposed=False):
    """X with L X = B, or Lᵀ X = B if `transposed`, for a lower triangular L (what is above the diagonal is not read).

    Shapes: factor (..., N, N), b (..., N, M) → x (..., N, M).
    VJP: B̄ = L⁻ᵀ X̄ (L⁻¹ X̄ if transposed), L̄ = −tril(B̄ Xᵀ) (−tril(X B̄ᵀ) if transposed).
    Raises ValueError for shapes that do not fit or a zero on the diagonal.
    """
    x = solved(factor, b, transposed=transposed)  # (..., N, M)

    def vjp(x_bar):
        b_bar = solved(factor, x_bar, transposed=not transposed)  # (..., N, M)
        product = x @ b_bar.mT if transposed else b_bar @ x.mT  # (..., N, N)
        return -np.tril(product), b_bar

    return x, vjp


@page(
    "factor triangular (..., N, N), b (..., N, M) → (..., N, M)",
    kernel=KERNELS,
    check=refuse_singular("cholesky_solve"),
)
def cholesky_solve(factor, b):
    """X with A X = B for A = L Lᵀ, given its Cholesky factor L: X = L⁻ᵀ L⁻¹ B. What is above the diagonal is not read.

    Shapes: factor (..., N, N), b (..., N, M) → x (..., N, M).
    VJP: B̄ = A⁻¹ X̄, Ā = −B̄ Xᵀ, and since dA = dL Lᵀ + L dLᵀ,   L̄ = tril((Ā + Āᵀ) L) = −tril((B̄ Xᵀ + X B̄ᵀ) L).
    Raises ValueError for shapes that do not fit, a zero on the diagonal or a covariance in place of its factor.
    """
    x = solved(factor, solved(factor, b), transposed=True)  # (..., N, M)

    def vjp(x_bar):
        b_bar = solved(factor, solved(factor, x_bar), transposed=True)  # (..., N, M)
        product = b_bar @ x.mT  # (..., N, N)   −Ā
        return -np.tril((product + product.mT) @ np.tril(factor)), b_bar

    return x, vjp
