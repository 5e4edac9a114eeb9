"""Kernels of a set convolution: the weight of a point at a distance.

A kernel is a function of s = |d|²/ℓ², the squared distance in length scales, that returns

    k(s)   and   a function without arguments for the slope k′(s) = dk/ds, called only where a gradient is computed.

Any function of this form may be passed to `set_convolution`: s comes as an array of any shape and dtype (complex under
the complex step), both results have that shape. Written in s, a kernel needs no root unless its formula has one, and
its slope at distance 0 is finite if it has a gradient there. Matérn-1/2, exp(−|d|/ℓ), has a kink there and is left out.

Source: Sivaraya (2023), eq. 10, leaves K open; Gordon et al. (2020), §4: EQ; Rasmussen & Williams (2006), eq. 4.17:
Matérn.
Transcription: tests/transcriptions/set_convolution.py.
"""

import functools
from collections.abc import Callable

import numpy as np

from refnp.autograd.tensor import Array


def eq(s: Array) -> tuple[Array, Callable]:
    """Exponentiated quadratic: k = exp(−s/2), that is exp(−|d|²/2ℓ²).   k′ = −k/2."""
    k = decay(s * -0.5)
    return k, lambda: k * -0.5


def matern_32(s: Array) -> tuple[Array, Callable]:
    """Matérn-3/2: k = (1 + a) exp(−a) with a = √(3s) = √3 |d|/ℓ.

    dk/da = −a exp(−a) and da/ds = 3/2a, so k′ = −(3/2) exp(−a): the root is no longer in a denominator.
    """
    a = np.sqrt(3 * s)
    fall = decay(-a)
    return (1 + a) * fall, lambda: fall * -1.5


def matern_52(s: Array) -> tuple[Array, Callable]:
    """Matérn-5/2: k = (1 + a + a²/3) exp(−a) with a = √(5s) = √5 |d|/ℓ.

    dk/da = −(a/3)(1 + a) exp(−a) and da/ds = 5/2a, so k′ = −(5/6)(1 + a) exp(−a).
    """
    a = np.sqrt(5 * s)
    fall = decay(-a)
    return (1 + a + a * a / 3) * fall, lambda: (1 + a) * fall * -5 / 6


def decay(exponent: Array) -> Array:
    """exp of an array of exponents ≤ 0, and 0 below `least_exponent`: denormal numbers take twenty times as long.

    The array becomes its own exponential.
    """
    least = least_exponent(exponent.dtype)
    real = exponent.real
    if real.min(initial=0) > least:
        return np.exp(exponent, out=exponent)
    normal = real > least
    np.maximum(exponent, least, out=exponent)  # compares complex numbers by their real parts first
    np.exp(exponent, out=exponent)
    exponent *= normal
    return exponent


@functools.cache
def least_exponent(dtype: np.dtype | type) -> float:
    """1 + log of the smallest normal number: −707.4 in float64, −86.3 in float32."""
    return 1 + float(np.log(np.longdouble(np.finfo(dtype).tiny)))
