"""A task: what is known of some functions, and where their values are asked for.

Meta-learning trains on data sets of data sets. One task is one function seen at a few places, its context set
{(x_c, y_c)}, and asked about at others, its target set {(x_t, y_t)}. A `Task` is a batch of B of them. Sets in a batch
may have different sizes: the arrays are as long as the longest, and a mask says what is present. A set may be empty.
Source: Sivaraya (2023) §2.1; Garnelo et al. (2018), Conditional Neural Processes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.autograd.blocks import floating

SETS = ("context", "target")


@dataclass(frozen=True, eq=False)
class Task:
    """A batch of tasks: contexts (x, y), targets (x, y), and which of them are present.

    Shapes: context_x (B, C, dx), context_y (B, C, dy), target_x (B, T, dx), target_y (B, T, dy), masks (B, C) and
    (B, T) booleans, True = present; None = all are. C and T may be 0. Integers become float64.
    What a mask hides may be anything, NaN too; the samplers put zeros there.
    Raises TypeError for arrays that are not numbers of one type, or masks that are not boolean; ValueError for shapes
    that disagree, or for NaN or infinity where a point is present.
    """

    context_x: np.ndarray
    context_y: np.ndarray
    target_x: np.ndarray
    target_y: np.ndarray
    context_mask: np.ndarray | None = None
    target_mask: np.ndarray | None = None

    def __post_init__(self):
        arrays = {f"{kind}_{axis}": floating(getattr(self, f"{kind}_{axis}")) for kind in SETS for axis in "xy"}
        for name, array in arrays.items():
            object.__setattr__(self, name, array)
        _check_arrays(arrays)
        for kind in SETS:
            x, y, mask = (getattr(self, f"{kind}_{part}") for part in ("x", "y", "mask"))
            if mask is not None:
                mask = np.asarray(mask)
                object.__setattr__(self, f"{kind}_mask", mask)
            _check_set(kind, x, y, mask)

    @property
    def dtype(self) -> np.dtype:
        """The type of all four arrays."""
        return self.context_x.dtype

    @property
    def batch(self) -> int:
        """B, how many tasks."""
        return len(self.context_x)

    @property
    def context_present(self) -> np.ndarray:
        """(B, C) booleans: the context mask, all True if there is none."""
        return _present(self.context_x, self.context_mask)

    @property
    def target_present(self) -> np.ndarray:
        """(B, T) booleans: the target mask, all True if there is none."""
        return _present(self.target_x, self.target_mask)

    def __getitem__(self, tasks: slice | np.ndarray) -> Task:
        """Some of the tasks, task[:4]: a slice, or integers or booleans that choose from the first axis."""
        if not isinstance(tasks, (slice, np.ndarray)):
            raise TypeError(f"Task: the index is {tasks!r}; use a slice or an array, task[i : i + 1] for one task")
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(self, **{name: part[tasks] for name, part in parts.items() if part is not None})

    def astype(self, dtype: Any) -> Task:
        """The same tasks in another floating type; what does not fit into it is an error where it is present."""
        with np.errstate(over="ignore"):
            arrays = {f"{kind}_{axis}": getattr(self, f"{kind}_{axis}").astype(dtype) for kind in SETS for axis in "xy"}
        return replace(self, **arrays)

    def shifted(self, by: Any) -> Task:
        """The same functions elsewhere: x + by for contexts and targets. `by` is one number or (dx,).

        Raises ValueError for another shape, or where x + by is not finite.
        """
        by = np.asarray(by).astype(self.dtype)
        dx = self.context_x.shape[-1]
        if by.shape not in ((), (dx,)):
            raise ValueError(f"Task.shifted: by has shape {by.shape}; it must be one number or ({dx},)")
        return replace(self, context_x=self.context_x + by, target_x=self.target_x + by)


def padded(sets: list[np.ndarray], length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Sets of different sizes side by side: a list of B arrays (N_b, D) → (B, N, D), zeros at the end, and mask (B, N).

    N is the largest N_b, or `length`. Raises ValueError for no sets, for sets that are not (N_b, D) with one D, or for
    more than `length` points.
    """
    sets = [floating(points) for points in sets]
    if not sets:
        raise ValueError("padded: there are no sets; pass at least one (N, D)")
    shapes = [points.shape for points in sets]
    if any(len(shape) != 2 or shape[1] != shapes[0][-1] for shape in shapes):
        raise ValueError(f"padded: sets have shapes {shapes}; each must be (N, D), with one D for all")
    counts = np.array([len(points) for points in sets])
    length = int(counts.max()) if length is None else length
    if counts.max() > length:
        raise ValueError(f"padded: a set has {counts.max()} points, more than length {length}")
    mask = np.arange(length) < counts[:, None]  # (B, N)
    arrays = np.zeros((len(sets), length, shapes[0][1]), np.result_type(*sets))
    for array, points in zip(arrays, sets, strict=True):
        array[: len(points)] = points
    return arrays, mask


def _check_arrays(arrays: dict[str, np.ndarray]) -> None:
    """The four arrays have one type, three axes, the same B, and dx and dy in common."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fc":
            raise TypeError(f"Task: {name} is {array.dtype}; pass numbers")
        if array.ndim != 3:
            raise ValueError(f"Task: {name} has shape {array.shape}; it must be (tasks, points, dimensions)")
    types = {name: str(array.dtype) for name, array in arrays.items()}
    if len(set(types.values())) > 1:
        raise TypeError(f"Task: the arrays are {types}; use one type for all (array.astype)")
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"Task: the arrays hold {sizes} tasks; the first axis of all must be the same")
    for axis in "xy":
        context, target = arrays[f"context_{axis}"].shape[-1], arrays[f"target_{axis}"].shape[-1]
        if context != target:
            raise ValueError(
                f"Task: context_{axis} has {context} dimensions but target_{axis} has {target}; they must match"
            )
        if not context:
            raise ValueError(f"Task: context_{axis} and target_{axis} have 0 dimensions; they need at least 1")


def _check_set(kind: str, x: np.ndarray, y: np.ndarray, mask: np.ndarray | None) -> None:
    """A set has as many x as y, a mask of their shape, and finite numbers wherever the mask is True."""
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"Task: {kind}_x has {x.shape[1]} points but {kind}_y has {y.shape[1]}; they must match")
    if mask is not None and mask.dtype != bool:
        raise TypeError(f"Task: {kind}_mask is {mask.dtype}; pass booleans, True = present")
    if mask is not None and mask.shape != x.shape[:2]:
        raise ValueError(f"Task: {kind}_mask has shape {mask.shape}; {kind}_x asks for {x.shape[:2]}")
    for axis, array in (("x", x), ("y", y)):
        wrong = _present(x, mask)[..., None] & ~np.isfinite(array)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"Task: {kind}_{axis}{list(place)} is {array[place]}; where points are present, numbers must be "
                f"finite: set {kind}_mask to False where there are none"
            )


def _present(x: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    return np.ones(x.shape[:2], bool) if mask is None else mask
