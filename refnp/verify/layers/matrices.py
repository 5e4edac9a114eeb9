"""Matrices: triangles and diagonals, general systems, inverses and determinants, systems of a Cholesky factor."""

from dataclasses import replace
from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.numbers import rounding
from refnp.numbers.rounding import Rounded, arranged, constant, contract, exact, where
from refnp.verify.case import Case, GradientInputs, KnownDefect, Layer, generator, gradient_of, normal
from refnp.verify.judged_pages import by_page
from refnp.verify.layers.linear import without_gradient


def tril(x, *, offset=0):
    """y_ij = x_ij for j ≤ i + k, else 0."""
    return x.moved(lambda a: np.tril(a, offset)), lambda g: (g.moved(lambda a: np.tril(a, offset)),)


def triu(x, *, offset=0):
    """y_ij = x_ij for j ≥ i + k, else 0."""
    return x.moved(lambda a: np.triu(a, offset)), lambda g: (g.moved(lambda a: np.triu(a, offset)),)


def diagonal(x, *, offset=0):
    """y_i = x_{i, i+k}; x̄ = ȳ there."""

    def placed(g):
        whole = np.zeros(x.shape, g.dtype)
        i = np.arange(len(g))
        whole[i - min(offset, 0), i + max(offset, 0)] = g
        return whole

    return x.moved(lambda a: np.diagonal(a, offset)), lambda g: (g.moved(placed),)


Elements = dict[Any, Rounded]  # of a matrix or a vector, by place


class Eliminated:
    """P A = L U of one matrix, element by element: u_kj = a_kj − Σ_m l_km u_mj, l_ik = (a_ik − Σ_m l_im u_mk)/u_kk."""

    def __init__(self, a):
        self.n, self.order = len(a.value), _pivots(a.value)
        rows = a[self.order]
        self.l: Elements = {}
        self.u: Elements = {}
        for k in range(self.n):
            for j in range(k, self.n):
                self.u[k, j] = total(rows[k, j], *(-(self.l[k, m] * self.u[m, j]) for m in range(k)))
            for i in range(k + 1, self.n):
                rest = total(rows[i, k], *(-(self.l[i, m] * self.u[m, k]) for m in range(k)))
                self.l[i, k] = rest / self.u[k, k]

    def solve(self, b):
        """A⁻¹ B, from the top and from the bottom."""
        b, n = b[self.order], self.n
        y: Elements = {}
        x: Elements = {}
        for i in range(n):
            y[i] = total(b[i], *(-(self.l[i, m] * y[m]) for m in range(i)))
        for i in reversed(range(n)):
            x[i] = total(y[i], *(-(self.u[i, m] * x[m]) for m in range(i + 1, n))) / self.u[i, i]
        return arranged(lambda *rows: np.stack(rows), *(x[i] for i in range(n)))

    def solve_transposed(self, c):
        """A⁻ᵀ C, likewise."""
        n = self.n
        w: Elements = {}
        v: Elements = {}
        for i in range(n):
            w[i] = total(c[i], *(-(self.u[m, i] * w[m]) for m in range(i))) / self.u[i, i]
        for i in reversed(range(n)):
            v[i] = total(w[i], *(-(self.l[m, i] * v[m]) for m in range(i + 1, n)))
        return arranged(lambda *rows: np.stack(rows), *(v[i] for i in np.argsort(self.order)))

    def inverse_transposed(self):
        """A⁻ᵀ."""
        return self.solve_transposed(exact(np.eye(self.n)))

    def pivots(self):
        """The diagonal of U, whose product is ± det A."""
        return [self.u[k, k] for k in range(self.n)]


def _pivots(a):
    """The order of rows in which each pivot is the largest of its column."""
    a, order = a.copy(), list(range(len(a)))
    for k in range(len(a)):
        largest = k + int(np.abs(a[k:, k]).argmax())
        a[[k, largest]] = a[[largest, k]]
        order[k], order[largest] = order[largest], order[k]
        a[k + 1 :] -= np.outer(a[k + 1 :, k] / a[k, k], a[k])
    return order


def total(*terms):
    """Σ in any order."""
    return arranged(lambda *parts: np.stack(np.broadcast_arrays(*parts)), *terms).sum(0)


def solve(a, b):
    """X = A⁻¹ B, B̄ = A⁻ᵀ X̄, Ā = −B̄ Xᵀ."""
    lu = Eliminated(a)
    x = lu.solve(b)

    def pullback(g):
        b_bar = lu.solve_transposed(g)
        return -contract("im,jm->ij", b_bar, x), b_bar

    return x, pullback


def inv(a):
    """Y = A⁻¹, Ā = −A⁻ᵀ Ȳ A⁻ᵀ."""
    y = Eliminated(a).solve(exact(np.eye(len(a.value))))
    return y, lambda g: (-contract("ik,jk->ij", contract("ki,kj->ij", y, g), y),)


def det(a):
    """y = ± Π U_ii, Ā = ȳ y A⁻ᵀ."""
    lu = Eliminated(a)
    turned = sum(lu.order[i] > lu.order[j] for j in range(lu.n) for i in range(j))
    y = constant((-1.0) ** turned)
    for pivot in lu.pivots():
        y = y * pivot
    return y, lambda g: (lu.inverse_transposed() * (g * y),)


def det_of_singular(a):
    """y = 0 and Ā = ȳ cof A of a matrix that has no inverse, by the minors."""
    n = len(a.value)

    def minor(rows, columns):
        if not rows:
            return constant(1.0)
        expanded = (a[rows[0], c] * minor(rows[1:], [d for d in columns if d != c]) for c in columns)
        return total(*(part * (-1.0) ** k for k, part in enumerate(expanded)))

    def pullback(g):
        others = [[i for i in range(n) if i != k] for k in range(n)]
        parts = [minor(others[i], others[j]) * (-1.0) ** (i + j) for i in range(n) for j in range(n)]
        return (arranged(lambda *c: np.stack(c).reshape(n, n), *parts) * g,)

    return minor(list(range(n)), list(range(n))), pullback


def slogdet(a):
    """y = Σ log |U_ii|, Ā = ȳ A⁻ᵀ."""
    lu = Eliminated(a)
    y = total(*(rounding.log(where(pivot.value < 0, -pivot, pivot)) for pivot in lu.pivots()))
    return y, lambda g: (lu.inverse_transposed() * g,)


def solved_lower(lower, b):
    """L⁻¹ B, from the top."""
    x: Elements = {}
    for i in range(len(lower.value)):
        x[i] = total(b[i], *(-(lower[i, m] * x[m]) for m in range(i))) / lower[i, i]
    return _stacked(x)


def solved_upper(lower, b):
    """L⁻ᵀ B, from the bottom."""
    x: Elements = {}
    for i in reversed(range(len(lower.value))):
        x[i] = total(b[i], *(-(lower[m, i] * x[m]) for m in range(i + 1, len(lower.value)))) / lower[i, i]
    return _stacked(x)


def _stacked(x):
    """The rows, in order."""
    return arranged(lambda *rows: np.stack(rows), *(x[i] for i in range(len(x))))


TRIL = Layer(
    "tril",
    ad.tril,
    tril,
    torch=lambda torch, x, offset=0: torch.tril(x, offset),
    jax=lambda jax, x, offset=0: jax.numpy.tril(x, offset),
)

TRIU = Layer(
    "triu",
    ad.triu,
    triu,
    torch=lambda torch, x, offset=0: torch.triu(x, offset),
    jax=lambda jax, x, offset=0: jax.numpy.triu(x, offset),
)

DIAGONAL = Layer(
    "diagonal",
    ad.diagonal,
    diagonal,
    torch=lambda torch, x, offset=0: torch.diagonal(x, offset),
    jax=lambda jax, x, offset=0: jax.numpy.diagonal(x, offset),
)

SOLVE = Layer("solve", ad.solve, solve, torch="linalg.solve", jax="numpy.linalg.solve")

INV = Layer("inv", ad.inv, inv, torch="linalg.inv", jax="numpy.linalg.inv")

DET = Layer("det", ad.det, det, torch="linalg.det", jax="numpy.linalg.det")

SINGULAR = replace(DET, equation=det_of_singular)

SLOGDET = Layer(
    "slogdet",
    lambda a: ad.slogdet(a)[1],
    slogdet,
    torch=lambda torch, a: torch.linalg.slogdet(a)[1],
    jax=lambda jax, a: jax.numpy.linalg.slogdet(a)[1],
)

CHOLESKY_SOLVE = Layer(
    "cholesky_solve",
    ad.cholesky_solve,
    by_page(ad.cholesky_solve),
    torch=lambda torch, factor, b: torch.cholesky_solve(b, torch.tril(factor)),
    jax=lambda jax, factor, b: jax.scipy.linalg.cho_solve((jax.numpy.tril(factor), True), b),
)

DET_VJP = KnownDefect(
    "PyTorch",
    "det: gradient 0 if singular",
    "det's gradient solves with det·I, which is 0 for a singular matrix; its cofactors are 0 only below rank N − 1",
    ("gradient of a",),
    equation=without_gradient(det_of_singular, 0),
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
        Case(SINGULAR, "singular, rank N - 1", {"a": rank_2}, known_defects=(DET_VJP,)),
        Case(SINGULAR, "singular, rank N - 2", {"a": np.outer([1.0, 2, 3], [1, 1, 2])}),
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


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Every operation of this page; the determinant at a singular matrix too."""
    rng = generator(seed, skip=9500)
    a, b = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 2))
    lower = np.tril(rng.normal(size=(2, 3, 3)), -1) + np.eye(3) * rng.uniform(1, 2, (2, 3, 1))
    singular = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    return [
        gradient_of("solve", ad.solve, a, b),
        gradient_of("solve, a vector", ad.solve, a, b[0, :, 0]),
        gradient_of("inv", ad.inv, a),
        gradient_of("det", ad.det, a),
        gradient_of("det at a singular matrix", lambda a: ad.det(a) + 1.0, singular),
        gradient_of("slogdet", lambda a: ad.slogdet(a)[1], a),
        gradient_of("cholesky_solve", ad.cholesky_solve, lower, b),
        gradient_of("tril", ad.tril, a, offset=-1, order2=False),
        gradient_of("triu", ad.triu, a, order2=False),
        gradient_of("diagonal", ad.diagonal, a, offset=1, order2=False),
    ]
