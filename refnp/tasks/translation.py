"""Translation: pairs of sentences from a file, and which of them a model must not see in training.

refnp ships some eleven hundred English sentences with their French, `english_french()`, written for it as a textbook
would have them: persons, places, food, belongings, agreement, negation, questions, numbers, the time, the past. One
English sentence has one French; "you" is tu, "they" is ils, "I", "you" and "we" are men. Capitals stand only where the
dictionary has them, questions end in "?", with a space before it in French, other sentences in nothing.

Any other file will do: UTF-8, a pair a line, the two sides separated by one tab.
Source: Sivaraya (2023) §1.7 ("I live in Paris"), Attention Notes §10.2.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from refnp.tasks.words import tokenize

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
        listed = "; ".join(f"{fault} in line {', '.join(map(str, numbers))}" for fault, numbers in lines.items())
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
    """Pairs for training, and `held_out` others: new sentences, of words that who has learned the first knows.

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
