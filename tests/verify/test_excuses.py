"""An excuse explains its own numbers: what is changed where a defect or another convention is known is found.

Every recorded answer that a known defect or a convention excuses is changed, by a hundredth, in its shape, or to a NaN
or an infinity that nobody's formula gives; and functions that have a known defect are made worse where they have it.
"""

import dis
import functools
import inspect
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
from refnp.layers.activation import gelu
from refnp.layers.positions.biases import alibi_slopes
from refnp.numbers import parts, rounding
from refnp.numbers.rounding import arithmetic, between, either, exact, tolerance, where
from refnp.verify import excuses
from refnp.verify.case import KnownDefect, Problem
from refnp.verify.excuses import Given, by_formula, excused_by, fingerprint
from refnp.verify.frameworks import PAGES
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, WITHIN, judged
from refnp.verify.layers import cases_of_layers, cases_to_ask, multi_head
from refnp.verify.layers.activations import printed_gelu
from refnp.verify.record import key_of
from refnp.verify.seen import recorded_answers

BY_FORMULA = {  # layers whose known defects have formulas, and how many recorded rows show them at the least
    "gelu": 80, "softmax": 90, "log_softmax": 90, "attention": 400, "layer_norm": 60, "binary_cross_entropy": 30,
    "multi_head_with_weights": 40,
}  # fmt: skip


@pytest.fixture(autouse=True)
def quietly():
    with np.errstate(all="ignore"):
        yield


@functools.cache
def excused():
    """Every recorded answer of which a row is excused: (framework, problem, reference, answer, {quantity: verdict})."""
    found = []
    with np.errstate(all="ignore"):
        for other, problem, reference, answer, rows in recorded_answers():
            verdicts = {row.quantity: row.verdict for row in rows if row.verdict in (KNOWN, CONVENTION)}
            if verdicts:
                found.append((other, problem, reference, answer, verdicts))
    return found


@functools.cache
def rows():
    """(answer, quantity), one for each excused row."""
    return [(known, quantity) for known in excused() for quantity in known[-1]]


def verdict_of(known, quantity, changed):
    """The verdict on the answer with another array in it."""
    other, problem, reference, answer, _ = known
    given_ = {**answer, quantity: changed}
    found = judged(problem, given_, reference, other.name, other.version, known=other.known_defects)
    return next(row.verdict for row in found if row.quantity == quantity)


def is_excused(known, quantity, changed):
    """Whether anything explains the array."""
    other, problem, *_ = known
    return excused_by(known_of(known, quantity), Given(problem, quantity, changed, version=other.version)) is not None


def known_of(known, quantity):
    """What is known of the framework there."""
    other, problem, *_ = known
    where = other.name, problem.dtype, quantity, problem.case.name
    return [defect for defect in (*problem.case.known_defects, *other.known_defects) if defect.covers(*where)]


def explaining(known, quantity):
    """What is known that has a formula which gives the recorded answer."""
    given_ = Given(known[1], quantity, np.asarray(known[3][quantity]))
    return [d for d in known_of(known, quantity) if d.has_formula and by_formula(d, given_)]


def test_a_recorded_answer_that_is_changed_by_a_hundredth_is_found():
    """All elements of an array at once, of every sixth array; nothing of it is excused any more."""
    assert len(rows()) > 2400
    missed, changed = [], 0
    for number, (known, quantity) in enumerate(rows()[::6]):
        array = np.asarray(known[3][quantity])
        if not (np.isfinite(array) & (array != 0)).any():
            continue  # a hundredth of nothing
        changed += 1
        if is_excused(known, quantity, array * array.dtype.type((0.99, 1.01)[number % 2])):
            missed.append((known[0].name, known[1].case.name, known[1].dtype, quantity))
    assert changed > 350
    assert missed == []


@given(st.data())
def test_a_single_element_that_is_changed_is_found(data):
    """By a hundredth and more, to a NaN, to an infinity; or the shape."""
    known, quantity = data.draw(st.sampled_from(rows()))
    array = np.array(known[3][quantity])
    how = data.draw(st.sampled_from(["shape", "nan", "inf", "factor"]))
    if how == "shape":
        assert verdict_of(known, quantity, array[..., None]) == DEVIATES
        return
    places = np.argwhere(np.isfinite(array) & (array != 0) if how == "factor" else np.isfinite(array))
    if not len(places):
        return
    place = tuple(places[data.draw(st.integers(0, len(places) - 1))])
    factor = data.draw(st.sampled_from([0.5, 0.99, 1.01, 2.0, -1.0]))
    array[place] = {"nan": np.nan, "inf": np.inf, "factor": array[place] * factor}[how]
    assert verdict_of(known, quantity, array) == DEVIATES


@given(st.data())
def test_a_formula_excuses_no_nan_and_no_infinity_that_it_does_not_give(data):
    """The same of formulas alone, as of functions that are not recorded."""
    known, quantity = data.draw(st.sampled_from(rows()))
    defects, array = explaining(known, quantity), np.array(known[3][quantity])
    places = np.argwhere(np.isfinite(array))
    if not defects or not len(places):
        return
    place = tuple(places[data.draw(st.integers(0, len(places) - 1))])
    array[place] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e30]))
    for defect in defects:
        assert not by_formula(defect, Given(known[1], quantity, array))
        assert not by_formula(defect, Given(known[1], quantity, array[..., None]))


@pytest.mark.parametrize("layer", BY_FORMULA)
def test_formulas_explain_what_was_recorded(layer):
    """Nearly all rows are within the bound of a formula, which the numbers seen are not needed for."""
    own = [(known, quantity) for known, quantity in rows() if known[1].case.layer.name == layer]
    assert sum(bool(explaining(*row)) for row in own) >= BY_FORMULA[layer]


def test_what_is_seen_and_not_explained_is_rare():
    alone = [known[0].name for known, quantity in rows() if not explaining(known, quantity)]
    assert len(alone) < 40
    assert not {"PyTorch", "JAX"} & set(alone), "which answer live"


def test_the_file_of_what_was_seen_is_that_of_the_recordings():
    found = {}
    for (other, problem, _, answer, _), quantity in rows():
        known, array = (*problem.case.known_defects, *other.known_defects), np.asarray(answer[quantity])
        if excuses.is_to_be_seen(known, other.name, Given(problem, quantity, array)):
            found.setdefault(other.name, {})[f"{key_of(problem)}: {quantity}"] = fingerprint(array)
    assert found == excuses.fingerprints(), "out of date: python -m refnp.verify.seen --write"


def test_a_fingerprint_is_of_numbers_type_and_shape():
    x = np.array([1.0, np.nan, 0.0])
    assert fingerprint(x) == fingerprint(np.array([1.0, -np.nan, -0.0]))
    others = [x.astype("f"), x[None], np.array([1.0, np.inf, 0.0]), np.array([np.nextafter(1, 2), np.nan, 0.0])]
    assert len({fingerprint(a) for a in (x, *others)}) == 5


# Functions of one's own


@given(
    st.floats(-30, -3),
    st.sampled_from(["constant", "factor", "nan", "inf"]),
    st.sampled_from([1e-2, -1e-2, 0.5, 7.0, -50.0]),
)
def test_a_gelu_that_is_worse_than_the_known_one_deviates(below, how, size):
    """PyTorch's left tail lost its digits; it is no licence for the left tail."""
    torch = pytest.importorskip("torch")

    def worse(x, approximate="none"):
        y = torch.nn.functional.gelu(x, approximate=approximate)
        other = {"constant": y + size, "factor": y * (1 + 1e6 * size) + size, "nan": y * np.nan, "inf": y / 0}[how]
        return torch.where(x < below, other, y)

    assert not refnp.judge("gelu", worse, excused=("PyTorch",))
    assert refnp.judge("gelu", torch.nn.functional.gelu, excused=("PyTorch",))


def test_other_mistakes_are_not_the_known_defect():
    torch = pytest.importorskip("torch")

    def clipped(logits, targets, *, reduction="mean"):
        p = torch.softmax(logits, -1).clamp(min=1e-7)
        loss = -torch.log(p[torch.arange(len(targets)), targets])
        return {"mean": loss.mean(), "sum": loss.sum(), "none": loss}[reduction]

    of_softmax = refnp.judge("log_softmax", lambda x, axis=-1: torch.log(torch.softmax(x, axis)), excused=("PyTorch",))
    assert not of_softmax
    assert any(row.claimed == -math.inf for row in of_softmax.deviations)
    assert not refnp.judge("cross_entropy", clipped, gradients=True, excused=("PyTorch",))
    own = refnp.judge("log_softmax", lambda x, axis=-1: torch.log_softmax(x, axis), excused=("PyTorch",))
    assert own
    assert {row["verdict"] for row in own.rows} == {WITHIN, KNOWN}


@pytest.mark.parametrize("precision", [None, "float16", "bfloat16"])
def test_a_convention_is_one_in_every_precision(precision):
    """The least finite number where a mask hides: a row that may attend to nothing gets the mean of all values."""
    torch = pytest.importorskip("torch")
    if precision == "bfloat16":
        pytest.importorskip("ml_dtypes")

    def least(query, key, value, mask=None):
        s = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        return (s if mask is None else s.masked_fill(~mask, torch.finfo(s.dtype).min)).softmax(-1) @ value

    def first(query, key, value, mask=None):
        y = least(query, key, value, mask)
        return y if mask is None else torch.where(torch.as_tensor(mask).any(-1, keepdim=True), y, value[..., :1, :])

    right = refnp.judge("attention", least, framework="torch", precision=precision)
    assert right
    assert CONVENTION in {row["verdict"] for row in right.rows}
    assert not refnp.judge("attention", first, framework="torch", precision=precision)


@pytest.mark.parametrize(("of_nothing", "holds"), [("mean", True), ("first", False)])
def test_a_convention_is_one_in_listed_cases_as_in_made_ones(of_nothing, holds):
    """Queries that see no key stand in a listed case, and in made ones: the mean of all values, or the first."""

    def causal(query, key, value, align="top_left"):
        n, m = query.shape[-2], key.shape[-2]
        seen = np.tri(n, m, m - n if align == "bottom_right" else 0, dtype=bool)
        scores = np.where(seen, query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype), -1e30)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        y = (e / e.sum(-1, keepdims=True)).astype(query.dtype) @ value
        return y if of_nothing == "mean" else np.where(seen.any(-1)[:, None], y, value[..., :1, :])

    report = refnp.judge("causal_attention", causal, only="*bottom*right*", seconds=0)
    assert report.holds == holds
    others = {row.case for row in report.judgements if row.verdict == CONVENTION}
    assert (holds, holds) == tuple(any(("made" in case) == made for case in others) for made in (True, False))


def test_a_convention_is_tried_again_where_it_was_not_for_it_had_explained_nothing(monkeypatch):
    """NaN behind a mask comes through in every case, with whatever many numbers, and a wrong number is none of it."""
    monkeypatch.setattr(excuses, "VAIN", 1)

    def alibi(query, key, value, mask=None, steeper=1):
        n, m, slopes = query.shape[-2], key.shape[-2], alibi_slopes(query.shape[-3])[:, None, None]
        away = (slopes * abs(np.arange(n)[:, None] - np.arange(m))).astype(query.dtype)
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype) - steeper * away
        scores = scores if mask is None else np.where(mask, scores, -np.inf)
        e = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), np.finfo(scores.dtype).min))
        return e / np.maximum(e.sum(-1, keepdims=True), np.finfo(scores.dtype).tiny) @ value

    report = refnp.judge("alibi_attention", alibi, only="*NaN*value*", seconds=0)
    assert report.holds
    assert {row.verdict for row in report.judgements} == {CONVENTION}
    steeper = lambda query, key, value, mask=None: alibi(query, key, value, mask, 2)
    assert not refnp.judge("alibi_attention", steeper, only="*NaN*key*", seconds=0).holds


# Kinks


def relu_with(slope):
    """relu of PyTorch whose gradient at 0 is another."""
    torch = pytest.importorskip("torch")

    class Relu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, bar):
            (x,) = ctx.saved_tensors
            return bar * torch.where(x > 0, 1.0, torch.where(x == 0, slope, 0.0)).to(bar.dtype)

    return Relu.apply


@given(
    st.sampled_from([0.0, 1.0]) | st.floats(0.001, 1) | st.floats(-20, -0.01) | st.floats(1.01, 20) | st.just(np.nan)
)
def test_a_subgradient_is_a_convention_and_what_lies_outside_is_wrong(slope):
    report = refnp.judge("relu", relu_with(slope), gradients=True)
    assert bool(report) == report.holds == (0 <= slope <= 1)
    others = {row.issue for row in report.judgements if row.verdict == CONVENTION}
    assert others == ({"another subgradient at a kink"} if 0 < slope <= 1 else set())


@pytest.mark.parametrize(("share", "holds"), [("first", True), ("last", True), ("even", True), ("twice", False)])
def test_ties_of_a_maximum_may_share(share, holds):
    """The first or the last of equals, or all alike; none may get more than there is."""
    x = np.array([[[1.0, 1.0, 0.0, 2.0]]])
    bar = np.array([[[3.0, -2.0]]])
    to = {"first": [3, 0], "last": [0, 3], "even": [1.5, 1.5], "twice": [6, 0]}[share]
    answer = {"output": np.array([[[1.0, 2.0]]]), "gradient of x": np.array([[[*to, 0.0, -2.0]]])}
    if holds:
        refnp.assert_close("max_pool", answer, {"x": x}, cotangent=bar, size=2)
    else:
        with pytest.raises(AssertionError, match="gradient of x"):
            refnp.assert_close("max_pool", answer, {"x": x}, cotangent=bar, size=2)


# Parts, and numbers in several forms


def test_a_part_is_exchanged_in_an_equation_and_its_pullback():
    @parts.part
    def half(x):
        return x / 2

    def equation(x):
        return half(x) + 1, lambda g: (half(g),)

    y, pullback = parts.with_parts(equation, {half: lambda x: half(x) * 3})(8.0)
    assert (y, pullback(2.0)) == (13.0, (3.0,))
    assert equation(8.0)[0] == 5.0, "for that call alone"


def test_the_bound_of_several_forms_is_that_of_the_worst():
    x = exact(np.array([1.0, 1e8]), arithmetic("float32"))
    forms = lambda: x, lambda: (x + 1) - 1
    both = either(*forms)
    np.testing.assert_array_equal(both.value, x.value)
    np.testing.assert_array_equal(both.error, np.maximum(*(form().error for form in forms)))


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-2, 3))
def test_between_is_a_bound_on_what_lies_between(a, b, share):
    judged_ = arithmetic("float32")
    middle = between(exact(np.array(a), judged_), exact(np.array(b), judged_))
    off = abs(a + share * (b - a) - middle.value) / np.maximum(tolerance(middle, "float32"), 1e-300)
    assert off <= 1 or not 0 <= share <= 1
    assert off > 1 or -1e-3 <= share <= 1.001 or abs(a - b) < 1e-30


def test_the_formula_of_gelu_is_the_gelu_with_a_wider_bound():
    x = exact(np.linspace(-12, 4, 33), arithmetic("float32"))
    for approximate in ("none", "tanh"):
        (right, _), (printed, _) = (f(x, approximate=approximate) for f in (gelu.page, printed_gelu))
        np.testing.assert_allclose(printed.value.astype(float), right.value.astype(float), atol=1e-17)
        ratio = tolerance(printed, "float32") / tolerance(right, "float32")
        assert ratio[0] > 1e15
        assert ratio[-1] < 4


def test_a_formula_computes_with_every_option_that_it_takes():
    """What leaves an option out is the formula of another function, unless it is known of the cases that are named."""
    listed = [d for case in cases_to_ask() for d in (*case.known_defects, *case.layer.known)]
    known = {id(d): d for d in (*listed, *(d for page in PAGES.values() for d in page.KNOWN))}.values()
    formulas = {getattr(d.equation, "func", d.equation) for d in known if d.equation is not None and not d.cases}
    assert len(formulas) > 20
    unread = []
    for formula in formulas:
        code = inspect.unwrap(formula).__code__
        inner = [part for part in code.co_consts if hasattr(part, "co_code")]
        read = {i.argval for part in (code, *inner) for i in dis.get_instructions(part) if i.opname.startswith("LOAD_")}
        read |= {name for names in read if isinstance(names, tuple) for name in names}
        options = [p.name for p in inspect.signature(formula).parameters.values() if p.kind is p.KEYWORD_ONLY]
        unread += [(formula.__name__, name) for name in options if name not in read]
    assert unread == []


@pytest.mark.parametrize(("asked", "holds"), [("none", True), ("tanh", False)])
def test_what_is_known_of_one_form_excuses_no_other(torch, asked, holds):
    """PyTorch's overflow of x (1 + erf) says nothing of where tanh is asked for."""

    def of_erf(x, approximate="none"):
        return torch.nn.functional.gelu(x, approximate="none")

    only = "gelu/far left" if asked == "none" else "gelu/made: approximate = 'tanh'"
    report = refnp.judge("gelu", of_erf, dtypes="float32", only=only, excused=("PyTorch",), framework="torch")
    assert report.holds == holds
    assert not any("known of PyTorch" in cause.says for cause in report.causes)


@pytest.mark.parametrize("own", [True, False])
def test_a_gradient_that_a_framework_has_right_is_not_excused_as_its_defect(torch, own):
    """PyTorch's gradient of targets is −x; the difference of two logarithms loses the digits of a small one."""

    def mine(logits, targets, reduction="mean"):
        zero = torch.zeros_like(logits)
        terms = targets * torch.logaddexp(zero, -logits) + (1 - targets) * torch.logaddexp(zero, logits)
        return terms if reduction == "none" else getattr(terms, reduction)()

    function = torch.nn.functional.binary_cross_entropy_with_logits if own else mine
    options = {"gradients": True, "only": "*t[ai][in][ly]*", "framework": "torch"}
    report = refnp.judge("binary_cross_entropy", function, excused=("PyTorch",), dtypes="float64", **options)
    assert report.holds == own
    assert {row.quantity for row in report.deviations} == (set() if own else {"gradient of targets"})
    assert not any("known of" in cause.says or "probabilities" in cause.says for cause in report.causes)
    assert own == (KNOWN in {row.verdict for row in report.judgements})


def test_a_defect_without_a_formula_excuses_only_what_was_seen():
    problem = next(case for case in cases_of_layers() if case.name == "gelu/far left").problem("float32")
    reference = problem.reference()
    nothing = KnownDefect("Other", "them#1", "bad")
    wrong = reference | {"output": np.float32(reference["output"]) + 1}
    assert judged(problem, wrong, reference, "Other", "1", known=(nothing,))[0].verdict == DEVIATES


def test_kinks_are_where_x_is_zero():
    x = exact(np.array([-1.0, 0.0, 1.0]), arithmetic("float64"))
    sides = exact(np.full(3, 5.0)), exact(np.full(3, 1.0))
    of_page = lambda x: np.where(x > 0, *sides)
    np.testing.assert_array_equal(parts.with_parts(of_page, excuses.SUBGRADIENT.parts)(x).value, [1, 3, 5])
    np.testing.assert_array_equal(np.where(x > 0, 5, 1).value, [1, 1, 5])
    assert where is rounding.where


def test_a_formula_that_explains_nothing_is_not_computed_again_for_many_numbers(monkeypatch):
    tried = []
    monkeypatch.setattr(excuses, "excuses", lambda *of: tried.append(of))
    case = next(case for case in cases_of_layers() if case.layer.name == "relu")
    small, large = (
        Problem(case, "float64", {"x": np.zeros(size)}, np.random.default_rng(0)) for size in (3, excuses.MANY + 1)
    )
    vain = Counter()
    for problem in [large] * (excuses.VAIN + 2) + [small]:
        excuses.explaining([excuses.SUBGRADIENT], Given(problem, "output", np.zeros(3)), vain)
    assert len(tried) == excuses.VAIN + 1
    monkeypatch.setattr(excuses, "excuses", lambda *of: True)
    for problem in (small, large):
        assert excuses.explaining([excuses.SUBGRADIENT], Given(problem, "output", np.zeros(3)), vain)


def test_a_convention_says_nothing_of_a_case_whose_options_it_does_not_take():
    """That an axis is copied whose factor leaves its length is asked of made cases too, where a size is given."""

    def nearest(x, *, size=None, factor=None, mode="nearest", align_corners=False):
        return np.asarray(refnp.layers.upsample(x, size=size, factor=factor, mode=mode, align_corners=align_corners))

    options = {"only": "upsample/made*", "dtypes": ("float32",), "framework": "numpy"}
    assert refnp.judge("upsample", nearest, **options).holds
    report = refnp.judge("upsample", lambda x, **of: nearest(x, **of) * np.asarray(1.25, x.dtype), **options)
    assert not report.holds
    assert any("size" in problem.case.options for problem in report.problems)


def test_a_defect_of_one_element_is_said_of_no_longer_row(torch):
    """The gain's gradient is ȳ x̂ = ȳ (x − μ)/√(σ² + ε): without ε it is another function, and none of PyTorch's."""

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, gain, shift, eps):
            ctx.save_for_backward(x)
            return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, shift, eps)

        @staticmethod
        def backward(ctx, bar):
            (x,) = ctx.saved_tensors
            return None, bar * (x - x.mean(-1, keepdim=True)) / x.std(-1, correction=0, keepdim=True), bar, None

    of_gain = lambda x, gain, shift, eps=1e-5: Norm.apply(x, gain, shift, eps)
    options = {"excused": ("PyTorch",), "gradients": True, "dtypes": ("float32",), "framework": "torch"}
    report = refnp.judge("layer_norm", of_gain, only="*made: eps = 0.1", **options)
    assert "gradient of gain" in {row.quantity for row in report.deviations}
    right = torch.nn.functional.layer_norm
    report = refnp.judge("layer_norm", lambda x, *p, **of: right(x, x.shape[-1:], *p, **of), **options)
    assert report.holds
    assert {row.issue for row in report.judgements} == {"", "pytorch/pytorch#188372"}


def kinked(function, gradients):
    """The function with gradients of its arguments by a formula of the arguments, the output and its gradient."""
    torch = pytest.importorskip("torch")

    class Kinked(torch.autograd.Function):
        @staticmethod
        def forward(context, *arguments):
            context.save_for_backward(*arguments, y := function(*arguments))
            return y

        @staticmethod
        def backward(context, bar):
            return tuple(gradients(*context.saved_tensors, bar))

    return Kinked.apply


def of_equals(share):
    """What of the gradient each of a row gets: a function of who is the largest, and of how many there are."""
    return lambda x, y, bar: [bar[..., None] * share(x == y[..., None], (x == y[..., None]).sum(-1, keepdim=True))]


def of_two(to_x, to_y):
    """What of the gradient each of two equal numbers gets."""
    return lambda x, y, z, bar: [bar * ((x > y) + to_x * (x == y)), bar * ((x < y) + to_y * (x == y))]


SHARES = {  # of equals, and whether they are together the whole
    "equal": (lambda equal, n: equal / n, True),
    "to the first": (lambda equal, n: (equal.cumsum(-1) == 1) & equal, True),
    "to the last": (lambda equal, n: (equal.flip(-1).cumsum(-1).flip(-1) == 1) & equal, True),
    "all to each": (lambda equal, n: equal * 1.0, False),
    "nothing": (lambda equal, n: equal * (n == 1), False),
    "twice, and less than nothing": (lambda equal, n: equal * (1 - (n > 1) * (2 - 3 * (equal.cumsum(-1) == 1))), False),
}


@pytest.mark.parametrize("name", SHARES)
def test_equals_have_all_of_a_gradient_together(name):
    share, whole = SHARES[name]
    own = kinked(lambda x: x.amax(-1), of_equals(share))
    report = refnp.judge("max", lambda x: own(x), gradients=True, framework="torch", seconds=0)
    assert report.holds == whole
    assert {row.case for row in report.deviations} <= {"max/equal numbers"}
    assert (name == "equal") == ({row.verdict for row in report.judgements} == {WITHIN})


@pytest.mark.parametrize(("to_x", "to_y"), [(0.5, 0.5), (1, 0), (0, 1), (0.25, 0.75), (1, 1), (0, 0), (2, -1)])
def test_two_equal_numbers_have_all_of_a_gradient_together(to_x, to_y):
    torch = pytest.importorskip("torch")
    own = kinked(torch.maximum, of_two(to_x, to_y))
    report = refnp.judge("maximum", lambda x, y: own(x, y), gradients=True, framework="torch", only="maximum/equal*")
    assert report.holds == (to_x + to_y == 1 and 0 <= to_x <= 1)


@pytest.mark.parametrize("slope", [0, 0.5, -1, 1.5, math.nan])
def test_a_slope_of_the_absolute_value_is_at_most_one(slope):
    torch = pytest.importorskip("torch")
    own = kinked(torch.abs, lambda x, y, bar: [bar * torch.where(x == 0, slope, x.sign())])
    report = refnp.judge("absolute", lambda x: own(x), gradients=True, framework="torch", only="absolute/around zero")
    assert report.holds == (abs(slope) <= 1)


@pytest.mark.parametrize("to_all", [False, True])
def test_windows_give_the_whole_of_a_gradient_to_equals(to_all):
    """As PyTorch, to the first, or to each of them."""
    torch = pytest.importorskip("torch")

    def gradients(x, y, bar):
        windows = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            equal = windows.unfold(-1, 3, 1) == y[..., None]
            chosen = equal if to_all else (equal.cumsum(-1) == 1) & equal
            (windows.unfold(-1, 3, 1) * chosen * bar[..., None]).sum().backward()
        return [windows.grad]

    own = kinked(lambda x: x.unfold(-1, 3, 1).amax(-1), gradients)
    report = refnp.judge(
        "max_pool1d", lambda x, size, stride: own(x), gradients=True, framework="torch", only="max_pool/equal numbers"
    )
    assert report.holds != to_all


def test_a_defect_of_a_part_shows_in_what_is_made_of_it_on_a_tape():
    """A softmax whose row of nothing is NaN, in attention of several heads, which forms its own in other ways too."""
    case = next(case for case in multi_head.cases() if case.known_defects == (multi_head.MHA_MASKED_ROW,))
    value, _ = multi_head.MHA_MASKED_ROW.bounds(case.problem("float32"), "float32")["output"]
    assert np.isnan(value[:, 1]).all()
    assert np.isfinite(np.delete(value, 1, axis=1)).all()


def test_what_is_known_of_another_layer_excuses_nothing_here_and_is_said():
    report = refnp.judge("tanh", np.tanh, excused=("pytorch/pytorch#187806", "PyTorch"), dtypes="float64")
    assert report.assumed == ["excused names pytorch/pytorch#187806, which nothing that is asked here is known for"]


def test_a_convention_is_one_though_a_known_defect_hides_it_in_another_precision(jax):
    report = refnp.judge("attention", jax.nn.dot_product_attention, only="attention/everything masked")
    verdicts = {row["dtype"]: row["verdict"] for row in report.rows}
    assert verdicts["float32"] == "another convention"
