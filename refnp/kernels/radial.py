"""The kernels of a set convolution on arrays of floats, and which of them is EQ.

Each is a function of s = |d|²/ℓ² that returns k(s) and a function without arguments for the slope k′(s). The pages are
refnp/layers/set_convolution.py.
"""

import functools
from collections.abc import Callable

import numpy as np

from refnp.numbers.arrays import Array


def eq(s: Array) -> tuple[Array, Callable]:
    """Exponentiated quadratic: k = exp(−s/2).   k′ = −k/2."""
    k = decay(s * -0.5)
    return k, lambda: k * -0.5


def matern_32(s: Array) -> tuple[Array, Callable]:
    """Matérn-3/2: k = (1 + a) exp(−a) with a = √(3s).   k′ = −(3/2) exp(−a)."""
    a = np.sqrt(3 * s)
    fall = decay(-a)
    return (1 + a) * fall, lambda: fall * -1.5


def matern_52(s: Array) -> tuple[Array, Callable]:
    """Matérn-5/2: k = (1 + a + a²/3) exp(−a) with a = √(5s).   k′ = −(5/6)(1 + a) exp(−a)."""
    a = np.sqrt(5 * s)
    fall = decay(-a)
    return (1 + a + a * a / 3) * fall, lambda: (1 + a) * fall * -5 / 6


def decay(exponent: Array) -> Array:
    """exp of an array of exponents ≤ 0, and 0 below `least_exponent`: denormal numbers take twenty times as long.

    The array becomes its own exponential.
    """
    least = least_exponent(exponent.dtype)
    if exponent.min(initial=0) > least:
        return np.exp(exponent, out=exponent)
    normal = exponent > least
    np.maximum(exponent, least, out=exponent)
    np.exp(exponent, out=exponent)
    exponent *= normal
    return exponent


@functools.cache
def least_exponent(dtype: np.dtype | type) -> float:
    """1 + log of the smallest normal number: −707.4 in float64, −86.3 in float32."""
    return 1 + float(np.log(np.longdouble(np.finfo(dtype).tiny)))
