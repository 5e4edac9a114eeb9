"""Groups of matrices: rotations and reflections in any dimension, and a group of one's own.

    RotateSpace   x → R_1 … R_k Mᵐ x       R a turn in the plane of two coordinates,  M = diag(−1, 1, …, 1)
    MatrixGroup   x → A_1 … A_k x          products of given matrices, or of drawn ones

Along several axes of an array the same matrix acts on each: x → A x Aᵀ for two, as covariances move. Turns are given as
parts of a full turn, so that quarters are exact, and all others are rounded in the precision of the array. Every
rotation is a product of turns in planes, n (n − 1)/2 of them at most.

Source: Givens (1958), for turns in planes.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from refnp.autograd import Array, ArrayLike
from refnp.symmetry.actions import SMALL, Arrays, AxisAction, WithNeutral, are_whole, is_real, is_whole
from refnp.symmetry.geometry import PERTURBATION

Turn = tuple[int, int, float]  # from coordinate i towards coordinate j, by this part of a full turn
Rotation = tuple[tuple[Turn, ...], int]  # turns, the last one first, after m reflections of coordinate 0
Word = tuple[Any, ...]  # matrices of a product, by number or as what was drawn
Matrix = ArrayLike | Callable[[np.dtype], ArrayLike]

MOST_TURNS = 28  # in one element that is drawn: all planes of 8 dimensions
MOST_PLANES = 8  # in which every search turns
LONGEST = 6  # product of matrices that is drawn
SIMPLE_TURNS = (1 / 4, 1 / 2, 1 / 8, 1 / 16)


@dataclass(frozen=True)
class RotateSpace(WithNeutral, AxisAction):
    """Rotations about the origin of coordinates (..., n) along `axis`, for any n: SO(n), with `mirror` O(n).

    An element is (turns, m): after m reflections of coordinate 0 the turns (i, j, t), from coordinate i towards j by
    the part t of a full turn, the last of them first. `pseudo` is for what a reflection also changes the sign of, such
    as a cross product: x → det(R) R x; with `axis=()` for numbers that have no coordinates, such as a triple product.
    Quarter turns and reflections are exact. Raises ValueError for whole numbers that are turned otherwise, and for a
    turn in coordinates that are not there.
    """

    _: KW_ONLY
    mirror: bool = False
    pseudo: bool = False

    neutral = (), 0
    group = "rotations of space"
    an_element = "turns (i, j, part of a turn) and 1 after a reflection, otherwise 0, such as (((0, 1, 0.25),), 0)"

    def is_element(self, g: Rotation) -> bool:
        if not isinstance(g, (tuple, list)) or len(g) != 2 or not is_whole(g[1]) or g[1] not in (0, 1):
            return False
        return isinstance(g[0], (tuple, list)) and all(
            isinstance(turn, (tuple, list)) and len(turn) == 3 and are_whole(tuple(turn[:2])) and is_real(turn[2])
            for turn in g[0]
        )

    def inverse(self, g: Rotation) -> Rotation:
        turns = tuple((i, j, t if g[1] and 0 in (i, j) else -t) for i, j, t in reversed(g[0]))
        return turns, g[1]

    def of_order(self, order: int, rng: np.random.Generator, arrays: Arrays) -> Rotation | None:
        n = self.length(arrays)
        if n < 2 or (self.mirror and rng.integers(2)):
            return ((), 1) if self.mirror and n else None
        i, j = sorted(rng.permutation(n)[:2].tolist())
        return ((i, j, 1 / order),), 0

    def moved(self, g: Rotation, name: str, array: Array) -> Array:
        turns, mirrored = g
        if array.dtype.kind in "bu":
            raise ValueError(f"RotateSpace: {name} is {array.dtype} and has no sign; name the arrays that have one")
        for axis in self.axes(name, array):
            x = np.moveaxis(array.copy(), axis, 0)
            if mirrored and len(x):
                x[0] = -x[0]
            for i, j, t in reversed(turns):
                if max(i, j) >= len(x):
                    raise ValueError(
                        f"RotateSpace: {name} has shape {array.shape}; a turn in the plane of coordinates {i} and {j} "
                        f"needs {max(i, j) + 1} along axis {axis}"
                    )
                cos, sin = _cos_sin(t, array.dtype)
                x[i], x[j] = cos * x[i] - sin * x[j], sin * x[i] + cos * x[j]
            array = np.moveaxis(x, 0, axis)
        return -array if mirrored and self.pseudo else array

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Rotation:
        """A turn by quarters in one plane, by any part of a turn in one plane, or in all planes, as often each."""
        n, kind = self.length(arrays), rng.integers(3)
        mirrored = int(rng.integers(2)) if self.mirror and n else 0
        planes = list(itertools.combinations(range(n), 2))
        if not planes:
            return (), mirrored
        if kind < 2:
            i, j = planes[rng.integers(len(planes))]
            return ((i, j, rng.integers(1, 4) / 4 if kind == 0 else _part(rng)),), mirrored
        chosen = rng.permutation(len(planes))[:MOST_TURNS]
        return tuple((*planes[k], _part(rng)) for k in chosen), mirrored

    def compose(self, g: Rotation, h: Rotation) -> Rotation:
        """M R Mᵐ is R with the turns that involve coordinate 0 the other way round, times Mᵐ⁺¹."""
        turns = tuple((i, j, -t if 0 in (i, j) else t) for i, j, t in h[0]) if g[1] else h[0]
        return (*g[0], *turns), (g[1] + h[1]) % 2

    def generators(self, arrays: Arrays) -> list[Rotation]:
        """In planes of neighbouring coordinates, at most 8 of them, a quarter turn and 3/32 of one; the reflection."""
        planes = list(itertools.pairwise(range(self.length(arrays))))
        if len(planes) > MOST_PLANES:
            planes = [planes[k] for k in np.linspace(0, len(planes) - 1, MOST_PLANES).round().astype(int)]
        turns: list[Rotation] = [(((i, j, t),), 0) for i, j in planes for t in (1 / 4, 3 / 32)]
        return [*turns, ((), 1)] if self.mirror and self.length(arrays) else turns

    def elements(self, arrays: Arrays) -> list[Rotation] | None:
        if (n := self.length(arrays)) > 1:
            return None
        return [((), m) for m in range(1 + (self.mirror and n == 1))]

    def perturbed(self, g: Rotation, rng: np.random.Generator) -> Rotation:
        turned = ((i, j, t if 4 * t % 1 == 0 else t * (1 + PERTURBATION * rng.uniform(-1, 1))) for i, j, t in g[0])
        return tuple(turned), g[1]

    def simpler(self, g: Rotation) -> Iterator[Rotation]:
        """The reflection alone, or none; one turn alone, one turn fewer; each by a simpler part, in the first plane."""
        turns, mirrored = g
        if mirrored and turns:
            yield from (((), 1), (turns, 0))
        if len(turns) > 1:
            yield from (((turn,), mirrored) for turn in turns)
            yield from ((turns[:k] + turns[k + 1 :], mirrored) for k in range(len(turns)))
        for k, (i, j, t) in enumerate(turns):
            nearest = (*SIMPLE_TURNS, round(16 * t) / 16, round(256 * t) / 256)
            parts = (s for s in nearest if s and _effort(s) < _effort(t))
            for turn in [*((i, j, s) for s in parts), *([(0, 1, t)] if (i, j) != (0, 1) else [])]:
                yield (*turns[:k], turn, *turns[k + 1 :]), mirrored

    def describe(self, g: Rotation) -> str:
        words = ["coordinate 0 mirrored"] if g[1] else []
        words += [f"{t:g} of a turn from coordinate {i} to {j}" for i, j, t in reversed(g[0])]
        return ", then ".join(words) or "no turn"

    def __str__(self) -> str:
        signs = ", with the sign of reflections" if self.pseudo else ""
        return f"rotations{' and reflections' if self.mirror else ''} of {self.where()} about the origin{signs}"


def _part(rng: np.random.Generator) -> float:
    """A part of a turn, as a number of float32, so that it is the same in every precision."""
    return float(np.float32(rng.uniform(-0.5, 0.5))) or 0.25


def _effort(t: float) -> tuple[int, float]:
    """How far a part of a turn is from simple: by its place in the list, then by the length of its fraction."""
    if t in SIMPLE_TURNS:
        return SIMPLE_TURNS.index(t), 0.0
    return len(SIMPLE_TURNS) + t.as_integer_ratio()[1].bit_length(), abs(t)


def _cos_sin(t: float, dtype: np.dtype) -> tuple[Any, Any]:
    """cos 2πt and sin 2πt in the precision of an array, from the nearest quarter turn: that part is exact."""
    quarters = round(4 * t)
    rest = t - quarters / 4
    if dtype.kind not in "fc":
        if rest:
            raise ValueError(f"RotateSpace: whole numbers can be turned by quarters only, not by {t:g} of a turn")
        c, s = 1, 0
    else:
        real = np.empty(0, dtype).real.dtype.type
        angle = 8 * np.arctan(real(1)) * real(rest)
        c, s = np.cos(angle), np.sin(angle)
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]


@dataclass(frozen=True, eq=False)
class MatrixGroup(WithNeutral, AxisAction):
    """The products of matrices (n, n), given or drawn, on coordinates (..., n) along `axis`: x → A_1 … A_k x.

        MatrixGroup("x", matrices=[[[1, 1], [0, 1]], [[0, -1], [1, 0]]])                     SL(2, ℤ)
        MatrixGroup("x", matrices=boost, sample=lambda rng: rng.uniform(-1, 1))              x → boost(r, dtype) x

    matrices   generators, or a whole group: arrays, or functions of a dtype that give arrays in it. Where a claim has
               two such actions, the second moves the output by the products of its own matrices, number by number: in
               another representation of the same group
    sample     rng → what `matrices`, then a function of that and of a dtype, makes a matrix of: a number, or a tuple of
               numbers. A claim's two actions must have the same `sample`

    An element is a tuple: the numbers of the matrices, or what was drawn, the last of them first. All products are
    tried if there are at most 120 different ones. Inverses are not needed: a claim about A at every x is one about A⁻¹
    at every A x. Give matrices that are no fractions of powers of 2, such as a third of a turn, as functions of the
    dtype: otherwise their own rounding to float64 is seen in longdouble, and the claim is undecided.
    Raises ValueError for no matrices, or matrices that are not square, equally large and finite.
    """

    _: KW_ONLY
    matrices: Sequence[Matrix] | Callable[[Any, np.dtype], ArrayLike] = ()
    sample: Callable[[np.random.Generator], Any] | None = None

    def __post_init__(self) -> None:
        if (self.sample is not None) != callable(self.matrices):
            raise ValueError("MatrixGroup: give matrices=[…], or matrices=function and sample=function together")
        if self.sample is None and not len(self._list):
            raise ValueError("MatrixGroup: there are no matrices; give at least one")
        shapes = {np.shape(a) for a in self._list}
        if len(shapes) > 1 or any(len(s) != 2 or s[0] != s[1] for s in shapes):
            raise ValueError(f"MatrixGroup: the matrices have shapes {sorted(shapes)}; they must all be (n, n)")
        if not all(np.isfinite(a).all() for a in self._list):
            raise ValueError("MatrixGroup: a matrix has a NaN or an infinity; matrices must be finite")

    @functools.cached_property
    def _list(self) -> list[Array]:
        """The matrices that are given, in float64 where that is asked for."""
        if callable(self.matrices):
            return []
        return [np.asarray(a(np.dtype(float)) if callable(a) else a) for a in self.matrices]

    @property
    def group(self) -> tuple:
        return ("products of matrices", self.sample or len(self._list))

    neutral = ()
    an_element = "a tuple with the numbers of the matrices, from 0, the last of them first, or with what was drawn"

    def is_element(self, g: Word) -> bool:
        if self.sample is not None:
            return isinstance(g, (tuple, list))
        return are_whole(g) and all(0 <= letter < len(self._list) for letter in g)

    def matrix(self, letter: Any, dtype: np.dtype) -> Array:
        """One of the matrices, in the dtype of an array. Raises ValueError if it cannot be in it."""
        given: Any = self.matrices(letter, dtype) if callable(self.matrices) else self.matrices[letter]
        found = np.asarray(given(dtype) if callable(given) else given)
        if dtype.kind in "fc" and not (found.dtype.kind == "c" and dtype.kind == "f"):
            return found.astype(dtype)
        if dtype.kind in "iu" and found.dtype.kind != "c" and np.all(found == np.rint(found)):
            return found.astype(dtype)
        raise ValueError(f"MatrixGroup: an array of {dtype} cannot be multiplied by a matrix of {found.dtype}")

    def moved(self, g: Word, name: str, array: Array) -> Array:
        for axis in self.axes(name, array) if g else ():
            x = np.moveaxis(array, axis, -1)
            for letter in reversed(g):
                a = self.matrix(letter, array.dtype)
                if a.shape != (x.shape[-1],) * 2:
                    raise ValueError(
                        f"MatrixGroup: {name} has shape {array.shape}, and the matrix {a.shape}; axis {axis} must have "
                        f"{a.shape[-1]} coordinates"
                    )
                x = np.matmul(x, a.T)
            array = np.moveaxis(x, -1, axis)
        return array.copy()

    @functools.cached_property
    def _products(self) -> list[Word] | None:
        """A shortest word for each different product, the identity's first; None if there are more than SMALL."""
        if self.sample is not None:
            return None
        letters = [a.astype(np.result_type(a, float)) for a in self._list]
        found: dict[bytes, Word] = {}
        edge: list[tuple[Word, Array]] = [((), np.eye(len(letters[0])))]
        while edge:
            further = []
            for word, product in edge:
                key = _to_nine_digits(product)
                if key not in found:
                    found[key] = word
                    further += [((k, *word), a @ product) for k, a in enumerate(letters)]
            if len(found) > SMALL:
                return None
            edge = further
        return list(found.values())

    def elements(self, arrays: Arrays) -> list[Word] | None:
        return self._products

    def generators(self, arrays: Arrays) -> list[Word]:
        return [(k,) for k in range(len(self._list))]

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Word:
        if self.sample is not None:
            return tuple(_exact(self.sample(rng)) for _ in range(rng.integers(1, 3)))
        if self._products is not None:
            return self._products[rng.integers(len(self._products))]
        return tuple(rng.integers(0, len(self._list), rng.integers(1, LONGEST + 1)).tolist())

    def compose(self, g: Word, h: Word) -> Word:
        return g + h

    def perturbed(self, g: Word, rng: np.random.Generator) -> Word:
        if self.sample is None:
            return g
        return tuple(_each_number(letter, lambda v: v * (1 + PERTURBATION * rng.uniform(-1, 1))) for letter in g)

    def simpler(self, g: Word) -> Iterator[Word]:
        """One matrix alone, one matrix fewer; what was drawn as ones, whole numbers, eighths."""
        if len(g) > 1:
            yield from dict.fromkeys((letter,) for letter in g)
            yield from (g[:k] + g[k + 1 :] for k in range(len(g)))
        for k, letter in enumerate(g if self.sample is not None else ()):
            for change in (_sign, _whole, _eighths):
                simple = _each_number(letter, change)
                if simple != letter and _digits(simple) < _digits(letter):
                    yield (*g[:k], simple, *g[k + 1 :])

    def describe(self, g: Word) -> str:
        if not g:
            return "no matrix"
        return f"matrix {g[0]}" if len(g) == 1 else "product of matrices " + ", ".join(map(str, g))

    def __str__(self) -> str:
        which = f"{len(self._list)} matrices" if self.sample is None else "drawn matrices"
        return f"products of {which} on {self.where()}"


def _sign(number: float) -> float:
    return math.copysign(1.0, number)


def _whole(number: float) -> float:
    return float(round(number))


def _eighths(number: float) -> float:
    return round(8 * number) / 8


def _to_nine_digits(product: Array) -> bytes:
    """The same for products that differ by rounding, relative to their largest number."""
    scale = np.abs(product).max(initial=0) or 1.0
    digits = np.append(np.round(product.astype(complex) / scale, 9), np.round(np.log2(scale), 9))
    return (digits + 0.0).tobytes()


def _each_number(letter: Any, change: Callable[[float], Any]) -> Any:
    """What was drawn for a matrix, with its real numbers changed."""
    if isinstance(letter, tuple):
        return tuple(_each_number(part, change) for part in letter)
    return change(letter) if isinstance(letter, float) else letter


def _exact(letter: Any) -> Any:
    """What was drawn, as plain numbers, real ones rounded to float32, so that they are the same in every precision."""
    plain = letter.tolist() if isinstance(letter, (np.ndarray, np.generic)) else letter
    plain = tuple(map(_exact, plain)) if isinstance(plain, (list, tuple)) else plain
    return _each_number(plain, lambda v: float(np.float32(v)))


def _digits(letter: Any) -> int:
    parts = letter if isinstance(letter, tuple) else (letter,)
    return sum(_digits(part) if isinstance(part, tuple) else len(repr(part)) for part in parts)
