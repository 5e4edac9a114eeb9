"""Weights from cambridge-mlg/tnp and its TE-TNPs: the state dicts of whole models, and back. PyTorch is not needed.

    model = TETNP(features=128, heads=8, hidden=128, layers=5, kernel=(128, 128), **published.te_tnp.AS_THERE, rng=rng)
    published.te_tnp.load(model, module.state_dict())
    module.load_state_dict({name: torch.from_numpy(a) for name, a in published.te_tnp.save(model).items()})

    there                                                        refnp, besides AS_THERE
    TNP, TNPTransformerEncoder with mhca_layer alone             TNPD(flag=True, norm="pre", updated=True)
    the same with mhsa_layer                                     TNPD(flag=True, norm="pre", updated=True, untied=True)
    TNP, ISTEncoder, PerceiverEncoder                            PseudoTNP(form="induced"), PseudoTNP(form="perceiver")
    TETNP, TETNPTransformerEncoder                               TETNP(updated=True), or with untied=True as above
    TEPTTNP, TEISTEncoder                                        PseudoTETNP(last_spread=True, moves=False)
    TEPTTNP, TEPerceiverEncoder                                  PseudoTETNP(form="perceiver", moves=False)
    TE layers with phi                                           moves=True, movement: its hidden widths
    a group_action that gives [d, d²]                            TETNP(squares=True)

norm_first=True is norm="pre"; with False TE layers are neither. A feed-forward network there is as wide as the tokens,
and so are all MLPs, of three linear maps: hidden=features, kernel=(features, features). Heads together are as wide as
the tokens. Versions whose ISTEncoder has as many layers toward the context as others need last_spread=True too. A tied
encoder has every array twice, as mhca_layers and as mhsa_layers. The attention of TNPs has no bias in queries, keys and
values: it is 0 here after `load`, and `save` refuses another. Pseudo-tokens begin at the mean of the context. φ of the
last layer toward the targets moves what nothing uses: `load` leaves it out, in `save` it is 0.
Source: cambridge-mlg/tnp, github.com/cambridge-mlg/tnp and github.com/cambridge-mlg/tetnp; Ashman et al. (2024).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from refnp.layers.linear import MLP, Linear
from refnp.layers.module import Module
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.translation_attention import TranslationAttention
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.published import torch
from refnp.models.published.renaming import Entry, Names, Parts, same, transposed
from refnp.models.te_tnp import TETNP, TranslationLayer
from refnp.models.tnp import TNP
from refnp.models.transformer_layers import EncoderLayer

AS_THERE: dict[str, Any] = {
    "embedding_depth": 3,
    "predictor_depth": 3,
    "flagged": "targets",
    "deviation": "softplus_variance",
}

# ---- a model's names

ENCODER = "encoder.transformer_encoder"
READ_OFF = {"predictor": "decoder.z_decoder"}
LAYER = {
    "attention": "attn",
    "around_attention.layer_norm": "norm1",
    "around_feed_forward.layer_norm": "norm2",
    "feed_forward.net.0": "ff_block.0",
    "feed_forward.net.2": "ff_block.3",  # after an activation and a dropout
}
OF_PSEUDO_LAYERS = {
    f"layers.*.{here}": f"{ENCODER}.{there}.*"
    for here, there in {
        "collect": "mhca_ctoq_layers",
        "mix": "mhsa_layers",
        "read": "mhca_qtot_layers",
        "spread": "mhca_qtoc_layers",
    }.items()
}


def of_mlp(mlp: MLP) -> Parts:
    """Of MLP: activations are numbered too; one map alone has no number."""
    return {"layers.*": lambda i: f"net.{2 * i}"} if len(mlp.layers) > 1 else {"layers.0": "net"}


def without_bias(name: str, linear: Linear) -> list[Entry]:
    """A linear map whose bias, if it has one here, is none there: 0 after loading."""
    if linear.bias is None:
        return transposed(name, linear.weight)
    split: Callable = lambda array: (array.T, np.zeros(len(array), array.dtype))
    return [Entry(name, (linear.weight, linear.bias), lambda weight, bias: weight.T, split)]


def of_attention(attention: MultiHeadAttention | TranslationAttention) -> list[Entry]:
    """Of MultiHead[Self, Cross]Attention and MultiHead[Self, Cross]TEAttention.

    Raises ValueError for weights that are not of a softmax.
    """
    if isinstance(attention, TranslationAttention) and attention.normalization != "softmax":
        raise ValueError(
            f"published.te_tnp: a TranslationAttention has normalization={attention.normalization!r}; there it has "
            "none but 'softmax'"
        )
    maps = {"to_q": attention.query, "to_k": attention.key, "to_v": attention.value}
    found = [entry for name, linear in maps.items() for entry in without_bias(f"{name}.weight", linear)]
    output = attention.output
    return found + transposed("to_out.0.weight", output.weight) + same("to_out.0.bias", output.bias)


def of_tokens(embedder: str) -> Callable[[Any], Parts]:
    """Of a TNP or TE-TNP: tied layers are mhca_layers, those of the context's own are mhsa_layers."""

    def parts(model: TNP | TETNP) -> Parts:
        tied = model.reading_layers is None
        layers = {
            "layers": f"{ENCODER}.{'mhca' if tied else 'mhsa'}_layers",
            "reading_layers": f"{ENCODER}.mhca_layers",
        }
        return {"embedder": embedder} | layers | READ_OFF

    return parts


def of_unused_steps(model: Module, found: Mapping[str, Entry]) -> list[Entry]:
    """φ of the last layer toward the targets, which no layer comes after: arrays there, of no parameter here.

    Their shapes are those of φ in the first layer that moves anything, in `found`.
    """
    if isinstance(model, PseudoTETNP):
        moving, last = "mhca_ctoq_layers.0", f"mhca_qtot_layers.{len(model.layers) - 1}"
    elif isinstance(model, TETNP) and model.reading_layers is not None and model.updated:
        moving, last = "mhsa_layers.0", f"mhca_layers.{len(model.reading_layers) - 1}"
    else:  # tied layers move the context too, which is used
        return []
    steps = {name: entry.array for name, entry in found.items() if name.startswith(f"{ENCODER}.{moving}.attn.phi.")}
    return [
        Entry(name.replace(moving, last, 1), (), partial(np.zeros_like, array), lambda array: ())
        for name, array in steps.items()
    ]


class TiedNames(Names):
    """Names in which tied layers have two, and biases that are not there are refused where they are not 0."""

    def entries(self, model: Module) -> dict[str, Entry]:
        """As `Names.entries`, with the arrays of tied layers a second time, and of steps that nothing uses."""
        found = super().entries(model)
        found |= {entry.name: entry for entry in of_unused_steps(model, found)}
        if isinstance(model, (TNP, TETNP)) and model.reading_layers is None:
            for name, entry in list(found.items()):
                if name.startswith(f"{ENCODER}.mhca_layers."):
                    twin = name.replace("mhca_layers", "mhsa_layers", 1)
                    found[twin] = replace(entry, name=twin)
        return found

    def save(self, model: Module) -> dict[str, Any]:
        """As `Names.save`.   Raises ValueError also for biases of queries, keys or values that are not 0."""
        for name, entry in self.entries(model).items():
            if len(entry.parameters) == 2 and entry.parameters[1].data.any():
                raise ValueError(
                    f"{self.source}: the bias beside {name} is not 0, and there is none there; set it to 0, or train "
                    "without it"
                )
        return super().save(model)


NAMES = TiedNames(
    "published.te_tnp",
    layouts=torch.NAMES.layouts | {MultiHeadAttention: of_attention, TranslationAttention: of_attention},
    parts={
        MLP: of_mlp,
        EncoderLayer: LAYER,
        TranslationLayer: LAYER,
        TranslationAttention: {"movement": "phi"},
        TNP: of_tokens("encoder.xy_encoder"),
        TETNP: of_tokens("encoder.y_encoder"),
        PseudoTNP: {"embedder": "encoder.xy_encoder", "pseudo_tokens": f"{ENCODER}.latents"}
        | OF_PSEUDO_LAYERS
        | READ_OFF,
        PseudoTETNP: {
            "embedder": "encoder.y_encoder",
            "pseudo_tokens": f"{ENCODER}.latent_tokens",
            "pseudo_places": f"{ENCODER}.latent_inputs",
        }
        | OF_PSEUDO_LAYERS
        | READ_OFF,
    },
)
load, save = NAMES.load, NAMES.save
