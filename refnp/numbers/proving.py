"""Proofs by numbers of a finite field: that a VJP is the derivative of its page, and that two expressions are equal.

At the sizes and on the branches of given arrays, one run of a page with derivatives gives ȳ·J v, and one run of its VJP
x̄·v. If they are equal mod p at a random point they are equal as expressions, but for a chance of 1e-20
(refnp/numbers/field.py). What no random point reaches, a root of 0 or an x at a kink, is not proved by it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from refnp.numbers.duals import Array
from refnp.numbers.field import Field, P, drawn, noting_unknowns

TRIES = 3  # random points: a division by 0 mod p needs another one


class Proof(NamedTuple):
    """What is known of an identity: it `holds`, it does not, or None where that could not be found out; and why."""

    holds: bool | None
    why: str = ""


def vjp_is_derivative(
    page: Callable, arrays: Sequence[Array | None], *, among: Sequence[int] | None = None, seed: int = 0, **options: Any
) -> Proof:
    """Whether the VJP of page(*arrays, **options) is its derivative by the arrays at these places (all of them).

    A proof for one place alone says which gradient is wrong. None stands for an argument that is left out. What fails
    at random points and holds at the arrays themselves is not refuted: where numbers are equal, a page may use that.
    """
    moving = [i for i, a in enumerate(arrays) if a is not None] if among is None else list(among)

    def difference(rng: np.random.Generator, exact: bool = False) -> int:
        """ȳ·J v − x̄·v at a random point, or at the arrays."""
        at = [a if a is None else drawn(rng, a, moving=i in moving, exact=exact) for i, a in enumerate(arrays)]
        y, vjp = page(*at, **options)
        y = Field(y)
        y_bar = drawn(rng, y.real, moving=False)
        bars = list(vjp(y_bar))
        forward = int(np.sum(y_bar.parts("v") * y.parts("t"))) if y.size else 0
        return forward - sum(along(bars[i], at[i]) for i in moving)

    found = proved(lambda rng: difference(rng) % P == 0, seed)
    if found.holds is False and proved(lambda rng: difference(rng, exact=True) % P == 0, seed).holds:
        return Proof(None, "it holds at these numbers, and not at all others of which the same are equal")
    return found


def are_equal(f: Callable, g: Callable, arrays: Sequence[Array], *, seed: int = 0) -> Proof:
    """Whether f(*arrays) and g(*arrays) are the same expressions: f(π x) and π f(x), or two pages."""

    def same(rng: np.random.Generator) -> bool:
        at = [drawn(rng, a, moving=False) for a in arrays]
        one, other = Field(f(*at)), Field(g(*at))
        return one.shape == other.shape and bool(np.all((one.parts("v") - other.parts("v")) % P == 0))

    return proved(same, seed)


def proved(holds: Callable[[np.random.Generator], bool], seed: int) -> Proof:
    """What random points tell: one where it holds proves it; one where it fails without an unknown refutes it."""
    rng = np.random.default_rng(seed)
    why = "something is divided by 0 at every point"
    for _ in range(TRIES):
        with noting_unknowns() as unknowns, np.errstate(all="ignore"):
            try:
                found = holds(rng)
            except ZeroDivisionError:
                continue
            except (TypeError, AttributeError) as lacking:
                return Proof(None, str(lacking))
        if found or not unknowns:
            return Proof(found)
        return Proof(None, f"{', '.join(sorted(unknowns))}: an unknown, of which only the derivative is known")
    return Proof(None, why)


def along(bar: Any, x: Any) -> int:
    """x̄·v, where x̄ may stand along axes along which x was broadcast."""
    bar = Field(bar() if callable(bar) else bar)
    shape = np.broadcast_shapes(bar.shape, x.shape)
    if shape != bar.shape:
        raise TypeError(f"a gradient has shape {bar.shape}, its argument {x.shape}")
    v, t = (np.broadcast_to(part, shape) for part in (bar.parts("v"), x.parts("t")))
    return int(np.sum(v * t)) if v.size else 0
