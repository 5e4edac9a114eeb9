"""TNP-ND: its covariances, the one that permutes with the targets and the one that does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.models.tnp import TNPND, diagonal_mask, nondiagonal_mask
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within, real_dtypes, seeds
from tests.models.helpers import drawn_task, forms, joint_limits, shaken, sizes, under_whole_mask
from tests.transcriptions import tnp as transcription

SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "target_layers": 2, "embedding_depth": 2, "rank": 3}
both = pytest.mark.parametrize("covariance", ["low_rank", "cholesky"])


def small(dx=1, dy=1, **options):
    return shaken(TNPND(dx, dy, **(SMALL | options), rng=np.random.default_rng(0)))


def log_prob(joint, y):
    """log p of all numbers of y (B, N, dy), target after target."""
    return joint.log_prob(y.reshape(joint.mean.shape))


def spread(model, joint):
    """Σ of the low rank form, L of the other: what the equations say."""
    lower = raw(joint.lower())
    return lower @ lower.swapaxes(-1, -2) if model.diagonal is not None else lower


def spread_bound(model, limit, lower, dtype):
    """Twice that of Σ or L; Cholesky's Σ = L Lᵀ holds to (n + 1) u |L||Lᵀ|, and so does the product of the test."""
    bound = tolerance(limit, dtype)
    if model.diagonal is None:
        return bound
    n, size = lower.shape[-1], np.abs(lower)
    return bound + 2 * (n + 1) * np.finfo(dtype).eps * (size @ size.swapaxes(-1, -2))


@both
@given(seeds, sizes, st.sampled_from([(1, 1, 1), (3, 2, 5)]))
def test_depths_of_its_own(covariance, seed, size, depths):
    names = dict(zip(("mean_depth", "projector_depth", "diagonal_depth"), depths, strict=True))
    model = small(*size[3:], covariance=covariance, **names)
    assert [len(mlp.layers) for mlp in (model.mean, model.projector)] == list(depths[:2])
    assert model.diagonal is None or len(model.diagonal.layers) == depths[2]
    (context_x, context_y, target_x, _), (there, _) = drawn_task(seed, size)
    joint = model(context_x, context_y, target_x, there)
    mean, limit = joint_limits(model, context_x, context_y, target_x, there)
    assert_within(raw(joint.mean), mean.value, tolerance(mean, np.float64))
    bound = spread_bound(model, limit, raw(joint.lower()), np.float64)
    assert_within(spread(model, joint), limit.value, bound)


@given(seeds, sizes)
def test_the_fast_pass_is_the_encoder_under_the_whole_masks(seed, size):
    """Whole encoder layers under TNP-D's mask, and whole target layers with all targets."""
    model = small(*size[3:], covariance="cholesky")
    (context_x, context_y, target_x, _), (there, _) = drawn_task(seed, size)
    (b, c, t, _, dy), all_targets = size, np.ones((size[0], size[2]), bool)
    tokens = np.concatenate([model.observed(context_x, context_y), model.unobserved(target_x)], 1)
    mask = diagonal_mask(c, t) & np.concatenate([there, all_targets], 1)[:, None]
    z = among = under_whole_mask(model, tokens, mask)[:, c:]
    for layer in model.target_layers:
        among = layer(among, mask=nondiagonal_mask(all_targets))
    p = raw(model.projector(among)).reshape(b, t * dy, 3)
    joint = model(context_x, context_y, target_x, there)
    mean, limit = joint_limits(model, context_x, context_y, target_x, there)
    assert_within(raw(joint.mean), raw(model.mean(z)).reshape(b, t * dy), 2 * tolerance(mean, np.float64))
    assert_within(raw(joint.lower()), np.tril(p @ p.swapaxes(-1, -2)), 2 * tolerance(limit, np.float64))


@both
@given(seed=seeds, size=sizes, dtype=real_dtypes, form=forms)
def test_mean_and_covariance(covariance, seed, size, dtype, form):
    """Against all tokens under the whole mask, one by one."""
    model = small(*size[3:], covariance=covariance, **form).astype(dtype)
    (context_x, context_y, target_x, _), (mask, _) = drawn_task(seed, size, dtype)
    joint = model(context_x, context_y, target_x, mask)
    mean, limit = joint_limits(model, context_x, context_y, target_x, mask)
    bound = spread_bound(model, limit, raw(joint.lower()), dtype)
    assert raw(joint.mean).dtype == raw(joint.lower()).dtype == dtype
    assert_within(raw(joint.mean), mean.value, tolerance(mean, dtype))
    assert_within(spread(model, joint), limit.value, bound)
    for b, one in enumerate(zip(context_x, context_y, target_x, mask, strict=True)):
        low_rank = covariance == "low_rank"
        literal = transcription.tnp_nd(*one, model.state_dict(), 2, 2, 2, size[4], low_rank, **form)
        assert_within(raw(joint.mean)[b], literal[0], tolerance(mean, dtype)[b])
        assert_within(spread(model, joint)[b], literal[1], bound[b])


@given(seeds, sizes)
def test_the_low_rank_covariance_permutes_with_the_targets(seed, size):
    model = small(*size[3:])
    (context_x, context_y, target_x, _), (mask, _) = drawn_task(seed, size)
    new = np.random.default_rng(seed).permutation(size[2])
    rows = (new[:, None] * size[4] + np.arange(size[4])).reshape(-1)
    here, there = model(context_x, context_y, target_x, mask), model(context_x, context_y, target_x[:, new], mask)
    mean, limit = joint_limits(model, context_x, context_y, target_x, mask)
    bound = 2 * spread_bound(model, limit, raw(here.lower()), np.float64)[:, rows][:, :, rows]
    assert_within(raw(there.mean), raw(here.mean)[:, rows], 2 * tolerance(mean, np.float64)[:, rows])
    assert_within(spread(model, there), spread(model, here)[:, rows][:, :, rows], bound)


def test_the_authors_factor_does_not():
    """tril(P Pᵀ): the same targets in another order have another covariance, and another likelihood."""
    model = small(covariance="cholesky")
    (context_x, context_y, target_x, target_y), _ = drawn_task(0, (2, 3, 6, 1, 1))
    new = np.random.default_rng(0).permutation(6)
    here, there = model(context_x, context_y, target_x), model(context_x, context_y, target_x[:, new])
    assert (np.abs(raw(here.covariance())[:, new][:, :, new] - raw(there.covariance())) > 1e-3).any((1, 2)).all()
    likelihoods = raw(log_prob(here, target_y)), raw(log_prob(there, target_y[:, new]))
    assert (np.abs(likelihoods[0] - likelihoods[1]) > 1e-2).all()
    mean, _ = joint_limits(model, context_x, context_y, target_x)
    assert_within(raw(there.mean), raw(here.mean)[:, new], 2 * tolerance(mean, np.float64)[:, new])  # the mean does


def test_the_authors_factor_can_be_singular():
    """With a row of P that is 0; the diagonal of the low rank form is exp(·)."""
    for covariance in ("cholesky", "low_rank"):
        model = small(covariance=covariance)
        model.projector.layers[-1].weight.data *= 0
        model.projector.layers[-1].bias.data *= 0
        (context_x, context_y, target_x, target_y), _ = drawn_task(0, (2, 3, 4, 1, 1))
        if covariance == "cholesky":
            with pytest.raises(ValueError, match="diagonal"):
                model(context_x, context_y, target_x)
        else:
            assert np.isfinite(raw(log_prob(model(context_x, context_y, target_x), target_y))).all()


def test_a_diagonal_that_is_lost_in_rounding_is_an_error_that_says_so():
    """PPᵀ alone has rank 3: without exp(d) it is singular, and with one below a rounding of it too, or nearly."""
    model = small()
    model.diagonal.layers[-1].weight.data *= 0
    (context_x, context_y, target_x, target_y), _ = drawn_task(0, (1, 3, 12, 1, 1))
    for d, regular in ((-10.0, True), (-100.0, False)):
        model.diagonal.layers[-1].bias.data[...] = d
        if regular:
            assert np.isfinite(raw(log_prob(model(context_x, context_y, target_x), target_y))).all()
        else:
            with pytest.raises(ValueError, match=r"not positive definite.*add something to its diagonal"):
                model(context_x, context_y, target_x)


def test_a_floor_bounds_the_diagonal():
    model = small(covariance="cholesky", floor=0.05)
    model.projector.layers[-1].weight.data *= 0
    model.projector.layers[-1].bias.data *= 0
    (context_x, context_y, target_x, _), _ = drawn_task(0, (2, 3, 4, 1, 1))
    lower = raw(model(context_x, context_y, target_x).lower())
    np.testing.assert_array_equal(lower, np.broadcast_to(0.05 * np.eye(4), lower.shape))
    free, bounded = small(covariance="cholesky"), small(covariance="cholesky", floor=0.05)
    without, found = (raw(m(context_x, context_y, target_x).lower()) for m in (free, bounded))
    expected = np.where(np.eye(4, dtype=bool), 0.05 + 0.95 * np.tanh(without), without)
    assert_within(found, expected, 8 * np.finfo(float).eps)  # a tanh, a product and a sum of numbers below 1


@both
def test_hidden_targets_are_independent_and_standard_normal(covariance):
    model = small(2, 2, covariance=covariance)
    (context_x, context_y, target_x, _), (mask, there) = drawn_task(1, (2, 3, 4, 2, 2))
    assert not there.all()
    covariances = raw(model(context_x, context_y, target_x, mask, there).covariance())
    hidden = ~np.repeat(there, 2, 1)
    identity = np.broadcast_to(np.eye(8), covariances.shape)
    np.testing.assert_array_equal(covariances[hidden], identity[hidden])
    assert (np.abs(covariances - identity)[~hidden].max() > 1e-3).all()


@both
def test_log_prob_is_that_of_the_covariance(covariance):
    model = small(2, 2, covariance=covariance)
    (context_x, context_y, target_x, target_y), _ = drawn_task(0, (2, 3, 4, 2, 2))
    joint = model(context_x, context_y, target_x)
    away = target_y.reshape(2, 8) - raw(joint.mean)
    covariances = raw(joint.covariance())
    determinants, condition = np.linalg.slogdet(covariances)[1], np.linalg.cond(covariances)
    squares = np.einsum("bn,bn->b", away, np.linalg.solve(covariances, away[..., None])[..., 0])
    expected = -0.5 * squares - 0.5 * determinants - 4 * np.log(2 * np.pi)
    bound = 64 * np.finfo(float).eps * condition * (squares + 8)  # n² roundings, each times the condition number
    assert_within(raw(log_prob(joint, target_y)), expected, bound)


@both
@given(seed=seeds, size=sizes)
def test_hidden_targets_are_as_if_they_were_not_there(covariance, seed, size):
    """Likelihood of those that are there, and the same bits whatever stands where nothing is."""
    model = small(*size[3:], covariance=covariance)
    (context_x, context_y, target_x, target_y), (mask, there) = drawn_task(seed, size)
    tasks = []
    for rubbish in (0.0, np.nan):
        x, y = (np.where(there[..., None], a, rubbish) for a in (target_x, target_y))
        tasks.append(Task(context_x, context_y, x, y, mask, there))
    losses = [raw(model.loss(task)) for task in tasks]
    assert_same_bits(*losses)
    total, scale = 0.0, 1.0
    for b in range(size[0]):
        one = context_x[[b]], context_y[[b]], target_x[[b]][:, there[b]], mask[[b]]
        joint = model(*one)
        log_p = raw(log_prob(joint, target_y[[b]][:, there[b]]))[0]
        total -= log_p
        lower = raw(joint.lower())[0]
        condition = np.linalg.cond(lower @ lower.T) if lower.size else 1.0
        scale += condition * (abs(log_p) + lower.size)
    # each likelihood twice, to the error of a factor of a covariance: n³ roundings times the condition number
    assert_within(losses[0], np.asarray(total / max(there.sum(), 1)), 1024 * np.finfo(float).eps * scale)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"floor": 0.05}, "floor is 0.05"),
        ({"covariance": "cholesky", "floor": 1.0}, "floor is 1.0"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        small(**options)
