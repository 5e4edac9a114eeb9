"""Weights from PyTorch: the state dicts of its Transformer modules under refnp's names. PyTorch is not needed.

    layer = EncoderLayer(512, 8, 2048, rng=rng)
    layer.load_state_dict(published.torch.encoder_layer({name: tensor.numpy() for name, tensor in state.items()}))

torch.nn.Linear keeps Wᵀ, (out, in), refnp W, (in, out); torch.nn.MultiheadAttention keeps [W_qᵀ; W_kᵀ; W_vᵀ] as one
matrix. A bias that a module was made without is 0 here, which computes the same. What no state dict says must be
asked for: `activation` (PyTorch's default is relu), `norm`, and `eps` (1e-5 for both).

    torch.nn                     here               refnp
    MultiheadAttention           multi_head         MultiHeadAttention
    TransformerEncoderLayer      encoder_layer      EncoderLayer      norm_first=True is norm="pre"
    TransformerDecoderLayer      decoder_layer      DecoderLayer
    TransformerEncoder           encoder            Encoder           with norm: final_norm=True, else False
    TransformerDecoder           decoder            Decoder
    Transformer                  transformer        EncoderDecoder    both stacks with final_norm=True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

State = dict[str, np.ndarray]


class Reader:
    """A state dict that notes which names have been read, so that none is lost unseen."""

    def __init__(self, what: str, state: Mapping[str, Any]):
        self.what, self.unread = what, {name: np.asarray(array) for name, array in state.items()}

    def take(self, name: str) -> np.ndarray:
        """The array of that name.   Raises ValueError if there is none."""
        if name not in self.unread:
            raise ValueError(f"published.torch.{self.what}: {name} is missing; pass the whole state_dict of the module")
        return self.unread.pop(name)

    def take_or_zeros(self, name: str, length: int, like: np.ndarray) -> np.ndarray:
        """The array of that name, or zeros (length,) if the module was made without it."""
        return self.unread.pop(name) if name in self.unread else np.zeros(length, like.dtype)

    def finished(self, found: State) -> State:
        """`found`, or ValueError that names what has not been read."""
        if self.unread:
            raise ValueError(f"published.torch.{self.what}: no place for {', '.join(self.unread)}")
        return found


def multi_head(state: Mapping[str, Any]) -> State:
    """Of torch.nn.MultiheadAttention, with one input projection or three.

    Raises ValueError for names that are missing or have no place here, such as bias_k (a key that is always there).
    """
    reader = Reader("multi_head", state)
    return reader.finished(_attention(reader, ""))


def encoder_layer(state: Mapping[str, Any]) -> State:
    """Of torch.nn.TransformerEncoderLayer.   Raises ValueError as `multi_head`."""
    reader = Reader("encoder_layer", state)
    return reader.finished(_encoder_layer(reader, ""))


def decoder_layer(state: Mapping[str, Any]) -> State:
    """Of torch.nn.TransformerDecoderLayer.   Raises ValueError as `multi_head`."""
    reader = Reader("decoder_layer", state)
    return reader.finished(_decoder_layer(reader, ""))


def encoder(state: Mapping[str, Any]) -> State:
    """Of torch.nn.TransformerEncoder.   Raises ValueError as `multi_head`."""
    reader = Reader("encoder", state)
    return reader.finished(_stack(reader, "", _encoder_layer))


def decoder(state: Mapping[str, Any]) -> State:
    """Of torch.nn.TransformerDecoder.   Raises ValueError as `multi_head`."""
    reader = Reader("decoder", state)
    return reader.finished(_stack(reader, "", _decoder_layer))


def transformer(state: Mapping[str, Any]) -> State:
    """Of torch.nn.Transformer.   Raises ValueError as `multi_head`."""
    reader = Reader("transformer", state)
    found = under("encoder", _stack(reader, "encoder.", _encoder_layer))
    return reader.finished(found | under("decoder", _stack(reader, "decoder.", _decoder_layer)))


def under(prefix: str, state: State) -> State:
    """The same arrays with `prefix.` before every name."""
    return {f"{prefix}.{name}": array for name, array in state.items()}


def _stack(reader: Reader, prefix: str, layer: Callable[[Reader, str], State]) -> State:
    found: State = {}
    pattern = re.compile(re.escape(prefix) + r"layers\.(\d+)\.")
    numbers = {int(match[1]) for name in reader.unread if (match := pattern.match(name))}
    for i in sorted(numbers):
        found |= under(f"layers.{i}", layer(reader, f"{prefix}layers.{i}."))
    if f"{prefix}norm.weight" in reader.unread:
        found |= under("final_norm", _norm(reader, f"{prefix}norm."))
    return found


def _encoder_layer(reader: Reader, prefix: str) -> State:
    return (
        under("attention", _attention(reader, f"{prefix}self_attn."))
        | under("around_attention.layer_norm", _norm(reader, f"{prefix}norm1."))
        | _feed_forward(reader, prefix)
        | under("around_feed_forward.layer_norm", _norm(reader, f"{prefix}norm2."))
    )


def _decoder_layer(reader: Reader, prefix: str) -> State:
    return (
        under("attention", _attention(reader, f"{prefix}self_attn."))
        | under("around_attention.layer_norm", _norm(reader, f"{prefix}norm1."))
        | under("memory_attention", _attention(reader, f"{prefix}multihead_attn."))
        | under("around_memory_attention.layer_norm", _norm(reader, f"{prefix}norm2."))
        | _feed_forward(reader, prefix)
        | under("around_feed_forward.layer_norm", _norm(reader, f"{prefix}norm3."))
    )


def _attention(reader: Reader, prefix: str) -> State:
    if f"{prefix}in_proj_weight" in reader.unread:
        joined = reader.take(f"{prefix}in_proj_weight")  # (3D, D)
        if joined.ndim != 2 or len(joined) != 3 * joined.shape[1]:
            raise ValueError(
                f"published.torch.{reader.what}: {prefix}in_proj_weight has shape {joined.shape}, not (3D, D)"
            )
        weights = np.split(joined, 3)
    else:
        weights = [reader.take(f"{prefix}{letter}_proj_weight") for letter in "qkv"]
    biases = np.split(reader.take_or_zeros(f"{prefix}in_proj_bias", 3 * len(weights[0]), weights[0]), 3)
    found: State = {}
    for role, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
        found |= {f"{role}.weight": weight.T, f"{role}.bias": bias}
    return found | under("output", _linear(reader, f"{prefix}out_proj."))


def _feed_forward(reader: Reader, prefix: str) -> State:
    maps = [_linear(reader, f"{prefix}linear{i}.") for i in (1, 2)]
    return under("feed_forward.layers.0", maps[0]) | under("feed_forward.layers.1", maps[1])


def _linear(reader: Reader, prefix: str) -> State:
    weight = reader.take(f"{prefix}weight")  # (m, n)
    return {"weight": weight.T, "bias": reader.take_or_zeros(f"{prefix}bias", len(weight), weight)}


def _norm(reader: Reader, prefix: str) -> State:
    gain = reader.take(f"{prefix}weight")  # (D,)
    return {"gain": gain, "shift": reader.take_or_zeros(f"{prefix}bias", len(gain), gain)}
