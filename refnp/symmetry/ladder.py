"""The precisions that a function really computes in, coarse to fine: asked for a dtype, its result has that dtype.

A function with float64 weights answers float32 in float64, one written for a framework may know no longdouble, and one
that casts its input has one precision only. What is judged is judged in the finest, `top`; the next below it, if there
is one, shows what rounding does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.action import Arrays
from refnp.symmetry.claim import Claim, Refusal
from refnp.symmetry.precision import FLOATS, DType, called, real, roundoff


@dataclass(frozen=True)
class Ladder:
    """The dtypes, coarse to fine, and the unit roundoff of the result at `top`."""

    dtypes: tuple[DType, ...]
    u: float

    @property
    def top(self) -> DType:
        """The finest precision."""
        return self.dtypes[-1]

    @property
    def below(self) -> DType | None:
        """The next one, or None if there is only one."""
        return self.dtypes[-2] if len(self.dtypes) > 1 else None

    @property
    def law(self) -> float:
        """By how much rounding shrinks from `below` to `top`: the ratio of their unit roundoffs, 2⁻¹¹ for an x87."""
        return 1.0 if self.below is None else self.u / roundoff(self.below)

    def __str__(self) -> str:
        return ", ".join(map(called, self.dtypes))


def ladder(claim: Claim, inputs: Arrays) -> Ladder:
    """The ladder of f at these inputs. Raises Refusal if it takes none of the precisions."""
    found, refusal, results = [], None, {}
    for dtype in FLOATS:
        try:
            results[dtype] = claim.at(inputs, dtype)
        except Refusal as error:
            refusal = error
            continue
        if all(real(a.dtype) == dtype for a in results[dtype].values() if a.dtype.kind in "fc"):
            found.append(dtype)
    if found:
        return Ladder(tuple(found), _u(results[found[-1]]))
    if not results:
        raise refusal or Refusal("nothing was asked")
    dtype = min(results, key=lambda dtype: _coarsest(results[dtype], dtype))
    return Ladder((dtype,), _coarsest(results[dtype], dtype))


def _u(result: Mapping[str, Any]) -> float:
    return max((roundoff(a.dtype) for a in result.values()), default=0.0)


def _coarsest(result: Mapping[str, np.ndarray], dtype: DType) -> float:
    return max(_u(result), roundoff(dtype))
