"""Group actions that change values: translations, rotations and reflections of the plane, signs, factors.

    Translate    x_n → x_n + t                      t any vector, or k s with whole numbers k and a step s
    Rotate       (x, y) → R(θ) Mᵐ (x, y)            R(θ) = [[cos θ, −sin θ], [sin θ, cos θ]],  M = diag(1, −1)
    RotateGrid   pixel (i, j) goes to R Mᵐ (i, j)   an image, about its middle, by quarter turns
    Negate       x → −x                             f odd: f(−x) = −f(x);  f even: f(−x) = f(x)
    Scale        x → sᵖ x,  s > 0                   f homogeneous of degree p: f(s x) = sᵖ f(x)

These round. In precision u a point that moves by t is wrong by up to u|x + t| after it, so a function that uses
differences of coordinates alone is translation equivariant only up to rounding. Quarter turns, changes of sign and
powers of 2 are exact.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import SMALL, Arrays, NamedAction, WithNeutral, is_real, is_whole

Translation = tuple[float, ...]
Rotation = tuple[float, int]
PERTURBATION = 2.0**-49  # of an angle, as a part of it: a few units in the last place of float64


@dataclass(frozen=True)
class Translate(NamedAction):
    """Adds a vector t to arrays of coordinates; an element is t as a tuple, or with `step` the multiples k.

    Coordinates are (..., D) with D along `axis`; with axis=None every number is a coordinate on one line, such as
    integer positions (N,). `step`, a number or one for each coordinate, allows its multiples only. `reach` is how far
    to go, in units of the coordinates, or of the step. Raises ValueError when whole numbers are to be moved by a
    fraction.
    """

    axis: int | None = -1
    _: KW_ONLY
    step: float | Sequence[float] | None = None
    reach: float = 8.0

    an_element = "a tuple with a number for each coordinate, such as (0.5, -1)"

    def __post_init__(self) -> None:
        if self.step is not None and not (is_real(self.step) or all(map(is_real, np.atleast_1d(self.step)))):
            raise TypeError(f"Translate: step is {self.step!r}; it must be a number, or one for each coordinate")

    def is_element(self, g: Translation) -> bool:
        if isinstance(g, np.ndarray):
            return g.ndim == 1 and g.dtype.kind in "iuf" and bool(np.isfinite(g).all())
        return isinstance(g, (tuple, list)) and all(map(is_real, g))  # parts of a step, too, for what lies between

    def inverse(self, g: Translation) -> Translation:
        return tuple(-t for t in g)

    @property
    def group(self) -> str:
        return "translations" if self.step is None else "multiples"

    def dimension(self, arrays: Arrays) -> int:
        """How many coordinates a point has. Raises ValueError if arrays differ in that, or lack the axis."""
        if self.axis is None:
            return 1
        found = {}
        for name, array in self.chosen(arrays):
            self.refuse_axis(name, array.shape, self.axis)
            found[name] = array.shape[self.axis]
        if len(set(found.values())) != 1:
            raise ValueError(f"Translate: coordinates along axis {self.axis} must be equally many; there are {found}")
        return next(iter(found.values()))

    def moved(self, g: Translation, name: str, array: Array) -> Array:
        if array.dtype.kind in "fc":
            t = np.asarray(g, array.dtype)
            t = t if self.step is None else t * np.asarray(self.step, array.dtype)
        else:
            t = np.asarray(g) * (1 if self.step is None else np.asarray(self.step))
            if np.any(t != np.rint(t)):
                raise ValueError(f"Translate: {name} holds whole numbers; give a whole step, such as step=1")
            t = t.astype(array.dtype)
        if self.axis is None:
            return array + t[0]
        self.refuse_axis(name, array.shape, self.axis)
        if array.shape[self.axis] != len(t):
            raise ValueError(f"Translate: {name} has shape {array.shape}; axis {self.axis} must have {len(t)} numbers")
        return np.moveaxis(np.moveaxis(array, self.axis, -1) + t, -1, self.axis)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Translation:
        """Whole numbers, eighths, and numbers with all the digits of float32, as often each."""
        t = rng.uniform(-self.reach, self.reach, self.dimension(arrays))
        kind = rng.integers(3)
        if self.step is not None or kind == 0:
            return tuple(int(k) if self.step is not None else float(k) for k in np.rint(t))
        return tuple((np.rint(8 * t) / 8 if kind == 1 else t.astype(np.float32)).tolist())

    def identity(self, arrays: Arrays) -> Translation:
        return (0,) * self.dimension(arrays)

    def identity_like(self, g: Translation) -> Translation:
        return (0,) * len(g)

    def compose(self, g: Translation, h: Translation) -> Translation:
        return tuple(a + b for a, b in zip(g, h, strict=True))

    def generators(self, arrays: Arrays) -> list[Translation]:
        """One unit along each axis."""
        n = self.dimension(arrays)
        return [tuple(int(i == j) for j in range(n)) for i in range(n)]

    def simpler(self, g: Translation) -> Iterator[Translation]:
        """One coordinate to 0, to 1, to half of it, to a whole number, to a tenth."""
        for i, t in enumerate(g):
            for k in dict.fromkeys((0, 1, -1, int(t / 2), int(t), int(10 * t) / 10)):
                if (abs(k), k < 0) < (abs(t), t < 0) and (any(g[:i]) or any(g[i + 1 :]) or k):
                    yield (*g[:i], k, *g[i + 1 :])

    def describe(self, g: Translation) -> str:
        t = g if self.step is None else (np.asarray(g) * np.asarray(self.step)).tolist()
        return "translation by " + (f"{t[0]:g}" if len(t) == 1 else "(" + ", ".join(f"{c:g}" for c in t) + ")")

    def __str__(self) -> str:
        by = "any vector" if self.step is None else f"multiples of {self.step}"
        return f"translations of {self.where()} by {by} (tried up to {self.reach:g})"


@dataclass(frozen=True)
class Rotations(WithNeutral, NamedAction):
    """The elements of Rotate and RotateGrid: pairs (turn, m), with m = 1 where a reflection comes first, otherwise 0.

    `of` is n for multiples of 1/n turn, whose number is the element's turn, or None for all angles, in radians;
    `mirror` adds reflections. Two elements make R(a) Mᵐ R(b) Mⁿ = R(a + (−1)ᵐ b) Mᵐ⁺ⁿ.
    """

    _: KW_ONLY
    of: int | None = None
    mirror: bool = False

    neutral = 0, 0
    an_element = "a turn, in radians or multiples of 1/of, and 1 after a reflection, otherwise 0, such as (1, 0)"

    def is_element(self, g: Rotation) -> bool:
        if not isinstance(g, (tuple, list)) or len(g) != 2 or not is_whole(g[1]) or g[1] not in (0, 1):
            return False
        return is_real(g[0]) if self.of is None else is_whole(g[0])

    def inverse(self, g: Rotation) -> Rotation:
        turn = g[0] if g[1] else -g[0]
        return (turn if self.of is None else int(turn) % self.of), g[1]

    def of_order(self, order: int, rng: np.random.Generator, arrays: Arrays) -> Rotation | None:
        if self.mirror and rng.integers(2):
            return 0, 1
        return (float(2 * math.pi / order), 0) if self.of is None else None

    @property
    def group(self) -> tuple[str, int | None]:
        return ("turns", self.of)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Rotation:
        mirrored = int(rng.integers(2)) if self.mirror else 0
        if self.of is not None:
            return int(rng.integers(self.of)), mirrored
        return float(np.float32(rng.uniform(-math.pi, math.pi))), mirrored

    def compose(self, g: Rotation, h: Rotation) -> Rotation:
        turn = g[0] + (-h[0] if g[1] else h[0])
        return (turn if self.of is None else int(turn) % self.of), (g[1] + h[1]) % 2

    def generators(self, arrays: Arrays) -> list[Rotation]:
        turn: list[Rotation] = [(1, 0)] if self.of != 1 else []
        return [*turn, (0, 1)] if self.mirror else turn

    def elements(self, arrays: Arrays) -> list[Rotation] | None:
        if self.of is None or self.of * (1 + self.mirror) > SMALL:
            return None
        return [(k, m) for m in range(1 + self.mirror) for k in range(self.of)]

    def perturbed(self, g: Rotation, rng: np.random.Generator) -> Rotation:
        return g if self.of is not None else (g[0] * (1 + PERTURBATION * rng.uniform(-1, 1)), g[1])

    def simpler(self, g: Rotation) -> Iterator[Rotation]:
        """The reflection or the rotation alone; one unit of turn; fewer digits."""
        turn, mirrored = g
        if mirrored and turn:
            yield from ((turn, 0), (0, 1))
        fewer = turn // 2 if self.of is not None else round(turn, 1)
        for k in dict.fromkeys((1, -1, int(turn), fewer)):
            if k and (len(f"{abs(k)!r}"), abs(k), k < 0) < (len(f"{abs(turn)!r}"), abs(turn), turn < 0):
                yield k, mirrored

    def describe(self, g: Rotation) -> str:
        turn = f"{g[0]:g} radians" if self.of is None else f"{g[0]}/{self.of} of a turn"
        return "mirror" if g == (0, 1) else ("mirror, then " if g[1] else "") + turn

    def __str__(self) -> str:
        angles = "any angle" if self.of is None else f"multiples of 1/{self.of} turn"
        return f"turns{' and mirrors' if self.mirror else ''} of {self.where()} by {angles}"


@dataclass(frozen=True)
class Rotate(Rotations):
    """Rotations about the origin of coordinates (..., 2) along `axis`: any angle, or with `of=n` multiples of 1/n turn.

    An element is (turn, m): the angle in radians, or with `of` a whole number of n-th turns, and m = 1 where a
    reflection comes first, otherwise 0. `mirror` adds reflections. Quarter turns are exact. Others are rounded: R(θ) in
    the dtype of the array keeps lengths to rounding only. Raises ValueError unless there are two coordinates.
    """

    _: KW_ONLY
    axis: int = -1

    def moved(self, g: Rotation, name: str, array: Array) -> Array:
        self.refuse_axis(name, array.shape, self.axis)
        if array.shape[self.axis] != 2:
            raise ValueError(f"Rotate: {name} has shape {array.shape}; axis {self.axis} must have two coordinates")
        x, y = np.moveaxis(array, self.axis, 0)
        cos, sin = self._cos_sin(g[0], array.dtype)
        y = -y if g[1] else y
        return np.stack([cos * x - sin * y, sin * x + cos * y], self.axis)

    def _cos_sin(self, turn: float, dtype: np.dtype) -> tuple[float, float]:
        if self.of is not None and int(turn) * 4 % self.of == 0:
            return [(1, 0), (0, 1), (-1, 0), (0, -1)][int(turn) * 4 // self.of % 4]
        if dtype.kind not in "fc":
            raise ValueError("Rotate: whole numbers can be turned by quarters only; use of=4")
        real = np.empty(0, dtype).real.dtype.type
        angle = real(turn) if self.of is None else 8 * np.arctan(real(1)) * int(turn) / self.of
        return np.cos(angle), np.sin(angle)


@dataclass(frozen=True)
class RotateGrid(Rotations):
    """Quarter turns of images with rows and columns along `axes`; reflections as well with `mirror`.

    The element means the same as that of Rotate(of=4) on coordinates (row, column) about the middle of the image.
    A quarter turn exchanges height and width. `of` can be nothing but 4: ValueError.
    """

    _: KW_ONLY
    of: int = 4
    axes: tuple[int, int] = (-2, -1)

    moves_along_axes = True

    def moved_axes(self, name: str, array: Array) -> tuple[int, ...]:
        return self.axes if self.names(name) else ()

    def moved_masks(self, g: Rotation, masks: Mapping[str, Array]) -> dict[str, Array]:
        return self.act(g, masks)

    def moved(self, g: Rotation, name: str, array: Array) -> Array:
        if self.of != 4:
            raise ValueError(f"RotateGrid: of is {self.of}; a grid of pixels can be turned by quarters only, of=4")
        if array.ndim < 2:
            raise ValueError(f"RotateGrid: {name} has shape {array.shape}; it must have rows and columns")
        return np.rot90(np.flip(array, self.axes[1]) if g[1] else array, int(g[0]), self.axes)


@dataclass(frozen=True)
class Negate(WithNeutral, NamedAction):
    """The group {1, −1}; an element is the sign, 1 or −1. Raises ValueError for booleans, which have none."""

    neutral = 1
    group = "signs"
    an_element = "a sign, 1 or -1"

    def is_element(self, g: int) -> bool:
        return is_whole(g) and g in (1, -1)

    def inverse(self, g: int) -> int:
        return g

    def moved(self, g: int, name: str, array: Array) -> Array:
        if array.dtype.kind == "b":
            raise ValueError(f"Negate: {name} is boolean and has no sign; name the arrays that have one")
        return array.copy() if g == 1 else -array

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.choice((1, -1)))

    def compose(self, g: int, h: int) -> int:
        return g * h

    def generators(self, arrays: Arrays) -> list[int]:
        return [-1]

    def elements(self, arrays: Arrays) -> list[int]:
        return [1, -1]

    def describe(self, g: int) -> str:
        return f"sign {g:+d}"

    def __str__(self) -> str:
        return f"change of sign of {self.where()}"


@dataclass(frozen=True)
class Scale(WithNeutral, NamedAction):
    """Positive numbers s that multiply by sᵖ, p = `power`; tried from 1/reach to reach. An element is s.

    With `binary` s is a power of 2, whose product rounds nothing. Whole numbers cannot be scaled: ValueError.
    """

    power: float = 1
    _: KW_ONLY
    reach: float = 1024.0
    binary: bool = False

    neutral = 1.0
    an_element = "a positive number, such as 2.0"

    def is_element(self, g: float) -> bool:
        return is_real(g) and g > 0 and (not self.binary or np.frexp(g)[0] == 0.5)

    def inverse(self, g: float) -> float | None:
        return 1 / g

    @property
    def group(self) -> str:
        return "powers of 2" if self.binary else "positive numbers"

    def moved(self, g: float, name: str, array: Array) -> Array:
        if array.dtype.kind not in "fc":
            raise ValueError(f"Scale: {name} is {array.dtype} and cannot be scaled; name the arrays that can")
        with np.errstate(over="ignore"):  # what leaves the range is infinite, as f's own results may be
            return array * np.asarray(g, array.dtype) ** self.power

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> float:
        exponent = math.log2(self.reach) * rng.uniform(-1, 1)
        return float(2.0 ** round(exponent) if self.binary else np.float32(2.0**exponent))

    def compose(self, g: float, h: float) -> float:
        return g * h

    def generators(self, arrays: Arrays) -> list[float]:
        return [2.0] if self.binary else [2.0, 3.0]

    def simpler(self, g: float) -> Iterator[float]:
        """Twice, half, three times, then powers of 4."""
        powers = [4.0**k for k in range(1, 1 + int(abs(math.log2(g)) // 2))]
        simple = [2.0, 0.5, *([] if self.binary else [3.0]), *powers, *(1 / s for s in powers)]
        yield from (s for s in simple if (abs(math.log2(s)), s < 1, s) < (abs(math.log2(g)), g < 1, g))

    def describe(self, g: float) -> str:
        return f"factor {g:g}{self._power()}"

    def _power(self) -> str:
        return "" if self.power == 1 else f" to the power {self.power:g}"

    def __str__(self) -> str:
        return f"multiplication of {self.where()} by {self.group}{self._power()} (tried up to {self.reach:g})"
