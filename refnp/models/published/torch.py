"""Weights from PyTorch: the state dicts of its modules under refnp's names, and back. PyTorch is not needed.

    layer = EncoderLayer(512, 8, 2048, rng=rng)
    published.torch.load(layer, module.state_dict())
    module.load_state_dict({name: torch.from_numpy(array) for name, array in published.torch.save(layer).items()})

The model is made here first, with the sizes and options of theirs; what no state dict says must be right as well:
`activation` (PyTorch's default is relu), `norm`, `heads` and `eps` (1e-5 for both).

    torch.nn                     refnp
    Linear                       Linear                  weight is (out, in) there
    LayerNorm, RMSNorm           LayerNorm, RMSNorm      weight and bias are gain and shift
    GroupNorm, InstanceNorm1d …  GroupNorm, InstanceNorm the same
    BatchNorm1d …                BatchNorm               and running_mean, running_var; the count of batches is 0
    Embedding, Conv1d …          Embedding, Convolution, ConvolutionTranspose
    MultiheadAttention           MultiHeadAttention      [W_qᵀ; W_kᵀ; W_vᵀ] as one matrix, or three if widths differ
    TransformerEncoderLayer      EncoderLayer            norm_first=True is norm="pre"
    TransformerDecoderLayer      DecoderLayer
    TransformerEncoder           Encoder                 with norm: final_norm=True, else False
    TransformerDecoder           Decoder
    Transformer                  EncoderDecoder          both stacks with final_norm=True

A model of refnp that is made of these keeps its own names for the rest; more in docs/loading.md. bias_k and bias_v of
MultiheadAttention, a key and value that are always there, have no place here.

Without a model, `multi_head`, `encoder_layer`, `decoder_layer`, `encoder`, `decoder` and `transformer` give arrays for
`load_state_dict`; a bias that a module was made without is 0 there, which computes the same.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.autograd.tensor import ArrayLike, Parameter
from refnp.layers.group_norm import BatchNorm, GroupNorm, InstanceNorm
from refnp.layers.layer_norm import LayerNorm, RMSNorm
from refnp.layers.linear import Linear
from refnp.layers.multi_head import MultiHeadAttention
from refnp.models.published.renaming import Entry, Names, Rule, State, array_of, part, renamed, same, transposed
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer
from refnp.models.transformer_stacks import Stack

# ---- a model's names


def of_linear(module: Linear) -> list[Entry]:
    """Of torch.nn.Linear."""
    return transposed("weight", module.weight) + same("bias", module.bias)


def of_norm(module: Any, gain: str = "weight") -> list[Entry]:
    """Of torch.nn.LayerNorm, RMSNorm, GroupNorm and InstanceNorm; none where a module has no gain."""
    names = {gain: module.gain, "bias": getattr(module, "shift", None)}
    return [entry for name, own in names.items() if isinstance(own, Parameter) for entry in same(name, own)]


def of_batch_norm(module: BatchNorm) -> list[Entry]:
    """Of torch.nn.BatchNorm1d and its kin, which also count batches: a number that changes nothing, unless momentum is
    None there."""
    running = same("running_mean", module.running_mean) + same("running_var", module.running_variance)
    count = Entry("num_batches_tracked", (), lambda: np.zeros((), np.int64), lambda count: ())
    return [*of_norm(module), *running, count]


def of_attention(module: MultiHeadAttention) -> list[Entry]:
    """Of torch.nn.MultiheadAttention: the input maps in one matrix if all take equally many features."""
    check_maps("published.torch", module)
    if module.key_heads != module.heads:
        raise ValueError(
            f"published.torch: torch.nn.MultiheadAttention has as many key heads as heads, not {module.key_heads} for "
            f"{module.heads}; published.safetensors names such attention"
        )
    maps = module.query, module.key, module.value
    if len({own.weight.shape for own in maps}) == 1:
        found = [below_each_other("in_proj_weight", [own.weight for own in maps], np.transpose)]
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        found = [transposed(name, own.weight)[0] for name, own in zip(names, maps, strict=True)]
    if module.query.bias is not None:
        found.append(below_each_other("in_proj_bias", [own.bias for own in maps], np.asarray))
    output = module.output
    return found + transposed("out_proj.weight", output.weight) + same("out_proj.bias", output.bias)


def check_maps(name: str, module: MultiHeadAttention) -> None:
    """ValueError for maps that heads share before their own, which no other library has."""
    if module.query_projection is not None or module.value_projection is not None:
        raise ValueError(
            f"{name}: MultiHeadAttention with key_width or value_width has maps that this format does not name; "
            "use state_dict() and load_state_dict()"
        )


def below_each_other(name: str, parameters: list, turned: Any) -> Entry:
    """Parameters of equal shape as one array, each `turned` as it lies there."""
    join = lambda *arrays: np.concatenate([turned(array) for array in arrays])
    split = lambda array: tuple(turned(one) for one in np.split(array, len(parameters)))
    return Entry(name, tuple(parameters), join, split)


OF_A_LAYER = {
    "attention": "self_attn",
    "memory_attention": "multihead_attn",
    "feed_forward.layers.0": "linear1",
    "feed_forward.layers.1": "linear2",
    "around_attention.layer_norm": "norm1",
}
NAMES = Names(
    "published.torch",
    layouts={
        Linear: of_linear,
        **dict.fromkeys((LayerNorm, RMSNorm, GroupNorm, InstanceNorm), of_norm),
        BatchNorm: of_batch_norm,
        MultiHeadAttention: of_attention,
    },
    parts={
        EncoderLayer: OF_A_LAYER | {"around_feed_forward.layer_norm": "norm2"},
        DecoderLayer: OF_A_LAYER
        | {"around_memory_attention.layer_norm": "norm2", "around_feed_forward.layer_norm": "norm3"},
        Stack: {"final_norm": "norm"},
    },
)
load, save = NAMES.load, NAMES.save


# ---- without a model

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

    Raises ValueError that lists the weights that are missing, and the names that belong to no part.
    """
    arrays, wrong = {name: array_of(array) for name, array in state.items()}, []
    for name in [name for name in arrays if re.search(r"\bin_proj_(weight|bias)$", name)]:
        joined = arrays.pop(name)
        if len(joined) % 3 or (name.endswith("weight") and (joined.ndim != 2 or len(joined) != 3 * joined.shape[1])):
            wrong.append(f"{name} has shape {joined.shape}, not {'(3D, D)' if name.endswith('weight') else '(3D,)'}")
            joined = np.resize(joined, (3, 1))  # so that what else is wrong can be said
        split = zip("qkv", np.split(joined, 3), strict=True)
        arrays |= {name.replace("in_proj", f"{letter}_proj"): array for letter, array in split}
    missing = [f"{name}weight" for name in parts if f"{name}weight" not in arrays]
    found = {}
    for name in parts:
        weight = found[f"{name}weight"] = arrays.pop(f"{name}weight", np.zeros(0))
        found[f"{name}bias"] = arrays.pop(f"{name}bias", np.zeros(len(weight), weight.dtype))
    wrong += [f"missing {', '.join(missing)}"] if missing else []
    wrong += [f"no place for {', '.join(arrays)}"] if arrays else []
    if wrong:
        raise ValueError(f"published.torch.{what}: {'; '.join(wrong)}; pass the whole state_dict of the module")
    return found
