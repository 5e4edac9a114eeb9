"""gradcheck: is this gradient right, and to how many digits?

    check(f, args, vjp=…)      raises GradientError unless the claimed gradient agrees with a numerical one
    compare(f, args, vjp=…)    the same as a Report, without raising

    check(f, args, vjp=…, exact=Exact(equation, number, precision))
                               every element by its own digits, against f in arbitrary precision

    check(forward_backward(forward, backward), args)
    check(torch(module), args)  layers written by hand as two functions, and PyTorch's modules and autograd.Functions

It depends on NumPy alone and checks functions of arrays from any library; a claimed gradient has the form of `jax.vjp`
and `torch.func.vjp`. The numerical derivatives can be used by themselves:

    complex_step(f, x, v)      exact to rounding, for analytic code
    richardson(f, x, v)        extrapolated central differences, with their error
    longdouble(f, x, v)        five-point differences in a wider precision, with their error
    one_sided(f, x, v)         slopes to the left and to the right, which differ at a kink

`python -m gradcheck` prints a table of the differentiable operations of refnp.
"""

from gradcheck.adapters import Claim, forward_backward, torch
from gradcheck.checks import check, compare
from gradcheck.exact import Exact
from gradcheck.numerical import Estimate, complex_step, longdouble, one_sided, richardson
from gradcheck.report import GradientError, Kink, Report, Worst

# fmt: off
__all__ = [
    "Claim", "Estimate", "Exact", "GradientError", "Kink", "Report", "Worst", "check", "compare", "complex_step",
    "forward_backward", "longdouble", "one_sided", "richardson", "torch",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
