"""How good translations are: BLEU, which counts the runs of words they share with those of people, and token accuracy.

    p_n  = Σ_h Σ_g min(count of g in h, largest count of g in a reference of h) / Σ_h max(|h| − n + 1, 0)
    BP   = min(1, exp(1 − r/c))         c = Σ |h|, r = Σ length of the reference closest in length to h
    BLEU = 100 · BP · exp( ¼ Σ_{n=1…4} log p_n )

h runs over the hypotheses, g over their n-grams, runs of n words. Counts are clipped: a word said seven times counts
as often as a reference has it. All sums run over the corpus before any division.
Source: Papineni, Roukos, Ward & Zhu, BLEU, ACL 2002, §2. Smoothing: Post, A call for clarity, WMT 2018 (sacreBLEU);
Chen & Cherry, WMT 2014, methods 1 and 3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.tasks.words import PAD

Sentence = Sequence[str]
SMOOTHINGS = ("none", "floor", "exp")


def bleu(
    hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]], *, order: int = 4, smoothing: str = "none"
) -> float:
    """BLEU of hypotheses, lists of words, with one or more references for each: from 0 to 100.

    A precision p_n with no match makes BLEU 0 without `smoothing`; "floor" counts it as 0.1 matches, "exp" the k-th
    such as 2⁻ᵏ. It is 0 all the same if nothing matches at all, or if no hypothesis has `order` words.
    A tie between two reference lengths goes to the shorter.
    Raises ValueError for numbers of sentences that disagree, no references or another smoothing, TypeError for a text
    in place of words.
    Elsewhere: as sacreBLEU with tokenize="none" (where "exp" is the default).
    """
    _check(hypotheses, references, order, smoothing)
    matches, totals = np.zeros(order), np.zeros(order)
    for hypothesis, several in zip(hypotheses, references, strict=True):
        for n in range(1, order + 1):
            counts = ngrams(hypothesis, n)
            most = Counter[tuple[str, ...]]()
            for reference in several:
                most |= ngrams(reference, n)  # the largest count of each
            matches[n - 1] += (counts & most).total()  # the smaller of the two counts of each
            totals[n - 1] += counts.total()
    if not matches.any() or not totals.all():
        return 0.0
    smoothed = _smoothed(matches, smoothing)
    if not smoothed.all():
        return 0.0
    words = sum(map(len, hypotheses))
    wanted = sum(
        min((abs(len(reference) - len(hypothesis)), len(reference)) for reference in several)[1]
        for hypothesis, several in zip(hypotheses, references, strict=True)
    )
    brevity = min(1.0, math.exp(1 - wanted / words))
    return 100 * brevity * math.exp(sum(math.log(m / t) for m, t in zip(smoothed, totals, strict=True)) / order)


def ngrams(sentence: Sentence, n: int) -> Counter[tuple[str, ...]]:
    """How often each run of n words stands in a sentence."""
    return Counter(tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1))


def token_accuracy(predicted: Any, target: Any) -> float:
    """The share of tokens, <end> among them and padding not, that are predicted right; NaN if there are none.

    Shapes: predicted (B, M) and target (B, M) integers.   Raises ValueError if they differ in shape.
    """
    predicted, target = np.asarray(predicted), np.asarray(target)
    if predicted.shape != target.shape:
        raise ValueError(f"token_accuracy: predicted is {predicted.shape}, target {target.shape}; they must match")
    counts = target != PAD
    return float((predicted == target)[counts].mean()) if counts.any() else math.nan


def _smoothed(matches: np.ndarray, smoothing: str) -> np.ndarray:
    """Matches of each order, with something in place of 0."""
    none = matches == 0
    instead: Any = {"none": 0.0, "floor": 0.1, "exp": 0.5 ** np.cumsum(none)}[smoothing]
    return np.where(none, instead, matches)


def _check(hypotheses, references, order, smoothing):
    if smoothing not in SMOOTHINGS:
        raise ValueError(f"bleu: smoothing is {smoothing!r}; use one of {', '.join(map(repr, SMOOTHINGS))}")
    if order < 1:
        raise ValueError(f"bleu: order is {order}; it must be at least 1")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"bleu: {len(hypotheses)} hypotheses but {len(references)} lists of references; they must match"
        )
    for i, (hypothesis, several) in enumerate(zip(hypotheses, references, strict=True)):
        if not several:
            raise ValueError(f"bleu: hypothesis {i} has no reference; pass a list of one or more")
        if isinstance(hypothesis, str) or any(isinstance(sentence, str) for sentence in (several, *several)):
            raise TypeError(
                f"bleu: sentence {i} is a text; a hypothesis is a list of words, its references a list of such lists"
            )
