"""Attention on differences of places: value, moved places, masks, and what a shift changes: nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.primitives import raw
from refnp.layers.translation_attention import TranslationAttention, pair_kernel, pair_kernel_mlp, parameters_of
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.models.helpers import rounded, shaken
from tests.transcriptions import tnp as transcription

few = st.one_of(st.integers(1, 4), st.integers(0, 4))
sizes = st.tuples(st.integers(1, 3), few, few, st.integers(1, 2))  # B, N, M, dx


def layer(dx=1, **options):
    return shaken(TranslationAttention(4, 2, dx=dx, kernel=(5,), **options, rng=np.random.default_rng(0)))


def problem(seed, size, dtype=np.float64):
    """query, key, differences, and a mask (B, N, M)."""
    rng = np.random.default_rng(seed)
    b, n, m, dx = size
    arrays = tuple(normal(rng, shape, dtype) for shape in ((b, n, 4), (b, m, 4), (b, n, m, dx)))
    return arrays, rng.random((b, n, m)) < 0.6


forms = st.sampled_from(["softmax", "sink", "sum"]).flatmap(
    lambda kind: st.booleans().map(lambda squares: {"normalization": kind, "squares": squares})
)


@given(seeds, sizes, real_dtypes, st.booleans(), st.booleans(), forms)
def test_value(seed, size, dtype, moves, bias, form):
    """Against a transcription, pair by pair, within the bounds of running error analysis."""
    arrays, mask = problem(seed, size, dtype)
    scale = 0.1 if form["normalization"] == "softmax" else 4.0  # the weights of a sum overflow where logits are large
    module = layer(size[3], moves=moves, bias=bias, length_scale=scale, **form).astype(dtype)
    output, steps = (raw(a) for a in module(*arrays, mask=mask))
    limits = rounded(module, *arrays, mask=mask)
    assert output.dtype == dtype
    for value, limit in zip((output, steps), limits, strict=True):
        if value is not None:
            assert_within(value, limit.value, tolerance(limit, dtype))
    for b, one in enumerate(zip(*arrays, mask, strict=True)):
        expected, moved = transcription.translation_attention(*one[:3], module.state_dict(), 2, one[3], **form)
        assert_within(output[b], expected, tolerance(limits[0], dtype)[b])
        if moves:
            assert_within(steps[b], moved, tolerance(limits[1], dtype)[b])
    assert (steps is None) is not moves


def test_who_does_look_at_nan_gets_it_and_nobody_else():
    module, ((query, key, differences), _) = layer(moves=True), problem(0, (1, 3, 4, 1))
    mask = np.ones((1, 3, 4), bool)
    mask[0, 1, 3] = False
    right = [raw(a)[0, 1].copy() for a in module(query, key, differences, mask=mask)]
    key[0, 3] = np.nan
    for value, reference in zip(module(query, key, differences, mask=mask), right, strict=True):
        assert np.isnan(raw(value)[0, [0, 2]]).all()
        assert_same_bits(raw(value)[0, 1], reference)


def test_masks_that_do_not_fit():
    module, ((query, key, differences), _) = layer(), problem(0, (2, 3, 4, 1))
    with pytest.raises(ValueError, match=r"^TranslationAttention: mask has shape \(2, 3, 5\); it must broadcast to"):
        module(query, key, differences, mask=np.ones((2, 3, 5), bool))
    with pytest.raises(TypeError, match=r"^TranslationAttention: mask is float64 .*; pass booleans, True ="):
        module(query, key, differences, mask=np.ones((2, 3, 4)))


def test_who_may_attend_to_nothing_gets_the_bias_and_stays():
    module = layer(moves=True)
    arrays, mask = problem(0, (2, 3, 4, 1))
    mask[0, 1] = False
    output, steps = module(ad.Tensor(arrays[0]), *arrays[1:], mask=mask)
    np.testing.assert_array_equal(raw(output)[0, 1], module.output.bias.data)
    np.testing.assert_array_equal(raw(steps)[0, 1], 0)
    ad.sum(output).backward()
    assert all(np.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)
    no_keys, still = module(arrays[0], arrays[1][:, :0], arrays[2][:, :, :0])
    np.testing.assert_array_equal(raw(no_keys), np.broadcast_to(module.output.bias.data, (2, 3, 4)))
    np.testing.assert_array_equal(raw(still), 0)


def test_the_kernel_varies_over_the_length_scale_at_first():
    """Logits at distances of one length scale differ by about as much for each of them."""
    spread = []
    for length_scale in (0.1, 1.0, 10.0):
        mlp = pair_kernel_mlp(1, 4, (32, 32), length_scale, np.random.default_rng(0))
        d = np.linspace(-1, 1, 9)[:, None] * length_scale
        spread.append(np.ptp(raw(mlp(np.concatenate([d, np.zeros((9, 4))], 1))), 0).mean())
    assert min(spread) > 0.2
    assert max(spread) < 4 * min(spread)


def test_half_of_the_relus_bend_within_half_a_unit_of_x_whatever_the_length_scale():
    """At d = −b/w, a quotient of uniform numbers: 4000 of them, within five standard errors."""
    bends = []
    for length_scale in (0.1, 1.0, 10.0):
        first = pair_kernel_mlp(1, 4, (4000,), length_scale, np.random.default_rng(0)).layers[0]
        bends.append(np.abs(first.bias.data / first.weight.data[0]))
        assert abs((bends[-1] < 0.5).mean() - 0.5) < 5 * 0.5 / 4000**0.5
    for other in bends[1:]:
        np.testing.assert_allclose(other, bends[0], rtol=8 * 2.0**-53)  # products and quotients


def test_with_a_sink_weights_have_a_sum_below_one_and_with_a_sum_any():
    """Values of 1 through maps that keep them: what comes out is the sum of the weights."""
    for normalization, least, most in (("softmax", 1, 1), ("sink", 0, 1), ("sum", 0, np.inf)):
        module = TranslationAttention(2, 1, normalization=normalization, length_scale=1.0, rng=np.random.default_rng(0))
        module.value.weight.data[...] = module.output.weight.data[...] = np.eye(2)
        module.output.bias.data[...] = 0
        total, _ = module(normal(0, (1, 5, 2)), np.ones((1, 4, 2)), normal(1, (1, 5, 4, 1)))
        if least == most:
            assert_within(raw(total), np.ones((1, 5, 2)), 16 * np.finfo(float).eps)  # 4 products, a sum, a quotient
        else:
            assert ((least < raw(total)) & (raw(total) < most)).all()


def test_pairs_can_be_set():
    """A linear map and hidden layers of any width give the same logits, content · s − |d|²/2ℓ², in every head."""
    scores, differences = normal(0, (2, 2, 3, 4)), normal(1, (2, 3, 4, 2))
    wanted = 0.5 * scores - 2 * (differences**2).sum(-1)[:, None]
    slack = 8 * np.finfo(float).eps * (np.abs(scores) + 2 * (differences**2).sum(-1)[:, None])  # 5 roundings a term
    squared = np.concatenate([differences, differences**2], -1)
    for kernel in ((), (8,), (9, 30)):
        module = TranslationAttention(4, 2, dx=2, kernel=kernel, squares=True, rng=np.random.default_rng(0))
        assert module.set_pairs(content=0.5, length_scale=0.5) is module
        assert_within(raw(pair_kernel(squared, scores, *parameters_of(module.kernel))), wanted, slack)
    plain = TranslationAttention(4, 2, dx=2, rng=np.random.default_rng(0)).set_pairs()
    assert_same_bits(raw(pair_kernel(differences, scores, *parameters_of(plain.kernel))), scores)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({"squares": True, "kernel": (7,)}, {"length_scale": 1.0}, r"hidden widths \[7\]; 8 units are needed"),
        ({}, {"length_scale": 1.0}, "not given squares of differences; make it with squares=True"),
    ],
)
def test_pairs_that_cannot_be_set(options, given, message):
    module = TranslationAttention(4, 2, dx=2, **options, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=f"TranslationAttention.set_pairs: .*{message}"):
        module.set_pairs(**given)
