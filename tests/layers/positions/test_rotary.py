"""Rotary positions: against the angles with 60 digits, both layouts, what a rotation keeps, and caches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers.module import on_tape
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.positions.absolute import sinusoids
from refnp.layers.positions.relative import Shaw
from refnp.layers.positions.rotary import Rotary, half_order, rotate
from refnp.numbers.rounding import WIDE, contract, exact, tolerance
from refnp.verify.propagation import bounded
from tests.helpers import REAL, assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.layers.positions.judges import looked_up, rounded_look_up, rounded_rotation, rounded_sinusoids
from tests.transcriptions import positions as written

both_layouts = pytest.mark.parametrize("layout", ["interleaved", "half"])
layouts = st.sampled_from(["interleaved", "half"])
places = st.lists(st.integers(-100_000, 100_000), min_size=1, max_size=3).map(np.array)


def rounded(x, at, layout):
    return rounded_rotation(exact(x), *rounded_sinusoids(at, x.shape[-1]), layout=layout)


@given(places, st.integers(1, 3).map(lambda k: 2 * k), st.integers(0, 3), layouts, real_dtypes, seeds)
def test_the_first_features_only(at, features, others, layout, dtype, seed):
    """The others keep their bits, and the first are those of a head that has no others."""
    x = normal(seed, (2, len(at), features + others), dtype)
    y, pullback = ad.vjp(lambda x: rotate(x, places=at, layout=layout, features=features), x)
    sines = rounded_sinusoids(at, features)
    limit, rounded_pullback = rounded_rotation(exact(x), *sines, layout=layout)
    for b in range(2):
        assert_within(y[b], written.rotate(x[b], at, layout, features=features), tolerance(limit, dtype)[b])
    bar = normal(seed + 1, y.shape, dtype)
    (x_bar,), (bound,) = pullback(bar), rounded_pullback(exact(bar))
    assert y.dtype == x_bar.dtype == dtype
    assert_within(x_bar, bound.value, tolerance(bound, dtype))
    assert_same_bits(y[..., features:], x[..., features:])
    assert_same_bits(x_bar[..., features:], bar[..., features:])
    assert_same_bits(y[..., :features], rotate(x[..., :features], places=at, layout=layout))


@both_layouts
def test_places_for_each_sequence(layout):
    """Each sequence is rotated as it would be alone; with heads or without, and as a gradient."""
    at = np.array([[0, 1, 2], [7, 5, 100_000]])
    for shape in ((2, 3, 6), (2, 4, 3, 6)):
        x = normal(0, shape)
        y, pullback = ad.vjp(lambda x: rotate(x, places=at, layout=layout, features=4), x)
        for b in range(2):
            alone, alone_pullback = ad.vjp(lambda x, b=b: rotate(x, places=at[b], layout=layout, features=4), x[b])
            assert_same_bits(y[b], alone)
            assert_same_bits(pullback(x)[0][b], alone_pullback(x[b])[0])


@both_layouts
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("per_sequence", [False, True])
def test_given_sines_and_cosines(layout, dtype, per_sequence):
    """Any numbers, not only those of a rotation: then the gradient is the transpose, not the inverse."""
    x = normal(0, (2, 3, 5), dtype)
    sines, cosines = normal(1, (2, 2, 3, 2) if per_sequence else (2, 3, 2), dtype)
    y, pullback = ad.vjp(lambda x: rotate(x, sines=sines, cosines=cosines, features=4, layout=layout), x)
    limit, rounded_pullback = rounded_rotation(exact(x), exact(sines), exact(cosines), layout=layout)
    for b in range(2):
        rows = (sines[b], cosines[b]) if per_sequence else (sines, cosines)
        assert_within(y[b], written.rotate_by(x[b], *rows, layout), tolerance(limit, dtype)[b])
    bar = normal(2, y.shape, dtype)
    (bound,) = rounded_pullback(exact(bar))
    assert_within(pullback(bar)[0], bound.value, tolerance(bound, dtype))
    check(lambda x: rotate(x, sines=sines, cosines=cosines, features=4, layout=layout), (x,))


def test_tables_are_brought_to_the_dtype():
    x, (sines, cosines) = normal(0, (3, 4), np.float32), normal(1, (2, 3, 2))
    y = rotate(x, sines=sines, cosines=cosines)
    assert y.dtype == np.float32
    assert_same_bits(y, rotate(x, sines=sines.astype(np.float32), cosines=cosines.astype(np.float32)))
    assert rotate(x.astype(complex), sines=sines, cosines=cosines).dtype == complex


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("dim", [0, 4])
@pytest.mark.parametrize("with_places", [False, True])
def test_is_rotary_embedding_of_onnx(interleaved, dim, with_places):
    x, layout = normal(0, (2, 3, 4, 8)), "interleaved" if interleaved else "half"
    at = np.array([[5, 0, 1, 9], [2, 2, 3, 0]]) if with_places else None
    cosines, sines = normal(1, (2, 10, (dim or 8) // 2) if with_places else (2, 2, 4, (dim or 8) // 2))
    y = rotate(x, places=at, sines=sines, cosines=cosines, layout=layout, features=dim or None)
    right = written.onnx_rotary_embedding(x, cosines, sines, at, interleaved=interleaved, rotary_embedding_dim=dim)
    rows = [t[at][:, None] if with_places else t[:, None] for t in (sines, cosines)]
    limit, _ = rounded_rotation(exact(x), *map(exact, rows), layout=layout)
    assert_within(y, right, tolerance(limit, np.float64))


def test_tables_of_the_angles_are_the_places_themselves():
    sines, cosines = sinusoids(np.arange(50), 6)
    x, at = normal(0, (2, 3, 6)), np.array([3, 49, 0])
    assert_same_bits(rotate(x, places=at, sines=sines, cosines=cosines), rotate(x, places=at))


@given(places, st.integers(1, 4).map(lambda k: 2 * k), real_dtypes, seeds)
def test_one_layout_is_the_other_with_features_permuted(at, width, dtype, seed):
    """To the last bit: the same products are taken."""
    x, order = normal(seed, (len(at), width), dtype), half_order(width)
    assert_same_bits(rotate(x[:, order], places=at, layout="half"), rotate(x, places=at)[:, order])


def test_a_model_changes_its_layout_by_permuting_columns():
    """Query and key maps with permuted columns, layout "half": the same attention. Unpermuted, another."""
    x, run, order = normal(0, (2, 5, 4)), np.arange(5), half_order(4)
    maps = [normal(i, (4, 4)) for i in (1, 2, 3)]
    permuted = [maps[0][:, order], maps[1][:, order], maps[2]]
    y, same, other = (
        looked_up(Rotary(layout=layout), *(x @ w for w in given_maps), run, run)
        for layout, given_maps in (("interleaved", maps), ("half", permuted), ("half", maps))
    )
    limit, _ = rounded_look_up(Rotary(), *(contract("bni,ij->bnj", exact(x), exact(w)) for w in maps), run, run)
    assert_within(same, y, 2 * tolerance(limit, np.float64))
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(other, y, 2 * tolerance(limit, np.float64))


@given(st.integers(-50_000, 50_000), st.integers(-50_000, 50_000), st.integers(-50_000, 50_000), layouts, seeds)
def test_scores_depend_on_the_difference_of_places(i, j, s, layout, seed):
    """(R_i q)·(R_j k) = (R_{i+s} q)·(R_{j+s} k), each within the bound of the exact product."""
    q, k = normal(seed, (1, 6)), normal(seed + 1, (1, 6))

    def score(i, j):
        limit = (rounded(q, np.array([i]), layout)[0] * rounded(k, np.array([j]), layout)[0]).sum(-1)
        value = (rotate(q, places=[i], layout=layout) * rotate(k, places=[j], layout=layout)).sum(-1)
        return value, tolerance(limit, np.float64)

    (here, limit), (there, other_limit) = score(i, j), score(i + s, j + s)
    assert_within(there, here, limit + other_limit)


@given(places, layouts, seeds)
def test_a_rotation_keeps_lengths_and_turns_back(at, layout, seed):
    x = normal(seed, (len(at), 6))
    y = rotate(x, places=at, layout=layout)
    limit = rounded(x, at, layout)[0]
    squares = (limit * limit).sum(-1)
    assert_within((y * y).sum(-1), (x.astype(np.longdouble) ** 2).sum(-1), tolerance(squares, np.float64))
    back = rounded_rotation(limit, *rounded_sinusoids(-at, 6), layout=layout)[0]
    assert_within(rotate(y, places=-at, layout=layout), x, tolerance(back, np.float64))


@both_layouts
def test_keys_are_turned_at_their_own_place_so_that_a_cache_works(layout):
    """Keys turned one at a time, when they come, are those of the whole, to the last bit."""
    scheme, key, run = Rotary(layout=layout), normal(0, (2, 18, 4)), np.arange(18)
    one_by_one = [scheme.rotated(key[:, p : p + 1], np.array([p])) for p in run]
    assert_same_bits(np.concatenate(one_by_one, 1), scheme.rotated(key, run))


def test_partial_in_multi_head_attention_with_places_for_each_sequence():
    """Two sequences at once, each at its own places, are the two alone; Shaw's vectors take one row of places."""
    scheme, x = Rotary(features=2, layout="half"), normal(0, (2, 5, 8))
    at = np.array([np.arange(5), np.arange(5) * 3 + 7])
    module = MultiHeadAttention(8, 2, positions=scheme, rng=np.random.default_rng(0))
    both = module(x, query_places=at, key_places=at)
    wide = MultiHeadAttention(8, 2, positions=scheme, rng=np.random.default_rng(0)).astype(WIDE)
    with on_tape():
        (limit,) = bounded([wide(x.astype(WIDE), query_places=at, key_places=at)])
    allowed = tolerance(limit, np.float64)
    for b in range(2):
        for found in (both[b], module(x[b], query_places=at[b], key_places=at[b])):
            assert_within(found, limit.value[b], allowed[b])
    check(lambda x, p: module.bind(p)(x, query_places=at, key_places=at), (x, module.state_dict()))
    other = MultiHeadAttention(8, 2, positions=Shaw(4, 2, rng=np.random.default_rng(0)), rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"Shaw.scores: query_places has shape \(2, 5\); it must be \(N, \*place\)"):
        other(x, query_places=at, key_places=at)


@pytest.mark.parametrize(
    ("x", "at", "options", "error", "message"),
    [
        (np.zeros((3, 4)), [[0, 1, 2]], {}, ValueError, r"rotate: places have shape \(1, 3\) and x \(3, 4\);"),
        (np.zeros((2, 3, 4)), [[0, 1, 2]] * 3, {}, ValueError, r"rotate: places have shape \(3, 3\) and x \(2, 3, 4\)"),
        (np.zeros((1, 4)), [5], {"sines": np.zeros((5, 2)), "cosines": np.zeros((5, 2))}, ValueError,
         r"rotate: place 5 is not in sines of 5 rows; pass longer tables"),
        (np.zeros((1, 4)), None, {"sines": np.zeros((2, 2)), "cosines": np.zeros((2, 2))}, ValueError,
         r"rotate: sines have shape \(2, 2\) and x \(1, 4\); pass one row for each token, \(N, …\)"),
        (np.zeros((1, 4)), [0], {"sines": np.zeros((1, 1, 2)), "cosines": np.zeros((1, 1, 2))}, ValueError,
         r"rotate: sines have shape \(1, 1, 2\); with places pass a table \(rows, columns\)"),
    ],
)  # fmt: skip
def test_errors(x, at, options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        rotate(x, places=at, **options)
