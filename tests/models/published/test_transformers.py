"""GPT-2 and LLaMA of transformers in refnp's modules: names, shapes and recorded answers (record_transformers.py)."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from refnp.layers import gelu
from refnp.layers.module import on_tape
from refnp.models import GPT, LLaMA
from refnp.models.published import transformers as published
from refnp.numbers.rounding import WIDE, tolerance
from refnp.verify.propagation import bounded
from tests.helpers import assert_same_bits, assert_within
from tests.models.published.record_transformers import TOKENS, drawn

ANSWERS = json.loads(Path(__file__).with_name("transformers_answers.json").read_text())["answers"]
SIZES = {  # refnp's names of what record_transformers.py configures
    "GPT-2": partial(GPT, length=16, features=8, heads=2, layers=2),
    "GPT-2, exact GELU, not tied": partial(GPT, length=8, features=6, heads=3, layers=1, activation=gelu, tied=False),
    "LLaMA": partial(LLaMA, features=8, hidden=12, heads=2, layers=2, eps=1e-6),
    "LLaMA, shared keys, tied": partial(LLaMA, features=16, hidden=10, heads=4, key_heads=2, layers=1, tied=True),
}
every_model = pytest.mark.parametrize("name", SIZES)


def made(name):
    return SIZES[name](vocabulary=11, rng=np.random.default_rng(0))


def loaded(name):
    model = made(name)
    published.load(model, drawn(ANSWERS[name]["shapes"]))
    return model


@every_model
def test_their_logits_are_within_what_rounding_allows(name):
    """Of the model's exact logits; with LLaMA's rotations and norms in float32, as they are there, they are not."""
    model, found = loaded(name), ANSWERS[name]
    with on_tape():
        (limit,) = bounded([model.astype(WIDE)(np.array(TOKENS))])
    assert_within(np.array(found["logits"]), limit.value, tolerance(limit, np.float64))
    if "float32 inside" in found:
        off = np.abs(np.array(found["float32 inside"]) - limit.value)
        assert (off > tolerance(limit, np.float64)).any()
        assert_within(np.array(found["float32 inside"]), limit.value, tolerance(limit, np.float32))


@every_model
def test_the_tokens_that_they_continue_with(name):
    tokens = np.array(TOKENS)[:, :4]
    found = loaded(name).continued(tokens, 4)
    assert np.concatenate([tokens, found], 1).tolist() == ANSWERS[name]["continued"]


@every_model
def test_there_and_back(name):
    model, state = loaded(name), drawn(ANSWERS[name]["shapes"])
    saved = published.save(model)
    assert saved.keys() - {"lm_head.weight"} == state.keys() - {"lm_head.weight"}
    for key, array in state.items():
        assert_same_bits(saved[key], array)
    again = made(name)
    published.load(again, saved)
    for one, other in zip(again.parameters(), model.parameters(), strict=True):
        assert_same_bits(one.data, other.data)


def test_files_of_gpt_2_leave_the_beginning_of_names_out_and_have_buffers():
    state = drawn(ANSWERS["GPT-2"]["shapes"])
    short = {name.removeprefix("transformer."): array for name, array in state.items()}
    buffers = {"h.0.attn.bias": np.ones((1, 1, 16, 16)), "h.0.attn.masked_bias": np.array(-1e4)}
    model = made("GPT-2")
    published.load(model, short | buffers)
    assert_same_bits(model.embedding.weight.data, state["transformer.wte.weight"])


@every_model
def test_what_does_not_fit_is_said_and_nothing_is_loaded(name):
    model, state = made(name), drawn(ANSWERS[name]["shapes"])
    before = [p.data.copy() for p in model.parameters()]
    gone = sorted(state)[3]
    with pytest.raises(ValueError, match=re.escape(f"missing {gone}")):
        published.load(model, {key: array for key, array in state.items() if key != gone})
    if model.output is None:
        with pytest.raises(ValueError, match=r"lm_head.weight differ, which are one parameter here"):
            published.load(model, published.save(model) | {"lm_head.weight": np.zeros(model.embedding.weight.shape)})
    for parameter, value in zip(model.parameters(), before, strict=True):
        assert_same_bits(parameter.data, value)


def test_another_model_has_no_names():
    with pytest.raises(TypeError, match="pass a GPT or a LLaMA"):
        published.save(None)
    with pytest.raises(TypeError, match="pass a mapping"):
        published.load(made("GPT-2"), [1])
