"""An equation in place of a layer's name: right functions are within its bound, planted mistakes are not."""

import numpy as np
import pytest

import refnp
from refnp import autograd as ag
from refnp.verify.models import NoBoundError


def with_sink(q, k, v, sink):
    e = ag.exp(q @ ag.swapaxes(k, -1, -2) / 2.0 - sink)
    return (e / (1 + ag.sum(e, -1, keepdims=True))) @ v


def attended(q, k, v, sink):
    """By a softmax over one key more, in another order."""
    scores = q @ np.swapaxes(k, -1, -2) / q.dtype.type(2)
    scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], -1)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True))[..., :-1] @ v


def drawn(rng):
    return {
        "q": rng.normal(size=(5, 4)),
        "k": rng.normal(size=(6, 4)),
        "v": rng.normal(size=(6, 3)),
        "sink": rng.normal(),
    }


def test_a_right_function_is_within_the_bound_and_gradients_are_said_not_to_be_judged():
    report = refnp.judge(with_sink, attended, drawn, gradients=True).require()
    assert len(report.rows) == 6
    assert "against the equation with_sink" in str(report)
    assert "gradients are not judged" in str(report)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda q, k, v, sink: attended(q, k, v, 0 * sink),
        lambda q, k, v, sink: attended(2 * q, k, v, sink),
        lambda q, k, v, sink: attended(q, k[:-1], v[:-1], sink),
    ],
    ids=["no sink", "no scale", "a key lost"],
)
def test_planted_mistakes_fall(wrong):
    assert len(refnp.judge(with_sink, wrong, drawn).deviations) == 6


def test_tolerance_and_assert_close_take_an_equation():
    given = {name: np.float32(x) for name, x in drawn(np.random.default_rng(0)).items()}
    assert refnp.tolerance(with_sink, given).shape == (5, 3)
    refnp.assert_close(with_sink, attended(**given), given)
    with pytest.raises(AssertionError, match="times what rounding allows"):
        refnp.assert_close(with_sink, attended(**given) * np.float32(1.001), given)


def test_what_cannot_be_judged_is_refused_by_name():
    with pytest.raises(NoBoundError, match="no bound for cumprod"):
        refnp.judge(lambda x: ag.cumprod(x), np.cumprod, {"x": np.ones((2, 3))})
    with pytest.raises(ValueError, match="no cases of its own"):
        refnp.judge(with_sink, attended)
    with pytest.raises(ValueError, match="or a function of refnp's operations"):
        refnp.judge(5, attended)
