"""How densities, losses and divergences are judged, value and gradients; and Cholesky factors to draw."""

import numpy as np

import refnp.autograd as ad
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import assert_within, normal


def assert_as_derived(function, equation, arguments, **options):
    """Value and gradients within the bound of running error analysis, all in the dtype of the arguments.

    Returns the value and its `Rounded` counterpart, for a third opinion.
    """
    dtype = arguments[0].dtype
    value, pullback = ad.vjp(lambda *a: function(*a, **options), *arguments)
    rounded, rounded_pullback = equation(*map(exact, arguments))
    assert value.dtype == dtype
    assert_within(value, rounded.value, tolerance(rounded, dtype))
    cotangent = normal(1, np.shape(value), dtype)
    gradients, expected = pullback(cotangent), rounded_pullback(exact(cotangent))
    for gradient, bar in zip(gradients, expected, strict=True):
        assert gradient.dtype == dtype
        assert_within(gradient, bar.value, tolerance(bar, dtype))
    return value, rounded


def factors(rng, batch, n, dtype=np.float64, scale=1.0):
    """Cholesky factors (*batch, n, n) with diagonals between scale/3 and 3·scale, and rubbish above them."""
    factor = np.asarray(rng.standard_normal((*batch, n, n)))
    factor[..., np.arange(n), np.arange(n)] = 3 ** rng.uniform(-1, 1, (*batch, n))
    return (scale * factor).astype(dtype)
