"""How far the predictions of a ConvCNP may be from exact ones: its equations in numbers that know their rounding."""

import numpy as np

from refnp.layers.unet import UNet
from refnp.verify import rounding
from refnp.verify.layers.activations import relu, sigmoid, softplus
from refnp.verify.layers.convolution import convolution, convolution_transpose
from refnp.verify.layers.set_convolution import set_convolution
from refnp.verify.rounding import Rounded, contract, exact, tolerance


def predicted(model, grid, context_x, context_y, target_x, mask=None, *, positions=0.0):
    """Bounds on mean and deviation, (B, T, dy), of a model with separate decoders without hidden layers.

    `positions` is an error of the given positions, in units of the roundoff.
    """
    dtype, state = context_y.dtype, {name: exact(array) for name, array in model.state_dict().items()}
    origin = (grid.start / grid.points_per_unit)[:, None]
    mask = np.ones(context_x.shape[:2], bool) if mask is None else mask
    there = np.where(mask[..., None], context_x, origin.astype(dtype))
    x, t = (Rounded(a, positions) - exact(origin) for a in (there, target_x))
    places = exact(np.broadcast_to(_places(grid), (len(context_x), grid.size, context_x.shape[-1])))
    scales = rounding.exp(state["encoder.log_length_scale"])
    values = exact(np.where(mask[..., None], context_y, 0))
    divide, eps = (model.encoder.options[name] for name in ("divide", "eps"))
    z, _ = set_convolution(places, x, values, scales, mask=mask, divide=divide, eps=eps)
    z = left_out(z, 2 * np.abs(values.value).max(initial=1))  # pairs below u ε/N, divided by ρ + ε ≥ ε
    h, _ = sigmoid(mapped(z, state["lift.weight"], state["lift.bias"]))
    h = h.swapaxes(1, 2).reshape(len(context_x), h.shape[-1], *grid.lengths)
    h = (_unet if isinstance(model.network, UNet) else _plain)(model.network, state, h)
    rows = (relu(h)[0] if model.head.rectified else h).reshape(*h.shape[:2], grid.size).swapaxes(1, 2)
    found = []
    for i in range(2):
        scales = rounding.exp(state[f"decoders.{i}.convolution.log_length_scale"])
        f, _ = set_convolution(t, places, rows, scales, density=False)
        f = left_out(f, np.abs(rows.value).max(initial=0))  # places below u/K of the nearest
        found.append(mapped(f, state[f"decoders.{i}.mlp.layers.0.weight"], state[f"decoders.{i}.mlp.layers.0.bias"]))
    return tolerance(found[0], dtype), tolerance(softplus(found[1])[0], dtype)


def _places(grid):
    along = np.meshgrid(*(np.arange(n) for n in grid.lengths), indexing="ij")
    return np.stack([a.ravel() for a in along], -1) / np.longdouble(grid.points_per_unit)


def left_out(z, size):
    """z with one more error, of `size` units."""
    return Rounded(z.value, z.error + size)


def mapped(x, weight, bias):
    return contract("bnc,co->bno", x, weight) + bias


def _plain(network, state, h):
    for i in range(len(network.layers)):
        name = f"network.layers.{i}"
        h, _ = convolution(h, state[f"{name}.weight"], state[f"{name}.bias"], padding=network.kernel // 2)
        h = relu(h)[0] if i + 1 < len(network.layers) else h
    return h


def _unet(network, state, h):
    seen = []
    for i, (k, s) in enumerate(zip(network.kernels, network.strides, strict=True)):
        seen.append(h)
        name = f"network.down.{i}"
        h, _ = convolution(h, state[f"{name}.weight"], state[f"{name}.bias"], stride=s, padding=-(-(k - s) // 2))
        h, _ = relu(h)
    for i, (k, s) in enumerate(zip(reversed(network.kernels), reversed(network.strides), strict=True)):
        name, a = f"network.up.{i}", -(-(k - s) // 2)
        h, _ = convolution_transpose(h, state[f"{name}.weight"], state[f"{name}.bias"], stride=s, padding=a,
                                     output_padding=s + 2 * a - k)  # fmt: skip
        h, below = relu(h)[0], seen.pop()
        h = Rounded(np.concatenate([below.value, h.value], 1), np.concatenate([below.error, h.error], 1))
    return h
