"""Translation equivariant attention: weights depend on places only through their differences.

    d_nm = x_n − x_m        s^h_nm = q^h_n · k^h_m / √d        (a¹_nm … a^H_nm) = MLP([d_nm, s¹_nm … s^H_nm])

    output_n = W_o concat_h(Σ_m α^h_nm v^h_m) + b_o,   α^h = softmax_m(a^h)        Δx_n = mean_m d_nm φ(α¹_nm … α^H_nm)

How well two tokens fit depends on their features and on the difference of their places. Shift all places by the same
amount, and nothing changes; x_n + Δx_n shift with them. An MLP that returns s makes plain attention. One of d alone
makes a set convolution divided by its density, with the kernel exp(a): a weighted mean of the values. It is no
convolution, for that is a sum: given two sets at once, a set convolution adds up, and a mean does not.

Weights that do not have sum 1 know how many points there are, and what a set convolution knows more than attention is
that. So there are other weights than those of the softmax, made of the same logits:

    softmax   exp(a_m)/Σ_j exp(a_j)       sink   exp(a_m)/(exp(b) + Σ_j exp(a_j))       sum   exp(a_m)

A sink is one key more, whose value is 0 and whose logit b is learned. If the MLP is also given the squares of
differences, `squares`, then a linear map already has both: a = −|d|²/2ℓ² makes the set convolution with the EQ kernel,
divided by density (softmax), by density + exp(b) (sink) or by nothing (sum), and a = s plain attention (`set_pairs`).

Source: Sivaraya (2023), the title; Ashman et al. (2024), arXiv 2406.12409, §3 and eq. 8; weights of the authors'
layers: `refnp.models.published.tnp`.
Words: layers/__init__.py.   Transcription: tests/transcriptions/tnp.py.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np

from refnp.autograd import broadcast_to, concatenate, exp, matmul, reshape, swapaxes, transpose, where
from refnp.autograd.declaration import takes
from refnp.autograd.pages import page
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Parameter, Tensor
from refnp.kernels import pair_kernel as kernels
from refnp.kernels.attention import one_over_root
from refnp.kernels.hidden import moderate, used_elements, uses
from refnp.layers.linear import MLP, Linear
from refnp.layers.masks import kept, shielded, spoil
from refnp.layers.module import Module
from refnp.layers.multi_head import merge_heads, over_heads, split_heads
from refnp.layers.softmax import softmax
from refnp.numbers.kinds import is_kind
from refnp.numbers.words import einsum


class TranslationAttention(Module):
    """Translation equivariant attention with `heads` heads on features of width D and places of dx numbers.

    Shapes: query (B, N, D), key (B, M, D), differences x_n − x_m (B, N, M, dx), mask (B, N, M) or what broadcasts to it
    → (output (B, N, D), Δx (B, N, dx)); Δx is None unless the layer `moves` places.
    `kernel` and `movement` are the hidden widths of the MLP that weighs pairs and of φ. `length_scale` is the distance,
    in units of x, over which weights vary at first (`pair_kernel_mlp`); training goes on from there. Who may attend to
    nothing gets b_o, and does not move.
    squares: the MLP of pairs is also given the squares of differences along each axis, [d, d², s].
    normalization: which weights are made of logits: "softmax", whose sum is 1; "sink", with a learned b for each head,
        0 at first; "sum", exp(a_m), which overflows where logits are large.
    bias: the linear maps of queries, keys and values have biases.
    NaN or infinity in a key or difference that the mask hides reaches nothing.
    Raises ValueError for heads that do not divide the features; ValueError or TypeError for what does not fit.
    """

    @takes(
        "",
        features="whole ≥ 1, a multiple of heads",
        **dict.fromkeys(("heads", "dx"), "whole ≥ 1"),
        **dict.fromkeys(("kernel", "movement"), "whole ≥ 1, 0 or more"),
        length_scale="positive",
        normalization="softmax | sink | sum",
        **dict.fromkeys(("squares", "bias", "moves"), "True or False"),
        rng="generator",
    )
    def __init__(
        self,
        features: int,
        heads: int,
        *,
        dx: int = 1,
        kernel: Sequence[int] = (32, 32),
        length_scale: float = 0.1,
        squares: bool = False,
        normalization: str = "softmax",
        bias: bool = False,
        moves: bool = False,
        movement: Sequence[int] = (16,),
        rng: np.random.Generator,
    ):
        self.query, self.key, self.value = (Linear(features, features, bias=bias, rng=rng) for _ in range(3))
        self.kernel = pair_kernel_mlp(dx, heads, kernel, length_scale, rng, squares=squares)
        self.output = Linear(features, features, rng=rng)
        self.movement = MLP([heads, *movement, dx], rng=rng) if moves else None
        self.sink = Parameter(np.zeros(heads)) if normalization == "sink" else None
        self.dx, self.heads, self.squares, self.normalization = dx, heads, squares, normalization
        self.features = features

    @takes(
        "query (B, N, features), key (B, M, features), differences (B, N, M, dx) → (B, N, features), (B, N, dx)",
        mask="boolean to (B, N, M)? hides (key, differences), True = may attend",
    )
    def __call__(
        self, query: Array | Tensor, key: Array | Tensor, differences: Array | Tensor, *, mask: Array | None = None
    ) -> tuple[Array | Tensor, Array | Tensor | None]:
        lost = huge = None
        if mask is not None and not is_kind(mask):  # 0 in rows that have no part: no bit of a gradient knows of them
            queries, keys, _ = uses(mask, query, key, key)
            query, key = kept(query, queries[..., None]), kept(key, keys[..., None])
            huge = None if moderate(*map(raw, (query, key, differences))) else mask
        if huge is not None:
            query, key, *_, (_, lost) = shielded(query, key, key, None, huge)
            differences = kept(differences, used_elements(huge, differences.shape[:-1])[..., None])
        q, k, v = (split_heads(y, self.heads) for y in (self.query(query), self.key(key), self.value(key)))
        scores = matmul(q, swapaxes(k, -1, -2)) * one_over_root(raw(q))  # (B, H, N, M)
        if mask is not None:
            scores = where(over_heads(mask), scores, 0.0)
        of_places = concatenate([differences, differences * differences], -1) if self.squares else differences
        logits = pair_kernel(of_places, scores, *parameters_of(self.kernel))  # (B, H, N, M)
        logits = logits if mask is None else where(over_heads(mask), logits, -np.inf)
        weights = pair_weights(logits, self.normalization, self.sink)  # (B, H, N, M)
        output = self.output(merge_heads(matmul(weights, v)))  # (B, N, D)
        step = None if self.movement is None else mean_step(differences, weights, self.movement, mask)  # (B, N, dx)
        if lost is not None:  # NaN for a query that may attend to NaN
            output, step = spoil(output, lost), None if step is None else spoil(step, lost)
        return output, step

    @takes("", content="number", length_scale="number", needs="length_scale > 0, pass a positive one, or np.inf")
    def set_pairs(self, *, content: float = 1.0, length_scale: float = np.inf) -> Self:
        """Give the MLP of pairs parameters with which a_nm = content · s_nm − |d_nm|²/2ℓ² in every head; returns self.

        content=1 alone is plain attention. content=0 with a length scale ℓ is a set convolution with the EQ kernel:
        divided by its density with the softmax, by density + exp(b) with a sink, by nothing with the sum.
        Where there are hidden layers, x passes as relu(x) and relu(−x), which changes none of its bits: 2 units for
        each of the H scores, if content is not 0, and for each of dx squares, if ℓ is finite.
        Raises ValueError for fewer units, for a length scale that is not positive, and for a finite one of a layer
        without `squares`.
        """
        if np.isfinite(length_scale) and not self.squares:
            raise ValueError(
                f"TranslationAttention.set_pairs: length_scale is {length_scale}, but this layer is not given squares "
                "of differences; make it with squares=True"
            )
        of_squares = np.full((self.squares * self.dx, self.heads), -0.5 / length_scale**2)
        direct = np.vstack([np.zeros((self.dx, self.heads)), of_squares, content * np.eye(self.heads)])  # of [d, d², s]
        maps, hidden = [direct], [layer.weight.shape[1] for layer in self.kernel.layers[:-1]]
        if hidden:
            used = np.flatnonzero(direct.any(1))
            passed, width = np.eye(len(direct))[:, used], 2 * len(used)
            if min(hidden) < width:
                raise ValueError(
                    f"TranslationAttention.set_pairs: kernel has hidden widths {hidden}; {width} units are needed in "
                    "each for this, or no hidden layer"
                )
            between = [np.eye(width)] * (len(hidden) - 1)
            maps = [np.hstack([passed, -passed]), *between, np.vstack([direct[used], -direct[used]])]
        parameters = parameters_of(self.kernel)
        for weight, bias, given in zip(parameters[::2], parameters[1::2], maps, strict=True):
            weight.data[...] = bias.data[...] = 0
            weight.data[: given.shape[0], : given.shape[1]] = given
        return self


def pair_weights(logits: Array | Tensor, normalization: str, sink: Array | Tensor | None = None) -> Array | Tensor:
    """Weights of pairs from their logits, both (B, H, N, M): see the first lines of this page. sink: b, (H,)."""
    if normalization == "sum":
        return exp(logits)
    if sink is None:
        return softmax(logits)
    column = broadcast_to(reshape(sink, (1, logits.shape[1], 1, 1)), (*logits.shape[:3], 1))
    return softmax(concatenate([logits, column], -1))[..., :-1]


def mean_step(
    differences: Array | Tensor, weights: Array | Tensor, movement: MLP, mask: Array | None
) -> Array | Tensor:
    """Δx_n, the mean over the keys that n may attend to of d_nm φ(α_nm): (B, N, M, dx), (B, H, N, M) → (B, N, dx)."""
    nowhere = raw(differences)[..., :0]  # (B, N, M, 0)   φ takes no differences
    factors = transpose(pair_kernel(nowhere, weights, *parameters_of(movement)), (0, 2, 3, 1))  # (B, N, M, dx)
    steps = differences * factors  # (B, N, M, dx)
    if mask is None:
        return steps.sum(2) / max(differences.shape[2], 1)
    mask = np.broadcast_to(mask, differences.shape[:3])  # (B, N, M)
    count = np.maximum(mask.sum(-1, keepdims=True), 1).astype(raw(steps).real.dtype)  # (B, N, 1)
    return where(mask[..., None], steps, 0.0).sum(2) / count


def pair_kernel_mlp(
    dx: int, heads: int, hidden: Sequence[int], length_scale: float, rng: np.random.Generator, *, squares: bool = False
) -> MLP:
    """The MLP of pairs, as it is before training: weights from U(−√(6/n), √(6/n)), which keep the size of numbers under
    relu (He et al. (2015), arXiv 1502.01852), those on d divided by `length_scale`, and those on `squares` by its
    square, so that logits vary over such distances.

    The first biases, so drawn too, are divided by 2 `length_scale`: with one d alone, half the relus bend at |d| ≤ ½.
    With the weights of a `Linear`, logits hardly vary with d at first, and training is several times slower.
    """
    mlp = MLP([dx + squares * dx + heads, *hidden, heads], rng=rng)
    for layer in mlp.layers:
        layer.weight.data *= 6**0.5
    weight, bias = parameters_of(mlp)[:2]
    weight.data[:dx] /= length_scale
    weight.data[dx : dx + squares * dx] /= length_scale**2
    bias.data *= 6**0.5 / (2 * length_scale)
    return mlp


def parameters_of(mlp: MLP) -> list:
    """W and b of each linear map."""
    return [parameter for layer in mlp.layers for parameter in (layer.weight, layer.bias)]


@page(
    "differences (B, N, M, dx), scores (B, H, N, M) → (B, K, N, M)",
    kernel=kernels.pair_kernel,
    check=kernels.check_maps,
)
def pair_kernel(differences, scores, *parameters):
    """An MLP with relu on [d_nm, s_nm] for every pair of a query n and a key m.

        (a¹ … a^H)_nm = W_k relu(… relu(W_1 [d_nm, s¹_nm … s^H_nm] + b_1) …) + b_k

    Shapes: differences (B, N, M, dx), scores (B, H, N, M), then W_1 (dx + H, W), b_1 (W,), …, W_k (W, H'), b_k (H',)
    → (B, H', N, M).   Raises ValueError for shapes that do not fit.
    VJP, with h_i = relu(g_i) the input of map i + 1 and g_k the result, layer by layer from the last:

        W̄_i = Σ_nm h_{i−1} ḡ_iᵀ     b̄_i = Σ_nm ḡ_i     h̄_{i−1} = W_i ḡ_i     ḡ_{i−1} = h̄_{i−1} where g_{i−1} > 0, else 0

    and [d̄, s̄] = h̄_0.
    """
    maps, inputs = [*zip(parameters[::2], parameters[1::2], strict=True)], []
    h = np.concatenate([differences, np.moveaxis(scores, 1, -1)], -1)  # (B, N, M, dx + H)   [d, s]
    for w, b in maps:
        inputs.append(h)
        g = h @ w + b
        h = np.where(g <= 0, 0, g)
    a = np.moveaxis(g, -1, 1)  # (B, H', N, M)

    def vjp(a_bar):
        bars: list = []
        g_bar = np.moveaxis(a_bar, 1, -1)  # (B, N, M, H')
        for h, (w, _) in zip(reversed(inputs), reversed(maps), strict=True):
            w_bar = einsum("bnmi,bnmk->ik", h, g_bar)
            b_bar = g_bar.sum((0, 1, 2))
            bars = [w_bar, b_bar, *bars]
            h_bar = g_bar @ w.mT
            g_bar = np.where(h <= 0, 0, h_bar)
        d_bar, s_bar = h_bar[..., : differences.shape[-1]], h_bar[..., differences.shape[-1] :]
        scores_bar = np.moveaxis(s_bar, -1, 1)  # (B, H, N, M)
        return d_bar, scores_bar, *bars

    return a, vjp
