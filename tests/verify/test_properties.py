"""Properties hold within their bounds; where a layer has not the property, the same experiment says so."""

import functools

import numpy as np
import pytest

from refnp.verify import properties as page
from refnp.verify.judge import DEVIATES, WITHIN, property_judgements
from refnp.verify.properties import Property, properties


@pytest.mark.parametrize("stated", properties(), ids=lambda p: p.name)
def test_a_property_holds(stated):
    rows = property_judgements(stated)
    assert [row.dtype for row in rows] == ["float32", "float64"]
    assert [row.verdict for row in rows] == [WITHIN] * 2
    assert [row.section for row in rows] == ["properties"] * 2
    assert max(row.error_over_bound for row in rows) <= 1


def test_normalisation_permutations_and_shifts_are_there():
    names = [stated.name for stated in properties()]
    for words in (
        "rows sum to 1",
        "permutation-equivariant",
        "commutes with roll",
        "permutation-invariant",
        "translation-eq",
    ):
        assert any(words in name for name in names), words


def refuted(monkeypatch, experiment, name, replacement):
    """The verdict when one of the functions that the experiment calls is replaced."""
    monkeypatch.setattr(page, name, replacement)
    return [row.verdict for row in property_judgements(Property(experiment.__name__, experiment))]


def test_attention_with_positions_is_not_equivariant(monkeypatch):
    plain = page.attention

    def with_positions(q, k, v):
        places = np.arange(q.shape[-2])[:, None].astype(q.dtype) / 10
        return plain(q + places, k + places, v)

    assert refuted(monkeypatch, page.attention_is_equivariant, "attention", with_positions) == [DEVIATES] * 2


def test_a_divided_set_convolution_does_not_add_up(monkeypatch):
    plain = page.set_convolution
    divided = functools.partial(plain, divide=True)
    assert refuted(monkeypatch, page.set_convolution_adds_up, "set_convolution", divided) == [DEVIATES] * 2


def test_an_undivided_set_convolution_is_no_attention(monkeypatch):
    plain = page.set_convolution

    def undivided(*arrays, **options):
        return plain(*arrays)

    experiment = page.set_convolution_divided_is_attention
    assert refuted(monkeypatch, experiment, "set_convolution", undivided) == [DEVIATES] * 2


def test_scaled_attention_is_another_kernel(monkeypatch):
    plain = page.attention

    def scaled(q, k, v, *, scale):
        return plain(q, k, v)

    assert refuted(monkeypatch, page.set_convolution_divided_is_attention, "attention", scaled) == [DEVIATES] * 2


def test_convolution_with_zeros_does_not_commute_with_roll(monkeypatch):
    plain = page.convolution

    def with_zeros(x, w, b, **options):
        return plain(x, w, b, **options | {"padding_mode": "zeros"})

    assert refuted(monkeypatch, page.circular_convolution_commutes, "convolution", with_zeros) == [DEVIATES] * 2


def test_weights_that_are_not_normalised_do_not_sum_to_one(monkeypatch):
    def nearly(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / (e.sum(-1, keepdims=True) + x.dtype.type(1e-4))

    assert refuted(monkeypatch, page.rows_sum_to_one, "softmax", nearly) == [DEVIATES] * 2


def test_a_set_convolution_that_looks_at_positions_is_not_equivariant(monkeypatch):
    plain = page.set_convolution

    def on_a_window(x, places, values, scale):
        return plain(x, places, values * (1 + places * places / 100), scale)

    assert refuted(monkeypatch, page.set_convolution_is_equivariant, "set_convolution", on_a_window) == [DEVIATES] * 2
