"""Tokens and numbers: there and back for any text, and what is no text or no number of the vocabulary is refused."""

import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refnp.tasks.words import END, FRENCH_SPACED, PAD, SPECIAL, START, UNKNOWN, Vocabulary, detokenize, tokenize

texts = st.text() | st.text(alphabet="aé'’- .?!,İΣß\u0301\u00a0\n", max_size=12)
token_lists = st.lists(st.text(min_size=1, max_size=4))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I live in Paris", "i live in paris"),
        ("je vis à Paris", "je vis à paris"),
        ("J'ai faim.", "j' ai faim ."),
        ("l’eau", "l' eau"),
        ("Est-ce qu'elle dort ?", "est -ce qu' elle dort ?"),
        ("A-t-il peur?", "a -t -il peur ?"),
        ("aujourd'hui, c'est lundi", "aujourd' hui , c' est lundi"),
        ("it is two o'clock", "it is two o' clock"),
        ("oui — non", "oui — non"),
        ("e\u0301te\u0301", "été"),
        ("-5 - 5", "-5 - 5"),
        ("un\u202f?\tdeux\n", "un ? deux"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_tokens(text, tokens):
    assert tokenize(text) == tokens.split(" " if tokens else None)


@pytest.mark.parametrize(
    "text", ["est-ce qu'il a deux chats ?", "aujourd'hui, c'est lundi", "s'il te plaît !", "a-t-elle soif ?"]
)
def test_french_comes_back_as_it_was(text):
    assert detokenize(tokenize(text), spaced=FRENCH_SPACED) == text


@pytest.mark.parametrize("text", ["it is two o'clock.", "is it cold, or hot?", ""])
def test_english_comes_back_as_it_was(text):
    assert detokenize(tokenize(text)) == text


@given(texts, st.sampled_from(["", FRENCH_SPACED]))
@example("a - -b '' j''ai .-c", "")
@example("İİ ΑΣ", "")
def test_tokens_survive_a_text(text, spaced):
    assert tokenize(detokenize(tokenize(text), spaced=spaced)) == tokenize(text)


@given(texts)
def test_nothing_but_spaces_is_lost(text):
    plain = unicodedata.normalize("NFC", text.lower()).replace("’", "'")
    assert "".join(tokenize(text)) == "".join(plain.split())


@given(texts)
def test_a_text_in_any_composition_and_case_has_the_same_tokens(text):
    assert tokenize(unicodedata.normalize("NFD", text)) == tokenize(text)
    assert tokenize("É") == tokenize("e\u0301")


@given(token_lists.filter(lambda tokens: not set(tokens) & set(SPECIAL)))
def test_numbers_lead_back_to_words(tokens):
    vocabulary = Vocabulary.of([tokens])
    numbers = vocabulary.encode(tokens)
    assert numbers.dtype == np.int64
    assert numbers.shape == (len(tokens),)
    assert numbers.size == 0 or numbers.min() >= len(SPECIAL)
    assert vocabulary.decode(numbers) == tokens
    assert vocabulary.decode([START, *numbers, END, PAD, PAD]) == tokens


@given(st.lists(token_lists), st.randoms(use_true_random=False))
def test_a_vocabulary_does_not_depend_on_the_order_of_sentences(sentences, random):
    sentences = [[token for token in sentence if token not in SPECIAL] for sentence in sentences]
    shuffled = random.sample(sentences, len(sentences))
    assert Vocabulary.of(sentences).words == Vocabulary.of(shuffled).words


def test_special_numbers():
    vocabulary = Vocabulary(["je", "vis"])
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3)
    assert vocabulary.words == ("<pad>", "<start>", "<end>", "<unknown>", "je", "vis")
    assert len(vocabulary) == 6
    assert "je" in vocabulary
    assert "tu" not in vocabulary
    assert list(vocabulary.encode(["je", "dors"])) == [4, UNKNOWN]
    assert vocabulary.decode([START, 4, UNKNOWN, END, 5, PAD]) == ["je", "<unknown>"]
    assert len(Vocabulary.of([])) == 4


def test_no_text_can_say_that_it_ends():
    vocabulary = Vocabulary(["je"])
    assert list(vocabulary.encode(SPECIAL)) == [UNKNOWN] * 4
    assert "<end>" not in vocabulary


def test_an_empty_sentence_is_empty():
    vocabulary = Vocabulary(["je"])
    assert vocabulary.encode([]).shape == (0,)
    assert vocabulary.encode([]).dtype == np.int64
    assert vocabulary.decode([]) == vocabulary.decode([END, 4]) == []


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ([4, 6], IndexError, "6 is not in this vocabulary of 6 words"),
        ([-1], IndexError, "-1 is not in this vocabulary"),
        ([4.0], TypeError, "numbers are float64"),
        ([[4]], ValueError, r"shape \(1, 1\); pass one sentence"),
    ],
)
def test_numbers_of_another_vocabulary_are_refused(numbers, error, message):
    with pytest.raises(error, match=message):
        Vocabulary(["je", "vis"]).decode(numbers)


def test_a_text_in_place_of_words_is_refused():
    with pytest.raises(TypeError, match=r"'je vis' is a text; pass its words, tokenize"):
        Vocabulary(["je"]).encode("je vis")
    with pytest.raises(TypeError, match=r"Vocabulary\.of: 'je'"):
        Vocabulary.of(["je"])


@pytest.mark.parametrize(
    ("words", "wrong"), [(["a", "b", "a"], "'a'"), (["<pad>"], "'<pad>'"), (["a", "<end>"], "'<end>'")]
)
def test_words_that_stand_twice_are_refused(words, wrong):
    with pytest.raises(ValueError, match=f"{wrong} stands twice"):
        Vocabulary(words)
