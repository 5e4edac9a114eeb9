"""The oracle: is refnp right, and who else is?

layers       a page for each family: equations, cases, gradient inputs, names in other frameworks, known defects
bounds       what rounding may do to an answer, from refnp.numbers.rounding
case         what a page is made of
properties   what must hold for every input, on drawn ones
frameworks   how PyTorch and JAX are asked;  record: what they answered, and the command that asks them
judge        all that is judged, and the verdict on an array;  report: `refnp verify`
exchange     cases as files for programs in any language, and the verdicts on their answers
"""

from refnp.numbers.rounding import Rounded, exact, tolerance
from refnp.verify.case import Case, GradientInputs, KnownDefect, Layer

__all__ = ["Case", "GradientInputs", "KnownDefect", "Layer", "Rounded", "exact", "tolerance"]


def __dir__() -> list[str]:
    return __all__
