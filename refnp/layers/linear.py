"""Linear maps, the multilayer perceptron, and the embedding: from token numbers to vectors.

    Linear: y = x W + b            MLP: alternate linear maps and an activation, none after the last

    Embedding: X_n = scale · E[token_n], row v of the table E is the vector of token v

An embedding is the linear map of one-hot rows, (one-hot of token_n) E. Rows of the result are tokens.
The function `linear` with its gradient stands in refnp/autograd/linalg.py.

Source: Sivaraya (2023) §1.3, eq. 12; embedding: Sivaraya (2023) §1.2, Transformer Notes; Vaswani et al. (2017) §3.4
multiply by √D.
Transcription: tests/transcriptions/rows.py, tests/transcriptions/transformer.py (embedding).
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from refnp.autograd import broadcast_to, concatenate, linear, take
from refnp.autograd.declaration import takes, takes_unchecked
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.activation import relu
from refnp.layers.module import Module
from refnp.numbers.arrays import broadcast_shapes, floating
from refnp.numbers.words import root


def side_by_side(*parts: Array | Tensor) -> Array | Tensor:
    """Features (..., D₁), (..., D₂), … → (..., D₁ + D₂ + …); the axes in front broadcast."""
    front = broadcast_shapes(*(a.shape[:-1] for a in parts))
    shapes = [(*front, a.shape[-1]) for a in parts]
    wide = [a if a.shape == shape else broadcast_to(a, shape) for a, shape in zip(parts, shapes, strict=True)]
    return concatenate(wide, -1)


class Linear(Module):
    """y = x W + b with W (in_features, out_features), b (out_features,).

    Shapes: x (..., in_features) → y (..., out_features); `bias=False` leaves b out.
    Weights and bias are drawn from U(−a, a), a = 1/√in_features (as torch.nn.Linear), with the generator `rng`.
    Raises TypeError unless both numbers of features are integers, ValueError unless they are positive.
    """

    @takes("", in_features="whole ≥ 1", out_features="whole ≥ 1", bias="True or False", rng="generator")
    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, rng: np.random.Generator):
        bound = in_features**-0.5
        self.weight = Parameter(rng.uniform(-bound, bound, (in_features, out_features)))
        self.bias = Parameter(rng.uniform(-bound, bound, out_features)) if bias else None

    @takes_unchecked("x (..., in_features) → (..., out_features)")
    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return linear(x, self.weight, self.bias)


class MLP(Module):
    """Linear maps between the given `sizes`, with `activation` after all but the last.

    Shapes: x (..., sizes[0]) → y (..., sizes[-1]); `bias=False` leaves the biases of all maps out.
    Raises TypeError unless sizes are integers, ValueError for fewer than two or one below 1.
    """

    @takes("", sizes="whole ≥ 1, 2 or more", activation="function", bias="True or False", rng="generator")
    def __init__(
        self, sizes: Sequence[int], *, activation: Callable = relu, bias: bool = True, rng: np.random.Generator
    ):
        self.layers = [Linear(n, m, bias=bias, rng=rng) for n, m in itertools.pairwise(sizes)]
        self.activation = activation

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


@takes("tokens whole < V (...), table (V, D) → (..., D)", scaled="True or False")
def embedding(tokens: ArrayLike, table: ArrayLike, *, scaled: bool = False) -> Array | Tensor:
    """Rows of `table` at integer `tokens`, times √D if `scaled`.

    Shapes: tokens (..., N) integers, table (V, D) → (..., N, D).
    VJP: Ē_v = scale · Σ_{n: token_n = v} X̄_n; tokens have none.
    Raises TypeError unless tokens are integers, IndexError for a token outside 0 … V − 1, ValueError unless the
    table is a matrix.
    """
    vectors = table if isinstance(table, Tensor) else floating(table)
    numbers = integers("embedding", "tokens", tokens)
    rows = take(vectors, numbers)  # (..., N, D)
    return rows * root(vectors.shape[-1]).like(raw(vectors)) if scaled else rows


class Embedding(Module):
    """A table of `vocabulary` vectors with `features` numbers, drawn from N(0, 1), or N(0, 1/D) if `scaled` by √D."""

    @takes("", vocabulary="whole ≥ 1", features="whole ≥ 1", scaled="True or False", rng="generator")
    def __init__(self, vocabulary: int, features: int, *, scaled: bool = False, rng: np.random.Generator):
        self.weight = Parameter(rng.normal(0, features**-0.5 if scaled else 1, (vocabulary, features)))
        self.scaled = scaled

    @takes_unchecked("tokens whole < vocabulary (...) → (..., features)")
    def __call__(self, tokens: ArrayLike) -> Array | Tensor:
        return embedding(tokens, self.weight, scaled=self.scaled)
