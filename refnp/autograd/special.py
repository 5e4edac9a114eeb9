"""The error function and its complement as operations; how they are computed stands in refnp/numbers/special.py."""

from refnp.autograd.primitives import primitive
from refnp.kernels.blocks import elementwise
from refnp.numbers.special import erf_of, erfc_of, gaussian_of, two_over_sqrt_pi


@primitive
@elementwise
def erf(x):
    """The error function, y = erf x = 2/√π ∫₀ˣ e^(−t²) dt.   VJP: x̄ = ȳ · 2/√π e^(−x²).

    Shapes: any → the same.   Source: NIST DLMF 7.2.1.
    """
    return erf_of(x), lambda y_bar: (y_bar * (two_over_sqrt_pi(x) * gaussian_of(x)),)


@primitive
@elementwise
def erfc(x):
    """The complementary error function, y = erfc x = 1 − erf x, with all its digits where the difference has none.

    Shapes: any → the same.   VJP: x̄ = −ȳ · 2/√π e^(−x²).   Source: NIST DLMF 7.2.2.
    """
    return erfc_of(x), lambda y_bar: (y_bar * (-two_over_sqrt_pi(x) * gaussian_of(x)),)
