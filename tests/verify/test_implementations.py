"""The bounds are bounds: no correct implementation of any layer exceeds them, on random and on nasty inputs.

Implementations: the layer's own equation, computed in float32 and float64 with sums in seven ways, with and without
fused products, with results flushed to 0, with elementary functions off by 4 units in the last place. Inputs: those of
the cases of `refnp verify`, drawn anew and spoilt. HYPOTHESIS_PROFILE=thorough tries 10⁵ of them.
"""

import collections
import dataclasses
import os
import zlib

import numpy as np
import pytest

from refnp.numbers import implementations as ways
from refnp.numbers.implementations import Implementation, compute, implementations
from refnp.numbers.rounding import arithmetic, contract, exact, tolerance
from refnp.verify.judge import deviation
from refnp.verify.layers import MODELS, cases_of_layers
from refnp.verify.layers import normalization as normalization_equation
from tests.helpers import normal

LAYERS = {}
for _case in cases_of_layers():
    LAYERS.setdefault(_case.layer.name, []).append(_case)
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
DRAWS = -(-100_000 // sum(map(len, LAYERS.values()))) if THOROUGH else 1  # of each case
OF_MODELS = {case.layer.name for page in MODELS if hasattr(page, "cases") for case in page.cases()}
SPOILT = {
    "as drawn": lambda a, rng: a,
    "another size": lambda a, rng: a * 10.0 ** rng.integers(-8, 9),
    "many sizes": lambda a, rng: a * 10.0 ** rng.uniform(-6, 6, a.shape),
    "far from 0": lambda a, rng: a + 10.0 ** rng.integers(-1, 7),
    "equal numbers": lambda a, rng: np.full(a.shape, a.flat[0]) if a.size else a,
    "few values": lambda a, rng: rng.choice(a.ravel(), a.shape) if a.size else a,
    "some nearly 0": lambda a, rng: np.where(rng.random(a.shape) < 0.4, a * 10.0 ** rng.uniform(-46, -30, a.shape), a),
    "some 0": lambda a, rng: np.where(rng.random(a.shape) < 0.4, 0, a),
    "one far out": lambda a, rng: np.where(np.arange(a.size).reshape(a.shape) == rng.integers(a.size + 1), 1e6 * a, a),
}


def nasty(case, dtype, seed):
    """The problem of a case with other inputs: each array is spoilt in one of the ways, or in none."""
    rng = np.random.default_rng(zlib.crc32(f"{case.name} {seed}".encode()))
    problem = dataclasses.replace(case, variant=f"{case.variant} {seed}").problem(dtype)
    for name, array in problem.arrays.items():
        way = rng.choice(list(SPOILT)) if rng.random() < 0.7 else "as drawn"
        spoilt = np.asarray(SPOILT[way](array.astype(float), rng)).astype(dtype)
        problem.arrays[name] = np.where(np.isfinite(spoilt), spoilt, array)
    return problem


def limits(problem):
    """{quantity: (which numbers are judged, their exact values, their bounds)}, and how many there are in all.

    Not judged is where the exact result is no number of the precision, or nothing is known of it.
    """
    found, count = {}, 0
    for quantity, bound in problem.bounds.items():
        allowed = tolerance(bound, problem.dtype)
        known = np.isfinite(allowed) & (np.abs(bound.value) < np.finfo(problem.dtype).max)
        found[quantity], count = (known, bound.value[known], allowed[known]), count + known.size
    return found, count


def excess(problem, by, limits):
    """The worst error over its bound of one implementation; infinite for a NaN."""
    case = problem.case
    cotangent = problem.cotangent if len(case.quantities) > 1 else None
    found = compute(case.layer.equation, by, list(problem.arrays.values()), cotangent, **case.options)
    computed, worst = problem.selected(found[0], lambda: found[1:]), 0.0
    for quantity, (known, right, allowed) in limits.items():
        ratios = np.abs(computed[quantity][known] - right) / allowed
        worst = max(worst, ratios.max(initial=0.0))
        if np.isnan(ratios).any():
            return np.inf
    return worst


@pytest.mark.parametrize("layer", LAYERS)
def test_no_correct_implementation_exceeds_a_bound(layer):
    judged = count = tried = 0
    with np.errstate(all="ignore"):
        for case in LAYERS[layer]:
            for seed in range(DRAWS):
                dtype = ("float32", "float64")[(seed + len(case.name)) % 2]
                problem = nasty(case, dtype, seed)
                known, numbers = limits(problem)
                for by in implementations(dtype, np.random.default_rng(seed)):
                    try:
                        ratio = excess(problem, by, known)
                    except FloatingPointError:  # something overflows, which no bound covers
                        continue
                    assert ratio <= 1, f"{case.name}, seed {seed}, {dtype}, {by.name}: {ratio:.3g} times its bound"
                    tried += 1
                judged, count = judged + sum(len(right) for _, right, _ in known.values()), count + numbers
    assert tried
    if layer not in OF_MODELS and len(LAYERS[layer]) > 3:
        assert judged > 0.5 * count, "most numbers must be judged"


UNDERFLOWS = [  # of the square of a length scale, and of a kernel that is multiplied by its polynomial
    ("set_convolution", "one set hidden, divided by the density", 54),
    ("set_convolution, matern_32", "1-D", 66),
    ("set_convolution, matern_52", "1-D", 22),
]


@pytest.mark.parametrize(("layer", "variant", "seed"), UNDERFLOWS)
def test_no_correct_implementation_exceeds_a_bound_where_something_underflows(layer, variant, seed):
    problem = nasty(next(case for case in LAYERS[layer] if case.variant == variant), "float32", seed)
    with np.errstate(all="ignore"):
        known, _ = limits(problem)
        for by in implementations("float32", np.random.default_rng(seed)):
            assert excess(problem, by, known) <= 1
    if layer == "set_convolution":
        assert not known["output"][0].any(), "it is not judged"
        assert 0 < problem.arrays["length_scale"] < 1e-40


def test_there_are_more_than_five_implementations_and_they_differ():
    x = normal(0, (3, 40), np.float32) + np.float32(10)
    arrays = [x, np.float32(1), np.float32(0)]
    found = [
        compute(normalization_equation.LAYER_NORM.equation, by, arrays, np.ones_like(x))
        for by in implementations("float32", np.random.default_rng(0))
    ]
    assert len({b"".join(array.tobytes() for array in answer) for answer in found}) >= 6
    assert all(array.dtype == np.float32 for answer in found for array in answer)


@pytest.mark.parametrize("order", [ways.in_sequence, ways.backwards, ways.in_pairs, ways.in_lanes, ways.in_blocks])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 33])
def test_orders_of_summation_add_up_every_term_once(order, n):
    terms = 2.0 ** np.arange(n)[:, None] * np.array([1.0, 3.0])
    np.testing.assert_array_equal(order(terms, np.add), terms.sum(0))
    np.testing.assert_array_equal(ways.largest_first(terms, np.add), terms.sum(0))


def test_what_is_flushed_and_what_is_fused():
    plain, flushing, fused = (
        Implementation("", np.float32, ways.in_sequence, fused=fused, flush=flush)
        for fused, flush in ((False, False), (False, True), (True, False))
    )
    half = np.float32(np.finfo(np.float32).tiny / 2)
    product = lambda x, y: (x * y, None)
    assert compute(product, plain, [half, np.float32(1)])[0] == half
    assert compute(product, flushing, [half, np.float32(1)])[0] == 0
    dot = lambda x, y: (contract("i,i->", x, y), None)
    x = np.array([1, 1 + 2**-13], np.float32)
    y = np.array([-1, 1 - 2**-13], np.float32)
    assert compute(dot, plain, [x, y])[0] == 0
    assert compute(dot, fused, [x, y])[0] == np.float32(-(2.0**-26))


def test_elementary_functions_are_off_by_units_in_the_last_place_and_0_and_infinity_are_not():
    off = Implementation("", np.float32, ways.in_sequence, ulps=3)
    exact_ones = np.array([0, 1, np.inf], np.float32)
    np.testing.assert_array_equal(off.moved(exact_ones), [0, 1 + 3 * np.spacing(np.float32(1)), np.inf])


def test_an_overflow_is_told():
    by = Implementation("", np.float32, ways.in_sequence)
    with pytest.raises(FloatingPointError):
        compute(lambda x: (x * x, None), by, [np.float32(1e30)])


@pytest.mark.parametrize("n", [64, 16384])
def test_a_mean_in_sequence_is_right_and_beyond_what_blocks_do(n):
    """LayerNorm of a row of equal numbers, whose partial sums round the same way a thousand times."""
    x = np.full((1, n), 0.1, np.float32)
    (output,) = compute(
        lambda *given: (normalization_equation.LAYER_NORM.equation(*given)[0], None),
        Implementation("", np.float32, ways.in_sequence),
        [x, np.float32(1), np.float32(0)],
    )
    ratios = []
    for blocked in (False, True):
        given = (exact(a, arithmetic(np.float32, blocked=blocked)) for a in (x, np.float32(1), np.float32(0)))
        bound, _ = normalization_equation.LAYER_NORM.equation(*given)
        ratios.append(deviation(output, bound.value, tolerance(bound, np.float32), np.float32)[0])
    assert ratios[0] <= 1
    assert n < 16384 or ratios[1] > 1


def test_cases_are_spoilt_in_every_way_and_stay_in_their_precision():
    assert collections.Counter(map(len, SPOILT)).total() >= 9
    for seed in range(20):
        problem = nasty(LAYERS["layer_norm"][0], "float32", seed)
        assert all(array.dtype == np.float32 and np.isfinite(array).all() for array in problem.arrays.values())
