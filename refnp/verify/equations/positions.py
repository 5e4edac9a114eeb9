"""Attention with relative positions: vectors, numbers and rotations that belong to pairs of places."""

from __future__ import annotations

import math

import numpy as np

from refnp.verify.equations.attention import attention
from refnp.verify.equations.linear import sum_to
from refnp.verify.equations.rows import weights
from refnp.verify.rounding import WIDE, Rounded, constant, contract, scatter, where


def with_vectors(query, key, value, key_vectors, value_vectors=None, *, buckets, mask=None):
    """Shaw's attention and iRPE's, a vector a_ij = row b(i, j) of a table for every pair:

        S_ij = (q_i·k_j + q_i·a_ij)/√d        A = softmax of S over the allowed keys        O_i = Σ_j A_ij (v_j + a'_ij)

    Shapes: query (..., N, d), key and value (..., M, d), tables (L, d), buckets and mask (N, M).
    Ā_ij = Ō_i·(v_j + a'_ij), S̄ = A∘(Ā − Σ_j Ā A); to q_i goes Σ_j S̄_ij (k_j + a_ij)/√d, to k_j Σ_i S̄_ij q_i/√d, to a_ij
    S̄_ij q_i/√d, to v_j Σ_i A_ij Ō_i, to a'_ij A_ij Ō_i; a row of a table adds up those of its pairs.
    """
    root = constant(np.sqrt(WIDE(query.shape[-1])))
    of_pairs = key_vectors[buckets]  # (N, M, d)
    scores = contract("...nd,...md->...nm", query, key) / root + contract("...nd,nmd->...nm", query, of_pairs) / root
    a = weights(where(True if mask is None else mask, scores, -np.inf))
    output = contract("...nm,...md->...nd", a, value)
    if value_vectors is not None:
        output = output + contract("...nm,nmd->...nd", a, value_vectors[buckets], terms=sum(buckets.shape))

    def pullback(g):
        a_bar = contract("...nd,...md->...nm", g, value)
        if value_vectors is not None:
            a_bar = a_bar + contract("...nd,nmd->...nm", g, value_vectors[buckets])
        s_bar = a * (a_bar - (a_bar * a).sum(-1, keepdims=True)) / root
        to_query = contract("...nm,...md->...nd", s_bar, key)
        bars = [
            to_query + contract("...nm,nmd->...nd", s_bar, of_pairs, terms=sum(buckets.shape)),
            sum_to(contract("...nm,...nd->...md", s_bar, query), key.shape),
            sum_to(contract("...nm,...nd->...md", a, g), value.shape),
            of_table(s_bar, query, buckets, key_vectors.shape[0]),
        ]
        return bars if value_vectors is None else [*bars, of_table(a, g, buckets, value_vectors.shape[0])]

    return output, pullback


def of_table(pairs, rows, buckets, count):
    """Row r of a table gets Σ p_ij x_i over the pairs with b(i, j) = r, of all batches, in any order."""
    terms = math.prod(pairs.shape)
    pairs, rows = (x.reshape(-1, *x.shape[-2:]) for x in (pairs, rows))
    bars = contract("bnm,bnd->nmd", pairs, rows, terms=terms)
    return scatter(bars.reshape(-1, rows.shape[-1]), buckets.reshape(-1), count, depth=0)


def with_numbers(query, key, value, table, *, buckets, mask=None, scaled=False):
    """T5's attention and iRPE's biases: s_ij = table[h, b(i, j)], divided by √d if `scaled`, added to q·k/√d.

    Shapes: query (..., H, N, d), key and value (..., H, M, d), table (H, L), buckets (N, M).
    Row h of the table gets, in bucket r, Σ S̄_ij over the pairs with b(i, j) = r, of all batches.
    """
    bias = table.moved(lambda a: a[:, buckets])
    root = constant(np.sqrt(WIDE(query.shape[-1])))
    output, attention_pullback = attention(query, key, value, bias / root if scaled else bias, mask=mask)

    def pullback(g):
        *bars, bias_bar = attention_pullback(g)
        by_pair = (bias_bar / root if scaled else bias_bar).moved(lambda a: a.reshape(len(a), -1).T)
        return *bars, scatter(by_pair, buckets.reshape(-1), table.shape[1]).moved(np.transpose)

    return output, pullback


def rotate(x, sines, cosines, *, layout="interleaved"):
    """(a, b) → (a cos − b sin, a sin + b cos) for every pair of features; back, with −sin.

    Shapes: x (..., N, d), sines and cosines (N, d/2), with their own errors.   Of these, no gradient.
    """

    def turned(x, sines):
        half = x.shape[-1] // 2
        a, b = (x[..., :half], x[..., half:]) if layout == "half" else (x[..., 0::2], x[..., 1::2])
        parts = a * cosines - b * sines, a * sines + b * cosines
        return joined(parts, layout)

    return turned(x, sines), lambda g: (turned(g, -sines),)


def joined(parts, layout):
    """The first and second features of all pairs, laid out as one row."""

    def lay_out(first, second):
        return np.concatenate([first, second], -1) if layout == "half" else interleave(first, second)

    first, second = parts
    return Rounded(lay_out(first.value, second.value), lay_out(first.error, second.error))


def interleave(first, second):
    """a_0, b_0, a_1, b_1, …"""
    return np.stack([first, second], -1).reshape(*first.shape[:-1], -1)
