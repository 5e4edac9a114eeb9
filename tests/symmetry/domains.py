"""Draws that keep a condition, the condition itself, and claims that are true or false of what they draw."""

import numpy as np

from refnp.symmetry import Permute, Roll, Rotate, RotateSpace, Translate, equivariant, invariant

FEW = {"n": range(1, 6)}
TABLE = 2 * np.pi * np.arange(8) / 8
EIGHT = np.stack([np.cos(TABLE), np.sin(TABLE)])


def close(a, b):
    return np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=0, atol=1e-3 * (1 + np.abs(b).max(initial=0)))


def symmetric(rng, n):
    m = rng.normal(size=(n, n))
    return {"a": m + m.T}


def graph(rng, n):
    a = np.triu(rng.random((n, n)) < 0.5, 1).astype(float)
    return {"a": a + a.T}


def weighted(rng, n):
    a = np.triu(rng.normal(size=(n, n)), 1)
    return {"a": a + a.T}


def antisymmetric(rng, n):
    m = rng.normal(size=(n, n))
    return {"a": m - m.T}


def positive_definite(rng, n):
    m = rng.normal(size=(n, n))
    return {"a": m @ m.T + np.eye(n)}


def orthogonal(rng, n):
    return {"a": np.linalg.qr(rng.normal(size=(n, n)))[0]}


def probabilities(rng, n):
    return {"p": rng.dirichlet(np.ones(4), n)}


def simplex(rng, n):
    return {"p": rng.dirichlet(np.ones(n))}


def centred(rng, n):
    x = rng.normal(size=(n, 2))
    return {"x": x - x.mean(0)}


def unit(rng, n):
    x = rng.normal(size=(n, 3))
    return {"x": x / np.linalg.norm(x, axis=-1, keepdims=True)}


def one_hot(rng, n):
    return {"x": rng.normal(size=(n, 2)), "y": np.eye(3)[rng.integers(0, 3, n)]}


def times(rng, n):
    return {"t": np.sort(rng.uniform(0, 9, n)), "y": rng.normal(size=n)}


def spins(rng, n):
    return {"s": rng.choice([-1.0, 1.0], n)}


def positive(rng, n):
    return {"x": rng.exponential(size=(n, 2)) + 0.01}


def columns(rng, n):
    """A mass, which is positive, and a charge of one sign or the other."""
    return {"x": np.stack([rng.exponential(size=n), rng.choice([-1.0, 1.0], n), rng.normal(size=n)], -1)}


def padded(rng, n):
    mask = np.arange(n) < rng.integers(1, n + 1)
    return {"x": np.where(mask[:, None], rng.normal(size=(n, 2)), 0), "mask": mask}


def with_length(rng, n):
    k = int(rng.integers(1, n + 1))
    return {"x": np.where((np.arange(n) < k)[:, None], rng.normal(size=(n, 2)), 0), "length": np.array(k)}


def with_distances(rng, n):
    x = rng.normal(size=(n, 3))
    return {"x": x, "d": np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))}


DOMAINS = {
    "symmetric": (symmetric, lambda a: close(a, a.T)),
    "graph": (graph, lambda a: close(a, a.T) and not np.diag(a).any() and np.isin(a, (0, 1)).all()),
    "weighted graph": (weighted, lambda a: close(a, a.T) and not np.diag(a).any()),
    "antisymmetric": (antisymmetric, lambda a: close(a, -a.T)),
    "positive definite": (positive_definite, lambda a: close(a, a.T) and np.linalg.eigvalsh(a.astype(float))[0] > 0),
    "orthogonal": (orthogonal, lambda a: close(a @ a.T, np.eye(len(a)))),
    "rows of sum 1": (probabilities, lambda p: close(p.sum(-1), np.ones(len(p))) and (p >= 0).all()),
    "simplex": (simplex, lambda p: close(p.sum(), np.ones(())) and (p >= 0).all()),
    "centred": (centred, lambda x: close(x.mean(0) / (np.abs(x).max() or 1), np.zeros(2))),
    "rows of norm 1": (unit, lambda x: close((x * x).sum(-1), np.ones(len(x)))),
    "one-hot": (one_hot, lambda x, y: np.isin(y, (0, 1)).all() and (y.sum(-1) == 1).all()),
    "sorted": (times, lambda t, y: (np.diff(t) > 0).all()),
    "spins": (spins, lambda s: (np.abs(s) == 1).all()),
    "one sign": (positive, lambda x: (x > 0).all()),
    "columns": (columns, lambda x: (x[:, 0] > 0).all() and (np.abs(x[:, 1]) == 1).all()),
    "a mask that matches": (padded, lambda x, mask: np.array_equal(mask, x.any(-1)) and (np.diff(1 * mask) <= 0).all()),
    "distances that match": (
        with_distances,
        lambda x, d: close(d, np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))),
    ),
}


def laplacian_spectrum(a):
    return np.linalg.eigvalsh(np.diag(a.sum(1)) - a)


def entropy_from_the_first(p):
    """Of probabilities whose last is what the others leave."""
    q = np.concatenate([p[:-1], [1 - p[:-1].sum()]])
    return -(q * np.log(np.maximum(q, q.dtype.type(1e-300)))).sum()


BOTH_AXES = Permute({"a": (0, 1)})
TRUE = {
    "spectrum": (invariant(np.linalg.eigvalsh, BOTH_AXES), symmetric),
    "spectrum of a graph": (invariant(laplacian_spectrum, BOTH_AXES), graph),
    "upper triangle": (invariant(lambda a: np.triu(a).sum(), BOTH_AXES), weighted),
    "log determinant": (invariant(lambda a: np.log(np.diag(np.linalg.cholesky(a))).sum(), BOTH_AXES),
                        positive_definite),
    "inverse by transposition": (invariant(lambda a: a.T @ a, Permute("a", 0)), orthogonal),
    "the last probability": (invariant(entropy_from_the_first, Permute("p")), simplex),
    "the last of what is centred": (invariant(lambda x: x[1:].sum(0) ** 2 - x[0] ** 2 + (x**2).sum(0), Permute("x", 0)),
                                    centred),
    "norms": (invariant(lambda x: (x[:, :2] ** 2).sum(-1) + x[:, 2] ** 2, RotateSpace("x")), unit),
    "class means": (invariant(lambda x, y: y.T @ x / np.maximum(y.sum(0), 1)[:, None], Permute(("x", "y"), 0)),
                    one_hot),
    "slopes": (invariant(lambda t, y: np.diff(y) / np.diff(t), Translate("t", axis=None)), times),
    "first spin": (invariant(lambda s: s[0] ** 2 * len(s) + s.sum() ** 2, Permute("s")), spins),
    "logarithms": (invariant(lambda x: np.log(x).sum(0), Permute("x", 0)), positive),
    "largest that is there": (
        invariant(lambda x, mask: np.where(mask[:, None], x, -np.inf).max(0), Permute({"x": 0, "mask": 0})), padded),
    "mean by length": (invariant(lambda x, length: x.sum(0) / length, Permute("x", 0)), with_length),
    "eight directions": (
        equivariant(lambda x: np.maximum(x @ EIGHT, 0) @ EIGHT.T, Rotate("x", of=8), Rotate(of=8)),
        lambda rng, n: {"x": rng.normal(size=(n, 2))}),
}  # fmt: skip


def rows(rng, n):
    return {"x": rng.normal(size=(n, 2))}


def vector(rng, n):
    return {"x": rng.normal(size=n)}


def halves(x):
    """The half with the larger sum of squares, the first if they tie."""
    a, b = x[::2], x[1::2]
    y = a if (a**2).sum() >= (b**2).sum() else b
    return np.array([(y**3).mean(), (y * np.roll(y, 1)).sum()])


def nearest(x):
    d = ((x[:, None] - x[None]) ** 2).sum(-1)
    return x[np.argsort(d, 1, kind="stable")[:, :2]].sum(1)


def in_its_axes(x):
    """Turned to the axes of its covariance, the larger number of each axis positive."""
    _, v = np.linalg.eigh(x.T @ x)
    return x @ (v * np.sign(v[np.argmax(np.abs(v), 0), np.arange(2)]))


SET, ORDER = Permute("x", 0), Permute(axis=0)
FALSE = {
    "ties of two halves": (invariant(halves, Roll("x", 0)), lambda rng, n: {"x": rng.normal(size=2 * n)}),
    "the first of the largest": (
        equivariant(lambda x: np.where(np.arange(len(x)) == np.argmax(x), x, 0), Permute("x"), Permute()), vector),
    "a frame from the farthest": (invariant(lambda x: x[np.argmax((x**2).sum(-1))] @ x.sum(0), SET), rows),
    "nearest neighbours": (equivariant(nearest, SET, ORDER), rows),
    "the first in order": (invariant(lambda x: x[np.argsort(x[:, 0], kind="stable")][:2], SET), rows),
    "principal axes": (invariant(in_its_axes, Rotate("x", of=4)), rows),
    "from its largest on": (invariant(lambda x: np.roll(x, -int(np.argmax(x)))[:2].sum(), Roll("x")), vector),
    "one probability": (invariant(lambda p: p[0], Permute("p")), simplex),
    "a triangle": (invariant(lambda a: np.triu(a).sum() + a[0, -1], BOTH_AXES), weighted),
    "one class": (invariant(lambda x, y: x[0] * y[0, 0], Permute(("x", "y"), 0)), one_hot),
    "tokens without their mask": (invariant(lambda x, mask: (x * mask[:, None]).sum(0), SET), padded),
}  # fmt: skip
