"""What operations of elements give for arguments that broadcast: NumPy's values, and gradients summed over new axes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from tests.helpers import assert_within, laid_out, layouts, normal, real_dtypes, scales, seeds, shapes, unit_roundoff

OF_ONE = ("absolute", "arctan", "cos", "cosh", "exp", "expm1", "log", "log1p", "negative", "sin", "sinh", "sqrt",
          "tanh")  # fmt: skip
OF_TWO = ("add", "arctan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract")
POSITIVE = {"log", "log1p", "power", "sqrt"}
GROWING = {"cosh", "exp", "expm1", "power", "sinh"}  # whose values would overflow
JUMPING = {"cos", "remainder", "sin"}  # which lose what rounding takes from a large argument


@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO, "where", "clip"])
@given(data=st.data(), seed=seeds, dtype=real_dtypes, layout=layouts, scale=scales)
def test_values_are_numpys_and_gradients_are_summed(name, data, seed, dtype, layout, scale):
    """In the dtype given, whatever broadcasts with what; the gradients are those of the arrays that are broadcast."""
    shape, rng = data.draw(shapes()), np.random.default_rng(seed)
    scale = 1.0 if name in GROWING | JUMPING else scale
    others = [partner(rng, shape) for _ in range(0 if name in OF_ONE else 2 if name == "clip" else 1)]
    arrays = [normal(rng, s, dtype, scale) for s in (shape, *others)]
    if name in POSITIVE:
        arrays[0] = np.abs(arrays[0]) + dtype(0.1)
    if name in ("divide", "remainder"):
        arrays[1] = np.copysign(2.0 ** rng.integers(0, 3, others[0]), arrays[1]).astype(dtype)
    condition = [rng.random(partner(rng, shape)) < 0.5] if name == "where" else []
    if name == "clip":
        arrays[2] = arrays[2] + 2 * dtype(scale)
    function = getattr(ad, name)
    value, pullback = ad.vjp(lambda *a: function(*condition, *a), *(laid_out(a, layout) for a in arrays))
    wide = [a.astype(np.longdouble) for a in arrays]
    right = np.minimum(np.maximum(*wide[:2]), wide[2]) if name == "clip" else getattr(np, name)(*condition, *wide)
    rounding = np.abs(right) + (sum(map(np.abs, wide)) if name in JUMPING else 0)
    assert value.dtype == dtype
    assert_within(value, right, 8 * unit_roundoff(dtype) * rounding + np.finfo(dtype).smallest_subnormal)
    full = [np.array(a) for a in np.broadcast_arrays(*condition, *arrays)]
    _, of_all = ad.vjp(lambda *a: function(*full[: len(condition)], *a), *full[len(condition) :])
    bar = normal(rng, value.shape, dtype)
    for found, each, array in zip(pullback(bar), of_all(bar), arrays, strict=True):
        assert (found.dtype, found.shape) == (dtype, array.shape)
        axes = tuple(range(each.ndim - array.ndim))
        ones = tuple(i for i, n in enumerate(array.shape, len(axes)) if n == 1)
        total, size = (f(each.astype(np.longdouble)).sum(axes + ones, keepdims=True).reshape(array.shape)
                       for f in (np.positive, np.abs))  # fmt: skip
        assert_within(found, total, (each.size + 8) * unit_roundoff(dtype) * size)


def partner(rng, shape):
    """A shape that broadcasts with `shape`: some axes of length 1, some leading ones missing."""
    other = [1 if rng.random() < 0.3 else n for n in shape]
    return tuple(other[rng.integers(0, len(other) + 1) :] if rng.random() < 0.4 else other)
