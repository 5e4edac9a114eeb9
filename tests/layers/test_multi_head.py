"""Multi-head attention: Sivaraya (2023), eq. 6, with the heads side by side, what is printed there, and PyTorch's."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.layers import masks
from refnp.layers.multi_head import MultiHeadAttention, merge_heads, split_heads
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.relative import Shaw
from refnp.layers.positions.rotary import Rotary
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import multi_head as equations
from refnp.verify.layers.multi_head import NAMES
from tests.helpers import REAL, assert_same_bits, assert_within, check, generator, normal
from tests.layers.positions.judges import self_attention
from tests.models.helpers import assert_judged
from tests.transcriptions import rows as written
from tests.transcriptions import transformer as printed


def rounded(module, query, key, value, mask=None, bias=None, per_head=False):
    """The equation in numbers that carry their rounding: (y, pullback), pullback in the order of `in_order`."""
    state = module.state_dict()
    parameters = [state[name] for name in parameter_names(module)]
    given = (query, key, value, *(() if bias is None else (bias,)), *parameters)
    equation = equations.multi_head if bias is None else equations.biased_multi_head
    return equation(*map(exact, given), heads=module.heads, mask=mask, per_head=per_head)


def parameter_names(module):
    """Those of NAMES that the module has, as it calls them."""
    names = [".".join(reversed(name.split("_"))) for name in NAMES]
    return [name for name in names if name in module.state_dict()]


# ---- eq. 6 as printed: square maps in each head, of any width


def shared(features, heads, key_width, value_width, **options):
    return MultiHeadAttention(
        features, heads, key_width=key_width, value_width=value_width, rng=generator(1), **options
    )


@pytest.mark.parametrize(("heads", "d_k", "d_v"), [(1, 4, 5), (3, 4, 5), (3, 8, 1), (4, 1, 7)])
@pytest.mark.parametrize("dtype", REAL)
def test_equation_6_as_printed_index_by_index(heads, d_k, d_v, dtype):
    """Q = X W_q, K = X W_k, V = X W_v; H^(i) = Attention(Q W_q^(i), K W_k^(i), V W_v^(i)) with square W^(i)."""
    module, x = shared(5, heads, d_k, d_v, bias=False).astype(dtype), normal(0, (4, 5), dtype)
    state = module.state_dict()
    assert {name: array.shape for name, array in state.items()} == {
        "query.weight": (d_k, heads * d_k),
        "key.weight": (d_k, heads * d_k),
        "value.weight": (d_v, heads * d_v),
        "output.weight": (heads * d_v, 5),
        "query_projection.weight": (5, d_k),
        "key_projection.weight": (5, d_k),
        "value_projection.weight": (5, d_v),
    }
    q, k, v = (written.linear(x, state[f"{role}_projection.weight"]) for role in ("query", "key", "value"))
    parts = []
    for i in range(heads):
        squares = [state[f"{role}.weight"][:, i * d : (i + 1) * d]
                   for role, d in (("query", d_k), ("key", d_k), ("value", d_v))]  # fmt: skip
        assert all(w.shape[0] == w.shape[1] for w in squares)
        h, _ = written.attention(*(written.linear(a, w) for a, w in zip((q, k, v), squares, strict=True)))
        assert h.shape == (4, d_v)
        parts.append(h)
    by_hand = written.linear(np.concatenate(parts, -1), state["output.weight"])
    limit, _ = equations.shared_multi_head(*map(exact, (x, x, x, *state.values())), heads=heads)
    assert_within(module(x), by_hand, tolerance(limit, dtype))


def test_shared_maps_side_by_side_have_the_rank_of_the_shared_one():
    """Each head's W_q W_q^(i) is one matrix (D, d_k); those of h heads have rank d_k, and without sharing h d_k."""
    module, state = shared(8, 3, 2, 2, bias=False), shared(8, 3, 2, 2, bias=False).state_dict()
    for role in ("query", "key", "value"):
        product = state[f"{role}_projection.weight"] @ state[f"{role}.weight"]
        assert product.shape == (8, 6)
        assert np.linalg.matrix_rank(product) == 2
    free = MultiHeadAttention(8, 3, head_features=2, bias=False, rng=generator(1))
    assert np.linalg.matrix_rank(free.query.weight.data) == 6
    products = {name: state[f"{name.split('.')[0]}_projection.weight"] @ array if "output" not in name else array
                for name, array in state.items() if "projection" not in name}  # fmt: skip
    free.load_state_dict(products)
    x = normal(0, (4, 8))
    limit, _ = equations.shared_multi_head(*map(exact, (x, x, x, *state.values())), heads=3)
    assert_within(free(x), module(x), 2 * tolerance(limit, np.float64))


def test_shared_maps_and_every_way_to_call_it():
    """Positions, grouped heads, weights of heads, and keys and values that are kept."""
    module = shared(6, 4, 2, 3, key_heads=2, positions=Rotary())
    x, mask = normal(0, (2, 5, 6)), masks.causal(5)
    y, weights = module(x, mask=mask, return_weights=True)
    assert (y.shape, weights.shape) == ((2, 5, 6), (2, 4, 5, 5))
    kept = module.keys_and_values(x, x)
    assert [np.shape(array) for array in kept] == [(2, 2, 5, 2), (2, 2, 5, 3)]
    with ad.no_grad():
        assert_same_bits(np.asarray(module(x, *kept, projected=True, mask=mask)), module(x, mask=mask))
    check(lambda x, p: module.bind(p)(x, mask=mask), (x, module.state_dict()))


# ---- ways to call it


def test_one_argument_is_self_attention_two_are_cross_attention():
    module, x, y = MultiHeadAttention(6, 2, rng=generator()), normal(0, (2, 3, 6)), normal(1, (2, 5, 6))
    assert_same_bits(module(x), module(x, x, x))
    assert_same_bits(module(x, y), module(x, y, y))
    assert module(x, y).shape == (2, 3, 6)


def test_split_and_merge_undo_each_other():
    x = normal(0, (2, 3, 8))
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    assert_same_bits(merge_heads(heads), x)
    np.testing.assert_array_equal(heads[1, 2, 0], x[1, 0, 4:6])
    check(lambda x: split_heads(x, 2), (x[0],))
    check(merge_heads, (heads,))


# ---- widths, and masks and biases for each head


WIDTHS = [
    {},
    {"key_features": 4, "value_features": 5},
    {"head_features": 5},
    {"head_features": 1, "head_value_features": 3},
    {"head_value_features": 1, "output_features": 7},
    {"key_features": 1, "head_features": 4, "output_features": 1},
]


def sizes(module, *lengths):
    """Arrays for query, key and value of the widths that the module takes."""
    widths = [own.weight.shape[0] for own in (module.query, module.key, module.value)]
    return [(2, n, width) for n, width in zip(lengths, widths, strict=True)]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("maps", [True, False])
@pytest.mark.parametrize("dtype", REAL)
def test_every_option_index_by_index(widths, maps, dtype):
    """One sequence: masks and biases of each head, maps with and without biases."""
    module = MultiHeadAttention(6, 3, **widths, bias=maps, rng=generator()).astype(dtype)
    arrays = [normal(i, size[1:], dtype) for i, size in enumerate(sizes(module, 4, 5, 5))]
    for shape in ((4, 5), (3, 4, 5)):
        mask, bias, per_head = generator(1).random(shape) < 0.7, normal(4, shape, dtype), len(shape) == 3
        limit = tolerance(rounded(module, *arrays, mask, bias, per_head)[0], dtype)
        query, key, value = arrays
        by_hand = printed.multi_head(query, key, module.state_dict(), 3, mask, value, bias)
        assert_within(module(*arrays, mask=mask, bias=bias, per_head=per_head), by_hand, limit)


def test_the_default_is_for_all_heads():
    """(H, N, M) with as many heads as sequences: one for each sequence, unless it is said to be for each head."""
    module, x, bias = MultiHeadAttention(6, 2, rng=generator()), normal(0, (2, 4, 6)), normal(1, (2, 4, 4))
    assert_same_bits(module(x, bias=bias), module(x, bias=bias[:, None], per_head=True))
    assert_same_bits(module(x, bias=bias, per_head=True), module(x, bias=bias[None], per_head=True))
    assert np.abs(module(x, bias=bias) - module(x, bias=bias, per_head=True)).max() > 1e-3


@pytest.mark.parametrize("key_heads", [1, 2])
def test_grouped_heads_of_any_width(key_heads):
    module = MultiHeadAttention(6, 4, key_heads=key_heads, **WIDTHS[3], output_features=2, rng=generator())
    assert (module.key.weight.shape, module.value.weight.shape) == ((6, key_heads), (6, 3 * key_heads))
    mask = generator(1).random((2, 4, 3, 3)) < 0.7
    check(lambda x, b, p: module.bind(p)(x, mask=mask, bias=b, per_head=True),
          (normal(0, (2, 3, 6)), normal(1, (4, 3, 3)), module.state_dict()))  # fmt: skip


def test_positions_with_values_of_the_width_of_values():
    module, x = MultiHeadAttention(6, 2, positions=Shaw(3, 2, rng=generator(1)), rng=generator()), normal(0, (4, 6))
    assert module(x).shape == (4, 6)
    narrow = MultiHeadAttention(6, 2, head_value_features=1, positions=Shaw(3, 2, rng=generator(1)), rng=generator())
    with pytest.raises(ValueError, match=r"positions add 3 features to values of 1 in a head; .* head_value_features"):
        narrow(x)
    without = Shaw(3, 2, values=False, rng=generator(1))
    assert MultiHeadAttention(6, 2, head_value_features=1, positions=without, rng=generator())(x).shape == (4, 6)


# ---- errors


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        (((3, 5),), {}, ValueError, r"linear: x of shape \(3, 5\) needs 6 features last, as weight has rows"),
        (((2, 3, 6),), {"mask": np.ones((3, 3, 3), bool)}, ValueError,
         r"MultiHeadAttention: mask has shape \(3, 3, 3\); it must broadcast to \(\.\.\., queries, keys\) = \(2, 3, 3\)"
         r", or with per_head to \(\.\.\., heads, queries, keys\)"),
        (((3, 6),), {"bias": np.ones((2, 3))}, ValueError, r"MultiHeadAttention: bias has shape \(2, 3\); .*"),
        (((2, 3, 6), (3, 4, 6)), {"mask": np.ones((3, 4), bool)}, ValueError,
         r"MultiHeadAttention: shape mismatch: .* it was given query = .*"),
    ],
)  # fmt: skip
def test_errors_of_a_call(arrays, options, error, message):
    with pytest.raises(error, match=rf"^{message}$"):
        MultiHeadAttention(6, 2, rng=generator())(*map(np.ones, arrays), **options)


# ---- positions


def test_there_must_be_a_place_for_every_token():
    module, x = MultiHeadAttention(4, 2, positions=Rotary(), rng=generator()), normal(0, (5, 4))
    for places in ({"query_places": [3]}, {"key_places": np.arange(4)}, {"key_places": 3}):
        with pytest.raises(ValueError, match="there are 5 tokens; pass one for each"):
            module(x, **places)


@pytest.mark.parametrize(
    "scheme",
    [Shaw(2, 2, rng=generator(1)), T5Bias(2, buckets=6, max_distance=8, rng=generator(1)), ALiBi(2), Rotary()],
    ids=lambda scheme: type(scheme).__name__,
)
def test_what_a_scheme_adds(scheme):
    """Rotations, scores and values, each within the bound of the scheme's equation; and a bias of one's own besides."""
    module, x = MultiHeadAttention(4, 2, positions=scheme, rng=generator()), normal(0, (2, 5, 4))
    mask = masks.causal(5)
    assert_judged(module(x, mask=mask), self_attention(module, mask)(exact(x))[0], np.float64)
    places = np.array([7, 0, 3, 3, 1])
    found = module(x, query_places=places, key_places=places)
    assert_judged(found, self_attention(module, None, places)(exact(x))[0], np.float64)
    own = normal(1, (5, 5))
    hidden = np.where(mask, 0.0, -np.inf)  # a mask as a bias, beside what the scheme adds
    limit = self_attention(module, mask)(exact(x))[0]
    assert_judged(module(x, bias=hidden), limit, np.float64)
    assert np.abs(module(x, bias=own) - module(x)).max() > 1e-3


def test_queries_and_keys_have_places_of_their_own():
    """With Shaw's positions only differences of places count: moving both changes no bit, moving one does."""
    positions = Shaw(2, 3, rng=generator(1))
    module, x, y = MultiHeadAttention(4, 2, positions=positions, rng=generator()), normal(0, (3, 4)), normal(1, (5, 4))
    here = module(x, y, query_places=np.arange(3), key_places=np.arange(5))
    assert_same_bits(here, module(x, y))
    assert_same_bits(here, module(x, y, query_places=np.arange(3) + 40, key_places=np.arange(5) + 40))
    assert np.abs(module(x, y, key_places=np.arange(5) + 40) - here).max() > 1e-3
