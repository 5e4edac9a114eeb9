"""Greedy and beam search: exhaustive search agrees, recomputation agrees, lengths and ends are what they should be."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers import log_softmax
from refnp.models.decoding import Search, beam_search, greedy, log_probability
from refnp.models.transformer import Transformer
from refnp.verify.rounding import tolerance
from tests.helpers import assert_within, seeds
from tests.models.test_transformer import limit_of

START, END, VOCABULARY = 0, 1, 5


def new(seed=0, sharpness=4.0):
    """A small model whose next words differ clearly in probability."""
    model = Transformer(
        7,
        VOCABULARY,
        features=4,
        heads=2,
        hidden=6,
        encoder_layers=1,
        decoder_layers=1,
        rng=np.random.default_rng(seed),
    )
    model.output.weight.data *= sharpness
    return model


def sources(seed, batch=2):
    return np.random.default_rng(seed).integers(0, 7, (batch, 4))


def by_recomputation(model, source, longest):
    """Greedy decoding that computes the whole sentence anew at every word."""
    words = [START]
    while len(words) <= longest:
        logits = model(source[None], np.array([words])).numpy()
        words.append(int(logits[0, -1].argmax()))
        if words[-1] == END:
            break
    return tuple(word for word in words[1:] if word != END), words[-1] == END


def exact_log_probability(model, source, words, ended=True):
    """Σ log p of each word given those before, one pass per word."""
    total, given_words = 0.0, [START]
    for word in (*words, END) if ended else words:
        total += log_softmax(model(source[None], np.array([given_words])).numpy()[0, -1])[word]
        given_words.append(word)
    return total


def rounding(model, source, length):
    """A bound on the difference of two log probabilities of `length` words: each logit's error twice, and the sums."""
    limit = limit_of(model, source[None], np.zeros((1, length), int))
    return 4 * length * float(tolerance(limit, np.float64).max()) + 1e-14 * length


@given(seeds)
def test_greedy_is_what_recomputation_finds(seed):
    model, source = new(seed), sources(seed)
    for row, sentence in zip(source, greedy(model, source, start=START, end=END, longest=6), strict=True):
        assert (sentence.tokens, sentence.ended) == by_recomputation(model, row, 6)
        expected = exact_log_probability(model, row, sentence.tokens, sentence.ended)
        assert abs(sentence.log_probability - expected) <= rounding(model, row, 7)
        assert sentence.score == sentence.log_probability


@given(seeds, st.sampled_from([0.0, 0.6, 1.0]))
def test_a_beam_as_wide_as_all_sentences_is_exhaustive_search(seed, penalty):
    """All sentences of up to 3 tokens with their end: 1 + 4 + 16; the best of them is found, at its score."""
    model, source = new(seed), sources(seed, 1)
    found = beam_search(model, source, start=START, end=END, longest=3, beams=VOCABULARY**3, length_penalty=penalty)[0]
    words = [w for w in range(VOCABULARY) if w != END]
    every = [s for n in range(3) for s in itertools.product(words, repeat=n)]
    scores = {s: exact_log_probability(model, source[0], s) / ((6 + len(s)) / 6) ** penalty for s in every}
    best = max(scores, key=scores.get)
    bound = rounding(model, source[0], 4)
    ended = [s for s in found if s.ended]
    assert len(ended) == len(every)
    assert abs(ended[0].score - scores[best]) <= bound
    for one, other in itertools.pairwise(ended):
        assert one.score >= other.score
    for sentence in ended:
        assert abs(sentence.score - scores[sentence.tokens]) <= bound


@given(seeds)
def test_one_beam_without_penalty_is_greedy(seed):
    model, source = new(seed), sources(seed, 3)
    options = {"start": START, "end": END, "longest": 5}
    assert [s[0] for s in beam_search(model, source, beams=1, length_penalty=0.0, **options)] == greedy(
        model, source, **options
    )


@given(seeds)
def test_sentences_of_a_batch_are_found_as_if_alone(seed):
    """Also where one is done long before the other; scores to rounding: products of other shapes round otherwise."""
    model, source = new(seed), sources(seed, 3)
    options = {"start": START, "end": END, "longest": 6, "beams": 3}
    together = beam_search(model, source, **options)
    for row, sentences in zip(source, together, strict=True):
        (alone,) = beam_search(model, row[None], **options)
        assert [s.tokens for s in sentences] == [s.tokens for s in alone]
        for one, other in zip(sentences, alone, strict=True):
            assert abs(one.score - other.score) <= rounding(model, row, 7)


@given(seeds)
def test_the_probability_of_a_whole_sentence(seed):
    """One pass for sentences of several lengths, the empty one too; those that end and those that do not sum to 1."""
    model, source = new(seed), sources(seed, 1)
    words = [w for w in range(VOCABULARY) if w != END]
    every = [s for n in range(2) for s in itertools.product(words, repeat=n)]
    log_p = log_probability(model, np.repeat(source, len(every), 0), every, start=START, end=END)
    bound = rounding(model, source[0], 4)
    for sentence, value in zip(every, log_p, strict=True):
        assert abs(value - exact_log_probability(model, source[0], sentence)) <= bound
    unended = [exact_log_probability(model, source[0], s, ended=False) for s in itertools.product(words, repeat=2)]
    assert_within(np.exp(log_p).sum() + np.exp(unended).sum(), np.ones(()), 2 * bound)


def test_padding_of_the_source_is_hidden_in_every_step():
    model, source = new(), np.array([[1, 2, 3, 4], [1, 2, 0, 0]])
    mask = np.array([[True] * 4, [True, True, False, False]])
    options = {"start": START, "end": END, "longest": 5}
    padded = greedy(model, source, source_mask=mask, **options)[1]
    assert padded.tokens == greedy(model, source[1:, :2], **options)[0].tokens
    value = log_probability(model, source[1:], [padded.tokens], start=START, end=END, source_mask=mask[1:])
    other = log_probability(model, source[1:, :2], [padded.tokens], start=START, end=END)
    assert abs(value - other) <= rounding(model, source[1], 6)


def test_a_length_penalty_prefers_longer_sentences():
    """By hand: the end is likelier, ½ against ⅓; after a word it is certain. log ½ < log ⅓ / (7/6)^α for α > 2.99."""
    first = np.log([[0.5, 1 / 3, 1 / 6]])
    second = np.log([[1.0, 1e-9, 1e-9]] * 2)
    for penalty, best in ((0.0, ()), (2.9, ()), (3.1, (1,))):
        search = Search(beams=2, end=0, longest=3, penalty=penalty)
        search.advance(np.repeat(first, 2, 0))
        search.advance(second)
        assert search.best()[0].tokens == best


def test_what_has_not_ended_is_cut_and_says_so():
    search = Search(beams=1, end=0, longest=2, penalty=0.0)
    for _ in range(2):
        assert not search.done
        search.advance(np.log([[0.1, 0.9]]))
    assert search.done
    (sentence,) = search.best()
    assert (sentence.tokens, sentence.ended) == ((1, 1), False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": np.array([1, 2])}, "source has shape"),
        ({"longest": 0}, "longest 0"),
        ({"beams": 0}, "beams 0"),
        ({"length_penalty": -1.0}, "length_penalty -1.0"),
    ],
)
def test_bad_input(changes, message):
    options = {"source": sources(0), "start": START, "end": END, "longest": 3} | changes
    with pytest.raises(ValueError, match=message):
        beam_search(new(), **options)


def test_bad_targets():
    with pytest.raises(ValueError, match="2 sources but 1 targets"):
        log_probability(new(), sources(0), [[2]], start=START, end=END)
    for target in ([7, 2], [2, 7], [-1]):
        with pytest.raises(IndexError, match="outside 0 … 4"):
            log_probability(new(), sources(0, 1), [target], start=START, end=END)
