"""Small models, tasks to draw, and what a model may be off by: its own operations on numbers that carry their rounding.

`rounded(f, …)` is any function of refnp's operations, a model or its loss, from exact arguments and parameters: `value`
in the widest precision, and a bound on the error of every correct implementation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from refnp.autograd import Tensor
from refnp.autograd.primitives import raw
from refnp.layers.module import Module
from refnp.numbers.arithmetic import arithmetic
from refnp.numbers.rounding import exact, tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within, normal

few = st.one_of(st.integers(1, 4), st.integers(0, 4))
FORMS = [  # of layers, by options of the models
    {},
    {"norm": "pre"},
    {"untied": True},
    {"updated": True},
    {"norm": "pre", "untied": True, "updated": True},
]
forms = st.sampled_from(FORMS)
sizes = st.tuples(st.integers(1, 3), few, few, st.integers(1, 2), st.integers(1, 2))  # B, C, T, dx, dy


def generator(seed=0):
    return np.random.default_rng(seed)


def drawn_task(seed, size, dtype=np.float64):
    """(context_x, context_y, target_x, target_y) and masks (B, M), (B, N)."""
    rng = np.random.default_rng(seed)
    b, c, t, dx, dy = size
    arrays = tuple(normal(rng, shape, dtype) for shape in ((b, c, dx), (b, c, dy), (b, t, dx), (b, t, dy)))
    return arrays, (rng.random((b, c)) < 0.7, rng.random((b, t)) < 0.7)


def problem(seed, size, dtype=np.float64):
    """(context_x, context_y, target_x, mask), and a Task of the same."""
    (x, y, target_x, target_y), (mask, there) = drawn_task(seed, size, dtype)
    return (x, y, target_x, mask), Task(x, y, target_x, target_y, mask, there)


def shaken(model, seed=0):
    """With other numbers than those a module starts with: gains of 1 and shifts of 0 hide mistakes."""
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.2 * rng.standard_normal(parameter.shape)
    return model


def drawn_shapes(call):
    """The shapes of the uniform numbers that a call draws from the generator that it is given, as dropout does."""
    shapes = []

    class Counted(np.random.Generator):
        def random(self, size=None, dtype=np.float64):
            shapes.append(size)
            return super().random(size, dtype)

    call(Counted(np.random.PCG64(0)))
    return shapes


def assert_drops_only_with_a_generator(model, without, *arrays):
    """A model with dropout beside the same one without: the same bits, but for a generator, whose draws count."""
    assert_same_bits(model(*arrays), without(*arrays))
    drawn = [model(*arrays, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert_same_bits(*drawn[:2])
    assert (drawn[0] != drawn[2]).any()


def predict(model, *arrays, **options):
    """(mean, std) of the answer, as arrays; of an ensemble those of its members."""
    answer = model(*arrays, **options)
    answer = getattr(answer, "components", answer)
    return raw(answer.mean), raw(answer.std)


def rounded(function: Callable, *arguments: Any, judged: Any = None, **options: Any) -> Any:
    """What `function` gives if floats, those of tasks too, are exact numbers that carry their rounding error.

    The bound is of first order, and of a precision that is `judged` of every order: a divergence of two laws that are
    equal has no error of first order. Through layers of attention in float32 that one soon says nothing.
    """
    with np.errstate(invalid="ignore"):
        return function(*(exactly(value, judged) for value in arguments), **options)


def on_grid(model, grid, *arrays, judged: Any = None):
    """What a ConvCNP or ConvGNP says on a grid, its mean and so on, in numbers that carry their rounding error.

    Arrays may be such numbers already, or tuples of several context sets.
    """
    with np.errstate(invalid="ignore"):
        return parts(model(*(exactly(value, judged) for value in arrays), grid=grid))


def parts(answer):
    """Mean, factor if there is one, and standard deviation."""
    return [raw(getattr(answer, name)) for name in ("mean", "factor", "std") if hasattr(answer, name)]


def assert_same(one, other):
    """Two answers, to the bit."""
    for a, b in zip(parts(one), parts(other), strict=True):
        assert_same_bits(a, b)


def of_exact_parameters(module: Module) -> Module:
    """The module with parameters that carry their rounding error, themselves exact: for models that read words."""
    return module.bind({name: exact(value) for name, value in module.state_dict().items()})


def exactly(value: Any, judged: Any = None) -> Any:
    if isinstance(value, Task):
        pairs = ((value.context_x, value.context_y), (value.target_x, value.target_y))
        return Task(
            *(Tensor(exactly(raw(a), judged)) for pair in pairs for a in pair), value.context_mask, value.target_mask
        )
    if isinstance(value, tuple):
        return tuple(exactly(part, judged) for part in value)
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return exact(value, arithmetic(judged) if judged else None) if is_float else value


def assert_judged(found, limit, dtype):
    """Within the tolerance; which, since bounds grow a thousandfold a layer, must be one that notices a mistake.

    In float32 it does not always: there, as in the other precisions, the same lines are judged in float64.
    """
    allowed = tolerance(limit, dtype)
    assert_within(found, limit.value, allowed)
    assert dtype == np.float32 or (allowed <= 1e-5 * np.abs(limit.value).max(initial=1)).all()


def assert_prediction(found, expected, limits, dtype):
    """Mean and standard deviation in the dtype, and within the tolerance of their bounds."""
    for value, reference, limit in zip(found, expected, limits, strict=True):
        assert value.dtype == dtype
        assert_within(value, reference, tolerance(limit, dtype))


def under_whole_mask(model, tokens, mask):
    """Tokens (B, K, F) through the model's layers under a mask (B, K, K), each as query, key and value."""
    z = model.embedder(tokens)
    for layer in model.layers:
        z = layer(z, mask=mask)
    return z


def joint_limits(model, *arrays):
    """Of TNP-ND's answer the mean, and P Pᵀ + diag(e^d) or tril(P Pᵀ), in numbers that carry their rounding error."""
    joint = rounded(model, *arrays)
    return joint.mean, joint.lower() if model.diagonal is None else joint.covariance()


def with_adapted(model, x, y, mask, draws, *, places):
    """The model, whose adapted contexts have values, and with `places` also places, that are given numbers."""
    given = model.without_tape()
    zeroed = model.sets(x, y, x, mask)[:2]
    values, represent = model.bootstrapped(*zeroed, mask, draws), given.represent
    given.constant_places, given.bootstrapped = False, lambda *_: values
    given.represent = lambda at, y, *others: represent(zeroed[0] if places and y is values else at, y, *others)
    return given
