"""How far the predictions of a ConvCNP may be from exact ones: its equations in numbers that know their rounding."""

import numpy as np

from refnp.layers.activation import relu, sigmoid, softplus
from refnp.layers.unet import UNet
from refnp.numbers import rounding
from refnp.numbers.rounding import Rounded, contract, exact, tolerance
from refnp.verify.layers.convolution import CONVOLUTION, TRANSPOSED
from refnp.verify.layers.set_convolution import SET_CONVOLUTION


def predicted(model, grid, context_x, context_y, target_x, mask=None, *, positions=0.0):
    """Bounds on mean and deviation, (B, T, dy), of a model with separate decoders without hidden layers.

    `positions` is an error of the given positions, in units of the roundoff.
    """
    found = answered(model, grid, [(context_x, context_y, mask)], target_x, positions=positions)
    return tolerance(found[0], context_y.dtype), tolerance(softplus.page(found[1])[0], context_y.dtype)


def joint(model, grid, contexts, target_x):
    """Mean (B, N·dy), factor (B, N·dy, K) and deviation of a ConvGNP with σ² = f² + log(1 + eˢ), f the floor."""
    (values,) = answered(model, grid, contexts, target_x)
    (b, n, _), dy, k = values.shape, model.dy, model.rank
    mean, s = values[..., :dy], values[..., dy + k * dy :]
    factor = values[..., dy : dy + k * dy].reshape(b, n, k, dy).swapaxes(-1, -2).reshape(b, n * dy, k) / k
    std = rounding.sqrt(softplus.page(s)[0] + rounding.constant(np.longdouble(model.head.floor) ** 2))
    return mean.reshape(b, n * dy), factor, std.reshape(b, n * dy)


def answered(model, grid, contexts, target_x, *, positions=0.0):
    """What each readout, a linear map, gives of contexts [(x, y, mask)], in numbers that carry their error."""
    state = {name: exact(array) for name, array in model.state_dict().items()}
    origin = (grid.start / grid.points_per_unit)[:, None]
    t = Rounded(target_x, positions) - exact(origin)
    places = exact(np.broadcast_to(_places(grid), (len(target_x), grid.size, target_x.shape[-1])))
    encoded = []
    for s, (context_x, context_y, mask) in enumerate(contexts):
        mask = np.ones(context_x.shape[:2], bool) if mask is None else mask
        there = np.where(mask[..., None], context_x, origin.astype(context_y.dtype))
        x = Rounded(there, positions) - exact(origin)
        name = f"other_encoders.{s - 1}" if s else "encoder"
        scales = rounding.exp(state[f"{name}.log_length_scale"])
        values = exact(np.where(mask[..., None], context_y, 0))
        divide, eps = (model.encoder.options[option] for option in ("divide", "eps"))
        z, _ = SET_CONVOLUTION.equation(places, x, values, scales, mask=mask, divide=divide, eps=eps)
        encoded.append(left_out(z, 2 * np.abs(values.value).max(initial=1)))  # pairs below u ε/N, divided by ρ + ε ≥ ε
    z = side_by_side(encoded)
    h, _ = sigmoid.page(mapped(z, state["lift.weight"], state["lift.bias"]))
    h = h.swapaxes(1, 2).reshape(len(target_x), h.shape[-1], *grid.lengths)
    h = (_unet if isinstance(model.network, UNet) else _plain)(model.network, state, h)
    rows = (relu.page(h)[0] if model.head.rectified else h).reshape(*h.shape[:2], grid.size).swapaxes(1, 2)
    found = []
    for i in range(len(model.decoders)):
        scales = rounding.exp(state[f"decoders.{i}.convolution.log_length_scale"])
        f, _ = SET_CONVOLUTION.equation(t, places, rows, scales, density=False)
        f = left_out(f, np.abs(rows.value).max(initial=0))  # places below u/K of the nearest
        found.append(mapped(f, state[f"decoders.{i}.mlp.layers.0.weight"], state[f"decoders.{i}.mlp.layers.0.bias"]))
    return found


def side_by_side(parts):
    """Joined along the last axis."""
    return Rounded(np.concatenate([p.value for p in parts], -1), np.concatenate([p.error for p in parts], -1))


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
        h, _ = CONVOLUTION.equation(h, state[f"{name}.weight"], state[f"{name}.bias"], padding=network.kernel // 2)
        h = relu.page(h)[0] if i + 1 < len(network.layers) else h
    return h


def _unet(network, state, h):
    seen = []
    for i, (k, s) in enumerate(zip(network.kernels, network.strides, strict=True)):
        seen.append(h)
        name = f"network.down.{i}"
        h, _ = CONVOLUTION.equation(
            h, state[f"{name}.weight"], state[f"{name}.bias"], stride=s, padding=-(-(k - s) // 2)
        )
        h, _ = relu.page(h)
    for i, (k, s) in enumerate(zip(reversed(network.kernels), reversed(network.strides), strict=True)):
        name, a = f"network.up.{i}", -(-(k - s) // 2)
        h, _ = TRANSPOSED.equation(h, state[f"{name}.weight"], state[f"{name}.bias"], stride=s, padding=a,
                                output_padding=s + 2 * a - k)  # fmt: skip
        h, below = relu.page(h)[0], seen.pop()
        h = Rounded(np.concatenate([below.value, h.value], 1), np.concatenate([below.error, h.error], 1))
    return h
