"""refnp: Transformers and Neural Processes in NumPy, with every gradient beside its function.

autograd    the engine: Tensors, the operations, and derivatives of any kind
layers      one idea a file: the function with its hand-written gradient, then its module
models      the Transformer and the neural processes
tasks       what models are trained on
training    optimisers, schedules, checkpoints and the training loop
symmetry    is a function equivariant? A verdict or a counter-example
verify      the judge of refnp and of other frameworks; judge_model, of whole models of theirs
studies     models trained, evaluated and plotted

Functions and modules take arrays or Tensors; arrays in, arrays out. The chapters from `models` on are imported when
they are first used, as in `refnp.models`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from refnp import autograd, layers
from refnp.autograd import (
    Parameter,
    Tensor,
    explain,
    get_threads,
    grad,
    gradients,
    hessian,
    hvp,
    jacobian,
    jvp,
    no_grad,
    set_threads,
    value_and_grad,
    vjp,
)
from refnp.autograd.pages import plain
from refnp.kernels.process import tuned
from refnp.version import __version__

if TYPE_CHECKING:
    from refnp import models, studies, symmetry, tasks, training, verify
    from refnp.verify.exchange.programs import program
    from refnp.verify.judging import judge
    from refnp.verify.models import judge_model
    from refnp.verify.tolerances import assert_close, tolerance

_LATER = ("models", "tasks", "training", "symmetry", "verify", "studies")
# functions of those chapters, by the page that has them
_FROM = {
    "judge": "refnp.verify.judging",
    "judge_model": "refnp.verify.models",
    "program": "refnp.verify.exchange.programs",
    "tolerance": "refnp.verify.tolerances",
    "assert_close": "refnp.verify.tolerances",
}
# fmt: off
__all__ = [  # a list that is written down, which type checkers read
    "Parameter", "Tensor", "assert_close", "autograd", "explain", "get_threads", "grad", "gradients", "hessian", "hvp",
    "jacobian", "judge", "judge_model", "jvp", "layers", "models", "no_grad", "plain", "program", "set_threads",
    "studies", "symmetry", "tasks", "tolerance", "training", "tuned", "value_and_grad", "verify", "vjp",
]
# fmt: on


if not TYPE_CHECKING:  # which would take any name for an attribute

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return importlib.import_module(f"refnp.{name}")
        if name in _FROM:
            return getattr(importlib.import_module(_FROM[name]), name)
        raise AttributeError(f"module 'refnp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
