"""Reading by places: every form of index, places read twice, padding against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import Tensor
from refnp.autograd.primitive import raw
from tests.helpers import assert_same_bits, assert_within, normal, seeds, unit_roundoff
from tests.transcriptions import autograd as transcriptions

X = normal(0, (3, 4, 5))
MASK = X[..., 0] > 0

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
    "a mask": X > 0,
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
    sources = np.arange(X.size).reshape(X.shape)[index]
    x = Tensor(X, requires_grad=True)
    y = x[index]
    assert_same_bits(y.numpy(), X[index])
    y_bar = normal(1, y.shape)
    expected = np.zeros(X.size)
    for source, bar in zip(np.ravel(sources), np.ravel(y_bar), strict=True):
        expected[source] += bar
    y.backward(y_bar)
    assert_within(x.grad.reshape(-1), expected, 4 * unit_roundoff(float) * np.abs(y_bar).sum())
    assert_same_bits(ad.getitem(X, index), X[index])
    if as_tensors(index) is not index:
        assert_same_bits(x[as_tensors(index)].numpy(), X[index])


@pytest.mark.parametrize("index", [3, (0, 4), (0, 0, 0, 0), [0, 3], 1.5, np.array([0.5])])
def test_what_numpy_refuses_is_refused(index):
    with pytest.raises(IndexError):
        X[index]
    with pytest.raises(IndexError):
        Tensor(X)[index]


@given(st.integers(1, 6), st.lists(st.integers(-6, 5), max_size=8), st.integers(0, 1), seeds)
def test_take_adds_up_what_was_read_several_times(length, indices, axis, seed):
    indices = np.array(indices, int) % length - length * (np.array(indices, int) < 0)
    shape = (length, 3) if axis == 0 else (3, length)
    table = normal(seed, shape)
    value, pullback = ad.vjp(lambda table: ad.take(table, indices.reshape(1, -1), axis=axis), table)
    assert_same_bits(value, np.take(table, indices.reshape(1, -1), axis))
    y_bar = normal(seed, value.shape)
    expected = np.zeros(shape)
    for n, index in enumerate(indices):
        if axis == 0:
            expected[index] += y_bar[0, n]
        else:
            expected[:, index] += y_bar[:, 0, n]
    assert_within(pullback(y_bar)[0], expected, 2 * (indices.size + 1) * unit_roundoff(float) * np.abs(y_bar).sum())


def test_take_accepts_lists_tensors_and_no_indices():
    for indices in ([0, 1], Tensor([0, 1]), np.array([0, 1], np.uint8)):
        assert_same_bits(raw(ad.take(X, indices)), X[:2])
    assert ad.take(X, []).shape == (0, 4, 5)
    assert ad.take(X[:0], []).shape == (0, 4, 5)
    x = Tensor(X, requires_grad=True)
    ad.take(x, []).sum().backward()
    assert not x.grad.any()


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


def test_padding_with_a_value_and_in_other_dtypes():
    assert ad.pad(np.ones(1, np.float32), [(1, 1)], value=-2.0).tolist() == [-2, 1, -2]
    assert ad.pad(np.ones(1, np.float32), [(1, 1)], value=-2.0).dtype == np.float32
    assert ad.pad(np.array(3.0), []) == 3
    assert ad.pad(X, np.zeros((3, 2), int)).tolist() == X.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.pad(X, [(1, 1)]), ValueError, r"pad: widths has shape \(1, 2\), not \(3, 2\); give a pair"),
        (lambda: ad.pad(X, 2), ValueError, r"pad: widths has shape \(\), not \(3, 2\)"),
        (lambda: ad.pad(X[0, 0], [(1, -1)]), ValueError, r"pad: widths \[\(1, -1\)\] are negative somewhere; slice x"),
        (lambda: ad.pad(X[0, 0], [(1.5, 1)]), TypeError, "pad: widths are float64; pass integers"),
        (
            lambda: ad.pad(X[0, 0], [(1, 1)], mode="mirror"),
            ValueError,
            "mode 'mirror' is unknown; use 'zeros', 'circular'",
        ),
        (lambda: ad.take(X, [0.0]), TypeError, "take: indices are float64; pass integers"),
        (lambda: ad.take(X, [True]), TypeError, "take: indices are bool; pass integers"),
        (lambda: ad.take(X, [0, 3]), IndexError, "take: index 3 is outside a table of 3 rows; use 0 to 2"),
        (lambda: ad.take(X, [-4]), IndexError, "take: index -4 is outside a table of 3 rows"),
        (lambda: ad.take(X, [0], axis=3), ValueError, "take: axis 3 is out of range"),
        (lambda: ad.take(X[:0], [0]), IndexError, "outside a table of 0 rows"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
