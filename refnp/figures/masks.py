"""Masks as pictures: a row is a query, a column a key, dark where the query may attend to the key.

Source: Sivaraya (2023), eq. 7, §3.3; Nguyen & Grover (2022), arXiv 2207.04179. Code: refnp/layers/masks.py and
refnp/models/tnp.py.
"""

import numpy as np

from refnp.autograd.tensor import Array
from refnp.figures.canvas import Drawn, canvas, mask_picture
from refnp.layers.masks import causal
from refnp.models.tnp import autoregressive_mask, diagonal_mask, nondiagonal_mask

CONTEXTS, TARGETS, WORDS = 3, 4, 6


def tables() -> dict[str, tuple[Array, list[str]]]:
    """The masks by name, each with the names of its tokens: C context, T target, R real and P padded target."""
    contexts, targets = names("C", CONTEXTS), names("T", TARGETS)
    return {
        "causal": (causal(WORDS), names("", WORDS)),
        "TNP-D": (diagonal_mask(CONTEXTS, TARGETS), contexts + targets),
        "TNP-ND, targets": (nondiagonal_mask(np.ones((1, TARGETS), bool))[0], targets),
        "TNP-A": (autoregressive_mask(CONTEXTS, TARGETS), contexts + names("R", TARGETS) + names("P", TARGETS)),
    }


def names(letter: str, count: int) -> list[str]:
    """C₁, C₂, …"""
    return [f"${letter}_{{{i + 1}}}$" if letter else str(i + 1) for i in range(count)]


def draw() -> Drawn:
    """The four masks, and how many pairs each of them allows."""
    shown = tables()
    figure, axes = canvas(4.1, 1, 4, width_ratios=[len(tokens) for _, tokens in shown.values()])
    for own, (name, (mask, tokens)) in zip(axes[0], shown.items(), strict=True):
        mask_picture(own, mask, tokens)
        own.set_anchor("N")
        own.set_title(f"{name}\n{mask.sum()} of {mask.size} pairs")
    axes[0, 0].set_ylabel("query (the key stands above)")
    figure.supxlabel("C context, T target, R real and P padded token of a target", fontsize=10)
    return Drawn(figure, {f"{name}, pairs allowed": int(mask.sum()) for name, (mask, _) in shown.items()})
