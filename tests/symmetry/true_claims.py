"""Claims that are true, most of them of functions that round badly: none may be refuted.

Scales go up to 2^20, translations to 1000. Those that are said to be noise give nothing but rounding (1 − Σp, a
polynomial minus itself): there the verdict must be "undecided", as for a function that computes in float32 inside.
"""

import numpy as np

from refnp.layers import layer_norm, log_softmax, softmax
from refnp.layers.attention import attention
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.set_convolution import set_convolution
from refnp.symmetry import Negate, Permute, Roll, Rotate, Scale, Translate, equivariant, invariant
from tests.symmetry import functions as f

SCALES = (1.0, 2.0**-10, 2.0**10, 2.0**20)
FEW, SOME, SQUARE = {"n": range(6)}, {"n": range(1, 7)}, {"n": range(1, 6), "m": range(1, 5)}
LINE, SHIFT = Translate("x", axis=None), Translate("x", axis=None, reach=1000)
BOTH, TOGETHER = Translate(("x", "y"), reach=1000), Rotate(("x", "y"), mirror=True)
SET = Permute("x", 0)
TABLE = np.random.default_rng(1).normal(size=(7, 4))
HEADS = MultiHeadAttention(4, 2, rng=np.random.default_rng(2))


def one_pass_variance(x):
    return (x * x).mean() - x.mean() ** 2


def expanded(x):
    return ((x - 1) ** 3 - (x**3 - 3 * x * x + 3 * x - 1)).sum()


def cosine(x, y):
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def log_sum_exp(x):
    return np.log(np.exp(x - x.max()).sum()) + x.max()


def determinant(x):
    """By elimination without pivots, of the Gram matrix, which is singular where a pivot is 0."""
    a, d = x.T @ x, x.dtype.type(1)
    for i in range(len(a)):
        d = d * a[i, i]
        if d == 0:
            return d
        a[i + 1 :] = a[i + 1 :] - np.outer(a[i + 1 :, i] / a[i, i], a[i])
    return d


def looked_up(i, table=TABLE):
    return attention(table[i], table[i], table[i]).sum()


def square(rng, n):
    return {"x": rng.normal(size=(n, n))}


def ids(rng, n):
    return {"i": rng.integers(0, 7, n)}


def tokens(rng, n):
    return f.rows(rng, n, 4)


HOLD = {
    "sum": (invariant(np.sum, SET, name="sum", on="a"), lambda rng, n: {"a": rng.normal(size=n)}, FEW),
    "mean and deviation": (invariant(lambda x: (x.mean(), x.std()), SET), f.vector, SOME),
    "one-pass variance": (invariant(one_pass_variance, SET), f.vector, SOME),
    "one-pass variance, shifted": (invariant(one_pass_variance, LINE), f.vector, SOME),
    "deviation, shifted": (invariant(lambda x: x.std(), SHIFT), f.vector, SOME),
    "variance about a million": (invariant(lambda x: (x + 1e6).var(), SET), f.vector, SOME),
    "layer_norm, shifted": (invariant(lambda x: layer_norm(x), SHIFT), f.rows, SQUARE),
    "layer_norm, scaled": (invariant(lambda x: layer_norm(x, eps=0.0), Scale("x")), f.rows, {"n": SOME["n"]}),
    "softmax, shifted": (invariant(lambda x: softmax(x), SHIFT), f.rows, SQUARE),
    "log_softmax, shifted": (invariant(lambda x: log_softmax(x), SHIFT), f.rows, SQUARE),
    "softmax of large scores": (equivariant(lambda x: softmax(100 * x), Permute("x"), Permute()), f.rows, SQUARE),
    "logsumexp, shifted": (equivariant(log_sum_exp, SHIFT, Translate(axis=None)), f.vector, SOME),
    "attention": (equivariant(f.self_attention, SET, Permute(axis=0)), f.rows, SQUARE),
    "multi-head attention": (equivariant(lambda x: HEADS(x), SET, Permute(axis=0)), tokens, FEW),
    "distances, turned": (invariant(f.squared_distances, TOGETHER), f.plane, FEW),
    "distances, by fifths": (invariant(f.squared_distances, Rotate(("x", "y"), of=5)), f.plane, FEW),
    "distances, moved": (invariant(f.squared_distances, BOTH), f.plane, FEW),
    "kernel, moved": (invariant(lambda x, y: np.exp(-8 * f.squared_distances(x, y)), BOTH), f.plane, FEW),
    "kernel, turned": (invariant(lambda x, y: np.exp(-8 * f.squared_distances(x, y)), TOGETHER), f.plane, FEW),
    "SetConv, moved": (invariant(lambda x, y: set_convolution(x, y, 1 + 0 * y, 0.3), BOTH), f.plane, FEW),
    "cosine, scaled": (invariant(cosine, Scale("x")), f.plane, SOME),
    "cosine, turned": (invariant(cosine, TOGETHER), f.plane, SOME),
    "norm": (equivariant(lambda x: np.sqrt((x * x).sum()), Scale("x"), Scale()), f.vector, SOME),
    "cubes": (equivariant(lambda x: (x**3).sum(), Scale("x"), Scale(power=3)), f.vector, SOME),
    "odd": (equivariant(lambda x: np.tanh(x).cumsum(), Negate("x"), Negate()), f.vector, FEW),
    "ring": (equivariant(f.ring_convolution, Roll("x"), Roll()), f.signal, {"n": range(1, 9)}),
    "spectrum": (invariant(lambda x: np.abs(np.fft.fft(x)), Roll("x")), f.vector, {"n": range(1, 9)}),
    "elimination, turned": (invariant(determinant, Rotate("x")), f.rows, {"n": range(2, 7), "m": (2,)}),
    "determinant (LAPACK)": (invariant(lambda x: np.abs(np.linalg.det(x)), SET), square, {"n": range(1, 6)}),
    "inverse (LAPACK)": (equivariant(np.linalg.inv, Permute("a", 0), Permute()), lambda rng, n: {
        "a": rng.normal(size=(n, n))}, {"n": range(1, 6)}),
    "eigenvalues (LAPACK)": (invariant(lambda x: np.linalg.eigvalsh(x @ x.T), SET), f.rows, SQUARE),
    "sort": (invariant(lambda x: np.sort(x).cumsum(), SET), f.vector, FEW),
    "far out on a sine": (invariant(lambda x: np.sin(1e3 * x).sum(), SET), f.vector, FEW),
    "float64 inside": (invariant(lambda x: np.exp(x.astype(float)).sum().astype(x.dtype), SET), f.vector, SOME),
    "float64 only": (invariant(lambda x: np.exp(np.asarray(x, float)).sum(), SET), f.vector, SOME),
    "float32 only": (invariant(lambda x: np.exp(x.astype(np.float32)).sum(), SET), f.vector, SOME),
    "float64 only, turned": (invariant(lambda x, y: f.squared_distances(x.astype(float), y.astype(float)), TOGETHER),
                             f.plane, FEW),
    "token ids": (invariant(looked_up, Permute("i"), in_precision=lambda t: lambda i: looked_up(i, TABLE.astype(t))),
                  ids, {"n": range(1, 8)}),
    "token ids, float64 only": (invariant(looked_up, Permute("i")), ids, {"n": range(1, 8)}),
}  # fmt: skip
NOISE = {
    "polynomial minus itself": (invariant(expanded, SET), f.vector, SOME),
    "1 − Σp": (invariant(lambda x: 1 - softmax(x).sum(-1), SET), f.rows, SQUARE),
    "float32 inside": (invariant(lambda x: np.exp(x.astype(np.float32)).sum().astype(x.dtype), SET), f.vector, SOME),
}
