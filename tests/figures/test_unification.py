"""The pictures of docs/unification.md show what the layers compute: lines, dots and numbers against index loops."""

import numpy as np
import pytest

from refnp import figures
from refnp.figures import unification
from refnp.studies.trained import open_trained
from refnp.verify.bounds import unit_roundoff
from tests.helpers import assert_within

pytest.importorskip("matplotlib")
U = unit_roundoff(float)


@pytest.fixture(scope="module")
def of_weights():
    return figures.draw("attention-and-setconv")


@pytest.fixture(scope="module")
def of_steps():
    return figures.draw("setconv-pipeline")


def test_each_line_is_the_weight_of_a_point(of_weights):
    """exp(−|x − x_m|²/2ℓ²), and that over its sum; an exponent up to 242 rounds by three units of it."""
    w = unification.weights(np.linspace(-4, 4, 801))
    exponents = -(((w.x.astype(np.longdouble)[:, None] - unification.PLACES) / 0.25) ** 2) / 2
    k = np.exp(exponents)
    off = k * (3 * np.abs(exponents) + 8) * U
    assert_within(w.of_set_convolution, k, 2 * off)
    scores = 8 * U * 2 * (4 / 0.25) ** 2  # terms of a score, x x_m/ℓ² and x_m²/2ℓ², three roundings each, twice
    assert_within(w.of_attention, k / k.sum(1, keepdims=True), 2 * scores + 16 * U)
    for column, shown in ((0, w.of_set_convolution), (1, w.of_attention)):
        lines = of_weights.figure.axes[column].lines[: len(unification.PLACES)]
        np.testing.assert_array_equal(np.stack([line.get_ydata() for line in lines], 1), shown)


def test_sums_and_results_of_both(of_weights):
    """Left the density and S, right 1 and A; the numbers are of what is drawn."""
    w, numbers = unification.weights(np.linspace(-4, 4, 801)), of_weights.numbers
    axes = of_weights.figure.axes
    np.testing.assert_array_equal(axes[2].lines[0].get_ydata(), w.density)
    assert_within(axes[3].lines[0].get_ydata(), np.ones(801), 16 * U)
    assert numbers["largest density"] == w.density.max() > 2.5
    assert numbers["attention at x = 4"] == w.means[-1]
    second = np.exp(-(3.0**2 - 2.5**2) / 0.125)  # the weight of the second nearest, whose value is 1.2 less
    assert abs(w.means[-1] - unification.VALUES[-1]) < 1.21 * second
    assert abs(numbers["S at x = 4"]) < 1e-20
    assert abs(numbers["S/(density + 1e-8) at x = 4"]) < 1e-12
    np.testing.assert_allclose(numbers["ℓ√(2 log(1/ε)), where one point's value halves"], 1.517, atol=5e-4)


def test_the_pipeline_is_that_of_the_model(of_steps):
    """Density and signal point by point in longdouble; the read-out from the drawn channels is the prediction."""
    s, model = unification.steps(), open_trained("convcnp").model
    scales = np.exp(model.encoder.log_length_scale.data.astype(np.longdouble)) * np.ones(2)
    d = s.places[:, None] - s.x.astype(np.float32).astype(np.longdouble)
    k = [np.exp(-(d**2) / 2 / scale**2) for scale in scales]
    density = k[0].sum(1)
    single = unit_roundoff(np.float32)
    exponent = 20 * single * np.log(1 / single)  # weights that count have exponents to log(1/u), rounded to 20 units
    assert_within(s.density, density, exponent * density + 12 * single)
    near = density > 1e-3
    right = (k[1] @ s.y.astype(np.float32)) / (density + 1e-8)
    sizes = (k[1] @ np.abs(s.y)) / (density + 1e-8)
    assert_within(s.signal[near], right[near], (2 * exponent * sizes + 12e3 * single)[near])
    axes = of_steps.figure.axes
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), s.density)
    np.testing.assert_array_equal(axes[2].lines[0].get_ydata(), s.signal)
    np.testing.assert_array_equal(axes[4].lines[0].get_ydata(), s.mean)
    assert of_steps.numbers["places of the grid"] == len(s.density) == len(s.signal) == s.channels.shape[1]
    assert of_steps.numbers["places in a unit of x"] == model.grid_options.points_per_unit
    assert of_steps.numbers["channels of the network"] == model.network.channels_out
    assert of_steps.numbers["largest difference from the posterior mean"] == np.abs(s.mean - s.posterior).max() < 0.2
