"""Mutants of convolution and its transpose: kernels, padding, groups."""

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd import primitive
from refnp.verify.layers.convolution import per_axis, same
from refnp.verify.mutants.mutant import Mistakes, family, rounded_to, shared, through

NUMPY_MODES = {"zeros": "constant", "circular": "wrap", "reflect": "reflect", "replicate": "edge"}


@primitive
def nearest(x, *, bits):
    """x with fewer bits of mantissa.   VJP: x̄ = ȳ, as if nothing had been rounded."""
    return rounded_to(x, bits), lambda g: (g,)


def padded_as(x, edges, mode, taps):
    """x with its edges, by the mode of numpy.pad, also one that refnp has not."""
    for axis, (before, after) in enumerate(edges, x.ndim - taps):
        places = np.pad(np.arange(x.shape[axis]), (before, after), mode=mode)
        x = ag.take(x, places, axis)
    return x


def pairs_of(padding, weight, dilation, *, larger_half="after"):
    """Padding as a pair for each axis."""
    axes = weight.ndim - 2
    if padding == "same":
        pairs = same(weight.shape[2:], per_axis(dilation, axes))
        return [pair[::-1] for pair in pairs] if larger_half == "before" else pairs
    return [p if isinstance(p, tuple) else (p, p) for p in per_axis(0 if padding == "valid" else padding, axes)]


def convolution(
    x,
    weight,
    bias=None,
    *,
    stride=1,
    dilation=1,
    groups=1,
    padding=0,
    padding_mode="zeros",
    flipped=False,
    turned=False,
    modes=None,
    larger_half="after",
    exchanged=False,
    dealt=False,
    biased=True,
    gradient="sum",
    of_batch="sum",
    bits=None,
):
    """y_o[p] = Σ_{c,t} w_oc[t] x_c[p s + t d − a] + b_o."""
    x, weight = mistaken(x, weight, groups if dealt else 1, flipped=flipped, turned=turned, bits=bits)
    if of_batch == "mean" and x.ndim == weight.ndim:
        count = x.shape[0]
        weight = through(weight, bar=lambda g: g / count)
    edges = pairs_of(padding, weight, dilation, larger_half=larger_half)
    edges = [pair[::-1] for pair in edges] if exchanged else edges
    other = (modes or {}).get(padding_mode)
    options = {"stride": stride, "dilation": dilation, "groups": groups}
    if other and other != "constant":
        y = layers.convolution(padded_as(x, edges, other, weight.ndim - 2), weight, **options)
    else:
        mode = "zeros" if other else padding_mode
        y = layers.convolution(x, weight, padding=edges, padding_mode=mode, **options)
    return with_bias(y, bias if biased else None, weight.ndim - 2, gradient, bits)


def convolution_transpose(
    x,
    weight,
    bias=None,
    *,
    stride=1,
    dilation=1,
    groups=1,
    padding=0,
    output_padding=0,
    flipped=False,
    dealt=False,
    biased=True,
    gradient="sum",
    at_front=False,
    bits=None,
):
    """y_o[i] = Σ w_co[t] x_c[p] over the p and t with i = p s + t d − a, plus b_o."""
    x, weight = mistaken(x, weight, groups if dealt else 1, flipped=flipped, bits=bits)
    axes = weight.ndim - 2
    options = {"stride": stride, "dilation": dilation, "groups": groups, "output_padding": output_padding}
    if at_front:
        padding = [(a - e, a + e) for a, e in zip(per_axis(padding, axes), per_axis(output_padding, axes), strict=True)]
    y = layers.convolution_transpose(x, weight, padding=padding, **options)
    return with_bias(y, bias if biased else None, axes, gradient, bits)


def mistaken(x, weight, groups, *, flipped, turned=False, bits=None):
    """x with channel c in group c mod G, and the kernel reversed along its axes of space, or with these exchanged."""
    space, channels = tuple(range(2, weight.ndim)), x.ndim - weight.ndim + 1
    weight = ag.flip(weight, space) if flipped else weight
    weight = ag.transpose(weight, (0, 1, *space[::-1])) if turned else weight
    if groups > 1:
        x = ag.take(x, np.arange(x.shape[channels]).reshape(-1, groups).T.reshape(-1), channels)
    return (x, weight) if bits is None else (nearest(x, bits=bits), nearest(weight, bits=bits))


def with_bias(y, bias, axes, gradient, bits):
    """y plus one number for each channel."""
    if bits is not None:
        y = through(y, bar=lambda g: rounded_to(g, bits))
    return y if bias is None else y + shared(ag.reshape(bias, (-1, *[1] * axes)), y.shape, gradient)


KERNELS: Mistakes = {
    "the kernel were flipped": {"flipped": True},
    "channel c belonged to group c mod G": {"dealt": True},
    "the bias were left out": {"biased": False},
    "the gradient of the bias were averaged, not summed": {"gradient": "mean"},
    "the gradient of the bias were that of the last place of the last item alone": {"gradient": "last"},
}
PADDING: Mistakes = {
    "the axes of the kernel were exchanged": {"turned": True},
    "padding were zeros, whatever is asked for": {"modes": dict.fromkeys(NUMPY_MODES, "constant")},
    "reflection repeated the edge": {"modes": {"reflect": "symmetric"}},
    "the edge were repeated, and not reflected": {"modes": {"reflect": "edge"}},
    "x were reflected, and the edge not repeated": {"modes": {"replicate": "reflect"}},
    "the edge were repeated, and x not continued from its other end": {"modes": {"circular": "edge"}},
    "the larger half of the padding came before x": {"larger_half": "before"},
    "the padding before and after x were exchanged": {"exchanged": True},
    "the gradient of the weight were averaged over the batch": {"of_batch": "mean"},
}
ENDS: Mistakes = {"what output_padding adds came first": {"at_front": True}}
IN_TF32: Mistakes = {
    "products were taken in TF32": {"bits": 11},
    "products were taken of bfloat16": {"bits": 8},
}
MUTANTS = [
    *family(convolution, ("convolution",), KERNELS | PADDING, narrow=IN_TF32),
    *family(convolution_transpose, ("convolution_transpose",), KERNELS | ENDS, narrow=IN_TF32),
]
