"""The corpus is what its page says, files are read with all their faults named, held-out sentences use known words."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.translation import CORPUS, english_french, load_pairs, read_pairs, split
from refnp.tasks.words import FRENCH_SPACED, Vocabulary, detokenize, tokenize
from tests.helpers import seeds

PARIS = ("I live in Paris", "je vis à Paris")
LETTERS = set("abcdefghijklmnopqrstuvwxyz ,?'-")
CAPITALS = {"I", "Paris", "London", "Lyon", "France", "Spain", "England", "Canada", "Portugal", "Marie", "Paul"} | {
    *("Monday", "Sunday", "French", "English", "Spanish", "Londres", "Espagne", "Angleterre")
}
sides = st.text(alphabet="aé '?", min_size=1, max_size=6).filter(str.strip)


def write(folder, content):
    path = folder / "pairs.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# the corpus


def test_the_corpus_is_large_enough_and_holds_the_seeds_sentence():
    pairs = english_french()
    assert len(pairs) >= 600
    assert PARIS in pairs


def test_no_english_sentence_stands_twice():
    counts = Counter(tuple(tokenize(english)) for english, _ in english_french())
    assert [sentence for sentence, n in counts.items() if n > 1] == []


def test_letters_are_those_of_the_language():
    english, french = (set("".join(side).lower()) for side in zip(*english_french(), strict=True))
    assert english <= LETTERS
    assert french <= LETTERS | set("àâçèéêîôùœ")


def test_sentences_have_one_to_ten_words():
    lengths = [len(tokenize(side)) for pair in english_french() for side in pair]
    assert 1 <= min(lengths) <= max(lengths) <= 10


def test_capitals_stand_where_the_dictionary_has_them():
    written = {word.strip("?,") for pair in english_french() for side in pair for word in side.split()}
    capital = {word.rpartition("'")[2] for word in written if word.lower() != word}
    assert capital <= CAPITALS


def test_questions_end_in_a_mark_on_both_sides_and_other_sentences_in_none():
    for english, french in english_french():
        assert ("?" in english) == ("?" in french)
        assert english.count("?") == english.endswith("?")
        assert french.count("?") == french.endswith(" ?")


def test_the_text_can_be_put_together_again():
    for english, french in english_french():
        assert detokenize(tokenize(english)) == english.lower()
        assert detokenize(tokenize(french), spaced=FRENCH_SPACED) == french.lower()


VOWELS = "aeiouhyàâéèêîôùœ"


def test_french_elides():
    """je, ne, de, que, le and la lose their vowel before another; no word of the corpus has an aspirated h but huit."""
    for _, french in english_french():
        tokens = tokenize(french)
        for word, following in pairwise(tokens):
            vowel = following[0] in VOWELS and following not in ("huit", "onze", "hui")
            assert not (vowel and word in ("je", "ne", "de", "que", "le", "la", "se", "me", "te")), french
            assert vowel or following == "hui" or word[-1] != "'", french


def test_french_contracts():
    apart = {(word, article) for word in ("à", "de") for article in ("le", "les")}
    for _, french in english_french():
        assert not apart & set(pairwise(tokenize(french))), french


ENDINGS = {"je": "sxei", "j'": "sei", "tu": "s", "il": "tdae", "elle": "tdae", "nous": "s", "ils": "t", "elles": "t"}
ODD = {("tu", "veux"), ("tu", "peux"), ("il", "va"), ("elle", "va")}


def test_french_verbs_agree_with_their_pronoun():
    """The last letter of the verb after a pronoun at the start: rough, but it finds "il mangent" and "tu vit"."""
    for _, french in english_french():
        tokens = [token for token in tokenize(french) if token not in ("ne", "n'", "m'", "s'", "y")]
        if tokens[0] in ENDINGS and len(tokens) > 1:
            assert tokens[1][-1] in ENDINGS[tokens[0]] or tuple(tokens[:2]) in ODD, french


def test_french_says_no_twice():
    for english, french in english_french():
        tokens = tokenize(french)
        denied = {"ne", "n'"} & set(tokens)
        assert bool(denied) == bool({"pas", "jamais"} & set(tokens)), french
        assert bool(denied) == bool({"not", "cannot", "never"} & set(tokenize(english))), english


def test_french_articles_agree():
    """A noun has one gender, whatever stands before it."""
    masculine, feminine = set(), set()
    for _, french in english_french():
        tokens = tokenize(french)
        for word, following in pairwise(tokens):
            if word in ("un", "le", "du", "au", "mon", "ton", "son", "ce"):
                masculine.add(following)
            if word in ("une", "la", "ma", "ta", "sa"):
                feminine.add(following)
    assert masculine & feminine == set()
    assert {"chat", "livre"} <= masculine
    assert {"maison", "sœur"} <= feminine


# files


def test_a_good_file_is_read_with_its_mark_its_windows_line_ends_and_its_blank_lines(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbfone\tun\r\n\r\n two \t deux\r\n  \nthree\ttrois")
    assert load_pairs(path) == [("one", "un"), ("two", "deux"), ("three", "trois")]
    assert load_pairs(str(path)) == load_pairs(path)


BAD = b"one\tun\ntwo deux\nthree\ttrois\t3\n\tquatre\nfive\t\nsix\tsi\xff\nseven\tsept\neight\n\t\t\n"
FAULTS = [
    (2, "no tab"),
    (3, "2 tabs"),
    (4, "an empty left side"),
    (5, "an empty right side"),
    (6, "bytes that are not UTF-8"),
    (8, "no tab"),
    (9, "2 tabs"),
]


def test_every_bad_line_is_named(tmp_path):
    path = write(tmp_path, BAD)
    assert read_pairs(path) == ([("one", "un"), ("seven", "sept")], FAULTS)
    with pytest.raises(ValueError, match="7 bad and 2 good lines") as error:
        load_pairs(path)
    message = str(error.value)
    assert str(path) in message
    for part in (
        "no tab in line 2, 8",
        "2 tabs in line 3, 9",
        "an empty left side in line 4",
        "an empty right side in line 5",
        "bytes that are not UTF-8 in line 6",
        "read_pairs",
    ):
        assert part in message


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_a_file_without_pairs_is_refused(tmp_path, content):
    path = write(tmp_path, content)
    assert read_pairs(path) == ([], [])
    with pytest.raises(ValueError, match="holds no pairs"):
        load_pairs(path)


def test_a_file_of_another_encoding_is_refused_with_its_lines(tmp_path):
    with pytest.raises(ValueError, match=r"2 bad and 0 good lines: bytes that are not UTF-8 in line 1, 2"):
        load_pairs(write(tmp_path, "été\tsummer\nà\tat\n".encode("latin-1")))


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_pairs(tmp_path / "none.tsv")


@given(pairs=st.lists(st.tuples(sides, sides), min_size=1, max_size=5), end=st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_is_read(tmp_path_factory, pairs, end):
    path = write(tmp_path_factory.mktemp("pairs"), "".join(f"{a}\t{b}{end}" for a, b in pairs))
    assert load_pairs(path) == [(a.strip(), b.strip()) for a, b in pairs]


# what is held out


@given(seeds, st.integers(0, 80), st.integers(1, 4))
def test_words_of_held_out_sentences_are_known(seed, held_out, seen):
    pairs = english_french()
    training, out = split(pairs, held_out, np.random.default_rng(seed), seen=seen)
    assert len(out) == held_out
    assert sorted(training + out) == sorted(pairs)
    assert not {english for english, _ in training} & {english for english, _ in out}
    for side in (0, 1):
        counts = Counter(token for pair in training for token in tokenize(pair[side]))
        assert all(counts[token] >= seen for pair in out for token in tokenize(pair[side]))
    again = split(pairs, held_out, np.random.default_rng(seed), seen=seen)
    assert again == (training, out)


def test_the_split_of_the_example_keeps_paris_for_training():
    training, out = split(english_french(), 70, np.random.default_rng(0))
    assert PARIS in training
    lengths = [len(tokenize(english)) for english, _ in out]
    assert np.mean(lengths) > 4
    vocabulary = Vocabulary.of(tokenize(english) for english, _ in training)
    assert all(token in vocabulary for english, _ in out for token in tokenize(english))


def test_a_sentence_with_two_translations_is_not_held_out():
    pairs = [("a b", "x y"), ("A B", "y x"), ("a", "x"), ("b", "y")]
    _, out = split(pairs, 1, np.random.default_rng(0), seen=1)
    assert out[0][0] in ("a", "b")


def test_more_than_can_be_held_out_is_refused():
    with pytest.raises(ValueError, match="only 0 of 2 pairs can be held out, not 1, with each word 3 times"):
        split([("a", "b"), ("c", "d")], 1, np.random.default_rng(0))


def test_the_corpus_is_part_of_the_package():
    assert CORPUS.exists()
    assert CORPUS.suffix == ".tsv"
