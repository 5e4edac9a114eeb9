"""Tensor itself: what it holds, what it refuses, no_grad, and the adjoint of broadcasting."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import Parameter, Tensor
from tests.helpers import COMPLEX, REAL, assert_within, dtypes, laid_out, layouts, normal, seeds, shapes, unit_roundoff


def test_shares_its_array_and_knows_its_form():
    x = np.arange(6.0).reshape(2, 3)
    t = Tensor(x)
    assert t.numpy() is x
    assert (t.shape, t.ndim, t.size, t.dtype, len(t)) == ((2, 3), 2, 6, np.float64, 2)
    assert not t.requires_grad
    assert t.node is None
    assert t.grad is None


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
def test_keeps_every_floating_type(dtype):
    assert Tensor(np.ones(2, dtype), requires_grad=True).dtype == dtype
    assert Tensor([1, 2], dtype=dtype, requires_grad=True).dtype == dtype


def test_parameter_owns_its_array_and_needs_a_gradient():
    x = np.ones(3)
    p = Parameter(x)
    x[0] = 7
    assert p.data[0] == 1
    assert p.requires_grad
    assert Parameter([1, 2], dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("value", [[1, 2], np.array([True]), 3])
def test_refuses_gradients_of_whole_numbers(value):
    with pytest.raises(TypeError, match=r"requires_grad needs a floating type, value is (int64|bool); pass dtype=np"):
        Tensor(value, requires_grad=True)


@pytest.mark.parametrize("value", ["abc", [None, 1.0], object(), np.array(["2020-01-01"], "datetime64[D]")])
def test_refuses_what_is_not_numbers(value):
    with pytest.raises(TypeError, match="pass numbers only"):
        Tensor(value)


@pytest.mark.parametrize(
    "use",
    [np.asarray, np.array, lambda t: np.array([t, t]), lambda t: np.concatenate([t, t]), lambda t: ad.add([t], 1)],
)
def test_is_never_turned_into_an_array_silently(use):
    with pytest.raises(TypeError, match=r"history would be lost; use \.numpy\(\)"):
        use(Tensor(np.ones(2)))


REFUSED = {
    "exp": (lambda t: np.exp(t), r"use \.numpy\(\), or refnp\.autograd\.exp"),
    "isnan": (lambda t: np.isnan(t), r"use \.numpy\(\)"),
    "maximum": (lambda t: np.maximum(np.ones(2), t), r"use \.numpy\(\), or refnp\.autograd\.maximum"),
    "add.reduce": (lambda t: np.add.reduce(t), r"use \.numpy\(\), or refnp\.autograd\.add"),
    "add, dtype": (lambda t: np.add(np.ones(2), t, dtype=np.float32), r"use \.numpy\(\), or refnp\.autograd\.add"),
    "floor_divide": (
        lambda t: np.ones(2) // t,
        "refnp has no such operation: make one .* with refnp.autograd.primitive$",
    ),
    "sum": (lambda t: np.sum(t), r"use \.numpy\(\), or refnp\.autograd\.sum"),
    "mean": (lambda t: np.mean(t), r"use \.numpy\(\), or refnp\.autograd\.mean"),
    "where": (lambda t: np.where(np.ones(2) > 0, t, 0), r"use \.numpy\(\), or refnp\.autograd\.where"),
    "array_equal": (
        lambda t: np.array_equal(np.ones(2), t),
        "refnp has no such operation: .* refnp.autograd.primitive$",
    ),
}


@pytest.mark.parametrize(("use", "message"), REFUSED.values(), ids=REFUSED)
def test_numpy_functions_refuse_it_and_say_what_to_use(use, message):
    with pytest.raises(TypeError, match="got a Tensor, whose history would be lost; " + message):
        use(Tensor(np.ones(2)))


def test_functions_of_shape_and_dtype_take_it():
    t = Tensor(np.ones((1, 2)))
    assert (np.shape(t), np.ndim(t), np.size(t), np.iscomplexobj(t)) == ((1, 2), 2, 2, False)
    assert np.transpose(t).shape == (2, 1)
    assert np.squeeze(t).shape == (2,)


def test_detach_and_a_tensor_of_a_tensor_have_no_history():
    x = Tensor(np.ones(2), requires_grad=True)
    for constant in ((x * 2).detach(), Tensor(x * 2)):
        assert constant.node is None
        assert not constant.requires_grad
        assert constant.numpy().tolist() == [2, 2]


def test_detach_stops_the_gradient():
    x = Tensor(3.0, requires_grad=True)
    (x * x.detach()).backward()
    assert x.grad == 3


def test_a_scalar_is_a_python_number_where_one_is_wanted():
    t = Tensor(2.5)
    assert t.item() == 2.5
    assert float(t) == 2.5
    assert int(t) == 2
    assert complex(t) == 2.5
    assert bool(t)
    assert not Tensor(0.0)
    assert f"{t:.2f}" == "2.50"
    assert f"{t}" == str(t)


def test_a_tensor_of_several_elements_is_not_one_truth():
    with pytest.raises(ValueError, match="truth value"):
        bool(Tensor([1.0, 2.0]))


def test_length_and_iteration():
    rows = list(Tensor(np.arange(6.0).reshape(3, 2)))
    assert [row.numpy().tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(TypeError, match="without axes has no length"):
        len(Tensor(1.0))


def test_iteration_carries_gradients():
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    a, b, c = x
    (a * b + c).backward()
    assert x.grad.tolist() == [2, 1, 1]


def test_repr_tells_values_dtype_and_origin():
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "Tensor([1., 2.], float64, leaf)"
    assert repr(x * 2) == "Tensor([2., 4.], float64, from multiply)"
    assert repr(Tensor([1.0], dtype=np.float32)) == "Tensor([1.], float32)"


def test_identity_not_value_makes_it_a_key():
    a, b = Tensor([1.0, 2.0]), Tensor([1.0, 2.0])
    assert len({a, b}) == 2
    assert a in {a: 1}
    with pytest.raises(ValueError, match="truth value"):  # as NumPy's arrays do; ask with `is`, as the docstring says
        b in [a]  # noqa: B015
    assert any(b is t for t in [a, b])


def test_leaves_can_be_copied_and_pickled():
    p = Parameter(np.arange(3.0))
    for twin in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(twin) is Parameter
        assert twin.requires_grad
        assert twin.data.tolist() == [0, 1, 2]
        assert twin.data is not p.data


def test_no_grad_writes_nothing_and_ends_with_its_block():
    x = Tensor(2.0, requires_grad=True)
    assert ad.is_recording()
    with ad.no_grad():
        assert not ad.is_recording()
        with ad.no_grad():
            pass
        y = x * x
        assert not ad.is_recording()
    assert ad.is_recording()
    assert y.node is None
    assert not y.requires_grad
    with pytest.raises(ZeroDivisionError), ad.no_grad():
        raise ZeroDivisionError
    assert ad.is_recording()


def test_no_grad_decorates_functions():
    @ad.no_grad()
    def evaluate(x):
        return x * x

    assert evaluate(Tensor(2.0, requires_grad=True)).node is None
    assert ad.is_recording()


def test_no_grad_is_for_one_thread():
    """Training in one thread goes on while another evaluates."""
    inside, done, found = threading.Event(), threading.Event(), {}

    def evaluate():
        with ad.no_grad():
            inside.set()
            done.wait(10)
            found["evaluating"] = ad.is_recording()

    thread = threading.Thread(target=evaluate)
    thread.start()
    assert inside.wait(10)
    x = Tensor(3.0, requires_grad=True)
    (x * x).backward()
    done.set()
    thread.join()
    assert x.grad == 6
    assert found == {"evaluating": False}


@given(shapes(), seeds, dtypes, layouts, st.data())
def test_sum_to_is_the_adjoint_of_broadcasting(shape, seed, dtype, layout, data):
    """⟨z, broadcast(x)⟩ = ⟨sum_to(z), x⟩ for every shape that broadcasts to `shape`."""
    ones = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    start = data.draw(st.integers(0, len(shape)))
    small = tuple(1 if one else n for n, one in zip(shape, ones, strict=True))[start:]
    x, z = normal(seed, small, dtype), normal(seed + 1, shape, dtype)
    summed = ad.sum_to(laid_out(z, layout), small)
    assert isinstance(summed, np.ndarray)
    assert (summed.shape, summed.dtype) == (small, z.dtype)
    size = (np.abs(z) * np.abs(np.broadcast_to(x, shape))).sum()
    bound = 2 * (z.size + 4) * unit_roundoff(dtype) * 2 * size
    assert_within((summed * x).sum(), (z * np.broadcast_to(x, shape)).sum(), bound)
