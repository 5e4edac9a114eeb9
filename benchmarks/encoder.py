"""One training step of an encoder like TNP-D's: forward, backward, Adam.

Six layers of width 64 with 4 heads and a feed-forward of 128, in the post-norm form of Sivaraya (2023) §1.5 with ReLU,

    x ← LN(x + MHA(x))        x ← LN(x + W₂ relu(W₁ x + b₁) + b₂)

on 16 tasks of 50 tokens; the loss is the mean squared distance to a random target. Each framework in the fast code
that is natural to it: refnp with its layers; PyTorch with one product for query, key and value and
`scaled_dot_product_attention`; JAX, autograd and MyGrad in the functions they share with NumPy, JAX under `jit`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import training
from benchmarks.differentiated import softmax_in_autograd
from benchmarks.timing import Side, Work

LINEAR = ("query", "key", "value", "output", "up", "down")


@dataclass(frozen=True)
class Sizes(training.Sizes):
    tokens: int = 50


def works(sizes: Sizes | None = None) -> list[Work]:
    sizes = sizes or Sizes()
    makers = {"refnp": in_refnp, "torch": in_torch, "jax": in_jax, "autograd": in_autograd, "mygrad": in_mygrad}
    return [
        Work(
            "encoder step",
            dtype,
            {framework: functools.partial(side, make, sizes, dtype) for framework, make in makers.items()},
            terms=sizes.layers * (3 * sizes.width + sizes.hidden + sizes.tokens) + sizes.batch * sizes.tokens,
            aims={"torch": 1.0, "autograd": 1 / 8, "mygrad": 1 / 8},
            needs=training.needs_of_layers(sizes.layers, sizes, sizes.tokens),
        )
        for dtype in ("float32", "float64")
    ]


def side(make: Callable[..., Side], sizes: Sizes, dtype: str) -> Side:
    return make(sizes, *problem(sizes, dtype))


def problem(sizes: Sizes, dtype: str) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Weights by name, "0.query" and so on; tokens and their target (B, N, D)."""
    rng = np.random.default_rng(0)
    shapes = dict.fromkeys(LINEAR, (sizes.width, sizes.width))
    shapes |= {"up": (sizes.width, sizes.hidden), "down": (sizes.hidden, sizes.width)}
    weights = {}
    for i in range(sizes.layers):
        for name, (n, m) in shapes.items():
            weights[f"{i}.{name}"] = rng.uniform(-(n**-0.5), n**-0.5, (n, m)).astype(dtype)
            weights[f"{i}.{name}.bias"] = rng.uniform(-(n**-0.5), n**-0.5, m).astype(dtype)
        for name in ("norm1", "norm2"):
            weights[f"{i}.{name}.gain"] = np.ones(sizes.width, dtype)
            weights[f"{i}.{name}.shift"] = np.zeros(sizes.width, dtype)
    x, target = rng.normal(size=(2, sizes.batch, sizes.tokens, sizes.width)).astype(dtype)
    return weights, x, target


def in_refnp(sizes: Sizes, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    from refnp.autograd import mean
    from refnp.layers.activation import relu
    from refnp.layers.layer_norm import LayerNorm
    from refnp.layers.linear import Linear
    from refnp.layers.module import Module
    from refnp.layers.multi_head import MultiHeadAttention

    rng = np.random.default_rng(0)

    class Layer(Module):
        def __init__(self) -> None:
            self.attention = MultiHeadAttention(sizes.width, sizes.heads, rng=rng)
            self.norm1, self.norm2 = LayerNorm(sizes.width), LayerNorm(sizes.width)
            self.up, self.down = Linear(sizes.width, sizes.hidden, rng=rng), Linear(sizes.hidden, sizes.width, rng=rng)

        def __call__(self, x):
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.down(relu(self.up(x))))

        def parameter(self, name: str) -> Any:
            part, _, leaf = name.partition(".")
            owner = self if part in ("up", "down", "norm1", "norm2") else self.attention
            return getattr(getattr(owner, part), leaf or "weight")

    layers = [Layer() for _ in range(sizes.layers)]
    parameters = []
    for path, array in arrays.items():
        i, name = path.split(".", 1)
        parameters.append(layers[int(i)].parameter(name))
        parameters[-1].data = array

    def loss() -> Any:
        y = x
        for layer in layers:
            y = layer(y)
        return mean((y - target) ** 2)

    return training.by_refnp(loss, parameters)


def in_torch(sizes: Sizes, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    import torch
    from torch.nn import functional as F

    cut = (sizes.batch, sizes.tokens, 3, sizes.heads, sizes.width // sizes.heads)
    leaves = {}  # matrices transposed, as torch.nn.Linear keeps them; query, key and value in one
    for i in range(sizes.layers):
        for end in ("", ".bias"):
            joined = np.concatenate([arrays[f"{i}.{name}{end}"] for name in LINEAR[:3]], -1)
            leaves[f"{i}.joined{end}"] = torch.nn.Parameter(torch.from_numpy(np.ascontiguousarray(joined.T)))
    for path, array in arrays.items():
        if path.split(".")[1] not in LINEAR[:3]:
            leaves[path] = torch.nn.Parameter(torch.from_numpy(np.array(array.T, order="C")))
    tokens, wanted = torch.from_numpy(x), torch.from_numpy(target)

    def loss() -> Any:
        x = tokens
        for i in range(sizes.layers):

            def linear(x, name, i=i):
                return F.linear(x, leaves[f"{i}.{name}"], leaves[f"{i}.{name}.bias"])

            def norm(x, name, i=i):
                return F.layer_norm(x, (sizes.width,), leaves[f"{i}.{name}.gain"], leaves[f"{i}.{name}.shift"])

            q, k, v = linear(x, "joined").view(cut).permute(2, 0, 3, 1, 4).unbind(0)
            heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = norm(x + linear(heads, "output"), "norm1")
            x = norm(x + linear(F.relu(linear(x, "up")), "down"), "norm2")
        return F.mse_loss(x, wanted)

    def gradients() -> list[np.ndarray]:
        bars = {path: leaf.grad.numpy().T for path, leaf in leaves.items()}
        for i in range(sizes.layers):
            for end in ("", ".bias"):
                parts = np.split(bars[f"{i}.joined{end}"], 3, -1)
                bars |= {f"{i}.{name}{end}": part for name, part in zip(LINEAR[:3], parts, strict=True)}
        return [bars[path] for path in arrays]

    return training.by_torch(loss, list(leaves.values()), gradients)


def mean_square(xp: Any, softmax: Callable, w: dict, x: Any, target: Any, sizes: Sizes) -> Any:
    """The loss, in the functions that NumPy, autograd, MyGrad and JAX share."""
    batch, tokens, heads, width = sizes.batch, sizes.tokens, sizes.heads, sizes.width

    def linear(x, name):
        return xp.matmul(x, w[name]) + w[name + ".bias"]

    def split(x):
        return xp.transpose(xp.reshape(x, (batch, tokens, heads, width // heads)), (0, 2, 1, 3))

    def norm(x, name):
        centred = x - xp.mean(x, -1, keepdims=True)
        unit = centred / xp.sqrt(xp.mean(centred * centred, -1, keepdims=True) + 1e-5)
        return unit * w[name + ".gain"] + w[name + ".shift"]

    for i in range(sizes.layers):
        q, k, v = (split(linear(x, f"{i}.{name}")) for name in LINEAR[:3])
        weights = softmax(xp.matmul(q, xp.transpose(k, (0, 1, 3, 2))) * (width // heads) ** -0.5)
        joined = xp.reshape(xp.transpose(xp.matmul(weights, v), (0, 2, 1, 3)), (batch, tokens, width))
        x = norm(x + linear(joined, f"{i}.output"), f"{i}.norm1")
        x = norm(x + linear(xp.maximum(linear(x, f"{i}.up"), 0), f"{i}.down"), f"{i}.norm2")
    distance = x - target
    return xp.mean(distance * distance)


def in_jax(sizes: Sizes, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    import jax

    return training.by_jax(lambda w: mean_square(jax.numpy, jax.nn.softmax, w, x, target, sizes), arrays)


def in_autograd(sizes: Sizes, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    import autograd.numpy as anp

    return training.by_autograd(lambda w: mean_square(anp, softmax_in_autograd, w, x, target, sizes), arrays)


def in_mygrad(sizes: Sizes, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    import mygrad
    from mygrad.nnet.activations import softmax

    return training.by_mygrad(lambda w: mean_square(mygrad, softmax, w, x, target, sizes), arrays)
