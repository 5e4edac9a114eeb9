"""ConvCNPs off and on the grid, their losses as functions of all parameters and data, and the sums over windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.layers.activations import silu
from refnp.layers.set_convolutions import Grid, GridOptions, set_convolution
from refnp.layers.unet import PooledUNet, SimpleCNN, UNet
from refnp.models.convcnp import ConvCNP, Encoding, Head
from refnp.models.convcnp_image import OnGridConvCNP, OnPixels
from refnp.verify.case import GradientInputs, Without, gradient_of, module_gradient
from refnp.verify.layers.neural_processes import loss_gradient, sets

WITHOUT = (
    Without(
        "equation",
        ("ConvCNP", "OnGridConvCNP"),
        "they are layers that have theirs; tests/models/convcnp_bounds.py puts their equations together",
    ),
)


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Windows in 1 and 2 dimensions, every option of a model at least once, ragged sets with an empty context."""
    rng = np.random.default_rng(seed)
    return _windows(rng) + _networks(rng) + _off_grid(rng) + _on_grid(rng)


def _windows(rng):
    found = []
    for lengths in ((9,), (4, 5)):
        name, last = f"{len(lengths)}-D", np.array(lengths) - 1
        x, scales = rng.uniform(0, last / 4, (2, 2, len(lengths))), rng.uniform(0.2, 0.4, 2)
        features, values = rng.normal(size=(2, 2, *lengths)), rng.normal(size=(2, 2, 2))
        grid = Grid(np.zeros((2, len(lengths)), int), lengths, 4.0)
        found += [
            gradient_of(f"from_grid, {name}", _from_grid, features, x, scales, grid=grid),
            gradient_of(f"to_grid, {name}", _to_grid, values, x, scales, grid=grid),
        ]
    return found


def _from_grid(features, x, scales, *, grid):
    return set_convolution(x, grid, features, scales, density=False)


def _to_grid(values, x, scales, *, grid):
    return set_convolution(grid, x, values, scales, density=False)


def _networks(rng):
    line = rng.normal(size=(2, 2, 8))
    unets = {
        "transposed": PooledUNet(2, (2, 3, 2), 1, kernel=3, strides=(2, 1, 2), rng=rng),
        "nearest": PooledUNet(2, (2, 3), 2, kernel=3, upsampling="nearest", rng=rng),
    }
    return [module_gradient(f"PooledUNet, {name}", unet, line) for name, unet in unets.items()]


def _off_grid(rng):
    unet = UNet(3, (2, 3), kernel=3, activation=silu, rng=rng)
    plain = SimpleCNN((2, 3, 2), kernel=3, dimensions=2, activation=silu, rng=rng)
    models = {
        "U-Net, joint": ConvCNP(
            unet, encoding=Encoding(channels=3), grid=GridOptions(4), head=Head(hidden=(3,)), rng=rng
        ),
        "2-D, separate": ConvCNP(
            plain,
            dx=2,
            dy=2,
            encoding=Encoding(channels=2, divide=False),
            grid=GridOptions(1),
            head=Head(separate=True, deviation="exp"),
            rng=rng,
        ),
        "neuralprocesses": ConvCNP.bruinsma((3, 3), grid=GridOptions(4), kernel=3, rng=rng),
    }
    return [loss_gradient(f"ConvCNP, {name}", model, *sets(rng, model.dx, model.dy)) for name, model in models.items()]


def _on_grid(rng):
    unet = UNet(3, (3,), kernel=3, dimensions=2, activation=silu, rng=rng)
    model = OnGridConvCNP(unet, colours=2, channels=3, activation=silu, kernel=3, rng=rng)
    image, known = rng.normal(size=(2, 2, 3, 4)), rng.random((2, 3, 4)) < 0.4
    pixels = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1], indexing="ij"), -1).reshape(9, 2)
    some = OnPixels(OnGridConvCNP(unet, colours=1, channels=3, activation=silu, kernel=3, divide=False, rng=rng), 3, 3)
    x, y = np.stack([pixels[:4], pixels[4:8]]), rng.normal(size=(2, 4, 1))

    def loss(image, parameters):
        twin: Any = model.bind(parameters)
        return twin.loss(image, known, target_mask=~known)

    return [
        gradient_of("OnGridConvCNP", loss, image, model.state_dict()),
        gradient_of("OnPixels", lambda y, p: some.bind(p)(x, y, x[:, ::-1]).log_prob(y), y, some.state_dict()),
    ]
