"""Linear maps and lookups: what is bilinear in its arguments."""

import math
from collections.abc import Iterable

import numpy as np

from refnp import autograd, layers
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import primitive
from refnp.numbers.arrays import sum_to
from refnp.numbers.rounding import Rounded, exact
from refnp.verify.case import (
    Case,
    GradientInputs,
    Layer,
    NotOfferedError,
    Without,
    module_gradient,
    normal,
)
from refnp.verify.judged_pages import by_tape

matmul, linear = by_tape(autograd.matmul), by_tape(autograd.linear)


def counts_of(tokens, vocabulary):
    """How often each token stands in a batch, and 1 for those that do not, (V, 1)."""
    return np.maximum(np.bincount(np.ravel(tokens), minlength=vocabulary), 1)[:, None]


def without_gradient(equation, place):
    """The equation with a gradient of 0 for the argument number `place`."""

    def lacking(*arguments, **options):
        y, pullback = equation(*arguments, **options)

        def pulled(g):
            bars = list(pullback(g))
            bars[place] = exact(np.zeros(bars[place].shape))
            return tuple(bars)

        return y, pulled

    return lacking


def of_one_axis(equation):
    """A result of shape () as (1,)."""

    def shaped(*arguments, **options):
        y, pullback = equation(*arguments, **options)
        return y.reshape(1), lambda g: pullback(g.reshape())

    return shaped


def summed_to(bars: Iterable[Rounded], *arguments: Rounded) -> tuple[Rounded, ...]:
    """Gradients of the shape that broadcasting gave the arguments → of the arguments."""
    return tuple(sum_to(bar, x.shape) for bar, x in zip(bars, arguments, strict=True))


@takes(
    "table (V, D) → (..., N, D)",
    tokens="whole < V (..., N)",
    padding_index="whole?",
    **dict.fromkeys(("scaled", "by_frequency"), "True or False"),
)
def refnp_embedding(table, *, tokens, scaled=False, padding_index=None, by_frequency=False):
    """Rows of `table` at integer `tokens`, times √D if `scaled`; the table's gradient is 0 at the `padding_index`.

    `by_frequency` divides the gradient of each row by how often its token stands there.
    Shapes: table (V, D), tokens (...) → (..., D).
    """
    if padding_index is None and not by_frequency:
        return layers.embedding(tokens, table, scaled=scaled)
    divisors = counts_of(tokens, len(table)).astype(float) if by_frequency else np.ones((len(table), 1))
    if padding_index is not None:
        divisors[padding_index] = np.inf
    return layers.embedding(tokens, with_divided_gradient(table, by=divisors), scaled=scaled)


@primitive
def with_divided_gradient(x, *, by):
    """y = x.   VJP: x̄ = ȳ divided by the numbers of `by`."""
    return x[...], lambda y_bar: (y_bar / by.astype(y_bar.dtype),)


embedding = by_tape(refnp_embedding, other_gradient=("padding_index", "by_frequency"))


def torch_embedding(torch, table, *, tokens, scaled=False, padding_index=None, by_frequency=False):
    """PyTorch knows no factor √D, nor does JAX."""
    options = {"padding_idx": padding_index, "scale_grad_by_freq": by_frequency}
    rows = torch.nn.functional.embedding(torch.tensor(tokens), table, **options)
    return rows * (math.sqrt(table.shape[1]) if scaled else 1)


def jax_embedding(jax, table, *, tokens, scaled=False, padding_index=None, by_frequency=False):
    """Rows of a table are taken by jax.numpy.take."""
    if padding_index is not None or by_frequency:
        raise NotOfferedError("JAX: the gradient of rows that are taken is their sum, for every token")
    return jax.numpy.take(table, np.asarray(tokens), axis=0) * (math.sqrt(table.shape[1]) if scaled else 1)


LINEAR = Layer(
    "linear",
    autograd.linear,
    linear,
    torch=lambda torch, x, weight, bias=None: torch.nn.functional.linear(x, weight.T, bias),
    jax=lambda jax, x, weight, bias=None: x @ weight if bias is None else x @ weight + bias,
)
MATMUL = Layer("matmul", autograd.matmul, matmul, torch="matmul", jax="numpy.matmul")
EMBEDDING = Layer(
    "embedding",
    refnp_embedding,
    embedding,
    torch=torch_embedding,
    jax=jax_embedding,
)


def cases() -> list[Case]:
    """All cases of this page."""
    table = {"table": normal(7, 4)}
    return [
        Case(EMBEDDING, "ordinary", table, {"tokens": np.array([[3, 0, 6], [1, 2, 5]])}),
        Case(EMBEDDING, "one token many times", table, {"tokens": np.array([2, 2, 5, 2, 2, 2, 5, 2])}),
        Case(EMBEDDING, "scaled by the root of d", table, {"tokens": np.array([0, 6, 6]), "scaled": True}),
        Case(EMBEDDING, "no tokens", table, {"tokens": np.zeros(0, int)}),
        Case(LINEAR, "ordinary", {"x": normal(5, 7), "weight": normal(7, 4), "bias": normal(4)}),
        Case(LINEAR, "batch of sequences", {"x": normal(2, 3, 6), "weight": normal(6, 5), "bias": normal(5)}),
        Case(LINEAR, "no bias", {"x": normal(5, 7), "weight": normal(7, 4)}),
        Case(LINEAR, "one feature in and out", {"x": normal(6, 1), "weight": normal(1, 1), "bias": normal(1)}),
        Case(LINEAR, "square weight", {"x": normal(3, 5), "weight": normal(5, 5), "bias": normal(5)}),
        Case(LINEAR, "one row", {"x": normal(1, 9), "weight": normal(9, 3), "bias": normal(3)}),
        Case(LINEAR, "mean 1e4", {"x": normal(4, 16, shift=1e4), "weight": normal(16, 3), "bias": normal(3)}),
        Case(MATMUL, "ordinary", {"x": normal(5, 12), "y": normal(12, 6)}),
        Case(MATMUL, "square matrices", {"x": normal(4, 4), "y": normal(4, 4)}),
        Case(MATMUL, "batch", {"x": normal(3, 4, 5), "y": normal(3, 5, 2)}),
        Case(MATMUL, "shared matrix", {"x": normal(3, 4, 5), "y": normal(5, 2)}),
        Case(MATMUL, "inner length 1", {"x": normal(4, 1), "y": normal(1, 5)}),
        Case(MATMUL, "cancelling terms", {"x": np.array([[1e6, 1.0, -1e6]]), "y": np.array([[1.0], [1.0], [1.0]])}),
    ]


WITHOUT = (Without("equation", ("MLP",), "it is linear maps and activations, which have theirs"),)


def gradient_inputs() -> list[GradientInputs]:
    """A network of linear maps with an activation between."""
    rng = np.random.default_rng(0)
    mlp = layers.MLP([4, 5, 2], activation=layers.gelu, rng=rng)
    return [module_gradient("MLP", mlp, rng.normal(size=(3, 4)), names=("MLP", "Linear"))]
