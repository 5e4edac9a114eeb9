"""What f computes more coarsely inside than it takes and gives is no violation, and is told from one that is."""

import numpy as np
import pytest

from refnp.symmetry import Permute, check, equivariant, invariant
from refnp.symmetry.noise import INSIDE, NODES, factors, line, noise
from tests.symmetry import functions as f
from tests.symmetry.functions import search
from tests.symmetry.mixed_precision import MIXED, SET, bfloat16, installed, scores_in, tfloat32
from tests.symmetry.true_claims import SCALES

SIZES = {"n": range(1, 6)}


@pytest.mark.parametrize("name", MIXED)
def test_true_claims_are_not_refuted(name):
    claim, draw, sizes = MIXED[name]
    verdict = search(claim, draw, sizes=sizes, scales=SCALES)
    exact = name == "float16 scores"  # NumPy adds float16 in float32, where few of them leave no error
    assert verdict.outcome == ("holds" if exact else "undecided"), str(verdict)


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_true_claims_about_other_frameworks_are_not_refuted(package):
    pytest.importorskip(package)
    for name, (claim, draw, sizes) in installed().items():
        if name not in MIXED:
            verdict = search(claim, draw, sizes=sizes, scales=SCALES, count=6)
            assert not verdict.fails, f"{name}: {verdict}"


def test_the_verdict_says_what_could_be_inside_and_what_to_do():
    claim = invariant(scores_in(np.float32), SET)
    verdict = search(claim, f.rows, sizes=SIZES)
    assert "is as large as float32 inside f would leave" in verdict.reason
    assert 'pass inner_precision="float32", and what is larger fails' in verdict.reason
    holds = search(claim, f.rows, sizes=SIZES, scales=(1,), inner_precision="float32")
    assert holds.holds, str(holds)
    assert "as far as float32 tells" in str(holds)
    assert "f computes in float32 inside" in holds.reason
    assert search(claim, f.rows, sizes=SIZES, scales=(1,), count=96, inner_precision="float64").fails
    with pytest.raises(ValueError, match="inner_precision is 'float8'; it must be one of longdouble, float64, float32"):
        search(claim, f.rows, sizes=SIZES, inner_precision="float8")


@pytest.mark.parametrize("size", [1e-1, 1e-3, 1e-5])
def test_violations_that_are_larger_than_the_noise_fail(size):
    """With float32 scores inside and without being told so; the noise is 3e-8 of the output."""
    symmetric = scores_in(np.float32)
    biased = lambda x: symmetric(x) * (1 + size * np.tanh(x[0, 0]))
    verdict = search(invariant(biased, SET), f.rows, sizes=SIZES, scales=(1,), count=48)
    assert verdict.fails, str(verdict)
    assert verdict.counterexample.sizes == {"n": 2}


@pytest.mark.parametrize("size", [1e-4, 1e-8, 1e-11])
def test_a_network_with_kinks_in_float64_is_judged_in_float64(size):
    """relu meets a line at few places; a violation stands out on the lines without."""
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(3, 32)), rng.normal(size=(32, 2))

    def network(x, size=size):
        y = np.maximum(x @ one.astype(x.dtype), 0).sum(0) @ two.astype(x.dtype)
        return y * (1 + size * np.tanh(x[0, 0]))

    assert search(invariant(network, SET), f.rows, sizes=SIZES).fails
    true = lambda x: network(x, 0)
    assert search(invariant(true, SET), f.rows, sizes=SIZES).holds


def test_whole_numbers_have_no_noise_and_the_precisions_given_are_believed():
    table = np.random.default_rng(0).normal(size=(9, 3))
    draw = lambda rng, n: {"ids": rng.integers(0, 9, n)}
    biased = lambda ids, table=table: table[ids].sum(0) * (1 + 1e-7 * np.tanh(ids[0]))
    claim = invariant(biased, Permute("ids"))
    verdict = search(claim, draw, sizes=SIZES)
    assert verdict.outcome == "undecided"
    assert "float32 inside f would leave" in verdict.reason
    assert search(claim, draw, sizes=SIZES, inner_precision="float64").fails
    told = invariant(biased, Permute("ids"), in_precision=lambda t: lambda ids: biased(ids, table.astype(t)))
    assert search(told, draw, sizes=SIZES).fails


def test_one_place_is_judged_alike():
    x = np.random.default_rng(1).normal(size=(4, 3))
    claim = invariant(scores_in(np.float32), SET)
    outcomes = {check(claim, {"x": x}, g).outcome for g in ((1, 0, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1))}
    assert outcomes <= {"undecided", "holds"}
    skewed = equivariant(lambda x: x.astype(np.float32).cumsum(0).astype(x.dtype), SET, Permute(axis=0))
    assert check(skewed, {"x": x}, (1, 0, 2, 3), inner_precision="float32").fails


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_is_what_was_added_and_nothing_smooth(dtype):
    """Errors of ±e, each sign as likely, have the root mean square e; 12 coefficients give it to a factor of 2.5."""
    rng = np.random.default_rng(0)
    x = {"x": rng.normal(size=200).astype(dtype)}
    values = [np.exp(at["x"].astype(np.longdouble)) for at in line(x, 2.0**-7, rng)]
    assert np.all(noise(values) <= 16 * np.finfo(dtype).eps * np.abs(x["x"]).max() * values[0])
    error = 2.0**-10
    found = noise([v + error * rng.choice((-1, 1), v.shape) for v in values])
    assert np.all(found > error / 2.5)
    assert np.all(found < error * 2.5)


@pytest.mark.parametrize(("rounded", "u"), [(np.float32, 2.0**-24), (tfloat32, 2.0**-11), (bfloat16, 2.0**-8)])
def test_roundings_show_on_lines_of_their_length(rounded, u):
    rng = np.random.default_rng(0)
    reach = INSIDE["float32"] if rounded is np.float32 else max(INSIDE.values())
    values = [np.asarray(rounded(at["x"]), np.longdouble) for at in line({"x": rng.uniform(1, 2, 300)}, reach, rng)]
    typical = np.median(noise(values))
    assert u / 8 < typical < 2 * u
    assert len(values) == NODES


def test_equal_numbers_stay_equal_and_zeros_zero_along_lines():
    rng = np.random.default_rng(0)
    arrays = {"x": np.array([[1.0, 2.0], [1.0, -2.0]]), "y": np.array([0.0, 2.0]), "ids": np.arange(2), "no": None}
    for at in line(arrays, 0.1, rng):
        assert at["x"][0, 0] == at["x"][1, 0]
        assert at["x"][0, 1] == -at["x"][1, 1] == at["y"][1]
        assert at["y"][0] == 0
        assert at["ids"] is arrays["ids"]
    assert set(factors(arrays, np.ones)) == {"x", "y"}


def test_a_value_that_is_infinite_somewhere_has_infinite_noise():
    values = [np.array([1.0, np.inf, np.inf, np.nan]) for _ in range(NODES)]
    values[3] = np.array([1.0, 1.0, np.inf, np.nan])
    assert noise(values).tolist() == [0, np.inf, 0, 0]
