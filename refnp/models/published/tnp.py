"""Weights of Transformer neural processes and their baselines: published state dicts under refnp's names.

    model = TNPD(rng=rng)
    model.load_state_dict(published.tnp.tnp({name: tensor.numpy() for name, tensor in module.state_dict().items()}))

    there                         here              refnp                                                    parameters
    TNPD                          tnp               TNPD()                                                      222 082
    TNPA                          tnp               TNPA()                                                      222 082
    TNPND, cov_approx cholesky    tnp               TNPND(covariance="cholesky")                                332 821
    TNPND, cov_approx lowrank     tnp               TNPND(covariance="low_rank")                                374 294
    CNP                           cnp               CNP(encoders=2, floor=0.1)                                  215 682
    CANP                          canp              CANP(floor=0.1, scaling="features")                         331 906
    NP                            neural_process    LatentNP(deterministic=True, floor=0.1, latent_floor=0.1)   232 194
    ANP                           anp               ANP(floor=0.1, latent_floor=0.1, scaling="features")        348 418
    MultiHead[Self, Cross]TEAttention               te_attention      TranslationAttention
    MultiHead[Self, Cross]TEAttentionLayer          te_layer          TranslationLayer(norm="pre")

The first eight are those of TNP-pytorch, with sizes as in its configs/gp; `bound_std=True` there is floor=0.05 here.
The last two are those of the TE-TNP code, where heads together are as wide as the features, kernel and φ are MLPs with
relu, φ with dx results, and norm_first is True (False is neither post- nor pre-norm there).
torch.nn.Linear keeps Wᵀ, (out, in), refnp W, (in, out).
Source: github.com/tung-nd/TNP-pytorch, regression/models; Nguyen & Grover (2022), arXiv 2207.04179;
github.com/cambridge-mlg/tnp; Ashman et al. (2024), arXiv 2406.12409.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.models.published import torch as from_torch
from refnp.models.published.torch import State, under

SEQUENCES = {
    "embedder": "embedder",
    "predictor": "predictor",
    "mean_net": "mean",
    "projector": "projector",
    "diag_net": "diagonal",
}
ENCODERS = {"encoder": "layers", "std_encoder": "target_layers"}


def tnp(found: Mapping[str, Any]) -> State:
    """Of any of the three.   Raises ValueError for a name that has no place here, or an encoder that lacks one."""
    parts: dict[str, State] = {}
    for name, array in found.items():
        part, _, rest = name.partition(".")
        if part not in SEQUENCES and part not in ENCODERS:
            raise ValueError(f"published.tnp.tnp: no place for {name}; pass the state_dict of TNPD, TNPA or TNPND")
        parts.setdefault(part, {})[rest] = np.asarray(array)
    translated: State = {}
    for part, arrays in parts.items():
        if part in ENCODERS:
            layers = from_torch.encoder(arrays)  # layers.0.attention.query.weight, …
            translated |= {name.replace("layers", ENCODERS[part], 1): array for name, array in layers.items()}
        else:
            translated |= from_torch.under(SEQUENCES[part], sequence(arrays))
    return translated


def sequence(found: Mapping[str, Any]) -> State:
    """Of torch.nn.Sequential of linear maps and activations, all of them numbered there: layers of an MLP."""
    translated: State = {}
    for name, array in found.items():
        number, _, kind = name.partition(".")
        if not number.isdecimal() or int(number) % 2 or kind not in ("weight", "bias"):
            raise ValueError(f"published.tnp.sequence: no place for {name}; linear maps are numbered 0, 2, 4, …")
        array = np.asarray(array)
        translated[f"layers.{int(number) // 2}.{kind}"] = array.T if kind == "weight" else array
    return translated


# what stands in a name there, and here; an MLP there numbers its activations too, so that layer i is number 2 i
PARTS = (
    (r"^dec\.fc\.", "decoder.layers.0."),
    (r"^dec\.mlp\.(\d+)\.", lambda found: f"decoder.layers.{(int(found[1]) + 1) // 2}."),
    (r"\.net_pre\.2\.(?=fc_|ln)", ".attention."),  # before a self-attention block the MLP is number 0
    (r"\.net_pre\.0\.(?=\d)", ".net_pre."),
    (r"\.net_pre\.(\d+)\.", lambda found: f".before.layers.{int(found[1]) // 2}."),
    (r"\.net_post\.(\d+)\.", lambda found: f".after.layers.{int(found[1]) // 2}."),
    (r"\.net_v\.(\d+)\.", lambda found: f".value.layers.{int(found[1]) // 2}."),
    (r"\.net_qk\.(\d+)\.", lambda found: f".place.layers.{int(found[1]) // 2}."),
    (r"\.self_attn\.", ".self_attention."),
    (r"\.attn\.", ".cross_attention."),
    (r"\.fc_q\.", ".query."),
    (r"\.fc_k\.", ".key."),
    (r"\.fc_v\.", ".value."),
    (r"\.fc_out\.", ".output."),
    (r"\.ln1\.weight$", ".first_norm.gain"),
    (r"\.ln1\.bias$", ".first_norm.shift"),
    (r"\.ln2\.weight$", ".second_norm.gain"),
    (r"\.ln2\.bias$", ".second_norm.shift"),
)


def cnp(state: Mapping[str, Any]) -> State:
    """Of CNP: two encoders side by side."""
    return _renamed_baseline(state, {"enc1": "encoders.0", "enc2": "encoders.1"})


def canp(state: Mapping[str, Any]) -> State:
    """Of CANP: a path with cross-attention, and one with a mean."""
    return _renamed_baseline(state, {"enc1": "cross_encoder", "enc2": "encoder"})


def neural_process(state: Mapping[str, Any]) -> State:
    """Of NP: a deterministic and a latent path."""
    return _renamed_baseline(state, {"denc": "encoder", "lenc": "latent_encoder"})


def anp(state: Mapping[str, Any]) -> State:
    """Of ANP: a path with cross-attention, and a latent one."""
    return _renamed_baseline(state, {"denc": "cross_encoder", "lenc": "latent_encoder"})


def _renamed_baseline(state: Mapping[str, Any], paths: Mapping[str, str]) -> State:
    """All arrays under their names here, matrices transposed."""
    found = {}
    for name, array in state.items():
        first, dot, rest = name.partition(".")
        name = paths.get(first, first) + dot + rest
        for there, here in PARTS:
            name = re.sub(there, here, name)
        array = np.asarray(array)
        found[name] = array.T if array.ndim == 2 else array
    return found


PROJECTIONS = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "output"}
NETWORKS = {"kernel": "kernel", "phi": "movement", "ff_block": "feed_forward"}
NORMS = {"norm1": "around_attention.layer_norm", "norm2": "around_feed_forward.layer_norm"}
OF_NORMS = {"weight": "gain", "bias": "shift"}


def te_attention(state: Mapping[str, Any]) -> State:
    """Of an attention of the TE-TNP code."""
    return _renamed_te(state)


def te_layer(state: Mapping[str, Any]) -> State:
    """Of a layer: attention, feed-forward network, and the LayerNorms before them."""
    own = {name: array for name, array in state.items() if not name.startswith("attn.")}
    inner = {name.removeprefix("attn."): array for name, array in state.items() if name.startswith("attn.")}
    return under("attention", _renamed_te(inner)) | _renamed_te(own)


def _renamed_te(state: Mapping[str, Any]) -> State:
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
