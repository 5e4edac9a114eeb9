"""Radial kernels: the weight of a point at a distance, as a set convolution takes it, and Gaussian processes.

A kernel is a function of s = |d|²/ℓ², the squared distance in length scales, that returns

    k(s)   and   a function without arguments for the slope k′(s) = dk/ds, called only where a gradient is computed.

Any such function may be passed: s, finite, comes as an array, both results have its shape. Written in s, a kernel
needs no root unless its formula has one, and its slope at distance 0 is finite if it has a gradient there. Matérn-1/2,
exp(−|d|/ℓ), has a kink there and is left out.

Source: Gordon et al. (2020), arXiv 1910.13556, §4: EQ; Rasmussen & Williams (2006), eq. 4.17: Matérn.
Transcription: tests/transcriptions/set_convolution.py.   On arrays of floats: refnp/kernels/radial.py.
"""

from collections.abc import Callable

import numpy as np

from refnp.kernels import radial
from refnp.numbers.parts import part


def on_arrays_as(fast: Callable) -> Callable[[Callable], Callable]:
    """A kernel of the page, which `fast` is on arrays of floats."""

    def made(kernel: Callable) -> Callable:
        kernel = part(kernel)
        kernel.on_arrays = fast  # type: ignore[attr-defined]
        return kernel

    return made


@on_arrays_as(radial.eq)
def eq(s):
    """Exponentiated quadratic: k = exp(−s/2), that is exp(−|d|²/2ℓ²).   k′ = −k/2."""
    k = np.exp(s / -2)
    return k, lambda: k / -2


@on_arrays_as(radial.matern_32)
def matern_32(s):
    """Matérn-3/2: k = (1 + a) exp(−a) with a = √(3s) = √3 |d|/ℓ.

    dk/da = −a exp(−a) and da/ds = 3/2a, so k′ = −(3/2) exp(−a): the root is no longer in a denominator.
    """
    a = np.sqrt(3 * s)
    fall = np.exp(-a)
    return (1 + a) * fall, lambda: fall * -1.5


@on_arrays_as(radial.matern_52)
def matern_52(s):
    """Matérn-5/2: k = (1 + a + a²/3) exp(−a) with a = √(5s) = √5 |d|/ℓ.

    dk/da = −(a/3)(1 + a) exp(−a) and da/ds = 5/2a, so k′ = −(5/6)(1 + a) exp(−a).
    """
    a = np.sqrt(5 * s)
    fall = np.exp(-a)
    return (1 + a + a * a / 3) * fall, lambda: (1 + a) * fall * -5 / 6
