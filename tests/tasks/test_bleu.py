"""BLEU: the paper's own examples, a transcription, sacreBLEU where installed, and what must always hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.translation import SMOOTHINGS, bleu, ngrams, token_accuracy
from tests.transcriptions import bleu as transcription

words = st.sampled_from(["a", "b", "c", "d"])
sentences = st.lists(words, max_size=8)
corpora = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=6)
smoothings = st.sampled_from(SMOOTHINGS)

# Papineni et al. (2002), §2.1, examples 1 and 2
PARTY = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]
FIRST = "It is a guide to action which ensures that the military always obeys the commands of the party"
SECOND = "It is to insure the troops forever hearing the activity guidebook that party direct"
THE = "the the the the the the the"
MAT = ["the cat is on the mat", "there is a cat on the mat"]


@pytest.mark.parametrize(
    ("hypothesis", "references", "precisions"),
    [(THE, MAT, [2 / 7]), (FIRST, PARTY, [17 / 18, 10 / 17]), (SECOND, PARTY, [8 / 14, 1 / 13])],
)
def test_the_precisions_of_the_paper(hypothesis, references, precisions):
    hypothesis, *several = (text.lower().split() for text in (hypothesis, *references))
    shortfall = 1 - transcription.closest(hypothesis, several) / len(hypothesis)
    order = len(precisions)
    expected = 100 * math.exp(min(0, shortfall)) * math.prod(precisions) ** (1 / order)
    assert bleu([hypothesis], [several], order=order) == pytest.approx(expected, rel=1e-14)


def test_by_hand():
    hypotheses = [["the", "cat", "sat", "on", "the", "mat"], ["a", "dog"]]
    references = [[["the", "cat", "is", "on", "the", "mat"]], [["a", "dog", "barks"]]]
    # 1-grams 5 + 2 of 6 + 2; 2-grams 3 + 1 of 5 + 1; 3-grams 1 of 4; 4-grams 0 of 3; c = 8, r = 9
    assert bleu(hypotheses, references) == 0
    three = 100 * math.exp(1 - 9 / 8) * (7 / 8 * 4 / 6 * 1 / 4) ** (1 / 3)
    assert bleu(hypotheses, references, order=3) == pytest.approx(three, rel=1e-14)
    for smoothing, matches in (("floor", 0.1), ("exp", 0.5)):
        four = 100 * math.exp(1 - 9 / 8) * (7 / 8 * 4 / 6 * 1 / 4 * matches / 3) ** (1 / 4)
        assert bleu(hypotheses, references, smoothing=smoothing) == pytest.approx(four, rel=1e-14)


def test_a_tie_of_lengths_goes_to_the_shorter_reference():
    hypothesis = ["a", "b", "c"]
    assert bleu([hypothesis], [[["a", "b"], ["a", "b", "c", "d"]]], order=1) == 100
    assert bleu([hypothesis], [[["a", "b", "c", "d"]]], order=1) == pytest.approx(100 * math.exp(1 - 4 / 3), rel=1e-14)


def test_exp_halves_from_one_empty_order_to_the_next():
    hypothesis, reference = ["a", "x", "b", "y"], ["a", "p", "b", "q"]  # 2 of 4, 0 of 3, 0 of 2, 0 of 1
    expected = 100 * (2 / 4 * (1 / 2) / 3 * (1 / 4) / 2 * (1 / 8) / 1) ** 0.25
    assert bleu([hypothesis], [[reference]], smoothing="exp") == pytest.approx(expected, rel=1e-14)


@given(corpora, smoothings, st.integers(1, 4))
def test_is_its_transcription(corpus, smoothing, order):
    hypotheses, references = zip(*corpus, strict=True)
    expected = transcription.bleu(hypotheses, references, order=order, smoothing=smoothing)
    # four logarithms, an exponential and a root, each right to an ulp or two, of numbers at most log 1e4 large
    assert bleu(hypotheses, references, order=order, smoothing=smoothing) == pytest.approx(expected, rel=1e-14, abs=0)


@given(corpora, smoothings)
def test_as_sacrebleu(corpus, smoothing):
    sacrebleu = pytest.importorskip("sacrebleu")
    hypotheses, references = zip(*corpus, strict=True)
    several = max(map(len, references))
    streams = [[" ".join((r + [r[0]] * several)[k]) for r in references] for k in range(several)]
    theirs = sacrebleu.corpus_bleu([" ".join(h) for h in hypotheses], streams, smooth_method=smoothing, tokenize="none")
    assert bleu(hypotheses, references, smoothing=smoothing) == pytest.approx(theirs.score, rel=1e-12, abs=1e-12)


@given(corpora, smoothings)
def test_lies_between_0_and_100(corpus, smoothing):
    hypotheses, references = zip(*corpus, strict=True)
    assert 0 <= bleu(hypotheses, references, smoothing=smoothing) <= 100


@given(corpora, smoothings)
def test_a_perfect_corpus_has_100_if_it_has_a_run_of_four(corpus, smoothing):
    _, references = zip(*corpus, strict=True)
    hypotheses = [several[0] for several in references]
    long_enough = any(len(hypothesis) >= 4 for hypothesis in hypotheses)
    assert bleu(hypotheses, references, smoothing=smoothing) == (100 if long_enough else 0)


@given(corpora, smoothings, st.randoms(use_true_random=False))
def test_the_order_of_sentences_does_not_matter(corpus, smoothing, random):
    shuffled = random.sample(corpus, len(corpus))
    before, after = (bleu(*zip(*c, strict=True), smoothing=smoothing) for c in (corpus, shuffled))
    assert before == after


@given(corpora)
def test_another_reference_adds_matches(corpus):
    """Matches can only grow; BLEU itself can fall, where the new reference is closer in length and longer."""
    hypotheses, references = zip(*corpus, strict=True)
    for n in range(1, 5):
        fewer, _ = transcription.precision(hypotheses, [several[:1] for several in references], n)
        more, _ = transcription.precision(hypotheses, references, n)
        assert fewer <= more
    hypothesis = ["a", "b", "c", "d"]
    assert bleu([hypothesis], [[["a", "b"]]], order=1) == 50
    assert bleu([hypothesis], [[["a", "b"], ["e", "f", "g", "h", "i"]]], order=1) < 50


def test_a_corpus_is_not_the_mean_of_its_sentences():
    hypotheses = [["a", "b", "c", "d"], ["x"]]
    references = [[["a", "b", "c", "d"]], [["y", "z"]]]
    each = [bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    assert bleu(hypotheses, references) != pytest.approx(np.mean(each), rel=0.01)


@pytest.mark.parametrize(
    ("hypotheses", "references", "options", "error", "message"),
    [
        ([["a"]], [], {}, ValueError, "1 hypotheses but 0 lists of references"),
        ([["a"]], [[]], {}, ValueError, "hypothesis 0 has no reference"),
        (["a b"], [[["a", "b"]]], {}, TypeError, "sentence 0 is a text"),
        ([["a"]], [["a b"]], {}, TypeError, "sentence 0 is a text"),
        ([["a"]], ["a b"], {}, TypeError, "sentence 0 is a text"),
        ([["a"]], [[["a"]]], {"smoothing": "add"}, ValueError, "smoothing is 'add'; use one of 'none', 'floor', 'exp'"),
        ([["a"]], [[["a"]]], {"order": 0}, ValueError, "order is 0"),
    ],
)
def test_bad_arguments_are_refused(hypotheses, references, options, error, message):
    with pytest.raises(error, match=message):
        bleu(hypotheses, references, **options)


def test_nothing_said_is_0():
    assert bleu([], []) == 0
    assert bleu([[]], [[["a", "b", "c", "d"]]], smoothing="exp") == 0


def test_ngrams_are_counted():
    assert ngrams(["a", "b", "a", "b"], 2) == {("a", "b"): 2, ("b", "a"): 1}
    assert not ngrams(["a"], 2)


def test_token_accuracy_leaves_padding_out():
    target = np.array([[7, 8, 2, 0], [9, 2, 0, 0]])
    predicted = np.array([[7, 5, 2, 0], [9, 9, 3, 3]])
    assert token_accuracy(predicted, target) == 3 / 5
    assert token_accuracy(target, target) == 1
    assert math.isnan(token_accuracy(np.zeros((1, 2), int), np.zeros((1, 2), int)))
    with pytest.raises(ValueError, match=r"predicted is \(2, 3\), target \(2, 4\)"):
        token_accuracy(predicted[:, :3], target)
