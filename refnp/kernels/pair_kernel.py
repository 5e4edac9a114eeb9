"""The MLP of pairs on arrays of floats, in blocks of pairs. The page is refnp/layers/translation_attention.py.

There are N·M pairs with W hidden numbers each, far more than anything else in a layer. Pairs are taken in blocks,
features first, so that every linear map is one matrix product, [W; b]ᵀ [h; 1], whose result is still in cache for the
relu. They are never all in memory: the VJP computes them again, block by block, which takes less time than to fetch
them from memory. Sums over blocks are taken in their order: the bits do not depend on the number of threads.
"""

import itertools
import math

import numpy as np

from refnp.kernels.blocks import run_all, slices
from refnp.kernels.products import SMALL_PRODUCT

BLOCK = 1 << 18  # hidden numbers of a block after one map; rows of 4096 and less NumPy's broadcasting takes by detours
SHORTEST_PIECE = 128  # pairs; where a product of so many is not small, all pairs of a block are one product


def pair_kernel(differences, scores, *parameters):
    """An MLP with relu on [d_nm, s_nm] for every pair of a query n and a key m."""
    (b, n, m, dx), dtype = differences.shape, np.result_type(differences, scores, *parameters)
    pairs = zip(parameters[::2], parameters[1::2], strict=True)
    maps = [np.vstack(both).astype(dtype, copy=False) for both in pairs]  # [W; b]
    blocks = blocks_of_pairs(b, n, m, max(len(w) - 1 for w in maps))
    largest = max(w.size for w in maps)
    out = np.empty((b, maps[-1].shape[1], n, m), dtype)

    def inputs(tasks, rows):
        """[d, s, 1] of a block, and 0 for what is no pair."""
        d, s = differences[tasks, rows], scores[tasks, :, rows]
        x, pairs = zeros_in_pieces(len(maps[0]), d.shape[:3], largest, dtype)
        pairs[:dx], pairs[dx:-1], pairs[-1] = d.transpose(3, 0, 1, 2), s.swapaxes(0, 1), 1
        return x

    def hidden(x):
        """What goes into each linear map: [d, s, 1], [h_1, 1], …"""
        found, zeros = [x], np.zeros(x.shape[1:], dtype)  # NumPy's maximum takes twice as long with one 0
        for w in maps[:-1]:
            both = np.empty((w.shape[1] + 1, *x.shape[1:]), dtype)
            h, both[-1] = product_in_pieces(w.T, found[-1], out=both[:-1]), x[-1]
            np.maximum(h, zeros, out=h)
            found.append(both)
        return found

    def forward(i):
        tasks, rows = blocks[i]
        found, part = hidden(inputs(tasks, rows)), out[tasks, :, rows].swapaxes(0, 1)
        part[...] = as_pairs(product_in_pieces(maps[-1].T, found[-1]), part.shape[1:])

    run_all(forward, len(blocks))

    def vjp(bar):
        d_bar, s_bar = np.empty(differences.shape, dtype), np.empty(scores.shape, dtype)
        partial: list[list] = [[] for _ in blocks]

        def backward(i):
            tasks, rows = blocks[i]
            found, part = hidden(inputs(tasks, rows)), bar[tasks, :, rows].swapaxes(0, 1)
            g, pairs = zeros_in_pieces(len(part), part.shape[1:], largest, dtype)
            pairs[...], g = part, g.view(type(part))
            for w, h in zip(maps[::-1], found[::-1], strict=True):
                partial[i].append(sum_over_pairs(h, g))  # [W̄; b̄]
                g = product_in_pieces(w[:-1], g)
                if h is not found[0]:
                    g *= h[:-1] != 0  # NaN lets pass, as in relu
            pairs = as_pairs(g, part.shape[1:])
            d_bar[tasks, rows] = pairs[:dx].transpose(1, 2, 3, 0)
            s_bar[tasks, :, rows] = pairs[dx:].swapaxes(0, 1)

        run_all(backward, len(blocks))
        bars = [sum(parts, np.zeros(w.shape, dtype)) for w, *parts in zip(maps[::-1], *partial, strict=True)][::-1]
        return d_bar, s_bar, *[part for both in bars for part in (both[:-1], both[-1])]

    return out, vjp


def zeros_in_pieces(features, shape, largest, dtype):
    """Zeros (features, pieces, length), and those that belong to pairs as (features, tasks, rows, columns).

    There are as many pieces as make products with a matrix of `largest` numbers small (`SMALL_PRODUCT`), or one if
    they were shorter than SHORTEST_PIECE.
    """
    count, length = math.prod(shape), SMALL_PRODUCT // max(largest, 1)
    pieces = max(-(-count // length), 1) if length >= SHORTEST_PIECE else 1
    zeros = np.zeros((features, pieces, -(-count // pieces)), dtype)
    return zeros, as_pairs(zeros, shape)


def as_pairs(array, shape):
    """(features, pieces, length) → (features, tasks, rows, columns), a view."""
    features, pieces, length = array.shape
    return array.reshape(features, pieces * length)[:, : math.prod(shape)].reshape(features, *shape)


def product_in_pieces(weight, array, out=None):
    """W h for every pair, (k, n) and (n, pieces, length) → (k, pieces, length), a product for each piece."""
    out = np.empty_like(array, shape=(len(weight), *array.shape[1:]), order="C") if out is None else out
    np.matmul(weight, array.swapaxes(0, 1), out=out.swapaxes(0, 1))
    return out


def sum_over_pairs(h, g):
    """Σ_nm h gᵀ, (n, pieces, length) and (k, pieces, length) → (n, k)."""
    return np.matmul(h.swapaxes(0, 1), g.transpose(1, 2, 0)).sum(0)


def blocks_of_pairs(tasks, rows, columns, width):
    """Blocks (tasks, rows) of rows × columns pairs each, of about BLOCK numbers if each pair has `width` of them."""
    pairs = max(BLOCK // max(width, 1), 1)
    height = max(pairs // max(columns, 1), 1)  # rows
    if height >= rows:
        together = max(height // max(rows, 1), 1)  # tasks
        return [(some, slice(None)) for some in even_number_of_slices(tasks, together)]
    return [(task, some) for task in slices(tasks, 1) for some in even_number_of_slices(rows, height)]


def even_number_of_slices(count, height):
    """Slices of at most `height` of `count` items that differ by 1 at most, an even number of them if several."""
    several = -(-count // height)
    several = min(several + several % 2, count) if several > 1 else several
    return [slice(i * count // several, (i + 1) * count // several) for i in range(several)]


def check_maps(differences, scores, *parameters):
    """ValueError unless the parameters are those of maps that begin with dx + H features."""
    widths = [differences.shape[3] + scores.shape[1], *(np.shape(bias)[0] for bias in parameters[1::2])]
    wanted = [shape for n, k in itertools.pairwise(widths) for shape in ((n, k), (k,))]
    if not wanted or [np.shape(p) for p in parameters] != wanted:
        raise ValueError(
            f"pair_kernel: parameters have shapes {[np.shape(p) for p in parameters]}; they must be W, b of linear "
            f"maps one after the other, from {widths[0]} features: {wanted}"
        )
