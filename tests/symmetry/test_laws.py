"""Claims true or false by construction: functions composed at random of parts that keep the order, or do not."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refnp.symmetry import Permute, Roll, equivariant, invariant, search
from tests.symmetry import functions as f

EACH = {  # of a set: each row from itself and from what all rows have together
    "tanh": np.tanh,
    "centred": lambda x: x - x.mean(0),
    "over the largest": lambda x: x / (1 + np.abs(x).max(0)),
    "attention": f.self_attention,
    "softmax": lambda x: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0),
    "cubes": lambda x: x * (x * x) / (1 + (x * x).sum()),
    "distances": lambda x: np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)).sum(1, keepdims=True) + x,
    "ranks": lambda x: x * (x[:, None] > x[None]).sum(1),
    "eight directions": lambda x: np.maximum(x @ np.cos(np.arange(16).reshape(2, 8)), 0)[:, :2],
}
POOLED = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(0),
    "largest": lambda x: x.max(0),
    "in order": lambda x: np.sort(x, 0),
    "spectrum": lambda x: np.linalg.eigvalsh(x.T @ x),
    "variance": lambda x: (x * x).mean(0) - x.mean(0) ** 2,
}
RING = {
    "neighbours": lambda x: x + 0.5 * np.roll(x, 1) - 0.25 * np.roll(x, -1),
    "relu": lambda x: np.maximum(x, 0),
    "peaks": lambda x: np.where((x > np.roll(x, 1)) & (x >= np.roll(x, -1)), x, 0),
    "largest in a window": lambda x: np.maximum(x, np.roll(x, 1)),
    "over its norm": lambda x: x / np.sqrt(1 + (x * x).sum()),
    "spectrum": lambda x: np.fft.ifft(np.fft.fft(x) * np.abs(np.fft.fft(x))).real,
}
BROKEN = {
    "the first": lambda x: x[0],
    "the last": lambda x: x[-1] ** 2,
    "places": lambda x: np.tensordot(np.arange(len(x)).astype(x.dtype), x, 1),
    "the first of the largest": lambda x: np.argmax(x.reshape(len(x), -1)[:, 0]) + 0 * x[0],
}
SETS, SIGNALS = {"n": range(1, 6)}, {"n": range(1, 9)}
few = settings(max_examples=12, deadline=None)
names = lambda parts, most: st.lists(st.sampled_from(sorted(parts)), max_size=most)
seeds = st.integers(0, 10**6)


def rows(rng, n):
    return {"x": rng.normal(size=(n, 2))}


def composed(parts, chosen, last=lambda x: x):
    def function(x):
        for name in chosen:
            x = parts[name](x)
        return last(x)

    return function


@few
@given(names(EACH, 3), st.sampled_from(sorted(POOLED)), seeds)
def test_functions_of_sets_are_never_refuted(chosen, pooled, seed):
    function = composed(EACH, chosen, POOLED[pooled])
    verdict = search(invariant(function, Permute("x", 0)), rows, sizes=SETS, seed=seed, count=24)
    assert not verdict.fails, str(verdict)


@few
@given(names(EACH, 3), seeds)
def test_functions_of_each_of_a_set_are_never_refuted(chosen, seed):
    claim = equivariant(composed(EACH, chosen), Permute("x", 0), Permute(axis=0))
    verdict = search(claim, rows, sizes=SETS, seed=seed, count=24)
    assert not verdict.fails, str(verdict)


@few
@given(names(RING, 4), seeds)
def test_functions_on_a_ring_are_never_refuted(chosen, seed):
    claim = equivariant(composed(RING, chosen), Roll("x"), Roll())
    verdict = search(claim, f.vector, sizes=SIGNALS, seed=seed, count=24)
    assert not verdict.fails, str(verdict)


@few
@example(["centred"], "mean", "places", 1.0, 0)  # the mean is 0 on paper: its rounding hides nothing of the other array
@given(names(EACH, 2), st.sampled_from(sorted(POOLED)), st.sampled_from(sorted(BROKEN)), st.floats(1e-6, 1), seeds)
def test_what_knows_the_order_is_found_with_every_seed(chosen, pooled, broken, size, seed):
    function = composed(EACH, chosen, POOLED[pooled])
    wrong = lambda x: {"pooled": function(x), "wrong": np.tanh(x).sum(0) + size * BROKEN[broken](x)}
    verdict = search(invariant(wrong, Permute("x", 0)), rows, sizes=SETS, seed=seed, count=24)
    assert verdict.fails, str(verdict)
    assert verdict.counterexample.sizes["n"] <= 3


@few
@given(names(RING, 3), st.sampled_from(sorted(BROKEN)), seeds)
def test_what_knows_the_place_on_a_ring_is_found_with_every_seed(chosen, broken, seed):
    function = composed(RING, chosen)
    wrong = lambda x: np.append(function(x), np.tanh(x).sum() + BROKEN[broken](x)).sum()
    verdict = search(invariant(wrong, Roll("x")), f.vector, sizes=SIGNALS, seed=seed, count=24)
    assert verdict.fails, str(verdict)
