r"""The complex step: a derivative with no truncation error worth the name and no cancellation at all.

For f analytic at x, the Taylor series in the imaginary direction is

    f(x + ihv) = f(x) + ih f′(x)v − h² f″(x)[v, v]/2 − …,        so        f′(x)v = Im f(x + ihv)/h + O(h²)

Nothing is subtracted, so h may be so small that the O(h²) is far below one rounding: with h = 1e-100 it is 1e-200.
What is left is the rounding of f itself, and the answer is as good as a hand-written derivative.

It holds for analytic code alone. `abs`, `conj`, `.real`, `np.var` of the complex argument are not analytic, and a
function that uses them gives a wrong imaginary part without a word; `gradcheck.analytic` guards against that.

Sources: Lyness & Moler, SIAM J. Numer. Anal. 4 (1967) 202; Squire & Trapp, SIAM Review 40 (1998) 110;
Martins, Sturdza & Alonso, ACM TOMS 29 (2003) 245.
"""

from collections.abc import Callable

import numpy as np

from gradcheck.precision import working

STEP = 2.0**-332  # 1.1e-100, and a power of two: multiplying and dividing by it rounds nothing


def complex_step(f: Callable, x: np.ndarray, v: np.ndarray, *, h: float = STEP) -> np.ndarray:
    """Directional derivative f′(x)v = Im f(x + ihv)/h of a function of one array.

    Shapes: x and v (...), f: (...) → (m...) → derivative (m...). Complex128 is the least it computes in, since
    complex64 cannot hold 1e-100; a longdouble x is differentiated in clongdouble.
    A real result of f counts as a derivative of 0. What f raises on complex input passes through.
    """
    dtype = working(np.asarray(x).dtype)
    x, v = np.asarray(x, dtype), np.asarray(v, dtype)
    return np.asarray(f(x + 1j * h * v)).imag / h
