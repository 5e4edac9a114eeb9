"""Shaw's relative positions: against the equation pair by pair, skewed and gathered, at any places, in heads."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers.positions.relative import Shaw
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import assert_same_bits, assert_within, generator, normal, real_dtypes, seeds
from tests.layers.positions.judges import at_random, looked_up, rounded_look_up
from tests.transcriptions import positions as written


def problem(n, m, d=3, dtype=np.float64, seed=0, batch=()):
    """Query (..., n, d), key and value (..., m, d)."""
    return [normal(seed + i, (*batch, length, d), dtype) for i, length in enumerate([n, m, m])]


def shaw(d=3, distance=2, dtype=np.float64, seed=0, **options):
    return at_random(Shaw(d, distance, rng=generator(), **options), seed).astype(dtype)


places_of = {
    "the same run": lambda n, m, rng: (np.arange(n), np.arange(m)),
    "runs that start elsewhere": lambda n, m, rng: (rng.integers(-20, 20) + np.arange(n), np.arange(m) - 3),
    "any integers": lambda n, m, rng: (rng.integers(-9, 9, n), rng.integers(-9, 9, m)),
    "backwards": lambda n, m, rng: (np.arange(n)[::-1], np.arange(m)),
}


@given(
    st.sampled_from(sorted(places_of)), st.integers(1, 5), st.integers(1, 5), st.integers(0, 4), st.booleans(),
    real_dtypes, seeds,
)  # fmt: skip
def test_value_and_every_gradient(kind, n, m, distance, masked, dtype, seed):
    """Within the bound of the direct form, which has a vector for every pair; the value also index by index."""
    rng = generator(seed)
    places, mask = places_of[kind](n, m, rng), rng.random((n, m)) < 0.7 if masked else None
    scheme, arrays = shaw(3, distance, dtype, seed), problem(n, m, 3, dtype, seed + 9)
    rounded, rounded_pullback = rounded_look_up(scheme, *map(exact, arrays), *places, mask)

    def f(query, key, value, state):
        return looked_up(scheme.bind(state), query, key, value, *places, mask)

    y, pullback = ad.vjp(f, *arrays, scheme.state_dict())
    assert y.dtype == dtype
    assert_within(y, rounded.value, tolerance(rounded, dtype))
    direct = written.shaw(*arrays, scheme.key.data, scheme.value.data, *places, distance, mask)
    assert_within(y, direct, tolerance(rounded, dtype))
    bar = normal(seed + 20, y.shape, dtype)
    *bars, state_bar = pullback(bar)
    for gradient, other in zip([*bars, *state_bar.values()], rounded_pullback(exact(bar)), strict=True):
        assert gradient.dtype == dtype
        assert_within(gradient, other.value, tolerance(other, dtype))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 5), st.integers(-8, 8), st.booleans(), seeds)
def test_skewed_is_gathered(n, m, distance, start, per_head, seed):
    """The skewing trick reads the very numbers that a gather reads: scores have the same bits.

    Terms of values are added up in another order, and so are equal here because they are integers.
    """
    scheme = Shaw(2, distance, heads=3 if per_head else None, rng=generator())
    for parameter in scheme.parameters():
        parameter.data = generator(seed).integers(-5, 5, parameter.shape).astype(float)
    query, weights = (generator(seed + 1).integers(-5, 5, (2, 3, n, k)).astype(float) for k in (2, m))
    runs = start + np.arange(n), np.arange(m)
    back = runs[0][::-1], runs[1]  # not a run if there are two or more
    assert_same_bits(
        scheme.scores(query, *runs).numpy()[..., ::-1, :], scheme.scores(query[..., ::-1, :], *back).numpy()
    )
    t, t_back = scheme.values(weights, *runs), scheme.values(weights[..., ::-1, :], *back)
    np.testing.assert_array_equal(t.numpy()[..., ::-1, :], t_back.numpy())


def test_memory_is_that_of_scores_not_of_vectors_for_pairs():
    """256 tokens, width 64: an array (N, M, d) has 64 times the scores. A training step takes 8 times; 12 may be."""
    n, d = 256, 64
    scheme, (query, key, value) = shaw(d, 16), problem(n, n, d)
    run = np.arange(n)
    leaf = ad.Tensor(query, requires_grad=True)
    tracemalloc.start()
    looked_up(scheme, leaf, key, value, run, run).sum().backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * n * n * 8


# ---- errors
