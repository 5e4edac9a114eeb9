"""Greedy and beam search: written out they find the same, recomputation agrees, lengths and ends are what they are."""

import functools
import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.layers import log_softmax
from refnp.models.decoding import Search, Sentence, beam_search, greedy, largest, log_probability, next_words
from refnp.models.transformer import Transformer
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_within, seeds
from tests.models.helpers import of_exact_parameters
from tests.transcriptions import transformer as printed

START, END, VOCABULARY = 0, 1, 5
OPTIONS = {"start": START, "end": END}


def new(seed=0, sharpness=4.0):
    """A small model whose next words differ clearly in probability."""
    sizes = {"features": 4, "heads": 2, "hidden": 6, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(7, VOCABULARY, **sizes, rng=np.random.default_rng(seed))
    model.output.weight.data *= sharpness
    return model


def sources(seed, batch=2):
    return np.random.default_rng(seed).integers(0, 7, (batch, 4))


def by_recomputation(model, source):
    """Words → log probabilities of the next one, the whole sentence computed anew."""

    @functools.cache
    def next_log_p(words):
        return log_softmax(model(source[None], np.array([[START, *words]]))[0, -1])

    return next_log_p


def rounded_log_probabilities(model, source, target):
    """log p of every next word, (B, N, V), in numbers that carry their rounding."""
    return raw(log_softmax(of_exact_parameters(model)(source, target)))


def rounded_sentences(model, source, sentences, ended=True):
    """log p of sentences given one source (M,), in numbers that carry their rounding; with their ends if they ended."""
    length = 1 + max(map(len, sentences))
    rows = np.array([[*words, *[END] * (length - len(words))] for words in sentences], int)  # (S, N)
    before = np.concatenate([np.full((len(rows), 1), START), rows[:, :-1]], 1)
    log_p = rounded_log_probabilities(model, np.repeat(source[None], len(rows), 0), before)
    each = log_p.moved(lambda a: np.take_along_axis(a, rows[..., None], -1)[..., 0])
    counts = np.array([len(words) for words in sentences]) + np.asarray(ended)
    return [each[i, :n].sum() for i, n in enumerate(counts)]


def scored(rounded, length, alpha):
    """log p / ((5 + L)/6)^α, the power trusted to 4 units in the last place, the sum and quotient to 1 each."""
    factor = ((5 + length) / 6) ** alpha
    return rounded.moved(lambda a: a / factor), 10 * 2.0**-53 * abs(float(rounded.value)) / factor


def assert_right(model, source, sentences, alpha):
    """Probabilities and scores of found sentences are those of their words, within the bounds."""
    every = rounded_sentences(model, source, [s.tokens for s in sentences], [s.ended for s in sentences])
    for sentence, rounded in zip(sentences, every, strict=True):
        assert_within(sentence.log_probability, rounded.value, tolerance(rounded, np.float64))
        score, more = scored(rounded, len(sentence.tokens) + sentence.ended, alpha)
        assert_within(sentence.score, score.value, tolerance(score, np.float64) + more)


# ---- against searches that keep nothing


@given(seeds)
def test_greedy_is_what_recomputation_finds(seed):
    model, source = new(seed), sources(seed)
    for row, sentence in zip(source, greedy(model, source, longest=6, **OPTIONS), strict=True):
        next_log_p, words = by_recomputation(model, row), []
        while len(words) < 6 and END not in words:
            words.append(int(next_log_p(tuple(words)).argmax()))
        assert (sentence.tokens, sentence.ended) == (tuple(w for w in words if w != END), END in words)
        assert sentence.score == sentence.log_probability
        assert_right(model, row, [sentence], 0.0)


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from([0.0, 0.6, 1.0, 5.0]), seeds)
def test_beam_search_is_what_it_is_written_out_to_be(beams, longest, alpha, seed):
    """The same sentences in the same order, though it stops early, keeps keys and values, and has others beside it."""
    model, source = new(seed), sources(seed)
    found = beam_search(model, source, longest=longest, beams=beams, length_penalty=alpha, **OPTIONS)
    for row, sentences in zip(source, found, strict=True):
        expected = printed.beam_search(by_recomputation(model, row), beams, END, longest, alpha)
        assert [(s.tokens, s.ended) for s in sentences] == [(words, ended) for words, _, _, ended in expected]
        assert_right(model, row, sentences, alpha)


@given(st.integers(1, 4), st.integers(2, 5), st.integers(1, 6), st.sampled_from([0.0, 1.0, 3.0, 8.0]), seeds)
def test_a_search_ends_no_sooner_than_it_may(beams, vocabulary, longest, alpha, seed):
    """On probabilities drawn at random, far apart, and with penalties that let late sentences win."""

    @functools.cache
    def next_log_p(words):
        return log_softmax(np.random.default_rng([seed, *words]).normal(0, 3, vocabulary))

    search = Search(beams, 0, longest, alpha)
    while not search.done:
        search.advance(np.stack([next_log_p(words) for words in search.alive]))
    expected = printed.beam_search(next_log_p, beams, 0, longest, alpha)
    assert [(s.tokens, s.ended) for s in search.best()] == [(words, ended) for words, _, _, ended in expected]


@given(seeds, st.sampled_from([0.0, 0.6, 1.0]))
def test_a_beam_as_wide_as_all_sentences_is_exhaustive_search(seed, alpha):
    """All sentences of up to 3 tokens with their end, 1 + 4 + 16, best first."""
    model, source = new(seed), sources(seed, 1)
    found = beam_search(model, source, longest=3, beams=VOCABULARY**3, length_penalty=alpha, **OPTIONS)[0]
    words = [w for w in range(VOCABULARY) if w != END]
    every = [s for n in range(3) for s in itertools.product(words, repeat=n)]
    log_p = dict(zip(every, rounded_sentences(model, source[0], every), strict=True))
    scores = {s: scored(log_p[s], len(s) + 1, alpha) for s in every}
    ended = [s for s in found if s.ended]
    assert len(ended) == len(every)
    best = max(scores, key=lambda s: scores[s][0].value)
    assert ended[0].tokens == best
    for one, other in itertools.pairwise(ended):
        assert one.score >= other.score
    for sentence in ended:
        score, more = scores[sentence.tokens]
        assert_within(sentence.score, score.value, tolerance(score, np.float64) + more)


@given(seeds)
def test_one_beam_without_penalty_is_greedy(seed):
    model, source = new(seed), sources(seed, 3)
    found = beam_search(model, source, beams=1, length_penalty=0.0, longest=5, **OPTIONS)
    assert [sentences[0] for sentences in found] == greedy(model, source, longest=5, **OPTIONS)


@given(seeds)
def test_the_probability_of_a_whole_sentence(seed):
    """One pass for sentences of several lengths, the empty one too; those that end and those that do not sum to 1."""
    model, source = new(seed), sources(seed, 1)
    words = [w for w in range(VOCABULARY) if w != END]
    every = [s for n in range(2) for s in itertools.product(words, repeat=n)]
    log_p = log_probability(model, np.repeat(source, len(every), 0), every, **OPTIONS)
    for value, rounded in zip(log_p, rounded_sentences(model, source[0], every), strict=True):
        assert_within(value, rounded.value, tolerance(rounded, np.float64))
    unended = rounded_sentences(model, source[0], [*itertools.product(words, repeat=2)], ended=False)
    terms = [*zip(log_p, rounded_sentences(model, source[0], every), strict=True)]
    bound = sum(np.exp(value) * tolerance(rounded, np.float64) for value, rounded in terms)
    bound += 30 * 2.0**-53  # 21 exponentials that sum to 1, 8 u each, and 20 sums
    total = np.exp(log_p).sum() + np.exp([rounded.value for rounded in unended]).sum()
    assert_within(total, np.ones((), np.longdouble), bound)


def test_padding_of_the_source_is_hidden_in_every_step():
    model, source = new(), np.array([[1, 2, 3, 4], [1, 2, 0, 0]])
    mask = np.array([[True] * 4, [True, True, False, False]])
    padded = beam_search(model, source, source_mask=mask, longest=5, beams=3, **OPTIONS)[1]
    assert_right(model, source[1, :2], padded, 0.6)
    assert_right(model, source[1, :2], greedy(model, source, source_mask=mask, longest=5, **OPTIONS)[1:], 0.0)
    value = log_probability(model, source[1:], [padded[0].tokens], source_mask=mask[1:], **OPTIONS)[0]
    (rounded,) = rounded_sentences(model, source[1, :2], [padded[0].tokens])
    assert_within(value, rounded.value, tolerance(rounded, np.float64))


def test_the_next_word_after_several():
    """log p after the last of the tokens given, as if they had come one by one."""
    model, source, tokens = new(), sources(0), np.array([[0, 2, 3], [0, 4, 2]])
    with no_grad():
        found = next_words(model, tokens, model.start(source))
    limit = rounded_log_probabilities(model, source, tokens)
    assert_within(found, limit.value[:, -1], tolerance(limit, np.float64)[:, -1])


# ---- nothing to read, nothing to say


def test_no_sources_and_empty_sources():
    model = new()
    assert greedy(model, np.zeros((0, 3), int), longest=4, **OPTIONS) == []
    assert beam_search(model, np.zeros((0, 3), int), longest=4, **OPTIONS) == []
    assert log_probability(model, np.zeros((0, 3), int), [], **OPTIONS).shape == (0,)
    (empty,) = beam_search(model, np.zeros((1, 0), int), longest=4, **OPTIONS)
    padded = beam_search(model, np.zeros((1, 3), int), longest=4, source_mask=np.zeros((1, 3), bool), **OPTIONS)
    assert [empty] == padded
    assert_right(model, np.zeros(0, int), empty, 0.6)


def test_words_of_probability_0_are_never_said():
    """Of four words three are impossible: the beams that are left say so, and there are fewer sentences than beams."""
    model = new()
    model.output.bias.data[[0, 3, 4]] = -np.inf
    found = beam_search(model, sources(0, 1), longest=3, beams=4, length_penalty=0.0, **OPTIONS)[0]
    assert {(s.tokens, s.ended) for s in found} == {((), True), ((2,), True), ((2, 2), True), ((2, 2, 2), False)}


# ---- one source, by hand


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
    log_p = float(np.log([0.9]).repeat(2).sum())
    assert search.best() == [Sentence((1, 1), log_p, log_p, ended=False)]


def test_ties_go_to_the_lowest_token_and_to_the_better_beam():
    same = np.log(np.full((2, 4), 0.25))
    search = Search(beams=2, end=3, longest=9, penalty=0.0)
    assert search.advance(same) == ([0, 0], [0, 1])
    assert search.advance(same) == ([0, 0], [0, 1])
    assert search.alive == [(0, 0), (0, 1)]
    first = Search(beams=1, end=0, longest=9, penalty=0.0)
    first.advance(same[:1])
    assert first.best()[0].ended  # the end is the lowest token here
    assert first.done  # a word as likely gains nothing


def test_an_end_counts_unless_as_many_words_as_beams_are_likelier():
    for p, ends in (([0.5, 0.3, 0.2], 0), ([0.5, 0.2, 0.3], 1), ([0.3, 0.2, 0.5], 1)):
        search = Search(beams=2, end=2, longest=9, penalty=0.0)
        search.advance(np.log([p, p]))
        assert len(search.ended) == ends


def test_a_search_that_is_done_stays_as_it_is():
    """Its rows of the batch go on with anything that is a token."""
    search = Search(beams=2, end=0, longest=1, penalty=0.0)
    search.advance(np.log([[0.2, 0.5, 0.3]] * 2))
    before = search.best()
    assert search.done
    assert search.advance(np.log([[0.9, 0.05, 0.05]] * 2)) == ([0, 0], [0, 0])
    assert search.best() == before


@given(st.lists(st.sampled_from([-np.inf, -2.0, -1.0, 0.0]), max_size=8), st.integers(0, 9))
def test_the_largest_are_those_of_a_stable_sort(numbers, count):
    x = np.array(numbers, float)
    expected = [i for i in np.argsort(-x, kind="stable") if x[i] > -np.inf][:count]
    assert (largest(x, count) if x.size else []) == expected


# ---- what is refused


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"source": np.array([1, 2])}, ValueError, "source has shape"),
        ({"source": np.array([[1, 7]])}, IndexError, "tokens holds 7 at"),
        ({"longest": 0}, ValueError, "longest 0"),
        ({"beams": 0}, ValueError, "beams 0"),
        ({"length_penalty": -1.0}, ValueError, "length_penalty -1.0"),
        ({"length_penalty": float("nan")}, ValueError, "length_penalty nan"),
        ({"start": 5}, IndexError, "decoding: start is 5; the vocabulary has 0 to 4"),
        ({"start": 0.5}, TypeError, "decoding: start is 0.5; pass integers"),
        ({"end": 5}, IndexError, "decoding: end is 5; the vocabulary has 0 to 4"),
        ({"end": -1}, IndexError, "decoding: end is -1; the vocabulary has 0 to 4"),
        ({"source_mask": np.ones((2, 3), bool)}, ValueError, "source_mask is bool of shape (2, 3)"),
    ],
)
def test_bad_input(changes, error, message):
    options = {"source": sources(0), "longest": 3} | OPTIONS | changes
    with pytest.raises(error, match=re.escape(message)):
        beam_search(new(), **options)


def test_a_model_that_is_not_causal():
    """There is no probability of a word given those before alone."""
    model = new()
    model.decoder.causal = False
    for search in (greedy, beam_search):
        with pytest.raises(ValueError, match="decoding: the model has causal=False: its words depend on later ones"):
            search(model, sources(0), longest=3, **OPTIONS)
    with pytest.raises(ValueError, match="decoding: the model has causal=False"):
        log_probability(model, sources(0), [[2], [3]], **OPTIONS)


def test_a_model_that_says_nan():
    """Its parameters have diverged: there is no most probable word."""
    model = new()
    model.output.bias.data[2] = np.nan
    for search in (greedy, beam_search):
        with pytest.raises(ValueError, match="decoding: the model says NaN for the next word; check"):
            search(model, sources(0), longest=3, **OPTIONS)


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ([[2]], ValueError, "2 sources but 1 targets"),
        ([[2], [7, 2]], IndexError, "decoding: target 1 is [7, 2]; the vocabulary has 0 to 4"),
        ([[2, 5], []], IndexError, "decoding: target 0 is [2, 5]; the vocabulary has 0 to 4"),
        ([[-1], []], IndexError, "decoding: target 0 is [-1]; the vocabulary has 0 to 4"),
        ([[2], [1.7]], TypeError, "decoding: target 1 is [1.7]; pass integers"),
        (["ab", []], TypeError, "decoding: target 0 is 'ab'; pass integers"),
    ],
)
def test_bad_targets(target, error, message):
    with pytest.raises(error, match=re.escape(message)):
        log_probability(new(), sources(0), target, **OPTIONS)
    with pytest.raises(IndexError, match="decoding: end is 5"):
        log_probability(new(), sources(0), [[2], [3]], start=START, end=5)
