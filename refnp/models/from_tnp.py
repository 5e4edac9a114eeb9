"""Weights of TNP-pytorch's TNP-D, TNP-A and TNP-ND: their state dicts under refnp's names. PyTorch is not needed.

    model = TNPD(rng=rng)
    model.load_state_dict(from_tnp.state({name: tensor.numpy() for name, tensor in module.state_dict().items()}))

    there                       here        refnp
    TNPD                        state       TNPD()                              222 082 parameters
    TNPA                        state       TNPA()                              222 082
    TNPND, cov_approx cholesky  state       TNPND(covariance="cholesky")        332 821
    TNPND, cov_approx lowrank   state       TNPND(covariance="low_rank")        374 294

with sizes as in its configs/gp; `bound_std=True` there is floor=0.05 here.
Source: github.com/tung-nd/TNP-pytorch, regression/models; Nguyen & Grover, arXiv 2207.04179.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.models import from_torch

State = dict[str, np.ndarray]

SEQUENCES = {
    "embedder": "embedder",
    "predictor": "predictor",
    "mean_net": "mean",
    "projector": "projector",
    "diag_net": "diagonal",
}
ENCODERS = {"encoder": "layers", "std_encoder": "target_layers"}


def state(found: Mapping[str, Any]) -> State:
    """Of any of the three.   Raises ValueError for a name that has no place here, or an encoder that lacks one."""
    parts: dict[str, State] = {}
    for name, array in found.items():
        part, _, rest = name.partition(".")
        if part not in SEQUENCES and part not in ENCODERS:
            raise ValueError(f"from_tnp.state: no place for {name}; pass the state_dict of TNPD, TNPA or TNPND")
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
            raise ValueError(f"from_tnp.sequence: no place for {name}; linear maps are numbered 0, 2, 4, …")
        array = np.asarray(array)
        translated[f"layers.{int(number) // 2}.{kind}"] = array.T if kind == "weight" else array
    return translated
