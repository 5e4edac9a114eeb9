"""PyTorch's Transformer modules with refnp's parameters, as functions of tensors."""

from __future__ import annotations

from typing import Any

from refnp.verify.frameworks.pytorch_layers import in_projection


def norm(prefix: str, gain, shift) -> dict:
    """A LayerNorm's parameters under PyTorch's names."""
    return {f"{prefix}.weight": gain, f"{prefix}.bias": shift}


def under(prefix: str, tensors: dict) -> dict:
    """The same with `prefix` before every name."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def maps(w1, b1, w2, b2) -> dict:
    """The feed-forward network's parameters."""
    return {"linear1.weight": w1.T, "linear1.bias": b1, "linear2.weight": w2.T, "linear2.bias": b2}


def encoder_names(parameters) -> dict:
    """Parameters of refnp's EncoderLayer in its order → those of nn.TransformerEncoderLayer."""
    attention = under("self_attn.", in_projection(*parameters[:8]))
    return attention | norm("norm1", *parameters[8:10]) | maps(*parameters[10:14]) | norm("norm2", *parameters[14:])


def decoder_names(parameters) -> dict:
    """Parameters of refnp's DecoderLayer in its order → those of nn.TransformerDecoderLayer."""
    own, other = in_projection(*parameters[:8]), in_projection(*parameters[10:18])
    norms = norm("norm1", *parameters[8:10]) | norm("norm2", *parameters[18:20]) | norm("norm3", *parameters[24:])
    return under("self_attn.", own) | under("multihead_attn.", other) | maps(*parameters[20:24]) | norms


def options(x, norm_style: str, activation: str) -> dict:
    """What all of PyTorch's modules are made with. They are left in training mode, without dropout: no fast path."""
    return {
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm_style == "pre",
        "batch_first": True,
        "dtype": x.dtype,
    }


def forbidden(mask: Any, heads: int) -> Any:
    """refnp's mask turned round; one per head if there is one per sequence."""
    import torch

    if mask is None:
        return None
    turned = ~torch.tensor(mask)
    return turned.repeat_interleave(heads, 0) if turned.ndim == 3 else turned


def encoder_layer(x, *parameters, heads, norm="post", activation="relu", mask=None):
    """nn.TransformerEncoderLayer."""
    import torch

    hidden = parameters[10].shape[1]
    layer = torch.nn.TransformerEncoderLayer(x.shape[-1], heads, hidden, **options(x, norm, activation))
    return torch.func.functional_call(layer, encoder_names(parameters), (x,), {"src_mask": forbidden(mask, heads)})


def encoder_fast_path(x, *parameters, heads, mask):
    """nn.TransformerEncoderLayer in evaluation, without gradients: one fused path. The mask is one of padding."""
    import torch

    hidden = parameters[10].shape[1]
    layer = torch.nn.TransformerEncoderLayer(x.shape[-1], heads, hidden, **options(x, "post", "relu"))
    layer.load_state_dict(encoder_names(parameters))
    return layer.eval()(x, src_key_padding_mask=~torch.tensor(mask)[:, 0])


def decoder_layer(x, memory, *parameters, heads, norm="post", activation="relu", mask=None, memory_mask=None):
    """nn.TransformerDecoderLayer."""
    import torch

    hidden = parameters[20].shape[1]
    layer = torch.nn.TransformerDecoderLayer(x.shape[-1], heads, hidden, **options(x, norm, activation))
    masks = {"tgt_mask": forbidden(mask, heads), "memory_mask": forbidden(memory_mask, heads)}
    return torch.func.functional_call(layer, decoder_names(parameters), (x, memory), masks)


def transformer(source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None):
    """nn.Transformer with a causal target mask and key padding of the source."""
    import torch

    model = torch.nn.Transformer(
        source.shape[-1], heads, layers, layers, parameters[10].shape[1], **options(source, norm, activation)
    )
    ends = [16 * layers, 16 * layers + 2, 42 * layers + 2]
    named: dict[str, Any] = {}
    for i in range(layers):
        named |= under(f"encoder.layers.{i}.", encoder_names(parameters[16 * i : 16 * (i + 1)]))
        own = parameters[ends[1] + 26 * i : ends[1] + 26 * (i + 1)]
        named |= under(f"decoder.layers.{i}.", decoder_names(own))
    named |= {"encoder.norm.weight": parameters[ends[0]], "encoder.norm.bias": parameters[ends[0] + 1]}
    named |= {"decoder.norm.weight": parameters[ends[2]], "decoder.norm.bias": parameters[ends[2] + 1]}
    padding = None if source_mask is None else ~torch.tensor(source_mask)[:, 0]
    masks = {
        "tgt_mask": ~torch.ones(target.shape[-2], target.shape[-2], dtype=torch.bool).tril(),
        "src_key_padding_mask": padding,
        "memory_key_padding_mask": padding,
    }
    return torch.func.functional_call(model, named, (source, target), masks)
