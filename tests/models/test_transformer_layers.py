"""Encoder and decoder layers: three judges, masks, dropout, and what Sivaraya (2023) says of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import masks
from refnp.layers.key_value_cache import KeyValueCache
from refnp.layers.positions.relative import Shaw
from refnp.layers.positions.rotary import Rotary
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer, Residual
from refnp.models.transformer_stacks import Encoder
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import transformer_layers as equations
from tests.helpers import (
    COMPLEX,
    assert_same_bits,
    assert_within,
    laid_out,
    layouts,
    normal,
    real_dtypes,
    seeds,
)
from tests.models.helpers import assert_drops_only_with_a_generator, assert_judged, generator, rounded
from tests.transcriptions import transformer as printed

norms = st.sampled_from(["post", "pre"])


def encoder_limit(layer, x, bias=None, **options):
    """The layer in numbers that carry their rounding: (y, pullback)."""
    given = () if bias is None else (bias,)
    equation = equations.encoder_layer if bias is None else equations.biased_encoder_layer
    return equation(*map(exact, (x, *given, *layer.state_dict().values())), heads=layer.attention.heads, **options)


def decoder_limit(layer, x, memory, biases=(), **options):
    equation = equations.biased_decoder_layer if biases else equations.decoder_layer
    return equation(*map(exact, (x, memory, *biases, *layer.state_dict().values())), heads=2, **options)


@given(norms, st.integers(0, 3), st.integers(0, 3), st.booleans(), real_dtypes, seeds)
def test_attention_to_other_tokens(norm, n, m, masked, dtype, seed):
    """`keys` beside x: the rows of x in the layer on [keys; x], under a mask that lets all attend to the keys alone.

    With a cache the keys come in two parts.
    """
    layer = EncoderLayer(4, 2, 6, norm=norm, rng=generator(seed)).astype(dtype)
    keys, x = normal(seed, (2, m, 4), dtype), normal(seed + 1, (2, n, 4), dtype)
    mask = generator(seed).random((2, n, m)) < 0.7 if masked else np.ones((2, n, m), bool)
    whole = np.zeros((2, m + n, m + n), bool)
    whole[:, m:, :m] = mask
    limit, _ = encoder_limit(layer, np.concatenate([keys, x], 1), norm=norm, mask=whole)
    expected, bound = limit.value[:, m:], tolerance(limit, dtype)[:, m:]
    assert_within(layer(x, keys, mask=mask if masked else None), expected, bound)
    cache, first = KeyValueCache(), m // 2
    with ad.no_grad():
        layer(x[:, :0], keys[:, :first], cache=cache)
        found = layer(x, keys[:, first:], mask=mask if masked else None, cache=cache)
    assert cache.length == m
    assert_within(found, expected, bound)


mask_shapes = st.sampled_from([(2, 3, 4, 4), (3, 4, 4), (2, 1, 1, 4), (1, 4, 1), (4, 4), (1, 4), (4,), ()])


@given(mask_shapes, st.sampled_from([1, 2, 4]), layouts, real_dtypes, seeds)
def test_masks_of_any_shape_and_x_of_any_layout(shape, heads, layout, dtype, seed):
    """Whatever broadcasts to (..., N, N) serves all heads; axes in front are as many layers side by side."""
    layer = EncoderLayer(4, heads, 6, rng=generator(seed)).astype(dtype)
    x, mask = normal(seed, (2, 3, 4, 4), dtype), generator(seed).random(shape) < 0.6
    limit, _ = encoder_limit(layer, x, mask=np.broadcast_to(mask, (2, 3, 4, 4)))
    assert_within(layer(laid_out(x, layout), mask=mask), limit.value, tolerance(limit, dtype))
    assert_within(layer(laid_out(x, layout), mask=mask.tolist()), limit.value, tolerance(limit, dtype))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers_keep_their_type(dtype):
    """Values and gradients; real parts that are all there is come out as in real numbers."""
    layer, x = EncoderLayer(4, 2, 6, rng=generator()), normal(0, (3, 4))
    limit, _ = encoder_limit(layer, x)
    y = layer.astype(dtype)(ad.Tensor(x.astype(dtype)))
    y.backward(np.ones((3, 4), dtype))
    assert {y.dtype, *(p.grad.dtype for p in layer.parameters())} == {np.dtype(dtype)}
    assert_within(y.data.real, limit.value, tolerance(limit, y.data.real.dtype))


# ---- without biases, biases of scores, masks and biases of each head, other widths


widths = st.sampled_from([{}, {"head_features": 3}, {"head_features": 1, "head_value_features": 5}])


@given(norms, st.integers(0, 3), widths, st.booleans(), st.booleans(), st.booleans(), real_dtypes, seeds)
def test_every_option_of_an_encoder_layer(norm, n, width, maps, per_head, masked, dtype, seed):
    layer = EncoderLayer(4, 2, 6, norm=norm, bias=maps, **width, rng=generator(seed)).astype(dtype)
    assert maps or not [name for name in layer.state_dict() if name.endswith(("bias", "shift"))]
    shape = (2, 2, n, n) if per_head else (2, n, n)
    x, bias = normal(seed, (2, n, 4), dtype), normal(seed + 1, shape, dtype)
    mask = generator(seed).random(shape) < 0.7 if masked else None

    def f(x, b, p):
        return layer.bind(p)(x, mask=mask, bias=b, per_head=per_head)

    y, pullback = ad.vjp(f, x, bias, layer.state_dict())
    limit, rounded_pullback = encoder_limit(layer, x, norm=norm, mask=mask, bias=bias, per_head=per_head)
    assert_option(layer, y, pullback, limit, rounded_pullback, dtype, seed)


@given(norms, st.integers(0, 3), st.integers(0, 3), widths, st.booleans(), st.booleans(), real_dtypes, seeds)
def test_every_option_of_a_decoder_layer(norm, n, m, width, maps, per_head, dtype, seed):
    """A memory of another width, too."""
    options = {"bias": maps, "memory_features": 3, **width}
    layer = DecoderLayer(4, 2, 6, norm=norm, **options, rng=generator(seed)).astype(dtype)
    heads = (2,) if per_head else ()
    arrays = [normal(seed, (2, n, 4), dtype), normal(seed + 1, (2, m, 3), dtype)]
    biases = [normal(seed + 2, (*heads, n, n), dtype), normal(seed + 3, (2, *heads, n, m), dtype)]
    rng = generator(seed)
    hidden = {"mask": rng.random((2, *heads, n, n)) < 0.7, "memory_mask": rng.random((2, *heads, n, m)) < 0.7}

    def f(x, z, b, c, p):
        return layer.bind(p)(x, z, bias=b, memory_bias=c, **hidden, per_head=per_head)

    y, pullback = ad.vjp(f, *arrays, *biases, layer.state_dict())
    limit, rounded_pullback = decoder_limit(layer, *arrays, biases, norm=norm, **hidden, per_head=per_head)
    assert_option(layer, y, pullback, limit, rounded_pullback, dtype, seed)


def assert_option(layer, y, pullback, limit, rounded_pullback, dtype, seed):
    """Value and every gradient within the bound of the equation."""
    assert y.dtype == dtype
    assert_within(y, limit.value, tolerance(limit, dtype))
    bar = normal(seed + 9, y.shape, dtype)
    *first, bars = pullback(bar)
    found = [*first, *(bars[name] for name, _ in layer.named_parameters())]
    for gradient, other in zip(found, rounded_pullback(exact(bar)), strict=True):
        assert gradient.dtype == dtype
        assert_within(gradient, other.value, tolerance(other, dtype))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("maps", [True, False])
@pytest.mark.parametrize("heads", [(), (2,)])
def test_options_of_layers_token_by_token(norm, maps, heads):
    """As a paper prints them: biases and masks for all heads or for each, no biases in maps and norms."""
    options = {"norm": norm, "bias": maps, "head_features": 3, "head_value_features": 1, "rng": generator()}
    encoder, decoder = EncoderLayer(4, 2, 6, **options), DecoderLayer(4, 2, 6, memory_features=5, **options)
    x, memory, rng = normal(0, (3, 4)), normal(1, (4, 5)), generator(2)
    mask, memory_mask = rng.random((*heads, 3, 3)) < 0.7, rng.random((*heads, 3, 4)) < 0.7
    biases = {"bias": normal(3, (*heads, 3, 3)), "memory_bias": normal(4, (*heads, 3, 4))}
    pairs = {"mask": mask, "bias": biases["bias"], "per_head": bool(heads)}
    limit, _ = encoder_limit(encoder, x, norm=norm, **pairs)
    by_hand = printed.encoder_layer(x, encoder.state_dict(), 2, norm, mask=mask, bias=biases["bias"])
    assert_within(encoder(x, **pairs), by_hand, tolerance(limit, np.float64))
    for causal in (True, False):
        pairs = {"mask": masks.causal(3) if causal else None, "memory_mask": memory_mask, "per_head": bool(heads)}
        limit, _ = decoder_limit(decoder, x, memory, norm=norm, **pairs, **biases)
        by_hand = printed.decoder_layer(
            x, memory, decoder.state_dict(), 2, norm, memory_mask=memory_mask, **biases, causal=causal
        )
        assert_within(decoder(x, memory, **pairs, **biases), by_hand, tolerance(limit, np.float64))


@pytest.mark.parametrize("per_head", [False, True])
def test_biases_with_keys_of_earlier_calls(per_head):
    """In three parts with a cache: the rows of the bias that belong to the tokens that come; bit by bit the whole."""
    layer, x = EncoderLayer(4, 2, 6, head_features=3, head_value_features=1, rng=generator()), normal(0, (2, 5, 4))
    bias = normal(1, (2, 2, 5, 5) if per_head else (2, 5, 5))
    before = np.where(masks.causal(5), bias, -np.inf)
    limit, _ = encoder_limit(layer, x, mask=masks.causal(5), bias=bias, per_head=per_head)
    whole = layer(x, bias=before, per_head=per_head)
    assert_within(whole, limit.value, tolerance(limit, np.float64))
    cache, parts = KeyValueCache(), []
    with ad.no_grad():
        for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
            rows, places = before[..., part, : part.stop], np.arange(part.start, part.stop)
            options = {"bias": rows, "per_head": per_head, "places": places, "key_places": places}
            parts.append(layer(x[:, part], x[:, part], cache=cache, **options))
    assert_within(np.concatenate(parts, 1), limit.value, tolerance(limit, np.float64))


def test_masks_of_each_head_are_not_those_of_sequences():
    """(2, N, N) with two heads and two sequences means sequences, unless it is said to be for each head."""
    layer, x, mask = EncoderLayer(4, 2, 6, rng=generator()), normal(0, (2, 3, 4)), generator(1).random((2, 3, 3)) < 0.6
    assert_same_bits(layer(x, mask=mask), layer(x, mask=mask[:, None], per_head=True))
    assert np.abs(layer(x, mask=mask) - layer(x, mask=mask, per_head=True)).max() > 1e-3


def test_post_norm_and_pre_norm_differ():
    """The transcription of one is far from the other."""
    layer, x = EncoderLayer(4, 2, 6, rng=generator()), normal(0, (3, 4))
    limit, _ = encoder_limit(layer, x)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(layer(x), printed.encoder_layer(x, layer.state_dict(), 2, "pre"), tolerance(limit, float))


def test_as_s002_prints_it():
    """LayerNorm without ε and without an affine map: gain 1 and shift 0 are how it starts."""
    layer, x = EncoderLayer(4, 2, 6, eps=0.0, rng=generator()), normal(0, (3, 4))
    y, (limit, _) = layer(x), encoder_limit(layer, x, eps=0.0)
    bound = tolerance(limit, np.float64)
    assert_within(y, printed.encoder_layer(x, layer.state_dict(), 2, eps=0.0), bound)
    off = bound.mean(-1) + 8 * 2.0**-53  # and what taking the mean and the root of four numbers near 1 rounds
    assert_within(y.mean(-1), np.zeros(3), off)
    assert_within(y.std(-1), np.ones(3), off)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(EncoderLayer(4, 2, 6, rng=generator())(x), limit.value, bound)  # its ε is 1e-5


def test_a_later_token_changes_no_earlier_one():
    """Bit by bit, under the causal mask; and without it, it does."""
    layer, memory = DecoderLayer(4, 2, 6, rng=generator()), normal(1, (1, 3, 4))
    x = normal(0, (1, 5, 4))
    changed = x.copy()
    changed[:, 3] += 1
    before, after = (layer(a, memory, mask=masks.causal(5)) for a in (x, changed))
    assert_same_bits(before[:, :3], after[:, :3])
    assert (before[:, 3:] != after[:, 3:]).any()
    before, after = (layer(a, memory) for a in (x, changed))
    assert (before[:, :3] != after[:, :3]).any()


def test_a_memory_of_padding_alone_is_attention_to_nothing():
    """Every key hidden, and no key at all, give the same: the output bias of the attention."""
    layer, x = DecoderLayer(4, 2, 6, rng=generator()), normal(0, (2, 3, 4))
    hidden = layer(x, np.full((2, 5, 4), np.nan), memory_mask=np.zeros((2, 3, 5), bool))
    assert np.isfinite(hidden).all()
    assert_same_bits(hidden, layer(x, np.empty((2, 0, 4))))


def test_dropout_only_with_a_generator():
    layer, without = (EncoderLayer(4, 2, 6, dropout=rate, rng=generator()) for rate in (0.5, 0.0))
    assert_drops_only_with_a_generator(layer, without, normal(0, (3, 4)))


def test_dropout_of_a_pre_norm_layer_keeps_the_residual():
    """What is dropped is the sub-layers' output: where both are, x comes through as it is."""
    layer, x = EncoderLayer(4, 2, 6, norm="pre", dropout=0.9, rng=generator()), normal(0, (50, 4))
    through = layer(x, rng=generator(1)) == x
    assert 0.7 < through.mean() < 0.9  # 0.81 of 200, within 3.9 standard deviations


def test_weights_are_collected_in_the_order_of_the_sublayers():
    layer, x, memory = DecoderLayer(4, 2, 6, rng=generator()), normal(0, (3, 4)), normal(1, (5, 4))
    seen = []
    y = layer(x, memory, mask=masks.causal(3), weights=seen)
    assert [w.shape for w in seen] == [(2, 3, 3), (2, 3, 5)]
    for w in seen:
        assert_within(w.sum(-1), np.ones(w.shape[:-1]), 7 * 2.0**-53)  # (M + 2) u
    limit, _ = decoder_limit(layer, x, memory, mask=masks.causal(3))
    assert_within(y, layer(x, memory, mask=masks.causal(3)), 2 * tolerance(limit, np.float64))


@pytest.mark.parametrize("make", [EncoderLayer, DecoderLayer])
def test_bad_sizes(make):
    x = [np.ones((3, 4))] * (1 + (make is DecoderLayer))
    with pytest.raises(ValueError, match="features is 4, heads is 3; pass heads that divide features"):
        make(4, 3, 6, rng=generator())
    with pytest.raises(ValueError, match=r"^Residual: norm is 'before'; use 'post' .* or 'pre'"):
        make(4, 2, 6, norm="before", rng=generator())
    with pytest.raises(ValueError, match="rate is 1"):
        make(4, 2, 6, dropout=1.0, rng=generator())(*x, rng=generator())
    with pytest.raises(TypeError, match="rng is 0; it must be"):
        make(4, 2, 6, dropout=0.5, rng=generator())(*x, rng=0)


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        ((3, 5), {}, ValueError, r"linear: x of shape \(3, 5\) needs 4 features last, as weight has rows"),
        (
            (3, 4),
            {"mask": np.ones((3, 3))},
            TypeError,
            r"similarity_attention: mask is float64 \(.*\); pass booleans.*",
        ),
        ((3, 4), {"mask": np.ones((2, 3), bool)}, ValueError, r"MultiHeadAttention: mask has shape \(2, 3\); .*"),
        ((3, 4), {"mask": np.ones((2, 3, 3), bool)}, ValueError, r".*mask has shape \(2, 3, 3\); .* = \(3, 3\).*"),
    ],
)
def test_what_does_not_fit(x, options, error, message):
    with pytest.raises(error, match=rf"^{message}$"):
        EncoderLayer(4, 2, 6, rng=generator())(np.ones(x), **options)


def test_a_residual_of_nothing():
    """f = 0: post-norm is LayerNorm(x), pre-norm x itself, bit by bit."""
    x = normal(0, (3, 4))
    post, pre = (Residual(4, norm=norm, dropout=0.0, eps=1e-5) for norm in ("post", "pre"))
    assert_same_bits(post(np.zeros_like, x), post.layer_norm(x))
    assert_same_bits(pre(lambda unit: np.zeros(unit.shape), x), x)
    post, pre = (Residual(4, norm=norm, dropout=0.9, eps=1e-5) for norm in ("post", "pre"))  # f alone is dropped
    assert_same_bits(post(np.zeros_like, x, generator()), post.layer_norm(x))
    assert_same_bits(pre(lambda unit: np.zeros(unit.shape), x, generator()), x)


@pytest.mark.parametrize("scheme", [Shaw(2, 3, rng=generator(5)), Rotary()], ids=["Shaw", "RoPE"])
def test_places_of_tokens(scheme):
    """Queries and keys stand where `places` say: within the bound there, and not at 0, 1, 2."""
    layer, x, places = EncoderLayer(4, 2, 6, positions=scheme, rng=generator()), normal(0, (2, 3, 4)), [4, 0, 2]
    y = layer(x, places=places)
    assert_judged(y, rounded(layer, x, places=places), np.float64)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_judged(layer(x), rounded(layer, x, places=places), np.float64)
    stack = Encoder(1, 4, 2, 6, relative=lambda: scheme, rng=generator())
    assert_same_bits(stack(x, places=places), y)
