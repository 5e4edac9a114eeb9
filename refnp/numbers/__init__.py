"""Kinds of numbers that a function of NumPy's words can be computed with.

duals            complex arrays whose imaginary part is a derivative, and arrays in which 0 · anything is 0
rounding         numbers that carry a bound on their rounding error;  implementations: seven correct ways to compute
precision        formats and policies: where a computation rounds
exact            as many digits as are asked for
field            numbers of a finite field, by which identities are proved (proving);  objects: arrays of such
words            what pages take beside NumPy's functions
special          erf, erfc and the normal distribution of arrays;  summation: NumPy's einsum
"""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
