"""Layers on sets of points: set convolution in its forms."""

from __future__ import annotations

import numpy as np

from refnp.layers.set_convolutions import SetConvolution, set_convolution
from refnp.layers.set_convolutions.kernels import matern_32, matern_52
from refnp.verify.operations.operation import Operation


def operations(rng: np.random.Generator) -> list[Operation]:
    """Set convolution in 1 to 3 dimensions: plain, divided, masked, truncated, with other kernels, as a module."""
    line, plane, space = (_points(rng, axes) for axes in (1, 2, 3))
    scale, scales = np.array(0.7), np.array([0.5, 0.9, 0.7])
    mask = np.array([[True, False, True, True, False], [True, True, True, False, True]])
    spread = rng.uniform(0, 40, (30, 1)), rng.uniform(0, 40, (20, 1)), rng.normal(size=(20, 2))
    module = SetConvolution(2, 0.6, divide=True)

    def with_options(**options):
        return lambda *arrays: set_convolution(*arrays, **options)

    return [
        Operation("set_convolution", set_convolution, (*line, scale)),
        Operation("set_convolution, 2-D", set_convolution, (*plane, scale)),
        Operation("set_convolution, 3-D", set_convolution, (*space, scale)),
        Operation("set_convolution, a length scale per channel", set_convolution, (*plane, scales)),
        Operation("set_convolution, without density", with_options(density=False), (*line, scales[1:])),
        Operation("set_convolution, divided", with_options(divide=True), (*line, scales)),
        Operation("set_convolution, masked", with_options(mask=mask, divide=True), (*line, scale)),
        Operation("set_convolution, truncated", with_options(method="truncated"), (*spread, scale)),
        Operation("set_convolution, Matérn-3/2", with_options(kernel=matern_32), (*plane, scale)),
        Operation("set_convolution, Matérn-5/2", with_options(kernel=matern_52), (*plane, scale)),
        Operation("SetConvolution", lambda *a: module.bind(a[-1])(*a[:-1]), (*line, module.state_dict())),
    ]


def _points(rng: np.random.Generator, axes: int) -> tuple:
    """Two sets: 4 targets and 5 points with 2 channels each."""
    return rng.normal(size=(2, 4, axes)), rng.normal(size=(2, 5, axes)), rng.normal(size=(2, 5, 2))
