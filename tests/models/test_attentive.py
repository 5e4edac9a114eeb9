"""Attentive neural processes: the block and its two scalings, CANP and ANP, and what each target finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.models.attentive import ANP, CANP, AttentionBlock
from refnp.models.neural_process import CNP
from refnp.numbers.rounding import exact, tolerance
from refnp.tasks.task import Task
from refnp.verify.layers.neural_processes import loss_of
from tests.helpers import COMPLEX, REAL, assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.models import np_judges as judges
from tests.models.tnp_judges import shaken, sizes
from tests.models.tnp_judges import task as drawn_task
from tests.transcriptions import neural_processes as transcription

SMALL = {"hidden": 4, "heads": 2, "depth": 3, "query_depth": 1, "after": 1, "decoder": 2}
LATENT = SMALL | {"latent": 3, "samples": 2, "loss_samples": 2}
scalings = st.sampled_from(["head", "features"])
both = pytest.mark.parametrize("kind", ["CANP", "ANP"])


def generator(seed=0):
    return np.random.default_rng(seed)


def small(kind, dx=1, dy=1, **options):
    if kind == "CANP":
        return shaken(CANP(dx, dy, **(SMALL | options), rng=generator()))
    return shaken(ANP(dx, dy, **(LATENT | options), rng=generator()))


def problem(seed, size, dtype=np.float64):
    """(context_x, context_y, target_x, mask), and a Task of the same."""
    (x, y, target_x, target_y), (mask, there) = drawn_task(seed, size, dtype)
    return (x, y, target_x, mask), Task(x, y, target_x, target_y, mask, there)


def parts(model, *arrays):
    """Mean and standard deviation, of all components of a mixture."""
    found = model(*arrays)
    found = found.components if isinstance(model, ANP) else found
    return raw(found.mean), raw(found.std)


# ---- the block


def block_problem(seed, n, m, dtype=np.float64):
    arrays = [normal(seed + i, (2, length, 4), dtype) for i, length in enumerate((n, m, m))]
    return arrays, generator(seed).random((2, m)) < 0.7


@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from([1, 2, 4]), scalings, real_dtypes, seeds)
def test_block(n, m, heads, scaling, dtype, seed):
    block = shaken(AttentionBlock(4, heads, scaling=scaling, rng=generator())).astype(dtype)
    arrays, mask = block_problem(seed, n, m, dtype)
    limit = judges.block(block, *map(exact, arrays), mask)
    found = block(*arrays, mask[:, None, :])
    assert found.dtype == dtype
    assert_within(raw(found), limit.value, tolerance(limit, dtype))


@pytest.mark.parametrize("scaling", ["head", "features"])
@pytest.mark.parametrize("dtype", REAL)
def test_block_number_by_number(scaling, dtype):
    block = shaken(AttentionBlock(4, 2, scaling=scaling, rng=generator())).astype(dtype)
    arrays, mask = block_problem(0, 3, 4, dtype)
    limit = tolerance(judges.block(block, *map(exact, arrays), mask), dtype)
    state = {f"block.{name}": value for name, value in block.state_dict().items()}
    for b in range(2):
        query, key, value = (a[b] for a in arrays)
        expected = transcription.block(query, key[mask[b]], value[mask[b]], state, "block", 2, scaling)
        assert_within(raw(block(*arrays, mask[:, None, :]))[b], expected, limit[b])


def test_the_two_scalings_differ_by_the_root_of_the_heads():
    """√16 and √128 for 8 heads on 128 features: queries √8 times as large make one of the other. One head: the same."""
    arrays = [normal(i, (1, n, 128)) for i, n in enumerate((3, 5, 5))]
    head, features = (AttentionBlock(128, 8, scaling=s, rng=generator()) for s in ("head", "features"))
    mask = np.ones((1, 5), bool)
    limit = tolerance(judges.block(head, *map(exact, arrays), mask), np.float64)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(raw(features(*arrays)), raw(head(*arrays)), 1e6 * limit)
    one, other = (AttentionBlock(128, 1, scaling=s, rng=generator()) for s in ("head", "features"))
    limit = tolerance(judges.block(one, *map(exact, arrays), mask), np.float64)
    assert_within(raw(other(*arrays)), raw(one(*arrays)), 2 * limit)

    def scores(block):
        """What the softmax is taken of, for the first head."""
        q, k = (raw(linear(a))[0, :, :16] for linear, a in ((block.query, arrays[0]), (block.key, arrays[1])))
        return q @ k.T / (16 if block.scaling == "head" else 128) ** 0.5

    np.testing.assert_allclose(scores(head), 8**0.5 * scores(features), rtol=1e-14)


def test_a_query_that_sees_nothing_is_answered_without_an_answer():
    """u = LN(q): finite, and the same whatever is hidden."""
    block, (arrays, _) = shaken(AttentionBlock(4, 2, rng=generator())), block_problem(0, 3, 4)
    nothing = np.zeros((2, 1, 4), bool)
    found = raw(block(*arrays, nothing))
    u = block.first_norm(block.query(arrays[0]))
    expected = block.second_norm(u + np.maximum(raw(block.output(u)), 0))
    assert_same_bits(found, raw(expected))
    assert_same_bits(raw(block(arrays[0], np.full((2, 4, 4), np.nan), np.full((2, 4, 4), np.nan), nothing)), found)


# ---- the models


@both
@given(seed=seeds, size=sizes, dtype=real_dtypes, scaling=scalings, floor=st.sampled_from([0.0, 0.1]))
def test_value(kind, seed, size, dtype, scaling, floor):
    model = small(kind, *size[3:], scaling=scaling, floor=floor).astype(dtype)
    arrays, _ = problem(seed, size, dtype)
    for value, limit in zip(parts(model, *arrays), judges.answer(model, *arrays), strict=True):
        assert value.dtype == dtype
        assert_within(value, limit.value, tolerance(limit, dtype))


@both
@given(seeds, sizes, real_dtypes, st.sampled_from([3, 4]), st.sampled_from(["exp", "softplus_variance"]))
def test_depths_of_its_own_and_other_deviations(kind, seed, size, dtype, before, deviation):
    """`before` is of the path with the mean; without it both paths are as deep."""
    model = small(kind, *size[3:], depth=4, before=before, deviation=deviation, floor=0.1).astype(dtype)
    path = model.encoder if kind == "CANP" else model.latent_encoder
    assert (len(path.before.layers), len(model.cross_encoder.value.layers)) == (before - 2, 2)
    arrays, _ = problem(seed, size, dtype)
    for value, limit in zip(parts(model, *arrays), judges.answer(model, *arrays), strict=True):
        assert_within(value, limit.value, tolerance(limit, dtype))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("size", [(2, 3, 2, 2, 2), (1, 0, 2, 1, 1)])
def test_point_by_point(dtype, size):
    arrays, _ = problem(0, size, dtype)
    canp, anp = (small(kind, *size[3:], scaling="features", floor=0.1).astype(dtype) for kind in ("CANP", "ANP"))
    noise = generator().standard_normal((2, size[0], 3)).astype(dtype)
    for b, (x, y, target_x, mask) in enumerate(zip(*arrays, strict=True)):
        expected = transcription.canp(x, y, target_x, mask, canp.state_dict(), 0.1, 2, "features")
        for value, reference, limit in zip(
            parts(canp, *arrays), expected, judges.answer(canp, *arrays), strict=True
        ):  # fmt: skip
            assert_within(value[b], reference, tolerance(limit, dtype)[b])
        mean, std = transcription.latent(x, y, mask, anp.state_dict(), 0.0, 2, "features")
        for k in range(2):
            z = mean + std * noise[k, b]
            expected = transcription.anp(x, y, target_x, mask, z, anp.state_dict(), 0.1, 2, "features")
            for value, reference, limit in zip(
                parts(anp, *arrays), expected, judges.answer(anp, *arrays), strict=True
            ):  # fmt: skip
                assert_within(value[k, b], reference, tolerance(limit, dtype)[k, b])


@given(seeds, sizes, real_dtypes, st.sampled_from(["elbo", "importance_weighted"]))
def test_bounds_of_the_anp(seed, size, dtype, bound):
    model = small("ANP", *size[3:], bound=bound, latent_floor=0.1).astype(dtype)
    _, task = problem(seed, size, dtype)
    noise = generator().standard_normal((2, size[0], 3)).astype(dtype)
    limit = judges.bound(model, task, noise)
    assert_within(raw(model.log_likelihood_bound(task)), limit.value, tolerance(limit, dtype))


@given(seeds, sizes, real_dtypes)
def test_loss_of_the_canp(seed, size, dtype):
    model = small("CANP", *size[3:]).astype(dtype)
    arrays, task = problem(seed, size, dtype)
    mean, std = judges.answer(model, *arrays)
    n = max(int(task.target_mask.sum()), 1)
    limit = -judges.log_prob(mean, std, task.target_y, task.target_mask).sum((0,)) / n
    assert_within(raw(model.loss(task)), limit.value, tolerance(limit, dtype))


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_the_block(order):
    block, (arrays, mask) = shaken(AttentionBlock(4, 2, scaling="features", rng=generator())), block_problem(0, 2, 3)

    def f(parameters, *arrays):
        return block.bind(parameters)(*arrays, mask[:, None, :])

    assert check(f, (block.state_dict(), *arrays), order=order, max_elements=8).method == "complex step"


@both
def test_derivatives_along_directions(kind):
    """Of the loss, three random directions through all parameters: the table of operations has each by itself."""
    model, (arrays, task) = small(kind, 1, 2), problem(3, (2, 2, 2, 1, 2))
    state, rng = model.state_dict(), generator(1)
    directions = {name: rng.standard_normal((3, *value.shape)) for name, value in state.items()}
    sets = {"x": arrays[0], "y": arrays[1]}, {"x": arrays[2], "y": task.target_y}
    loss = loss_of(model, task.context_mask, task.target_mask)

    def along(t):
        moved = {name: value + ag.einsum("k,k...->...", t, directions[name]) for name, value in state.items()}
        return loss(moved, *sets)

    assert check(along, (np.zeros(3),)).method == "complex step"


@both
@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_dtype_is_kept(kind, dtype):
    model, (_, task) = small(kind, dy=2, scaling="features").astype(dtype), problem(0, (2, 3, 2, 1, 2))
    loss = model.loss(task.astype(np.dtype(dtype).type(0).real.dtype), rng=generator())
    loss.backward()
    assert {loss.dtype, *(p.grad.dtype for p in model.parameters())} == {np.dtype(dtype)}


# ---- what they look at, and what not


@both
@given(seed=seeds, size=sizes)
def test_context_invariance_and_target_equivariance(kind, seed, size):
    model, (arrays, _) = small(kind, *size[3:]), problem(seed, size)
    x, y, target_x, mask = arrays
    contexts, targets = (generator(seed).permutation(n) for n in size[1:3])
    found = parts(model, x[:, contexts], y[:, contexts], target_x[:, targets], mask[:, contexts])
    for value, reference, limit in zip(found, parts(model, *arrays), judges.answer(model, *arrays), strict=True):
        reference, limit = (a[..., targets, :] for a in (reference, tolerance(limit, np.float64)))
        assert_within(value, reference, 2 * limit)


@both
def test_a_mask_that_stays_where_it_is_breaks_context_invariance(kind):
    model, (arrays, _) = small(kind), problem(0, (1, 3, 2, 1, 1))
    x, y, target_x, mask = *arrays[:3], np.array([[True, True, False]])
    order = np.array([2, 0, 1])
    mean, _ = judges.answer(model, x, y, target_x, mask)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(
            parts(model, x[:, order], y[:, order], target_x, mask)[0], mean.value, 1e6 * tolerance(mean, np.float64)
        )


@both
def test_a_shift_of_everything_changes_predictions(kind):
    """No translation equivariance."""
    model, (arrays, _) = small(kind), problem(0, (1, 3, 3, 1, 1))
    x, y, target_x, mask = arrays
    mean, _ = judges.answer(model, *arrays)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(parts(model, x + 4, y, target_x + 4, mask)[0], mean.value, 1e6 * tolerance(mean, np.float64))


@both
@given(seed=seeds, size=sizes)
def test_other_targets_change_nothing(kind, seed, size):
    model, (arrays, _) = small(kind, *size[3:]), problem(seed, size)
    x, y, target_x, mask = arrays
    found, limits = parts(model, *arrays), judges.answer(model, *arrays)
    for n in range(size[2]):
        alone = parts(model, x, y, target_x[:, n : n + 1], mask)
        for value, reference, limit in zip(alone, found, limits, strict=True):
            assert_within(value[..., 0, :], reference[..., n, :], 2 * tolerance(limit, np.float64)[..., n, :])


@both
@given(seed=seeds, size=sizes)
def test_hidden_points_are_not_looked_at(kind, seed, size):
    model, (_, task) = small(kind, *size[3:]), problem(seed, size)
    hidden, unseen = ~task.context_mask[..., None], ~task.target_mask[..., None]
    results = []
    for filling in (0.0, np.nan, np.inf):
        contexts = (np.where(hidden, filling, a) for a in (task.context_x, task.context_y))
        targets = (np.where(unseen, filling, a) for a in (task.target_x, task.target_y))
        model.zero_grad()
        loss = model.loss(Task(*contexts, *targets, task.context_mask, task.target_mask), rng=generator(seed))
        loss.backward()
        results.append([raw(loss), *(p.grad for p in model.parameters())])
    for result in results[1:]:
        for value, reference in zip(result, results[0], strict=True):
            assert_same_bits(value, reference)


@both
def test_all_points_twice_change_nothing(kind):
    """A softmax over every key twice halves each weight and has twice as many."""
    model, (arrays, _) = small(kind), problem(0, (1, 3, 2, 1, 1))
    x, y, target_x, mask = *arrays[:3], np.ones((1, 3), bool)
    twice = [np.concatenate([a, a], 1) for a in (x, y)]
    limits = judges.answer(model, *twice, target_x, np.ones((1, 6), bool))
    for value, reference, limit in zip(
        parts(model, *twice, target_x), parts(model, x, y, target_x, mask), limits, strict=True
    ):
        assert_within(value, reference, 2 * tolerance(limit, np.float64))


@both
@pytest.mark.parametrize("size", [(2, 0, 3, 1, 1), (2, 2, 0, 1, 1), (2, 0, 0, 2, 1)])
def test_empty_sets_are_finite(kind, size):
    model, (arrays, task) = small(kind, *size[3:]), problem(0, size)
    loss = model.loss(task, rng=generator())
    loss.backward()
    assert np.isfinite(loss.item())
    assert all(np.isfinite(p.grad).all() for p in model.parameters())
    assert all(np.isfinite(a).all() for a in parts(model, *arrays))


def test_a_target_looks_where_it_stands():
    """With the same context in sum, a CNP says the same at x whatever lies near it; a CANP does not.

    The pairs are exchanged in y: (0, a), (1, b) → (0, b), (1, a), with φ that adds x and y up: the mean stays.
    """
    first, second = (np.array([[[a], [b]]]) for a, b in ((1.0, -1.0), (-1.0, 1.0)))
    x, target_x = np.array([[[0.0], [1.0]]]), np.array([[[0.0]]])
    additive = {"before": 1, "after": 2}
    cnp = CNP(hidden=4, **additive, rng=generator())
    mean, _ = judges.answer(cnp, x, first, target_x, np.ones((1, 2), bool))
    difference = raw(cnp(x, first, target_x).mean) - raw(cnp(x, second, target_x).mean)
    assert_within(difference, np.zeros((1, 1, 1)), 2 * tolerance(mean, np.float64))
    canp = small("CANP")
    assert abs(raw(canp(x, first, target_x).mean) - raw(canp(x, second, target_x).mean)) > 1e-3


# ---- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, r"AttentionBlock: 3 heads do not divide 4 features equally"),
        ({"scaling": "128"}, r"AttentionBlock: scaling is '128'; use 'head' or 'features'"),
        ({"query_depth": 0}, r"C?ANP: query_depth is 0; at least 1 is needed"),
        ({"after": 0}, r"C?ANP: after is 0; at least 1 is needed"),
        ({"before": 2}, r"C?ANP: before is 2; the last two are the attention block, at least 3 are needed"),
        ({"deviation": "var"}, r"C?ANP: deviation is 'var'; use one of softplus, exp, softplus_variance"),
        ({"decoder": 0}, r"C?ANP: decoder is 0; at least 1 is needed"),
        ({"floor": 1.0}, r"C?ANP: floor is 1\.0; it must lie in \[0, 1\)"),
    ],
)
@both
def test_errors_of_options(kind, options, message):
    with pytest.raises(ValueError, match=rf"^{message}$"):
        small(kind, **options)


@both
def test_errors_of_depth_and_of_calls(kind):
    with pytest.raises(ValueError, match=rf"^{kind}: depth is 2; the last two are the attention block"):
        small(kind, depth=2)
    x, y = np.ones((1, 2, 1)), np.array([[[1.0], [np.nan]]])
    with pytest.raises(ValueError, match=rf"^{kind}: context_y holds nan at \[0, 1, 0\]; hide what is missing"):
        small(kind)(x, y, x)
    with pytest.raises(TypeError, match=rf"^{kind}: context_mask is int64; pass booleans, True = present$"):
        small(kind)(x, x, x, np.ones((1, 2), int))
