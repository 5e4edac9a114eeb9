"""Chapter 1, the engine: operations with their gradients, a tape of them, and derivatives."""

from refnp.autograd import operators as _operators  # puts the operators on Tensor
from refnp.autograd.derivatives import grad, gradients, jacobian, value_and_grad, vjp
from refnp.autograd.elementary import (
    absolute,
    add,
    arctan,
    arctan2,
    astype,
    clip,
    cos,
    cosh,
    divide,
    exp,
    expm1,
    floor,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    negative,
    power,
    remainder,
    round,
    sin,
    sinh,
    sqrt,
    subtract,
    tanh,
    where,
)
from refnp.autograd.explanation import explain
from refnp.autograd.forward import hessian, hvp, jvp
from refnp.autograd.indexing import getitem, scatter, take, take_along_axis
from refnp.autograd.linalg import diag, diagonal, dot, linear, matmul, outer, trace, tril, triu
from refnp.autograd.primitives import primitive
from refnp.autograd.reductions import (
    argmax,
    argmin,
    cumprod,
    cumsum,
    logsumexp,
    max,
    mean,
    median,
    min,
    norm,
    prod,
    sort,
    std,
    sum,
    var,
)
from refnp.autograd.shapes import (
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    hstack,
    pad,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    swapaxes,
    transpose,
    vstack,
)
from refnp.autograd.special import erf, erfc
from refnp.autograd.summation import einsum
from refnp.autograd.systems import det, inv, slogdet, solve
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor, is_recording, no_grad
from refnp.autograd.triangular import cholesky, cholesky_solve, log_determinant, triangular_solve
from refnp.kernels.blocks import elementwise, get_threads, rowwise, set_threads
from refnp.numbers.arrays import sum_to

# fmt: off
__all__ = [
    "Array", "ArrayLike", "Parameter", "Tensor", "absolute", "add", "arctan", "arctan2", "argmax", "argmin",
    "astype", "broadcast_to", "cholesky", "cholesky_solve", "clip", "concatenate", "cos", "cosh", "cumprod",
    "cumsum", "det", "diag", "diagonal", "divide", "dot", "einsum", "elementwise", "erf", "erfc", "exp",
    "expand_dims", "explain", "expm1", "flip", "floor", "get_threads", "getitem", "grad", "gradients", "hessian",
    "hstack", "hvp", "inv", "is_recording", "jacobian", "jvp", "linear", "log", "log1p", "log_determinant",
    "logsumexp", "matmul", "max", "maximum", "mean", "median", "min", "minimum", "multiply", "negative", "no_grad",
    "norm", "outer", "pad", "power", "primitive", "prod", "remainder", "reshape", "roll", "round", "rowwise",
    "scatter", "set_threads", "sin", "sinh", "slogdet", "solve", "sort", "split", "sqrt", "squeeze", "stack", "std",
    "subtract", "sum", "sum_to", "swapaxes", "take", "take_along_axis", "tanh", "trace", "transpose",
    "triangular_solve", "tril", "triu", "value_and_grad", "var", "vjp", "vstack", "where",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
