"""The engine's reductions, paddings, indexing, determinants, index by index, as their equations say and no faster."""

import itertools

import numpy as np


def along(rule, x, axis):
    """Apply rule(list of elements) → one element to every line of x along one axis."""
    axis %= x.ndim
    y = np.empty(x.shape[:axis] + x.shape[axis + 1 :], x.dtype)
    for place in np.ndindex(y.shape):
        y[place] = rule([x[(*place[:axis], i, *place[axis:])] for i in range(x.shape[axis])])
    return y


def total(elements):
    """Σ x_i."""
    y = elements[0] * 0 if elements else 0.0
    for x in elements:
        y = y + x
    return y


def mean(elements):
    """(1/n) Σ x_i."""
    return total(elements) / len(elements)


def product(elements):
    """Π x_i."""
    y = elements[0] * 0 + 1 if elements else 1.0
    for x in elements:
        y = y * x
    return y


def logsumexp(elements):
    """log Σ exp(x_i): all over the largest, so that nothing overflows."""
    top = max(elements)
    return top + np.log(total([np.exp(x - top) for x in elements]))


def softmax(elements):
    """exp(x_i − log Σ exp(x_j)) for every i."""
    return [np.exp(x - logsumexp(elements)) for x in elements]


def norm(elements):
    """√(Σ x_i²)."""
    return np.sqrt(total([x * x for x in elements]))


def running_products(elements):
    """Π_{j≤i} x_j for every i."""
    return [product(elements[: i + 1]) for i in range(len(elements))]


def variance(elements, ddof=0):
    """(1/(n − d)) Σ (x_i − μ)²."""
    return total([(x - mean(elements)) ** 2 for x in elements]) / (len(elements) - ddof)


def take_along_axis(x, indices, axis):
    """y[…, k, …] = x[…, indices[…, k, …], …]."""
    axis %= x.ndim
    shape = [n if i == axis else max(n, m) for i, (n, m) in enumerate(zip(indices.shape, x.shape, strict=True))]
    indices = np.broadcast_to(indices, shape)
    y = np.empty(shape, x.dtype)
    for place in np.ndindex(*shape):
        source = list(place)
        source[axis] = indices[place]
        y[place] = x[
            tuple(i if n > 1 or k == axis else 0 for k, (i, n) in enumerate(zip(source, x.shape, strict=True)))
        ]
    return y


def scatter(x, indices, updates, axis, mode):
    """y = x; y[…, indices[…, k, …], …] += or = updates[…, k, …]."""
    axis %= x.ndim
    y = x.copy()
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = indices[place]
        y[tuple(target)] = y[tuple(target)] * (mode == "add") + updates[place]
    return y


def triangle(x, keeps):
    """x_ij where keeps(i, j), else 0."""
    y = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        if keeps(*place[-2:]):
            y[place] = x[place]
    return y


def diagonal(x, offset):
    """x_{i, i+k} for all i for which that exists, k the offset."""
    pairs = [(i, i + offset) for i in range(x.shape[-2]) if 0 <= i + offset < x.shape[-1]]
    return np.stack([x[..., i, j] for i, j in pairs], -1) if pairs else np.zeros((*x.shape[:-2], 0), x.dtype)


def permutations(n):
    """(permutation, its sign), (−1) to the number of pairs that it turns round."""
    for p in itertools.permutations(range(n)):
        yield p, (-1) ** sum(p[i] > p[j] for i, j in itertools.combinations(range(n), 2))


def det(a):
    """Σ_p sign(p) Π_i a_{i, p(i)} over all permutations (Leibniz), for each matrix."""
    n = a.shape[-1]
    y = np.zeros(a.shape[:-2], a.dtype)
    for place in np.ndindex(y.shape):
        for p, sign in permutations(n):
            term = a.dtype.type(sign)
            for i in range(n):
                term *= a[place][i, p[i]]
            y[place] += term
    return y


def cofactors(a):
    """(−1)^(i+j) det(a without row i and column j), for each matrix: the derivative of det a by a_ij."""
    c = np.zeros_like(a)
    for i, j in itertools.product(range(a.shape[-1]), repeat=2):
        c[..., i, j] = (-1) ** (i + j) * det(np.delete(np.delete(a, i, -2), j, -1))
    return c


def inv(a):
    """Cofactors, transposed, over the determinant (Cramer)."""
    return cofactors(a).swapaxes(-1, -2) / det(a)[..., None, None]


def solve(a, b):
    """X_im = Σ_j (A⁻¹)_ij B_jm."""
    y = inv(a)
    x = np.zeros_like(b)
    for place in np.ndindex(b.shape):
        i, m = place[-2:]
        x[place] = total([y[(*place[:-2], i, j)] * b[(*place[:-2], j, m)] for j in range(a.shape[-1])])
    return x


def padded(elements, before, after, mode, value=0.0):
    """The line from −before to n + after, read as the mode says outside of 0 … n − 1."""
    n = len(elements)

    def read(i):
        if 0 <= i < n:
            return elements[i]
        if mode == "zeros":
            return value
        if mode == "circular":
            return elements[i % n]
        if mode == "replicate":
            return elements[0] if i < 0 else elements[n - 1]
        return elements[-i] if i < 0 else elements[2 * (n - 1) - i]  # reflect

    return [read(i) for i in range(-before, n + after)]


def cholesky(a):
    """L_ij = (A_ij − Σ_{k<j} L_ik L_jk) / L_jj, L_jj = √(A_jj − Σ_{k<j} L_jk²), for each matrix."""
    factor = np.zeros_like(a)
    for place in np.ndindex(a.shape[:-2]):
        for j in range(a.shape[-1]):
            for i in range(j, a.shape[-1]):
                rest = a[place][i, j]
                for k in range(j):
                    rest = rest - factor[place][i, k] * factor[place][j, k]
                factor[place][i, j] = np.sqrt(rest) if i == j else rest / factor[place][j, j]
    return factor


def triangular_solve(factor, b):
    """X_im = (B_im − Σ_{k<i} L_ik X_km) / L_ii, for each matrix."""
    x = np.empty_like(b)
    for place in np.ndindex(b.shape[:-2]):
        for i in range(b.shape[-2]):
            for m in range(b.shape[-1]):
                rest = b[place][i, m]
                for k in range(i):
                    rest = rest - factor[place][i, k] * x[place][k, m]
                x[place][i, m] = rest / factor[place][i, i]
    return x


def log_determinant(factor):
    """2 Σ_i log L_ii, for each matrix."""
    y = np.zeros(factor.shape[:-2], factor.dtype)
    for place in np.ndindex(y.shape):
        for i in range(factor.shape[-1]):
            y[place] += 2 * np.log(factor[place][i, i])
    return y
