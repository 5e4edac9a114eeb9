"""Weights of language models: the state dicts of transformers' GPT2LMHeadModel and LlamaForCausalLM, and back.

    model = GPT(50257, 1024, rng=rng)
    published.transformers.load(model, published.safetensors.read("model.safetensors"))

    there               refnp                                                        parameters
    gpt2                GPT(50257, 1024)                                             124 439 808
    gpt2-medium         GPT(50257, 1024, features=1024, heads=16, layers=24)         354 823 168
    Llama-2-7b-hf       LLaMA(32000)                                               6 738 415 616
    TinyLlama-1.1B      LLaMA(32000, features=2048, heads=32, key_heads=4, hidden=5632, layers=22)

Also without "transformer." and "lm_head.weight", as files of GPT-2 have it, and with its buffers, the causal mask.
What a state does not say must be right as well: heads, ε, the base of the rotations (`rope_theta`), and that these are
not scaled (`rope_scaling`, LLaMA 3.1).
Elsewhere: transformers computes LLaMA's rotations and RMSNorms in float32, also in a model of float64, which then
agrees to some 7 digits.
Source: github.com/huggingface/transformers, models/gpt2 and models/llama.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.layers.linear import Linear
from refnp.layers.multi_head import MultiHeadAttention
from refnp.models.decoder_only import GPT, DecoderOnly, GatedLayer, GatedMLP, LLaMA
from refnp.models.published import safetensors
from refnp.models.published.renaming import Entry, Names, flattened, same, transposed
from refnp.models.transformer_layers import EncoderLayer

BUFFERS = re.compile(r"\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$")  # what is no parameter


def of_conv1d(module: Linear) -> list[Entry]:
    """GPT-2's "Conv1D", a linear map whose matrix lies as refnp's does."""
    return same("weight", module.weight) + same("bias", module.bias)


def of_attention(module: MultiHeadAttention) -> list[Entry]:
    """One map (D, 3D) of queries, keys and values, and one of the heads."""
    maps = (module.query, module.key, module.value)
    beside = {
        "c_attn.weight": tuple(own.weight for own in maps),
        "c_attn.bias": tuple(own.bias for own in maps if own.bias is not None),
    }
    joined = [
        Entry(name, parts, lambda *arrays: np.concatenate(arrays, -1), lambda array: tuple(np.split(array, 3, -1)))
        for name, parts in beside.items()
        if parts
    ]
    return joined + same("c_proj.weight", module.output.weight) + same("c_proj.bias", module.output.bias)


def of_ends(embedding: str) -> Any:
    """The embedding, and the last map: another matrix, or the same one under both names."""

    def entries(model: DecoderOnly) -> list[Entry]:
        first = same(embedding, model.embedding.weight)
        if model.output is None:
            return first + same("lm_head.weight", model.embedding.weight)
        return first + transposed("lm_head.weight", model.output.weight)

    return entries


OF_GPT = safetensors.NAMES.extended(
    "published.transformers",
    layouts={Linear: of_conv1d, MultiHeadAttention: of_attention, GPT: of_ends("transformer.wte.weight")},
    parts={
        EncoderLayer: {
            "attention": "attn",
            "around_attention.layer_norm": "ln_1",
            "around_feed_forward.layer_norm": "ln_2",
            "feed_forward.layers.*": lambda i: ("mlp.c_fc", "mlp.c_proj")[i],
        },
        GPT: {"positions": "transformer.wpe", "layers.*": "transformer.h.*", "final_norm": "transformer.ln_f"},
    },
)
OF_LLAMA = safetensors.NAMES.extended(
    "published.transformers",
    layouts={LLaMA: of_ends("model.embed_tokens.weight")},
    parts={
        MultiHeadAttention: {"out_proj": "o_proj"},
        GatedMLP: {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"},
        GatedLayer: {
            "attention": "self_attn",
            "attention_norm": "input_layernorm",
            "feed_forward": "mlp",
            "feed_forward_norm": "post_attention_layernorm",
        },
        LLaMA: {"layers.*": "model.layers.*", "final_norm": "model.norm"},
    },
)


def load(model: DecoderOnly, state: Mapping[str, Any]) -> None:
    """Set every parameter of a GPT or LLaMA from a state dict of transformers; all of them, or none.

    Raises ValueError that lists the names that are missing, left over or misshapen; TypeError for another model.
    """
    names = names_of(model)
    if hasattr(state, "items"):
        state = {name: value for name, value in flattened(state).items() if not BUFFERS.search(name)}
        if isinstance(model, GPT):
            inner = lambda name: name.startswith(("transformer.", "lm_head."))
            state = {name if inner(name) else f"transformer.{name}": value for name, value in state.items()}
        table = "transformer.wte.weight" if isinstance(model, GPT) else "model.embed_tokens.weight"
        if model.output is None and table in state:
            state = {"lm_head.weight": state[table]} | state
    names.load(model, state)


def save(model: DecoderOnly) -> dict[str, Any]:
    """The parameters of a GPT or LLaMA as transformers names them and lays them out, copies."""
    return names_of(model).save(model)


def names_of(model: DecoderOnly) -> Names:
    """The table for a model; TypeError if there is none."""
    for kind, names in ((GPT, OF_GPT), (LLaMA, OF_LLAMA)):
        if isinstance(model, kind):
            return names
    raise TypeError(f"published.transformers: model is a {type(model).__name__}; pass a GPT or a LLaMA")
