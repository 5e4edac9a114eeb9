"""Activations: against mpmath, against running error analysis, at kinks, in the tails and at infinity."""

import functools

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.kernels import activation as kernels
from refnp.layers import activation as activations
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.judged_pages import by_page
from refnp.verify.layers import engine
from tests.helpers import REAL, assert_same_bits, assert_within, check, normal, unit_roundoff
from tests.transcriptions import activations as printed

OPTIONS = {
    "relu": {},
    "leaky_relu": {},
    "leaky_relu, slope 0.2": {"slope": 0.2},
    "elu": {},
    "elu, α = 0.7": {"alpha": 0.7},
    "sigmoid": {},
    "softplus": {},
    "softplus, β = 2.5": {"beta": 2.5},
    "softplus, β = 0.3": {"beta": 0.3},
    "silu": {},
    "gelu": {},
    "gelu, tanh": {"approximate": "tanh"},
}


def form(name, options):
    """(function, its page as an equation, its transcription), with options."""
    function = getattr(activations, name.partition(",")[0])
    if options.get("approximate") == "tanh":
        transcription = printed.gelu_tanh
    else:
        transcription = functools.partial(getattr(printed, function.__name__), **options)
    return functools.partial(function, **options), functools.partial(by_page(function), **options), transcription


FORMS = {name: form(name, options) for name, options in OPTIONS.items()}
of_limits = pytest.mark.parametrize("name", [n for n, f in FORMS.items() if f[0].func.kernel or n.startswith("elu")])


def points(dtype):
    """Both sides of 0, the bends, and tails as far as results are normal numbers."""
    rng = np.random.default_rng(0)
    sizes = np.concatenate([10.0 ** rng.uniform(-12, 0, 12), rng.uniform(0, 5, 24), rng.uniform(5, 13, 12), [40, 80]])
    return np.concatenate([-sizes, sizes]).astype(dtype)


@of_limits
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinite_and_largest_numbers(name, dtype):
    """The limits; no NaN, and no warning, which would be an error here."""
    function = FORMS[name][0]
    largest = np.finfo(dtype).max
    x = np.array([-np.inf, -largest, -1e30, 1e30, largest, np.inf], dtype)
    y, pullback = ad.vjp(function, x)
    (slope,) = pullback(np.ones_like(y))
    left, left_slope = {
        "leaky_relu": (x[:3] * dtype(0.01), 0.01),
        "leaky_relu, slope 0.2": (x[:3] * dtype(0.2), 0.2),
        "elu": (-1, 0),
        "elu, α = 0.7": (-0.7, 0),
    }.get(name, (0, 0))
    right, right_slope = (1, 0) if name == "sigmoid" else (x[3:], 1)
    np.testing.assert_array_equal(
        y, np.concatenate([np.broadcast_to(left, 3), np.broadcast_to(right, 3)]).astype(dtype)
    )
    np.testing.assert_array_equal(slope, np.repeat([left_slope, right_slope], 3).astype(dtype))


@of_limits
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_slope_at_nan_is_nan(name, dtype):
    _, pullback = ad.vjp(FORMS[name][0], np.array([1.0, np.nan, -1.0], dtype))
    (gradient,) = pullback(np.ones(3, dtype))
    assert np.isnan(gradient).tolist() == [False, True, False]
    assert gradient.dtype == dtype


@pytest.mark.parametrize(("name", "slope"), [("relu", 0), ("leaky_relu", 0.01), ("elu, α = 0.7", 0.7), ("elu", 1)])
def test_slope_at_the_kink_is_that_of_the_left_side(name, slope):
    _, pullback = ad.vjp(FORMS[name][0], np.zeros(1))
    assert pullback(np.ones(1))[0] == slope
    report = check(FORMS[name][0], (np.array([0.0, 1.0]),))
    assert len(report.kinks) == (0 if name == "elu" else 1)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize(("beta", "threshold"), [(1.0, 20), (2.0, 3.0), (0.5, -1.0), (8.0, 0)])
def test_softplus_is_linear_above_its_threshold(beta, threshold, dtype):
    """Value and slope as printed on both sides; at the threshold itself the logarithm, as in PyTorch."""
    options = {"beta": beta, "threshold": threshold}
    x = np.concatenate([points(dtype) / dtype(max(beta, 1)), np.array([threshold / beta], dtype)])
    y, pullback = ad.vjp(lambda x: activations.softplus(x, **options), x)
    (slope,) = pullback(np.ones_like(y))
    rounded, rounded_pullback = activations.softplus.page(exact(x), **options)
    above = x * dtype(beta) > threshold
    assert_same_bits(y[above], x[above])
    assert_same_bits(slope[above], np.ones(above.sum(), dtype))
    transcription = functools.partial(printed.softplus, **options)
    assert_within(y, printed.evaluated(transcription, x), tolerance(rounded, dtype))
    (bound,) = rounded_pullback(exact(np.ones_like(y)))
    below = ~above & (x * dtype(beta) < threshold)  # not at the jump, where there is no derivative
    expected = printed.evaluated(functools.partial(printed.softplus, beta=beta), x[below], 1)
    assert_within(slope[below], expected, tolerance(bound, dtype)[below])


@pytest.mark.parametrize("dtype", REAL)
def test_softplus_where_beta_times_x_overflows(dtype):
    largest = np.finfo(dtype).max
    x = np.array([-largest, -1.0, 1.0, largest], dtype)
    y, pullback = ad.vjp(lambda x: activations.softplus(x, beta=1e5), x)
    np.testing.assert_array_equal(y, [0, 0, 1, largest])
    np.testing.assert_array_equal(pullback(np.ones_like(y))[0], [0, 0, 1, 1])


EVERY_HALF = np.arange(2**16, dtype=np.uint16).view(np.float16)
EVERY_HALF = EVERY_HALF[np.isfinite(EVERY_HALF)]
SPECIAL = {"erf": (ad.erf, engine.ERF.equation), "erfc": (ad.erfc, engine.ERFC.equation)}


@pytest.mark.parametrize("name", [*FORMS, *SPECIAL])
def test_every_number_of_float16(name):
    """All 63 488: float32's error, and one rounding to float16, of the value and of the gradient."""
    function, equation = (FORMS | SPECIAL)[name][:2]
    y, pullback = ad.vjp(function, EVERY_HALF)
    (slope,) = pullback(np.ones_like(y))
    rounded, rounded_pullback = equation(exact(EVERY_HALF))
    (rounded_slope,) = rounded_pullback(exact(np.ones_like(y)))
    for value, right in ((y, rounded), (slope, rounded_slope)):
        assert value.dtype == np.float16
        limit = tolerance(right, np.float32)
        half_a_unit = 2.0**-11 * (np.abs(right.value) + limit) + 2.0**-25
        assert_within(value, right.value, limit + half_a_unit)


SHORTER = {
    "sigmoid": activations.sigmoid,
    "silu": activations.silu,
    "gelu": activations.gelu,
    "gelu, tanh": functools.partial(activations.gelu, approximate="tanh"),
}


@pytest.mark.parametrize("name", SHORTER)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moderate_arguments_take_a_shorter_way_to_the_same(name, dtype, monkeypatch):
    """The short forms, which are for speed, against the plain ones, which large arguments take."""
    function = SHORTER[name]
    wide = np.linspace(-1, 1, 4001) * (0.999 * kernels.MODERATE)
    x = np.concatenate([wide, normal(0, 4000)]).astype(dtype)
    short, pullback = ad.vjp(function, x)
    (short_slope,) = pullback(np.ones_like(x))
    monkeypatch.setattr(kernels, "is_moderate", lambda x: False)
    plain, pullback = ad.vjp(function, x)
    (plain_slope,) = pullback(np.ones_like(x))
    unit, tiny = unit_roundoff(dtype), np.finfo(dtype).smallest_normal
    assert_within(short, plain, 8 * unit * abs(plain) + 8 * tiny)
    parts = 0 if name == "sigmoid" else abs(plain / np.where(x == 0, 1, x))  # x f + f is a sum of two such terms
    assert_within(short_slope, plain_slope, 16 * unit * (abs(plain_slope) + parts) + 8 * tiny)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 81.0, -81.0])
def test_one_immoderate_argument_among_many(value):
    """It takes its own value and leaves those of the others, in all these functions."""
    x = np.append(normal(0, 9), value)
    assert not kernels.is_moderate(x)
    assert kernels.is_moderate(x[:9])
    assert not kernels.is_moderate(x[:0])
    for function in SHORTER.values():
        assert_within(function(x)[:9], function(x[:9]), 4 * unit_roundoff(np.float64) * abs(function(x[:9])))
