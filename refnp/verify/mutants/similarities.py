"""Mutants of other similarities: cosine, general and additive attention, and attention on differences of places."""

from refnp import layers
from refnp.layers.similarity import additive_scores, unit_rows
from refnp.layers.translation_attention import pair_kernel
from refnp.numbers.words import root
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.layers.attention import refnp_additive, refnp_cosine, refnp_general
from refnp.verify.layers.neural_process_parts import refnp_translation_attention
from refnp.verify.mutants.attention import SOFTMAX

OVER_QUERIES, ROOTED = "the softmax went over the queries", "scores were divided by √d too"
QUERIES: Named = {OVER_QUERIES: SOFTMAX[OVER_QUERIES]}
UNITS, LENGTH = "(unit_rows(query), unit_rows(key))", "np.sqrt(nonzero(square))"
COSINE: Named = {
    "queries alone were divided by their length": (UNITS, "(unit_rows(query), key)"),
    "keys alone were divided by their length": (UNITS, "(query, unit_rows(key))"),
    "it were q·k, divided by no length": (UNITS, "(query, key)"),
    "q·k were divided by the squares of both lengths": (LENGTH, "nonzero(square)"),
    "1e-8 were added to lengths": (LENGTH, f"{LENGTH} + 1e-8"),
    "cosines were divided by √d too": ("None if similarity == 'scaled_dot' else 1", "None"),
    **QUERIES,
}
GENERAL: Named = {
    ROOTED: ("matmul(query, weight)", "matmul(query, weight) / query.shape[-1] ** 0.5"),
    **QUERIES,
}
BENT, SCORES = "soft_capped(inner, 1)", "activation @ vector"
ADDITIVE: Named = {
    "tanh were left out": (BENT, "(inner, None)"),
    "relu were in place of tanh": (BENT, "(np.maximum(inner, 0), None)"),
    "σ were in place of tanh": (BENT, "(1 / (1 + np.exp(-inner)), None)"),
    "the vector v were left out": (SCORES, "activation.sum(-1)"),
    ROOTED: (SCORES, f"{SCORES} / root(query_weight.shape[-1])"),
    OVER_QUERIES: ("softmax(_x)", "softmax(_x, axis=-2)"),
}
RELU, LAST = "np.where(g > 0, g, 0)", "np.moveaxis(g, -1, 1)"
KERNEL: Named = {
    "differences were x_m − x_n": ("differences =", "-differences"),
    "differences were left out": ("differences =", "0.0 * differences"),
    "scores were left out": ("scores =", "0.0 * scores"),
    "gelu were in place of relu": (RELU, "gelu.page(g)[0]"),
    "tanh were in place of relu": (RELU, "np.tanh(g)"),
    "relu came after the last map too": (LAST, "np.moveaxis(h, -1, 1)"),
}
ATTENDING, PRODUCTS = "TranslationAttention: ", "matmul(q, swapaxes(k, -1, -2))"
LOGITS = "pair_kernel(of_places, scores, *parameters_of(self.kernel))"
WEIGHTS = "pair_weights(logits, self.normalization, self.sink)"
TRANSLATION: Named = {
    "scores were not divided by √d": (f"{ATTENDING}{PRODUCTS} * one_over_root(raw(q))", PRODUCTS),
    "the kernel of pairs were added to scores, not put in their place": (ATTENDING + LOGITS, f"scores + {LOGITS}"),
    OVER_QUERIES: (ATTENDING + WEIGHTS, "softmax(logits, axis=-2)"),
    "weights were not divided by their sum": (ATTENDING + WEIGHTS, "exp(logits)"),
}
MUTANTS = [
    *named_edits(refnp_cosine, ("cosine_attention",), COSINE, pages=(unit_rows, layers.attention)),
    *named_edits(refnp_general, ("general_attention",), GENERAL, pages=(layers.attention,)),
    *named_edits(refnp_additive, ("additive_attention",), ADDITIVE, words={"root": root}, pages=(additive_scores,)),
    *named_edits(pair_kernel, ("pair_kernel",), KERNEL, words={"gelu": layers.gelu}),
    *named_edits(
        refnp_translation_attention,
        ("translation_attention",),
        TRANSLATION | KERNEL,
        words={"gelu": layers.gelu},
        pages=(pair_kernel,),
    ),
]
