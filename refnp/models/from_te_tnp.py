"""Weights of the TE-TNP code's attention layers: their state dicts under refnp's names. PyTorch is not needed.

    layer = TranslationLayer(128, 8, 128, kernel=(128, 128), rng=rng)
    layer.load_state_dict(from_te_tnp.layer({name: tensor.numpy() for name, tensor in state.items()}))

    there                                                          here       refnp
    MultiHeadTEAttention, its Self and Cross forms                 attention  TranslationAttention
    MultiHeadSelfTEAttentionLayer, MultiHeadCrossTEAttentionLayer  layer      TranslationLayer(norm="pre")

where heads together are as wide as the features, kernel and φ are MLPs with relu, φ with dx results, and norm_first is
True (False is neither post- nor pre-norm there). The linear maps of an MLP are taken in the order of their numbers.
What has no place here keeps its name, and `load_state_dict` names it, with all that is missing.
Source: github.com/cambridge-mlg/tnp; Ashman et al., arXiv 2406.12409.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.models.from_torch import under

State = dict[str, np.ndarray]

PROJECTIONS = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "output"}
NETWORKS = {"kernel": "kernel", "phi": "movement", "ff_block": "feed_forward"}
NORMS = {"norm1": "around_attention.layer_norm", "norm2": "around_feed_forward.layer_norm"}
OF_NORMS = {"weight": "gain", "bias": "shift"}


def attention(state: Mapping[str, Any]) -> State:
    """Of an attention."""
    return _renamed(state)


def layer(state: Mapping[str, Any]) -> State:
    """Of a layer: attention, feed-forward network, and the LayerNorms before them."""
    own = {name: array for name, array in state.items() if not name.startswith("attn.")}
    inner = {name.removeprefix("attn."): array for name, array in state.items() if name.startswith("attn.")}
    return under("attention", _renamed(inner)) | _renamed(own)


def _renamed(state: Mapping[str, Any]) -> State:
    """All arrays by their names here, matrices transposed: torch.nn.Linear keeps (out, in), refnp (in, out)."""
    order = _order_in_networks(state)
    found: State = {}
    for name, array in state.items():
        owner, _, kind = name.rpartition(".")
        if owner in NORMS and kind in OF_NORMS:
            found[f"{NORMS[owner]}.{OF_NORMS[kind]}"] = np.asarray(array)
            continue
        here = PROJECTIONS.get(owner) or order.get(owner)
        found[f"{here}.{kind}" if here else name] = np.asarray(array).T if kind == "weight" else np.asarray(array)
    return found


def _order_in_networks(state: Mapping[str, Any]) -> dict[str, str]:
    """kernel.net.0, kernel.net.2, … ↦ kernel.layers.0, kernel.layers.1, … for each of the networks."""
    found: dict[str, str] = {}
    for there, here in NETWORKS.items():
        pattern = re.compile(rf"({there}\.(?:\w+\.)*?(\d+))\.weight$")
        matches = [match for name in state if (match := pattern.fullmatch(name))]
        for place, match in enumerate(sorted(matches, key=lambda match: int(match[2]))):
            found[match[1]] = f"{here}.layers.{place}"
    return found
