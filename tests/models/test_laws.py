"""What every neural process keeps: values and dtypes, order, what is hidden, what is not there, losses, gradients."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp import autograd as ag
from refnp.autograd import Tensor
from refnp.autograd.primitives import raw
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from refnp.training.optimizers import Adam
from refnp.verify.layers.neural_processes import RAGGED, loss_of, sets
from tests.helpers import COMPLEX, REAL, assert_same_bits, assert_within, check, real_dtypes, seeds
from tests.models.helpers import assert_prediction, drawn_task, predict, rounded, sizes
from tests.models.rows import APART, CASES, RESAMPLED, ROWS, every_case, every_marginal

every_row = pytest.mark.parametrize("name", ROWS)
every_equivariant_row = pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.exact_shifts])
every_marginal_row = pytest.mark.parametrize("name", [name for name in ROWS if name not in APART])
CHAIN = "Autoregressive"  # in whose loss of no target no parameter has a part; see its file
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


@pytest.mark.parametrize("name", [name for name in ROWS if name != CHAIN])
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


@pytest.mark.parametrize("name", [name for name in ROWS if name not in (*APART, *RESAMPLED)])
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


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if case[0] != CHAIN], ids=str)
@pytest.mark.parametrize("size", [(0, 2, 2, 1, 1), (2, 0, 0, 1, 1), (2, 2, 0, 1, 1)])
def test_nothing_asked_is_nothing_answered(name, form, size):
    model, (x, y, target_x, _), _, task = drawn(name, form, 0, size)
    loss, gradients = loss_and_gradients(model, Task(x, y, target_x, task.target_y), {})
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)
    assert loss.data == 0 or ("objective" in form and size[1])  # which is of the context, too


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


# ---- tasks that hold Tensors


@every_case
def test_gradients_by_the_data(name, form):
    """As of the function whose gradient is held to the complex step; nothing for what is hidden."""
    model, (context, targets) = ROWS[name].make(form, 2, 2), sets(np.random.default_rng(1))
    arrays = context["x"], context["y"], targets["x"], targets["y"]
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    model.loss(Task(*leaves, *RAGGED)).backward()
    function = loss_of(model, *RAGGED)
    by = ag.grad(lambda sets: function(model.state_dict(), *sets))
    expected = [bar for bars in by((context, targets)) for bar in (bars["x"], bars["y"])]
    for leaf, reference, there in zip(leaves, expected, np.repeat([0, 1], 2), strict=True):
        assert_same_bits(leaf.grad, reference)
        assert not leaf.grad[~RAGGED[there]].any()
    assert leaves[-1].grad.any()


@every_row
def test_one_tensor_among_arrays(name):
    """Is enough; values are those of arrays; draws and functions leave no tape."""
    model, (context, targets) = ROWS[name].make({}, 2, 2), sets(np.random.default_rng(1))
    leaf = Tensor(context["y"], requires_grad=True)
    tasks = [Task(context["x"], y, targets["x"], targets["y"], *RAGGED) for y in (leaf, context["y"])]
    loss = model.loss(tasks[0])
    assert loss.item() == model.loss(tasks[1]).item()
    loss.backward()
    assert leaf.grad is not None
    for ask in (model.joint_log_prob, lambda task: model.marginal(task).mean):
        found, reference = map(ask, tasks)
        assert isinstance(found, Tensor)
        assert_same_bits(found.data, reference)
    for draw in (model.joint_samples, model.functions):
        assert_same_bits(*(draw(task, np.random.default_rng(0), 2) for task in tasks))


# ---- what is refused


COUNTS = (
    "layers", "embedding_depth", "predictor_depth", "pseudo_tokens", "samples", "loss_samples", "latent", "encoders",
    "decoder", "query_depth", "mean_depth", "projector_depth", "diagonal_depth",
)  # fmt: skip
FEW = "the last two are the attention block, at least 3 are needed"
REFUSED = {name: (0, f"NAME: {name} is 0; at least 1 is needed") for name in COUNTS} | {
    "before": (0, f"NAME: before is 0; (at least 1 is needed|{FEW})"),
    "depth": (2, f"NAME: depth is 2; {FEW}"),
    "after": (-1, "(SetEncoder: after is -1; it must be 0, without ρ|NAME: after is -1; at least 1 is needed)"),
    "floor": (1.0, r"NAME: floor is 1\.0; it must (be 0, or for covariance='cholesky' )?lie in \[0, 1\)"),
    "latent_floor": (-0.5, r"NAME: latent_floor is -0\.5; it must lie in \[0, 1\)"),
    "deviation": ("var", "NAME: deviation is 'var'; use one of (published, )?softplus, exp, softplus_variance"),
    "flagged": ("all", "NAME: flagged is 'all'; use 'context' or 'targets'"),
    "bound": ("vae", "NAME: bound is 'vae'; use 'elbo' or 'importance_weighted'"),
    "objective": ("vae", "NAME: objective is 'vae'; use ('targets' or '|one of targets, deepmind, )tnp_pytorch"),
    "form": ("other", "NAME: form is 'other'; use 'induced' or 'perceiver'"),
    "covariance": ("full", "NAME: covariance is 'full'; use 'low_rank' or 'cholesky'"),
    "rank": (0, "NAME: rank (is )?0"),
    "spread": (np.nan, "NAME: spread is nan; it must be finite and not negative"),
    "norm": ("both", "Residual: norm is 'both'; use 'post'"),
    "pooling": ("max", "SetEncoder: pooling is 'max'; use 'mean' or 'sum'"),
    "scaling": ("128", "AttentionBlock: scaling is '128'; use 'head' or 'features'"),
    "length_scale": (-1.0, r"TranslationAttention: length_scale is -1\.0"),
    "heads": (
        3,
        ".*(3 heads do not divide 4|heads is 3; pass heads that divide|a multiple of heads, 3)",
    ),
    "dx": (0, "NAME: dx 0 and dy 1, the inputs and outputs, must be positive"),
}


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if isinstance(row.kind, type)])
def test_options_that_make_no_sense_are_refused(name):
    row = ROWS[name]
    refused = REFUSED.keys() & inspect.signature(row.kind).parameters
    assert refused
    for option in refused:
        value, message = REFUSED[option]
        with pytest.raises(ValueError, match=f"^{message.replace('NAME', name)}"):
            row.kind(**(row.small | {option: value}), rng=np.random.default_rng(0))


ONES = {
    "context_x": np.ones((2, 3, 1)), "context_y": np.ones((2, 3, 2)), "target_x": np.ones((2, 4, 1)),
    "target_y": np.ones((2, 4, 2)), "context_mask": None, "target_mask": None,
}  # fmt: skip
UNFIT = [  # an array that does not fit the others, and what is said of it
    ("context_x", np.ones((3, 1)), r"context_x has shape \(3, 1\); it must be \(B, M, 1\)"),
    ("context_x", np.ones((2, 3, 2)), r"context_x has shape \(2, 3, 2\); it must be \(B, M, 1\)"),
    ("context_y", np.ones((2, 3, 1)), r"context_y has shape \(2, 3, 1\); it must be \(B, M, 2\)"),
    ("context_y", np.ones((2, 4, 2)),
     r"context_x has shape \(2, 3, 1\) but context_y \(2, 4, 2\); \(B, M\) must agree"),
    ("target_x", np.ones((2, 4)), r"target_x has shape \(2, 4\); it must be \(B, N, 1\)"),
    ("target_x", np.ones((3, 4, 1)), r"target_x has 3 tasks but the context 2; they must agree"),
    ("context_mask", np.ones((2, 3)), r"context_mask is float64; pass booleans, True = present"),
    ("context_mask", np.ones((3, 2), bool), r"context_mask has shape \(3, 2\); it must be \(2, 3\), one for"),
    ("context_y", np.where(np.arange(12).reshape(2, 3, 2) == 9, np.nan, 1.0),
     r"context_y holds nan at \[1, 1, 1\]; hide what is missing with a mask"),
    ("target_x", np.full((2, 4, 1), np.inf), r"target_x holds inf at \[0, 0, 0\]; hide what is missing with a mask"),
    ("target_y", np.ones((2, 4)), r"target_y has shape \(2, 4\); it must be \(B, N, 2\)"),
    ("target_y", np.ones((2, 5, 2)), r"target_x has shape \(2, 4, 1\) but target_y \(2, 5, 2\); \(B, N\) must agree"),
    ("target_mask", np.ones((2, 4), int), r"target_mask is int64; pass booleans, True = present"),
    ("target_y", np.full((2, 4, 2), np.nan), r"target_y holds nan at \[0, 0, 0\]; hide what is missing with a mask"),
]  # fmt: skip


@every_row
def test_arrays_that_do_not_fit_are_refused(name):
    """In a call, or in the loss of a task, which a Task would refuse by itself."""
    model = ROWS[name].make({}, 1, 2)
    who = "(CNP|Autoregressive)" if name == CHAIN else name
    for argument, array, message in UNFIT:
        given, error = ONES | {argument: array}, TypeError if "pass booleans" in message else ValueError
        arrays = [given[part] for part in ("context_x", "context_y", "target_x", "context_mask")]
        of_loss = argument in ("target_y", "target_mask")
        with pytest.raises(error, match=rf"^{who}: {message}"):
            model.loss(SimpleNamespace(**given)) if of_loss else model(*arrays)
