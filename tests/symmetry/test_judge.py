"""What a verdict rests on: precisions, the law of rounding, bounds; and when nothing is decided."""

import functools

import numpy as np
import pytest

from refnp.layers import softmax
from refnp.symmetry import Negate, Permute, Roll, Rotate, Scale, Translate, check, equivariant, invariant
from refnp.symmetry import claim as claim_page
from refnp.symmetry.claim import FLOATS, roundoff
from tests.helpers import unit_roundoff
from tests.symmetry import functions as f
from tests.symmetry.functions import search

WIDE = np.dtype(np.longdouble)
has_wide = pytest.mark.skipif(WIDE not in FLOATS, reason="longdouble is no wider than float64 on this machine")
SIZES = {"n": range(1, 7)}
PERMUTED = Permute("x", 0)


def total(x):
    return np.exp(x).sum()


def test_discrepancies_of_a_true_claim_shrink_with_the_unit_roundoff():
    """Variance about 1e3: the same number of roundings in every precision, within a factor of 64 each way."""
    claim = invariant(lambda x: (x + 1e3).var(), PERMUTED)
    verdict = search(claim, f.vector, sizes={"n": range(3, 7)}, scales=(1,), structures=(), count=48)
    in_roundoffs = [
        verdict.relative[dtype.name if dtype != WIDE else "longdouble"] / unit_roundoff(dtype) for dtype in FLOATS
    ]
    assert min(in_roundoffs) > 1
    assert max(in_roundoffs) < 64 * min(in_roundoffs)
    assert verdict.holds
    assert verdict.digits > 12


@has_wide
def test_discrepancies_of_a_false_claim_do_not():
    found = search(invariant(lambda x: total(x) + 1e-7 * x[0], PERMUTED), f.vector, sizes=SIZES).counterexample
    values = [found.relative[name] for name in ("float64", "longdouble")]
    assert values[1] == pytest.approx(values[0], rel=1e-6)


def test_the_precisions_of_a_function_are_found():
    names = lambda function: [
        t.name if t != WIDE else "longdouble" for t in claim(function).precisions({"x": np.ones(2)}).dtypes
    ]
    claim = lambda function: invariant(function, PERMUTED)
    every = ["float32", "float64", "longdouble"][: len(FLOATS)]
    assert names(total) == every
    assert names(lambda x: x * np.ones(2)) == every[1:]  # float64 weights
    assert names(lambda x: np.exp(np.asarray(x, float))) == ["float64"]
    assert names(lambda x: x.astype(np.float32)) == ["float32"]
    assert names(lambda x: x > 0) == every
    assert names(lambda x: np.linalg.inv(np.diag(x))) == every[:2]  # LAPACK has no longdouble
    assert names(lambda x: [x.astype(np.float32), x.astype(float)]) == ["float32"]


def test_without_longdouble_float32_and_float64_are_compared(monkeypatch):
    monkeypatch.setattr(claim_page, "FLOATS", FLOATS[:2])
    verdict = search(invariant(total, PERMUTED), f.vector, sizes=SIZES)
    assert verdict.holds
    assert list(verdict.relative) == ["float32", "float64"]
    found = search(
        invariant(lambda x: total(x) * (1 + 1e-9 * np.tanh(x[0])), PERMUTED), f.vector, sizes=SIZES
    ).counterexample
    assert found.sizes == {"n": 2}
    assert found.precision == "float64"


@pytest.mark.parametrize(
    "function",
    [lambda x: total(np.asarray(x, float)), lambda x: np.linalg.slogdet(np.diag(np.exp(np.asarray(x, float))))[1]],
)
def test_one_precision_is_enough_to_see_what_is_not_hidden_by_it(function):
    verdict = search(invariant(function, PERMUTED), f.vector, sizes=SIZES)
    assert verdict.holds
    assert "f computes in float64 only" in str(verdict)
    biased = search(invariant(lambda x: function(x) + 1e-9 * float(x[0]), PERMUTED), f.vector, sizes=SIZES)
    assert biased.counterexample.sizes == {"n": 2}


@has_wide
def test_constants_that_were_rounded_to_float64_refute_nothing():
    """The spectrum by a float64 Fourier matrix changes under a roll as those numbers are not on the unit circle."""

    def spectrum(x):
        n = len(x)
        table = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
        return np.abs(table @ x) ** 2

    verdict = search(invariant(spectrum, Roll("x")), f.vector, sizes={"n": (5, 7)}, scales=(1,))
    assert verdict.holds
    assert "HOLDS, as far as its float64 constants tell, to " in str(verdict)
    assert roundoff(float) < verdict.resolution < 1e-12


class Kept:
    """A function that keeps its table."""

    def __init__(self, table):
        self.table = table

    def __call__(self, x):
        return lifted(x, self.table)


def lifted(x, table):
    return np.maximum(x @ table, 0) @ table.T


HOLDERS = {
    "a closure": lambda table: lambda x: lifted(x, table),
    "a default": lambda table: lambda x, t=table: lifted(x, t),
    "an attribute": Kept,
    "a partial": lambda table: functools.partial(lifted, table=table),
}


@pytest.mark.parametrize(("holder", "of"), list(zip(HOLDERS, (3, 4, 5, 7), strict=True)))
def test_constants_that_were_rounded_to_float32_refute_nothing(holder, of):
    """Unless a violation is larger than they leave. Directions in a table turn into each other but for rounding."""
    angles = 2 * np.pi * np.arange(of) / of
    for slight, holds in ((0, True), (1e-4, False)):
        table = np.stack([np.cos(angles) + slight * (angles == 0), np.sin(angles)]).astype(np.float32)
        claim = equivariant(HOLDERS[holder](table), Rotate("x", of=of), Rotate(of=of))
        verdict = search(claim, lambda rng, n: {"x": rng.normal(size=(n, 2))}, sizes={"n": (1, 2)}, count=16)
        assert verdict.holds == holds, verdict
        assert verdict.fails or verdict.precision == "its float32 constants"


@pytest.mark.parametrize("of", [3, 4, 5, 7])
def test_a_copy_in_float32_of_finer_numbers_excuses_nothing(of):
    """A function that keeps its table once for each precision it was called in has no constants of float32."""
    angles = 2 * np.pi * np.arange(of) / of
    tables = {np.dtype(np.float64): np.stack([np.cos(angles) + 1e-6 * (angles == 0), np.sin(angles)])}

    def of_its_own(x):
        return lifted(x, tables.setdefault(x.dtype, tables[np.dtype(np.float64)].astype(x.dtype)))

    of_its_own(np.ones((1, 2), np.float32))
    claim = equivariant(of_its_own, Rotate("x", of=of), Rotate(of=of))
    assert search(claim, lambda rng, n: {"x": rng.normal(size=(n, 2))}, sizes={"n": (1, 2)}, count=16).fails


def test_digits_follow_the_precision_there_is():
    """In float32 a true claim holds to about 1e-6, and a violation of 1e-5 is seen."""
    single = invariant(lambda x: total(x.astype(np.float32)), PERMUTED)
    verdict = search(single, f.vector, sizes=SIZES, scales=(1,))
    assert verdict.holds
    assert 2.0**-20 <= verdict.resolution <= 10**-5.2
    assert verdict.precision == "float32"
    assert f"HOLDS, as far as float32 tells, to {verdict.resolution:.0e} of the output" in str(verdict)
    slightly = lambda x: total(x.astype(np.float32)) * np.float32(1 + 1e-5 * np.tanh(x[0]))
    assert search(invariant(slightly, PERMUTED), f.vector, sizes=SIZES).fails


def test_digits_that_cannot_be_had_leave_the_verdict_open():
    single = invariant(lambda x: total(x.astype(np.float32)), PERMUTED)
    verdict = search(single, f.vector, sizes=SIZES, digits=9)
    assert verdict.outcome == "undecided"
    assert "rounding would hide a violation of 1e-9" in verdict.reason


def test_where_no_pair_is_resolved_no_size_of_a_violation_is_told():
    coarse = invariant(lambda x: x.astype(np.float16).sum().astype(x.dtype), PERMUTED)
    verdict = search(coarse, f.vector, sizes=SIZES)
    assert verdict.counts.unresolved == verdict.counts.pairs
    assert verdict.resolution == np.inf
    assert "; at no pair was enough resolved to see a violation\n" in str(verdict)
    assert "would have been seen" in str(search(invariant(total, PERMUTED), f.vector, sizes=SIZES))


def test_a_claim_of_which_nothing_was_tried_is_undecided():
    assert "nothing was tested" in search(invariant(total, PERMUTED), f.vector, sizes={"n": (1,)}).reason
    zeros = search(equivariant(lambda x: 0 * x, Negate("x"), Negate()), f.vector, sizes=SIZES)
    assert "f gave only zeros" in zeros.reason
    nowhere = search(invariant(total, PERMUTED), f.vector, sizes=SIZES, where=lambda x: False)
    assert nowhere.reason == "no input was in the domain"


def test_what_f_refuses_is_counted_and_what_it_says_is_told():
    def fussy(x):
        if len(x) < 3:
            raise ValueError(f"{len(x)} points are too few\nmore is said here")
        return total(x)

    verdict = search(invariant(fussy, PERMUTED), f.vector, sizes={"n": range(6)})
    assert verdict.holds
    assert verdict.counts.refused >= 3
    assert verdict.reason == "refused, for one, n = 0: ValueError: 0 points are too few"
    verdict = search(invariant(fussy, PERMUTED), f.vector, sizes={"n": range(3)})
    assert verdict.outcome == "undecided"
    assert verdict.reason == "f took no input; n = 0: ValueError: 0 points are too few"


def test_a_function_that_gives_something_else_each_time_is_undecided():
    rng = np.random.default_rng(0)
    verdict = search(invariant(lambda x: total(x * (rng.random(x.shape) < 0.5)), PERMUTED), f.vector, sizes=SIZES)
    assert verdict.outcome == "undecided"
    assert "different results for the same input" in verdict.reason


def test_a_function_that_overwrites_its_input_does_no_harm():
    def careless(x):
        x *= 2
        return x.sum()

    assert search(invariant(careless, PERMUTED), f.vector, sizes=SIZES).holds


def test_the_same_call_gives_the_same_verdict_and_another_seed_other_inputs():
    claim = equivariant(f.sinusoidal_attention, PERMUTED, Permute(axis=0))
    run = lambda seed: str(search(claim, f.rows, sizes=SIZES, seed=seed))
    assert run(0) == run(0)
    seen = []
    for seed in (0, 1):
        search(
            invariant(lambda x: seen.append(x.copy()) or x.sum(), PERMUTED), f.vector, sizes=SIZES, seed=seed, count=5
        )
    assert not any(np.array_equal(seen[-1], other) for other in seen[: len(seen) // 3])


@pytest.mark.parametrize(
    ("bound", "outcome"),
    [
        (lambda x, g, t: 8 * unit_roundoff(t) * np.exp(x["x"]).sum(), "holds"),
        (lambda x, g, t: {"output": np.array(8 * unit_roundoff(t) * np.exp(x["x"]).sum())}, "holds"),
        (lambda x, g, t: 0.0, "fails"),
    ],
    ids=["sum", "by name", "nothing"],
)
def test_a_bound_of_ones_own(bound, outcome):
    """A sum of at most 6 numbers in any order, twice, and exp twice: (5 + 1) u each, less than 2·8 u with its half."""
    verdict = search(invariant(total, PERMUTED), f.vector, sizes={"n": range(5)}, scales=(1,), bound=bound, digits=5)
    assert verdict.outcome == outcome
    if outcome == "holds":
        assert verdict.reason == "judged by the bound that was given"
        assert 0 < verdict.worst <= 1
    else:
        assert "judged by the bound that was given" in str(verdict)
        assert verdict.counterexample.relative[verdict.counterexample.precision] < 1e-5


def test_token_ids_in_the_precision_that_is_asked():
    table = np.random.default_rng(0).normal(size=(5, 3))
    function = lambda ids, table=table: np.exp(table)[ids].sum(0)
    made = []

    def in_precision(dtype):
        made.append(dtype)
        return lambda ids: function(ids, table.astype(dtype))

    draw = lambda rng, n: {"ids": rng.integers(0, 5, n)}
    verdict = search(invariant(function, Permute("ids"), in_precision=in_precision), draw, sizes=SIZES)
    assert verdict.holds
    assert len(verdict.relative) == len(FLOATS)
    assert len(made) == len(FLOATS)  # each once
    first = lambda ids, table: function(ids, table) * (1 + 1e-9 * ids[0])
    biased = invariant(
        None, Permute("ids"), in_precision=lambda t: lambda ids: first(ids, table.astype(t)), name="first"
    )
    assert search(biased, draw, sizes=SIZES).counterexample.sizes == {"n": 2}


def test_complex_numbers():
    draw = lambda rng, n: {"x": rng.normal(size=n) + 1j * rng.normal(size=n)}
    assert search(equivariant(lambda x: np.fft.fft(x), Scale("x"), Scale()), draw, sizes=SIZES).holds
    conjugate = search(equivariant(lambda x: x * x.imag[:1], Permute("x"), Permute()), draw, sizes=SIZES)
    assert conjugate.counterexample.sizes == {"n": 2}
    assert "1j" in str(conjugate) or "j" in conjugate.counterexample.code()


def test_sizes_scales_and_dtypes_are_as_asked():
    seen = []

    def watched(x, y):
        seen.append((x.dtype, len(x), float(np.max(np.abs(x), initial=0)), y.dtype))
        return x.sum()

    draw = lambda rng, n: {"x": np.where(rng.random(n) < 0.5, -1.0, 1.0), "y": np.arange(3)}
    verdict = search(
        invariant(watched, Negate("x") * Permute("y"), on=None), draw, sizes={"n": range(4)}, scales={"x": (8.0,)}
    )
    assert verdict.fails
    seen.clear()
    search(invariant(watched, Permute("y")), draw, sizes={"n": range(4)}, scales={"x": (8.0,)})
    assert {n for _, n, _, _ in seen} == {0, 1, 2, 3}
    assert {1, 8} <= {round(size) for _, _, size, _ in seen} <= {0, 1, 8}
    assert {dtype for dtype, *_ in seen} >= set(FLOATS[-2:])
    assert {dtype for *_, dtype in seen} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"count": 0}, ValueError, "count is 0"),
        ({"simplify": -1}, ValueError, "simplify is -1; it must be 0"),
        ({"dtypes": ()}, ValueError, "there must be something to try"),
        (
            {"draw": lambda rng, n: rng.normal(size=n)},
            TypeError,
            "draw returns a ndarray; it must return arrays by name",
        ),
        ({"claim": invariant(total, Permute("z"))}, ValueError, "there is no array 'z'; there are x"),
        ({"claim": equivariant(total, PERMUTED, Permute())}, ValueError, r"output has shape \(\), and so no axis -1"),
        ({"claim": invariant(lambda x: "text", PERMUTED)}, TypeError, "the function returns a str; pass read="),
        ({"sizes": None}, TypeError, r'draw takes n; say which values: sizes=\{"n": range\(6\)\}'),
        ({"sizes": {"n": (2,), "m": (3,)}}, TypeError, "draw takes no m, which sizes gives"),
        (
            {"draw": lambda rng, n: {"x": np.array(list("abc"[:n]))}},
            TypeError,
            "draw gives x as an array of str.*; an action moves arrays of numbers or booleans",
        ),
        (
            {"claim": equivariant(lambda x: x[x > 0], PERMUTED, Permute(axis=0))},
            ValueError,
            "the shape of what f gives depends on numbers, and not on shapes alone",
        ),
    ],
)
def test_what_cannot_be_searched_is_said(options, error, message):
    given = {"claim": invariant(total, PERMUTED), "draw": f.vector, "sizes": {"n": range(4)}} | options
    with pytest.raises(error, match=message):
        search(given.pop("claim"), given.pop("draw"), **given)


def test_a_class_is_no_action():
    with pytest.raises(TypeError, match=r"action_in is the class Permute; call it: Permute\(…\)"):
        equivariant(total, Permute, Permute(axis=0))
    with pytest.raises(TypeError, match="action_out is the class Permute"):
        equivariant(total, PERMUTED, Permute)
    with pytest.raises(TypeError, match="action_in is 0; pass one of"):
        invariant(total, 0)


@pytest.mark.parametrize("draw", [lambda rng, **sizes: f.vector(rng, **sizes), lambda rng, n=3, m=2: f.vector(rng, n)])
def test_a_draw_may_take_any_sizes_or_have_its_own(draw):
    assert search(invariant(total, PERMUTED), draw, sizes={"n": range(1, 4)}, count=8).holds


def test_translations_that_round_are_not_held_against_a_claim():
    """x + t in float32 loses what x has below u|t|; in longdouble, where the claim is judged, it does not."""
    claim = invariant(f.squared_distances, Translate(("x", "y"), reach=1e6))
    verdict = search(claim, f.plane, sizes={"n": range(4)}, scales=(1, 2.0**-10))
    assert verdict.holds
    assert verdict.relative["float32"] > 1e-3


def likelihood(x, y, noise=1e-2):
    factor = np.linalg.cholesky(np.exp(-0.5 * (x - x.T) ** 2) + noise * np.eye(len(x)))
    return np.log(np.diag(factor)).sum() + 0.5 * (np.linalg.solve(factor, y) ** 2).sum()


def fitted(x, y, jitter=1e-14):
    k = np.exp(-0.5 * (x - x.T) ** 2)
    return k @ np.linalg.solve(k + jitter * np.eye(len(x)), y)


COINCIDE = {"x": np.zeros((3, 1)), "y": np.array([[0.0], [0.0], [1.0]])}
ILL = {
    "likelihood": (likelihood, Permute(("x", "y"), 0), COINCIDE, (2, 1, 0)),
    "likelihood, float64 inside": (
        lambda x, y: likelihood(x.astype(float), y.astype(float), 1e-6).astype(x.dtype),
        Permute(("x", "y"), 0),
        COINCIDE,
        (2, 1, 0),
    ),
    "posterior": (
        lambda x, y: fitted(x, y).sum(),
        Permute(("x", "y"), 0),
        {"x": np.zeros((2, 1)), "y": np.array([[0.18187733], [0.0]])},
        (1, 0),
    ),
}


@pytest.mark.parametrize("name", ILL)
def test_equal_errors_of_an_ill_conditioned_function_refute_nothing(name):
    """Where points coincide, what LAPACK rounds is the same at all perturbations that leave them so."""
    function, action, inputs, g = ILL[name]
    assert not check(invariant(function, action), inputs, g).fails
    wrong = lambda x, y: function(x, y) * (1 + np.tanh(y[0, 0] - y[-1, 0]) / 8)
    if "posterior" not in name:  # of which no digit is known there
        assert check(invariant(wrong, action), inputs, g).fails


SPECIAL = {
    "the first of equal numbers": lambda x: np.where(np.arange(len(x)) == np.argmax(x), x, 0) @ np.arange(len(x)),
    "signs, and other numbers where points coincide": lambda x: np.where(
        x[:1] == x, 0.25 * np.arange(len(x)), np.sign(x[:1] - x)
    ).sum(),
    "zero first": lambda x: x.sum() + (x[0] == 0) * 1e-6,
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("inside", [None, np.float64])
def test_what_is_wrong_at_equal_numbers_and_zeros_alone_is_still_found(name, inside):
    function = SPECIAL[name] if inside is None else lambda x: SPECIAL[name](np.asarray(x, inside))
    assert search(invariant(function, PERMUTED), f.vector, sizes={"n": range(4)}).fails


def plain_softmax(x):
    return np.exp(x) / np.exp(x).sum()


FAR = Translate("x", axis=None, reach=1000.0)


@has_wide
@pytest.mark.parametrize(
    ("function", "action", "x", "g", "kind"),
    [
        (plain_softmax, FAR, [0.0, 1.0], (900.0,), "nan against 0.26"),
        (lambda x: np.prod(np.exp(500 * x)), PERMUTED, [1.0, -1.0, 1.0], (0, 2, 1), "inf against 1.4"),
        (lambda x: 1 / np.exp(-500 * x).prod(), PERMUTED, [1.0, 1.0, -1.0], (0, 2, 1), "e+217 against inf"),
    ],
)
def test_what_is_finite_on_one_side_alone_in_float64_is_a_violation(function, action, x, g, kind):
    found = check(invariant(function, action), {"x": np.array(x)}, g)
    assert found.fails
    assert found.counterexample.precision == "float64"
    assert kind in found.counterexample.reason
    assert "in float64 alone: an overflow, or the like, that longdouble does not have" in str(found)
    assert check(invariant(function, action, in_precision=lambda dtype: function), {"x": np.array(x)}, g).fails


@pytest.mark.parametrize(
    ("function", "action"),
    [
        (softmax, FAR),
        (lambda x: np.exp(500 * x).sum(), PERMUTED),  # infinite on both sides
        (lambda x: plain_softmax(500 * x).sum(), PERMUTED),  # NaN on both sides
        (lambda x: np.sqrt((x * x).mean() - x.mean() ** 2), PERMUTED),  # NaN where rounding makes a difference negative
    ],
)
def test_what_overflows_on_both_sides_agrees(function, action):
    assert not search(invariant(function, action), f.vector, sizes=SIZES, count=40).fails


@has_wide
def test_an_overflow_in_float32_alone_is_said_and_not_judged():
    function = lambda x: x.sum() / x.dtype.type(x.dtype != np.float32 or x[0] > 0)
    verdict = search(invariant(function, PERMUTED), f.vector, sizes={"n": (3,)}, structures=(), count=20)
    assert verdict.holds
    assert "what f computes in float32 alone is not judged" in str(verdict)
