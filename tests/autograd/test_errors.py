"""Accidents become errors that name the function, the argument and what it must be; other errors stay as they are."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import layers, models
from refnp.autograd.errors import explained, fault
from refnp.autograd.tensor import Array, ArrayLike, Tensor

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: layers.MLP([2, 2], rng=rng)([[1.0], [1.0, 2.0]]),
            ValueError,
            r"^linear: x holds lists of diff",
        ),
        (lambda: layers.Normal("0", 1.0), TypeError, r"^Normal: mean is '0'; pass an array of num"),
        (
            lambda: layers.Normal(0.0, 10**400),
            TypeError,
            r"^Normal: std is 1000.*; pass a float, or less than 2\*\*63$",
        ),
        (
            lambda: layers.GridOptions("64"),
            TypeError,
            r"^GridOptions: points_per_unit is '64'; it must be positive and finite$",
        ),
        (lambda: models.TNPD(layers=1.5, rng=rng), TypeError, r"^TNPD: layers is 1.5; it must be a whole num"),
        (
            lambda: models.TNPD(rng=rng)(["a"], np.ones((1, 1, 1)), np.ones((1, 1, 1))),
            TypeError,
            r"^TNPD: context_x is \['",
        ),
        (
            lambda: ag.reshape(np.array(["a", "b"]), (2, 1)),
            TypeError,
            r"^reshape: x is <U1 \(ndarray\); pass an array of numbers$",
        ),
        (lambda: layers.Linear(3), TypeError, r"missing 1 required positional argument: 'out_features'"),
    ],
)
def test_the_argument_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_no_argument_explains_keeps_its_words_and_says_what_was_given():
    @explained
    def broken(x: ArrayLike, count: int = 2):
        return np.ones(3) + np.ones(2)

    with pytest.raises(ValueError, match=r"^broken: operands could not .*; it was given x = float64 \(4,\), count = 3"):
        broken(np.ones(4), count=3)


def test_a_mistake_inside_that_is_of_no_argument_stays():
    @explained
    def broken(x: ArrayLike):
        return np.asarray(x).no_such_attribute

    with pytest.raises(AttributeError, match="no_such_attribute"):
        broken(np.ones(4))
    with pytest.raises(TypeError, match=r"^broken: x is {}; pass an array of num"):
        broken({})


def test_an_error_with_a_name_stays():
    @explained
    def strict(x: int):
        raise ValueError("other: x is wrong")

    with pytest.raises(ValueError, match=r"^other: x is wrong$"):
        strict("text")


def test_a_class_explains_all_that_is_public():
    @explained
    class Thing:
        def __init__(self, size: int):
            self.size = size + 1

        def grown(self, by: float) -> float:
            return self.size + by

        def _inner(self, by: float) -> float:
            return self.size + by

    class Special(Thing):
        pass

    assert Special(2).grown(1) == 4
    with pytest.raises(TypeError, match=r"^Special: size is None; it must be a whole num"):
        Special(None)
    with pytest.raises(TypeError, match=r"^Special.grown: by is 'x'; it must be a number$"):
        Special(2).grown("x")
    with pytest.raises(TypeError, match="unsupported operand"):
        Special(2)._inner("x")


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (int, [0, -3, np.int8(2), 10**30], [True, 1.0, None, "1", [1]]),
        (float, [0, 1.5, np.float32(2), np.int64(1)], [True, None, "1", 1j]),
        (bool, [True, np.False_], [1, None, "yes"]),
        (str, ["a", ""], [1, None, b"a"]),
        (int | None, [None, 3], [1.5, "3"]),
        (int | tuple[int, ...], [3, (1, 2), [1]], [(1, 2.5), None, "1"]),
        (Sequence[int], [(1,), [1, 2]], [3, {1}, None, [1.5]]),
        (Callable, [len, lambda: 0], [None, 3]),
        (np.random.Generator, [rng], [0, None, np.random]),
        (np.random.Generator | None, [rng, None], [0]),
        (ArrayLike, [1, 2.5, 1j, [1, 2], np.ones(3), Tensor(1.0), True], ["a", {}, None, [[1], [1, 2]], 2**70, [None]]),
        (ArrayLike | None, [None, 1.0], ["a"]),
        (Array | Tensor, [np.ones(2), [1.0]], [object()]),
    ],
)
def test_what_an_annotation_says(annotation, right, wrong):
    assert [value for value in right if fault(annotation, value)] == []
    assert [value for value in wrong if not fault(annotation, value)] == []
