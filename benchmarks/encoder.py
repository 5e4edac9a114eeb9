"""One training step of an encoder like TNP-D's: forward, backward, Adam.

Six layers of width 64 with 4 heads and a feed-forward of 128, after the seeds' post-norm form with ReLU,

    x ← LN(x + MHA(x))        x ← LN(x + W₂ relu(W₁ x + b₁) + b₂)

on 16 tasks of 50 tokens; the loss is the mean squared distance to a random target. Every framework starts from the same
weights, and must find the same loss and the same gradient of every weight. All as fast as it is commonly written:
PyTorch with one product for query, key and value, `scaled_dot_product_attention` and its own Adam; JAX with the whole step
under `jit`; autograd and MyGrad, which have neither attention nor optimisers, composed of their NumPy functions, with
refnp's Adam.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.encoder_composed import LINEAR, RATE, Sizes, in_autograd, in_jax, in_mygrad, problem
from benchmarks.timing import Side, Work


def works(sizes: Sizes | None = None) -> list[Work]:
    sizes = sizes or Sizes()
    makers = {"refnp": in_refnp, "torch": in_torch, "jax": in_jax, "autograd": in_autograd, "mygrad": in_mygrad}
    terms = sizes.layers * (3 * sizes.width + sizes.hidden + sizes.tokens) + sizes.batch * sizes.tokens
    return [
        Work(
            "encoder step",
            dtype,
            {name: lambda make=make, dtype=dtype: make(sizes, dtype) for name, make in makers.items()},
            terms,
        )
        for dtype in ("float32", "float64")
    ]


def in_refnp(sizes: Sizes, dtype: str) -> Side:
    from refnp.autograd import mean
    from refnp.layers.activations import relu
    from refnp.layers.layer_norm import LayerNorm
    from refnp.layers.linear import Linear
    from refnp.layers.module import Module
    from refnp.layers.multi_head import MultiHeadAttention
    from refnp.training.optimizers import Adam

    rng = np.random.default_rng(0)

    class Layer(Module):
        def __init__(self) -> None:
            self.attention = MultiHeadAttention(sizes.width, sizes.heads, rng=rng)
            self.norm1, self.norm2 = LayerNorm(sizes.width), LayerNorm(sizes.width)
            self.up, self.down = Linear(sizes.width, sizes.hidden, rng=rng), Linear(sizes.hidden, sizes.width, rng=rng)

        def __call__(self, x):
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.down(relu(self.up(x))))

    class Encoder(Module):
        def __init__(self) -> None:
            self.layers = [Layer() for _ in range(sizes.layers)]

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    layers, x, target = problem(sizes, dtype)
    encoder = Encoder().astype(dtype)
    parameters = []  # in the order of the weights
    for layer, weights in zip(encoder.layers, layers, strict=True):
        places = {name: getattr(layer, name) for name in ("up", "down")}
        places |= {name: getattr(layer.attention, name) for name in ("query", "key", "value", "output")}
        own = {name: places[name].weight for name in LINEAR} | {f"{name}_bias": places[name].bias for name in LINEAR}
        own |= {"gain1": layer.norm1.gain, "shift1": layer.norm1.shift}
        own |= {"gain2": layer.norm2.gain, "shift2": layer.norm2.shift}
        for name, array in weights.items():
            own[name].data = array
            parameters.append(own[name])
    adam = Adam(parameters, learning_rate=RATE)

    def backward() -> Any:
        adam.zero_grad()
        loss = mean((encoder(x) - target) ** 2)
        loss.backward()
        return loss

    def run() -> None:
        backward()
        adam.step()

    return Side(run, lambda: ([backward().data], [p.grad for p in parameters]))


def in_torch(sizes: Sizes, dtype: str) -> Side:
    import torch
    from torch.nn import functional as F

    layers, x, target = problem(sizes, dtype)
    x, target = torch.from_numpy(x), torch.from_numpy(target)
    leaves = []  # as torch.nn.Linear keeps them: transposed; query, key and value in one
    for w in layers:
        joined = [np.concatenate([w[name + end] for name in LINEAR[:3]], -1) for end in ("", "_bias")]
        matrices = {"joined": joined[0], "output": w["output"], "up": w["up"], "down": w["down"]}
        rest = {"joined_bias": joined[1]} | {k: v for k, v in w.items() if v.ndim == 1 and k[:-5] not in LINEAR[:3]}
        arrays = {k: np.ascontiguousarray(v.T) for k, v in matrices.items()} | rest
        leaves.append({k: torch.nn.Parameter(torch.from_numpy(v.copy())) for k, v in arrays.items()})
    parameters = [leaf for layer in leaves for leaf in layer.values()]
    adam = torch.optim.Adam(parameters, lr=RATE)
    cut = (sizes.batch, sizes.tokens, 3, sizes.heads, sizes.width // sizes.heads)

    def encoder(x):
        for p in leaves:
            q, k, v = F.linear(x, p["joined"], p["joined_bias"]).view(cut).permute(2, 0, 3, 1, 4).unbind(0)
            heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = x + F.linear(heads, p["output"], p["output_bias"])
            x = F.layer_norm(x, (sizes.width,), p["gain1"], p["shift1"])
            x = x + F.linear(F.relu(F.linear(x, p["up"], p["up_bias"])), p["down"], p["down_bias"])
            x = F.layer_norm(x, (sizes.width,), p["gain2"], p["shift2"])
        return x

    def backward() -> Any:
        adam.zero_grad()
        loss = F.mse_loss(encoder(x), target)
        loss.backward()
        return loss

    def run() -> None:
        backward()
        adam.step()

    def result() -> tuple[list, list]:
        loss = backward().detach().numpy()
        gradients: list[np.ndarray] = []
        for p in leaves:
            bars = {name: leaf.grad.numpy().T if leaf.ndim == 2 else leaf.grad.numpy() for name, leaf in p.items()}
            for end in ("", "_bias"):
                parts = np.split(bars["joined" + end], 3, -1)
                bars |= {name + end: part for name, part in zip(LINEAR[:3], parts, strict=True)}
            gradients += [bars[name] for name in layers[0]]
        return [loss], gradients

    return Side(run, result)
