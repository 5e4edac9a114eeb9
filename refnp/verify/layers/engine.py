"""The engine's own operations: arithmetic, selections, reductions, matrices, shapes, indexing, the error function."""

import numpy as np

import refnp.autograd as ad
from refnp.autograd.special import erf as refnp_erf
from refnp.autograd.special import erfc as refnp_erfc
from refnp.verify import rounding
from refnp.verify.case import Case, GradientInputs, KnownDefect, Layer, gradient_of, uniform
from refnp.verify.rounding import WIDE, constant


def erf(x):
    """y = erf x, y′ = 2/√π e^(−x²)."""
    slope = constant(2 / np.sqrt(4 * np.arctan(WIDE(1)))) * rounding.exp(-(x * x))
    return rounding.erf(x), lambda g: (g * slope,)


def erfc(x):
    """y = erfc x, y′ = −2/√π e^(−x²)."""
    slope = constant(-2 / np.sqrt(4 * np.arctan(WIDE(1)))) * rounding.exp(-(x * x))
    return rounding.erfc(x), lambda g: (g * slope,)


LAYERS = [
    Layer("erf", refnp_erf, erf, torch="special.erf", jax="scipy.special.erf"),
    Layer("erfc", refnp_erfc, erfc, torch="special.erfc", jax="scipy.special.erfc"),
]
JAX_ERFC_TAIL = KnownDefect(
    "JAX", "erfc: exp(-x*x)", "erfc takes exp(−x·x): the rounding of x² is magnified x² times", ("output",)
)
AROUND_ZERO = np.array([-1e-3, -1e-6, -1e-20, -1e-30, 0.0, 1e-30, 1e-20, 1e-6, 1e-3])


def cases() -> list[Case]:
    """The error function and its complement: ordinary numbers, around zero, both tails."""
    found = []
    for layer in LAYERS:
        far = (JAX_ERFC_TAIL,) if layer.name == "erfc" else ()
        found += [
            Case(layer, "ordinary", {"x": uniform(6, 9, low=-2.5, high=2.5)}),
            Case(layer, "around zero", {"x": AROUND_ZERO}),
            Case(layer, "right tail", {"x": np.linspace(2.5, 9, 24)}, known_defects=far),
            Case(layer, "left tail", {"x": -np.linspace(2.5, 9, 24)}),
        ]
    return found


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Every primitive of the engine, on small inputs that stay clear of kinks and of the ends of domains."""
    rng = np.random.default_rng(seed)
    return _elements(rng) + _selections(rng) + _reductions(rng) + _matrices(rng) + _shapes(rng) + _indexing(rng)


def _elements(rng):
    x, y = rng.normal(size=(3, 4)), rng.normal(size=4)
    positive, exponent = rng.uniform(0.3, 2, (3, 4)), rng.normal(size=(3, 1))
    return [
        gradient_of("add", ad.add, x, y, order2=False),
        gradient_of("subtract", ad.subtract, x, y, order2=False),
        gradient_of("multiply", ad.multiply, x, y),
        gradient_of("divide", ad.divide, x, positive),
        gradient_of("negative", ad.negative, x, order2=False),
        gradient_of("power, x²", lambda x: ad.power(x, 2), x),
        gradient_of("power, x³", lambda x: ad.power(x, 3), x),
        gradient_of("power, x^−1.5", lambda x: ad.power(x, -1.5), positive),
        gradient_of("power, x^p", ad.power, positive, exponent),
        gradient_of("exp", ad.exp, x),
        gradient_of("expm1", ad.expm1, x),
        gradient_of("log", ad.log, positive),
        gradient_of("log1p", ad.log1p, x * 0.2),
        gradient_of("sqrt", ad.sqrt, positive),
        gradient_of("tanh", ad.tanh, 3 * x),
        gradient_of("sin", ad.sin, x),
        gradient_of("cos", ad.cos, x),
        gradient_of("erf", refnp_erf, x),
        gradient_of("erfc", refnp_erfc, x),
    ]


def _selections(rng):
    x = rng.permutation(12).reshape(3, 4) - 5.7  # no two alike, none 0, none a bound of clip
    y = rng.permutation(12).reshape(3, 4) - 5.4
    condition = rng.random((3, 1)) < 0.5
    return [
        gradient_of("absolute", ad.absolute, x, order2=False),
        gradient_of("maximum", ad.maximum, x, y, order2=False),
        gradient_of("minimum", ad.minimum, x, y, order2=False),
        gradient_of("where", ad.where, condition, x, y, order2=False),
        gradient_of("clip", ad.clip, x, -2.0, 3.0, order2=False),
    ]


def _reductions(rng):
    x = rng.normal(size=(3, 4))
    with_zeros = np.where([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], 0.0, x)
    return [
        gradient_of("sum", ad.sum, x, order2=False),
        gradient_of("sum, axis 0", ad.sum, x, axis=0, order2=False),
        gradient_of("mean, axis −1", ad.mean, x, axis=-1, keepdims=True, order2=False),
        gradient_of("max, axis 1", ad.max, x, axis=1, order2=False),
        gradient_of("min", ad.min, x, order2=False),
        gradient_of("prod, axis 1", ad.prod, x, axis=1),
        gradient_of("prod at zeros", ad.prod, with_zeros, axis=1),
        gradient_of("logsumexp, axis 1", ad.logsumexp, x, axis=1),
        gradient_of("norm, axis 0", ad.norm, x, axis=0),
        gradient_of("cumsum, axis 0", ad.cumsum, x, axis=0, order2=False),
    ]


def _matrices(rng):
    x, y, v = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=4)
    batch, square = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 3))
    positive = square @ square.swapaxes(-1, -2) + 3 * np.eye(3)
    factor, b = np.linalg.cholesky(positive), rng.normal(size=(2, 3, 2))
    return [
        gradient_of("matmul", ad.matmul, x, y),
        gradient_of("matmul, row times matrix", ad.matmul, v, y),
        gradient_of("matmul, batch", ad.matmul, batch, rng.normal(size=(2, 4, 3))),
        gradient_of("linear", ad.linear, batch, y, rng.normal(size=2)),
        gradient_of("outer", ad.outer, v, rng.normal(size=3)),
        gradient_of("trace", ad.trace, batch, order2=False),
        gradient_of("einsum, ij,jk->ik", lambda x, y: ad.einsum("ij,jk->ik", x, y), x, y),
        gradient_of("einsum, ...ij,...ij->...", lambda x: ad.einsum("...ij,...ij->...", x, x), batch),
        gradient_of("einsum, bii->bi", lambda x: ad.einsum("bii->bi", x), square, order2=False),
        gradient_of("cholesky", ad.cholesky, positive),
        gradient_of("triangular_solve", ad.triangular_solve, factor, b),
        gradient_of("triangular_solve, Lᵀ", ad.triangular_solve, factor, b, transposed=True),
        gradient_of("log_determinant", ad.log_determinant, factor),
        gradient_of("log det of A", lambda a: ad.log_determinant(ad.cholesky(a)), positive),
    ]


def _shapes(rng):
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    functions = {
        "reshape": lambda x, y: ad.reshape(x, (2, 6)),
        "transpose": lambda x, y: ad.transpose(x),
        "swapaxes": lambda x, y: ad.swapaxes(x, 0, 1),
        "broadcast_to": lambda x, y: ad.broadcast_to(x, (2, 3, 4)),
        "flip": lambda x, y: ad.flip(x, 1),
        "roll": lambda x, y: ad.roll(x, 2, 1),
        "concatenate": lambda x, y: ad.concatenate([x, y], axis=1),
        "stack": lambda x, y: ad.stack([x, y], axis=1),
        "split": lambda x, y: ad.split(x, [1, 3]),
    }
    return [gradient_of(name, function, x, y, order2=False) for name, function in functions.items()]


def _indexing(rng):
    x = rng.normal(size=(3, 4))
    mask = np.arange(12).reshape(3, 4) % 3 == 1
    functions = {
        "getitem, slices": lambda x: x[1:, ::-2],
        "getitem, an index twice": lambda x: x[[0, 2, 0], [1, 3, 1]],
        "getitem, a mask": lambda x: x[mask],
        "take, axis 1": lambda x: ad.take(x, np.array([[0, 3], [-1, 0]]), axis=1),
        "pad, zeros": lambda x: ad.pad(x, [(1, 2), (0, 1)]),
        "pad, circular": lambda x: ad.pad(x, [(1, 2), (0, 4)], mode="circular"),
        "pad, reflect": lambda x: ad.pad(x, [(2, 1), (0, 3)], mode="reflect"),
        "pad, replicate": lambda x: ad.pad(x, [(1, 2), (0, 1)], mode="replicate"),
    }
    return [gradient_of(name, function, x, order2=False) for name, function in functions.items()]
