"""A kernel on pairs: how well a query and a key fit, from where they are and what they hold, by a small MLP.

    (a¹ … a^H)_nm = W_k relu(… relu(W_1 [d_nm, s¹_nm … s^H_nm] + b_1) …) + b_k

There are N·M pairs, and each has W hidden numbers, which is far more than anything else in a layer. They are never all
in memory: pairs are taken in blocks, features first, so that every linear map is one matrix product and its result is
still in cache for the relu; the way back makes them again, block by block.

Source: Ashman et al., arXiv 2406.12409, eq. 8; the MLP sees differences of places and scaled products q·k.
"""

from __future__ import annotations

import itertools

import numpy as np

from refnp.autograd.blocks import BLOCK, run_all
from refnp.autograd.primitive import primitive


@primitive
def pair_kernel(differences, scores, *parameters):
    """An MLP with relu on [d_nm, s_nm] for every pair of a query n and a key m.

    Shapes: differences (B, N, M, dx), scores (B, H, N, M), then W_1 (dx + H, W), b_1 (W,), …, W_k (W, H'), b_k (H',)
    → (B, H', N, M).   Raises ValueError for shapes that do not fit.
    VJP, with h_i = relu(g_i) the input of map i + 1 and g_k the result, layer by layer from the last:

        W̄_i = Σ_nm h_{i−1} ḡ_iᵀ     b̄_i = Σ_nm ḡ_i     h̄_{i−1} = W_i ḡ_i     ḡ_{i−1} = h̄_{i−1} where g_{i−1} > 0, else 0

    and [d̄, s̄] = h̄_0. Sums over blocks are taken in their order: the bits do not depend on the number of threads.
    """
    check_pairs(differences, scores, parameters)
    weights, biases = parameters[::2], [bias[:, None] for bias in parameters[1::2]]
    (b, n, m, dx), dtype = differences.shape, np.result_type(differences, scores, *parameters)
    blocks = cut(b, n, m, max(w.shape[0] for w in weights))
    out = np.empty((b, weights[-1].shape[1], n, m), dtype)

    def inputs(tasks, rows):
        """[d, s] of a block, features first, and the pairs of the block as one axis."""
        d, s = differences[tasks, rows].transpose(3, 0, 1, 2), scores[tasks, :, rows].swapaxes(0, 1)
        return features_by_pairs(np.concatenate([d, s], dtype=dtype))

    def hidden(x):
        """What goes into each linear map."""
        found = [x]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            h = weight.T @ found[-1]
            h += bias
            found.append(np.maximum(h, 0, out=h) if dtype.kind == "f" else h * (h.real > 0))
        return found

    def forward(i):
        tasks, rows = blocks[i]
        a = weights[-1].T @ hidden(inputs(tasks, rows))[-1]
        a += biases[-1]
        part = out[tasks, :, rows]
        part[...] = a.reshape(part.swapaxes(0, 1).shape).swapaxes(0, 1)

    run_all(forward, len(blocks))

    def vjp(bar):
        d_bar, s_bar = np.empty(differences.shape, dtype), np.empty(scores.shape, dtype)
        partial: list[list] = [[] for _ in blocks]

        def backward(i):
            tasks, rows = blocks[i]
            found = hidden(inputs(tasks, rows))
            g = features_by_pairs(bar[tasks, :, rows].swapaxes(0, 1))
            for weight, h in zip(weights[::-1], found[::-1], strict=True):
                partial[i] += [g.sum(-1), h @ g.T]
                g = weight @ g
                if h is not found[0]:
                    g *= h.real > 0
            g = g.reshape(len(g), *d_bar[tasks, rows].shape[:3])
            d_bar[tasks, rows] = g[:dx].transpose(1, 2, 3, 0)
            s_bar[tasks, :, rows] = g[dx:].swapaxes(0, 1)

        run_all(backward, len(blocks))
        zeros = [np.zeros(p.shape, dtype) for p in parameters[::-1]]
        return d_bar, s_bar, *[sum(parts, zero) for zero, *parts in zip(zeros, *partial, strict=True)][::-1]

    return out, vjp


def features_by_pairs(array):
    """(features, tasks, rows, columns) → (features, pairs)."""
    return array.reshape(array.shape[0], int(np.prod(array.shape[1:], dtype=int)))


def cut(tasks, rows, columns, width):
    """Blocks (tasks, rows) of rows × columns pairs each, of about BLOCK numbers if each pair has `width` of them."""
    pairs = max(BLOCK // max(width, 1), 1)
    height = max(pairs // max(columns, 1), 1)  # rows
    if height >= rows:
        together = max(height // max(rows, 1), 1)  # tasks
        return [(slice(start, start + together), slice(None)) for start in range(0, tasks, together)]
    return [
        (slice(task, task + 1), slice(start, start + height))
        for task in range(tasks)
        for start in range(0, rows, height)
    ]


def check_pairs(differences, scores, parameters):
    """ValueError unless (B, N, M, dx) and (B, H, N, M) are of the same pairs, and maps begin with dx + H features."""
    pairs = differences.ndim == scores.ndim == 4 and differences.shape[:3] == (scores.shape[0], *scores.shape[2:])
    if not pairs:
        raise ValueError(
            f"pair_kernel: differences have shape {differences.shape} and scores {scores.shape}; they must be "
            "(B, N, M, dx) and (B, H, N, M)"
        )
    widths = [differences.shape[3] + scores.shape[1], *(np.shape(bias)[0] for bias in parameters[1::2])]
    wanted = [shape for n, k in itertools.pairwise(widths) for shape in ((n, k), (k,))]
    if not wanted or [np.shape(p) for p in parameters] != wanted:
        raise ValueError(
            f"pair_kernel: parameters have shapes {[np.shape(p) for p in parameters]}; they must be W, b of linear "
            f"maps one after the other, from {widths[0]} features: {wanted}"
        )
