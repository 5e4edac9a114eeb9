"""Mutants of LayerNorm, RMSNorm and the norms of channels."""

from functools import partial

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive
from refnp.verify.mutants.mutant import Mistakes, family, held, shared, summed_in


def standardized(
    x,
    axes,
    eps,
    *,
    centred=True,
    ddof=0,
    own_eps=None,
    place="inside",
    root=True,
    one_pass=False,
    constant="",
    sum_bits=None,
):
    """x̂ = (x − μ)/√(σ² + ε) over `axes`."""
    eps = eps if own_eps is None else own_eps
    count = int(np.prod([x.shape[a] for a in axes]))
    if sum_bits is None:
        mean_of = lambda a: ag.mean(a, axes, keepdims=True)
    else:
        mean_of = lambda a: summed_in(a, axes, bits=sum_bits) / count
    mean = mean_of(x) if centred else 0.0
    away = x - (held(mean) if "mean" in constant else mean)
    if one_pass:
        variance = mean_of(x * x) - mean * mean
        variance = variance if one_pass == "below 0 too" else ag.maximum(variance, 0.0)
    else:
        variance = mean_of(away * away) * (count / max(count - ddof, 1))
    variance = held(variance) if "deviation" in constant else variance
    if not root:
        return away / (variance + eps)
    if place == "outside":
        return away / (root_of(variance) + eps)
    if eps == 0:
        return away / root_of(variance)
    return away / ag.sqrt(ag.maximum(variance, eps) if place == "least" else variance + eps)


@primitive
def root_of(x):
    """y = √x.   VJP: x̄ = ȳ/(2y) as it stands, NaN where both are 0, as automatic differentiation has it."""
    y = np.sqrt(x)

    def vjp(y_bar):
        with np.errstate(all="ignore"):
            return (y_bar / (2 * y),)

    return y, vjp


def affine(unit, gain, shift, *, scaled="γ", shifted=True, gradient="sum"):
    """γ x̂ + β."""
    gain, shift = (None if p is None else shared(p, unit.shape, gradient) for p in (gain, shift))
    shift = shift if shifted else None
    if scaled == "after":
        return (unit + shift) * gain
    scale = {"γ": gain, "no": 1.0, "1 + γ": gain + 1.0}[scaled]
    return unit * scale if shift is None else unit * scale + shift


AFFINE = ("scaled", "shifted", "gradient")


def parted(switches):
    """Those of `affine`, and those of `standardized`."""
    return {k: v for k, v in switches.items() if k in AFFINE}, {k: v for k, v in switches.items() if k not in AFFINE}


def folded_into(x, scale, shift, mean):
    """γ x̂ + β as x s + (β − μ s), s = γ/σ."""
    return x * scale + (shift - mean * scale)


def with_folded(x, gain, shift, axes, eps):
    """The same by the mean and the deviation of x."""
    mean = ag.mean(x, axes, keepdims=True)
    away = x - mean
    return folded_into(x, gain / ag.sqrt(ag.mean(away * away, axes, keepdims=True) + eps), shift, mean)


def layer_norm(x, gain, shift, *, eps=1e-5, over="features", folded=False, **switches):
    """γ x̂ + β over the last axis."""
    of_affine, of_unit = parted(switches)
    axes = {"features": (x.ndim - 1,), "rows": (0,), "all": tuple(range(x.ndim)), "item": tuple(range(1, x.ndim))}[over]
    if folded:
        return with_folded(x, gain, shift, axes, eps)
    return affine(standardized(x, axes, eps, **of_unit), gain, shift, **of_affine)


def rms_norm(x, gain, *, eps=1e-5, centred=False, **switches):
    """γ x/√(mean x² + ε) over the last axis."""
    return layer_norm(x, gain, None, eps=eps, centred=centred, **switches)


def of_channels(x, gain, shift, *, over, eps=1e-5, groups=None, own_groups=None, mixed=False, folded=False, **switches):
    """γ_c x̂ + β_c of x (B, C, *lengths): over "places", "batch and places", or "groups" of channels and all places."""
    of_affine, of_unit = parted(switches)
    per_channel = [ag.reshape(p, (-1, *[1] * (x.ndim - 2))) for p in (gain, shift)]
    places = tuple(range(2, x.ndim))
    if over != "groups":
        axes = {"places": places, "batch and places": (0, *places), "channels": (1,), "item": (1, *places)}[over]
        if folded:
            return with_folded(x, per_channel[0], per_channel[1], axes, eps)
        return affine(standardized(x, axes, eps, **of_unit), *per_channel, **of_affine)
    groups = {"one": 1, "channels": x.shape[1]}.get(own_groups, groups)
    order = np.arange(x.shape[1])
    if mixed:  # channel c belongs to group c mod G
        order = order.reshape(-1, groups).T.reshape(-1)
    rows = ag.reshape(ag.take(x, order, 1), (x.shape[0], groups, -1))
    unit = ag.reshape(standardized(rows, (2,), eps, **of_unit), x.shape)
    return affine(ag.take(unit, np.argsort(order), 1), *per_channel, **of_affine)


def of_statistics(x, gain, shift, mean, variance, *, eps=1e-5, own_eps=None, given="variance", batch=False, **switches):
    """γ_c (x − μ_c)/√(σ²_c + ε) + β_c with statistics that are given."""
    of_affine, _ = parted(switches)
    wide = lambda p: ag.reshape(p, (-1, *[1] * (x.ndim - 2)))
    if batch:
        return of_channels(x, gain, shift, over="batch and places", eps=eps, **switches)
    eps = eps if own_eps is None else own_eps
    if given == "folded":
        return folded_into(x, wide(gain) / ag.sqrt(wide(variance) + eps), wide(shift), wide(mean))
    deviation = {
        "variance": lambda v: ag.sqrt(v + eps),
        "deviation": lambda v: v + eps,
        "outside": lambda v: ag.sqrt(v) + eps,
    }
    return affine((x - wide(mean)) / deviation[given](wide(variance)), wide(gain), wide(shift), **of_affine)


EPSILON: Mistakes = {
    "ε were 0": {"own_eps": 0.0},
    "ε were 1e-12": {"own_eps": 1e-12},
    "ε were 1e-8": {"own_eps": 1e-8},
    "ε were 1e-6": {"own_eps": 1e-6},
    "ε were 1e-5, whatever is asked for": {"own_eps": 1e-5},
    "ε were 1e-3": {"own_eps": 1e-3},
}
SIZE: Mistakes = {
    "ε stood outside the root": {"place": "outside"},
    "the variance were at least ε, and not ε added to it": {"place": "least"},
    "the root were left out, and x − μ divided by the variance": {"root": False},
    **EPSILON,
}
AFFINITY: Mistakes = {
    "the gain were left out": {"scaled": "no"},
    "the gain were 1 + γ": {"scaled": "1 + γ"},
    "the gradient of gain and shift were averaged over rows, not summed": {"gradient": "mean"},
    "the gradient of gain and shift were that of the last row alone": {"gradient": "last"},
}
SHIFT: Mistakes = {
    "the shift were left out": {"shifted": False},
    "the gain multiplied the shift too, γ (x̂ + β)": {"scaled": "after"},
}
STATISTICS: Mistakes = {
    "the variance were divided by n − 1": {"ddof": 1},
    "the deviation were a constant in the gradient": {"constant": "deviation"},
}
CENTRE: Mistakes = {
    "the mean were not subtracted": {"centred": False},
    "the mean were a constant in the gradient": {"constant": "mean"},
    "mean and deviation were constants in the gradient": {"constant": "mean and deviation"},
}
CENTRED: Mistakes = {"the mean were subtracted": {"centred": True}}
ONE_PASS: Mistakes = {
    "the variance were taken in one pass, E[x²] − E[x]²": {"one_pass": "below 0 too"},
    "the variance were taken in one pass, E[x²] − E[x]², and 0 where that is below 0": {"one_pass": True},
}
FOLDED: Mistakes = {"x γ/σ + (β − μ γ/σ) were formed, which cancels": {"folded": True}}
IN_BFLOAT16: Mistakes = {"means were added up in bfloat16": {"sum_bits": 8}}
OTHER_AXES: Mistakes = {
    "statistics were taken over the first axis": {"over": "rows"},
    "statistics were taken over the whole array": {"over": "all"},
}
OVER_ITEMS: Mistakes = {"statistics were taken over all but the first axis": {"over": "item"}}
CHANNELS: Mistakes = SIZE | AFFINITY | SHIFT | STATISTICS | CENTRE
OF_CHANNELS: dict[str, Mistakes] = {
    "group_norm": {
        "there were one group": {"own_groups": "one"},
        "every channel were a group": {"own_groups": "channels"},
        "channel c belonged to group c mod G": {"mixed": True},
    },
    "instance_norm": {
        "statistics were taken over the batch too": {"over": "batch and places"},
        "statistics were taken over the channels too": {"over": "item"},
    },
    "batch_norm": {
        "statistics were taken for each item": {"over": "places"},
        "statistics were taken over the channels": {"over": "channels"},
    },
}
GIVEN: Mistakes = {
    "ε stood outside the root": {"given": "outside"},
    "the variance were taken for the deviation": {"given": "deviation"},
    "the statistics of the batch were taken, not those given": {"batch": True},
}
TEMPLATES = {
    "group_norm": partial(of_channels, over="groups"),
    "instance_norm": partial(of_channels, over="places"),
    "batch_norm": partial(of_channels, over="batch and places"),
}
MUTANTS = [
    *family(
        layer_norm,
        ("layer_norm",),
        SIZE | AFFINITY | SHIFT | STATISTICS | CENTRE | OTHER_AXES | OVER_ITEMS,
        narrow=ONE_PASS | FOLDED | IN_BFLOAT16,
    ),
    *family(
        rms_norm,
        ("rms_norm",),
        SIZE | AFFINITY | STATISTICS | OTHER_AXES | CENTRED,
        narrow=IN_BFLOAT16,
    ),
    *(
        m
        for name, template in TEMPLATES.items()
        for m in family(
            template,
            (name,),
            CHANNELS | OF_CHANNELS[name],
            narrow=ONE_PASS | ({} if name == "group_norm" else FOLDED),
        )
    ),
    *family(
        of_statistics,
        ("batch_norm of statistics",),
        GIVEN | EPSILON | AFFINITY | SHIFT,
        narrow={says: {"given": "folded"} for says in FOLDED},
    ),
]
