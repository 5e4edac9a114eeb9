"""A task: values of a function at some places, its context, and at others, its targets, which are to be predicted.

Meta-learning trains on data sets of data sets. One task is one function with its context set {(x_m, y_m)} and its
target set {(x_n, y_n)}. A `Task` is a batch of B of them. Sets in a batch may have different sizes: the arrays are as
long as the longest, and a mask says what is present. A set may be empty.

`Places` says how many points there are and where they lie. Sizes are drawn once for the whole batch, as published
protocols do, or for each task: then the sets are ragged. A number of a sampler is fixed (0.25), drawn for each task
from a range ((0.1, 0.6), a tuple: uniform), or given for each task (an array (B,)).
Source: Sivaraya (2023) §2.1; Garnelo et al. (2018a).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import check_generator
from refnp.numbers.arrays import floating
from refnp.numbers.duals import as_array
from refnp.numbers.kinds import is_kind

SETS = ("context", "target")


@explained
@dataclass(frozen=True, eq=False)
class Task:
    """A batch of tasks: contexts (x, y), targets (x, y), and which of them are present.

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), target_y (B, N, dy), masks (B, M) and
    (B, N) booleans, True = present; None = all are. M and N may be 0. Integers become float64.
    What a mask hides may be anything, NaN too; the samplers put zeros there.
    The four may be Tensors: `model.loss(task)` then has gradients with respect to those that require them.
    Raises TypeError for arrays that are not numbers of one type, or masks that are not boolean; ValueError for shapes
    that disagree, or for NaN or infinity where a point is present.
    """

    context_x: Any  # arrays or Tensors, both with shape, ndim, dtype and len
    context_y: Any
    target_x: Any
    target_y: Any
    context_mask: Array | None = None
    target_mask: Array | None = None

    def __post_init__(self):
        given = {f"{kind}_{axis}": getattr(self, f"{kind}_{axis}") for kind in SETS for axis in "xy"}
        arrays = {name: _in_floating_numbers(value) for name, value in given.items()}
        for name, array in arrays.items():
            object.__setattr__(self, name, array)
        _check_arrays(arrays)
        for kind in SETS:
            x, y, mask = (getattr(self, f"{kind}_{part}") for part in ("x", "y", "mask"))
            if mask is not None:
                mask = as_array(mask)
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
    def context_present(self) -> Array:
        """(B, M) booleans: the context mask, all True if there is none."""
        return _present(self.context_x, self.context_mask)

    @property
    def target_present(self) -> Array:
        """(B, N) booleans: the target mask, all True if there is none."""
        return _present(self.target_x, self.target_mask)

    def __getitem__(self, tasks: slice | Array) -> "Task":
        """Some of the tasks, task[:4]: a slice, or integers or booleans that choose from the first axis."""
        if not isinstance(tasks, (slice, Array)):
            raise TypeError(f"Task: the index is {tasks!r}; use a slice or an array, task[i : i + 1] for one task")
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(self, **{name: part[tasks] for name, part in parts.items() if part is not None})

    def astype(self, dtype: DTypeLike) -> "Task":
        """The same tasks in another floating type; what does not fit into it is an error where it is present."""
        with np.errstate(over="ignore"):
            arrays = {f"{kind}_{axis}": getattr(self, f"{kind}_{axis}").astype(dtype) for kind in SETS for axis in "xy"}
        return replace(self, **arrays)

    def shifted(self, by: ArrayLike) -> "Task":
        """The same functions elsewhere: x + by for contexts and targets. `by` is one number or (dx,).

        Raises ValueError for another shape, or where x + by is not finite.
        """
        by = np.asarray(by).astype(self.dtype)
        dx = self.context_x.shape[-1]
        if by.shape not in ((), (dx,)):
            raise ValueError(f"Task.shifted: by has shape {by.shape}; it must be one number or ({dx},)")
        return replace(self, context_x=self.context_x + by, target_x=self.target_x + by)


@dataclass(frozen=True)
class Places:
    """How many context and target points, and where: uniform between `low` and `high` of their ranges.

    context, target: bounds (low, high) of the sizes M and N, both included.
    context_range, target_range: (low, high), each a number or (dx,) numbers; the second is the first unless given.
    total: contexts are drawn first, and there are at most total − M targets.
    ragged: every task has sizes of its own.
    Raises ValueError for bounds out of order, or a `total` that leaves too few targets.
    """

    context: tuple[int, int]
    target: tuple[int, int]
    context_range: tuple[Any, Any] = (-2.0, 2.0)
    target_range: tuple[Any, Any] | None = None
    total: int | None = None
    dx: int = 1
    ragged: bool = False

    def __post_init__(self):
        check_sizes("Places", "context", self.context)
        check_sizes("Places", "target", self.target)
        if self.total is not None and self.total < self.context[1] + self.target[0]:
            raise ValueError(
                f"Places: total {self.total} leaves less than {self.target[0]} targets beside {self.context[1]} "
                "contexts; raise it, or lower the bounds"
            )
        if self.dx < 1:
            raise ValueError(f"Places: dx is {self.dx}; there must be at least one input")
        for argument in ("context_range", "target_range"):
            bounds = getattr(self, argument)
            if bounds is None:
                continue
            wrong = len(bounds) != 2 or any(np.shape(b) not in ((), (self.dx,)) for b in bounds)
            if wrong or not (np.isfinite(bounds[0]) & np.isfinite(bounds[1]) & np.less_equal(*bounds)).all():
                right = f"it must be (low, high) with low ≤ high, numbers or {self.dx} numbers"
                raise ValueError(f"Places: {argument} is {bounds}; {right}")

    def task(self, rng: np.random.Generator, batch: int, function: Callable[[Array], Array]) -> Task:
        """Tasks whose values are function(x), which gets contexts and targets together: (B, M + N, dx) → (…, dy).

        M and N are the largest sizes drawn. What masks hide is drawn too, and then replaced by 0.
        """
        contexts = drawn_sizes(rng, *self.context, batch, ragged=self.ragged)
        most = self.target[1] if self.total is None else np.minimum(self.target[1], self.total - contexts)
        targets = drawn_sizes(rng, self.target[0], most, batch, ragged=self.ragged)
        context_x = rng.uniform(*self.context_range, size=(batch, contexts.max(), self.dx))
        target_range = self.context_range if self.target_range is None else self.target_range
        target_x = rng.uniform(*target_range, size=(batch, targets.max(), self.dx))
        y = function(np.concatenate([context_x, target_x], 1))  # (B, M + N, dy)
        context_mask, target_mask = (size_mask(sizes, ragged=self.ragged) for sizes in (contexts, targets))
        context_x, context_y = zeroed(context_mask, context_x, y[:, : context_x.shape[1]])
        target_x, target_y = zeroed(target_mask, target_x, y[:, context_x.shape[1] :])
        return Task(context_x, context_y, target_x, target_y, context_mask, target_mask)


def padded(sets: list[Array], length: int | None = None) -> tuple[Array, Array]:
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
    sizes = np.array([len(points) for points in sets])
    length = int(sizes.max()) if length is None else length
    if sizes.max() > length:
        raise ValueError(f"padded: a set has {sizes.max()} points, more than length {length}")
    mask = np.arange(length) < sizes[:, None]  # (B, N)
    arrays = np.zeros((len(sets), length, shapes[0][1]), np.result_type(*sets))
    for array, points in zip(arrays, sets, strict=True):
        array[: len(points)] = points
    return arrays, mask


def _in_floating_numbers(value: Any) -> Array | Tensor:
    """A Tensor of floating numbers as it is, with its history; anything else as an array of them, or Tensor of that."""
    if not isinstance(value, Tensor):
        return floating(value)
    return value if value.dtype.kind in "fc" else Tensor(floating(value.data))


def _check_arrays(arrays: dict[str, Any]) -> None:
    """The four arrays have one type, three axes, the same B, and dx and dy in common."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fc":
            raise TypeError(f"Task: {name} is {array.dtype}; pass an array of numbers")
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


def _check_set(kind: str, x: Array | Tensor, y: Array | Tensor, mask: Array | None) -> None:
    """A set has as many x as y, a mask of their shape, and finite numbers wherever the mask is True."""
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"Task: {kind}_x has {x.shape[1]} points but {kind}_y has {y.shape[1]}; they must match")
    if mask is not None and mask.dtype != bool:
        raise TypeError(f"Task: {kind}_mask is {mask.dtype}; pass booleans, True = present")
    if mask is not None and mask.shape != x.shape[:2]:
        raise ValueError(f"Task: {kind}_mask has shape {mask.shape}; {kind}_x asks for {x.shape[:2]}")
    for axis, array in (("x", x), ("y", y)):
        values = raw(array)
        if is_kind(values):  # unknown numbers are taken to be finite
            continue
        wrong = _present(x, mask)[..., None] & ~np.isfinite(values)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"Task: {kind}_{axis}{list(place)} is {values[place]}; where points are present, numbers must be "
                f"finite: set {kind}_mask to False where there are none"
            )


def _present(x: Array | Tensor, mask: Array | None) -> Array:
    return np.ones(x.shape[:2], bool) if mask is None else mask


def check_draw(name: str, rng: Any, batch: Any) -> None:
    """What samplers are given: TypeError unless a generator and an integer, ValueError if that is less than 1."""
    check_generator(name, rng)
    if not isinstance(batch, (int, np.integer)) or isinstance(batch, bool):
        raise TypeError(f"{name}: batch is {batch!r}; pass an integer, the number of tasks")
    if batch < 1:
        raise ValueError(f"{name}: batch is {batch}; draw at least one task")


def check_hyper_parameter(name: str, argument: str, value: ArrayLike, *, at_least: float | None = None) -> None:
    """ValueError unless a number, a range (low, high) or an array (B,) is finite and positive, or ≥ `at_least`."""
    values = np.asarray(value)
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        raise ValueError(f"{name}: {argument} is {value!r}; pass a number, a range (low, high), or an array (B,)")
    allowed = values > 0 if at_least is None else values >= at_least
    if not (allowed & np.isfinite(values)).all():
        sign = {None: "positive and ", -math.inf: ""}.get(at_least, f"at least {at_least} and ")
        raise ValueError(f"{name}: {argument} is {value}; it must be {sign}finite")
    if isinstance(value, tuple) and (len(value) != 2 or value[0] > value[1]):
        raise ValueError(f"{name}: {argument} is {value}; a range is (low, high) with low ≤ high")


def drawn_number(rng: np.random.Generator, value: float | tuple[float, float] | Array, batch: int) -> float | Array:
    """A range (low, high) becomes `batch` numbers, uniform in it; anything else stays as it is."""
    if not isinstance(value, tuple):
        return value
    low, high = value
    return rng.uniform(low, high, size=batch)


def check_sizes(name: str, argument: str, bounds: tuple[int, int]) -> None:
    """ValueError unless `bounds` are two integers, 0 ≤ low ≤ high."""
    if len(bounds) != 2 or not all(isinstance(n, (int, np.integer)) for n in bounds) or not 0 <= bounds[0] <= bounds[1]:
        raise ValueError(f"{name}: {argument} is {bounds}; it must be (low, high), integers with 0 ≤ low ≤ high")


def drawn_sizes(rng: np.random.Generator, low: int, high: int | Array, batch: int, *, ragged: bool) -> Array:
    """(B,) integers from low to high, a number or (B,): one for each task if `ragged`, else one for all."""
    if ragged:
        return rng.integers(low, high, size=batch, endpoint=True)
    return np.full(batch, rng.integers(low, np.min(high), endpoint=True))


def size_mask(sizes: Array, *, ragged: bool) -> Array | None:
    """The mask (B, largest size) of sets of these sizes; None if they are not ragged, for then all is present."""
    return np.arange(sizes.max()) < sizes[:, None] if ragged else None


def zeroed(mask: Array | None, *arrays: Array) -> tuple[Array, ...]:
    """Arrays (B, N, …) with zeros where the mask (B, N) is False."""
    return arrays if mask is None else tuple(np.where(mask[..., None], array, 0) for array in arrays)
