"""Absolute positions: what the Transformer Notes ask of them, formulas that are printed wrong, and tables that end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers.positions.absolute import LearnedPositions, SinusoidalPositions, sinusoidal
from tests.helpers import assert_same_bits, assert_within, generator, normal, real_dtypes, seeds, unit_roundoff
from tests.layers.positions.judges import FEATURES, attend, rounded_attend, sinusoid_error
from tests.transcriptions import positions as written

U = unit_roundoff(np.float64)
E = sinusoid_error(1) * U  # the largest error of an entry in float64


# ---- the formula


@given(st.lists(st.integers(-10, 200_000), min_size=1, max_size=3), st.integers(1, 9), real_dtypes)
def test_as_s002_prints_it_odd_widths_too(places, features, dtype):
    expected = written.sinusoidal(places, features)
    value = sinusoidal(places, features, dtype=dtype)
    assert value.dtype == dtype
    assert_within(value, expected, (sinusoid_error(expected) + np.abs(expected)) * unit_roundoff(dtype))


def test_an_odd_width_lacks_the_last_cosine():
    """D = 5: sin, cos, sin, cos, sin with 10000^(−2k/5); not the first five of the columns of D = 6."""
    p = sinusoidal(range(4), 5)
    assert p.shape == (4, 5)
    np.testing.assert_array_equal(p[0], [0, 1, 0, 1, 0])
    assert_within(p[:, 4], np.sin(np.arange(4) * 10000.0**-0.8), 4 * U)
    assert np.abs(p - sinusoidal(range(4), 6)[:, :5]).max() > 0.01


# ---- what the Transformer Notes ask: unique, consistent, general


@pytest.mark.parametrize(("features", "dtype"), [(1, np.float64), (2, np.float32), (2, np.float64), (16, np.float32)])
def test_unique_over_1e5_positions(features, dtype):
    """No two rows are alike, with as little as one sinusoid. (A single sine needs float64.)"""
    assert len(np.unique(sinusoidal(np.arange(100_000), features, dtype=dtype), axis=0)) == 100_000


@pytest.mark.parametrize("features", [2, 8, 64])
def test_unique_by_more_than_the_error(features):
    """|P(p + s) − P(p)|² = Σ_k 4 sin²(s ω_k/2) for all p: the smallest over s < 1e5 is the smallest over all pairs."""
    p = sinusoidal(np.arange(100_000), features)
    distances = np.sqrt(((p[1:] - p[0]) ** 2).sum(-1))
    assert distances.min() > 1000 * E * np.sqrt(features)


@given(st.integers(1, 5).map(lambda k: 2 * k), st.integers(-100_000, 100_000))
def test_distances_are_consistent_the_gram_matrix_is_toeplitz(features, start):
    """P(p)·P(q) depends on q − p alone, and not on where in a sentence or how long it is.

    An entry is wrong by E at most, so a product of two by 2E and one rounding; D of them are added up; twice, for two
    elements of the matrix are compared.
    """
    p = sinusoidal(np.arange(start, start + 6), features)
    gram = p @ p.T
    bound = 2 * features * (2 * E + features * U)
    assert_within(gram[1:, 1:], gram[:-1, :-1], bound)
    offsets = np.arange(6)
    expected = np.cos(offsets[:, None] * 10000.0 ** (-np.arange(0, features, 2) / features)).sum(-1)
    assert_within(gram[0], expected, bound)


@given(st.integers(1, 5).map(lambda k: 2 * k), st.integers(-100_000, 100_000), st.integers(-100_000, 100_000))
def test_a_shift_is_one_rotation(features, place, steps):
    """P(p + s) = P(p) R_s with a block [[cos, −sin], [sin, cos]] of s ω_k for each pair, the same for all p.

    Both sides: E; and two products, each of factors wrong by E, two roundings: 4E + 4u.
    """
    rotation = np.zeros((features, features))
    s = sinusoidal(steps, features)
    for k in range(0, features, 2):
        rotation[k : k + 2, k : k + 2] = [[s[k + 1], -s[k]], [s[k], s[k + 1]]]
    assert_within(sinusoidal(place, features) @ rotation, sinusoidal(place + steps, features), 5 * E + 4 * U)


@given(st.integers(1, 40).map(lambda k: 2 * k), st.integers(-(2**40), 2**40))
def test_the_norm_is_that_of_half_the_features(features, place):
    """Σ_k sin² + cos² = D/2; a square is wrong by 2E and one rounding, and D are added up."""
    p = sinusoidal(place, features)
    assert_within((p * p).sum(), features / 2, features * (2 * E + U) + features * U * features / 2)


def test_with_an_odd_width_neither_holds():
    """The sine without a cosine: |P(p)|² is not 5/2, nor the same everywhere, and the Gram matrix is not Toeplitz.

    Its sinusoid is slow, so it shows after a few hundred positions.
    """
    p = sinusoidal(np.arange(0, 4000, 500), 5)
    norms = (p * p).sum(-1)
    assert norms.min() < 2.1
    assert norms.max() > 2.9
    gram = p @ p.T
    assert np.abs(gram[1:, 1:] - gram[:-1, :-1]).max() > 0.25


def test_longer_sentences_only_add_rows():
    """Position p is encoded alike in a sentence of 10 and of 100 000."""
    assert_same_bits(sinusoidal(np.arange(100_000), 6)[:10], sinusoidal(np.arange(10), 6))


# ---- wrong formulas, and what breaks


def judged(variant, places, features):
    """Whether a variant is the formula, within the bound."""
    expected = written.sinusoidal(places, features)
    return bool((np.abs(variant(places, features) - expected) <= sinusoid_error(expected) * U).all())


def test_the_judge_knows_the_right_one():
    assert judged(sinusoidal, range(20), 8)


def test_position_and_dimension_exchanged_as_s000_and_s001_print_it():
    """Nothing of the three criteria is left: from position 9 on, d = 8, every second row is the same to the last bit,
    the Gram matrix is not Toeplitz, the norm depends on the position."""
    wrong = written.position_and_dimension_exchanged(range(60), 8)
    assert not judged(written.position_and_dimension_exchanged, range(60), 8)
    p = wrong.astype(np.float64)
    odd = p[9::2]
    assert len(np.unique(odd, axis=0)) == 1
    np.testing.assert_array_equal(odd[0], np.ones(8))
    gram = p @ p.T
    assert np.abs(gram[1:, 1:] - gram[:-1, :-1]).max() > 1
    norms = (p * p).sum(-1)
    assert norms[10] < 2e-18
    assert norms[9] == 8
    # the first feature tells odd from even positions and nothing else
    np.testing.assert_array_equal(p[:, 0], np.arange(60) % 2)


def test_no_rotation_shifts_what_is_printed():
    """P(p + 1) = P(p) R for one R at all p: right for the formula, off by more than 0.1 for the printed one.

    R from 8 positions, tried on the others.
    """
    for p, holds in (
        (sinusoidal(range(40), 8), True),
        (written.position_and_dimension_exchanged(range(40), 8).astype(np.float64), False),
    ):
        rotation, *_ = np.linalg.lstsq(p[:-1], p[1:], rcond=None)
        worst = np.abs(p[:-1] @ rotation - p[1:]).max()
        assert worst < 1e-9 if holds else worst > 0.1


def test_exponent_of_twice_the_dimension():
    """Half of the channels hardly move: over 100 positions by less than 100 · 10000^(−1) = 0.01. And sine and cosine of
    a pair have different frequencies, so that the norm is not constant."""
    wrong = written.exponent_of_twice_the_dimension(range(100), 16).astype(np.float64)
    assert not judged(written.exponent_of_twice_the_dimension, range(100), 16)
    assert np.ptp(wrong[:, 8:], axis=0).max() < 0.01
    assert np.ptp(sinusoidal(range(100), 16)[:, 8::2], axis=0).min() > 0.01
    norms = (wrong * wrong).sum(-1)
    assert np.ptp(norms) > 1


def test_halves_one_after_the_other_is_a_permutation_of_channels():
    """Another layout of the same numbers: a linear map that follows can undo it, and all properties stay."""
    halves = written.halves_one_after_the_other(range(30), 8)
    assert not judged(written.halves_one_after_the_other, range(30), 8)
    order = np.arange(8).reshape(4, 2).T.reshape(-1)
    assert_within(sinusoidal(range(30), 8)[:, order], halves, E)


def test_one_less_in_the_exponent_has_other_sinusoids():
    """k/(D/2 − 1): not this formula, but shifts are still rotations: Toeplitz, norm D/2. And D = 2 divides by zero."""
    wrong = written.one_less_in_the_exponent(range(30), 8)
    assert not judged(written.one_less_in_the_exponent, range(30), 8)
    assert np.abs(wrong - sinusoidal(range(30), 8)).max() > 0.5
    gram = wrong @ wrong.T
    u = unit_roundoff(np.longdouble)
    assert_within(gram[1:, 1:], gram[:-1, :-1], 2 * 8 * 9 * u + 16 * u)
    assert_within(np.diagonal(gram), np.full(30, 4.0), 8 * 9 * u + 8 * u)
    with pytest.raises(ZeroDivisionError):
        written.one_less_in_the_exponent(range(3), 2)


def test_position_along_the_batch_leaves_order_unseen():
    """The same vector for all tokens of a sentence: permuting them permutes the output, as if there were none.

    With the right axis a permutation is noticed: that is the test which finds this mistake.
    """
    x, order = normal(0, (3, 5, FEATURES)), np.array([2, 0, 4, 1, 3])
    wrong = written.position_along_the_batch(x).astype(np.float64)
    moved = written.position_along_the_batch(x[:, order]).astype(np.float64)
    right, right_moved = (SinusoidalPositions()(a) for a in (x, x[:, order]))
    places = np.arange(5)
    limit = rounded_attend(None, wrong[1], places)
    bound = 4 * U * limit.error  # two computations, each with the factor 2 of `tolerance`
    assert_within(attend(None, moved[1], places), attend(None, wrong[1], places)[order], bound[order])
    difference = attend(None, right_moved[1], places) - attend(None, right[1], places)[order]
    assert (np.abs(difference) > bound[order]).any()


# ---- modules


@given(st.integers(1, 4), st.integers(1, 5), real_dtypes, seeds)
def test_sinusoidal_positions_are_added(n, features, dtype, seed):
    x = normal(seed, (2, n, features), dtype)
    y = SinusoidalPositions()(x)
    assert y.dtype == dtype
    assert_same_bits(y, x + sinusoidal(np.arange(n), features, dtype=dtype))
    places = np.random.default_rng(seed).integers(0, 1000, (2, n))
    y = SinusoidalPositions(base=50)(x, places)
    assert_same_bits(y[1], x[1] + sinusoidal(places[1], features, base=50, dtype=dtype))


@given(st.integers(1, 4), st.integers(1, 5), real_dtypes, seeds)
def test_learned_positions_are_rows_of_a_table(n, features, dtype, seed):
    module = LearnedPositions(6, features, rng=generator(seed)).astype(dtype)
    x = normal(seed, (2, n, features), dtype)
    table = module.weight.data
    assert_same_bits(module(x), x + table[:n])
    places = np.random.default_rng(seed).integers(0, 6, (2, n))
    y = module(x, places)
    assert y.dtype == dtype
    assert_same_bits(y, x + table[places])


def test_a_place_that_comes_twice_gets_two_gradients_and_others_none():
    module = LearnedPositions(5, 2, rng=generator())
    _, pullback = ad.vjp(lambda p: module.bind(p)(np.zeros((3, 2)), [2, 0, 2]), module.state_dict())
    bar = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(pullback(bar)[0]["weight"], [bar[1], [0, 0], bar[0] + bar[2], [0, 0], [0, 0]])


def test_learned_positions_start_small():
    """Standard deviation 0.02, to 5 standard deviations √(2/n) of the mean square."""
    table = LearnedPositions(500, 64, rng=generator()).weight.data
    assert abs((table**2).mean() / 0.02**2 - 1) < 5 * np.sqrt(2 / table.size)


def test_beyond_the_table():
    module = LearnedPositions(5, 2, rng=generator())
    message = r"^LearnedPositions: x has N = 6, and length is 5; use a longer table, or SinusoidalPositions, which"
    with pytest.raises(IndexError, match=message):
        module(np.zeros((2, 6, 2)))
    with pytest.raises(IndexError, match=r"^LearnedPositions: places holds -1 at \[1\], and length is 5"):
        module(np.zeros((2, 2)), [0, -1])
