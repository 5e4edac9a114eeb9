"""Attentive neural processes: the block and its two scalings, CANP and ANP, and what each target finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.models.attentive import AttentionBlock
from refnp.models.neural_process import CNP
from refnp.numbers.rounding import tolerance
from tests.helpers import REAL, assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.models.helpers import generator, predict, rounded, shaken
from tests.models.rows import ROWS
from tests.transcriptions import neural_processes as transcription

both = pytest.mark.parametrize("kind", ["CANP", "ANP"])


def small(kind, **options):
    return ROWS[kind].make(options)


# ---- the block


def block_problem(seed, n, m, dtype=np.float64):
    arrays = [normal(seed + i, (2, length, 4), dtype) for i, length in enumerate((n, m, m))]
    return arrays, generator(seed).random((2, m)) < 0.7


@given(
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["head", "features"]),
    real_dtypes,
    seeds,
)
def test_block(n, m, heads, scaling, dtype, seed):
    block = shaken(AttentionBlock(4, heads, scaling=scaling, rng=generator())).astype(dtype)
    arrays, mask = block_problem(seed, n, m, dtype)
    limit = rounded(block, *arrays, mask[:, None, :])
    found = block(*arrays, mask[:, None, :])
    assert found.dtype == dtype
    assert_within(raw(found), limit.value, tolerance(limit, dtype))


@pytest.mark.parametrize("scaling", ["head", "features"])
@pytest.mark.parametrize("dtype", REAL)
def test_block_number_by_number(scaling, dtype):
    block = shaken(AttentionBlock(4, 2, scaling=scaling, rng=generator())).astype(dtype)
    arrays, mask = block_problem(0, 3, 4, dtype)
    limit = tolerance(rounded(block, *arrays, mask[:, None, :]), dtype)
    state = {f"block.{name}": value for name, value in block.state_dict().items()}
    for b in range(2):
        query, key, value = (a[b] for a in arrays)
        expected = transcription.block(query, key[mask[b]], value[mask[b]], state, "block", 2, scaling)
        assert_within(raw(block(*arrays, mask[:, None, :]))[b], expected, limit[b])


def test_the_two_scalings_differ_by_the_root_of_the_heads():
    """√16 and √128 for 8 heads on 128 features: queries √8 times as large make one of the other. One head: the same."""
    arrays = [normal(i, (1, n, 128)) for i, n in enumerate((3, 5, 5))]
    head, features = (AttentionBlock(128, 8, scaling=s, rng=generator()) for s in ("head", "features"))
    limit = tolerance(rounded(head, *arrays), np.float64)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(raw(features(*arrays)), raw(head(*arrays)), 1e6 * limit)
    one, other = (AttentionBlock(128, 1, scaling=s, rng=generator()) for s in ("head", "features"))
    limit = tolerance(rounded(one, *arrays), np.float64)
    assert_within(raw(other(*arrays)), raw(one(*arrays)), 2 * limit)

    def scores(block):
        """What the softmax is taken of, for the first head."""
        q, k = (raw(linear(a))[0, :, :16] for linear, a in ((block.query, arrays[0]), (block.key, arrays[1])))
        return q @ k.T / (16 if block.scaling == "head" else 128) ** 0.5

    np.testing.assert_allclose(scores(head), 8**0.5 * scores(features), rtol=1e-14)


def test_a_query_that_sees_nothing_is_answered_without_an_answer():
    """u = LN(q): finite, and the same whatever is hidden."""
    block, (arrays, _) = shaken(AttentionBlock(4, 2, rng=generator())), block_problem(0, 3, 4)
    nothing = np.zeros((2, 1, 4), bool)
    found = raw(block(*arrays, nothing))
    u = block.first_norm(block.query(arrays[0]))
    expected = block.second_norm(u + np.maximum(raw(block.output(u)), 0))
    assert_same_bits(found, raw(expected))
    assert_same_bits(raw(block(arrays[0], np.full((2, 4, 4), np.nan), np.full((2, 4, 4), np.nan), nothing)), found)


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_the_block(order):
    block, (arrays, mask) = shaken(AttentionBlock(4, 2, scaling="features", rng=generator())), block_problem(0, 2, 3)

    def f(parameters, *arrays):
        return block.bind(parameters)(*arrays, mask[:, None, :])

    assert check(f, (block.state_dict(), *arrays), order=order, max_elements=8).method == "complex step"


# ---- what they look at, and what not


@both
def test_all_points_twice_change_nothing(kind):
    """A softmax over every key twice halves each weight and has twice as many."""
    model = small(kind)
    x, y, target_x = (normal(i, (1, n, 1)) for i, n in enumerate((3, 3, 2)))
    twice = [np.concatenate([a, a], 1) for a in (x, y)]
    draws = ROWS[kind].draws(model, np.ones((1, 3), bool), 0)
    found, limits = predict(model, *twice, target_x, **draws), rounded(predict, model, *twice, target_x, **draws)
    for value, reference, limit in zip(found, predict(model, x, y, target_x, **draws), limits, strict=True):
        assert_within(value, reference, 2 * tolerance(limit, np.float64))


def test_a_target_looks_where_it_stands():
    """With the same context in sum, a CNP says the same at x whatever lies near it; a CANP does not.

    The pairs are exchanged in y: (0, a), (1, b) → (0, b), (1, a), with φ that adds x and y up: the mean stays.
    """
    first, second = (np.array([[[a], [b]]]) for a, b in ((1.0, -1.0), (-1.0, 1.0)))
    x, target_x = np.array([[[0.0], [1.0]]]), np.array([[[0.0]]])
    additive = {"before": 1, "after": 2}
    cnp = CNP(hidden=4, **additive, rng=generator())
    mean, _ = rounded(predict, cnp, x, first, target_x, np.ones((1, 2), bool))
    difference = raw(cnp(x, first, target_x).mean) - raw(cnp(x, second, target_x).mean)
    assert_within(difference, np.zeros((1, 1, 1)), 2 * tolerance(mean, np.float64))
    canp = small("CANP")
    assert abs(raw(canp(x, first, target_x).mean) - raw(canp(x, second, target_x).mean)) > 1e-3


# ---- errors
