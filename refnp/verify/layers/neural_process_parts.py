"""What neural processes are made of: attention under the masks of TNPs, pseudo-tokens, attention on differences."""

import functools
import inspect
import itertools
from typing import Any

import numpy as np

from refnp import layers
from refnp.layers.set_convolution import matern_32, matern_52
from refnp.layers.translation_attention import TranslationAttention, pair_kernel
from refnp.models.tnp import autoregressive_mask, diagonal_mask, nondiagonal_mask
from refnp.verify.case import Case, Layer, normal, uniform
from refnp.verify.judged_pages import of_page, of_tape
from refnp.verify.layers.attention import ATTENTION, IN_ANY_FORM, IN_FLOAT32, MASKED_ROW, tensors
from refnp.verify.layers.multi_head import MULTI_HEAD, bound, heads_inputs
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from refnp.verify.layers.transformer_layers import ENCODER_LAYER, HEADS, encoder_inputs


def refnp_translation_attention(query, key, differences, *parameters, heads, mask=None, **options):
    """O = concat_h(A V_h) W_o + b_o, A = weights of MLP([x_n − x_m, q·k/√d of every head]) over the allowed keys.

    Parameters: W_q, W_k, W_v, each with its bias if there is one, then W and b of each map of the MLP, then W_o and
    b_o, and b of a sink.
    """
    first, last = (6 if options.get("bias") else 3), 2 + (options.get("normalization") == "sink")
    hidden = [bias.shape[0] for bias in parameters[first + 1 : -last - 2 : 2]]
    options = {"dx": differences.shape[-1], "kernel": hidden} | options
    module = TranslationAttention(query.shape[-1], heads, **options, rng=np.random.default_rng(0))
    return bound(module, parameters)(query, key, differences, mask=mask)[0]


def with_kernel(kernel):
    """A set convolution with another kernel."""
    function = functools.partial(layers.set_convolution, kernel=kernel)

    def equation(*arrays, **options):
        return SET_CONVOLUTION.equation(*arrays, kernel=kernel, **options)

    equation.__doc__ = f"{inspect.getdoc(layers.set_convolution)}\n\nThe kernel: {inspect.getdoc(kernel)}"
    return Layer(f"set_convolution, {kernel.__name__}", function, equation, names=("set_convolution",))


PAIRS = "differences (B, N, M, d), scores (B, H, N, M), kernel_weight_0 (d+H, W), kernel_bias_0 (W)"
TWO_MAPS = f"{PAIRS}, kernel_weight_1 (W, V), kernel_bias_1 (V)"
PAIR_KERNEL = of_page(
    pair_kernel,
    shapes={
        "one map": PAIRS,
        "two maps": TWO_MAPS,
        "three maps": f"{TWO_MAPS}, kernel_weight_2 (V, U), kernel_bias_2 (U)",
    },
)
TRANSLATION = of_tape(
    refnp_translation_attention, IN_ANY_FORM, name="translation_attention", names=("TranslationAttention",)
)
MATERN = [with_kernel(kernel) for kernel in (matern_32, matern_52)]


def cases() -> list[Case]:
    """All cases of this page."""
    return [*of_tnps(), *of_pseudo_tokens(), *on_differences(), *of_sets()]


def of_tnps() -> list[Case]:
    """Self-attention of context and target tokens under the masks of TNP-D, TNP-A and TNP-ND."""
    present = np.array([[True, True, False], [True, True, True]])
    masks = {
        "TNP-D, 3 contexts, 2 targets": diagonal_mask(3, 2),
        "TNP-A, 2 contexts, 3 targets": autoregressive_mask(2, 3),
        "TNP-A, no context": autoregressive_mask(0, 3),
        "TNP-ND, 3 targets, one hidden": nondiagonal_mask(present),
    }
    found = []
    for name, mask in masks.items():
        n, batch = mask.shape[-1], mask.shape[:-2]
        unread = MASKED_ROW if not mask.any(-1).all() else ()
        found.append(Case(ATTENTION, name, tensors(batch=batch, n=n, m=n), {"mask": mask}, unread + IN_FLOAT32))
        if not unread:
            found.append(Case(MULTI_HEAD, name, heads_inputs(n=n, m=n), {"heads": 2, "mask": mask}))
            layer = {"heads": HEADS, "mask": mask}
            found.append(Case(ENCODER_LAYER, name, encoder_inputs(n), layer))
    return found


def of_pseudo_tokens() -> list[Case]:
    """Few pseudo-tokens read a long, ragged context; the context and the targets read them."""
    ragged = np.arange(9) < np.array([9, 4])[:, None, None]
    collect = {"heads": 2, "mask": np.broadcast_to(ragged, (2, 2, 9))}
    return [
        Case(ATTENTION, "2 pseudo-tokens read 9 contexts", tensors(batch=(2,), n=2, m=9),
             {"mask": np.broadcast_to(ragged, (2, 2, 9))}, IN_FLOAT32),
        Case(MULTI_HEAD, "2 pseudo-tokens read 9 contexts", heads_inputs(n=2, m=9), collect),
        Case(MULTI_HEAD, "9 contexts read 2 pseudo-tokens", heads_inputs(n=9, m=2), {"heads": 2}),
        Case(MULTI_HEAD, "one pseudo-token", heads_inputs(n=4, m=1), {"heads": 2}),
    ]  # fmt: skip


def on_differences() -> list[Case]:
    """The MLP of pairs, and the attention of TE-TNP that it makes."""

    def mlp(*widths):
        pairs = itertools.pairwise(widths)
        return {f"kernel_{part}_{i}": normal(*((m, n) if part == "weight" else (n,)))
                for i, (m, n) in enumerate(pairs) for part in ("weight", "bias")}  # fmt: skip

    def attention(variant, *, heads=2, dx=1, n=3, m=4, features=4, reach=1.0, **options):
        inputs = {"query": normal(2, n, features), "key": normal(2, m, features)}
        inputs |= {"differences": normal(2, n, m, dx, scale=reach)}
        for part in ("query", "key", "value"):
            inputs[f"weight_{part}"] = normal(features, features, scale=0.5)
            inputs |= {f"bias_{part}": normal(features)} if options.get("bias") else {}
        inputs |= mlp(dx + options.get("squares", False) * dx + heads, 5, heads)
        inputs |= {"weight_output": normal(features, features, scale=0.5), "bias_output": normal(features)}
        inputs |= {"sink": normal(heads)} if options.get("normalization") == "sink" else {}
        return Case(TRANSLATION, variant, inputs, {"heads": heads, **options})

    pairs: dict[str, Any] = {"differences": normal(2, 3, 4, 2), "scores": normal(2, 2, 3, 4)}
    lines = {"differences": normal(1, 3, 3, 1), "scores": normal(1, 1, 3, 3)}
    ragged = np.arange(4) < np.array([4, 2])[:, None, None]
    return [
        Case(PAIR_KERNEL, "two heads, two axes", pairs | mlp(4, 5, 2)),
        Case(PAIR_KERNEL, "three maps", pairs | mlp(4, 5, 3, 2)),
        Case(PAIR_KERNEL, "a linear map", lines | mlp(2, 1)),
        Case(PAIR_KERNEL, "far apart", lines | {"differences": normal(1, 3, 3, 1, scale=1e3)} | mlp(2, 4, 1)),
        attention("ordinary"),
        attention("two axes, one head", heads=1, dx=2),
        attention("ragged contexts", mask=np.broadcast_to(ragged, (2, 3, 4))),
        attention("nothing to read", mask=np.broadcast_to(np.arange(3)[:, None] > 0, (2, 3, 4))),
        attention("far apart", reach=3.0),
        attention("squares, biases", dx=2, squares=True, bias=True),
        attention("a sink, ragged contexts", normalization="sink", mask=np.broadcast_to(ragged, (2, 3, 4))),
        attention("weights that are not divided", normalization="sum", squares=True),
    ]


def of_sets() -> list[Case]:
    """Set convolutions of ragged sets, without density, with other kernels."""

    def case(layer, variant, *, targets=5, points=6, axes=1, batch=(2,), channels=2, **options):
        inputs = {
            "target_x": uniform(*batch, targets, axes, low=-1, high=1),
            "context_x": uniform(*batch, points, axes, low=-1, high=1),
            "context_y": normal(*batch, points, channels),
            "length_scale": np.asarray(0.4),
        }
        return Case(layer, variant, inputs, options)

    ragged = np.arange(6) < np.array([[6], [3]])
    found = [
        case(SET_CONVOLUTION, "ragged sets", mask=ragged),
        case(SET_CONVOLUTION, "ragged sets, divided by the density", mask=ragged, divide=True),
        case(SET_CONVOLUTION, "one set hidden, divided by the density", mask=ragged & [[True], [False]], divide=True),
        case(SET_CONVOLUTION, "without density", density=False),
    ]
    for layer in MATERN:
        found += [case(layer, "1-D"), case(layer, "2-D, ragged sets", axes=2, mask=ragged)]
    return found
