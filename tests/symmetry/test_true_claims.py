"""No true claim is refuted, however badly it rounds; and those of which nothing can be seen are left undecided."""

import numpy as np
import pytest

from refnp.symmetry import Permute, Translate, check, invariant, search
from tests.symmetry.true_claims import HOLD, NOISE, SCALES


@pytest.mark.parametrize("name", HOLD)
def test_true_claims_hold(name):
    claim, draw, sizes = HOLD[name]
    verdict = search(claim, draw, sizes=sizes, scales=SCALES, count=12)
    verdict.require("holds")
    assert verdict.worst <= 1
    assert verdict.counts.pairs >= 8


@pytest.mark.parametrize("name", NOISE)
def test_where_there_is_only_noise_nothing_is_decided(name):
    claim, draw, sizes = NOISE[name]
    search(claim, draw, sizes=sizes, scales=SCALES, count=12).require("undecided")


SINGULAR = [  # matrices of whole numbers, of which rounding decides whether LAPACK's elimination ends in 0
    [[0, 1, 0, -1], [0, -1, -1, 0], [2, 2, -1, -1], [1, 2, 1, 0]],
    [[1, -2, 1, 0], [1, 1, 0, 0], [0, -1, 0, 1], [1, 0, 0, 1]],
]


@pytest.mark.parametrize("matrix", SINGULAR)
@pytest.mark.parametrize(("name", "argument"), [("determinant (LAPACK)", "x"), ("inverse (LAPACK)", "a")])
def test_what_only_rounding_decides_refutes_nothing(name, argument, matrix):
    """NumPy's determinant of float32 is computed in float64: float32 shows nothing of how large its errors are."""
    claim, _, _ = HOLD[name]
    draw = lambda rng, n: {argument: np.array(matrix, float)[rng.permutation(4)]}
    verdicts = (search(claim, draw, sizes={"n": (4,)}, structures=(), count=20, seed=seed) for seed in range(2))
    assert not any(verdict.fails for verdict in verdicts)


def test_an_error_for_equal_numbers_alone_is_a_violation_still():
    def unless_equal(x):
        if len(x) > 1 and x[0] == x[1]:
            raise ValueError("equal")
        return np.tanh(x).sum()

    verdict = check(invariant(unless_equal, Permute("x")), {"x": np.array([1.0, 2.0, 1.0])}, np.array([0, 2, 1]))
    verdict.require("fails")


WAVES = {  # of whole numbers of periods, where a sine of float64's π is no 0
    "sine": (lambda x: np.sin(2 * np.pi * x), 1.0),
    "sine of 2π": (lambda x: np.sin(x), 2 * np.pi),
    "chord": (lambda x: np.abs(np.sin(np.pi * x)) / np.pi, 1.0),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WAVES)
def test_what_a_constant_of_float64_leaves_of_0_refutes_nothing(name, seed):
    f, period = WAVES[name]
    draw = lambda rng, n: {"x": rng.normal(size=n)}
    wave = invariant(f, Translate("x", axis=None, step=period))
    assert search(wave, draw, sizes={"n": range(1, 4)}, seed=seed).holds
    other = invariant(f, Translate("x", axis=None, step=period * (1 + 1e-9)))
    assert search(other, draw, sizes={"n": range(1, 4)}, seed=seed).fails
