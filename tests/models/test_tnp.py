"""TNP-D: the model, the fast pass, what it is blind to, and what it is not."""

import numpy as np
import pytest
from hypothesis import given

from refnp.autograd.primitives import raw
from refnp.models.tnp import TNPA, TNPD, TNPND, autoregressive_mask, diagonal_mask, nondiagonal_mask
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_within, seeds
from tests.models.helpers import drawn_task, predict, rounded, shaken, sizes, under_whole_mask

SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "embedding_depth": 2}


def small(dx=1, dy=1, **options):
    return shaken(TNPD(dx, dy, **(SMALL | options), rng=np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [
        (TNPD, {}, 222_082),
        (TNPA, {}, 222_082),
        (TNPND, {"covariance": "cholesky"}, 332_821),
        (TNPND, {"covariance": "low_rank"}, 374_294),
    ],
)
def test_parameters_are_those_of_the_paper(kind, options, count):
    assert sum(p.data.size for p in kind(**options, rng=np.random.default_rng(0)).parameters()) == count


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


@given(seeds, sizes)
def test_the_fast_pass_is_the_encoder_under_the_whole_mask(seed, size):
    """Whole encoder layers, all tokens as queries, keys and values."""
    model = small(*size[3:])
    (context_x, context_y, target_x, _), (there, _) = drawn_task(seed, size)
    tokens = np.concatenate([model.observed(context_x, context_y), model.unobserved(target_x)], 1)
    c, t = size[1:3]
    mask = diagonal_mask(c, t) & np.concatenate([there, np.ones((size[0], t), bool)], 1)[:, None]
    s = raw(model.predictor(under_whole_mask(model, tokens, mask)[:, c:]))
    found = predict(model, context_x, context_y, target_x, there)
    limits = rounded(predict, model, context_x, context_y, target_x, there)
    for value, reference, limit in zip(found, (s[..., : size[4]], np.exp(s[..., size[4] :])), limits, strict=True):
        assert_within(value, reference, 2 * tolerance(limit, np.float64))


def test_the_forms_differ():
    """The same numbers as weights, another form: another prediction. Untied layers that are equal are one layer."""
    (context_x, context_y, target_x, _), _ = drawn_task(0, (2, 3, 4, 1, 1))
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
    limit = rounded(predict, model, context_x, context_y, target_x)[0]
    assert_within(predict(untied, context_x, context_y, target_x)[0], first, 2 * tolerance(limit, np.float64))


def test_a_floor_is_a_floor():
    model, without = small(floor=0.05), small()
    (context_x, context_y, target_x, _), _ = drawn_task(0, (2, 4, 5, 1, 1))
    model.predictor.layers[-1].bias.data[1] = without.predictor.layers[-1].bias.data[1] = -100
    assert predict(model, context_x, context_y, target_x)[1].min() >= 0.05
    assert predict(without, context_x, context_y, target_x)[1].max() < 1e-30


def test_zero_is_ambiguous_without_a_flag():
    """A context point with y = 0 and a target at the same place are one token; with the flag they are two."""
    x, zero = np.full((1, 1, 1), 0.7), np.zeros((1, 1, 1))
    for flag in (False, True):
        model = small(flag=flag)
        assert np.array_equal(model.observed(x, zero), model.unobserved(x)) is not flag


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
