"""Claims: f(g·x) = f(x) for every g of a group, or f(g·x) = g·f(x).

    invariant(f, Translate(("context_x", "target_x")))
    equivariant(f, Permute({"x": -2, "mask": (-2, -1)}), Permute(axis=-2))

f is any function of named arrays, called as f(x=…, mask=…). A claim is only a statement: `search` looks for what
contradicts it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.action import Action, Arrays, Names, Product, Trivial
from refnp.symmetry.outputs import Read, arrays_of
from refnp.symmetry.precision import cast


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
