"""Functions that read their arguments without their strides are right for whole arrays alone."""

import numpy as np
import pytest

import refnp
from refnp.numbers.arrays import larger, within

FIRST = "softmax/made: (3,) in front*"


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def from_memory(x):
    """The numbers that lie at the address of x one behind the other."""
    return np.lib.stride_tricks.as_strided(x, x.shape, np.empty(x.shape, x.dtype).strides)


@pytest.mark.parametrize("shape", [(), (3,), (1, 4), (2, 3, 2), (0, 3)])
def test_views_have_the_numbers_and_none_stands_where_it_would_alone(shape):
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    view = larger(x)[within(x)]
    np.testing.assert_array_equal(view, x)
    if x.size > 1:
        assert not np.array_equal(from_memory(view), x)


def test_a_softmax_of_views_holds():
    report = refnp.judge("softmax", softmax)
    assert report.holds, str(report)
    assert any(row["case"].endswith(", as views") for row in report.rows)


def test_what_reads_memory_alone_is_named():
    report = refnp.judge("softmax", lambda x: softmax(from_memory(x)))
    deviates = [row["case"] for row in report.rows if row["verdict"] == "deviates"]
    assert deviates
    assert all(name.endswith(", as views") for name in deviates)
    (cause,) = report.causes
    assert cause.says.startswith("x is a view of a larger array"), str(report)
    x = report.problem(deviates[0], "float64").arrays["x"]
    assert not np.allclose(softmax(from_memory(x)), softmax(x))
    assert refnp.judge("softmax", lambda x: softmax(from_memory(x)), skip="*as views").holds


def test_what_joins_the_axes_in_front_is_asked_a_view_of_three():
    def joined(x):
        rows = x.view()
        rows.shape = (-1, x.shape[-1])  # an AttributeError where numbers do not lie so
        return softmax(rows).reshape(x.shape)

    report = refnp.judge("softmax", joined)
    assert not report.holds
    assert all("(2, 3) in front" in row.case and row.case.endswith("as views") for row in report.deviations)


def test_what_is_wrong_of_any_numbers_or_not_asked_is_not_called_right():
    wrong = lambda x: softmax(from_memory(x)) + 0.1
    for only in (FIRST, "*as views"):
        assert "side by side" not in str(refnp.judge("softmax", wrong, only=only))


def test_a_view_that_is_refused_beside_others_that_are_no_views_ends_no_report():
    def mixed(query, key, value):
        if key.flags.c_contiguous and not value.flags.c_contiguous:
            raise RuntimeError("value must lie as key does")
        return softmax(query @ from_memory(key).swapaxes(-1, -2) / query.shape[-1] ** 0.5) @ value

    (cause,) = refnp.judge("attention", mixed).causes
    assert cause.says.startswith("key is a view"), cause.says


def test_rows_that_are_walked_by_a_stride_of_their_own_are_not_enough():
    """The last axis is walked without its stride, as many kernels do, all others by theirs."""
    rows = lambda x: np.lib.stride_tricks.as_strided(x, x.shape, (*x.strides[:-1], x.itemsize)) if x.ndim else x
    assert not refnp.judge("softmax", lambda x: softmax(rows(x))).holds


def test_the_view_that_is_read_wrongly_is_named_among_others():
    def attention(query, key, value):
        return softmax(query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5) @ from_memory(value)

    (cause,) = refnp.judge("attention", attention).causes
    assert cause.says.startswith("value is a view"), cause.says


def test_a_refusal_of_views_is_none_of_the_others():
    def strict(x):
        if not x.flags.c_contiguous:
            raise ValueError("x must be contiguous")
        return softmax(x)

    report = refnp.judge("softmax", strict)
    assert report.holds
    assert "it refuses 2 cases" in str(report)
    assert "x must be contiguous" in str(report)


def test_a_gradient_of_ones_own_is_given_views_too():
    def pair(function, x):
        y = softmax(x)
        return y, lambda y_bar: y * (from_memory(y_bar) - (from_memory(y_bar) * y).sum(-1, keepdims=True))

    (cause,) = refnp.judge("softmax", softmax, vjp=pair, only=FIRST).causes
    assert cause.says.startswith("the cotangent is a view"), cause.says


def test_parameters_of_a_module_are_no_views():
    torch = pytest.importorskip("torch")
    side_by_side = lambda x: torch.as_strided(x, x.shape, torch.empty(x.shape).stride())

    class Linear(torch.nn.Linear):
        def forward(self, x):
            assert self.weight.is_contiguous()
            return torch.nn.functional.linear(x, side_by_side(self.weight), self.bias)

    assert refnp.judge("linear", Linear(5, 3), gradients=True).holds


def test_pytorchs_gradients_of_views():
    torch = pytest.importorskip("torch")
    side_by_side = lambda x: torch.empty(x.shape).stride()

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            y = torch.softmax(x, -1)
            context.save_for_backward(y)
            return y

        @staticmethod
        def backward(context, y_bar):
            (y,) = context.saved_tensors
            y_bar = torch.as_strided(y_bar, y_bar.shape, side_by_side(y_bar))
            return y * (y_bar - (y_bar * y).sum(-1, keepdim=True))

    own = lambda x: Own.apply(x)
    assert refnp.judge("softmax", lambda x: torch.softmax(x, -1), gradients=True, only=FIRST).holds
    assert refnp.judge("softmax", own).holds
    (cause,) = refnp.judge("softmax", own, gradients=True, only=FIRST).causes
    assert cause.says.startswith("the cotangent is a view"), cause.says
    of_memory = lambda x: torch.softmax(torch.as_strided(x, x.shape, side_by_side(x)), -1)
    (cause,) = refnp.judge("softmax", of_memory, gradients=True, only=FIRST).causes
    assert cause.says.startswith("x is a view"), cause.says
