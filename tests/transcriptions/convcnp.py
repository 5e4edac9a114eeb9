"""ConvCNP, index by index, in the widest precision of the machine: grids by counting, sums over all pairs."""

import itertools
from fractions import Fraction

import numpy as np

from tests.transcriptions.convolution import convolution, convolution_transpose, pool
from tests.transcriptions.set_convolution import set_convolution

WIDE = np.longdouble


def grid_of(x, points_per_unit, margin, multiple):
    """Where each task's grid begins, and the common lengths: the fewest blocks of `multiple` places around cells."""
    tasks, _, axes = x.shape
    starts, lengths = [], [multiple] * axes
    for b in range(tasks):
        starts.append([])
        for d in range(axes):
            cells = [(Fraction(float(a)) * Fraction(points_per_unit)).__floor__() for a in x[b, :, d]]
            first = min(cells) - margin
            while first % multiple:
                first -= 1
            length = multiple
            while first + length <= max(cells) + 1 + margin:
                length += multiple
            starts[b].append(first)
            lengths[d] = max(lengths[d], length)
    return starts, lengths


def weight(place, point, length_scale):
    """exp(−|g − x|²/2ℓ²)."""
    square = WIDE(0)
    for a, b in zip(place, point, strict=True):
        square += (a - b) ** 2
    return np.exp(-square / (2 * WIDE(length_scale) ** 2))


def places_of(start, lengths, points_per_unit):
    """(index k, position g_k) of every place of one task's grid."""
    for k in np.ndindex(*lengths):
        yield k, [WIDE(int(s) + i) / WIDE(points_per_unit) for s, i in zip(start, k, strict=True)]


def places_as_points(starts, lengths, points_per_unit):
    """The places of every task's grid, in their order, as points (B, K, dx)."""
    return np.array([[place for _, place in places_of(start, lengths, points_per_unit)] for start in starts], WIDE)


def to_grid(values, x, length_scale, starts, lengths, points_per_unit):
    """z_kc = Σ_m v_mc exp(−|g_k − x_m|²/2ℓ_c²): the set convolution with the places as targets."""
    places = places_as_points(starts, lengths, points_per_unit)
    z = set_convolution(places, x, values, length_scale, density=False)
    return z.swapaxes(1, 2).reshape(len(values), values.shape[-1], *lengths)


def from_grid(features, x, length_scale, starts, points_per_unit):
    """f_nc = Σ_k h_kc exp(−|g_k − x_n|²/2ℓ_c²): the set convolution with the places as context."""
    lengths = features.shape[2:]
    h = features.reshape(*features.shape[:2], -1).swapaxes(1, 2)
    return set_convolution(x, places_as_points(starts, lengths, points_per_unit), h, length_scale, density=False)


def slopes(features, values, x, length_scale, points_per_unit):
    """∂T/∂x_n = Σ_kc v w h (g − x)/ℓ² and ∂T/∂ℓ_c = Σ_nk v w h |g − x|²/ℓ³, of grids that begin at 0."""
    x_bar, scale_bar = np.zeros(x.shape, WIDE), np.zeros(len(length_scale), WIDE)
    for b, n in np.ndindex(*x.shape[:2]):
        point = x[b, n].astype(WIDE)
        for k, place in places_of([0] * len(point), features.shape[2:], points_per_unit):
            for c, scale in enumerate(np.asarray(length_scale, WIDE)):
                term = values[b, n, c] * weight(place, point, scale) * features[(b, c, *k)]
                for d in range(len(point)):
                    x_bar[b, n, d] += term * (place[d] - point[d]) / scale**2
                    scale_bar[c] += term * (place[d] - point[d]) ** 2 / scale**3
    return x_bar, scale_bar


def encoded(x, y, mask, length_scale, starts, lengths, points_per_unit, *, divide=True, eps=1e-8):
    """[ρ, Σ y k/(ρ + ε)] at every place."""
    tasks, points, channels = y.shape
    v = np.zeros((tasks, points, 1 + channels), WIDE)
    there = np.zeros(x.shape, WIDE)
    for b, n in itertools.product(range(tasks), range(points)):
        if mask is None or mask[b, n]:
            v[b, n] = [1, *y[b, n]]
            there[b, n] = x[b, n]
    z = to_grid(v, there, length_scale, starts, lengths, points_per_unit)
    if divide:
        for c in range(channels):
            z[:, 1 + c] /= z[:, 0] + WIDE(eps)
    return z


def mapped(h, matrix, bias):
    """Σ_c h_c W_co + b_o at every place: (B, C, *lengths) → (B, O, *lengths)."""
    out = np.zeros((len(h), matrix.shape[1], *h.shape[2:]), WIDE)
    for o in range(matrix.shape[1]):
        out[:, o] = bias[o]
        for c in range(matrix.shape[0]):
            out[:, o] += WIDE(matrix[c, o]) * h[:, c]
    return out


def relu(h):
    return np.where(h > 0, h, WIDE(0))


def sigmoid(h):
    return 1 / (1 + np.exp(-h))


def softplus(s):
    return np.log(1 + np.exp(s))


def conv(h, state, name, stride=1):
    """A convolution with padding on both sides by half the kernel."""
    kernel = state[name + ".weight"].shape[2:]
    axes = len(kernel)
    widths = [(k // 2, k // 2) for k in kernel]
    options = {"stride": (stride,) * axes, "dilation": (1,) * axes, "groups": 1, "widths": widths}
    return convolution(h, state[name + ".weight"], state[name + ".bias"], **options)


def conv_up(h, state, name):
    """Its transpose for stride 2, that doubles every length."""
    kernel = state[name + ".weight"].shape[2:]
    axes = len(kernel)
    widths = [(k // 2, k // 2) for k in kernel]
    options = {"stride": (2,) * axes, "dilation": (1,) * axes, "groups": 1, "widths": widths, "extra": (1,) * axes}
    return convolution_transpose(h, state[name + ".weight"], state[name + ".bias"], **options)


def simple(h, state, layers, *, rectified=True):
    """Convolutions with a relu after each; after the last only if `rectified`."""
    for i in range(layers):
        h = conv(h, state, f"network.layers.{i}")
        h = relu(h) if i + 1 < layers or rectified else h
    return h


def unet(h, state, steps):
    """Gordon et al.: strided convolutions down, transposed ones up, each joined with what came down; x at last."""
    seen = [h]
    for i in range(steps):
        seen.append(relu(conv(seen[-1], state, f"network.down.{i}", 2)))
    h = seen.pop()
    for i in range(steps):
        h = np.concatenate([seen.pop(), relu(conv_up(h, state, f"network.up.{i}"))], 1)
    return h


def pooled_unet(h, state, steps):
    """neuralprocesses: kernel 5, so that the first two steps down take means; nothing joined at the finest length."""
    seen = []
    for i in range(steps):
        if i < 2:
            h = conv(h, state, f"network.down.{i}")
            axes = h.ndim - 2
            h, *_ = pool(h, np.zeros((*h.shape[:2], *(n // 2 for n in h.shape[2:])), WIDE), size=(2,) * axes,
                        stride=(2,) * axes, widths=[(0, 0)] * axes, largest=False)  # fmt: skip
        else:
            h = conv(h, state, f"network.down.{i}", 2)
        h = relu(h)
        seen.append(h)
    for i in reversed(range(steps)):
        h = seen[i] if i == steps - 1 else np.concatenate([seen[i], h], 1)
        h = relu(conv_up(h, state, f"network.up.{i}"))
    return conv(h, state, "network.last")


def gordon(state, network, starts, lengths, points_per_unit, context_x, context_y, target_x, mask=None):
    """Mean and deviation of the models of Gordon et al., from named arrays."""
    scales = {name: np.exp(np.asarray(a, WIDE)) for name, a in state.items() if name.endswith("log_length_scale")}
    h = encoded(context_x, context_y, mask, scales["encoder.log_length_scale"], starts, lengths, points_per_unit)
    h = network(sigmoid(mapped(h, state["lift.weight"], state["lift.bias"])), state)
    answers = []
    for i in range(2):
        f = from_grid(h, target_x, scales[f"decoders.{i}.convolution.log_length_scale"], starts, points_per_unit)
        f = mapped(
            f.swapaxes(1, 2), state[f"decoders.{i}.mlp.layers.0.weight"], state[f"decoders.{i}.mlp.layers.0.bias"]
        )
        answers.append(f.swapaxes(1, 2))
    return answers[0], softplus(answers[1])


def neuralprocesses(
    state, steps, starts, lengths, points_per_unit, context_x, context_y, target_x, mask=None, *, divide=True
):
    """Mean and deviation of Bruinsma's model without a map after the U-Net."""
    inner = [np.exp(WIDE(state["encoder.log_length_scale"]))] * (1 + context_y.shape[2])
    h = encoded(context_x, context_y, mask, inner, starts, lengths, points_per_unit, divide=divide, eps=1e-4)
    h = pooled_unet(h, state, steps)
    outer = [np.exp(WIDE(state["decoders.0.convolution.log_length_scale"]))] * h.shape[1]
    f = from_grid(h, target_x, outer, starts, points_per_unit)
    mean, s = np.split(f, 2, -1)
    return mean, np.sqrt(WIDE(1e-6) + softplus(s))


def convgnp(state, network, starts, lengths, points_per_unit, contexts, target_x, dy, rank, *, floor):
    """Mean (B, N·dy), covariance and deviation of a ConvGNP, from several context sets [(x, y, mask)]."""
    scales = {name: np.exp(np.asarray(a, WIDE)) for name, a in state.items() if name.endswith("log_length_scale")}
    names = ["encoder", *(f"other_encoders.{s}" for s in range(len(contexts) - 1))]
    found = [
        encoded(x, y, mask, scales[f"{name}.log_length_scale"], starts, lengths, points_per_unit)
        for name, (x, y, mask) in zip(names, contexts, strict=True)
    ]
    h = network(sigmoid(mapped(np.concatenate(found, 1), state["lift.weight"], state["lift.bias"])), state)
    f = from_grid(h, target_x, scales["decoders.0.convolution.log_length_scale"], starts, points_per_unit)
    f = mapped(f.swapaxes(1, 2), state["decoders.0.mlp.layers.0.weight"], state["decoders.0.mlp.layers.0.bias"])
    tasks, _, targets = f.shape
    mean, std = (np.zeros((tasks, targets * dy), WIDE) for _ in range(2))
    factor = np.zeros((tasks, targets * dy, rank), WIDE)
    for b, n, i in np.ndindex(tasks, targets, dy):
        mean[b, n * dy + i] = f[b, i, n]
        std[b, n * dy + i] = np.sqrt(WIDE(floor) ** 2 + softplus(f[b, dy + rank * dy + i, n]))
        for k in range(rank):
            factor[b, n * dy + i, k] = f[b, dy + k * dy + i, n] / rank
    return mean, factor, std


def on_grid(state, network, image, mask, *, eps=1e-8):
    """Mean and deviation of the ConvCNP of images, lengths multiples of the total stride."""
    colours, half = image.shape[1], state["log_weight"].shape[-1] // 2
    z = np.zeros((len(image), 2 * colours, *image.shape[2:]), WIDE)
    for b, c, i, j in np.ndindex(*image.shape):
        for s, t in itertools.product(range(-half, half + 1), repeat=2):
            if 0 <= i + s < image.shape[2] and 0 <= j + t < image.shape[3] and mask[b, i + s, j + t]:
                w = np.exp(WIDE(state["log_weight"][c, 0, s + half, t + half]))
                z[b, c, i, j] += w
                z[b, colours + c, i, j] += w * image[b, c, i + s, j + t]
        z[b, colours + c, i, j] /= z[b, c, i, j] + WIDE(eps)
    h = network(relu(mapped(z, state["lift.weight"], state["lift.bias"])), state)
    answers = mapped(h, state["mlp.layers.0.weight"], state["mlp.layers.0.bias"])
    return answers[:, :colours], softplus(answers[:, colours:])
