"""What the texts say of translation equivariance, set convolutions and the ConvCNP."""

import numpy as np

from refnp.autograd import concatenate, no_grad
from refnp.autograd.primitives import raw
from refnp.claims.common import generator
from refnp.claims.sentences.register import control, drawn, fails, false, holds, largest, listed, true, true_if
from refnp.layers import MLP, Linear, convolution, set_convolution, softplus
from refnp.layers.set_convolution import Grid, GridOptions
from refnp.models import CNP, ConvCNP
from refnp.studies.trained import open_trained
from refnp.tasks.gaussian_process import GaussianProcess
from refnp.tasks.kernels import EQ, Kernel
from refnp.tasks.task import Task

SCALE = 0.25


def toy(seed: int = 0) -> Task:
    """A task whose places are multiples of 2⁻¹⁰, so that shifts by such numbers round nothing."""
    rng = generator(seed)
    x, t = (np.round(rng.uniform(-2, 2, (1, n, 1)) * 1024) / 1024 for n in (12, 20))
    return Task(x, np.sin(3 * x), t, np.sin(3 * t))


def by_shift(model, task: Task, shift: float) -> float:
    """How much means and deviations change if everything is shifted."""
    with no_grad():
        here, there = model.marginal(task), model.marginal(task.shifted(shift))
    return max(largest(raw(there.mean) - raw(here.mean)), largest(raw(there.std) - raw(here.std)))


class Product(Kernel):
    """k(x, z) = x z, of lines through 0: a process that is not stationary."""

    def __call__(self, x, z):
        return x @ z.swapaxes(-1, -2)

    def variance(self):
        return 1.0


@true_if(
    'if inputs are shifted, outputs should be shifted "in the same way"; data ask for it',
    "Sivaraya (2023) 4.1",
    "the process is stationary; the exact prediction of another is not equivariant",
)
def equivariance_of_the_truth():
    """The exact posterior's mean of a task and of the task shifted by 4, of an EQ process and of random lines."""

    def off(kernel):
        process = GaussianProcess(kernel, 0.1)
        return largest(process.posterior(toy()).mean - process.posterior(toy().shifted(4.0)).mean)

    return [
        holds(off(EQ(0.5)) < 1e-12, "EQ kernel: the exact mean shifts along, to 1e-12"),
        fails(off(Product()) > 0.1, f"k(x, z) = x z: the exact mean differs by up to {off(Product()):.2f}"),
    ]


@true(
    '"CNPs do not have this property", the ConvCNP adds it "by utilizing" that of CNNs',
    "Sivaraya (2023) 4.1",
    tests="tests/models/test_convcnp.py",
)
def cnp_and_convcnp():
    """Predictions of the shipped models on a task and on the task shifted by 4."""
    convolutional, plain = open_trained("convcnp", np.float64).model, open_trained("cnp", np.float64).model
    return [
        holds(by_shift(convolutional, toy(), 4.0) == 0, "the shipped ConvCNP, shifted by 4: the same, bit for bit"),
        control(by_shift(plain, toy(), 4.0) > 0.1,
            f"the shipped CNP changes by up to {by_shift(plain, toy(), 4.0):.2f}"),
    ]  # fmt: skip


@true_if(
    'ConvCNPs use CNNs, "more specifically the UNet architecture"',
    "Sivaraya (2023) 4.2",
    "of one published model; the other is a stack without strides, which respects smaller shifts",
    tests="tests/models/test_convcnp.py",
)
def unet_or_not():
    """Shifts by one place of the grid, 1/64, and by a block of the U-Net, 64 places."""
    models = [ConvCNP.gordon(name, rng=generator()) for name in ("xl", "simple")]
    small, block = ([by_shift(model, toy(), shift) for model in models] for shift in (1 / 64, 1.0))
    return [
        holds(block == [0, 0], "shifted by 1 = 64 places: both the same, bit for bit"),
        fails(small[1] == 0 and small[0] > 1e-4, f"by one place: the stack the same, the U-Net off by {small[0]:.4f}"),
    ]


@true(
    '"Functional embeddings" have "a trivial translation equivariance", a vector has not',
    "Sivaraya (2023) 4.2.1",
    tests="tests/verify/test_properties.py",
)
def functional_embedding():
    """The set convolution at shifted places, and the CNP's vector."""
    task, model = toy(), CNP(hidden=16, rng=generator())
    here = set_convolution(task.target_x, task.context_x, task.context_y, SCALE)
    there = set_convolution(task.target_x + 4, task.context_x + 4, task.context_y, SCALE)
    mask = np.ones((1, 12), bool)
    vectors = [raw(model.represent(task.context_x + s, task.context_y, mask, task.target_x)) for s in (0, 4)]
    moved = largest(vectors[1] - vectors[0])
    return [
        holds((here == there).all(), "the function at x + 4 of the points shifted by 4: the same, bit for bit"),
        control(moved > 0.01,
            f"the CNP's vector changes by up to {moved:.2f}"),
    ]  # fmt: skip


@true(
    'SetConv is "a generalization of the convolution operation" on sets',
    "Sivaraya (2023) 4.2.1",
    tests="tests/layers/test_set_convolution.py",
)
def generalised_convolution():
    """On evenly spaced points it is a discrete convolution; and it adds up over sets."""
    x, y = np.arange(30.0)[:, None], drawn((30, 1))[0]
    at = x[8:-8]
    of_sets = set_convolution(at, x, y, 1.0, density=False)[:, 0]
    kernel = np.exp(-(np.arange(-8, 9.0) ** 2) / 2)
    discrete = convolution(y.T[None], kernel[None, None])[0, 0][: len(at)]
    one, other, both = (
        set_convolution(at, x[s], y[s], 1.0, density=False) for s in (slice(0, 9), slice(9, 30), slice(None))
    )
    a, b, c = (
        set_convolution(at, x[s], y[s], 1.0, divide=True)[:, 1:] for s in (slice(0, 9), slice(9, 30), slice(None))
    )
    return [
        holds(largest(of_sets - discrete) < 1e-12, "evenly spaced points: a discrete convolution, to 1e-12"),
        holds(largest(one + other - both) < 1e-12, "of two sets together: the sum, to 1e-12"),
        control(largest(a + b - c) > 0.1,
            f"divided by its density it is no sum: off by up to {largest(a + b - c):.1f}"),
    ]  # fmt: skip


@true_if(
    'SetConv "outputs a continuous function"; it "can be queried at any point"',
    "Sivaraya (2023) 4.2.1",
    "the kernel is continuous",
)
def continuous_function():
    """The largest jump between places 1e-6 apart, of an EQ kernel and of a box."""
    task = toy()
    x = np.sort(np.concatenate([task.context_x[0] + s for s in (-SCALE, SCALE)]), 0)

    def box(s):
        return (s < 1).astype(s.dtype), lambda: 0 * s

    def jump(**kernel):
        a, b = (set_convolution(x + s, task.context_x[0], task.context_y[0], SCALE, **kernel) for s in (-5e-7, 5e-7))
        return largest(a - b)

    return [
        holds(jump() < 1e-4, "EQ kernel: values 1e-6 apart differ by less than 1e-4"),
        fails(jump(kernel=box) > 0.5, f"a box of width ℓ: by up to {jump(kernel=box):.1f}"),
    ]


@false(
    'K "measures the distance between" x and the data point',
    "Sivaraya (2023) 4.2.1",
    "it measures closeness: largest where the distance is 0",
)
def kernel_is_closeness():
    """The kernel at distances 0, 1, 2 and 4 length scales."""
    x = np.array([[0.0], [1.0], [2.0], [4.0]]) * SCALE
    k = set_convolution(x, x[:1], np.ones((1, 1)), SCALE)[:, 0]
    return [
        fails(k[0] == 1 and (np.diff(k) < 0).all(), f"at 0, 1, 2, 4 length scales: {listed(k, 3)}"),
        control((np.diff(np.abs(x[:, 0])) > 0).all(), "a distance grows"),
    ]


@true(
    'without the 1, the model cannot "distinguish between an observed datapoint and an unobserved datapoint"',
    "Sivaraya (2023) 4.2.1",
    tests="tests/layers/test_set_convolution.py",
)
def density_channel():
    """The embedding of one point with y = 0 and of no points."""
    x, none = np.array([[0.3]]), np.zeros((0, 1))
    with_it, without = ([set_convolution(x, p, 0 * p, SCALE, density=d) for p in (x, none)] for d in (True, False))
    return [
        holds(largest(with_it[0] - with_it[1]) == 1,
            "with a density channel: 1 where y = 0 was observed, 0 where nothing was"),
        control((without[0] == without[1]).all(), "without it both are 0, bit for bit"),
    ]  # fmt: skip


@true_if(
    'weights depend on "the relative distance", "which means that the model is translation equivariant"',
    "Sivaraya (2023) 4.2.1",
    "shifts are multiples of the grid's spacing times the network's total stride, and the grid moves along",
    tests="tests/models/test_convcnp.py, tests/layers/test_set_convolution_grid.py",
)
def equivariance_of_the_model():
    """A small ConvCNP without strides, shifted by 4, by half a place, and by 4 with a grid that stays."""
    model = ConvCNP.gordon("simple", grid=GridOptions(16.0), rng=generator())
    fixed = ConvCNP.gordon("simple", grid=Grid(np.array([[-64]]), (256,), 16.0), rng=generator())
    half, stays = by_shift(model, toy(), 1 / 32), by_shift(fixed, toy(), 4 + 1 / 32)
    return [
        holds(by_shift(model, toy(), 4.0) == 0, "shifted by 4 = 64 places: the same, bit for bit"),
        fails(half > 1e-6, f"by half a place: off by up to {half:.0e}"),
        control(stays > 1e-6, f"a grid that stays, by 4 and half a place: off by up to {stays:.0e}"),
    ]


@true(
    '"the order of the datapoints does not matter"',
    "Sivaraya (2023) 4.2.1",
    tests="tests/verify/test_properties.py",
)
def order_of_points():
    """The embedding of points in another order, with their values and without."""
    task, order = toy(), generator().permutation(12)
    x, y, t = task.context_x, task.context_y, task.target_x

    def off(x, y):
        return largest(set_convolution(t, x, y, SCALE) - set_convolution(t, task.context_x, task.context_y, SCALE))

    return [
        holds(off(x[:, order], y[:, order]) < 1e-14, "points in another order: the same, to 1e-14"),
        control(off(x[:, order], y) > 0.1,
            f"places in another order and values not: off by up to {off(x[:, order], y):.1f}"),
    ]  # fmt: skip


@true(
    'samples "at evenly spaced points" turn data into "a on-grid format", which a CNN needs',
    "Sivaraya (2023) 4.2.1",
    tests="tests/layers/test_set_convolution_grid.py",
)
def discretised():
    """The embedding read on grids of 4 to 64 places a unit: what linear interpolation loses between places."""
    task = toy()

    def lost(points_per_unit):
        places = np.arange(-3 * points_per_unit, 3 * points_per_unit + 1)[:, None] / points_per_unit
        values = set_convolution(places, task.context_x[0], task.context_y[0], SCALE)[:, 1]
        right = set_convolution(task.target_x[0], task.context_x[0], task.context_y[0], SCALE)[:, 1]
        return largest(np.interp(task.target_x[0, :, 0], places[:, 0], values) - right)

    found = [lost(n) for n in (4, 16, 64)]
    return [
        holds(found[1] < 0.15 * found[0] and found[2] < 0.15 * found[1],
            f"4, 16, 64 places a unit lose {listed(found, 4)}"),
        control(found[0] > 0.05, f"a grid as coarse as the kernel, 4 places a unit: {found[0]:.2f}"),
    ]  # fmt: skip


@false(
    'the CNN\'s output becomes a function again "by using the SetConv operation" (eq. 10)',
    "Sivaraya (2023) 4.2.1",
    "without the 1 of eq. 10, whose sum over the grid is nearly the same everywhere",
    tests="tests/models/test_convcnp.py",
)
def read_out():
    """The density of 257 evenly spaced places, read at any x."""
    places, x = np.arange(-128, 129)[:, None] / 32, toy().target_x[0]
    density = set_convolution(x, places, np.zeros((257, 1)), 2 / 32)[:, 0]
    right = set_convolution(x, places, np.zeros((257, 1)), 2 / 32, density=False)
    change = float(density.max() / density.min() - 1)
    return [
        fails(change < 1e-6, f"the channel that eq. 10 adds is {density.mean():.2f} at every x, to 1e-6 of itself"),
        control(right.shape == (20, 1), "read-out without it: as many channels as the network has"),
    ]


@false(
    'the decoder is an MLP of "the output of the encoder and the target set"',
    "Sivaraya (2023) 4.3",
    "of the output of the encoder alone, as eq. 12 has it; the target's x would break translation equivariance",
)
def decoder_of_targets():
    """A read-out of R(x_t), and one of [R(x_t), x_t], shifted by 4."""
    task = toy()
    alone, beside = Linear(2, 2, rng=generator()), MLP([3, 16, 2], rng=generator())

    def read(shift, with_x):
        x = task.target_x + shift
        r = set_convolution(x, task.context_x + shift, task.context_y, SCALE)
        return beside(concatenate([r, x], -1)) if with_x else alone(r)

    off = [largest(read(4, with_x) - read(0, with_x)) for with_x in (False, True)]
    return [
        fails(off[1] > 0.1,
            f"an MLP that is also given x_t: predictions change by up to {off[1]:.2f} if all is shifted by 4"),
        control(off[0] == 0, "given R(x_t) alone: the same, bit for bit"),
    ]  # fmt: skip


@true_if(
    'the MLP "outputs the mean and variance"',
    "Sivaraya (2023) 4.3",
    "a positive function follows; what an MLP gives may be negative",
    tests="tests/models/test_convcnp.py",
)
def positive_variance():
    """Signs of the second output of a random MLP at 1000 inputs, before and after log(1 + eˢ)."""
    s = MLP([8, 16, 2], rng=generator())(drawn((1000, 8))[0])[:, 1]
    return [
        holds((softplus(s) > 0).all(), "log(1 + eˢ) of it is positive at all of 1000 inputs"),
        fails((s < 0).any(), f"it is negative at {(s < 0).mean():.0%} of them"),
    ]
