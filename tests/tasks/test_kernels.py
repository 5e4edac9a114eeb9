"""Kernels: their formulas, their symmetries, and that they are positive definite where they say so."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.numbers.rounding import tolerance
from refnp.tasks.kernels import EQ, Choice, Kernel, Matern12, Matern32, Matern52, Periodic, Radial, weakly_periodic
from tests.helpers import assert_same_bits, assert_within, laid_out, layouts, seeds
from tests.tasks import rounded
from tests.transcriptions import gaussian_process as transcription

RADIAL = [(EQ, transcription.eq), (Matern12, transcription.matern12), (Matern32, transcription.matern32)]
RADIAL += [(Matern52, transcription.matern52)]
KERNELS = [EQ(0.3, 0.7), Matern12(0.3), Matern32(0.4), Matern52(0.25, 2.0), Periodic(0.25, 0.6), weakly_periodic()]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)


def drawn_points(seed, n, m, dx):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (2, n, dx)), rng.uniform(-2, 2, (2, m, dx)), rng.uniform(0.1, 2.0, (3, 2))


@pytest.mark.parametrize(("kind", "formula"), RADIAL, ids=lambda value: getattr(value, "__name__", ""))
@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), layouts, seeds)
def test_radial_kernels_are_their_formulas(kind, formula, n, m, dx, layout, seed):
    x, z, (length_scale, scale, _) = drawn_points(seed, n, m, dx)
    value = kind(length_scale, scale)(laid_out(x, layout), laid_out(z, layout))
    assert value.shape == (2, n, m)
    for b in range(2):
        bound = rounded.radial(kind, x[b], z[b], length_scale[b], scale[b])
        expected = transcription.values(formula, x[b], z[b], length_scale[b], scale[b])
        assert_within(value[b], expected, tolerance(bound, np.float64))


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), layouts, seeds)
def test_the_periodic_kernel_is_its_formula(n, m, dx, layout, seed):
    x, z, (period, length_scale, scale) = drawn_points(seed, n, m, dx)
    value = Periodic(period, length_scale, scale)(laid_out(x, layout), laid_out(z, layout))
    for b in range(2):
        bound = rounded.periodic(x[b], z[b], period[b], length_scale[b], scale[b])
        expected = transcription.values(transcription.periodic, x[b], z[b], period[b], length_scale[b], scale[b])
        assert_within(value[b], expected, tolerance(bound, np.float64))


@every_kernel
@given(st.integers(1, 3), seeds)
def test_sums_products_and_choices_are_made_of_their_parts(kernel, dx, seed):
    x, z, _ = drawn_points(seed, 4, 3, dx)
    other = Matern32(0.5)
    assert_same_bits((kernel + other)(x, z), kernel(x, z) + other(x, z))
    assert_same_bits((kernel * other)(x, z), kernel(x, z) * other(x, z))
    assert (kernel + other).variance() == kernel.variance() + other.variance()
    assert (kernel * other).variance() == kernel.variance() * other.variance()
    choice = Choice((kernel, other), np.array([1, 0]))
    assert_same_bits(choice(x, z), np.stack([other(x, z)[0], kernel(x, z)[1]]))
    assert_same_bits(choice.variance(), np.array([other.variance(), kernel.variance()]))


@every_kernel
@given(st.integers(1, 3), seeds)
def test_kernels_are_symmetric_and_their_variance_is_on_the_diagonal(kernel, dx, seed):
    x, z, _ = drawn_points(seed, 5, 4, dx)
    assert_same_bits(kernel(x, z), kernel(z, x).swapaxes(1, 2))
    assert_same_bits(np.einsum("bnn->bn", kernel(x, x)), np.full((2, 5), kernel.variance()))


def smallest_eigenvalue(matrix):
    return np.linalg.eigvalsh(matrix).min()


@every_kernel
@pytest.mark.parametrize("dx", [1, 2, 3])
def test_kernels_are_positive_definite(kernel, dx):
    """To within rounding: elements are off by at most 1e3 u (the periodic ones), eigenvalues N times that."""
    x = np.random.default_rng(dx).uniform(-2, 2, (3, 40, dx))
    assert smallest_eigenvalue(kernel(x, x)) >= -40 * 1e3 * np.finfo(float).eps * kernel.variance()


def test_one_sine_of_the_sum_of_distances_is_not_positive_definite_in_two_dimensions():
    """The periodic kernel as TNP-pytorch has it: the same in one dimension, no covariance in two."""

    def one_sine(x):
        total = np.abs(x[:, :, None] - x[:, None]).sum(-1)
        return np.exp(-2 * (np.sin(np.pi * total / 0.7) / 0.5) ** 2)

    rng = np.random.default_rng(0)
    line, plane = rng.uniform(-2, 2, (1, 40, 1)), rng.uniform(-2, 2, (1, 40, 2))
    assert_within(one_sine(line), Periodic(0.7, 0.5)(line, line), 1e3 * np.finfo(float).eps)
    assert smallest_eigenvalue(one_sine(plane)) < -0.1
    assert smallest_eigenvalue(Periodic(0.7, 0.5)(plane, plane)) > -1e-10


@every_kernel
@given(st.integers(1, 2), seeds, st.sampled_from([-1024.0, 0.5, 4.0, 1000.0]))
def test_a_shift_of_both_points_changes_no_bit(kernel, dx, seed, by):
    """Places are multiples of 2⁻¹⁰, so that x + by is exact; differences then are too."""
    x = np.random.default_rng(seed).integers(-2048, 2048, (2, 5, dx)) / 1024
    assert_same_bits(kernel(x + by, x + by), kernel(x, x))


def test_scikit_learn_agrees():
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-2, 2, (2, 20, 2))
    pairs = [
        (EQ(0.3), kernels.RBF(0.3)),
        (Matern12(0.3), kernels.Matern(0.3, nu=0.5)),
        (Matern32(0.3), kernels.Matern(0.3, nu=1.5)),
        (Matern52(0.3), kernels.Matern(0.3, nu=2.5)),
    ]
    for (
        ours,
        theirs,
    ) in pairs:  # distances of up to 20 length scales: exp(−r) turns an error of 4u r² into 4u r² e^−r < 4u
        assert_within(ours(x[None], z[None])[0], theirs(x, z), 32 * np.finfo(float).eps)
    line = rng.uniform(-2, 2, (20, 1))
    theirs = kernels.ExpSineSquared(0.6, 0.25)(line)  # 16 periods, so an argument of 50: 50 u · 4/0.36 and a few u
    assert_within(Periodic(0.25, 0.6)(line[None], line[None])[0], theirs, 1e3 * np.finfo(float).eps)


def test_ranges_are_drawn_for_each_task_and_numbers_stay():
    kernel = EQ((0.1, 0.6), (0.1, 1.0)) + Periodic((0.1, 0.5), 0.3) * Matern12(np.array([1.0, 2.0, 3.0]))
    drawn = kernel.drawn(np.random.default_rng(0), 3)
    eq, (periodic, matern) = drawn.kernels[0], drawn.kernels[1].kernels
    rng = np.random.default_rng(0)
    for value, bounds in ((eq.length_scale, (0.1, 0.6)), (eq.scale, (0.1, 1.0)), (periodic.period, (0.1, 0.5))):
        assert_same_bits(value, rng.uniform(*bounds, size=3))
    assert periodic.length_scale == 0.3
    assert_same_bits(matern.length_scale, np.array([1.0, 2.0, 3.0]))
    assert drawn.variance().shape == (3,)


def test_a_choice_takes_each_kernel_as_often():
    chosen = Choice((EQ(1.0), EQ(2.0), EQ(3.0))).drawn(np.random.default_rng(0), 3000).chosen
    counts = np.bincount(chosen, minlength=3)  # binomial, standard deviation 25.8
    assert np.abs(counts - 1000).max() < 4 * 25.8


def test_wrong_kernels_are_named():
    x = np.zeros((1, 2, 1))
    with pytest.raises(
        ValueError, match=r"EQ: length_scale is \(0.1, 0.6\)|EQ: length_scale is the range \(0.1, 0.6\)"
    ):
        EQ((0.1, 0.6))(x, x)
    with pytest.raises(ValueError, match="EQ: length_scale is -1; it must be positive and finite"):
        EQ(-1)
    with pytest.raises(ValueError, match=r"Matern12: scale is nan"):
        Matern12(1.0, math.nan)
    with pytest.raises(ValueError, match=r"Periodic: period is \(2.0, 1.0\); a range is \(low, high\) with low ≤ high"):
        Periodic((2.0, 1.0))
    with pytest.raises(ValueError, match="EQ: length_scale is 'long'; pass a number"):
        EQ("long")
    with pytest.raises(TypeError, match="Sum: kernels is"):
        EQ(1.0) + 1.0
    with pytest.raises(ValueError, match="Choice: no kernel was chosen yet"):
        Choice((EQ(1.0),))(x, x)
    for useless in (Kernel(), Radial(1.0)):
        with pytest.raises(TypeError, match="is no kernel by itself"):
            useless(x, x)
    with pytest.raises(TypeError, match="is no kernel by itself"):
        Kernel().variance()
