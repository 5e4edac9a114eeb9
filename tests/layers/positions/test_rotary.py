"""Rotary positions: against the angles with 60 digits, both layouts, what a rotation keeps, and caches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import masks
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.positions.rotary import Rotary, half_order, rotate
from refnp.verify.layers import positions as equations
from refnp.verify.rounding import contract, exact, tolerance
from tests.helpers import COMPLEX, REAL, assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.layers.positions.judges import looked_up, rounded_look_up, rounded_sinusoids
from tests.transcriptions import positions as written

both_layouts = pytest.mark.parametrize("layout", ["interleaved", "half"])
layouts = st.sampled_from(["interleaved", "half"])
places = st.lists(st.integers(-100_000, 100_000), min_size=1, max_size=3).map(np.array)


def rounded(x, at, layout):
    return equations.rotate(exact(x), *rounded_sinusoids(at, x.shape[-1]), layout=layout)


@given(places, st.integers(1, 4).map(lambda k: 2 * k), layouts, real_dtypes, seeds)
def test_value_and_gradient(at, width, layout, dtype, seed):
    x = normal(seed, (2, len(at), width), dtype)
    y, pullback = ad.vjp(lambda x: rotate(x, places=at, layout=layout), x)
    limit, rounded_pullback = rounded(x, at, layout)
    assert y.dtype == dtype
    assert_within(y, limit.value, tolerance(limit, dtype))
    for b in range(2):
        assert_within(y[b], written.rotate(x[b], at, layout), tolerance(limit, dtype)[b])
    bar = normal(seed + 1, y.shape, dtype)
    (x_bar,), (bound,) = pullback(bar), rounded_pullback(exact(bar))
    assert x_bar.dtype == dtype
    assert_within(x_bar, bound.value, tolerance(bound, dtype))


@given(places, st.integers(1, 4).map(lambda k: 2 * k), real_dtypes, seeds)
def test_one_layout_is_the_other_with_features_permuted(at, width, dtype, seed):
    """To the last bit: the same products are taken."""
    x, order = normal(seed, (len(at), width), dtype), half_order(width)
    assert_same_bits(rotate(x[:, order], places=at, layout="half"), rotate(x, places=at)[:, order])


def test_the_permutation():
    np.testing.assert_array_equal(half_order(6), [0, 2, 4, 1, 3, 5])
    assert (
        np.abs(rotate(np.ones((2, 4)), places=[0, 1]) - rotate(np.ones((2, 4)), places=[0, 1], layout="half")).max()
        > 0.1
    )


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
    back = equations.rotate(limit, *rounded_sinusoids(-at, 6), layout=layout)[0]
    assert_within(rotate(y, places=-at, layout=layout), x, tolerance(back, np.float64))


@both_layouts
def test_place_0_is_not_turned(layout):
    x = normal(0, (2, 1, 6))
    assert_same_bits(rotate(x, places=[0], layout=layout), x)


@both_layouts
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives(layout, order):
    arrays, run = [normal(i, (2, 2, n, 4)) for i, n in enumerate([3, 4, 4])], (np.arange(3) + 5, np.arange(4))
    check(lambda x: rotate(x, places=run[0], layout=layout), (arrays[0],))
    check(lambda *a: looked_up(Rotary(layout=layout), *a, *run), arrays, order=order)


@both_layouts
def test_keys_are_turned_at_their_own_place_so_that_a_cache_works(layout):
    """Keys turned one at a time, when they come, are those of the whole, to the last bit; and so is the last row."""
    scheme, (query, key, value), run = Rotary(layout=layout), [normal(i, (2, 18, 4)) for i in range(3)], np.arange(18)
    one_by_one = [scheme.rotated(key[:, p : p + 1], np.array([p])) for p in run]
    assert_same_bits(np.concatenate(one_by_one, 1), scheme.rotated(key, run))
    limit, _ = rounded_look_up(scheme, *map(exact, (query[:, 17:], key, value)), run[17:], run)
    whole = looked_up(scheme, query, key, value, run, run, masks.causal(18))
    one = looked_up(scheme, query[:, 17:], key, value, run[17:], run)
    assert_within(one, whole[:, 17:], 2 * tolerance(limit, np.float64))


@both_layouts
def test_in_multi_head_attention(layout):
    scheme, x, run = Rotary(layout=layout), normal(0, (2, 5, 8)), np.arange(5)
    module = MultiHeadAttention(8, 2, positions=scheme, rng=np.random.default_rng(0))
    assert {name.split(".")[0] for name, _ in module.named_parameters()} == {"query", "key", "value", "output"}
    heads = [a.reshape(2, 5, 2, 4).swapaxes(1, 2) for a in (f(x) for f in (module.query, module.key, module.value))]
    by_hand = looked_up(scheme, *heads, run, run, masks.causal(5)).swapaxes(1, 2).reshape(2, 5, 8)
    # attention with its weights takes one product less in its backward pass; the forward pass is the same
    assert_same_bits(module(x, mask=masks.causal(5)), module.output(by_hand))
    check(lambda x, p: module.bind(p)(x), (x, module.state_dict()))


def test_matches_torch_by_complex_numbers():
    """LLaMA's form: pairs as complex numbers times e^{i p ω}, angles in float64, where small places need no more."""
    torch = pytest.importorskip("torch")
    x, at, bar = normal(0, (2, 5, 8)), np.arange(5), normal(1, (2, 5, 8))
    leaf = torch.tensor(x, requires_grad=True)
    angles = torch.outer(torch.tensor(at, dtype=torch.float64), 10000.0 ** (-torch.arange(0, 8, 2) / 8.0).double())
    turned = torch.view_as_complex(leaf.reshape(2, 5, 4, 2)) * torch.polar(torch.ones_like(angles), angles)
    y = torch.view_as_real(turned).reshape(2, 5, 8)
    y.backward(torch.tensor(bar))
    ours, pullback = ad.vjp(lambda x: rotate(x, places=at), x)
    limit, rounded_pullback = rounded(x, at, "interleaved")
    assert_within(ours, y.detach().numpy(), 2 * tolerance(limit, np.float64))
    (bound,) = rounded_pullback(exact(bar))
    assert_within(pullback(bar)[0], leaf.grad.numpy(), 2 * tolerance(bound, np.float64))


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_dtype_is_kept(dtype):
    y, pullback = ad.vjp(lambda x: rotate(x, places=[0, 7]), normal(0, (2, 4), dtype))
    assert y.dtype == pullback(y)[0].dtype == dtype


def test_empty_sequences():
    assert rotate(np.zeros((2, 0, 4)), places=[]).shape == (2, 0, 4)


@pytest.mark.parametrize(
    ("x", "at", "options", "error", "message"),
    [
        (np.zeros((3, 5)), [0, 1, 2], {}, ValueError, r"rotate: x has shape \(3, 5\); it must be \(..., tokens, fea"),
        (np.zeros(4), [0], {}, ValueError, r"rotate: x has shape \(4,\); it must be"),
        (np.zeros((3, 4)), [0, 1], {}, ValueError, r"rotate: 2 places for 3 tokens; there must be one for each"),
        (np.zeros((1, 4)), [0.5], {}, TypeError, r"rotate: places are float64; pass integers"),
        (np.zeros((1, 4)), [0], {"layout": "split"}, ValueError, r"rotate: layout is 'split'; use 'interleaved' or"),
        (np.zeros((1, 4)), [0], {"base": 0}, ValueError, r"sinusoids: features 4 and base 0 must be at least 1, and"),
    ],
)  # fmt: skip
def test_errors(x, at, options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        rotate(x, places=at, **options)


def test_an_unknown_layout_is_noticed_at_once():
    with pytest.raises(ValueError, match=r"^Rotary: layout is 'neox'; use 'interleaved' or 'half'$"):
        Rotary(layout="neox")
