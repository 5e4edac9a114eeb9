"""Attention on images: one classifier, with attention between pixels, between patches, or between features.

    pixel      every pixel is a token, a linear map of its channels                  N = H W
    patch      every P × P patch is a token, a linear map of its P² C numbers        N = H W / P²
    feature    a small CNN comes first; every place of its feature map is a token    N = H W / stride²

Attention between N tokens costs 2 N² D multiply-adds a layer (Q Kᵀ and A V), so that pixels are "too many, not
efficient" (Attention Notes §10.2.3) for all but the smallest images.

Source: Attention Notes §10.2.3 (a), (b), (c), Transformer Notes, "Attention + CNN";
ViT: Dosovitskiy et al. (2021), arXiv 2010.11929, eq. 1-4;
a CNN before attention: their "hybrid", and Xiao et al. (2021), arXiv 2106.14881.
"""

from collections.abc import Callable

import numpy as np

from refnp.autograd import Parameter, broadcast_to, concatenate, reshape, swapaxes, transpose
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import gelu, relu
from refnp.layers.convolution import Convolution
from refnp.layers.linear import Linear
from refnp.layers.module import Module
from refnp.layers.positions.absolute import LearnedPositions
from refnp.layers.positions.images import image_places
from refnp.layers.regularization import dropout as drop
from refnp.models.transformer_stacks import Encoder, Relative


class PatchTokens(Module):
    """Every patch of `size` × `size` pixels as one token; size 1 makes every pixel a token.

        T_(r, s) = vec(pixels of patch (r, s)) W + b

    Shapes: images (B, C, H, W) → tokens (B, N, D), row by row, N = H W / size², D = features.
    Raises ValueError if patches do not fill the image.   Source: Attention Notes §10.2.3 (a), (b); ViT eq. 1.
    """

    def __init__(self, size: int, channels: int, features: int, *, rng: np.random.Generator):
        if size < 1:
            raise ValueError(f"PatchTokens: size is {size}; a patch has at least 1 pixel")
        self.map = Linear(size * size * channels, features, rng=rng)
        self.size, self.features = size, features

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of tokens for an image."""
        if height % self.size or width % self.size:
            raise ValueError(
                f"PatchTokens: patches of {self.size} × {self.size} do not fill an image of {height} × {width}; "
                "crop or pad it first"
            )
        return height // self.size, width // self.size

    def __call__(self, images: Array | Tensor) -> Array | Tensor:
        return self.map(patches(images, self.size, self.grid(*images.shape[-2:])))


def patches(images: Array | Tensor, size: int, grid: tuple[int, int]) -> Array | Tensor:
    """Images (B, C, R size, S size) cut into R × S patches: (B, R S, size² C), each patch pixel by pixel."""
    if images.ndim != 4:
        raise ValueError(f"patches: images have shape {images.shape}; they must be (B, C, H, W)")
    batch, channels, _, _ = images.shape
    rows, columns = grid
    x = reshape(images, (batch, channels, rows, size, columns, size))  # (B, C, R, p, S, p)
    x = transpose(x, (0, 2, 4, 3, 5, 1))  # (B, R, S, p, p, C)
    return reshape(x, (batch, rows * columns, size * size * channels))


class FeatureTokens(Module):
    """Every place of a feature map as one token; the map comes from a 3 × 3 convolution for each of `strides`.

        T = relu(W_L ∗ … relu(W_1 ∗ image + b_1) … + b_L), its places row by row

    Shapes: images (B, C, H, W) → tokens (B, N, D), N = H W / stride², stride the product of all. Channels double from
    layer to layer, the last has D = features.   Raises ValueError if the strides do not divide the image.
    Source: Attention Notes §10.2.3 (c), Transformer Notes, "Attention + CNN".
    """

    def __init__(self, strides: tuple[int, ...], channels: int, features: int, *, rng: np.random.Generator):
        if not strides or min(strides) < 1:
            raise ValueError(f"FeatureTokens: strides {strides} must be positive numbers, one for each convolution")
        widths = [channels, *(features >> (len(strides) - 1 - i) for i in range(len(strides)))]
        self.layers = [
            Convolution(n, m, 3, dimensions=2, stride=stride, padding=1, rng=rng)
            for n, m, stride in zip(widths, widths[1:], strides, strict=False)
        ]
        self.stride, self.features = int(np.prod(strides)), features

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of tokens for an image."""
        if height % self.stride or width % self.stride:
            raise ValueError(
                f"FeatureTokens: the total stride {self.stride} does not divide an image of {height} × {width}"
            )
        return height // self.stride, width // self.stride

    def __call__(self, images: Array | Tensor) -> Array | Tensor:
        grid = self.grid(*images.shape[-2:])
        x = images
        for layer in self.layers:
            x = relu(layer(x))
        x = reshape(x, (*x.shape[:2], grid[0] * grid[1]))  # (B, D, N)
        return swapaxes(x, -1, -2)  # (B, N, D)


class ImageClassifier(Module):
    """Tokens, a class token before them, positions, a pre-norm encoder, and the class token's logits.

        X = [c; T(image)] + P        Y = Encoder(X)        logits = LayerNorm(Y)_c W + b

    c is the class token, T(image) what `tokens` makes of the image, P the positions.
    Shapes: images (B, C, H, W) → logits (B, classes). The images must have the `size` (H, W) given.
    `positions` are "learned" (a vector for every token, ViT's choice) or None; `relative` gives relative positions for
    each layer (`refnp.layers.positions.images.ImagePositions(…, leading=1)`: the class token has no place).
    `token_mask` (B, N) in the call is True for tokens that may be attended to. A list `weights` collects the
    attention weights (B, heads, 1 + N, 1 + N) of every layer. A generator `rng` means training with dropout.
    Raises ValueError for images of another size, a `token_mask` of another shape, or tokens of other features.
    Source: Dosovitskiy et al. (2021), arXiv 2010.11929, eq. 1 to 4.
    """

    def __init__(
        self,
        tokens: PatchTokens | FeatureTokens,
        size: tuple[int, int],
        classes: int,
        *,
        features: int,
        heads: int,
        hidden: int,
        layers: int,
        activation: Callable = gelu,
        dropout: float = 0.0,
        positions: str | None = "learned",
        relative: Relative = None,
        rng: np.random.Generator,
    ):
        if positions not in ("learned", None):
            raise ValueError(f"ImageClassifier: positions are {positions!r}; use 'learned' or None")
        if tokens.features != features:
            raise ValueError(f"ImageClassifier: features is {features}, tokens have {tokens.features}; they must match")
        self.tokens, self.size, self.grid, self.dropout = tokens, tuple(size), tokens.grid(*size), dropout
        count = 1 + self.grid[0] * self.grid[1]
        self.class_token = Parameter(rng.normal(0, 0.02, (1, 1, features)))
        self.positions = LearnedPositions(count, features, rng=rng) if positions else None
        self.encoder = Encoder(
            layers,
            features,
            heads,
            hidden,
            norm="pre",
            activation=activation,
            dropout=dropout,
            relative=relative,
            rng=rng,
        )
        self.output = Linear(features, classes, rng=rng)

    def __call__(
        self,
        images: Array | Tensor,
        *,
        token_mask: ArrayLike | None = None,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        if images.ndim != 4 or tuple(images.shape[-2:]) != self.size:
            raise ValueError(f"ImageClassifier: images have shape {images.shape}; they must be (B, C, *{self.size})")
        tokens = self.tokens(images)  # (B, N, D)
        batch, count, features = tokens.shape
        first = broadcast_to(self.class_token, (batch, 1, features))  # (B, 1, D)
        x = concatenate([first, tokens], 1)  # (B, 1+N, D)
        if self.positions is not None:
            x = self.positions(x)  # (B, 1+N, D)
        mask = None if token_mask is None else _mask(token_mask, batch, count)
        places = image_places(*self.grid, leading=1)  # (1+N, 2)
        x = self.encoder(drop(x, self.dropout, rng), mask=mask, places=places, rng=rng, weights=weights)
        return self.output(x[:, 0])  # (B, V)

    def attention_cost(self) -> int:
        """Multiply-adds of Q Kᵀ and A V for one image, all layers: 2 (1 + N)² D each."""
        count, features = 1 + self.grid[0] * self.grid[1], self.class_token.shape[-1]
        return len(self.encoder.layers) * 2 * count**2 * features


def _mask(token_mask: ArrayLike, batch: int, count: int) -> np.ndarray:
    """(B, N) → (B, 1, 1+N): the class token can always be attended to."""
    mask = np.asarray(token_mask)
    if mask.dtype != bool or mask.shape != (batch, count):
        raise ValueError(
            f"ImageClassifier: token_mask is {mask.dtype} of shape {mask.shape}; it must be booleans ({batch}, {count})"
        )
    return np.concatenate([np.ones((batch, 1), bool), mask], 1)[:, None]  # (B, 1, 1+N)


def class_attention(weights: list[np.ndarray], grid: tuple[int, int]) -> np.ndarray:
    """What the class token attends to in each layer, as pictures: (layers, B, heads, rows, columns).

    `weights` are what `ImageClassifier` collected. The rest of each row is what the class token gives itself.
    """
    rows = np.stack([layer[:, :, 0, 1:] for layer in weights])  # (L, B, H, N)
    return rows.reshape(*rows.shape[:3], *grid)
