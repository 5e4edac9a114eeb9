"""The cache gives back what it was given, however it came, and attention over it is attention over the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import masks
from refnp.layers.key_value_cache import KeyValueCache
from refnp.layers.multi_head import MultiHeadAttention
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.layers.test_multi_head import rounded

pieces = st.lists(st.one_of(st.integers(0, 9), st.just(40)), min_size=1, max_size=6)  # 40: more than twice the room


@given(pieces, real_dtypes, seeds)
def test_it_returns_all_that_came(lengths, dtype, seed):
    cache, rng = KeyValueCache(), np.random.default_rng(seed)
    keys, values = (rng.normal(size=(2, 3, sum(lengths), width)).astype(dtype) for width in (4, 5))
    end = 0
    for n in lengths:
        part = slice(end, end + n)
        key, value = cache.extend(keys[..., part, :], values[..., part, :])
        end += n
        assert cache.length == end
        assert_same_bits(key, keys[..., :end, :])
        assert_same_bits(value, values[..., :end, :])


def test_many_tokens_are_copied_few_times():
    """Room doubles: 1000 single tokens need log₂(1000/16) + 1 < 8 new rooms."""
    cache, rooms = KeyValueCache(), set()
    for i in range(1000):
        key, _ = cache.extend(np.full((1, 1, 1, 2), i), np.zeros((1, 1, 1, 2)))
        rooms.add(key.base.shape[-2])
    assert len(rooms) < 8
    assert_same_bits(key[0, 0, :, 0], np.arange(1000))


def test_rows_in_a_new_order():
    cache = KeyValueCache()
    key = normal(0, (3, 2, 4, 5))
    cache.extend(key, key)
    cache.reorder(np.array([2, 2, 0, 1]))
    again, _ = cache.extend(np.zeros((4, 2, 0, 5)), np.zeros((4, 2, 0, 5)))
    assert_same_bits(again, key[[2, 2, 0, 1]])
    cache.reorder(np.arange(2))
    assert_same_bits(cache.extend(*[np.zeros((2, 2, 0, 5))] * 2)[0], key[[2, 2]])


def test_rows_in_the_order_of_before_are_not_copied():
    cache, key = KeyValueCache(), normal(0, (3, 2, 4, 5))
    cache.reorder(np.array([1, 0]))  # nothing is there yet
    before, _ = cache.extend(key, key)
    cache.reorder(np.arange(3))
    after, _ = cache.extend(*[np.zeros((3, 2, 0, 5))] * 2)
    assert after.base is before.base


@given(pieces, st.sampled_from([1, 2]), real_dtypes, seeds)
def test_attention_piece_by_piece_is_causal_attention_at_once(lengths, key_heads, dtype, seed):
    """Each piece within the bound of the equation of the whole."""
    n = sum(lengths)
    module = MultiHeadAttention(6, 2, key_heads=key_heads, rng=np.random.default_rng(seed)).astype(dtype)
    x, cache, outputs, end = normal(seed, (2, n, 6), dtype), KeyValueCache(), [], 0
    with ad.no_grad():
        for m in lengths:
            new = x[:, end : end + m]
            end += m
            seen = cache.extend(*module.keys_and_values(new, new))
            mask = masks.causal(m, end, align="bottom_right")
            outputs.append(module(new, *seen, projected=True, mask=mask))
    if key_heads == 2:
        limit, _ = rounded(module, x, x, x, np.broadcast_to(masks.causal(n), (2, n, n)))
        assert_within(np.concatenate(outputs, 1), limit.value, tolerance(limit, dtype))
    else:
        repeated, state = MultiHeadAttention(6, 2, rng=np.random.default_rng(0)).astype(dtype), module.state_dict()
        for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
            state[name] = np.concatenate([state[name], state[name]], -1)
        repeated.load_state_dict(state)
        limit, _ = rounded(repeated, x, x, x, np.broadcast_to(masks.causal(n), (2, n, n)))
        assert_within(np.concatenate(outputs, 1), limit.value, tolerance(limit, dtype))


def test_a_gradient_would_be_lost():
    module, cache, x = MultiHeadAttention(4, 2, rng=np.random.default_rng(0)), KeyValueCache(), normal(0, (1, 2, 4))
    with pytest.raises(RuntimeError, match="no_grad"):
        cache.extend(*module.keys_and_values(ad.Tensor(x), x))
    assert cache.length == 0
    with ad.no_grad():  # a leaf needs a gradient there too, and gets none
        cache.extend(*[ad.Tensor(np.ones((1, 2, 3, 2)), requires_grad=True)] * 2)
    assert cache.length == 3


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ((3, 2, 1, 5), (2, 2, 1, 5), "the axes in front of key (3, 2, 1, 5) and value (2, 2, 1, 5) do not broadcast"),
        ((2, 2, 1, 4), (2, 2, 1, 5), "key is float64 of shape (2, 2, 1, 4), which does not"),
        ((2, 2, 1, 5), (2, 2, 1, 4), "value is float64 of shape"),
        ((2, 2, 1, 5), (2, 1, 1, 5), "value is float64 of shape"),
        ((5,), (2, 2, 1, 5), "key has shape (5,); it must be (..., n, d)"),
        ((2, 2, 2, 5), (2, 2, 1, 5), "and key has n = 2"),
    ],
)
def test_what_does_not_continue_is_refused_and_nothing_changes(key, value, message):
    cache = KeyValueCache()
    cache.extend(np.ones((2, 2, 3, 5)), np.ones((2, 2, 3, 5)))
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        cache.extend(np.zeros(key), np.zeros(value))
    for array in cache.extend(*[np.ones((2, 2, 1, 5))] * 2):
        assert_same_bits(array, np.ones((2, 2, 4, 5)))


def test_a_first_call_that_fails_leaves_an_empty_cache():
    cache = KeyValueCache()
    with pytest.raises(ValueError, match="and key has n = 2"):
        cache.extend(np.ones((2, 2, 2, 5)), np.ones((2, 2, 1, 5)))
    with pytest.raises(ValueError, match=r"key has shape \(5,\); it must be \(..., n, d\)"):
        cache.extend(np.ones(5), np.ones(5))
    key, _ = cache.extend(np.ones((3, 1, 2, 4), np.float32), np.ones((3, 1, 2, 4), np.float32))
    assert (key.shape, key.dtype, cache.length) == ((3, 1, 2, 4), np.float32, 2)


@pytest.mark.parametrize(("before", "now"), [(np.float32, np.float64), (np.float64, complex), (np.float64, np.float32)])
def test_another_precision_is_refused(before, now):
    """Silently the tokens would lose digits, or their imaginary parts."""
    cache = KeyValueCache()
    cache.extend(*[np.ones((1, 2, 3, 5), before)] * 2)
    with pytest.raises(ValueError, match=rf"key is {np.dtype(now)} .* continue {np.dtype(before)} of shape"):
        cache.extend(*[np.ones((1, 2, 1, 5), now)] * 2)
