"""Images in another size by other filters than `upsample` has: cubic ones, and averages where places are left out.

Along each axis y = W x, n places become P, and each row of W sums to 1:

    cubic          y_i reads the four places around c_i, w = κ(c_i − j), a place outside is the one at the border
    antialias      y_i reads all places within reach, w = κ((j + ½ − m_i)/s)/Σ, m_i = (i + ½) n/P, s = max(n/P, 1)

c_i as in `upsample`; κ is the triangle 1 − |t| ("bilinear"), or the cubic of Keys with a = −¾, and with antialias −½:

    κ(t) = (a + 2)|t|³ − (a + 3)|t|² + 1 for |t| ≤ 1,    a|t|³ − 5a|t|² + 8a|t| − 4a for |t| < 2,    0 beyond

For `refnp.judge` alone.   Source: Keys (1981), with both a as PyTorch has them; JAX has −½ in both.
"""

import functools
from fractions import Fraction

import numpy as np

from refnp.autograd import einsum
from refnp.autograd.primitives import raw
from refnp.numbers.rounding import WIDE, Rounded, contract
from refnp.verify.case import Case, Layer, NotOfferedError, normal

HALF = Fraction(1, 2)


def cubic(t: Fraction, a: Fraction) -> Fraction:
    """The cubic of Keys."""
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else Fraction(0)


@functools.cache
def filter_matrix(n: int, p: int, mode: str, antialias: bool, align_corners: bool) -> np.ndarray:
    """W (P, n), computed as fractions, in numbers of the widest precision."""
    scale = Fraction(n, p)
    rows = np.full((p, n), Fraction(0))
    for i in range(p):
        if antialias:
            middle, width = scale * (i + HALF), max(scale, Fraction(1))
            places = [(j + HALF - middle) / width for j in range(n)]
            row = [cubic(t, -HALF) if mode == "bicubic" else max(1 - abs(t), Fraction(0)) for t in places]
            rows[i] = np.array(row) / sum(row)
            continue
        at = Fraction(i * (n - 1), max(p - 1, 1)) if align_corners else scale * (i + HALF) - HALF
        for j in range(at.__floor__() - 1, at.__floor__() + 3):
            rows[i, min(max(j, 0), n - 1)] += cubic(at - j, Fraction(-3, 4))
    return np.vectorize(lambda w: WIDE(w.numerator) / WIDE(w.denominator), otypes=[WIDE])(rows)


def matrices(shape, size, options):
    """W of both axes."""
    return [filter_matrix(n, p, **options) for n, p in zip(shape[-2:], size, strict=True)]


def resize(x, *, size, mode="bicubic", antialias=False, align_corners=False):
    """y = W_h x W_wᵀ, W by a cubic of four places around each, or with `antialias` by a filter of all that are near.

    Shapes: x (B, C, *lengths) → (B, C, *size).
    """
    check(mode, antialias)
    options = {"mode": mode, "antialias": antialias, "align_corners": align_corners}
    rows, columns = (w.astype(raw(x).dtype) for w in matrices(raw(x).shape, size, options))
    return einsum("ph,bchw,qw->bcpq", rows, x, columns)


def equation(x, *, size, mode="bicubic", antialias=False, align_corners=False):
    """The same; x̄ = W_hᵀ ȳ W_w. Weights are off as far as the places are, which are of the size of the axis."""
    check(mode, antialias)
    options = {"mode": mode, "antialias": antialias, "align_corners": align_corners}
    rows, columns = (Rounded(w, 8 * np.abs(w) + 8 * (w != 0) * w.shape[1]) for w in matrices(x.shape, size, options))
    y = contract("ph,bchw->bcpw", rows, x)

    def pullback(g):
        return (contract("ph,bcpw->bchw", rows, contract("bcpq,qw->bcpw", g, columns)),)

    return contract("bcpw,qw->bcpq", y, columns), pullback


def check(mode, antialias):
    """ValueError for a filter that `upsample` has, or that there is not."""
    if mode not in ("bicubic", "bilinear") or (mode == "bilinear" and not antialias):
        raise ValueError(
            f"resize: mode is {mode!r}; use 'bicubic', or 'bilinear' with antialias; upsample has the rest"
        )


def jax_resize(jax, x, *, size, mode="bicubic", antialias=False, align_corners=False):
    """jax.image.resize has a = −½ with and without antialias."""
    if not antialias:
        raise NotOfferedError("JAX: the cubic of image.resize has a = −1/2, and counts nothing beyond the border")
    return jax.image.resize(x, (*x.shape[:2], *size), method=mode.removeprefix("bi"), antialias=True)


RESIZE = Layer(
    "resize",
    resize,
    equation,
    torch=lambda torch, x, *, size, mode="bicubic", antialias=False, align_corners=False: (
        torch.nn.functional.interpolate(x, size, mode=mode, antialias=antialias, align_corners=align_corners)
    ),
    jax=jax_resize,
)


def cases() -> list[Case]:
    """Larger and smaller images, corners that are kept, and averages of what is left out."""
    x = {"x": normal(2, 2, 5, 7)}
    kinds: dict[str, dict] = {"bicubic": {}, "bicubic, antialias": {"antialias": True}}
    kinds["bilinear, antialias"] = {"mode": "bilinear", "antialias": True}
    sizes = {"larger": (8, 14), "smaller": (3, 4), "one axis each way": (2, 15)}
    found = [
        Case(RESIZE, f"{kind}, {how}", x, options | {"size": size})
        for kind, options in kinds.items()
        for how, size in sizes.items()
    ]
    corners = {"size": (9, 4), "align_corners": True}
    return [*found, Case(RESIZE, "bicubic, corners", x, corners)]
