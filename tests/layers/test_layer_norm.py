"""LayerNorm and RMSNorm: means of 10⁴, rows that are constant or overflow when squared, one feature, several axes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp import plain
from refnp.layers.layer_norm import LayerNorm, RMSNorm, layer_norm, rms_norm
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import normalization as equations
from tests.helpers import REAL, assert_same_bits, assert_within, check, normal, real_dtypes, seeds, unit_roundoff
from tests.transcriptions import rows as printed

BOTH = {"layer_norm": layer_norm, "rms_norm": rms_norm}
both = pytest.mark.parametrize("name", BOTH)


@both
@pytest.mark.parametrize("axis", [0, 1, (0, 1), (1, 2), (-1, 0), (2, 1, 0), [0, 2]])
def test_axes_are_one_long_row(name, axis):
    x = normal(0, (2, 3, 4))
    axes = [a % 3 for a in (axis if isinstance(axis, (tuple, list)) else [axis])]
    kept = [i for i in range(3) if i not in axes]
    shape = [x.shape[i] for i in axes]
    arrays = [normal(k, shape) for k in range(2 if name == "layer_norm" else 1)]
    flat = x.transpose(kept + axes).reshape(*(x.shape[i] for i in kept), -1)

    def laid_back(y):
        return y.reshape([x.shape[i] for i in kept + axes]).transpose(np.argsort(kept + axes))

    y, pullback = ad.vjp(lambda *a: BOTH[name](*a, axis=axis), x, *arrays)
    expected, flat_pullback = ad.vjp(BOTH[name], flat, *(a.reshape(-1) for a in arrays))
    assert_same_bits(y, laid_back(expected))
    bar = normal(5, x.shape)
    x_bar, *bars = pullback(bar)
    flat_x_bar, *flat_bars = flat_pullback(bar.transpose(kept + axes).reshape(flat.shape))
    assert_same_bits(x_bar, laid_back(flat_x_bar))
    for a, b in zip(bars, flat_bars, strict=True):
        assert_same_bits(a, b.reshape(shape))


@given(st.floats(-(2.0**100), 2.0**100, width=32), st.integers(1, 60), real_dtypes, st.sampled_from([0.0, 1e-5]))
def test_constant_row_gives_the_shift_to_the_bit(value, features, dtype, eps):
    gain, shift = normal(0, (2, features), dtype)
    y, pullback = ad.vjp(lambda *a: layer_norm(*a, eps=eps), np.full((2, features), value, dtype), gain, shift)
    np.testing.assert_array_equal(y, np.broadcast_to(shift, y.shape))
    bars = pullback(normal(1, y.shape, dtype))
    assert all(np.isfinite(bar).all() for bar in bars)
    np.testing.assert_array_equal(bars[1], 0)
    if eps == 0:
        np.testing.assert_array_equal(bars[0], 0)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("features", [2, 3, 5, 7, 100])
@pytest.mark.parametrize("eps", [1e-5, 1e-30])
def test_constant_row_of_any_size_has_its_gradient(features, eps, dtype):
    """x̄ = (ȳ − mean ȳ)/√ε, also where the mean is rounded, and ε is nothing beside its square, or that overflows."""
    limits = np.finfo(dtype)
    for exponent in (limits.minexp, -10, 3, limits.maxexp // 2 + 3, limits.maxexp - 8, limits.maxexp - 1):
        x = np.full((1, features), np.ldexp(dtype(1.2345678), exponent))
        y, pullback = ad.vjp(lambda x: layer_norm(x, eps=eps), x)
        y_bar = normal(0, x.shape, dtype)
        root = np.sqrt(np.longdouble(eps))
        right = (y_bar - y_bar.mean(dtype=np.longdouble)) / root
        np.testing.assert_array_equal(y, 0)
        assert_within(pullback(y_bar)[0], right, 2 * features * unit_roundoff(dtype) * np.abs(y_bar).max() / root)


@pytest.mark.parametrize(("name", "row"), [("layer_norm", [300.0, -1.0]), ("rms_norm", [4e3])])
def test_rows_without_another_direction_keep_the_digits_of_what_is_left(name, row):
    """With x̂ = ±1 but for ε/2s², ŷ − x̂ mean(ŷ x̂) keeps eleven digits less than it should."""
    x, y_bar = np.array([row]), np.array([[1.0, 0.25][: len(row)]])
    _, pullback = ad.vjp(BOTH[name], x)
    wide = [a.astype(np.longdouble) for a in (x, y_bar)]
    centred, along = (a - a.mean() if name == "layer_norm" else a for a in wide)
    s = np.sqrt((centred**2).mean() + np.longdouble(1e-5))
    right = along * np.longdouble(1e-5) / s**3
    assert_within(pullback(y_bar)[0], right, 8 * unit_roundoff(np.float64) * np.abs(right))


@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_row_of_zeros_in_rms_norm(eps):
    y, pullback = ad.vjp(lambda x: rms_norm(x, eps=eps), np.zeros((1, 3)))
    np.testing.assert_array_equal(y, 0)
    slope = 0 if eps == 0 else 1 / np.sqrt(np.longdouble(eps))
    assert_within(pullback(np.ones((1, 3)))[0], np.full((1, 3), slope), 4 * unit_roundoff(np.float64) * slope)


@both
def test_jvp_on_a_row_without_deviation_is_the_gradient_there(name):
    _, forward = ad.jvp(lambda x: BOTH[name](x, eps=0.0), (np.zeros((1, 3)),), (normal(0, (1, 3)),))
    np.testing.assert_array_equal(forward, 0)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_one_feature_gives_the_shift_and_no_gradient_for_the_gain(size):
    """x − μ is exactly 0; PyTorch's gradient for the gain was once 7.2 at x = 10⁶."""
    x = np.full((4, 1), size, np.float32)
    y, pullback = ad.vjp(layer_norm, x, np.float32([2.0]), np.float32([0.25]))
    np.testing.assert_array_equal(y, 0.25)
    x_bar, gain_bar, shift_bar = pullback(np.ones_like(y))
    np.testing.assert_array_equal(x_bar, 0)
    assert gain_bar == 0
    assert shift_bar == 4


@both
@given(st.sampled_from([np.float32, np.float64]), st.integers(-120, 120), seeds)
def test_scale_does_not_matter_without_epsilon(name, dtype, exponent, seed):
    """x times a power of two gives the same bits, and x̄ divided by it; also where squares over- or underflow."""
    x, bar = normal(seed, (2, 5), dtype), normal(seed + 1, (2, 5), dtype)
    factor = np.ldexp(dtype(1), exponent * (1 if dtype == np.float32 else 8))
    y, pullback = ad.vjp(lambda x: BOTH[name](x, eps=0.0), x)
    scaled, scaled_pullback = ad.vjp(lambda x: BOTH[name](x, eps=0.0), x * factor)
    assert_same_bits(scaled, y)
    gradient = pullback(bar)[0]
    if np.abs(exponent) < 100:
        assert_same_bits(scaled_pullback(bar)[0] * factor, gradient)


@both
@pytest.mark.parametrize("dtype", REAL)
def test_rows_of_any_size_side_by_side(name, dtype):
    """Rows whose squares overflow, or vanish beside ε or without it: all right, whatever ε is.

    The reference is taken in numbers of ordinary size: x/s with ε/s² has the same x̂, s a power of two.
    """
    info = np.finfo(dtype)
    exponents = [info.maxexp - 4, info.maxexp * 6 // 10, 0, info.minexp * 6 // 10, info.minexp + 6, info.minexp - 15]
    sizes = np.ldexp(dtype(1), exponents)  # the last is subnormal
    row = np.array([1, -2, 3, 0.5], dtype)
    rest = [np.ones(4, dtype), np.zeros(4, dtype)][: 2 if name == "layer_norm" else 1]
    for eps in (1e-5, float(info.tiny), 0.0):
        y = BOTH[name](sizes[:, None] * row, *rest, eps=eps)
        for result, size in zip(y, sizes.astype(np.longdouble), strict=True):
            if size > np.sqrt(np.longdouble(eps)):
                size, relative = 1, eps / size / size
            else:  # x̂ = x/√ε · (1 + …)
                relative = np.longdouble(eps)
            arrays = [(row * size)[None], *rest]
            rounded, _ = getattr(equations, name.upper()).equation(*map(exact, arrays), eps=relative)
            assert_within(result, getattr(printed, name)(*arrays, relative)[0], tolerance(rounded, dtype)[0])


@both
@given(seeds)
def test_a_row_does_not_depend_on_its_companions(name, seed):
    """Also when one of them has a large mean, is constant or infinite."""
    x = normal(seed, (3, 6), np.float32)
    companions = np.float32([[1e4], [1e30], [0]]) + np.float32([[1], [1e29], [0]]) * normal(
        seed + 1, (3, 6), np.float32
    )
    together = BOTH[name](np.concatenate([companions, x]))
    assert_same_bits(together[3:], BOTH[name](x))
    for row in range(3):
        assert_same_bits(BOTH[name](x[row]), together[3 + row])


# ---- modules


@pytest.mark.parametrize("features", [4, (3, 4)])
def test_a_layer_norm_without_shift(features):
    """γ x̂, and nothing is learned besides γ; the same bits as with β = 0."""
    x, module, whole = normal(0, (2, 3, 4)), LayerNorm(features, bias=False), LayerNorm(features)
    assert [name for name, _ in module.named_parameters()] == ["gain"]
    module.gain.data[...] = whole.gain.data[...] = normal(1, features)
    assert_same_bits(module(x), whole(x))
    check(lambda x, p: module.bind(p)(x), (x, module.state_dict()))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_modules_over_several_last_axes(kind, shape):
    """The same as with these axes as one, value and gradients."""
    x, one, several = normal(0, (5, 2, 3, 4)), kind(int(np.prod(shape))), kind(shape)
    for k, (p, q) in enumerate(zip(one.parameters(), several.parameters(), strict=True)):
        q.data[...] = normal(k, shape)
        p.data[...] = q.data.reshape(-1)
    flat = ad.Tensor(x.reshape(-1, int(np.prod(shape))), requires_grad=True)
    whole = ad.Tensor(x, requires_grad=True)
    one(flat).backward(flat.data)
    several(whole).backward(x)
    assert_same_bits(several(x), one(flat.data).reshape(x.shape))
    assert_same_bits(whole.grad, flat.grad.reshape(x.shape))
    for p, q in zip(one.parameters(), several.parameters(), strict=True):
        assert_same_bits(q.grad, p.grad.reshape(shape))


# ---- others, and errors


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
@pytest.mark.parametrize("features", [1, 3])
def test_a_constant_row_of_complex_numbers_has_gradient_0_without_eps(norm, features):
    """NumPy's complex x/∞ is NaN, and the complex step comes with complex rows."""
    x = np.full((2, features), 0j if norm is rms_norm else 1 + 0j)
    y, pullback = ad.vjp(lambda x: norm(x, eps=0.0), x)
    assert_same_bits(y.real, np.zeros(x.shape))
    assert_same_bits(pullback(np.arange(1.0, 2 * features + 1).reshape(x.shape) + 0j)[0].real, np.zeros(x.shape))


@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_row_that_is_not_finite_has_the_gradient_of_the_page(features, number):
    """Also where ȳ is the same everywhere, of which a row of two numbers leaves 0."""
    x = np.linspace(1, 2, 2 * features).reshape(2, features)
    x[0, 0] = number
    gradient = ad.grad(lambda x: ad.sum(layer_norm(x)))
    with np.errstate(invalid="ignore"), plain():
        expected = gradient(x)
    assert_same_bits(np.isnan(gradient(x)), np.isnan(expected))
