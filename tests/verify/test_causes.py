"""What a wrong function is called: by an option, by one number, by the line of a page, by a rounding to the bit."""

import numpy as np
import pytest

import refnp
from refnp.verify.causes.closed_forms import closed_form, with_digits


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


NAMED = [
    ("layer_norm", lambda x, gain, shift, eps=1e-5: gain * normalized(x, 3 * eps) + shift, "ε were multiplied by 3"),
    ("layer_norm", lambda x, gain, shift, eps=1e-5: gain * normalized(x, eps) - shift, "shift were of the other sign"),
    ("layer_norm", of_root_mean_square, "scale were np.sqrt((x ** 2).mean(axes, keepdims=True) + constant(eps))"),
    ("softmax", small_constant, "1e-6 were added to e.sum(-1, keepdims=True)"),
    ("attention", lambda query, key, value: softmax_of(scores_of(query, key)) @ value / query.dtype.type(0.9), "10/9"),
    ("attention", lambda query, key, value: softmax_of(scores_of(query, key) * np.log(2)) @ value, "by log 2 = 0.6931"),
]


@pytest.mark.parametrize(("layer", "function", "says"), NAMED)
def test_one_cause_explains_all(layer, function, says):
    (cause,) = refnp.judge(layer, function, only="*ordinary*").causes
    assert says in cause.says
    assert cause.after <= 1 < cause.before


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


def test_the_line_of_the_page_is_shown():
    cause = refnp.judge("layer_norm", NAMED[1][1]).causes[0]
    assert cause.where.endswith("y = gain * unit + shift → y = gain * unit - shift")
    assert cause.where in str(refnp.judge("layer_norm", NAMED[1][1]))


def test_an_option_at_another_value_is_the_first_hypothesis():
    from refnp.layers.masks import window

    def bottom_right(query, key, value, *, before, after):
        mask = window(query.shape[-2], key.shape[-2], before, after, align="bottom_right")
        return softmax_of(np.where(mask, scores_of(query, key), -1e30)) * mask.any(-1, keepdims=True) @ value

    (cause,) = refnp.judge("window_attention", bottom_right, only="*2 before*").causes
    assert cause.says == "as if align were 'bottom_right'"


def test_a_rounding_at_one_line_agrees_to_the_bit():
    def rms_norm(x, gain, eps=1e-5):
        unit = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))
        return in_bfloat16(unit) * gain

    (cause,) = refnp.judge("rms_norm", rms_norm, dtypes="float32").causes
    assert cause.says == "as if unit were rounded to bfloat16"


def test_storage_has_a_range():
    def silu(x):
        with np.errstate(all="ignore"):
            h = x.astype(np.float16).astype(float)
            return (h / (1 + np.exp(-h))).astype(np.float16).astype(x.dtype)

    (cause,) = refnp.judge("silu", silu).causes
    assert "stored in float16" in cause.says


def test_nan_explains_nothing():
    def attention(query, key, value, mask=None):
        y = softmax_of(scores_of(query, key)) @ value
        return y if mask is None else y * np.nan

    assert [cause.says for cause in refnp.judge("attention", attention, only="*/mask*").causes] == [""]


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
