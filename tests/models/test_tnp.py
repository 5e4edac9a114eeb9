"""TNP-D: the model, the fast pass, what it is blind to, and what it is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.models.checks import DEVIATIONS
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPA, TNPD, TNPND, autoregressive_mask, diagonal_mask, nondiagonal_mask
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, assert_within, real_dtypes, seeds
from tests.models import tnp_judges as judges
from tests.models.tnp_judges import assert_prediction, predict
from tests.transcriptions import tnp as transcription

SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "embedding_depth": 2}


def small(dx=1, dy=1, **options):
    return judges.shaken(TNPD(dx, dy, **(SMALL | options), rng=np.random.default_rng(0)))


def test_parameters_are_those_of_the_paper():
    assert sum(p.data.size for p in TNPD(rng=np.random.default_rng(0)).parameters()) == 222_082


@given(seeds, judges.sizes, real_dtypes, st.booleans(), judges.forms)
def test_value(seed, size, dtype, flag, form):
    """Against all tokens under the whole mask, one by one."""
    model = small(*size[3:], flag=flag, **form).astype(dtype)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size, dtype)
    found = predict(model, context_x, context_y, target_x, mask)
    rounded = judges.tnp_d(model, context_x, context_y, target_x, mask)
    assert_prediction(found, [r.value for r in rounded], rounded, dtype)
    literal = [
        transcription.tnp_d(*one, model.state_dict(), 2, 2, flag, **form)
        for one in zip(context_x, context_y, target_x, mask, strict=True)
    ]
    assert_prediction(found, [np.stack(a) for a in zip(*literal, strict=True)], rounded, dtype)


@given(seeds, judges.sizes, real_dtypes, st.sampled_from(DEVIATIONS), st.sampled_from([0.0, 0.1]))
def test_other_deviations(seed, size, dtype, deviation, floor):
    model = small(*size[3:], deviation=deviation, floor=floor).astype(dtype)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size, dtype)
    found = predict(model, context_x, context_y, target_x, mask)
    rounded = judges.tnp_d(model, context_x, context_y, target_x, mask)
    assert_prediction(found, [r.value for r in rounded], rounded, dtype)


def test_another_deviation_is_refused():
    for model in (TNPD, TNPA, TETNP):
        with pytest.raises(ValueError, match=rf"^{model.__name__}: deviation is 'std'; use one of published, softplus"):
            model(deviation="std", rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("mask", "sets"),
    [
        (diagonal_mask(2, 3), "CCTTT"),
        (autoregressive_mask(2, 3), "CCRRRPPP"),
        (nondiagonal_mask(np.array([[True, True, False]]))[0], "TTT"),
    ],
)
def test_masks_are_those_of_the_pictures(mask, sets):
    """Each function's docstring shows its mask, a row for each token."""
    which = {5: diagonal_mask, 8: autoregressive_mask, 3: nondiagonal_mask}[len(sets)]
    rows = [line.split() for line in which.__doc__.splitlines() if line.split()[1:2] in (["0"], ["1"])]
    assert [row[0] for row in rows] == list(sets)
    assert [[digit == "1" for digit in row[1:]] for row in rows] == mask.tolist()


@given(seeds, judges.sizes)
def test_the_fast_pass_is_the_encoder_under_the_whole_mask(seed, size):
    """Whole encoder layers, all tokens as queries, keys and values."""
    model = small(*size[3:])
    (context_x, context_y, target_x, _), (there, _) = judges.task(seed, size)
    tokens = np.concatenate([model.observed(context_x, context_y), model.unobserved(target_x)], 1)
    c, t = size[1:3]
    mask = diagonal_mask(c, t) & np.concatenate([there, np.ones((size[0], t), bool)], 1)[:, None]
    s = raw(model.predictor(judges.under_whole_mask(model, tokens, mask)[:, c:]))
    found = predict(model, context_x, context_y, target_x, there)
    rounded = judges.tnp_d(model, context_x, context_y, target_x, there)
    for value, reference, limit in zip(found, (s[..., : size[4]], np.exp(s[..., size[4] :])), rounded, strict=True):
        assert_within(value, reference, 2 * tolerance(limit, np.float64))


@given(seeds, judges.sizes, judges.forms)
def test_context_has_no_order_and_targets_keep_theirs(seed, size, form):
    """Context invariance and target equivariance, to rounding; a target alone gets what it gets among others."""
    model = small(*size[3:], **form)
    (context_x, context_y, target_x, _), (mask, _) = judges.task(seed, size)
    rng = np.random.default_rng(seed)
    others, new = rng.permutation(size[1]), rng.permutation(size[2])
    first = predict(model, context_x, context_y, target_x, mask)
    second = predict(model, context_x[:, others], context_y[:, others], target_x[:, new], mask[:, others])
    alone = predict(model, context_x, context_y, target_x[:, :1], mask)
    limits = judges.tnp_d(model, context_x, context_y, target_x, mask)
    for a, b, c, limit in zip(first, second, alone, limits, strict=True):
        bound = 2 * tolerance(limit, np.float64)
        assert_within(b, a[:, new], bound[:, new])
        assert_within(c, a[:, :1], bound[:, :1])


def test_shifts_change_the_prediction():
    """TNP-D is not translation equivariant: places are features like any others."""
    model = small()
    (context_x, context_y, target_x, _), (mask, _) = judges.task(0, (2, 4, 3, 1, 1))
    here = predict(model, context_x, context_y, target_x, mask)
    there = predict(model, context_x + 4, context_y, target_x + 4, mask)
    assert min(np.abs(a - b).max() for a, b in zip(here, there, strict=True)) > 1e-3


@given(seeds, judges.sizes, st.sampled_from([np.nan, np.inf, 1e300]), judges.forms)
def test_what_is_hidden_is_not_looked_at(seed, size, rubbish, form):
    model = small(*size[3:], **form)
    (context_x, context_y, target_x, target_y), (mask, there) = judges.task(seed, size)
    tasks = []
    for filling in (0.0, rubbish):
        contexts = [np.where(mask[..., None], a, filling) for a in (context_x, context_y)]
        targets = [np.where(there[..., None], a, filling) for a in (target_x, target_y)]
        tasks.append(Task(*contexts, *targets, mask, there))
    losses, gradients = [], []
    for one in tasks:
        model.zero_grad()
        losses.append(model.loss(one))
        losses[-1].backward()
        gradients.append([p.grad for p in model.parameters()])
    assert np.isfinite(losses[0].data)
    assert_same_bits(losses[0].data, losses[1].data)
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert np.isfinite(a).all()
            assert_same_bits(a, b)


@pytest.mark.parametrize("form", judges.FORMS, ids=str)
def test_every_parameter_is_used(form):
    model = small(**form)
    arrays, _ = judges.task(0, (2, 3, 4, 1, 1))
    model.loss(Task(*arrays)).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_the_forms_differ():
    """The same numbers as weights, another form: another prediction. Untied layers that are equal are one layer."""
    (context_x, context_y, target_x, _), _ = judges.task(0, (2, 3, 4, 1, 1))
    model, untied = small(), small(untied=True)
    state = model.state_dict()
    first = predict(model, context_x, context_y, target_x)[0]
    for form in ({"norm": "pre"}, {"updated": True}):
        other = small(**form)
        other.load_state_dict(state)
        assert np.abs(predict(other, context_x, context_y, target_x)[0] - first).max() > 1e-3
    assert np.abs(predict(untied, context_x, context_y, target_x)[0] - first).max() > 1e-3
    shared = {name.replace("layers.", "reading_layers.", 1): array for name, array in state.items()}
    both = state | {name: array for name, array in shared.items() if name.startswith("reading")}
    untied.load_state_dict({name: both[name] for name in untied.state_dict()})
    limit = judges.tnp_d(model, context_x, context_y, target_x, np.ones((2, 3), bool))[0]
    assert_within(predict(untied, context_x, context_y, target_x)[0], first, 2 * tolerance(limit, np.float64))


@pytest.mark.parametrize("contexts", [0, 3])
@pytest.mark.parametrize("form", judges.FORMS, ids=str)
def test_an_empty_context_gives_a_finite_prediction(contexts, form):
    """No context points, or all of them masked: the same. Targets attend to nothing, which adds 0."""
    model = small(**form)
    (context_x, context_y, target_x, target_y), _ = judges.task(0, (2, contexts, 4, 1, 1))
    nothing = np.zeros((2, contexts), bool)
    found = predict(model, context_x, context_y, target_x, nothing)
    empty = predict(model, context_x[:, :0], context_y[:, :0], target_x)
    limits = judges.tnp_d(model, context_x[:, :0], context_y[:, :0], target_x, nothing[:, :0])
    for a, b, limit in zip(found, empty, limits, strict=True):
        assert np.isfinite(a).all()
        assert_within(a, b, 2 * tolerance(limit, np.float64))
    loss = model.loss(Task(context_x, context_y, target_x, target_y, nothing))
    loss.backward()
    assert all(np.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_loss_is_the_mean_over_targets_that_are_there():
    model = small(2, 2)
    (context_x, context_y, target_x, target_y), (mask, there) = judges.task(3, (3, 4, 4, 2, 2))
    mean, std = predict(model, context_x, context_y, target_x, mask)
    log_p = -0.5 * ((target_y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    expected = -log_p[there].sum() / there.sum()
    loss = model.loss(Task(context_x, context_y, target_x, target_y, mask, there)).data
    assert loss == pytest.approx(expected, rel=1e-14 * log_p.size)  # sums of log_p.size terms of both signs near 1
    assert model.loss(Task(context_x, context_y, target_x, target_y, mask, there & False)).data == 0


def test_a_floor_is_a_floor():
    model, without = small(floor=0.05), small()
    (context_x, context_y, target_x, _), _ = judges.task(0, (2, 4, 5, 1, 1))
    model.predictor.layers[-1].bias.data[1] = without.predictor.layers[-1].bias.data[1] = -100
    assert predict(model, context_x, context_y, target_x)[1].min() >= 0.05
    assert predict(without, context_x, context_y, target_x)[1].max() < 1e-30


def test_zero_is_ambiguous_without_a_flag():
    """A context point with y = 0 and a target at the same place are one token; with the flag they are two."""
    x, zero = np.full((1, 1, 1), 0.7), np.zeros((1, 1, 1))
    for flag in (False, True):
        model = small(flag=flag)
        assert np.array_equal(model.observed(x, zero), model.unobserved(x)) is not flag


@pytest.mark.parametrize("size", [(0, 2, 2, 1, 1), (2, 0, 0, 1, 1), (2, 2, 0, 1, 1)])
@pytest.mark.parametrize("form", judges.FORMS, ids=str)
def test_nothing_asked_is_nothing_answered(size, form):
    (context_x, context_y, target_x, target_y), _ = judges.task(0, size)
    model = small(**form)
    assert model(context_x, context_y, target_x).shape == target_y.shape
    loss = model.loss(Task(context_x, context_y, target_x, target_y))
    loss.backward()
    assert loss.data == 0


def test_training_makes_the_loss_smaller():
    from refnp.training.optimizers import Adam

    model = small()
    (context_x, context_y, target_x, target_y), _ = judges.task(0, (4, 5, 5, 1, 1))
    task, adam = Task(context_x, context_y, target_x, target_y), Adam(model.parameters(), learning_rate=1e-2)
    losses = []
    for _ in range(20):
        adam.zero_grad()
        loss = model.loss(task)
        loss.backward()
        adam.step()
        losses.append(float(loss.data))
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "TNPD: layers is 0; at least 1 is needed"),
        ({"embedding_depth": 0}, "TNPD: embedding_depth is 0; at least 1 is needed"),
        ({"floor": 1.0}, r"TNPD: floor is 1\.0; it must lie in \[0, 1\)"),
        ({"heads": 3}, "features is 4; it must be a multiple of heads, 3"),
        ({"norm": "both"}, "norm is 'both'; use 'post'"),
        ({"dx": 0}, "dx 0"),
    ],
)
def test_sizes_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        TNPD(**(SMALL | options), rng=np.random.default_rng(0))


def test_arguments_that_make_no_sense():
    model = small()
    x, y = np.zeros((2, 3, 1)), np.zeros((2, 3, 1))
    with pytest.raises(ValueError, match=r"TNPD: context_x has shape \(2, 3, 2\); it must be \(B, M, 1\)"):
        model(np.zeros((2, 3, 2)), y, x)
    with pytest.raises(ValueError, match="hide what is missing with a mask"):
        model(x, y * np.nan, x)
    with pytest.raises(TypeError, match="True = present"):
        model(x, y, x, np.ones((2, 3)))


@pytest.mark.parametrize(("kind", "mask"), [(TNPD, diagonal_mask), (TNPND, diagonal_mask), (TNPA, autoregressive_mask)])
def test_a_model_shows_its_mask(kind, mask):
    model = kind(features=4, heads=2, hidden=4, layers=1, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(model.attention_mask(2, 3), mask(2, 3))


def test_masks_of_what_is_no_number_of_points():
    for mask in (diagonal_mask, autoregressive_mask):
        with pytest.raises(ValueError, match=f"^{mask.__name__}: contexts 2 and targets -1 must not be negative"):
            mask(2, -1)
    with pytest.raises(TypeError, match=r"^nondiagonal_mask: target_mask is int64; pass booleans, True = present"):
        nondiagonal_mask(np.ones((2, 3), int))
    with pytest.raises(ValueError, match=r"^nondiagonal_mask: target_mask has shape \(3,\); it must be \(B, N\)"):
        nondiagonal_mask(np.ones(3, bool))
