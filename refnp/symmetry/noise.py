"""How coarsely does f compute inside, whatever the dtypes of its inputs and outputs say?

Along a line x(t) = x (1 + t v), |t| ≤ T, with random v, f is a smooth function of t with rounding errors on top. At n
Chebyshev points t_j = T cos((j + ½)π/n) it has the coefficients

    c_k = √(2/n) Σ_j f(x(t_j)) cos(k (j + ½)π/n)

Those of what is smooth fall like (T/2R)^k, where R is how far f can be continued; rounding errors have coefficients of
all orders, equally large. So the root mean square of those with k ≥ n/2 is the *noise* of f. A cast to float32 inside
leaves noise of 6e-8 of what is cast, however fine the numbers are that come in and go out; a step of T must be longer
than a rounding for it to show, so each precision has a T of its own. The least noise of three lines counts: a kink of f
(relu at 0) is met by few lines, rounding by all.

Numbers that are equal stay equal along a line, and 0 stays 0: what f does with repeated items or zeros is seen as well.
But the rounding errors of f may be the same, or none, at all such points. On a *ray* equal numbers move apart, and 0 by
the size of its array; only its farther half counts, so that what f does where numbers are equal or 0, in a choice or at
a kink, is not met there.

Sources: Moré & Wild (2011), who take differences of a function at equal steps; Aurentz & Trefethen (2017) for the level
at which Chebyshev coefficients no longer fall.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.claim import WIDE, roundoff

UNIT_ROUNDOFFS = {
    "longdouble": roundoff(np.longdouble),
    "float64": roundoff(np.float64),
    "float32": roundoff(np.float32),
    "tfloat32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
NODES = 24  # Chebyshev points on a line
LINES = 3  # the least noise of so many counts
INSIDE = {"float32": 2.0**-16, "float16, tfloat32 or bfloat16": 2.0**-7}  # precisions that f may have inside, and T
RAYS = (2.0**-20, 2.0**-26)  # the lengths of rays, or more in a precision coarser than float64
_ANGLES = (np.arange(NODES) + WIDE.type(0.5)) * (4 * np.arctan(WIDE.type(1)) / NODES)
STEPS = np.cos(_ANGLES)
_HIGH_ORDERS = np.sqrt(WIDE.type(2) / NODES) * np.cos(np.arange(NODES // 2, NODES)[:, None] * _ANGLES)


def span(u: float) -> float:
    """T for the noise of computing in unit roundoff u: 256 roundings, between 2⁻⁴⁸ and 2⁻⁷."""
    return min(max(256 * u, 2.0**-48), 2.0**-7)


def ray(arrays: Mapping[str, Any], reach: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """The arrays at points of a random ray from them of this length, on which equal numbers move apart, and zeros.

    Zeros of an array whose other numbers have one sign get that sign.
    """
    way = direction(arrays, rng, apart=True)
    size = {name: np.where(arrays[name] == 0, _usual(arrays[name]), arrays[name]) for name in way}
    signed = {name: np.where(arrays[name] == 0, abs(part), part) for name, part in way.items()}
    way = {name: signed[name] if _has_one_sign(arrays[name]) else part for name, part in way.items()}
    points = [reach * (3 + step) / 4 for step in STEPS]
    with np.errstate(all="ignore"):
        moved = lambda name, a, t: (a + t * way[name] * size[name]).astype(a.dtype) if name in way else a
        return [{name: moved(name, a, t) for name, a in arrays.items()} for t in points]


def _usual(a: Array) -> Any:
    """The largest finite number of an array by size, with its sign; 1 if there is none but 0."""
    finite = a[np.isfinite(a) & (a != 0)]
    return finite[np.argmax(np.abs(finite))] if finite.size else 1


def _has_one_sign(a: Array) -> bool:
    return a.dtype.kind == "f" and bool(np.all(a >= 0) or np.all(a <= 0))


def lengths(u: float) -> list[float]:
    """Those of rays in unit roundoff u: their squares are some roundings, so that squares of distances change too."""
    longer = max(1.0, (u / roundoff(np.float64)) ** 0.5)
    return [min(reach * longer, 2.0**-7) for reach in RAYS]


def factors(
    arrays: Mapping[str, Any], draw: Callable[[int], Array], *, anchored: bool = False, apart: bool = False
) -> dict[str, Array]:
    """A random factor for each real or complex number, the same for numbers of the same size in any array.

    `draw` gives so many of them. With `anchored`, whole numbers and halves of them get 0; with `apart`,
    equal ones get factors of their own.
    """
    real = {name: a for name, a in arrays.items() if a is not None and a.dtype.kind in "fc"}
    sizes = [np.abs(a).ravel().astype(WIDE) for a in real.values()]
    if not sizes:
        return {}
    together = np.concatenate(sizes)
    different, which = (together, np.arange(together.size)) if apart else np.unique(together, return_inverse=True)
    drawn = draw(len(different))
    drawn = np.where(is_half(different), 0, drawn) if anchored else drawn
    each = np.split(drawn[which.ravel()], np.cumsum([a.size for a in sizes])[:-1])
    return {name: part.reshape(a.shape) for (name, a), part in zip(real.items(), each, strict=True)}


def is_half(a: Array) -> Array:
    """Which numbers are whole, or half of a whole number: where rounding jumps."""
    return 2 * a == np.rint(2 * a)


def line(
    arrays: Mapping[str, Any], reach: float, rng: np.random.Generator, *, anchored: bool = False
) -> list[dict[str, Any]]:
    """The arrays at the Chebyshev points of a random line through them, in their own dtypes; reach is T.

    With `anchored`, whole numbers and halves of them stay as they are.
    """
    way = direction(arrays, rng, anchored=anchored)
    return [changed(arrays, reach * step, way) for step in STEPS]


def direction(arrays: Mapping[str, Any], rng: np.random.Generator, **options: bool) -> dict[str, Array]:
    """A random direction: factors of either sign, none of them small; `options` are those of `factors`."""
    return factors(arrays, lambda n: rng.choice((-1, 1), n) * rng.uniform(0.5, 1, n), **options)


@np.errstate(all="ignore")
def changed(arrays: Mapping[str, Any], size: Any, parts: Mapping[str, Array]) -> dict[str, Any]:
    """x (1 + `size` · part) for every array that has a part, in its own dtype."""
    return {name: (a * (1 + size * parts[name])).astype(a.dtype) if name in parts else a for name, a in arrays.items()}


def noise(values: list[Array]) -> Array:
    """The noise of each number, from its values at the points of a line; infinite where some of these are not finite.

    It is 0 where all are infinite or NaN.
    """
    table = np.stack(values)
    finite = np.isfinite(table)
    with np.errstate(all="ignore"):
        high = _HIGH_ORDERS @ np.where(finite.all(0), table - table[0], 0)
        return np.where(finite.all(0), np.sqrt((high * high).mean(0)), np.where(finite.any(0), np.inf, 0))


def least_of(levels: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The least of what several say of each array."""
    return {name: min(level.get(name, np.inf) for level in levels) for name in levels[0]}
