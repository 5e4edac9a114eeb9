"""Claims: f(g·x) = f(x) for every g of a group, or f(g·x) = g·f(x).

    invariant(f, Translate(("context_x", "target_x")))
    equivariant(f, Permute({"x": -2, "mask": (-2, -1)}), Permute(axis=-2))

f is any function of named arrays, called as f(x=…, mask=…). A claim is only a statement: `search` looks for what
contradicts it, and for that f is evaluated in several precisions, of unit roundoff

    u = half the distance from 1 to the next number        float32 6.0e-8, float64 1.1e-16, longdouble (x87) 5.4e-20

Where longdouble is no wider than float64 (Windows, some ARM) it is left out.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import Array
from refnp.symmetry.actions import Action, Arrays, Names, Product, Trivial

DType = np.dtype[Any]
Function = Callable[..., Any]  # of arrays by name; `arrays_of` says what it may return
Read = Callable[[Any], Any] | Sequence[str] | None
InPrecision = Callable[[DType], Function]
WIDE = np.dtype(np.longdouble)
FLOATS: tuple[DType, ...] = (np.dtype(np.float32), np.dtype(np.float64)) + (
    (WIDE,) if np.finfo(WIDE).eps < np.finfo(np.float64).eps else ()
)


def roundoff(dtype: DTypeLike) -> float:
    """u of a real or complex floating dtype; 0 for whole numbers and booleans, which do not round."""
    return float(np.finfo(np.dtype(dtype)).eps) / 2 if np.dtype(dtype).kind in "fc" else 0.0


def dtype_name(dtype: DTypeLike) -> str:
    """The name of a dtype, the same on every platform."""
    return "longdouble" if np.dtype(dtype) == WIDE and WIDE in FLOATS else np.dtype(dtype).name


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

    `read`, `in_precision` and `name` are explained at `equivariant`, which makes claims.
    """

    f: Function
    action: Action
    action_out: Action
    read: Read = None
    in_precision: InPrecision | None = None
    name: str = "f"

    def at(self, inputs: Arrays, dtype: DTypeLike) -> dict[str, Array]:
        """The arrays that f gives for these inputs in this precision. Raises Refusal where f raises anything."""
        try:
            f = self.f if self.in_precision is None else self.in_precision(np.dtype(dtype))
            with np.errstate(all="ignore"):
                result = f(**cast(inputs, dtype))
        except Exception as error:  # f may be any code, and so raise anything
            first_line = (str(error).splitlines() or [""])[0]
            raise Refusal(f"{type(error).__name__}: {first_line}") from error
        return arrays_of(result, self.read)

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
            raise refusals[-1]
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
        if isinstance(self.action_out, Trivial):
            return f"{self.name} is invariant under {self.action}"
        return f"{self.name} is equivariant: {self.action}; on the output {self.action_out}"


def equivariant(
    f: Function,
    action_in: Action,
    action_out: Action,
    *,
    on: Names = None,
    read: Read = None,
    in_precision: InPrecision | None = None,
    name: str | None = None,
) -> Claim:
    """The claim f(g·x) = g·f(x) for every element g.

    action_in     moves the inputs that it names, or those in `on`
    action_out    moves the arrays of the output, by the same elements: "output" where there is one, the keys of a
                  dict, "0", "1" … for a tuple or list
    on            the inputs that move, in place of those that `action_in` names
    read          what to compare of a result that is no array: the names of its attributes, ("mean", "std"), or a
                  function that takes the result and gives arrays
    in_precision  dtype → f in that precision, for functions whose precision is not that of their inputs, such as models
                  of token ids: `lambda dtype: model.bind({k: v.astype(dtype) for k, v in model.state_dict().items()})`
    name          of f in reports; its own by default

    Raises ValueError if the elements of one action mean nothing to the other.
    """
    if not _same_group(action_in, action_out):
        raise ValueError(
            f"equivariant: the output action ({action_out}) cannot take the elements of the input action ({action_in})"
        )
    moved = action_in if on is None else action_in.over(on)
    found = str(name or getattr(f, "__name__", type(f).__name__))
    cached = None if in_precision is None else functools.cache(in_precision)
    return Claim(f, moved, action_out, read, cached, "f" if found == "<lambda>" else found)


def invariant(
    f: Function,
    action: Action,
    *,
    on: Names = None,
    read: Read = None,
    in_precision: InPrecision | None = None,
    name: str | None = None,
) -> Claim:
    """The claim f(g·x) = f(x) for every element g: equivariance with an output action that moves nothing.

    `action` moves the inputs that it names, or those in `on`. `read`: the attributes of a result to compare, or a
    function that gives them. `in_precision`: dtype → f in that precision, where inputs do not set it. `name`: of f in
    reports.
    """
    return equivariant(f, action, Trivial(), on=on, read=read, in_precision=in_precision, name=name)


def _same_group(a: Action, b: Action) -> bool:
    if isinstance(b, Trivial):
        return True
    if isinstance(a, Product) and isinstance(b, Product) and len(a.parts) == len(b.parts):
        return all(map(_same_group, a.parts, b.parts))
    return not isinstance(b, Product) and a.group == b.group


def arrays_of(result: Any, read: Read = None) -> dict[str, Array]:
    """The arrays of a result by name: a single one is "output", dicts keep their keys, tuples and lists are numbered.

    Of other objects, distributions for example, `read` gives what to compare: the names of attributes, ("mean", "std"),
    or a function that gives arrays. Raises TypeError for what is no array.
    """
    if callable(read):
        result = read(result)
    elif read is not None:
        result = {name: getattr(result, name) for name in ([read] if isinstance(read, str) else read)}
    named: Any = [("output", result)]
    if isinstance(result, Mapping):
        named = result.items()
    elif isinstance(result, (tuple, list)):
        named = zip(getattr(result, "_fields", range(len(result))), result, strict=True)
    arrays = {}
    for name, value in named:
        array = arrays[str(name)] = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
        if array.dtype.kind not in "biufc":
            raise TypeError(
                f"the function returns a {type(value).__name__}; pass read=, the names of the attributes to compare, "
                'such as read=("mean", "std"), or a function that gives arrays'
            )
    return arrays
