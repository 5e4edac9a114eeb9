"""Every number of a format: which they are, verdicts on all of them, ranges, pairs, and float32 in parts."""

import dataclasses
import json

import numpy as np
import pytest

import refnp
from refnp import autograd, layers
from refnp.numbers.precision import FORMATS
from refnp.numbers.rounding import tolerance
from refnp.verify.bounds import errors_over_bounds
from refnp.verify.case import Case, quiet
from refnp.verify.every import asking, float32
from refnp.verify.every.numbers import MOST, NARROW, numbers_of, runs_of
from refnp.verify.excuses import Given, by_formula
from refnp.verify.frameworks import ask, inspection
from refnp.verify.layers import cases_to_ask
from tests.helpers import of_every

COUNTS = {"float8_e4m3fn": 254, "float8_e5m2": 248, "float16": 63_488, "bfloat16": 65_280}


@of_every(NARROW)
def test_all_finite_numbers_of_a_format(name):
    x = numbers_of(name)
    assert len(x) == COUNTS[name]
    np.testing.assert_array_equal(FORMATS[name].rounded(x), x)
    assert (np.diff(x) > 0).sum() == len(x) - 2  # −0 and 0 are the same
    if name in ("float16", "bfloat16"):
        bits = np.arange(2**16, dtype=np.uint32)
        every = bits.astype(np.uint16).view(np.float16) if name == "float16" else (bits << 16).view(np.float32)
        np.testing.assert_array_equal(np.sort(every[np.isfinite(every)]), x)


def rounded_once(f):
    """f of float16 by way of float64."""
    return lambda x: f(np.asarray(x, np.float64)).astype(np.float16)


def test_what_is_right_holds_on_all_numbers():
    report = refnp.judge("sigmoid", rounded_once(layers.sigmoid), every="float16")
    assert report.holds
    (found,) = report.every
    assert (found.count, found.judged, found.wrong) == (63_488, 63_488, 0)
    assert found.units <= 0.51
    assert "output: holds on all 63 488 finite numbers of float16" in str(report)


def test_gradients_of_all_numbers():
    report = refnp.judge("tanh", autograd.tanh, every="float16", gradients=True)
    assert [one.quantity for one in report.every] == ["output", "gradient of x"]
    assert report.holds


def test_wrong_numbers_are_counted_and_their_ranges_named():
    def wrong(x):
        y = rounded_once(layers.silu)(x)
        return np.where((x > 2) & (x < 3), y * np.float16(1.01), y)

    report = refnp.judge("silu", wrong, every="float16")
    (found,) = report.every
    assert not report.holds
    (part,) = found.ranges
    x = numbers_of("float16")
    assert found.wrong == part.wrong <= ((x > 2) & (x < 3)).sum()
    assert 2 < part.least < part.at < part.most < 3
    assert f"wrong on {found.wrong} of 63 488" in str(report)


def test_infinities_and_nan_are_judged():
    zero = lambda x: np.where(np.isnan(x), 0, rounded_once(layers.sigmoid)(x))
    report = refnp.judge("sigmoid", zero, every="float16")
    assert "output at nan: 0 where nan is right" in str(report)
    assert not report.holds


def test_runs_are_divided_at_the_widest_gaps():
    wrong = np.zeros(100, bool)
    wrong[[3, 4, 6, 20, 40, 41, 90]] = True
    assert list(runs_of(wrong)) == [(3, 4), (6, 6), (20, 20), (40, 41), (90, 90)]
    assert len(list(runs_of(np.arange(100) % 3 == 0))) == MOST


def test_all_pairs_of_eight_bits():
    pytest.importorskip("ml_dtypes")
    report = refnp.judge("multiply", lambda x, y: x * y, every="float8_e4m3fn")
    assert report.every[0].count == 254**2


@pytest.mark.parametrize(
    ("name", "every", "says"),
    [
        ("softmax", "float16", "softmax is no function of single numbers"),
        ("gelu", "float64", "there is no 'float64'"),
        ("maximum", "float16", "pairs can be tried in formats of 8 bits"),
    ],
)
def test_what_cannot_be_tried_is_refused(name, every, says):
    with pytest.raises(ValueError, match=says):
        refnp.judge(name, np.maximum, every=every)


@pytest.fixture
def few(monkeypatch):
    """Four of the 64 parts of float32, and of each every 2¹⁶th number."""
    draw = lambda k: lambda rng: (np.arange(2**10, dtype=np.uint32) * 2**16 + k * 2**26).view(np.float32)
    parts = lambda layer, name: [Case(layer, float32.part_name(k), {name: draw(k)}) for k in (15, 16, 31, 47)]
    monkeypatch.setattr(asking, "parts_of", parts)


def test_float32_in_parts_goes_on_from_a_file(few, tmp_path):
    file = tmp_path / "parts.jsonl"
    whole = refnp.judge("exp", np.exp, every="float32", results=file)
    assert whole.holds
    kept = file.read_text().splitlines()
    assert [json.loads(row)["name"] for row in kept] == [float32.part_name(k) for k in (15, 16, 31, 47)]
    file.write_text("\n".join(kept[:2]) + "\n")
    again = refnp.judge("exp", np.exp, every="float32", results=file)
    assert again.every == whole.every
    assert file.read_text().splitlines() == kept
    with pytest.raises(ValueError, match=r"has results of exp"):
        refnp.judge("tanh", np.tanh, every="float32", results=file)


def test_float32_says_what_is_wrong(few):
    def wrong(x):
        y = np.exp(x)
        return np.where((x > 1) & (x < 2), y * np.float32(1.0001), y)

    report = refnp.judge("exp", wrong, every="float32")
    (found,) = report.every
    assert not report.holds
    assert found.wrong == 127
    assert 1 < found.ranges[0].least < found.ranges[-1].most < 2


def test_ranges_of_negative_numbers_rise_too(few):
    wrong = lambda x: np.where(x < 0, np.exp(x) * np.float32(1.0001), np.exp(x))
    (found,) = refnp.judge("exp", wrong, every="float32").every
    ends = [x for part in found.ranges for x in (part.least, part.most)]
    assert ends == sorted(ends)
    assert ends[-1] < 0
    assert all(part.wrong <= part.count for part in found.ranges)


KNOWN = {  # of functions in 16 bits, each by a formula: refnp/verify/layers/sixteen_bits.py
    (layer.name, form, defect.framework): defect
    for layer in {case.layer.name: case.layer for case in cases_to_ask()}.values()
    for defect in layer.known
    for form in ("float16", "bfloat16")
    if form in defect.dtypes and (layer.name, form) not in (("cosh", "float16"), ("sinh", "float16"))
}


@pytest.mark.parametrize("known", KNOWN, ids=" ".join)
def test_what_is_known_in_16_bits_gives_the_very_answers(known):
    name, form, framework = known
    native = inspection.named(framework)
    pytest.importorskip(native.package)
    listed = [case for case in cases_to_ask() if case.layer.name == name]
    (case,) = asking.cases_of_every(listed[0].layer, listed, form)
    x = case.inputs["x"]
    some = np.unique([*x[::64], *x[(abs(x) > 3) & (abs(x) < 20)][::4], 89, -89, *x[-100:], *x[abs(x) < 1e-38]])
    precision = asking.precision_of(form, None)
    problem = dataclasses.replace(case, inputs={"x": some}, gradients=()).problem(precision)
    with quiet():
        given = np.asarray(ask(native, problem)["output"]).astype(np.longdouble)
        allowed = tolerance(problem.textbook[0], precision)
        _, ratio = errors_over_bounds(given, problem.reference()["output"], allowed, precision)
        wrong = np.flatnonzero(ratio > 1)
        assert wrong.size
        assert by_formula(KNOWN[known], Given(problem, "output", given))
        given[wrong[-1]] = 1.25 if given[wrong[-1]] != 1.25 else 1.5
        assert not by_formula(KNOWN[known], Given(problem, "output", given))


def test_at_infinity_the_limit_is_rounded_and_a_format_without_infinity_is_not_asked():
    torch = pytest.importorskip("torch")
    for form in ("bfloat16", "float16"):
        right = lambda x, form=form: torch.arctan(x.double()).to(getattr(torch, form))
        assert refnp.judge("arctan", right, every=form, framework="torch").holds
        off = lambda x, right=right: right(x) - (x == torch.inf).to(x.dtype) / 64
        assert not refnp.judge("arctan", off, every=form, framework="torch").holds
    pytest.importorskip("ml_dtypes")
    assert refnp.judge("negative", np.negative, every="float8_e4m3fn", framework="numpy").holds


WRONG = {  # with what is seen, and no rounding that thousands of numbers contradict
    "expm1": (lambda torch, x: torch.exp(x) - 1, "no known mistake fits"),
    "tanh": (lambda torch, x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1), "no known mistake fits"),
    "gelu": (
        lambda torch, x: torch.where(x < -4, 0, torch.nn.functional.gelu(x.double())),
        "the curve leaves the right one from x = -12 to -4.125; below -10.9 it is 0",
    ),
    "silu": (lambda torch, x: x * torch.sigmoid(x.bfloat16()).float(), "were rounded to bfloat16"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_cause_is_contradicted_by_no_number(name):
    torch = pytest.importorskip("torch")
    function, says = WRONG[name]
    wrong = lambda x: function(torch, x.float()).bfloat16()
    assert says in str(refnp.judge(name, wrong, every="bfloat16", framework="torch"))
