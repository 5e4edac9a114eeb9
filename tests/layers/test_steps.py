"""Operations opened: lines of pages and plain forms agree with what runs, within the bounds that judge frameworks."""

import ast
import inspect
import pathlib
import re

import numpy as np
import pytest

import refnp
from refnp import Tensor
from refnp.autograd.explanation.opening import opened
from refnp.layers import attention, cross_entropy, gaussian_nll, gelu, layer_norm, set_convolution, softmax
from refnp.layers.attention import attention_with_weights
from refnp.layers.set_convolution import Grid, eq, matern_32, matern_52
from refnp.layers.softmax import log_softmax
from tests.helpers import of_every


def drawn(rng, *shape):
    return rng.normal(size=shape)


def spread(rng, *shape):
    return np.exp(0.5 * rng.normal(size=shape))


rng = np.random.default_rng(1)
CAUSAL = np.tril(np.ones((4, 4), bool))
HIDDEN = CAUSAL & (np.arange(4) != 2)[:, None]  # the third query may attend to nothing
TOKENS = {name: drawn(rng, 2, 4, 3) for name in ("query", "key", "value")}
SETS = {"target_x": drawn(rng, 5, 2), "context_x": drawn(rng, 4, 2), "context_y": drawn(rng, 4, 3)}
ROWS = {"x": drawn(rng, 3, 5), "gain": spread(rng, 5), "shift": drawn(rng, 5)}
LOGITS = drawn(rng, 4, 5)
CLASSES = np.array([0, 4, 2, 2])
CASES = [
    ("softmax", {"x": drawn(rng, 3, 4)}, {}),
    ("softmax", {"x": drawn(rng, 3, 4)}, {"axis": 0}),
    ("log_softmax", {"x": drawn(rng, 3, 4)}, {}),
    ("attention", TOKENS, {}),
    ("attention", TOKENS | {"mask": CAUSAL}, {}),
    ("attention", TOKENS | {"mask": HIDDEN}, {}),
    ("attention", TOKENS | {"bias": drawn(rng, 4, 4), "mask": CAUSAL}, {"softcap": 2.0}),
    ("layer_norm", ROWS, {}),
    ("layer_norm", ROWS, {"eps": 0.0}),
    ("rms_norm", {name: ROWS[name] for name in ("x", "gain")}, {}),
    ("gelu", {"x": drawn(rng, 3, 4)}, {}),
    ("gelu", {"x": drawn(rng, 3, 4)}, {"approximate": "tanh"}),
    ("silu", {"x": drawn(rng, 3, 4)}, {}),
    ("gaussian_nll", {"mean": drawn(rng, 6), "std": spread(rng, 6), "y": drawn(rng, 6)}, {}),
    ("cross_entropy", {"logits": LOGITS, "targets": CLASSES}, {}),
    ("cross_entropy", {"logits": LOGITS, "targets": CLASSES}, {"label_smoothing": 0.1, "ignore_index": 2}),
    ("convolution", {"x": drawn(rng, 2, 3, 6), "weight": drawn(rng, 2, 3, 3), "bias": drawn(rng, 2)}, {"padding": 1}),
    ("convolution", {"x": drawn(rng, 1, 2, 7), "weight": drawn(rng, 2, 2, 2)}, {"stride": 2, "dilation": 3}),
    ("convolution", {"x": drawn(rng, 1, 2, 4, 5), "weight": drawn(rng, 3, 2, 2, 3)}, {"padding": 1, "stride": 2}),
    ("set_convolution", SETS | {"length_scale": np.array(0.7)}, {}),
    ("set_convolution", SETS | {"length_scale": np.array(0.7)}, {"divide": True}),
    ("set_convolution", SETS | {"length_scale": spread(rng, 4)}, {}),
]


def taken(name, inputs, options):
    """(node, values, cotangents, arguments) of the operation on Tensors."""
    operation = getattr(refnp.layers, name)
    parameters = list(inspect.signature(operation).parameters)
    tensors = {key: Tensor(a, requires_grad=True) if a.dtype.kind == "f" else a for key, a in inputs.items()}
    result = operation(**tensors, **options)
    results = result if isinstance(result, tuple) else (result,)
    seed = np.random.default_rng(2)
    bars = [seed.normal(size=r.shape) for r in results]
    return results[0].node, [r.data for r in results], bars, parameters


@pytest.mark.parametrize(
    ("name", "inputs", "options"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_steps_end_in_the_value_and_the_gradients_of_the_page(name, inputs, options):
    node, values, bars, parameters = taken(name, inputs, options)
    found = opened(node, values, bars)
    got = {"output": found.results[0]}
    got |= {f"gradient of {parameters[place]}": gradient for place, gradient in found.gradients.items()}
    assert len(got) == 1 + sum(a.dtype.kind == "f" for a in inputs.values())
    floats = {key: a for key, a in inputs.items() if a.dtype.kind == "f"}
    others = {key: a for key, a in inputs.items() if key not in floats}
    refnp.assert_close(name, got, floats, precision="float64", cotangent=bars[0], **options, **others)
    assert found.difference >= np.abs(found.results[0] - values[0]).max()
    assert 14 <= found.digits <= np.finfo(float).precision
    assert not found.unlike
    shown = bars + [step.gradient for step in found.steps if step.gradient is not None]
    for gradient in found.gradients.values():  # each is a step, or ȳ itself, but for sums over rows
        assert any(s.sum() == pytest.approx(gradient.sum(), abs=1e-12) for s in shown)


@pytest.mark.parametrize(
    ("name", "inputs", "options"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_last_step_is_the_result_and_each_step_has_the_gradient_of_its_value(name, inputs, options):
    """By the walk back: steps are values on one tape, so that the gradient of a step is the derivative by it."""
    node, values, bars, _ = taken(name, inputs, options)
    found = opened(node, values, bars)
    assert len(found.steps) >= 2
    for step in found.steps:
        assert step.gradient is None or step.value is None or step.gradient.shape == step.value.shape


def test_weights_and_output_of_attention_go_back_together():
    operation = attention_with_weights
    tensors = {name: Tensor(a, requires_grad=True) for name, a in TOKENS.items()}
    output, weights = operation(**tensors, mask=CAUSAL)
    bars = [np.ones(output.shape), np.arange(weights.size).reshape(weights.shape) / weights.size]
    found = opened(output.node, [output.data, weights.data], bars)
    right = refnp.vjp(lambda q, k, v: operation(q, k, v, mask=CAUSAL), *TOKENS.values())[1](tuple(bars))
    rounding = 64 * np.finfo(float).eps  # sums of at most 4 terms, of numbers below 8
    for place, gradient in enumerate(right):
        np.testing.assert_allclose(found.gradients[place], gradient, rtol=0, atol=rounding)


@pytest.mark.parametrize("kernel", [eq, matern_32, matern_52])
def test_a_set_convolution_opens_with_any_kernel_and_mask(kernel):
    mask = np.array([True, False, True, True])
    points = SETS["context_x"].copy()
    tensors = [Tensor(a, requires_grad=True) for a in (SETS["target_x"], points, SETS["context_y"], np.array(0.7))]
    z = set_convolution(*tensors, kernel=kernel, mask=mask)
    found = opened(z.node, [z.data], [np.ones(z.shape)])
    assert found.difference <= 16 * np.finfo(float).eps * np.abs(z.data).max()
    assert not found.gradients[2][1].any()


def test_the_gradient_of_a_step_is_the_derivative_by_its_value():
    """For the weights A of attention: Ō Vᵀ, and for the scores S, by hand."""
    tensors = {name: Tensor(a[0], requires_grad=True) for name, a in TOKENS.items()}
    o = attention(**tensors, mask=CAUSAL)
    bar = np.random.default_rng(3).normal(size=o.shape)
    steps = {step.equation.partition(" =")[0]: step for step in opened(o.node, [o.data], [bar]).steps}
    a, a_bar = steps["weights, _"].value, bar @ TOKENS["value"][0].T
    np.testing.assert_array_equal(steps["weights_bar"].gradient, a_bar)
    s_bar = a * (a_bar - (a_bar * a).sum(-1, keepdims=True))
    np.testing.assert_allclose(steps["scores_bar"].gradient, s_bar, rtol=0, atol=64 * np.finfo(float).eps)


def test_what_extreme_inputs_cost_is_said():
    x = Tensor(np.array([[0.0, -800.0]]), requires_grad=True)
    y = log_softmax(x)
    assert opened(y.node, [y.data], [np.ones(y.shape)]).difference == 0
    x = Tensor(np.array([[20.0, 0.0]]), requires_grad=True)
    y = log_softmax(x)  # the page itself keeps the −2.06e-9 to its last digit
    assert opened(y.node, [y.data], None).difference < 1e-24
    x = Tensor(np.array([[1e200, 0.0, 1.0]]), requires_grad=True)
    y = layer_norm(x)  # the page computes rows whose squares overflow in units of their own size
    found = opened(y.node, [y.data], None)
    assert found.digits == 0
    assert found.notes("2")[-1].endswith("which keeps promises that its page does not make: refnp.plain")


def test_numbers_that_are_not_finite_in_one_alone_are_counted():
    x = Tensor(np.array([1.0, -np.inf, 2.0]), requires_grad=True)
    y = gelu(x)  # 0 · ∞ on the page, the limit in the kernel
    found = opened(y.node, [y.data], None)
    assert (found.unlike, found.numbers) == (1, 3)
    text = "these steps agree with line 2 to 15 digits, but for 1 of 3 numbers, which are NaN or infinite in one alone"
    assert found.notes("2")[0] == text
    y = softmax(Tensor(np.array([1.0, np.nan]), requires_grad=True))  # NaN in both: they agree
    assert opened(y.node, [y.data], None).notes("2") == ["these steps agree with line 2 to 15 digits"]


def test_what_a_mask_hides_is_set_apart_in_front_of_the_steps():
    """A key of NaN that one query may attend to, and others may not: the line and its steps compute the same."""
    key = TOKENS["key"].copy()
    key[0, 1] = np.nan
    tensors = [Tensor(a, requires_grad=True) for a in (TOKENS["query"], key, TOKENS["value"])]
    o = attention(*tensors, mask=CAUSAL)
    np.testing.assert_array_equal(np.isnan(o.data[0]).any(-1), [False, True, True, True])
    found = opened(o.node, [o.data], [np.ones(o.shape)])
    hidden = "3 numbers that a mask hides, or that are not finite, are 0 or 1 in these steps"
    assert found.notes("4") == ["these steps agree with line 4 to 15 digits", hidden]


def test_a_gradient_that_is_rounding_alone_is_called_so():
    """Equal logits have equal weights, whatever the keys: Q̄ is 0 on paper."""
    x = Tensor(np.full((5, 3), 0.3), requires_grad=True)
    o = attention(x, np.full((5, 3), 0.7), np.full((5, 3), 0.1))
    found = opened(o.node, [o.data], [np.random.default_rng(0).normal(size=o.shape)])
    assert found.digits in (0, 15)
    assert found.difference <= 1e-15
    said = found._replace(digits=0, difference=3e-17, largest=1.5).notes("4")
    assert said[1:] == [
        "they differ by up to 3.0e-17, beside numbers up to 1.5e+00 in the steps",
        "that may be their rounding, or the line is a kernel's, which keeps promises that its page does not make: "
        "refnp.plain",
    ]


def test_every_array_that_a_line_names_is_a_step_and_helpers_are_named():
    tensors = {name: Tensor(a[0], requires_grad=True) for name, a in TOKENS.items()}
    o = attention(**tensors, mask=CAUSAL)
    found = opened(o.node, [o.data], [np.ones(o.shape)])
    last = {step.equation.strip(): step for step in found.steps}
    for place, name in enumerate(("query_bar", "key_bar")):
        np.testing.assert_array_equal(last[name].gradient, found.gradients[place])
    front = [step.equation.strip() for step in found.steps if step.value is step.gradient is None]
    assert {"attention_scores:", "softmax:", "vjp of attention_scores:"} <= set(front)
    assert "query_bar, key_bar, bias_bar = scores_vjp(scores_bar)" in front
    (said,) = {step.comment for step in found.steps if step.equation.strip() == "softmax_vjp:"}
    assert said == "x̄_i = p_i (r_i − Σ_j r_j p_j) of weights p (..., n)"


def test_several_axes_scales_soft_targets_and_reductions_open_too():
    """Sums of fewer than 32 numbers below 8, each rounded: 32 · 8 · 2⁻⁵³ < 1e-13."""
    rng = np.random.default_rng(4)
    x = Tensor(rng.normal(size=(2, 3, 4)), requires_grad=True)
    gain = Tensor(rng.normal(size=(2, 4)), requires_grad=True)
    y = layer_norm(x, gain, axis=(0, 2))
    assert opened(y.node, [y.data], [np.ones(y.shape)]).difference < 1e-13
    z = attention(x, x, x, scale=0.3)
    assert opened(z.node, [z.data], None).difference < 1e-13
    q = softmax(rng.normal(size=(2, 3, 4)))
    for reduction in ("mean", "sum", "none"):
        loss = cross_entropy(x, q, label_smoothing=0.2, class_weights=np.arange(1.0, 5), reduction=reduction)
        assert opened(loss.node, [loss.data], None).difference < 1e-13
        mask = np.array([True, False, True])[:, None]
        loss = gaussian_nll(x, 2.0, q, mask=mask, reduction=reduction)
        assert opened(loss.node, [loss.data], None).difference < 1e-13


def test_grids_are_opened_too():
    grid = Grid(np.zeros((1, 1)), (4,), 2.0)
    y = Tensor(np.ones((1, 3, 1)), requires_grad=True)
    z = set_convolution(grid, np.zeros((1, 3, 1)), y, 0.5)
    assert opened(z.node, [z.data], None).difference <= 16 * np.finfo(float).eps * np.abs(z.data).max()


PAGES = sorted(p for p in pathlib.Path(refnp.layers.__file__).parent.rglob("*.py") if "\n@page(" in p.read_text())


@of_every(PAGES)
def test_what_a_vjp_returns_stands_on_lines_of_its_own(path):
    """So that each gradient has a name, a comment and a step of its own."""
    tree = ast.parse(path.read_text())
    vjps = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "vjp"]
    for node in (node for vjp in vjps for node in ast.walk(vjp) if isinstance(node, ast.Return)):
        returned = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        bare = [one.operand if isinstance(one, ast.UnaryOp) else getattr(one, "value", one) for one in returned]
        assert all(isinstance(one, (ast.Name, type(None))) for one in bare), ast.unparse(node)


@of_every(PAGES)
def test_words_that_are_not_those_of_numpy_are_explained_where_the_page_says(path):
    """In the first lines of the package, but for functions that the field knows by these names."""
    tree = ast.parse(path.read_text())
    named = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("refnp.numbers.words", "refnp.numbers.parts")
        for alias in node.names
    }
    assert "Words: layers/__init__.py." in ast.get_docstring(tree)
    assert named - IN_OTHER_WORDS <= set(re.findall(r"\w+", refnp.layers.__doc__))


IN_OTHER_WORDS = {"erfc", "expm1_less", "less_log1p", "logarithm"}
