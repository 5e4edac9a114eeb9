"""Linear maps and lookups: what is bilinear in its arguments."""

from __future__ import annotations

import numpy as np

from refnp.verify.rounding import WIDE, Rounded, constant, contract, scatter


def matmul(x, y):
    """Z = X Y over the last two axes;   X̄ = Z̄ Yᵀ, Ȳ = Xᵀ Z̄, summed over the axes that were broadcast."""
    z = contract("...ij,...jk->...ik", x, y)

    def pullback(g):
        return sum_to(contract("...ik,...jk->...ij", g, y), x.shape), sum_to(
            contract("...ij,...ik->...jk", x, g), y.shape
        )

    return z, pullback


def linear(x, weight, bias=None):
    """y = x W + b;   x̄ = ȳ Wᵀ, W̄ = xᵀ ȳ and b̄ = Σ ȳ over all rows."""
    y = contract("...i,ij->...j", x, weight)
    if bias is not None:
        y = y + bias

    def pullback(g):
        rows, row_bars = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
        bars = contract("...j,ij->...i", g, weight), contract("ri,rj->ij", rows, row_bars)
        return bars if bias is None else (*bars, row_bars.sum((0,)))

    return y, pullback


def embedding(table, *, tokens, scaled=False):
    """X_n = E[token_n], times √D if `scaled`;   Ē_v = Σ of X̄_n over the n with token_n = v, times √D."""
    tokens, features = np.asarray(tokens), table.shape[-1]
    root = constant(np.sqrt(WIDE(features))) if scaled else None
    x = table[tokens]

    def pullback(g):
        g = g if root is None else g * root
        return (scatter(g.reshape(-1, features), tokens.reshape(-1), table.shape[0]),)

    return x if root is None else x * root, pullback


def sum_to(x: Rounded, shape: tuple[int, ...]) -> Rounded:
    """Sum over the axes along which `shape` was broadcast."""
    extra = len(x.shape) - len(shape)
    x = x.sum(tuple(range(extra))) if extra else x
    repeated = tuple(i for i, n in enumerate(shape) if n == 1 != x.shape[i])
    return x.sum(repeated, keepdims=True) if repeated else x
