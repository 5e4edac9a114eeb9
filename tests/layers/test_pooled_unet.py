"""The U-Net that takes means: which steps do, lengths, what shifts it respects, options."""

import numpy as np
import pytest

from refnp.layers.pooled_unet import PooledUNet, pooled_steps
from tests.helpers import generator
from tests.transcriptions.convcnp import pooled_unet


@pytest.mark.parametrize(
    ("kernels", "strides", "pooled"),
    [
        ((5,) * 6, (2,) * 6, (True, True, False, False, False, False)),  # seen: 1, 3, 4, 4, 4, 4
        ((3,) * 4, (2,) * 4, (True, False, False, False)),  # 1, 2, 2, 2
        ((7,) * 4, (2,) * 4, (True, False, True, False)),  # 1, 4, 5, 6
        ((5, 3, 3), (1, 2, 2), (False, True, False)),  # 1, 5, 4
    ],
)
def test_means_are_taken_where_what_was_seen_has_a_middle(kernels, strides, pooled):
    assert pooled_steps(kernels, strides) == pooled


@pytest.mark.parametrize("dimensions", [1, 2])
def test_against_index_loops(dimensions):
    network = PooledUNet(2, (2, 3, 2), 3, dimensions=dimensions, rng=generator())
    x = generator().normal(size=(1, 2, *[8] * dimensions))
    state = {f"network.{name}": array for name, array in network.state_dict().items()}
    y = network(x)
    assert y.shape == (1, 3, *[8] * dimensions)
    assert np.abs(y - pooled_unet(x, state, 3)).max() < 2**-46


def test_mixed_strides():
    network = PooledUNet(1, (2, 3, 2), 1, kernel=(3, 5, 3), strides=(1, 2, 2), rng=generator())
    assert network.total_stride == 4
    assert network(np.zeros((2, 1, 12))).shape == (2, 1, 12)
