"""Systems of linear equations, inverses and determinants of any square matrix, by Gaussian elimination with pivots.

    P A = L U        L lower triangular with 1 on its diagonal, U upper triangular, P a permutation of rows

Row k is exchanged with the row below it whose element in column k is the largest; so no |L_ij| exceeds 1. Then

    A X = B:  X = U⁻¹ L⁻¹ P B          Aᵀ Y = C:  Y = Pᵀ L⁻ᵀ U⁻ᵀ C          det A = ± Π_i U_ii,   ± the sign of P

in the precision of A: float32 to clongdouble, which LAPACK has not, and complex numbers without a conjugate, for which
|z| is |Re z| + |Im z|, and a pivot with real part 0 counts as 0. Symmetric positive definite matrices, as covariances
are, take half the work by `cholesky`, with `cholesky_solve` and `log_determinant`.

Matrices are the last two axes; axes before them are a batch and broadcast.
Source: Higham (2002), ch. 9 (elimination); Giles (2008) (VJPs).
Transcription: tests/transcriptions/linalg.py.   On arrays: refnp/kernels/triangular.py.
"""

from typing import Any

import numpy as np

from refnp.autograd.pages import page
from refnp.autograd.primitives import of_several
from refnp.autograd.triangular import KERNELS, first, joined, refuse_not_finite, solved
from refnp.kernels import triangular as kernels
from refnp.numbers.arrays import broadcast_shapes
from refnp.numbers.kinds import is_kind
from refnp.numbers.parts import Parts, part


@part
def eliminated(a):
    """L and U, row and column after row and column, the order (..., N) of the rows of A in P A, and its sign (...)."""
    decides = a if isinstance(a, np.ndarray) else a.real
    _, _, order, sign = kernels.eliminated(decides)
    rows, k_th = in_order_of(a, order), np.arange(a.shape[-1])
    lower, upper = rows[..., :0], rows[..., :0, :]  # the columns and rows that are known
    for k in k_th:
        u_k = rows[..., k : k + 1, :] - lower[..., k : k + 1, :] @ upper  # (..., 1, N)
        rest = rows[..., k : k + 1] - lower @ upper[..., k : k + 1]  # (..., N, 1)
        pivot = u_k[..., k : k + 1]  # (..., 1, 1)
        below = rest / np.where(pivot.real == 0, 1, pivot)  # then all below is 0 as well
        column = np.where(k_th < k, 0, np.where(k_th == k, 1, below.mT)).mT  # (..., N, 1)
        upper, lower = joined(upper, np.where(k_th < k, 0, u_k), -2), joined(lower, column, -1)
    return lower, upper, order, sign


@part
def product_of(x, factors):
    """x Π_k f_k for factors (..., n)."""
    for k in range(factors.shape[-1]):
        x = x * factors[..., k]
    return x


KERNELS_OF_LU: Parts = {**KERNELS, eliminated: kernels.eliminated, product_of: kernels.product_of}


def in_order_of(x, order):
    """The rows of x (..., N, M) in an order (..., N); axes in front broadcast."""
    front = broadcast_shapes(x.shape[:-2], order.shape[:-1])
    places = np.broadcast_to(order[..., None], (*front, *x.shape[-2:]))
    return np.take_along_axis(np.broadcast_to(x, (*front, *x.shape[-2:])), places, -2)


def solved_by(lower, upper, order, b):
    """A⁻¹ B = U⁻¹ L⁻¹ P B for b (..., N, M)."""
    return solved(upper.mT, solved(lower, in_order_of(b, order)), transposed=True)


def solved_transposed_by(lower, upper, order, c):
    """A⁻ᵀ C = Pᵀ L⁻ᵀ U⁻ᵀ C for c (..., N, M)."""
    return in_order_of(solved(lower, solved(upper.mT, c), transposed=True), np.argsort(order, -1))


def cofactors_of_triangle(u):
    """cof U of upper triangular matrices, without a division, so that zeros may stand on their diagonals:

        cof U_ji = (Π_{k<i} u_kk) n_ij (Π_{k>j} u_kk)        n_ii = 1,   n_ij = −Σ_{i≤k<j} n_ik (Π_{k<l<j} u_ll) u_kj

    for i ≤ j, and 0 for i > j. The sum is the expansion of a minor along its last column.
    """
    rows, before = np.arange(u.shape[-1])[:, None], np.ones_like(u[..., :1, :1])  # (N, 1), (..., 1, 1)   Π_{k<j} u_kk
    found = u[..., :0]  # (..., N, j)   the first two factors, times the pivots behind k so far
    for j in range(u.shape[-1]):
        column = np.where(rows == j, before, -(found @ u[..., :j, j : j + 1]))  # (..., N, 1)
        pivot = u[..., j : j + 1, j : j + 1]
        found, before = joined(found * pivot, column, -1), before * pivot
    return found.mT


def pivots_of(upper):
    """The diagonal of U, (..., N)."""
    return np.diagonal(upper, axis1=-2, axis2=-1)


def refuse_singular(name, upper):
    """ValueError naming the first matrix with a pivot of 0; other kinds of numbers say so by what they divide."""
    singular = (pivots_of(upper).real == 0).any(-1)
    if singular.any() and not is_kind(upper):
        raise ValueError(f"{name}: a{first(singular)} is singular; there is no unique solution")


OF_EVERY_ARRAY: Any = {"kernel": KERNELS_OF_LU, "of_every_array": True}


@page(
    "a square (..., N, N), b (..., N, M) or (N) → (..., N, M) or (..., N)",
    check=refuse_not_finite("solve"),
    **OF_EVERY_ARRAY,
)
def solve(a, b):
    """X with A X = B, for any invertible A.

    Shapes: a (..., N, N), b (..., N, M), or one vector (N,) → x (..., N, M), or (..., N).
    VJP: B̄ = A⁻ᵀ X̄, Ā = −B̄ Xᵀ: from A dX = dB − dA X.
    Raises ValueError for shapes that do not fit, and if A is singular or not finite, naming the matrix.
    """
    lower, upper, order, _ = eliminated(a)
    refuse_singular("solve", upper)
    columns = b if b.ndim > 1 else b[:, None]
    x = solved_by(lower, upper, order, columns)  # (..., N, M)

    def vjp(x_bar):
        x_bars = x_bar if b.ndim > 1 else x_bar[..., None]
        b_bar = solved_transposed_by(lower, upper, order, x_bars)  # (..., N, M)
        return -b_bar @ x.mT, b_bar if b.ndim > 1 else b_bar[..., 0]

    y = x if b.ndim > 1 else x[..., 0]
    return y, vjp


@page("a square (..., N, N) → (..., N, N)", check=refuse_not_finite("inv"), **OF_EVERY_ARRAY)
def inv(a):
    """The inverse A⁻¹. To multiply with it, take `solve`, which is faster and rounds less.

    Shapes: a (..., N, N) → y (..., N, N).   VJP: Ā = −A⁻ᵀ Ȳ A⁻ᵀ, from dA⁻¹ = −A⁻¹ dA A⁻¹.
    Raises ValueError if A is not square, singular or not finite, naming the matrix.
    """
    lower, upper, order, _ = eliminated(a)
    refuse_singular("inv", upper)
    y = solved_by(lower, upper, order, np.eye(a.shape[-1], dtype=a.dtype))  # (..., N, N)

    def vjp(y_bar):
        a_bar = -y.mT @ y_bar @ y.mT
        return (a_bar,)

    return y, vjp


@page("a square (..., N, N) → (...)", check=refuse_not_finite("det"), **OF_EVERY_ARRAY)
def det(a):
    """The determinant of A, 0 for a singular one.

    Shapes: a (..., N, N) → y (...).   VJP: Ā = ȳ cof A, the cofactors, which are det A · A⁻ᵀ where A has an inverse.
    They exist without one too, and are 0 only if the rank is below N − 1. As cof XY = cof X cof Y, with those of a
    permutation, ± P, and of L, which are L⁻ᵀ,   cof A = ± Pᵀ L⁻ᵀ cof U.
    Raises ValueError if A is not square, or holds a value that is not finite.
    """
    lower, upper, order, sign = eliminated(a)
    y = product_of(sign, pivots_of(upper))  # (...)

    def vjp(y_bar):
        identity, bars = np.eye(a.shape[-1], dtype=a.dtype), (sign * y_bar)[..., None, None]
        if (pivots_of(upper).real == 0).any():  # two forms of the cofactors; the second divides by pivots
            a_bar = solved_transposed_by(lower, identity, order, bars * cofactors_of_triangle(upper))
        else:
            inverse = solved_transposed_by(lower, upper, order, identity)  # (..., N, N)
            a_bar = product_of(bars * inverse, pivots_of(upper)[..., None, None, :])
        return (a_bar,)

    return y, vjp


@of_several
@page("a square (..., N, N) → (...), (...)", check=refuse_not_finite("slogdet"), **OF_EVERY_ARRAY)
def slogdet(a):
    """(sign, log |det A|), of a determinant that may be too large or too small for a number; (0, −∞) if A is singular.

    Shapes: a (..., N, N) → sign (...), y (...).
    VJP: Ā = ȳ A⁻ᵀ; the sign has gradient 0. For complex A, y is the continuation from the real line, log ± det A.
    Raises ValueError if A is not square, or holds a value that is not finite; for the gradient, if A is singular and
    ȳ not 0.
    """
    lower, upper, order, permuted = eliminated(a)
    pivots = pivots_of(upper)
    signs = np.sign(pivots.real)  # (..., N)
    singular = (signs == 0).any(-1)
    logarithms = np.log(np.where(signs == 0, 1, pivots * signs))  # (..., N)
    sign, y = permuted * signs.prod(-1), np.where(singular, -np.inf, logarithms.sum(-1))  # (...)

    def vjp(_, y_bar):
        if (singular & (y_bar.real != 0)).any() and not is_kind(a):
            raise ValueError("slogdet: a is singular, where log |det a| has no gradient; add something to its diagonal")
        identity = np.eye(a.shape[-1], dtype=a.dtype)
        a_bar = y_bar[..., None, None] * solved_transposed_by(lower, upper, order, identity)
        return (a_bar,)

    return (sign, y), vjp
