"""ConvGNP: its equations, what it respects as a ConvCNP does, and its joint distribution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.layers.unet import UNet
from refnp.models.convcnp import ConvCNP, Head
from refnp.models.convgnp import ConvGNP
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within, seeds
from tests.models.helpers import generator, on_grid, parts
from tests.models.test_convcnp import DENSITY, RANK, made, sets
from tests.transcriptions import convcnp as transcriptions


def drawn_task(seed, *, masked=True, **options):
    (x, y, t), rng = sets(seed, **options), generator(seed)
    masks = (rng.random(a.shape[:2]) < 0.7 for a in (x, t)) if masked else (None, None)
    return Task(x, y, t, rng.normal(size=(*t.shape[:2], y.shape[-1])), *masks)


@given(seeds, st.sampled_from([np.float32, np.float64]), st.booleans(), st.booleans())
@pytest.mark.parametrize(("dx", "dy"), [(1, 1), (1, 2), (2, 1)])
def test_value_against_index_loops(dx, dy, seed, dtype, unet, masked):
    model = made(unet, ConvGNP, dx=dx, dy=dy, dtype=dtype)
    x, y, t = sets(seed, dx=dx, dy=dy, dtype=dtype, contexts=3, targets=2, width=0.4 if dx == 2 else 1.0)
    mask = generator(seed).random(x.shape[:2]) < 0.6 if masked else None
    assert_written_out(model, unet, x, y, t, mask, [(x, y, mask)])


def assert_written_out(model, unet, x, y, t, mask, contexts):
    """The prediction is that of index loops over the sets (x, y, mask)."""
    grid = model.grid(x, t, mask)
    network = transcriptions.unet if unet else transcriptions.simple
    right = transcriptions.convgnp(
        model.state_dict(), lambda h, state: network(h, state, 2, **({} if unet else {"rectified": False})),
        grid.start, grid.lengths, DENSITY, contexts, t, model.dy, RANK, floor=1e-3,
    )  # fmt: skip
    bounds = on_grid(model, grid, x, y, t, mask)
    for value, reference, bound in zip(parts(model(x, y, t, mask)), right, bounds, strict=True):
        assert value.dtype == t.dtype
        assert_within(value, reference, tolerance(bound, t.dtype))


@given(seeds)
def test_what_is_said_of_some_targets_does_not_depend_on_the_others(seed):
    """On one grid: the distribution of some of the targets is that of all with the others left out."""
    model, (x, y, t) = made(kind=ConvGNP), sets(seed)
    grid = model.grid(x, t)
    for a, b in zip(parts(model(x, y, t)), parts(model(x, y, t[:, :2], grid=grid)), strict=True):
        assert_same_bits(a[:, :2], b)


def test_two_targets_at_one_place_have_one_function_and_two_noises():
    model, (x, y, t) = made(kind=ConvGNP), sets(0)
    p = model(x, y, np.repeat(t[:, :1], 2, 1))
    assert_same_bits(p.factor[:, 0], p.factor[:, 1])
    covariance = p.covariance()
    assert (covariance[:, 0, 1] < covariance[:, 0, 0]).all()
    assert (covariance[:, 0, 1] > 0).all()


def test_the_joint_likelihood_is_not_that_of_the_marginals():
    model, task = made(kind=ConvGNP), drawn_task(0, masked=False)
    together = model.joint_log_prob(task)
    alone = model.marginal(task).log_prob(task.target_y).sum((1, 2))
    assert (np.abs(raw(together) - raw(alone)) > 1e-6).all()


@given(seeds)
def test_what_it_says_of_a_task(seed):
    """Loss, joint likelihood and marginals are those of the distribution; hidden targets have no part in them."""
    model, task = made(kind=ConvGNP, dy=2), drawn_task(seed, dy=2, targets=4)
    there = task.target_present
    joint_log_p = raw(model.joint_log_prob(task))
    dense = model.joint_normal(task)
    expected = raw(dense.log_prob(task.target_y.reshape(2, 8), mask=np.repeat(there, 2, 1)))
    condition = np.linalg.cond(dense.covariance())
    assert_within(joint_log_p, expected, 1e3 * np.finfo(float).eps * condition * (8 + np.abs(expected)))
    loss = model.loss(task).item()
    assert_within(loss, -joint_log_p.sum() / max(there.sum(), 1), 64 * np.finfo(float).eps * np.abs(joint_log_p).sum())
    marginal = model.marginal(task)
    variance = np.diagonal(dense.covariance(), axis1=-2, axis2=-1).reshape(2, 4, 2)
    assert_within(raw(marginal.std) ** 2, variance, 64 * np.finfo(float).eps * variance)
    assert model.joint_samples(task, generator(), 3).shape == (3, 2, 4, 2)
    assert model.functions(task, generator(), 3).shape == (3, 2, 4, 2)
    assert model.functions(task, generator(), 0).shape == (0, 2, 4, 2)


def test_draws_follow_the_distribution():
    """20 000 seeded draws: the covariance within 5 standard errors, of functions that without the noise."""
    model, task = made(kind=ConvGNP), drawn_task(0, masked=False, tasks=1)
    p = model.joint(task)
    for draws, covariance in (
        (model.joint_samples(task, generator(), 20_000), p.covariance()[0]),
        (model.functions(task, generator(), 20_000), (p.factor @ p.factor.swapaxes(-1, -2))[0]),
    ):
        size = np.sqrt(np.diag(covariance))
        error = np.sqrt((np.outer(size, size) ** 2 + covariance**2) / 20_000)
        assert_within(np.cov(draws[:, 0, :, 0].T), covariance, 5 * error)


def test_the_published_model():
    """66 numbers of a target from 64 channels: a linear map after the set convolution, as there."""
    model = ConvGNP.bruinsma(rng=generator())
    assert model.rank == 64
    assert model.network.channels_out == 64
    assert model.decoders[0].mlp.layers[0].weight.shape == (64, 66)
    few = ConvGNP.bruinsma((8, 8), rank=2, rng=generator())
    assert few.decoders[0].mlp is None
    assert few.network.channels_out == 4
    marginal = ConvCNP.bruinsma((8, 8), rng=generator())
    assert few.head == marginal.head


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda net: ConvGNP(net, rank=0, rng=generator()), "^ConvGNP: rank is 0; at least 1 is needed"),
        (lambda net: ConvGNP(net, head=Head(separate=True), rng=generator()), "head has separate=True"),
        (
            lambda net: ConvGNP(net, rank=2, head=Head(hidden=None), rng=generator()),
            "^ConvGNP: hidden=None needs a network with 4 channels out and separate=False; it has 16",
        ),
        (lambda net: ConvGNP.gordon(rng=generator()), "^ConvGNP.gordon: .* use ConvGNP.bruinsma"),
        (lambda net: ConvGNP.bruinsma(rank=0, rng=generator()), "^ConvGNP.bruinsma: rank is 0"),
        (lambda net: ConvGNP.bruinsma((), rng=generator()), "^ConvGNP.bruinsma: channels are empty"),
    ],
)
def test_options_that_do_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make(UNet(8, (8,), rng=generator()))
