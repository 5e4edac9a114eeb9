"""Judging by a bound that the user knows, in place of the law of rounding.

|f(g·x) − g·f(x)| ≤ bound(inputs, g, dtype)          for every number of the output, in the dtype of the input
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refnp.symmetry.action import Arrays
from refnp.symmetry.claim import Claim, Refusal
from refnp.symmetry.judge import Finding, Judge, largest_ratio, misshapen, place_of_worst, refused
from refnp.symmetry.ladder import Ladder
from refnp.symmetry.outputs import Vector
from refnp.symmetry.precision import DType, roundoff
from refnp.symmetry.sides import Pair

Bound = Callable[[dict[str, Any], Any, Any], Any]


class BoundedJudge(Judge):
    """Judges at one input; the bound is a number, an array that broadcasts to every output, or a mapping of these."""

    def __init__(self, claim: Claim, bound: Bound, dtype: DType, inputs: Arrays):
        super().__init__(claim, Ladder((dtype,), roundoff(dtype)), inputs, np.random.default_rng(0))
        self.bound = bound

    def unheard(self) -> float:
        """0, for whoever gives a bound answers for what f notices."""
        return 0.0

    def __call__(self, g: Any) -> Finding:
        """The finding for one element."""
        pair, dtype = Pair(self.site, g), self.ladder.top
        try:
            left, right = pair.left(0, dtype), pair.right(0, dtype)
        except Refusal as refusal:
            return refused(refusal)
        if left.form != right.form:
            return misshapen(left, right)
        given = self.bound(dict(self.site.inputs[0]), g, dtype)
        outputs = self.site.claim.action_out.act(g, self.site.here(0, dtype))
        each = {name: given[name] if isinstance(given, Mapping) else given for name in outputs}
        allowed = Vector.of({n: np.broadcast_to(_alike(each[n], a), a.shape) for n, a in outputs.items()}).values
        d = left.minus(right)
        ratio, beyond = largest_ratio(d, allowed), ~(np.abs(d) <= allowed)
        if not beyond.any():
            resolution = left.over_size(allowed, right, empty=0.0)
            return Finding("agrees", "", ratio, left.over_size(d, right), resolution)
        d = np.where(beyond, d, 0)
        kind = "infinite" if np.isinf(d).any() else "value"
        return Finding("violated", kind, ratio, left.over_size(d, right), 0.0, place_of_worst(left, right, d))


def _alike(bound: Any, output: np.ndarray) -> np.ndarray:
    """A bound as an array of the output's kind: complex outputs are judged by real and imaginary part."""
    return np.asarray(bound) * (1 + 1j) if output.dtype.kind == "c" else np.asarray(bound)
