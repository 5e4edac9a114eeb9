"""Optimisers: their papers' steps within rounding, PyTorch's, and what a training loop needs of them."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import Parameter
from refnp.training.optimizers import SGD, TOGETHER, Adagrad, Adam, AdamW, RMSprop
from tests.transcriptions import optimizers as transcription

shapes = st.lists(st.integers(0, 3), max_size=2).map(tuple)
dtypes = st.sampled_from([np.float32, np.float64])
seeds = st.integers(0, 2**32 - 1)
rates = st.sampled_from([0.0, 1e-3, 0.1])
momenta = st.sampled_from([0.0, 0.5, 0.9])
decays = st.sampled_from([0.0, 0.01, 0.5])
scales = st.sampled_from([1e-6, 1.0, 1e6])
beta_pairs = st.sampled_from([(0.9, 0.999), (0.0, 0.0), (0.5, 0.9)])


def draw(seed, shape, dtype, scale=1.0, steps=4):
    """A parameter's start and the gradients of a few steps; some gradients are 0."""
    rng = np.random.default_rng(seed)
    gradients = [scale * rng.normal(size=shape) * (rng.random(shape) > 0.2) for _ in range(steps)]
    return rng.normal(size=shape).astype(dtype), [g.astype(dtype) for g in gradients]


def walk(make, theta, gradients):
    """θ after every gradient in turn."""
    parameter = Parameter(theta)
    optimizer = make([parameter])
    for gradient in gradients:
        parameter.grad = gradient.copy()
        optimizer.step()
        assert np.array_equal(parameter.grad, gradient)  # the gradient is only read
    assert parameter.dtype == theta.dtype
    return parameter.data


def assert_within(value, expected, bound):
    bound = 2 * bound * np.finfo(value.dtype).eps / 2 + np.finfo(value.dtype).tiny
    assert (np.abs(value.astype(np.longdouble) - expected) <= bound).all()


def assert_follows(make, equation, start, *, decoupled=False, **options):
    """The walk of an optimiser with these options is that of its equation, for a parameter and its gradients."""
    bounds = {"decoupled": True} if decoupled else {}
    assert_within(walk(lambda p: make(p, **options), *start), *equation(*start, **options, **bounds))


@given(shapes, dtypes, seeds, scales, rates, momenta, decays, st.booleans())
def test_sgd_is_its_equation(shape, dtype, seed, scale, rate, momentum, decay, nesterov):
    options = {"momentum": momentum, "nesterov": nesterov and momentum > 0, "weight_decay": decay}
    assert_follows(SGD, transcription.sgd, draw(seed, shape, dtype, scale), learning_rate=rate, **options)


@given(shapes, dtypes, seeds, rates, st.sampled_from([0.5, 0.9]))
def test_dampened_sgd_is_its_equation(shape, dtype, seed, rate, dampening):
    options = {"momentum": 0.9, "dampening": dampening}
    assert_follows(SGD, transcription.sgd, draw(seed, shape, dtype), learning_rate=rate, **options)


@given(shapes, dtypes, seeds, scales, rates, beta_pairs)
def test_adam_is_its_algorithm(shape, dtype, seed, scale, rate, betas):
    options = {"learning_rate": rate, "betas": betas, "eps": 1e-8}
    assert_follows(Adam, transcription.adam, draw(seed, shape, dtype, scale), **options)
    theta, gradients = draw(seed, shape, dtype, scale, steps=6)
    gradients[1] = gradients[1] * 10  # a large one, which Adam forgets
    for kind, decay in ((Adam, {}), (AdamW, {"weight_decay": 0.1, "decoupled": True})):
        assert_follows(kind, transcription.adam, (theta, gradients), **options, **decay, amsgrad=True)


@given(shapes, dtypes, seeds, scales, rates, momenta, st.sampled_from([0.0, 0.5, 0.99]), st.booleans())
def test_rmsprop_is_its_equation(shape, dtype, seed, scale, rate, momentum, beta, centered):
    centered = centered and beta > 0  # with β = 0 the deviation is 0, and rounding alone is left
    options = {"learning_rate": rate, "beta": beta, "eps": 1e-8, "momentum": momentum, "centered": centered}
    assert_follows(RMSprop, transcription.rmsprop, draw(seed, shape, dtype, scale), **options)


@given(shapes, dtypes, seeds, scales, rates, st.sampled_from([0.0, 0.1]))
def test_adagrad_is_its_equation(shape, dtype, seed, scale, rate, initial):
    options = {"learning_rate": rate, "eps": 1e-10, "initial": initial}
    assert_follows(Adagrad, transcription.adagrad, draw(seed, shape, dtype, scale), **options)


@given(shapes, dtypes, seeds, rates, decays)
def test_adamw_is_its_algorithm(shape, dtype, seed, rate, decay):
    options = {"learning_rate": rate, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": decay}
    assert_follows(AdamW, transcription.adam, draw(seed, shape, dtype), **options, decoupled=True)


def test_longdouble_follows_the_transcription():
    options = {"learning_rate": 0.01, "betas": (0.9, 0.999), "eps": 1e-8}
    assert_follows(Adam, transcription.adam, draw(0, (3, 2), np.longdouble, steps=20), **options)


@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (SGD, "SGD", {}),
        (SGD, "SGD", {"momentum": 0.9}),
        (SGD, "SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        (Adam, "Adam", {}),
        (Adam, "Adam", {"betas": (0.5, 0.9), "eps": 1e-3}),
        (Adam, "Adam", {"weight_decay": 0.1}),
        (AdamW, "AdamW", {}),
        (AdamW, "AdamW", {"weight_decay": 0.3}),
        (SGD, "SGD", {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
        (Adam, "Adam", {"amsgrad": True, "betas": (0.5, 0.9)}),
        (AdamW, "AdamW", {"amsgrad": True, "weight_decay": 0.1}),
        (RMSprop, "RMSprop", {}),
        (RMSprop, "RMSprop", {"beta": 0.9, "weight_decay": 0.1}),
        (RMSprop, "RMSprop", {"momentum": 0.9, "eps": 1e-3}),
        (RMSprop, "RMSprop", {"centered": True, "momentum": 0.5}),
        (Adagrad, "Adagrad", {}),
        (Adagrad, "Adagrad", {"initial": 0.1, "weight_decay": 0.1, "eps": 1e-3}),
    ],
)
def test_as_torch(ours, theirs, options):
    """After every one of 300 steps: n steps of some ten roundings each, on sums of at most n terms, in both."""
    torch = pytest.importorskip("torch")
    theta, gradients = draw(1, (4, 3), np.float64, steps=300)
    parameter = Parameter(theta)
    optimizer = ours([parameter], learning_rate=0.01, **options)
    leaf = torch.nn.Parameter(torch.from_numpy(theta.copy()))
    names = {"beta": "alpha", "initial": "initial_accumulator_value"}
    peer = getattr(torch.optim, theirs)([leaf], lr=0.01, **{names.get(k, k): v for k, v in options.items()})
    for n, gradient in enumerate(gradients, start=1):
        parameter.grad, leaf.grad = gradient, torch.from_numpy(gradient.copy())
        optimizer.step()
        peer.step()
        assert np.abs(parameter.data - leaf.detach().numpy()).max() <= n * n * 10 * np.finfo(np.float64).eps / 2


def test_amsgrad_does_not_forget_a_large_gradient():
    """Its steps stay short after one gradient of 100; Adam's are long again."""
    gradients = [np.array([1.0])] * 5 + [np.array([100.0])] + [np.array([1.0])] * 200
    ends = [walk(lambda p, a=a: Adam(p, betas=(0.0, 0.9), amsgrad=a), np.zeros(1), gradients) for a in (False, True)]
    assert abs(ends[1]) < 0.3 * abs(ends[0])


def test_centred_rmsprop_of_gradients_that_do_not_vary():
    """v − m² is all rounding then, and negative in places: no NaN (PyTorch's may be)."""
    gradients = [np.full(100, 0.1) * (1 + np.arange(100)) / 7] * 3000
    assert np.isfinite(walk(lambda p: RMSprop(p, beta=0.5, centered=True), np.zeros(100), gradients)).all()


def test_rare_features_keep_long_steps():
    often, rarely = [np.array([1.0, float(n % 50 == 49)]) for n in range(100)], []
    parameter = Parameter(np.zeros(2))
    optimizer = Adagrad([parameter], learning_rate=1.0)
    for gradient in often:
        before, parameter.grad = parameter.data.copy(), gradient
        optimizer.step()
        rarely.append(np.abs(parameter.data - before))
    np.testing.assert_allclose(rarely[-1], [0.1, 0.5**0.5], rtol=1e-9)


@given(seeds, scales)
def test_the_first_step_of_adam_has_length_of_the_rate(seed, scale):
    theta, gradients = draw(seed, (5,), np.float64, scale, steps=1)
    moved = walk(lambda p: Adam(p, learning_rate=0.1, eps=1e-300), np.zeros_like(theta), gradients)
    np.testing.assert_allclose(moved, -0.1 * np.sign(gradients[0]), rtol=16 * np.finfo(np.float64).eps)


def test_l2_decay_is_not_decoupled_decay():
    theta, gradients = draw(2, (5,), np.float64)
    adam = walk(lambda p: Adam(p, weight_decay=0.1), theta, gradients)
    adamw = walk(lambda p: AdamW(p, weight_decay=0.1), theta, gradients)
    assert np.abs(adam - adamw).max() > 1e-4


@pytest.mark.parametrize(
    "make",
    [
        lambda p: SGD(p, learning_rate=0.1, momentum=0.5),
        lambda p: SGD(p, learning_rate=0.1, momentum=0.5, dampening=0.5),
        lambda p: Adam(p, learning_rate=0.1),
        lambda p: Adam(p, learning_rate=0.1, amsgrad=True),
        lambda p: Adagrad(p, learning_rate=1.0),
    ],
)
def test_finds_the_bottom_of_a_bowl(make):
    bottom = np.array([1.0, -2.0, 3.0])
    parameter = Parameter(np.zeros(3))
    optimizer = make([parameter])
    for _ in range(500):
        optimizer.zero_grad()
        loss = ((parameter - bottom) ** 2).sum()
        loss.backward()
        optimizer.step()
    assert np.abs(parameter.data - bottom).max() < 1e-6


@pytest.mark.parametrize("make", [lambda p: SGD(p, learning_rate=0.1), Adam, AdamW, RMSprop, Adagrad])
def test_a_parameter_without_gradient_stays_and_is_not_counted(make):
    used, unused = Parameter(np.ones(2)), Parameter(np.ones(2))
    optimizer = make([used, unused])
    array = used.data
    used.grad = np.ones(2)
    optimizer.step()
    assert used.data is array  # moved in place
    assert (used.data < 1).all()
    assert (unused.data == 1).all()
    assert optimizer.steps == [1, 0]
    optimizer.zero_grad()
    assert used.grad is None


@pytest.mark.parametrize(
    "make",
    [
        lambda p: SGD(p, learning_rate=0.1, momentum=0.9),
        lambda p: SGD(p, learning_rate=0.1, momentum=0.9, dampening=0.5),
        Adam,
        AdamW,
        lambda p: Adam(p, amsgrad=True),
        RMSprop,
        lambda p: RMSprop(p, momentum=0.9, centered=True),
        lambda p: Adagrad(p, initial=0.1),
    ],
)
def test_goes_on_from_a_saved_state_to_the_bit(make):
    theta, gradients = draw(3, (2, 3), np.float32, steps=6)
    straight = walk(make, theta, gradients)

    first = Parameter(theta)
    optimizer = make([first])
    for gradient in gradients[:3]:
        first.grad = gradient
        optimizer.step()
    file = io.BytesIO()
    np.savez(file, **optimizer.state_dict())
    file.seek(0)

    second = Parameter(first.data)
    resumed = make([second])
    with np.load(file) as state:
        resumed.load_state_dict(state)
    for gradient in gradients[3:]:
        second.grad = gradient
        resumed.step()
    assert np.array_equal(second.data, straight)
    assert resumed.steps == [6]


def test_a_state_is_a_copy_and_carries_the_rate():
    parameter = Parameter(np.ones(2))
    optimizer = Adam([parameter])
    optimizer.learning_rate = 0.25
    state = optimizer.state_dict()
    parameter.grad = np.ones(2)
    optimizer.step()
    assert (state["mean.0"] == 0).all()
    fresh = Adam([parameter])
    fresh.load_state_dict(state)
    assert fresh.learning_rate == 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("mean.0"), "missing mean.0"),
        (lambda s: s.update(velocity=np.zeros(1)), "unexpected velocity"),
        (lambda s: s.update({"square.0": np.zeros(3)}), r"square.0 has shape \(3,\), not \(2,\)"),
        (lambda s: s.update({"steps": np.array(["one"])}), "steps is <U3, not real numbers"),
    ],
)
def test_a_wrong_state_is_refused_whole(change, message):
    optimizer = Adam([Parameter(np.ones(2))])
    state = optimizer.state_dict() | {"learning_rate": np.array(7.0)}
    change(state)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)
    assert optimizer.learning_rate == 1e-3


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: SGD([], learning_rate=1), ValueError, "there are no parameters"),
        (lambda p: SGD([p, p], learning_rate=1), ValueError, "stands twice"),
        (lambda p: SGD([p.data], learning_rate=1), TypeError, r"parameters\[0\] is a ndarray"),
        (lambda p: SGD([Parameter(np.ones(1, complex))], learning_rate=1), TypeError, "complex128"),
        (lambda p: SGD([p], learning_rate=-1), ValueError, "learning_rate is -1"),
        (lambda p: SGD([p], learning_rate=np.nan), ValueError, "learning_rate is nan"),
        (lambda p: SGD([p], learning_rate=1, momentum=1), ValueError, "momentum contains 1"),
        (lambda p: SGD([p], learning_rate=1, nesterov=True), ValueError, "nesterov"),
        (lambda p: SGD([p], learning_rate=1, weight_decay=-1), ValueError, "weight_decay is -1"),
        (lambda p: Adam([p], betas=(0.9, 1.0)), ValueError, "betas contains 1.0"),
        (lambda p: Adam([p], betas=(0.9,)), ValueError, "must be two numbers"),
        (lambda p: Adam([p], eps=0), ValueError, "eps is 0"),
        (lambda p: AdamW([p], weight_decay=np.inf), ValueError, "weight_decay is inf"),
        (lambda p: SGD([p], learning_rate=1, dampening=0.5), ValueError, "dampening is 0.5; it needs a momentum"),
        (lambda p: SGD([p], learning_rate=1, momentum=0.5, dampening=0.5, nesterov=True), ValueError, "dampening is"),
        (lambda p: RMSprop([p], beta=1.0), ValueError, "RMSprop: beta contains 1.0"),
        (lambda p: RMSprop([p], eps=0), ValueError, "RMSprop: eps is 0"),
        (lambda p: Adagrad([p], initial=-1), ValueError, "Adagrad: initial is -1"),
    ],
)
def test_bad_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make(Parameter(np.ones(2)))


def test_a_step_before_any_gradient_is_refused():
    with pytest.raises(RuntimeError, match="call backward"):
        Adam([Parameter(np.ones(2))]).step()


class Alone(Adam):
    """Adam that is given every parameter by itself, in its shape."""

    by_number = False

    def __init__(self, parameters, **options):
        super().__init__(parameters, **options)
        self.given = []

    def move(self, theta, g, t, past):
        self.given.append((theta.shape, t))
        flat, moved = theta.ravel(), [array.ravel() for array in past]
        for start in range(0, theta.size, 1000):  # parts that are none of step's
            part = slice(start, start + 1000)
            super().move(flat[part], g.ravel()[part], t, [array[part] for array in moved])
        theta[...] = flat.reshape(theta.shape)
        for array, new in zip(past, moved, strict=True):
            array[...] = new.reshape(array.shape)


def test_parameters_moved_together_or_in_parts_have_the_bits_of_each_alone():
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (), (0, 2), (200, 300), (5,), (TOGETHER,), (2, 2), (TOGETHER // 2, 1), (TOGETHER // 2,)]
    dtypes = [np.float32, np.float64, np.longdouble]
    starts = [rng.normal(size=shape).astype(dtypes[i % 3]) for i, shape in enumerate(shapes * 3)]
    starts[3] = np.asfortranarray(starts[3])  # as a flat array it is a copy
    sides = []
    for kind in (Adam, Alone):
        parameters = [Parameter(start.copy(order="K")) for start in starts]
        sides.append((parameters, kind(parameters, learning_rate=0.1, weight_decay=0.01)))
    assert any(len(group.members) > 2 for group in sides[0][1].groups)
    assert all(len(group.members) == 1 for group in sides[1][1].groups)
    for step in range(4):
        gradients = [rng.normal(size=start.shape).astype(start.dtype) for start in starts]
        for parameters, optimizer in sides:
            for i, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
                parameter.grad = None if step == 2 and i % 4 == 0 else gradient
            optimizer.step()
    for ours, alone in zip(sides[0][0], sides[1][0], strict=True):
        assert np.array_equal(ours.data, alone.data)
    states = [optimizer.state_dict() for _, optimizer in sides]
    assert states[0].keys() == states[1].keys()
    assert all(np.array_equal(states[0][key], states[1][key]) for key in states[0])
    assert {shape for shape, _ in sides[1][1].given} == {start.shape for start in starts}


def test_nothing_moves_if_a_parameter_was_cast():
    parameters = [Parameter(np.ones(2)), Parameter(np.ones(3))]
    optimizer = Adam(parameters)
    parameters[1].data = parameters[1].data.astype(np.float32)
    for parameter in parameters:
        parameter.grad = np.ones_like(parameter.data)
    with pytest.raises(
        ValueError, match=r"parameters\[1\] is now float32 \(3,\), its memory is float64 \(3,\); make the o"
    ):
        optimizer.step()
    assert np.array_equal(parameters[0].data, [1, 1])
    assert optimizer.steps == [0, 0]
