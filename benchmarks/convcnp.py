"""One training step of a ConvCNP: forward, backward, Adam; and its prediction from 100 000 context points.

The models of Gordon et al. for functions of one number, with a length scale for every channel of every set convolution:

    density and values at 64 places per unit → linear map, sigmoid → CNN or U-Net → two set convolutions → mean, σ

on 16 tasks of Bruinsma's protocol, 30 context points and 50 targets in (−2, 2), on refnp's grid.
The loss is minus the mean log likelihood. refnp with its ConvCNP; PyTorch with sums over all pairs of a point and a
place, as published code has them, and conv1d. Both compute everything but the grid.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import training
from benchmarks.convolutions import needs_of_network
from benchmarks.timing import Needs, Side, Work

POINTS_PER_UNIT = 64
AIMS = {"simple": 0.45, "xl": 0.15}  # what it took when the aims were set; it is to stay so
ARCHITECTURES = {"simple": "ConvCNP SimpleConv step", "xl": "ConvCNP U-Net XL step"}


@dataclass(frozen=True)
class Sizes:
    batch: int = 16
    contexts: int = 30
    targets: int = 50
    half: float = 2.0  # x from −half to half
    many: int = 100_000


def works(sizes: Sizes | None = None) -> list[Work]:
    sizes = sizes or Sizes()
    steps = [
        Work(
            name,
            dtype,
            {framework: functools.partial(side, framework, sizes, architecture, dtype) for framework in STEPS},
            terms=sizes.batch * sizes.targets + 2000,
            aims={"torch": AIMS[architecture]},
            needs=needs_of(architecture, sizes, dtype),
        )
        for architecture, name in ARCHITECTURES.items()
        for dtype in ("float32", "float64")
    ]
    return [*steps, many_points(sizes)]


def needs_of(architecture: str, sizes: Sizes, dtype: str) -> Needs:
    """What a step takes at least: the layers of the network, and the pairs of a point and a place that count.

    A pair has an exponential for each channel, and 8 operations: 3 for the exponent, its product with the value and the
    sum, 3 for the gradients of values and length scale. The map to the network's channels has a sigmoid a number.
    """
    from refnp.kernels.set_convolution_near import half_width

    model, data = model_of(architecture, dtype), task(sizes, dtype, batch=sizes.batch, contexts=sizes.contexts)
    length, unit, pairs = model.grid(data.context_x, data.target_x).lengths[0], float(np.finfo(dtype).eps) / 2, 0
    network = {}
    for name, parameter in model.named_parameters():
        if name.endswith("log_length_scale"):
            points = sizes.contexts if name.startswith("encoder") else sizes.targets
            half = half_width(float(np.exp(parameter.data).max()), POINTS_PER_UNIT, unit, np.dtype(dtype))
            pairs += sizes.batch * points * min(2 * half + 1, length) * parameter.size
        elif name.startswith("network."):
            network[name.removeprefix("network.")] = parameter.shape
    needs = needs_of_network(network, sizes.batch, length)
    lifted = sizes.batch * length * model.lift.weight.shape[1]
    return Needs(needs.products, pairs + lifted, needs.passes + 8 * pairs + 3 * lifted)


def many_points(sizes: Sizes) -> Work:
    """A prediction, without gradients, from `many` context points."""
    return Work(
        f"ConvCNP, {sizes.many} contexts",
        "float32",
        {framework: functools.partial(prediction, framework, sizes) for framework in PREDICTIONS},
        terms=sizes.many,
        memory=True,
        aims={"memory": 1000.0},
    )


def task(sizes: Sizes, dtype: str, *, batch: int, contexts: int) -> SimpleNamespace:
    rng = np.random.default_rng(0)
    x = rng.uniform(-sizes.half, sizes.half, (batch, contexts + sizes.targets, 1)).astype(dtype)
    y = np.sin(5 * x) + rng.normal(0, 0.2, x.shape).astype(dtype)
    n = contexts
    return SimpleNamespace(
        context_x=x[:, :n],
        context_y=y[:, :n],
        target_x=x[:, n:],
        target_y=y[:, n:],
        context_mask=None,
        target_mask=None,
    )


def model_of(architecture: str, dtype: str) -> Any:
    """With length scales that differ, as after a few steps of training."""
    from refnp.layers.set_convolution import GridOptions
    from refnp.models.convcnp import ConvCNP

    rng = np.random.default_rng(0)
    model = ConvCNP.gordon(architecture, grid=GridOptions(POINTS_PER_UNIT), rng=rng)
    for name, parameter in model.named_parameters():
        if name.endswith("log_length_scale"):
            parameter.data = parameter.data + rng.normal(0, 0.1, parameter.shape)
    return model.astype(dtype)


def side(framework: str, sizes: Sizes, architecture: str, dtype: str) -> Side:
    data = task(sizes, dtype, batch=sizes.batch, contexts=sizes.contexts)
    return STEPS[framework](model_of(architecture, dtype), data)


def step_in_refnp(model: Any, data: SimpleNamespace) -> Side:
    return training.by_refnp(lambda: model.loss(data), model.parameters())


def step_in_torch(model: Any, data: SimpleNamespace) -> Side:
    import torch

    leaves = {name: torch.nn.Parameter(torch.from_numpy(a)) for name, a in model.state_dict().items()}
    wanted = torch.from_numpy(data.target_y)
    predict = in_torch(leaves, model, data)

    def loss() -> Any:
        mean, std = predict()
        return -torch.distributions.Normal(mean, std, validate_args=False).log_prob(wanted).mean()

    return training.by_torch(loss, list(leaves.values()), lambda: [leaf.grad.numpy() for leaf in leaves.values()])


def in_torch(w: dict, model: Any, data: SimpleNamespace) -> Callable[[], tuple]:
    """Mean and deviation, from weights by refnp's names."""
    import torch
    from torch.nn import functional as F

    x, y, targets = (torch.from_numpy(a) for a in (data.context_x, data.context_y, data.target_x))
    grid = model.grid(data.context_x, data.target_x)
    first = torch.from_numpy((grid.start / POINTS_PER_UNIT).astype(data.context_x.dtype))[:, None]
    places = torch.arange(grid.size).to(x.dtype) / POINTS_PER_UNIT
    x, targets = x - first, targets - first
    values = torch.cat([torch.ones_like(y), y], -1).transpose(1, 2)  # (B, 1 + dy, N)

    def weights(away: Any, log_scale: Any) -> Any:
        """exp(−d²/2ℓ²) for each channel, (B, C, …, …)."""
        return torch.exp(-0.5 * (away[:, None] / torch.exp(log_scale)[:, None, None]) ** 2)

    def decoded(h: Any, name: str) -> Any:
        found = torch.einsum("bctk,bck->btc", weights(targets - places, w[f"{name}.convolution.log_length_scale"]), h)
        return found @ w[f"{name}.mlp.layers.0.weight"] + w[f"{name}.mlp.layers.0.bias"]

    def predict() -> tuple:
        z = torch.einsum("bcnk,bcn->bck", weights(x - places, w["encoder.log_length_scale"]), values)
        z = torch.cat([z[:, :1], z[:, 1:] / (z[:, :1] + 1e-8)], 1)
        h = torch.sigmoid(F.conv1d(z, w["lift.weight"].T[..., None], w["lift.bias"]))
        h = simple_in_torch(w, h) if model.head.rectified else unet_in_torch(w, h)
        return decoded(h, "decoders.0"), F.softplus(decoded(h, "decoders.1"))

    return predict


def simple_in_torch(w: dict, h: Any) -> Any:
    from torch.nn import functional as F

    for i in range(4):
        h = F.relu(F.conv1d(h, w[f"network.layers.{i}.weight"], w[f"network.layers.{i}.bias"], padding=2))
    return h


def unet_in_torch(w: dict, h: Any) -> Any:
    import torch
    from torch.nn import functional as F

    seen = []
    for i in range(6):
        seen.append(h)
        name = f"network.down.{i}"
        h = F.relu(F.conv1d(h, w[f"{name}.weight"], w[f"{name}.bias"], stride=2, padding=2))
    for i in range(6):
        name = f"network.up.{i}"
        h = F.conv_transpose1d(h, w[f"{name}.weight"], w[f"{name}.bias"], stride=2, padding=2, output_padding=1)
        h = torch.cat([seen.pop(), F.relu(h)], 1)
    return h


def prediction(framework: str, sizes: Sizes) -> Side:
    data = task(sizes, "float32", batch=1, contexts=sizes.many)
    return PREDICTIONS[framework](model_of("simple", "float32"), data)


def prediction_in_refnp(model: Any, data: SimpleNamespace) -> Side:
    from refnp.autograd import no_grad

    def run() -> Any:
        with no_grad():
            return model(data.context_x, data.context_y, data.target_x)

    def result() -> tuple[list, list]:
        found = run()
        return [found.mean, found.std], []

    return Side(run, result)


def prediction_in_torch(model: Any, data: SimpleNamespace) -> Side:
    import torch

    predict = in_torch({name: torch.from_numpy(a) for name, a in model.state_dict().items()}, model, data)

    def run() -> tuple:
        with torch.no_grad():
            return predict()

    return Side(run, lambda: ([a.numpy() for a in run()], []))


STEPS = {"refnp": step_in_refnp, "torch": step_in_torch}
PREDICTIONS = {"refnp": prediction_in_refnp, "torch": prediction_in_torch}
