"""GPT and LLaMA: transcriptions, gradients, the causal mask, tokens one by one, and what is refused."""

from functools import partial

import numpy as np
import pytest

import refnp.autograd as ad
from gradcheck import check
from refnp.autograd.primitives import raw
from refnp.layers.module import on_tape
from refnp.models import GPT, LLaMA
from refnp.models.decoder_only import drawn
from refnp.numbers.rounding import WIDE, tolerance
from refnp.verify.propagation import bounded
from tests.helpers import assert_same_bits, assert_within
from tests.transcriptions import transformer as printed

MODELS = {
    "GPT": partial(GPT, 7, 9, features=6, heads=2, layers=2),
    "GPT, not tied": partial(GPT, 7, 9, features=4, heads=1, hidden=5, layers=1, tied=False),
    "LLaMA": partial(LLaMA, 7, features=8, heads=4, key_heads=2, hidden=5, layers=2),
    "LLaMA, interleaved, tied": partial(
        LLaMA, 7, features=6, heads=3, hidden=5, layers=1, layout="interleaved", tied=True
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)
TOKENS = np.array([[3, 1, 4, 1, 5], [6, 2, 6, 5, 3]])


def made(name, seed=0):
    return MODELS[name](rng=np.random.default_rng(seed))


def transcription(name, model):
    """The function of one sequence that is written out."""
    state = model.state_dict()
    if name.startswith("GPT"):
        return partial(
            printed.gpt_logits, state=state, heads=model.layers[0].attention.heads, layers=len(model.layers),
            activation=printed.gelu_by_tanh,
        )  # fmt: skip
    attention = model.layers[0].attention
    return partial(
        printed.llama_logits, state=state, heads=attention.heads, key_heads=attention.key_heads,
        layers=len(model.layers), layout=attention.positions.layout,
    )  # fmt: skip


def limit_of(name, model):
    """Its logits in longdouble, and what the rounding of all operations can do to them."""
    wide = made(name).astype(WIDE)
    wide.load_state_dict(model.state_dict())
    with on_tape():
        return bounded([wide(TOKENS)])[0]


@every_model
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logits_are_what_is_written_out(name, dtype):
    model = made(name).astype(dtype)
    written_out = np.array([transcription(name, model)(tokens) for tokens in TOKENS])
    found, limit = model(TOKENS), limit_of(name, model)
    assert found.dtype == dtype
    assert_within(found, limit.value, tolerance(limit, dtype))
    assert_within(limit.value, written_out, 2 * tolerance(limit, WIDE))


@every_model
def test_every_gradient(name):
    model = made(name)
    loss = lambda p: ad.sum(model.bind(p)(TOKENS) ** 2)
    assert check(loss, [model.state_dict()], vjp=ad.vjp, digits=12)


@every_model
def test_what_comes_after_has_no_influence(name):
    model = made(name)
    later = np.concatenate([TOKENS[:, :3], TOKENS[:, :2]], 1)
    assert_same_bits(model(later)[:, :3], model(TOKENS)[:, :3])


@every_model
def test_padding_has_no_influence(name):
    model = made(name)
    mask = np.array([[True, True, True, False, False]] * 2)
    other = np.where(mask, TOKENS, 0)
    assert_same_bits(model(other, mask=mask)[:, :3], model(TOKENS, mask=mask)[:, :3])


@every_model
@pytest.mark.parametrize("cuts", [(1, 2, 3, 4), (2,), (), (4,)])
def test_tokens_in_pieces_are_all_tokens_at_once(name, cuts):
    model = made(name)
    kept = model.start()
    with ad.no_grad():
        pieces = [raw(model.extend(piece, kept)) for piece in np.split(TOKENS, cuts, 1)]
    limit = limit_of(name, model)
    assert kept[0].length == 5
    assert_within(np.concatenate(pieces, 1), limit.value, tolerance(limit, np.float64))


@every_model
def test_the_weights_of_all_layers(name):
    model, weights = made(name), []
    model(TOKENS, weights=weights)
    assert [w.shape for w in weights] == [(2, model.layers[0].attention.heads, 5, 5)] * len(model.layers)
    for w in weights:
        assert not np.triu(w, 1).any()
        np.testing.assert_allclose(w.sum(-1), 1, rtol=1e-14)


@every_model
def test_continued_is_the_likeliest_token_again_and_again(name):
    model, tokens = made(name), TOKENS[:, :2]
    found = model.continued(tokens, 3)
    for n in range(3):
        so_far = np.concatenate([tokens, found[:, :n]], 1)
        assert (model(so_far)[:, -1].argmax(-1) == found[:, n]).all()
    assert model.continued(tokens, 0).shape == (2, 0)


def test_drawn_tokens_have_their_probabilities():
    """Counts of 4000 draws, within six standard deviations; one of probability 0 is never drawn."""
    p = np.array([0.5, 0.0, 0.2, 0.3])
    counts = np.bincount(drawn(np.tile(p, (4000, 1)), np.random.default_rng(0)), minlength=4)
    assert (np.abs(counts - 4000 * p) <= 6 * np.sqrt(4000 * p * (1 - p))).all()


def test_a_low_temperature_is_the_likeliest():
    model = made("GPT")
    found = model.continued(TOKENS, 3, temperature=1e-6, rng=np.random.default_rng(0))
    assert (found == model.continued(TOKENS, 3)).all()


@every_model
def test_what_is_refused(name):
    model = made(name)
    with pytest.raises(IndexError, match=r"tokens holds 7 .* V = 7"):
        model(np.array([[7]]))
    with pytest.raises(ValueError, match="it needs a token to begin with"):
        model.continued(np.zeros((2, 0), int), 3)
    with pytest.raises(ValueError, match="which draws; pass rng"):
        model.continued(TOKENS, 3, temperature=1.0)
    with pytest.raises(RuntimeError, match="within no_grad"):
        model.extend(TOKENS, model.start())
    with pytest.raises(ValueError, match="layers is 0"):
        MODELS[name](layers=0, rng=np.random.default_rng(0))


def test_gpt_has_no_more_places_than_its_table():
    with pytest.raises(IndexError, match="and length is 9; use 0 to 8, a longer table"):
        made("GPT")(np.zeros((1, 10), int))
