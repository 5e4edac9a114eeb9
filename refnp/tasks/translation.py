"""Translation: pairs of sentences from a file, those that are held out of the training, and BLEU.

refnp ships some eleven hundred English sentences with their French, `english_french()`, written for it as a textbook
would have them: persons, places, food, belongings, agreement, negation, questions, numbers, the time, the past. One
English sentence has one French; "you" is tu, "they" is ils, "I", "you" and "we" are men. Capitals stand only where the
dictionary has them, questions end in "?", with a space before it in French, other sentences in nothing.

Any other file will do: UTF-8, a pair a line, the two sides separated by one tab.
Source: Sivaraya (2023) §1.7 ("I live in Paris"), Attention Notes §10.2.2.

How good translations are, BLEU says, from the runs of words that they share with those of people:

    p_n  = Σ_h Σ_g min(count of g in h, largest count of g in a reference of h) / Σ_h max(|h| − n + 1, 0)
    BP   = min(1, exp(1 − r/c))         c = Σ |h|, r = Σ length of the reference closest in length to h
    BLEU = 100 · BP · exp( ¼ Σ_{n=1…4} log p_n )

h runs over the hypotheses, g over their n-grams, runs of n words. Counts are clipped: a word that stands seven times
counts as often as a reference has it. All sums run over the corpus before any division.
Source: Papineni et al. (2002), §2; smoothing: Post (2018), sacreBLEU, and Chen & Cherry (2014), methods 1 and 3.
Transcription: tests/transcriptions/bleu.py.
"""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refnp.autograd.tensor import ArrayLike
from refnp.tasks.words import PAD, tokenize

CORPUS = Path(__file__).with_name("english_french.tsv")


def english_french() -> list[tuple[str, str]]:
    """The pairs that ship with refnp."""
    return load_pairs(CORPUS)


def load_pairs(path: str | Path) -> list[tuple[str, str]]:
    """All (source, target) sentences of a file; see `read_pairs`, which tells good lines from bad ones.

    Raises ValueError that lists every bad line by number, or if there is no line at all.
    """
    pairs, faults = read_pairs(path)
    if faults:
        lines: dict[str, list[int]] = {}
        for number, fault in faults:
            lines.setdefault(fault, []).append(number)
        some = {fault: (numbers[:8], len(numbers) - 8) for fault, numbers in lines.items()}
        listed = "; ".join(
            f"{fault} in line {', '.join(map(str, first))}{f' and {more} more' if more > 0 else ''}"
            for fault, (first, more) in some.items()
        )
        raise ValueError(
            f"load_pairs: {path}: {len(faults)} bad and {len(pairs)} good lines: {listed}. Each must be a sentence, "
            "a tab, its translation; mend them, or take the good ones with read_pairs"
        )
    if not pairs:
        raise ValueError(f"load_pairs: {path} holds no pairs; each line must be a sentence, a tab, its translation")
    return pairs


def read_pairs(path: str | Path) -> tuple[list[tuple[str, str]], list[tuple[int, str]]]:
    """The pairs on the good lines of a file, and (line number from 1, what is wrong) for each of the bad ones.

    Blank lines are passed over; a byte order mark and line ends of Windows are no fault.
    Raises OSError if the file cannot be read.
    """
    pairs, faults = [], []
    for number, line in enumerate(Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            sides = [side.strip() for side in line.decode("utf-8").split("\t")]
        except UnicodeDecodeError:
            faults.append((number, "bytes that are not UTF-8"))
            continue
        if len(sides) == 2 and all(sides):
            pairs.append((sides[0], sides[1]))
        elif sides != [""]:
            faults.append((number, _fault(sides)))
    return pairs, faults


def _fault(sides: list[str]) -> str:
    if len(sides) == 1:
        return "no tab"
    if len(sides) > 2:
        return f"{len(sides) - 1} tabs"
    return "an empty left side" if not sides[0] else "an empty right side"


def split(
    pairs: Sequence[tuple[str, str]], held_out: int, rng: np.random.Generator, *, seen: int = 3
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs for training, and `held_out` others: new sentences, of words that stand in the first.

    Each word of a held-out pair stands at least `seen` times in the training pairs, on its side, and its source
    sentence is not among theirs. Both lists keep the order of `pairs`.   Raises ValueError if there are not so many.
    """
    words = [Counter((side, token) for side in (0, 1) for token in tokenize(pair[side])) for pair in pairs]
    left = Counter[tuple[int, str]]()
    for own in words:
        left.update(own)
    sources = Counter(tuple(tokenize(source)) for source, _ in pairs)
    out: set[int] = set()
    for i in rng.permutation(len(pairs)):
        if len(out) == held_out:
            break
        if sources[tuple(tokenize(pairs[i][0]))] == 1 and all(left[w] - n >= seen for w, n in words[i].items()):
            left.subtract(words[i])
            out.add(int(i))
    if len(out) < held_out:
        raise ValueError(
            f"split: only {len(out)} of {len(pairs)} pairs can be held out, not {held_out}, with each word "
            f"{seen} times in the rest; ask for fewer, or a smaller `seen`"
        )
    return [pair for i, pair in enumerate(pairs) if i not in out], [pairs[i] for i in sorted(out)]


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
            found = ngrams(hypothesis, n)
            most = Counter[tuple[str, ...]]()
            for reference in several:
                most |= ngrams(reference, n)  # the largest count of each
            matches[n - 1] += (found & most).total()  # the smaller of the two counts of each
            totals[n - 1] += found.total()
    if not matches.any() or not totals.all():
        return 0.0
    smoothed = _smoothed(matches, smoothing)
    if not smoothed.all():
        return 0.0
    words = sum(map(len, hypotheses))
    length = sum(
        min((abs(len(reference) - len(hypothesis)), len(reference)) for reference in several)[1]
        for hypothesis, several in zip(hypotheses, references, strict=True)
    )
    brevity = min(1.0, math.exp(1 - length / words))
    return 100 * brevity * math.exp(sum(math.log(m / t) for m, t in zip(smoothed, totals, strict=True)) / order)


def ngrams(sentence: Sentence, n: int) -> Counter[tuple[str, ...]]:
    """How often each run of n words stands in a sentence."""
    return Counter(tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1))


def token_accuracy(predicted: ArrayLike, target: ArrayLike) -> float:
    """The share of tokens, <end> among them and padding not, that are predicted right; NaN if there are none.

    Shapes: predicted (B, N) and target (B, N) integers.   Raises ValueError if they differ in shape.
    """
    predicted, target = np.asarray(predicted), np.asarray(target)
    if predicted.shape != target.shape:
        raise ValueError(f"token_accuracy: predicted is {predicted.shape}, target {target.shape}; they must match")
    mask = target != PAD
    return float((predicted == target)[mask].mean()) if mask.any() else math.nan


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
