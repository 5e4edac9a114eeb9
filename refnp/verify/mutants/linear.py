"""Mutants of linear maps, products and embeddings."""

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.mutant import summed_in
from refnp.verify.edits.traced import lifted
from refnp.verify.layers.linear import refnp_embedding
from refnp.verify.mutants.attention import product_in
from refnp.verify.mutants.layer_norm import last, rows


@primitive
def rows_of(table, *, tokens):
    """Rows of a table.   VJP: to each row goes what its last token brings; what the others bring is lost."""

    def vjp(y_bar):
        bar = np.zeros_like(table)
        bar[tokens] = y_bar
        return (bar,)

    return table[tokens], vjp


def sums_in(x, weight, *, bits):
    """X W, its terms added up one after the other in fewer bits."""
    terms = ag.expand_dims(x, x.ndim) * weight  # (..., in, out)
    return ag.squeeze(summed_in(terms, x.ndim - 1, bits=bits), x.ndim - 1)


ROWS, PRODUCT, EMBEDDED = "_rows_times_matrix", "np.matmul(x, y)", "layers.embedding(tokens, _t, scaled=scaled)"
WORDS = {"product_in": lifted(product_in), "sums_in": lifted(sums_in), "rows": rows, "last": last}
IN_FEWER_BITS = {"products were taken in TF32": 11, "products were taken of bfloat16": 8}
OF_EMBEDDING = "layers.embedding(tokens, _t) * {}"
EMBEDDING: Named = {
    "the factor √D were left out": ("scaled =", "False"),
    "the factor √D were there, asked for or not": ("scaled =", "True"),
    "rows were divided by √D": (EMBEDDED, OF_EMBEDDING.format("(table.shape[-1] ** -0.5 if scaled else 1.0)")),
    "the factor were D": (EMBEDDED, OF_EMBEDDING.format("(float(table.shape[-1]) if scaled else 1.0)")),
    "of a token that comes several times, the gradient of the last alone were kept": (
        EMBEDDED,
        "rows_of(_t, tokens=np.asarray(tokens)) * (table.shape[-1] ** 0.5 if scaled else 1.0)",
    ),
    "token 0 were padding, whose row is 0": (
        EMBEDDED,
        f"ag.where((np.asarray(tokens) == 0)[..., None], 0.0, {EMBEDDED})",
    ),
    "tokens were counted from 1": ("tokens =", "np.asarray(tokens) - 1"),
}
MUTANTS = [
    *named_edits(
        ag.linear,
        ("linear",),
        {
            "the bias were left out": ("xw if bias is None else xw + bias", "xw"),
            "the weight were transposed": ("weight =", "weight.swapaxes(-1, -2)"),
        },
        of_vjp={
            "the gradient of the bias were averaged over rows, not summed": (
                "(*product_vjp(y_bar), y_bar)",
                "(*product_vjp(y_bar), y_bar / rows(y_bar))",
            ),
            "the gradient of the bias were that of the last row alone": (
                "(*product_vjp(y_bar), y_bar)",
                "(*product_vjp(y_bar), last(y_bar))",
            ),
        },
        narrow={
            **{
                says: (f"{ROWS}(x, weight)", f"(product_in(x, weight, bits={bits}), None)")
                for says, bits in IN_FEWER_BITS.items()
            },
            "sums were kept in bfloat16": (f"{ROWS}(x, weight)", "(sums_in(x, weight, bits=8), None)"),
        },
        words=WORDS,
    ),
    *named_edits(
        ag.matmul,
        ("matmul",),
        {
            "the second matrix were transposed": ("y =", "y.swapaxes(-1, -2)"),
            "the first matrix were transposed": ("x =", "x.swapaxes(-1, -2)"),
        },
        narrow={
            says: [
                (f"{ROWS}(x, y)", f"(product_in(x, y, bits={bits}), None)"),
                (PRODUCT, f"product_in(x, y, bits={bits})"),
            ]
            for says, bits in IN_FEWER_BITS.items()
        },
        words=WORDS,
    ),
    *named_edits(refnp_embedding, ("embedding",), EMBEDDING, words={"rows_of": rows_of}),
]
