"""Generators: what is drawn and spawned after a state was put away and taken out again, to the bit."""

import json

import numpy as np
import pytest

from refnp.training.checkpoint import set_state, state_of

KINDS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]


def used(kind, seed=3):
    """A generator in the midst of its work: half a 64-bit word left over, two children given away."""
    rng = np.random.Generator(kind(seed))
    rng.normal(size=7)
    rng.integers(10, size=3, dtype=np.uint32)
    rng.spawn(2)
    return rng


def drawn(rng):
    child = rng.spawn(1)[0]
    return [rng.integers(10, size=5, dtype=np.uint32), rng.normal(size=9), rng.permutation(6), child.random(4)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other_seed", [3, 4, [1, 2, 3], None])
def test_goes_on_to_the_bit(kind, other_seed):
    rng = used(kind)
    text = state_of(rng)
    assert json.loads(text)["bits"]["bit_generator"] == kind.__name__
    other = np.random.Generator(kind(other_seed))
    other.random()
    set_state(other, text)
    assert state_of(other) == text
    for ours, theirs in zip(drawn(other), drawn(rng), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("seed", [0, None, [5, 6], list(b"validation"), 2**100])
def test_every_seed_can_be_put_away(seed):
    rng, other = np.random.default_rng(seed), np.random.default_rng(1)
    set_state(other, state_of(rng))
    assert np.array_equal(drawn(other)[3], drawn(rng)[3])


def test_the_state_of_the_bits_alone_would_forget_the_children():
    """Why the seed sequence is kept as well."""
    rng, other = used(np.random.PCG64), np.random.default_rng(3)
    other.bit_generator.state = rng.bit_generator.state
    assert other.random() == rng.random()
    assert other.spawn(1)[0].random() != rng.spawn(1)[0].random()


def test_a_generator_of_another_kind_is_refused():
    rng = np.random.default_rng(0)
    before = state_of(rng)
    with pytest.raises(ValueError, match="the state is of a MT19937, the generator is a PCG64; make one alike"):
        set_state(rng, state_of(used(np.random.MT19937)))
    assert state_of(rng) == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: "",
        lambda s: "null",
        lambda s: "[1]",
        lambda s: s[:-5],
        lambda s: json.dumps({"bits": json.loads(s)["bits"]}),
        lambda s: s.replace('"inc"', '"ink"'),
        lambda s: s.replace('"has_uint32": 1', '"has_uint32": "one"'),
        lambda s: s.replace('"pool_size": 4', '"pool_size": -4'),
        lambda s: s.replace('"state": ', '"state": -', 1) if '"state": 1' in s else "x",
        lambda s: "[" * 100_000,
        lambda s: json.dumps(json.loads(s) | {"seed": 3}),
    ],
)
def test_a_spoilt_state_is_refused_and_nothing_changes(spoil):
    assert_refused(spoil(state_of(used(np.random.PCG64))), "this is no state of a generator")


@pytest.mark.parametrize("change", [{"pool_size": 10**6}, {"spawn_key": [0] * 10**6}])
def test_a_seed_that_would_take_hours_is_refused(change):
    state = json.loads(state_of(used(np.random.PCG64)))
    assert_refused(json.dumps(state | {"seed": state["seed"] | change}), "would take hours")


def assert_refused(text, message):
    rng = np.random.default_rng(0)
    before = state_of(rng)
    with pytest.raises(ValueError, match=message):
        set_state(rng, text)
    assert state_of(rng) == before
