"""Inputs: arrays in every shape, precision, size and memory layout, and what stands behind masks."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tests.fuzz.shapes import Shape

LENGTHS = (0, 1, 1, 2, 2, 3, 3, 4, 5)
DTYPES = ("float64",) * 6 + ("float32",) * 5 + ("longdouble",) * 2 + ("complex128", "float16", "int64", "int8", "bool")
OF_RUNS = (1, 2, 3), (0, 1, 3, 3, 4, 4, 5, 6)  # of kernels, which have small letters, and of what they slide along
LAYOUTS = ("C", "C", "F", "strided", "reversed", "read-only", "broadcast")
SCALES = (1e-3, 1.0, 1.0, 1.0, 1e3)
JUNK = (np.nan, np.inf, -np.inf, "max", "-max", 1e30, -1e150, 1e200, 0.0, -0.0, "tiny", 3.0)
EXTREME = (np.nan, np.inf, -np.inf, "max", "-max", "tiny", "-tiny", "subnormal", 0.0, -0.0, 1.0)


def special(value: float | str, dtype: np.dtype) -> np.generic:
    """A number of EXTREME or JUNK in a precision; what is too large for it is its largest."""
    real = np.empty(0, dtype).real.dtype
    if isinstance(value, str):
        info = np.finfo(real)
        of = {"max": info.max, "tiny": info.tiny, "subnormal": info.smallest_subnormal}[value.lstrip("-")]
        return real.type(-of if value.startswith("-") else of)
    with np.errstate(over="ignore"):
        found = real.type(value)
    return special("max", dtype) * np.sign(real.type(np.sign(value))) if np.isinf(found) > np.isinf(value) else found


class Draw:
    """What the inputs of one call are drawn from: a generator, the lengths of letters so far, the front axes."""

    def __init__(self, rng: np.random.Generator, least: dict[str, int] | None = None, front: int | None = None):
        self.rng, self.least, self.lengths = rng, least or {}, dict[str, int]()
        self.known: dict[str, Any] = {}  # options by name, those too that are left at their defaults
        self.ranks: dict[str, int] = {}
        count = int(rng.choice([0, 0, 1, 1, 2, 3])) if front is None else front
        self.front = tuple(self.length("*") for _ in range(count))
        self.lengths.pop("*", None)
        self.dtype = np.dtype(self.of(DTYPES))
        self.scale = self.of(SCALES)
        self.arguments: dict[str, Any] = {}

    def of(self, values: Any) -> Any:
        """One of several values, as it is."""
        return values[int(self.rng.integers(len(values)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def length(self, letter: str) -> int:
        """The length of a letter: what it was before, or a new one."""
        if letter.isdecimal():
            return int(letter)
        if "·" in letter:
            self.lengths[letter] = math.prod(map(self.length, letter.split("·")))
        elif isinstance(self.known.get(letter), int):
            self.lengths[letter] = self.known[letter]
        if letter not in self.lengths:
            drawn = int(self.of(LENGTHS if letter[0] != "*" or len(letter) == 1 else OF_RUNS[letter[1].isupper()]))
            self.lengths[letter] = max(drawn, self.least.get(letter, 0))
            if letter == "*":
                return self.lengths.pop(letter)
        return self.lengths[letter]

    def rank(self, run: str) -> int:
        """How many axes a run has, as many as the one with its letter in small."""
        return self.ranks.setdefault(run.lower(), self.known.get("dimensions", int(self.of([1, 1, 2]))))

    def expanded(self, shape: Shape) -> Shape:
        """The shape with a letter for each axis of a run: `*L0`, `*L1`."""
        letters: list[str] = []
        for letter in shape.letters:
            option = self.known.get(letter[1:]) if letter[0] == "*" else None
            if option is not None:
                letters += map(str, option if isinstance(option, tuple) else (option,))
            elif letter[0] == "*":
                letters += (f"{letter}{i}" for i in range(self.rank(letter)))
                self.least |= {one: self.least.get(letter, 0) for one in letters if one.startswith(letter)}
            else:
                letters.append(letter)
        return replace(shape, letters=tuple(letters))

    def axes(self, shape: Shape) -> tuple[int, ...]:
        """The shape of an argument."""
        front = () if not shape.front else self.front
        if shape.front == "...":
            front = tuple(1 if self.chance(0.15) else n for n in front)
            front = front[int(self.rng.integers(len(front) + 1)) if self.chance(0.3) else 0 :]
        return (*front, *map(self.length, shape.letters))

    def normal(self, shape: tuple[int, ...], dtype: np.dtype | None = None) -> np.ndarray:
        """Normal numbers of the call's precision and scale, some of them equal, some 0."""
        dtype = self.dtype if dtype is None else dtype
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        if dtype.kind == "i":
            return self.rng.integers(-5, 6, shape).astype(dtype)
        x = self.rng.standard_normal(shape) * (1.0 if dtype == np.float16 else self.scale)
        if dtype.kind == "c":
            x = x + 1e-20j * self.rng.standard_normal(shape)  # they are for the complex step
        if self.chance(0.1):
            x = np.repeat(x[:1], len(x), axis=0) if x.ndim else x
        if self.chance(0.1):
            x = np.where(self.rng.random(shape) < 0.3, 0, x)
        with np.errstate(over="ignore"):
            return np.asarray(x, dtype)

    def array(self, kind: str, shape: Shape) -> Any:
        """An argument of a kind: one of KINDS, or integers below a length."""
        if kind[0] == "<":
            return self.rng.integers(0, max(self.length(kind[2:]), 1), self.axes(shape))
        return KINDS[kind](self, self.axes(shape))


def positive(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers from about 0.1 to 10: deviations, length scales."""
    return np.asarray(np.exp(np.clip(draw.rng.standard_normal(shape), -3, 3)), _floating(draw.dtype))


def nonzero(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    return positive(draw, shape) * draw.rng.choice([-1, 1], shape).astype(_floating(draw.dtype))


def fraction(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers from 0 to 1, both included."""
    return np.asarray(np.clip(draw.rng.uniform(-0.2, 1.2, shape), 0, 1), _real(draw.dtype))


def probability(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that add up to 1 along the last axis."""
    x = draw.rng.uniform(0, 1, shape)
    return np.asarray(x / x.sum(-1, keepdims=True), _real(draw.dtype))


def factor(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Lower triangular with a positive diagonal."""
    lower = np.tril(draw.rng.standard_normal(shape), -1)
    return np.asarray(lower + np.eye(shape[-1]) * positive(draw, shape), _floating(draw.dtype))


def definite(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Symmetric, with eigenvalues from about 1."""
    x = draw.rng.standard_normal(shape)
    return np.asarray(x @ x.swapaxes(-1, -2) + np.eye(shape[-1]), _floating(draw.dtype))


def mask(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Booleans: most often some of each, and now and then rows that may see nothing, or all."""
    found = draw.rng.random(shape) < draw.of([0.2, 0.5, 0.8, 0.8, 1.0, 0.0])
    if found.ndim and draw.chance(0.3):
        found &= draw.rng.random((*found.shape[:-1], 1)) < 0.7
    return found


def whole(high: int, low: int = 0):
    """A kind: integers from `low`, below `high`."""
    return lambda draw, shape: draw.rng.integers(low, high, shape)


def _floating(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind in "fc" else np.dtype("float64")


def _real(dtype: np.dtype) -> np.dtype:
    return np.empty(0, _floating(dtype)).real.dtype


KINDS: dict[str, Any] = {
    "number": lambda draw, shape: draw.normal(shape),
    "floating": lambda draw, shape: draw.normal(shape, _floating(draw.dtype)),
    "small": lambda draw, shape: np.asarray(0.1 * draw.rng.standard_normal(shape), _floating(draw.dtype)),
    "positive": positive,
    "nonzero": nonzero,
    "degrees": lambda draw, shape: positive(draw, shape) + _floating(draw.dtype).type(2),  # so that there is a variance
    "fraction": fraction,
    "constant": lambda draw, shape: positive(draw, shape).real.astype(_real(draw.dtype)),
    "probability": probability,
    "factor": factor,
    "definite": definite,
    "mask": mask,
    "index": whole(3, -3),
    "place": whole(20, -20),
    "length": whole(3),
    "class": lambda draw, shape: draw.rng.integers(0, max(draw.length("V"), 1), shape),
    "bucket": lambda draw, shape: draw.rng.integers(0, max(draw.length("L"), 1), shape),
}
NOT_NUMBERS = ("constant", "mask", "index", "place", "length", "class", "bucket")
