"""Numbers that are moved, repeated, left out or rounded to whole ones: what is exact, and easily one place off.

For `refnp.judge` alone.
"""

from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.numbers.duals import as_array
from refnp.numbers.rounding import Rounded, constant
from refnp.verify.case import Case, Layer, NotOfferedError, normal
from refnp.verify.judged_pages import of_tape
from refnp.verify.layers import sixteen_bits

IN_NUMPY: dict[str, Any] = {"zeros": "constant", "circular": "wrap", "reflect": "reflect", "replicate": "edge"}


def pad(x, *, widths, mode="zeros"):
    """x made longer at the ends of its axes, by `widths`: zeros, a ring, a mirror or the last number again."""
    return ad.pad(x, widths, mode=mode)


def roll(x, *, shift, axis=-1):
    """y_{i+s} = x_i along one axis, which is a ring."""
    return ad.roll(x, shift, axis)


def flip(x, *, axis=-1):
    """y = x read backwards along one axis."""
    return ad.flip(x, axis)


def take(x, *, indices, axis=0):
    """y = x at integer `indices` along one axis."""
    return ad.take(x, as_array(indices), axis)


def concatenate(x, y, *, axis=-1):
    """z = x, then y, along one axis."""
    return ad.concatenate([x, y], axis)


def floor(x):
    """y = ⌊x⌋."""
    return Rounded(np.floor(x.value), 0, 0, x.arithmetic), None


def whole(x, *, decimals=0):
    """y = x rounded to so many decimals, halves to even."""
    y = np.round(x.value, decimals)
    return (constant(y) if decimals else Rounded(y, 0, 0, x.arithmetic)), None


def round_to(x, *, decimals=0):
    """refnp's round."""
    return ad.round(x, decimals)


def torch_pad(torch, x, *, widths, mode="zeros"):
    """From the last axis on, in pairs."""
    if mode != "zeros":
        raise NotOfferedError("PyTorch: the other modes pad axes of space alone")
    return torch.nn.functional.pad(x, [n for pair in reversed(widths) for n in pair])


PAD = of_tape(
    pad, torch=torch_pad, jax=lambda jax, x, *, widths, mode="zeros": jax.numpy.pad(x, widths, IN_NUMPY[mode])
)
ROLL = of_tape(
    roll,
    torch=lambda torch, x, *, shift, axis=-1: torch.roll(x, shift, axis),
    jax=lambda jax, x, *, shift, axis=-1: jax.numpy.roll(x, shift, axis),
)
FLIP = of_tape(
    flip,
    torch=lambda torch, x, *, axis=-1: torch.flip(x, (axis,)),
    jax=lambda jax, x, *, axis=-1: jax.numpy.flip(x, axis),
)
TAKE = of_tape(
    take,
    torch=lambda torch, x, *, indices, axis=0: torch.index_select(x, axis, torch.tensor(indices) % x.shape[axis]),
    jax=lambda jax, x, *, indices, axis=0: jax.numpy.take(x, np.array(indices), axis),
    shapes={
        "usual": "x (N, D); indices whole < N (M)",
        "along the last axis": "x (D, N); indices whole < N (M), axis = -1",
    },
)
CONCATENATE = of_tape(
    concatenate,
    torch=lambda torch, x, y, *, axis=-1: torch.cat([x, y], axis),
    jax=lambda jax, x, y, *, axis=-1: jax.numpy.concatenate([x, y], axis),
)
FLOOR = Layer("floor", ad.floor, floor, torch="floor", jax="numpy.floor", known=sixteen_bits.FLOOR)
ROUND = Layer(
    "round",
    round_to,
    whole,
    torch=lambda torch, x, *, decimals=0: torch.round(x, decimals=decimals),
    jax=lambda jax, x, *, decimals=0: jax.numpy.round(x, decimals),
)


def cases() -> list[Case]:
    """Every mode and axis; whole numbers, halves, and what is just beside them."""
    x, widths = {"x": normal(3, 5)}, ((1, 0), (2, 3))
    halves = {"x": np.array([-2.5, -1.5, -1.0, -0.5, -0.25, 0.0, 0.5, 1.5, 2.5, 3.0, 4.75])}
    columns = np.array([4, 0, -1, 0])
    return [
        *(Case(PAD, mode, x, {"widths": widths, "mode": mode}) for mode in IN_NUMPY),
        Case(ROLL, "two to the right", x, {"shift": 2}),
        Case(ROLL, "one up", x, {"shift": -1, "axis": 0}),
        Case(FLIP, "last axis", x),
        Case(FLIP, "first axis", x, {"axis": 0}),
        Case(TAKE, "rows, one twice", x, {"indices": np.array([2, 0, 2])}),
        Case(TAKE, "columns, from the end too", x, {"indices": columns, "axis": 1}),
        Case(CONCATENATE, "last axis", x | {"y": normal(3, 2)}),
        Case(CONCATENATE, "first axis", x | {"y": normal(1, 5)}, {"axis": 0}),
        *(Case(layer, "halves and whole numbers", halves, gradients=()) for layer in (FLOOR, ROUND)),
        *(Case(layer, "ordinary", {"x": normal(4, 5, scale=10)}, gradients=()) for layer in (FLOOR, ROUND)),
    ]
