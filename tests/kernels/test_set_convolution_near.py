"""The truncated form against the dense one, wherever points lie; what it costs, and that a shorter reach would show."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.kernels import set_convolution_near as near_pairs
from refnp.kernels.radial import eq, least_exponent
from refnp.kernels.set_convolution_near import all_pairs, neighbours, portions_of, reach, windows
from refnp.layers.set_convolution import set_convolution
from refnp.verify import bounds
from refnp.verify.bounds import left_out
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import assert_same_bits, assert_within, normal, seeds, unit_roundoff
from tests.layers.sets import within

LAYOUTS = {
    "uniform": lambda rng, n: rng.uniform(0, 60, n),
    "clusters": lambda rng, n: rng.choice([0.0, 7.0, 45.0], n) + rng.normal(0, 0.3, n),
    "duplicates": lambda rng, n: rng.integers(0, 5, n) * 9.0,
    "one place": lambda rng, n: np.full(n, 20.0),
    "an outlier": lambda rng, n: np.concatenate([[1e6], rng.uniform(0, 3, n)])[:n],
    "ever wider apart": lambda rng, n: np.geomspace(1e-3, 300, n),
    "grid": lambda rng, n: np.arange(n) * 0.5,
    "grid, descending": lambda rng, n: np.arange(n)[::-1] * 0.5,
}

places = st.sampled_from(list(LAYOUTS))


def scattered(seed, kinds, size, dtype, channels=2):
    """Targets (1, M, 1) and points (1, N, 1) placed as `kinds` say, values (1, N, C), in no order."""
    rng = np.random.default_rng(seed)
    x, points = (LAYOUTS[kind](rng, n)[None, :, None].astype(dtype) for kind, n in zip(kinds, size, strict=True))
    return x, rng.permuted(points, axis=1), normal(rng, (1, size[1], channels), dtype)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(near_pairs, "SMALL_BLOCK", 64)  # so that a few points make several blocks


def compared(seed, kinds, size, dtype, scale, *, masked=False, mask_seed=0):
    """Values and gradients of the truncated form in `dtype`, the dense one in longdouble, and what may be between."""
    x, points, y = scattered(seed, kinds, size, dtype)
    kept = np.random.default_rng(mask_seed).random(size[1]) < 0.6 if masked else np.ones(size[1], bool)
    length_scale = np.asarray(scale, dtype)
    f = functools.partial(set_convolution, mask=kept[None] if masked else None, method="truncated")
    z, pullback = vjp(f, x, points, y, length_scale)
    z_bar = normal(seed, z.shape, dtype)
    arrays = x[0], points[0, kept], y[0, kept], length_scale
    exact, exact_pullback = SET_CONVOLUTION.equation(*map(bounds.exact, arrays))
    right = [r.value for r in (exact, *exact_pullback(bounds.exact(z_bar[0])))]
    limits = bounds.of(SET_CONVOLUTION.equation, arrays, z_bar[0])
    v = np.concatenate([np.ones_like(y[..., :1]), y], -1) * kept[:, None]
    missing = left_out(x, points, v, length_scale, z_bar, present=kept[None], dtype=dtype, truncated=True)
    target_bar, point_bar, y_bar, scale_bar = pullback(z_bar)
    given = z[0], target_bar[0], point_bar[0, kept], y_bar[0, kept], scale_bar
    scale_missing = missing.scales if length_scale.ndim else missing.scales.sum()
    gaps = missing.z[0], missing.targets[0], missing.points[0, kept], missing.values[0, kept, 1:], scale_missing
    return given, right, [2 * limit + gap for limit, gap in zip(limits, gaps, strict=True)]


@given(seeds, places, places, st.integers(1, 40), st.integers(0, 40), st.sampled_from([np.float32, np.float64]),
       st.sampled_from([0.3, 1.0, [0.2, 1.1, 0.6], 40.0, 1e4]), st.booleans())  # fmt: skip
def test_equal_to_the_dense_form_wherever_points_lie(seed, targets, points, m, n, dtype, scale, masked):
    for given_, right, limit in zip(
        *compared(seed, (targets, points), (m, n), dtype, scale, masked=masked), strict=True
    ):
        assert_within(given_, right, limit)


@pytest.mark.parametrize("kind", list(LAYOUTS))
def test_equal_in_longdouble(kind):
    for given_, right, limit in zip(*compared(1, ("grid", kind), (30, 30), np.longdouble, 0.7), strict=True):
        assert_within(given_, right, limit)


@pytest.mark.parametrize("quantity", range(5))
def test_a_shorter_reach_would_show(monkeypatch, quantity):
    near, vanishing = reach(100, np.float64)
    monkeypatch.setattr(near_pairs, "reach", lambda count, dtype: (0.7 * near, vanishing))
    monkeypatch.setattr(near_pairs, "SMALL_BLOCK", 0)
    monkeypatch.setattr(near_pairs, "WASTE", 1)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(*[part[quantity] for part in compared(1, ("grid", "uniform"), (60, 40), np.float64, 0.7)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_density_is_right_relatively_however_small(dtype):
    x = np.linspace(0, reach(40, dtype)[1] - 1, 300, dtype=dtype)[:, None]
    points = -(np.linspace(0, 3, 40, dtype=dtype)[:, None] ** 2)
    nothing = np.zeros((40, 0), dtype)
    z = set_convolution(x, points, nothing, dtype(1), method="truncated")
    exact = set_convolution(*(a.astype(np.longdouble) for a in (x, points, nothing)), np.longdouble(1))
    assert exact.min() < 1e3 * np.finfo(dtype).tiny ** 0.9
    missing = unit_roundoff(dtype) * exact + 40 * np.e * np.finfo(dtype).tiny
    assert_within(z, exact, within(x, points, nothing, 1) + missing)


def test_reach_is_what_the_derivation_says():
    for dtype in (np.float32, np.float64, np.longdouble):
        for count in (1, 7, 100_000):
            near, vanishing = reach(count, dtype)
            share = np.exp(-(np.longdouble(near) ** 2) / 2) * count / np.longdouble(unit_roundoff(dtype))
            assert abs(share - 1) < 1e-12
            s = np.array([vanishing**2 * (1 + 1e-6)], dtype)
            assert eq(s)[0] == 0
    assert round(reach(1, np.float64)[0], 1) == 8.6
    assert round(reach(100_000, np.float64)[0], 1) == 9.8
    assert [round(r, 1) for n in (1, 100_000) for r in reach(n, np.float32)] == [5.8, 13.1, 7.5, 13.1]
    assert least_exponent(np.dtype(np.float64)) > np.log(np.finfo(np.float64).tiny)


@given(seeds, places, places, st.integers(1, 60), st.integers(1, 60), st.floats(0.05, 5))
def test_windows_hold_every_point_within_h(seed, targets, points, m, n, scale):
    x, p, _ = scattered(seed, (targets, points), (m, n), float)
    x, p = np.sort(x.ravel()), np.sort(p.ravel())
    first, last = windows(x - x[0], p - x[0], scale, np.float64)
    near, vanishing = reach(n, np.float64)
    d = np.abs(x[:, None] - p)
    h = np.minimum(np.hypot(d.min(1), near * scale), vanishing * scale)
    index = np.arange(n)
    inside = (first[:, None] <= index) & (index < last[:, None])
    assert inside[d <= h[:, None]].all()
    assert (np.diff(first) >= 0).all()
    assert (np.diff(last) >= 0).all()


def cost(x, points, scale):
    """Pairs that the truncated form looks at, and the blocks they are in."""
    near = neighbours(x[None], points[None], None, scale, np.dtype(np.float64))
    return sum(block.pairs for block in near.blocks), len(near.blocks)


@pytest.mark.parametrize("dense_domain", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_cost_is_linear_with_a_grid_on_one_side(monkeypatch, dense_domain, back):
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    costs = []
    for n in (1_000, 10_000, 100_000):
        width = 4.0 if dense_domain else n / 64
        grid, points = np.arange(0, width, 1 / 64), rng.uniform(0, width, n)
        pairs, blocks = cost(*((points, grid) if back else (grid, points)), 2 / 64)
        costs.append((pairs + near_pairs.SMALL_BLOCK * blocks) / (n + len(grid)))
        in_window = 2 * 2 * reach(n, np.float64)[0] + 2  # grid places within r length scales of two spacings each
        assert pairs <= near_pairs.WASTE * n * in_window + near_pairs.SMALL_BLOCK * blocks
    assert costs[2] <= 1.1 * costs[1]
    assert pairs + near_pairs.SMALL_BLOCK * blocks < 100_000 * len(grid) / 2


def test_cost_is_linear_with_all_points_in_one_place():
    grid = np.arange(-2, 8, 1 / 64)
    for n in (1_000, 100_000):
        pairs, blocks = cost(grid, np.zeros(n), 2 / 64)
        most = 2 * 2 * reach(n, np.float64)[1] + 2  # no other point is nearer to any place
        assert pairs <= near_pairs.WASTE * n * most + 64 * blocks


def test_auto_takes_the_form_that_takes_less_time(monkeypatch):
    monkeypatch.undo()
    x, points, y = scattered(1, ("grid", "uniform"), (2000, 1000), float)
    assert_same_bits(set_convolution(x, points, y, 0.3), set_convolution(x, points, y, 0.3, method="truncated"))
    assert_same_bits(set_convolution(x, points, y, 30.0), set_convolution(x, points, y, 30.0, method="dense"))
    few = x[:, :50]
    assert_same_bits(set_convolution(few, points, y, 0.3), set_convolution(few, points, y, 0.3, method="dense"))
    ones = np.ones(3)
    for kernel, *arrays in (
        (lambda s: eq(s), x, points, y),
        (eq, np.repeat(x, 2, -1), np.repeat(points, 2, -1), y),
        (eq, x, points, y * np.inf),
        (eq, x, points + np.inf, y),
    ):
        assert portions_of("auto", kernel, *arrays, None, ones) == all_pairs(*arrays[:2])


def test_order_of_distinct_points_changes_no_bit():
    x, points, y = scattered(3, ("uniform", "uniform"), (60, 80), float)
    order = np.random.default_rng(3).permutation(80)
    f = functools.partial(set_convolution, method="truncated", divide=True)
    assert_same_bits(f(x, points[:, order], y[:, order], 0.5), f(x, points, y, 0.5))
    targets = np.random.default_rng(4).permutation(60)
    assert_same_bits(f(x[:, targets], points, y, 0.5), f(x, points, y, 0.5)[:, targets])


@pytest.mark.parametrize("shift", [-1024.0, 3.125, 37.0])
def test_a_shift_that_rounds_nothing_changes_nothing(shift):
    x, points, y = scattered(3, ("clusters", "uniform"), (60, 80), float)
    x, points = np.round(x * 1024) / 1024, np.round(points * 1024) / 1024
    results = []
    for t in (0, shift):
        z, pullback = vjp(lambda *a: set_convolution(*a, 0.5, method="truncated"), x + t, points + t, y)
        results.append((z, *pullback(normal(1, z.shape))))
    for moved, here in zip(*results, strict=True):
        assert_same_bits(moved, here)


def test_several_sets_of_different_sizes():
    parts = [scattered(seed, ("grid", "uniform"), (50, 40), float) for seed in range(3)]
    x, points, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    mask = np.arange(40) < np.array([[40], [0], [7]])
    f = functools.partial(set_convolution, method="truncated")
    together, pullback = vjp(lambda *a: f(*a, 0.5, mask=mask), x, points, y)
    z_bar = normal(1, together.shape)
    for b, count in enumerate((40, 0, 7)):
        alone, alone_pullback = vjp(lambda *a: f(*a, 0.5), x[b], points[b, :count], y[b, :count])
        u = unit_roundoff(float)
        carried = np.concatenate([[count], np.abs(y[b, :count]).sum(0)])
        bound = within(x[b], points[b, :count], y[b, :count], 0.5) + u * (1 + carried)
        assert_within(together[b], alone, bound)
        assert_within(
            pullback(z_bar)[2][b, :count], alone_pullback(z_bar[b])[2], 200 * u * (1 + np.abs(z_bar[b]).sum())
        )
