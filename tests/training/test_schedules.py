"""Schedules: their formulas within rounding, known values, PyTorch's, and no step at a rate of 0."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.training.schedules import constant, cosine, noam
from tests.transcriptions import training as transcription

U = np.finfo(np.float64).eps / 2
counts = st.integers(1, 10**6)
rates = st.floats(1e-6, 10)


@given(counts, st.integers(1, 4096), counts, rates)
def test_noam_is_its_formula(step, features, warmup, scale):
    expected = transcription.noam(step, features, warmup, scale)
    # three powers of 2u each (of which two count), and three products
    assert abs(noam(step, features, warmup, scale) - expected) <= 2 * 7 * U * expected


@given(st.data(), rates, st.floats(0, 1))
def test_cosine_is_its_formula(data, rate, part):
    steps = data.draw(counts)
    warmup = data.draw(st.integers(0, steps - 1))
    step = data.draw(st.integers(1, steps + 5))
    floor = part * rate
    value, expected = (f(step, rate, steps, warmup=warmup, floor=floor) for f in (cosine, transcription.cosine))
    # the angle 3u, its sine 2u more, squared twice that and 2u; a difference, a product, a sum. The formula as printed
    # loses in longdouble what 1 + cos cancels: up to 4 of its own u of 1.
    cancelled = 4 * np.finfo(np.longdouble).eps * rate
    assert abs(value - expected) <= 2 * (15 * U * expected + cancelled)


@pytest.mark.parametrize(
    ("step", "features", "warmup", "value"),
    [
        (1, 512, 4000, 1.746928107421711e-07),  # 512^-½ 4000^-³⁄₂
        (4000, 512, 4000, 6.987712429686843e-04),  # the top: (512 · 4000)^-½
        (16000, 512, 4000, 3.4938562148434215e-04),  # 4 times the step, half the rate
        (1, 1, 1, 1.0),
        (100, 4, 25, 0.05),
    ],
)
def test_known_values_of_noam(step, features, warmup, value):
    assert noam(step, features, warmup) == pytest.approx(value, rel=14 * U, abs=0)


def test_noam_is_highest_where_the_warm_up_ends():
    rates = [noam(step, 64, 50) for step in range(1, 200)]
    assert rates.index(max(rates)) == 50 - 1
    assert noam(3, 64, 50, scale=2.0) == 2 * noam(3, 64, 50)


def test_known_values_of_cosine():
    assert [cosine(step, 1.0, 4) for step in (1, 3, 5, 99)] == [1.0, pytest.approx(0.5, abs=4 * U), 0.0, 0.0]
    assert [cosine(step, 1.0, 8, warmup=4) for step in (1, 2, 4, 5)] == [0.25, 0.5, 1.0, 1.0]
    assert cosine(99, 1.0, 8, floor=0.125) == 0.125


@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_cosine_as_torch(floor):
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=floor)
    for step in range(1, 51):
        # PyTorch goes from rate to rate by quotients of 1 + cos, which lose digits near the end: some 1e-14 in 50 steps
        assert cosine(step, 0.1, 50, floor=floor) == pytest.approx(scheduler.get_last_lr()[0], rel=0, abs=50 * 8 * U)
        optimizer.step()
        scheduler.step()


def test_constant():
    assert [constant(step, 0.5) for step in (1, 2, 1000)] == [0.5] * 3
    assert [constant(step, 1.0, warmup=4) for step in (1, 2, 3, 4, 5)] == [0.25, 0.5, 0.75, 1.0, 1.0]


@given(st.integers(1, 200), st.integers(0, 199))
def test_no_step_is_lost_on_a_rate_of_0(steps, warmup):
    warmup = min(warmup, steps - 1)
    for step in range(1, steps + 1):
        assert cosine(step, 1e-3, steps, warmup=warmup) > 0
        assert noam(step, 64, warmup + 1) > 0
        assert constant(step, 1e-3, warmup=warmup) > 0
    assert cosine(steps + 1, 1e-3, steps, warmup=warmup) == 0


@given(st.integers(2, 500), st.integers(0, 100))
def test_up_to_the_end_of_the_warm_up_and_down_from_there(steps, warmup):
    warmup = min(warmup, steps - 1)
    for rates in (
        [cosine(step, 1.0, steps, warmup=warmup) for step in range(1, steps + 1)],
        [noam(step, 64, max(warmup, 1)) for step in range(1, steps + 1)],
    ):
        top = max(warmup, 1) - 1
        assert (np.diff(rates[: top + 1]) > 0).all()
        assert (np.diff(rates[top:]) <= 0).all()


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (lambda: noam(0, 512, 4000), "noam: step is 0; steps count from 1"),
        (lambda: noam(1, 0, 4000), "features is 0"),
        (lambda: noam(1, 512, 0), "warmup is 0"),
        (lambda: noam(1, 512, 4000, scale=-1.0), "scale is -1"),
        (lambda: noam(math.nan, 512, 4000), "step is nan"),
        (lambda: cosine(0, 1.0, 10), "cosine: step is 0"),
        (lambda: cosine(1, 1.0, 10, warmup=10), "warmup is 10; it must be less than the 10 steps"),
        (lambda: cosine(1, 1.0, 0), "less than the 0 steps"),
        (lambda: cosine(1, 1.0, 10, warmup=-1), "warmup is -1"),
        (lambda: cosine(1, -1.0, 10), "rate is -1"),
        (lambda: cosine(1, 1.0, 10, floor=2.0), "floor is 2.0; it must not exceed the rate 1.0"),
        (lambda: cosine(1, math.nan, 10), "rate is nan"),
        (lambda: constant(0, 1.0), "constant: step is 0"),
        (lambda: constant(1, math.inf), "rate is inf"),
    ],
)
def test_bad_arguments_are_refused(rate, message):
    with pytest.raises(ValueError, match=message):
        rate()
