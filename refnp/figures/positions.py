"""Sinusoidal positions as heat maps with their Gram matrices, right and as the first two drafts print them.

    right       P(p, j) = sin(p/10000^(j/D)) for even j, cos(p/10000^((j−1)/D)) for odd j
    misprinted  P(p, j) = sin(j/10000^(2p/D)) for even p, cos(j/10000^(2p/D)) for odd p

P Pᵀ of the right form is constant along its diagonals, and D/2 on the main one; docs/positions.md has what else breaks.

Source: Sivaraya (2023), eq. 1, and its first two drafts. Code: refnp/layers/positions/absolute.py.
"""

import numpy as np

from refnp.autograd.tensor import Array
from refnp.figures.canvas import Drawn, canvas
from refnp.layers.positions.absolute import sinusoidal

PLACES, FEATURES = 64, 32


def misprinted(places: int, features: int) -> Array:
    """Position and dimension exchanged: (places, features)."""
    p, j = np.ogrid[:places, :features]
    angles = j / 10000.0 ** (2 * p / features)
    return np.where(p % 2 == 0, np.sin(angles), np.cos(angles))


def off_toeplitz(gram: Array) -> float:
    """The largest difference of two numbers on one diagonal."""
    return float(max(np.ptp(np.diagonal(gram, k)) for k in range(len(gram))))


def draw() -> Drawn:
    """Both forms with their Gram matrices; how far these are from Toeplitz, norms, and how many rows differ."""
    figure, axes = canvas(8.0, 2, 2, width_ratios=(1, 1.8))
    numbers: dict[str, float | str] = {}
    for row, name in zip(axes, ("right", "misprinted"), strict=True):
        p = sinusoidal(np.arange(PLACES), FEATURES) if name == "right" else misprinted(PLACES, FEATURES)
        gram = p @ p.T
        for own, shown, title in zip(row, (p, gram), ("P", "$P P^T$"), strict=True):
            size = np.abs(shown).max()
            picture = own.imshow(shown, cmap="RdBu", vmin=-size, vmax=size, interpolation="nearest")
            figure.colorbar(picture, ax=own, pad=0.02).outline.set_visible(False)
            own.set_title(f"{title}, {name}")
            own.set_ylabel("place")
        row[0].set_xlabel("dimension")
        row[1].set_xlabel("place")
        squares = np.diagonal(gram)
        numbers |= {
            f"{name}: largest difference along a diagonal of the Gram matrix": off_toeplitz(gram),
            f"{name}: smallest squared norm": float(squares.min()),
            f"{name}: largest squared norm": float(squares.max()),
            f"{name}: different rows of {PLACES}": len(np.unique(p.round(9), axis=0)),
        }
    return Drawn(figure, numbers)
