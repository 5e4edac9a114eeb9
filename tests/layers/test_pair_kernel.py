"""The kernel on pairs: its value and gradients, whatever the blocks, for every number of threads."""

import itertools
import tracemalloc

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.kernels import pair_kernel as kernels
from refnp.kernels.pair_kernel import blocks_of_pairs
from refnp.layers.translation_attention import pair_kernel
from refnp.numbers.rounding import exact
from refnp.verify import bounds
from refnp.verify.layers.neural_process_parts import PAIR_KERNEL
from tests.helpers import assert_same_bits, assert_within, normal


def problem(seed, size, widths, dtype=np.float64, scale=1.0):
    """differences, scores and the parameters of an MLP with these hidden widths and 2 results."""
    rng = np.random.default_rng(seed)
    b, n, m, dx, heads = size
    widths = [dx + heads, *widths, 2]
    shapes = [shape for i, k in itertools.pairwise(widths) for shape in ((i, k), (k,))]
    arrays = normal(rng, (b, n, m, dx), dtype, scale), normal(rng, (b, heads, n, m), dtype, scale)
    return *arrays, *(normal(rng, shape, dtype) for shape in shapes)


def bounded(arrays, dtype):
    """Value and gradients within the bounds of running error analysis; returns them."""
    value, pullback = ad.vjp(pair_kernel, *arrays)
    bar = normal(1, value.shape, dtype)
    found = (value, *pullback(bar))
    limits = bounds.of(PAIR_KERNEL.equation, arrays, bar)
    expected, back = PAIR_KERNEL.equation(*map(exact, arrays))
    for a, reference, limit in zip(found, (expected, *back(exact(bar))), limits, strict=True):
        assert a.dtype == dtype
        assert_within(a, reference.value, limit)
    return found


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", range(4))
def test_page_and_kernel_agree_where_numbers_are_not_finite(place, number):
    arrays = problem(0, (1, 2, 3, 1, 1), [4, 5])
    arrays[place].flat[0] = number
    bar = normal(1, (1, 2, 2, 3))
    of_both = []
    for form in (pair_kernel.page, pair_kernel.kernel):
        with np.errstate(invalid="ignore"):
            value, vjp = form(*arrays)
            of_both.append([np.isnan(a) for a in (value, *vjp(bar))])
    for page, kernel in zip(*of_both, strict=True):
        assert_same_bits(page, kernel)


@pytest.mark.parametrize(("largest", "pieces"), [(130, 4), (400, 1), (127, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pieces_of_a_block_give_the_same_to_rounding(largest, pieces, dtype, monkeypatch):
    """400 pairs in pieces of at most `largest`, or in one: all pairs fit, or pieces were too short."""
    arrays = problem(0, (1, 20, 20, 1, 2), (5, 4), dtype)
    monkeypatch.setattr(kernels, "SMALL_PRODUCT", largest * 24)  # [W; b] of 5 hidden numbers on 4
    found, real = set(), kernels.product_in_pieces
    monkeypatch.setattr(kernels, "product_in_pieces", lambda w, h, **o: (found.add(h.shape[1]), real(w, h, **o))[1])
    bounded(arrays, dtype)
    assert found == {pieces}


@pytest.mark.parametrize(
    ("tasks", "rows", "columns", "width"), [(3, 4, 5, 6), (3, 0, 5, 6), (0, 4, 5, 6), (1, 900, 700, 32)]
)
@pytest.mark.parametrize("block", [1, 100, 1000, 1 << 17])
def test_every_pair_is_in_one_block(tasks, rows, columns, width, block, monkeypatch):
    monkeypatch.setattr(kernels, "BLOCK", block)
    count = np.zeros((tasks, rows, columns), int)
    for some, these in blocks_of_pairs(tasks, rows, columns, width):
        count[some, these] += 1
        held = count[some, these].size * width
        assert held <= max(block, columns * width)
    assert (count == 1).all()


def test_hidden_numbers_are_never_all_in_memory():
    """Forward and backward hold less at their peak than one hidden layer of all pairs takes, 32 MB."""
    arrays = problem(0, (1, 500, 500, 1, 4), (32, 32), np.float32)
    bar = np.ones((1, 2, 500, 500), np.float32)
    tracemalloc.start()
    value, pullback = ad.vjp(pair_kernel, *arrays)
    pullback(bar)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value.nbytes < peak < 500 * 500 * 32 * 4
