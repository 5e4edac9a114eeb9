"""Ways off the tape are closed, derivatives record by themselves, and arrays have owners."""

import copy
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
import refnp.autograd as ad
from refnp import layers
from refnp.autograd import Tensor, primitive
from refnp.layers.positions import ImagePositions, Shaw
from tests.helpers import assert_same_bits, assert_within, normal, seeds


def into_an_element(x):
    out = np.zeros(2)
    out[0] = x
    return out.sum()


def filled(x):
    out = np.zeros(2)
    out.fill(x)
    return out.sum()


OFF = {
    "float": float,
    "int": int,
    "complex": lambda x: complex(x).real,
    "math.exp": math.exp,
    "math.sqrt": math.sqrt,
    "math.floor": math.floor,
    "math.hypot": lambda x: math.hypot(x, 1.0),
    "sum of floats": lambda x: sum([float(x), 1.0]),
    "item": lambda x: x.item(),
    "an element": into_an_element,
    "fill": filled,
    "an array of them": lambda x: np.array([x, x]).sum(),
    "an array of floats": lambda x: np.array([x, 1.0], float).sum(),
    "np.full": lambda x: np.full(2, x).sum(),
    "np.exp": np.exp,
    "np.float64": np.float64,
}


@pytest.mark.parametrize("way", OFF)
@pytest.mark.parametrize("at", ["the argument", "a result"])
def test_a_value_does_not_lose_its_history_unseen(way, at):
    """In grad, vjp, jacobian, jvp and hvp alike, whether its number would be all of the result or a part."""

    def function(x):
        y = x if at == "the argument" else x * x
        return x + OFF[way](y)

    x, one = np.array(2.0), np.array(1.0)
    for call in (
        lambda: ad.grad(function)(x),
        lambda: ad.vjp(function, x),
        lambda: ad.jacobian(function)(x),
        lambda: ad.jvp(function, (x,), (one,)),
        lambda: ad.hvp(function, (x,), (one,)),
    ):
        with pytest.raises((TypeError, ValueError), match=r"history|sequence"):
            call()


@pytest.mark.parametrize("way", [float, int, complex, math.exp, into_an_element, filled])
def test_a_recorded_tensor_is_no_python_number(way):
    x = Tensor(2.0, requires_grad=True)
    y = x * x
    for tensor in (x, y):
        with pytest.raises((TypeError, ValueError)) as refused:
            way(tensor)
        said = str(refused.value.__cause__ or refused.value)  # NumPy puts "with a sequence" before it
        assert re.search(r"a gradient is recorded for .* refnp's operations, or write \.numpy\(\)", said)
    assert y.item() == 4  # said, not unseen
    assert f"{y:.1f}" == "4.0"
    assert bool(y)
    way(x.detach())
    with ad.no_grad():
        way(x)
    y.backward()
    way(y)  # its tape is used


def test_what_does_not_depend_is_said():
    x = np.ones(2)
    for function in (
        lambda x: 3.0,
        lambda x: np.array(1.0),
        lambda x: ad.sum(x.detach()),
        lambda x: ad.sum(x.numpy() * 2),
        lambda x: ad.sum(ad.floor(x)),
        lambda x: ad.sum(ad.round(x)),
        lambda x: (x > 0).sum() * 1.0,
        lambda x: ad.sum(ad.Parameter(np.ones(2)) * 2),
    ):
        for derivative in (ad.grad, ad.jacobian, ad.hessian):
            with pytest.raises(ValueError, match="does not depend on what is differentiated, so its derivative is 0"):
                derivative(function)(x)
    assert ad.grad(lambda x, y: ad.sum(x), (0, 1))(x, x)[1].tolist() == [0, 0]  # one of two
    assert ad.vjp(lambda x: np.array(3.0), x)[1](1.0)[0].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["fft.fft", "convolve", "linalg.eigh", "interp", "cbrt", "hypot", "floor_divide"])
def test_functions_that_refnp_lacks_name_the_way_that_works(name):
    module, _, last = f"np.{name}".rpartition(".")
    function = getattr(eval(module, {"np": np}), last)
    arguments = {"convolve": 2, "interp": 3, "hypot": 2, "floor_divide": 2}.get(name, 1)
    with pytest.raises(TypeError, match=r"no such operation: .* refnp\.autograd\.primitive$"):
        function(*[Tensor(np.ones((2, 2) if "eigh" in name else 2))] * arguments)


# ---- recorded by themselves


def test_derivatives_inside_no_grad():
    x, v = np.array([1.0, 2.0]), np.ones(2)

    def cubes(x):
        return ad.sum(x**3)

    outside = ad.grad(cubes)(x), ad.vjp(cubes, x)[1](1.0)[0], ad.jacobian(cubes)(x), ad.hvp(cubes, (x,), (v,))[1][0]
    with ad.no_grad():
        inside = ad.grad(cubes)(x), ad.vjp(cubes, x)[1](1.0)[0], ad.jacobian(cubes)(x), ad.hvp(cubes, (x,), (v,))[1][0]
        assert not ad.is_recording()
    for a, b in zip(inside, outside, strict=True):
        assert_same_bits(a, b)
    assert outside[0].tolist() == [3, 12]

    def constant(x):
        with ad.no_grad():  # of the function's own: it counts
            return ad.sum(x * x)

    with pytest.raises(ValueError, match="does not depend"):
        ad.grad(constant)(x)


@pytest.mark.parametrize(
    ("positions", "places"),
    [
        (Shaw(4, 3, rng=np.random.default_rng(0)), np.array([0, 1, 2, 3, 9])),
        (ImagePositions(4, axes=1, values=True, rng=np.random.default_rng(0)), np.array([0, 1, 2, 3, 9])),
    ],
)
def test_layers_whose_value_comes_from_a_pullback(positions, places):
    module = layers.MultiHeadAttention(8, 2, positions=positions, rng=np.random.default_rng(0))
    options = {"query_places": places, "key_places": places}
    x = normal(0, (5, 8))
    expected = module(x, **options)
    with ad.no_grad():
        assert_same_bits(module(x, **options), expected)
        assert_same_bits(module(Tensor(x), **options).numpy(), expected)


# ---- gradients of intermediate values


@given(seeds)
def test_gradients_of_what_was_computed_before(seed):
    """Those of logits and hidden values, against the same function cut in two."""
    rng = np.random.default_rng(seed)
    x, w, target = normal(rng, (4, 3)), normal(rng, (3, 5)), np.array([0, 4, 2, 1])
    leaf = Tensor(w, requires_grad=True)
    hidden = ad.tanh(x @ leaf)
    logits = hidden * 2.0 + 1.0
    loss = layers.cross_entropy(logits, target)
    of_logits, of_hidden, of_leaf = refnp.gradients(loss, [logits, hidden, leaf])
    expected = ad.grad(lambda z: layers.cross_entropy(z, target))(logits.numpy())
    assert_same_bits(of_logits, expected)
    assert_same_bits(of_hidden, expected * 2.0)
    assert leaf.grad is None
    loss.backward()  # the tape is there
    assert_same_bits(of_leaf, leaf.grad)
    of_leaf += 1  # arrays of their own
    assert_same_bits(of_logits, expected)


def test_gradients_says_what_it_cannot():
    x, other = Tensor(2.0, requires_grad=True), Tensor(1.0, requires_grad=True)
    first, second = ad.slogdet(ad.reshape(x, (1, 1)))
    assert [g.item() for g in refnp.gradients(second, [second, first, x])] == [1, 0, 0.5]
    with pytest.raises(ValueError, match=r"gradients: the result does not depend on item 1, of shape \(\)"):
        refnp.gradients(x * x, [x, other])
    with pytest.raises(TypeError, match="gradients: item 0 is a ndarray; pass Tensors"):
        refnp.gradients(x * x, [np.ones(2)])
    with pytest.raises(TypeError, match="gradients: result is a float"):
        refnp.gradients(2.0, [x])
    with pytest.raises(RuntimeError, match="nothing behind this tensor"):
        refnp.gradients(Tensor(1.0), [x])
    with pytest.raises(ValueError, match=r"of shape \(2,\) needs a cotangent"):
        refnp.gradients(x * np.ones(2), [x])


# ---- arrays have owners


@primitive
def writing_relu(x):
    def vjp(y_bar):
        y_bar[x <= 0] = 0
        return (y_bar,)

    return np.maximum(x, 0), vjp


@primitive
def writing_forward(x):
    x *= 2
    return x, lambda y_bar: (2 * y_bar,)


BUFFER = np.zeros(3)


@primitive
def with_a_buffer(x):
    def vjp(y_bar):
        np.multiply(y_bar, 2, out=BUFFER)
        return (BUFFER,)

    return x * 2, vjp


def test_rules_of_others_cannot_write_into_what_they_are_given():
    x = np.array([1.0, -2.0, 3.0])
    with pytest.raises(ValueError, match=r"^writing_forward: .*read-only"):
        writing_forward(x)
    for function in (writing_relu, writing_forward):
        with pytest.raises(ValueError, match="read-only"):
            ad.grad(lambda x, f=function: ad.sum((f(x) + x) * 2.0))(x)
    assert x.tolist() == [1, -2, 3]


def test_what_rules_of_others_return_is_copied():
    x = np.array([1.0, -2.0, 3.0])
    gradient = ad.grad(lambda x: ad.sum(with_a_buffer(x) * np.array([1.0, 10, 100]) + with_a_buffer(x)))(x)
    assert gradient.tolist() == [4, 22, 202]
    kept = np.ones(3)

    @primitive
    def keeping(x):
        return x + 0, lambda y_bar: (kept,)

    assert ad.grad(lambda x: ad.sum(x + keeping(x) + x))(x).tolist() == [3, 3, 3]
    assert kept.tolist() == [1, 1, 1]
    doubled = primitive(lambda x: (np.multiply(x, 2, out=kept), lambda y_bar: (2 * y_bar,)))  # into one array
    assert ad.grad(lambda x: ad.sum(doubled(x) * doubled(x * x)))(x).tolist() == [12, 48, 108]


@given(seeds, st.sampled_from([ad.multiply, ad.divide, ad.maximum, ad.arctan2, ad.power]))
def test_a_pullback_does_not_depend_on_what_happens_to_arrays_later(seed, function):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0.5, 2, (2, 4))
    u = rng.standard_normal(4)
    expected = ad.vjp(function, x, y)[1](u)
    value, pullback = ad.vjp(function, x, y)
    for array in (x, y, value):
        array *= 5
    for found, right in zip(pullback(u), expected, strict=True):
        assert_same_bits(found, right)


def test_the_value_of_a_vjp_is_the_callers():
    value, pullback = ad.vjp(ad.exp, np.zeros(3))
    value[:] = 7
    assert pullback(np.ones(3))[0].tolist() == [1, 1, 1]


# ---- modules on plain arrays inside a loss


def test_a_module_called_on_arrays_does_not_lose_gradients_unseen():
    rng = np.random.default_rng(0)
    encoder, decoder = layers.Linear(3, 4, rng=rng), layers.Linear(4, 2, rng=rng)
    x = normal(1, (5, 3))
    hidden = encoder(x)
    with pytest.raises(TypeError, match=r"what Linear gave for arrays, .*; call it as Linear\(…\)\(Tensor\(x\)\), or"):
        ad.mean(decoder(Tensor(x @ np.ones((3, 4)))) * encoder(x)[:, :2].copy().sum() + decoder(hidden))
    with pytest.raises(TypeError, match=r"^add: an array here is what Linear gave"):
        encoder(Tensor(x)) + hidden
    with ad.no_grad():
        target = encoder(x)
    loss = ad.mean((encoder(Tensor(x)) - target * 2) ** 2)  # a constant, and said
    loss.backward()
    assert encoder.weight.grad.any()
    frozen = layers.Linear(3, 4, rng=rng)
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    encoder(Tensor(x)) + frozen(x)  # has nothing to train
    assert type(encoder(x) + hidden) is np.ndarray


# ---- dtypes


@pytest.mark.parametrize("x", [3, np.array(3), np.array([1, 2]), True, np.array([True])])
def test_whole_numbers_have_no_derivative(x):
    one = np.ones(np.shape(x))
    for name, call in {
        "grad": lambda: ad.grad(lambda x: ad.sum(x**2))(x),
        "jacobian": lambda: ad.jacobian(lambda x: x**2)(x),
        "hessian": lambda: ad.hessian(lambda x: ad.sum(x**2))(x),
        "jvp": lambda: ad.jvp(lambda x: x**2, (x,), (one,)),
        "hvp": lambda: ad.hvp(lambda x: ad.sum(x**2), (x,), (one,)),
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: .*(has no floats to differentiate|a constant, .* pass a fl)"):
            call()
    y, along = ad.jvp(lambda x, k: x**k, (2.0, 3), (1.0, None))  # beside a float they are constants
    assert (y, along) == (8, 12)


@pytest.mark.parametrize("n", [2049, 70_000])
def test_counts_and_ties_in_float16(n):
    x = np.ones(n, np.float16)
    assert ad.mean(x) == 1
    assert ad.var(x) == ad.std(x) == 0
    assert_within(ad.norm(x).astype(float), n**0.5, 2**-11 * n**0.5)
    assert_within(ad.logsumexp(x).astype(float), 1 + np.log(n), 2**-10 * np.log(n))
    for function in (ad.mean, ad.max, ad.min, ad.logsumexp):
        gradient = ad.grad(function)(x)
        assert gradient.dtype == np.float16
        assert_within(gradient.astype(float), np.full(n, 1 / n), 2.0**-11 / n + 2.0**-25)
    assert ad.max(x[:, None], 1).dtype == ad.std(x).dtype == np.float16
    assert_within(layers.softmax(x).astype(float), np.full(n, 1 / n), 2.0**-11 / n + 2.0**-25)
    assert np.all(layers.layer_norm(300 * x) == 0)


@given(seeds)
def test_reductions_in_float16_are_rounded_once(seed):
    x = np.asarray(np.random.default_rng(seed).standard_normal((3, 40)) * 50, np.float16)
    for function in (ad.mean, ad.var, ad.std, ad.norm, ad.logsumexp, ad.max):
        exact = function(x.astype(np.float64), 1)
        assert_within(function(x, 1).astype(float), exact, 2**-11 * np.abs(exact) * (1 + 1e-3) + 2.0**-25)


@pytest.mark.parametrize("of", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_tensor_with_history_is_not_copied(of):
    """A leaf is; of a long tape the copy would be as deep as Python's stack."""
    leaf = Tensor(np.ones(2), requires_grad=True)
    of(leaf)
    with pytest.raises(TypeError, match=r"a Tensor with history is neither copied nor pickled; use \.detach\(\)"):
        of(leaf * 2)
