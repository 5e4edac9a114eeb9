"""Cases that are made from declarations: what they cover, and that refnp is right on all of them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import judge, layers
from refnp.autograd.declaration import takes
from refnp.numbers import rounding
from refnp.verify.case import Layer
from refnp.verify.judge import NOT_JUDGED, WITHIN, judged
from refnp.verify.layers import (
    LAYERS,
    attention_forms,
    cases_of,
    elementary,
    optimizers,
    probabilities,
    products,
    reductions,
    training_parts,
)
from refnp.verify.made import BLOCK, HIDDEN, LONG, STRUCTURES, made_cases
from tests.helpers import assert_same_bits, of_every

ALONE = (elementary, products, reductions, attention_forms, training_parts, optimizers, probabilities)
LISTED = {}
for case in (case for page in (*LAYERS, *ALONE) for case in cases_of(page)):
    LISTED.setdefault(case.layer.name, []).append(case)
DECLARED = [
    name for name, (case, *_) in LISTED.items() if hasattr(case.layer.function, "takes") and not case.layer.whole
]
IS_PAGE = {name: getattr(listed[0].layer.function, "kernel", True) is None for name, listed in LISTED.items()}
BY_ATTENTION = {f"{of}_attention" for of in ("additive", "alibi", "causal", "cosine", "general", "rotary", "softcap")}
every_layer = pytest.mark.parametrize("name", DECLARED)


def made(name):
    return made_cases(LISTED[name][0].layer, LISTED[name])


@every_layer
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_refnp_is_within_its_bounds(name, dtype):
    """All cases in float32; in float64 every third, as its dtypes have one page and one kernel.

    What is past all blocks tries a kernel: where there is none, a page, or one that has a name of its own, attention's,
    it is left out.
    """
    alone = IS_PAGE[name] or name in BY_ATTENTION
    for case in made(name)[:: 3 if dtype == "float64" else 1]:
        problem = case.problem(dtype)
        past_blocks = {n for array in problem.arrays.values() for n in array.shape} & {*LONG[not IS_PAGE[name] :]}
        if past_blocks and (dtype == "float64" or alone):
            continue
        with np.errstate(all="ignore"):
            right = problem.reference()
            rows = judged(problem, problem.answer(), right, "refnp", "")
        assert {row.verdict for row in rows} <= {WITHIN, NOT_JUDGED}, case.name
        same = np.isnan(problem.bounds["output"].value) == np.isnan(right["output"])
        assert np.all(same), case.name  # where the equation has no number it judges nothing


@every_layer
def test_names_tell_cases_apart(name):
    names = [case.name for case in made(name)]
    assert len(set(names)) == len(names) > 5


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "attention", "mse", "upsample"])
def test_cases_are_the_same_again(name):
    other = replace(LISTED[name][0].layer)  # what is made for another is made again
    for one, again in zip(made(name), made_cases(other, LISTED[name]), strict=True):
        assert one.name == again.name
        for a, b in zip(one.inputs.values(), again.inputs.values(), strict=True):
            assert_same_bits(a, b)


@takes(
    "query (..., N, d), key (..., M, d), bias to (..., N, M)? → (..., N, M)",
    mask="boolean to (..., N, M)?",
    scale="finite?",
    form="one | two",
)
def scores(query, key, bias=None, *, mask=None, scale=None, form="one"):
    """A function with everything that a declaration may say."""
    s = query @ key.swapaxes(-1, -2) * (1 if scale is None else scale)
    s = s if bias is None else s + bias
    return ag.where(True if mask is None else mask, s if form == "one" else 2 * s, 0)


def equation(query, key, bias=None, *, mask=None, scale=None, form="one"):
    """Its value alone."""
    s = rounding.contract("...nd,...md->...nm", query, key) * (1 if scale is None else scale)
    return s if bias is None else s + bias, None


SCORES = made_cases(Layer("scores", scores, equation), [])


def test_every_length_is_1_2_and_long():
    shapes = [case.inputs["query"].shape[-2:] + case.inputs["key"].shape[-2:-1] for case in SCORES]
    for lengths in zip(*shapes, strict=True):
        assert {1, 2} <= set(lengths)
        assert set(LONG) & set(lengths)
        assert lengths.count(BLOCK) == 1
    assert any(len(set(shape)) == 3 and min(shape) > 2 for shape in shapes)


def past_the_window(query, key, value, before, after, align="top_left", *, blocks=None):
    """Attention in a window: of keys in blocks of 16, or with all later keys where no earlier one is out of it."""
    n, m = query.shape[-2], key.shape[-2]
    offset = np.arange(m) - np.arange(n)[:, None] - (m - n if align == "bottom_right" else 0)
    if blocks is None:
        after = m if before >= m else after
        return layers.attention(query, key, value, mask=(-before <= offset) & (offset <= after))
    near = abs(np.arange(m) // blocks - np.arange(n)[:, None] // blocks) <= 1
    return layers.attention(query, key, value, mask=(-before <= offset) & (offset <= after) & near)


WRONG_IN_A_BLOCK = {
    "matmul": lambda x, y: np.matmul(x, y) * (x.shape[-2] % 128 > 0 if x.ndim > 1 else 1),
    "linear": lambda x, weight, bias=0.0: (x @ weight + bias) * (weight.shape[1] % 128 > 0),
    "attention": lambda query, key, value: layers.attention(query * (1 + (query.shape[-1] == 128)), key, value),
    "window_attention": past_the_window,
    "window_attention in blocks": partial(past_the_window, blocks=16),
}


@of_every(WRONG_IN_A_BLOCK)
def test_what_is_wrong_for_whole_blocks_or_wide_windows_alone_does_not_hold(name):
    report = judge(name.removesuffix(" in blocks"), WRONG_IN_A_BLOCK[name], framework="numpy", dtypes="float64")
    assert not report.holds
    assert all(row.case.partition("/")[2].startswith("made: ") for row in report.deviations)


def padded(function, most):
    """The function, to which what is left beyond a multiple of `most` numbers is as it was."""

    def own(*arrays, **options):
        right = np.array(function(*arrays, **options))
        whole = right.size // most * most
        right.reshape(-1)[whole:] = arrays[0].reshape(-1)[whole:]
        return right

    return own


def adam(parameter, gradient, mean, square, *, learning_rate, step, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
    """In float64, and rounded once."""
    of = parameter.dtype
    parameter, gradient, mean, square = (x.astype(float) for x in (parameter, gradient, mean, square))
    gradient = gradient + weight_decay * parameter
    mean, square = beta1 * mean + (1 - beta1) * gradient, beta2 * square + (1 - beta2) * gradient**2
    size = np.sqrt(square / (1 - beta2**step)) + eps
    return (parameter - learning_rate * mean / (1 - beta1**step) / size).astype(of)


def adam_in_fours(parameter, gradient, mean, square, *, step, **options):
    return padded(lambda *given: adam(*given, step=step, **options), 4)(parameter, gradient, mean, square)


def clipped(gradient, *, norm, of=None):
    length = np.sqrt((gradient.astype(float).reshape(-1)[: of and gradient.size // of * of] ** 2).sum())
    return gradient * gradient.dtype.type(min(1, norm / max(length, 1e-30)))


def log_sum(x, axis=-1, *, of=None):
    """The largest of the first ones is taken off."""
    most = np.nan_to_num(np.moveaxis(x, axis, -1)[..., :of].max(-1), neginf=0)
    return most + np.log(np.exp(np.moveaxis(x, axis, -1) - most[..., None]).sum(-1))


def softmax(x, axis=-1, *, of=None):
    e = np.moveaxis(x, axis, -1)
    e = np.exp(e - e[..., :of].max(-1, keepdims=True))
    return np.moveaxis(e / e.sum(-1, keepdims=True), -1, axis)


def dropped(query, key, value, keep, dropout, mask=None, *, one=False):
    keep = np.broadcast_to(keep[(0,) * (keep.ndim - 2)], keep.shape) if one else keep
    weights = layers.softmax(layers.attention_scores(query, key, mask=mask))
    return np.where(keep, weights / query.dtype.type(1 - dropout), 0) @ value


def decoded(query, key, value, cached_key, cached_value, *, kept=None):
    keys = np.concatenate([cached_key[..., kept:, :], key], -2)
    values = np.concatenate([cached_value[..., kept:, :], value], -2)
    n, m = query.shape[-2], keys.shape[-2]
    return layers.attention(query, keys, values, mask=np.tri(n, m, m - n, dtype=bool))


RIGHT_AND_WRONG = {
    "adam": (adam, adam_in_fours),
    "clip_by_norm": (clipped, partial(clipped, of=4)),
    "sum": (lambda x, axis=-1: x.sum(axis), lambda x, axis=-1: np.moveaxis(x, axis, -1)[..., :64].sum(-1)),
    "max": (lambda x, axis=-1: x.max(axis), lambda x, axis=-1: np.moveaxis(x, axis, -1)[..., :64].max(-1)),
    "logsumexp": (log_sum, partial(log_sum, of=64)),
    "softmax": (softmax, partial(softmax, of=1024)),
    "dropout_attention": (dropped, partial(dropped, one=True)),
    "decoding_attention": (decoded, partial(decoded, kept=-16)),
}


@of_every(RIGHT_AND_WRONG)
def test_what_stands_behind_a_block_counts(name):
    """The listed cases are smaller than a block, or have the largest number in front."""
    right, wrong = (judge(name, one, framework="numpy") for one in RIGHT_AND_WRONG[name])
    assert right.holds, str(right)
    assert not wrong.holds
    assert all(row.case.partition("/")[2].startswith("made: ") for row in wrong.deviations)


def test_a_class_to_ignore_may_be_no_class():
    def loss(logits, target, reduction="mean", ignore_index=None, *, signed=True):
        if np.asarray(target).dtype.kind == "f":
            raise NotImplementedError
        ignored = ignore_index if signed or (ignore_index or 0) >= 0 else None
        wrapped = np.where(target == ignored, 0, target % logits.shape[-1])
        losses = np.where(target == ignored, 0, layers.cross_entropy(logits, wrapped, reduction="none"))
        total = losses if reduction == "none" else losses.sum()
        return total / (target != ignored).sum().astype(logits.dtype) if reduction == "mean" else total

    report = judge("cross_entropy", loss, framework="numpy")
    assert report.holds, str(report)
    assert "another convention: the mean over no rows is NaN, 2 rows: " in str(report)
    assert not judge("cross_entropy", partial(loss, signed=False), framework="numpy").holds


def test_the_largest_of_a_window_may_be_nan_or_infinite():
    def largest(x, size, *, of=np.max):
        return of(np.lib.stride_tricks.sliding_window_view(x, size, -1)[..., ::size, :], -1)

    only = {"framework": "numpy", "only": "max_pool/nan and infinity*"}
    assert judge("max_pool1d", largest, **only).holds
    assert not judge("max_pool1d", partial(largest, of=np.nanmax), **only).holds
    finite = lambda x, axis: np.maximum(x.max(axis), np.finfo(x.dtype).min)
    assert not judge("max_pool1d", partial(largest, of=finite), **only).holds


def test_there_are_none_one_and_two_axes_in_front():
    assert {case.inputs["query"].ndim for case in SCORES} == {2, 3, 4}


def test_every_structure_stands_beside_defaults():
    plain = [case.variant for case in SCORES if not case.options and "bias" not in case.inputs]
    assert all(any(structure in variant for variant in plain) for structure in list(STRUCTURES)[1:])


def test_every_two_options_stand_together():
    def values(case):
        hidden = next((how for how in HIDDEN if how in case.variant), None)
        return "bias" in case.inputs, hidden, case.options.get("scale"), case.options.get("form", "one")

    found = [values(case) for case in SCORES]
    kinds = [set(kind) for kind in zip(*found, strict=True)]
    assert [len(kind) for kind in kinds] == [2, 5, 3, 2]
    for i in range(4):
        for j in range(i):
            assert {(row[i], row[j]) for row in found} == {(a, b) for a in kinds[i] for b in kinds[j]}


def test_what_is_refused_or_the_same_everywhere_is_no_case():
    @takes("x (..., D)", k="whole ≥ 1")
    def f(x, *, k=1):
        if k == 2:
            raise ValueError("f: k is 2")
        return x * (k - 1)

    cases = made_cases(Layer("f", f, lambda x, *, k=1: (x, None)), [])
    assert {case.options.get("k", 1) for case in cases if case.inputs["x"].size > 1} == {3}


@of_every(sorted(STRUCTURES))
def test_structures_keep_the_shape(structure):
    for shape in ((), (3,), (2, 3), (4, 2, 3)):
        assert np.shape(STRUCTURES[structure](np.ones(shape), 0)) == shape
