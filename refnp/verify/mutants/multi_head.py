"""Mutants of multi-head attention and of the layers of the Transformer: maps, heads, norms, residuals."""

import functools
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.mutant import averaged
from refnp.verify.layers.multi_head import refnp_biased_multi_head, refnp_multi_head
from refnp.verify.layers.transformer import refnp_transformer
from refnp.verify.layers.transformer_layers import (
    refnp_biased_decoder_layer,
    refnp_biased_encoder_layer,
    refnp_decoder_layer,
    refnp_encoder_layer,
)
from refnp.verify.mutants import attention as of_attention
from refnp.verify.mutants.layer_norm import SIZE


def dealt(x: Any, heads: int) -> Any:
    """x with feature f at head f mod H."""
    return ag.take(x, np.arange(x.shape[-1]).reshape(-1, heads).T.reshape(-1), -1)


def averaged_over_rows(bias: Any, x: Any) -> Any:
    """The bias, whose gradient is averaged over the rows of x."""
    return averaged(bias, count=max(int(np.prod(x.shape[:-1])), 1))


def masks_as(pairs: dict, how: str) -> dict:
    """Options with every mask "inverted", or "left out"."""
    is_mask = lambda name, value: "mask" in name and value is not None
    return {k: (~v if how == "inverted" else None) if is_mask(k, v) else v for k, v in pairs.items()}


HEADS_OF = "MultiHeadAttention: "
OUTPUT, JOINED = "self.output(merge_heads(output))", "merge_heads(output)"
OUTPUT_TRANSPOSED = HEADS_OF + OUTPUT, f"ag.linear({JOINED}, ag.transpose(self.output.weight), self.output.bias)"
TRANSPOSED: Named = {
    "the weights of query, key, value and output were transposed": [
        (
            f"{HEADS_OF}_maps(_p, self.{name}, _x)",
            f"ag.linear(_x, ag.transpose(self.{name}.weight), self.{name}.bias)",
        )
        for name in ("query", "key", "value")
    ]
    + [OUTPUT_TRANSPOSED],
    "the weight of the output were transposed": OUTPUT_TRANSPOSED,
}
DEALT: Named = {
    "feature f belonged to head f mod H": [
        (HEADS_OF + "split_heads(queries, self.heads)", "split_heads(dealt(queries, self.heads), self.heads)"),
        (HEADS_OF + "split_heads(a, self.key_heads)", "split_heads(dealt(a, self.key_heads), self.key_heads)"),
    ]
}
MAPS: Named = {
    **TRANSPOSED,
    "the maps of query and key were exchanged": [
        (f"{HEADS_OF}_maps(_p, self.{a}, {x})", f"_maps(_p, self.{b}, {x})")
        for a, b, x in (("query", "key", "query"), ("key", "query", "key"))
    ],
    "the maps of key and value were exchanged": [
        (f"{HEADS_OF}_maps(_p, self.{a}, {x})", f"_maps(_p, self.{b}, {x})")
        for a, b, x in (("key", "value", "key"), ("value", "key", "value"))
    ],
    **DEALT,
    "heads and places were not exchanged before heads were joined": (
        HEADS_OF + JOINED,
        "ag.reshape(output, (*output.shape[:-3], output.shape[-2], -1))",
    ),
}
MAP = "Linear: linear(x, self.weight, self.bias)"
BIASES: Named = {
    "the biases of the maps were left out": (MAP, "linear(x, self.weight)"),
    "the bias of the output were left out": (HEADS_OF + OUTPUT, f"ag.linear({JOINED}, self.output.weight)"),
    "the gradients of the maps' biases were averaged over rows, not summed": (
        MAP,
        "linear(x, self.weight, averaged_over_rows(self.bias, x))",
    ),
}
SCALES: Named = {**of_attention.SCALES, **of_attention.HEADS}
MASKS: Named = {**of_attention.MASKS, **of_attention.AFTER}
OF_HEADS = SCALES | of_attention.SOFTMAX | MAPS | BIASES | MASKS
ACTIVATION = "ACTIVATIONS[activation]"
RESIDUAL: Named = {"the residuals were left out": ("Residual: x + _y", "_y")}
OF_NORMS = {
    "the LayerNorms' ε were 1e-6": "ε were 1e-6",
    "the LayerNorms' ε were 1e-12": "ε were 1e-12",
    "the LayerNorms' ε stood outside the root": "ε stood outside the root",
    "the LayerNorms divided the variance by n − 1": "the variance were divided by n − 1",
}
INSIDE: Named = {
    **SCALES,
    **TRANSPOSED,
    **DEALT,
    **{says: SIZE[own] for says, own in OF_NORMS.items()},
    "the LayerNorms were before the sublayers, or after them, where they should be the other": (
        "norm =",
        "{'post': 'pre', 'pre': 'post'}[norm]",
    ),
    **RESIDUAL,
    "the other activation were taken, relu or gelu": ("activation =", "{'relu': 'gelu', 'gelu': 'relu'}[activation]"),
    "there were no activation": (ACTIVATION, "unchanged"),
}
TANH: Named = {
    "gelu were that of tanh": (ACTIVATION, f"gelu_of_tanh if activation == 'gelu' else {ACTIVATION}"),
}
ATTEND, ATTEND_TO_MEMORY = "self.around_attention({})", "self.around_memory_attention({})"
ORDER: Named = {
    "attention to the memory came before that to x itself": [
        ("DecoderLayer: " + ATTEND.format("attend, x, rng"), ATTEND_TO_MEMORY.format("attend_to_memory, x, rng=rng")),
        ("DecoderLayer: " + ATTEND_TO_MEMORY.format("attend_to_memory, x, rng"), ATTEND.format("attend, x, rng=rng")),
    ]
}
STACKS: Named = {
    "the LayerNorms after the stacks were left out": ("Stack: self.final_norm(x)", "x"),
    "the causal mask were left out, or there without being asked for": ("causal =", "not causal"),
    "padding of the source were not hidden from the encoder": (
        "model(source, target, source_mask=source_mask, memory_mask=source_mask)",
        "model(source, target, memory_mask=source_mask)",
    ),
}


def of_masks(call: str) -> Named:
    """Mistakes in all masks of a layer that is called with them."""
    how = {"the mask were inverted": "inverted", "the mask were left out": "left out"}
    return {
        says: (f"layer({call}, **pairs)", f"layer({call}, **masks_as(pairs, '{name}'))") for says, name in how.items()
    }


OF_WIDTHS: Named = {
    **{says: edit for says, edit in SCALES.items() if "number of keys" not in says},
    **BIASES,
    **DEALT,
}
WORDS = {
    **of_attention.WORDS,
    "dealt": dealt,
    "averaged_over_rows": averaged_over_rows,
    "masks_as": masks_as,
    "unchanged": lambda x: x,
    "gelu_of_tanh": functools.partial(layers.gelu, approximate="tanh"),
}
edits_of_heads: Any = functools.partial(named_edits, words=WORDS, pages=(layers.attention,))
edits: Any = functools.partial(named_edits, words=WORDS, pages=(layers.attention, layers.layer_norm))
MUTANTS = [
    *edits_of_heads(refnp_multi_head, ("multi_head",), OF_HEADS, narrow=of_attention.ROUNDED),
    *edits_of_heads(refnp_multi_head, ("multi_head_with_weights",), OF_HEADS | of_attention.WITH_WEIGHTS),
    *edits_of_heads(refnp_multi_head, ("multi_head_additive_mask",), SCALES | MASKS | of_attention.WITH_WEIGHTS),
    *edits_of_heads(refnp_multi_head, ("multi_head_widths",), OF_WIDTHS),
    *edits_of_heads(refnp_biased_multi_head, ("multi_head_biased",), SCALES | MAPS | of_attention.BIASES),
    *edits(refnp_encoder_layer, ("encoder_layer",), INSIDE | TANH | of_masks("x")),
    *edits(refnp_encoder_layer, ("encoder_fast_path",), INSIDE),
    *edits(refnp_biased_encoder_layer, ("encoder_layer_biased",), INSIDE),
    *edits(refnp_decoder_layer, ("decoder_layer",), INSIDE | TANH | ORDER | of_masks("x, memory")),
    *edits(refnp_transformer, ("transformer",), INSIDE | ORDER | STACKS),
    *edits(refnp_biased_decoder_layer, ("decoder_layer_biased",), INSIDE | ORDER),
]
