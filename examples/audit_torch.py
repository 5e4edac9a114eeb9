"""Audit modules of PyTorch: which symmetries do they have, and which smallest input shows where one is missing?

    python examples/audit_torch.py               all rows; exits with 1 if a verdict is not the expected one
    python examples/audit_torch.py conv          those whose name has "conv" in it

Needs PyTorch. Each row is a module as `torch.nn` has it, a claim, and the verdict that theory expects. Every module is
made with random weights and judged in float32 and float64. A claim that fails is shown with its counter-example.
"""

import sys

import numpy as np
import torch
from torch import nn

from refnp.symmetry import (
    Permute,
    Roll,
    RotateSpace,
    Select,
    Shift,
    Trivial,
    equivariant,
    in_torch,
    invariant,
    search,
)

WIDTH, HEADS, CLASSES = 4, 2, 3


class Positions(nn.Module):
    """x_n + p_n, with the sines of Vaswani et al. (2017)."""

    def forward(self, x):
        place = torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
        wave = place / 10000 ** (torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1])
        return x + torch.stack([wave.sin(), wave.cos()], -1).flatten(-2)


class SetTransformer(nn.Module):
    """Attention through a few learned points, then to one learned seed: Lee et al. (2019), one block of each."""

    def __init__(self, width, heads, points=3):
        super().__init__()
        self.points, self.seed = (nn.Parameter(torch.randn(1, n, width)) for n in (points, 1))
        attention = lambda: nn.MultiheadAttention(width, heads, batch_first=True)
        self.to_points, self.back, self.pool = attention(), attention(), attention()
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def encode(self, x):
        points = self.points.expand(len(x), -1, -1)
        summary = self.to_points(points, x, x, need_weights=False)[0]
        x = x + self.back(x, summary, summary, need_weights=False)[0]
        return x + self.mlp(x)

    def forward(self, x):
        x = self.encode(x)
        return self.pool(self.seed.expand(len(x), -1, -1), x, x, need_weights=False)[0][:, 0]


class Distances(nn.Module):
    """A DeepSets network of the distances between points, and so blind to directions."""

    def __init__(self, hidden=8):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        distance = ((x[:, None] - x[None]) ** 2).sum(-1, keepdim=True)
        return self.mlp(distance).sum((0, 1))


def encoder(*layers):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True)
    return nn.Sequential(*layers, nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def strided_cnn(padding_mode):
    """Two convolutions of stride 2, total stride 4; each output sees 7 inputs."""
    wide = {"kernel_size": 3, "stride": 2, "padding": 1, "padding_mode": padding_mode}
    return nn.Sequential(nn.Conv1d(1, 4, **wide), nn.ReLU(), nn.Conv1d(4, 2, **wide))


def conv(padding_mode):
    return nn.Conv1d(1, 2, 5, padding=2, padding_mode=padding_mode)


def classifier():
    """A strided CNN on a ring and the average over all its places."""
    return nn.Sequential(strided_cnn("circular"), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2, CLASSES))


def tokens(rng, n):
    return {"x": rng.normal(size=(n, WIDTH))}


def padded_tokens(rng, n):
    """Some tokens are padding; at least one is not."""
    return {**tokens(rng, n), "padding": np.arange(n) != rng.integers(n)}


def sets(rng, n, m):
    shapes = {"query": (m, WIDTH), "key": (n, WIDTH), "value": (n, WIDTH)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def signal(rng, n):
    return {"x": rng.normal(size=(1, 1, n))}


def points(rng, n, d):
    return {"x": rng.normal(size=(n, d))}


def batch(rng, n):
    return {"x": rng.normal(size=(n, 3, WIDTH))}


def one_item(module, x):
    """A module that takes batches, on one item."""
    return module(x[None])[0]


def self_attention(module, x):
    return module(x, x, x, need_weights=False)[0]


def attention(module, query, key, value):
    return module(query, key, value, need_weights=False)[0]


def sum_of_present(module, x, padding):
    return module(x[None], src_key_padding_mask=padding[None])[0][~padding].sum(0)


def rows():
    """(name, claim, draw, sizes, the verdict that theory expects)."""
    torch.manual_seed(0)
    order, rings = (Permute("x", 0), Permute(axis=0)), {"n": (4, 8, 16)}
    few, pairs, window = {"n": range(1, 6)}, {"n": range(1, 5), "m": range(1, 4)}, {"n": (5, 9, 14)}
    attend = in_torch(nn.MultiheadAttention(WIDTH, HEADS), call=self_attention)
    cross = in_torch(
        nn.MultiheadAttention(WIDTH, HEADS),
        call=lambda m, query, key, value: m(query, key, value, need_weights=False)[0],
    )
    plain = in_torch(encoder(), call=one_item)
    masked = in_torch(encoder()[0], call=sum_of_present)
    placed = in_torch(encoder(Positions()), call=one_item)
    dropping = in_torch(encoder(), call=one_item, train=True, seed=1)
    zeros, ring = in_torch(conv("zeros")), in_torch(conv("circular"))
    down, down_ring = in_torch(strided_cnn("zeros")), in_torch(strided_cnn("circular"))
    classes = in_torch(classifier())
    module = SetTransformer(WIDTH, HEADS)
    encoded, pooled = in_torch(module, call=lambda m, x: m.encode(x[None])[0]), in_torch(module, call=one_item)
    normed = in_torch(nn.BatchNorm1d(3), train=True)
    normed_alone = in_torch(nn.BatchNorm1d(3))
    distances = in_torch(Distances())
    coordinates = in_torch(nn.Linear(3, 2), call=lambda m, x: torch.tanh(m(x)).sum(0))
    return [
        ("nn.MultiheadAttention, tokens in any order", equivariant(attend, *order), tokens, few, "holds"),
        ("nn.MultiheadAttention, output in the old order",
         invariant(attend, order[0]), tokens, few, "fails"),
        ("nn.MultiheadAttention, keys with their values",
         invariant(cross, Permute(("key", "value"), 0)), sets, pairs, "holds"),
        ("nn.MultiheadAttention, keys without them",
         invariant(cross, Permute("key", 0)), sets, pairs, "fails"),
        ("nn.MultiheadAttention, two sets at once",
         equivariant(cross, Permute("query", 0) * Permute(("key", "value"), 0), Permute(axis=0) * Trivial()),
         sets, pairs, "holds"),
        ("nn.TransformerEncoder, no positions", equivariant(plain, *order), tokens, few, "holds"),
        ("nn.TransformerEncoder, padding mask",
         invariant(masked, Permute({"x": 0, "padding": 0})), padded_tokens, few, "holds"),
        ("nn.TransformerEncoder, mask left behind",
         invariant(masked, Permute("x", 0)), padded_tokens, few, "fails"),
        ("nn.TransformerEncoder, with positions", equivariant(placed, *order), tokens, few, "fails"),
        ("nn.TransformerEncoder, with dropout", equivariant(dropping, *order), tokens, few, "fails"),
        ("nn.Conv1d, zeros, on a ring", equivariant(zeros, Roll("x"), Roll()), signal, rings, "fails"),
        ("nn.Conv1d, zeros, in a window", equivariant(zeros, Shift("x"), Shift()), signal, window, "fails"),
        ("nn.Conv1d, zeros, 2 cells from the border",
         equivariant(zeros, Shift("x"), Shift(), border=2), signal, window, "holds"),
        ("nn.Conv1d, circular, on a ring", equivariant(ring, Roll("x"), Roll()), signal, rings, "holds"),
        ("strided CNN, circular, by its total stride",
         equivariant(down_ring, Roll("x", step=4), Roll()), signal, rings, "holds"),
        ("strided CNN, circular, by half of it",
         equivariant(down_ring, Roll("x", step=2), Roll()), signal, rings, "fails"),
        ("strided CNN, zeros, 1 cell from the border",
         equivariant(down, Shift("x", step=4), Shift(), border=1), signal, {"n": (16, 19)}, "holds"),
        ("CNN classifier, by its total stride",
         invariant(classes, Roll("x", step=4)), signal, rings, "holds"),
        ("CNN classifier, by one", invariant(classes, Roll("x")), signal, rings, "fails"),
        ("Set Transformer, encoder", equivariant(encoded, *order), tokens, few, "holds"),
        ("Set Transformer, pooled", invariant(pooled, order[0]), tokens, few, "holds"),
        ("Set Transformer, some points twice", invariant(pooled, Select("x", 0)), tokens, few, "fails"),
        ("nn.BatchNorm1d, evaluated, items one by one",
         equivariant(normed_alone, Select("x", 0), Select(axis=0)), batch, few, "holds"),
        ("nn.BatchNorm1d, training, items one by one",
         equivariant(normed, Select("x", 0), Select(axis=0)), batch, few, "fails"),
        ("distances, turned in any dimension",
         invariant(distances, RotateSpace("x", mirror=True)), points, {"n": range(1, 4), "d": (1, 2, 3, 5)}, "holds"),
        ("coordinates, turned in space",
         invariant(coordinates, RotateSpace("x")), points, {"n": range(1, 4), "d": (3,)}, "fails"),
    ]  # fmt: skip


def main():
    wanted = " ".join(sys.argv[1:]).lower()
    wrong = 0
    for name, claim, draw, sizes, expected in rows():
        if wanted in name.lower():
            verdict = search(claim, draw, sizes=sizes, scales=(1,), count=12, simplify=200)
            wrong += verdict.outcome != expected
            note = "as expected" if verdict.outcome == expected else f"EXPECTED: {expected.upper()}"
            print(f"{name}: {verdict.outcome.upper()}, {note}; {verdict.counts.pairs} pairs of input and element")
            if verdict.counterexample is not None:
                print("    " + str(verdict.counterexample).replace("\n", "\n    "))
            elif verdict.outcome != expected:
                print(verdict)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
