"""Tests of claims in one line, and the strategies for their inputs."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import refnp.symmetry
from refnp.layers import layer_norm
from refnp.symmetry import MatrixGroup, Negate, Permute, Roll, RotateSpace, Shift, SymmetryError, Translate, Trivial
from refnp.symmetry.testing import assert_equivariant, assert_invariant, elements, images, masks, sequences, sets, tasks
from tests.symmetry import functions as f

SIZES = {"n": range(1, 5)}
ORDER = Permute("x", 0), Permute(axis=0)


def running_sum(x):
    return x.cumsum(0)


def message_of(test):
    with pytest.raises(SymmetryError) as raised:
        test()
    return str(raised.value)


def code_in(message):
    return message.partition("# the counter-example as code")[2].partition("\n")[2]


def test_a_claim_that_holds_gives_its_verdict():
    assert assert_equivariant(f.self_attention, *ORDER, f.rows, sizes=SIZES, count=8).holds
    assert assert_invariant(lambda x: x.sum(0), ORDER[0], f.rows, sizes=SIZES, count=8).holds
    inputs = {"x": np.array([[1.0, 2], [3, 5], [0, 1]])}
    assert assert_equivariant(f.self_attention, *ORDER, inputs).counts.exhausted == 1
    assert assert_equivariant(f.self_attention, *ORDER, inputs, (2, 0, 1)).counts.pairs == 1


def test_a_claim_that_fails_prints_code_that_fails_again():
    message = message_of(lambda: assert_equivariant(running_sum, *ORDER, f.rows, sizes=SIZES))
    assert message.startswith("running_sum is equivariant: permutations of axis 0 of x; on the output")
    assert "counter-example with n = 2, order [1, 0]" in message
    there = {"f": running_sum}
    with pytest.raises(refnp.symmetry.SymmetryError, match="one pair: order"):
        exec(code_in(message), there)
    assert np.array_equal(running_sum(**there["moved"]), there["given"]["output"])
    there["f"] = lambda x: x * x
    exec(code_in(message), there)  # a function that is right passes


@pytest.mark.parametrize(
    ("test", "last"),
    [
        (lambda: assert_invariant(running_sum, ORDER[0], {"x": np.eye(2)}), r", Trivial\(\)\), inputs, \(1, 0\)\)"),
        (
            lambda: assert_equivariant(f.padded_convolution, Shift("x"), Shift(), f.signal, sizes={"n": (5,)}),
            r"border=0\), inputs, -?1\)",
        ),
        (
            lambda: assert_invariant(
                lambda x: {"a": [x]}, Negate("x") * Translate("x"), {"x": np.ones(2)}, (-1, (0, 0))
            ),
            r"Negate\(on='x'\) \* Translate\(.*\), Trivial\(\)\), inputs, \(-1, \(0, 0\)\)\)",
        ),
    ],
)
def test_the_last_line_is_the_check_that_fails(test, last):
    line = code_in(message_of(test)).splitlines()[-1]
    assert line.startswith("check(equivariant(f, ")
    assert line.endswith(".require()")
    assert re.search(last, line)


def test_what_cannot_be_written_down_is_left_out():
    """Functions and matrices in a claim: the arrays alone are given as code."""
    message = message_of(
        lambda: assert_invariant(running_sum, MatrixGroup("x", matrices=[-np.eye(1)]), {"x": np.eye(1)})
    )
    assert "expected = {" in message
    assert "check(" not in message
    message = message_of(lambda: assert_invariant(running_sum, ORDER[0], {"x": np.eye(2)}, read=lambda y: y))
    assert "check(" not in message
    exec(code_in(message), {})


def test_a_pair_that_says_nothing_passes_and_a_function_that_refuses_fails():
    assert_equivariant(running_sum, *ORDER, {"x": np.eye(2)}, (0, 1))  # nothing moves
    assert_equivariant(running_sum, *ORDER, {"x": np.zeros((0, 2))})
    with pytest.raises(SymmetryError, match="UNDECIDED"):
        assert_equivariant(running_sum, *ORDER, f.rows, sizes={"n": (0,)})  # a search must try something
    with pytest.raises(SymmetryError, match="f took no input; an input: LinAlgError"):
        assert_invariant(np.linalg.inv, Permute("a", 0), {"a": np.ones((2, 3))}, (1, 0))
    noise = np.random.default_rng(0)
    with pytest.raises(SymmetryError, match="different results for the same input"):
        assert_invariant(lambda x: x + noise.normal(size=x.shape), ORDER[0], {"x": np.eye(2)}, (1, 0))
    with pytest.raises(TypeError, match=r"g is \(1, 0\), but inputs are drawn"):
        assert_equivariant(running_sum, *ORDER, f.rows, (1, 0), sizes=SIZES)
    with pytest.raises(TypeError, match="assert_equivariant: count, sizes is for a search"):
        assert_equivariant(running_sum, *ORDER, {"x": np.eye(2)}, sizes=SIZES, count=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'forms'"):
        assert_invariant(running_sum, ORDER[0], f.rows, forms=SIZES)


def test_every_option_reaches_the_claim_and_the_search():
    options = {"sizes": SIZES, "count": 4, "seed": 3, "dtypes": [np.float32], "scales": (2.0,), "digits": 3.0}
    verdict = assert_invariant(
        lambda x: {"total": x.sum(), "first": x[0]},
        Permute(axis=0),
        f.rows,
        on="x",
        read=lambda y: y["total"],
        name="total",
        where=lambda x: len(x) > 1,
        **options,
    )
    assert str(verdict).startswith("total is invariant under permutations of axis 0 of x: HOLDS")
    assert "; numbers of single precision; inputs times 2; seed 3" in str(verdict)
    padded = lambda border: assert_equivariant(
        f.padded_convolution, Shift("x"), Shift(), f.signal, sizes={"n": (6,)}, border=border, count=4
    )
    assert padded(1).holds
    with pytest.raises(SymmetryError):
        padded(0)
    with pytest.raises(SymmetryError, match="judged by the bound"):
        assert_invariant(lambda x: x[:1], ORDER[0], f.rows, sizes=SIZES, bound=lambda inputs, g, dtype: 1e-30)
    coarse = lambda x: (x.astype(np.float32) / 3).sum().astype(x.dtype)
    with pytest.raises(SymmetryError, match="UNDECIDED"):
        assert_invariant(coarse, Permute("x"), f.vector, sizes=SIZES, count=8)
    inside = {"inner_precision": "float32", "digits": 5.0}
    assert assert_invariant(coarse, Permute("x"), f.vector, sizes=SIZES, count=8, **inside).holds
    found = message_of(lambda: assert_invariant(running_sum, ORDER[0], f.rows, sizes={"n": (3,)}, simplify=0))
    assert "0., 1." not in found  # as it was drawn
    doubled = lambda dtype: lambda i: np.arange(7, dtype=dtype)[i] / 3
    verdict = assert_equivariant(
        doubled(np.float32), Permute("i"), Permute(), {"i": np.array([1, 4])}, (1, 0), in_precision=doubled
    )
    assert "float64" in verdict.relative


@given(sets(), st.data())
def test_sets_and_elements_serve_a_test_of_a_claim(inputs, data):
    g = data.draw(elements(ORDER[0], inputs))
    assert_equivariant(f.self_attention, *ORDER, inputs, g)
    assert_equivariant(lambda x: layer_norm(x), *ORDER, inputs, g)


@given(elements(Translate(("context_x", "target_x")), tasks(dx=(1, 2), mask=True)))
def test_pairs_of_a_task_and_an_element(pair):
    inputs, g = pair
    assert inputs["context_mask"].shape == inputs["context_x"].shape[:-1] == inputs["context_y"].shape[:-1]
    assert inputs["target_x"].shape[-1] == inputs["context_x"].shape[-1] == len(g)
    distances = lambda context_x, context_y, target_x, context_mask: f.squared_distances(context_x, target_x)
    assert_invariant(distances, Translate(("context_x", "target_x")), inputs, g)


@given(images(height=(1, 5), width=(2, 5)), st.data())
def test_images_on_a_torus(inputs, data):
    torus = Roll("x", -1) * Roll("x", -2)
    g = data.draw(elements(torus, inputs))
    blurred = lambda x: x + np.roll(x, 1, -1) * 2 + np.roll(x, 1, -2)
    assert_equivariant(blurred, torus, Roll(axis=-1) * Roll(axis=-2), inputs, g)


def find_minimal(strategy, condition, examples=500):
    phases = Phase.generate, Phase.shrink  # without Phase.explain, which takes a second and tells no program anything
    options = settings(max_examples=examples, database=None, derandomize=True, phases=phases)
    return find(strategy, condition, settings=options)


def test_hypothesis_finds_the_smallest_counter_example():
    def fails(pair):
        try:
            assert_equivariant(running_sum, *ORDER, *pair)
        except SymmetryError:
            return True
        return False

    inputs, g = find_minimal(elements(ORDER[0], sets(points=(0, 4))), fails)
    assert inputs["x"].shape == (2, 1)
    assert sorted(inputs["x"].ravel()) == [0, 1]
    assert g == (1, 0)


@pytest.mark.parametrize(
    ("strategy", "smallest"),
    [
        (sets(), {"x": (0, 1)}),
        (sets((2, 4), 2, name="y", mask="present", batch=(3,)), {"y": (3, 2, 2), "present": (3, 2)}),
        (tasks(), {"context_x": (0, 1), "context_y": (0, 1), "target_x": (1, 1)}),
        (masks(), {"mask": (1, 1)}),
        (masks((2, 3), (4, 5), name="m", batch=(2,)), {"m": (2, 2, 4)}),
        (sequences(), {"x": (0, 1)}),
        (sequences((2, 4), vocabulary=7, name="i"), {"i": (2,)}),
        (images(), {"x": (1, 1, 1, 1)}),
        (images(3, 2, (4, 5), batch=()), {"x": (3, 2, 4)}),
    ],
)
def test_strategies_shrink_to_small_arrays_of_zeros(strategy, smallest):
    found = find_minimal(strategy, lambda inputs: True, examples=20)
    assert {name: array.shape for name, array in found.items()} == smallest
    assert not any(array.any() for array in found.values())


def test_strategies_give_what_claims_break_on():
    """Equal rows, extreme sizes, and masks with empty rows; and no mask with one where that was excluded."""
    equal = lambda inputs: len(inputs["x"]) > 1 and (inputs["x"][0] == inputs["x"][1]).all() and inputs["x"].any()
    find_minimal(sets(features=2), equal)
    twice = lambda inputs: inputs["context_x"].any() and len(np.unique(inputs["context_x"])) < len(inputs["context_x"])
    find_minimal(tasks(), twice)
    find_minimal(masks(3), lambda inputs: inputs["mask"].any() and not inputs["mask"].any(-1).all())
    assert find_minimal(sequences(vocabulary=5), lambda inputs: (inputs["x"] == 4).any())["x"].tolist() == [4]


@given(masks((1, 4), (1, 3), empty_rows=False), sets(largest=3.0, dtype=np.float32), sequences(5, vocabulary=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_what_was_asked_for_is_kept(mask, points, ids):
    assert mask["mask"].any(-1).all()
    assert points["x"].dtype == np.float32
    assert np.abs(points["x"]).max(initial=0) <= 3
    assert ids["x"].shape == (5,)
    assert set(ids["x"]) <= set(range(4))


def test_elements_of_large_groups_are_the_identity_generators_and_more():
    inputs = {"x": np.zeros((8, 3))}
    strategy = elements(ORDER[0], inputs)
    assert find_minimal(strategy, lambda g: True) == tuple(range(8))
    found = find_minimal(strategy, lambda g: sum(i != j for i, j in enumerate(g)) > 4 and g[0] == 5)
    assert sorted(found) == list(range(8))
    assert find_minimal(elements(RotateSpace("x"), inputs), lambda g: len(g[0]) == 3)[1] == 0
    assert find_minimal(elements(Trivial(), inputs), lambda g: True) is None


def test_hypothesis_is_needed_for_strategies_alone():
    code = """
import sys
sys.modules["hypothesis"] = None
import numpy as np
from refnp.symmetry import Permute
from refnp.symmetry.testing import assert_invariant, sets
assert_invariant(lambda x: x.sum(), Permute("x"), {"x": np.arange(3.0)})
try:
    sets()
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "which is not installed: pip install hypothesis" in ran.stdout, ran.stderr
