"""The exact shifts of a function: strides, patches, rings, grids, and functions that have none."""

import numpy as np
import pytest

from refnp.layers.convolution import convolution
from refnp.layers.pooling import max_pool
from refnp.layers.set_convolution import GridOptions, set_convolution
from refnp.layers.unet import UNet
from refnp.models.vision import PatchTokens
from refnp.symmetry import Permute, Roll, Rotate, Slide, Translate, Trivial, find_subgroup
from tests.symmetry import functions as f

KERNEL = np.random.default_rng(1).normal(size=(2, 1, 3))
RINGS = {"n": (12, 24)}


def by_stride(stride):
    return lambda k: Roll(step=k // stride) if k % stride == 0 else None


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_strided_convolution_on_a_ring(stride):
    def strided(x):
        return convolution(x, KERNEL, stride=stride, padding=1, padding_mode="circular")

    shifts = Roll("x", step=1)
    found = find_subgroup(strided, shifts, by_stride(stride), draw=f.signal, sizes=RINGS, count=8)
    assert found.multiple == stride
    assert list(found.verdicts) == list(range(1, stride + 1))


def test_steps_are_counted_in_steps():
    """In steps of 2 places a stride of 4 is 2 steps."""

    def pooled(x):
        return max_pool(x, 4)

    found = find_subgroup(
        pooled,
        Roll("x", step=2),
        lambda k: Roll(step=k // 2) if k % 2 == 0 else None,
        draw=f.signal,
        sizes=RINGS,
        count=8,
    )
    assert found.multiple == 2
    assert found.verdicts[1] is None


def test_patches():
    """Tokens are a map of patches: an image rolled by a patch has its tokens rolled by one."""
    tokens = PatchTokens(4, 1, 3, rng=np.random.default_rng(0))

    def patches(image):
        return tokens(image[None, None]).reshape(image.shape[0] // 4, image.shape[1] // 4, 3)

    def draw(rng, n):
        return {"image": rng.normal(size=(4, n))}

    shift = lambda k: Roll(axis=1, step=k // 4) if k % 4 == 0 else None
    found = find_subgroup(patches, Roll("image", 1), shift, draw=draw, sizes={"n": (8, 12)}, count=4)
    assert found.multiple == 4


def test_a_cycle_is_its_own_subgroup():
    """A table of period 6 added to a ring: rolled by 6 and its multiples, all is as before."""

    def with_places(x):
        return np.cos(x) + np.arange(x.shape[-1]) % 6

    found = find_subgroup(with_places, Roll("x"), Roll(), draw=f.signal, sizes={"n": (12, 24)}, count=8)
    assert found.multiple == 6


def test_a_u_net_between_edges_by_its_total_stride_among_the_divisors():
    network = UNet(1, (2, 3), up=(2, 2), kernel=4, rng=np.random.default_rng(4))
    n = 4 * (network.receptive_field // 2 + 4)

    def bump(rng):
        places = np.abs(np.arange(n) - n // 2)
        x = np.where(places < 2, rng.normal(size=n), 0)[None, None]
        return {"x": x, "mask": places < 2 + network.receptive_field}

    def response(x, mask):
        return network(x) - network(0 * x)

    shifts = Slide({"x": -1, "mask": -1})
    found = find_subgroup(response, shifts, Roll(), draw=bump, multiples=(1, 2, 4, 8), count=4)
    assert found.multiple == network.total_stride == 4
    assert [verdict.outcome for verdict in found.verdicts.values()] == ["fails", "fails", "holds"]


def from_the_grid(start_of):
    """The density channel at the places of a grid with spacing 1/8, added up in blocks of 4 places."""

    def blocks(x):
        grid = GridOptions(points_per_unit=8, margin=1).around("blocks", [(x[None], None)], multiple=start_of)
        density = set_convolution(grid, x[None], np.ones_like(x)[None], 0.25)
        kept = density.shape[-1] - density.shape[-1] % 4
        return density[0, 0, :kept].reshape(-1, 4).max(0)

    return blocks


def places(rng, n):
    return {"x": np.round(rng.uniform(-1, 1, (n, 1)) * 64) / 64}


def test_a_grid_that_begins_at_a_multiple_of_the_total_stride():
    shifts = Translate("x", step=1 / 8)
    found = find_subgroup(from_the_grid(4), shifts, draw=places, sizes={"n": (1, 3)}, dtypes=(np.float64,), count=6)
    assert found.multiple == 4
    found = find_subgroup(from_the_grid(1), shifts, draw=places, sizes={"n": (1, 3)}, dtypes=(np.float64,), count=6)
    assert found.multiple == 1


def test_a_function_that_respects_no_shift():
    def running(x):
        return x.cumsum(-1)

    found = find_subgroup(
        running, Roll("x"), Roll(), draw=f.signal, sizes={"n": (16, 24)}, count=4, multiples=range(1, 7)
    )
    assert found.multiple is None
    assert set(found.verdicts) == set(range(1, 7))
    report = str(found)
    assert "NO MULTIPLE" in report
    assert "multiples of 6: fails at shift by" in report


def test_all_shifts_of_a_product():
    def local(x):
        return x**2

    def draw(rng, n):
        return {"x": rng.normal(size=(n, n))}

    both = Roll("x", 0, step=2) * Roll("x", 1), Roll(axis=0, step=2) * Roll(axis=1)
    found = find_subgroup(local, *both, draw=draw, sizes={"n": (4,)}, count=2)
    assert found.multiple == 1
    assert "MULTIPLES OF 1" in str(found)


def test_invariance_where_nothing_moves_the_output():
    def total(x):
        return (x * np.array([1.0, 2.0, 1.0, 2.0])).sum(-1)

    draw = lambda rng: {"x": rng.normal(size=(3, 4))}
    assert find_subgroup(total, Roll("x"), draw=draw, count=4).multiple == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"translations": Permute("x")}, r"permutations of axis -1 of x has no step; give one"),
        ({"translations": Translate("x")}, r"has no step"),
        ({"translations": Rotate("x")}, r"has no step"),
        ({"multiples": ()}, r"multiples are \[\]; give whole numbers from 1"),
        ({"multiples": (0, 1)}, r"multiples are \[0, 1\]"),
        ({"count": 0}, r"count is 0"),
    ],
)
def test_what_cannot_be_asked(change, message):
    given = {"f": np.sin, "translations": Roll("x"), "draw": f.signal, "sizes": {"n": (4,)}} | change
    with pytest.raises(ValueError, match=message):
        find_subgroup(**given)


def test_nothing_has_no_step_to_multiply():
    assert (
        find_subgroup(np.sin, Roll("x"), Trivial(), draw=f.signal, sizes={"n": (4,)}, multiples=(1,)).multiple is None
    )
