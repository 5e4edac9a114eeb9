"""Words: a sentence as tokens, tokens as numbers, and back.

    "J'ai faim, Marie !"  →  j'  ai  faim  ,  marie  !  →  31 7 24 4 40 5

A token is a run of letters and digits, in lower case, with the apostrophe that ends it (l'eau gives l' eau, o'clock
o' clock) or the hyphen that begins it (est-ce gives est -ce); any other sign is a token of its own. So a model sees the
small words that French glues together, and the spaces can be put back without a list of exceptions.
"""

import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from refnp.autograd.tensor import ArrayLike

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")
TOKEN = re.compile(r"-?\w+'?|[^\w\s]")
CLOSING = ".,?!;:"  # written close to the word before
FRENCH_SPACED = "?!;:"  # but not these, in French


def tokenize(text: str) -> list[str]:
    """The tokens of a text, in lower case, é as one character, ’ as '; an empty text has none."""
    return TOKEN.findall(unicodedata.normalize("NFC", text.lower()).replace("’", "'"))


def detokenize(tokens: Iterable[str], *, spaced: str = "") -> str:
    """The text of tokens: tokenize(detokenize(tokenize(text))) == tokenize(text).

    Closing punctuation is written close to the word before, but those in `spaced` (`FRENCH_SPACED`).
    """
    text, elided = "", True
    for token in tokens:
        close = elided or (token[:1] == "-" and len(token) > 1) or (token in CLOSING and token not in spaced)
        text += token if close else " " + token
        elided = token[-1:] == "'" and len(token) > 1
    return text


class Vocabulary:
    """Words with numbers from 4 on; 0 to 3 are <pad>, <start>, <end> and <unknown>.

    The four names are no words: no text can contain an end that is not one.
    Raises ValueError for a word that stands twice or is one of the four.
    """

    def __init__(self, words: Iterable[str]):
        self.words = (*SPECIAL, *words)
        self._numbers = {word: number for number, word in enumerate(self.words) if number >= len(SPECIAL)}
        if len(self._numbers) + len(SPECIAL) < len(self.words) or any(name in self._numbers for name in SPECIAL):
            wrong = next(word for i, word in enumerate(self.words) if word in self.words[:i])
            raise ValueError(f"Vocabulary: {wrong!r} stands twice; {', '.join(SPECIAL)} are there already")

    @classmethod
    def of(cls, sentences: Iterable[Iterable[str]]) -> "Vocabulary":
        """All words of some sentences, each a list of tokens, in the order of the alphabet."""
        return cls(sorted({token for sentence in sentences for token in _tokens("Vocabulary.of", sentence)}))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._numbers

    def encode(self, tokens: Iterable[str]) -> np.ndarray:
        """The numbers (N,) of N tokens, 3 for an unknown one; no tokens give an empty array.   TypeError for a text."""
        return np.array([self._numbers.get(token, UNKNOWN) for token in _tokens("encode", tokens)], np.int64)

    def decode(self, numbers: ArrayLike) -> list[str]:
        """The tokens of `numbers` (N,) up to the first <end>, without <pad> and <start>.

        Raises TypeError unless they are integers, ValueError unless they are one sequence, IndexError for a number that
        this vocabulary does not have.
        """
        numbers = np.asarray(numbers)
        if numbers.ndim != 1:
            raise ValueError(f"decode: numbers have shape {numbers.shape}; pass one sentence, (N,)")
        if numbers.dtype.kind not in "iu" and numbers.size:
            raise TypeError(f"decode: numbers are {numbers.dtype}; pass integers")
        wrong = numbers[(numbers < 0) | (numbers >= len(self))]
        if wrong.size:
            raise IndexError(f"decode: {wrong[0]} is not in this vocabulary of {len(self)} words; use its own numbers")
        ends = np.flatnonzero(numbers == END)
        kept = numbers[: ends[0]] if ends.size else numbers
        return [self.words[number] for number in kept if number not in (PAD, START)]


def _tokens(name: str, sentence: Iterable[str]) -> Iterable[str]:
    """The sentence, unless it is a text: its letters would pass for words."""
    if isinstance(sentence, str):
        raise TypeError(f"{name}: {sentence!r} is a text; pass its words, tokenize(text), or letters, list(text)")
    return sentence
