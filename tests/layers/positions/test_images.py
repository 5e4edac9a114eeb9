"""iRPE: indices against the formulas with fifty digits, attention against the equation, tokens without a place."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers.positions.images import METHODS, ImagePositions, image_places, piecewise_index, ranks
from refnp.layers.softmax import softmax
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import assert_same_bits, assert_within, generator, normal
from tests.layers.positions.judges import at_random, looked_up, rounded_look_up
from tests.transcriptions import positions as written

USUAL = {"alpha": 1.9, "beta": 3.8, "gamma": 15.2}
WIDER = {"alpha": 3.0, "beta": 6.0, "gamma": 24.0}
every_method = pytest.mark.parametrize("method", METHODS)
every_mode = pytest.mark.parametrize("mode", ["bias", "contextual"])


def problem(n, m, d=3, dtype=np.float64, seed=0, batch=(2, 2)):
    return [normal(seed + i, (*batch, length, d), dtype) for i, length in enumerate([n, m, m])]


def scheme_of(mode="contextual", method="product", width=3, dtype=np.float64, seed=0, **options):
    made = ImagePositions(width, mode=mode, method=method, rng=generator(), **options)
    return at_random(made, seed).astype(dtype)


# ---- indices


@given(
    st.lists(st.integers(-200, 200) | st.floats(-50, 50), min_size=1, max_size=5),
    st.sampled_from([USUAL, WIDER, {"alpha": 0.5, "beta": 7.25, "gamma": 30.0}, {"alpha": 2, "beta": 2, "gamma": 3}]),
)
def test_the_piecewise_index_with_fifty_digits(x, options):
    expected = [written.piecewise_index(value, **options) for value in x]
    np.testing.assert_array_equal(piecewise_index(x, **options), expected)


def test_the_piecewise_index_of_the_paper():
    """α : β : γ = 1 : 2 : 8 with 3, 6, 24: one by one up to 3, then by logarithm, 6 from the distance 17 on."""
    x = np.arange(27)
    expected = [0, 1, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, *[6] * 10]
    np.testing.assert_array_equal(piecewise_index(x, **WIDER), expected)
    np.testing.assert_array_equal(piecewise_index(-x, **WIDER), np.negative(expected))
    np.testing.assert_array_equal(piecewise_index(x, **USUAL)[:9], [0, 1, 2, 2, 3, 3, 3, 3, 3])


@given(st.floats(0.5, 5), st.floats(0, 5), st.floats(1.1, 10))
def test_the_piecewise_index_is_odd_grows_and_ends(alpha, more, factor):
    options = {"alpha": alpha, "beta": alpha + more, "gamma": alpha * factor}
    x = np.linspace(0, 100, 1001)
    index = piecewise_index(x, **options)
    assert index[0] == 0
    assert (np.diff(index) >= 0).all()
    assert index[-1] <= math.floor(alpha + more)
    np.testing.assert_array_equal(piecewise_index(-x, **options), -index)


def test_ranks_of_distances():
    """0, 1, √2, 2, √5, √8, 3, …: 0, 1, 2, 3, 4, 5, 6, … on a plane; on a line the distance itself."""
    np.testing.assert_array_equal(ranks(np.array([0, 1, 2, 4, 5, 8, 9, 10, 13]), 2), np.arange(9))
    np.testing.assert_array_equal(ranks(np.array([25, 0, 4]), 1), [5, 0, 2])
    squares = np.array([a * a + b * b for a in range(9) for b in range(9)])
    np.testing.assert_array_equal(ranks(squares, 2), [written.distance_rank(int(s), 2) for s in squares])


def test_ranks_keep_apart_what_distances_round_together():
    """(1, 0) and (1, 1) are both 1 away, rounded; as ranks they are 1 and 2."""
    for method, same in (("euclidean", True), ("quantised", False)):
        buckets = scheme_of("bias", method).buckets(np.array([[1, 1]]), np.array([[0, 1], [0, 0]]))[0]
        assert (buckets[0, 0] == buckets[0, 1]) == same


@pytest.mark.parametrize("options", [USUAL, WIDER])
@every_method
def test_buckets_pair_by_pair(method, options):
    """On an image of 3 × 4, in a line, and at any places of queries and keys."""
    grid, rng = image_places(3, 4), generator()
    for axes, query_places, key_places in (
        (2, grid, grid),
        (2, rng.integers(-30, 30, (5, 2)), rng.integers(-30, 30, (4, 2))),
        (3, rng.integers(-9, 9, (4, 3)), rng.integers(-9, 9, (4, 3))),
        (1, np.arange(7), np.arange(-3, 3)),
    ):
        scheme = scheme_of("bias", method, axes=axes, **options)
        buckets = scheme.buckets(query_places, key_places)
        assert len(buckets) == len(scheme.keys) == (axes if method == "cross" else 1)
        assert all(b.min() >= 0 and b.max() < scheme.count for b in buckets)
        for i, j in np.ndindex(len(query_places), len(key_places)):
            pair = [np.atleast_1d(places[n]) for places, n in ((query_places, i), (key_places, j))]
            assert [b[i, j] for b in buckets] == written.image_buckets(*pair, method, **options)


@pytest.mark.parametrize(("method", "count"), [("euclidean", 4), ("quantised", 4), ("cross", 7), ("product", 49)])
def test_how_many_buckets(method, count):
    """β = 3.8: 49 for product, as in the paper; 7 for each axis of cross; 4 without direction. And one for no place."""
    assert scheme_of("bias", method).count == count
    assert scheme_of("bias", method, leading=2).count == count + 1
    assert [p.shape for p in scheme_of("bias", method).keys] == [(count,)] * (2 if method == "cross" else 1)


# ---- attention


@every_method
@every_mode
def test_index_by_index(method, mode):
    """e_ij = (q_i·k_j + b_ij)/√d with b_ij = r or q_i·r, z_i = Σ_j α_ij (v_j + r'), one pair after the other."""
    grid, (query, key, value) = image_places(2, 3), problem(6, 6, batch=())
    scheme = scheme_of(mode, method, values=mode == "contextual")
    wide = np.longdouble
    scores, terms = np.zeros((6, 6), wide), np.zeros((6, 6, 3), wide)
    for i, j in np.ndindex(6, 6):
        indices = written.image_buckets(grid[i], grid[j], method, **USUAL)
        r = sum(table.data[index].astype(wide) for table, index in zip(scheme.keys, indices, strict=True))
        b = r if mode == "bias" else sum(query[i, e] * r[e] for e in range(3))
        scores[i, j] = (sum(wide(query[i, e]) * key[j, e] for e in range(3)) + b) / np.sqrt(wide(3))
        for table, index in zip(scheme.value_tables, indices, strict=False):
            terms[i, j] += table.data[index]
    expected = np.einsum("nm,nmd->nd", softmax(scores), value + terms)
    rounded, _ = rounded_look_up(scheme, *map(exact, (query, key, value)), grid, grid)
    y = looked_up(scheme, query, key, value, grid, grid).numpy()
    # biases have no axis of heads here, and the equation has
    bound = tolerance(rounded, np.float64)
    assert_within(y, expected, bound.reshape(y.shape))


# ---- places, and tokens without one


def test_places_of_an_image():
    np.testing.assert_array_equal(image_places(2, 3), [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    np.testing.assert_array_equal(image_places(1, 2, leading=1), [[0, 0], [0, 0], [0, 1]])


@every_method
@every_mode
def test_a_class_token_has_a_bucket_of_its_own(method, mode):
    """All its pairs, as query and as key, read the last number; what its place says is not looked at; others are as
    without it."""
    scheme, query = scheme_of(mode, method, leading=1), normal(0, (5, 3))
    places = image_places(2, 2, leading=1)
    elsewhere = places.copy()
    elsewhere[0] = 1000
    s = scheme.scores(query, places, places).numpy()
    assert_same_bits(scheme.scores(query, elsewhere, places).numpy(), s)
    assert_same_bits(scheme.scores(query, places, elsewhere).numpy(), s)
    for buckets in scheme.buckets(places, places):
        assert (buckets[0] == scheme.count - 1).all()
        assert (buckets[:, 0] == scheme.count - 1).all()
        assert (buckets[1:, 1:] < scheme.count - 1).all()
    without = scheme_of(mode, method)
    for table, own in zip(without.keys, scheme.keys, strict=True):
        table.data = own.data[:-1]
    assert_same_bits(without.scores(query[1:], places[1:], places[1:]).numpy(), s[1:, 1:])


def test_its_bucket_learns():
    """What the class token gives depends on its own bucket alone, what the others give on all."""
    scheme, x, places = scheme_of(leading=1), normal(0, (5, 3)), image_places(2, 2, leading=1)
    looked_up(scheme, x, x, x, places, places)[:1].sum().backward()
    np.testing.assert_array_equal(scheme.keys[0].grad[:-1], 0)
    scheme.zero_grad()
    looked_up(scheme, x, x, x, places, places)[1:].sum().backward()
    assert (np.abs(scheme.keys[0].grad[-1]) > 1e-3).any()


# ---- errors
