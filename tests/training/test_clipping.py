"""Clipping: its formula within rounding for gradients of every size, nothing changed when something is wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import Parameter
from refnp.numbers.rounding import blocked_depth
from refnp.training.optimizers import clip_gradients
from tests.helpers import assert_same_bits, assert_within, normal, seeds, shapes
from tests.transcriptions import training as transcription

dtypes = st.sampled_from([np.float32, np.float64, np.longdouble])
# of the gradients: squares of the outermost leave the range of their dtype
scales = {np.float32: [1e-40, 1e-25, 1.0, 1e25, 1e37], np.float64: [1e-305, 1e-200, 1.0, 1e200, 1e306]}
scales[np.longdouble] = [np.longdouble(10) ** n for n in (-4000, -300, 0, 300, 4000)]
if np.finfo(np.longdouble).maxexp == np.finfo(np.float64).maxexp:
    scales[np.longdouble] = scales[np.float64]


def with_gradients(gradients):
    parameters = {f"p{i}": Parameter(np.zeros(g.shape, g.dtype)) for i, g in enumerate(gradients)}
    for parameter, g in zip(parameters.values(), gradients, strict=True):
        parameter.grad = g.copy()
    return parameters


def roundings(gradients):
    """Of a computed norm, in units of u: a square, the sums, half as much under the root; and the root."""
    return (1 + sum(blocked_depth(g.size) + 1 for g in gradients)) / 2 + 1


@given(st.lists(shapes(axes=(0, 2)), min_size=1, max_size=4), dtypes, seeds, st.data())
def test_is_its_formula_at_every_scale(sizes, dtype, seed, data):
    scale = data.draw(st.sampled_from(scales[dtype]))
    rng = np.random.default_rng(seed)
    gradients = [normal(rng, shape).astype(dtype) * dtype(scale) for shape in sizes]
    # the transcription squares in longdouble, which must not overflow: it gets what is 1 instead of `scale`
    units = [g.astype(np.longdouble) / np.longdouble(scale) for g in gradients]
    part = data.draw(st.sampled_from([0.01, 0.5, 2.0]))
    length, expected = transcription.clipped(units, np.longdouble(part))
    limit = np.longdouble(part) * np.longdouble(scale)
    parameters = with_gradients(gradients)
    norm = clip_gradients(parameters, limit if dtype is np.longdouble else float(limit))

    u = np.finfo(np.longdouble).eps + np.finfo(np.result_type(dtype, np.float64)).eps / 2
    bound = 2 * (roundings(gradients) + 3) * u  # 3: the limit, and the scale taken out and put in
    tiny = np.finfo(dtype).smallest_subnormal / np.longdouble(scale)
    assert abs(norm / np.longdouble(scale) - length) <= bound * length + tiny
    for parameter, e in zip(parameters.values(), expected, strict=True):
        assert parameter.grad.dtype == dtype
        value = parameter.grad.astype(np.longdouble) / np.longdouble(scale)
        assert_within(value, e, (bound + 4 * u + np.finfo(dtype).eps) * np.abs(e) + tiny)


@given(st.lists(shapes(), min_size=1, max_size=3), dtypes, seeds)
def test_short_gradients_are_left_alone(sizes, dtype, seed):
    rng = np.random.default_rng(seed)
    gradients = [normal(rng, shape, dtype) for shape in sizes]
    parameters = with_gradients(gradients)
    arrays = [p.grad for p in parameters.values()]
    norm = clip_gradients(parameters, np.inf)
    again = clip_gradients(parameters, norm or 1.0)
    assert again == norm
    for parameter, array, g in zip(parameters.values(), arrays, gradients, strict=True):
        assert parameter.grad is array
        assert_same_bits(array, g)


def test_known_values():
    parameters = with_gradients([np.array([3.0]), np.array([[0.0, 4.0]])])
    assert clip_gradients(parameters, 1.0) == 5.0
    assert [p.grad.tolist() for p in parameters.values()] == [[3 * 0.2], [[0, 4 * 0.2]]]


def test_gradients_whose_squares_overflow():
    huge = np.finfo(np.float32).max
    parameters = with_gradients([np.full(4, huge, np.float32)])
    assert clip_gradients(parameters, 1.0) == 2 * float(huge)
    np.testing.assert_array_equal(parameters["p0"].grad, np.full(4, 0.5, np.float32))
    huge = np.finfo(np.float64).max
    parameters = with_gradients([np.full(4, huge)])
    assert clip_gradients(parameters, 1.0) == math.inf  # the norm itself is beyond the largest number
    np.testing.assert_array_equal(parameters["p0"].grad, np.full(4, 0.5))


def test_gradients_of_several_precisions_count_together():
    parameters = with_gradients([np.full(1, 3e20, np.float32), np.full(1, 4e20), np.zeros(1, np.longdouble)])
    assert float(clip_gradients(parameters, 1.0)) == pytest.approx(5e20, rel=1e-7)
    assert [p.grad.dtype for p in parameters.values()] == [np.float32, np.float64, np.longdouble]
    assert [float(p.grad[0]) for p in parameters.values()] == pytest.approx([0.6, 0.8, 0.0], rel=1e-7)


def test_a_gradient_that_two_parameters_share_is_scaled_once():
    shared = np.array([3.0, 4.0])
    shared.flags.writeable = False
    parameters = with_gradients([shared, shared])
    for parameter in parameters.values():
        parameter.grad = shared
    norm = clip_gradients(parameters.values(), 1.0)
    assert norm == math.sqrt(50)
    assert (shared == [3.0, 4.0]).all()
    assert clip_gradients(parameters.values(), np.inf) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gradient_that_is_not_finite_is_named_and_nothing_changes(bad, dtype):
    gradients = [np.full(3, 100, dtype), np.array([[1, bad], [bad, 2]], dtype)]
    parameters = with_gradients(gradients)
    with pytest.raises(FloatingPointError, match=rf"gradient of p1 is {bad} in 2 of 4 elements; nothing was changed"):
        clip_gradients(parameters, 1.0)
    with pytest.raises(FloatingPointError, match=r"gradient of parameters\[1\]"):
        clip_gradients(list(parameters.values()), np.inf)
    for parameter, g in zip(parameters.values(), gradients, strict=True):
        assert_same_bits(parameter.grad, g)


def test_parameters_without_gradient_are_left_out():
    parameters = with_gradients([np.array([3.0]), np.array([4.0])])
    parameters["p1"].grad = None
    assert clip_gradients(parameters, 1.0) == 3.0
    assert parameters["p1"].grad is None
    assert clip_gradients([], 1.0) == 0.0
    assert clip_gradients(with_gradients([np.zeros(3), np.zeros(0)]), 1.0) == 0.0


@pytest.mark.parametrize(
    ("gradient", "norm", "error", "message"),
    [
        (np.ones(1), 0.0, ValueError, "norm is 0.0; it must be positive"),
        (np.ones(1), -1, ValueError, "norm is -1"),
        (np.ones(1), np.nan, ValueError, "norm is nan"),
        (np.ones(1, complex), 1.0, TypeError, "gradient of p0 is complex128"),
    ],
)
def test_bad_arguments_are_refused(gradient, norm, error, message):
    with pytest.raises(error, match=message):
        clip_gradients(with_gradients([gradient]), norm)


def both(gradient, limit):
    """(norm, clipped) of refnp and of PyTorch."""
    torch = pytest.importorskip("torch")
    parameters = with_gradients([gradient])
    leaf = torch.nn.Parameter(torch.zeros(gradient.shape, dtype=torch.from_numpy(gradient).dtype))
    leaf.grad = torch.from_numpy(gradient.copy())
    theirs = torch.nn.utils.clip_grad_norm_([leaf], limit)
    return (clip_gradients(parameters, limit), parameters["p0"].grad), (theirs.item(), leaf.grad.numpy())


@given(seeds, st.sampled_from([1e-4, 1.0, 100.0]))
def test_as_torch_but_for_its_millionth(seed, limit):
    gradient = normal(seed, (4, 5))
    (norm, ours), (their_norm, theirs) = both(gradient, limit)
    u = np.finfo(np.float64).eps / 2
    assert norm == pytest.approx(their_norm, rel=2 * 2 * roundings([gradient]) * u)
    expected = gradient * min(1.0, limit / (norm + 1e-6))
    assert_within(theirs, expected, 2 * (2 * roundings([gradient]) + 3) * u * np.abs(expected))
    if norm > limit:
        assert np.linalg.norm(ours) == pytest.approx(limit, rel=2 * 2 * (roundings([gradient]) + 3) * u)
        assert np.linalg.norm(theirs) < limit * (1 - 0.5e-6 / norm)


def test_just_below_the_limit_torch_shortens_and_refnp_does_not():
    gradient = np.array([1e-3 * (1 - 1e-6)])
    (_, ours), (_, theirs) = both(gradient, 1e-3)
    assert ours == gradient
    assert theirs < gradient * (1 - 5e-4)


def test_float32_from_2e19_on_torch_loses_the_gradient():
    gradient = np.array([3e19, 4e19], np.float32)
    (norm, ours), (their_norm, theirs) = both(gradient, 1.0)
    assert norm == pytest.approx(5e19, rel=1e-7)
    np.testing.assert_allclose(ours, [0.6, 0.8], rtol=2 * np.finfo(np.float32).eps)
    if math.isinf(their_norm):  # PyTorch 2.13 on a CPU
        assert (theirs == 0).all()
