"""General systems, inverses and determinants: pivots, singular matrices, panels, range, dtypes, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.systems import cofactors_of_triangle, solved_transposed_by
from refnp.kernels.triangular import PANEL, eliminated
from tests.helpers import assert_same_bits, assert_within, check, normal, seeds, unit_roundoff
from tests.transcriptions import autograd as transcriptions

SINGULAR = {
    "rank 2 of 3": [[1.0, 2, 3], [2, 4, 6], [1, 0, 1]],
    "rank 1 of 3": [[1.0, 1, 2], [2, 2, 4], [3, 3, 6]],
    "a column of zeros": [[0.0, 1, 2], [0, 3, 4], [0, 1, 1]],
    "the last pivot": [[1.0, 2, 0, 1], [0, 3, 1, 2], [1, 2, 1, 0], [1, 2, 0, 1]],
    "the middle pivot": [[1.0, 2, 0, 1], [2, 4, 0, 2], [0, 1, 1, 0], [3, 1, 1, 2]],
    "zeros": np.zeros((3, 3)),
    "one element": [[0.0]],
}
every_singular = pytest.mark.parametrize("a", [np.array(a) for a in SINGULAR.values()], ids=SINGULAR)


@pytest.mark.parametrize("n", [PANEL - 1, PANEL, PANEL + 1, 2 * PANEL + 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.clongdouble])
def test_panels(n, dtype):
    """Matrices of several panels: ‖A X − B‖ is as small as rounding makes it, for A and for its transpose."""
    a, b = normal(0, (2, n, n), dtype), normal(1, (2, n, 3), dtype)
    x = ad.solve(a, b)
    u = unit_roundoff(dtype)
    lower, upper, order, _ = eliminated(a)
    size = np.take_along_axis(np.abs(lower) @ np.abs(upper), np.argsort(order, -1)[..., None], -2)
    assert_within(a @ x, b, 8 * n * u * (size @ np.abs(x)))
    y = solved_transposed_by(lower, upper, order, b)
    assert_within(a.swapaxes(-1, -2) @ y, b, 8 * n * u * (size.swapaxes(-1, -2) @ np.abs(y)))
    sign, logarithm = ad.slogdet(a)
    assert sign.dtype == logarithm.dtype == dtype
    if np.dtype(dtype).kind == "f":
        own_sign, own = np.linalg.slogdet(a.astype(float))
        assert_same_bits(sign, own_sign.astype(dtype))
        assert_within(logarithm, own, 8 * n * u * np.linalg.cond(a))  # δ log det = tr A⁻¹ δA


@every_singular
def test_the_gradient_of_a_determinant_that_is_zero(a):
    """The cofactors exist, and the complex step finds them: to all digits, and the second derivatives too."""
    value, pullback = ad.vjp(ad.det, a)
    assert value == 0
    assert_within(
        pullback(np.ones(()))[0], transcriptions.cofactors(a), 32 * unit_roundoff(float) * np.abs(a).max() ** 3
    )
    for order in (1, 2):
        assert check(lambda a: ad.det(a) + 1.0, (a,), order=order).digits >= 12


def test_singular_and_regular_matrices_in_one_batch():
    a = np.stack([np.array(SINGULAR["rank 2 of 3"]), normal(0, (3, 3)), np.array(SINGULAR["zeros"])])
    gradient = ad.vjp(ad.det, a)[1](np.ones(3))[0]
    assert_within(gradient, transcriptions.cofactors(a), 64 * unit_roundoff(float) * 36)
    assert [ad.slogdet(a)[0].tolist()[k] for k in (0, 2)] == [0, 0]
    assert np.isneginf(ad.slogdet(a)[1]).tolist() == [True, False, True]


@given(seeds, st.integers(0, 5))
def test_cofactors_of_a_triangle_with_zeros_on_its_diagonal(seed, n):
    rng = np.random.default_rng(seed)
    u = np.triu(rng.integers(-3, 4, (2, n, n))) * 1.0
    assert_same_bits(cofactors_of_triangle(u) + 0.0, transcriptions.cofactors(u) + 0.0)  # whole numbers: exact


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_a_determinant_in_range_whose_factors_are_not(size):
    """det diag(s, s, 1/s, 1/s) = 1, though the product of the first two is not a number; the gradient likewise."""
    a = np.diag([size, size, 1 / size, 1 / size])
    assert_within(ad.det(a), 1.0, 4 * unit_roundoff(float))
    assert_within(ad.vjp(ad.det, a)[1](np.ones(()))[0].diagonal(), 1 / np.diagonal(a), 8e-16 / np.diagonal(a))
    many = np.diag(np.full(1000, size))
    sign, logarithm = ad.slogdet(many)
    assert sign == 1
    assert_within(logarithm, 1000 * np.log(size), 1008 * unit_roundoff(float) * 1000 * abs(np.log(size)))


def test_a_pivot_is_needed():
    """Without the exchange of rows all digits are lost, or the division is by 0."""
    a = np.array([[1e-20, 1.0], [1.0, 1.0]])
    assert_within(ad.solve(a, np.array([1.0, 2.0])), [1.0, 1.0], 4 * unit_roundoff(float))
    assert ad.solve(np.array([[0.0, 2], [1, 0]]), np.array([[2.0], [3.0]])).tolist() == [[3], [1]]
    assert ad.det(np.array([[0.0, 2], [1, 0]])) == -2


def test_nothing_at_all():
    """The determinant of no rows is 1, the empty product."""
    assert ad.det(np.zeros((2, 0, 0))).tolist() == [1, 1]
    assert ad.slogdet(np.zeros((0, 0))) == (1, 0)
    assert ad.inv(np.zeros((0, 3, 3))).shape == (0, 3, 3)
    assert ad.solve(np.zeros((0, 0)), np.zeros((0, 3))).shape == (0, 3)
    assert ad.solve(np.eye(3), np.zeros((3, 0))).shape == (3, 0)
    assert ad.vjp(ad.det, np.zeros((2, 0, 0)))[1](np.ones(2))[0].shape == (2, 0, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ad.inv(np.ones((2, 2))), "inv: a is singular; there is no unique solution"),
        (lambda: ad.solve(np.stack([np.eye(2), np.ones((2, 2))]), np.ones((2, 1))), r"solve: a\[1\] is singular; .*"),
        (lambda: ad.det([[np.nan]]), "det: a holds a value that is not finite; look for it further up"),
        (lambda: ad.slogdet([[[1.0]], [[np.inf]]]), r"slogdet: a\[1\] holds a value that is not finite; .*"),
        (lambda: ad.vjp(lambda a: ad.slogdet(a)[1], np.zeros((2, 2)))[1](np.ones(())),
         r"slogdet: a is singular, where log \|det a\| has no gradient; add something to its diagonal"),
        (lambda: ad.cholesky_solve(np.zeros((2, 2)), np.ones((2, 1))), "cholesky_solve: factor has a zero on its .*"),
    ],
)  # fmt: skip
def test_errors(call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()
