"""Every operation of every equation counts: a wrong one is beyond a bound on refnp's own cases.

A defect is planted at one place of an equation, a sum, a product, a function that is written there, whenever it is
computed: another sign, a factor or a divisor left out, the last term of a sum left out, a function off by 2⁻¹⁰. The
rest is computed in float64, correctly. About a thousand are planted in layers; HYPOTHESIS_PROFILE=thorough plants those
in the layers of models too. Lower precision inside, in sums or everywhere, is planted in every layer.
"""

import functools
import linecache
import os
import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from refnp.numbers import implementations, kinds, parts, rounded, rounding, words
from refnp.numbers.implementations import Computed, Implementation, compute, in_sequence
from refnp.numbers.rounding import tolerance
from refnp.verify import judged_pages
from refnp.verify.bounds import deviation
from refnp.verify.layers import MODELS, cases_of_layers

MODULES = (implementations, kinds, parts, rounded, rounding, words, judged_pages)
MACHINERY = {__file__, *(module.__file__ for module in MODULES)}  # what stands between an equation and its numbers
LAYERS = {}
for _case in cases_of_layers():
    LAYERS.setdefault(_case.layer.name, []).append(_case)
BY_NAME = {case.name: case for some in LAYERS.values() for case in some}
OF_MODELS = {case.layer.name for page in MODELS if hasattr(page, "cases") for case in page.cases()}
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
MOVES_NUMBERS = ("tril", "triu", "diagonal", "relu")


class Place(NamedTuple):
    """Where an operation stands: what it is, file and function, line, and instruction."""

    what: str
    file: str
    function: str
    line: int
    instruction: int


def place(what):
    """The place in an equation that is computed right now."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in MACHINERY and frame.f_code is not excess.__code__:
        frame = frame.f_back
    code = frame.f_code
    return Place(what, code.co_filename, code.co_name, frame.f_lineno, frame.f_lasti)


@dataclass(frozen=True)
class Faulty(Implementation):
    """An implementation with a defect at one place; it notes the places that it computes."""

    defect: Place | None = None
    seen: dict = field(default_factory=dict)

    @property
    def kind(self):
        return Number

    def planted(self, what):
        """Whether the operation that is computed right now is the wrong one."""
        here = place(what)
        self.seen[here] = True
        return here == self.defect


class Number(Computed):
    """A number of a faulty implementation."""

    __slots__ = ()

    def __add__(self, other):
        return Computed.__sub__(self, other) if self.by.planted("+") else Computed.__add__(self, other)

    def __sub__(self, other):
        return Computed.__add__(self, other) if self.by.planted("−") else Computed.__sub__(self, other)

    def __rsub__(self, other):
        return Computed.__add__(self, other) if self.by.planted("−") else Computed.__rsub__(self, other)

    def __mul__(self, other):
        wrong = self.by.planted("×")
        right = Computed.__mul__(self, other)
        return self.result(np.broadcast_to(self.value, right.shape)) if wrong else right

    def __truediv__(self, other):
        wrong = self.by.planted("/")
        right = Computed.__truediv__(self, other)
        return self.result(np.broadcast_to(self.value, right.shape)) if wrong else right

    __radd__, __rmul__ = __add__, __mul__

    def sum(self, axis=None, keepdims=False):
        """Without the last term, if that is the defect."""
        if not self.by.planted("Σ"):
            return Computed.sum(self, axis, keepdims)
        axes = range(len(self.shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
        last = np.zeros(self.shape, bool)
        over = {a % len(self.shape) for a in axes}
        last[tuple(slice(-1, None) if i in over else slice(None) for i in range(len(self.shape)))] = True
        return Computed.sum(self.result(np.where(last, 0, self.value)), axis, keepdims)

    @staticmethod
    def contracted(subscripts, x, y, terms):
        """Without the last of the letters that are summed over, if that is the defect."""
        one = x if isinstance(x, Computed) else y
        if one.by.planted("Σ×"):
            operands, result = subscripts.split("->")
            letters = operands.split(",")[0]
            letter = next((i for i in letters if i not in result and i != "."), None)
            if letter is not None and (one.like(x) != 0).any():
                left = np.array(one.like(x))
                left[(Ellipsis, slice(-1, None), *[slice(None)] * (len(letters) - letters.index(letter) - 1))] = 0
                x = one.result(left)
        return Computed.contracted(subscripts, x, y, terms)

    def scattered(self, places, length):
        """Without the last term, if that is the defect."""
        if not self.by.planted("Σ"):
            return Computed.scattered(self, places, length)
        return Computed.scattered(self[:-1], places[:-1], length)

    def applied(self, value, slope, units):
        """Off by 2⁻¹⁰, if that is the defect."""
        right = Computed.applied(self, value, slope, units)
        return self.result(right.value * (1 + 2.0**-10)) if self.by.planted("f") else right


@functools.cache
def problem_of(name, dtype):
    """A case with its bounds, once."""
    return BY_NAME[name].problem(dtype)


def excess(case, by, dtype="float64"):
    """The worst error over its bound; infinite if it fails."""
    problem = problem_of(case.name, dtype)
    cotangent = problem.cotangent if len(case.quantities) > 1 else None
    try:
        found = compute(case.layer.equation, by, list(problem.arrays.values()), cotangent, **case.options)
    except FloatingPointError:
        return np.inf
    computed = problem.selected(found[0], lambda: found[1:])
    return max(
        deviation(computed[quantity], bound.value, tolerance(bound, dtype), dtype)[0]
        if computed[quantity].shape == bound.shape
        else np.inf
        for quantity, bound in problem.bounds.items()
    )


@functools.cache
def places(layer):
    """{place: the cases in which it is computed}."""
    found = {}
    for case in LAYERS[layer]:
        by = Faulty("", np.float64, in_sequence)
        with np.errstate(all="ignore"):
            assert excess(case, by) <= 1
        for here in by.seen:
            found.setdefault(here, []).append(case)
    return found


def survivors(layer):
    """(how far each defect is beyond its bound in the first case that shows it, those that none shows)."""
    beyond, found = [], []
    for defect, shown in places(layer).items():
        by = Faulty("", np.float64, in_sequence, defect=defect)
        with np.errstate(all="ignore"):
            worst = next((ratio for ratio in (excess(case, by) for case in shown) if ratio > 1), 0.0)
        beyond.append(worst)
        if worst <= 1:
            found.append(defect)
    return beyond, found


# Lines in which an operation may be wrong without any harm, as they begin or as they contain: (words, operations, why)
HARMLESS = (
    ("e = np.exp(x - peak(x))", "−", "softmax is the same for any number that is subtracted, if nothing overflows"),
    ("e = np.exp(x - peak(x))", "f", "a factor of all exponentials cancels"),
    ("own = np.where(sure, p_bar, 0).sum", "Σ", "a constant in the gradient of weights changes nothing"),
    ("r = np.where(sure, 0, p_bar - own)", "−", "a constant in the gradient of weights changes nothing"),
    ("rest = np.where(top & ~nothing", "fΣ", "of the largest x − m is 0, and so is its exponential less 1"),
    ("w = (std - magnitude(difference))", "−", "w (2 − w) is the same for w = 1 + |z|, but for its digits"),
    ("once = np.ones_like(value.sum", "Σ", "a sum of which the shape alone is used"),
    (
        "parts = (column * rest",
        "Σ",
        "the last row has the 1 of the last column, and 0 in all that this is multiplied by",
    ),
    ("found, squares = [rest", "Σ", "a sum of which the shape alone is used"),
    ("scaled_bar = slope * capped_bar", "×", "the slope without a softcap, which is 1"),
    ("ahead = logits - peak(logits)", "−", "a constant in the gradient of weights changes nothing"),
    ("c = c - at_likeliest(c, log_p)", "−", "a constant in the differences of logits changes nothing"),
    (
        "c = np.where(possible, b - np.where",
        "−",
        "far differences are not used; the other form is off by a second order",
    ),
    ("difference = np.log(a) - np.log(b)", "f−", "used where a/b is out of range, as in no case"),
    ("log_small = np.where(tiny", "f×−", "used where 1/t is out of range, as in no case"),
    ("apart = np.log(np.where(near, b, 1))", "f+×−", "used where ν is below ½, as in no case"),
    ("s, slope, curvature = s", "×+", "the curvature is for the entropy alone"),
    ("curvature = curvature - 0.25", "×+/−", "the curvature is for the entropy alone"),
    ("_reduced(y * scale", "×", "what keeps squares of floats in range is 1 for other numbers"),
    ("_kept(2 * y_bar / n, axes, centred) * (centred * scale)", "×", "what keeps squares in range is 1, as above"),
    ("return np.log(k) + log1p_of(rest / k), k + rest", "/", "k is 1 but where several are the largest"),
    ("printed = e.sum(axes", "Σ", "of two forms of one sum the wider bound counts"),
    ("mean_bar, variance_bar = -x_bar.sum", "Σ×/", "the gradients of statistics, which no case asks for"),
)
UNUSED = {  # what is computed in some layers, and not used there, or divided by 1: {function: the layers}
    "soft_capped": ("softcap_attention_output", "additive_attention"),
    "log_softmax": ("categorical_entropy", "categorical_kl", "cross_entropy of probabilities"),
}


def reason(layer, defect):
    """Why a defect does no harm; None if it ought to."""
    if layer in UNUSED.get(defect.function, ()):
        return defect.function
    line = linecache.getline(defect.file, defect.line)
    return next((words for words, whats, _ in HARMLESS if words in line and defect.what in whats), None)


CHOSEN = [layer for layer in LAYERS if THOROUGH or layer not in OF_MODELS]


@pytest.fixture(scope="module")
def planted():
    """What became of the defects of each layer."""
    return {layer: survivors(layer) for layer in CHOSEN}


@pytest.mark.parametrize("layer", CHOSEN)
def test_a_defect_at_any_place_is_beyond_a_bound(layer, planted):
    beyond, found = planted[layer]
    assert beyond or layer in MOVES_NUMBERS
    assert [defect for defect in found if reason(layer, defect) is None] == []


def test_hundreds_are_planted_and_they_are_far_beyond(planted):
    beyond = np.array([worst for found, _ in planted.values() for worst in found])
    assert (beyond > 1).sum() >= 800
    assert (beyond > 1).mean() > 0.85
    assert np.median(beyond[beyond > 1]) > 1e6


def test_what_is_said_to_be_harmless_is(planted):
    """No reason is left over."""
    given = {reason(layer, defect) for layer, (_, found) in planted.items() for defect in found}
    assert given == {words for words, _, _ in HARMLESS} | set(UNUSED)


# Lower precision inside


def to_bfloat16(x):
    """float32 numbers with 8 bits, rounded to the nearest."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)


@dataclass(frozen=True)
class Lower(Implementation):
    """An implementation that rounds more than its precision does: every result, or sums."""

    lower: Any = None
    everywhere: bool = False

    def rounded(self, value):
        value = np.asarray(value, self.dtype)
        return self.lower(value).astype(self.dtype).reshape(value.shape) if self.everywhere else value

    def total(self, terms, *, fused=False):
        lower = lambda x: self.lower(x).astype(self.dtype).reshape(np.shape(x))
        return lower(in_sequence(lower(terms), lambda a, b: lower(a + b))) if len(terms) else super().total(terms)


def to_float32(x):
    return np.asarray(x).astype(np.float32)


LOWER = {
    "float32 inside float64": Lower("", np.float64, in_sequence, lower=to_float32, everywhere=True),
    "sums in float32 inside float64": Lower("", np.float64, in_sequence, lower=to_float32),
    "bfloat16 inside float32": Lower("", np.float32, in_sequence, lower=to_bfloat16, everywhere=True),
    "sums in bfloat16 inside float32": Lower("", np.float32, in_sequence, lower=to_bfloat16),
}


@pytest.mark.parametrize("name", LOWER)
@pytest.mark.parametrize("layer", CHOSEN)
def test_lower_precision_inside_is_beyond_a_bound(layer, name):
    by = LOWER[name]
    whats = {here.what for here in places(layer)}
    if not (whats if by.everywhere else whats & {"Σ", "Σ×"}):
        pytest.skip("it moves numbers, or has no sums")
    with np.errstate(all="ignore"):
        assert any(excess(case, by, np.dtype(by.dtype).name) > 1 for case in LAYERS[layer])
