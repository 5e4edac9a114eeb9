"""TNP-A: its mask, its chain of conditionals in one pass and target by target, and its dependence on order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.primitives import raw
from refnp.models.tnp import TNPA, TNPD, autoregressive_mask
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within, real_dtypes, seeds
from tests.models.helpers import assert_prediction, drawn_task, forms, predict, rounded, shaken, sizes, under_whole_mask
from tests.transcriptions import tnp as transcription

SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "embedding_depth": 2}
PRINTED = "11000000 11000000 11100000 11110000 11111000 11000000 11100000 11110000"


def small(dx=1, dy=1, **options):
    return shaken(TNPA(dx, dy, **(SMALL | options), rng=np.random.default_rng(0)))


def conditionals(model, arrays, mask, there=None):
    """(mean, std) of every target given the context and the targets before it, as arrays."""
    context_x, context_y, target_x, target_y = arrays
    there = None if there is None else there[..., None]
    p = model(context_x, context_y, target_x, mask).conditionals(target_y, mask=there)
    return raw(p.mean), raw(p.std)


def limits(model, arrays, mask, there):
    return rounded(lambda *given: conditionals(model, given, mask, there), *arrays)


def log_prob(model, arrays, mask, there):
    """log p of all targets that are there, (B,)."""
    return raw(model(*arrays[:3], mask).log_prob(arrays[3], mask=there[..., None]))


def log_prob_limit(model, arrays, mask, there):
    return rounded(lambda *given: log_prob(model, given, mask, there), *arrays)


def test_the_mask_is_the_printed_one():
    assert " ".join("".join(str(int(v)) for v in row) for row in autoregressive_mask(2, 3)) == PRINTED


@pytest.mark.parametrize("contexts", range(4))
@pytest.mark.parametrize("targets", range(4))
def test_the_mask_follows_the_rules(contexts, targets):
    tokens = [("context", i) for i in range(contexts)]
    tokens += [(kind, i) for kind in ("real", "padded") for i in range(targets)]
    mask = autoregressive_mask(contexts, targets)
    assert mask.shape == (len(tokens),) * 2
    for row, token in zip(mask, tokens, strict=True):
        assert row.tolist() == [transcription.attends(*token, *other) for other in tokens]


@given(seeds, sizes, real_dtypes, forms)
def test_conditionals(seed, size, dtype, form):
    """Against all tokens under the whole mask, one by one."""
    model = small(*size[3:], **form).astype(dtype)
    arrays, (mask, there) = drawn_task(seed, size, dtype)
    found, limit = conditionals(model, arrays, mask, there), limits(model, arrays, mask, there)
    assert_prediction(found, [part.value for part in limit], limit, dtype)
    tasks = zip(*arrays, mask, there, strict=True)
    literal = [transcription.tnp_a(*one, model.state_dict(), 2, 2, **form) for one in tasks]
    assert_prediction(found, [np.stack(a) for a in zip(*literal, strict=True)], limit, dtype)


@given(seeds, sizes)
def test_the_fast_pass_is_the_encoder_under_the_whole_mask(seed, size):
    """Whole encoder layers, all tokens as queries, keys and values, padded ones too."""
    model = small(*size[3:])
    arrays, (mask, there) = drawn_task(seed, size)
    context_x, context_y, target_x, target_y = arrays
    real, padded = model.observed(target_x, target_y), model.unobserved(target_x)
    tokens = np.concatenate([model.observed(context_x, context_y), real, padded], 1)
    known = np.concatenate([mask, there, there | True], 1)  # (B, M+2N)
    whole = autoregressive_mask(size[1], size[2]) & known[:, None]
    p = model.read_off(under_whole_mask(model, tokens, whole)[:, size[1] + size[2] :])
    limit = limits(model, arrays, mask, there)
    for found, expected, one in zip(conditionals(model, arrays, mask, there), (p.mean, p.std), limit, strict=True):
        assert_within(found, raw(expected), 2 * tolerance(one, np.float64))


@given(seeds, sizes)
def test_log_prob_is_the_sum_and_the_loss_its_mean(seed, size):
    model = small(*size[3:])
    arrays, (mask, there) = drawn_task(seed, size)
    mean, std = (limit.value for limit in limits(model, arrays, mask, there))
    z = (arrays[3] - mean) / std
    terms = -0.5 * z * z - np.log(std) - 0.5 * np.log(2 * np.longdouble(np.pi))
    limit, right = log_prob_limit(model, arrays, mask, there), np.where(there[..., None], terms, 0).sum((1, 2))
    assert_within(log_prob(model, arrays, mask, there), right, tolerance(limit, np.float64))
    total, n = -limit.sum(), max(there.sum(), 1)
    loss = model.loss(Task(*arrays, mask, there)).data
    assert_within(loss, -right.sum() / n, tolerance(total / n, np.float64))


@given(seeds, sizes, forms)
def test_targets_do_not_see_what_comes_after_them_nor_themselves(seed, size, form):
    model = small(*size[3:], **form)
    arrays, (mask, _) = drawn_task(seed, size)
    first = conditionals(model, arrays, mask)
    for t in range(size[2]):
        changed = arrays[3].copy()
        changed[:, t:] = 7.0
        second = conditionals(model, (*arrays[:3], changed), mask)
        for a, b in zip(first, second, strict=True):
            assert_same_bits(a[:, : t + 1], b[:, : t + 1])


def test_targets_do_see_what_came_before():
    model = small()
    arrays, (mask, _) = drawn_task(0, (2, 3, 4, 1, 1))
    changed = arrays[3].copy()
    changed[:, 0] += 1
    first, second = conditionals(model, arrays, mask), conditionals(model, (*arrays[:3], changed), mask)
    assert (np.abs(first[0] - second[0])[:, 1:] > 1e-6).all()


@given(seeds, sizes, forms)
def test_the_first_target_is_tnp_d_s(seed, size, form):
    """With the same weights: given the context alone, the two models say the same."""
    model, diagonal = small(*size[3:], **form), TNPD(*size[3:], **SMALL, **form, rng=np.random.default_rng(1))
    diagonal.load_state_dict(model.state_dict())
    arrays, (mask, there) = drawn_task(seed, size)
    found = conditionals(model, arrays, mask)
    expected = predict(diagonal, *arrays[:3], mask)
    for a, b, limit in zip(found, expected, limits(model, arrays, mask, there | True), strict=True):
        assert_within(a[:, :1], b[:, :1], 2 * tolerance(limit, np.float64)[:, :1])


def test_the_likelihood_depends_on_the_order_of_the_targets():
    """Not target-equivariant; but the context has no order."""
    model = small()
    arrays, (mask, there) = drawn_task(0, (3, 4, 5, 1, 1))
    rng = np.random.default_rng(0)
    others, new = rng.permutation(4), rng.permutation(5)
    context_x, context_y, target_x, target_y = arrays
    here = raw(model(context_x, context_y, target_x, mask).log_prob(target_y))
    permuted = raw(model(context_x[:, others], context_y[:, others], target_x, mask[:, others]).log_prob(target_y))
    bound = 2 * tolerance(log_prob_limit(model, arrays, mask, there | True), np.float64)
    assert_within(permuted, here, bound)
    reordered = raw(model(context_x, context_y, target_x[:, new], mask).log_prob(target_y[:, new]))
    assert (np.abs(reordered - here) > 1e6 * bound).all()


@given(seeds, sizes)
def test_hidden_targets_are_left_out_of_the_chain(seed, size):
    """As if they were not in the arrays; whatever stands there."""
    model = small(*size[3:])
    arrays, (mask, there) = drawn_task(seed, size)
    context_x, context_y, target_x, target_y = arrays
    hidden = np.where(there[..., None], target_y, np.nan)
    found = raw(model(context_x, context_y, target_x, mask).log_prob(hidden, mask=there[..., None]))
    bound = 2 * tolerance(log_prob_limit(model, arrays, mask, there), np.float64)
    for b in range(size[0]):
        some = there[b]
        alone = model(context_x[[b]], context_y[[b]], target_x[[b]][:, some], mask[[b]])
        assert_within(found[b], raw(alone.log_prob(target_y[[b]][:, some]))[0], bound[b])


@given(seeds, sizes, real_dtypes, st.sampled_from([(), 2, (2, 1)]), forms)
def test_sampling_with_a_cache_is_the_one_pass(seed, size, dtype, shape, form):
    """Along a path that was drawn, the conditionals are those of teacher forcing; and y = μ + σ ε."""
    model = small(*size[3:], **form).astype(dtype)
    arrays, (mask, there) = drawn_task(seed, size, dtype)
    p = model(*arrays[:3], mask)
    y, drawn = p.paths(np.random.default_rng(seed), shape)
    draws = (shape,) if isinstance(shape, int) else shape
    assert y.shape == drawn.mean.shape == (*draws, size[0], size[2], size[4])
    assert y.dtype == drawn.mean.dtype == drawn.std.dtype == dtype
    for path in np.ndindex(draws):
        forced = p.conditionals(y[path])
        rounded = limits(model, (*arrays[:3], y[path]), mask, there | True)
        for a, b, limit in zip((drawn.mean[path], drawn.std[path]), (forced.mean, forced.std), rounded, strict=True):
            assert_within(a, raw(b), 2 * tolerance(limit, dtype))
    noise = np.random.default_rng(seed).standard_normal(y.shape).astype(dtype)
    assert_same_bits(y, drawn.mean + drawn.std * noise)
    assert_same_bits(p.sample(np.random.default_rng(seed), shape), y)


def test_samples_are_drawn_from_what_log_prob_says():
    """E[Σ_t ((y_t − μ_t)/σ_t)²] = T along paths; 4000 of them, within five standard errors."""
    model = small()
    arrays, (mask, _) = drawn_task(0, (1, 3, 3, 1, 1))
    y, p = model(*arrays[:3], mask).paths(np.random.default_rng(0), 4000)
    squares = (((y - p.mean) / p.std) ** 2).sum((1, 2, 3))
    assert abs(squares.mean() - 3) < 5 * np.sqrt(2 * 3 / 4000)
    assert np.ptp(p.mean[:, 0, 1]) > 1e-3  # paths differ, and what comes after them with them
    assert np.ptp(p.mean[:, 0, 0]) == 0


def test_marginals_are_mixtures_over_paths():
    model = small()
    arrays, (mask, _) = drawn_task(0, (2, 3, 3, 1, 1))
    p = model(*arrays[:3], mask)
    marginals = p.marginals(np.random.default_rng(0), 20)
    _, drawn = p.paths(np.random.default_rng(0), 20)
    np.testing.assert_array_equal(marginals.mean, drawn.mean.mean(0))
    assert marginals.log_prob(arrays[3]).shape == arrays[3].shape
    first = raw(p.conditionals(arrays[3]).mean)[:, 0]  # 20 times the same number, and the roundings of their mean
    limit = limits(model, arrays, mask, np.ones((2, 3), bool))[0][:, 0]
    bound = 2 * tolerance(limit, np.float64) + 20 * np.finfo(np.float64).eps * np.abs(first)
    assert_within(marginals.mean[:, 0], first, bound)


def test_what_cannot_be_asked():
    model = small(dy=2)
    arrays, (mask, _) = drawn_task(0, (2, 3, 4, 1, 2))
    p = model(*arrays[:3], mask)
    half = np.ones((2, 4, 2), bool)
    half[0, 0, 0] = False
    with pytest.raises(ValueError, match="hide all or none of them"):
        p.log_prob(arrays[3], mask=half)
    for ask in (p.log_prob, p.conditionals):
        name = rf"^ChainRule\.{ask.__name__}"
        with pytest.raises(ValueError, match=name + r": y has shape \(4, 2\); it must be \(2, 4, 2\)$"):
            ask(arrays[3][0])
        with pytest.raises(ValueError, match=name + r": y holds nan at \[0, 0, 0\]; hide what is missing"):
            ask(arrays[3] * np.nan)
    with pytest.raises(TypeError, match=r"numpy\.random\.default_rng"):
        p.sample(0)
    with pytest.raises(ValueError, match="the first axis, of components, must hold one"):
        p.marginals(np.random.default_rng(0), 0)
    with pytest.raises(ValueError, match="TNPA: target_x"):
        model(arrays[0], arrays[1], arrays[2][..., :0], mask)


def test_no_tape_is_left_by_sampling():
    model = small()
    arrays, (mask, _) = drawn_task(0, (1, 2, 2, 1, 1))
    assert isinstance(model(*arrays[:3], mask).sample(np.random.default_rng(0)), np.ndarray)
    assert ad.is_recording()
