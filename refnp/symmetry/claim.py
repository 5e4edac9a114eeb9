"""Claims: f(g·x) = f(x) for every g of a group, or f(g·x) = g·f(x).

    invariant(f, Translate(("context_x", "target_x")))
    equivariant(f, Permute({"x": -2, "mask": (-2, -1)}), Permute(axis=-2))

f is any function of named arrays, called as f(x=…, mask=…). A claim is only a statement: `search` looks for what
contradicts it, and for that f is evaluated in several precisions, of unit roundoff

    u = half the distance from 1 to the next number        float32 6.0e-8, float64 1.1e-16, longdouble (x87) 5.4e-20

Where longdouble is no wider than float64 (Windows, some ARM) it is left out.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import DTypeLike

from gradcheck import precision
from refnp.autograd import Array, ArrayLike
from refnp.autograd.errors import shown
from refnp.symmetry.actions import Action, Arrays, Element, Names, Product, Trivial
from refnp.symmetry.constants import held_in_float32
from refnp.symmetry.frameworks import NO_BFLOAT16, in_words

DType = np.dtype[Any]
Function = Callable[..., Any]  # of arrays by name; `arrays_of` says what it may return
Read = Callable[[Any], Any] | Sequence[str] | None
InPrecision = Callable[[DType], Function]
Border = int | Mapping[int, int] | None
Where = Callable[..., ArrayLike] | None
WIDE = np.dtype(np.longdouble)
RECENT = 32  # results of f that are kept
FLOATS: tuple[DType, ...] = (np.dtype(np.float32), np.dtype(np.float64)) + (
    (WIDE,) if np.finfo(WIDE).eps < np.finfo(np.float64).eps else ()
)


def roundoff(dtype: DTypeLike) -> float:
    """u of a real or complex floating dtype; 0 for whole numbers and booleans, which do not round."""
    return precision.roundoff(dtype) if np.dtype(dtype).kind in "fc" else 0.0


def dtype_name(dtype: DTypeLike) -> str:
    """The name of a dtype, the same on every platform."""
    return "longdouble" if roundoff(dtype) < roundoff(np.float64) and np.dtype(dtype) == WIDE else np.dtype(dtype).name


@np.errstate(under="ignore")
def cast(arrays: Arrays, dtype: DTypeLike) -> dict[str, Any]:
    """Copies of the arrays, real and complex ones in this precision, all others as they are."""
    copies: dict[str, Any] = {name: None if array is None else np.array(array) for name, array in arrays.items()}
    for name, array in copies.items():
        if array is not None and array.dtype.kind in "fc":
            copies[name] = array.astype(np.result_type(dtype, np.complex64) if array.dtype.kind == "c" else dtype)
    return copies


@dataclass(frozen=True)
class Precisions:
    """The dtypes in which a function computes, coarse to fine, and the unit roundoff u of its result in the finest.

    What is judged is judged in the finest; the next coarser one, if there is one, shows what rounding does.
    """

    dtypes: tuple[DType, ...]
    u: float

    def __str__(self) -> str:
        return ", ".join(map(dtype_name, self.dtypes))


class Refusal(Exception):
    """The function raised an error; the message says which."""


@dataclass(frozen=True)
class Claim:
    """f(g·x) = g·f(x), where g acts on the inputs by `action` and on the output by `action_out`.

    `read`, `in_precision`, `name`, `border` and `where` are explained at `equivariant`, which makes claims.
    """

    f: Function
    action: Action
    action_out: Action
    read: Read = None
    in_precision: InPrecision | None = None
    name: str = "f"
    border: Border = None
    where: Where = None
    recent: OrderedDict[Any, "dict[str, Array] | Refusal"] = field(
        default_factory=OrderedDict, init=False, repr=False, compare=False
    )

    @functools.cached_property
    def constants(self) -> DType:
        """The precision of the constants in f: float64, or float32 if it holds such numbers."""
        return np.dtype(np.float32 if held_in_float32(self.f) else np.float64)

    def at(self, inputs: Arrays, dtype: DTypeLike) -> dict[str, Array]:
        """The arrays that f gives for these inputs in this precision. Raises Refusal where f raises anything.

        The same inputs often come again soon: where nothing can be perturbed, and from one element to the next. The
        last results are kept, so that f is not called for them again; `anew` calls it.
        """
        numbers = cast(inputs, dtype)
        key = np.dtype(dtype), *map(_key, numbers.items())
        if key not in self.recent:
            try:
                self.recent[key] = self.anew(numbers, dtype)
            except Refusal as refusal:
                self.recent[key] = refusal
            if len(self.recent) > RECENT:
                self.recent.popitem(last=False)
        self.recent.move_to_end(key)
        found = self.recent[key]
        if isinstance(found, Refusal):
            raise found
        return found

    def anew(self, inputs: Arrays, dtype: DTypeLike) -> dict[str, Array]:
        """The arrays that f gives when it is called once more. Raises Refusal where f raises anything."""
        try:
            f = self.f if self.in_precision is None else self.in_precision(np.dtype(dtype))
            with np.errstate(all="ignore"):
                result = f(**cast(inputs, dtype))
        except Exception as error:  # f may be any code, and so raise anything
            raise Refusal(f"{type(error).__name__}: {in_words(error)}") from error
        return arrays_of(result, self.read)

    def left(self, g: Element, inputs: Arrays, outputs: Arrays, dtype: DTypeLike) -> dict[str, Array]:
        """f(g·x), with 0 in cells that are not compared. `outputs` are f(x). Raises Refusal where f raises anything."""
        return _only(self.compared(g, outputs), self.at(self.action.act(g, inputs), dtype))

    def right(self, g: Element, outputs: Arrays) -> dict[str, Array]:
        """g·f(x) from `outputs`, f(x), with 0 in cells that are not compared."""
        return _only(self.compared(g, outputs), self.action_out.act(g, outputs))

    def compared(self, g: Element, outputs: Mapping[str, Any]) -> dict[str, Array]:
        """The cells of g·f(x) that are compared, as booleans by name; without `border` all, and the dict is empty.

        They are those of the interior that g took from the interior.
        """
        if self.border is None:
            return {}
        before = {name: self._interior(name, np.ones(np.shape(y), bool)) for name, y in outputs.items()}
        moved = self.action_out.moved_masks(g, before)
        return {name: self._interior(name, mask) for name, mask in moved.items()}

    def _interior(self, name: str, mask: Array) -> Array:
        """A mask of one output, with False in its border."""
        border = self.border
        if not isinstance(border, Mapping):
            border = dict.fromkeys(self.action_out.moved_axes(name, mask), border or 0)
        mask = mask.copy()
        for axis, cells in border.items():
            if not -mask.ndim <= axis < mask.ndim:
                raise ValueError(f"border is {self.border}, but the output {name} has shape {mask.shape}")
            along = np.moveaxis(mask, axis, 0)
            along[:cells] = along[max(0, len(along) - cells) :] = False
        return mask

    def precisions(self, inputs: Arrays) -> Precisions:
        """The precisions in which f computes at these inputs: those whose results have the dtype of the input.

        A function with float64 weights gives float64 for float32, one of another framework may not take longdouble,
        and one that casts its input has one precision only. Raises Refusal if f takes none of the precisions.
        """
        results, refusals = {}, []
        for dtype in FLOATS:
            try:
                results[dtype] = self.at(inputs, dtype)
            except Refusal as refusal:
                refusals.append(refusal)
        if not results:
            raise refusals[0]
        largest_u = {t: max((roundoff(a.dtype) for a in arrays.values()), default=0.0) for t, arrays in results.items()}
        kept = tuple(
            dtype
            for dtype, arrays in results.items()
            if all(a.real.dtype == dtype for a in arrays.values() if a.dtype.kind in "fc")
        )
        if kept:
            return Precisions(kept, largest_u[kept[-1]])
        u = {dtype: max(largest_u[dtype], roundoff(dtype)) for dtype in results}
        dtype = min(u, key=lambda dtype: u[dtype])
        return Precisions((dtype,), u[dtype])

    def __str__(self) -> str:
        away = f", but for a border of {_cells(self.border)}," if self.border else ""
        if isinstance(self.action_out, Trivial):
            return f"{self.name} is invariant{away} under {self.action}"
        return f"{self.name} is equivariant{away.rstrip(',')}: {self.action}; on the output {self.action_out}"


def equivariant(
    f: Function,
    action_in: Action,
    action_out: Action,
    *,
    on: Names = None,
    read: Read = None,
    in_precision: InPrecision | None = None,
    name: str | None = None,
    border: Border = None,
    where: Where = None,
) -> Claim:
    """The claim f(g·x) = g·f(x) for every element g.

    action_in     moves the inputs that it names, or those in `on`
    action_out    moves the arrays of the output, by the same elements: "output" where there is one, the keys of a
                  dict, "0", "1" … for a tuple or list
    on            the inputs that move, in place of those that `action_in` names
    read          what to compare of a result that is no array: the names of its attributes, ("mean", "std"), or a
                  function that takes the result and gives arrays
    in_precision  dtype → f in that precision, for functions whose precision is not that of their inputs, such as models
                  of token ids: `lambda dtype: model.bind({k: v.astype(dtype) for k, v in model.state_dict().items()})`;
                  by default `f.in_precision`, where f has it, as what `in_torch` and `in_jax` give
    name          of f in reports; its own by default
    border        for a claim about the interior of the output: how many cells at each end are not compared, along every
                  axis that `action_out` moves, or {axis: cells}. A cell is compared if neither it nor the cell that g
                  took to it is in the border. With `Shift` 0 by default: what passed an edge is never compared
    where         about which inputs the claim is: called with the arrays by name, as f is, it gives a truth value or an
                  array of them: `where=lambda x: x > 0`. What all draws have in common need not be said: a search keeps
                  it (constraints.py)

    Raises ValueError if the elements of one action mean nothing to the other, for a negative border, and for one
    without axes if `action_out` moves nothing along an axis; TypeError for an `f` or `where` that is no
    function, or a class in place of an action.
    """
    check_functions("equivariant", f=f, where=where)
    for argument, action in (("action_in", action_in), ("action_out", action_out)):
        if isinstance(action, type):
            raise TypeError(f"equivariant: {argument} is the class {action.__name__}; call it: {action.__name__}(…)")
        if not isinstance(action, Action):
            raise TypeError(
                f"equivariant: {argument} is {action!r}; pass one of refnp.symmetry, such as Permute('x', 0)"
            )
    if not _same_group(action_in, action_out):
        raise ValueError(
            f"equivariant: the output action ({action_out}) cannot take the elements of the input action ({action_in})"
        )
    if border is None and action_out.has_edges:
        border = 0
    cells = list(border.values()) if isinstance(border, Mapping) else [border or 0]
    if min(cells, default=0) < 0:
        raise ValueError(f"equivariant: border is {border}; give a number of cells, 0 or more, or {{axis: cells}}")
    if isinstance(border, int) and not action_out.moves_along_axes:
        raise ValueError(
            f"equivariant: border is {border}, but the output action ({action_out}) moves nothing along an axis; say "
            "along which axes cells are left out, such as border={-1: 2}"
        )
    moved = action_in if on is None else action_in.over(on)
    found = str(name or getattr(f, "__name__", type(f).__name__))
    if in_precision is None:
        in_precision = getattr(f, "in_precision", None)
    cached = None if in_precision is None else functools.cache(in_precision)
    return Claim(by_name(f), moved, action_out, read, cached, "f" if found == "<lambda>" else found, border, where)


def by_name(f: Function) -> Function:
    """A function whose arguments have names; those of NumPy's ufuncs, such as np.sin, have none, and are in order."""
    return (lambda **arrays: f(*arrays.values())) if isinstance(f, np.ufunc) else f


def check_functions(name: str, **functions: Any) -> None:
    """TypeError for an argument that is no function; None is one that is not given."""
    for argument, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name}: {argument} is {shown(function)}; it must be a function")


class ClaimOptions(TypedDict, total=False):
    """The options of a claim, which `equivariant` explains."""

    on: Names
    read: Read
    in_precision: InPrecision | None
    name: str | None
    border: Border
    where: Where


def invariant(f: Function, action: Action, **options: Unpack[ClaimOptions]) -> Claim:
    """The claim f(g·x) = f(x) for every element g: equivariance with an output action that moves nothing.

    `action` moves the inputs that it names. The options are those of `equivariant`: on, read, in_precision, name,
    border and where; of a border {axis: cells}.
    """
    return equivariant(f, action, Trivial(), **options)


def _cells(border: Border) -> str:
    """A border in words."""
    if isinstance(border, Mapping):
        return " and ".join(f"{_cells(cells)} on axis {axis}" for axis, cells in border.items())
    return f"{border} cell{'' if border == 1 else 's'}"


def _same_group(a: Action, b: Action) -> bool:
    if isinstance(b, Trivial):
        return True
    if isinstance(a, Product) and isinstance(b, Product) and len(a.parts) == len(b.parts):
        return all(map(_same_group, a.parts, b.parts))
    return not isinstance(b, Product) and a.group == b.group


def arrays_of(result: Any, read: Read = None) -> dict[str, Array]:
    """The arrays of a result by name: a single one is "output", dicts keep their keys, tuples and lists are numbered.

    What they contain may be dicts and lists again: "a.b" is the entry b of a, "a[0]" its first. Lists of plain numbers
    in them are arrays, None in them is left out. Of other objects, distributions for example, `read` gives what to
    compare: the names of attributes, ("mean", "std"), or a function that gives arrays.
    Raises TypeError for what is no array, ValueError for two arrays of one name.
    """
    return {name: _array(value) for name, value in leaves(result, read).items()}


def leaves(result: Any, read: Read = None) -> dict[str, Any]:
    """What stands at the ends of a result by name, be it an array or not; `arrays_of` says which names."""
    if callable(read):
        result = read(result)
    elif read is not None:
        result = {name: getattr(result, name) for name in ([read] if isinstance(read, str) else read)}
    found: dict[str, Any] = {}
    for name, value in _leaves("", result):
        if name in found:
            raise ValueError(f"the function returns two arrays named {name!r}; rename a key of its result")
        found[name] = value
    return found


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a nested result has at its ends, with names."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), entry)
    elif isinstance(value, (tuple, list)) and not (name and value and all(isinstance(v, Number) for v in value)):
        fields = getattr(value, "_fields", None)
        for i, entry in enumerate(value):
            if fields:
                yield from _leaves(f"{name}.{fields[i]}" if name else fields[i], entry)
            else:
                yield from _leaves(f"{name}[{i}]" if name else str(i), entry)
    elif value is not None or not name:
        yield name or "output", value


def _array(value: Any) -> Array:
    try:
        array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    except Exception as error:  # of whatever framework it comes from
        raise TypeError(f"the function returns a {type(value).__name__}: {in_words(error)}") from error
    if array.dtype.name == "bfloat16":
        raise TypeError(f"the function returns bfloat16, {NO_BFLOAT16}")
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"the function returns a {type(value).__name__}; pass read=, the names of the attributes to compare, "
            'such as read=("mean", "std"), or a function that gives arrays'
        )
    return array


def _key(item: tuple[str, Array | None]) -> tuple[Any, ...]:
    """What tells one input from others: its name, dtype, shape and bits."""
    name, array = item
    return (name,) if array is None else (name, array.dtype.str, array.shape, array.tobytes())


def _only(masks: Mapping[str, Array], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, with 0 where the mask of their name is False. One of another shape than its mask stays as it is."""
    kept = dict(arrays)
    for name, mask in masks.items():
        if name in kept and kept[name].shape == mask.shape:
            kept[name] = np.where(mask, kept[name], kept[name].dtype.type(0))
    return kept
