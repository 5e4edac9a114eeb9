"""Weights from PyTorch: the state dicts of its Transformer modules under refnp's names. PyTorch is not needed.

    layer = EncoderLayer(512, 8, 2048, rng=rng)
    layer.load_state_dict(published.torch.encoder_layer({name: tensor.numpy() for name, tensor in state.items()}))

torch.nn.MultiheadAttention keeps [W_qᵀ; W_kᵀ; W_vᵀ] as one matrix. A bias that a module was made without is 0 here,
which computes the same. What no state dict says must be given: `activation` (PyTorch's default is relu), `norm`, and
`eps` (1e-5 for both).

    torch.nn                     here               refnp
    MultiheadAttention           multi_head         MultiHeadAttention
    TransformerEncoderLayer      encoder_layer      EncoderLayer      norm_first=True is norm="pre"
    TransformerDecoderLayer      decoder_layer      DecoderLayer
    TransformerEncoder           encoder            Encoder           with norm: final_norm=True, else False
    TransformerDecoder           decoder            Decoder
    Transformer                  transformer        EncoderDecoder    both stacks with final_norm=True

All raise ValueError for names that are missing or have no place here, such as bias_k (a key that is always there).
"""

import re
from collections.abc import Mapping

import numpy as np

from refnp.autograd.tensor import ArrayLike
from refnp.models.published.renaming import Rule, State, part, renamed

NORM: tuple[Rule, ...] = ((r"norm\.weight$", "norm.gain"), (r"norm\.bias$", "norm.shift"))
ATTENTION: tuple[Rule, ...] = (
    (r"\bq_proj_", "query."),
    (r"\bk_proj_", "key."),
    (r"\bv_proj_", "value."),
    (r"\bout_proj\.", "output."),
)
LAYER: tuple[Rule, ...] = (
    (r"\bself_attn\.", "attention."),
    (r"\bmultihead_attn\.", "memory_attention."),
    (r"\blinear1\.", "feed_forward.layers.0."),
    (r"\blinear2\.", "feed_forward.layers.1."),
    (r"\bnorm1\.", "around_attention.layer_norm."),
    (r"^norm\.", "final_norm."),
    *ATTENTION,
)
ENCODER = (*LAYER, (r"\bnorm2\.", "around_feed_forward.layer_norm."), *NORM)
DECODER = (
    *LAYER,
    (r"\bnorm2\.", "around_memory_attention.layer_norm."),
    (r"\bnorm3\.", "around_feed_forward.layer_norm."),
    *NORM,
)
# The parts that a module must have, as they begin there; "weight" and "bias" follow.
OF_ATTENTION = ("q_proj_", "k_proj_", "v_proj_", "out_proj.")
OF_ENCODER_LAYER = (*(f"self_attn.{name}" for name in OF_ATTENTION), "linear1.", "linear2.", "norm1.", "norm2.")
OF_DECODER_LAYER = (*OF_ENCODER_LAYER, *(f"multihead_attn.{name}" for name in OF_ATTENTION), "norm3.")


def multi_head(state: Mapping[str, ArrayLike]) -> State:
    """Of torch.nn.MultiheadAttention, with one input projection or three."""
    return renamed(complete("multi_head", state, OF_ATTENTION), ATTENTION)


def encoder_layer(state: Mapping[str, ArrayLike]) -> State:
    """Of torch.nn.TransformerEncoderLayer."""
    return renamed(complete("encoder_layer", state, OF_ENCODER_LAYER), ENCODER)


def decoder_layer(state: Mapping[str, ArrayLike]) -> State:
    """Of torch.nn.TransformerDecoderLayer."""
    return renamed(complete("decoder_layer", state, OF_DECODER_LAYER), DECODER)


def encoder(state: Mapping[str, ArrayLike], what: str = "encoder") -> State:
    """Of torch.nn.TransformerEncoder. `what` is named in errors."""
    return renamed(complete(what, state, stack(state, OF_ENCODER_LAYER)), ENCODER)


def decoder(state: Mapping[str, ArrayLike], what: str = "decoder") -> State:
    """Of torch.nn.TransformerDecoder. `what` is named in errors."""
    return renamed(complete(what, state, stack(state, OF_DECODER_LAYER)), DECODER)


def transformer(state: Mapping[str, ArrayLike]) -> State:
    """Of torch.nn.Transformer."""
    others = [name for name in state if not name.startswith(("encoder.", "decoder."))]
    if others:
        raise ValueError(f"published.torch.transformer: no place for {', '.join(others)}")
    found: State = {}
    for name, read in (("encoder", encoder), ("decoder", decoder)):
        arrays = read(part(state, f"{name}."), f"transformer, {name}")
        found |= {f"{name}.{path}": array for path, array in arrays.items()}
    return found


def stack(state: Mapping[str, ArrayLike], of_layer: tuple[str, ...]) -> list[str]:
    """The parts of all layers that `state` has names of, by their numbers, and of the LayerNorm after them, if any."""
    numbers = {int(match[1]) for name in state if (match := re.match(r"layers\.(\d+)\.", name))}
    return [f"layers.{i}.{name}" for i in sorted(numbers) for name in of_layer] + ["norm."] * ("norm.weight" in state)


def complete(what: str, state: Mapping[str, ArrayLike], parts: tuple[str, ...] | list[str]) -> State:
    """A weight and a bias of every part, in their order: input projections split in three, 0 for a bias not there.

    Raises ValueError for a weight that is missing, and for names that belong to no part.
    """
    arrays = {name: np.asarray(array) for name, array in state.items()}
    for name in [name for name in arrays if re.search(r"\bin_proj_(weight|bias)$", name)]:
        joined = arrays.pop(name)
        if name.endswith("weight") and (joined.ndim != 2 or len(joined) != 3 * joined.shape[1]):
            raise ValueError(f"published.torch.{what}: {name} has shape {joined.shape}, not (3D, D)")
        split = zip("qkv", np.split(joined, 3), strict=True)
        arrays |= {name.replace("in_proj", f"{letter}_proj"): array for letter, array in split}
    found = {}
    for name in parts:
        if f"{name}weight" not in arrays:
            missing = f"{name}weight is missing; pass the whole state_dict of the module"
            raise ValueError(f"published.torch.{what}: {missing}")
        weight = found[f"{name}weight"] = arrays.pop(f"{name}weight")
        found[f"{name}bias"] = arrays.pop(f"{name}bias", np.zeros(len(weight), weight.dtype))
    if arrays:
        raise ValueError(f"published.torch.{what}: no place for {', '.join(arrays)}")
    return found
