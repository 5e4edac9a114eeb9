"""Set convolution and its kernels. No framework offers it."""

import numpy as np

from refnp import layers
from refnp.verify.case import (
    Case,
    GradientInputs,
    Without,
    exact_gradient,
    gradient_of,
    module_gradient,
    normal,
    uniform,
)
from refnp.verify.judged_pages import of_page

ALL_PAIRS = {"method": ("auto", "dense")}  # what the truncated form leaves out has a bound of its own
SET_CONVOLUTION = of_page(layers.set_convolution, tried=ALL_PAIRS)


def cases() -> list[Case]:
    """All cases of this page."""

    def case(variant, *, targets=7, points=5, axes=1, channels=1, scale=0.4, reach=1.0, **options):
        inputs = {
            "target_x": uniform(targets, axes, low=-reach, high=reach),
            "context_x": uniform(points, axes, low=-reach, high=reach),
            "context_y": normal(points, channels),
            "length_scale": np.asarray(scale),
        }
        return Case(SET_CONVOLUTION, variant, inputs, options)

    return [
        case("1-D"),
        case("2-D", axes=2),
        case("3-D, two channels", axes=3, channels=2),
        case("a length scale for each channel", channels=2, scale=[0.2, 0.5, 1.0]),
        case("divided by the density", channels=2, divide=True, eps=0.1),
        case("one point", points=1),
        case("empty set", points=0),
        case("far points", reach=8.0),
        case("shifted by 1e3", scale=0.7, reach=1.0e3),
    ]


WITHOUT = tuple(
    Without(what, ("Grid", "GridOptions"), "places are numbered by whole numbers, which have no gradient")
    for what in ("equation", "gradient inputs")
)


def gradient_inputs() -> list[GradientInputs]:
    """Channels of several length scales; near points alone; far from all points; and as a module."""
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(2, 4, 2)), rng.normal(size=(2, 5, 2)), rng.normal(size=(2, 5, 2))
    wide = rng.uniform(0, 40, (30, 1)), rng.uniform(0, 40, (20, 1)), rng.normal(size=(20, 2))
    function, scales = layers.set_convolution, np.array([0.5, 0.9, 0.7])
    return [
        gradient_of("set_convolution, a length scale per channel", function, *plane, scales),
        gradient_of("set_convolution, truncated", function, *wide, np.array(0.7), method="truncated"),
        exact_gradient("set_convolution, far from all points", function, SET_CONVOLUTION.equation, *FAR, np.array(1.0)),
        module_gradient("SetConvolution", layers.SetConvolution(2, 0.6, divide=True), *plane),
    ]


FAR = np.array([[0.0], [9.0], [-30.0]]), np.array([[0.5], [-1.0]]), np.array([[2.0], [-3.0]])
