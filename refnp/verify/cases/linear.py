"""Cases of linear maps, matrix products and embeddings."""

from __future__ import annotations

import numpy as np

from refnp.autograd import linear, matmul
from refnp.layers.embeddings import embedding
from refnp.verify.case import Case, Layer, normal
from refnp.verify.equations import linear as equations

LINEAR = Layer("linear", linear, equations.linear)
MATMUL = Layer("matmul", matmul, equations.matmul)


def lookup(table, *, tokens, scaled=False):
    """refnp's embedding with the tokens among the options, since they have no gradient."""
    return embedding(tokens, table, scaled=scaled)


EMBEDDING = Layer("embedding", lookup, equations.embedding)


def cases() -> list[Case]:
    """All cases of this page."""
    table = {"table": normal(7, 4)}
    return [
        Case(EMBEDDING, "ordinary", table, {"tokens": np.array([[3, 0, 6], [1, 2, 5]])}),
        Case(EMBEDDING, "one token many times", table, {"tokens": np.array([2, 2, 5, 2, 2, 2, 5, 2])}),
        Case(EMBEDDING, "scaled by the root of d", table, {"tokens": np.array([0, 6, 6]), "scaled": True}),
        Case(EMBEDDING, "no tokens", table, {"tokens": np.zeros(0, int)}),
        Case(LINEAR, "ordinary", {"x": normal(5, 7), "weight": normal(7, 4), "bias": normal(4)}),
        Case(LINEAR, "batch of sequences", {"x": normal(2, 3, 6), "weight": normal(6, 5), "bias": normal(5)}),
        Case(LINEAR, "no bias", {"x": normal(5, 7), "weight": normal(7, 4)}),
        Case(LINEAR, "one feature in and out", {"x": normal(6, 1), "weight": normal(1, 1), "bias": normal(1)}),
        Case(LINEAR, "one row", {"x": normal(1, 9), "weight": normal(9, 3), "bias": normal(3)}),
        Case(LINEAR, "mean 1e4", {"x": normal(4, 16, shift=1e4), "weight": normal(16, 3), "bias": normal(3)}),
        Case(MATMUL, "ordinary", {"x": normal(5, 12), "y": normal(12, 6)}),
        Case(MATMUL, "batch", {"x": normal(3, 4, 5), "y": normal(3, 5, 2)}),
        Case(MATMUL, "shared matrix", {"x": normal(3, 4, 5), "y": normal(5, 2)}),
        Case(MATMUL, "inner length 1", {"x": normal(4, 1), "y": normal(1, 5)}),
        Case(MATMUL, "cancelling terms", {"x": np.array([[1e6, 1.0, -1e6]]), "y": np.array([[1.0], [1.0], [1.0]])}),
    ]
