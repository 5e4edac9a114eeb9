"""Batches of pairs of sequences: rows side by side, filled up with <pad>, the target once as input and once as output.

source       i     live  in    paris  <pad>
target_in    <start>  je   vis  à      paris          what the decoder has seen
target_out   je       vis  à    paris  <end>          what it should say next
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.tasks.words import END, PAD, START

Pair = tuple[np.ndarray, np.ndarray]  # the numbers of a source and of its target


@dataclass(frozen=True, eq=False)
class Batch:
    """Source (B, N), target_in (B, M) and target_out (B, M), integers; 0 is padding, at the ends."""

    source: np.ndarray
    target_in: np.ndarray
    target_out: np.ndarray

    def __len__(self) -> int:
        return len(self.source)

    @property
    def source_mask(self) -> np.ndarray:
        """(B, N) booleans, True = a word, False = padding."""
        return self.source != PAD

    @property
    def target_mask(self) -> np.ndarray:
        """(B, M) booleans, True = a word, <start> or <end>, False = padding."""
        return self.target_out != PAD


def batch_of(pairs: Sequence[Pair]) -> Batch:
    """One batch of pairs of number sequences, in their order.

    An empty source is a row of padding, which nobody attends to; an empty target is <end> at once.
    Raises ValueError for no pairs, TypeError for what is not integers.
    """
    if not pairs:
        raise ValueError("batch_of: there are no pairs; pass at least one")
    sources, targets = ([_numbers(sequence) for sequence in side] for side in zip(*pairs, strict=True))
    return Batch(
        source=_side_by_side(sources),  # (B, N)
        target_in=_side_by_side([np.append(START, target) for target in targets]),  # (B, M)
        target_out=_side_by_side([np.append(target, END) for target in targets]),  # (B, M)
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


def _numbers(sequence: Any) -> np.ndarray:
    numbers = np.asarray(sequence)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"batch_of: a sequence is {numbers.dtype}; pass integers, as Vocabulary.encode gives")
    if numbers.ndim != 1:
        raise ValueError(f"batch_of: a sequence has shape {numbers.shape}; it must be (N,)")
    return numbers.astype(np.int64)


def _side_by_side(rows: list[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one array, filled up with <pad>."""
    array = np.full((len(rows), max(map(len, rows))), PAD)
    for place, row in zip(array, rows, strict=True):
        place[: len(row)] = row
    return array
