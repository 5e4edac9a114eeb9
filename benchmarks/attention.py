"""Attention of N queries on N keys, 8 heads of 64 features, forward and backward; its time and its peak memory.

All scores at once are 8 N² numbers, for N = 8192 two gigabytes in float32: PyTorch's and refnp's attention take them in
blocks. JAX's, on a CPU, does not, nor does what is composed in autograd: they are left out where that is too much.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from benchmarks import differentiated
from benchmarks.timing import Needs, Side, Work

HEADS, FEATURES = 8, 64
LENGTHS = (512, 2048, 8192)
LONGEST = {"jax": 2048, "autograd": 512}


def works(lengths: tuple[int, ...] = LENGTHS) -> list[Work]:
    return [
        Work(
            f"attention N={n}",
            dtype,
            {
                framework: functools.partial(side, framework, n, dtype)
                for framework in FUNCTIONS
                if n <= LONGEST.get(framework, n)
            },
            terms=2 * FEATURES + 2 * n,
            memory=n == 8192 or (n == 2048 and dtype == "float32"),
            aims={"torch": 1.0} | ({"memory": 1000} if n == 8192 else {}),
            needs=Needs(
                products=14 * HEADS * n * n * FEATURES,  # two products forward, five backward
                exponentials=2 * HEADS * n * n,  # taken again on the way back
                passes=8 * HEADS * n * n,
            ),
        )
        for n in lengths
        for dtype in ("float32", "float64")
        if n < 8192 or dtype == "float32"
    ]


def side(framework: str, n: int, dtype: str) -> Side:
    """Of query, key and value (1, H, N, d), with a gradient of the output."""
    rng = np.random.default_rng(0)
    *arrays, bar = rng.normal(size=(4, 1, HEADS, n, FEATURES)).astype(dtype)
    return differentiated.BY[framework](FUNCTIONS[framework](), arrays, bar)


def refnp_function() -> Callable:
    from refnp.layers.attention import attention

    return attention


def torch_function() -> Callable:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention


def jax_function() -> Callable:
    """Composed: on a CPU, jax.nn.dot_product_attention is the same program, but takes float64 scores in float32."""
    import jax
    import jax.numpy as jnp

    def attention(q, k, v):
        return jnp.matmul(jax.nn.softmax(jnp.matmul(q, jnp.swapaxes(k, -1, -2)) * FEATURES**-0.5), v)

    return attention


def autograd_function() -> Callable:
    import autograd.numpy as anp

    def attention(q, k, v):
        scores = anp.matmul(q, anp.swapaxes(k, -1, -2)) * FEATURES**-0.5
        return anp.matmul(differentiated.softmax_in_autograd(scores), v)

    return attention


FUNCTIONS = {"refnp": refnp_function, "torch": torch_function, "jax": jax_function, "autograd": autograd_function}
