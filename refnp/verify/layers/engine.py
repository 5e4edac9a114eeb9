"""The engine's own operations: arithmetic, selections, reductions, matrices, shapes, indexing, the error function."""

from dataclasses import replace
from functools import partial

import numpy as np

import refnp.autograd as ad
from refnp.autograd.reductions import direction
from refnp.autograd.special import erf, erfc
from refnp.numbers import rounding
from refnp.numbers.duals import as_array
from refnp.numbers.rounding import WIDE, constant, where
from refnp.verify.case import Case, GradientInputs, KnownDefect, Layer, generator, gradient_of, normal, uniform
from refnp.verify.judged_pages import by_tape
from refnp.verify.layers import sixteen_bits


def direction_or_any(x, length, n=1):
    """Of any direction, where rounding leaves a little of a length that is 0: up to 1/√n for each number."""
    return where(True, direction(x, length, n), 1 / np.sqrt(n), doubtful=(length.value == 0) & (length.off > 0))


def divided_std(x, *, ddof=0):
    """The gradient ȳ (x − μ)/((n − d) y) as it stands: 0/0 where all numbers are equal."""
    y, pullback = STD.equation(x, ddof=ddof)
    zero = (y.value == 0)[:, None]
    return y, lambda g: (where(zero, np.nan, *pullback(g)),)


def divided_cumprod(x):
    """x̄ = Σ_{i≥j} ȳ_i y_i/x_j, and 0 where x_j is."""
    y, pullback = CUMPROD.equation(x)
    return y, lambda g: (where(x.value == 0, 0, *pullback(g)),)


def take_along_axis(x, *, indices):
    """y_rk = x_{r, i_rk}."""
    return ad.take_along_axis(x, as_array(indices))


def scatter(x, updates, *, indices, mode="add"):
    """y = x with u added, or put, at places i_rk of rows."""
    return ad.scatter(x, as_array(indices), updates, mode=mode)


def var(x, *, ddof=0, axis=-1):
    """y = Σ (x − μ)²/(n − d), along the last axis unless told otherwise."""
    return ad.var(x, axis, ddof=ddof)


def std(x, *, ddof=0, axis=-1):
    """y = √var, along the last axis unless told otherwise."""
    return ad.std(x, axis, ddof=ddof)


def cumprod(x):
    """y_i = Π_{j≤i} x_j, along the last axis."""
    return ad.cumprod(x)


ERF = Layer("erf", erf, by_tape(erf), torch="special.erf", jax="scipy.special.erf", known=sixteen_bits.ERF)
ERFC = Layer("erfc", erfc, by_tape(erfc), torch="special.erfc", jax="scipy.special.erfc")
SINH = Layer("sinh", ad.sinh, by_tape(ad.sinh), torch="sinh", jax="numpy.sinh", known=sixteen_bits.SINH)
COSH = Layer("cosh", ad.cosh, by_tape(ad.cosh), torch="cosh", jax="numpy.cosh", known=sixteen_bits.COSH)
ARCTAN = Layer("arctan", ad.arctan, by_tape(ad.arctan), torch="arctan", jax="numpy.arctan")
VAR = Layer(
    "var",
    var,
    by_tape(var),
    torch=lambda torch, x, ddof=0, axis=-1: torch.var(x, axis, correction=ddof),
    jax=lambda jax, x, ddof=0, axis=-1: jax.numpy.var(x, axis, ddof=ddof),
)
STD = Layer(
    "std",
    std,
    by_tape(std, {direction: direction_or_any}),
    torch=lambda torch, x, ddof=0, axis=-1: torch.std(x, axis, correction=ddof),
    jax=lambda jax, x, ddof=0, axis=-1: jax.numpy.std(x, axis, ddof=ddof),
)
CUMPROD = Layer(
    "cumprod",
    cumprod,
    by_tape(cumprod),
    torch=lambda torch, x: torch.cumprod(x, -1),
    jax=lambda jax, x: jax.numpy.cumprod(x, -1),
)
TAKE_ALONG_AXIS = Layer(
    "take_along_axis",
    take_along_axis,
    by_tape(take_along_axis),
    torch=lambda torch, x, indices: torch.take_along_dim(x, torch.tensor(indices), -1),
    jax=lambda jax, x, indices: jax.numpy.take_along_axis(x, jax.numpy.array(indices), -1),
    shapes={"usual": "x (B, N); indices whole < N (B, M)"},
)


def torch_scatter(torch, x, updates, indices, mode="add"):
    """Two functions in PyTorch, torch.scatter_add and torch.scatter."""
    return (torch.scatter_add if mode == "add" else torch.scatter)(x, -1, torch.tensor(indices), updates)


def jax_scatter(jax, x, updates, indices, mode="add"):
    """`x.at[…].add` and `x.at[…].set` in JAX."""
    there = x.at[jax.numpy.arange(len(indices))[:, None], jax.numpy.array(indices)]
    return there.add(updates) if mode == "add" else there.set(updates)


SCATTER = Layer(
    "scatter",
    scatter,
    by_tape(scatter),
    torch=torch_scatter,
    jax=jax_scatter,
)


def printed_erfc(x):
    """exp(−x·x) times a factor, x·x rounded: off by x² u beside."""
    y = rounding.erfc(x)
    square = x * x
    far = rounding.exp(-square)
    off = rounding.Rounded(
        y.value,
        y.error + np.abs(y.value) * (square.error + far.error / np.where(far.value == 0, 1, far.value)),
        y.lost,
        y.arithmetic,
    )
    return off, lambda g: (-(g * (far * constant(2 / np.sqrt(4 * np.arctan(WIDE(1)))))),)


def printed_hyperbolic(x, *, odd):
    """½ eˣ ± ½ e⁻ˣ as exp(x − log 2) ± exp(−x − log 2), and the other as slope."""
    half = constant(np.log(WIDE(2)))
    up, down = rounding.exp(x - half), rounding.exp(-x - half)
    own, other = (up - down, up + down) if odd else (up + down, up - down)
    return own, lambda g: (g * other,)


JAX_ERFC_TAIL = KnownDefect(
    "JAX",
    "erfc: exp(-x*x)",
    "erfc takes exp(−x·x): the rounding of x² is magnified x² times",
    ("output",),
    equation=printed_erfc,
)
JAX_SINH = KnownDefect(
    "JAX",
    "sinh, cosh: exp(x - log 2)",
    "sinh and cosh take exp(x − log 2): the rounding of the exponent is magnified x times",
    equation=partial(printed_hyperbolic, odd=True),
)
JAX_COSH = replace(JAX_SINH, equation=partial(printed_hyperbolic, odd=False))
JAX_STD_VJP = KnownDefect(
    "JAX",
    "jax-ml/jax#11716",
    "std's gradient divides by std: NaN where all numbers are equal",
    ("gradient of x",),
    equation=divided_std,
)
AROUND_ZERO = np.array([-1e-3, -1e-6, -1e-20, -1e-30, 0.0, 1e-30, 1e-20, 1e-6, 1e-3])


def cases() -> list[Case]:
    """Functions of elements where they bend and where they do not; reductions and places."""
    return [*_of_elements(), *_of_rows()]


def _of_elements():
    found = []
    for layer in (SINH, COSH, ARCTAN):
        found += [
            Case(layer, "ordinary", {"x": uniform(6, 9, low=-2.5, high=2.5)}),
            Case(layer, "around zero", {"x": AROUND_ZERO}),
        ]
    found += [
        Case(ARCTAN, "far away", {"x": np.concatenate([-np.geomspace(3, 1e12, 12), np.geomspace(3, 1e12, 12)])}),
        Case(SINH, "far away", {"x": np.linspace(-40, 40, 16)}, known_defects=(JAX_SINH,)),
        Case(COSH, "far away", {"x": np.linspace(-40, 40, 16)}, known_defects=(JAX_COSH,)),
    ]
    for layer in (ERF, ERFC):
        far = (JAX_ERFC_TAIL,) if layer.name == "erfc" else ()
        found += [
            Case(layer, "ordinary", {"x": uniform(6, 9, low=-2.5, high=2.5)}),
            Case(layer, "around zero", {"x": AROUND_ZERO}),
            Case(layer, "right tail", {"x": np.linspace(2.5, 9, 24)}, known_defects=far),
            Case(layer, "left tail", {"x": -np.linspace(2.5, 9, 24)}),
        ]
    return found


def _of_rows():
    rows, repeated, once = normal(4, 5), ((0, 2, 2), (4, 4, 4), (1, 0, 3), (3, 2, 1)), ((0, 2), (4, 1), (1, 3), (3, 2))
    found = [case for layer in (VAR, STD) for case in _deviations(layer)]
    equal = np.repeat([[0.0], [2.0], [-3.5]], 8, 1)
    found += [Case(VAR, "equal numbers", {"x": equal}), Case(STD, "equal numbers", {"x": equal}, {}, (JAX_STD_VJP,))]
    found += [
        Case(CUMPROD, "ordinary", {"x": normal(4, 6)}),
        Case(CUMPROD, "zeros", {"x": np.array([[1.5, 0, -2, 3], [2, 0, 0, 1], [0, 1, 2, 3], [1, 2, 3, 0.0]])}),
        Case(TAKE_ALONG_AXIS, "places twice", {"x": rows}, {"indices": repeated}),
        Case(SCATTER, "add", {"x": rows, "updates": normal(4, 3)}, {"indices": repeated}),
        Case(SCATTER, "put", {"x": rows, "updates": normal(4, 2)}, {"indices": once, "mode": "put"}),
    ]
    return found


def _deviations(layer):
    return [
        Case(layer, "ordinary", {"x": normal(4, 9)}),
        Case(layer, "a sample, ddof 1", {"x": normal(4, 9)}, {"ddof": 1}),
        Case(layer, "mean 1e4", {"x": normal(4, 9, shift=1e4)}),
        Case(layer, "small and large", {"x": normal(4, 9, scale=1e-4)}),
    ]


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Every primitive of the engine, on small inputs that stay clear of kinks and of the ends of domains."""
    rng = np.random.default_rng(seed)
    found = _elements(rng) + _selections(rng) + _reductions(rng) + _matrices(rng) + _shapes(rng) + _indexing(rng)
    rng = generator(seed, skip=9000)
    return found + _more_functions(rng) + _lines(rng) + _as_in_numpy(rng)


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
        gradient_of("erf", erf, x),
        gradient_of("erfc", erfc, x),
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


def _more_functions(rng):
    x = rng.normal(size=(3, 4))
    with_zeros = np.where([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], 0.0, x)
    return [
        gradient_of("sinh", ad.sinh, x),
        gradient_of("cosh", ad.cosh, x),
        gradient_of("arctan", ad.arctan, 3 * x),
        gradient_of("astype", lambda x: ad.astype(ad.astype(x, np.longdouble), x.dtype), x, order2=False),
        gradient_of("var", ad.var, x),
        gradient_of("var, axis 1, ddof 1", ad.var, x, axis=1, ddof=1),
        gradient_of("std, axis 0", ad.std, x, axis=0, ddof=1, keepdims=True),
        gradient_of("cumprod, axis 1", ad.cumprod, x, axis=1),
        gradient_of("cumprod at zeros", ad.cumprod, with_zeros, axis=1),
    ]


def _as_in_numpy(rng):
    x, y, v = rng.normal(size=(3, 4)), rng.uniform(0.5, 2, (3, 4)), rng.normal(size=4)
    both = {
        "hstack": lambda x, y: ad.hstack([x, y]),
        "vstack": lambda x, y: ad.vstack([x, y[0]]),
    }
    one = {
        "sort, axis 0": lambda x: ad.sort(x, 0),
        "median": ad.median,
        "median, axis 0": lambda x: ad.median(x, 0, keepdims=True),
        "diag, of a matrix": lambda x: ad.diag(x, 1),
        "diag, of a vector": lambda x: ad.diag(x[0], -2),
    }
    return [
        gradient_of("arctan2", ad.arctan2, x, y),
        gradient_of("arctan2, left", ad.arctan2, x, -y),
        gradient_of("remainder", ad.remainder, 3 * x, y, order2=False),
        gradient_of("dot", ad.dot, x, v),
        *(gradient_of(name, function, x, y, order2=False) for name, function in both.items()),
        *(gradient_of(name, function, x, order2=False) for name, function in one.items()),
    ]


def _lines(rng):
    x, updates = rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    twice, once = np.array([[0, 0], [3, -1], [1, 2]]), np.array([[0, 1], [3, 0], [1, 2]])
    return [
        gradient_of("take_along_axis", lambda x: ad.take_along_axis(x, twice), x, order2=False),
        gradient_of("scatter, add", lambda x, u: ad.scatter(x, twice, u), x, updates, order2=False),
        gradient_of("scatter, put", lambda x, u: ad.scatter(x, once, u, mode="put"), x, updates, order2=False),
        gradient_of("expand_dims", lambda x: ad.expand_dims(x, 1), x, order2=False),
        gradient_of("squeeze", lambda x: ad.squeeze(ad.expand_dims(x, 1)), x, order2=False),
    ]
