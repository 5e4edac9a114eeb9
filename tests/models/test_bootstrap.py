"""BNP and BANP: resampled contexts, members of the ensemble, what they respect, and what the loss is of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from gradcheck import GradientError
from refnp.autograd.primitives import raw
from refnp.autograd.trees import leaves_of
from refnp.layers.distributions import Normal
from refnp.layers.mixture import Mixture
from refnp.models.attentive import CANP
from refnp.models.bootstrap import BANP, BNP, resampling, residuals_of
from refnp.models.neural_process import CNP
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within, check, normal, seeds
from tests.models.helpers import drawn_task, generator, predict, shaken, sizes, with_adapted

SMALL = {"after": 2, "decoder": 2, "samples": 3, "loss_samples": 2, "floor": 0.1}
FORMS = [
    (BNP, {"hidden": 4, "before": 2}),
    (BNP, {"hidden": 4, "before": 2, "encoders": 2, "decoder": 1}),
    (BANP, {"hidden": 4, "heads": 2, "depth": 3, "query_depth": 1}),
    (BANP, {"hidden": 4, "heads": 2, "depth": 3, "query_depth": 1, "scaling": "features"}),
]
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0].__name__} {form[1]}")


def small(form, dx=1, dy=1, **options):
    return shaken(form[0](dx, dy, **(SMALL | form[1] | options), rng=generator()))


@every_form
def test_plain_is_the_model_that_it_is_made_of(form):
    model = small(form)
    options = {name: value for name, value in (SMALL | form[1]).items() if "samples" not in name}
    other = (CNP if form[0] is BNP else CANP)(**options, rng=generator())
    state = model.state_dict()
    other.load_state_dict({name: array for name, array in state.items() if name != "adaptation.weight"})
    (x, y, target_x, _), (mask, _) = drawn_task(0, (2, 4, 3, 1, 1))
    plain, answer = model.without_tape().plain(*other.sets(x, y, target_x, mask)[:2], mask, target_x), None
    answer = other(x, y, target_x, mask)
    assert_same_bits(plain.mean, answer.mean)
    assert_same_bits(plain.std, answer.std)
    model.load_state_dict(state | {"adaptation.weight": 0 * state["adaptation.weight"]})
    for member in predict(model, x, y, target_x, mask)[0]:  # an adaptation of 0 is none
        assert_same_bits(member, answer.mean)


def test_the_same_draws_of_a_context_in_another_order_are_another_ensemble():
    """Draws name points by their number; their distribution has no order, a draw has."""
    model, ((x, y, target_x, _), _) = small(FORMS[0]), drawn_task(0, (1, 5, 3, 1, 1))
    here, there = (predict(model, x[:, new], y[:, new], target_x)[0] for new in (np.arange(5), [4, 2, 0, 1, 3]))
    assert np.abs(here - there).max() > 1e-6


@pytest.mark.parametrize("points", [0, 1])
def test_one_point_or_none_leaves_no_residual(points):
    """Less its mean it is 0: every member adapts to what the model says there. Nothing is drawn from nothing."""
    model, ((x, y, target_x, _), _) = small(FORMS[0]), drawn_task(0, (2, points, 3, 1, 1))
    assert np.ptp(predict(model, x, y, target_x)[0], 0).max() == 0


@given(seeds, sizes)
def test_adapted_contexts_have_residuals_of_mean_0(seed, size):
    model = small(FORMS[0], *size[3:])
    (x, y, target_x, _), (mask, _) = drawn_task(seed, size)
    sets = model.sets(x, y, target_x, mask)
    pairs, residuals = resampling(generator(seed), mask, 2)
    adapted = model.bootstrapped(*sets[:2], mask, (pairs, residuals))
    assert adapted.shape == (2, *size[:2], size[4])
    assert not adapted[:, ~mask].any()
    for s in range(2):
        some = [np.take_along_axis(a, pairs[s][..., None], 1) for a in sets[:2]]
        p = model.plain(*some, mask, sets[0])
        mean, std = raw(p.mean), raw(p.std)
        e = (adapted[s] - mean) / std * mask[..., None]
        lost = ((np.abs(mean) / std + np.abs(e)) * mask[..., None]).sum(1)  # in μ + σ ε − μ, in units of σ
        drawn = np.take_along_axis((sets[1] - mean) / std, residuals[s][..., None], 1)
        lost += size[1] * np.abs(drawn * mask[..., None]).sum(1)  # in the mean, for each of the points
        assert_within(e.sum(1), np.zeros_like(lost), 4 * np.finfo(float).eps * lost)


def test_deviations_that_underflow_leave_finite_predictions():
    """With no floor σ may be 1e-300; a residual of such a σ is limited, and that of another keeps its digits."""
    model, ((x, y, target_x, _), _) = small(FORMS[0], floor=0.0), drawn_task(0, (1, 4, 3, 1, 1))
    model.decoder.layers[-1].bias.data[1] = -690
    found = predict(model, x, y, target_x)
    assert np.isfinite(found).all()
    far, near = residuals_of(np.array([1.0, 1.0]), np.array([0.0, 0.5]), np.array([1e-300, 0.25]))
    assert far == 2.0**52
    assert near == 2


@given(seeds, sizes)
def test_only_points_that_are_there_are_drawn(seed, size):
    _, (mask, _) = drawn_task(seed, size)
    for chosen in resampling(generator(seed), mask, 3):
        assert chosen.shape == (3, *mask.shape)
        for b in range(size[0]):
            if mask[b].any():
                assert mask[b][chosen[:, b]].all()


def test_points_are_drawn_alike():
    """60 000 draws of 3 out of 5 points: each a third of them, within five standard errors."""
    mask = np.array([[True, False, True, True, False]])
    pairs, residuals = resampling(generator(), mask, 12_000)
    for chosen in (pairs, residuals):
        counts = np.bincount(chosen.ravel(), minlength=5)
        assert counts[[1, 4]].tolist() == [0, 0]
        assert np.abs(counts[[0, 2, 3]] - 20_000).max() < 5 * np.sqrt(60_000 * 2 / 9)
    assert abs((pairs == residuals).mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / 60_000)


@every_form
@given(seed=seeds, size=sizes, objective=st.sampled_from(["targets", "tnp_pytorch"]))
def test_loss(form, seed, size, objective):
    """The two log likelihoods: half their sum over the targets, or their sum over the means of all points of a task."""
    model = small(form, *size[3:], objective=objective)
    (x, y, target_x, target_y), (mask, there) = drawn_task(seed, size)
    draws = resampling(generator(seed), mask, 2)
    points = (target_x, target_y, there)
    if objective == "tnp_pytorch":
        points = tuple(np.concatenate(pair, 1) for pair in zip((x, y, mask), points, strict=True))
    mean, std = predict(model, x, y, points[0] * points[2][..., None], mask, draws=draws)
    zeroed = model.sets(x, y, target_x, mask)
    plain = model.plain(*zeroed[:2], mask, points[0] * points[2][..., None])
    counts = points[2][..., None]
    log_p = raw(plain.log_prob(points[1], mask=counts)).sum(-1)
    log_q = raw(Mixture(Normal(mean, std), together=1).log_prob(points[1], mask=counts))
    both = log_p + log_q
    n = np.maximum(points[2].sum(-1), 1)
    right = -both.sum() / 2 / max(points[2].sum(), 1) if objective == "targets" else -(both.sum(-1) / n).mean()
    found = model.loss(Task(x, y, target_x, target_y, mask, there), draws=draws).item()
    terms = np.abs(log_p).sum() + np.abs(log_q).sum()  # 24 points at most, in sums of another order
    assert_within(found, np.asarray(right), 2 * 24 * np.finfo(float).eps * terms)


@every_form
def test_adapted_contexts_are_constants_for_gradients(form):
    """Of parameters: the same as of a model whose adapted contexts are given."""
    model, (arrays, (mask, there)) = small(form), drawn_task(0, (2, 4, 3, 1, 1))
    task, gradients = Task(*arrays, mask, there), []
    adapted = model.bootstrapped(*model.sets(*arrays[:3], mask)[:2], mask, resampling(generator(), mask, 2))
    for fixed in (False, True):
        if fixed:
            model.bootstrapped = lambda *_: adapted
        model.zero_grad()
        model.loss(task).backward()
        gradients.append([p.grad for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        assert a.any()
        assert_same_bits(a, b)


@pytest.mark.parametrize("form", [FORMS[0], FORMS[2]], ids=lambda form: form[0].__name__)
@pytest.mark.parametrize("constant", [False, True])
def test_gradients_through_the_places_of_adapted_contexts(form, constant):
    """They flow, or with constant places they do not: the gradients of models whose adapted contexts are given, with
    places that go along or are numbers. Values and gradients of parameters are the same."""
    (x, y, target_x, _), (mask, _) = drawn_task(0, (2, 3, 2, 2, 1))
    mask[0, 0], draws = True, resampling(generator(), mask, 2)
    model, other = (small(form, 2, 1, constant_places=option) for option in (constant, not constant))
    means = lambda model: lambda *arrays: model(*arrays, mask, draws=draws).components.mean
    given = [with_adapted(model, x, y, mask, draws, places=places) for places in (constant, not constant)]
    check(means(given[0]), (x, y, target_x), vjp=lambda _, *arrays: ad.vjp(means(model), *arrays))
    with pytest.raises(GradientError):
        check(means(given[1]), (x, y, target_x), vjp=lambda _, *arrays: ad.vjp(means(model), *arrays))
    found = [ad.vjp(lambda state, m=m: means(m.bind(state))(x, y, target_x), m.state_dict()) for m in (model, other)]
    (value, pullback), (same, same_pullback) = found
    assert_same_bits(value, same)
    bar = normal(0, value.shape)
    for a, b in zip(leaves_of(pullback(bar)), leaves_of(same_pullback(bar)), strict=True):
        assert_same_bits(a, b)


@every_form
def test_what_it_says_of_a_task(form):
    model, (arrays, (mask, there)) = small(form, dy=2), drawn_task(0, (2, 5, 4, 1, 2))
    task = Task(*arrays, mask, there)
    answer = model(*arrays[:3], mask)
    assert answer.shape == (2, 4)
    assert answer.elements == (2, 4, 2)
    marginal = model.marginal(task)
    assert marginal.components.shape == (50, 2, 4, 2)
    assert marginal.shape == (2, 4, 2)
    assert_same_bits(model(*arrays[:3], mask).mean, answer.mean)  # without a generator the same draws
    other = model(*arrays[:3], mask, rng=generator(1))
    assert not np.array_equal(raw(other.mean), raw(answer.mean))
    assert model.functions(task, generator(), 5).shape == (5, 2, 4, 2)
    assert model.functions(task, generator(), 0).shape == (0, 2, 4, 2)
    assert np.isfinite(raw(model.joint_log_prob(task))).all()
    assert model.joint_samples(task, generator(), 2).shape == (2, 2, 4, 2)


def test_draws_that_do_not_fit():
    model, ((x, y, target_x, _), _) = small(FORMS[0]), drawn_task(0, (2, 3, 2, 1, 1))
    mask, zeros = np.array([[True, True, False]] * 2), np.zeros((2, 2, 3), int)
    for draws, message in (
        ((zeros, zeros[:1]), r"draws of residuals are int64 of shape \(1, 2, 3\)"),
        ((zeros[:, :1], zeros), r"draws of pairs are int64 of shape \(2, 1, 3\)"),
        ((zeros * 1.0, zeros), "draws of pairs are float64"),
        ((zeros[:0], zeros[:0]), "draws of pairs are int64 of shape"),
        ((zeros, zeros + 3), "draws of residuals name a point that is not in the context"),
        ((zeros - 1, zeros), "draws of pairs name a point that is not in the context"),
        ((zeros + 2, zeros), "draws of pairs name a point that is not in the context"),
    ):
        with pytest.raises(ValueError, match=rf"^BNP: {message}"):
            model(x, y, target_x, mask, draws=draws)
    with pytest.raises(ValueError, match="rng and draws are both given"):
        model(x, y, target_x, mask, draws=(zeros, zeros), rng=generator())
    with pytest.raises(ValueError, match="samples is 0"):
        model(x, y, target_x, mask, samples=0)
