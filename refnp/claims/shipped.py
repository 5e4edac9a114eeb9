"""The weights that come with refnp, as trained: training changes numbers, not symmetries.

What is expected is what is expected of the same model with random weights, where it does not depend on a refinement: a
trained network has one grid, its spacing is part of what it has learned. Models are tried in float32 and float64.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.claims import neural_processes as models
from refnp.claims.common import parts_of
from refnp.claims.neural_processes import EVERYWHERE, SYMMETRIES, U_NET
from refnp.claims.row import APPROXIMATE, BROKEN, ON_SUBGROUP, Row, Trial
from refnp.models.latent import LatentNP
from refnp.models.neural_process import NeuralProcess
from refnp.studies.trained import open_trained, shipped
from refnp.symmetry import Claim, Translate, equivariant

DRAWS = 2  # of z: each is a function, and what is asked of one is asked of all
SUBJECTS = {
    "cnp": "CNP",
    "np": "NP",
    "canp": "CANP",
    "anp": "ANP",
    "tnpd": "TNP-D",
    "tetnp": "TE-TNP",
    "convcnp": U_NET,
    "convcnp-sawtooth": U_NET,
}
ASKED = (
    "context permuted",
    "hidden points changed",
    "context given k times",
    "targets permuted",
    "targets left out or repeated",
    "everything translated",
    "everything translated on the grid",
    "reflection",
)
BY_GRID = {"everything translated": "the grid has a spacing"}
OF_GRIDS = (  # what is asked of the larger models
    "context permuted",
    "hidden points changed",
    "targets permuted",
    "everything translated",
    "everything translated on the grid",
)


@cache
def opened(name: str) -> Any:
    """The trained model of that name."""
    model: NeuralProcess = open_trained(name, np.float64).model
    if isinstance(model, LatentNP):
        model.samples = DRAWS
    return model


def predictions(name: str) -> Callable[..., Any]:
    """What the model predicts, in float32 and float64."""
    predict = models.prediction(opened(name))

    def f(**arrays: Array) -> Any:
        if arrays["context_y"].dtype.itemsize > 8:
            raise TypeError("trained weights are tried in float32 and float64")
        return predict(**arrays)

    return f


def trial(name: str, symmetry: str) -> Trial:
    """The weights of that name under one symmetry of neural processes."""
    moved, f = SYMMETRIES[symmetry], predictions(name)
    options = {"count": 2, "simplify": 3, "dtypes": (np.float64,)}
    parts: Mapping[str, Claim] = {}
    action, shifts = moved.action, {}
    if symmetry == "everything translated on the grid":
        step, total = 1 / opened(name).grid_options.points_per_unit, opened(name).network.total_stride

        def by(k: int) -> Claim:
            return equivariant(
                f, Translate(EVERYWHERE, step=k * step, reach=max(2, 8 * total // k)), moved.out, name=name
            )

        action, parts = by(1).action, parts_of(by, tuple(2**i for i in range(1, total.bit_length())))
        shifts = {k * step: (k,) for k in range(0, 2 * total + 1, total // 16)}
    claim = equivariant(f, action, moved.out, name=name)
    return Trial(claim, near, {"n": (3,), "m": (2,), "h": (2,)}, parts, None, shifts, options)


def near(rng: np.random.Generator, n: int, m: int, h: int = 2) -> dict[str, Any]:
    """Points within ¼ of 0, on multiples of 2⁻¹²: a short grid."""
    drawn = models.drawn(rng, n, m, h)
    return drawn | {name: drawn[name] / 4 for name in EVERYWHERE}


def rows() -> list[Row]:
    """Every file of weights with its symmetries."""
    found = []
    for name in shipped():
        for symmetry in ASKED:
            if SUBJECTS.get(name) == U_NET and symmetry not in OF_GRIDS:
                continue
            for expected, reason, subjects, _ in models.EXPECTED[symmetry]:
                if SUBJECTS.get(name) in subjects:
                    make = lambda name=name, symmetry=symmetry: trial(name, symmetry)
                    subgroup = ""
                    if expected == APPROXIMATE:
                        expected, reason = BROKEN, BY_GRID[symmetry]
                    if expected == ON_SUBGROUP:
                        subgroup = STRIDES[name]
                    found.append(Row(f"weights {name}", symmetry, expected, reason, make, subgroup=subgroup))
    return found


STRIDES = {"convcnp": "multiples of 64", "convcnp-sawtooth": "multiples of 64"}
ROWS = rows()
