"""The precisions that a function can be asked in, and the unit roundoff of each.

    u = half the distance from 1 to the next number        float32 6.0e-8, float64 1.1e-16, longdouble (x87) 5.4e-20

Where longdouble is no wider than float64 (Windows, some ARM) it is left out.

What a function returns, as arrays with names; and two such results as vectors that can be subtracted.

An array is called "output", dicts keep their keys, tuples and lists are numbered. Of other objects, distributions say,
`read` tells what is to be compared: the names of attributes, ("mean", "std"), or a function that gives arrays.

Claims: f(g·x) = f(x) for every g of a group, or f(g·x) = g·f(x).

    invariant(f, Translate(("context_x", "target_x")))
    equivariant(f, Permute({"x": -2, "mask": (-2, -1)}), Permute(axis=-2))

f is any function of named arrays, called as f(x=…, mask=…). A claim is only a statement: `search` looks for what
contradicts it.

The precisions that a function really computes in, coarse to fine: asked for a dtype, its result has that dtype.

A function with float64 weights answers float32 in float64, one written for a framework may know no longdouble, and one
that casts its input has one precision only. What is judged is judged in the finest, `top`; the next below it, if there
is one, shows what rounding does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.actions import Action, Arrays, Names, Product, Trivial

DType = np.dtype[Any]
WIDE = np.dtype(np.longdouble)
FLOATS: tuple[DType, ...] = (np.dtype(np.float32), np.dtype(np.float64)) + (
    (WIDE,) if np.finfo(WIDE).eps < np.finfo(np.float64).eps else ()
)


def roundoff(dtype: Any) -> float:
    """u of a real or complex floating dtype; 0 for whole numbers and booleans, which do not round."""
    return float(np.finfo(dtype).eps) / 2 if np.dtype(dtype).kind in "fc" else 0.0


def real(dtype: Any) -> DType:
    """The dtype of the real part."""
    return np.empty(0, dtype).real.dtype


def called(dtype: Any) -> str:
    """The name of a dtype, the same on every platform."""
    return "longdouble" if np.dtype(dtype) == WIDE and WIDE in FLOATS else np.dtype(dtype).name


def cast(arrays: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
    """Copies of the arrays, real and complex ones in this precision, all others as they are."""

    def one(array: Any) -> Any:
        if array is None:
            return None
        array = np.array(array)
        return (
            array.astype(np.result_type(dtype, np.complex64) if array.dtype.kind == "c" else dtype)
            if (array.dtype.kind in "fc")
            else array
        )

    return {name: one(array) for name, array in arrays.items()}


Read = Callable[[Any], Any] | Sequence[str] | None


def arrays_of(result: Any, read: Read = None) -> dict[str, np.ndarray]:
    """The arrays of a result by name. Raises TypeError for what is no array, with the remedy."""
    if callable(read):
        result = read(result)
    elif read is not None:
        result = {name: getattr(result, name) for name in ([read] if isinstance(read, str) else read)}
    if isinstance(result, Mapping):
        return {str(key): _array(value) for key, value in result.items()}
    if hasattr(result, "_fields"):
        return {name: _array(value) for name, value in zip(result._fields, result, strict=True)}
    if isinstance(result, (tuple, list)):
        return {str(i): _array(value) for i, value in enumerate(result)}
    return {"output": _array(result)}


def _array(value: Any) -> np.ndarray:
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"the function returns a {type(value).__name__}; pass read=, the names of the attributes to compare, such "
            'as read=("mean", "std"), or a function that gives arrays'
        )
    return array


class Refusal(Exception):
    """The function raised an error; the message says which."""


@dataclass(frozen=True)
class Claim:
    """f(g·x) = g·f(x), where g acts on the inputs by `action` and on the output by `action_out`."""

    f: Callable[..., Any]
    action: Action
    action_out: Action
    read: Read = None
    in_precision: Callable[[Any], Callable[..., Any]] | None = None
    name: str = "f"

    def at(self, inputs: Arrays, dtype: Any) -> dict[str, np.ndarray]:
        """The arrays that f gives for these inputs in this precision. Raises Refusal where f raises anything."""
        try:
            f = self.f if self.in_precision is None else self.in_precision(np.dtype(dtype))
            with np.errstate(all="ignore"):
                result = f(**cast(inputs, dtype))
        except Exception as error:  # f is anybody's code
            said = (str(error).splitlines() or [""])[0]
            raise Refusal(f"{type(error).__name__}: {said}") from error
        return arrays_of(result, self.read)

    def __str__(self) -> str:
        if isinstance(self.action_out, Trivial):
            return f"{self.name} is invariant under {self.action}"
        return f"{self.name} is equivariant: {self.action}; on the output {self.action_out}"


def equivariant(
    f: Callable[..., Any],
    action_in: Action,
    action_out: Action,
    *,
    on: Names = None,
    read: Read = None,
    in_precision: Callable[[Any], Callable[..., Any]] | None = None,
    name: str | None = None,
) -> Claim:
    """The claim f(g·x) = g·f(x) for every element g.

    `action_in` moves the inputs that it names, or those in `on`; `action_out` the arrays of the output.
    `read` tells which arrays of a result to compare (`refnp/symmetry/outputs.py`).
    `in_precision(dtype)` gives f in that precision, for functions whose precision is not that of their inputs, such as
    models of token ids: `lambda dtype: model.bind({k: v.astype(dtype) for k, v in model.state_dict().items()})`.
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
    f: Callable[..., Any],
    action: Action,
    *,
    on: Names = None,
    read: Read = None,
    in_precision: Callable[[Any], Callable[..., Any]] | None = None,
    name: str | None = None,
) -> Claim:
    """The claim f(g·x) = f(x) for every element g: equivariance with an output action that moves nothing."""
    return equivariant(f, action, Trivial(), on=on, read=read, in_precision=in_precision, name=name)


def _same_group(a: Action, b: Action) -> bool:
    if isinstance(b, Trivial):
        return True
    if isinstance(a, Product) and isinstance(b, Product) and len(a.parts) == len(b.parts):
        return all(map(_same_group, a.parts, b.parts))
    return not isinstance(b, Product) and a.group == b.group


@dataclass(frozen=True)
class Ladder:
    """The dtypes, coarse to fine, and the unit roundoff of the result at `top`."""

    dtypes: tuple[DType, ...]
    u: float

    @property
    def top(self) -> DType:
        """The finest precision."""
        return self.dtypes[-1]

    @property
    def below(self) -> DType | None:
        """The next one, or None if there is only one."""
        return self.dtypes[-2] if len(self.dtypes) > 1 else None

    @property
    def law(self) -> float:
        """By how much rounding shrinks from `below` to `top`: the ratio of their unit roundoffs, 2⁻¹¹ for an x87."""
        return 1.0 if self.below is None else self.u / roundoff(self.below)

    def __str__(self) -> str:
        return ", ".join(map(called, self.dtypes))


def ladder(claim: Claim, inputs: Arrays) -> Ladder:
    """The ladder of f at these inputs. Raises Refusal if it takes none of the precisions."""
    found, refusal, results = [], None, {}
    for dtype in FLOATS:
        try:
            results[dtype] = claim.at(inputs, dtype)
        except Refusal as error:
            refusal = error
            continue
        if all(real(a.dtype) == dtype for a in results[dtype].values() if a.dtype.kind in "fc"):
            found.append(dtype)
    if found:
        return Ladder(tuple(found), _u(results[found[-1]]))
    if not results:
        raise refusal or Refusal("nothing was asked")
    dtype = min(results, key=lambda dtype: _coarsest(results[dtype], dtype))
    return Ladder((dtype,), _coarsest(results[dtype], dtype))


def _u(result: Mapping[str, Any]) -> float:
    return max((roundoff(a.dtype) for a in result.values()), default=0.0)


def _coarsest(result: Mapping[str, np.ndarray], dtype: DType) -> float:
    return max(_u(result), roundoff(dtype))
