"""ConvCNP: its equations, shifts that it respects to the bit and those it does not, hidden points, edges, errors."""

import tracemalloc
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.primitives import raw
from refnp.layers.activation import silu
from refnp.layers.set_convolution import Grid, GridOptions, set_convolution
from refnp.layers.unet import SimpleCNN, UNet
from refnp.models.convcnp import ConvCNP, Encoding, Head
from refnp.models.convgnp import ConvGNP
from refnp.numbers.rounding import Rounded, tolerance
from refnp.symmetry import Translate, invariant, search
from refnp.tasks.task import Task
from refnp.training import checkpoint
from refnp.training.optimizers import Adam
from tests.helpers import assert_same_bits, assert_within, seeds
from tests.models.helpers import assert_same, generator, on_grid, parts
from tests.transcriptions import convcnp as transcriptions

DENSITY, RANK = 4, 3
HEAD = Head(deviation="softplus_variance", floor=1e-3)


def made(unet=True, kind=ConvCNP, *, dx=1, dy=1, dtype=np.float64, divide=True, grid=None, head=None, **options):
    """With a U-Net of two steps of stride 2, total stride 4, one unit of x; or three layers, total stride 1."""
    stack = {"kernel": 3, "dimensions": dx, "rng": generator(1)}
    network = UNet(3, (3, 4), **stack) if unet else SimpleCNN((3, 4, 3), **stack)
    if kind is ConvGNP:
        options["rank"] = RANK
    head = head or (HEAD if kind is ConvGNP else Head(separate=True, rectified=not unet))
    options |= {"encoding": Encoding(channels=3, divide=divide), "grid": grid or GridOptions(DENSITY), "head": head}
    return kind(network, dx=dx, dy=dy, **options, rng=generator(2)).astype(dtype)


strided, plain = partial(made, True), partial(made, False)
every_kind = pytest.mark.parametrize("kind", [ConvCNP, ConvGNP])


def sets(seed, *, dx=1, dy=1, dtype=np.float64, tasks=2, contexts=4, targets=3, width=1.5):
    """Contexts and targets on multiples of 2⁻¹⁰, so that shifts by whole numbers round nothing."""
    rng = generator(seed)
    x = np.round(rng.uniform(-width, width, (tasks, contexts + targets, dx)) * 1024) / 1024
    y = rng.normal(size=(tasks, contexts, dy))
    return x[:, :contexts].astype(dtype), y.astype(dtype), x[:, contexts:].astype(dtype)


def task_of(context_x, context_y, target_x, target_y, context_mask=None, target_mask=None):
    return SimpleNamespace(
        context_x=context_x, context_y=context_y, target_x=target_x, target_y=target_y,
        context_mask=context_mask, target_mask=target_mask,
    )  # fmt: skip


def bounds_of(model, grid, *arrays):
    """How far mean and deviation may be off."""
    return [tolerance(limit, arrays[1].dtype) for limit in on_grid(model, grid, *arrays)]


def difference(one, other):
    return max(np.abs(a - b).max() for a, b in zip(parts(one), parts(other), strict=True))


# ---- the equations


@given(seeds, st.sampled_from([np.float32, np.float64]), st.booleans(), st.booleans())
@pytest.mark.parametrize(("dx", "dy"), [(1, 1), (1, 2), (2, 1)])
def test_gordon_against_index_loops(dx, dy, seed, dtype, unet, masked):
    model = (strided if unet else plain)(dx=dx, dy=dy, dtype=dtype)
    x, y, t = sets(seed, dx=dx, dy=dy, dtype=dtype, contexts=3, targets=2, width=0.4 if dx == 2 else 1.0)
    mask = generator(seed).random(x.shape[:2]) < 0.6 if masked else None
    result = model(x, y, t, mask)
    grid = model.grid(x, t, mask)
    network = transcriptions.unet if unet else transcriptions.simple
    right = transcriptions.gordon(
        model.state_dict(), lambda h, state: network(h, state, 2), grid.start, grid.lengths, DENSITY, x, y, t, mask
    )
    for value, reference, bound in zip(parts(result), right, bounds_of(model, grid, x, y, t, mask), strict=True):
        assert value.dtype == dtype
        assert_within(value, reference, bound)


@pytest.mark.parametrize("divide", [True, False])
def test_bruinsma_against_index_loops(divide):
    model = ConvCNP.bruinsma((3, 3, 4), grid=GridOptions(DENSITY), divide=divide, rng=generator())
    x, y, t = sets(5, contexts=3, targets=2)
    grid = model.grid(x, t)
    right = transcriptions.neuralprocesses(
        model.state_dict(), 3, grid.start, grid.lengths, DENSITY, x, y, t, divide=divide
    )
    for value, reference in zip(parts(model(x, y, t)), right, strict=True):
        assert np.abs(value - reference).max() < 2**-40  # of numbers about 1; what is left to lose is a formula


def test_what_is_divided_by_a_density_near_epsilon():
    """One point with y = 1: ρ/(ρ + ε) far beyond the places where ρ is a rounding of 1."""
    model, x, t = plain(), np.zeros((1, 1, 1)), np.full((1, 1, 1), 6.0)
    grid = model.grid(x, t)
    found = set_convolution(grid, x, np.ones((1, 1, 1)), model.encoder.length_scale(x).data, divide=True)
    rho = np.exp(-2 * ((grid.start[0, 0] + np.arange(grid.lengths[0])) / DENSITY) ** 2)  # ℓ = ½
    assert ((rho > 1e-20) & (rho < 1e-16)).any()
    # exponents up to 60, where the quotient is above u, have four roundings; at most a quarter of them reaches it
    np.testing.assert_allclose(found[0, 1], rho / (rho + 1e-8), rtol=0, atol=2 * 64 * 2.0**-53)


@pytest.mark.parametrize("deviation", ["softplus", "exp", "softplus_variance"])
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_deviation_and_floor(deviation, floor):
    values = np.array([[[0.3, -50.0]], [[0.2, 1.5]]])
    mean, std = parts(Head(deviation=deviation, floor=floor).normal(values))
    soft = np.log1p(np.exp([-50.0, 1.5]))
    right = {
        "softplus": floor + (1 - floor) * soft,
        "exp": floor + np.exp([-50.0, 1.5]),
        "softplus_variance": np.sqrt(floor**2 + soft),
    }
    assert mean.ravel().tolist() == [0.3, 0.2]
    np.testing.assert_allclose(std.ravel(), right[deviation], rtol=2**-48)
    assert floor == 0 or std.min() >= floor


def test_hidden_layers_and_one_decoder():
    network = UNet(3, (3,), kernel=3, activation=silu, rng=generator())
    head, encoding = Head(hidden=(5, 4)), Encoding(channels=3)
    model = ConvCNP(network, dy=2, encoding=encoding, grid=GridOptions(DENSITY), head=head, rng=generator())
    shapes = {name: array.shape for name, array in model.state_dict().items() if name.startswith("decoders")}
    assert list(shapes.values()) == [(6,), (6, 5), (5,), (5, 4), (4,), (4, 4), (4,)]
    x, y, t = sets(0, dy=2)
    assert model(x, y, t).mean.shape == (2, 3, 2)


# ---- shifts


@given(seeds, st.lists(st.integers(-(2**20), 2**20), min_size=4, max_size=4), st.booleans())
@pytest.mark.parametrize("dx", [1, 2])
@every_kind
def test_shifts_by_whole_blocks_change_no_bit_wherever_the_data_lie(kind, dx, seed, blocks, unet):
    """Multiples of spacing × total stride, one unit here; every task by its own, up to a million units."""
    model = made(unet, kind, dx=dx)
    x, y, t = sets(seed, dx=dx, width=0.5)
    by = np.array(blocks[: 2 * dx], float).reshape(2, 1, dx) / (1 if unet else DENSITY)
    assert_same(model(x + by, y, t + by), model(x, y, t))


@pytest.mark.parametrize("by", [4, 1000, 2**20])
def test_the_published_u_net_far_away(by):
    model = ConvCNP.gordon(rng=generator())
    x, y, t = sets(1)
    assert model.network.total_stride / model.grid_options.points_per_unit == 1
    assert_same(model(x + by, y, t + by), model(x, y, t))
    here, there = (model.loss(task_of(x + s, y, t + s, t * 0)) for s in (0, by))
    here.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    there.backward()
    for gradient, parameter in zip(gradients, model.parameters(), strict=True):
        assert_same_bits(parameter.grad, gradient)


def test_float32_keeps_what_the_positions_have():
    """Positions in float64 beside a model and values in float32: far away is as good as here."""
    model = strided(dtype=np.float32)
    x, y, t = sets(1)
    y = y.astype(np.float32)
    assert_same(model(x + 2**30, y, t + 2**30), model(x, y, t))
    assert parts(model(x, y, t))[0].dtype == np.float32


@given(seeds, st.integers(-1000, 1000))
def test_any_spacing_up_to_the_rounding_of_positions(seed, blocks):
    """With 10 places per unit a shift is no binary number: x + t and the first place of the grid are rounded."""
    model = strided(grid=GridOptions(10))
    x, y, t = sets(seed)
    by = blocks * 4 / 10
    moved = model(x + by, y, t + by)
    grid = model.grid(x, t)
    if (model.grid(x + by, t + by).start - grid.start != 4 * blocks).any():
        return  # a point on the edge of a cell went over it
    size = 3 * (np.abs(x).max() + abs(by) + 1)  # roundings of x + t, of t, of the first place, in units of u
    for value, reference, bound in zip(
        parts(moved), parts(model(x, y, t)), bounds_of(model, grid, Rounded(x, size), y, Rounded(t, size)), strict=True
    ):
        assert_within(value, reference, 2 * bound)


@every_kind
def test_a_u_net_does_not_respect_half_a_block_nor_one_place(kind):
    assert_seen(made(True, kind), (1 / 2, 1 / 4, 1 / 8))


@every_kind
def test_a_plain_network_respects_each_place_but_not_half_of_one(kind):
    model, (x, y, t) = made(False, kind), sets(3)
    assert_same(model(x + 1 / 4, y, t + 1 / 4), model(x, y, t))
    assert_seen(model, (1 / 8,))


def assert_seen(model, shifts):
    x, y, t = sets(3)
    bounds = bounds_of(model, model.grid(x, t), x, y, t)
    for by in shifts:
        moved = zip(parts(model(x + by, y, t + by)), parts(model(x, y, t)), bounds, strict=True)
        assert all(np.abs(a - b).max() > 1000 * bound.max() for a, b, bound in moved)


def test_the_search_for_counter_examples_agrees():
    def draw(rng):
        names = ("context_x", "context_y", "target_x")
        return dict(zip(names, sets(rng.integers(2**32), width=1.0), strict=True))

    model = strided()

    def f(context_x, context_y, target_x):
        return parts(model(context_x, context_y, target_x))

    for step, outcome in ((1, "holds"), (1 / 4, "fails")):
        claim = invariant(f, Translate(("context_x", "target_x"), step=step, reach=64))
        verdict = search(claim, draw, dtypes=[np.float64], scales=(1,), count=2)
        assert verdict.outcome == outcome, str(verdict)


# ---- sets


@every_kind
@given(seed=seeds, unet=st.booleans())
def test_contexts_have_no_order_and_targets_keep_theirs(kind, seed, unet):
    model, (x, y, t) = made(unet, kind), sets(seed, contexts=5)
    rng = generator(seed)
    order, targets = rng.permutation(5), rng.permutation(3)
    first, permuted = parts(model(x, y, t)), parts(model(x[:, order], y[:, order], t))
    for a, b, bound in zip(first, permuted, bounds_of(model, model.grid(x, t), x, y, t), strict=True):
        assert_within(b, a, 2 * bound)
    for a, b in zip(first, parts(model(x, y, t[:, targets])), strict=True):
        assert_same_bits(b, a[:, targets])


def test_a_point_given_twice_counts_twice():
    model, (x, y, t) = strided(divide=False), sets(2)
    twice = model(np.repeat(x, 2, 1), np.repeat(y, 2, 1), t)
    assert difference(twice, model(x, y, t)) > 1e-6
    assert np.isfinite(parts(twice)).all()


@pytest.mark.parametrize("model", [plain(), strided(), strided(ConvGNP, dx=2, dy=2), strided(dx=2, dy=2)])
def test_an_empty_context_in_any_form_gives_the_same_finite_predictions(model):
    x, y, t = sets(4, dx=model.dx, dy=model.dy)
    empty = model(x[:, :0], y[:, :0], t)
    assert all(np.isfinite(part).all() for part in parts(empty))
    hidden = np.full_like(x, np.nan), np.full_like(y, np.inf)
    assert_same(model(*hidden, t, np.zeros(x.shape[:2], bool)), empty)
    for asked, targets in ((slice(0), t[:, :0]), (slice(None), t[:, :0])):
        assert model(x[:, asked], y[:, asked], targets).mean.size == 0
    assert len(model(x[:0], y[:0], t[:0]).mean) == 0


def test_hidden_targets_do_not_stretch_the_grid():
    """A hidden target counts as 0; with data a million away from 0 the grid would be a million units long."""
    model, (x, y, t) = strided(), sets(1)
    by, mask = 2**20, np.array([[True, False, True], [False, False, False]])
    far = model.loss(task_of(x + by, y, np.where(mask[..., None], t + by, np.nan), t * 0, None, mask))
    few = parts(model(x[:1], y[:1], t[:1, [0, 2]]))
    right = 0.5 * np.log(2 * np.pi) + np.log(few[1]) + (few[0] / few[1]) ** 2 / 2
    np.testing.assert_allclose(far.data, right.mean(), rtol=2**-45)


@given(seeds)
def test_targets_far_from_the_context_are_predicted_as_without_one(seed):
    """The grid follows them: what is said there is what the model says when it knows nothing, not zeros."""
    model, (x, y, t) = plain(), sets(seed)
    mask = np.ones(x.shape[:2], bool)
    grid = model.grid(x, t + 100, mask)
    far = model(x, y, t + 100)
    assert_same(far, model(x, y, t + 100, ~mask, grid=grid))
    assert (parts(far)[1] > 0.1).all()


def test_more_targets_further_out_change_little_but_something():
    """Grids have edges: a prediction depends on how far the others reach."""
    model, (x, y, t) = strided(), sets(2)
    alone = parts(model(x, y, t))
    together = parts(model(x, y, np.concatenate([t, np.full((2, 1, 1), 9.0)], 1)))
    assert 0 < max(np.abs(a - b[:, :3]).max() for a, b in zip(alone, together, strict=True)) < 0.5


# ---- what is published


def test_parameter_counts():
    count = lambda model: sum(parameter.size for parameter in model.parameters())
    assert count(ConvCNP.gordon("simple", rng=generator())) == 6532
    assert count(ConvCNP.gordon("xl", rng=generator())) == 50612
    assert count(ConvCNP.bruinsma(rng=generator())) == 329220  # as construct_convgnp of neuralprocesses 0.2.7
    assert count(ConvCNP.bruinsma(dx=2, rng=generator())) == 1642500
    assert count(ConvCNP.bruinsma(dy=3, rng=generator())) == 330120
    assert count(ConvCNP.bruinsma((8, 16, 16, 32, 32, 64), rng=generator())) == 50300


def test_length_scales_begin_as_published():
    scales = lambda model: {k: np.exp(a) for k, a in model.state_dict().items() if k.endswith("scale")}
    assert [a.shape for a in scales(ConvCNP.gordon(rng=generator())).values()] == [(2,), (16,), (16,)]
    for array in scales(ConvCNP.gordon(grid=GridOptions(32), rng=generator())).values():
        np.testing.assert_allclose(array, 2 / 32, rtol=1e-15)
    shared = scales(ConvCNP.bruinsma((4,), rng=generator()))
    assert [a.shape for a in shared.values()] == [(), ()]
    np.testing.assert_allclose(list(shared.values()), 1 / 64, rtol=1e-15)


# ---- precision, memory, time


def test_derivatives_by_bind():
    """`bind` gives the model other parameters: derivatives of a loss as a function of them."""
    model, (x, y, t) = strided(), sets(0)
    value, gradient = ad.value_and_grad(lambda p: model.bind(p).loss(task_of(x, y, t, t)))(model.state_dict())
    loss = model.loss(task_of(x, y, t, t))
    loss.backward()
    assert_same_bits(value, loss.data)
    for name, parameter in model.named_parameters():
        assert_same_bits(gradient[name], parameter.grad)


def test_a_hundred_thousand_context_points_take_little_memory():
    model = ConvCNP.gordon("simple", rng=generator()).astype(np.float32)
    rng = generator(0)
    x = rng.uniform(-2, 2, (1, 100_000, 1)).astype(np.float32)
    tracemalloc.start()
    with ad.no_grad():
        result = model(x, np.sin(3 * x), x[:, :50])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(parts(result)).all()
    assert peak < 100e6


# ---- errors


def test_errors_of_calls():
    model, (x, y, t) = strided(grid=GridOptions(DENSITY, max_points=1000)), sets(0)
    for arguments, message in (
        (
            (x, y, t + 1e6),
            r"ConvCNP: a grid around x from -?\d.*needs 40\d+ points, about .* GiB for 2 tasks; the limit",
        ),
        ((x, y, t + 1e300), "ConvCNP: x reaches from .* to 1e[+]300, too far from 0"),
    ):
        with pytest.raises(ValueError, match=message):
            model(*arguments)


def test_errors_of_options():
    network = UNet(8, (8,), rng=generator())
    for options, message in (
        (lambda: {"dx": 4}, "dx is 4"),
        (lambda: {"grid": GridOptions(0)}, "points_per_unit is 0; it must be positive"),
        (lambda: {"grid": GridOptions(margin=-1)}, "margin is -1; it must be 0 or positive"),
        (lambda: {"grid": GridOptions(np.inf)}, "points_per_unit is inf; it must be positive and finite"),
        (
            lambda: {"head": Head(deviation="square")},
            "deviation is 'square'; use one of softplus, exp, softplus_variance",
        ),
        (lambda: {"head": Head(floor=1.0)}, "floor is 1.0"),
        (lambda: {"encoding": Encoding(length_scale=0.0)}, "length_scale"),
        (lambda: {"dy": 0}, "dy 0"),
        (lambda: {"encoding": Encoding(eps=-1.0)}, "eps is -1.0"),
        (
            lambda: {"head": Head(hidden=None)},
            "hidden=None needs a network with 2 channels out and separate=False; it has 16",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            ConvCNP(network, **options(), rng=generator())
    with pytest.raises(ValueError, match="architecture is 'big'; use 'xl' or 'simple'"):
        ConvCNP.gordon("big", rng=generator())
    with pytest.raises(ValueError, match="UNet: x has shape"):
        ConvCNP(network, dx=2, rng=generator(), grid=GridOptions(4))(
            np.zeros((1, 1, 2)), np.zeros((1, 1, 1)), np.zeros((1, 1, 2))
        )


# ---- length scales that are frozen, and a grid that is given


def frozen(**which):
    network = SimpleCNN((3, 4, 3), kernel=3, rng=generator(1))
    encoding = Encoding(channels=3, **which)
    return ConvCNP(network, encoding=encoding, grid=GridOptions(DENSITY), head=Head(separate=True), rng=generator(2))


@pytest.mark.parametrize(
    "kept", [("encoder",), ("decoders.0.convolution", "decoders.1.convolution"), ("encoder", "decoders.0.convolution")]
)
def test_frozen_length_scales_are_stored_and_not_trained(kept):
    """No gradient, not in the optimiser's list; the others as in a model where all are learned, to the bit."""
    model = frozen(learn_encoder_scale="encoder" not in kept, learn_decoder_scale=not any("decod" in k for k in kept))
    names = {f"{part}.log_length_scale" for part in (*kept, *(["decoders.1.convolution"] if len(kept) == 2 else []))}
    free = frozen()
    assert list(model.state_dict()) == list(free.state_dict())
    trained = {id(p) for p in model.parameters()}
    assert {name for name, p in model.named_parameters() if id(p) not in trained} == names
    task = drawn_task(0)
    for each in (model, free):
        loss = each.loss(task)
        loss.backward()
    gradients = dict(free.named_parameters())
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == (name in names)
        assert parameter.grad is None or np.array_equal(parameter.grad, gradients[name].grad)
    before = model.state_dict()
    optimizer = Adam(model.parameters(), learning_rate=0.1)
    optimizer.step()
    changed = {name for name, array in model.state_dict().items() if not np.array_equal(array, before[name])}
    assert changed == set(before) - names
    scaled = {name: array + 1 if name in names else array for name, array in before.items()}
    model.load_state_dict(scaled)
    scale = raw(model.encoder.length_scale(np.ones(1)))
    assert_same_bits(scale, np.exp(scaled["encoder.log_length_scale"]))
    assert {p.dtype for _, p in model.astype(np.float32).named_parameters()} == {np.dtype(np.float32)}
    assert model.loss(task.astype(np.float32)).dtype == np.float32


def drawn_task(seed, **options):
    (x, y, t), rng = sets(seed, **options), generator(seed)
    return Task(x, y, t, rng.normal(size=(*t.shape[:2], y.shape[-1])))


def test_frozen_scales_go_through_a_checkpoint(tmp_path):
    model = frozen(learn_encoder_scale=False)
    checkpoint.save(tmp_path / "c.npz", checkpoint.Checkpoint(model.state_dict(), {"model": "convcnp"}))
    other = frozen(learn_encoder_scale=False)
    other.encoder.log_length_scale.data += 1
    other.load_state_dict(checkpoint.load(tmp_path / "c.npz").weights)
    assert_same_bits(other.encoder.log_length_scale.data, model.encoder.log_length_scale.data)


@pytest.mark.parametrize("start", [-12, -11.375])
def test_a_given_grid_is_the_grid(start):
    """Of calls, losses and predictions; the same for all tasks, wherever they lie, and however far others reach."""
    grid = Grid(np.array([[start]]), (24,), DENSITY)
    model, free = strided(grid=grid), strided()
    x, y, t = sets(0)
    answer = model(x, y, t)
    whole = Grid(np.array([[start]] * 2), (24,), DENSITY)
    assert_same_bits(answer.mean, free(x, y, t, grid=whole).mean)
    assert_same_bits(model(x, y, t[:, :1]).std, answer.std[:, :1])
    task = drawn_task(0)
    assert np.isfinite(model.loss(task).item())
    assert_same_bits(model.marginal(task).mean, answer.mean)


def test_hidden_points_may_lie_beyond_a_given_grid():
    model = strided(grid=Grid(np.array([[-12]]), (24,), DENSITY))
    x, y, t = sets(0)
    mask = np.array([[True, True, True, False]] * 2)
    beyond = x.copy()
    beyond[:, 3] = 1e6
    assert_same_bits(model(beyond, y, t, mask).mean, model(x, y, t, mask).mean)
    none = np.zeros((2, 0, 1))
    assert model(none, none, none).mean.shape == (2, 0, 1)


def test_errors_of_given_grids():
    for start, lengths, message in (
        (
            np.zeros((2, 1)),
            (8,),
            r"grid has start of shape \(2, 1\) and lengths \(8,\); a grid for all tasks has \(1, 1\)",
        ),
        (
            np.zeros((1, 1)),
            (8, 8),
            r"grid has start of shape \(1, 1\) and lengths \(8, 8\); .* has \(1, 1\) and 1 of them",
        ),
        (
            np.zeros((1, 1)),
            (10,),
            r"grid has lengths \(10,\); they must be positive multiples of the network's total str",
        ),
    ):
        with pytest.raises(ValueError, match=rf"^ConvCNP: {message}"):
            strided(grid=Grid(start, lengths, DENSITY))
    model, (x, y, t) = strided(grid=Grid(np.zeros((1, 1)), (8,), DENSITY)), sets(0)
    with pytest.raises(
        ValueError, match=r"^ConvCNP: x reaches from .*, beyond the grid that was given, \[0, 1\.75\]; give"
    ):
        model(x, y, t)


@pytest.mark.parametrize(("reach", "layers", "kernel"), [(4.0, 6, 45), (0.5, 2, 17), (1 / 64, 3, 1)])
def test_a_plain_stack_that_reaches_so_far(reach, layers, kernel):
    """As neuralprocesses computes it: ⌈1 + (R p − 1)/layers⌉, or one more if that is even."""
    model = ConvCNP.bruinsma((8,) * layers, architecture="conv", receptive_field=reach, rng=generator())
    assert model.network.kernel == kernel
    assert model.network.receptive_field >= reach * 64
    assert len(model.network.layers) == layers


def test_errors_of_the_plain_stack():
    with pytest.raises(ValueError, match=r"^ConvCNP.bruinsma: architecture is 'cnn'; use 'unet' or 'conv'$"):
        ConvCNP.bruinsma(architecture="cnn", rng=generator())
    with pytest.raises(ValueError, match=r"^ConvCNP.bruinsma: kernel is \(5, 3\); with architecture='conv' all layers"):
        ConvCNP.bruinsma((8, 8), kernel=(5, 3), architecture="conv", rng=generator())
