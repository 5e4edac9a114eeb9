"""TNPs with pseudo-tokens: the models, what they are blind to and what not, and how their cost grows."""

import numpy as np
import pytest
from hypothesis import given

from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TranslationLayer
from refnp.models.transformer_layers import EncoderLayer
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from refnp.training.optimizers import Adam
from tests.helpers import assert_same_bits, assert_within, seeds
from tests.models.helpers import drawn_task, predict, rounded, shaken, sizes

SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "embedding_depth": 2, "pseudo_tokens": 3}
FORMS = [
    (PseudoTNP, {}),
    (PseudoTNP, {"form": "perceiver", "norm": "post"}),
    (PseudoTETNP, {"kernel": (4,)}),
    (PseudoTETNP, {"kernel": (4,), "form": "perceiver"}),
    (PseudoTETNP, {"kernel": (4,), "moves": False, "norm": "post"}),
]
AS_THERE = [  # with parameters that nothing uses
    (PseudoTNP, {"flagged": "targets", "predictor_depth": 3, "last_spread": True}),
    (PseudoTETNP, {"kernel": (4,), "flagged": "targets", "predictor_depth": 1, "last_spread": True}),
]
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0].__name__} {form[1]}")


def small(form, dx=1, dy=1, **options):
    kind, given_options = form
    return shaken(kind(dx, dy, **(SMALL | given_options | options), rng=np.random.default_rng(0)))


@every_form
@given(seed=seeds, size=sizes)
def test_pseudo_tokens_have_no_order(form, seed, size):
    """They are a set as well: the parameters permuted, the same predictions."""
    model = small(form, *size[3:])
    (context_x, context_y, target_x, _), (mask, _) = drawn_task(seed, size)
    first = predict(model, context_x, context_y, target_x, mask)
    bounds = [
        2 * tolerance(limit, np.float64) for limit in rounded(predict, model, context_x, context_y, target_x, mask)
    ]
    state, new = model.state_dict(), np.random.default_rng(seed).permutation(3)
    model.load_state_dict({name: a[new] if name.startswith("pseudo_") else a for name, a in state.items()})
    for a, b, bound in zip(first, predict(model, context_x, context_y, target_x, mask), bounds, strict=True):
        assert_within(b, a, bound)


@pytest.mark.parametrize("shift", [1000 / 3, 2.0**20])
def test_other_shifts_are_a_rounding_of_places(shift):
    model = small(FORMS[2])
    (context_x, context_y, target_x, _), (mask, _) = drawn_task(0, (2, 4, 3, 1, 1))
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + shift, context_y, target_x + shift, mask)
    rounded = [(a + shift) - shift for a in (context_x, target_x)]
    for a, b, c in zip(here, there, predict(model, rounded[0], context_y, rounded[1], mask), strict=True):
        assert_same_bits(b, c)
        assert 0 < np.abs(a - b).max() < 1e5 * np.finfo(float).eps * shift


@every_form
def test_pairs_grow_with_the_points_and_not_with_their_square(form, monkeypatch):
    """Each layer weighs 2 M K + N K pairs, or M K + N K + K²: counted where layers are called."""
    model, pairs = small(form), []

    def counted(kind, call):
        def counting(self, x, keys=None, *rest, **options):
            pairs.append(x.shape[1] * (x if keys is None else keys).shape[1])
            return call(self, x, keys, *rest, **options)

        monkeypatch.setattr(kind, "__call__", counting)

    counted(EncoderLayer, EncoderLayer.__call__)
    counted(TranslationLayer, TranslationLayer.__call__)
    m, n, k = 50, 20, SMALL["pseudo_tokens"]
    (context_x, context_y, target_x, _), _ = drawn_task(0, (1, m, n, 1, 1))
    model(context_x, context_y, target_x)
    induced = [m * k, n * k, m * k, m * k, n * k]
    perceiver = [m * k, k * k, n * k] * 2
    assert pairs == (perceiver if form[1].get("form") == "perceiver" else induced)


@pytest.mark.parametrize("form", AS_THERE, ids=lambda form: form[0].__name__)
def test_the_last_spread_is_stored_and_changes_nothing(form):
    model, without = small(form), small((form[0], form[1] | {"last_spread": False}))
    unused = {name for name in model.state_dict() if name.startswith("layers.1.spread.")}
    assert unused == set(model.state_dict()) - set(without.state_dict()) != set()
    without.load_state_dict({name: array for name, array in model.state_dict().items() if name not in unused})
    (x, y, target_x, target_y), _ = drawn_task(0, (2, 3, 2, 1, 1))
    assert_same_bits(predict(model, x, y, target_x)[0], predict(without, x, y, target_x)[0])
    model.loss(Task(x, y, target_x, target_y)).backward()
    assert {name for name, parameter in model.named_parameters() if parameter.grad is None} == unused
    before = model.state_dict()
    Adam(model.parameters(), learning_rate=0.1).step()
    assert {name for name, array in model.state_dict().items() if np.array_equal(array, before[name])} >= unused
