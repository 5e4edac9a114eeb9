"""Attention of N queries on N keys, 8 heads of 64 features, forward and backward; its time and its peak memory.

All scores at once would be 8 N² numbers, for N = 8192 two gigabytes in float32: PyTorch's and refnp's attention take
them in blocks. JAX's, on a CPU, does not; it is left out where that is too much.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.composed import differentiated_by_autograd, differentiated_by_jax
from benchmarks.timing import Side, Work

HEADS, FEATURES = 8, 64
LENGTHS = (512, 2048, 8192)
ALL_SCORES = 2048  # the longest sequence whose scores are all held at once


def works(lengths: tuple[int, ...] = LENGTHS) -> list[Work]:
    makers = {"refnp": in_refnp, "torch": in_torch, "jax": in_jax, "autograd": in_autograd}
    return [
        Work(
            f"attention N={n}",
            dtype,
            {
                framework: lambda make=make, n=n, dtype=dtype: make(*inputs(n, dtype))
                for framework, make in makers.items()
                if framework in ("refnp", "torch") or n <= (ALL_SCORES if framework == "jax" else ALL_SCORES // 4)
            },
            terms=2 * FEATURES + 2 * n,
            memory="attention",
            options={"length": n},
        )
        for n in lengths
        for dtype in ("float32", "float64")
        if n < max(LENGTHS) or dtype == "float32"
    ]


def inputs(n: int, dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Query, key, value (1, H, N, d) and the gradient of the output."""
    rng = np.random.default_rng(0)
    *arrays, bar = rng.normal(size=(4, 1, HEADS, n, FEATURES)).astype(dtype)
    return arrays, bar


def in_refnp(arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    from refnp.autograd import Tensor
    from refnp.layers.attention import attention

    leaves = [Tensor(a, requires_grad=True) for a in arrays]

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        output = attention(*leaves)
        output.backward(bar)
        return output

    return Side(run, lambda: ([run().data], [leaf.grad for leaf in leaves]))


def in_torch(arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import torch
    from torch.nn import functional as F

    leaves = [torch.from_numpy(a).requires_grad_() for a in arrays]
    cotangent = torch.from_numpy(bar)

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        output = F.scaled_dot_product_attention(*leaves)
        output.backward(cotangent)
        return output

    return Side(run, lambda: ([run().detach().numpy()], [leaf.grad.numpy() for leaf in leaves]))


def in_jax(arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    """Composed: on a CPU, jax.nn.dot_product_attention is the same program, but takes float64 scores in float32."""
    import jax
    import jax.numpy as jnp

    def attention(q, k, v):
        return jnp.matmul(jax.nn.softmax(jnp.matmul(q, jnp.swapaxes(k, -1, -2)) * FEATURES**-0.5), v)

    return differentiated_by_jax(attention, arrays, bar)


def in_autograd(arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import autograd.numpy as anp

    from benchmarks.composed import softmax_in_autograd

    def attention(q, k, v):
        return anp.matmul(softmax_in_autograd(anp.matmul(q, anp.swapaxes(k, -1, -2)) * FEATURES**-0.5), v)

    return differentiated_by_autograd(attention, arrays, bar)
