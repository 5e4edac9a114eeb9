"""Products, factorisations and triangular systems: index loops, the bounds of the textbook, the complex step, NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import cholesky, linear, log_determinant, matmul, outer, trace, triangular_solve
from refnp.kernels import products
from tests.helpers import REAL, assert_same_bits, assert_within, dtypes, laid_out, layouts, normal, seeds, unit_roundoff
from tests.transcriptions import linalg as transcription

PRODUCTS = [
    ((3,), (3,), "k,k->"),
    ((3,), (3, 2), "k,km->m"),
    ((3,), (2, 3, 4), "k,bkm->bm"),
    ((2, 3), (3,), "nk,k->n"),
    ((2, 2, 3), (3,), "bnk,k->bn"),
    ((2, 3), (3, 4), "nk,km->nm"),
    ((2, 2, 3), (3, 4), "bnk,km->bnm"),
    ((2, 2, 3), (2, 3, 4), "bnk,bkm->bnm"),
    ((2, 1, 2, 3), (4, 3, 2), "bcnk,ckm->bcnm"),
    ((2, 3), (2, 3, 4), "nk,bkm->bnm"),
    ((2, 0), (0, 3), "nk,km->nm"),
    ((0, 2), (2, 3), "nk,km->nm"),
    ((2, 3), (3, 0), "nk,km->nm"),
    ((0, 2, 3), (3,), "bnk,k->bn"),
]
ids = [f"{x} {y}" for x, y, _ in PRODUCTS]


def positive_definite(rng, batch, n, dtype=np.float64):
    """Symmetric, eigenvalues from ½ to about 3."""
    a = rng.standard_normal((*batch, n, n)) / max(n, 1) ** 0.5
    return np.asarray(0.5 * np.eye(n) + a @ a.swapaxes(-1, -2), dtype)


def lower_factors(rng, batch, n, dtype=np.float64):
    """Well-conditioned lower triangular matrices with NaN above the diagonal, which must not be read."""
    factor = np.tril(rng.standard_normal((*batch, n, n)) / max(n, 1), -1) + np.eye(n) * rng.uniform(
        0.5, 2, (*batch, n, 1)
    )
    return np.where(np.tri(n, dtype=bool), factor, np.nan).astype(dtype)


# Products


@pytest.mark.parametrize(("x_shape", "y_shape", "letters"), PRODUCTS, ids=ids)
@given(dtypes, layouts, seeds)
def test_matmul_is_a_sum_of_products(x_shape, y_shape, letters, dtype, layout, seed):
    rng = np.random.default_rng(seed)
    x, y = (laid_out(normal(rng, shape, dtype), layout) for shape in (x_shape, y_shape))
    inputs, result = letters.split("->")[0].split(","), letters.split("->")[1]
    z = matmul(x, y)
    size = transcription.einsum(inputs, result, [np.abs(x), np.abs(y)])
    assert z.dtype == dtype
    assert_within(z, transcription.einsum(inputs, result, [x, y]), 3 * (x_shape[-1] + 1) * unit_roundoff(dtype) * size)


@pytest.mark.parametrize("small", [0, 24, 10**6])
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("lead", [((), ()), ((3,), (3,)), ((3,), (1,)), ((2, 1), (3,)), ((0,), (0,))])
def test_a_copied_factor_gives_the_plain_product(lead, dtype, small, monkeypatch):
    """Whole numbers, whose products are exact in any order; 2 × 3 × 4 multiplications are small, or are not."""
    monkeypatch.setattr(products, "SMALL_PRODUCT", small)
    x, y = (
        np.round(9 * normal(i, (*batch, *s), dtype)) for i, batch, s in ((0, lead[0], (2, 3)), (1, lead[1], (4, 3)))
    )
    y.flags.writeable = False
    np.testing.assert_array_equal(products.product(x, y.swapaxes(-1, -2)), np.einsum("...nk,...mk->...nm", x, y))


@pytest.mark.parametrize(("x_shape", "y_shape"), [(x, y) for x, y, _ in PRODUCTS if not all(x + y)])
def test_matmul_gradient_of_empty_arrays(x_shape, y_shape):
    z, pullback = ad.vjp(matmul, np.ones(x_shape, np.float32), np.ones(y_shape, np.float32))
    for gradient, shape in zip(pullback(np.ones_like(z)), (x_shape, y_shape), strict=True):
        assert (gradient.shape, gradient.dtype) == (shape, np.float32)
        assert not gradient.any()


def test_linear_mixes_precisions_as_numpy_does():
    """A complex or a wider bias is not squeezed into the products: forward mode in the bias alone, for one."""
    x, weight, bias = np.ones((2, 3)), np.ones((3, 2)), np.zeros(2)
    assert_same_bits(
        ad.jvp(lambda b: linear(x, weight, b), (bias,), (np.array([1.0, 2]),))[1], np.array([[1.0, 2], [1, 2]])
    )
    assert linear(x.astype(np.float32), weight.astype(np.float32), bias).dtype == np.float64
    assert linear(x.astype(int), weight.astype(int), bias).dtype == np.float64
    untouched = bias.copy()
    linear(x, weight, bias)
    assert_same_bits(bias, untouched)


# Cholesky


def test_cholesky_of_complex_symmetric_matrices():
    """L Lᵀ = A without conjugation, as the complex step needs it: the imaginary part is the derivative."""
    rng = np.random.default_rng(3)
    a, direction = positive_definite(rng, (), 4), positive_definite(rng, (), 4)
    factor = cholesky(a + 1j * 1e-100 * direction)
    assert_within(factor.real, cholesky(a), 16 * np.finfo(float).eps)
    left = factor.imag / 1e-100 @ factor.real.T
    assert_within(left + left.T, direction, 64 * np.finfo(float).eps)


# Triangular systems


@given(
    st.sampled_from([0, 1, 2, 5, 31, 32, 33, 70]),
    st.integers(0, 3),
    st.sampled_from([((), ()), ((2,), (2,)), ((2,), ()), ((), (2,)), ((2, 1), (3,))]),
    st.sampled_from(REAL),
    layouts,
    st.booleans(),
    seeds,
)
def test_triangular_solve_has_a_small_residual(n, m, batches, dtype, layout, transposed, seed):
    """|L x − b| ≤ n u |L||x| (Higham (2002), thm. 8.5), in halves as well, plus the rounding of the residual itself."""
    rng = np.random.default_rng(seed)
    factor = laid_out(lower_factors(rng, batches[0], n, dtype), layout)
    b = laid_out(normal(rng, (*batches[1], n, m), dtype), layout)
    x = triangular_solve(factor, b, transposed=transposed)
    assert x.dtype == dtype
    assert x.shape == (*np.broadcast_shapes(*batches), n, m)
    matrix = np.tril(np.nan_to_num(factor.astype(np.longdouble)))
    matrix = matrix.swapaxes(-1, -2) if transposed else matrix
    product, size = matrix @ x.astype(np.longdouble), np.abs(matrix) @ np.abs(x).astype(np.longdouble)
    u = unit_roundoff(dtype) + unit_roundoff(np.longdouble)
    assert_within(product, np.broadcast_to(b, x.shape), (n + 1) * u * (size + np.abs(b)))


def test_nothing_above_the_diagonal_is_read():
    rng = np.random.default_rng(8)
    factor, b = lower_factors(rng, (), 40), normal(rng, (40, 2))
    x, pullback = ad.vjp(triangular_solve, factor, b)
    assert np.isfinite(x).all()
    factor_bar, b_bar = pullback(np.ones((40, 2)))
    assert np.isfinite(factor_bar).all()
    assert np.isfinite(b_bar).all()
    assert not np.triu(factor_bar, 1).any()


# Gaussians


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: matmul(np.ones((2, 3)), np.ones((2, 3))), r"x of shape \(2, 3\) and y of shape \(2, 3\)"),
        (lambda: matmul(np.ones(3), np.ones(())), r"y of shape \(\)"),
        (lambda: matmul(2.0, np.ones(3)), r"x of shape \(\)"),
        (lambda: matmul(np.ones((2, 3, 4)), np.ones((3, 4, 5))), r"batch axes of x \(2, 3, 4\) and y \(3, 4, 5\)"),
        (lambda: linear(np.ones((2, 3)), np.ones((4, 5))), r"x of shape \(2, 3\) needs 4 features"),
        (lambda: linear(np.ones((2, 3)), np.ones(3)), r"weight has shape \(3,\)"),
        (lambda: linear(np.ones((2, 3)), np.ones((3, 5)), np.ones(3)), r"bias has shape \(3,\); it must be \(5,\)"),
        (lambda: linear(1.0, np.ones((3, 5))), r"x of shape \(\)"),
        (lambda: outer(1.0, np.ones(3)), r"x has shape \(\)"),
        (lambda: trace(np.ones(3)), r"x has shape \(3,\)"),
        (lambda: cholesky(np.diag([1.0, -2.0])), "a is not positive definite, its smallest eigenvalue is -2"),
        (
            lambda: cholesky(np.array([[2.0, 5.0], [1.0, 3.0]])),
            "definite, its smallest eigenvalue is -0.54",
        ),
        (lambda: cholesky(np.stack([np.eye(2), np.zeros((2, 2))])), r"a\[1\] is not positive definite"),
        (lambda: cholesky(np.diag([1, np.longdouble(-2)])), "smallest eigenvalue is -2"),
        (lambda: cholesky(np.diag([1.0, -2 + 0j])), "smallest eigenvalue is -2"),
        (lambda: cholesky(np.stack([np.eye(2), np.full((2, 2), np.nan)])), r"a\[1\] holds a value that is not finite"),
        (lambda: triangular_solve(np.diag([1.0, 0]), np.ones((2, 1))), "a zero on its diagonal"),
        (lambda: log_determinant(np.diag([1.0, -1])), "positive diagonal"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
