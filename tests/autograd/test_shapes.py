"""Other shapes, joins, cuts, every form of index, padding: against definitions, and errors.

Values are against definitions, gradients in tests/test_every_operation.py.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import Tensor
from tests.helpers import assert_same_bits, assert_within, normal, seeds, unit_roundoff
from tests.transcriptions import autograd as transcriptions

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("shape", [6, (6,), [3, 2], (-1, 2), np.array([3, 2]), (1, 6, 1)])
def test_reshape_to_any_form_of_shape(shape):
    assert ad.reshape(X, shape).shape == X.reshape(shape).shape
    assert ad.reshape(Tensor(X), shape).shape == X.reshape(shape).shape


def test_views_share_memory_with_x():
    for view in (
        ad.reshape(X, 6),
        ad.transpose(X),
        ad.swapaxes(X, 0, 1),
        ad.broadcast_to(X, (2, 2, 3)),
        ad.split(X, 3)[0],
    ):
        assert np.shares_memory(view, X)
    assert not ad.broadcast_to(X, (2, 2, 3)).flags.writeable


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_flip_along_some_or_all_axes(axis):
    assert ad.flip(X, axis).tolist() == np.flip(X, axis).tolist()


@pytest.mark.parametrize(("shift", "axis"), [(1, None), (-2, 1), ((1, 2), (0, 1)), ([1, -1], (1, 0)), (1, (0, 1))])
def test_roll_along_one_axis_several_or_all_elements(shift, axis):
    value, pullback = ad.vjp(lambda x: ad.roll(x, shift, axis), X)
    assert value.tolist() == np.roll(X, shift, axis).tolist()
    assert pullback(value)[0].tolist() == X.tolist()


@pytest.mark.parametrize("sections", [1, 3, [1], [0, 3], [1, 1, 2], [-1], (1, 2), np.array([2])])
def test_split_and_join(sections):
    x = Tensor(X, requires_grad=True)
    parts = ad.split(x, sections)
    assert [p.numpy().tolist() for p in parts] == [p.tolist() for p in np.split(X, sections, -1)]
    joined = ad.concatenate(parts, axis=-1)
    assert_same_bits(joined.numpy(), X)
    joined.backward(X + 1)
    assert_same_bits(x.grad, X + 1)


def test_join_mixes_tensors_arrays_and_lists():
    x = Tensor([1.0, 2.0], requires_grad=True)
    ad.concatenate([x, np.ones(2), [5.0], x]).backward(np.arange(7.0))
    assert x.grad.tolist() == [0 + 5, 1 + 6]
    ad.stack([x, [3.0, 4.0]], axis=-1).sum().backward()
    assert x.grad.tolist() == [6, 8]
    assert ad.concatenate(Tensor(X)).shape == (6,)  # the rows of a Tensor


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.reshape(X, (4, 2)), ValueError, r"x of shape \(2, 3\) has 6 elements; they do not fill \(4, 2\)"),
        (lambda: ad.transpose(X, (0,)), ValueError, r"transpose: axes \(0,\) do not name all 2 axes of x"),
        (lambda: ad.transpose(X, (0, 0)), ValueError, "names an axis twice"),
        (lambda: ad.transpose(X, (0, 2)), ValueError, "out of range for an array with 2 axes"),
        (lambda: ad.swapaxes(X, 0, 2), ValueError, "swapaxes: axis 2 is out of range"),
        (lambda: ad.broadcast_to(X, (2, 4)), ValueError, r"x of shape \(2, 3\) does not broadcast to \(2, 4\)"),
        (lambda: ad.flip(X, 5), ValueError, "flip: axis 5 is out of range"),
        (lambda: ad.roll(X, 1, 2), ValueError, "roll: axis 2 is out of range"),
        (lambda: ad.concatenate([]), ValueError, "concatenate: no arrays were given; pass at least one"),
        (lambda: ad.concatenate([X, X.T]), ValueError, r"shapes \(2, 3\), \(3, 2\) may differ along axis 0 only"),
        (lambda: ad.concatenate([X, X[0]]), ValueError, r"shapes \(2, 3\), \(3,\) may differ along axis 0 only"),
        (lambda: ad.concatenate([X], axis=2), ValueError, "concatenate: axis 2 is out of range"),
        (lambda: ad.stack([]), ValueError, "stack: no arrays were given"),
        (lambda: ad.stack([X, X.T]), ValueError, r"stack: shapes \[\(2, 3\), \(3, 2\)\] differ; all must be the same"),
        (lambda: ad.stack([X, X], axis=3), ValueError, "stack: axis 3 is out of range for an array with 3 axes"),
        (lambda: ad.split(X, 2), ValueError, "axis 1 of length 3 does not divide into 2 equal parts"),
        (lambda: ad.split(X, 0), ValueError, "does not divide into 0 equal parts"),
        (lambda: ad.split(X, [2, 1]), ValueError, r"split: places \[2, 1\] do not ascend along an axis of length 3"),
        (lambda: ad.split(X, [4]), ValueError, r"places \[4\] do not ascend along an axis of length 3"),
        (lambda: ad.split(X, 1, axis=2), ValueError, "split: axis 2 is out of range"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


XYZ = normal(0, (3, 4, 5))
MASK = XYZ[..., 0] > 0

INDICES = {
    "an integer": 1,
    "a negative integer": -1,
    "a NumPy integer": np.int64(2),
    "integers": (0, -1, 2),
    "a slice": slice(None, None, -2),
    "slices": (slice(1, None), slice(0, 0)),
    "dots": (..., 2),
    "dots in the middle": (0, ..., slice(1, 3)),
    "a new axis": (None, slice(None), None),
    "nothing": (),
    "a mask": XYZ > 0,
    "a mask of leading axes": MASK,
    "a mask beside a slice": (MASK, slice(0, 2)),
    "a mask in a list": [True, False, True],
    "True": True,
    "places": np.array([2, 0, 2]),
    "places in a list": [2, 0, -1],
    "no places": [],
    "no places, an array": (slice(None), np.array([], int)),
    "places in tuples": ((0, 0), (1, 1)),
    "nested places": [[0, 1], [2, 0]],
    "places that broadcast": (np.array([[0], [0]]), np.array([1, 1, 3])),
    "places and a slice between": ([0, 0], slice(None), [1, 1]),
    "a place without axes": np.array(1),
    "a mask and places": (np.array([True, False, True]), [1, 1]),
    "a range": (range(2), 0),
}


def as_tensors(index):
    if isinstance(index, tuple):
        return tuple(map(as_tensors, index))
    return Tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_every_index_reads_as_numpy_and_adds_back_what_it_read(index):
    """x̄ by the definition: place k of ȳ is added to the element that place k was read from."""
    sources = np.arange(XYZ.size).reshape(XYZ.shape)[index]
    x = Tensor(XYZ, requires_grad=True)
    y = x[index]
    assert_same_bits(y.numpy(), XYZ[index])
    y_bar = normal(1, y.shape)
    expected = np.zeros(XYZ.size)
    for source, bar in zip(np.ravel(sources), np.ravel(y_bar), strict=True):
        expected[source] += bar
    y.backward(y_bar)
    assert_within(x.grad.reshape(-1), expected, 4 * unit_roundoff(float) * np.abs(y_bar).sum())
    assert_same_bits(ad.getitem(XYZ, index), XYZ[index])
    if as_tensors(index) is not index:
        assert_same_bits(x[as_tensors(index)].numpy(), XYZ[index])


@pytest.mark.parametrize("index", [3, (0, 4), (0, 0, 0, 0), [0, 3], 1.5, np.array([0.5])])
def test_what_numpy_refuses_is_refused(index):
    with pytest.raises(IndexError):
        XYZ[index]
    with pytest.raises(IndexError):
        Tensor(XYZ)[index]


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@given(
    shape=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    widths=st.tuples(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.tuples(st.integers(0, 5), st.integers(0, 5))),
    seed=seeds,
)
def test_padding_against_its_definition(mode, shape, widths, seed):
    x = normal(seed, shape)
    longest = {"zeros": lambda n: 9, "circular": lambda n: n, "reflect": lambda n: max(n - 1, 0),
               "replicate": lambda n: 9 if n else 0}[mode]  # fmt: skip
    if any(w > longest(n) for n, pair in zip(shape, widths, strict=True) for w in pair):
        with pytest.raises(
            ValueError, match=rf"pad: {mode} padding by \(\d, \d\) needs an axis longer than \d; at most"
        ):
            ad.pad(x, widths, mode=mode)
        return
    value, pullback = ad.vjp(lambda x: ad.pad(x, widths, mode=mode), x)
    places = [[(i, j) for j in range(shape[1])] for i in range(shape[0])]  # the same padding of the places themselves
    columns = [transcriptions.padded(row, *widths[1], mode) for row in places]
    rows = transcriptions.padded(columns, *widths[0], mode, [0.0] * (shape[1] + sum(widths[1])))
    y_bar, expected = normal(seed + 1, value.shape), np.zeros(shape)
    for i, row in enumerate(rows):
        for j, source in enumerate(row):
            assert value[i, j] == (x[source] if isinstance(source, tuple) else 0)
            if isinstance(source, tuple):
                expected[source] += y_bar[i, j]
    assert_within(pullback(y_bar)[0], expected, 64 * unit_roundoff(float) * np.abs(y_bar).sum())


def test_padding_by_a_value_keeps_its_sign():
    assert np.signbit(ad.pad(np.ones(1), [(1, 1)], value=-0.0)).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.pad(XYZ, [(1, 1)]), ValueError, r"pad: widths has shape \(1, 2\), not \(3, 2\); give a pair"),
        (lambda: ad.pad(XYZ, 2), ValueError, r"pad: widths has shape \(\), not \(3, 2\)"),
        (
            lambda: ad.pad(XYZ[0, 0], [(1, -1)]),
            ValueError,
            r"pad: widths \[\(1, -1\)\] are negative somewhere; slice x",
        ),
        (lambda: ad.pad(XYZ[0, 0], [(1.5, 1)]), TypeError, "pad: widths are float64; pass integers"),
        (
            lambda: ad.pad(XYZ[0, 0], [(1, 1)], mode="mirror"),
            ValueError,
            "mode 'mirror' is unknown; use 'zeros', 'circular'",
        ),
        (lambda: ad.take(XYZ, [0.0]), TypeError, "take: indices are float64; pass integers"),
        (lambda: ad.take(XYZ, [True]), TypeError, "take: indices are bool; pass integers"),
        (lambda: ad.take(XYZ, [0, 3]), IndexError, "take: index 3 is outside axis 0 of length 3; use 0 to 2"),
        (lambda: ad.take(XYZ, [-4]), IndexError, "take: index -4 is outside axis 0 of length 3"),
        (lambda: ad.take(XYZ, [0], axis=3), ValueError, "take: axis 3 is out of range"),
        (lambda: ad.take(XYZ[:0], [0]), IndexError, "outside axis 0 of length 0"),
    ],
)
def test_bad_places_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---- line by line


@given(seeds, st.integers(-3, 2))
def test_take_and_scatter_along_any_axis(seed, axis):
    rng = np.random.default_rng(seed)
    x, n = rng.standard_normal((2, 3, 4)), (2, 3, 4)[axis]
    shape = list(x.shape)
    shape[axis] = 5
    indices = rng.integers(-n, n, shape)
    assert_same_bits(ad.take_along_axis(x, indices, axis), np.take_along_axis(x, indices, axis))
    assert_same_bits(ad.take_along_axis(x, indices, axis), transcriptions.take_along_axis(x, indices, axis))
    updates = rng.integers(-9, 9, shape) * 1.0
    whole = rng.integers(-9, 9, x.shape) * 1.0  # whole numbers add up exactly, in any order
    assert_same_bits(
        ad.scatter(whole, indices, updates, axis), transcriptions.scatter(whole, indices, updates, axis, "add")
    )


def test_places_for_all_lines_and_one_update_for_all_places():
    x = np.zeros((2, 3))
    assert ad.take_along_axis(np.arange(6.0).reshape(2, 3), np.array([[2, 0]])).tolist() == [[2, 0], [5, 3]]
    assert ad.scatter(x, np.array([[1]]), 7.0, mode="put").tolist() == [[0, 7, 0], [0, 7, 0]]
    assert ad.scatter(x, np.zeros((2, 0), int), np.zeros((2, 0))).tolist() == x.tolist()
    x_bar, updates_bar = ad.vjp(lambda x, u: ad.scatter(x, np.array([[1]]), u), x, np.array(7.0))[1](np.ones((2, 3)))
    assert (x_bar.tolist(), updates_bar) == (np.ones((2, 3)).tolist(), 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.take_along_axis(np.ones((2, 3)), np.array([[3]])), IndexError,
         "take_along_axis: index 3 is outside an axis of length 3; use 0 to 2"),
        (lambda: ad.take_along_axis(np.ones((2, 3)), np.array([0])), ValueError,
         r"take_along_axis: indices have shape \(1,\), x \(2, 3\); they must have as many axes"),
        (lambda: ad.take_along_axis(np.ones((2, 3)), np.zeros((4, 1), int)), ValueError,
         r"take_along_axis: indices have shape \(4, 1\), x \(2, 3\); all lengths but that of axis=1 must agree"),
        (lambda: ad.take_along_axis(np.ones((2, 3)), np.array([[0.5]])), TypeError,
         "take_along_axis: indices are float64; pass integers"),
        (lambda: ad.scatter(np.ones(3), np.array([1, -2]), np.ones(2), mode="put"), ValueError,
         r"scatter: indices name place \[1\] twice; 'put' takes each once"),
        (lambda: ad.scatter(np.ones(3), np.array([1]), np.ones(2)), ValueError,
         r"scatter: updates have shape \(2,\); they must broadcast to \(1,\)"),
        (lambda: ad.scatter(np.ones(3), np.array([1]), 1.0, mode="max"), ValueError,
         "scatter: mode is 'max'; use 'add' or 'put'"),
        (lambda: ad.squeeze(np.ones((1, 2)), 1), ValueError,
         r"squeeze: axis is 1 and x has shape \(1, 2\); only axes of length 1 can be left out"),
        (lambda: ad.expand_dims(np.ones(2), 2), ValueError, "expand_dims: axis 2 is out of range for .* 2 axes"),
        (lambda: ad.expand_dims(np.ones(2), (0, 0)), ValueError, r"expand_dims: axis \(0, 0\) names an axis twice"),
        (lambda: ad.tril(np.ones(2)), ValueError, r"tril: x has shape \(2,\); it needs two axes"),
        (lambda: ad.diagonal(np.ones(2)), ValueError, r"diagonal: x has shape \(2,\); it needs two axes"),
        (lambda: ad.astype(np.ones(2), int), TypeError, "astype: dtype is int64, which has no gradient; pass a .*"),
    ],
)  # fmt: skip
def test_messages_of_places_and_matrices(call, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        call()


def test_what_a_triangle_leaves_out_is_not_read():
    x = np.array([[1.0, np.nan], [2.0, 3.0]])
    assert ad.tril(x).tolist() == [[1, 0], [2, 3]]
    assert ad.vjp(ad.tril, x)[1](np.array([[1.0, np.inf], [1, 1]]))[0].tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_astype_rounds_there_and_its_gradient_back(dtype):
    x = ad.Tensor(normal(0, 4), requires_grad=True)
    y = x.astype(dtype)
    assert_same_bits(y.numpy(), x.data.astype(dtype))
    y.backward(np.full(4, 0.1, dtype))
    assert_same_bits(x.grad, np.full(4, 0.1, dtype).astype(float))
    assert ad.astype(np.ones(2, complex), dtype).dtype == np.result_type(np.complex64, dtype)
