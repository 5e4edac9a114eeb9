"""Where a computation rounds: formats of numbers, and policies that say in which of them a layer computes.

A policy is named by what it says:

    "float32", "float64"                                       every operation in that format
    "bfloat16", "float16"                                      every operation stored: eager code
    "bfloat16 in and out, float32 inside"                      a fused kernel
    "bfloat16 in and out, float32 inside, bfloat16 products"   one that rounds the factors of products first
    "float32, tf32 products"                                   float32 on tensor cores

    stored       x ─ op ─ round ─ op ─ round ─ op ─ round ─ y          u of the storage at each operation
    in and out   x ─ op ──────── op ──────── op ─ round ─ y            u of the storage once, at the end
    products     A ─ round ─┐
                            A·B ─ sum                                  u of the factors at each product
                 B ─ round ─┘

Sums and products are accumulated in the inner format everywhere, which is float32 for storage below it; storing comes
after the last addition. What is stored rounds to nearest. Inputs are given in the storage's format.
Source: Higham (2002), §2.1; Blanchard, Higham, Lopez, Mary & Pranesh (2020) (rounded factors, wider sums).
"""

import functools
import re
import reprlib
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray
WIDE = np.longdouble  # the same as float64 on some machines: see `rounding.judging_precision`
_WIDEST = np.finfo(WIDE)


@dataclass(frozen=True)
class Format:
    """Binary floating-point numbers with `bits` digits, the implicit one included, from 2^`least` to `largest`.

    `gradual`: below 2^least its hardware keeps subnormal numbers; else they may become 0. `infinite`: ±∞ are numbers of
    it, too.
    """

    name: str
    bits: int
    least: int
    largest: Any
    gradual: bool = False
    infinite: bool = True

    @property
    def u(self) -> Any:
        """The unit roundoff, 2^−bits: rounding to nearest changes x by no more than u|x|."""
        return WIDE(2.0) ** -self.bits

    @property
    def lost(self) -> Any:
        """How much a number that is too small for the format may change: all of 2^least, or half a last place there."""
        return WIDE(2.0) ** (self.least - self.bits if self.gradual else self.least)

    def rounded(self, x: Any) -> Array:
        """The numbers of the format that are nearest to x, ties to even, in the widest precision; ±∞ beyond `largest`.

        Shapes: x (...) → (...).
        """
        x = np.asarray(x, WIDE)
        _, exponent = np.frexp(x)
        finite = np.isfinite(x)
        unit = np.where(finite, np.maximum(exponent - self.bits, self.least - self.bits + 1), 0)
        nearest = np.where(finite, np.ldexp(np.rint(np.ldexp(x, -unit)), unit), x)
        return np.where(np.abs(nearest) > self.largest, np.copysign(np.inf, x), nearest)


FORMATS = {
    each.name: each
    for each in (
        Format("longdouble", int(_WIDEST.nmant) + 1, int(_WIDEST.minexp), _WIDEST.max),
        Format("float64", 53, -1022, float(np.finfo(np.float64).max)),
        Format("float32", 24, -126, float(np.finfo(np.float32).max)),
        Format("tf32", 11, -126, float(np.finfo(np.float32).max)),
        Format("float16", 11, -14, 65504.0, gradual=True),
        Format("bfloat16", 8, -126, 2.0**127 * (2 - 2.0**-7)),
        Format("float8_e4m3fn", 4, -6, 448.0, gradual=True, infinite=False),
        Format("float8_e5m2", 3, -14, 57344.0, gradual=True),
    )
}


@dataclass(frozen=True)
class Policy:
    """Where a layer rounds; made by `policy` from its name.

    stored: the format of inputs and outputs, and if `every`, of the result of every operation.
    inside: the format in which an operation computes, sums included.
    products: the format to which the factors of products are rounded first, or None.
    """

    name: str
    stored: Format
    inside: Format
    products: Format | None = None
    every: bool = False

    @property
    def dtype(self) -> str:
        """NumPy's name of a type that holds every number of the stored format."""
        return self.stored.name if self.stored.bits > FORMATS["float32"].bits else "float32"

    @property
    def narrow(self) -> str:
        """The stored format's name if it is narrower than float32; arrays of `dtype` hold its numbers. Else ""."""
        return self.stored.name if self.stored.bits < FORMATS["float32"].bits else ""

    def given(self, x: Any) -> Array:
        """Inputs as they are given in the stored format, of type `dtype`."""
        return np.asarray(self.stored.rounded(x) if self.narrow else x).astype(self.dtype)

    def typed(self, x: Array) -> Array:
        """Inputs in the stored format's own type, or as `Stored` numbers where NumPy has none."""
        if self.narrow in ("", "float16"):
            return x.astype(self.narrow or self.dtype, copy=False)
        return stored_in(self.narrow, x)

    def of_gradient(self, own: str) -> "Policy":
        """Where the gradient of an argument rounds that has another format than the policy's."""
        return self if self.every else replace(self, stored=FORMATS[own])


class Stored(np.ndarray):
    """Numbers of a format for which NumPy has no type, as float32; `format` is its name."""

    format: str = ""

    def __array_finalize__(self, source: Any) -> None:
        self.format = getattr(source, "format", "")


def stored_in(format: str, x: ArrayLike) -> Stored:
    """Numbers of a format, in float32, that know its name."""
    found = np.asarray(x, np.float32).view(Stored)
    found.format = format
    return found


def format_of(x: Array) -> str:
    """The name of the format that an array's numbers have."""
    return getattr(x, "format", "") or x.dtype.name


def checked_formats(function: str, formats: Any, layer: str, arguments: Iterable[str]) -> dict[str, str]:
    """The formats of single arguments as they were named; ValueError for an argument or a format that there is not."""
    if not isinstance(formats, Mapping | None):
        raise ValueError(f'{function}: formats={reprlib.repr(formats)} is no dict; write {{"gain": "float32"}}')
    for name, kind in (formats or {}).items():
        if name not in (known := list(arguments)):
            raise ValueError(f"{function}: formats: {layer} has no argument {name!r}; there are {', '.join(known)}")
        if kind not in FORMATS or kind in ("tf32", "longdouble"):
            names = ", ".join(each for each in FORMATS if each not in ("tf32", "longdouble"))
            raise ValueError(f"{function}: formats: {name} is {reprlib.repr(kind)}; name a format, {names}")
    return dict(formats or {})


def in_own_type(x: Array) -> Array:
    """`Stored` numbers in the type that ml_dtypes has for them; other arrays as they are.

    Raises ModuleNotFoundError if ml_dtypes is needed and not installed.
    """
    if not isinstance(x, Stored) or not x.format:
        return x
    try:
        import ml_dtypes
    except ImportError as missing:
        raise ModuleNotFoundError(f"NumPy has no {x.format}; install ml_dtypes") from missing
    return np.asarray(x).astype(getattr(ml_dtypes, x.format))


def type_name(dtype: Any) -> str:
    """NumPy's name of a type, that of the parts of a complex one; of what is none, such as None, how it is written."""
    try:
        return "None" if dtype is None else np.zeros((), dtype).real.dtype.name
    except TypeError:
        return textwrap.shorten(str(dtype), 60)


def policy(name: Any) -> Policy:
    """The policy of that name, as in the list above, or of a floating-point type; a Policy itself.

    Raises ValueError for one that there is not.
    """
    if isinstance(name, Policy):
        return name
    return _policy(name if isinstance(name, str) else type_name(name))


@functools.cache
def _policy(name: str) -> Policy:
    text = " ".join(name.split())
    text = "longdouble" if text == np.dtype(WIDE).name != "float64" else text
    found = re.fullmatch(r"(\w+)(?: in and out, (\w+) inside)?(?:, (\w+) products)?", text)
    parts = [] if found is None else [part for part in found.groups() if part is not None]
    if found is None or any(part not in FORMATS for part in parts) or parts[0] == "tf32":
        names = ", ".join(each for each in FORMATS if each not in ("tf32", "longdouble"))
        raise ValueError(
            f"precision is {name!r}; name a format ({names}), FORMAT in and out, FORMAT inside, and perhaps FORMAT "
            "products, such as 'bfloat16 in and out, float32 inside'"
        )
    stored, single, (_, inner, factors) = FORMATS[parts[0]], FORMATS["float32"], found.groups()
    every = inner is None and stored.bits < single.bits
    inside = FORMATS[inner] if inner else single if every else stored
    if inside.bits < stored.bits:
        raise ValueError(f"precision is {name!r}; what is inside must not be narrower than what is stored")
    return Policy(text, stored, inside, FORMATS[factors] if factors else None, every)
