"""Convolution and its transpose: what frameworks call them, and cases."""

from typing import Any

import numpy as np

from refnp import layers
from refnp.verify.case import (
    Case,
    GradientInputs,
    NotOfferedError,
    Without,
    gradient_of,
    module_gradient,
    normal,
)
from refnp.verify.judged_pages import of_page


def per_axis(value, axes: int) -> tuple:
    """One number for each axis."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def pairs_of(padding, axes: int) -> list[tuple[int, int]]:
    """Padding as a pair (before, after) per axis, from a number, one per axis, pairs, or "valid", which is none."""
    padding = 0 if padding == "valid" else padding
    return [p if isinstance(p, tuple) else (p, p) for p in per_axis(padding, axes)]


def same(kernel, dilation) -> list[tuple[int, int]]:
    """The padding "same": d (k − 1) in all, the larger half after x."""
    return [(d * (k - 1) // 2, -(-d * (k - 1) // 2)) for k, d in zip(kernel, dilation, strict=True)]


def torch_convolution(torch, x, weight, bias=None, *, padding=0, padding_mode="zeros", **options):
    """nn.functional.conv takes padding as numbers; pairs and modes are padded first, as torch.nn.Conv does."""
    functional, axes = torch.nn.functional, weight.ndim - 2
    if padding_mode != "zeros" or isinstance(padding, list):
        edges = same(weight.shape[2:], per_axis(options.get("dilation", 1), axes)) if padding == "same" else padding
        flat = [width for pair in reversed(pairs_of(edges, axes)) for width in pair]
        x = functional.pad(x, flat, mode="constant" if padding_mode == "zeros" else padding_mode)
        padding = 0
    return getattr(functional, f"conv{axes}d")(x, weight, bias, padding=padding, **options)


def torch_convolution_transpose(torch, x, weight, bias=None, **options):
    """One function for each number of dimensions."""
    return getattr(torch.nn.functional, f"conv_transpose{weight.ndim - 2}d")(x, weight, bias, **options)


def jax_convolution(jax, x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """conv_general_dilated, channels first; for modes other than zeros, jax.numpy.pad goes first."""
    axes = weight.ndim - 2
    if x.ndim == axes + 1:
        raise NotOfferedError("JAX: conv_general_dilated takes a batch")
    stride, dilation, pairs = per_axis(stride, axes), per_axis(dilation, axes), padding
    if padding != "same":
        pairs = pairs_of(padding, axes)
    elif padding_mode != "zeros":
        pairs = same(weight.shape[2:], dilation)
    if padding_mode != "zeros":
        mode = {"circular": "wrap", "reflect": "reflect", "replicate": "edge"}[padding_mode]
        x, pairs = jax.numpy.pad(x, [(0, 0), (0, 0), *pairs], mode=mode), [(0, 0)] * axes
    options = {"rhs_dilation": dilation, "feature_group_count": groups}
    y = jax.lax.conv_general_dilated(x, weight, stride, "SAME" if pairs == "same" else pairs, **options)
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


def jax_convolution_transpose(
    jax, x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, output_padding=0
):
    """conv_transpose, whose padding is that of the walk over the stretched input: d (k − 1) − a."""
    axes = weight.ndim - 2
    if groups > 1 or x.ndim == axes + 1:
        raise NotOfferedError("JAX: conv_transpose takes a batch, and knows no groups")
    stride, dilation, extra = per_axis(stride, axes), per_axis(dilation, axes), per_axis(output_padding, axes)
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    padded = zip(reach, pairs_of(padding, axes), extra, strict=True)
    pairs = [(r - before, r - after + e) for r, (before, after), e in padded]
    names = ("NC" + "DHW"[-axes:], "OI" + "DHW"[-axes:], "NC" + "DHW"[-axes:])
    y = jax.lax.conv_transpose(
        x, weight, stride, pairs, rhs_dilation=dilation, dimension_numbers=names, transpose_kernel=True
    )
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


CONVOLUTION = of_page(layers.convolution, torch=torch_convolution, jax=jax_convolution)
TRANSPOSED = of_page(layers.convolution_transpose, torch=torch_convolution_transpose, jax=jax_convolution_transpose)


def cases() -> list[Case]:
    """All cases of this page."""
    return [*plain(), *transposed()]


def plain() -> list[Case]:
    """Convolutions: strides, dilations, groups, every padding, in one to three dimensions."""

    def case(variant, lengths, kernel, *, batch=2, ins=3, outs=4, groups=1, bias=True, shift=0.0, **options):
        shape = (ins, *lengths) if batch is None else (batch, ins, *lengths)
        inputs = {"x": normal(*shape, shift=shift), "weight": normal(outs, ins // groups, *kernel)}
        if groups > 1:
            options["groups"] = groups
        return Case(CONVOLUTION, variant, inputs | ({"bias": normal(outs)} if bias else {}), options)

    return [
        case("1-D", (11,), (3,)),
        case("1-D, no bias", (11,), (3,), bias=False),
        case("1-D, one tap", (7,), (1,)),
        case("1-D, stride 2", (11,), (4,), stride=2),
        case("1-D, stride longer than the kernel", (13,), (2,), stride=5),
        case("1-D, dilation 3", (11,), (3,), dilation=3),
        case("1-D, two groups", (9,), (3,), ins=4, outs=6, groups=2),
        case("1-D, a group for each channel", (9,), (3,), ins=3, outs=6, groups=3),
        case("1-D, padding 2", (9,), (5,), padding=2),
        case("1-D, padding (3, 0)", (9,), (4,), padding=[(3, 0)]),
        case("1-D, circular", (9,), (5,), padding=2, padding_mode="circular"),
        case("1-D, reflected", (9,), (5,), padding=2, padding_mode="reflect"),
        case("1-D, replicated", (9,), (5,), padding=2, padding_mode="replicate"),
        case("1-D, kernel longer than the input", (3,), (7,), padding=3),
        case("1-D, kernel as long as the input", (6,), (6,)),
        case("1-D, input of one element", (1,), (3,), padding=1),
        case("1-D, mean 1e4", (9,), (3,), shift=1e4),
        case(
            "1-D, stride, dilation, groups and padding", (14,), (3,), ins=4, groups=2, stride=2, dilation=2, padding=3
        ),
        case("2-D", (5, 6), (3, 2)),
        case("2-D, strides 2 and 1, paddings 1 and 2", (6, 5), (3, 3), stride=(2, 1), padding=(1, 2)),
        case("2-D, dilations 1 and 2", (5, 6), (2, 3), dilation=(1, 2)),
        case("2-D, two groups", (4, 5), (2, 2), ins=4, groups=2),
        case("2-D, circular", (4, 5), (3, 3), padding=1, padding_mode="circular"),
        case("2-D, kernel longer than the input", (2, 3), (5, 5), padding=2, ins=1, outs=2),
        case("3-D", (3, 4, 3), (2, 2, 2), batch=1, ins=2, outs=2),
        case("1-D, same, kernel 4", (7,), (4,), padding="same"),
        case("1-D, same, kernel 2, dilation 3", (7,), (2,), padding="same", dilation=3),
        case("1-D, same, kernel 4, circular", (7,), (4,), padding="same", padding_mode="circular"),
        case("2-D, same, kernel 2 by 5", (4, 5), (2, 5), padding="same"),
        case("1-D, no batch", (9,), (3,), batch=None, padding=1),
        case("2-D, no batch, reflected", (4, 5), (3, 3), batch=None, padding=1, padding_mode="reflect"),
    ]


def transposed() -> list[Case]:
    """Transposed convolutions: strides, dilations, groups, output padding."""

    def case(variant, lengths, kernel, *, batch=2, ins=3, outs=4, groups=1, **options):
        inputs = {
            "x": normal(ins, *lengths) if batch is None else normal(batch, ins, *lengths),
            "weight": normal(ins, outs // groups, *kernel),
            "bias": normal(outs),
        }
        if groups > 1:
            options["groups"] = groups
        return Case(TRANSPOSED, variant, inputs, options)

    return [
        case("1-D", (7,), (3,)),
        case("1-D, stride 2", (6,), (4,), stride=2),
        case("1-D, stride longer than the kernel", (4,), (2,), stride=3),
        case("1-D, stride 2, padding 1, output padding 1", (6,), (3,), stride=2, padding=1, output_padding=1),
        case("1-D, dilation 2", (6,), (3,), dilation=2),
        case("1-D, two groups", (6,), (3,), ins=4, groups=2),
        case("1-D, input of one element", (1,), (3,), stride=2),
        case("2-D, strides 2 and 1", (4, 3), (3, 2), stride=(2, 1), padding=(1, 0)),
        case("1-D, no batch", (6,), (4,), batch=None, stride=2),
    ]


WITHOUT = (Without("equation", ("SimpleCNN", "UNet"), "they are convolutions and activations, which have theirs"),)


def gradient_inputs() -> list[GradientInputs]:
    """Every option together, and the networks made of convolutions."""
    rng = np.random.default_rng(0)
    image, flat, bias = rng.normal(size=(2, 4, 5, 6)), rng.normal(size=(6, 2, 3, 2)), rng.normal(size=6)
    small, spread = rng.normal(size=(2, 4, 2, 3)), rng.normal(size=(4, 3, 3, 2))
    one: dict[str, Any] = {"stride": (2, 3), "dilation": (1, 2), "groups": 2, "padding": (1, 2)}
    two: dict[str, Any] = {"stride": (2, 3), "dilation": (3, 2), "groups": 2, "padding": 1, "output_padding": (1, 2)}
    cnn = layers.SimpleCNN((2, 3, 2), kernel=3, activation=layers.silu, rng=rng)
    unets = {
        name: layers.UNet(2, (3, 4), kernel=3, upsampling=name, channels_out=1, activation=layers.silu, rng=rng)
        for name in ("transposed", "nearest")
    }
    line = rng.normal(size=(2, 2, 8))
    inside = "UNet", "ConvolutionTranspose"
    return [
        gradient_of("convolution, 2-D, all options", layers.convolution, image, flat, bias, **one),
        gradient_of(
            "convolution_transpose, 2-D, all options", layers.convolution_transpose, small, spread, bias, **two
        ),
        module_gradient("SimpleCNN", cnn, line, names=("SimpleCNN", "Convolution")),
        *(module_gradient(f"UNet, {name}", unet, line, names=inside) for name, unet in unets.items()),
    ]
