"""Masks and reductions that losses and densities have in common.

In a batch of ragged sets some elements are padding. A mask says which are real: **True = counts**. The others have
value 0 and gradient 0 whatever stands there, NaN included: they are replaced before anything is computed.
"""

from typing import Any

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.numbers.arrays import broadcast_shapes, fits, floating, in_order
from refnp.numbers.duals import as_array
from refnp.numbers.kinds import is_kind
from refnp.numbers.words import full


def full_mask(name: str, mask: ArrayLike | None, shape: tuple[int, ...]) -> Array:
    """A mask as booleans of `shape`, True for None; TypeError unless boolean, ValueError unless it broadcasts."""
    if mask is None:
        return full(shape, True)
    given: Array = as_array(mask)
    if given.dtype != bool:
        raise TypeError(f"{name}: mask is {given.dtype}; pass booleans, True = counts")
    if not fits(given.shape, shape):
        raise ValueError(f"{name}: mask has shape {given.shape}; it must broadcast to {shape}")
    return np.broadcast_to(given, shape)


def broadcast_shape(name: str, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all broadcast to; ValueError naming them if they do not."""
    try:
        return broadcast_shapes(*shapes.values())
    except ValueError:
        given = ", ".join(f"{argument} {shape}" for argument, shape in shapes.items())
        raise ValueError(f"{name}: the shapes of {given} do not broadcast; make them agree") from None


def check_positive(name: str, argument: str, value: ArrayLike) -> None:
    """ValueError naming the first value whose real part is not positive and finite; unknown numbers pass."""
    if is_kind(np.real(value)):
        return
    real = np.asarray(np.real(value))
    wrong = ~((real > 0) & (real < np.inf))
    if wrong.any():
        raise ValueError(f"{name}: {argument} holds {real[wrong][0]}; it must be positive and finite")


def numbers(*values: ArrayLike) -> list:
    """Values as arrays of floating types in C order, Tensors as Tensors; Python scalars take the others' precision."""
    values = tuple(
        v if _is_ready(v) else Tensor(floating(raw(v))) if isinstance(v, Tensor) else in_order(floating(v))
        for v in values
    )
    dtype = np.result_type(0.0, *(raw(v) for v in values))
    if dtype.kind not in "fc":
        raise TypeError("some of these are no numbers")
    return [np.asarray(v, dtype) if isinstance(v, (int, float, complex)) else v for v in values]


def _is_ready(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) or (isinstance(value, Tensor) and value.dtype.kind in "fc")
