"""Sawtooth waves: both formulas, where they agree, and what is drawn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.sawtooth import SawtoothTasks, sawtooth
from refnp.tasks.task import Places
from tests.helpers import assert_same_bits, assert_within, seeds

PLACES = Places((20, 20), (30, 30))


def transcription(x, frequency, shift, terms):
    """½ − (1/π) Σ_k (−1)^k sin(2π k ω (x + s))/k, number by number in longdouble."""
    pi = 4 * np.arctan(np.longdouble(1))
    result = np.zeros(x.shape, np.longdouble)
    for i in np.ndindex(x.shape):
        total = np.longdouble(0)
        for k in range(1, terms + 1):
            angle = 2 * pi * k * np.longdouble(frequency) * (np.longdouble(x[i]) + np.longdouble(shift))
            total += (-1) ** k * np.sin(angle) / k
        result[i] = np.longdouble(0.5) - total / pi
    return result


@given(st.integers(1, 20), seeds)
def test_the_sum_is_its_formula(terms, seed):
    rng = np.random.default_rng(seed)
    frequency, shift = rng.uniform(3, 5), rng.uniform(-5, 5)
    x = rng.uniform(-2, 2, 5)
    # turns of at most 35: the angle 2πk·35 is off by 4 u of itself, and so is its sine, over k: K terms of 880 u
    bound = (terms * 4 * 220 + 2 * terms) * np.finfo(float).eps / math.pi
    assert_within(sawtooth(x, frequency, shift, terms=terms), transcription(x, frequency, shift, terms), bound)


def test_the_wave_rises_from_0_to_1_and_falls_at_once():
    x = np.array([-0.5, -0.25, 0.0, 0.25, 0.499, 0.5, 0.75])
    assert_within(sawtooth(x, 1.0), np.array([0.0, 0.25, 0.5, 0.75, 0.999, 0.0, 0.25]), 1e-15)
    assert_within(sawtooth(x / 4 - 3, 4.0, 3.0), sawtooth(x, 1.0), 1e-12)


@given(seeds)
def test_many_terms_come_near_the_wave_but_never_at_the_jump(seed):
    """Between jumps the sum of K terms is off by at most 1/(2π K sin δ/2) for an angle δ from the jump (Abel)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, 200)
    terms, wave = 400, sawtooth(x, 1.0)
    away = 2 * math.pi * np.minimum(wave, 1 - wave)
    bound = 2 / (math.pi * terms * np.sin(away / 2))
    assert (np.abs(sawtooth(x, 1.0, terms=terms) - wave) <= bound).all()
    near = sawtooth(0.5 - np.linspace(0, 0.01, 1000), 1.0, terms=100)
    assert 1.08 < near.max() < 1.1  # Gibbs


def test_every_task_has_as_many_terms_as_it_drew():
    x = np.linspace(-1, 1, 7)[None].repeat(3, 0)
    terms = np.array([[1], [5], [12]])
    value = sawtooth(x, 1.0, terms=terms)
    for b in range(3):
        assert_same_bits(value[b], sawtooth(x[b], 1.0, terms=int(terms[b, 0])))


@pytest.mark.parametrize("ragged", [False, True])
def test_tasks_of_the_exact_wave_lie_in_0_to_1_and_repeat(ragged):
    places = Places((0, 20), (1, 30), ragged=ragged)
    tasks = SawtoothTasks(frequency=(3.0, 5.0), places=places)
    task = tasks.sample(np.random.default_rng(0), 8)
    assert ((task.target_y >= 0) & (task.target_y < 1)).all()
    other = tasks.sample(np.random.default_rng(0), 8)
    assert_same_bits(task.context_y, other.context_y)
    if ragged:
        assert not task.target_y[~task.target_mask].any()


def test_phases_are_uniform():
    """Of 4000 tasks, one value each: U(0, 1) has mean ½ ± .2887/√n, mean square ⅓ ± .298/√n; five of these."""
    for tasks in (
        SawtoothTasks(frequency=(2.0, 4.0), places=Places((0, 0), (1, 1)), directions=True),
        SawtoothTasks(frequency=4.0, places=Places((0, 0), (1, 1))),
    ):
        y = tasks.sample(np.random.default_rng(0), 4000).target_y
        assert abs(y.mean() - 1 / 2) < 5 * 0.2887 / math.sqrt(4000)
        assert abs((y * y).mean() - 1 / 3) < 5 * 0.298 / math.sqrt(4000)


def slopes(task):
    """Of each task, the slope dy/dx between the two nearest places, in one dimension."""
    x, y = task.target_x[..., 0], task.target_y[..., 0]
    order = np.argsort(x, 1)
    x, y = np.take_along_axis(x, order, 1), np.take_along_axis(y, order, 1)
    nearest = np.diff(x).argmin(1)[:, None]
    return (np.take_along_axis(np.diff(y), nearest, 1) / np.take_along_axis(np.diff(x), nearest, 1))[:, 0]


def test_directions_make_half_of_the_waves_fall():
    """Slopes are ±ω, positive in half of 1000 tasks ± 5 · 15.8; without directions in all (but for jumps between)."""
    places = Places((0, 0), (200, 200))
    rng = np.random.default_rng(0)
    both = slopes(SawtoothTasks(frequency=(2.0, 4.0), places=places, directions=True).sample(rng, 1000))
    assert abs((both > 0).sum() - 500) < 5 * 15.8
    assert ((np.abs(both) > 1.99) & (np.abs(both) < 4.01)).mean() > 0.99
    up = slopes(SawtoothTasks(frequency=(2.0, 4.0), places=places).sample(rng, 1000))
    assert (up > 0).mean() > 0.99


def test_in_the_plane_waves_run_along_a_direction_of_length_one():
    """Along any line the wave is a sawtooth of at most its own frequency: the gradient has length ω."""
    tasks = SawtoothTasks(frequency=3.0, places=Places((0, 0), (3, 3), dx=2), directions=True)
    rng = np.random.default_rng(0)
    # three places: x, x + h e_1, x + h e_2
    x = np.array([[[0.0, 0.0], [1e-6, 0.0], [0.0, 1e-6]]]).repeat(500, 0)
    turns = tasks._along(rng, x)
    gradient = (turns[:, 1:] - turns[:, :1]) / 1e-6
    assert np.abs((gradient**2).sum(1) - 1).max() < 1e-8
    assert np.abs(gradient.mean(0)).max() < 5 * math.sqrt(0.5 / 500)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="SawtoothTasks: frequency is 0; it must be positive and finite"):
        SawtoothTasks(frequency=0, places=PLACES)
    with pytest.raises(ValueError, match="SawtoothTasks: shift is nan; it must be finite"):
        SawtoothTasks(frequency=1.0, shift=math.nan, places=PLACES)
    with pytest.raises(ValueError, match=r"SawtoothTasks: terms is \(3, 2\)"):
        SawtoothTasks(frequency=1.0, terms=(3, 2), places=PLACES)
    with pytest.raises(TypeError, match="SawtoothTasks: rng is int"):
        SawtoothTasks(frequency=1.0, places=PLACES).sample(0, 1)
