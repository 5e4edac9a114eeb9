"""What every operation of the engine keeps, whatever it computes: the factory that all of them pass through."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.forward import STEP
from tests.autograd.cases import CASES, Case, cast
from tests.helpers import (
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
