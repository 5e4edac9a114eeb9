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

__all__ = [name for name, value in vars().items() if not (name[0] == "_" or hasattr(value, "__spec__"))]


def __dir__() -> list[str]:
    return __all__
