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


def with_positions(plain):
    places = lambda q: np.arange(q.shape[-2])[:, None].astype(q.dtype) / 10
    return lambda q, k, v: plain(q + places(q), k + places(q), v)


def nearly_normalised(plain):
    e = lambda x: np.exp(x - x.max(-1, keepdims=True))
    return lambda x: e(x) / (e(x).sum(-1, keepdims=True) + x.dtype.type(1e-4))


REFUTED = {  # an experiment, the function in it that is another, and which
    "attention with positions": (page.attention_is_equivariant, "attention", with_positions),
    "a divided set convolution": (
        page.set_convolution_adds_up,
        "set_convolution",
        lambda plain: functools.partial(plain, divide=True),
    ),
    "an undivided set convolution": (
        page.set_convolution_divided_is_attention,
        "set_convolution",
        lambda plain: lambda *arrays, **options: plain(*arrays),
    ),
    "scaled attention": (
        page.set_convolution_divided_is_attention,
        "attention",
        lambda plain: lambda q, k, v, *, scale: plain(q, k, v),
    ),
    "convolution with zeros": (
        page.circular_convolution_commutes,
        "convolution",
        lambda plain: lambda *arrays, **options: plain(*arrays, **options | {"padding_mode": "zeros"}),
    ),
    "weights that do not sum to 1": (page.rows_sum_to_one, "softmax", nearly_normalised),
    "a set convolution that looks at positions": (
        page.set_convolution_is_equivariant,
        "set_convolution",
        lambda plain: lambda x, places, values, scale: plain(x, places, values * (1 + places * places / 100), scale),
    ),
}


@pytest.mark.parametrize("other", REFUTED)
def test_what_has_not_the_property_is_refuted(monkeypatch, other):
    experiment, name, replacement = REFUTED[other]
    monkeypatch.setattr(page, name, replacement(getattr(page, name)))
    rows = property_judgements(Property(experiment.__name__, experiment))
    assert [row.verdict for row in rows] == [DEVIATES] * 2
