"""Linear maps and the multilayer perceptron, as modules.

    Linear: y = x W + b            MLP: alternate linear maps and an activation, none after the last

The function `linear` with its gradient stands in refnp/autograd/linalg.py.   Source: Sivaraya (2023) §1.3, eq. 12.

Transcription: tests/transcriptions/rows.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp.autograd import linear
from refnp.autograd.tensor import ArrayLike, Parameter
from refnp.layers.activations import relu
from refnp.layers.module import Module


class Linear(Module):
    """y = x W + b with W (in_features, out_features), b (out_features,).

    Shapes: x (..., in_features) → y (..., out_features); `bias=False` leaves b out.
    Weights and bias are drawn from U(−a, a), a = 1/√in_features (as torch.nn.Linear), with the generator `rng`.
    Raises ValueError unless both numbers of features are positive.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, rng: np.random.Generator):
        if in_features < 1 or out_features < 1:
            raise ValueError(f"Linear: features ({in_features}, {out_features}) must be positive")
        bound = in_features**-0.5
        self.weight = Parameter(rng.uniform(-bound, bound, (in_features, out_features)))
        self.bias = Parameter(rng.uniform(-bound, bound, out_features)) if bias else None

    def __call__(self, x: ArrayLike) -> Any:
        return linear(x, self.weight, self.bias)


class MLP(Module):
    """Linear maps between the given `sizes`, with `activation` after all but the last.

    Shapes: x (..., sizes[0]) → y (..., sizes[-1]).   Raises ValueError for fewer than two sizes.
    """

    def __init__(self, sizes: Sequence[int], *, activation: Callable = relu, rng: np.random.Generator):
        if len(sizes) < 2:
            raise ValueError(f"MLP: sizes {tuple(sizes)} must name at least the features in and out")
        self.layers = [Linear(n, m, rng=rng) for n, m in itertools.pairwise(sizes)]
        self.activation = activation

    def __call__(self, x: ArrayLike) -> Any:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
