"""Weights of Transformer neural processes and their baselines: the state dicts of TNP-pytorch, and back.

    model = TNPD(rng=rng)
    published.tnp.load(model, module.state_dict())
    module.load_state_dict({name: torch.from_numpy(array) for name, array in published.tnp.save(model).items()})

`load` and `save` know the names from the model, which is made here first, with the sizes of theirs. The functions below
need no model; they give arrays for `load_state_dict`.

    there                         here              refnp                                                    parameters
    TNPD                          tnp               TNPD()                                                      222 082
    TNPA                          tnp               TNPA()                                                      222 082
    TNPND, cov_approx cholesky    tnp               TNPND(covariance="cholesky")                                332 821
    TNPND, cov_approx lowrank     tnp               TNPND(covariance="low_rank")                                374 294
    CNP                           cnp               CNP(encoders=2, floor=0.1)                                  215 682
    CANP                          canp              CANP(floor=0.1, scaling="features")                         331 906
    NP                            neural_process    LatentNP(deterministic=True, floor=0.1, latent_floor=0.1)   232 194
    ANP                           anp               ANP(floor=0.1, latent_floor=0.1, scaling="features")        348 418
    BNP                           cnp               BNP(encoders=2, floor=0.1)                                  248 450
    BANP                          canp              BANP(floor=0.1, scaling="features")                         364 674
    MultiHead[Self, Cross]TEAttention               te_attention      TranslationAttention
    MultiHead[Self, Cross]TEAttentionLayer          te_layer          TranslationLayer(norm="pre")

The first ten are those of TNP-pytorch, with sizes as in its configs/gp; `bound_std=True` there is floor=0.05 here.
The last two are those of the TE-TNP code, where heads together are as wide as the features, kernel and φ are MLPs with
relu, φ with dx results, and norm_first is True (False is neither post- nor pre-norm there).
Source: github.com/tung-nd/TNP-pytorch, regression/models; Nguyen & Grover (2022), arXiv 2207.04179;
github.com/cambridge-mlg/tnp; Ashman et al. (2024), arXiv 2406.12409.
"""

import re
from collections.abc import Mapping
from typing import Any

from refnp.autograd.tensor import ArrayLike
from refnp.layers.linear import MLP
from refnp.models.attentive import ANP, CANP, AttentionBlock, CrossEncoder
from refnp.models.bootstrap import BANP, BNP
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP, SetEncoder
from refnp.models.published import torch
from refnp.models.published.renaming import Rule, State, layer, part, renamed
from refnp.models.tnp import TNP as TokenModel
from refnp.models.transformer_layers import EncoderLayer

# ---- a model's names


def of_set_encoder(encoder: SetEncoder) -> dict[str, str]:
    """Of PoolingEncoder: with a self-attention block the MLP before it is number 0 of three."""
    if encoder.attention is None:
        return {"before": "net_pre", "after": "net_post"}
    return {"before": "net_pre.0", "attention": "net_pre.2", "after": "net_post"}


# The decoder's first map stands alone, before the relu that begins what follows; inside an MLP maps are 0, 2, 4, …
DECODER: dict[str, Any] = {"decoder.*": lambda i: "dec.fc" if i == 0 else f"dec.mlp.{i - 1}"}
ADAPTATION = {"adaptation": "dec.fc_ctx"}
FEED_FORWARD = {"feed_forward.0": "linear1", "feed_forward.2": "linear2"}
NAMES = torch.NAMES.extended(
    "published.tnp",
    parts={
        MLP: {"layers.*": lambda i: f"{2 * i}"},
        EncoderLayer: torch.OF_A_LAYER | FEED_FORWARD | {"around_feed_forward.layer_norm": "norm2"},
        TokenModel: {
            "layers": "encoder.layers",
            "target_layers": "std_encoder.layers",
            "mean": "mean_net",
            "diagonal": "diag_net",
        },
        CNP: {"encoders.*": lambda i: f"enc{i + 1}"} | DECODER,
        CANP: {"cross_encoder": "enc1", "encoder": "enc2"} | DECODER,
        LatentNP: {"encoder": "denc", "latent_encoder": "lenc"} | DECODER,
        ANP: {"cross_encoder": "denc", "latent_encoder": "lenc"} | DECODER,
        BNP: {"encoders.*": lambda i: f"enc{i + 1}"} | DECODER | ADAPTATION,
        BANP: {"cross_encoder": "enc1", "encoder": "enc2"} | DECODER | ADAPTATION,
        SetEncoder: of_set_encoder,
        CrossEncoder: {"value": "net_v", "place": "net_qk", "self_attention": "self_attn", "cross_attention": "attn"},
        AttentionBlock: {
            "query": "fc_q",
            "key": "fc_k",
            "value": "fc_v",
            "output": "fc_out",
            "first_norm": "ln1",
            "second_norm": "ln2",
        },
    },
)
load, save = NAMES.load, NAMES.save


# ---- without a model

TNP: tuple[Rule, ...] = tuple(
    (rf"^{there}\.(\d*[02468])\.(?=weight$|bias$)", layer(here))
    for there, here in {
        "embedder": "embedder",
        "predictor": "predictor",
        "mean_net": "mean",
        "projector": "projector",
        "diag_net": "diagonal",
    }.items()
)
ENCODERS = {"encoder.": "layers", "std_encoder.": "target_layers"}
BASELINE: tuple[Rule, ...] = (
    (r"^dec\.fc_ctx\.", "adaptation."),
    (r"^dec\.fc\.", "decoder.layers.0."),
    (r"^dec\.mlp\.(\d+)\.", lambda found: f"decoder.layers.{(int(found[1]) + 1) // 2}."),
    (r"\.net_pre\.2\.(?=fc_|ln)", ".attention."),  # before a self-attention block the MLP is number 0
    (r"\.net_pre\.0\.(?=\d)", ".net_pre."),
    (r"\.net_pre\.(\d+)\.", layer(".before")),
    (r"\.net_post\.(\d+)\.", layer(".after")),
    (r"\.net_v\.(\d+)\.", layer(".value")),
    (r"\.net_qk\.(\d+)\.", layer(".place")),
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
TRANSLATION: tuple[Rule, ...] = (
    (r"^attn\.", "attention."),
    (r"\bto_q\.", "query."),
    (r"\bto_k\.", "key."),
    (r"\bto_v\.", "value."),
    (r"\bto_out\.0\.", "output."),
    (r"^norm1\.", "around_attention.layer_norm."),
    (r"^norm2\.", "around_feed_forward.layer_norm."),
    *torch.NORM,
)
NETWORKS = {"kernel": "kernel", "phi": "movement", "ff_block": "feed_forward"}


def tnp(state: Mapping[str, ArrayLike]) -> State:
    """Of TNPD, TNPA or TNPND.   Raises ValueError for a name that has no place here, or an encoder that lacks one."""
    found: State = {}
    for prefix, here in ENCODERS.items():
        layers = torch.encoder(part(state, prefix))  # layers.0.attention.query.weight, …
        found |= {name.replace("layers", here, 1): array for name, array in layers.items()}
    others = {name: array for name, array in state.items() if not name.startswith(tuple(ENCODERS))}
    why = "pass the state_dict of TNPD, TNPA or TNPND; linear maps are numbered 0, 2, 4, …"
    return found | renamed(others, TNP, no_place=f"published.tnp.tnp: no place for {{}}; {why}")


def cnp(state: Mapping[str, ArrayLike]) -> State:
    """Of CNP or BNP: two encoders side by side."""
    return renamed(state, ((r"^enc1\.", "encoders.0."), (r"^enc2\.", "encoders.1."), *BASELINE))


def canp(state: Mapping[str, ArrayLike]) -> State:
    """Of CANP or BANP: a path with cross-attention, and one with a mean."""
    return renamed(state, ((r"^enc1\.", "cross_encoder."), (r"^enc2\.", "encoder."), *BASELINE))


def neural_process(state: Mapping[str, ArrayLike]) -> State:
    """Of NP: a deterministic and a latent path."""
    return renamed(state, ((r"^denc\.", "encoder."), (r"^lenc\.", "latent_encoder."), *BASELINE))


def anp(state: Mapping[str, ArrayLike]) -> State:
    """Of ANP: a path with cross-attention, and a latent one."""
    return renamed(state, ((r"^denc\.", "cross_encoder."), (r"^lenc\.", "latent_encoder."), *BASELINE))


def te_attention(state: Mapping[str, ArrayLike]) -> State:
    """Of an attention of the TE-TNP code. The linear maps of an MLP are taken in the order of their numbers."""
    rules: list[Rule] = []
    for there, here in NETWORKS.items():
        pattern = re.compile(rf"({there}\.(?:\w+\.)*?(\d+))\.weight$")
        matches = [match for name in state if (match := pattern.search(name))]
        for i, match in enumerate(sorted(matches, key=lambda match: int(match[2]))):
            rules.append((rf"\b{re.escape(match[1])}\.(?=weight$|bias$)", f"{here}.layers.{i}."))
    return renamed(state, (*rules, *TRANSLATION))


def te_layer(state: Mapping[str, ArrayLike]) -> State:
    """Of a layer of the TE-TNP code: attention, feed-forward network, and the LayerNorms before them."""
    return te_attention(state)
