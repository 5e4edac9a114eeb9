"""Predators and prey: the equations and their steps, what tasks ask for, and the real series."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.predator_prey import (
    COEFFICIENTS,
    SIGMA,
    LotkaVolterra,
    LynxHareTasks,
    PredatorPreyTasks,
    lynx_hare,
    simulate,
)
from tests.helpers import assert_same_bits, assert_within, seeds

WORLD = LotkaVolterra(0.5, 0.06, 1.0, 0.06, 5.0)


def transcription(world, state, dt, noise):
    """Euler and Maruyama's steps, world by world and number by number in longdouble."""
    wide = np.longdouble
    result = np.zeros(state.shape, wide)
    for b in range(state.shape[1]):
        alpha, beta, delta, gamma, sigma = (wide(np.broadcast_to(c, state.shape[1])[b]) for c in world)
        x, y = wide(state[0, b]), wide(state[1, b])
        for kick in noise[..., b]:
            dw = np.sqrt(wide(dt)) * kick.astype(wide)
            prey = x * np.exp((alpha - beta * y) * wide(dt)) + sigma * x ** (wide(1) / 6) * dw[0]
            predators = y * np.exp((gamma * x - delta) * wide(dt)) + sigma * y ** (wide(1) / 6) * dw[1]
            x, y = abs(prey), abs(predators)
        result[:, b] = x, y
    return result


@given(st.integers(0, 3), st.integers(1, 3), seeds)
def test_steps_are_the_equations(steps, batch, seed):
    rng = np.random.default_rng(seed)
    world, state = LotkaVolterra.drawn(rng, batch), rng.uniform(20, 100, (2, batch))
    noise = rng.standard_normal((steps, 2, batch))
    # A step rounds 24 times (exp and power by 8 u) numbers below 200, and less than doubles errors: 0.16 dt 200 < 1
    bound = 24 * 200 * 2**steps * np.finfo(float).eps / 2
    assert_within(world.walk(state, 0.022, noise), transcription(world, state, 0.022, noise), bound)


def test_one_step_has_the_drift_and_the_spread_of_the_equations():
    """20 000 worlds: the mean is off by sd/√n and a term in dt², the variance by √(2/n) of itself; five of these."""
    n, dt = 20_000, 0.01
    state = np.array([[40.0], [20.0]])
    noise = np.random.default_rng(0).standard_normal((1, 2, n))
    after = WORLD.walk(np.repeat(state, n, 1), dt, noise)
    rate = np.array([0.5 - 0.06 * 20, 0.06 * 40 - 1.0])
    drift, second_order = state[:, 0] * rate * dt, state[:, 0] * (rate * dt) ** 2
    sd = 5.0 * np.sqrt(dt) * state[:, 0] ** (1 / 6)
    assert (np.abs(after.mean(1) - state[:, 0] - drift) < 5 * sd / np.sqrt(n) + second_order).all()
    assert (np.abs(after.var(1) / sd**2 - 1) < 5 * np.sqrt(2 / n)).all()


def conserved(world, state):
    """γ x − δ log x + β y − α log y, which the equations without noise keep."""
    x, y = state
    return world.gamma * x - world.delta * np.log(x) + world.beta * y - world.alpha * np.log(y)


def test_without_noise_what_is_conserved_drifts_with_the_length_of_steps():
    """Euler's method has order 1: half the step, half the drift."""
    still = WORLD._replace(sigma=0.0)
    state = np.array([[30.0], [15.0]])
    drifts = []
    for steps in (4000, 8000, 16000):
        after = still.walk(state, 4.0 / steps, np.zeros((steps, 2, 1)))
        drifts.append((conserved(still, after) - conserved(still, state))[0])
    assert abs(drifts[0]) < 0.01
    assert drifts[0] / drifts[1] == pytest.approx(2, rel=0.02)
    assert drifts[1] / drifts[2] == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("steps", [110, 1100])
def test_populations_stay_positive_and_finite_however_long_the_steps(steps):
    y = simulate(np.random.default_rng(0), np.linspace(0, 100, 200), 64, steps=steps)
    assert y.shape == (64, 200, 2)
    assert (y > 0).all()
    assert np.isfinite(y).all()


@given(seeds)
def test_the_path_does_not_depend_on_the_times_of_observation(seed):
    times = np.random.default_rng(seed).uniform(0, 100, 9)
    path = simulate(np.random.default_rng(seed), times, 3, steps=110)
    for chosen in ([0, 3, 5], [8, 7, 6, 5, 4, 3, 2, 1, 0], [4]):
        assert_same_bits(simulate(np.random.default_rng(seed), times[chosen], 3, steps=110), path[:, chosen])
    assert simulate(np.random.default_rng(seed), np.array([]), 3, steps=110).shape == (3, 0, 2)


def test_between_two_steps_the_later_one_is_seen():
    """110 steps are years: 5.0 is a step, 5.2 and 6.0 are the next, and 100 the last."""
    path = simulate(np.random.default_rng(0), np.array([5.0, 5.2, 6.0, 99.1, 100.0]), 2, steps=110)
    assert_same_bits(path[:, 1], path[:, 2])
    assert_same_bits(path[:, 3], path[:, 4])
    assert (path[:, 0] != path[:, 1]).any()
    with pytest.raises(ValueError, match=r"simulate: times are 5\.0 to 101\.0; they must lie in 0 … 100"):
        simulate(np.random.default_rng(0), np.array([5.0, 101.0]), 2)


def test_the_published_steps_explode_where_these_do_not():
    """1 + (α − β y) dt overshoots below 0 and on: the reason for the exponential."""
    world, state, dt = WORLD._replace(sigma=0.0), np.array([[600.0], [600.0]]), 0.1
    x, y = state[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(30):
            x, y = abs(x + dt * x * (0.5 - 0.06 * y)), abs(y + dt * y * (0.06 * x - 1.0))
    assert not np.isfinite(x * y)
    assert world.walk(state, dt, np.zeros((30, 2, 1))).max() < 1e5


def test_coefficients_are_uniform_in_their_ranges():
    world = LotkaVolterra.drawn(np.random.default_rng(0), 4000)
    for values, (low, high) in zip(world, [*COEFFICIENTS.values(), SIGMA], strict=True):
        assert low <= values.min()
        assert values.max() <= high
        assert abs(values.mean() - (low + high) / 2) < 5 * (high - low) / np.sqrt(12 * 4000)


def test_interpolation_asks_for_a_hundred_times_at_random():
    task = PredatorPreyTasks("interpolation", steps=110).sample(np.random.default_rng(0), 4)
    assert (task.target_x.shape, task.target_y.shape) == ((4, 100, 1), (4, 100, 2))
    assert 50 <= task.context_x.shape[1] <= 150
    times = np.sort(np.concatenate([task.context_x, task.target_x], 1)[..., 0], 1)
    assert (times == times[0]).all()  # the batch shares its times, and each task asks for others
    assert (task.target_x[0] != task.target_x[1]).any()


@given(seeds)
def test_forecasts_come_after_what_is_known(seed):
    tasks = PredatorPreyTasks("forecasting", data=(20, 30), targets=(5, 5), steps=110)
    task = tasks.sample(np.random.default_rng(seed), 2)
    assert 20 <= task.context_x.shape[1] + task.target_x.shape[1] <= 30
    assert task.context_x.max(initial=0) < task.target_x.min(initial=100)


def test_random_mode_tosses_a_coin():
    tasks = PredatorPreyTasks(data=(20, 20), targets=(10, 10), steps=110)
    rng = np.random.default_rng(0)
    drawn = [tasks.sample(rng, 1) for _ in range(60)]
    forecasts = sum(task.context_x.max(initial=0) < task.target_x.min(initial=100) for task in drawn)
    assert 10 < forecasts < 50  # binomial(60, ½): 30 ± 3.9


def test_units_divide():
    one, hundred = (
        PredatorPreyTasks(data=(20, 20), targets=(5, 5), unit=unit, steps=110).sample(np.random.default_rng(0), 2)
        for unit in (1.0, 100.0)
    )
    assert_same_bits(hundred.target_y, one.target_y / 100)


def test_the_real_series():
    years, pelts = lynx_hare()
    assert_same_bits(years, np.arange(1900.0, 1921.0))
    assert pelts.shape == (21, 2)
    assert years[pelts.argmax(0)].tolist() == [1903.0, 1904.0]  # the lynx follows the hare
    assert pelts[0].tolist() == [30.0, 4.0]
    assert pelts[-1].tolist() == [24.7, 8.6]
    assert pelts.sum(0) == pytest.approx([715.7, 423.5])


@given(seeds, st.sampled_from(["interpolation", "forecasting", "random"]))
def test_tasks_from_the_real_series_hold_all_of_it(seed, mode):
    years, pelts = lynx_hare()
    task = LynxHareTasks(mode, unit=10.0).sample(np.random.default_rng(seed), 3)
    assert task.target_x.shape[1] >= 1
    for b in range(3):
        x = np.concatenate([task.context_x[b, :, 0], task.target_x[b, :, 0]])
        y = np.concatenate([task.context_y[b], task.target_y[b]])
        order = np.argsort(x)
        assert_same_bits(x[order], years - 1900)
        assert_same_bits(y[order], pelts / 10)
        if mode == "forecasting":
            assert task.context_x[b].max() < task.target_x[b].min()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="PredatorPreyTasks: mode is 'past'; use 'interpolation', 'forecasting'"):
        PredatorPreyTasks("past")
    with pytest.raises(ValueError, match=r"PredatorPreyTasks: targets \(100, 100\) may be more than there are data"):
        PredatorPreyTasks(data=(50, 60))
    with pytest.raises(ValueError, match=r"PredatorPreyTasks: data is \(3, 2\)"):
        PredatorPreyTasks(data=(3, 2))
    with pytest.raises(ValueError, match=r"LynxHareTasks: targets \(1, 22\) are more than the 21 years"):
        LynxHareTasks(targets=(1, 22))
    with pytest.raises(TypeError, match="LynxHareTasks: rng is NoneType"):
        LynxHareTasks().sample(None, 1)
