"""Systems of linear equations, inverses and determinants of any square matrix, by Gaussian elimination with pivots.

    P A = L U        L lower triangular with 1 on its diagonal, U upper triangular, P a permutation of rows

Row k is exchanged with the row below it whose element in column k is the largest; so no |L_ij| exceeds 1. Then

    A X = B:  X = U⁻¹ L⁻¹ P B          Aᵀ Y = C:  Y = Pᵀ L⁻ᵀ U⁻ᵀ C          det A = ± Π_i U_ii,   ± the sign of P

in the precision of A: float32 to clongdouble, which LAPACK has not, and complex numbers without a conjugate. Symmetric
positive definite matrices, as covariances are, take half the work by `cholesky`, with `cholesky_solve` and
`log_determinant`.

Matrices are the last two axes; axes before them are a batch and broadcast.
Source: Higham (2002), ch. 9 (elimination) and §13.2 (in blocks); Giles (2008) (VJPs).
Transcription: tests/transcriptions/linalg.py.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import Array, ArrayLike
from refnp.kernels.triangular import solve_lower
from refnp.numbers.arrays import floating, in_order

PANEL = 32  # columns that are eliminated one by one, before a matrix product does it for all others


@primitive
def solve(a, b):
    """X with A X = B, for any invertible A.

    Shapes: a (..., N, N), b (..., N, M), or one vector (N,) → x (..., N, M), or (..., N).
    VJP: B̄ = A⁻ᵀ X̄, Ā = −B̄ Xᵀ: from A dX = dB − dA X.
    Raises ValueError for shapes that do not fit, and if A is singular, naming the matrix.
    """
    lu, b = _invertible("solve", a), in_order(floating(b))
    n = lu.upper.shape[-1]
    if not b.ndim or b.shape[-2 if b.ndim > 1 else 0] != n:
        raise ValueError(f"solve: b of shape {b.shape} must have {n} rows, as a has")
    columns = b if b.ndim > 1 else b[:, None]
    x = lu.solve(columns)  # (..., N, M)

    def vjp(x_bar):
        b_bar = lu.solve_transposed(in_order(x_bar).reshape(x.shape))
        return lambda: -b_bar @ x.swapaxes(-1, -2), b_bar if b.ndim > 1 else b_bar[..., 0]

    return (x if b.ndim > 1 else x[..., 0]), vjp


@primitive
def inv(a):
    """The inverse A⁻¹. To multiply with it, take `solve`, which is faster and rounds less.

    Shapes: a (..., N, N) → y (..., N, N).   VJP: Ā = −A⁻ᵀ Ȳ A⁻ᵀ, from dA⁻¹ = −A⁻¹ dA A⁻¹.
    Raises ValueError if A is not square or singular, naming the matrix.
    """
    lu = _invertible("inv", a)
    y = lu.solve(np.eye(lu.upper.shape[-1], dtype=lu.upper.dtype))

    def vjp(y_bar):
        transposed = y.swapaxes(-1, -2)
        return (-transposed @ in_order(y_bar) @ transposed,)

    return y, vjp


@primitive
def det(a):
    """The determinant of A, 0 for a singular one.

    Shapes: a (..., N, N) → y (...).   VJP: Ā = ȳ cof A, the cofactors, which are det A · A⁻ᵀ where A has an inverse.
    They exist without one too, and are 0 only if the rank is below N − 1: see `cofactors`.
    Raises ValueError if A is not square, or holds a value that is not finite.
    """
    lu = eliminated("det", a)
    factor, exponent = lu.determinant()

    def vjp(y_bar):
        return (y_bar[..., None, None] * cofactors(lu),)

    return times_power_of_two(factor, exponent)[()], vjp


@primitive
def slogdet(a):
    """(sign, log |det A|), of a determinant that may be too large or too small for a number; (0, −∞) if A is singular.

    Shapes: a (..., N, N) → sign (...), y (...).
    VJP: Ā = ȳ A⁻ᵀ; the sign has gradient 0. For complex A, y is the continuation from the real line, log ± det A.
    Raises ValueError if A is not square, or holds a value that is not finite; for the gradient, if A is singular and
    ȳ not 0.
    """
    lu = eliminated("slogdet", a)
    diagonal = np.diagonal(lu.upper, axis1=-2, axis2=-1)
    signs = np.sign(diagonal.real)
    with np.errstate(divide="ignore"):
        y = np.log(diagonal * signs).sum(-1)
    singular = (signs == 0).any(-1)

    def vjp(sign_bar, y_bar):
        if (singular & (y_bar != 0)).any():
            raise ValueError("slogdet: a is singular, where log |det a| has no gradient; add something to its diagonal")
        inverse = lu.solve_transposed(np.eye(lu.upper.shape[-1], dtype=lu.upper.dtype))
        return (y_bar[..., None, None] * inverse,)

    return ((lu.sign * signs.prod(-1)).astype(y.dtype)[()], np.where(singular, -np.inf, y).astype(y.dtype)[()]), vjp


class LU(NamedTuple):
    """P A = L U of a batch of matrices: `lower` and `upper` (..., N, N), `order` (..., N) the rows of A as P has them,
    `sign` (...) that of the permutation.
    """

    lower: Array
    upper: Array
    order: Array
    sign: Array

    def solve(self, b: Array) -> Array:
        """A⁻¹ B for b (..., N, M)."""
        batch = np.broadcast_shapes(self.order.shape[:-1], b.shape[:-2])
        b = np.take_along_axis(np.broadcast_to(b, (*batch, *b.shape[-2:])), self._rows(self.order, len(batch)), -2)
        return solve_lower(self.upper.swapaxes(-1, -2), solve_lower(self.lower, b), transposed=True)

    def solve_transposed(self, c: Array) -> Array:
        """A⁻ᵀ C for c (..., N, M)."""
        y = solve_lower(self.lower, solve_lower(self.upper.swapaxes(-1, -2), c), transposed=True)
        return np.take_along_axis(y, self._rows(np.argsort(self.order, -1), y.ndim - 2), -2)

    @staticmethod
    def _rows(order: Array, axes: int) -> Array:
        """Rows (..., N, 1) to take, with so many axes in front."""
        return order.reshape((1,) * (axes - order.ndim + 1) + (*order.shape, 1))

    def determinant(self) -> tuple[Array, Array]:
        """det A as f · 2ᵉ with f about 1, or 0: the product of many numbers may be out of range on its way."""
        diagonal = np.diagonal(self.upper, axis1=-2, axis2=-1)
        exponents = np.frexp(size_of(diagonal))[1]  # (..., N)
        diagonal, exponent = times_power_of_two(diagonal, -exponents), exponents.sum(-1)
        factor = self.sign.astype(diagonal.dtype)
        for k in range(diagonal.shape[-1]):
            factor = factor * diagonal[..., k]
            own = np.frexp(size_of(factor))[1]
            factor, exponent = times_power_of_two(factor, -own), exponent + own
        return factor, exponent


def eliminated(name: str, a: ArrayLike) -> LU:
    """P A = L U of every matrix, with a 0 on the diagonal of U if it is singular.

    Raises ValueError unless matrices are square and finite.
    """
    a = floating(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name}: a has shape {a.shape}; its last two axes must be equal")
    finite = np.isfinite(a).all((-2, -1))
    if not finite.all():
        raise ValueError(f"{name}: a{_first(~finite)} holds a value that is not finite; look for it further up")
    n, batch = a.shape[-1], a.shape[:-2]
    lu = np.array(a, order="C").reshape(math.prod(batch), n, n)
    order = np.tile(np.arange(n), (len(lu), 1))
    sign = np.ones(len(lu), a.real.dtype)
    matrices = np.arange(len(lu))
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        for k in range(start, stop):
            pivot = k + size_of(lu[:, k:, k]).argmax(-1)  # (B,)
            for rows in (lu, order):
                rows[matrices, k], rows[matrices, pivot] = rows[matrices, pivot], rows[matrices, k]
            sign[pivot != k] *= -1
            below, divisor = lu[:, k + 1 :, k], lu[:, k, k, None]
            below /= np.where(divisor == 0, 1, divisor)  # then all below is 0 as well
            lu[:, k + 1 :, k + 1 : stop] -= below[:, :, None] * lu[:, k, None, k + 1 : stop]
        if stop < n:
            lower = np.tril(lu[:, start:stop, start:stop], -1) + np.eye(stop - start, dtype=lu.dtype)
            lu[:, start:stop, stop:] = solve_lower(lower, lu[:, start:stop, stop:])
            lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ lu[:, start:stop, stop:]
    lu = lu.reshape(*batch, n, n)
    return LU(np.tril(lu, -1) + np.eye(n, dtype=lu.dtype), np.triu(lu), order.reshape(*batch, n), sign.reshape(batch))


def _invertible(name: str, a: ArrayLike) -> LU:
    lu = eliminated(name, a)
    singular = (np.diagonal(lu.upper, axis1=-2, axis2=-1) == 0).any(-1)
    if singular.any():
        raise ValueError(f"{name}: a{_first(singular)} is singular; there is no unique solution")
    return lu


def cofactors(lu: LU) -> Array:
    """C with C_ij = (−1)^(i+j) det(A without row i and column j): the derivative of det A by A_ij.

    det A · A⁻ᵀ, where A has an inverse. A singular A has cofactors too. They are multiplicative, cof XY = cof X cof Y,
    so with those of a permutation, ± P, and of L, which are L⁻ᵀ,

        cof A = ± Pᵀ L⁻ᵀ cof U
    """
    singular = (np.diagonal(lu.upper, axis1=-2, axis2=-1).real == 0).any(-1)
    identity = np.eye(lu.upper.shape[-1], dtype=lu.upper.dtype)
    if not singular.any():
        factor, exponent = lu.determinant()
        return times_power_of_two(lu.solve_transposed(identity) * factor[..., None, None], exponent[..., None, None])
    rest = LU(lu.lower, np.broadcast_to(identity, lu.upper.shape), lu.order, lu.sign)
    return lu.sign[..., None, None] * (rest.solve_transposed(cofactors_of_triangle(lu.upper)))


def cofactors_of_triangle(u: Array) -> Array:
    """cof U of upper triangular matrices, without a division, so that zeros may stand on their diagonals:

        cof U_ji = (Π_{k<i} u_kk) n_ij (Π_{k>j} u_kk)        n_ii = 1,   n_ij = −Σ_{i≤k<j} n_ik (Π_{k<l<j} u_ll) u_kj

    for i ≤ j, and 0 for i > j. The sum is the expansion of a minor along its last column.
    """
    n = u.shape[-1]
    diagonal = np.diagonal(u, axis1=-2, axis2=-1)
    before, after = np.ones_like(diagonal), np.ones_like(diagonal)
    before[..., 1:] = np.cumprod(diagonal[..., :-1], -1)
    after[..., :-1] = np.cumprod(diagonal[..., :0:-1], -1)[..., ::-1]
    minors, weighted = np.zeros_like(u), np.zeros_like(u)  # n_ij, and n_ik Π_{k<l<j} u_ll
    for j in range(n):
        minors[..., :, j] = -(weighted[..., :, :j] @ u[..., :j, j, None])[..., 0]
        minors[..., j, j] = 1
        weighted[..., :, :j] *= diagonal[..., j, None, None]
        weighted[..., :, j] = minors[..., :, j]
    return (before[..., :, None] * minors * after[..., None, :]).swapaxes(-1, -2)


def size_of(x: Array) -> Array:
    """|x|, of a complex number |Re x| + |Im x|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def times_power_of_two(x: Any, exponent: Any) -> Array:
    """x · 2ᵉ, rounded only where the result is out of range."""
    if x.dtype.kind != "c":
        return np.ldexp(x, exponent)
    y = np.empty(np.broadcast_shapes(x.shape, np.shape(exponent)), x.dtype)
    y.real, y.imag = np.ldexp(x.real, exponent), np.ldexp(x.imag, exponent)
    return y


def _first(wrong: Any) -> Any:
    """[place] of the first that is wrong, in a batch."""
    return [int(i) for i in np.argwhere(wrong)[0]] or ""
