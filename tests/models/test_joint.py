"""Target by target with any conditional model: the chain rule, orders, averages over them, and joint samples."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.layers.distributions import Normal
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.models.chain_rule import random_orders
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.models.tnp import TNPA
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from refnp.verify.layers.neural_processes import loss_of
from tests.helpers import assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.models.helpers import drawn_task, generator, rounded, shaken, sizes
from tests.models.rows import ROWS
from tests.transcriptions import neural_processes as transcription

SMALL = {"hidden": 4, "before": 2, "after": 1, "decoder": 2}
TINY = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "embedding_depth": 2}


def small(dx=1, dy=1):
    return shaken(CNP(dx, dy, **SMALL, rng=generator()))


def problem(seed, size, dtype=np.float64):
    """(context_x, context_y, target_x, mask), target_y and the targets' mask."""
    (x, y, target_x, target_y), (mask, there) = drawn_task(seed, size, dtype)
    return (x, y, target_x, mask), target_y, there


class Exact(NeuralProcess):
    """A Gaussian process with k(x, x') = e^(−½ (x − x')²) and noise σ² = 0.1, target by target: its chain is exact."""

    def __call__(self, context_x, context_y, target_x, context_mask=None):
        x, y, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
        mean, std = np.empty((*target_x.shape[:2], 1)), np.empty((*target_x.shape[:2], 1))
        for b in range(len(x)):
            known, asked = x[b][mask[b]], target_x[b]
            gain = np.linalg.solve(covariance(known), kernel(known, asked)).T
            mean[b] = gain @ y[b][mask[b]]
            std[b, :, 0] = np.sqrt(1.1 - (gain * kernel(asked, known)).sum(-1))
        return Normal(mean, std)


def kernel(a, b):
    return np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(-1))


def covariance(x):
    return kernel(x, x) + 0.1 * np.eye(len(x))


def posterior(x, y, target_x):
    """The exact joint distribution of the targets of one task."""
    gain = np.linalg.solve(covariance(x), kernel(x, target_x)).T
    return MultivariateNormal(
        (gain @ y)[:, 0], np.linalg.cholesky(covariance(target_x) - gain @ kernel(x, target_x))
    )  # fmt: skip


# ---- the density


def chain_limit(model, x, values, target_x, y, mask, there, order):
    """log p of the targets in one order, each a context point for the next, in numbers that carry their error: (B,)."""
    return rounded(chain, model, x, values, target_x, y, mask, there, list(order))


def chain(model, x, values, target_x, y, mask, there, order):
    total = y.sum((1, 2)) * 0
    for t, now in enumerate(order):
        sets = [np.concatenate([a, b[:, order[:t]]], 1) for a, b in ((x, target_x), (values, y), (mask, there))]
        p = model(*sets[:2], target_x[:, [now]], sets[2])
        total = total + p.log_prob(y[:, [now]], mask=there[:, [now], None]).sum((1, 2))
    return total


@given(seeds, sizes, real_dtypes, st.integers(1, 3))
def test_each_order(seed, size, dtype, count):
    """The model's conditionals one after the other, within the sum of their bounds."""
    model = small(*size[3:]).astype(dtype)
    arrays, y, there = problem(seed, size, dtype)
    orders = random_orders(generator(seed), size[2], count)
    chain = Autoregressive(model)(*arrays, orders=orders)
    found = chain.log_prob_by_order(y, mask=there[..., None])
    assert found.dtype == dtype
    assert found.shape == (count, size[0])
    for value, order in zip(raw(found), orders, strict=True):
        limit = chain_limit(model, *arrays[:3], y, arrays[3], there, order)
        assert_within(value, limit.value, tolerance(limit, dtype))


def test_point_by_point():
    """log p(y_2 | C) + log p(y_0 | C, y_2) + log p(y_1 | C, y_2, y_0)."""
    model, (arrays, y, _) = small(2, 2), problem(0, (2, 2, 3, 2, 2))
    state, order = model.state_dict(), [2, 0, 1]
    found = raw(Autoregressive(model)(*arrays, orders=order).log_prob(y))
    limit = chain_limit(model, *arrays[:3], y, arrays[3], np.ones((2, 3), bool), order)
    for b, (x, values, target_x, mask) in enumerate(zip(*arrays, strict=True)):
        total = 0
        for t, now in enumerate(order):
            known = [*x, *target_x[order[:t]]], [*values, *y[b][order[:t]]], [*mask, *[True] * t]
            answer = transcription.cnp(known[0], known[1], target_x[[now]], known[2], state, 0.0)
            total += transcription.log_density(y[b][[now]], *answer, [True])
        assert_within(found[b], total, tolerance(limit, np.float64)[b])


@given(seeds, st.integers(0, 4), st.integers(1, 4))
def test_of_an_exact_model_every_order_gives_the_joint_density(seed, c, t):
    rng = generator(seed)
    x, y, target_x, target_y = (rng.normal(size=(2, n, 1)) for n in (c, c, t, t))
    chain = Autoregressive(Exact())(x, y, target_x, orders=random_orders(rng, t, 3))
    expected = [
        posterior(*one[:3]).log_prob(one[3][:, 0]) for one in zip(x, y, target_x, target_y, strict=True)
    ]  # fmt: skip
    # Solving with K, whose condition is below 11 (C + T): a backward stable solver loses u (C + T)² 11 (C + T) of
    # numbers below |y|²/.1, in each of T terms; Higham (2002), §10.1
    n = c + t
    limit = 2.0**-52 * 11 * n**3 * t * (1 + 10 * (y**2).sum() + 10 * (target_y**2).sum())
    for found in chain.log_prob_by_order(target_y):
        assert_within(found, np.array(expected), limit)
    assert_within(chain.log_prob(target_y), np.array(expected), limit)


def test_the_average_is_of_densities():
    model, (arrays, y, _) = small(), problem(0, (2, 2, 3, 1, 1))
    chain = Autoregressive(model)(*arrays, orders=list(itertools.permutations(range(3))))
    each = raw(chain.log_prob_by_order(y))
    largest = each.max(0)
    expected = largest + np.log(np.exp(each - largest).mean(0))
    assert_within(raw(chain.log_prob(y)), expected, 32 * 2.0**-53 * (1 + abs(each).max()))  # 6 terms, exp and log 8u
    assert (raw(chain.log_prob(y)) > each.mean(0)).all()  # Jensen: the mean of logarithms is less


# ---- the order of the targets


def test_one_order_depends_on_the_order_of_the_targets_and_the_average_over_all_does_not():
    model, (arrays, y, there) = small(), problem(0, (2, 2, 3, 1, 1))
    x, values, target_x, mask = arrays
    there[:] = True
    moved = np.array([1, 2, 0])
    together = Autoregressive(model)
    everyone = list(itertools.permutations(range(3)))
    limits = [chain_limit(model, x, values, target_x, y, mask, there, list(o)) for o in everyone]
    limit = 2 * np.max([tolerance(one, np.float64) for one in limits], 0)
    for orders, holds in ((None, False), (everyone, True)):
        here = raw(together(*arrays, orders=orders).log_prob(y))
        other = raw(together(x, values, target_x[:, moved], mask, orders=orders).log_prob(y[:, moved]))
        if holds:
            assert_within(other, here, limit + 64 * 2.0**-53 * abs(here))  # and the logarithm of a sum of six
        else:
            with pytest.raises(AssertionError, match="beyond the bound"):
                assert_within(other, here, 1e3 * limit)


def test_an_order_goes_with_its_targets():
    """Permuted targets with an order permuted along are the same chain."""
    model, (arrays, y, _) = small(), problem(0, (2, 2, 3, 1, 1))
    x, values, target_x, mask = arrays
    moved, order = np.array([1, 2, 0]), np.array([2, 0, 1])
    here = Autoregressive(model)(*arrays, orders=order).log_prob(y)
    along = np.argsort(moved)[order]
    other = Autoregressive(model)(x, values, target_x[:, moved], mask, orders=along).log_prob(y[:, moved])
    assert_same_bits(raw(other), raw(here))


@given(seeds, sizes)
def test_the_order_of_the_context_does_not_matter(seed, size):
    model, (arrays, y, there) = small(*size[3:]), problem(seed, size)
    x, values, target_x, mask = arrays
    order = generator(seed).permutation(size[1])
    limit = chain_limit(model, x, values, target_x, y, mask, there, np.arange(size[2]))
    found = Autoregressive(model)(x[:, order], values[:, order], target_x, mask[:, order])
    reference = Autoregressive(model)(*arrays)
    assert_within(
        raw(found.log_prob(y, mask=there[..., None])),
        raw(reference.log_prob(y, mask=there[..., None])),
        2 * tolerance(limit, np.float64),
    )


@pytest.mark.parametrize("orders", [None, list(itertools.permutations(range(3)))])
def test_what_changes_the_density(orders):
    """A context permuted under a mask that is not; a shift of everything in x."""
    model, (arrays, y, there) = small(), problem(0, (1, 3, 3, 1, 1))
    x, values, target_x, mask = *arrays[:3], np.array([[True, True, False]])
    limit = tolerance(chain_limit(model, x, values, target_x, y, mask, there | True, np.arange(3)), np.float64)
    here = raw(Autoregressive(model)(x, values, target_x, mask, orders=orders).log_prob(y))
    order = np.array([2, 0, 1])
    for changed in ((x[:, order], values[:, order], target_x, mask), (x + 4, values, target_x + 4, mask)):
        with pytest.raises(AssertionError, match="beyond the bound"):
            assert_within(raw(Autoregressive(model)(*changed, orders=orders).log_prob(y)), here, 1e3 * limit)


def test_random_orders():
    """All permutations, equally often: 6 of 6000 draws, each within five standard errors."""
    orders = random_orders(generator(), 3, 6000)
    found, counts = np.unique(orders, axis=0, return_counts=True)
    assert found.tolist() == [list(p) for p in itertools.permutations(range(3))]
    assert (abs(counts - 1000) < 5 * (6000 * (1 / 6) * (5 / 6)) ** 0.5).all()
    assert random_orders(generator(), 0, 2).shape == (2, 0)


# ---- samples


def test_samples_of_an_exact_model_have_its_covariance():
    """Joint samples, from marginal answers alone: means and covariances within five standard errors."""
    x, y, target_x = np.array([[[0.0]]]), np.array([[[1.0]]]), np.array([[[0.3], [0.5], [2.0]]])
    law, n = posterior(x[0], y[0], target_x[0]), 4000
    chain = Autoregressive(Exact())(x, y, target_x, orders=[[0, 1, 2], [2, 1, 0], [1, 0, 2]])
    drawn = chain.sample(generator(), n)[:, 0, :, 0]
    assert (abs(drawn.mean(0) - law.mean) < 5 * drawn.std(0) / n**0.5).all()
    away = drawn - law.mean
    products = away[:, :, None] * away[:, None, :]
    assert (abs(products.mean(0) - law.covariance()) < 5 * products.std(0) / n**0.5).all()
    independent = Exact()(x, y, target_x).sample(generator(), n)[:, 0, :, 0] - law.mean
    pair = independent[:, 0] * independent[:, 1]
    assert abs(pair.mean() - law.covariance()[0, 1]) > 5 * pair.std() / n**0.5  # what marginals alone would give


class Echo(NeuralProcess):
    """Says x (and 2 x), almost without noise."""

    def __call__(self, context_x, context_y, target_x, context_mask=None):
        *_, target_x, _ = self.sets(context_x, context_y, target_x, context_mask)
        return Normal(np.concatenate([target_x, 2 * target_x], -1)[..., : self.dy], 1e-9)


@given(seeds, st.integers(1, 3), st.integers(0, 4), st.integers(1, 2), st.sampled_from([(), 2, (2, 3)]))
def test_samples_stand_where_their_targets_stand(seed, b, t, dy, shape):
    x = normal(seed, (b, t, 1))
    orders = random_orders(generator(seed), t, 3)
    found = Autoregressive(Echo(1, dy))(np.ones((b, 1, 1)), np.ones((b, 1, dy)), x, orders=orders).sample(
        generator(), shape
    )
    draws = (shape,) if isinstance(shape, int) else shape
    assert found.shape == (*draws, b, t, dy)
    expected = np.concatenate([x, 2 * x], -1)[..., :dy]
    assert (abs(found - expected) < 1e-7).all()  # a hundred standard deviations


class Counting(NeuralProcess):
    """Answers with the number of points that it is shown: a draw says which place each target has in its order."""

    def __call__(self, context_x, context_y, target_x, context_mask=None):
        *_, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
        mean = np.broadcast_to(mask.sum(-1)[:, None, None], target_x.shape)
        return Normal(mean, np.full(target_x.shape, 1e-9))


@pytest.mark.parametrize("kind", ["one call a target", "one pass"])
def test_given_noise_stands_where_its_target_stands(kind):
    """y_n = μ_n + σ_n ε_n, in whatever order: the conditionals along the draws, in that order, say so."""
    arrays, _, _ = problem(0, (2, 2, 3, 1, 2))
    model = Autoregressive(small(1, 2)) if kind == "one call a target" else shaken(TNPA(1, 2, **TINY, rng=generator()))
    noise, order = generator(1).standard_normal((4, 2, 3, 2)), np.array([2, 0, 1])
    chain = model(*arrays)
    for orders in ([0, 1, 2], order):
        chain.orders = np.array([orders])
        y, along = chain.paths(shape=4, epsilon=noise)
        assert_same_bits(y, along.mean + along.std * noise)
        assert_same_bits(y, chain.sample(shape=4, epsilon=noise))
    with pytest.raises(
        ValueError, match=r"^ChainRule.sample: epsilon has shape \(3, 2\); it must be \(2, 3, 2\), the dr"
    ):
        chain.sample(epsilon=noise[0, 0])
    chain.orders = random_orders(generator(), 3, 2)
    with pytest.raises(TypeError, match=r"^ChainRule.sample: rng is NoneType"):
        chain.sample(shape=4, epsilon=noise)
    assert chain.sample(generator(), 4, epsilon=noise).shape == noise.shape


def test_noise_is_given_to_normal_numbers_only():
    arrays, _, _ = problem(0, (1, 2, 2, 1, 1))
    chain = Autoregressive(LatentNP(**SMALL, latent=2, rng=generator()))(*arrays)
    with pytest.raises(
        TypeError, match=r"^ChainRule.sample: epsilon is noise of a Normal, the model says Mixture; pass"
    ):
        chain.sample(epsilon=np.zeros((1, 2, 1)))


def test_samples_come_from_all_of_the_orders_alike():
    """The average of densities is a mixture: half of the draws in each of two orders, within five standard errors."""
    one, orders = np.ones((1, 2, 1)), np.array([[0, 1, 2], [2, 0, 1]])
    chain = Autoregressive(Counting())(one, one, np.ones((1, 3, 1)), orders=orders)
    places = np.rint(chain.sample(generator(), 400)[:, 0, :, 0] - 2)  # (S, T)
    first, second = ((places == np.argsort(order)).all(-1) for order in orders)
    assert (first ^ second).all()
    assert abs(first.sum() - 200) < 5 * 400**0.5 / 2


def test_samples_keep_the_precision_and_leave_no_tape():
    model = small().astype(np.float32)
    arrays, *_ = problem(0, (2, 2, 3, 1, 1), np.float32)
    found = Autoregressive(model)(*arrays).sample(generator())
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32


# ---- any model


@pytest.mark.parametrize("name", [name for name in ROWS if name != "Autoregressive"])
def test_any_model(name):
    """A finite density, the first factor of which is the model's own; samples; a loss with gradients."""
    model, (arrays, y, there) = ROWS[name].make({}), problem(0, (2, 3, 3, 1, 1))
    together = Autoregressive(model)
    chain = together(*arrays)
    assert np.isfinite(raw(chain.log_prob(y))).all()
    assert np.isfinite(chain.sample(generator(), 2)).all()
    x, values, target_x, mask = arrays
    joint = name in ("TNPND", "ConvGNP")
    alone = raw(model(x, values, target_x[:, :1], mask).log_prob(y[:, 0] if joint else y[:, :1]))
    first = raw(together(x, values, target_x[:, :1], mask).log_prob(y[:, :1]))
    assert_same_bits(first, alone.reshape(2))
    loss = together.loss(Task(x, values, target_x, y, mask, there))
    loss.backward()
    assert_same_bits(loss.item(), -raw(chain.log_prob(y, mask=there[..., None])).sum() / there.sum())
    assert any(p.grad is not None and p.grad.any() for p in together.parameters())


def test_parameters_are_the_models():
    model = small()
    state = Autoregressive(model).state_dict()
    assert state.keys() == {f"model.{name}" for name in model.state_dict()}


def test_derivatives():
    model, (arrays, y, there) = Autoregressive(small(1, 2)), problem(1, (2, 2, 3, 1, 2))
    sets = {"x": arrays[0], "y": arrays[1]}, {"x": arrays[2], "y": y}
    result = check(loss_of(model, arrays[3], there), (model.state_dict(), *sets), max_elements=4)
    assert result.method == "complex step"


# ---- what is not there


@given(seeds, sizes)
def test_hidden_targets_are_not_looked_at(seed, size):
    """Neither by themselves nor by those after them: as if they were not in the list."""
    model, (arrays, y, there) = small(*size[3:]), problem(seed, size)
    x, values, target_x, mask = arrays
    unseen = ~there[..., None]
    chain = Autoregressive(model)(x, values, np.where(unseen, 7.0, target_x), mask)
    with_nan, other = (
        raw(chain.log_prob(np.where(unseen, filling, y), mask=there[..., None])) for filling in (np.nan, 5.0)
    )  # fmt: skip
    assert_same_bits(with_nan, other)
    limit = chain_limit(model, x, values, target_x, y, mask, there, np.arange(size[2]))
    for b in range(size[0]):
        own = there[b]
        shorter = Autoregressive(model)(x[[b]], values[[b]], target_x[[b]][:, own], mask[[b]])
        expected = raw(shorter.log_prob(y[[b]][:, own]))[0]
        assert_within(with_nan[b], expected, 2 * tolerance(limit, np.float64)[b])


def test_hidden_targets_stand_where_the_model_has_them():
    """The grid of a ConvCNP holds all targets; hidden ones at 0 would stretch it over a million units."""
    model, there = Autoregressive(ROWS["ConvCNP"].make({})), np.array([[True, False, True]])
    (x, y, target_x, target_y), _ = drawn_task(0, (1, 2, 3, 1, 1))
    hidden = np.where(there[..., None], target_x + 2.0**20, np.nan)
    loss = model.loss(Task(x + 2.0**20, y, hidden, target_y, None, there)).item()
    fewer = Task(x + 2.0**20, y, hidden[:, [0, 2]], target_y[:, [0, 2]])
    np.testing.assert_allclose(loss, model.loss(fewer).item(), rtol=1e-12)  # a few hundred roundings of numbers near 1


def test_no_targets_have_probability_one():
    model = small()
    chain = Autoregressive(model)(np.ones((2, 1, 1)), np.ones((2, 1, 1)), np.ones((2, 0, 1)))
    assert_same_bits(chain.log_prob(np.ones((2, 0, 1))), np.zeros(2))
    assert chain.sample(generator(), 3).shape == (3, 2, 0, 1)


# ---- errors


@pytest.mark.parametrize(
    ("orders", "error", "message"),
    [
        ([0.0, 1.0], TypeError, r"orders are float64; pass integers, permutations of the targets"),
        ([0, 1, 2], ValueError, r"orders have shape \(1, 3\); they must be \(N,\) or \(O, N\) with N = 2"),
        (np.zeros((0, 2), int), ValueError, r"orders have shape \(0, 2\); they must be \(N,\) or \(O, N\) with N = 2"),
        ([[0, 1], [1, 1]], ValueError, r"\[1, 1\] is no order of 2 targets; name each of 0 … 1 once"),
    ],
)
def test_errors_of_orders(orders, error, message):
    one = np.ones((1, 2, 1))
    with pytest.raises(error, match=rf"^ChainRule: {message}$"):
        Autoregressive(small())(one, one, one, orders=orders)


def test_errors_of_calls():
    one, model = np.ones((1, 2, 1)), Autoregressive(small(1, 2))
    chain = model(one, np.ones((1, 2, 2)), one)
    half = np.array([[[True, False], [True, True]]])
    with pytest.raises(ValueError, match=r"^ChainRule\.log_prob: the mask hides some outputs of a target; hide all"):
        chain.log_prob(np.ones((1, 2, 2)), mask=half)
    with pytest.raises(ValueError, match=r"^ChainRule\.log_prob: y has shape \(1, 2\); it must be \(1, 2, 2\)$"):
        chain.log_prob(np.ones((1, 2)))
    with pytest.raises(ValueError, match=r"^ChainRule\.log_prob: y holds nan at \[0, 1, 0\]; hide what is missing"):
        chain.log_prob(np.array([[[1.0, 1.0], [np.nan, 1.0]]]))
    with pytest.raises(TypeError, match=r"^ChainRule\.sample: rng is NoneType; pass numpy\.random\.default_rng"):
        chain.sample(None)
    with pytest.raises(ValueError, match=r"^Autoregressive: context_y has shape \(1, 2, 1\); it must be \(B, M, 2\)$"):
        model(one, one, one)
