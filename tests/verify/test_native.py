"""Every framework through its `Native`: arrays there and back, output and gradients, and whose an object is."""

import importlib.util

import numpy as np
import pytest

from refnp.verify.frameworks.native import NATIVES, NUMPY, Question

INSTALLED = [native for native in NATIVES.values() if importlib.util.find_spec(native.package)]
DIFFERENTIATING = [native for native in INSTALLED if native is not NUMPY]
by_name = lambda native: native.name
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("native", INSTALLED, ids=by_name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_come_back_as_they_went(native, dtype):
    x = np.array([[1.0, 0.1], [-np.inf, np.nan]], dtype)
    array = native.array(x[:, ::-1], None)
    back = native.numpy(array)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, x[:, ::-1])


@pytest.mark.parametrize("native", INSTALLED, ids=by_name)
def test_nobody_owns_what_is_of_others(native):
    owner = "TensorFlow" if native.name == "Keras" else native.name  # whose arrays Keras takes
    assert [other.name for other in NATIVES.values() if other.owns(native.array(np.ones(2), None))] == [owner]
    assert not native.owns("a string")


@pytest.mark.parametrize("native", DIFFERENTIATING, ids=by_name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_of_the_arguments_that_are_wanted(native, dtype):
    """d Σ ȳ x y z: the gradients of z and x, in the order that was asked for; x does not change."""
    x, y, z = np.array([[2.0, 3.0], [5.0, 7.0], [11.0, 13.0]], dtype)
    cotangent = np.array([1.0, -1.0], dtype)
    output, gradients = native.run(Question(lambda x, y, z: x * y * z, [x, y, z], cotangent, [2, 0], None))
    np.testing.assert_array_equal(output, [110, 273])
    np.testing.assert_array_equal(gradients, [[10, -21], [55, -91]])
    assert {array.dtype.name for array in [output, *gradients]} == {dtype}
    assert x.tolist() == [2, 3]


@pytest.mark.parametrize("native", DIFFERENTIATING, ids=by_name)
def test_an_argument_that_is_not_used_has_gradient_zero(native):
    x = np.array([2.0, 3.0], "float32")
    _, gradients = native.run(Question(lambda x, y: x * 1, [x, x], x, [0, 1], None))
    np.testing.assert_array_equal(gradients, [x, [0, 0]])


@pytest.mark.parametrize("native", INSTALLED, ids=by_name)
def test_without_gradients_there_is_no_tape(native):
    output, gradients = native.run(Question(lambda x: x + x, [np.ones(3, "float32")], None, [], None))
    assert output.tolist() == [2, 2, 2]
    assert gradients == []


def test_numpy_does_not_differentiate():
    with pytest.raises(ValueError, match="vjp="):
        NUMPY.run(Question(lambda x: x, [np.ones(1)], np.ones(1), [0], None))


def test_numpy_has_one_device():
    with pytest.raises(ValueError, match=r"device='cuda'.*leave device away"):
        NUMPY.run(Question(lambda x: x, [np.ones(1)], None, [], "cuda"))


def test_a_function_cannot_change_the_inputs():
    x = np.ones(2)
    NUMPY.run(Question(lambda x: np.negative(x, out=x), [x], None, [], None))
    assert x.tolist() == [1, 1]


def test_jax_runs_what_it_cannot_trace():
    """A step that depends on a value: compiled it raises, and so it is run as it stands."""
    pytest.importorskip("jax")
    function = lambda x: x * 3 if float(x.sum()) > 0 else x
    output, _ = NATIVES["JAX"].run(Question(function, [np.ones(2)], None, [], None))
    assert output.tolist() == [3, 3]
    assert output.dtype == np.float64


def test_a_module_is_its_frameworks():
    torch = pytest.importorskip("torch")

    class Own(torch.nn.Module):
        pass

    assert [native.name for native in NATIVES.values() if native.owns(Own())] == ["PyTorch"]
