"""Few shots: episodes whose classes mean something only within them, and sine waves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.few_shot import Episodes, SinusoidTasks
from refnp.tasks.task import Places
from tests.helpers import assert_same_bits, assert_within, seeds

LABELS = np.repeat([3, 7, 8, 11, 20], 12)
EXAMPLES = np.stack([LABELS, np.arange(60)], 1).astype(float)  # an example tells its label and its number


@given(seeds, st.integers(1, 5), st.integers(0, 5), st.integers(0, 7))
def test_an_episode_has_shots_and_queries_of_every_class(seed, ways, shots, queries):
    if shots + queries == 0:
        queries = 1
    task = Episodes(EXAMPLES, LABELS, ways=ways, shots=shots, queries=queries).sample(np.random.default_rng(seed), 3)
    assert task.context_x.shape == (3, ways * shots, 2)
    assert task.target_y.shape == (3, ways * queries, ways)
    for b in range(3):
        x = np.concatenate([task.context_x[b], task.target_x[b]])
        y = np.concatenate([task.context_y[b], task.target_y[b]])
        assert set(np.unique(y).tolist()) <= {0.0, 1.0}
        assert (y.sum(1) == 1).all()
        assert len(set(x[:, 1].tolist())) == len(x)  # no example twice
        names = {(label, cls) for label, cls in zip(x[:, 0].tolist(), y.argmax(1).tolist(), strict=True)}
        assert len(names) == ways  # one name for each class
        assert len({label for label, _ in names}) == ways
        assert (task.context_y[b].sum(0) == shots).all()
        assert (task.target_y[b].sum(0) == queries).all()


def test_names_and_classes_are_drawn_anew():
    """Label 3 is in 3/5 of 2000 episodes and has each of 3 names equally often; five standard deviations."""
    task = Episodes(EXAMPLES, LABELS, ways=3, shots=1, queries=0).sample(np.random.default_rng(0), 2000)
    here = task.context_x[..., 0] == 3
    assert abs(here.sum() - 1200) < 5 * math.sqrt(2000 * 0.6 * 0.4)
    by_name = task.context_y[here].sum(0)
    assert np.abs(by_name - 400).max() < 5 * math.sqrt(1200 * 2 / 9) + 5 * math.sqrt(480) / 3


def test_examples_come_in_random_order():
    """The first context has each of 3 names equally often."""
    task = Episodes(EXAMPLES, LABELS, ways=3, shots=4, queries=4).sample(np.random.default_rng(0), 900)
    for y in (task.context_y, task.target_y):
        assert np.abs(y[:, 0].sum(0) - 300).max() < 5 * math.sqrt(200)


def test_classes_can_be_kept_for_testing():
    old = Episodes(EXAMPLES, LABELS, ways=2, classes=(3, 7, 8), shots=2, queries=2)
    new = Episodes(EXAMPLES, LABELS, ways=2, classes=(11, 20), shots=2, queries=2)
    rng = np.random.default_rng(0)
    assert set(np.unique(old.sample(rng, 50).target_x[..., 0]).tolist()) == {3, 7, 8}
    assert set(np.unique(new.sample(rng, 50).target_x[..., 0]).tolist()) == {11, 20}


def test_images_are_flattened():
    images = np.random.default_rng(0).random((60, 2, 3))
    task = Episodes(images, LABELS, ways=2, shots=1, queries=1).sample(np.random.default_rng(0), 1)
    assert task.context_x.shape == (1, 2, 6)
    rows = images.reshape(60, 6)
    assert all((rows == x).all(1).any() for x in task.context_x[0])


@given(seeds, st.booleans())
def test_waves_are_sines_with_an_amplitude_and_a_phase(seed, ragged):
    """y = a sin x + b cos x for two numbers, found from two points, and a² + b² = A² ≤ 25."""
    tasks = SinusoidTasks(places=Places((3, 10), (5, 5), (-5.0, 5.0), ragged=ragged))
    task = tasks.sample(np.random.default_rng(seed), 3)
    for b in range(3):
        x, y = task.target_x[b, :, 0], task.target_y[b, :, 0]
        basis = np.stack([np.sin(x), np.cos(x)], 1)
        ab, *_ = np.linalg.lstsq(basis, y)
        amplitude = math.hypot(*ab)
        assert 0.1 - 1e-9 <= amplitude <= 5 + 1e-9
        assert -ab[1] / amplitude >= -1e-9  # φ ∈ [0, π]: b = −A sin φ ≤ 0
        known = task.context_present[b]
        fitted = ab[0] * np.sin(task.context_x[b, known, 0]) + ab[1] * np.cos(task.context_x[b, known, 0])
        assert_within(fitted, task.context_y[b, known, 0], 1e-9)
        assert not task.context_y[b, ~known].any()


def test_noise_and_repetition():
    """Residuals of 20 000 noisy values have variance σ² (1 ± √(2/n))."""
    tasks = SinusoidTasks(amplitude=2.0, phase=0.5, noise_std=0.1, places=Places((0, 0), (50, 50), (-5.0, 5.0)))
    task = tasks.sample(np.random.default_rng(0), 400)
    r = task.target_y - 2 * np.sin(task.target_x - 0.5)
    assert abs((r * r).mean() / 0.01 - 1) < 5 * math.sqrt(2 / 20_000)
    assert_same_bits(tasks.sample(np.random.default_rng(0), 400).target_y, task.target_y)
    assert SinusoidTasks().sample(np.random.default_rng(0), 2).context_x.shape == (2, 10, 1)


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="Episodes: labels are float64; pass integers"):
        Episodes(EXAMPLES, LABELS.astype(float))
    with pytest.raises(ValueError, match=r"labels have shape \(59,\); x of shape \(60, 2\) needs one each"):
        Episodes(EXAMPLES, LABELS[1:])
    with pytest.raises(ValueError, match=r"classes are \[3, 7, 8, 11, 20\]; 6 ways need as many different ones"):
        Episodes(EXAMPLES, LABELS, ways=6, queries=1)
    with pytest.raises(ValueError, match=r"classes are \[3, 3\]"):
        Episodes(EXAMPLES, LABELS, ways=1, queries=1, classes=(3, 3))
    with pytest.raises(ValueError, match="class 3 has 12 examples; 5 shots and 8 queries need 13"):
        Episodes(EXAMPLES, LABELS, shots=5, queries=8)
    with pytest.raises(ValueError, match="class 4 has 0 examples"):
        Episodes(EXAMPLES, LABELS, ways=1, queries=1, classes=(4,))
    with pytest.raises(ValueError, match="ways 0, shots 1 and queries 15; ways must be at least 1"):
        Episodes(EXAMPLES, LABELS, ways=0)
    with pytest.raises(ValueError, match="SinusoidTasks: places have dx 2; a wave has one input"):
        SinusoidTasks(places=Places((1, 1), (1, 1), dx=2))
    with pytest.raises(ValueError, match="SinusoidTasks: amplitude is -1; it must be positive"):
        SinusoidTasks(amplitude=-1)
