"""TE-TNP: the model, its symmetry to the bit, and what it does look at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.models.te_tnp import TETNP, TranslationLayer
from refnp.numbers.rounding import exact, tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.models import tnp_judges as judges
from tests.models.tnp_judges import assert_prediction, predict
from tests.transcriptions import tnp as transcription

SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "kernel": (4,), "embedding_depth": 2}


def small(dx=1, dy=1, **options):
    return judges.shaken(TETNP(dx, dy, **(SMALL | options), rng=np.random.default_rng(0)))


FORMS = [
    {},
    {"flagged": "targets", "predictor_depth": 3},
    {"norm": "post"},
    {"moves": True},
    {"norm": "post", "moves": True, "layers": 3},
    {"untied": True, "moves": True},
    {"updated": True, "moves": True},
    {"untied": True, "updated": True, "moves": True, "layers": 3},
    {"squares": True, "bias": True, "length_scale": 1.0},
    {"normalization": "sink", "moves": True, "untied": True},
]
NOT_LITERAL = ("flagged", "predictor_depth", "embedding_depth", "bias", "length_scale")  # told by flags, and the state
every_form = pytest.mark.parametrize("options", FORMS, ids=str)


@every_form
@given(seed=seeds, size=judges.sizes, dtype=real_dtypes)
def test_value(options, seed, size, dtype):
    """Against all tokens in full, one by one."""
    model = small(*size[3:], **options).astype(dtype)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size, dtype)
    found = predict(model, context_x, context_y, target_x, mask)
    rounded = judges.te_tnp(model, context_x, context_y, target_x, mask)
    assert_prediction(found, [r.value for r in rounded], rounded, dtype)
    form = {"layers": 2, "norm": "pre"} | {name: value for name, value in options.items() if name not in NOT_LITERAL}
    form |= {"flags": (0, 1)} if model.flagged == "targets" else {}
    literal = [
        transcription.te_tnp(*one, model.state_dict(), 2, **form)
        for one in zip(context_x, context_y, target_x, mask, strict=True)
    ]
    assert_prediction(found, [np.stack(a) for a in zip(*literal, strict=True)], rounded, dtype)


singles = st.sampled_from([np.float32, np.float64])


@given(seeds, judges.sizes, st.integers(-1024, 1024), singles, st.sampled_from(FORMS))
def test_shifts_that_are_represented_exactly_change_nothing(seed, size, shift, dtype, form):
    """Places on a grid of 1/64, shifted by whole numbers: every difference is the same, and so is every bit."""
    model = small(*size[3:], **form).astype(dtype)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size, dtype)
    context_x, target_x = (np.round(a * 64) / 64 for a in (context_x, target_x))
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + shift, context_y, target_x + shift, mask)
    for a, b in zip(here, there, strict=True):
        assert_same_bits(a, b)


def test_shifts_that_round_are_a_rounding_of_places():
    """x + t is rounded to u|t|; that is all a shift can do: places rounded like that give the same bits unshifted."""
    model = small()
    (context_x, context_y, target_x, _), (mask, _) = judges.task(0, (2, 4, 3, 1, 1))
    shift = 1000 / 3
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + shift, context_y, target_x + shift, mask)
    rounded = [(a + shift) - shift for a in (context_x, target_x)]  # exact, as are all differences: Sterbenz's lemma
    for a, b, c in zip(here, there, predict(model, rounded[0], context_y, rounded[1], mask), strict=True):
        assert_same_bits(b, c)
        assert 0 < np.abs(a - b).max() < 1e4 * np.finfo(float).eps * shift


def test_a_shift_of_the_targets_alone_is_seen():
    model = small()
    (context_x, context_y, target_x, _), _ = judges.task(0, (2, 4, 3, 1, 1))
    here, there = (predict(model, context_x, context_y, target_x + by) for by in (0, 0.5))
    assert np.abs(here[0] - there[0]).max() > 1e-3


def test_a_reflection_is_seen():
    """Differences have a sign: the model is equivariant to shifts, not to all that keeps distances."""
    model = small()
    (context_x, context_y, target_x, _), _ = judges.task(0, (2, 4, 3, 1, 1))
    here, there = (predict(model, sign * context_x, context_y, sign * target_x) for sign in (1, -1))
    assert np.abs(here[0] - there[0]).max() > 1e-3


@given(seeds, judges.sizes, st.sampled_from(FORMS))
def test_context_has_no_order_and_targets_keep_theirs(seed, size, form):
    model = small(*size[3:], **form)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size)
    rng = np.random.default_rng(seed)
    others, new = rng.permutation(size[1]), rng.permutation(size[2])
    first = predict(model, context_x, context_y, target_x, mask)
    second = predict(model, context_x[:, others], context_y[:, others], target_x[:, new], mask[:, others])
    limits = judges.te_tnp(model, context_x, context_y, target_x, mask)
    for a, b, limit in zip(first, second, limits, strict=True):
        assert_within(b, a[:, new], 2 * tolerance(limit, np.float64)[:, new])


@every_form
@given(seed=seeds, size=judges.sizes)
def test_what_is_hidden_is_not_looked_at(options, seed, size):
    model = small(*size[3:], **options)
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
def test_an_empty_context_gives_the_same_everywhere(contexts, options):
    """Nothing is known but that a target is asked for: one finite prediction, whatever its place."""
    model = small(**options)
    (context_x, context_y, target_x, target_y), _ = judges.task(0, (2, contexts, 4, 1, 1))
    mask = np.zeros((2, contexts), bool)
    limits = judges.te_tnp(model, context_x, context_y, target_x, mask)
    for value, limit in zip(predict(model, context_x, context_y, target_x, mask), limits, strict=True):
        assert np.isfinite(value).all()
        assert_within(value, np.broadcast_to(value[0, 0], value.shape), 2 * tolerance(limit, np.float64))
    loss = model.loss(Task(context_x, context_y, target_x, target_y, mask))
    loss.backward()
    assert all(np.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("size", [(0, 2, 2, 1, 1), (2, 0, 0, 1, 1), (2, 2, 0, 1, 1)])
def test_nothing_asked_is_nothing_answered(size):
    arrays, _ = judges.task(0, size)
    loss = small().loss(Task(*arrays))
    loss.backward()
    assert loss.data == 0


def test_an_observed_zero_is_not_an_open_question():
    """The flag: a context point with y = 0 changes the prediction."""
    model = small()
    x = np.array([[[0.0], [0.3]]])
    without = predict(model, x[:, :1], np.ones((1, 1, 1)), x)
    with_zero = predict(model, x, np.array([[[1.0], [0.0]]]), x)
    assert np.abs(without[0] - with_zero[0]).max() > 1e-3


@every_form
def test_every_parameter_is_used(options):
    """The last layer moves no tokens: no later layer would use the new places."""
    model = small(**options)
    arrays, _ = judges.task(0, (2, 3, 4, 1, 1))
    model.loss(Task(*arrays)).backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_layer(norm):
    options = {"dx": 2, "kernel": (3,), "moves": True, "norm": norm}
    layer = judges.shaken(TranslationLayer(4, 2, 5, **options, rng=np.random.default_rng(0)))
    arrays = normal(0, (2, 3, 4)), normal(1, (2, 2, 4)), normal(2, (2, 3, 2, 2))
    state, everything = layer.state_dict(), np.ones((2, 3, 2), bool)
    limits = judges.translation_layer(*map(exact, arrays), state, 2, norm, everything)
    for b, one in enumerate(zip(*arrays, strict=True)):
        expected = transcription.translation_layer(*one, state, 2, norm)
        for value, reference, limit in zip(layer(*arrays), expected, limits, strict=True):
            assert_within(raw(value)[b], reference, tolerance(limit, np.float64)[b])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "TETNP: layers is 0; at least 1 is needed"),
        ({"heads": 3}, "features is 4; it must be a multiple of heads, 3"),
        ({"norm": "both"}, "norm is 'both'"),
        ({"length_scale": -1.0}, "length_scale is -1.0"),
        ({"floor": -0.1}, "TETNP: floor is -0.1; it must lie in"),
        ({"dy": 0}, "dy 0"),
    ],
)
def test_sizes_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        TETNP(**(SMALL | options), rng=np.random.default_rng(0))
