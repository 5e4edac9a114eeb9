"""Going on: from a checkpoint to the bit, all of it or nothing; and what it keeps of how arrays lie in memory."""

import numpy as np
import pytest

from refnp.autograd import Parameter
from refnp.training.checkpoint import load, restore, save, state_of
from refnp.training.optimizers import SGD, Adam, AdamW
from tests.training.runs import a_run, assert_same_checkpoint, taken


@pytest.mark.parametrize("optimizer", [SGD, Adam, AdamW])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
def test_a_run_is_restored_to_the_bit(tmp_path, optimizer, dtype):
    first = a_run(0, optimizer, dtype=dtype)
    save(tmp_path / "run.npz", taken(*first))
    second = a_run(1, optimizer, dtype=dtype)
    restore(load(tmp_path / "run.npz"), *second)
    assert_same_checkpoint(taken(*second), taken(*first))
    assert second[2].random() == first[2].random()


def test_arrays_lie_in_memory_as_before(tmp_path):
    """The bits of a matrix product depend on it."""
    run = a_run(0)
    weight = run[0].layers[0].weight
    weight.data = np.asfortranarray(weight.data)
    array = weight.data
    save(tmp_path / "run.npz", taken(*run))
    array[...] = 0
    restore(load(tmp_path / "run.npz"), *run)
    assert weight.data is array
    assert array.flags.f_contiguous
    assert array.any()


def changed(checkpoint, group, **entries):
    getattr(checkpoint, group).update(entries)
    return checkpoint


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: changed(c, "parameters", extra=np.ones(1)), "parameter extra is not wanted here"),
        (lambda c: c.parameters.pop("layers.0.weight") is None or c, "parameter layers.0.weight is missing"),
        (
            lambda c: changed(c, "parameters", **{"layers.1.bias": np.ones(3)}),
            r"parameter layers.1.bias was float64 \(3,\), this is float64 \(2,\)",
        ),
        (
            lambda c: changed(c, "parameters", **{"layers.1.bias": np.ones(2, np.float32)}),
            r"parameter layers.1.bias was float32 \(2,\), this is float64 \(2,\)",
        ),
        (lambda c: changed(c, "best", some=np.ones(1)), "best parameter layers.0.weight is missing"),
        (lambda c: changed(c, "optimizer", **{"mean.0": np.ones(1)}), r"optimiser's mean.0 was float64 \(1,\)"),
        (lambda c: c.optimizer.pop("steps") is None or c, "optimiser's steps is missing"),
        (lambda c: setattr(c, "optimizer_name", "SGD") or c, "the optimiser was SGD, this is Adam"),
        (lambda c: setattr(c, "generator", "{}") or c, "no state of a generator"),
        (
            lambda c: setattr(c, "generator", state_of(np.random.Generator(np.random.Philox(1)))) or c,
            "the state is of a Philox, the generator is a PCG64",
        ),
    ],
)
def test_nothing_is_half_loaded(spoil, message):
    run = a_run(0)
    before = taken(*run)
    stored = taken(*a_run(1))
    with pytest.raises(ValueError, match=message):
        restore(spoil(stored), *run)
    assert_same_checkpoint(taken(*run), before)


def test_of_many_differences_the_first_are_told():
    model, optimizer, rng = a_run(0, sizes=(3, 4, 4, 4, 4, 4, 2))
    with pytest.raises(ValueError, match=r"nothing was loaded, .* and \d+ more"):
        restore(taken(*a_run(1)), model, optimizer, rng)


def test_a_parameter_shared_by_two_layers_is_stored_once(tmp_path):
    model, optimizer, rng = a_run(0, sizes=(3, 3, 3))
    model.layers[1].weight = model.layers[0].weight
    optimizer = Adam(model.parameters())
    save(tmp_path / "run.npz", taken(model, optimizer, rng))
    model.layers[0].weight.data[...] = 0
    restore(load(tmp_path / "run.npz"), model, optimizer, rng)
    assert isinstance(model.layers[1].weight, Parameter)
    assert model.layers[1].weight is model.layers[0].weight
    assert model.layers[1].weight.data.any()
