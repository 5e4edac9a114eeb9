"""refnp, a book that runs: Transformers and Neural Processes in NumPy, with every gradient on the page of its layer.

Chapters: `refnp.autograd` the engine, `refnp.layers` the layers, `refnp.verify` the judge of other frameworks.
Functions take arrays or Tensors; arrays in, arrays out.
"""

from refnp import layers
from refnp.autograd import (
    Parameter,
    Tensor,
    get_threads,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    no_grad,
    set_threads,
    value_and_grad,
    vjp,
)
from refnp.autograd.explanation import explain
from refnp.version import __version__
