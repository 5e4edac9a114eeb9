"""Elements at a kink are judged together: a claim is a generalised gradient along directions through all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from gradcheck import compare
from gradcheck.precision import wider

MEDIANS = [np.median, lambda x: ad.median(x)]


def ties(x):
    """The largest of each row, all of whose elements are equal."""
    return np.where(np.ones(x.shape), x, x).max(-1)


@given(
    rows=st.integers(1, 3),
    columns=st.integers(2, 4),
    total=st.sampled_from([0.0, 0.5, 1.0, 1.5]),
    signs=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_subgradients_of_a_maximum_sum_to_one(rows, columns, total, signs, seed):
    """Each element lies in [0, 1]; the losses add up rows with factors of both signs, so kinks bend both ways."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(columns), rows) if total <= 1 else np.full((rows, columns), 1 / columns)
    factors = rng.uniform(1, 2, rows) * (rng.choice([-1, 1], rows) if signs else 1)
    f = lambda x: (ties(x) * factors).sum()
    x = np.repeat(rng.normal(size=(rows, 1)), columns, axis=1)
    report = compare(f, (x,), vjp=lambda _, x: (f(x), lambda u: (u * factors[:, None] * total * shares,)), seed=seed)
    assert report.agrees == (total == 1), report
    assert len(report.kinks) == rows * columns


@given(g=st.lists(st.floats(-1, 1), min_size=2, max_size=4), x=st.sampled_from([0.0, 2.0]))
def test_subgradients_of_a_norm_are_no_longer_than_one(g, x):
    g, x = np.array(g), np.full(len(g), x)
    f = lambda y: np.sqrt(((y - x) ** 2).sum())
    length = np.linalg.norm(g)
    report = compare(f, (x.copy(),), vjp=lambda _, y: (f(y), lambda u: (u * g,)))
    if not 1 < length < 1.2:
        assert report.agrees == (length <= 1), (report, length)


@given(factors=st.lists(st.sampled_from([-2.0, -1.0, 1.0, 3.0]), min_size=2, max_size=7), data=st.data())
def test_a_subgradient_at_each_of_several_kinks_agrees(factors, data):
    """Kinks of different terms have conventions of their own, whatever the signs of their factors."""
    factors = np.array(factors)
    slopes = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=len(factors), max_size=7)))
    slopes = slopes[: len(factors)]
    f = lambda x: (np.abs(x) * factors).sum()
    report = compare(f, (np.zeros(len(factors)),), vjp=lambda _, x: (f(x), lambda u: (u * factors * slopes,)))
    assert report.agrees, report


def test_a_subgradient_on_sides_that_are_seldom_drawn_agrees():
    """One of 128 ways has the greatest slope of seven kinks, six that bend down and one that bends up."""
    factors, slopes = np.array([-2.0] * 6 + [1.0]), np.array([-1.0] * 6 + [0.5])
    f = lambda x: (np.abs(x) * factors).sum()
    for seed in range(20):
        assert compare(f, (np.zeros(7),), vjp=lambda _, x: (f(x), lambda u: (u * factors * slopes,)), seed=seed).agrees
    assert not compare(f, (np.zeros(7),), vjp=lambda _, x: (f(x), lambda u: (u * factors * 1.1,))).agrees


def refused_of_networks(change):
    """How many of 60 claims disagree at 0 of Σ_k c_k |w_k x|: limits of gradients beside it, changed in this way."""
    refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, kinks = rng.integers(2, 7), rng.integers(2, 8)
        w, c = rng.integers(-2, 3, (kinks, n)).astype(float), rng.choice([-3.0, -1, 1, 2], kinks)
        f = lambda x, w=w, c=c: (c * np.abs(w @ x)).sum()
        g = change(w.T @ (c * np.sign(w @ rng.normal(size=n))))
        refused += compare(
            f, (np.zeros(n),), vjp=lambda _, x, f=f, g=g: (f(x), lambda u: (u * g,)), seed=seed
        ).disagrees
    return refused


def test_limits_of_gradients_are_seldom_refused_and_others_mostly():
    """Kinks that no axis crosses alone, and that bend both ways: where extremes were not met, nothing is to be said."""
    assert refused_of_networks(lambda g: g) <= 5
    assert refused_of_networks(lambda g: 1.3 * g + 0.05) >= 45


def test_a_complex_step_is_tried_beside_kinks():
    """|w x| of which an element has no influence: at 0 its complex step is 0, as its central difference."""
    w = np.array([[0, -1, 0], [2, 2, 0], [2, 1, 0.0]])
    f = lambda x: np.abs(w @ x).sum()
    report = compare(f, (np.zeros(3),), vjp=lambda _, x: (f(x), lambda u: (u * w.sum(0),)))
    assert report.agrees
    assert len(report.kinks) == 2


@pytest.mark.parametrize("f", [*MEDIANS, np.sort, lambda x: np.maximum(x[0], np.minimum(x[1], x[2])) * x[3:].sum()])
def test_kinks_that_no_axis_crosses(f):
    """Where five numbers are equal, their median moves with none of them alone; each may have the slope 1."""
    x = np.ones(5)
    order = np.array([3, 0, 2, 4, 1])

    def claim(x, factor):
        if f in MEDIANS:
            return lambda u: (u * factor * np.eye(5)[2],)
        if f is np.sort:
            return lambda u: (factor * u[order],)
        return lambda u: (u * factor * np.array([0, 2.0, 0, 1, 1]),)

    for factor, right in ((1.0, True), (1.5, False), (0.0, False)):
        report = compare(f, (x,), vjp=lambda _, x, factor=factor: (f(x), claim(x, factor)))
        assert report.agrees == right, (factor, report)


NARROW = pytest.mark.skipif(wider(np.float64) is None, reason="longdouble is float64 here")
STEEP = pytest.param(1.0, 1.0, 1e9, marks=NARROW)  # which leaves no digit of the others in float64


@pytest.mark.parametrize(("small", "large", "factor"), [(1e-3, 1e3, 1.0), (1.0, 1e6, 1.0), STEEP])
def test_kinks_of_small_elements_beside_a_large_slope(small, large, factor):
    """Along a direction through all elements the kinks of three are below what is told apart."""
    f = lambda x: x[:3].sum() - 2 * np.median(x[:3]) + factor * x[3]
    x = np.array([small, small, small, large])
    for shares, right in (([1, 0, 0], True), ([0.5, 0.5, 0], True), ([1.5, 0, 0], False), ([0.5, 0.2, 0.2], False)):
        g = np.array([*(1 - 2 * np.array(shares)), factor])
        report = compare(f, (x,), vjp=lambda _, x, g=g: (f(x), lambda u: (u * g,)))
        assert report.agrees == right, report
        assert len(report.kinks) == 3
