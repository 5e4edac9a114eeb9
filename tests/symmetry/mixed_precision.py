"""True claims about functions that compute more coarsely inside than their inputs and outputs say.

float32, TF32 (float32 with 10 bits behind the point), bfloat16 and float16 in the middle, float64 or longdouble before
and after. Exact arithmetic would leave no discrepancy, so none of these claims may be refuted. Those of PyTorch and JAX
are there where these are installed.
"""

import functools
import importlib.util

import numpy as np

from refnp.symmetry import Permute, Roll, Rotate, Translate, equivariant, invariant
from tests.symmetry import functions as f

FEW, RING = {"n": range(1, 6)}, {"n": range(2, 9)}
SET, PLACES = Permute("x", 0), Translate("places", axis=None, step=1, reach=50)
TABLE = np.random.default_rng(3).normal(size=(9, 4))
SINGLE = np.float32


def shortened(x, bits):
    """float32 numbers with so many bits of their fraction, rounded to nearest even."""
    drop = 23 - bits
    raw = np.ascontiguousarray(x, SINGLE).view(np.uint32)
    odd = (raw >> np.uint32(drop)) & np.uint32(1)
    rounded = raw + np.uint32((1 << (drop - 1)) - 1) + odd
    return (rounded & np.uint32((0xFFFFFFFF << drop) & 0xFFFFFFFF)).view(SINGLE)


bfloat16 = functools.partial(shortened, bits=7)
tfloat32 = functools.partial(shortened, bits=10)


def in_sequence(terms, rounded):
    """Their sum along the first axis, rounded after each step."""
    total = np.zeros_like(terms[0]) if len(terms) else np.zeros(terms.shape[1:], terms.dtype)
    for term in terms:
        total = rounded(total + term)
    return total


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores_in(dtype):
    def attention(x):
        weights = softmax((x @ x.T).astype(dtype)).astype(x.dtype)
        return (weights @ x).sum(0)

    return attention


def without_longdouble(function):
    def only(x):
        if x.dtype.itemsize > 8:
            raise TypeError("longdouble is not taken")
        return function(x)

    return only


def sum_in(rounded):
    return lambda x: in_sequence(rounded(x), rounded).astype(x.dtype)


def products_in(rounded):
    """x xᵀ x with factors that are rounded and sums in float32, as tensor cores have them."""

    def gram(x):
        a = rounded(x)
        return (rounded(a @ a.T) @ a).sum(0, dtype=SINGLE).astype(x.dtype)

    return gram


def residual(x):
    return x + scores_in(SINGLE)(x)


def normalised(x):
    """Mean and deviation in float32, as in many mixed-precision recipes."""
    a = x.astype(SINGLE)
    return ((a - a.mean()) / np.sqrt(a.var() + SINGLE(1e-3))).astype(x.dtype)


def distances_in(dtype):
    return lambda x, y: f.squared_distances(x.astype(dtype), y.astype(dtype)).astype(x.dtype)


def spectrum(x):
    return (np.abs(np.fft.fft(x.astype(np.complex64))) ** 2).astype(x.dtype)


def log_sum_exp(x):
    a = x.astype(SINGLE)
    return (np.log(np.exp(a - a.max()).sum()) + a.max()).astype(x.dtype)


def rotary_scores(x, places):
    """qᵀk of rotary positions whose sines and cosines are in float32: known from their differences alone."""
    angle = places.astype(SINGLE)[:, None] * SINGLE(0.7) ** np.arange(2, dtype=SINGLE)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = x[:, :2], x[:, 2:]
    turned = np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    return turned @ turned.T


def embedded(table, rounded):
    return lambda i: in_sequence(rounded(np.exp(table[i])), rounded).astype(float)


def tokens(rng, n):
    return {"i": rng.integers(0, len(TABLE), n)}


def placed(rng, n):
    return {"x": rng.normal(size=(n, 4)), "places": rng.integers(0, 30, n)}


MIXED = {
    "float32 scores": (invariant(scores_in(SINGLE), SET), f.rows, FEW),
    "float32 scores, no longdouble": (invariant(without_longdouble(scores_in(SINGLE)), SET), f.rows, FEW),
    "float16 scores": (invariant(scores_in(np.float16), SET), f.rows, FEW),
    "float32 scores on a residual": (equivariant(residual, SET, Permute(axis=0)), f.rows, FEW),
    "float32 sum": (invariant(sum_in(SINGLE), SET), f.rows, FEW),
    "float16 sum": (invariant(sum_in(np.float16), SET), f.rows, FEW),
    "bfloat16 sum": (invariant(sum_in(bfloat16), SET), f.rows, FEW),
    "TF32 products": (invariant(products_in(tfloat32), SET), f.rows, FEW),
    "bfloat16 products": (invariant(products_in(bfloat16), SET), f.rows, FEW),
    "float32 statistics": (equivariant(normalised, SET, Permute(axis=0)), f.rows, FEW),
    "float32 logsumexp": (invariant(log_sum_exp, SET), f.vector, FEW),
    "float32 distances, moved": (invariant(distances_in(SINGLE), Translate(("x", "y"), reach=100)), f.plane, FEW),
    "float16 distances, moved": (invariant(distances_in(np.float16), Translate(("x", "y"), reach=100)), f.plane, FEW),
    "float32 distances, turned": (invariant(distances_in(SINGLE), Rotate(("x", "y"))), f.plane, FEW),
    "complex64 spectrum": (invariant(spectrum, Roll("x")), f.vector, RING),
    "float32 rotary table": (invariant(rotary_scores, PLACES), placed, FEW),
    "token ids, float32 sum": (invariant(embedded(TABLE, SINGLE), Permute("i")), tokens, FEW),
    "token ids, bfloat16 sum": (invariant(embedded(TABLE, bfloat16), Permute("i")), tokens, FEW),
}  # fmt: skip


def in_pytorch():
    """Modules of PyTorch: a float32 sum, a module in float32, autocast to bfloat16, a module in bfloat16."""
    import torch

    torch.manual_seed(0)
    phi, rho = torch.nn.Linear(3, 8).double(), torch.nn.Linear(8, 2).double()
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).eval()
    ring = torch.nn.Conv1d(1, 2, 3, padding=1, padding_mode="circular")
    small = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).bfloat16()

    def function(body):
        def called(x):
            if x.dtype.itemsize > 8:
                raise TypeError("PyTorch has no longdouble")
            with torch.no_grad():
                return body(torch.as_tensor(x)).to(torch.as_tensor(x).dtype).numpy()

        return called

    deep_set = lambda x: rho(torch.relu(phi(x.double())).float().sum(0).double())

    def autocast(x):
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x.float()[None])[0]

    pooled = lambda x: small(x.bfloat16()).sum(0)
    four = lambda rng, n: f.rows(rng, n, 4)
    order = Permute(axis=0)
    return {
        "PyTorch, float32 sum": (invariant(function(deep_set), SET), f.rows, FEW),
        "PyTorch, float32 encoder layer": (
            equivariant(function(lambda x: layer(x.float()[None])[0]), SET, order), four, FEW),
        "PyTorch, autocast to bfloat16": (equivariant(function(autocast), SET, order), four, FEW),
        "PyTorch, bfloat16 module": (invariant(function(pooled), SET), f.rows, FEW),
        "PyTorch, float32 convolution": (
            equivariant(function(lambda x: ring(x.float())), Roll("x"), Roll()), f.signal, RING),
    }  # fmt: skip


def in_jax():
    """Functions of JAX with float64 switched on: its attention, whose softmax is in float32, and bfloat16 products."""
    import jax
    import jax.numpy as jnp

    def function(body):
        compiled = jax.jit(body)

        def called(x):
            if x.dtype.itemsize > 8:
                raise TypeError("JAX has no longdouble")
            with jax.enable_x64(True):
                return np.asarray(compiled(jnp.asarray(x))).astype(x.dtype)

        return called

    def attend(x):
        q = x[None, :, None, :]
        return jax.nn.dot_product_attention(q, q, q)[0, :, 0]

    def gram(x):
        a = x.astype(jnp.bfloat16)
        return jnp.matmul(a, a.T, preferred_element_type=jnp.float32).sum(0).sum()

    return {
        "JAX, attention": (equivariant(function(attend), SET, Permute(axis=0)), f.rows, FEW),
        "JAX, bfloat16 products": (invariant(function(gram), SET), f.rows, FEW),
        "JAX, float16 softmax": (
            equivariant(function(lambda x: jax.nn.softmax(x.astype(jnp.float16))), Permute("x"), Permute()),
            f.rows,
            FEW,
        ),
    }


def installed():
    """All of them that can run here."""
    found = dict(MIXED)
    for package, functions in (("torch", in_pytorch), ("jax", in_jax)):
        if importlib.util.find_spec(package):
            found |= functions()
    return found
