"""The symmetries of refnp's layers, each with its exact group: what a layer has, and what it lacks."""

import numpy as np
import pytest

from refnp.layers import UNet, layer_norm, max_pool
from refnp.layers.attention import attention
from refnp.layers.convolution import convolution
from refnp.layers.set_convolution import set_convolution
from refnp.symmetry import (
    Negate,
    Permute,
    Roll,
    Rotate,
    RotateGrid,
    Scale,
    Select,
    Slide,
    Translate,
    Trivial,
    equivariant,
    invariant,
)
from tests.symmetry import functions as f
from tests.symmetry.functions import search

RNG = np.random.default_rng(4)
KERNEL = RNG.normal(size=(2, 1, 3, 3))
ROUND = np.array([[1.0, 2, 1], [2, 5, 2], [1, 2, 1]])[None, None]  # every turn and mirror leaves it as it is
CHIRAL = np.array([[0.0, 1, 2], [0, 3, 0], [0, 0, 0]])[None, None]
UNET = UNet(1, (2, 3), up=(2, 2), kernel=4, rng=RNG)
FIELD = UNET.receptive_field
WINDOW = {"n": (4 * (FIELD // 2 + 4),)}  # twice the field, and room to slide


def sets(rng, n, m, d=1):
    return {"target": rng.normal(size=(m, d)), "x": rng.normal(size=(n, d)), "y": rng.normal(size=(n, 2))}


def set_conv(target, x, y):
    return set_convolution(target, x, y, 0.5, divide=True)


def cross_attention(query, key, value, mask):
    return attention(query, key, value, mask=mask)


def crossed(rng, n, m):
    return {
        "query": rng.normal(size=(m, 3)),
        "key": rng.normal(size=(n, 3)),
        "value": rng.normal(size=(n, 2)),
        "mask": rng.random((m, n)) < 0.6,
    }


def image(rng, n):
    return {"x": rng.normal(size=(1, 1, n, n))}


def bump(rng, n):
    """Three numbers between zeros; present are the outputs that they may change, which must stay inside."""
    places = np.abs(np.arange(n) - n // 2)
    return {"x": np.where(places < 2, rng.normal(size=n), 0)[None, None], "mask": places < 2 + FIELD}


SETS = {"n": range(6), "m": range(4)}
PLANE = {**SETS, "d": (2,)}
SPACE = ("target", "x")
SQUARES = {"n": (1, 3, 4)}
KEYS, QUERIES = Permute({"key": 0, "value": 0, "mask": 1}), Permute({"query": 0, "mask": 0})
RINGS = Roll("x", -1) * Roll("x", -2), Roll(axis=-1) * Roll(axis=-2)
turning = lambda kernel: equivariant(
    lambda x: convolution(x, kernel, padding=1), RotateGrid("x", mirror=True), RotateGrid(mirror=True)
)
torus = lambda mode: equivariant(lambda x: convolution(x, KERNEL, padding=1, padding_mode=mode), *RINGS)
strided = lambda step: equivariant(
    lambda x: convolution(x, KERNEL[..., 1], stride=2, padding=1, padding_mode="circular"),
    Roll("x", step=step),
    Roll(step=step // 2 or 1),
)
sliding = lambda step: equivariant(
    lambda x, mask: UNET(x) - UNET(0 * x), Slide({"x": -1, "mask": -1}, step=step), Roll(step=step)
)

TRUE = {
    "attention, keys in any order": (invariant(cross_attention, KEYS), crossed, SETS),
    "attention, queries in any order": (equivariant(cross_attention, QUERIES, Permute(axis=0)), crossed, SETS),
    "attention, queries one by one": (
        equivariant(cross_attention, Select({"query": 0, "mask": 0}), Select(axis=0)), crossed, SETS),
    "SetConv, moved by any vector": (invariant(set_conv, Translate(SPACE)), sets, SETS),
    "SetConv, turned and mirrored": (invariant(set_conv, Rotate(SPACE, mirror=True)), sets, PLANE),
    "SetConv, points and targets in any order": (
        equivariant(set_conv, Permute("target", 0) * Permute(("x", "y"), 0), Permute(axis=0) * Trivial()), sets, SETS),
    "SetConv, targets one by one": (equivariant(set_conv, Select("target", 0), Select(axis=0)), sets, SETS),
    "convolution on a torus": (torus("circular"), image, SQUARES),
    "convolution, stride 2 on a ring": (strided(2), f.signal, {"n": (2, 4, 8, 12)}),
    "U-Net on a ring, by its total stride": (
        equivariant(f.ring_unet, Roll("x", step=4), Roll(step=4)), f.signal, {"n": (4, 8, 16)}),
    "U-Net between edges, by its total stride": (sliding(4), bump, WINDOW),
    "kernel that turns look the same to": (turning(ROUND), image, SQUARES),
    "layer_norm, features in any order": (
        equivariant(lambda x: layer_norm(x), Permute("x"), Permute()), f.rows, {"n": range(3), "m": range(1, 6)}),
    "layer_norm, sign": (equivariant(lambda x: layer_norm(x), Negate("x"), Negate()), f.rows, {"n": range(3)}),
    "max_pool, by its stride": (
        equivariant(lambda x: max_pool(x, 2), Roll("x", step=2), Roll()), f.signal, {"n": (2, 4, 6)}),
}  # fmt: skip
FALSE = {
    "attention, queries against the mask": (
        equivariant(cross_attention, Permute("query", 0), Permute(axis=0)), crossed, SETS),
    "attention, scaled queries": (invariant(cross_attention, Scale("query")), crossed, SETS),
    "SetConv, points moved alone": (invariant(set_conv, Translate("x")), sets, SETS),
    "SetConv, points counted twice": (
        invariant(lambda target, x, y: set_convolution(target, x, y, 0.5), Select(("x", "y"), 0)), sets, SETS),
    "convolution on a square": (torus("zeros"), image, SQUARES),
    "convolution, half its stride": (strided(1), f.signal, {"n": (2, 4, 8, 12)}),
    "U-Net between edges, by half its total stride": (sliding(2), bump, WINDOW),
    "kernel that is turned": (turning(CHIRAL), image, SQUARES),
    "layer_norm, doubled": (invariant(lambda x: layer_norm(x), Scale("x")), f.rows, {"n": range(1, 3)}),
    "max_pool, by one": (equivariant(lambda x: max_pool(x, 2), Roll("x"), Roll()), f.signal, {"n": (2, 4, 6)}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_symmetries_that_layers_have(name):
    claim, draw, sizes = TRUE[name]
    search(claim, draw, sizes=sizes, scales=(1,)).require("holds")


@pytest.mark.parametrize("name", FALSE)
def test_symmetries_that_they_lack(name):
    claim, draw, sizes = FALSE[name]
    search(claim, draw, sizes=sizes, scales=(1,)).require("fails")


def test_a_layer_of_another_framework():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)

    def attend(x):
        x = torch.as_tensor(x)[None]
        return layer.to(x.dtype)(x, x, x, need_weights=False)[0][0].detach()

    sizes = {"n": range(1, 5)}
    draw = lambda rng, n: f.rows(rng, n, 4)
    verdict = search(equivariant(attend, Permute("x", 0), Permute(axis=0)), draw, sizes=sizes, count=8)
    assert verdict.holds
    assert list(verdict.relative) == ["float32", "float64"]  # PyTorch has no longdouble
    assert search(invariant(attend, Permute("x", 0)), draw, sizes=sizes).counterexample.sizes == {"n": 2}
