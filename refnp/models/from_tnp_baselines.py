"""Weights of the baselines in TNP-pytorch: their state dicts under refnp's names. PyTorch is not needed.

    model = CNP(encoders=2, floor=0.1, rng=rng)
    model.load_state_dict(from_tnp_baselines.cnp({name: tensor.numpy() for name, tensor in state.items()}))

    there    here               refnp
    CNP      cnp                CNP(encoders=2, floor=0.1)                                        215 682 parameters
    CANP     canp               CANP(floor=0.1, scaling="features")                               331 906
    NP       neural_process     LatentNP(deterministic=True, floor=0.1, latent_floor=0.1)         232 194
    ANP      anp                ANP(floor=0.1, latent_floor=0.1, scaling="features")              348 418

torch.nn.Linear keeps Wᵀ, (out, in), refnp W, (in, out). What has no place here keeps its name, and `load_state_dict`
names it, with all that is missing.
Source: github.com/tung-nd/TNP-pytorch, regression/models; Nguyen & Grover, arXiv 2207.04179.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

State = dict[str, np.ndarray]

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
    return _renamed(state, {"enc1": "encoders.0", "enc2": "encoders.1"})


def canp(state: Mapping[str, Any]) -> State:
    """Of CANP: a path with cross-attention, and one with a mean."""
    return _renamed(state, {"enc1": "cross_encoder", "enc2": "encoder"})


def neural_process(state: Mapping[str, Any]) -> State:
    """Of NP: a deterministic and a latent path."""
    return _renamed(state, {"denc": "encoder", "lenc": "latent_encoder"})


def anp(state: Mapping[str, Any]) -> State:
    """Of ANP: a path with cross-attention, and a latent one."""
    return _renamed(state, {"denc": "cross_encoder", "lenc": "latent_encoder"})


def _renamed(state: Mapping[str, Any], paths: Mapping[str, str]) -> State:
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
