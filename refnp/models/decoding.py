"""Inference: the decoder's own words are fed back, one by one, until it says that the sentence has ended.

    p(y | x) = Π_n p(y_n | y_1 … y_{n−1}, x)

    greedy       y_n = argmax p(· | y_1 … y_{n−1}, x)
    beam search  keeps the K most probable beginnings, and of the sentences that ended those with the highest

                     score(y) = log p(y | x) / ((5 + L)/6)^α,   L the length of y with its end

Greedy is beam search with K = 1 and α = 0; K = V^L is exhaustive. Keys and values of the tokens so far are kept
(`KeyValueCache`), which gives what recomputing the whole sentence at every word would give.

Source: Sivaraya (2023) §1.8; length penalty: Wu et al. (2016), arXiv 1609.08144, eq. 14.

Transcription: tests/transcriptions/transformer.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd import no_grad
from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import ArrayLike
from refnp.kernels.process import one_blas_thread
from refnp.layers.softmax import log_softmax
from refnp.models.transformer import DecodingState, Transformer


@dataclass(frozen=True)
class Sentence:
    """A decoded sentence without its start and end; `ended` is False if it was cut off at the longest length."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    ended: bool


@explained
def greedy(
    model: Transformer, source: ArrayLike, *, start: int, end: int, longest: int, source_mask: ArrayLike | None = None
) -> list[Sentence]:
    """The most probable next word, again and again, at most `longest` of them with the end; a sentence for each source.

    Shapes: source (B, M) integers, source_mask (B, M), True for real tokens → B sentences.
    Ties go to the lowest token.   Raises ValueError unless source is a batch and `longest` ≥ 1, or if the model says
    NaN or is not causal; IndexError for tokens outside a vocabulary, start and end among them.
    """
    found = beam_search(
        model, source, start=start, end=end, longest=longest, beams=1, length_penalty=0.0, source_mask=source_mask
    )
    return [sentences[0] for sentences in found]


@explained
def beam_search(
    model: Transformer,
    source: ArrayLike,
    *,
    start: int,
    end: int,
    longest: int,
    beams: int = 4,
    length_penalty: float = 0.6,
    source_mask: ArrayLike | None = None,
) -> list[list[Sentence]]:
    """The best sentences found for each source, best first; at most `beams` of them.

    At every step the K likeliest new beginnings stay alive, and a sentence ends unless K words are likelier. A source
    is done when no beginning that is still alive can score above the worst of `beams` ended sentences; what has not
    ended after `longest` tokens, the end among them, counts as it is, `ended=False`, if fewer ended.
    `length_penalty` is α ≥ 0: 0 compares log probabilities, which favours short sentences, 1 nearly their means.
    Shapes: source (B, M) integers, source_mask (B, M), True for real tokens → B lists of sentences.
    Raises ValueError unless source is a batch, longest ≥ 1, beams ≥ 1 and length_penalty ≥ 0, or if a logit is NaN or
    the model not causal; IndexError for tokens outside a vocabulary, start and end among them.
    """
    source = _checked(model, source, longest, beams, length_penalty)
    _check_tokens(model, {"start": start, "end": end})
    model = model.without_tape()
    with no_grad():
        state = model.start(source, source_mask=source_mask)
        state.reorder(np.repeat(np.arange(len(source)), beams))
        searches = [Search(beams, end, longest, length_penalty) for _ in source]
        last = np.full((len(source) * beams, 1), start)  # (B·K, 1)
        with one_blas_thread():  # the products of a single word are too small to share
            while not all(search.done for search in searches):
                log_p = next_words(model, last, state).reshape(len(source), beams, -1)  # (B, K, V)
                chosen = np.array([s.advance(row) for s, row in zip(searches, log_p, strict=True)])  # (B, 2, K)
                first = beams * np.arange(len(source))[:, None]  # (B, 1)
                state.reorder((first + chosen[:, 0]).reshape(-1))
                last = chosen[:, 1].reshape(-1, 1)  # (B·K, 1)
    return [search.best() for search in searches]


@explained
def log_probability(
    model: Transformer,
    source: ArrayLike,
    target: Sequence,
    *,
    start: int,
    end: int,
    source_mask: ArrayLike | None = None,
) -> np.ndarray:
    """log p(y | x) = Σ_n log p(y_n | y_1 … y_{n−1}, x), the end included, of whole sentences in one pass.

    Shapes: source (B, M), target a list of B sequences of tokens, without start and end → (B,).
    Raises ValueError for another number of targets than sources, or a model that is not causal, IndexError for tokens
    outside the vocabulary, TypeError unless they are integers.
    """
    source = _checked(model, source)
    _check_tokens(model, {"start": start, "end": end})
    if len(target) != len(source):
        raise ValueError(f"log_probability: {len(source)} sources but {len(target)} targets; they must match")
    lengths = np.array([len(y) + 1 for y in target], int)
    following = np.full((len(target), max(lengths, default=1)), end)  # (B, N)   y_1 … y_L, end, and then anything
    for b, (row, tokens) in enumerate(zip(following, target, strict=True)):
        _check_tokens(model, {f"target {b}": tokens})
        row[: len(tokens)] = tokens
    given = np.concatenate([np.full((len(target), 1), start), following[:, :-1]], 1)  # (B, N)
    with no_grad():
        log_p = log_softmax(raw(model(source, given, source_mask=source_mask)))  # (B, N, V)
    each = np.take_along_axis(log_p, following[..., None], -1)[..., 0]  # (B, N)
    return np.where(np.arange(each.shape[1]) < lengths[:, None], each, 0).sum(-1)


def next_words(model: Transformer, tokens: ArrayLike, state: DecodingState) -> np.ndarray:
    """log p of every word after `tokens` (B, n), which follow those in `state`: (B, V).   ValueError if it is NaN."""
    log_p = log_softmax(raw(model.extend(tokens, state))[:, -1])
    if np.isnan(log_p).any():
        raise ValueError("decoding: the model says NaN for the next word; check its parameters, training has diverged")
    return log_p


class Search:
    """Beam search for one source: the K beginnings alive, and the sentences that ended."""

    def __init__(self, beams: int, end: int, longest: int, penalty: float):
        self.beams, self.end, self.longest, self.penalty = beams, end, longest, penalty
        self.alive: list[tuple[int, ...]] = [()] * beams
        self.log_p = np.where(np.arange(beams) == 0, 0.0, -np.inf)  # one beginning at first, nothing
        self.ended: list[Sentence] = []
        self.done = False

    def advance(self, log_p: np.ndarray) -> tuple[list[int], list[int]]:
        """One word more, log_p (K, V) given each beginning: which beginnings the new ones continue, and by what."""
        if self.done:
            return [0] * self.beams, [self.end] * self.beams  # rows of a batch that goes on without us
        total = (self.log_p[:, None] + log_p).reshape(-1)  # (K·V,)
        chosen: list[tuple[int, int, float]] = []  # which beginning, by what, and how probable
        for place in largest(total, 2 * self.beams):  # at most K of them end: K are left
            parent, word = divmod(place, log_p.shape[-1])
            if len(chosen) == self.beams:
                break
            if word == self.end:
                tokens, p = self.alive[parent], float(total[place])
                self.ended.append(Sentence(tokens, p, self._score(p, len(tokens) + 1), ended=True))
            else:
                chosen.append((parent, word, float(total[place])))
        chosen += [(0, self.end, -np.inf)] * (self.beams - len(chosen))  # so few words that there are not K more
        parents, words, values = map(list, zip(*chosen, strict=True))
        self.alive = [(*self.alive[parent], word) for parent, word in zip(parents, words, strict=True)]
        self.log_p = np.array(values)
        self.done = len(self.alive[0]) >= self.longest or self._nothing_to_gain()
        return parents, words

    def best(self) -> list[Sentence]:
        """Those that ended, best first, filled up with those that did not, which are in order and of one length."""
        cut = [
            Sentence(tokens, float(log_p), self._score(log_p, len(tokens)), ended=False)
            for tokens, log_p in zip(self.alive, self.log_p, strict=True)
            if log_p > -np.inf
        ]
        return [*self._ranked(), *cut][: self.beams]

    def _nothing_to_gain(self) -> bool:
        """A beginning can only lose probability; divided by the penalty of the longest sentence it is at its best."""
        if len(self.ended) < self.beams:
            return False
        return self._score(self.log_p[0], self.longest) <= self._ranked()[self.beams - 1].score

    def _score(self, log_p: float, length: int) -> float:
        return float(log_p / ((5 + length) / 6) ** self.penalty)

    def _ranked(self) -> list[Sentence]:
        return sorted(self.ended, key=lambda sentence: -sentence.score)


def largest(x: np.ndarray, count: int) -> list[int]:
    """Where the `count` largest numbers of x (n,) stand, largest first, of equal ones the first; −∞ does not count."""
    x = x.copy()
    places: list[int] = []
    while len(places) < count and x[place := int(x.argmax())] > -np.inf:  # for a few, faster than sorting
        places.append(place)
        x[place] = -np.inf
    return places


def _checked(
    model: Transformer, source: Any, longest: int = 1, beams: int = 1, length_penalty: float = 0.0
) -> np.ndarray:
    source = np.asarray(source)
    if not model.decoder.causal:
        raise ValueError(
            "decoding: the model has causal=False: its words depend on later ones; make it with causal=True"
        )
    if source.ndim != 2:
        raise ValueError(f"decoding: source has shape {source.shape}; pass a batch of sentences, (B, M)")
    if not (longest >= 1 and beams >= 1 and length_penalty >= 0):
        raise ValueError(
            f"decoding: longest {longest} and beams {beams} must be at least 1, length_penalty {length_penalty} not "
            "negative"
        )
    return source


def _check_tokens(model: Transformer, tokens: dict[str, Any]) -> None:
    """TypeError unless tokens, one or several under each name, are integers; IndexError unless the model says them."""
    vocabulary = model.target_embedding.weight.shape[0]
    for name, value in tokens.items():
        numbers = np.asarray(value)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise TypeError(f"decoding: {name} is {value!r}; pass integers")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < vocabulary:
            raise IndexError(f"decoding: {name} is {value!r}; the vocabulary has 0 to {vocabulary - 1}")
