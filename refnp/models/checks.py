"""What is checked before a neural process computes anything, and what is hidden set apart."""

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.numbers.duals import as_array
from refnp.numbers.kinds import is_kind
from refnp.numbers.words import full

DEVIATIONS = ("softplus", "exp", "softplus_variance")


def present(mask: np.ndarray, x: Array | Tensor) -> Array | Tensor:
    """x (B, N, D) with 0 wherever the mask (B, N) is False: what is hidden, NaN included, reaches no arithmetic."""
    return x if not is_kind(mask) and mask.all() else ag.where(mask[..., None], x, 0.0)


def check_presence(name: str, argument: str, mask: ArrayLike | None, shape: tuple[int, ...]) -> np.ndarray:
    """The mask (B, N), all True for None; TypeError unless boolean, ValueError unless of just that shape."""
    if mask is None:
        return full(shape, True)
    given: Any = as_array(mask)
    if given.dtype != bool:
        raise TypeError(f"{name}: {argument} is {given.dtype}; pass booleans, True = present")
    if given.shape != shape:
        raise ValueError(f"{name}: {argument} has shape {given.shape}; it must be {shape}, one for each point")
    return given


def check_finite(name: str, argument: str, x: Array | Tensor) -> None:
    """ValueError that says where x holds NaN or infinity, as unknown numbers are taken not to."""
    if is_kind(raw(x)):
        return
    wrong = ~np.isfinite(raw(x))
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: {argument} holds {raw(x)[place]} at {list(place)}; hide what is missing with a mask")


def check_floor(name: str, floor: float, argument: str = "floor") -> None:
    """ValueError unless the least standard deviation lies in [0, 1)."""
    if not 0 <= floor < 1:
        raise ValueError(f"{name}: {argument} is {floor}; it must lie in [0, 1)")


def check_deviation(name: str, deviation: str, allowed: tuple[str, ...] = DEVIATIONS) -> None:
    """ValueError unless the name is one of those that say how σ is made."""
    if deviation not in allowed:
        raise ValueError(f"{name}: deviation is {deviation!r}; use one of {', '.join(allowed)}")


def check_flagged(name: str, flagged: str) -> None:
    """ValueError unless the tokens that have a flag of 1 are those of the context or of the targets."""
    if flagged not in ("context", "targets"):
        raise ValueError(f"{name}: flagged is {flagged!r}; use 'context' or 'targets'")


def check_positive_counts(name: str, **counts: int) -> None:
    """ValueError that names the first of the counts, of layers, samples or the like, that is less than 1."""
    for argument, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}: {argument} is {count}; at least 1 is needed")


def check_points(name: str, argument: str, array: Array | Tensor, points: str, features: int) -> None:
    """ValueError unless the array has the shape (B, points, features)."""
    if array.ndim != 3 or array.shape[-1] != features:
        raise ValueError(f"{name}: {argument} has shape {array.shape}; it must be (B, {points}, {features})")
