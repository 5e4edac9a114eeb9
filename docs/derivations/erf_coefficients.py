"""Where the coefficients in refnp/autograd/special.py come from: run this, and they are found again.

Wanted is the inverse Mills ratio m(a) = e^(−a²)/erfc(a) for 0 ≤ a ≤ end, which starts at 1 and tends to √π a:

    m(a) ≈ √π a + (1 − a P(a)/Q(a)),        deg P = n,   deg Q = n + 1,   Q(0) = 1.

P/Q interpolates √π − (m(a) − 1)/a =: r(a). At 2n + 2 nodes a, P(a) − r(a) Q(a) = 0: a linear system. The nodes are
Chebyshev's, for which the error is nearly as small as it can be, not in a but in t = (a − middle)/(a + middle), which
gives the region where m bends its share of them. `middle` was tried until the error was level over the interval.

Needs mpmath: python docs/derivations/erf_coefficients.py
"""

import mpmath
import numpy as np

FITS = {  # n, end of the interval (there erfc is subnormal), middle of the nodes
    np.float32: (3, "9.5", "2.2"),
    np.float64: (9, "27", "2.8"),
}


def mills(a):
    return mpmath.exp(-a * a) / mpmath.erfc(a)


def points(ts, end, middle):
    """From −1 ≤ t ≤ 1, shrunk to the interval's share of it, back to 0 ≤ a ≤ end."""
    shrunk = [(t + 1) * end / (end + middle) - 1 for t in ts]
    return [middle * (1 + t) / (1 - t) for t in shrunk]


def polynomial(coefficients, a):
    """c_0 + c_1 a + c_2 a² + …"""
    return sum(c * a**j for j, c in enumerate(coefficients))


def fit(slope, n, end, middle):
    """The coefficients of P and Q, constant terms first."""
    size = 2 * n + 2
    nodes = points([mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * size)) for i in range(size)], end, middle)
    system, right = mpmath.matrix(size, size), mpmath.matrix(size, 1)
    for i, a in enumerate(nodes):
        r = slope - (mills(a) - 1) / a
        row = [a**j for j in range(n + 1)] + [-r * a**j for j in range(1, n + 2)] + [r]
        scaled = [entry / (1 + a) ** (n + 1) for entry in row]
        system[i, :], right[i] = mpmath.matrix([scaled[:-1]]), scaled[-1]
    solution = list(mpmath.lu_solve(system, right))
    return solution[: n + 1], [mpmath.mpf(1), *solution[n + 1 :]]


def largest_error(slope, p, q, end, middle, count=400):
    """The largest relative error of slope · a + (1 − a P/Q), had we infinitely many digits."""
    worst = mpmath.mpf(0)
    for a in points([mpmath.mpf(2 * i) / count - 1 for i in range(count + 1)], end, middle):
        value = slope * a + 1 - a * polynomial(p, a) / polynomial(q, a)
        worst = max(worst, abs(value / mills(a) - 1))
    return worst


def coefficients(dtype):
    """P and Q, highest powers first, rounded to `dtype`, and the relative error of the formula before rounding."""
    n, end, middle = FITS[dtype]
    with mpmath.workdps(50):
        slope = mpmath.mpf(float(dtype(np.sqrt(np.pi))))  # as rounded: the fit makes up for the rounding
        p, q = fit(slope, n, mpmath.mpf(end), mpmath.mpf(middle))
        error = largest_error(slope, p, q, mpmath.mpf(end), mpmath.mpf(middle))
        rounded = [tuple(dtype(mpmath.nstr(c, 30)) for c in reversed(side)) for side in (p, q)]
    return *rounded, float(error)


if __name__ == "__main__":
    for dtype in FITS:
        p, q, error = coefficients(dtype)
        print(f"{dtype.__name__}, relative error {error:.2g}")
        print("  P", ", ".join(map(str, p)))
        print("  Q", ", ".join(map(str, q)))
