"""Sequences: batches of pairs of them, and tasks without end whose answers are exact, learned in a minute or two.

    copy       1 7 3 3 9   →   1 7 3 3 9
    reverse    5 4 9       →   9 4 5
    sort       5 4 9       →   4 5 9
    dates      "March 3, 2021", "3 mars 2021", "03/03/21", …   →   "2021-03-03"

A task draws a `Batch` of new sequences from a generator: `Reverse().sample(rng, 32)`. In a batch, rows are as long as
the longest, filled up with <pad>; the target is there twice, as input and, moved by one, as output:

    source       i     live  in    paris  <pad>
    target_in    <start>  je   vis  à      paris          what the decoder reads
    target_out   je       vis  à    paris  <end>          what it is to predict: the next one
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from refnp.autograd.tensor import Array
from refnp.tasks.words import END, PAD, SPECIAL, START, Vocabulary

Pair = tuple[Array, Array]  # the numbers of a source and of its target


@dataclass(frozen=True, eq=False)
class Batch:
    """Source (B, M), target_in (B, N) and target_out (B, N), integers; 0 is padding, at the ends."""

    source: Array
    target_in: Array
    target_out: Array

    def __len__(self) -> int:
        return len(self.source)

    @property
    def source_mask(self) -> Array:
        """(B, M) booleans, True = a word, False = padding."""
        return self.source != PAD

    @property
    def target_mask(self) -> Array:
        """(B, N) booleans, True = a word, <start> or <end>, False = padding."""
        return self.target_out != PAD


def batch_of(pairs: Sequence[Pair]) -> Batch:
    """One batch of pairs of number sequences, in their order.

    An empty source is a row of padding, which is not attended to; an empty target is <end> at once.
    Raises ValueError for no pairs, TypeError for what is not integers.
    """
    if not pairs:
        raise ValueError("batch_of: there are no pairs; pass at least one")
    sources, targets = ([_numbers(sequence) for sequence in side] for side in zip(*pairs, strict=True))
    return Batch(
        source=_side_by_side(sources),  # (B, M)
        target_in=_side_by_side([np.append(START, target) for target in targets]),  # (B, N)
        target_out=_side_by_side([np.append(target, END) for target in targets]),  # (B, N)
    )


def batches(pairs: Sequence[Pair], size: int, rng: np.random.Generator) -> list[Batch]:
    """All pairs once, in batches of at most `size`, drawn anew from `rng`.

    Pairs of like length come together, so that little is padding; which of them, and in which order the batches come,
    is chance.   Raises ValueError unless size ≥ 1.
    """
    if size < 1:
        raise ValueError(f"batches: size is {size}; it must be at least 1")
    order = sorted(rng.permutation(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))  # stable
    groups = [order[start : start + size] for start in range(0, len(order), size)]
    return [batch_of([pairs[i] for i in groups[g]]) for g in rng.permutation(len(groups))]


def _numbers(sequence: Any) -> Array:
    numbers = np.asarray(sequence)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"batch_of: a sequence is {numbers.dtype}; pass integers, as Vocabulary.encode gives")
    if numbers.ndim != 1:
        raise ValueError(f"batch_of: a sequence has shape {numbers.shape}; it must be (N,)")
    return numbers.astype(np.int64)


def _side_by_side(rows: list[Array]) -> Array:
    """Rows of different lengths as one array, filled up with <pad>."""
    array = np.full((len(rows), max(map(len, rows))), PAD)
    for place, row in zip(array, rows, strict=True):
        place[: len(row)] = row
    return array


# The tasks

ENGLISH = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
FRENCH = (
    "janvier", "février", "mars", "avril", "mai", "juin",
    "juillet", "août", "septembre", "octobre", "novembre", "décembre",
)  # fmt: skip
FRENCH_DAYS = ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")
NAMES = "".join((*ENGLISH, *FRENCH, *FRENCH_DAYS))


@dataclass(frozen=True)
class Copy:
    """The copy task of the Annotated Transformer, exactly: symbols 1 to 10, sequences of 10, the first one is 1.

    That 1 stands for <start>: target_in is the sequence without its last symbol, target_out without its first. There
    is no <end>; every answer has length − 1 symbols.
    Source: The Annotated Transformer, "A first example" (V = 11 with the padding).
    """

    symbols: int = 10
    length: int = 10

    @property
    def vocabulary(self) -> int:
        """How many numbers there are, that of the padding included."""
        return self.symbols + 1

    def sample(self, rng: np.random.Generator, batch: int) -> Batch:
        """New sequences: source (B, length), targets (B, length − 1)."""
        data = rng.integers(1, self.vocabulary, (batch, self.length))
        data[:, 0] = 1
        return Batch(data, data[:, :-1], data[:, 1:])


@dataclass(frozen=True)
class Reverse:
    """A sequence in reverse order. Symbols are numbered from 4, after <pad>, <start>, <end> and <unknown>."""

    symbols: int = 10
    length: int = 16

    @property
    def vocabulary(self) -> int:
        """How many numbers there are, the special ones included."""
        return len(SPECIAL) + self.symbols

    def sample(self, rng: np.random.Generator, batch: int) -> Batch:
        """New sequences: source (B, length), targets (B, length + 1), with <start> before and <end> after."""
        source = rng.integers(len(SPECIAL), self.vocabulary, (batch, self.length))
        return batch_of(list(zip(source, self.answer(source), strict=True)))

    def answer(self, source: Array) -> Array:
        """The right target: source (..., length) → (..., length)."""
        return source[..., ::-1]


@dataclass(frozen=True)
class Sort(Reverse):
    """The symbols of a sequence in increasing order, each as often as it stands there; numbered as in `Reverse`."""

    def answer(self, source: Array) -> Array:
        """The right target: source (..., length) → (..., length)."""
        return np.sort(source, -1)


@dataclass(frozen=True)
class Dates:
    """Read a date as people write it, in English or French, letter by letter, and write it as ISO 8601 has it.

    Dates run from 1950 to 2049, so that two digits of a year are enough. Every tenth day is kept for `held_out=True`:
    a date is for training or for the test, in whatever form. Letters are numbered by `source_vocabulary` and
    `target_vocabulary`.
    """

    held_out: bool = False
    first: ClassVar[datetime.date] = datetime.date(1950, 1, 1)
    last: ClassVar[datetime.date] = datetime.date(2049, 12, 31)
    source_vocabulary: ClassVar[Vocabulary] = Vocabulary(sorted(set(" ,./0123456789" + NAMES + NAMES.lower())))
    target_vocabulary: ClassVar[Vocabulary] = Vocabulary("-0123456789")

    def sample(self, rng: np.random.Generator, batch: int) -> Batch:
        """New dates: source (B, letters of the longest, or padding), targets (B, 11), with <start> and <end>."""
        read, write = self.source_vocabulary.encode, self.target_vocabulary.encode
        return batch_of([(read(list(text)), write(list(iso))) for text, iso in self.texts(rng, batch)])

    def texts(self, rng: np.random.Generator, number: int) -> list[tuple[str, str]]:
        """Dates as people write them, in forms drawn at random, and as ISO 8601 has them."""
        days = np.arange(self.first.toordinal(), self.last.toordinal() + 1)
        days = days[(days % 10 == 0) == self.held_out]
        dates = [datetime.date.fromordinal(int(day)) for day in rng.choice(days, number)]
        return [(str(rng.choice(forms(date))), date.isoformat()) for date in dates]


def forms(date: datetime.date) -> list[str]:
    """A date in seven forms. Figures alone mean day, month, year, as in Europe; French has an ordinal for the first."""
    day, year = date.day, date.year
    english, french = ENGLISH[date.month - 1], FRENCH[date.month - 1]
    jour = "1er" if day == 1 else str(day)
    return [
        f"{day} {english} {year}",
        f"{day} {english.lower()} {year}",
        f"{english} {day}, {year}",
        f"{jour} {french} {year}",
        f"{FRENCH_DAYS[date.weekday()]} {jour} {french} {year}",
        f"{day:02}/{date.month:02}/{year % 100:02}",
        f"{day}.{date.month}.{year}",
    ]
