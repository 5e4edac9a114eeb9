"""What every neural process keeps: values and dtypes, order, what is hidden, what is not there, losses, gradients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from refnp.training.optimizers import Adam
from refnp.verify.layers.neural_processes import loss_of
from tests.helpers import COMPLEX, REAL, assert_same_bits, assert_within, check, real_dtypes, seeds
from tests.models.helpers import assert_prediction, drawn_task, predict, rounded, sizes
from tests.models.rows import CASES, JOINT, RESAMPLED, ROWS, every_case, every_marginal

every_row = pytest.mark.parametrize("name", ROWS)
every_equivariant_row = pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.exact_shifts])
every_marginal_row = pytest.mark.parametrize("name", [name for name in ROWS if name not in JOINT])
FILLINGS = st.sampled_from([np.nan, np.inf, -np.inf, 1e300])


def drawn(name, form, seed, size, dtype=np.float64):
    """A model, its arguments (context_x, context_y, target_x, mask), what it draws, and a Task of the same."""
    model = ROWS[name].make(form, *size[3:]).astype(dtype)
    (x, y, target_x, target_y), (mask, there) = drawn_task(seed, size, dtype)
    draws = {key: cast(value, dtype) for key, value in ROWS[name].draws(model, mask, seed).items()}
    return model, (x, y, target_x, mask), draws, Task(x, y, target_x, target_y, mask, there)


def cast(value, dtype):
    return value.astype(dtype) if isinstance(value, np.ndarray) else value


def a_form(data, name):
    return data.draw(st.sampled_from(ROWS[name].forms))


@every_marginal
@given(seed=seeds, size=sizes, dtype=real_dtypes)
def test_values_are_those_of_the_transcription(name, form, seed, size, dtype):
    """Point by point, and of the model's own operations in the widest precision."""
    model, arrays, draws, _ = drawn(name, form, seed, size, dtype)
    found, limits = predict(model, *arrays, **draws), rounded(predict, model, *arrays, **draws)
    assert_prediction(found, [limit.value for limit in limits], limits, dtype)
    if size[2]:
        tasks = enumerate(zip(*arrays, strict=True))
        literal = [ROWS[name].literal(model, form, *one, b, draws) for b, one in tasks]
        assert_prediction(found, [np.stack(part, -3) for part in zip(*literal, strict=True)], limits, dtype)


@every_marginal_row
@given(seed=seeds, size=sizes, data=st.data())
def test_contexts_have_no_order_and_targets_keep_theirs(name, seed, size, data):
    """To rounding; and a target alone gets what it gets among others. Draws of points go along with them."""
    model, (x, y, target_x, mask), draws, _ = drawn(name, a_form(data, name), seed, size)
    rng = np.random.default_rng(seed)
    others, new = rng.permutation(size[1]), rng.permutation(size[2])
    moved = {key: along(value, others) for key, value in draws.items()}
    first = predict(model, x, y, target_x, mask, **draws)
    second = predict(model, x[:, others], y[:, others], target_x[:, new], mask[:, others], **moved)
    alone = predict(model, x, y, target_x[:, :1], mask, **draws)
    limits = rounded(predict, model, x, y, target_x, mask, **draws)
    for a, b, c, limit in zip(first, second, alone, limits, strict=True):
        bound = 2 * tolerance(limit, np.float64)
        assert_within(b, a[..., new, :], bound[..., new, :])
        assert_within(c, a[..., :1, :], bound[..., :1, :])


def along(draws, others):
    """Draws that name points by their number, for points in another order; a noise names none."""
    return tuple(np.argsort(others)[a[..., others]] for a in draws) if isinstance(draws, tuple) else draws


@every_marginal_row
def test_a_mask_that_stays_where_it_is_breaks_the_order(name):
    model, (x, y, target_x, _), _, _ = drawn(name, {}, 0, (8, 3, 2, 1, 1))
    mask, order = np.tile([True, True, False], (8, 1)), np.array([2, 0, 1])
    draws = ROWS[name].draws(model, mask, 0)
    here = predict(model, x, y, target_x, mask, **draws)[0]
    there = predict(model, x[:, order], y[:, order], target_x, mask, **draws)[0]
    assert np.abs(here - there).max() > 1e-6


@every_equivariant_row
@given(seed=seeds, size=sizes, shift=st.integers(-1024, 1024), dtype=st.sampled_from(REAL[-2:]), data=st.data())
def test_shifts(name, seed, size, shift, dtype, data):
    """Places on a grid of 1/64 and a whole number: the same bits. A context that is not there has no least place."""
    model, (x, y, target_x, mask), draws, _ = drawn(name, a_form(data, name), seed, size, dtype)
    x, target_x = (np.round(a * 64) / 64 for a in (x, target_x))
    here, there = (predict(model, x + by, y, target_x + by, mask, **draws) for by in (0, shift))
    some = mask.any(-1)
    limits = rounded(predict, model, x, y, target_x, mask, **draws)
    for a, b, limit in zip(here, there, limits, strict=True):
        assert_same_bits(a[some], b[some])
        assert_within(a[~some], b[~some], 2 * tolerance(limit, dtype)[~some])


@every_marginal_row
def test_what_moves_a_prediction(name):
    """A shift of the targets alone and a reflection move all; a shift of everything moves those that know places."""
    model, (x, y, target_x, mask), draws, _ = drawn(name, {}, 0, (2, 4, 3, 1, 1))
    move = lambda of_x, of_target: np.abs(predict(model, of_x, y, of_target, mask, **draws)[0] - here).max()
    here = predict(model, x, y, target_x, mask, **draws)[0]
    assert move(x, target_x + 0.5) > 1e-3
    assert move(-x, -target_x) > 1e-3
    assert (move(x + 4, target_x + 4) > 1e-3) is not ROWS[name].exact_shifts


def loss_and_gradients(model, task, draws):
    model.zero_grad()
    loss = model.loss(task, **draws)
    loss.backward()
    return loss, [parameter.grad for parameter in model.parameters()]


@every_row
@given(seed=seeds, size=sizes, filling=FILLINGS, data=st.data())
def test_what_is_hidden_is_not_looked_at(name, seed, size, filling, data):
    """The same bits of the loss and of every gradient, whatever stands where nothing is."""
    model, _, draws, task = drawn(name, a_form(data, name), seed, size)
    results = []
    for hidden in (0.0, filling):
        contexts = [np.where(task.context_mask[..., None], a, hidden) for a in (task.context_x, task.context_y)]
        targets = [np.where(task.target_mask[..., None], a, hidden) for a in (task.target_x, task.target_y)]
        loss, gradients = loss_and_gradients(model, Task(*contexts, *targets, *masks(task)), draws)
        results.append([raw(loss), *gradients])
    for a, b in zip(*results, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert np.isfinite(a).all()
            assert_same_bits(a, b)


def masks(task):
    return task.context_mask, task.target_mask


@pytest.mark.parametrize("name", [name for name in ROWS if name not in (*JOINT, *RESAMPLED)])
@given(seed=seeds, size=sizes, data=st.data())
def test_hidden_points_are_as_if_they_were_not_there(name, seed, size, data):
    model, (x, y, target_x, mask), draws, _ = drawn(name, a_form(data, name), seed, (1, *size[1:]))
    limits = rounded(predict, model, x, y, target_x, mask, **draws)
    fewer = predict(model, x[:, mask[0]], y[:, mask[0]], target_x, **draws)
    for a, b, limit in zip(predict(model, x, y, target_x, mask, **draws), fewer, limits, strict=True):
        assert_within(a, b, 2 * tolerance(limit, np.float64))


@every_marginal
@pytest.mark.parametrize("contexts", [0, 3])
def test_an_empty_context(name, form, contexts):
    """No points, or all of them hidden: the same finite prediction; where places are differences, at every place."""
    model, (x, y, target_x, _), _, task = drawn(name, form, 0, (2, contexts, 4, 1, 1))
    nothing = np.zeros((2, contexts), bool)
    draws, none = (ROWS[name].draws(model, mask, 0) for mask in (nothing, nothing[:, :0]))
    limits = rounded(predict, model, x, y, target_x, nothing, **draws)
    found, empty = (
        predict(model, x, y, target_x, nothing, **draws),
        predict(model, x[:, :0], y[:, :0], target_x, **none),
    )
    for a, b, limit in zip(found, empty, limits, strict=True):
        bound = 2 * tolerance(limit, np.float64)
        assert np.isfinite(a).all()
        assert_within(a, b, bound)
        if ROWS[name].exact_shifts:
            assert_within(a, np.broadcast_to(a[..., :1, :1, :], a.shape), bound)
    _, gradients = loss_and_gradients(model, Task(x, y, target_x, task.target_y, nothing), draws)
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)


@every_case
@pytest.mark.parametrize("size", [(0, 2, 2, 1, 1), (2, 0, 0, 1, 1), (2, 2, 0, 1, 1)])
def test_nothing_asked_is_nothing_answered(name, form, size):
    model, (x, y, target_x, _), _, task = drawn(name, form, 0, size)
    loss, gradients = loss_and_gradients(model, Task(x, y, target_x, task.target_y), {})
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)
    assert loss.data == 0


@every_case
def test_every_parameter_is_used(name, form):
    """But those that a form has for nothing, as a published model has them."""
    model, _, _, task = drawn(name, form, 0, (2, 3, 4, 1, 1))
    model.loss(task).backward()
    unused = {key for key, parameter in model.named_parameters() if parameter.grad is None}
    expected = {key for key in model.state_dict() if key.startswith(ROWS[name].unused) and form.get("last_spread")}
    assert unused == expected


@every_marginal_row
@given(seed=seeds, size=sizes, dtype=real_dtypes, data=st.data())
def test_losses_are_of_the_targets_that_are_there(name, seed, size, dtype, data):
    """In the model's own operations; of independent targets −(1/n) Σ log p, 0 for none."""
    model, arrays, draws, task = drawn(name, a_form(data, name), seed, size, dtype)
    found, limit = model.loss(task, **draws), rounded(model.loss, task, judged=dtype if draws else None, **draws)
    assert found.dtype == dtype
    assert_within(raw(found), raw(limit).value, tolerance(raw(limit), dtype))
    if not draws and dtype != np.longdouble:  # in which the reference is
        mean, std = rounded(predict, model, *arrays)
        z = (task.target_y - mean.value) / std.value
        log_p = -0.5 * z * z - np.log(std.value) - 0.5 * np.log(2 * np.longdouble(np.pi))
        right = -np.where(task.target_mask[..., None], log_p, 0).sum() / max(task.target_mask.sum(), 1)
        assert_within(raw(found), right, 2 * tolerance(raw(limit), dtype))


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if case[0] not in RESAMPLED], ids=str)
def test_gradients_of_the_loss(name, form):
    """Along three random directions through all parameters, and by all arrays of the task."""
    model, arrays, _, task = drawn(name, form, 3, (2, 2, 2, 1, 2))
    state, rng = model.state_dict(), np.random.default_rng(1)
    directions = {key: rng.standard_normal((3, *value.shape)) for key, value in state.items()}
    sets = {"x": arrays[0], "y": arrays[1]}, {"x": arrays[2], "y": task.target_y}
    loss = loss_of(model, task.context_mask, task.target_mask)

    def along(t, *sets):
        return loss({key: value + ag.einsum("k,k...->...", t, directions[key]) for key, value in state.items()}, *sets)

    assert check(along, (np.zeros(3), *sets)).method == "complex step"


@every_row
@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_dtype_is_kept(name, dtype):
    model, _, _, task = drawn(name, {}, 0, (2, 3, 2, 1, 2))
    loss, gradients = loss_and_gradients(model.astype(dtype), task.astype(np.dtype(dtype).type(0).real.dtype), {})
    assert {loss.dtype, *(gradient.dtype for gradient in gradients)} == {np.dtype(dtype)}


@every_row
def test_training_makes_the_loss_smaller(name):
    model, (x, y, target_x, _), _, task = drawn(name, {}, 0, (4, 5, 5, 1, 1))
    task, adam, losses = Task(x, y, target_x, task.target_y), Adam(model.parameters(), learning_rate=1e-2), []
    for _ in range(20):
        adam.zero_grad()
        losses.append(model.loss(task, **ROWS[name].draws(model, task.context_present, 0)))
        losses[-1].backward()
        adam.step()
    assert losses[-1].item() < losses[0].item() - 0.1
