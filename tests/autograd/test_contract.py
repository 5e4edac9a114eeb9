"""What every operation of the engine keeps, whatever it computes: the factory that all of them pass through."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.forward import STEP
from tests.autograd.cases import CASES, Case, cast
from tests.helpers import (
    COMPLEX,
    assert_same_bits,
    assert_within,
    laid_out,
    layouts,
    real_dtypes,
    scales,
    seeds,
    shapes,
    unit_roundoff,
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@st.composite
def drawn(draw, case: Case, *, dtypes=real_dtypes):
    """Arguments for a case: shape, dtype, scale and values."""
    shape = draw(shapes(axes=case.axes).filter(case.accepts))
    dtype = draw(dtypes)
    scale = draw(scales) if case.scaled else 1.0
    return [cast(a, dtype, scale) for a in case.draw(np.random.default_rng(draw(seeds)), shape)]


def differentiable(argument):
    return argument.dtype.kind in "fc"


def directions(arguments, seed):
    """A tangent for every differentiable argument, None for the others."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(a.shape).astype(a.dtype) if differentiable(a) else None for a in arguments)


@every_case
@given(data=st.data(), layout=layouts)
def test_value_dtype_and_purity(case, data, layout):
    """The value is right to rounding, in the dtype given; arrays give arrays; the arguments are not written to."""
    arguments = data.draw(drawn(case))
    given_arrays = [laid_out(a, layout) for a in arguments]
    value = case.function(*given_arrays)
    assert isinstance(value, (np.ndarray, np.generic))
    floats = [a.dtype for a in arguments if differentiable(a)]
    assert value.dtype == floats[0]
    wide = [a.astype(np.longdouble) if differentiable(a) else a for a in arguments]
    reference = case.reference(*wide)
    assert np.isfinite(reference).all()
    u = unit_roundoff(value.dtype)
    assert_within(value, reference, case.bound(reference, wide, u) + np.finfo(value.dtype).smallest_subnormal)
    for before, after in zip(arguments, given_arrays, strict=True):
        assert_same_bits(after, before)


@every_case
@given(data=st.data(), seed=seeds)
def test_vjp_is_the_adjoint_of_jvp(case, data, seed):
    """⟨ȳ, J ẋ⟩ = ⟨Jᵀ ȳ, ẋ⟩, where reverse mode is the rule and forward mode the complex step: they share no code.

    Both sides are sums of at most N = Σ_ij 1 products ȳ_i J_ij ẋ_j, so they differ by rounding of order
    (N + k) u Σ_ij |ȳ_i| |J_ij| |ẋ_j|, k = 64 for the roundings in an element of J and the conditioning of the drawn
    inputs; and by underflow, which in the complex step begins at tiny/h. The cotangent is read-only, so that a rule
    that writes to it fails.
    """
    arguments = data.draw(drawn(case))
    tangents = directions(arguments, seed)
    value, pullback = ad.vjp(case.function, *arguments)
    y_bar = np.asarray(np.random.default_rng(seed + 1).standard_normal(np.shape(value)), value.dtype)
    y_bar.flags.writeable = False
    gradients = pullback(y_bar)
    _, forward = ad.jvp(case.function, tuple(arguments), tangents)
    pairs = [(g, t, a) for g, t, a in zip(gradients, tangents, arguments, strict=True) if t is not None]
    for gradient, _, argument in pairs:
        assert gradient.dtype == argument.dtype
        assert gradient.shape == argument.shape
        assert np.isfinite(gradient).all()
    wide = np.longdouble
    left = (y_bar.astype(wide) * forward.astype(wide)).sum()
    right = sum((g.astype(wide) * t.astype(wide)).sum() for g, t, _ in pairs)
    size, count = wide(0), 0
    for k, argument in enumerate(arguments):
        if differentiable(argument) and argument.size and y_bar.size:
            jacobian = np.abs(ad.jacobian(case.function, k)(*arguments)).astype(wide)
            terms = np.tensordot(np.abs(y_bar), jacobian, y_bar.ndim) * np.abs(tangents[k])
            size, count = size + terms.sum(), count + jacobian.size
    tiny = max(np.finfo(value.dtype).tiny, np.finfo(np.result_type(value.dtype, np.float64)).tiny / STEP)
    assert_within(left, right, (count + 64) * (unit_roundoff(value.dtype) * size + tiny))


@every_case
@given(data=st.data(), dtype=st.sampled_from(COMPLEX), seed=seeds)
def test_complex_arguments_carry_derivatives(case, data, dtype, seed):
    """On x + i h v every operation gives f(x) + i h J v, and a rule's gradient stays in that dtype as well."""
    arguments = data.draw(drawn(case, dtypes=st.just(dtype(0).real.dtype)))
    tangents = directions(arguments, seed)
    stepped = [a if t is None else (a + 1j * STEP * t).astype(dtype) for a, t in zip(arguments, tangents, strict=True)]
    value, pullback = ad.vjp(case.function, *stepped)
    assert value.dtype == dtype
    plain, forward = ad.jvp(case.function, tuple(arguments), tangents)
    u = unit_roundoff(dtype)
    wide = [a.astype(np.longdouble) if differentiable(a) else a for a in arguments]
    assert_within(
        value.real, plain, 2 * case.bound(case.reference(*wide), wide, u) + np.finfo(dtype).smallest_subnormal
    )
    assert_same_bits(value.imag / STEP, forward)
    for gradient, argument in zip(pullback(np.ones_like(value)), stepped, strict=True):
        assert gradient is None or (gradient.dtype == dtype and gradient.shape == argument.shape)


@pytest.mark.parametrize("case", [case for case in CASES if case.any_layout], ids=lambda case: case.name)
@given(data=st.data(), layout=layouts, seed=seeds)
def test_same_bits_from_any_memory_layout(case, data, layout, seed):
    arguments = data.draw(drawn(case))
    value, pullback = ad.vjp(case.function, *(laid_out(a, "C") for a in arguments))
    other, other_pullback = ad.vjp(case.function, *(laid_out(a, layout) for a in arguments))
    assert_same_bits(other, value)
    y_bar = np.asarray(np.random.default_rng(seed).standard_normal(np.shape(value)), value.dtype)
    for gradient, other_gradient in zip(pullback(y_bar), other_pullback(laid_out(y_bar, layout)), strict=True):
        assert gradient is None or assert_same_bits(other_gradient, gradient) is None


@every_case
@given(data=st.data(), seed=seeds)
def test_gradients_may_be_added_to_in_place(case, data, seed):
    """The walk back adds to what a rule returned, in place; this changes nothing for the rule or the caller.

    Every argument is used by the operation and, before and after it, by a multiplication; the same pullback twice.
    """
    arguments = data.draw(drawn(case))

    def also_elsewhere(*given):
        before = [ad.multiply(a, 2.0) for a in given if a.dtype.kind in "fc"]
        y = case.function(*given)
        return [*before, y, *(ad.multiply(a, 3.0) for a in given if a.dtype.kind in "fc")]

    values, pullback = ad.vjp(also_elsewhere, *arguments)
    rng = np.random.default_rng(seed)
    bars = [np.asarray(rng.standard_normal(np.shape(v)), v.dtype) for v in values]
    first, second = pullback(bars), pullback(bars)
    alone = ad.vjp(case.function, *arguments)[1](bars[len(values) // 2])
    floats = [k for k, a in enumerate(arguments) if differentiable(a)]
    for place, k in enumerate(floats):
        assert_same_bits(second[k], first[k])
        before, after = bars[place] * 2.0, bars[len(values) // 2 + 1 + place] * 3.0
        u = unit_roundoff(first[k].dtype)
        assert_within(first[k], alone[k] + before + after, 8 * u * (abs(alone[k]) + abs(before) + abs(after)))


@every_case
@given(data=st.data())
def test_tape_is_written_only_when_needed(case, data):
    arguments = data.draw(drawn(case))
    constants = [ad.Tensor(a) for a in arguments]
    result = case.function(*constants)
    assert isinstance(result, ad.Tensor)
    assert result.node is None
    assert not result.requires_grad
    leaves = [ad.Tensor(a, requires_grad=differentiable(a)) for a in arguments]
    with ad.no_grad():
        assert case.function(*leaves).node is None
    result = case.function(*leaves)
    assert result.node is not None
    assert result.requires_grad
    assert_same_bits(result.numpy(), case.function(*arguments))


@every_case
@given(data=st.data())
def test_one_tensor_among_arrays_gets_the_same_gradient(case, data):
    """Each argument alone as a leaf, the others plain arrays: the gradient is the one that it has among leaves."""
    arguments = data.draw(drawn(case))
    value, pullback = ad.vjp(case.function, *arguments)
    together = pullback(np.ones_like(value))
    for k, argument in enumerate(arguments):
        if differentiable(argument):
            leaf = ad.Tensor(argument, requires_grad=True)
            case.function(*arguments[:k], leaf, *arguments[k + 1 :]).backward(np.ones_like(value))
            assert_same_bits(leaf.grad, together[k])
