"""Mutants of linear maps, products and embeddings."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd import primitive
from refnp.verify.mutants.attention import product
from refnp.verify.mutants.mutant import Mistakes, family, shared, summed_in


def linear(x, weight, bias=None, *, transposed=False, biased=True, gradient="sum", bits=None, sum_bits=None):
    """y = x W + b."""
    weight = ag.transpose(weight) if transposed else weight
    if sum_bits is not None:
        terms = ag.expand_dims(x, x.ndim) * weight  # (..., in, out)
        y = ag.squeeze(summed_in(terms, x.ndim - 1, bits=sum_bits), x.ndim - 1)
    elif bits is None and gradient == "sum":
        return ag.linear(x, weight, bias if biased else None)
    else:
        y = product(x, weight, bits)
    return y if bias is None or not biased else y + shared(bias, y.shape, gradient)


def matmul(x, y, *, left=False, right=False, bits=None):
    """Z = X Y."""
    x = ag.swapaxes(x, -1, -2) if left else x
    return product(x, ag.swapaxes(y, -1, -2) if right else y, bits)


def embedding(table, *, tokens, scaled=False, scale="asked", gradient="sum", padding=None, shift=0):
    """X_n = E[token_n], times √D if asked for."""
    tokens = np.asarray(tokens) - shift
    root = math.sqrt(table.shape[-1])
    factor = {
        "asked": root if scaled else 1.0,
        "never": 1.0,
        "always": root,
        "divided": 1 / root if scaled else 1.0,
        "D": root * root if scaled else 1.0,
    }[scale]
    if gradient != "sum":
        return rows(table, tokens=tokens) * factor
    y = layers.embedding(tokens, table) * factor
    return y if padding is None else ag.where((tokens == padding)[..., None], 0.0, y)


@primitive
def rows(table, *, tokens):
    """Rows of a table.   VJP: to each row goes what its last token brings; what the others bring is lost."""

    def vjp(y_bar):
        bar = np.zeros_like(table)
        bar[tokens] = y_bar
        return (bar,)

    return table[tokens], vjp


IN_TF32: Mistakes = {
    "products were taken in TF32": {"bits": 11},
    "products were taken of bfloat16": {"bits": 8},
}
LINEAR: Mistakes = {
    "the bias were left out": {"biased": False},
    "the weight were transposed": {"transposed": True},
    "the gradient of the bias were averaged over rows, not summed": {"gradient": "mean"},
    "the gradient of the bias were that of the last row alone": {"gradient": "last"},
}
MATMUL: Mistakes = {
    "the second matrix were transposed": {"right": True},
    "the first matrix were transposed": {"left": True},
}
EMBEDDING: Mistakes = {
    "the factor √D were left out": {"scale": "never"},
    "the factor √D were there, asked for or not": {"scale": "always"},
    "rows were divided by √D": {"scale": "divided"},
    "the factor were D": {"scale": "D"},
    "of a token that comes several times, the gradient of the last alone were kept": {"gradient": "last"},
    "token 0 were padding, whose row is 0": {"padding": 0},
    "tokens were counted from 1": {"shift": 1},
}
MUTANTS = [
    *family(linear, ("linear",), LINEAR, narrow=IN_TF32 | {"sums were kept in bfloat16": {"sum_bits": 8}}),
    *family(matmul, ("matmul",), MATMUL, narrow=IN_TF32),
    *family(embedding, ("embedding",), EMBEDDING),
]
