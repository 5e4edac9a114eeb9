"""Linear, MLP and Embedding: the affine map of every row, how it begins, a chain of them, and rows of a table."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.layers.activation import gelu, relu
from refnp.layers.linear import MLP, Embedding, Linear, embedding
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import linear as equations
from tests.helpers import REAL, assert_same_bits, assert_within, generator, normal


@pytest.mark.parametrize(("shape", "outputs"), [((2, 0), 3), ((0,), 2), ((4, 3), 0), ((0, 3), 2), ((2, 0, 3), 0)])
def test_linear_of_nothing_is_the_bias(shape, outputs):
    y, pullback = ad.vjp(ad.linear, np.ones(shape), np.ones((shape[-1], outputs)), np.arange(outputs, dtype=float))
    np.testing.assert_array_equal(y, np.broadcast_to(np.arange(outputs) + shape[-1], (*shape[:-1], outputs)))
    x_bar, weight_bar, bias_bar = pullback(y)
    assert (x_bar.shape, weight_bar.shape, bias_bar.shape) == (shape, (shape[-1], outputs), (outputs,))
    np.testing.assert_array_equal(bias_bar, y.reshape(int(np.prod(shape[:-1])), outputs).sum(0))


@pytest.mark.parametrize("bias", [True, False])
def test_linear_module_computes_linear(bias):
    module, x = Linear(3, 2, bias=bias, rng=generator()), normal(0, (4, 5, 3))
    assert [name for name, _ in module.named_parameters()] == (["weight", "bias"] if bias else ["weight"])
    assert module.weight.shape == (3, 2)
    expected = ad.linear(x, module.weight.data, module.bias.data if bias else None)
    assert_same_bits(module(x), expected)
    assert_same_bits(module(x[0, 0]), ad.linear(x[0, 0], *(p.data for p in module.parameters())))


def test_parameters_begin_between_plus_and_minus_one_over_root_in_features():
    """Uniform: no number outside, the largest close to the ends, and the mean square a third of the end's."""
    module = Linear(400, 300, rng=generator(1))
    for parameter in module.parameters():
        assert np.abs(parameter.data).max() <= 400**-0.5
        assert np.abs(parameter.data).max() > 0.98 * 400**-0.5
    variance, sixteen_deviations = 400**-1 / 3, 16 * 400**-1 * np.sqrt(4 / 45 / module.weight.size)
    assert abs((module.weight.data**2).mean() - variance) < sixteen_deviations


def test_an_mlp_without_biases():
    """0 stays 0, and the maps are those that there are with biases of 0."""
    module, whole, x = MLP([3, 4, 2], bias=False, rng=generator()), MLP([3, 4, 2], rng=generator()), normal(0, (5, 3))
    assert list(module.state_dict()) == ["layers.0.weight", "layers.1.weight"]
    np.testing.assert_array_equal(module(np.zeros((5, 3))), 0)
    biases = {f"layers.{i}.bias": np.zeros(n) for i, n in enumerate((4, 2))}
    assert_same_bits(module(x), whole.bind(module.state_dict() | biases)(x))


@pytest.mark.parametrize("sizes", [[3, 2], [3, 4, 2], (1, 1, 1, 1), [2, 5, 5, 5, 1]])
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("activation", [relu, gelu])
def test_mlp_is_its_equation(sizes, dtype, activation):
    """Linear maps with the activation between them, none after the last."""
    module = MLP(sizes, activation=activation, rng=generator()).astype(dtype)
    x = normal(3, (6, sizes[0]), dtype)
    state = module.state_dict()
    rounded = exact(x)
    by_hand = x
    for i in range(len(sizes) - 1):
        weight, bias = state[f"layers.{i}.weight"], state[f"layers.{i}.bias"]
        if i:
            rounded, by_hand = activation.page(rounded)[0], activation(by_hand)
        rounded, by_hand = equations.linear(rounded, exact(weight), exact(bias))[0], ad.linear(by_hand, weight, bias)
    y = module(x)
    assert y.shape == (6, sizes[-1])
    assert_within(y, rounded.value, tolerance(rounded, dtype))
    assert_same_bits(y, by_hand)


def test_an_embedding_draws_normal_numbers_that_the_scaling_brings_back_to_1():
    """Mean square 1 without scaling, 1/D with it, and so 1 again in the result; to 5 standard deviations, √(2/n)."""
    for scaled in (False, True):
        module = Embedding(500, 64, scaled=scaled, rng=generator())
        assert [(name, p.shape) for name, p in module.named_parameters()] == [("weight", (500, 64))]
        rows = module(np.arange(500))
        assert abs((rows**2).mean() - 1) < 5 * np.sqrt(2 / rows.size)
        assert_same_bits(rows, embedding(np.arange(500), module.weight.data, scaled=scaled))
    assert abs((module.weight.data**2).mean() * 64 - 1) < 5 * np.sqrt(2 / rows.size)
