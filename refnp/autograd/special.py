"""The error function and its complement as operations; how they are computed stands in refnp/numbers/special.py."""

import numpy as np

from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.primitives import primitive
from refnp.kernels.blocks import elementwise
from refnp.numbers import special, words
from refnp.numbers.kinds import is_kind
from refnp.numbers.words import pi, root

TWO_OVER_SQRT_PI = 2 / root(pi)


@primitive
@takes_unchecked("x (...) → (...)")
@elementwise
def erf(x):
    """The error function, y = erf x = 2/√π ∫₀ˣ e^(−t²) dt.   VJP: x̄ = ȳ · 2/√π e^(−x²).

    Shapes: any → the same.   Raises ValueError for complex x but steps of differentiation.   Source: NIST DLMF 7.2.1.
    """
    return words.erf(x), lambda y_bar: (y_bar * (TWO_OVER_SQRT_PI * gaussian(x)),)


@primitive
@takes_unchecked("x (...) → (...)")
@elementwise
def erfc(x):
    """The complementary error function, y = erfc x = 1 − erf x, accurate where the difference has no digits.

    Shapes: any → the same.   VJP: x̄ = −ȳ · 2/√π e^(−x²).   Raises as `erf`.   Source: NIST DLMF 7.2.2.
    """
    return words.erfc(x), lambda y_bar: (y_bar * (-TWO_OVER_SQRT_PI * gaussian(x)),)


def gaussian(x):
    """e^(−x²), of arrays to about a unit of the last digit."""
    return np.exp(-(x * x)) if is_kind(x) else special.gaussian(x)
