"""A whole model that is wrong by one edit is told by it, no other mistake is, and what inputs cannot show is said."""

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import judge_model
from refnp.layers import LayerNorm, gelu, relu
from refnp.models import GPT, LLaMA
from refnp.verify.judge import DEVIATES

TOKENS = np.random.default_rng(0).integers(0, 7, (2, 4))


def gpt(**options):
    return GPT(7, 5, features=4, heads=2, hidden=8, layers=2, rng=np.random.default_rng(0), **options)


def llama(**options):
    return LLaMA(7, features=8, heads=2, hidden=8, layers=1, rng=np.random.default_rng(0), **options)


def of_four_heads(**options):
    return LLaMA(7, features=16, heads=4, hidden=8, layers=1, rng=np.random.default_rng(0), **options)


def one_head_wide(model, state):
    """Scores over d and not √d, d = 4."""
    name = "layers.0.attention.query.weight"
    return state | {name: state[name] / 2}


def dealt_in_turn(model, state):
    """Four heads of keys and values, of which the last two are the first two again."""
    names = [f"layers.0.attention.{role}.weight" for role in ("key", "value")]
    return state | {name: np.tile(state[name], (1, 2)) for name in names}


def state_of(model):
    rng = np.random.default_rng(1)
    return {name: value + 0.1 * rng.normal(size=value.shape) for name, value in model.state_dict().items()}


def judged(right, wrong, change=lambda model, state: state, answer=lambda logits: logits):
    """The report of another model, or of other parameters."""
    state = state_of(right)
    other = wrong.bind(change(wrong, dict(state)))
    return judge_model(lambda tokens: answer(np.asarray(other(tokens))), TOKENS, like=right, parameters=state)


def norms_behind(model, state):
    for layer in model.layers:
        layer.around_attention.norm = layer.around_feed_forward.norm = "post"
    return state


def last_epsilon(model, state):
    model.final_norm.eps = 1e-3
    return state


def exchanged(model, state):
    names = ("layers.1.attention.query.weight", "layers.1.attention.key.weight")
    return state | dict(zip(names, (state[name] for name in reversed(names)), strict=True))


def without_bias(model, state):
    name = "layers.0.feed_forward.layers.1.bias"
    return state | {name: 0 * state[name]}


def from_one(model, state):
    return state | {"positions.weight": np.roll(state["positions.weight"], -1, 0)}


@pytest.mark.parametrize(
    ("right", "wrong", "change", "says"),
    [
        (gpt(), gpt(activation=gelu), None, "tanh were in place of erf, or erf in place of tanh, in every gelu"),
        (gpt(), gpt(activation=relu), None, "it were relu, in every gelu"),
        (gpt(), gpt(eps=1e-6), None, "ε were 1e-6, in every layer_norm"),
        (gpt(), gpt(), last_epsilon, "ε were 1e-3, in layer_norm 5 of 5"),
        (gpt(), gpt(), norms_behind, "norm were 'post'"),
        (gpt(), gpt(), exchanged, "layers.1.attention.query.weight and layers.1.attention.key.weight were exchanged"),
        (gpt(), gpt(), without_bias, "layers.0.feed_forward.layers.1.bias were left out"),
        (gpt(), gpt(), from_one, "positions were counted from 1"),
        (llama(), llama(layout="interleaved"), None, "layout were 'interleaved', in every rotation"),
        (llama(), llama(base=500_000), None, "base were 500000"),
        (llama(), llama(), one_head_wide, "scores were divided by d, √d twice, in attention"),
        (
            of_four_heads(key_heads=2),
            of_four_heads(),
            dealt_in_turn,
            "head h of the queries had head h mod G of G keys and values, in attention",
        ),
    ],
)
def test_one_edit_is_told_by_its_name(right, wrong, change, says):
    report = judged(right, wrong, *([change] if change else []))
    assert report.edits[0].says == says
    assert f"as if {says} (error over bound falls to" in str(report)


def test_an_edit_that_no_one_lists_is_not_told_as_another():
    right, x = LayerNorm(4), np.random.default_rng(0).normal(size=(3, 4))
    for wrong in (lambda x: right(x) * 1.001, lambda x: right(x) + 1e-6 * np.arange(4)):
        report = judge_model(lambda x, wrong=wrong: np.asarray(wrong(x)), x, like=right)
        assert report.deviations
        assert report.edits == []


def test_the_norm_of_the_annotated_transformer_makes_two_mistakes():
    """n − 1, and ε outside of the root."""
    right, x = LayerNorm(4, eps=1e-3), np.random.default_rng(0).normal(size=(3, 4))
    norm = lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True, ddof=1) + 1e-3)
    report = judge_model(norm, x, like=right)
    found = report.edits[0].says.removesuffix(", in layer_norm").split(", and ")
    assert set(found) == {"ε stood outside the root", "the variance were divided by n − 1"}


def test_what_the_inputs_do_not_show_is_said_with_some_that_do():
    """Of large embeddings ε is a small part."""
    right, state = gpt(), {name: value.astype("float32") for name, value in state_of(gpt()).items()}
    state["embedding.weight"] *= 100
    report = judge_model(lambda tokens: np.asarray(right.bind(state)(tokens)), TOKENS, like=right, parameters=state)
    report.require()
    assert report.edits == []
    unseen = {one.says: one for one in report.unseen}
    epsilon = unseen["ε were 1e-6, in every layer_norm"]
    assert 0 < epsilon.moved <= 1
    assert epsilon.shown_by.startswith("parameters times 0.0")
    assert f"    {epsilon}" in str(report).splitlines()
    assert not [says for says in unseen if "gradient" in says or "key.bias" in says]  # the same function on paper
    small = {name: value * np.float32(epsilon.shown_by.split()[-1]) for name, value in state.items()}
    other = right.bind(small)
    for layer in other.layers:
        layer.around_attention.layer_norm.eps = layer.around_feed_forward.layer_norm.eps = 1e-6
    other.final_norm.eps = 1e-6
    report = judge_model(lambda tokens: np.asarray(other(tokens)), TOKENS, like=right, parameters=small)
    assert report.edits[0].says == "ε were 1e-6, in every layer_norm"


def test_inputs_that_show_an_edit_are_found_among_scaled_ones():
    right, x = LayerNorm(4, eps=1e-5), np.random.default_rng(0).normal(scale=30, size=(3, 4)).astype("float32")
    report = judge_model(lambda x: np.asarray(right(x), "float32"), x, like=right)
    (epsilon,) = [one for one in report.unseen if one.says == "ε were 1e-6, in layer_norm"]
    assert epsilon.shown_by == "inputs times 0.01"
    (gain,) = [one for one in report.unseen if one.says == "the gain were left out, in layer_norm"]  # it is 1 as yet
    assert (gain.moved, gain.shown_by) == (0, "parameters times 0.01")
    wrong = judge_model(lambda x: np.asarray(ag.multiply(right(x), 2)), x, like=right)
    assert [row["verdict"] for row in wrong.rows] == [DEVIATES]
    assert wrong.unseen == []
