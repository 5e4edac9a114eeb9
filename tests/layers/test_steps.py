"""Operations opened: lines of pages and plain forms agree with what runs, within the bounds that judge frameworks."""

import ast
import pathlib
import re

import numpy as np
import pytest

import refnp
from refnp import Tensor
from refnp.autograd.backward import tape_of
from refnp.autograd.explanation.opening import can_be_opened, opened
from refnp.layers import attention, gelu, layer_norm, set_convolution, softmax
from refnp.layers.attention import attention_with_weights
from refnp.layers.set_convolution import Grid
from refnp.layers.softmax import log_softmax
from refnp.verify.judge import WITHIN, judged
from refnp.verify.layers import cases
from tests.helpers import of_every


def drawn(rng, *shape):
    return rng.normal(size=shape)


rng = np.random.default_rng(1)
CAUSAL = np.tril(np.ones((4, 4), bool))
TOKENS = {name: drawn(rng, 2, 4, 3) for name in ("query", "key", "value")}


def first_cases(name):
    """The first listed case of a function with each choice of arrays and options, of which gradients are judged."""
    listed = [case for case in cases() if case.layer.name == name and len(case.quantities) > 1]
    return {(*case.inputs, *case.options): case for case in reversed(listed)}.values()


FUNCTIONS = {case.layer.name: case.layer.function for case in cases()}
OPENED = [name for name in FUNCTIONS if can_be_opened(FUNCTIONS[name]) or name in ("attention", "rotate")]


@pytest.mark.parametrize("name", OPENED)
def test_steps_end_in_the_value_and_the_gradients_of_the_page(name):
    """Of all that is one operation with steps; each of these has a gradient of its shape."""
    count = 0
    for case in first_cases(name):
        problem = case.problem("float64")
        tensors = [Tensor(a, requires_grad=True) if a.dtype.kind == "f" else a for a in problem.arrays.values()]
        result = case.layer.function(*tensors, **case.options)
        nodes = tape_of([result]) if isinstance(result, Tensor) else []
        if len(nodes) == 1 == len(nodes[0].outputs) and can_be_opened(nodes[0].operation):
            assert_opened_as_judged(case, problem, result)
            count += 1
    assert count


def assert_opened_as_judged(case, problem, result):
    found = opened(result.node, [result.data], [problem.cotangent])
    got = {"output": found.results[0]}
    got |= {f"gradient of {[*problem.arrays][place]}": gradient for place, gradient in found.gradients.items()}
    rows = judged(problem, {quantity: got[quantity] for quantity in case.quantities}, problem.reference(), "refnp", "")
    assert {row.verdict for row in rows} == {WITHIN}
    finite = np.isfinite(result.data)
    assert found.difference >= np.abs(found.results[0][finite] - result.data[finite]).max()
    assert not found.unlike
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


def test_several_axes_and_scales_open_too():
    """Sums of fewer than 32 numbers below 8, each rounded: 32 · 8 · 2⁻⁵³ < 1e-13."""
    rng = np.random.default_rng(4)
    x = Tensor(rng.normal(size=(2, 3, 4)), requires_grad=True)
    gain = Tensor(rng.normal(size=(2, 4)), requires_grad=True)
    y = layer_norm(x, gain, axis=(0, 2))
    assert opened(y.node, [y.data], [np.ones(y.shape)]).difference < 1e-13
    z = attention(x, x, x, scale=0.3)
    assert opened(z.node, [z.data], None).difference < 1e-13


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
