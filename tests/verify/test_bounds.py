"""Bounds in both directions: plain correct code stays within them and not far below, plausible wrong code does not."""

import dataclasses

import numpy as np
import pytest

from refnp.autograd import vjp
from refnp.layers.attention import attention
from refnp.layers.cross_entropy import cross_entropy
from refnp.layers.layer_norm import layer_norm
from refnp.layers.masks import causal
from refnp.layers.softmax import softmax
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


def ratio(name, dtype, quantity, value):
    """The worst error of `value` over its bound, in a case."""
    problem = CASES[name].problem(dtype)
    right = problem.reference()[quantity]
    with np.errstate(all="ignore"):
        return deviation(value, right, tolerance(problem.bounds[quantity], dtype), dtype)[0]


def given_inputs(name, dtype):
    problem = CASES[name].problem(dtype)
    return *problem.arrays.values(), problem.cotangent


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


def plain_layer_norm(x, gain, shift, *, eps=1e-5, less=0):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).sum(-1, keepdims=True) / (x.shape[-1] - less)
    return centred / np.sqrt(variance + x.dtype.type(eps)) * gain + shift


def plain_attention(q, k, v, *, root=True, mask=None):
    scores = q @ k.T / (np.sqrt(q.dtype.type(q.shape[-1])) if root else 1)
    return plain_softmax(scores if mask is None else np.where(mask, scores, -np.inf)) @ v


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
    *inputs, _ = given_inputs(name, dtype)
    assert 0 < ratio(name, dtype, "output", formula(*inputs)) <= 1


# Not too wide: plausible mistakes


def gelu_by_tanh(x):
    u = np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x**3)
    return x / 2 * (1 + np.tanh(u))


def one_pass_variance(x, gain, shift):
    variance = (x * x).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + x.dtype.type(1e-5)) * gain + shift


def overflowing_softmax(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def log_of_sum(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def smoothed_off_target(logits):
    targets = CASES["cross_entropy/smoothing 0.1"].options["targets"]
    return cross_entropy(logits, targets, label_smoothing=0.1, smoothing="off_target")


def bottom_right(q, k, v):
    return attention(q, k, v, mask=causal(len(q), len(k), align="bottom_right"))


def inverted_mask(q, k, v):
    return attention(q, k, v, mask=~CASES["attention/mask"].options["mask"])


def uniform_over_masked(q, k, v):
    out = attention(q, k, v, mask=CASES["attention/fully masked row"].options["mask"])
    return np.where(out == 0, v.mean(0), out)


def minus_ten_for_a_mask(q, k, v):
    return attention(
        q, k, v, bias=np.where(CASES["attention/mask"].options["mask"], q.dtype.type(0), q.dtype.type(-10))
    )


def variance_for_deviation(mean, std, y):
    return ((y - mean) ** 2 / std / 2 + np.log(std) / 2 + np.log(2 * np.pi) / 2).mean()


MISTAKES = [
    ("layer_norm/ordinary", lambda x, g, s: plain_layer_norm(x, g, s, less=1), ["float32", "float64"]),
    ("layer_norm/ordinary", lambda x, g, s: plain_layer_norm(x, g, s, eps=1e-6), ["float64"]),
    ("layer_norm/small variance", lambda x, g, s: plain_layer_norm(x, g, s, eps=1e-6), ["float32", "float64"]),
    ("layer_norm/mean 1e4", one_pass_variance, ["float32", "float64"]),
    ("gelu/ordinary", gelu_by_tanh, ["float32", "float64"]),
    ("softmax/logits 1e4", overflowing_softmax, ["float32", "float64"]),
    ("log_softmax/20 and 0", log_of_sum, ["float32", "float64"]),
    ("attention/ordinary", lambda q, k, v: plain_attention(q, k, v, root=False), ["float32", "float64"]),
    ("attention/mask", inverted_mask, ["float32", "float64"]),
    ("attention/mask", minus_ten_for_a_mask, ["float32", "float64"]),
    ("attention/fully masked row", uniform_over_masked, ["float32", "float64"]),
    ("causal_attention/more keys than queries", bottom_right, ["float32", "float64"]),
    ("cross_entropy/smoothing 0.1", smoothed_off_target, ["float32", "float64"]),
    ("gaussian_nll/mean", variance_for_deviation, ["float32", "float64"]),
]


@pytest.mark.parametrize(
    ("name", "mistake", "dtype"), [(name, mistake, dtype) for name, mistake, dtypes in MISTAKES for dtype in dtypes]
)
def test_a_plausible_mistake_is_beyond_the_bound(name, mistake, dtype):
    *inputs, _ = given_inputs(name, dtype)
    with np.errstate(all="ignore"):
        assert ratio(name, dtype, "output", mistake(*inputs)) > 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "quantity", "mistake"),
    [
        ("softmax/ordinary", "gradient of x", lambda x, g: softmax(x) * g),
        ("log_softmax/ordinary", "gradient of x", lambda x, g: g - softmax(x)),
        ("log_softmax/one component of the gradient", "gradient of x", lambda x, g: g - softmax(x) * g.sum()),
        ("sigmoid/far right", "gradient of x", lambda x, g: g / (1 + np.exp(-x)) * (1 - 1 / (1 + np.exp(-x)))),
        ("layer_norm/ordinary", "gradient of x", lambda x, gain, shift, g: without_projection(x, gain, g)),
        ("layer_norm/ordinary", "gradient of gain", lambda x, gain, shift, g: (g * x).sum(0)),
        ("linear/ordinary", "gradient of bias", lambda x, w, b, g: g.mean(0)),
        ("attention/ordinary", "gradient of query", lambda q, k, v, g: 2 * attention_bars(q, k, v, g)[0]),
        ("mse/mean", "gradient of prediction", lambda p, t, g: g * (p - t) / p.size),
    ],
)
def test_a_plausible_mistake_in_a_gradient_is_beyond_the_bound(name, quantity, mistake, dtype):
    assert ratio(name, dtype, quantity, mistake(*given_inputs(name, dtype))) > 2


def without_projection(x, gain, g):
    """LayerNorm's gradient without its part along x̂."""
    u = g * gain
    return (u - u.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-5))


def attention_bars(q, k, v, g):
    return vjp(attention, q, k, v)[1](g)


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
