"""Small runs and checkpoints that the tests of training share."""

import functools

import numpy as np

from refnp.autograd import Parameter, Tensor
from refnp.layers.linear import MLP
from refnp.layers.module import Module
from refnp.training import checkpoint as page
from refnp.training.checkpoint import Checkpoint, state_of
from refnp.training.loop import train
from refnp.training.optimizers import SGD, Adam
from tests.helpers import assert_same_arrays

quiet = functools.partial(train, show=False)


def small():
    return Checkpoint(
        parameters={"weight": np.arange(6.0).reshape(2, 3), "layers.0.bias": np.array([-0.0, np.pi], np.float32)},
        configuration={"model": "CNP", "options": {"features": 64, "name": "naïve", "sizes": [1, 2]}},
        step=7,
        generator=state_of(np.random.default_rng(1)),
        optimizer_name="Adam",
        optimizer={"learning_rate": np.array(0.1), "steps": np.array([7, 7])},
        best={"weight": np.ones((2, 3)), "layers.0.bias": np.zeros(2, np.float32)},
        history={"loss": np.arange(7.0), "log-likelihood": np.full(7, np.nan)},
    )


def assert_same_checkpoint(ours, theirs):
    for name in ("configuration", "step", "generator", "optimizer_name"):
        assert getattr(ours, name) == getattr(theirs, name)
    for group in page.GROUPS:
        assert_same_in_order(getattr(ours, group), getattr(theirs, group))


def assert_same_in_order(ours, theirs):
    """The same names in the same order, and under each the same bits."""
    assert list(ours) == list(theirs)
    assert_same_arrays(ours, theirs)


def a_run(seed, optimizer=Adam, sizes=(3, 4, 2), dtype=np.float64):
    """Model, optimiser and generator after three steps."""
    rng = np.random.default_rng(seed)
    model = MLP(sizes, rng=rng).astype(dtype)
    moves = optimizer(model.parameters(), learning_rate=0.1)
    for _ in range(3):
        model.zero_grad()
        (model(Tensor(rng.normal(size=(5, sizes[0])).astype(dtype))) ** 2).mean().backward()
        moves.step()
    return model, moves, rng


def taken(model, optimizer, rng, **more):
    return Checkpoint(
        parameters=model.state_dict(),
        generator=state_of(rng),
        optimizer_name=type(optimizer).__name__,
        optimizer=optimizer.state_dict(),
        **more,
    )


def state(model, optimizer, rng):
    """Everything that a step changes."""
    return model.state_dict(), optimizer.state_dict(), state_of(rng)


def assert_same_state(ours, theirs):
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        assert_same_in_order(a, b)
    assert ours[2] == theirs[2]


class Point(Module):
    """One parameter, so that everything can be followed by hand."""

    def __init__(self, value=0.0):
        self.x = Parameter(value)


def downhill(model, rng):
    """A slope of 1: each step of SGD with rate 1 moves x by −1."""
    return model.x * 1.0


def on_point(loss=downhill, **options):
    model = Point()
    history = quiet(model, loss, SGD([model.x], learning_rate=1.0), rng=np.random.default_rng(0), **options)
    return model, history


def valley(bottom):
    """A validation that is best after `bottom` steps of `downhill`."""
    return lambda model, rng: (model.x + float(bottom)) ** 2
