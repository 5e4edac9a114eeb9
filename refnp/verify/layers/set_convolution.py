"""Set convolution and its kernels. No framework offers it."""

import numpy as np

from refnp import layers
from refnp.layers.set_convolution import matern_32, matern_52
from refnp.verify.case import (
    Case,
    GradientInputs,
    Layer,
    Without,
    exact_gradient,
    generator,
    gradient_of,
    module_gradient,
    normal,
    uniform,
)
from refnp.verify.judged_pages import by_page

SET_CONVOLUTION = Layer("set_convolution", layers.set_convolution, by_page(layers.set_convolution))


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


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Set convolution in 1 to 3 dimensions: plain, divided, masked, truncated, with other kernels, as a module."""
    rng = generator(seed, skip=2338)
    line, plane, space = (_points(rng, axes) for axes in (1, 2, 3))
    scale, scales = np.array(0.7), np.array([0.5, 0.9, 0.7])
    mask = np.array([[True, False, True, True, False], [True, True, True, False, True]])
    wide = rng.uniform(0, 40, (30, 1)), rng.uniform(0, 40, (20, 1)), rng.normal(size=(20, 2))
    module = layers.SetConvolution(2, 0.6, divide=True)
    function = layers.set_convolution
    return [
        gradient_of("set_convolution", function, *line, scale),
        gradient_of("set_convolution, 2-D", function, *plane, scale),
        gradient_of("set_convolution, 3-D", function, *space, scale),
        gradient_of("set_convolution, a length scale per channel", function, *plane, scales),
        gradient_of("set_convolution, without density", function, *line, scales[1:], density=False),
        gradient_of("set_convolution, divided", function, *line, scales, divide=True),
        gradient_of("set_convolution, masked", function, *line, scale, mask=mask, divide=True),
        gradient_of("set_convolution, truncated", function, *wide, scale, method="truncated"),
        gradient_of("set_convolution, Matérn-3/2", function, *plane, scale, kernel=matern_32),
        gradient_of("set_convolution, Matérn-5/2", function, *plane, scale, kernel=matern_52),
        exact_gradient("set_convolution, far from all points", function, SET_CONVOLUTION.equation, *FAR, np.array(1.0)),
        module_gradient("SetConvolution", module, *line),
    ]


FAR = np.array([[0.0], [9.0], [-30.0]]), np.array([[0.5], [-1.0]]), np.array([[2.0], [-3.0]])


def _points(rng: np.random.Generator, axes: int) -> tuple:
    """N = 4 targets and M = 5 context points with 2 channels, twice."""
    return rng.normal(size=(2, 4, axes)), rng.normal(size=(2, 5, axes)), rng.normal(size=(2, 5, 2))
