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

from refnp.autograd.pages import page
from refnp.layers.upsampling import combined
from refnp.numbers.parts import part
from refnp.numbers.rounding import WIDE, Rounded
from refnp.verify.case import Case, KnownDefect, Layer, NotOfferedError, normal
from refnp.verify.judged_pages import by_page
from refnp.verify.layers.pooling import LARGER

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


def check_filter(x, *, size, mode="bicubic", antialias=False, align_corners=False):
    """ValueError for a filter that `upsample` has, or that there is not."""
    if mode == "bilinear" and not antialias:
        raise ValueError(
            "resize: mode is 'bilinear'; use 'bicubic', or 'bilinear' with antialias; upsample has the rest"
        )
    if antialias and align_corners:
        raise ValueError("resize: antialias has no align_corners; leave one out")


@page(
    "x (B, C, *L ≥ 1) → (B, C, *P)",
    size="whole ≥ 1 per axis of L",
    mode="bicubic | bilinear",
    antialias="True or False",
    align_corners="True or False",
    check=check_filter,
)
def resize(x, *, size, mode="bicubic", antialias=False, align_corners=False):
    """y = W x along each axis, W by a cubic of four places around each, or with `antialias` a filter of all near ones.

    Shapes: x (B, C, *lengths) → (B, C, *size).   VJP: x̄ = Wᵀ ȳ.
    """
    axes = zip(x.shape[2:], size, strict=True)
    weights = [weights_of(n, p, mode, antialias, align_corners) for n, p in axes]
    y, vjp = combined(x, weights)
    return y, vjp


@part
def weights_of(n, p, mode, antialias, align_corners):
    """W (P, n) of an axis."""
    return filter_matrix(n, p, mode, antialias, align_corners)


def with_error(*filtered):
    """Weights are off as far as the places are, which are of the size of the axis; rounding may bring one more in."""
    w = filter_matrix(*filtered)
    padded = np.pad(w != 0, [(0, 0), (1, 1)])
    near = padded[:, :-2] | padded[:, 1:-1] | padded[:, 2:]
    return Rounded(w, 8 * np.abs(w) + 8 * near * w.shape[1])


OF_PAGE = by_page(resize, {weights_of: with_error})


def repeating_the_first_row(x, *, size, antialias=False, **options):
    """With antialias, where one column is left every row of the result is the first one; the gradient is right."""
    y, pullback = OF_PAGE(x, size=size, antialias=antialias, **options)
    alone = antialias and y.shape[-1] == 1
    return (y[..., :1, :].moved(lambda a: np.broadcast_to(a, y.shape)) if alone else y), pullback


def jax_resize(jax, x, *, size, mode="bicubic", antialias=False, align_corners=False):
    """jax.image.resize has a = −½ with and without antialias."""
    if not antialias:
        raise NotOfferedError("JAX: the cubic of image.resize has a = −1/2, and counts nothing beyond the border")
    return jax.image.resize(x, (*x.shape[:2], *size), method=mode.removeprefix("bi"), antialias=True)


ONE_COLUMN = KnownDefect(
    "PyTorch",
    "interpolate with antialias: one column",
    "interpolate with antialias to a width of 1 gives the first row of the result in every row; its gradient is right",
    ("output",),
    equation=repeating_the_first_row,
)
RESIZE = Layer(
    "resize",
    resize,
    OF_PAGE,
    torch=lambda torch, x, *, size, mode="bicubic", antialias=False, align_corners=False: (
        torch.nn.functional.interpolate(x, size, mode=mode, antialias=antialias, align_corners=align_corners)
    ),
    jax=jax_resize,
    known=(ONE_COLUMN,),
    tried={"size": LARGER["size"]},
)


def cases() -> list[Case]:
    """Larger and smaller images, corners that are kept, averages of what is left out, and of all of a row."""
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
    one_column = kinds["bilinear, antialias"] | {"size": (2, 1)}
    return [
        *found,
        Case(RESIZE, "bicubic, corners", x, corners),
        Case(RESIZE, "bilinear, antialias, one column", x, one_column, known_defects=(ONE_COLUMN,)),
    ]
