"""TNPs with pseudo-tokens: the models, what they are blind to and what not, and how their cost grows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TETNP, TranslationLayer
from refnp.models.tnp import TNPD
from refnp.models.transformer_layers import EncoderLayer
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from refnp.training.optimizers import Adam
from tests.helpers import assert_same_bits, assert_within, real_dtypes, seeds
from tests.models import tnp_judges as judges
from tests.models.tnp_judges import assert_prediction, predict
from tests.transcriptions import tnp as transcription

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
forms = st.sampled_from(FORMS)
with_places = st.sampled_from([form for form in FORMS if form[0] is PseudoTETNP])


def small(form, dx=1, dy=1, **options):
    kind, given_options = form
    return judges.shaken(kind(dx, dy, **(SMALL | given_options | options), rng=np.random.default_rng(0)))


def limits(model, *arrays):
    judge = judges.pseudo_tnp if isinstance(model, PseudoTNP) else judges.pseudo_te_tnp
    return judge(model, *arrays)


def literal(form, model, one):
    """One task by the transcription."""
    options, flags = {"norm": "pre"} | form[1], (0, 1) if model.flagged == "targets" else (1, 0)
    if form[0] is PseudoTNP:
        return transcription.pseudo_tnp(*one, model.state_dict(), 2, 2, options["norm"], flags)
    moves = options.get("moves", True)
    return transcription.pseudo_te_tnp(*one, model.state_dict(), 2, 2, options["norm"], moves, flags)


@pytest.mark.parametrize("form", FORMS + AS_THERE, ids=lambda form: f"{form[0].__name__} {form[1]}")
@given(seed=seeds, size=judges.sizes, dtype=real_dtypes)
def test_value(form, seed, size, dtype):
    """Against one token after the other, of the points that are there."""
    model = small(form, *size[3:]).astype(dtype)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size, dtype)
    found = predict(model, context_x, context_y, target_x, mask)
    rounded = limits(model, context_x, context_y, target_x, mask)
    assert_prediction(found, [r.value for r in rounded], rounded, dtype)
    expected = [literal(form, model, one) for one in zip(context_x, context_y, target_x, mask, strict=True)]
    assert_prediction(found, [np.stack(a) for a in zip(*expected, strict=True)], rounded, dtype)


@every_form
@given(seed=seeds, size=judges.sizes)
def test_context_has_no_order_and_targets_keep_theirs(form, seed, size):
    """Context invariance and target equivariance, to rounding; a target alone gets what it gets among others."""
    model = small(form, *size[3:])
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size)
    rng = np.random.default_rng(seed)
    others, new = rng.permutation(size[1]), rng.permutation(size[2])
    first = predict(model, context_x, context_y, target_x, mask)
    second = predict(model, context_x[:, others], context_y[:, others], target_x[:, new], mask[:, others])
    alone = predict(model, context_x, context_y, target_x[:, :1], mask)
    for a, b, c, limit in zip(first, second, alone, limits(model, context_x, context_y, target_x, mask), strict=True):
        bound = 2 * tolerance(limit, np.float64)
        assert_within(b, a[:, new], bound[:, new])
        assert_within(c, a[:, :1], bound[:, :1])


@every_form
@given(seed=seeds, size=judges.sizes)
def test_pseudo_tokens_have_no_order(form, seed, size):
    """They are a set as well: the parameters permuted, the same predictions."""
    model = small(form, *size[3:])
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size)
    first = predict(model, context_x, context_y, target_x, mask)
    bounds = [2 * tolerance(limit, np.float64) for limit in limits(model, context_x, context_y, target_x, mask)]
    state, new = model.state_dict(), np.random.default_rng(seed).permutation(3)
    model.load_state_dict({name: a[new] if name.startswith("pseudo_") else a for name, a in state.items()})
    for a, b, bound in zip(first, predict(model, context_x, context_y, target_x, mask), bounds, strict=True):
        assert_within(b, a, bound)


@given(seeds, judges.sizes, st.integers(-1024, 1024), st.sampled_from([np.float32, np.float64]), with_places)
def test_shifts_that_are_represented_exactly_change_nothing(seed, size, shift, dtype, form):
    """Places on a grid of 1/64, shifted by whole numbers: the same places from the least one, and so the same bits."""
    model = small(form, *size[3:]).astype(dtype)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size, dtype)
    context_x, target_x = (np.round(a * 64) / 64 for a in (context_x, target_x))
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + shift, context_y, target_x + shift, mask)
    some = mask.any(-1)
    for a, b in zip(here, there, strict=True):
        assert_same_bits(a[some], b[some])
    bounds = limits(model, context_x, context_y, target_x, mask)
    for a, b, limit in zip(here, there, bounds, strict=True):  # without a context places are not used
        assert_within(a[~some], b[~some], 2 * tolerance(limit, dtype)[~some])


@pytest.mark.parametrize("shift", [1000 / 3, 2.0**20])
def test_other_shifts_are_a_rounding_of_places(shift):
    model = small(FORMS[2])
    (context_x, context_y, target_x, _), (mask, _) = judges.task(0, (2, 4, 3, 1, 1))
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + shift, context_y, target_x + shift, mask)
    rounded = [(a + shift) - shift for a in (context_x, target_x)]
    for a, b, c in zip(here, there, predict(model, rounded[0], context_y, rounded[1], mask), strict=True):
        assert_same_bits(b, c)
        assert 0 < np.abs(a - b).max() < 1e5 * np.finfo(float).eps * shift


def test_shifts_change_the_prediction_without_places():
    """PseudoTNP is not translation equivariant: places are features like any others."""
    model = small(FORMS[0])
    (context_x, context_y, target_x, _), (mask, _) = judges.task(0, (2, 4, 3, 1, 1))
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + 4, context_y, target_x + 4, mask)
    assert min(np.abs(a - b).max() for a, b in zip(here, there, strict=True)) > 1e-3


def test_a_shift_of_the_targets_alone_and_a_reflection_are_seen():
    model = small(FORMS[2])
    (context_x, context_y, target_x, _), _ = judges.task(0, (2, 4, 3, 1, 1))
    here = predict(model, context_x, context_y, target_x)[0]
    for sign, by in ((1, 0.5), (-1, 0)):
        there = predict(model, sign * context_x, context_y, sign * target_x + by)[0]
        assert np.abs(here - there).max() > 1e-3


@every_form
@given(seed=seeds, size=judges.sizes)
def test_what_is_hidden_is_not_looked_at(form, seed, size):
    model = small(form, *size[3:])
    (context_x, context_y, target_x, target_y), (mask, there) = judges.task(seed, size)
    losses, gradients = [], []
    for rubbish in (0.0, np.nan):
        contexts = [np.where(mask[..., None], a, rubbish) for a in (context_x, context_y)]
        targets = [np.where(there[..., None], a, rubbish) for a in (target_x, target_y)]
        model.zero_grad()
        losses.append(model.loss(Task(*contexts, *targets, mask, there)))
        losses[-1].backward()
        gradients.append([p.grad for p in model.parameters()])
    assert np.isfinite(losses[0].data)
    assert_same_bits(losses[0].data, losses[1].data)
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert np.isfinite(a).all()
            assert_same_bits(a, b)


@every_form
@pytest.mark.parametrize("contexts", [0, 3])
def test_an_empty_context_gives_a_finite_prediction(form, contexts):
    """No context points, or all of them masked: the same; with places the same everywhere."""
    model = small(form)
    (context_x, context_y, target_x, target_y), _ = judges.task(0, (2, contexts, 4, 1, 1))
    nothing = np.zeros((2, contexts), bool)
    found = predict(model, context_x, context_y, target_x, nothing)
    empty = predict(model, context_x[:, :0], context_y[:, :0], target_x)
    for a, b, limit in zip(found, empty, limits(model, context_x, context_y, target_x, nothing), strict=True):
        bound = 2 * tolerance(limit, np.float64)
        assert np.isfinite(a).all()
        assert_within(a, b, bound)
        if isinstance(model, PseudoTETNP):
            assert_within(a, np.broadcast_to(a[0, 0], a.shape), bound)
    loss = model.loss(Task(context_x, context_y, target_x, target_y, nothing))
    loss.backward()
    assert all(np.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@every_form
@pytest.mark.parametrize("size", [(0, 2, 2, 1, 1), (2, 0, 0, 1, 1), (2, 2, 0, 1, 1)])
def test_nothing_asked_is_nothing_answered(form, size):
    arrays, _ = judges.task(0, size)
    loss = small(form).loss(Task(*arrays))
    loss.backward()
    assert loss.data == 0


@every_form
def test_every_parameter_is_used(form):
    model = small(form)
    arrays, _ = judges.task(0, (2, 3, 4, 1, 1))
    model.loss(Task(*arrays)).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


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
    (context_x, context_y, target_x, _), _ = judges.task(0, (1, m, n, 1, 1))
    model(context_x, context_y, target_x)
    induced = [m * k, n * k, m * k, m * k, n * k]
    perceiver = [m * k, k * k, n * k] * 2
    assert pairs == (perceiver if form[1].get("form") == "perceiver" else induced)


@every_form
def test_training_makes_the_loss_smaller(form):
    from refnp.training.optimizers import Adam

    model = small(form)
    arrays, _ = judges.task(0, (4, 5, 5, 1, 1))
    adam, losses = Adam(model.parameters(), learning_rate=1e-2), []
    for _ in range(20):
        adam.zero_grad()
        loss = model.loss(Task(*arrays))
        loss.backward()
        adam.step()
        losses.append(float(raw(loss)))
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.parametrize("kind", [PseudoTNP, PseudoTETNP])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "layers is 0; at least 1 is needed"),
        ({"pseudo_tokens": 0}, "pseudo_tokens is 0; at least 1 is needed"),
        ({"form": "other"}, "form is 'other'; use 'induced' or 'perceiver'"),
        ({"heads": 3}, "features is 4; it must be a multiple of heads, 3"),
        ({"norm": "both"}, "norm is 'both'"),
        ({"floor": 1.0}, r"floor is 1\.0; it must lie in"),
    ],
)
def test_sizes_that_make_no_sense(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**(SMALL | options), rng=np.random.default_rng(0))


@pytest.mark.parametrize("spread", [-1.0, np.inf, np.nan])
def test_a_spread_that_makes_no_sense(spread):
    with pytest.raises(ValueError, match=f"PseudoTETNP: spread is {spread}; it must be finite and not negative"):
        PseudoTETNP(**SMALL, spread=spread, rng=np.random.default_rng(0))


@pytest.mark.parametrize("form", AS_THERE, ids=lambda form: form[0].__name__)
def test_the_last_spread_is_stored_and_changes_nothing(form):
    model, without = small(form), small((form[0], form[1] | {"last_spread": False}))
    unused = {name for name in model.state_dict() if name.startswith("layers.1.spread.")}
    assert unused == set(model.state_dict()) - set(without.state_dict()) != set()
    without.load_state_dict({name: array for name, array in model.state_dict().items() if name not in unused})
    (x, y, target_x, target_y), _ = judges.task(0, (2, 3, 2, 1, 1))
    assert_same_bits(predict(model, x, y, target_x)[0], predict(without, x, y, target_x)[0])
    model.loss(Task(x, y, target_x, target_y)).backward()
    assert {name for name, parameter in model.named_parameters() if parameter.grad is None} == unused
    before = model.state_dict()
    Adam(model.parameters(), learning_rate=0.1).step()
    assert {name for name, array in model.state_dict().items() if np.array_equal(array, before[name])} >= unused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flagged": "all"}, "flagged is 'all'; use 'context' or 'targets'"),
        ({"predictor_depth": 0}, "predictor_depth is 0; at least 1 is needed"),
        ({"deviation": "var"}, "deviation is 'var'; use one of published, softplus, exp, softplus_variance"),
    ],
)
def test_errors_of_what_is_as_there(options, message):
    for kind in (PseudoTNP, PseudoTETNP, TETNP, TNPD):
        with pytest.raises(ValueError, match=rf"^{kind.__name__}: {message}$"):
            kind(**options, rng=np.random.default_rng(0))
