"""What models say of each target by itself and of all together: it is what they are trained on."""

import dataclasses

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.layers.mixture import Mixture
from refnp.models.bootstrap import Bootstrapping
from refnp.models.latent import DRAWS, LatentModel
from refnp.studies.evaluation import by_itself, together
from refnp.studies.registry import build
from tests.helpers import assert_same_bits, assert_within
from tests.models.helpers import shaken
from tests.studies.tiny import OPTIONS, few_points, spoiled

EPS = np.finfo(float).eps
every_model = pytest.mark.parametrize("name", OPTIONS)


def model_and_task(name, *, ragged=True, seed=1):
    model = build(name, OPTIONS[name], dtype=np.float64, rng=np.random.default_rng(0))
    return model, few_points(ragged=ragged).sample(np.random.default_rng(seed), 3)


def rng():
    return np.random.default_rng(2)


@every_model
def test_the_loss_is_minus_one_of_the_two(name):
    """Which of them, `joint_loss` says; of a latent model it is a bound on the joint one."""
    model, task = model_and_task(name)
    n, mask = task.target_present.sum(), task.target_present[..., None]
    each = raw(by_itself(model, task, rng()).log_prob(task.target_y, mask=mask))
    joint = together(model, task, rng(), autoregressive=False)
    assert model.joint_loss == (joint is not None)
    if isinstance(model, LatentModel):
        draws, one = rng(), {"bound": "importance_weighted", "samples": 1}  # the same draws, one after the other
        singly = [raw(model.log_likelihood_bound(task, rng=draws, **one)) for _ in range(DRAWS)]
        assert (joint > np.mean(singly, 0)).all(), "Jensen: the logarithm of a mean is more than the mean of logarithms"
        return
    if isinstance(model, Bootstrapping):
        sets = model.sets(*(getattr(task, part) for part in ("context_x", "context_y", "target_x", "context_mask")))
        x, y, target_x, known = sets
        target_x = np.where(mask, target_x, 0)
        draws = model.drawn(known, model.loss_samples, rng(), None)
        plain, members = model.predictions(x, y, known, target_x, draws)
        ensemble = Mixture(members, together=1).log_prob(task.target_y, mask=mask)
        each = (raw(plain.log_prob(task.target_y, mask=mask)).sum(-1) + raw(ensemble)) / 2
    terms = each if joint is None else joint
    loss = model.loss(task, rng=rng()).item()
    # the same terms, added in another order: Higham (2002), §4.2; of a joint likelihood its own terms are sums already
    bound = 4 * each.size * EPS * (np.abs(terms).sum() + n) / n
    assert_within(-loss, terms.sum() / n, bound)


@every_model
def test_hidden_points_have_no_part(name):
    model, task = model_and_task(name)
    bad, there = spoiled(task), task.target_mask
    assert not task.context_mask.all()
    assert not there.all()
    ours, theirs = (by_itself(model, t, rng()) for t in (task, bad))
    for part in ("mean", "std"):
        assert_same_bits(raw(getattr(ours, part))[there], raw(getattr(theirs, part))[there])
    for autoregressive in (False, True):
        ours, theirs = (together(model, t, rng(), autoregressive=autoregressive) for t in (task, bad))
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_same_bits(ours, theirs)


def test_hidden_targets_have_no_part_in_a_covariance():
    """TNP-ND's targets look at each other: the figures are those of a task without the hidden ones."""
    model, task = model_and_task("tnpnd")
    model, there = shaken(model), task.target_mask  # as it begins, none of its projector's relus is awake
    assert not there.all()
    each, joint = by_itself(model, task, rng()), together(model, task, rng(), autoregressive=False)
    for b in range(3):
        own = task[b : b + 1]
        fewer = dataclasses.replace(
            own, target_x=own.target_x[:, there[b]], target_y=own.target_y[:, there[b]], target_mask=None
        )
        other = by_itself(model, fewer, rng())
        # fewer numbers in the same sums, and factors of matrices that are far from singular
        for part in ("mean", "std"):
            np.testing.assert_allclose(
                getattr(each, part)[b, there[b]], getattr(other, part)[0], rtol=1e-10, atol=1e-13
            )
        expected = together(model, fewer, rng(), autoregressive=False)[0]
        assert_within(joint[b], expected, 1e-10 * (abs(expected) + there[b].sum()))


@pytest.mark.parametrize("name", ["np", "anp"])
def test_as_many_draws_of_z_as_it_says(name):
    model, task = model_and_task(name)
    assert by_itself(model, task, rng()).components.shape == (DRAWS, *task.target_y.shape)


@pytest.mark.parametrize("name", ["cnp", "tnpd", "convcnp", "tetnp"])
def test_by_the_chain_rule_one_target_is_the_marginal_one(name):
    model, task = model_and_task(name, ragged=False, seed=3)
    first = dataclasses.replace(task, target_x=task.target_x[:, :1], target_y=task.target_y[:, :1])
    marginal = raw(by_itself(model, first, rng()).log_prob(first.target_y))[:, 0, 0]
    chain = together(model, first, rng(), autoregressive=True)
    assert_within(chain, marginal, 4 * EPS * np.abs(marginal))


def test_tnp_a_says_of_a_target_by_itself_what_tnp_d_does():
    model, task = model_and_task("tnpa")
    other, _ = model_and_task("tnpd")
    other.load_state_dict(model.state_dict())
    ours, theirs = (by_itself(m, task, rng()) for m in (model, other))
    assert_same_bits(ours.mean, theirs.mean)
    assert_same_bits(ours.std, theirs.std)


@every_model
def test_answers_are_float64_and_leave_no_tape(name):
    model, task = model_and_task(name)
    model.astype(np.float32)
    own = task.astype(np.float32)
    each = by_itself(model, own, rng())
    assert isinstance(raw(each.mean), np.ndarray)
    assert raw(each.mean).dtype == raw(each.std).dtype == np.float64
    assert raw(each.mean).shape == task.target_y.shape
    joint = together(model, own, rng(), autoregressive=True)
    assert isinstance(joint, np.ndarray)
    assert joint.dtype == np.float64
    assert joint.shape == (3,)
    assert len(model.inputs(own)) == 4
