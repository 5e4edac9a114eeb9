"""Other conventions of arrays: masks that mean something else, axes in another order; there, and back for gradients.

LAYOUTS["BNHD"](case, ndims)        {argument: Turn}: how the arrays of a case are turned round, and what comes back
in_convention(mask, "additive", …)  refnp's mask, True = may attend, as numbers that are added to scores
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refnp.autograd.errors import closest, shown
from refnp.numbers.arrays import sum_to
from refnp.verify.case import Case

MASKS = ("true_may_attend", "true_is_hidden", "additive")


@dataclass(frozen=True)
class Turn:
    """An array in another convention: `there`, and `back` for what comes in that convention, values and gradients."""

    there: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]


AS_IT_IS = Turn(lambda x: x, lambda x: x)


def transposed(*axes: int) -> Turn:
    """The axes in this order."""
    return Turn(lambda x: x.transpose(axes), lambda x: x.transpose(np.argsort(axes)) if x.ndim == len(axes) else x)


def four_axes(ndim: int, *, heads_first: bool) -> Turn:
    """(…, N, d) of `ndim` axes as (B, H, N, d), or as (B, N, H, d), with axes of length 1 in front."""

    def there(x: np.ndarray) -> np.ndarray:
        x = x.reshape((1,) * (4 - x.ndim) + x.shape)
        return x if heads_first else x.swapaxes(1, 2)

    def back(x: np.ndarray) -> np.ndarray:
        x = x if heads_first or x.ndim != 4 else x.swapaxes(1, 2)
        while x.ndim > ndim and x.shape[0] == 1:
            x = x[0]
        return x

    return Turn(there, back)


ATTENDING = (
    "attention",
    "grouped_attention",
    "softcap_attention",
    "softcap_attention_output",
    "window_attention",
    "causal_attention",
    "scaled_attention",
    "sink_attention",
    "dropout_attention",
    "decoding_attention",
)
OF_CHANNELS = (
    "convolution", "convolution_transpose", "average_pool", "max_pool", "adaptive_average_pool", "adaptive_max_pool",
    "upsample", "group_norm", "instance_norm", "batch_norm", "batch_norm of statistics",
)  # fmt: skip
OF_TOKENS = ("query", "key", "value", "cached_key", "cached_value", "x", "memory", "source", "target")


def heads_layout(case: Case, ndims: Mapping[str, int], *, heads_first: bool) -> dict[str, Turn]:
    """Query, key, value and output with the heads where they are asked for; bias and mask (B, H, N, M)."""
    if case.layer.name not in (*ATTENDING, "linear_attention"):
        return {}
    turns = {name: four_axes(ndims[name], heads_first=heads_first) for name in (*OF_TOKENS, "output") if name in ndims}
    return turns | {name: four_axes(ndims[name], heads_first=True) for name in ("bias", "mask") if name in ndims}


def channels_last(case: Case, ndims: Mapping[str, int]) -> dict[str, Turn]:
    """x and the output as (B, *lengths, C)."""
    if case.layer.name not in OF_CHANNELS:
        return {}
    ndim = ndims["x"]
    single = "weight" in ndims and ndim < ndims["weight"]  # no axis for the batch
    front = () if single else (0,)
    channel = len(front)
    turn = transposed(*front, *range(channel + 1, ndim), channel)
    return {"x": turn, "output": turn}


def out_in(case: Case, ndims: Mapping[str, int]) -> dict[str, Turn]:
    """Weights of linear maps as (features out, features in)."""
    return {name: transposed(1, 0) for name, ndim in ndims.items() if "weight" in name and ndim == 2}


def kernel_first(case: Case, ndims: Mapping[str, int]) -> dict[str, Turn]:
    """Kernels as (*lengths, channels in, channels out)."""
    if case.layer.name != "convolution":
        return {}
    return {"weight": transposed(*range(2, ndims["weight"]), 1, 0)}


def sequence_first(case: Case, ndims: Mapping[str, int]) -> dict[str, Turn]:
    """Tokens (N, B, D)."""
    if case.layer.name in OF_CHANNELS:
        return {}
    names = (*OF_TOKENS, "output")
    return {name: transposed(1, 0, 2) for name in names if ndims.get(name) == 3}


Layout = Callable[[Case, Mapping[str, int]], dict[str, Turn]]
LAYOUTS: dict[str, Layout] = {
    "BHND": lambda case, ndims: heads_layout(case, ndims, heads_first=True),
    "BNHD": lambda case, ndims: heads_layout(case, ndims, heads_first=False),
    "NBD": sequence_first,
    "channels_last": channels_last,
    "out_in": out_in,
    "HWIO": kernel_first,
}


def turns_of(layouts: Sequence[str | Layout], case: Case, ndims: Mapping[str, int]) -> dict[str, Turn]:
    """How the arrays of a case are turned round by several layouts, names of `LAYOUTS` or layouts themselves."""
    found: dict[str, Turn] = {}
    for layout in layouts:
        found |= (LAYOUTS[layout] if isinstance(layout, str) else layout)(case, ndims)
    return found


def chosen_layouts(layout: str | Sequence[str] | None, cases: Sequence[Case]) -> tuple[str, ...]:
    """The names of layouts; ValueError for one that does not exist, or changes nothing of the cases."""
    if not isinstance(layout, str | Sequence | None):
        raise ValueError(f"layout={shown(layout)} is no name of a layout; there are {', '.join(LAYOUTS)}")
    names = () if layout is None else (layout,) if isinstance(layout, str) else tuple(layout)
    for name in names:
        if name not in LAYOUTS:
            raise ValueError(f"layout={name!r}: there is no such layout{closest(name, LAYOUTS)}")
        if not any(changes(name, case) for case in cases):
            there = ", ".join(other for other in LAYOUTS if any(changes(other, case) for case in cases))
            raise ValueError(f"layout={name!r} changes nothing of {cases[0].layer.name}; name {there or 'none'}")
    for one, other in itertools.combinations(dict.fromkeys(names), 2):
        if both := next(filter(None, (turned_by(one, case) & turned_by(other, case) for case in cases)), None):
            raise ValueError(f"layout={names!r}: {one} and {other} both say how {min(both)} lies; name one of them")
    return names


def turned_by(layout: str, case: Case) -> set[str]:
    """The arrays of a case that a layout turns round."""
    return {*LAYOUTS[layout](case, {name: array.ndim for name, array in case.problem("float64").arrays.items()})}


def changes(layout: str, case: Case) -> bool:
    """Whether a layout changes anything of a case."""
    return bool(turned_by(layout, case))


def chosen_mask(mask: str | None, cases: Sequence[Case]) -> str:
    """The convention of masks; ValueError for one that does not exist, or where there are no masks."""
    if mask is None:
        return MASKS[0]
    if mask not in MASKS:
        raise ValueError(f"mask={mask!r}: there is no such convention{closest(mask, MASKS)}")
    if not any(name.endswith("mask") for case in cases for name in case.options):
        raise ValueError(f"mask={mask!r}: {cases[0].layer.name} has no mask; leave it out")
    return mask


def in_convention(mask: np.ndarray, convention: str, dtype: str) -> np.ndarray:
    """refnp's mask, True = may attend, in another convention."""
    if convention == "true_is_hidden":
        return ~mask
    return np.where(mask, 0, -np.inf).astype(dtype) if convention == "additive" else mask


def joined(turn: Turn, bias: np.ndarray, mask: np.ndarray | None) -> Turn:
    """A bias and a mask as one array that is added to the scores; the gradient is that of the bias."""
    allowed = np.asarray(True if mask is None else mask)

    def back(g: np.ndarray) -> np.ndarray:
        return sum_to(np.where(allowed, turn.back(g), 0).astype(g.dtype), bias.shape)

    return Turn(lambda b: turn.there(np.where(allowed, b, -np.inf).astype(b.dtype)), back)
