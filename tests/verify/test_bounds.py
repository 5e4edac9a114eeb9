"""Bounds are not too narrow for plain correct code, and no hundred times too wide.

That wrong code is beyond them is held in test_planted_defects.py and test_mutants.py.
"""

import dataclasses

import numpy as np
import pytest

from refnp.layers.layer_norm import layer_norm
from refnp.numbers.rounding import tolerance
from refnp.verify import bounds
from refnp.verify.bounds import deviation
from refnp.verify.layers import attention as attention_equation
from refnp.verify.layers import cases
from refnp.verify.layers import normalization as normalization_equation
from refnp.verify.layers.convolution import CONVOLUTION
from tests.helpers import assert_within, normal

CASES = {case.name: case for case in cases()}
MAIN = [
    "sigmoid/ordinary", "gelu/ordinary", "softmax/ordinary", "log_softmax/ordinary", "layer_norm/ordinary",
    "rms_norm/ordinary", "linear/ordinary", "attention/ordinary", "convolution/1-D", "convolution/2-D",
    "convolution_transpose/1-D", "cross_entropy/mean", "gaussian_nll/none",
]  # fmt: skip


# Not too narrow: refnp, and the textbook formula in a line of NumPy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MAIN)
def test_the_bounds_are_not_vacuous(name, dtype):
    """A bound a hundred times too wide would accept wrong code: the largest error of ten draws must be 1 % of it."""
    worst = largest_errors(CASES[name], dtype)
    assert min(worst.values()) > 0.01, worst
    assert max(worst.values()) <= 1, worst


@pytest.mark.parametrize("name", ["multi_head/two heads", "set_convolution/1-D"])
def test_nor_are_those_of_long_formulas(name):
    """Here errors of a dozen steps add up as if they all pointed the same way, which they do not: 0.1 %."""
    worst = largest_errors(CASES[name], "float32", draws=30)
    assert min(worst.values()) > 0.001, worst
    assert max(worst.values()) <= 1, worst


def largest_errors(case, dtype, draws=10):
    """refnp's worst error over its bound, by quantity, over a few draws of the inputs."""
    worst = dict.fromkeys(case.quantities, 0.0)
    for i in range(draws):
        problem = dataclasses.replace(case, variant=f"{case.variant} {i}").problem(dtype)
        answer, right = problem.answer(), problem.reference()
        for quantity, rounded in problem.bounds.items():
            found = deviation(answer[quantity], right[quantity], tolerance(rounded, dtype), dtype)[0]
            worst[quantity] = max(worst[quantity], found)
    return worst


def plain_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def plain_layer_norm(x, gain, shift):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + x.dtype.type(1e-5)) * gain + shift


def plain_attention(q, k, v):
    return plain_softmax(q @ k.T / np.sqrt(q.dtype.type(q.shape[-1]))) @ v


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("softmax/ordinary", plain_softmax),
        ("softmax/logits 1e4", plain_softmax),
        ("layer_norm/ordinary", plain_layer_norm),
        ("layer_norm/mean 1e4", plain_layer_norm),
        ("layer_norm/small variance", plain_layer_norm),
        ("attention/ordinary", plain_attention),
        ("attention/large logits", plain_attention),
        ("linear/ordinary", lambda x, w, b: x @ w + b),
        ("mse/mean", lambda p, t: ((p - t) ** 2).mean()),
        ("silu/ordinary", lambda x: x / (1 + np.exp(-x))),
        ("logsumexp/ordinary", lambda x: np.log(np.exp(x).sum(-1))),
    ],
)
def test_plain_code_is_within_the_bound(name, formula, dtype):
    problem = CASES[name].problem(dtype)
    with np.errstate(all="ignore"):
        output, right = formula(*problem.arrays.values()), problem.reference()["output"]
        assert 0 < deviation(output, right, tolerance(problem.bounds["output"], dtype), dtype)[0] <= 1


# The bound on any equation


def test_a_mask_that_allows_nothing_leaves_no_error():
    q = normal(0, (4, 3), np.float32)
    mask = np.eye(4, dtype=bool)
    mask[2] = False
    (bound,) = bounds.of(attention_equation.attention, (q, q, q), mask=mask)
    assert (bound[2] < 100 * np.finfo(np.float32).tiny).all(), "what may underflow"
    assert (bound[[0, 1, 3]] > 0).all()
    assert np.isfinite(bound).all()


def test_rows_are_added_up_in_any_order_or_in_blocks():
    x = normal(1, (2, 4096), np.float32)
    given = x, np.float32(1), np.float32(0)
    (any_order,), (blocks,) = (
        bounds.of(normalization_equation.LAYER_NORM.equation, given, blocked=blocked) for blocked in (False, True)
    )
    assert_within(layer_norm(x), layer_norm(x.astype(np.longdouble)), blocks)
    assert (any_order > 20 * blocks).mean() > 0.9


def test_bounds_of_gradients_come_with_a_cotangent():
    x, w = normal(1, (1, 2, 6), np.float32), normal(2, (3, 2, 3), np.float32)
    output, x_bar, w_bar = bounds.of(CONVOLUTION.equation, (x, w), normal(3, (1, 3, 4)), padding=0)
    assert (output.shape, x_bar.shape, w_bar.shape) == ((1, 3, 4), x.shape, w.shape)
    (wider,) = bounds.of(CONVOLUTION.equation, (x, w), dtype=np.float64)
    np.testing.assert_allclose(np.float64(output / wider), 2.0**29, rtol=1e-3)
