r"""Fourth-order central differences in `np.longdouble`: a second opinion that shares nothing with the complex step.

    D(h) = [8 (f(x + hv) − f(x − hv)) − (f(x + 2hv) − f(x − 2hv))] / 12h = f′(x)v − h⁴ f⁽⁵⁾/30 + …

The truncation h⁴/30 and the noise 3u|f|/2h meet near h = u^(1/5). With the 64-bit fraction of an x87 longdouble,
u = 5e-20 and h = 2⁻¹², both are about 3e-16, one or two roundings of float64; with float64 alone they would be 1e-12.
(D(2h) − D(h))/15 estimates the truncation of D(h), at the price of one more pair of points.

A longdouble is not everywhere wider than float64 (`gradcheck.precision`), so where it is not this raises rather than
pass a float64 difference for more than it is.
Source: Fornberg, Math. Comp. 51 (1988) 699, table 1, for the weights.
"""

from collections.abc import Callable

import numpy as np

from gradcheck.precision import roundoff, wider
from gradcheck.richardson import Estimate


def longdouble(f: Callable, x: np.ndarray, v: np.ndarray, *, step: float = 2.0**-12) -> Estimate:
    """Directional derivative f′(x)v of a function of one array, by five-point differences in longdouble.

    Shapes: x and v (...), f: (...) → (m...) → Estimate(value (m...), error (m...)), seven evaluations. `v` should be as
    long as the scale on which f changes.
    Raises ValueError where longdouble is no wider than float64, or where f answers in a narrower precision.
    """
    wide = np.dtype(np.longdouble)
    if wider(np.float64) is None:
        raise ValueError("longdouble: np.longdouble is float64 on this platform; use richardson, whose error it tells")
    x, v = np.asarray(x, wide), np.asarray(v, wide)

    def rise(h: float) -> np.ndarray:
        plus, minus = np.asarray(f(x + h * v)), np.asarray(f(x - h * v))
        if plus.dtype != wide:
            raise ValueError(f"longdouble: f answers in {plus.dtype} when it is given longdouble; use richardson")
        return plus - minus

    near, twice, far = rise(step), rise(2 * step), rise(4 * step)
    fine = (8 * near - twice) / (12 * step)
    coarse = (8 * twice - far) / (24 * step)
    noise = roundoff(wide) * np.abs(np.asarray(f(x))) * 1.5 / step
    return Estimate(fine, np.abs(coarse - fine) / 15 + noise)
