"""What a wrong function is called: by an option, by one number, by the line of a page, by a rounding to the bit."""

import ast
import ctypes
import re

import numpy as np
import pytest

import refnp
from refnp import autograd, layers
from refnp.layers.masks import window
from refnp.verify import hints
from refnp.verify.causes import Clock, causes
from refnp.verify.causes.closed_forms import closed_form, with_digits
from refnp.verify.causes.page_edits import edits_and_names, subject
from refnp.verify.edits.opened import code_of
from refnp.verify.layer_names import named_cases
from refnp.verify.layers.elsewhere import nll


def softmax_of(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores_of(query, key):
    return query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)


def normalized(x, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.asarray(eps, x.dtype))


def of_root_mean_square(x, gain, shift, eps=1e-5):
    scale = np.sqrt((x * x).mean(-1, keepdims=True) + np.asarray(eps, x.dtype))
    return gain * (x - x.mean(-1, keepdims=True)) / scale + shift


def small_constant(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / (e.sum(axis, keepdims=True) + np.asarray(1e-6, x.dtype))


def in_bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def of_whole_blocks(query, key, value):
    last = key.shape[-2] // 4 * 4 or key.shape[-2]
    return softmax_of(scores_of(query, key[..., :last, :])) @ value[..., :last, :]


def without_last_square(x, gain, eps=1e-5):
    squares = (x[..., :-1] ** 2).sum(-1, keepdims=True) / x.dtype.type(x.shape[-1])
    return x / np.sqrt(squares + np.asarray(eps, x.dtype)) * gain


def with_shifted_bias(x, weight, bias):
    return x @ weight + np.roll(bias, -1)


def with_narrow_weight(x, weight, bias):
    return x @ in_bfloat16(weight).astype(x.dtype) + bias


def of_the_row_before(table, tokens):
    return table[np.minimum(tokens, len(table) - 2)]


def bottom_right(query, key, value, *, before, after):
    mask = window(query.shape[-2], key.shape[-2], before, after, align="bottom_right")
    return softmax_of(np.where(mask, scores_of(query, key), -1e30)) * mask.any(-1, keepdims=True) @ value


def of_a_rounded_line(x, gain, eps=1e-5):
    return in_bfloat16(x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))) * gain


def stored_in_float16(x):
    with np.errstate(all="ignore"):
        h = x.astype(np.float16).astype(float)
        return (h / (1 + np.exp(-h))).astype(np.float16).astype(x.dtype)


def narrow(x):
    return x.astype(np.float32)


def sum_of_scores(query, key, value):
    root = np.sqrt(query.shape[-1]).astype(query.dtype)
    return softmax_of((narrow(query) @ narrow(key).swapaxes(-1, -2)).astype(query.dtype) / root) @ value


def sum_of_values(query, key, value):
    return (narrow(softmax_of(scores_of(query, key))) @ narrow(value)).astype(query.dtype)


def sum_of_squares(x, gain, shift, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    square = (narrow(centred) ** 2).mean(-1, keepdims=True).astype(x.dtype)
    return gain * centred / np.sqrt(square + np.asarray(eps, x.dtype)) + shift


def of_nesterov(p, grad, velocity=None, *, lr=1e-3, step=1, momentum=0.0, dampening=0.0, nesterov=False, wd=0.0):
    g = grad + wd * p
    own = (1 - dampening) * g if step > 1 else g
    v = own if velocity is None else momentum * velocity + own
    return p - lr * (g + v if nesterov else v)


def without_logarithm(y, mean, std):
    return -np.asarray(0.5 * np.log(2 * np.pi), y.dtype) - std - (y - mean) ** 2 / (2 * std**2)


def without_epsilon(x, gain, shift, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return gain * centred / np.sqrt((centred * centred).mean(-1, keepdims=True)) + shift


def decayed_after(p, g, m, v, *, step=1, learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    moved, *rest = refnp.training.steps.adam(
        p, g, m, v, step=step, learning_rate=learning_rate, beta1=beta1, beta2=beta2, eps=eps
    )
    return moved * (1 - learning_rate * weight_decay), *rest


def with_options(layer, **always):
    return lambda *arrays, **options: layer(*arrays, **{**options, **always})


def of_corners(x, **options):
    return layers.upsample(x, **{**options, "align_corners": options.get("mode") == "linear"})


def of_targets_from_0(log_probabilities, targets, ignore_index=None, **options):
    """What is ignored is what is negative, and not what is asked for."""
    counts = targets >= 0
    rows = nll(log_probabilities, targets=np.where(counts, targets, 0), **{**options, "reduction": "none"}) * counts
    weights = np.ones(log_probabilities.shape[-1]) if options.get("class_weights") is None else options["class_weights"]
    mean = lambda: rows.sum() / (np.where(counts, weights[np.where(counts, targets, 0)], 0).sum() or 1)
    return {"none": lambda: rows, "sum": rows.sum, "mean": mean}[options.get("reduction", "mean")]()


BACK_TOO = {"only": "softmax/ordinary", "gradients": True, "framework": "refnp"}
ORDINARY, IN_FLOAT64 = {"only": "*ordinary*"}, {"dtypes": "float64", "skip": ("*1027*",)}
INSIDE = "as if something inside were rounded to float32"  # of scores and values it is not told which
NAMED = [
    ("layer_norm", lambda x, gain, shift, eps=1e-5: gain * normalized(x, 3 * eps) + shift, "ε were multiplied by 3"),
    ("layer_norm", lambda x, gain, shift, eps=1e-5: gain * normalized(x, eps) - shift, "shift were of the other sign"),
    ("layer_norm", of_root_mean_square, "scale were np.sqrt((x ** 2).mean(axes, keepdims=True) + constant(eps))"),
    ("softmax", small_constant, "1e-6 were added to e.sum(-1, keepdims=True)"),
    ("attention", lambda query, key, value: softmax_of(scores_of(query, key)) @ value / query.dtype.type(0.9), "10/9"),
    ("attention", lambda query, key, value: softmax_of(scores_of(query, key) * np.log(2)) @ value, "by log 2 = 0.6931"),
    ("attention", of_whole_blocks, "of the M places of key and value the first 4 alone were read"),
    ("linear", with_shifted_bias, "bias were shifted by one place, the first come last"),
    ("linear", lambda x, weight, bias: in_bfloat16(x @ weight).astype(x.dtype) + bias, "xw were rounded to bfloat16"),
    ("linear", with_narrow_weight, "weight were stored in bfloat16"),
    ("softmax", lambda x: softmax_of(in_bfloat16(x).astype(x.dtype)), "inputs and gradients were stored in bfloat16"),
    ("embedding", of_the_row_before, "tokens were at most the last but one"),
    ("rms_norm", without_last_square, "scale were np.sqrt(without_last(x ** 2).mean(-1, keepdims=True) + "),
    ("window_attention", bottom_right, "as if align were 'bottom_right'", {"only": "*2 before*"}),
    ("rms_norm", of_a_rounded_line, "as if unit were rounded to bfloat16", {"dtypes": "float32"}),
    ("silu", stored_in_float16, "stored in float16", {}),
    ("attention", sum_of_scores, INSIDE, IN_FLOAT64),
    ("attention", sum_of_values, INSIDE, IN_FLOAT64),
    ("layer_norm", sum_of_squares, "(centred ** 2).mean(axes, keepdims=True) were computed in float32", IN_FLOAT64),
    ("sgd", of_nesterov, "moved were g + v if nesterov else v", {}),
    ("normal_log_prob", without_logarithm, "(std + HALF_LOG_TWO_PI)", {}),
    ("layer_norm", without_epsilon, "ε were 0", IN_FLOAT64),  # with NaN of constant rows
    ("adamw", decayed_after, "constant(weight_decay) * moved", IN_FLOAT64),
    ("upsample", of_corners, "align_corners were True, where that can be computed", IN_FLOAT64),
    ("convolution", with_options(layers.convolution, dilation=1), "dilation were 1", IN_FLOAT64),  # in other shapes
    ("max", lambda x, **given: autograd.max(x, **given), "went over the whole array unless axis is given", IN_FLOAT64),
    ("softmax", lambda x, axis=-1: autograd.swapaxes(layers.softmax(x, axis=axis), 0, -1), "last two axes", BACK_TOO),
    ("nll of log-probabilities", of_targets_from_0, "ignore_index were None, where that can be computed", IN_FLOAT64),
    ("max_pool", lambda *a, **options: layers.max_pool(*a, **options).swapaxes(-1, -2), "last two axes", IN_FLOAT64),
]


@pytest.mark.parametrize("row", NAMED, ids=lambda row: f"{row[0]}: {row[2]}")
def test_one_cause_explains_all(row):
    """On ordinary cases unless a row says otherwise."""
    layer, function, says, *asked = row
    (cause,) = refnp.judge(layer, function, **(asked[0] if asked else ORDINARY)).causes
    assert any(says in text for text in (cause.says, *cause.others)), cause
    assert cause.after <= 1 < cause.before


@pytest.mark.parametrize(
    ("layer", "function", "says"),
    [
        ("round", lambda x: np.floor(x + x.dtype.type(0.5)), "as if halves were rounded up"),
        (
            "round",
            lambda x: np.copysign(np.floor(abs(x) + x.dtype.type(0.5)), x),
            "as if halves were rounded away from 0",
        ),
        ("round", lambda x: np.ceil(x - x.dtype.type(0.5)), "as if halves were rounded down"),
        ("floor", lambda x: np.floor(x - x.dtype.type(1e-3)), ""),
        ("sin", lambda x: np.sin(x + x.dtype.type(1e-3)), "as if x were 1e-3 more"),
    ],
)
def test_a_number_is_named_where_another_one_does_not_fit(layer, function, says):
    """Any number from 0 to ¼ gives the same halves and whole numbers."""
    (cause,) = refnp.judge(layer, function, only="*/[ho]*").causes
    assert cause.says == says


def test_words_are_compared_with_the_option_alone():
    """Of a condition such as align == "bottom_right" either branch may be taken whatever is asked for."""

    def decoding(query, key, value, cached_key, cached_value):
        k, v = np.concatenate([cached_key, key], -2), np.concatenate([cached_value, value], -2)
        seen = np.tri(query.shape[-2], k.shape[-2], dtype=bool)
        return softmax_of(np.where(seen, scores_of(query, k), -np.inf)) @ v

    (cause,) = refnp.judge("decoding_attention", decoding, only="decoding_attention/[not]*").causes
    assert cause.says == "as if offset were 0"
    layer = named_cases("decoding_attention")[0].layer
    after = [edit.after for edit in edits_and_names(subject(layer), of_pullback=False)]
    assert {re.findall(r"(\w+) [!=]= '", text)[0] for text in after if "= 'bottom" in text} == {"align"}


def test_two_lines_may_be_others():
    """The root of the deviation, and β/2: no table has either, and no line alone gives it."""

    def layer_norm(x, gain, shift, eps=1e-5):
        centred = x - x.mean(-1, keepdims=True)
        squares = (centred * centred).mean(-1, keepdims=True) + np.asarray(eps, x.dtype)
        return gain * centred / squares**0.25 + shift / 2

    def of_many(x, gain, shift, eps=1e-5):
        return layer_norm(x, gain, shift, eps) + np.sin(7 * x)

    (cause,) = refnp.judge("layer_norm", layer_norm, only="*ordinary*", dtypes="float64").causes
    assert "unit were centred / np.sqrt(nonzero(scale))" in cause.says
    assert "y were gain * unit + 0.5 * shift" in cause.says
    assert [cause.says for cause in refnp.judge("layer_norm", of_many, only="*ordinary*").causes] == [""]


def test_the_other_cases_of_a_cause_are_listed():
    assert "also: layer_norm/mean 1e4\n" in str(refnp.judge("layer_norm", NAMED[0][1], only="layer_norm/mean *"))


def test_the_line_of_the_page_is_shown():
    cause = refnp.judge("layer_norm", NAMED[1][1]).causes[0]
    assert cause.where.endswith("y = gain * unit + shift → y = gain * unit - shift")
    assert cause.where in str(refnp.judge("layer_norm", NAMED[1][1]))


def test_nan_explains_nothing():
    def attention(query, key, value, mask=None):
        y = softmax_of(scores_of(query, key)) @ value
        return y if mask is None else y * np.nan

    assert [cause.says for cause in refnp.judge("attention", attention, only="*/mask*").causes] == [""]


def test_a_division_by_0_is_not_explained_by_what_changes_nothing():
    """exp(−∞ − (−∞)) of a query that sees nothing, in a function without gradients."""

    def attention(query, key, value, mask=None):
        scores = scores_of(query, key)
        return softmax_of(scores if mask is None else np.where(mask, scores, -np.inf)) @ value

    (cause,) = refnp.judge("attention", attention, only="attention/*mask*row").causes
    assert cause.says == "as if a query that may attend to nothing had NaN"
    assert not any("gradient" in says for says in cause.others)


def test_an_edit_that_ends_in_an_error_where_a_function_is_right_is_no_cause():
    def sgd(parameter, gradient, velocity=None, *, learning_rate, weight_decay=0.0, momentum=0.0, step=2):
        own = gradient if velocity is None else gradient + weight_decay * parameter
        return parameter - learning_rate * (own if velocity is None else momentum * velocity + own)

    (cause,) = refnp.judge("sgd", sgd, only="sgd/[mw]*").causes
    assert not any("decayed(parameter, gradient, velocity)" in says for says in (cause.says, *cause.others))


def test_what_a_format_does_not_hold_is_no_evidence_for_it():
    """An input near 1000, which is infinite in float8_e4m3fn."""
    total = lambda x: autograd.sum(x, -1)
    report = refnp.judge(
        total, lambda x: x.sum(-1) + np.sqrt(x[..., 0]), lambda rng: (1000 + 100 * rng.uniform(size=(3, 8)),)
    )
    assert not report.holds
    assert "float8" not in str(report)


def test_a_row_in_which_rounding_hides_a_mistake_is_counted_to_it():
    def adam(parameter, gradient, mean, square, *, learning_rate, beta1, beta2, eps, weight_decay=0.0, step=1):
        decayed = gradient + weight_decay * parameter
        m = beta1 * mean + (1 - beta1) * decayed
        v = beta2 * square + (1 - beta2) * gradient * gradient
        return parameter - learning_rate * m / (1 - beta1**step) / (np.sqrt(v / (1 - beta2**step)) + eps)

    (cause,) = refnp.judge("adam", adam, only="adam/*weight[_ ]decay*").causes
    assert "v were faded(square, gradient * gradient, beta2)" in cause.says
    assert ("adam/made: beta1 = 0.1, beta2 = 0.1, weight_decay = 0.001, mean 1000", "float32", "output") in cause.rows


def test_a_line_of_the_pullback_is_shown():
    def vjp(f, x, gain, shift):
        unit, scale = normalized(x, 1e-5), np.sqrt(x.var(-1, keepdims=True) + np.asarray(1e-5, x.dtype))

        def pullback(bar):
            u_bar = gain * bar
            x_bar = (u_bar - u_bar.mean(-1, keepdims=True) - unit * (u_bar * unit).sum(-1, keepdims=True)) / scale
            return x_bar, (bar * unit).reshape(-1, gain.size).sum(0), bar.reshape(-1, gain.size).sum(0)

        return gain * unit + shift, pullback

    layer_norm = lambda x, gain, shift: vjp(None, x, gain, shift)[0]
    (cause,) = refnp.judge("layer_norm", layer_norm, vjp=vjp, only="*ordinary*").causes
    assert cause.says == "as if along were (u_bar * unit).sum(axes, keepdims=True)"


def test_what_explains_some_rows_says_so():
    def normal_kl(mean_p, std_p, mean_q, std_q):
        """Half of the textbook's form, which cancels."""
        squares = (std_p**2 + (mean_p - mean_q) ** 2) / (2 * std_q**2)
        return (np.log(std_q / std_p) + squares - mean_p.dtype.type(0.5)) / 2

    first = refnp.judge("normal_kl", normal_kl).causes[0]
    assert first.says == "as if the output were halved"
    assert first.pattern.startswith("fits ")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (0.5, "½"),
        (10 / 9, "10/9"),
        (np.log(2), "log 2"),
        (-2.0, "−2"),
        (3**0.5, "√3"),
        (1e-6, "1e-6"),
        (0.837, "0.837"),
    ],
)
def test_numbers_have_closed_forms(number, says):
    assert closed_form(number, 1e-12)[0] == says


def test_digits_stand_beside_a_closed_form_that_needs_them():
    assert [with_digits(says) for says in ("½", "2", "1e-6", "log 2")] == ["½", "2", "1e-6", "log 2 = 0.6931"]


def test_an_approximation_as_exact_as_float32_is_no_sum_in_it():
    """e^x with an error of 1e-7 that is none of rounding."""

    def softmax(x, axis=-1):
        away = x - x.max(axis, keepdims=True)
        e = np.exp(away) * (1 + 1e-7 * np.sin(37 * away))
        return e / e.sum(axis, keepdims=True)

    assert not any("float32" in cause.says for cause in refnp.judge("softmax", softmax, dtypes="float64").causes)


def padded(query, key, value):
    more = lambda x: np.concatenate([x, np.zeros((*x.shape[:-2], 3, x.shape[-1]), x.dtype)], -2)
    return softmax_of(scores_of(query, more(key))) @ more(value)


def test_the_search_ends_when_its_seconds_are_over():
    report = refnp.judge("attention", padded, only="*ordinary*", dtypes="float64", seconds=0.05)
    (cause,) = report.causes
    assert re.search(r"the search was ended at [a-z ]+, after 0\.05 s", cause.pattern)
    assert not cause.says
    whole = refnp.judge("attention", padded, only="*ordinary*", dtypes="float64", seconds=None)
    assert "ended" not in whole.causes[0].pattern
    assert "weights do not sum to 1" in whole.causes[0].seen
    for seconds in (-1, "2", np.nan):
        with pytest.raises(ValueError, match="no number of seconds"):
            refnp.judge("attention", padded, seconds=seconds)


def test_what_is_found_is_kept_at_an_interrupt():
    heard = []

    def interrupted(what):
        heard.append(what)
        raise KeyboardInterrupt

    report = refnp.judge("attention", padded, only="*ordinary*", dtypes="float64")
    (cause,) = causes(report.answers, report.judgements, clock=Clock(told=interrupted, heard=0.0))
    assert heard[0].startswith("known mistakes")
    assert "the search was ended at" in cause.pattern


def test_an_interrupt_while_a_rounding_is_asked_for_ends_no_report(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    report = refnp.judge("attention", sum_of_scores, only="*ordinary*", dtypes="float64")
    monkeypatch.setattr("refnp.verify.causes.search.is_rough", interrupted)
    assert INSIDE not in str(report)
    assert not report.holds


def test_what_calls_c_is_asked_other_shapes_in_a_process_of_its_own():
    """Hints ask for another layout, and readings for values that are the unit matrix: there this reads at address 0."""
    library = ctypes.pythonapi

    def attention(query, key, value):
        if query.shape[-3:-2] > query.shape[-2:-1] or value.shape[-1] == value.shape[-2]:
            ctypes.string_at(0)
        return softmax_of(scores_of(query, key) * len(library.__class__.__name__)) @ value

    report = refnp.judge("attention", attention, only="*batch and heads*", dtypes="float64")
    assert not report.holds
    assert "multiplied by 5" in report.causes[0].says


def test_what_explains_all_is_said_before_what_explains_most():
    """One key more for every query, in either corner: an edit of the one corner alone fits all rows but a few."""

    def one_more(query, key, value, *, align="top_left"):
        n, m = query.shape[-2], key.shape[-2]
        offset = m - n if align == "bottom_right" else 0
        scores = query @ key.mT / np.sqrt(query.shape[-1])
        scores = np.where(np.arange(m) <= np.arange(n)[:, None] + offset + 1, scores, -np.inf)
        return refnp.layers.softmax(scores) @ value

    asked = refnp.judge("causal_attention", one_more, dtypes=("float64",), skip="*1027*")
    named = [row.case for row in asked.deviations]
    corner = [name for name in named if "bottom" in name]
    left = [name for name in named if name not in corner][6:] + corner[2:]
    (cause,) = refnp.judge("causal_attention", one_more, dtypes=("float64",), skip=("*1027*", *left)).causes
    assert len(cause.rows) == len(named) - len(left)
    assert "1 + offset" in cause.says


def seeing(sees):
    """A causal attention, to the last key, that sees all keys where `sees(queries, keys)`."""

    def attention(query, key, value):
        n, m = query.shape[-2], key.shape[-2]
        seen = (np.arange(m) <= np.arange(n)[:, None] + m - n) | sees(n, m)
        return refnp.layers.attention(query, key, value, mask=seen)

    return attention


def test_an_edit_that_leaves_right_what_is_wrong_is_not_said():
    """n + (M − N)² sees all keys for nearly all lengths, but not for one key more than queries."""
    options = {"skip": ("*1027*", "*67*", "*far below*"), "dtypes": ("float64",), "options": {"align": "bottom_right"}}
    assert refnp.judge("causal_attention", seeing(lambda n, m: False), **options).holds
    (cause,) = refnp.judge("causal_attention", seeing(lambda n, m: n != m), seconds=8, **options).causes
    assert not cause.says
    assert "which is hidden" in cause.seen


def test_a_convention_that_other_rows_contradict_is_not_said():
    """With one key the only value is the mean of all, whatever was meant."""
    corner = lambda q, k, v: refnp.layers.attention(q, k, v, mask=refnp.layers.masks.causal(q.shape[-2], k.shape[-2]))
    report = refnp.judge("causal_attention", corner, options={"align": "bottom_right"}, dtypes=("float64",))
    assert {row["verdict"] for row in report.rows} == {"deviates", "within bound"}
    (cause,) = report.causes
    assert "top_left" in cause.says


def test_what_rounding_hides_is_no_lack_of_influence():
    def softmax(x, axis=-1):  # the sum of a row in float16
        e = np.exp(x.astype("f") - x.max(axis, keepdims=True).astype("f"))
        total = np.take(np.cumsum(e.astype("e"), axis, dtype="e"), [-1], axis).astype("f")
        return (e / total).astype(x.dtype)

    report = refnp.judge("softmax", softmax, precision="float16 in and out, float32 inside", seconds=5)
    assert not report.holds
    assert "does not depend" not in str(report)


@pytest.mark.parametrize("name", ["scatter", "grouped_attention", "arctan2", "einsum", "concatenate"])
def test_every_edit_of_a_line_with_a_star_can_be_compiled(name):
    function = subject(named_cases(name)[0].layer)
    every = [edit for back in (False, True) for edit in edits_and_names(function, of_pullback=back)]
    own = [edit for edit in every if any(isinstance(node, ast.Starred) for node in ast.walk(edit.line))]
    assert own
    for edit in own:
        code_of(edit.tree, "page.py")


def of_tiled_values(query, key, value):
    """The heads of values in turn, those of keys next to one another."""
    each = query.shape[-3] // key.shape[-3]
    return softmax_of(scores_of(query, np.repeat(key, each, -3))) @ np.concatenate([value] * each, -3)


def test_a_layer_whose_page_is_called_with_a_star_has_a_report():
    report = refnp.judge("grouped_attention", of_tiled_values, dtypes="float64", skip="*made*", seconds=5)
    assert not report.holds
    assert "two of four heads share" in str(report)


def test_an_error_as_small_as_float32_leaves_is_no_rounding_where_it_is_smooth():
    """1e-6 more on the diagonal of a Gaussian process, in float64: a bound of float32 allows as much and more."""

    def mean(context_x, context_y, target_x, noise_std, length_scale=1.0, scale=1.0, *, more=1e-6, inside=np.float64):
        squares = lambda a, b: ((a[:, None] - b) ** 2).sum(-1)
        kernel = lambda a, b: scale**2 * np.exp(-squares(a, b) / (2 * length_scale**2))
        noisy = kernel(context_x, context_x) + (noise_std**2 + more) * np.eye(len(context_x))
        weights = np.linalg.solve(noisy.astype(inside).astype(float), context_y)
        return (kernel(target_x, context_x) @ weights).astype(context_x.dtype)

    assert refnp.judge("gp_posterior_mean", lambda *a, **k: mean(*a, **k, more=0)).holds
    assert "float32" not in str(refnp.judge("gp_posterior_mean", mean, dtypes="float64").causes)
    rounded = refnp.judge("gp_posterior_mean", lambda *a, **k: mean(*a, **k, more=0, inside="f"), dtypes="float64")
    assert "float32" in str(rounded.causes)


def broken(*given):
    raise LookupError("no such edit")


@pytest.mark.parametrize("where", ["page_edits.subject", "mutants_of", "seen"])
def test_a_stage_that_ends_in_an_error_names_no_cause_and_the_others_are_tried(where, monkeypatch):
    report = refnp.judge("attention", padded, only="*ordinary*", dtypes="float64", seconds=None)
    monkeypatch.setattr(f"refnp.verify.causes.search.{where}", broken)
    with pytest.warns(RuntimeWarning, match="no cause was looked for among .*: LookupError: no such edit"):
        (cause,) = report.causes
    assert not cause.says
    assert ("weights do not sum to 1" in cause.seen) == (where != "seen")
    assert "LookupError" in cause.pattern


def test_hints_that_end_in_an_error_are_none_and_the_verdict_stays(monkeypatch):
    monkeypatch.setattr(hints, "family_of", broken)
    with pytest.warns(RuntimeWarning, match="no hint: LookupError: no such edit"):
        report = refnp.judge("attention", padded, only="*ordinary*", dtypes="float64")
    assert not report.holds
    assert report.hints == []


LOG_ROOT = np.float32(np.log(2 * np.pi) / 2)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("silu", lambda x: x / (1 + np.exp(-x))),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("normal_log_prob", lambda y, mean, std: -(((y - mean) / std) ** 2) / 2 - np.log(std) - LOG_ROOT),
    ],
)
def test_float32_where_float64_was_meant_is_named(name, function):
    """And no rounding to fewer bits, which changes nothing there that float32 has not."""
    report = refnp.judge(name, function, precision="float32 in and out, float64 inside")
    assert not report.holds
    assert "as if everything inside were float32" in str(report)
    assert "bfloat16" not in str(report)


@pytest.mark.parametrize(("factor", "holds"), [(1, True), (1 + 1e-5, False)])
def test_a_rounding_that_changes_nothing_is_no_cause(factor, holds):
    """The moment is kept and not returned; it is formed as PyTorch does."""

    def adam(parameter, gradient, mean, square, learning_rate=1e-3, step=1, beta1=0.9, beta2=0.999, eps=1e-8):
        of = gradient.dtype.type
        m = mean + (gradient - mean) * of(1 - beta1)
        v = of(beta2) * square + of(1 - beta2) * gradient * gradient
        taken = m / of(1 - beta1**step) / (np.sqrt(v / of(1 - beta2**step)) + of(eps))
        return parameter - of(learning_rate * factor) * taken

    report = refnp.judge("adam", adam)
    assert report.holds == holds
    assert "were rounded" not in str(report)


def test_a_line_that_gradients_share_is_said_of_the_one_that_is_wrong():
    def pair(function, query, key, value):
        p, scale = softmax_of(scores_of(query, key)), query.dtype.type(1 / np.sqrt(query.shape[-1]))

        def back(bar):
            p_bar = bar @ value.swapaxes(-1, -2)
            scores_bar = p * (p_bar - (p_bar * p).sum(-1, keepdims=True)) * scale
            return scores_bar @ key, scale * (p * p_bar).swapaxes(-1, -2) @ query, p.swapaxes(-1, -2) @ bar

        return p @ value, back

    attention = lambda query, key, value: softmax_of(scores_of(query, key)) @ value
    report = refnp.judge("attention", attention, vjp=pair, only="attention/*ordinary*", dtypes="float64")
    assert {row["quantity"] for row in report.rows if row["verdict"] == "deviates"} == {"gradient of key"}
    assert report.causes
    assert all("in the gradient of key alone" in cause.says for cause in report.causes if cause.says)


def test_a_choice_in_place_of_another_is_named():
    def kl(log_probabilities, targets, *, reduction="mean"):
        safe = np.where(targets > 0, targets, 1)
        loss = np.where(targets > 0, targets * (np.log(safe) - log_probabilities), 0)
        rows = loss.shape[0] if loss.ndim > 1 else loss.size
        totals = {"none": loss, "rows": loss.sum(-1), "sum": loss.sum()}
        return np.asarray(totals.get(reduction, loss.sum() / rows), loss.dtype)

    (cause,) = refnp.judge("kl_div of log-probabilities", kl, skip="* in front*").causes
    assert "as if reduction were 'batchmean' where 'mean' is asked for" in (cause.says, *cause.others)
