"""Chapter 1, the engine: a tape of primitives, and what can be asked of it."""

from refnp.autograd import operators as _operators  # puts the operators on Tensor
from refnp.autograd.blocks import elementwise, get_threads, rowwise, set_threads
from refnp.autograd.derivatives import grad, hvp, jvp, value_and_grad, vjp
from refnp.autograd.einstein import einsum
from refnp.autograd.elementwise import (
    add,
    cos,
    divide,
    exp,
    expm1,
    log,
    log1p,
    multiply,
    negative,
    power,
    sin,
    sqrt,
    subtract,
    tanh,
)
from refnp.autograd.explain import explain
from refnp.autograd.indexing import getitem, pad, take
from refnp.autograd.linalg import (
    cholesky,
    linear,
    log_determinant,
    matmul,
    outer,
    trace,
    triangular_solve,
)
from refnp.autograd.matrices import hessian, jacobian
from refnp.autograd.primitive import primitive
from refnp.autograd.reductions import cumsum, logsumexp, max, mean, min, norm, prod, sum
from refnp.autograd.selection import absolute, clip, maximum, minimum, where
from refnp.autograd.shapes import (
    broadcast_to,
    concatenate,
    flip,
    reshape,
    roll,
    split,
    stack,
    swapaxes,
    transpose,
)
from refnp.autograd.special import erf, erfc
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor, is_recording, no_grad, sum_to
