"""What is judged: a precision with its unit roundoff, and how sums are added up.

Source: Higham (2002), §2.1 and §2.8; Hallman & Ipsen (2023), Ipsen & Zhou (2020) (sums beyond first order).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from refnp.numbers.precision import WIDE, policy

ASSUMED = (
    "IEEE arithmetic in the precision judged, sums in any order, fused or not, what is subnormal flushed to 0 or not",
    "exp, log, tanh, erf and their like within 4 units in the last place; square roots rounded correctly",
    "no Winograd, FFT or Strassen, no products in TF32 unless that is judged, and nothing that overflows on the way",
)  # what every bound assumes of an implementation, for reports


def judging_precision() -> str:
    """What the widest precision of this machine is, in words: the reference is computed in it."""
    bits = np.finfo(WIDE).nmant + 1
    if bits == np.finfo(np.float64).nmant + 1:
        return "float64 (longdouble is no wider on this machine)"
    return f"longdouble, {bits} bits"


class Arithmetic(NamedTuple):
    """What is judged: a precision with unit roundoff u and smallest normal number η, and how rows are added up.

    `blocked` names a class of implementations, those that add up the rows of a mean in blocks (`blocked_depth`), as
    NumPy and refnp do. Otherwise any order is right.
    """

    u: np.longdouble
    smallest: np.longdouble
    blocked: bool = False
    stored: np.longdouble = WIDE(0)  # rounding the result of each operation to a narrower format, in units of u
    products: np.longdouble = WIDE(0)  # rounding the factors of products first, in units of u
    given: bool = True  # whether factors that are inputs have that narrower format already
    largest: np.longdouble = WIDE(np.inf)  # beyond it, nothing is known

    def growth(self, roundings: Any) -> Any:
        """((1 + u)ⁿ − 1)/u: n roundings one after the other, in units of u; once where n is one number everywhere."""
        n = np.asarray(roundings)
        if n.size > 1 and (n == n.flat[0]).all():
            return np.broadcast_to(self.growth(n.flat[0]), n.shape)
        return np.expm1(roundings * np.log1p(self.u)) / self.u


def arithmetic(precision: Any, *, blocked: bool = False) -> Arithmetic:
    """That of a floating-point type or of a policy (`refnp.numbers.precision`)."""
    form = policy(precision)
    u, stored, products = form.inside.u, form.stored, form.products
    return Arithmetic(
        u,
        stored.lost if form.every else form.inside.lost,
        blocked,
        stored.u / u if form.every else WIDE(0),
        WIDE(0) if products is None else products.u / u,
        products is None or products.bits >= stored.bits,
        WIDE(stored.largest) if form.every else WIDE(np.inf),
    )


def blocked_depth(n: int) -> int:
    """Roundings on the way of a term through a sum of n in eight lanes, joined in pairs, and blocks of 128 in pairs."""
    return max(n - 1, 0) if n <= 8 else min(n, 128) // 8 + 3 + max(0, math.ceil(math.log2(n / 128)))
