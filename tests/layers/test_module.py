"""Module: the names of parameters, states that are copies, loading all or nothing, and functions of the parameters."""

from typing import NamedTuple

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd import Parameter
from refnp.layers.linear import MLP, Linear
from refnp.layers.module import Module, on_tape
from tests.helpers import COMPLEX, REAL, assert_same_bits, check, normal


class Pair(NamedTuple):
    left: Linear
    right: Linear


class House(Module):
    """Parameters in every place where they may stand, and what is none of them."""

    def __init__(self, rng):
        self.own = Parameter(rng.normal(size=2))
        self.name = "house"
        self.layers = [Linear(2, 3, rng=rng), Linear(3, 2, bias=False, rng=rng)]
        self.pair = Pair(Linear(1, 1, rng=rng), Linear(1, 1, rng=rng))
        self.by_name = {"b": Parameter(np.ones(1)), "a": (Parameter(np.zeros(())), 3.5, None)}
        self.constant = ad.Tensor(np.ones(3), requires_grad=True)
        self.array = np.ones(2)

    def __call__(self, x):
        return self.layers[1](self.layers[0](x)) * self.own


NAMES = ["own", "layers.0.weight", "layers.0.bias", "layers.1.weight", "pair.0.weight", "pair.0.bias",
         "pair.1.weight", "pair.1.bias", "by_name.b", "by_name.a.0"]  # fmt: skip


@pytest.fixture
def house():
    return House(np.random.default_rng(0))


def test_names_are_paths_in_the_order_of_assignment(house):
    assert [name for name, _ in house.named_parameters()] == NAMES
    assert all(type(p) is Parameter for p in house.parameters())
    assert list(house.state_dict()) == NAMES


def test_a_shared_parameter_comes_once_by_its_first_name(house):
    house.layers.append(house.layers[0])
    house.again = house.own
    assert [name for name, _ in house.named_parameters()] == NAMES


def test_gradients_of_a_shared_parameter_add_up():
    """y = x W W: W̄ = xᵀ (ȳ Wᵀ) + (x W)ᵀ ȳ, in whole numbers, which round nothing."""
    house, rng = House(np.random.default_rng(0)), np.random.default_rng(1)
    x, w, bar = (rng.integers(-9, 9, shape).astype(float) for shape in ((4, 2), (2, 2), (4, 2)))
    shared = Parameter(w)
    house.own.data[:] = 1
    for layer in house.layers[:2]:
        layer.weight, layer.bias = shared, None
    house(ad.Tensor(x)).backward(bar)
    np.testing.assert_array_equal(shared.grad, x.T @ (bar @ w.T) + (x @ w).T @ bar)
    assert list(house.state_dict())[:3] == ["own", "layers.0.weight", "pair.0.weight"]


def test_two_parameters_with_one_name_are_an_error(house):
    house.by_name = {"a.b": Parameter(np.ones(1)), "a": {"b": Parameter(np.ones(1))}}
    with pytest.raises(ValueError, match=r"^House has two parameters named by_name\.a\.b; give a dict other keys$"):
        house.state_dict()


def test_zero_grad(house):
    house(ad.Tensor(normal(0, (3, 2)))).backward(np.ones((3, 2)))
    assert house.own.grad is not None
    house.zero_grad()
    assert all(p.grad is None for p in house.parameters())


def test_state_is_a_copy_and_so_is_what_is_loaded(house):
    state = house.state_dict()
    before = {name: array.copy() for name, array in state.items()}
    state["own"][:] = 99
    assert_same_bits(house.own.data, before["own"])
    house.load_state_dict(state)
    np.testing.assert_array_equal(house.own.data, 99)
    state["own"][:] = 7
    np.testing.assert_array_equal(house.own.data, 99)


def test_loading_keeps_parameters_and_their_dtype(house):
    other = House(np.random.default_rng(1))
    parameters = house.parameters()
    house.astype(np.float32).load_state_dict(other.state_dict())
    assert all(a is b for a, b in zip(house.parameters(), parameters, strict=True))
    for name, array in house.state_dict().items():
        assert_same_bits(array, other.state_dict()[name].astype(np.float32))


def test_state_through_a_file_from_lists_and_from_tensors(house, tmp_path):
    state = house.state_dict()
    np.savez(tmp_path / "state.npz", **state)
    other = House(np.random.default_rng(1))
    with np.load(tmp_path / "state.npz") as file:
        other.load_state_dict(file)
    for name in NAMES:
        assert_same_bits(other.state_dict()[name], state[name])
    third, fourth = House(np.random.default_rng(2)), House(np.random.default_rng(3))
    third.load_state_dict({name: array.tolist() for name, array in state.items()})
    fourth.load_state_dict(dict(house.named_parameters()))
    assert_same_bits(third.own.data, house.own.data)
    assert_same_bits(fourth.own.data, house.own.data)
    assert fourth.own.data is not house.own.data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"own": None}, "missing own"),
        ({"more": np.ones(1)}, "unexpected more"),
        ({"own": np.ones(3)}, r"own has shape \(3,\), not \(2,\)"),
        ({"own": np.ones((2, 1))}, r"own has shape \(2, 1\), not \(2,\)"),
        ({"own": ["a", "b"]}, r"own is <U1, not numbers"),
        ({"own": np.ones(2, complex)}, r"own is complex, the parameter is float64"),
        ({"own": None, "layers.1.weight": np.ones(()), "x": 1},
         r"missing own; unexpected x; layers\.1\.weight has shape \(\), not \(3, 2\)"),
    ],
)  # fmt: skip
def test_a_wrong_state_is_refused_and_nothing_is_loaded(house, change, message):
    state = {name: array + 1 for name, array in house.state_dict().items()} | change
    state = {name: value for name, value in state.items() if value is not None}
    before = house.state_dict()
    with pytest.raises(ValueError, match=rf"^load_state_dict: nothing was loaded into House: {message}$"):
        house.load_state_dict(state)
    for name, array in house.state_dict().items():
        assert_same_bits(array, before[name])


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_astype(house, dtype):
    house(ad.Tensor(normal(0, (3, 2)))).backward(np.ones((3, 2)))
    assert house.astype(dtype) is house
    assert {p.dtype for p in house.parameters()} == {np.dtype(dtype)}
    assert all(p.grad is None for p in house.parameters())
    assert house(normal(0, (3, 2), dtype)).dtype == dtype
    assert house.array.dtype == np.float64


@pytest.mark.parametrize("dtype", [int, bool, "U3", object])
def test_astype_refuses_what_does_not_float(house, dtype):
    with pytest.raises(TypeError, match=r"^astype: .* is not a floating type; use float32, float64 or longdouble$"):
        house.astype(dtype)
    assert house.own.dtype == np.float64


def test_bind_computes_with_other_values_and_leaves_the_module_alone(house):
    x, other = normal(0, (3, 2)), House(np.random.default_rng(1))
    before, expected = house(x), other(x)
    bound = house.bind(other.state_dict())
    assert_same_bits(bound(x), expected)  # arrays in, an array out
    assert_same_bits(house(x), before)
    assert isinstance(bound.pair, Pair)
    assert bound.name == "house"
    assert bound.parameters() == []
    house.bind(dict(other.named_parameters()))(x).backward(np.ones((3, 2)))
    assert other.own.grad is not None
    assert house.own.grad is None


def test_bind_makes_a_function_of_the_parameters():
    """Its gradient is that of backward, by name, and second derivatives go through it."""
    module, x = MLP([2, 3, 1], activation=ad.tanh, rng=np.random.default_rng(0)), normal(1, (4, 2))
    state = module.state_dict()

    def loss(values):
        return ad.sum(module.bind(values)(x) ** 2)

    gradients = ad.grad(loss)(state)
    ad.sum(module(ad.Tensor(x)) ** 2).backward()
    assert list(gradients) == list(state)
    for name, parameter in module.named_parameters():
        assert_same_bits(gradients[name], parameter.grad)
    for order in (1, 2):
        check(loss, (state,), order=order)


def test_bind_of_a_shared_parameter(house):
    house.layers[1] = house.again = house.layers[0]
    house.layers[0].weight = Parameter(np.eye(2))
    house.layers[0].bias = None
    values = house.state_dict() | {"layers.0.weight": np.array([[0.0, 1.0], [2.0, 0.0]])}
    x = normal(0, (3, 2))
    w = values["layers.0.weight"]
    assert_same_bits(house.bind(values)(x), ((x @ w) @ w) * values["own"])


def test_bind_refuses_other_names_and_shapes(house):
    state = house.state_dict()
    with pytest.raises(ValueError, match=r"^bind: House has parameters \['own', .*\], values are named \['own'\]$"):
        house.bind({"own": state["own"]})
    with pytest.raises(ValueError, match=r"values are named \[.*'more'\]$"):
        house.bind(state | {"more": np.ones(1)})
    with pytest.raises(ValueError, match=r"^bind: own has shape \(3,\), not \(2,\)$"):
        house.bind(state | {"own": np.ones(3)})


def test_a_module_without_parameters_and_one_without_a_call():
    assert Module().parameters() == []
    assert Module().state_dict() == {}
    Module().load_state_dict({})
    with pytest.raises(TypeError, match=r"^Module has no __call__; a module must define what it computes$"):
        Module()(1)


# ---- arrays in, arrays out


def test_arrays_give_an_array_and_a_tensor_gives_a_tensor_with_the_same_bits(house):
    x = normal(0, (3, 2))
    y, on_tape_y = house(x), house(ad.Tensor(x))
    assert type(y) is np.ndarray
    assert_same_bits(y, on_tape_y.data)
    on_tape_y.backward(np.ones((3, 2)))
    assert all(p.grad is not None for p in (house.own, *house.layers[0].parameters()))


class Sum(Module):
    """A module whose parts see arrays alone, and one Tensor."""

    def __init__(self, rng):
        self.left, self.right = Linear(2, 2, rng=rng), Linear(2, 2, rng=rng)

    def __call__(self, x, y):
        return self.left(x) + self.right(y)


def test_the_outermost_call_decides_for_the_modules_inside():
    """Else the parameters of `left`, which sees an array, would get no gradient."""
    module, x = Sum(np.random.default_rng(0)), normal(0, (3, 2))
    for arguments in ((x, ad.Tensor(x)), (ad.Tensor(x), x)):
        module.zero_grad()
        module(*arguments).backward(np.ones((3, 2)))
        assert all(np.any(p.grad) for p in module.parameters())
    assert type(module(x, x)) is np.ndarray


def test_on_tape_arrays_give_tensors():
    module, x = Linear(2, 2, rng=np.random.default_rng(0)), normal(0, (3, 2))
    with on_tape():
        y = module(x)
    y.backward(np.ones((3, 2)))
    assert np.any(module.weight.grad)
    assert type(module(x)) is np.ndarray


def test_without_tape_there_is_none_and_bind_decides_by_its_values(house):
    x, state = normal(0, (3, 2)), house.state_dict()
    assert_same_bits(house.without_tape()(x), house(x))
    assert type(house.bind(state)(x)) is np.ndarray
    assert isinstance(house.bind({name: ad.Tensor(a) for name, a in state.items()})(x), ad.Tensor)


class Mistaken(Module):
    """A module that is not refnp's, with a mistake of its own."""

    def __init__(self, width=None):
        self.width = width + 1 if width is not None else 0

    def __call__(self, x):
        return x + self.missing


def test_errors_of_modules_that_are_not_refnps_stay_what_they_are():
    with pytest.raises(AttributeError, match="'Mistaken' object has no attribute 'missing'"):
        Mistaken()(np.ones(3))
    with pytest.raises(TypeError, match=r"^can only concatenate str"):
        Mistaken("3")
