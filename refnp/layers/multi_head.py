"""Multi-head attention: several attentions side by side, each on its own projection, and a linear map of them all.

    H^(i) = Attention(X W_q^(i), Y W_k^(i), Y W_v^(i))        MHA(X, Y) = concat(H^(1), …, H^(h)) W_o

The heads are concatenated along the feature axis, (N, h·d_v);
Sivaraya (2023) prints them stacked as rows. The W^(i) of all heads
stand side by side in one matrix, so that a single product serves them; maps on top of queries, keys and values that
are already projected, as in Sivaraya (2023), eq. 6, are a product of two matrices, and so one matrix.

Source: Sivaraya (2023) §1.4, eq. 6; Transformer Notes; Vaswani et al. (2017) §3.2.2.
Elsewhere: torch.nn.MultiheadAttention keeps W_q, W_k, W_v as one (3D, D) matrix, transposed, and its mask is True
where attention is forbidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import Tensor, is_recording, reshape, swapaxes
from refnp.autograd.primitives import raw
from refnp.layers.dot_product_attention import attention, scores_shape
from refnp.layers.linear import Linear
from refnp.layers.masks import fits
from refnp.layers.module import Module
from refnp.layers.positions.relative import RelativePositions


class MultiHeadAttention(Module):
    """Attention with `heads` heads on features of width D, each D/heads wide.

    Shapes: query (..., N, D), key (..., M, D_k), value (..., M, D_v) → (..., N, D); the weights, on request,
    (..., H, N, M). `mask` and `bias` broadcast to (..., N, M) and serve all heads; with `per_head` they broadcast to
    (..., H, N, M). Called with one argument it is self-attention, with two cross-attention (value = key).
    `key_heads` < heads shares keys and values among groups of heads (grouped-query attention).
    `positions` says what pairs of places add (rotations, biases, terms of the values); places are 0, 1, 2, … unless
    `query_places` and `key_places` are given, (N,) and (M,), or (N, 2) and (M, 2) in an image.
    Raises ValueError if the heads do not divide the features, or key_heads the heads; and in a call, as `attention`
    does, for shapes that do not fit.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        *,
        key_features: int | None = None,
        value_features: int | None = None,
        key_heads: int | None = None,
        similarity: str = "scaled_dot",
        positions: RelativePositions | None = None,
        bias: bool = True,
        rng: np.random.Generator,
    ):
        key_heads = heads if key_heads is None else key_heads
        if heads < 1 or features % heads:
            raise ValueError(f"MultiHeadAttention: {heads} heads do not divide {features} features equally")
        if key_heads < 1 or heads % key_heads:
            raise ValueError(f"MultiHeadAttention: key_heads is {key_heads}; it must divide the {heads} heads")
        if similarity not in ("scaled_dot", "dot", "cosine"):
            raise ValueError(f"MultiHeadAttention: similarity is {similarity!r}; use 'scaled_dot', 'dot' or 'cosine'")
        width = features // heads * key_heads
        self.query = Linear(features, features, bias=bias, rng=rng)
        self.key = Linear(features if key_features is None else key_features, width, bias=bias, rng=rng)
        self.value = Linear(features if value_features is None else value_features, width, bias=bias, rng=rng)
        self.output = Linear(features, features, bias=bias, rng=rng)
        self.heads, self.key_heads, self.similarity, self.positions = heads, key_heads, similarity, positions

    def __call__(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        *,
        mask: Any = None,
        bias: Any = None,
        per_head: bool = False,
        query_places: Any = None,
        key_places: Any = None,
        return_weights: bool = False,
    ) -> Any:
        key = query if key is None else key
        value = key if value is None else value
        keys, values = self.keys_and_values(key, value, places=key_places)
        return self.look_up(
            query,
            keys,
            values,
            mask=mask,
            bias=bias,
            per_head=per_head,
            query_places=query_places,
            key_places=key_places,
            return_weights=return_weights,
        )

    def keys_and_values(self, key: Any, value: Any, *, places: Any = None) -> tuple[Any, Any]:
        """The projections (..., h, M, d) of keys (..., M, D_k) and values (..., M, D_v), keys turned to their places.

        They can be kept (`KeyValueCache`), and looked up as often as there are queries.
        """
        keys, values = split_heads(self.key(key), self.key_heads), split_heads(self.value(value), self.key_heads)
        return self._rotated(keys, places), values

    def look_up(
        self,
        query: Any,
        keys: Any,
        values: Any,
        *,
        mask: Any = None,
        bias: Any = None,
        per_head: bool = True,
        query_places: Any = None,
        key_places: Any = None,
        return_weights: bool = False,
    ) -> Any:
        """The attention of query (..., N, D) to keys and values that are projected already → (..., N, D).

        `mask` and `bias` broadcast to (..., H, N, M), or to (..., N, M) unless `per_head`.
        """
        queries = self._rotated(split_heads(self.query(query), self.heads), query_places)  # (..., H, N, d)
        grouped, scheme = self.key_heads != self.heads, self.positions
        if not per_head and not (mask is None and bias is None):
            *batch, _, n, m = scores_shape(queries, keys, values, grouped)
            mask, bias = (_of_all_heads(name, a, (*batch, n, m)) for name, a in (("mask", mask), ("bias", bias)))
        if scheme is not None:
            places = _places(queries, query_places), _places(keys, key_places)
            scores = scheme.scores(queries, *places)
            bias = scores if bias is None else bias if scores is None else bias + scores
        values_of_places = scheme is not None and scheme.adds_values
        output = attention(
            queries,
            keys,
            values,
            mask=mask,
            bias=bias,
            similarity=self.similarity,
            grouped_heads=grouped,
            return_weights=return_weights or values_of_places,
        )
        if return_weights or values_of_places:
            output, weights = output
        if scheme is not None and values_of_places:
            output = output + scheme.values(weights, *places)  # (..., H, N, d)
        output = self.output(merge_heads(output))  # (..., N, D)
        return (output, weights) if return_weights else output

    def _rotated(self, x: Any, places: Any) -> Any:
        return x if self.positions is None else self.positions.rotated(x, _places(x, places))


def split_heads(x: Any, heads: int) -> Any:
    """(..., N, h·d) → (..., h, N, d): the features of a token, cut into the heads' shares.

    Raises ValueError if they do not divide, or if there are no tokens and features.
    """
    if x.ndim < 2:
        raise ValueError(f"split_heads: x has shape {x.shape}; it must be (..., tokens, features)")
    if x.shape[-1] % heads:
        raise ValueError(f"split_heads: {heads} heads do not divide {x.shape[-1]} features equally")
    x = reshape(x, (*x.shape[:-1], heads, x.shape[-1] // heads))  # (..., N, h, d)
    return swapaxes(x, -3, -2)


def merge_heads(x: Any) -> Any:
    """(..., h, N, d) → (..., N, h·d): the heads side by side along the features."""
    x = swapaxes(x, -3, -2)  # (..., N, h, d)
    return reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))


def over_heads(array: Any) -> Any:
    """(..., N, M) → (..., 1, N, M), so that a mask or bias serves every head."""
    if array is None or np.ndim(raw(array)) < 3:
        return array
    shape = np.shape(raw(array))
    return reshape(array, (*shape[:-2], 1, *shape[-2:]))


def _of_all_heads(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    """`over_heads` of what broadcasts to `shape` (..., N, M), ValueError of what does not."""
    if array is not None and not fits(np.shape(raw(array)), shape):
        raise ValueError(
            f"MultiHeadAttention: {name} has shape {np.shape(raw(array))}; it must broadcast to "
            f"(..., queries, keys) = {shape}, or with per_head to (..., heads, queries, keys)"
        )
    return over_heads(array)


def _places(x: Any, places: Any) -> np.ndarray:
    """The places of the tokens of x (..., N, d), 0 to N − 1 if none are given; ValueError unless there are N."""
    if places is None:
        return np.arange(x.shape[-2])
    places = np.asarray(places)
    if places.shape[:1] != x.shape[-2:-1]:
        raise ValueError(
            f"MultiHeadAttention: places have shape {places.shape}, there are {x.shape[-2]} tokens; pass one for each"
        )
    return places


# ---- Keys and values of the tokens seen so far, so that a new token computes its own only.
#
# Under a causal mask, keys and values of a token depend on nothing that comes after it. Decoding N tokens one by one
# therefore needs N projections, not N²/2, and gives what the whole sequence at once would give.
#
# Source: Sivaraya (2023) §1.8 (inference); the cache is folklore, see Shazeer (2019), arXiv 1911.02150 §2.3.


class KeyValueCache:
    """Keys (..., h, M, d) and values (..., h, M, d_v) of M tokens, which grow by `extend`.

    The room doubles when it is full, so that M tokens are copied O(M) times in all. It keeps arrays and no tape.
    """

    def __init__(self) -> None:
        self.length = 0
        self._rooms: list[np.ndarray] = []

    def extend(self, key: Any, value: Any) -> tuple[np.ndarray, np.ndarray]:
        """Add the keys (..., h, n, d) and values (..., h, n, d_v) of n tokens; returns those of all tokens so far.

        What is returned are views, true until the next call.
        Raises RuntimeError if a gradient would be lost, ValueError if shapes or types do not continue what came before;
        then nothing has changed.
        """
        if is_recording() and any(isinstance(a, Tensor) and a.requires_grad for a in (key, value)):
            raise RuntimeError("KeyValueCache: keys need a gradient, and a cache keeps none; decode within no_grad()")
        new = [np.asarray(raw(array)) for array in (key, value)]
        rooms = self._rooms or [np.empty((*a.shape[:-2], 0, *a.shape[-1:]), a.dtype) for a in new]
        for name, array, room in zip(("key", "value"), new, rooms, strict=True):
            seen = (*room.shape[:-2], self.length, *room.shape[-1:])
            if array.ndim < 2 or (*array.shape[:-2], self.length, array.shape[-1]) != seen or array.dtype != room.dtype:
                raise ValueError(
                    f"KeyValueCache: {name} is {array.dtype} of shape {array.shape}, which does not continue "
                    f"{room.dtype} of shape {seen}"
                )
        if new[0].shape[-2] != new[1].shape[-2]:
            raise ValueError(f"KeyValueCache: {new[0].shape[-2]} keys but {new[1].shape[-2]} values; they must match")
        end = self.length + new[0].shape[-2]
        if end > rooms[0].shape[-2]:
            rooms = [_enlarged(room, self.length, max(end, 2 * self.length, 16)) for room in rooms]
        for room, array in zip(rooms, new, strict=True):
            room[..., self.length : end, :] = array
        self._rooms, self.length = rooms, end
        return self._rooms[0][..., :end, :], self._rooms[1][..., :end, :]

    def reorder(self, rows: np.ndarray) -> None:
        """Row b of the first axis becomes what row `rows[b]` was, as when beams are chosen anew."""
        if self._rooms and not np.array_equal(rows, np.arange(len(self._rooms[0]))):  # as often in greedy search
            self._rooms = [room[rows] for room in self._rooms]


def _enlarged(room: np.ndarray, used: int, length: int) -> np.ndarray:
    larger = np.empty((*room.shape[:-2], length, room.shape[-1]), room.dtype)
    larger[..., :used, :] = room[..., :used, :]
    return larger
