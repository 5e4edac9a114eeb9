"""What a function is seen to do where no mistake fits, and wrong functions of which no table knows."""

import json

import numpy as np
import pytest

import refnp
from refnp.verify.report import as_json
from tests.verify.test_causes import in_bfloat16, scores_of, softmax_of


def padded(query, key, value):
    """Zeros up to a multiple of 16 keys count."""
    more = lambda x: np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, -x.shape[-2] % 16), (0, 0)])
    return softmax_of(scores_of(query, more(key))) @ more(value)


def of_one_key_more(query, key, value, *, before, after):
    step = np.arange(key.shape[-2]) - np.arange(query.shape[-2])[:, None]
    scores = np.where((-before <= step) & (step <= after) | (step == 3), scores_of(query, key), -1e30)
    return softmax_of(scores) @ value


def of_four_keys(query, key, value):
    return softmax_of(scores_of(query, key[..., :4, :])) @ value[..., :4, :]


def of_a_ring(x, size, **_):
    """A mean of windows, of which the first sees the last place too."""
    y = np.stack([x[..., i : i + size].mean(-1) for i in range(0, x.shape[-1] - size + 1, size)], -1)
    y[..., 0] += x[..., -1] * x.dtype.type(0.37)
    return y


def without_a_feature(x, weight, bias):
    return np.where(np.arange(x.shape[-1]) == 1, x.dtype.type(0), x) @ weight + bias


def with_noise(x):
    return np.maximum(x, 0) + np.random.default_rng().normal(size=x.shape).astype(x.dtype)


def of_all_but_the_last(x, gain, eps=1e-5):
    squares = (x[..., :-1] ** 2).sum(-1, keepdims=True) / x.dtype.type(x.shape[-1])
    return x / np.sqrt(squares + np.asarray(eps, x.dtype)) * gain


def as_wrongly_by_welford(x, gain, shift, eps=1e-5):
    mean, squares = 0 * x[..., :1], 0 * x[..., :1]
    for k in range(x.shape[-1]):
        away = x[..., k : k + 1] - mean
        mean, squares = mean + away / (k + 1), squares + away * away
    return gain * (x - mean) / np.sqrt(squares / x.shape[-1] + np.asarray(eps, x.dtype)) + shift


def first_tap_twice(x, weight, bias):
    taps = weight * np.where(np.arange(weight.shape[-1]) == 0, 2, 1).astype(x.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[-1], -1)
    return np.einsum("bipt,oit->bop", windows, taps) + bias[:, None]


def half_of_no(logits, targets, reduction="mean"):
    losses = targets * np.logaddexp(0, -logits) + (1 - targets) * np.logaddexp(0, logits)
    return {"none": lambda x: x, "sum": np.sum, "mean": np.mean}[reduction](losses * np.where(targets < 0.5, 0.5, 1))


def first_class_thrice(logits, targets, reduction="mean"):
    away = logits - logits.max(-1, keepdims=True)
    at_target = np.take_along_axis(away, targets[..., None], -1)[..., 0]
    losses = (np.log(np.exp(away).sum(-1)) - at_target) * np.where(targets == 0, 3, 1)
    return {"none": lambda x: x, "sum": np.sum, "mean": np.mean}[reduction](losses)


def shifted_bias(x, weight, bias):
    return x @ weight + np.roll(bias, -1)


def without_last_row(table, tokens):
    return table[np.minimum(tokens, len(table) - 2)]


def wavy(x):
    return np.maximum(x, 0) * (1 + np.sin(x) / 8)


SEEN = [
    ("attention", padded, "*/[a-l]*", "weights do not sum to 1 but to "),
    ("attention", padded, "*/[a-l]*", ", as if there were more keys"),
    ("window_attention", of_one_key_more, "*/[a-l]*", "(offset 3), which is hidden"),
    ("attention", of_four_keys, "*/ordinary", "query 0 does not see key 4 (offset 4)"),
    ("average_pool", of_a_ring, "*/1-D", "output[0, 0, 0] depends on x[0, 0, "),
    ("linear", without_a_feature, "*/ordinary*", "x[0, 1] has no influence, as all where axis 1 is 1"),
    ("linear", lambda x, weight, bias: x @ weight + np.roll(bias, -1), "*/ordinary", "reads bias[1] where bias[0] is"),
    (
        "embedding",
        lambda table, tokens: table[np.minimum(tokens, len(table) - 2)],
        "*/ordinary",
        "reads table[5, 0] wh",
    ),
    ("convolution", first_tap_twice, "*/1-D", "weight[0, 0, 0] counts 2 times what is right, as all where axis 2 is 0"),
    ("relu", with_noise, "*/ordinary*", "two calls with the same arguments differ"),
    (
        "relu",
        lambda x: np.maximum(x, 0) * (1 + np.sin(x) / 8),
        "*/ordinary*",
        "the curve leaves the right one from x = ",
    ),
    ("binary_cross_entropy", half_of_no, "*/mean", "rows of class 0 count 0.5 times what is right"),
    ("cross_entropy", first_class_thrice, "*/mean", ", of class 0, counts 3 times what is right"),
    ("rms_norm", of_all_but_the_last, "*/ordinary", "does not count in the deviation"),
    ("layer_norm", as_wrongly_by_welford, "*/ordinary", "of the row of x[0, 0] the mean is right"),
]


@pytest.mark.parametrize(("layer", "function", "only", "says"), SEEN)
def test_where_nothing_fits_it_is_told_what_is_seen(layer, function, only, says):
    report = refnp.judge(layer, function, only=only, dtypes="float64")
    (cause,) = report.causes
    assert cause.says == ""
    assert says in cause.seen
    assert cause.seen in str(report)
    assert json.loads(as_json(report.judgements, report.causes))["causes"][0]["seen"] == cause.seen


def softmax_bar(p, bar):
    return p * (bar - (bar * p).sum(-1, keepdims=True))


def softmax_bar_and_sum(p, bar):
    return softmax_bar(p, bar) + bar.sum(-1, keepdims=True)


PULLBACKS = [
    ("softmax", softmax_of, lambda x, bar: bar * softmax_of(x) * (1 - softmax_of(x)), "the diagonal alone"),
    ("softmax", softmax_of, lambda x, bar: 3 * softmax_bar(softmax_of(x), bar), "3 times what is right"),
    ("tanh", np.tanh, lambda x, bar: bar * (1 - np.tanh(x)), "the gradient of x were ȳ (1 − y)"),
    ("exp", np.exp, lambda x, bar: bar * np.exp(-x), "taken where x is of the other sign"),
    (
        "softmax",
        softmax_of,
        lambda x, bar: softmax_bar(softmax_of(x), bar**3),
        "is not linear in the incoming gradient",
    ),
    (
        "softmax",
        softmax_of,
        lambda x, bar: softmax_bar(softmax_of(x), bar) + bar.sum(-1, keepdims=True),
        "one number more",
    ),
]


@pytest.mark.parametrize(("layer", "function", "pullback", "says"), PULLBACKS)
def test_a_walk_back_is_told(layer, function, pullback, says):
    vjp = lambda f, x: (f(x), lambda bar: (pullback(x, bar),))
    causes = refnp.judge(layer, function, vjp=vjp, only="*ordinary*", dtypes="float64").causes
    assert any(says in text for cause in causes for text in (cause.says, *cause.others, cause.seen))


ROUNDED = [
    ("linear", lambda x, weight, bias: in_bfloat16(x @ weight).astype(x.dtype) + bias, "xw were rounded to bfloat16"),
    (
        "linear",
        lambda x, weight, bias: x @ in_bfloat16(weight).astype(x.dtype) + bias,
        "weight were stored in bfloat16",
    ),
    ("softmax", lambda x: softmax_of(in_bfloat16(x).astype(x.dtype)), "inputs and gradients were stored in bfloat16"),
]


@pytest.mark.parametrize(("layer", "function", "says"), ROUNDED)
def test_any_expression_may_be_rounded(layer, function, says):
    (cause,) = refnp.judge(layer, function, only="*/ordinary").causes
    assert any(says in text for text in (cause.says, *cause.others))


def test_arguments_may_be_bounded():
    def gaussian_nll(mean, std, y):
        std = np.maximum(std, std.dtype.type(0.1))
        return (((y - mean) / std) ** 2 / 2 + np.log(std) + std.dtype.type(np.log(2 * np.pi) / 2)).mean()

    assert refnp.judge("gaussian_nll", gaussian_nll).causes[0].says == "as if std were at least 0.1"


def test_a_curve_leaves_the_right_one_only_where_it_does():
    """The smallest case is a made one: what is kept of it is not the bound of the places where the curve is asked."""
    elu = lambda x, alpha=1.0: np.where(x > 0, x * 1.1, alpha * np.expm1(x)).astype(x.dtype)
    (cause,) = refnp.judge("elu", elu, dtypes="float64").causes
    assert "the curve leaves the right one from x = 0.125 to 12;" in cause.seen
