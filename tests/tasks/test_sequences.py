"""Tasks with exact answers: each answer is checked by another way of finding it, and draws are the same again."""

import datetime
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.sequences import Copy, Dates, Reverse, Sort, forms
from refnp.tasks.words import END, PAD, START
from tests.helpers import seeds

sizes = st.integers(1, 6)
dates = st.dates(Dates.first, Dates.last)


@given(seeds, sizes, st.integers(1, 12), st.integers(2, 12))
def test_copy_is_the_protocol_of_the_annotated_transformer(seed, batch, symbols, length):
    drawn = Copy(symbols, length).sample(np.random.default_rng(seed), batch)
    assert drawn.source.shape == (batch, length)
    assert (drawn.source[:, 0] == 1).all()
    assert drawn.source.min() >= 1
    assert drawn.source.max() <= symbols
    assert np.array_equal(drawn.target_in, drawn.source[:, :-1])
    assert np.array_equal(drawn.target_out, drawn.source[:, 1:])
    assert drawn.source_mask.all()


def test_copy_uses_every_symbol():
    task = Copy()
    assert (task.vocabulary, task.length) == (11, 10)
    data = task.sample(np.random.default_rng(0), 500).source
    assert set(np.unique(data)) == set(range(1, 11))
    assert set(np.unique(data[:, 1])) == set(range(1, 11))


@given(st.sampled_from([Reverse, Sort]), seeds, sizes, st.integers(1, 12), st.integers(1, 12))
def test_reverse_and_sort(make, seed, batch, symbols, length):
    task = make(symbols, length)
    drawn = task.sample(np.random.default_rng(seed), batch)
    assert drawn.source.min() >= 4
    assert drawn.source.max() < task.vocabulary == symbols + 4
    for source, given_, out in zip(drawn.source, drawn.target_in, drawn.target_out, strict=True):
        answer = list(reversed(list(source))) if make is Reverse else sorted(source)
        assert list(out) == [*answer, END]
        assert list(given_) == [START, *answer]
        assert list(task.answer(source)) == answer


def test_reverse_has_sixteen_symbols_unless_told_otherwise():
    assert Reverse().sample(np.random.default_rng(0), 2).source.shape == (2, 16)


@given(st.sampled_from([Copy(), Reverse(), Sort(), Dates()]), seeds)
def test_a_generator_gives_the_same_batch_again(task, seed):
    first, again = (task.sample(np.random.default_rng(seed), 3) for _ in range(2))
    assert np.array_equal(first.source, again.source)
    assert np.array_equal(first.target_out, again.target_out)


# dates

# another table than that of the page: the first letters that tell the months apart
STARTS = "jan, feb fév, mar, apr avr, may mai, jun juin, jul juil, aug aoû, sep, oct, nov, dec déc"
MONTHS = {start: number for number, starts in enumerate(STARTS.split(","), 1) for start in starts.split()}


def read(text):
    """A date from any of the forms, by regular expressions."""
    if match := re.fullmatch(r"(\d+)[./](\d+)[./](\d+)", text):
        day, month, year = map(int, match.groups())
        return datetime.date(year if year > 99 else year + (1900 if year >= 50 else 2000), month, day)
    name = re.search(r"(?:^|(?<=\s))(?!lun|mar?di|mer|jeu|ven|sam|dim)[^\W\d]{3,}", text).group().lower()
    (month,) = {number for start, number in MONTHS.items() if name.startswith(start)}
    day, year = re.findall(r"\d+", text)
    return datetime.date(int(year), month, int(day))


@given(dates)
def test_every_form_says_the_date(date):
    found = forms(date)
    assert len(found) == 7
    assert [read(form) for form in found] == [date] * 7


def test_forms():
    said = "3 March 2021|3 march 2021|March 3, 2021|3 mars 2021|mercredi 3 mars 2021|03/03/21|3.3.2021"
    assert forms(datetime.date(2021, 3, 3)) == said.split("|")
    assert "1er août 1999" in forms(datetime.date(1999, 8, 1))
    assert "dimanche 1er août 1999" in forms(datetime.date(1999, 8, 1))


@given(st.booleans(), seeds)
def test_numbers_spell_the_dates(held_out, seed):
    task = Dates(held_out)
    texts = task.texts(np.random.default_rng(seed), 5)
    drawn = task.sample(np.random.default_rng(seed), 5)
    for (text, iso), source, out in zip(texts, drawn.source, drawn.target_out, strict=True):
        assert read(text).isoformat() == iso
        assert "".join(task.source_vocabulary.decode(source)) == text
        assert "".join(task.target_vocabulary.decode(out)) == iso
    assert drawn.target_out.shape == (5, 11)
    assert (drawn.source_mask == (drawn.source != PAD)).all()


def test_the_alphabet_is_enough():
    day = Dates.first
    while day <= Dates.last:
        for form in forms(day):
            assert all(letter in Dates.source_vocabulary for letter in form)
        day += datetime.timedelta(17)


def test_no_date_is_for_training_and_for_the_test():
    rng = np.random.default_rng(0)
    training, test = ({iso for _, iso in Dates(held_out).texts(rng, 2000)} for held_out in (False, True))
    assert not training & test
    assert len(test) > 1000
    assert min(training) < "1952" < "2048" < max(training)


@pytest.mark.parametrize("form", range(7))
def test_every_form_comes(form):
    texts = Dates().texts(np.random.default_rng(form), 300)
    assert any(text == forms(datetime.date.fromisoformat(iso))[form] for text, iso in texts)
