"""What the tests share: arrays drawn by hypothesis in every shape, precision, scale and memory layout, and judgements.

    @given(shapes(), dtypes, scales, layouts, seeds)
    def test_value(shape, dtype, scale, layout, seed):
        x = laid_out(normal(seed, shape, dtype, scale), layout)
        assert_within(f(x), transcription(x), bound(x))

Hypothesis draws a seed and NumPy the numbers: failures shrink to small shapes, and examples are cheap.
"""

import functools
import io

import numpy as np
from hypothesis import strategies as st

import gradcheck
import refnp.autograd
from refnp.verify.bounds import unit_roundoff as unit_roundoff

REAL = (np.float32, np.float64, np.longdouble)
COMPLEX = (np.complex128, np.clongdouble)

real_dtypes = st.sampled_from(REAL)
dtypes = st.sampled_from(REAL + COMPLEX)
scales = st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6])
layouts = st.sampled_from(["C", "F", "strided", "reversed", "read-only"])
seeds = st.integers(0, 2**32 - 1)


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self):
        return True


check = functools.partial(gradcheck.check, vjp=refnp.autograd.vjp, method="complex_step")
"""gradcheck.check of refnp's own gradient, by the complex step and nothing less: check(f, args, order=1, digits=12)."""


def shapes(*, axes=(0, 3), longest=5):
    """Shapes with axes[0] to axes[1] axes of 0 to `longest` elements; lengths 0 and 1 come often."""
    length = st.one_of(st.integers(2, longest), st.integers(0, longest))
    return st.lists(length, min_size=axes[0], max_size=axes[1]).map(tuple)


def normal(seed, shape, dtype=np.float64, scale=1.0):
    """Normal numbers with standard deviation `scale`; complex ones have such an imaginary part as well.

    `seed` is an integer or a numpy.random.Generator.
    """
    rng = np.random.default_rng(seed)
    x = scale * rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * scale * rng.standard_normal(shape)
    return np.asarray(x, dtype)


def generator(seed=0):
    """A generator that draws the same each time."""
    return np.random.default_rng(seed)


def laid_out(array, layout):
    """An array with the same values that lies in memory as `layout` says."""
    array = np.asarray(array)
    if layout == "F":
        return np.asfortranarray(array) if array.ndim else array.copy()
    if layout == "strided":
        room = np.ones([2 * n for n in array.shape], array.dtype)
        inner = room[(..., *(slice(None, None, 2) for _ in array.shape))]
        inner[...] = array
        return inner
    if layout == "reversed":
        return np.asarray(np.flip(np.flip(array).copy()))
    if layout == "broadcast" and array.ndim and len(array) and (array[:1].tobytes() * len(array) == array.tobytes()):
        return np.broadcast_to(array[:1].copy(), array.shape)
    array = np.array(array, order="C")
    array.flags.writeable = layout != "read-only"
    return array


def assert_within(value, reference, bound):
    """|value − reference| ≤ bound, element by element, judged in longdouble; equal infinities and two NaNs pass.

    The message says where the largest excess is, and how large.
    """
    value, reference = np.asarray(value), np.asarray(reference)
    assert value.shape == reference.shape, f"shape {value.shape}, reference {reference.shape}"
    wide = np.clongdouble if "c" in (value.dtype.kind, reference.dtype.kind) else np.longdouble
    same = (value == reference) | (np.isnan(value) & np.isnan(reference))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, np.abs(value.astype(wide) - reference.astype(wide)))
    excess = ~(error <= bound)
    if excess.any():
        bound = np.broadcast_to(bound, error.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(excess, np.nan_to_num(error / bound, nan=np.inf), 0)
        at = np.unravel_index(np.argmax(ratio), ratio.shape)
        raise AssertionError(
            f"{excess.sum()} of {error.size} elements are beyond the bound; the worst, at {list(map(int, at))}, "
            f"is {value[at]!r} and should be {reference[at]!r}: error {error[at]:.3g}, bound {bound[at]:.3g}"
        )


def assert_same_bits(value, reference):
    """Equal values of equal shape and dtype, signs of zeros and places of NaNs included."""
    value, reference = np.asarray(value), np.asarray(reference)
    assert (value.dtype, value.shape) == (reference.dtype, reference.shape)
    assert np.array_equal(value, reference, equal_nan=True), f"{value!r} differs from {reference!r}"
    for part in (np.real, np.imag):
        a, b = part(value), part(reference)
        assert not np.any((a == 0) & (np.signbit(a) != np.signbit(b))), "a zero changed its sign"


def assert_same_arrays(found, expected):
    """Mappings of the same names, in any order, with the same bits under each."""
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        assert_same_bits(found[name], array)


def of_every(items):
    """A test of one item becomes one test of all, which names each that fails: many small tests take time apiece."""

    def decorate(test):
        def of_all():
            wrong = {}
            for item in items:
                try:
                    test(item)
                except AssertionError as error:
                    wrong[str(item)] = str(error)
            assert not wrong, "\n".join(f"{item}: {why}" for item, why in wrong.items())

        of_all.__name__, of_all.__doc__ = test.__name__, test.__doc__
        return of_all

    return decorate
