"""Cases of convolution and transposed convolution, in one, two and three dimensions."""

from __future__ import annotations

from refnp.layers.convolutions import convolution, convolution_transpose
from refnp.verify.case import Case, Layer, normal
from refnp.verify.equations import convolution as equations

CONVOLUTION = Layer("convolution", convolution, equations.convolution)
TRANSPOSED = Layer("convolution_transpose", convolution_transpose, equations.convolution_transpose)


def cases() -> list[Case]:
    """All cases of this page."""
    return [*plain(), *transposed()]


def plain() -> list[Case]:
    """Convolutions: strides, dilations, groups, every padding, in one to three dimensions."""

    def case(variant, lengths, kernel, *, batch=2, ins=3, outs=4, groups=1, bias=True, shift=0.0, **options):
        inputs = {"x": normal(batch, ins, *lengths, shift=shift), "weight": normal(outs, ins // groups, *kernel)}
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
    ]


def transposed() -> list[Case]:
    """Transposed convolutions: strides, dilations, groups, output padding."""

    def case(variant, lengths, kernel, *, batch=2, ins=3, outs=4, groups=1, **options):
        inputs = {
            "x": normal(batch, ins, *lengths),
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
    ]
