"""Cases of set convolution, which no framework offers: refnp in float32 and float64 against the textbook."""

from __future__ import annotations

import numpy as np

from refnp.layers.set_convolutions import set_convolution
from refnp.verify.case import Case, Layer, normal, uniform
from refnp.verify.equations.set_convolution import set_convolution as equation

SET_CONVOLUTION = Layer("set_convolution", set_convolution, equation)


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
        case("divided by the density", channels=2, divide=True),
        case("one point", points=1),
        case("empty set", points=0),
        case("far points", reach=8.0),
        case("shifted by 1e3", scale=0.7, reach=1.0e3),
    ]
