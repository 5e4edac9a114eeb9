"""What a mask hides from attention reaches neither output nor gradients; it reaches queries that may attend to it."""

import functools
import warnings

import numpy as np
import pytest
from hypothesis import given

import refnp.autograd as ad
from refnp.autograd.trees import leaves_of
from refnp.layers.attention import attention, attention_scores
from refnp.layers.grouped_attention import grouped_attention
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.similarity import similarity_attention
from refnp.layers.translation_attention import TranslationAttention
from refnp.models.transformer_stacks import Decoder, Encoder
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_same_bits, assert_within, normal, seeds
from tests.layers.attention_problems import attend, qkv, rounded_output


@pytest.mark.parametrize("similarity", ["scaled_dot", "cosine", "additive"])
def test_a_query_that_may_attend_to_nothing_gets_0(similarity):
    parameters = tuple(normal(i, s) for i, s in enumerate([(2, 3), (2, 3), (3,)])) if similarity == "additive" else ()
    arrays = [*qkv(), normal(4, (3, 4))]
    mask = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)

    def f(*a):
        options = {"similarity": similarity, "parameters": parameters, "mask": mask}
        return attend(*a, return_weights=True, **options)

    (y, weights), pullback = ad.vjp(f, *arrays)
    np.testing.assert_array_equal(y[1], 0)
    np.testing.assert_array_equal(weights[1], 0)
    only_there = np.zeros_like(y), np.zeros_like(weights)
    only_there[0][1], only_there[1][1] = 1, 1
    assert all((bar == 0).all() for bar in pullback(only_there))
    everything_hidden, pullback = ad.vjp(lambda *a: attend(*a, mask=np.zeros((3, 4), bool)), *arrays)
    np.testing.assert_array_equal(everything_hidden, 0)
    assert all((bar == 0).all() for bar in pullback(np.ones_like(y)))


FORMS = {  # options of `attend`
    "full": {},
    "weights": {"return_weights": True},
    "blocks": {"method": "blocks"},
    "cosine": {"similarity": "cosine"},
    "additive": {
        "similarity": "additive",
        "parameters": tuple(normal(20 + i, s) for i, s in enumerate([(2, 3), (2, 3), (3,)])),
    },
}


@pytest.mark.parametrize("form", ["full", "weights", "blocks"])
def test_infinite_values_that_are_not_hidden_give_what_the_plain_formula_gives(form):
    """Feature by feature ∞, −∞, or NaN for both; and with a mask, too, 0 times a hidden ∞ is 0."""
    query, key, value = qkv(2, 3, 2, 3)
    value[0] = np.inf, -np.inf, 1
    value[1] = np.inf, np.inf, 2
    mask = np.array([[True, True, True], [True, False, True]])
    y = attend(query, key, value, mask=mask, **FORMS[form])
    y = y[0] if form == "weights" else y
    assert y[0, 0] == y[1, 0] == np.inf
    assert np.isnan(y[0, 1])
    assert y[1, 1] == -np.inf
    plain = attend(query, key, value[:, 2:], mask=mask, **FORMS[form])
    assert_same_bits(y[:, 2:], plain[0] if form == "weights" else plain)


def test_a_hidden_infinite_score_has_no_effect():
    """−∞ in a bias is weight 0 with or without a mask; ∞ where the mask hides is nothing."""
    query, key, value = qkv()
    mask = np.array([[True, True, True, False]] * 3)
    bias = np.where(mask, normal(3, (3, 4)), np.inf)
    y = attention(query, key, value, mask=mask, bias=bias)
    assert_same_bits(y, attention(query, key, value, mask=mask, bias=np.where(mask, bias, 0)))
    bound = tolerance(rounded_output([query, key, value, np.where(mask, bias, 0)], mask), np.float64)
    assert_within(attention(query, key, value, bias=np.where(mask, bias, -np.inf)), y, 2 * bound)


# ---- huge numbers that are hidden


def translation(dtype):
    """TranslationAttention of two heads that moves places, with the bias as differences."""
    layer = TranslationAttention(4, 2, moves=True, rng=np.random.default_rng(0))
    layer.load_state_dict({name: value.astype(dtype) for name, value in layer.state_dict().items()})
    return lambda query, key, value, bias, mask: layer(query, key, ad.reshape(bias, (*bias.shape, 1)), mask=mask)


def similar(name, dtype, **options):
    shapes = {"general": [(4, 4)], "additive": [(4, 2), (4, 2), (2,)]}.get(name, [])
    options |= {"similarity": name, "parameters": tuple(normal(20 + i, s, dtype) for i, s in enumerate(shapes))}
    return lambda *arrays: similarity_attention(*arrays[:-1], mask=arrays[-1], **options)


def in_groups(query, key, value, bias, mask):
    """Two heads of queries that share one of keys."""
    query, bias = ad.stack([query, -query], 1), ad.stack([bias, bias], 1)
    key, value = (ad.reshape(a, (a.shape[0], 1, *a.shape[1:])) for a in (key, value))
    return grouped_attention(query, key, value, bias, mask=mask[:, None])


SIMILARITIES = similarity_attention.takes.options["similarity"].choices
HIDING = {
    "grouped": lambda dtype: in_groups,
    "translation": translation,
    "scores": lambda dtype: lambda query, key, value, bias, mask: attention_scores(query, key, bias, mask=mask),
    **{name: functools.partial(similar, name) for name in SIMILARITIES},
    **{f"{name}, weights": functools.partial(similar, name, return_weights=True) for name in SIMILARITIES},
    **{f"{n}, blocks": functools.partial(similar, n, method="blocks") for n in SIMILARITIES if n != "additive"},
}


def drawn(rng, dtype):
    """Query, key, value, bias of two sequences, and a mask that hides keys 1 and 4 from all, and more from some."""
    arrays = [normal(rng, s, dtype) for s in ((2, 5, 4), (2, 6, 4), (2, 6, 3), (2, 5, 6))]
    mask = rng.random((2, 5, 6)) < 0.6
    mask[:, :, [1, 4]] = False
    mask[0, 2] = rng.random() < 0.5
    return arrays, mask


def bits_of(function, arrays, mask, factor):
    """Every result and gradient, for cotangents of that size."""
    results, pullback = ad.vjp(lambda *a: function(*a, mask), *arrays)
    results = results if isinstance(results, tuple) else (results,)
    bars = tuple(normal(9 + i, y.shape, y.dtype) * y.dtype.type(factor) for i, y in enumerate(results))
    return [*results, *pullback(bars if len(bars) > 1 else bars[0])]


def junk(rng, dtype, shape):
    """One kind of number with any signs: huge, tiny, not finite, ordinary."""
    largest = float(np.finfo(dtype).max)
    size = rng.choice([largest, largest / 3, largest**0.7, 4 * largest**0.5, largest**0.5, 5.0, 0.0, np.inf, np.nan])
    return (size * rng.choice([-1, 1], shape)).astype(dtype)


def laid_out(array, axes):
    """The array with its axes in that order in memory."""
    return np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))


def assert_same(found, expected):
    """The same bits, which lie in memory in the same order: else what follows would round otherwise."""
    assert_same_bits(found, expected)
    assert found.strides == expected.strides


@pytest.mark.parametrize("form", HIDING)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1.0, 1e25])
@given(seed=seeds)
def test_what_is_hidden_may_have_any_bits(form, dtype, factor, seed):
    """Output and gradients have the bits that they have with zeros in its place, signs of zeros too, and lie alike in
    memory, however the arrays lie; nothing warns."""
    rng = np.random.default_rng(seed)
    arrays, mask = drawn(rng, dtype)
    unused = ~mask.any(-2)[..., None]
    hidden = [np.broadcast_to(h, a.shape) for h, a in zip((False, unused, unused, ~mask), arrays, strict=True)]
    zeros = [np.where(where, 0, a).astype(dtype) for a, where in zip(arrays, hidden, strict=True)]
    filled = [
        np.where(where & (rng.random() < 0.7), junk(rng, dtype, a.shape), a)
        for a, where in zip(zeros, hidden, strict=True)
    ]
    function, orders = HIDING[form](dtype), [rng.permutation(3) for _ in range(5)]
    filled, zeros = ([laid_out(a, axes) for a, axes in zip(each, orders[:4], strict=True)] for each in (filled, zeros))
    mask = laid_out(mask, orders[4])
    for found, expected in zip(
        bits_of(function, filled, mask, factor), bits_of(function, zeros, mask, factor), strict=True
    ):
        assert_same(found, expected)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_precision_of_weights_is_that_of_the_scores_whatever_is_hidden(similarity):
    """Values of float64 make outputs of float64; weights stay float32."""
    (query, key, value, bias), mask = drawn(np.random.default_rng(0), np.float32)
    options = {"return_weights": True}
    found = similar(similarity, np.float32, **options)(
        query, key, value.astype(float), np.where(mask, bias, np.nan), mask
    )
    assert [a.dtype for a in found] == [np.float64, np.float32]


@pytest.mark.parametrize("width", [2, 4, 16])
@pytest.mark.parametrize("form", ["full", "weights", "blocks"])
def test_a_mask_with_more_axes_than_the_scores_hides_in_each_of_them(form, width):
    """A score of ∞ − ∞ that one of two sets of values may be weighed with, and the other may not."""
    query, key, value = np.full((1, width), 1e200), np.ones((2, width)), normal(0, (2, 2, 3))
    key[0] = 1e200 * np.resize([1, -1], width)
    mask = np.array([[[False, True]], [[True, True]]])
    with np.errstate(over="ignore", invalid="ignore"):
        y = attend(query, key, value, mask=mask, **FORMS[form])
    assert_same_bits((y[0] if form == "weights" else y)[0, 0], value[0, 1])


def test_a_hidden_bias_whose_square_overflows_leaves_the_bits_of_two_layers():
    """Call 141 847 of seed 777 of the fuzzer, made smaller: what lies otherwise in memory adds up otherwise."""
    encoder = Encoder(2, 4, 2, 3, head_features=1, rng=np.random.default_rng(7))
    mask = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0]], bool)
    bias = np.zeros((4, 4))
    bias[mask] = (
        5.110934912348175e-05,
        -0.0004327961821357311,
        0.0012392131434887407,
        0.000716543603983489,
        -0.001212975291859429,
        0.0001486562081186377,
        -0.0006283568498454017,
    )

    def gradients(bias):
        run = lambda x, b, state: encoder.bind(state)(x, mask=mask, bias=b)
        y, pullback = ad.vjp(run, np.ones((4, 4)), bias, encoder.state_dict())
        return leaves_of(pullback(np.random.default_rng(3).standard_normal(y.shape)))

    for clean, found in zip(gradients(bias), gradients(np.where(mask, bias, np.finfo(float).max)), strict=True):
        assert_same_bits(found, clean)


@pytest.mark.parametrize("form", [form for form in HIDING if form not in ("grouped", "translation")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=seeds)
def test_what_is_hidden_from_one_query_does_not_reach_it(form, dtype, seed):
    """Keys and values so large that products with them overflow: the rows of queries that may not attend to them are as
    with zeros, output and gradient."""
    rng = np.random.default_rng(seed)
    arrays, mask = drawn(rng, dtype)
    mask[:, :3, 1], mask[:, 3:, 1] = False, True  # key 1 is hidden from the first three queries
    zeros = [a.copy() for a in arrays]
    zeros[1][:, 1] = zeros[2][:, 1] = 0
    filled = [a.copy() for a in zeros]
    filled[2][:, 1] = junk(rng, dtype, (2, 3))
    filled[1][:, 1] = junk(rng, dtype, (2, 4))
    function = HIDING[form](dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        found = bits_of(function, filled, mask, 1e25)
    expected = bits_of(function, zeros, mask, 1e25)
    for i in [*range(len(found) - 4), len(found) - 4, len(found) - 1]:  # results, and gradients of query and bias
        assert_same_bits(found[i][:, :3], expected[i][:, :3])


@pytest.mark.parametrize("form", ["full", "weights", "blocks"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_visible_scores_that_overflow_spoil_their_row_alone(form, dtype):
    """The limit that is documented: NaN, with a warning, where q·k is beyond the largest number; other rows stay."""
    query, key, value = qkv(3, 4, 2, 3, dtype=dtype)
    query[1] *= np.finfo(dtype).max / 8
    key *= 64
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = attend(query, key, value, **FORMS[form])
    assert any("overflow" in str(warning.message) for warning in caught)
    alone = attend(np.where([[True], [False], [True]], query, 0), key, value, **FORMS[form])
    y, alone = (a[0] if form == "weights" else a for a in (y, alone))
    assert np.isnan(y[1]).all()
    assert_same_bits(y[[0, 2]], alone[[0, 2]])


@pytest.mark.parametrize("junk", [np.nan, np.inf])
@pytest.mark.parametrize("form", [attention, similarity_attention])
@np.errstate(invalid="ignore")
def test_a_mask_that_hides_nothing_changes_no_gradient_of_what_is_not_finite(form, junk):
    """NaN in the gradients that depend on an output which is NaN, of what is not finite as well."""
    rng = np.random.default_rng(3)
    for place in range(3):
        arrays = [rng.normal(size=shape) for shape in ((2, 3), (4, 3), (4, 3))]
        arrays[place][1] = junk
        shown, hidden = np.ones((2, 4), bool), np.array([[1, 1, 1, 1], [1, 0, 1, 1]], bool)
        bars = {}
        for name, mask in (("none", None), ("shown", shown), ("hidden", hidden)):
            y, pullback = ad.vjp(lambda q, k, v, mask=mask, form=form: form(q, k, v, mask=mask), *arrays)
            bars[name] = [np.isnan(bar).any(-1) for bar in pullback(np.ones_like(y))]
        if place < 2:
            assert all(map(np.array_equal, bars["none"], bars["shown"]))
        assert bars["shown"][place][1]
        if place == 0:  # key 1 is hidden from query 1, the only one that is spoilt
            assert [*map(list, bars["hidden"][1:])] == [[True, False, True, True]] * 2


@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e308])
@pytest.mark.parametrize("per_head", [False, True])
def test_what_no_query_may_attend_to_reaches_no_weight_of_a_projection(junk, per_head):
    """The gradient of a weight is a sum over all rows, and 0 times NaN is NaN."""
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    length = np.array([[2, 3], [2, 2]]) if per_head else np.array([3, 2])  # how many keys are seen, of a batch and head
    mask = np.broadcast_to(np.arange(5) < length[..., None, None], (*length.shape, 3, 5))
    seen = np.arange(5)[:, None] < np.array([3, 2])[:, None, None]
    spoilt = np.where(seen, key, junk)
    attend = MultiHeadAttention(4, 2, rng=rng)
    found = [
        ad.vjp(lambda p, q, k: attend.bind(p)(q, k, mask=mask, per_head=per_head), attend.state_dict(), query, k)
        for k in (np.where(seen, key, 0), spoilt)
    ]
    (clean, of_clean), (value, of_value) = found
    assert_same_bits(value, clean)
    bar = rng.normal(size=value.shape)
    for ours, theirs in zip(leaves_of(of_value(bar)), leaves_of(of_clean(bar)), strict=True):
        assert_same_bits(ours, theirs)


@pytest.mark.parametrize("seed", range(6))
def test_hidden_junk_in_a_memory_that_two_layers_read_leaves_the_bits_of_all_gradients(seed):
    """Sums of gradients are taken in the same order, of arrays that lie alike in memory."""
    rng = np.random.default_rng(seed)
    decoder = Decoder(2, 4, 2, 3, rng=rng)
    x, memory, bias = rng.normal(size=(4, 4)), rng.normal(size=(5, 4)), rng.normal(size=(4, 5))
    mask = np.broadcast_to(np.arange(5) != 1, (4, 5))

    def gradients(memory, bias):
        run = lambda x, m, b, state: decoder.bind(state)(x, m, memory_mask=mask, memory_bias=b)
        _, pullback = ad.vjp(run, x, memory, bias, decoder.state_dict())
        return leaves_of(pullback(np.cos(np.arange(16.0)).reshape(4, 4)))

    zero = np.where(mask.all(0)[:, None], memory, 0), np.where(mask, bias, 0)
    junk = np.where(mask.all(0)[:, None], memory, np.nan), np.where(mask, bias, 1e200)
    for clean, found in zip(gradients(*zero), gradients(*junk), strict=True):
        assert_same_bits(found, clean)
