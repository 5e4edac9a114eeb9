"""Set convolution against its equation, complex steps and PyTorch; its kernels and its module."""

import functools

import numpy as np
import pytest

from refnp.autograd import vjp
from refnp.layers.set_convolution import Grid, SetConvolution, eq, matern_32, matern_52, set_convolution
from refnp.numbers.proving import vjp_is_derivative
from refnp.numbers.rounding import arithmetic, tolerance
from refnp.verify import bounds
from tests.helpers import assert_within, check
from tests.layers.sets import sets
from tests.transcriptions import set_convolution as transcriptions

KERNELS = {eq: transcriptions.eq, matern_32: transcriptions.matern_32, matern_52: transcriptions.matern_52}


MASK = np.array([[True, False, True, True, False], [True, True, True, False, True]])


def test_gradients_where_points_coincide():
    x = np.array([[0.0], [1.0]])
    for kernel in KERNELS:
        check(functools.partial(set_convolution, kernel=kernel), (x, x.copy(), np.ones((2, 1)), np.array(0.7)))


def test_a_kernel_of_ones_own():
    def rational(s):
        return 1 / (1 + s), lambda: -1 / (1 + s) ** 2

    arrays = (*sets(1, (2, 3, 4, 1, 2)), np.array(0.7))
    check(functools.partial(set_convolution, kernel=rational), arrays)
    with pytest.raises(TypeError, match="kernel must return"):
        set_convolution(*arrays, kernel=lambda s: np.exp(-s))


def test_module():
    x, points, y = sets(1, (2, 4, 5, 2, 1))
    layer = SetConvolution(2, 0.25, divide=True)
    assert {name: p.shape for name, p in layer.named_parameters()} == {"log_length_scale": (3,)}
    assert_within(layer(x, points, y), set_convolution(x, points, y, 0.25, divide=True), 1e-13)
    check(lambda values: layer.bind(values)(x, points, y, mask=MASK), (layer.state_dict(),), order=2)
    assert SetConvolution(2, 0.25, shared=True).log_length_scale.shape == ()
    assert SetConvolution(2, 0.25, density=False)(x, points, y).shape == (2, 4, 2)
    single = [a.astype(np.float32) for a in (x, points, y)]
    assert layer.astype(np.float32)(*single).dtype == np.float32


def test_module_with_a_constant_length_scale():
    single = [a.astype(np.float32) for a in sets(1, (2, 4, 5, 2, 1))]
    layer = SetConvolution(2, [0.5, 0.25, 0.125], learnable=False)
    assert layer.parameters() == []
    assert layer(*single).dtype == np.float32


GRID = Grid(np.array([[-3], [4]]), (6,), 2.0)
PLACES = np.random.default_rng(4).uniform(-1, 4, (2, 3, 1))
VALUES = np.random.default_rng(5).normal(size=(2, 3, 2))
ON_GRIDS = {
    "to a grid": (lambda of: lambda x, y, scale: of(GRID, x, y, scale, divide=True), VALUES),
    "to a grid, from some": (lambda of: lambda x, y, scale: of(GRID, x, y, scale, mask=MASK[:, :3]), VALUES),
    "from a grid": (lambda of: lambda x, y, scale: of(x, GRID, y, scale), np.ones((2, 2, 6)) * np.arange(6)),
}


@pytest.mark.parametrize("name", ON_GRIDS)
def test_the_page_on_a_grid_is_proved_and_is_what_its_kernel_computes(name):
    made, values = ON_GRIDS[name]
    arrays = PLACES, values, np.array([0.4, 0.6, 0.5])

    def page(*arguments, **options):
        """Without a gradient of the grid."""
        z, pullback = set_convolution.page(*arguments, **options)
        return z, lambda bar: [g for a, g in zip(arguments, pullback(bar), strict=True) if a is not GRID]

    assert vjp_is_derivative(made(page), arrays).holds
    z, pullback = vjp(made(set_convolution), *arrays)
    right, right_pullback = vjp(made(set_convolution), *(bounds.exact(a, arithmetic(float)) for a in arrays))
    left_out = 1e-13  # a hundred times what the places beyond the window weigh
    for value, bound in zip(
        (z, *pullback(np.ones(z.shape))), (right, *right_pullback(bounds.exact(np.ones(z.shape)))), strict=True
    ):
        assert_within(value, bound.value, tolerance(bound, float) + left_out)


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_gradients_with_any_kernel_are_proved(kernel):
    page = functools.partial(set_convolution.page, kernel=kernel, divide=True)
    assert vjp_is_derivative(page, (PLACES[0], PLACES[1], VALUES[0], np.array(0.7))).holds
