"""Cases that are made from declarations: what they cover, and that refnp is right on all of them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import judge, layers
from refnp.autograd.declaration import takes
from refnp.numbers import rounding
from refnp.verify import findings
from refnp.verify.case import Layer
from refnp.verify.judge import NOT_JUDGED, WITHIN, judged
from refnp.verify.layers import (
    LAYERS,
    attention_forms,
    cases_of,
    elementary,
    elsewhere,
    optimizers,
    probabilities,
    products,
    reductions,
    training_parts,
)
from refnp.verify.made import BLOCK, HIDDEN, LONG, STRUCTURES, made_cases
from tests.helpers import assert_same_bits, of_every

ALONE = (elementary, products, reductions, attention_forms, training_parts, optimizers, probabilities, elsewhere)
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
def test_every_case_has_the_lengths_that_are_declared(name):
    for case in (*LISTED[name], *made(name)):
        findings.lengths(case.problem("float32"))


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


def upsampled(x, factor=None, size=None, mode="nearest", align_corners=False, *, by_lengths=False):
    """Nearest places, i/f; or i n/P, which is another ratio where n f is not whole."""
    if mode != "nearest" or factor is None:
        raise NotImplementedError
    factors = factor if isinstance(factor, tuple) else (factor,) * (x.ndim - 2)
    for axis, f in enumerate(factors, x.ndim - len(factors)):
        n, p = x.shape[axis], int(x.shape[axis] * f)
        x = x.take(np.minimum(np.floor(np.arange(p) * (n / p if by_lengths else 1 / f)).astype(int), n - 1), axis)
    return x


def rotated(x, places=None, layout="interleaved", features=None, base=10000, *, wrong="", kept=None):
    """Angles in the widest precision; those of one call are kept by the shape alone where there is a place for them."""
    d = x.shape[-1] if features is None else features
    of_angles = x.shape[-1] if wrong == "frequencies of all features" else d
    at = np.asarray(places if kept is None else kept.setdefault((x.shape, layout, d, base), places))
    at = at[0] if wrong == "places of the first sequence" and at.ndim == 2 else at
    angles = at[..., None] * np.longdouble(base) ** (-2 * np.arange(d // 2) / np.longdouble(of_angles))
    angles = angles.reshape(*at.shape[:-1], *(1,) * (x.ndim - at.ndim - 1) * (at.ndim > 1), *angles.shape[-2:])
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    neighbours = layout == "interleaved" or (wrong == "neighbours among some" and d < x.shape[-1])
    even, odd = (slice(0, d, 2), slice(1, d, 2)) if neighbours else (slice(0, d // 2), slice(d // 2, d))
    y = x.copy()
    y[..., even], y[..., odd] = x[..., even] * cos - x[..., odd] * sin, x[..., even] * sin + x[..., odd] * cos
    return y


def divergence(log_probabilities, targets, reduction="mean", *, of_zero=0.0):
    losses = np.where(targets > 0, targets * (np.log(targets) - log_probabilities), of_zero)
    many = {"mean": losses.size, "batchmean": len(losses), "sum": 1}
    return losses if reduction == "none" else losses.sum(-1) if reduction == "rows" else losses.sum() / many[reduction]


def descended(parameter, gradient, velocity=None, *, momentum, learning_rate, step=2, wrong="", **options):
    """SGD with dampening from the second step on, and weight decay that is a part of the gradient."""
    decay, dampening = options.get("weight_decay", 0), options.get("dampening", 0)
    g = gradient if wrong == "decay" else gradient + decay * parameter
    v = g * (1 - dampening) if step > 1 or wrong == "step" else g
    v = v if velocity is None else momentum * velocity + v
    v = v + decay * parameter if wrong == "decay" else v
    return parameter - learning_rate * (gradient + decay * parameter + momentum * v if options.get("nesterov") else v)


def reduced(losses, reduction):
    return losses if reduction == "none" else getattr(losses, reduction)()


def of_probabilities(probabilities, targets, reduction="mean", positive_weight=1.0, *, least=0.0):
    p = np.clip(probabilities, least, 1 - least)
    return reduced(-positive_weight * targets * np.log(p) - (1 - targets) * np.log1p(-p), reduction)


def of_std(mean, std, y, reduction="mean", *, least=0.0):
    std = np.maximum(std, least)
    return reduced(((y - mean) / std) ** 2 / 2 + np.log(std) + np.log(2 * np.pi) / 2, reduction)


def of_log_variance(mean, log_variance, y, reduction="mean", *, most=np.inf):
    v = np.clip(log_variance, -most, most)
    return reduced((y - mean) ** 2 / 2 * np.exp(-v) + v / 2 + np.log(2 * np.pi) / 2, reduction)


def t5(query, key, value, table, bidirectional=True, mask=None, *, most=1):
    """Distances from 6 on are in the last bucket."""
    offsets, buckets = np.arange(key.shape[-2]) - np.arange(query.shape[-2])[:, None], table.shape[-1]
    buckets = buckets // 2 if bidirectional else buckets
    later, far = (offsets > 0) * buckets, abs(offsets) if bidirectional else np.maximum(-offsets, 0)
    few = buckets // 2
    ratio = np.log(np.maximum(far, 1) / few) / np.log(6 / few)
    places = np.where(far < few, far, np.minimum(few + (ratio * (buckets - few) + 1e-9).astype(int), buckets - most))
    bias = table[:, np.minimum(places + (later if bidirectional else 0), table.shape[-1] - 1)]
    scores = np.where(True if mask is None else mask, query @ key.swapaxes(-1, -2) + bias, -np.inf)
    e = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300) @ value


def of_classes(log_probabilities, targets, reduction="mean", class_weights=None, ignore_index=None, *, counted=False):
    """Where the mean divides by the weights of rows that are ignored too, they are counted."""
    keep = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    t = np.where(keep, targets, 0)
    w = np.ones(log_probabilities.shape[-1]) if class_weights is None else class_weights
    losses = -np.take_along_axis(log_probabilities, t[..., None], -1)[..., 0] * w[t] * keep
    count = w[t].sum() if counted and class_weights is not None else (w[t] * keep).sum() or 1
    return losses.sum() / count if reduction == "mean" else reduced(losses, reduction)


OF_ENDS = {  # right, and wrong where an option, a pair of options, a place or a number is at its end
    "upsample": (upsampled, partial(upsampled, by_lengths=True)),
    "rotate": (
        rotated,
        *(partial(rotated, wrong=w) for w in ("frequencies of all features", "places of the first sequence")),
        partial(rotated, wrong="neighbours among some"),
        partial(rotated, kept={}),
    ),
    "kl_div of log-probabilities": (divergence, partial(divergence, of_zero=np.nan)),
    "sgd": (descended, *(partial(descended, wrong=wrong) for wrong in ("decay", "step"))),
    "binary_cross_entropy of probabilities": (of_probabilities, partial(of_probabilities, least=1e-7)),
    "gaussian_nll": (of_std, partial(of_std, least=1e-3)),
    "gaussian_nll of log-variance": (of_log_variance, partial(of_log_variance, most=10)),
    "t5_attention": (t5, partial(t5, most=-9)),
    "nll of log-probabilities": (of_classes, partial(of_classes, counted=True)),
}


@pytest.mark.parametrize("name", OF_ENDS)
def test_what_is_wrong_at_an_end_alone_does_not_hold(name):
    far = ("*far places*",) if name == "rotate" else ()  # these angles are those of NumPy's widest precision
    asked = {"framework": "numpy", "dtypes": "float64", "skip": ("*1027*", "*67*", *far)}
    right, *wrong = OF_ENDS[name]
    report = judge(name, right, **asked)
    assert report.holds, str(report)
    assert not any(judge(name, one, **asked).holds for one in wrong)


def rows_of(function, table, tokens, padding_index=None, *, right):
    """The gradient of rows of a table, in which that of padding is 0; it may be counted from the last row."""

    def pullback(y_bar):
        found = np.zeros_like(table)
        np.add.at(found, tokens, y_bar)
        if padding_index is not None and (right or padding_index >= 0):
            found[padding_index] = 0
        return found

    return table[tokens], pullback


def length_of(function, x, axis=-1, *, right):
    """ȳ x/‖x‖, which is 0 at the kink."""
    y = np.sqrt((x * x).sum(axis, keepdims=True))
    slope = x / np.where(right & (y == 0), 1, y)
    return y.squeeze(axis), lambda y_bar: np.expand_dims(y_bar, axis) * slope


@pytest.mark.parametrize(
    ("name", "function", "pair"),
    [
        ("embedding", lambda table, tokens, padding_index=None: table[tokens], rows_of),
        ("norm", lambda x, axis=-1: np.sqrt((x * x).sum(axis)), length_of),
    ],
)
def test_a_gradient_that_is_wrong_at_an_end_alone_does_not_hold(name, function, pair):
    asked = {"framework": "numpy", "dtypes": "float64"}
    assert judge(name, function, vjp=partial(pair, right=True), **asked).holds
    assert not judge(name, function, vjp=partial(pair, right=False), **asked).holds


def halved(*arrays):
    """Numbers that came through float16, which is infinite from 65520 on."""
    return [x.half().double() for x in arrays]


def log_of_blocks(x):
    """log Σ exp x, whose sum is kept in bfloat16 between blocks of 16: it grows no more at 4096."""
    most = x.float().amax(-1, keepdim=True)
    total = 0 * most[..., 0]
    for block in (x.float() - most).exp().split(16, -1):
        total = (total + block.sum(-1)).bfloat16().float()
    return (most[..., 0] + total.log()).to(x.dtype)


def attended(q, k, v):
    q, k, v = halved(q, k, v)
    return ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).bfloat16()


def of_half_variance(x, gain, shift):
    """A norm whose variance may be infinite."""
    axes = tuple(range(-gain.ndim, 0))
    centred = x.double() - x.double().mean(axes, keepdim=True)
    (variance,) = halved((centred * centred).mean(axes, keepdim=True))
    return (centred / (variance + 1e-5).sqrt() * gain.double() + shift.double()).to(x.dtype)


def in_blocks(query, key, value):
    """Attention whose sum and output are kept in bfloat16 between blocks of 16 keys: neither grows from 4096 on."""
    scores = (query.float() @ key.float().mT / query.shape[-1] ** 0.5).exp()
    total, output = 0.0, 0.0
    for p, v in zip(scores.split(16, -1), value.float().split(16, -2), strict=True):
        total = (total + p.sum(-1, keepdim=True)).bfloat16().float()
        output = (output + p.bfloat16().float() @ v).bfloat16().float()
    return (output / total).to(query.dtype)


OVERFLOWS = ("*far*", "*1000*", "*large*", "*huge*", "*saturated*", "*mean 1e4*")  # of exponentials of such scores
BFLOAT16, FLOAT16 = (f"{form} in and out, float32 inside" for form in ("bfloat16", "float16"))
NARROW = [
    ("softmax", BFLOAT16, lambda x: halved(x)[0].softmax(-1).bfloat16()),
    ("linear", BFLOAT16, lambda x, weight: (halved(x)[0] @ halved(weight)[0]).bfloat16()),
    ("add", BFLOAT16, lambda x, y: sum(halved(x, y)).bfloat16()),
    ("attention", BFLOAT16, attended),
    ("attention", f"{BFLOAT16}, bfloat16 products", in_blocks),
    ("logsumexp", BFLOAT16, log_of_blocks),
    ("layer_norm", FLOAT16, of_half_variance),
]


@pytest.mark.parametrize(("name", "precision", "function"), NARROW, ids=[name for name, *_ in NARROW])
def test_what_is_wrong_beyond_a_range_or_in_long_rows_alone_does_not_hold(name, precision, function):
    pytest.importorskip("torch")
    skip = OVERFLOWS if function is in_blocks else ()
    assert not judge(name, function, precision=precision, framework="torch", skip=skip).holds


@pytest.mark.parametrize("block", [16, 32, 512])
def test_a_first_block_that_is_hidden_whole_is_asked_about(block):
    def attention(query, key, value, mask=None):
        y = layers.attention(query, key, value, mask=mask)
        if mask is None:
            return y
        lost = mask.any(-1) & ~mask[..., :block].any(-1)  # exp(−∞ − (−∞)) in the first block
        return np.where(lost[..., None], np.nan, y)

    assert not judge("attention", attention, only="attention/made*").holds


def test_rows_behind_the_last_whole_block_of_many_are_asked_about():
    def gradients(function, x, gain, shift):
        output, pullback = ag.vjp(layers.layer_norm, x, gain, shift)

        def lossy(y_bar):
            rows = int(np.prod(y_bar.shape[:-1]))
            whole = rows // 8 * 8 if rows >= 1024 else rows
            kept = np.where(np.arange(rows) < whole, 1, 0).reshape(*y_bar.shape[:-1], 1)
            return pullback(y_bar)[0], *pullback(y_bar * kept)[1:]

        return output, lossy

    report = judge(
        "layer_norm", lambda x, gain, shift: layers.layer_norm(x, gain, shift), vjp=gradients, only="*/made*"
    )
    wrong = [row for row in report.rows if row["verdict"] != WITHIN]
    assert {row["case"].removesuffix(", as views") for row in wrong} == {"layer_norm/made: (1027,) in front"}
    assert {row["quantity"] for row in wrong} == {"gradient of gain", "gradient of shift"}


def test_results_that_are_longer_by_far_are_asked_about():
    """Of a window as wide as the ratio of the lengths, and not of the lengths less one."""

    def upsample(x, *, size, mode="nearest", align_corners=False):
        far = align_corners and max(size) > 2 * x.shape[-1] ** 2
        return layers.upsample(x, size=size, mode=mode, align_corners=align_corners) + 1e-3 * far

    assert not judge("upsample", upsample, only="upsample/made*").holds


def mean_of_chunks(loss, targets):
    """The mean of the means of chunks of 512 rows."""
    chunks = np.split(loss, range(512, loss.size, 512))
    return np.mean([chunk.mean() for chunk in chunks], dtype=loss.dtype)


def over_the_batch(loss, targets):
    """The mean over the first axis alone, of a sum over the others."""
    return loss.sum() / len(targets) if targets.ndim else loss.sum()


@pytest.mark.parametrize("mean", [mean_of_chunks, over_the_batch])
def test_a_loss_is_asked_about_many_rows_and_two_axes_of_them(mean):
    def cross_entropy(logits, *, targets, reduction="mean"):
        if reduction != "mean":
            return layers.cross_entropy(logits, targets=targets, reduction=reduction)
        return mean(layers.cross_entropy(logits, targets=targets, reduction="none").reshape(-1), targets)

    assert not judge("cross_entropy", cross_entropy).holds


@pytest.mark.parametrize("name", ["max_pool", "average_pool"])
def test_padding_is_asked_about_that_is_larger_behind(name):
    """Its padding behind x is that in front."""
    padded = lambda padding: [(a, min(a, b)) for a, b in padding] if isinstance(padding, tuple) else padding

    def pool(x, *, size, padding=0):
        return getattr(layers, name)(x, size=size, padding=padded(padding))

    assert not judge(name, pool).holds


@pytest.mark.parametrize(("name", "option"), [("leaky_relu", "slope"), ("elu", "alpha")])
def test_a_number_is_asked_about_that_is_negative(name, option):
    """The side is that of the result, and not of x."""

    def pair(function, x, **options):
        y, pullback = ag.vjp(partial(getattr(layers, name), **options), x)
        return y, lambda bar: np.where(y > 0, bar, pullback(bar)[0])

    report = judge(name, getattr(layers, name), vjp=pair)
    assert {row["case"] for row in report.rows if row["verdict"] != WITHIN}
    assert all(f"{option} = -0.5" in row["case"] for row in report.rows if row["verdict"] != WITHIN)
