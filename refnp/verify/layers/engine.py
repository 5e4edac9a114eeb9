"""The engine's own operations: arithmetic, selections, reductions, matrices, shapes, indexing, the error function."""

from dataclasses import replace
from functools import partial

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.reductions import direction
from refnp.autograd.special import erf, erfc
from refnp.numbers import rounding
from refnp.numbers.duals import as_array
from refnp.numbers.rounding import WIDE, constant, where
from refnp.verify.case import Case, GradientInputs, KnownDefect, gradient_of, normal, uniform
from refnp.verify.judged_pages import of_tape
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


@takes_unchecked("x (..., n ≥ 2) → (...)", ddof="whole ≥ 0")
def var(x, *, ddof=0, axis=-1):
    """y = Σ (x − μ)²/(n − d), along the last axis unless told otherwise."""
    return ad.var(x, axis, ddof=ddof)


@takes_unchecked("x (..., n ≥ 2) → (...)", ddof="whole ≥ 0")
def std(x, *, ddof=0, axis=-1):
    """y = √var, along the last axis unless told otherwise."""
    return ad.std(x, axis, ddof=ddof)


@takes_unchecked("x (..., n) → (..., n)")
def cumprod(x):
    """y_i = Π_{j≤i} x_j, along the last axis."""
    return ad.cumprod(x)


ERF = of_tape(erf, torch="special.erf", jax="scipy.special.erf", known=sixteen_bits.ERF)
ERFC = of_tape(erfc, torch="special.erfc", jax="scipy.special.erfc")
SINH = of_tape(ad.sinh, torch="sinh", jax="numpy.sinh", known=sixteen_bits.SINH)
COSH = of_tape(ad.cosh, torch="cosh", jax="numpy.cosh", known=sixteen_bits.COSH)
ARCTAN = of_tape(ad.arctan, torch="arctan", jax="numpy.arctan")
VAR = of_tape(
    var,
    torch=lambda torch, x, ddof=0, axis=-1: torch.var(x, axis, correction=ddof),
    jax=lambda jax, x, ddof=0, axis=-1: jax.numpy.var(x, axis, ddof=ddof),
)
STD = of_tape(
    std,
    {direction: direction_or_any},
    torch=lambda torch, x, ddof=0, axis=-1: torch.std(x, axis, correction=ddof),
    jax=lambda jax, x, ddof=0, axis=-1: jax.numpy.std(x, axis, ddof=ddof),
)
CUMPROD = of_tape(
    cumprod,
    torch=lambda torch, x: torch.cumprod(x, -1),
    jax=lambda jax, x: jax.numpy.cumprod(x, -1),
    tried={"n": (7, 1, 2, 67)},  # of more numbers there is nothing left, or too much
)
TAKE_ALONG_AXIS = of_tape(
    take_along_axis,
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


SCATTER = of_tape(scatter, torch=torch_scatter, jax=jax_scatter)


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


def gradient_inputs() -> list[GradientInputs]:
    """What has no cases, and numbers at which a gradient is found in another way."""
    rng = np.random.default_rng(0)
    x, y, v = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=4)
    square = rng.normal(size=(2, 3, 3))
    positive = square @ square.mT + 3 * np.eye(3)
    zeros = np.where([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], 0.0, x)
    mask = np.arange(12).reshape(3, 4) % 3 == 1
    functions: dict[str, tuple] = {
        "power, x²": (lambda x: ad.power(x, 2), x),
        "power, x³": (lambda x: ad.power(x, 3), x),
        "prod at zeros": (lambda x: ad.prod(x, axis=1), zeros),
        "cumprod at zeros": (lambda x: ad.cumprod(x, axis=1), zeros),
        "logsumexp of all numbers": (ad.logsumexp, x),
        "mean, axis 0": (lambda x: ad.mean(x, axis=0, keepdims=True), x),
        "norm of all numbers": (ad.norm, x),
        "median of all numbers": (ad.median, x),
        "std, axis 0": (lambda x: ad.std(x, axis=0, ddof=1, keepdims=True), x),
        "matmul, row times matrix": (ad.matmul, v, y.T),
        "einsum, ...ij,...ij->...": (lambda x: ad.einsum("...ij,...ij->...", x, x), square),
        "einsum, bii->bi": (lambda x: ad.einsum("bii->bi", x), square),
        "log det of A": (lambda a: ad.log_determinant(ad.cholesky(a)), positive),
        "reshape": (lambda x: ad.reshape(x, (2, 6)), x),
        "transpose": (ad.transpose, x),
        "swapaxes": (lambda x: ad.swapaxes(x, 0, 1), x),
        "broadcast_to": (lambda x: ad.broadcast_to(x, (2, 3, 4)), x),
        "expand_dims": (lambda x: ad.expand_dims(x, 1), x),
        "squeeze": (lambda x: ad.squeeze(ad.expand_dims(x, 1)), x),
        "stack": (lambda x, y: ad.stack([x, y], axis=1), x, y),
        "hstack": (lambda x, y: ad.hstack([x, y]), x, y),
        "vstack": (lambda x, v: ad.vstack([x, v]), x, v),
        "split": (lambda x: ad.split(x, [1, 3]), x),
        "astype": (lambda x: ad.astype(ad.astype(x, np.longdouble), x.dtype), x),
        "diag, of a matrix": (lambda x: ad.diag(x, 1), x),
        "diag, of a vector": (lambda v: ad.diag(v, -2), v),
        "getitem, slices": (lambda x: x[1:, ::-2], x),
        "getitem, an index twice": (lambda x: x[[0, 2, 0], [1, 3, 1]], x),
        "getitem, a mask": (lambda x: x[mask], x),
    }
    return [gradient_of(name, function, *args) for name, (function, *args) in functions.items()]
