"""Convolution and its relatives, from one table: which input element stands under which tap at which place.

    source[p, t] = the element at p·stride + t·dilation − padding, or a zero outside

p runs over the places of the kernel and t over its taps, both over all spatial axes at once.
"""

from __future__ import annotations

import math

import numpy as np

from refnp.verify.rounding import Rounded, contract, scatter


def places_of(lengths, kernel, stride, dilation, padding) -> tuple[int, ...]:
    """How many places a kernel has along each axis of an input."""
    axes = zip(lengths, kernel, stride, dilation, padding, strict=True)
    return tuple((n + before + after - d * (k - 1) - 1) // s + 1 for n, k, s, d, (before, after) in axes)


def sources(mode: str, lengths, places, kernel, stride, dilation, padding) -> np.ndarray:
    """The table (P, T) of positions in the flattened input, −1 for a zero outside."""
    along = []
    for n, count, k, s, d, (before, _) in zip(lengths, places, kernel, stride, dilation, padding, strict=True):
        at = np.arange(count)[:, None] * s + np.arange(k) * d - before  # (p, t)
        along.append(np.vectorize(lambda i, n=n: position(mode, i, n), otypes=[int])(at) if at.size else at)
    table = np.zeros((1, 1), int)
    outside = np.zeros((1, 1), bool)
    for n, at in zip(lengths, along, strict=True):
        table = (table[:, None, :, None] * n + at[None, :, None, :]).reshape(len(table) * len(at), -1)
        outside = (outside[:, None, :, None] | (at < 0)[None, :, None, :]).reshape(table.shape)
    return np.where(outside, -1, table)


def position(mode: str, i: int, n: int) -> int:
    """Where element i of an axis of length n, i from −before to n + after − 1, is taken from; −1 for a zero."""
    if mode == "circular":
        return i % n
    if mode == "replicate":
        return min(max(i, 0), n - 1)
    if mode == "reflect":
        while not 0 <= i < n:
            i = -i if i < 0 else 2 * (n - 1) - i
        return i
    return i if 0 <= i < n else -1


def gathered(x: Rounded, table: np.ndarray) -> Rounded:
    """x (..., n) → (..., P, T), with 0 where the table says −1."""
    return x.moved(lambda a: np.concatenate([a, np.zeros_like(a[..., :1])], -1)[..., table])


def scattered(x: Rounded, table: np.ndarray, length: int, *, depth: int | None = None) -> Rounded:
    """The adjoint: x (..., P, T) → (..., n), elements that stood under several taps added up."""
    front = x.reshape(math.prod(x.shape[:-2]), table.size).moved(np.transpose)
    y = scatter(front, table.ravel() % (length + 1), length + 1, depth=depth)
    return y[:-1].moved(np.transpose).reshape(*x.shape[:-2], length)


def most(table: np.ndarray) -> int:
    """How many pairs of a place and a tap read the same element, at most."""
    return int(np.bincount(table[table >= 0], minlength=1).max())


def per_axis(value, axes: int) -> tuple:
    """One number for each axis."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def pairs_of(padding, axes: int) -> list[tuple[int, int]]:
    """Padding as a pair (before, after) per axis, from a number, a number per axis, or pairs."""
    return [p if isinstance(p, tuple) else (p, p) for p in per_axis(padding, axes)]


def convolution(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """y_o[p] = Σ_{c,t} w_oc[t] x_c[source(p, t)] + b_o, within groups of channels (a cross-correlation, as everywhere).

    x̄_c[i] = Σ_{o,p,t: source(p,t) = i} w_oc[t] ȳ_o[p];   w̄_oc[t] = Σ_p ȳ_o[p] x_c[source(p, t)];   b̄_o = Σ_p ȳ_o[p].
    """
    lengths, kernel = x.shape[2:], weight.shape[2:]
    axes, size, out = len(lengths), math.prod(lengths), weight.shape[0]
    walk = kernel, per_axis(stride, axes), per_axis(dilation, axes), pairs_of(padding, axes)
    places = places_of(lengths, *walk)
    table = sources(padding_mode, lengths, places, *walk)
    under = gathered(x.reshape(x.shape[0], groups, weight.shape[1], size), table)  # (B, G, C, P, T)
    w = weight.reshape(groups, out // groups, weight.shape[1], -1)  # (G, O, C, T)
    y = contract("bgcpt,goct->bgop", under, w).reshape(x.shape[0], out, *places)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * axes)

    def pullback(g):
        y_bar = g.reshape(x.shape[0], groups, out // groups, len(table))
        under_bar = contract("bgop,goct->bgcpt", y_bar, w, terms=out // groups * most(table))
        x_bar = scattered(under_bar, table, size, depth=0).reshape(*x.shape)
        bars = x_bar, contract("bgcpt,bgop->goct", under, y_bar).reshape(*weight.shape)
        return bars if bias is None else (*bars, y_bar.sum((0, 3)).reshape(out))

    return y, pullback


def convolution_transpose(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, output_padding=0):
    """The adjoint of convolution in x: y_o[i] = Σ_{c,p,t: source(p,t) = i} w_co[t] x_c[p] + b_o, of length
    (n − 1)·stride − 2·padding + dilation·(k − 1) + output_padding + 1."""
    lengths, kernel = x.shape[2:], weight.shape[2:]
    axes, channels, out = len(lengths), x.shape[1], weight.shape[1] * groups
    stride, dilation, extra = per_axis(stride, axes), per_axis(dilation, axes), per_axis(output_padding, axes)
    edges = pairs_of(padding, axes)
    longer = tuple(
        (n - 1) * s - before - after + d * (k - 1) + e + 1
        for n, k, s, d, e, (before, after) in zip(lengths, kernel, stride, dilation, extra, edges, strict=True)
    )
    size = math.prod(longer)
    table = sources("zeros", longer, lengths, kernel, stride, dilation, edges)
    rows = x.reshape(x.shape[0], groups, channels // groups, len(table))  # (B, G, C, P)
    w = weight.reshape(groups, channels // groups, weight.shape[1], -1)  # (G, C, O, T)
    under = contract("bgcp,gcot->bgopt", rows, w, terms=channels // groups * most(table))
    y = scattered(under, table, size, depth=0).reshape(x.shape[0], out, *longer)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * axes)

    def pullback(g):
        y_bar = g.reshape(x.shape[0], groups, weight.shape[1], size)
        above = gathered(y_bar, table)  # (B, G, O, P, T)
        bars = (
            contract("bgopt,gcot->bgcp", above, w).reshape(*x.shape),
            contract("bgcp,bgopt->gcot", rows, above).reshape(*weight.shape),
        )
        return bars if bias is None else (*bars, y_bar.sum((0, 3)).reshape(out))

    return y, pullback
