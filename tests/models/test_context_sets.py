"""Several context sets in a ConvCNP: each with places and values of its own."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers.unet import UNet
from refnp.models.convcnp import ConvCNP
from refnp.models.convgnp import ConvGNP
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_same_bits, assert_within, seeds
from tests.models.helpers import assert_same, generator, on_grid, parts
from tests.models.test_convcnp import HEAD, made
from tests.models.test_convgnp import assert_written_out

SIZES = (2, 1, 2)  # the numbers of a y in each of three sets; the middle one has the targets' dy


def of_sets(kind=ConvGNP, unet=True, dtype=np.float64):
    return made(unet, kind, dtype=dtype, head=HEAD, context_dy=SIZES)


def drawn(seed, *, counts=(3, 2, 4), dtype=np.float64, width=1.0):
    """(context_x, context_y, context_mask), tuples of three, and target_x; places are multiples of 2⁻¹⁰."""
    rng = generator(seed)
    place = lambda n: (np.round(rng.uniform(-width, width, (2, n, 1)) * 1024) / 1024).astype(dtype)
    x = tuple(place(n) for n in counts)
    y = tuple(rng.normal(size=(2, n, dy)).astype(dtype) for n, dy in zip(counts, SIZES, strict=True))
    return (x, y, tuple(rng.random((2, n)) < 0.7 for n in counts)), place(3)


@given(seeds, st.sampled_from([np.float32, np.float64]), st.booleans())
def test_value_against_index_loops(seed, dtype, unet):
    """E is that of the first set, then of the second, and so on."""
    model, (contexts, t) = of_sets(unet=unet, dtype=dtype), drawn(seed, dtype=dtype)
    x, y, mask = contexts
    assert_written_out(model, unet, x, y, t, mask, list(zip(*contexts, strict=True)))


@given(seeds)
def test_points_of_each_set_have_no_order(seed):
    model, (contexts, t) = of_sets(), drawn(seed)
    rng = generator(seed)
    orders = [rng.permutation(a.shape[1]) for a in contexts[0]]
    permuted = [tuple(a[:, order] for a, order in zip(part, orders, strict=True)) for part in contexts]
    first, second = (model(x, y, t, mask) for x, y, mask in (contexts, permuted))
    x, y, mask = contexts
    bounds = on_grid(model, model.grid(x, t, mask), x, y, t, mask)
    for a, b, bound in zip(parts(first), parts(second), bounds, strict=True):
        assert_within(b, a, 2 * tolerance(bound, np.float64))


def test_sets_are_not_exchangeable():
    """The first and the last have as many numbers; one in the place of the other is another prediction."""
    model, ((x, y, _), t) = of_sets(ConvCNP), drawn(0)
    here, there = model(x, y, t), model(x[::-1], y[::-1], t)
    assert min(np.abs(a - b).max() for a, b in zip(parts(here), parts(there), strict=True)) > 1e-4


def test_a_point_of_one_set_is_not_a_point_of_another():
    """Each has a density of its own: three numbers at a place are not what they are one set after the other."""
    model, ((x, y, _), t) = of_sets(ConvCNP), drawn(0)
    places = tuple(np.repeat(a[:, :1], a.shape[1], 1) for a in x)
    assert np.abs(model(x, y, t).mean - model(places, y, t).mean).max() > 1e-4


@given(seeds, st.integers(-(2**20), 2**20))
def test_shifts_of_all_sets_and_targets_change_no_bit(seed, by):
    model, ((x, y, mask), t) = of_sets(), drawn(seed)
    assert_same(model(tuple(a + by for a in x), y, t + by, mask), model(x, y, t, mask))


def test_a_shift_of_one_set_is_seen():
    model, ((x, y, _), t) = of_sets(), drawn(0)
    moved = model((x[0] + 1, *x[1:]), y, t)
    assert np.abs(moved.mean - model(x, y, t).mean).max() > 1e-4


@pytest.mark.parametrize("kind", [ConvCNP, ConvGNP])
def test_any_of_the_sets_may_be_empty(kind):
    model, ((x, y, mask), t) = of_sets(kind), drawn(0)
    for empty in ((True, False, False), (False, True, True), (True, True, True)):
        none = [tuple(a[:, :0] if e else a for a, e in zip(part, empty, strict=True)) for part in (x, y, mask)]
        hidden = tuple(m & (not e) for m, e in zip(mask, empty, strict=True))
        grid = model.grid(x, t)
        found = model(none[0], none[1], t, none[2], grid=grid)
        assert all(np.isfinite(a).all() for a in parts(found))
        assert_same(found, model(x, y, t, hidden, grid=grid))


@pytest.mark.parametrize("kind", [ConvCNP, ConvGNP])
@given(seed=seeds)
def test_losses_of_tasks(kind, seed):
    """Hidden points and targets, NaN or not, have no part in the loss, nor in any gradient; None is every point."""
    model, ((x, y, mask), t) = of_sets(kind), drawn(seed)
    rng = generator(seed)
    target_y, there = rng.normal(size=t.shape), rng.random(t.shape[:2]) < 0.7
    results = []
    for junk in (0.0, np.nan):
        hide = lambda a, m, junk=junk: np.where(m[..., None], a, junk)
        contexts = [tuple(map(hide, part, mask)) for part in (x, y)]
        task = SimpleNamespace(
            context_x=contexts[0], context_y=contexts[1], context_mask=mask,
            target_x=hide(t, there), target_y=hide(target_y, there), target_mask=there,
        )  # fmt: skip
        model.zero_grad()
        loss = model.loss(task)
        loss.backward()
        results.append([loss.data, *(p.grad for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        assert np.isfinite(a).all()
        assert_same_bits(a, b)
    everything = tuple(np.ones(a.shape[:2], bool) for a in x)
    assert_same(model(x, y, t), model(x, y, t, everything))
    assert_same(model(x, y, t, (None, everything[1], None)), model(x, y, t, everything))


def test_one_set_is_no_tuple_and_several_are():
    model, ((x, y, _), t) = of_sets(ConvCNP), drawn(0)
    one = ConvCNP(UNet(8, (8,), rng=generator()), rng=generator())
    single = ConvCNP(UNet(8, (8,), rng=generator()), context_dy=(1,), rng=generator())
    assert_same_bits(single((x[1],), (y[1],), t).mean, one(x[1], y[1], t).mean)
    assert [*single.state_dict()] == [*one.state_dict()]
    names = [name for name in model.state_dict() if name.endswith("log_length_scale")]
    assert names == ["encoder.log_length_scale", *(f"other_encoders.{i}.log_length_scale" for i in range(2)),
                     "decoders.0.convolution.log_length_scale"]  # fmt: skip


def test_what_does_not_fit():
    model, ((x, y, mask), t) = of_sets(ConvCNP), drawn(0)
    wrong = (y[0], y[1][..., :0], y[2])
    for arguments, message in (
        ((x[0], y[0], t), "ConvCNP: context_x is ndarray; pass a tuple of 3 arrays, one for each context set"),
        ((x[:2], y, t), "ConvCNP: context_x is 2 of them; pass a tuple of 3"),
        ((x, y, t, mask[0]), "ConvCNP: context_mask is ndarray; pass a tuple of 3"),
        ((x, wrong, t), r"ConvCNP: context_y\[1\] has shape \(2, 2, 0\); it must be \(B, M, 1\)"),
        ((x, (y[1], y[1], y[2]), t), r"ConvCNP: context_y\[0\] has shape \(2, 2, 1\); it must be \(B, M, 2\)"),
        ((x, (y[0] * np.nan, *y[1:]), t), r"ConvCNP: context_y\[0\] holds nan"),
        ((x, y, t, (mask[1], *mask[1:])), r"ConvCNP: context_mask\[0\] has shape \(2, 2\); it must be \(2, 3\)"),
        (((x[0][:1], *x[1:]), (y[0][:1], *y[1:]), t), r"target_x has 2 tasks but the contexts \[1, 2, 2\]; they must"),
        ((x, y, t * np.inf), "ConvCNP: target_x holds"),
    ):
        with pytest.raises(ValueError, match=message):
            model(*arguments)
    for sizes in ((), (1, 0)):
        with pytest.raises(ValueError, match=r"ConvCNP: context_dy is .*; give a positive number for each"):
            ConvCNP(UNet(8, (8,), rng=generator()), context_dy=sizes, rng=generator())
