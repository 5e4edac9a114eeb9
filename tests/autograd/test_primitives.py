"""The machinery that makes an operation out of a NumPy function and its rule."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd import Tensor, primitive
from refnp.autograd.primitives import raw
from refnp.layers import MultiHeadAttention, attention, gelu, relu, softmax
from tests.helpers import COMPLEX, REAL


@primitive
def weighted(x, weight=1.0, shift=None, *, power=1):
    """y = weight x^power + shift."""
    y = weight * x**power

    def vjp(y_bar):
        return y_bar * weight * power * x ** (power - 1), lambda: y_bar * x**power, y_bar

    return (y if shift is None else y + shift), vjp


def leaf(value=2.0):
    return Tensor(value, requires_grad=True)


def test_arrays_in_arrays_out():
    assert type(weighted(np.ones(2))) is np.ndarray
    assert weighted(np.ones(2), 3.0).tolist() == [3, 3]


def test_any_tensor_makes_the_result_a_tensor():
    assert isinstance(weighted(np.ones(2), Tensor(3.0)), Tensor)
    assert isinstance(weighted(Tensor(np.ones(2)), 3.0), Tensor)


@pytest.mark.parametrize("call", [
    lambda x, w, b: weighted(x, w, b),
    lambda x, w, b: weighted(x, weight=w, shift=b),
    lambda x, w, b: weighted(shift=b, weight=w, x=x),
    lambda x, w, b: weighted(x, w, shift=b, power=1),
])  # fmt: skip
def test_arguments_by_position_or_by_name(call):
    x, w, b = leaf(2.0), leaf(3.0), leaf(5.0)
    y = call(x, w, b)
    assert y.item() == 11
    y.backward()
    assert (x.grad, w.grad, b.grad) == (3, 2, 1)


def test_a_gap_between_named_arguments_takes_the_default():
    x, b = leaf(2.0), leaf(5.0)
    weighted(x, shift=b).backward()
    assert (x.grad, b.grad) == (1, 1)


def test_options_are_passed_on():
    x = leaf(2.0)
    weighted(x, power=3).backward()
    assert x.grad == 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weighted(), "missing 1 required positional argument: 'x'"),
        (lambda: weighted(weight=1.0), "missing 1 required positional argument: 'x'"),
        (lambda: weighted(1.0, x=2.0), "multiple values for argument 'x'"),
        (lambda: weighted(1.0, sift=2.0), "unexpected keyword argument 'sift'"),
        (lambda: weighted(1.0, 2.0, 3.0, 4.0), "positional arguments"),
        (lambda: ad.where(x=1.0, condition=True), "missing 1 required positional argument: 'y'"),
        (lambda: ad.where(condition=True, y=1.0), "missing 1 required positional argument: 'x'"),
    ],
)
def test_wrong_calls_get_pythons_own_message(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_an_option_cannot_be_a_tensor():
    with pytest.raises(TypeError, match="weighted: power is an option, not an array; no Tensor fits there"):
        weighted(leaf(), power=leaf())


def test_lists_become_arrays():
    assert ad.add([1.0, 2.0], [3.0, 4.0]).tolist() == [4, 6]
    x = leaf([1.0, 2.0])
    ad.multiply([3.0, 4.0], x).sum().backward()
    assert x.grad.tolist() == [3, 4]


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
@pytest.mark.parametrize("operation", [ad.add, ad.subtract, ad.multiply, ad.divide, ad.power, ad.maximum, ad.minimum])
def test_python_numbers_do_not_change_the_dtype(operation, dtype):
    x = Tensor(np.array([1.5, 2.5], dtype), requires_grad=True)
    for y in (operation(x, 2), operation(x, 2.5), operation(2.5, x), operation(x, x.numpy()[0])):
        x.grad = None
        y.sum().backward()
        assert y.dtype == dtype
        assert x.grad.dtype == dtype


def test_gradients_in_the_precision_of_their_argument():
    x, w = Tensor(np.ones(2, np.float32), requires_grad=True), Tensor(np.ones(2, np.longdouble), requires_grad=True)
    y = x * w
    assert y.dtype == np.longdouble
    y.sum().backward()
    assert x.grad.dtype == np.float32
    assert w.grad.dtype == np.longdouble


def test_a_lazy_gradient_is_computed_only_if_needed():
    calls = []

    @primitive
    def product(x, y):
        def vjp(z_bar):
            return lambda: calls.append("x") or z_bar * y, lambda: calls.append("y") or z_bar * x

        return x * y, vjp

    x = leaf(2.0)
    product(x, 3.0).backward()
    product(x, Tensor(3.0)).backward()
    assert calls == ["x", "x"]
    product(x, x).backward()
    assert calls == ["x", "x", "x", "y"]


@pytest.mark.parametrize("rule", [lambda z_bar: (z_bar, None), lambda z_bar: (z_bar,), lambda z_bar: ()])
def test_no_gradient_for_a_float_that_needs_one_is_an_error_not_a_zero(rule):
    @primitive
    def half(x, y):
        return x + y, rule

    with pytest.raises(TypeError, match=r"^backward: half has no gradient for argument [01]; pass it as an array, or"):
        half(leaf(), leaf()).backward()
    with pytest.raises(TypeError, match=r"^backward: half has no gradient for argument 1"):
        ad.grad(lambda y: half(2.0, y))(np.array(3.0))


def test_an_argument_without_a_rule_is_an_error_not_a_zero():
    @primitive
    def partly(x, y):
        return x + y, lambda z_bar: (z_bar,)

    partly(leaf(), 3.0).backward()
    with pytest.raises(
        TypeError, match="backward: partly has no gradient for argument 1; pass it as an array, or detach it"
    ):
        partly(leaf(), leaf()).backward()


@pytest.mark.parametrize("given", [lambda z_bar: z_bar, lambda z_bar: [z_bar], lambda z_bar: None])
def test_a_rule_must_return_a_tuple(given):
    @primitive
    def careless(x):
        return x * 1, given

    with pytest.raises(TypeError, match=r"the rule of careless returned .*; it must return a tuple"):
        careless(leaf([1.0, 2.0])).sum().backward()


@pytest.mark.parametrize("shape", [(2,), (4,), (), (2, 3), (3, 3), (1, 3)])
def test_a_rule_must_return_the_right_shape(shape):
    @primitive
    def careless(x):
        return x * 1, lambda y_bar: (np.ones(shape),)

    with pytest.raises(ValueError, match=r"the rule of careless returned shape .* for argument 0, of shape \(3,\)"):
        careless(leaf(np.ones(3))).sum().backward()


@pytest.mark.parametrize("given", [np.ones(3) > 0, np.ones(3) * 1j, np.ones(3, object)])
def test_a_rule_must_return_real_numbers(given):
    careless = primitive(lambda x: (x * 1, lambda y_bar: (given,)))
    with pytest.raises(TypeError, match=rf"^backward: the rule of <lambda> returned {given.dtype} for argument 0"):
        careless(leaf(np.ones(3))).sum().backward()


def test_a_rule_must_return_no_more_gradients_than_arguments():
    careless = primitive(lambda x: (x * 1, lambda y_bar: (y_bar, None)))
    with pytest.raises(ValueError, match=r"^backward: the rule of <lambda> returned 2 gradients for 1 arguments"):
        careless(leaf(np.ones(3))).sum().backward()


def test_several_results():
    @primitive
    def both(x):
        return (x * 2, x * 3), lambda a_bar, b_bar: (2 * a_bar + 3 * b_bar,)

    a, b = both(np.ones(2))
    assert type(a) is type(b) is np.ndarray
    x = leaf(1.0)
    a, b = both(x)
    (a * b).backward()
    assert x.grad == 12
    a, b = both(Tensor(1.0))
    assert a.node is b.node is None
    b.requires_grad = True
    (b * b).backward()  # a leaf after all, whatever its number among the results was
    assert b.grad == 6


def test_names_and_docstrings_stay():
    assert weighted.__name__ == "weighted"
    assert weighted.__doc__ == "y = weight x^power + shift."


def test_raw():
    array = np.ones(2)
    assert raw(Tensor(array)) is array
    assert raw(array) is array
    assert raw(3) == 3


HUGE, RAGGED, WORDS, OBJECTS = 10**400, [[1.0], [1.0, 2.0]], np.array(["a"]), np.array([1.0, None], object)
WRONG = [
    (lambda a: ad.add(a, 1.0), HUGE, ValueError,
     r"add: x is an integer of 1329 bits; pass a float, or less than 2\*\*63"),
    (lambda a: ad.multiply(np.ones(2, np.float32), a), -HUGE, ValueError, "multiply: y is an integer of 1329 bits; .*"),
    (lambda a: ad.exp(a), 2**70, ValueError, r"exp: x is an integer of 71 bits; pass a float, or less than 2\*\*63"),
    (lambda a: ad.add(a, np.ones(1)), RAGGED, ValueError,
     "add: x holds lists of different lengths; pass an array of one shape"),
    (lambda a: ad.exp(a), WORDS, TypeError, r"exp: x is <U1 \(ndarray\); pass an array of numbers"),
    (lambda a: ad.exp(a), None, TypeError, r"exp: x is object \(NoneType\); pass an array of numbers"),
    (lambda a: ad.add(np.ones(2), a), OBJECTS, TypeError, r"add: y is object \(ndarray\); pass an array of numbers"),
    (lambda a: ad.add(np.ones(2), a), np.array([1.0, 2.0], object), TypeError, r"add: y is object \(ndarray\); .*"),
    (lambda a: ad.negative(a), np.array([1.0, 2.0], object), TypeError, r"negative: x is object \(ndarray\); .*"),
    (lambda a: ad.where(np.array([True]), a, 0.0), {}, TypeError, r"where: x is object \(dict\); pass an array of .*"),
    (lambda a: ad.add(a, np.ones((2, 3))), np.ones((1,) * 19 + (4,)), ValueError,
     r"add: the shapes of x \(1, .*, 4\), y \(2, 3\) do not broadcast; make them agree"),
    (lambda a: ad.einsum(a, np.ones(2)), 3, TypeError,
     "einsum: subscripts is a int; pass a string such as 'ij,jk->ik'"),
    (lambda a: ad.concatenate(a), np.float64(1.0), TypeError,
     "concatenate: arrays is a float64; pass a list of arrays"),
    (lambda a: ad.stack(a), None, TypeError, "stack: arrays is a NoneType; pass a list of arrays"),
    (lambda a: ad.reshape(np.ones(2), a), "ab", TypeError, "reshape: .*"),
    (lambda a: weighted(1.0, power=a), "ab", TypeError, "weighted: .*"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "argument", "error", "message"), WRONG, ids=range(len(WRONG)))
def test_messages_name_the_function_and_the_argument(call, argument, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        call(argument)


def test_what_is_absent_is_not_what_is_wrong():
    """`shift` is None by default, and the message is about x."""
    with pytest.raises(TypeError, match=r"^weighted: x is object"):
        weighted(np.array([None]), 2.0, None)


@pytest.mark.parametrize(
    ("call", "example"),
    [
        (lambda: weighted(1.0, 2.0, 3.0, 4.0), r"weighted\(x, weight, shift, power=4.0\)"),
        (lambda: ad.sum(np.ones((2, 3)), 0, True), r"sum\(x, axis, keepdims=True\)"),
        (lambda: softmax(np.ones((2, 3)), 1), r"softmax\(x, axis=1\)"),
    ],
)
def test_an_option_given_by_position_is_told_its_name(call, example):
    with pytest.raises(TypeError, match=f"its options are passed by name: {example}$"):
        call()


def test_an_accident_inside_a_rule_is_not_hidden():
    @primitive
    def broken(x):
        return x.no_such_attribute, None

    with pytest.raises(AttributeError, match="no_such_attribute"):
        broken(np.ones(2))


class Held:
    """What gives its numbers as an array, as tensors of PyTorch and JAX and frames of pandas do."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array is None:
            raise RuntimeError("it needs a gradient; call detach() first\nmore")
        return self.array


@pytest.mark.parametrize("function", [ad.sqrt, softmax, relu, lambda x: ad.add(x, x)])
def test_arrays_of_others_are_arrays(function):
    """Whatever gives an array is one, subclasses are plain, and what gives none, or has a mask, is named."""
    x = np.arange(1.0, 5.0).reshape(2, 2)
    for given in (Held(x), np.asarray(x).view(np.memmap), x.astype(">f8"), x.tolist()):
        found = function(given)
        assert type(found) is np.ndarray
        assert found.dtype == np.float64
        assert found.dtype.isnative
        np.testing.assert_array_equal(found, function(x))
    with pytest.raises(TypeError, match=r"\w+: x is a \w+.Held, which gives no array: it needs a gradient; .*first$"):
        function(Held(None))
    with pytest.raises(TypeError, match=r"\w+: x is a masked array"):
        function(np.ma.masked_array(x, x > 2))


def test_arrays_of_others_as_options_and_in_modules():
    x = np.ones((2, 3, 4))
    mask = np.tril(np.ones((3, 3), bool))
    module = MultiHeadAttention(4, 2, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(module(Held(x), mask=Held(mask)), module(x, mask=mask))
    np.testing.assert_array_equal(attention(x, x, x, mask=Held(mask)), attention(x, x, x, mask=mask))


def test_what_numpy_is_told_to_raise_is_raised_of_results_alone():
    """No underflow is, and an overflow on the way is none of the result; once more without flags, no number changes."""
    x = np.array([1e-200, 30.0, -30.0, 5e-324])
    with np.errstate(all="raise"):
        found = [gelu(x), ad.erf(x), ad.exp(-np.abs(x) * 1e3), ad.grad(lambda x: gelu(x).sum())(x)]
        with pytest.raises(FloatingPointError, match="overflow"):
            ad.exp(1e3)
    expected = [gelu(x), ad.erf(x), ad.exp(-np.abs(x) * 1e3), ad.grad(lambda x: gelu(x).sum())(x)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
