"""Multi-head attention: several attentions side by side, each on its own projection, and a linear map of them all.

    H^(i) = Attention(X W_q^(i), Y W_k^(i), Y W_v^(i))        MHA(X, Y) = concat(H^(1), …, H^(h)) W_o

The heads are concatenated along the feature axis, (N, h·d_v); Sivaraya (2023) prints them stacked as rows. The W^(i) of
all heads stand side by side in one matrix, so that a single product serves them.

Sivaraya (2023), eq. 6, has maps on top of queries, keys and values that are projected already, Q = X W_q of d_k
features and Q W_q^(i) with W_q^(i) square. `key_width` and `value_width` are its d_k and d_v. For each head that is one
matrix, the product W_q W_q^(i), (D, d_k); but those of all heads share W_q, so that side by side they have rank d_k at
most, where maps of X itself may have rank h·d_k.

Source: Sivaraya (2023) §1.4, eq. 6, and §1.8; Transformer Notes; Vaswani et al. (2017) §3.2.2.
Elsewhere: torch.nn.MultiheadAttention keeps W_q, W_k, W_v as one (3D, D) matrix, transposed, and its mask is True
where attention is forbidden.
Transcription: tests/transcriptions/rows.py.
"""

from typing import Any

import numpy as np

from refnp.autograd import reshape, swapaxes
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels.attention import shape_of_scores
from refnp.layers.attention import OPTIONS
from refnp.layers.grouped_attention import grouped_attention
from refnp.layers.linear import Linear
from refnp.layers.masks import without_unread
from refnp.layers.module import Module
from refnp.layers.positions.relative import RelativePositions
from refnp.layers.similarity import similarity_attention
from refnp.numbers.arrays import fits
from refnp.numbers.duals import as_array
from refnp.numbers.words import arange

WIDTHS = (
    "key_features", "value_features", "head_features", "head_value_features", "output_features", "key_width",
    "value_width", "key_heads",
)  # fmt: skip


class MultiHeadAttention(Module):
    """Attention with `heads` heads on features of width D, each D/heads wide unless it is said otherwise.

    Shapes: query (..., N, D), key (..., M, D_k), value (..., M, D_v) → (..., N, D) or (..., N, output_features); with
    `return_weights` also the weights (..., H, N, M). With one argument it is self-attention; value = key if it is not
    given.

    key_features, value_features: D_k and D_v, D if not given.
    head_features: d, the width of a query and a key in one head; D/heads if not given. head_value_features: d_v, that
        of a value; d if not given. output_features: the width of the result; D if not given.
    key_width, value_width: d_k and d_v of Sivaraya (2023), eq. 6, as printed. Queries and keys are first mapped to d_k
        features, values to d_v, by a map that all heads share; each head has maps of these, square ones, to d_k and
        d_v, unless head_features or head_value_features is given. One may be given alone, and d_k whatever D and the
        heads are. If not given there are no such maps.
    key_heads: fewer than heads share keys and values among groups of heads (`grouped_attention`).
    similarity: "scaled_dot", "dot" or "cosine".
    positions: what pairs of places add (rotations, biases, terms of the values).
    bias: with False the linear maps have none.
    softcap: c, which bounds scores before bias and mask, s ← c tanh(s/c); None leaves them.
    dropout: the part of the weights that are dropped where `rng` is given.

    When called:
    mask, bias: True where a query may attend to a key; numbers that are added to scores, −∞ is a weight of 0. Both
        broadcast to (..., N, M) and serve all heads; with `per_head` both broadcast to (..., H, N, M).
    projected: key and value are projections that `keys_and_values` returned, or a `KeyValueCache` keeps.
    query_places, key_places: (N,) and (M,), 0, 1, 2, … if not given; in an image (N, 2) and (M, 2), never left out. For
        rotations also (B, N) and (B, M), a row for each sequence.
    rng: a generator means training, None evaluation: nothing is dropped.

    Raises ValueError if heads do not divide features without head_features or key_width, or key_heads heads, for a size
    below 1, another similarity, a softcap ≤ 0 or ∞, a dropout outside [0, 1); TypeError unless sizes are integers, mask
    boolean, bias floating, places (if used) integers, rng a generator; ValueError, too, for shapes that do not fit.
    """

    @takes(
        "",
        features="whole ≥ 1",
        heads="whole ≥ 1, a multiple of key_heads",
        **dict.fromkeys(WIDTHS, "whole ≥ 1?"),
        similarity="scaled_dot | dot | cosine",
        bias="True or False",
        softcap=OPTIONS["softcap"],
        dropout=OPTIONS["dropout"],
        rng="generator",
        needs="features is a multiple of heads if not (head_features or key_width), "
        "pass heads that divide features, or the width of a head as head_features",
    )
    def __init__(
        self,
        features: int,
        heads: int,
        *,
        key_features: int | None = None,
        value_features: int | None = None,
        head_features: int | None = None,
        head_value_features: int | None = None,
        output_features: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        key_heads: int | None = None,
        similarity: str = "scaled_dot",
        positions: RelativePositions | None = None,
        bias: bool = True,
        softcap: float | None = None,
        dropout: float = 0.0,
        rng: np.random.Generator,
    ):
        key_heads = heads if key_heads is None else key_heads
        d_key, d_value = key_features or features, value_features or features
        shared_k, shared_v = key_width or 0, value_width or 0
        d = head_features or shared_k or features // heads
        d_v = head_value_features or shared_v or d
        self.query = Linear(shared_k or features, heads * d, bias=bias, rng=rng)
        self.key = Linear(shared_k or d_key, key_heads * d, bias=bias, rng=rng)
        self.value = Linear(shared_v or d_value, key_heads * d_v, bias=bias, rng=rng)
        self.output = Linear(heads * d_v, output_features or features, bias=bias, rng=rng)
        self.query_projection = Linear(features, shared_k, bias=bias, rng=rng) if shared_k else None
        self.key_projection = Linear(d_key, shared_k, bias=bias, rng=rng) if shared_k else None
        self.value_projection = Linear(d_value, shared_v, bias=bias, rng=rng) if shared_v else None
        self.heads, self.key_heads, self.similarity = heads, key_heads, similarity
        self.softcap, self.dropout = softcap, dropout
        self.positions = RelativePositions() if positions is None else positions

    def __call__(
        self,
        query: ArrayLike,
        key: ArrayLike | None = None,
        value: ArrayLike | None = None,
        *,
        projected: bool = False,
        mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        per_head: bool = False,
        query_places: ArrayLike | None = None,
        key_places: ArrayLike | None = None,
        rng: np.random.Generator | None = None,
        return_weights: bool = False,
    ) -> Any:
        keys: Any = query if key is None else key
        values: Any = keys if value is None else value
        if not projected:
            keys, values = (without_unread(mask, a, per_head=per_head) for a in (keys, values))
            keys, values = self.keys_and_values(keys, values, places=key_places)
        queries = _maps(self.query_projection, self.query, query)  # (..., N, H·d)
        queries = split_heads(queries, self.heads)  # (..., H, N, d)
        places = _places(queries, query_places), _places(keys, key_places)
        queries = self.positions.rotated(queries, places[0])
        if not per_head and not (mask is None and bias is None):
            *batch, _, n, m = shape_of_scores(queries, keys[..., :1, :, :], values[..., :1, :, :])
            mask, bias = (_of_all_heads(name, a, (*batch, n, m)) for name, a in (("mask", mask), ("bias", bias)))
        scores, adds_values = self.positions.scores(queries, *places), self.positions.adds_values
        bias = scores if bias is None else bias if scores is None else bias + scores
        attend = similarity_attention if self.key_heads == self.heads else grouped_attention
        options: dict[str, Any] = {"similarity": self.similarity, "softcap": self.softcap, "dropout": self.dropout}
        wants_weights = return_weights or adds_values
        output = attend(queries, keys, values, bias, mask=mask, rng=rng, return_weights=wants_weights, **options)
        if wants_weights:
            output, weights = output
        if adds_values:
            output = _sum(output, self.positions.values(weights, *places))  # (..., H, N, d_v)
        output = self.output(merge_heads(output))  # (..., N, D)
        return (output, weights) if return_weights else output

    def keys_and_values(
        self, key: ArrayLike, value: ArrayLike, *, places: ArrayLike | None = None
    ) -> tuple[Array | Tensor, Array | Tensor]:
        """(..., h, M, d) and (..., h, M, d_v): keys (..., M, D_k), rotated to their places, and values (..., M, D_v).

        They can be kept (`KeyValueCache`), and attended to as often as there are queries.
        """
        keys, values = _maps(self.key_projection, self.key, key), _maps(self.value_projection, self.value, value)
        keys, values = (split_heads(a, self.key_heads) for a in (keys, values))
        return self.positions.rotated(keys, _places(keys, places)), values


def _maps(shared: Linear | None, of_heads: Linear, x: ArrayLike) -> Any:
    """The maps of all heads side by side, of x (..., N, D) itself or of what the map that they share makes of it."""
    return of_heads(x if shared is None else shared(x))


def _sum(output: Array | Tensor, terms: Any) -> Array | Tensor:
    """What positions add to values (..., H, N, d_v); ValueError if their vectors are of another width."""
    if terms.shape[-1] != output.shape[-1]:
        raise ValueError(
            f"MultiHeadAttention: positions add {terms.shape[-1]} features to values of {output.shape[-1]} in a head; "
            "the width of their vectors must be head_value_features, or use positions with values=False"
        )
    return output + terms


def _places(x: Any, places: ArrayLike | None) -> Array:
    """The places of the tokens of x (..., N, d), 0 to N − 1 if none are given; ValueError unless there are N."""
    if places is None:
        return arange(x.shape[-2])
    given: Array = as_array(places)
    if given.shape[:1] != x.shape[-2:-1] and not (x.ndim > 2 and given.shape == (x.shape[0], x.shape[-2])):
        raise ValueError(
            f"MultiHeadAttention: places have shape {given.shape}, there are {x.shape[-2]} tokens; pass one for each"
        )
    return given


# ---- heads


@takes("x (..., N, heads·d) → (..., heads, N, d)", heads="whole ≥ 1")
def split_heads(x: Array | Tensor, heads: int) -> Array | Tensor:
    """(..., N, h·d) → (..., h, N, d): the features of a token, cut into the heads' shares.

    Raises ValueError if the heads do not divide them, TypeError if their number is no integer.
    """
    x = reshape(x, (*x.shape[:-1], heads, x.shape[-1] // heads))  # (..., N, h, d)
    return swapaxes(x, -3, -2)


@takes("x (..., heads, N, d) → (..., N, heads·d)")
def merge_heads(x: Array | Tensor) -> Array | Tensor:
    """(..., h, N, d) → (..., N, h·d): the heads side by side along the features."""
    x = swapaxes(x, -3, -2)  # (..., N, h, d)
    return reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))


def over_heads(array: Array | Tensor) -> Array | Tensor:
    """(..., N, M) → (..., 1, N, M), so that a mask or bias serves every head; (N, M) does already."""
    shape = np.shape(raw(array))
    return array if len(shape) < 3 else reshape(array, (*shape[:-2], 1, *shape[-2:]))


def _of_all_heads(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    """`over_heads` of what broadcasts to `shape` (..., N, M), ValueError of what does not."""
    if array is None:
        return None
    if not fits(np.shape(raw(array)), shape):
        raise ValueError(
            f"MultiHeadAttention: {name} has shape {np.shape(raw(array))}; it must broadcast to "
            f"(..., queries, keys) = {shape}, or with per_head to (..., heads, queries, keys)"
        )
    return over_heads(array)
