"""The walk back along the tape: order, memory, accumulation, errors."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd import Tensor, primitive
from refnp.autograd.backward import gradients_of, tape_of
from tests.helpers import assert_same_bits, normal


def leaf(value=2.0):
    return Tensor(value, requires_grad=True)


def long_chain(x, steps):
    y = x
    for _ in range(steps):
        y = y + x
    return y


def test_a_chain_of_20_000_operations():
    """No recursion anywhere: forward, backward, and letting go of the chain."""
    x = leaf(1.0)
    y = long_chain(x, 20_000)
    y.backward()
    assert x.grad == 20_001


def test_a_long_chain_is_let_go_without_recursion():
    y = long_chain(leaf(1.0), 20_000)
    assert sys.getrecursionlimit() < 20_000
    node = weakref.ref(tape_of([y])[0].arguments[0])  # the leaf, at the far end
    del y
    gc.collect()
    assert node() is None


def test_two_runs_give_the_same_bits():
    def run():
        rng = np.random.default_rng(0)
        x, w = (Tensor(normal(rng, (40, 40), np.float32), requires_grad=True) for _ in range(2))
        y = x
        for k in range(6):
            y = ad.tanh(y @ w + x) * (1.0 + k) + y[::-1] - ad.sum(x * y, 0)
        y.sum().backward()
        return x.grad, w.grad

    for first, second in zip(run(), run(), strict=True):
        assert_same_bits(second, first)


def test_gradients_are_added_in_the_order_of_the_tape():
    """1e16 + 1 − 1e16 depends on the order, so the order is part of the result: from the last use to the first."""
    x = leaf(1.0)
    uses = [x * 1.0, x * -1e16, x * 1e16]
    (uses[0] + (uses[1] + uses[2])).backward()
    assert x.grad == (1e16 - 1e16) + 1
    x.grad = None
    uses = [x * 1e16, x * 1.0, x * -1e16]
    (uses[0] + (uses[1] + uses[2])).backward()
    assert x.grad == (-1e16 + 1) + 1e16


def test_backward_twice_adds_up_and_says_so_when_freed():
    x = leaf(3.0)
    y = x * x
    y.backward(keep_tape=True)
    y.backward()
    assert x.grad == 12
    with pytest.raises(
        RuntimeError, match="tape behind multiply was used by an earlier backward and freed; pass keep_tape"
    ):
        y.backward()
    assert x.grad == 12


def test_a_shared_part_that_was_freed_is_an_error_too():
    x = leaf(3.0)
    shared = x * x
    ad.exp(shared * 0.01).backward()
    before = x.grad.copy()
    with pytest.raises(RuntimeError, match="behind multiply was used by an earlier backward"):
        ad.sin(shared).backward()
    assert x.grad == before


def test_memory_is_freed_when_backward_has_gone():
    """Not sooner: should a NaN arrive, the walk is done again."""
    alive = {}

    @primitive
    def watched(x):
        def vjp(y_bar):
            alive["on the way"] = later() is not None
            return (y_bar,)

        return x * 1.0, vjp

    @primitive
    def heavy(x):
        memory = np.zeros(1000)
        nonlocal later
        later = weakref.ref(memory)

        def vjp(y_bar):
            return (y_bar + memory[0],)

        return x + memory[0], vjp

    later = None
    x = leaf(1.0)
    y = heavy(watched(x))
    assert later() is not None
    y.backward()
    assert alive == {"on the way": True}
    assert later() is None
    assert x.grad == 1


def test_keep_tape_keeps_and_dropping_the_result_frees():
    x = leaf(np.ones(5))
    y = ad.exp(x)
    inner = weakref.ref(y.data)
    z = (y * y).sum()
    del y
    z.backward(keep_tape=True)
    assert inner() is not None
    z.backward()
    gc.collect()
    assert inner() is None


def test_nothing_is_kept_under_no_grad():
    x = leaf(np.ones(5))
    with ad.no_grad():
        y = ad.exp(x)
        inner = weakref.ref(y.data)
        z = (y * y).sum()
        del y
    assert inner() is None
    assert z.node is None


def test_grad_belongs_to_the_leaf_alone():
    """The gradient of a sum is the same number for both; changing one .grad in place must not change the other."""
    x, y, bar = leaf(np.ones(3)), leaf(np.ones(3)), np.ones(3)
    (x + y).backward(bar)
    x.grad *= 5
    bar *= 7
    assert y.grad.tolist() == [1, 1, 1]
    assert isinstance(x.grad, np.ndarray)
    x.backward(bar)
    assert x.grad.tolist() == [12, 12, 12]


def test_grad_is_an_array_also_without_axes():
    x = leaf(2.0)
    for _ in range(3):
        (x * x).backward()
        assert type(x.grad) is np.ndarray
    assert x.grad == 12


def test_one_value_used_in_many_places():
    x = leaf(3.0)
    y = x * x
    (y * y + y + x * y).backward()
    assert x.grad == 4 * 27 + 6 + 3 * 9


def test_both_arguments_the_same_tensor():
    x = leaf(np.array([1.0, 2.0]))
    (x / x - x + x @ x).sum().backward()
    assert x.grad.tolist() == [2 * 2 * 1 - 1, 2 * 2 * 2 - 1]


def test_a_result_that_nobody_used_has_gradient_0():
    x = leaf(np.arange(4.0))
    first, _ = ad.split(x, 2)
    (first * first).sum().backward()
    assert x.grad.tolist() == [0, 2, 0, 0]


def test_every_result_used_or_used_twice():
    x = leaf(np.arange(4.0))
    a, b = ad.split(x, 2)
    (a * b + a).sum().backward()
    assert x.grad.tolist() == [3, 4, 0, 1]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_needs_no_cotangent(shape):
    x = leaf(np.full(shape, 3.0))
    (x * x).backward()
    assert x.grad.tolist() == np.full(shape, 6.0).tolist()


def test_cotangents_may_be_lists_tensors_or_of_another_precision():
    for cotangent in ([1, 2], Tensor([1.0, 2.0]), np.array([1, 2], np.float32)):
        x = Tensor(np.ones(2), requires_grad=True)
        (x * 3).backward(cotangent)
        assert x.grad.tolist() == [3, 6]
        assert x.grad.dtype == np.float64


def test_backward_asks_for_what_it_needs():
    with pytest.raises(RuntimeError, match="nothing behind this tensor needs a gradient"):
        Tensor(1.0).backward()
    with pytest.raises(ValueError, match=r"a tensor of shape \(2,\) needs a cotangent of that shape"):
        leaf([1.0, 2.0]).backward()
    with pytest.raises(ValueError, match=r"cotangent has shape \(3,\), the result has \(2,\)"):
        leaf([1.0, 2.0]).backward(np.ones(3))


def test_an_error_in_a_rule_leaves_every_grad_untouched():
    @primitive
    def broken(x):
        def vjp(y_bar):
            raise ArithmeticError("no gradient today")

        return x * 1, vjp

    x, y = leaf(1.0), leaf(2.0)
    (x * y).backward()
    before = x.grad.copy(), y.grad.copy()
    with pytest.raises(ArithmeticError, match="today"):
        (y * 3 + broken(x)).backward()
    assert (x.grad, y.grad) == before


def test_a_grad_of_the_wrong_shape_stops_all():
    x, y = leaf(np.ones(2)), leaf(np.ones(2))
    y.grad = np.ones(5)
    with pytest.raises(ValueError, match="broadcast"):
        (x * y).sum().backward()
    assert x.grad is None


def test_threads_can_go_back_along_their_own_tapes():
    def train(seed):
        x = Tensor(normal(seed, (50,)), requires_grad=True)
        for _ in range(20):
            (ad.tanh(x) * x).sum().backward()
        return x.grad

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train, range(8)))
    for seed, gradient in enumerate(together):
        assert_same_bits(gradient, train(seed))


def test_the_record_holds_the_gradient_of_every_step():
    x = leaf(3.0)
    y = x * x
    z = ad.exp(y)
    record = {}
    ((found, gradient),) = gradients_of([z], [1.0], keep_tape=True, record=record)
    assert found is x
    assert gradient == 6 * np.exp(9.0)
    assert record[y.node] == [np.exp(9.0)]
    assert record[z.node] == [1]


def test_tape_of_lists_the_steps_in_their_order():
    x = leaf(3.0)
    y = x * x
    z = ad.exp(y) + y
    unrelated = x * 4
    assert [node.operation.__name__ for node in tape_of([z])] == ["multiply", "exp", "add"]
    assert tape_of([z, unrelated])[-1] is unrelated.node
    assert tape_of([x]) == []


def test_integers_take_no_part():
    x, count = leaf(2.0), Tensor([1, 2, 3])
    (x * count).sum().backward()
    assert x.grad == 6
    assert count.grad is None
