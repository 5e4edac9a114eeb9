"""What all neural processes accept, and the first of them, the CNP."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.layers.distributions import Normal
from refnp.models.neural_process import CNP, NeuralProcess, SetEncoder, mean_of_present, normal_of
from refnp.numbers.rounding import tolerance
from refnp.verify.layers.neural_processes import loss_of
from tests.helpers import assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.models.helpers import generator, predict, problem, rounded, shaken

SMALL = {"hidden": 4, "before": 2, "after": 2, "decoder": 2}


def small(dx=1, dy=1, **options):
    return shaken(CNP(dx, dy, **(SMALL | options), rng=generator()))


def test_a_sum_knows_how_many_points_there_are():
    """All points twice: the mean's answer stays as it is, the sum's does not."""
    x, y, target_x = (normal(i, (1, n, 1)) for i, n in enumerate((3, 3, 2)))
    twice = np.concatenate([x, x], 1), np.concatenate([y, y], 1)
    for pooling, same in (("mean", True), ("sum", False)):
        model = small(pooling=pooling, after=0)
        limit = tolerance(rounded(predict, model, x, y, target_x, np.ones((1, 3), bool))[0], np.float64)
        difference = np.abs(raw(model(*twice, target_x).mean) - raw(model(x, y, target_x).mean))
        assert (difference <= 2 * limit).all() == same
        assert same or (difference > 1e6 * limit).all()


@pytest.mark.parametrize(
    "options",
    [
        {"encoders": 2, "floor": 0.1},
        {"pooling": "sum", "after": 0, "deviation": "softplus_variance"},
        {"deviation": "exp"},
    ],
)
def test_derivatives(options):
    """Second ones; of first ones there is a law."""
    model = small(2, 2, **options)
    _, task = problem(3, (2, 3, 2, 2, 2))

    sets = {"x": task.context_x, "y": task.context_y}, {"x": task.target_x, "y": task.target_y}
    loss = loss_of(model, task.context_mask, task.target_mask)
    assert check(loss, (model.state_dict(), *sets), order=2).method == "complex step"


# ---- what it does not look at, and what it does


class Numbered(CNP):
    """A CNP that also sees at which place in the list a point stands: a mistake to be found."""

    def __init__(self, which, rng):
        super().__init__(**SMALL, rng=rng)
        self.which = which

    def __call__(self, context_x, context_y, target_x, context_mask=None):
        context_x = context_x + 0.1 * np.arange(context_x.shape[1])[:, None] * (self.which == "context")
        target_x = target_x + 0.1 * np.arange(target_x.shape[1])[:, None] * (self.which == "targets")
        return super().__call__(context_x, context_y, target_x, context_mask)


def test_a_model_that_counts_its_points_has_neither_symmetry():
    order = np.array([2, 0, 1])
    (x, y, target_x, mask), _ = problem(0, (1, 3, 3, 1, 1))
    mask[:] = True
    for which, permuted in (
        ("context", (x[:, order], y[:, order], target_x, mask)),
        ("targets", (x, y, target_x[:, order], mask)),
    ):
        model = Numbered(which, generator())
        mean, _ = rounded(predict, model, x, y, target_x, mask)
        reference = predict(model, x, y, target_x, mask)[0]
        reference = reference[:, order] if which == "targets" else reference
        with pytest.raises(AssertionError, match="beyond the bound"):
            assert_within(predict(model, *permuted)[0], reference, 1e6 * tolerance(mean, np.float64))


# ---- parts


@given(st.integers(0, 3), st.integers(0, 4), st.integers(1, 3), seeds, real_dtypes)
def test_mean_of_present(b, n, d, seed, dtype):
    x, mask = normal(seed, (b, n, d), dtype), generator(seed).random((b, n)) < 0.6
    expected = np.zeros((b, d), np.longdouble)
    size = np.zeros((b, d), np.longdouble)
    for i in range(b):
        for j in range(n):
            if mask[i, j]:
                expected[i] += x[i, j] / np.longdouble(mask[i].sum())
                size[i] += np.abs(x[i, j]) / mask[i].sum()
    u = np.finfo(dtype).eps / 2
    assert_within(mean_of_present(x, mask), expected, 2 * (n + 2) * u * size)  # Higham (2002), eq. 3.5, and 1/count


@given(st.sampled_from([0.0, 0.1, 0.5]), seeds, st.sampled_from([1.0, 10.0]))
def test_no_standard_deviation_is_below_the_floor(floor, seed, scale):
    values = normal(seed, (3, 4), scale=scale)
    answer = normal_of(values, floor)
    assert isinstance(answer, Normal)
    assert_same_bits(answer.mean, values[:, :2])
    assert (answer.std > floor).all()
    softplus = np.log1p(np.exp(-np.abs(values[:, 2:]))) + np.maximum(values[:, 2:], 0)
    np.testing.assert_allclose(answer.std, floor + (1 - floor) * softplus, rtol=4e-15)  # 16 u, exp and log within 4 ulp


def test_without_a_floor_the_likelihood_of_a_point_has_no_bound_and_with_one_it_has():
    y = np.zeros((1, 1))
    raw_values = np.array([[0.0, -20.0]])
    assert normal_of(raw_values).log_prob(y) > 19
    assert normal_of(raw_values, 0.1).log_prob(y) < -np.log(0.1) - 0.5 * np.log(2 * np.pi) < 1.3837


# ---- errors


def test_a_floor_of_one_leaves_no_room():
    for floor in (1, -0.1, np.nan):
        with pytest.raises(ValueError, match=rf"^normal_of: floor is {floor}; it must lie in \[0, 1\)$"):
            normal_of(np.zeros((1, 2)), floor)


def test_the_base_computes_nothing():
    with pytest.raises(TypeError, match="NeuralProcess has no __call__"):
        NeuralProcess()(*(np.zeros((1, 2, 1)) for _ in range(3)))


def test_an_encoder_of_sets_of_any_size_gives_one_vector():
    encoder = SetEncoder(3, 4, 5, before=2, after=1, rng=generator())
    for n in (0, 1, 7):
        assert encoder(normal(0, (2, n, 3)), np.ones((2, n), bool)).shape == (2, 5)
