"""A case: one function of refnp, one set of inputs and a cotangent, and what is known about how others compute it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from refnp.autograd import vjp
from refnp.verify.rounding import WIDE, Rounded, exact

Draw = Callable[[np.random.Generator], np.ndarray]
Answer = dict[str, np.ndarray]  # "output", and "gradient of x" for every argument x


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0) -> Draw:
    """Normal numbers with standard deviation `scale` around `shift`."""
    return lambda rng: rng.standard_normal(shape) * scale + shift


def uniform(*shape: int, low: float, high: float) -> Draw:
    """Numbers spread evenly from `low` to `high`."""
    return lambda rng: rng.uniform(low, high, shape)


@dataclass(frozen=True)
class Layer:
    """A function of refnp, the same in `Rounded` numbers, and the name under which adapters know it."""

    name: str
    function: Callable
    equation: Callable


@dataclass(frozen=True)
class Known:
    """A defect of a framework that is known, where it shows, and what is wrong, in a line."""

    framework: str
    issue: str  # "pytorch/pytorch#113708", or a few words where nobody has reported it
    why: str
    quantities: tuple[str, ...] = ()  # all if empty
    dtypes: tuple[str, ...] = ()  # both if empty

    def covers(self, framework: str, dtype: str, quantity: str) -> bool:
        return (
            framework == self.framework
            and (not self.quantities or quantity in self.quantities)
            and (not self.dtypes or dtype in self.dtypes)
        )


@dataclass(frozen=True)
class Case:
    """`layer` with inputs drawn by name, and options.

    `inputs` are arrays, or functions that draw them from a generator seeded with the name of the case. `cotangent` is
    drawn if it is not given. `gradients` names the inputs with a gradient (all, unless told otherwise).
    """

    layer: Layer
    variant: str
    inputs: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[Known, ...] = ()
    gradients: tuple[str, ...] | None = None
    cotangent: Any = None

    @property
    def name(self) -> str:
        return f"{self.layer.name}/{self.variant}"

    @property
    def quantities(self) -> list[str]:
        wanted = self.inputs if self.gradients is None else self.gradients
        return ["output", *(f"gradient of {name}" for name in self.inputs if name in wanted)]

    def problem(self, dtype: str) -> Problem:
        """The case in one precision: inputs rounded to it, and exact from there on."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        arrays = {k: np.asarray(v(rng) if callable(v) else v, float).astype(dtype) for k, v in self.inputs.items()}
        return Problem(self, dtype, arrays, rng)


@dataclass
class Problem:
    """A case with numbers: `arrays` by name, and the cotangent ȳ, all of one dtype."""

    case: Case
    dtype: str
    arrays: dict[str, np.ndarray]
    rng: np.random.Generator

    @cached_property
    def textbook(self) -> tuple[Rounded, Callable]:
        """The equation's value with its error bound, and its pullback."""
        return self.case.layer.equation(*map(exact, self.arrays.values()), **self.case.options)

    @cached_property
    def cotangent(self) -> np.ndarray:
        if self.case.cotangent is not None:
            return np.asarray(self.case.cotangent, float).astype(self.dtype)
        return np.asarray(self.rng.standard_normal(self.textbook[0].shape)).astype(self.dtype)

    @cached_property
    def bounds(self) -> dict[str, Rounded]:
        """The textbook's value of the output and of every gradient and, in units of u, what rounding may do to it."""
        bounds = {"output": self.textbook[0]}
        if len(self.case.quantities) > 1:
            bars = dict(zip(self.arrays, self.textbook[1](exact(self.cotangent)), strict=True))
            bounds |= {quantity: bars[quantity.removeprefix("gradient of ")] for quantity in self.case.quantities[1:]}
        return bounds

    def answer(self, dtype: Any = None) -> Answer:
        """refnp's output and gradients in the precision of the problem, or in another one."""
        arrays = [array.astype(dtype or self.dtype) for array in self.arrays.values()]
        output, pullback = vjp(lambda *given: self.case.layer.function(*given, **self.case.options), *arrays)
        answer = {"output": np.asarray(output)}
        if len(self.case.quantities) > 1:
            gradients = dict(zip(self.arrays, pullback(self.cotangent.astype(dtype or self.dtype)), strict=True))
            answer |= {q: gradients[q.removeprefix("gradient of ")] for q in self.case.quantities[1:]}
        return answer

    def reference(self) -> Answer:
        """refnp's output and gradients in the widest precision of the machine."""
        return self.answer(WIDE)

    def checksum(self) -> str:
        """A fingerprint of inputs, cotangent and options: a recording made from others is of no use."""
        digest = hashlib.sha256()
        parts = [*self.arrays.items(), ("cotangent", self.cotangent), *sorted(self.case.options.items())]
        for name, value in parts:
            digest.update(name.encode())
            if isinstance(value, np.ndarray):
                digest.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
            else:
                digest.update(repr(value).encode())
        return digest.hexdigest()[:16]
