"""refnp: Transformers and Neural Processes in NumPy, with every gradient beside its function.

autograd    the engine: Tensors, the operations, and derivatives of any kind
layers      one idea a file: the function with its hand-written gradient, then its module
models      the Transformer and the neural processes
tasks       what models are trained on
training    optimisers, schedules, checkpoints and the training loop
symmetry    is a function equivariant? A verdict or a counter-example
verify      the judge of refnp and of other frameworks
studies     models trained, evaluated and plotted: imported when asked for, as `refnp.studies`

Functions and modules take arrays or Tensors; arrays in, arrays out.
"""

from refnp import autograd, layers, models, symmetry, tasks, training, verify
from refnp.autograd import (
    Parameter,
    Tensor,
    explain,
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
from refnp.version import __version__

__all__ = [name for name in vars() if name[0] != "_" and name != "version"]


def __dir__() -> list[str]:
    return __all__
