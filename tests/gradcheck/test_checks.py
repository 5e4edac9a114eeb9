"""The two entrances: what they accept, how they name things, what they refuse and with which words."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradcheck
from gradcheck import GradientError, Report, check, compare
from tests.gradcheck import claims
from tests.gradcheck.claims import value_of, vjp_of, wrong

X = np.linspace(-1, 1, 6).reshape(2, 3)


def affine(params, x):
    return {"y": x @ params["weight"] + params["bias"][0], "rows": x.shape[0]}


def affine_vjp(f, params, x, spoil=0.0):
    def pullback(u):
        u = u["y"]
        weight_bar = x.T @ u
        weight_bar[1, 0] *= 1 + spoil
        return {"weight": weight_bar, "bias": [u.sum(0)], "name": None}, u @ params["weight"].T

    return f(params, x), pullback


PARAMS = {"weight": np.arange(6.0).reshape(3, 2) + 1, "bias": [np.ones(2)], "name": "affine"}


def test_nested_arguments_and_outputs_are_checked():
    report = check(affine, (PARAMS, X), vjp=affine_vjp)
    assert report.elements == 6 + 2 + 6
    assert report.digits >= 14


def test_a_failure_names_the_array_inside_an_argument():
    with pytest.raises(GradientError, match=r"^affine: gradient of args\[0\]\['weight'\]\[1, 0\] \(params\): claimed "):
        check(affine, (PARAMS, X), vjp=lambda f, *args: affine_vjp(f, *args, spoil=1e-9))


def test_a_failure_names_everything():
    spoilt = wrong(claims.layer_norm, lambda g, u: [g[0], g[1] * np.array([1, 1, 1 + 1e-6]), g[2]])

    def layer_norm(x, gain, shift):
        return claims.layer_norm(x, gain, shift)[0]

    number = r"-?[0-9.e+-]+"
    expected = (
        rf"^layer_norm: gradient of argument 1 \(gain\) at \[2\]: claimed {number}, complex step gives {number}, "
        r"(6|7)\.\d digits agree, 12 asked \(float64, order 1, seed 4\)$"
    )
    with pytest.raises(GradientError, match=expected) as caught:
        check(layer_norm, (X, np.ones(3), np.zeros(3)), vjp=vjp_of(spoilt), seed=4)
    assert caught.value.report.worst.argument == 1
    assert isinstance(caught.value, AssertionError)


def test_a_scalar_argument_has_no_index():
    def scaled(x, c):
        return c * x

    with pytest.raises(GradientError, match=r"argument 1 \(c\): claimed"):
        check(scaled, (X, 2.0), vjp=lambda f, x, c: (c * x, lambda u: (c * u, np.asarray(1.1 * (u * x).sum()))))


def test_compare_does_not_raise():
    report = compare(value_of(claims.tanh), (X,), vjp=vjp_of(wrong(claims.tanh, lambda g, u: [2 * g[0]])))
    assert not report.agrees
    assert "DISAGREES" in str(report)
    with pytest.raises(GradientError):
        report.require()


def test_a_report_is_true_where_it_agrees():
    assert check(value_of(claims.tanh), (X,), vjp=vjp_of(claims.tanh))
    assert not compare(value_of(claims.tanh), (X,), vjp=vjp_of(wrong(claims.tanh, lambda g, u: [7 * g[0]])))
    assert not Report("f", "float64", 1, 12.0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_headline_says_what_the_numbers_below_it_show(seed):
    """Where all is rounding, the two numbers have no digit in common, and the headline does not say that they have."""
    x = np.random.default_rng(seed).normal(size=(3, 5))
    for claim in (claims.softmax_sum, claims.softmax, claims.tanh):
        report = compare(value_of(claim), (x,), vjp=vjp_of(claim), seed=seed)
        headline, worst = str(report).splitlines()[:2]
        claimed, numeric = (float(text.split()[-1]) for text in worst.rsplit(", complex step", 1))
        common = -np.log10(abs(claimed - numeric) / max(abs(claimed), abs(numeric))) if claimed != numeric else 17
        if claim is claims.softmax_sum and common < 1:
            assert re.search("agrees; 0 digits here, (all of it rounding|below a rounding of f), 12 asked", headline)
        said = re.search(r"(?:agrees;|here:|agrees to) (\d+(?:\.\d)?)", headline.replace("which cancel ", ""))
        last = re.findall(r"(\d+(?:\.\d)?) (?:digits|of their sum)", headline)[-1]
        assert said is not None
        assert float(last) == pytest.approx(max(common, 0), abs=1.05)


def test_a_report_reads_well():
    text = str(check(value_of(claims.tanh), (X,), vjp=vjp_of(claims.tanh), name="my tanh"))
    assert text.startswith("my tanh: agrees to 1")
    assert "12 asked (float64, order 1, 6 elements, complex step in complex128, seed 0)" in text


def test_integers_booleans_strings_and_none_are_constants():
    def f(x, n, mask, how, nothing):
        assert how == "sum"
        assert nothing is None
        return (x**n * mask).sum()

    def vjp(f, x, n, mask, how, nothing):
        return f(x, n, mask, how, nothing), lambda u: (u * n * x ** (n - 1) * mask, None, None, None, None)

    assert check(f, (X, np.array([1, 2, 3]), X > 0, "sum", None), vjp=vjp).elements == 6


def test_argnums_leaves_arguments_out():
    spoilt = wrong(claims.matmul, lambda g, u: [g[0], 2 * g[1]])
    args = (X, X.T.copy())
    assert check(value_of(claims.matmul), args, vjp=vjp_of(spoilt), argnums=0).elements == 6
    with pytest.raises(GradientError, match="argument 1"):
        check(value_of(claims.matmul), args, vjp=vjp_of(spoilt), argnums=(1,))


def test_a_gradient_of_none_is_one_of_zero():
    def first(x, y):
        return x + 0 * y

    assert check(first, (X, X + 1), vjp=lambda f, x, y: (x, lambda u: (u, None))).agrees
    with pytest.raises(GradientError, match="argument 1"):
        check(lambda x, y: x + y, (X, X + 1), vjp=lambda f, x, y: (x + y, lambda u: (u, None)))


def test_arguments_are_neither_changed_nor_shared():
    x = X.copy()
    x.setflags(write=False)

    def in_place(x):
        x *= 2
        return x

    assert check(in_place, (x,), vjp=lambda f, x: (f(x), lambda u: (2 * u,))).agrees
    assert np.array_equal(x, X)


def test_a_pullback_that_lives_once_is_enough():
    def once(f, x):
        left = [1]

        def pullback(u):
            left.pop()
            return (u * (1 - np.tanh(x) ** 2),)

        return f(x), pullback

    assert check(np.tanh, (X,), vjp=once).agrees
    assert check(np.tanh, (X,), vjp=once, order=2).agrees


def test_memory_layouts_make_no_difference():
    for x in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], np.broadcast_to(X[:, :1], (2, 3))):
        assert check(value_of(claims.softmax), (x,), vjp=vjp_of(claims.softmax)).agrees


REFUSED = {
    "order is 3; it must be 1 or 2": {"order": 3},
    "digits is -1; it must be a number, at least 0": {"digits": -1},
    "max_elements is -1; it must be a number, at least 0": {"max_elements": -1},
    "projections is 0; it must be a number, at least 1": {"projections": 0},
    "method is 'magic'; it must be one of 'auto', 'complex_step'": {"method": "magic"},
    "argnums is 1 but there are 1 arguments": {"argnums": 1},
    "vjp is a NoneType; pass a function": {"vjp": None},
    "args is a ndarray; pass a tuple": {"args": X},
    "args hold no floating number to differentiate": {"args": (np.arange(3),)},
    "args hold no number, only empty arrays; pass longer ones": {"args": (np.ones((0, 3)),)},
    r"args\[0\] is complex128; pass its real and imaginary part": {"args": (X + 1j,)},
    "args hold nan or infinity": {"args": (np.array([1, np.nan]),)},
    "f returns NoneType with no floating array": {"f": lambda x: None},
    "f is not finite there": {"f": lambda x: x / np.array(0.0)},
    "vjp: the pullback returns one ndarray; it must return a tuple": {"vjp": lambda f, x: (f(x), lambda u: u)},
    "vjp: the pullback returns a tuple of 2": {"vjp": lambda f, x: (f(x), lambda u: (u, u))},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_refused_with_a_reason(message):
    call = {"f": np.tanh, "args": (X,), "vjp": vjp_of(claims.tanh)} | REFUSED[message]
    f, args = call.pop("f"), call.pop("args")
    with np.errstate(all="ignore"), pytest.raises((ValueError, TypeError), match=message):
        compare(f, args, **call)


def test_a_random_function_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="f gives two different values at one point; fix its seed"):
        compare(lambda x: x + rng.normal(size=x.shape), (X,), vjp=vjp_of(claims.tanh))


WRONG_FORM = {
    r"gives argument 0 \(x\) a gradient of shape \(3, 2\); it must have that of the argument, \(2, 3\)": lambda f, x: (
        f(x),
        lambda u: (u.T,),
    ),
    "its value differs from that of f by up to": lambda f, x: (2 * f(x), lambda u: (u,)),
}


@pytest.mark.parametrize("message", WRONG_FORM)
def test_a_claim_of_the_wrong_form_is_wrong(message):
    with pytest.raises(GradientError, match=message):
        compare(lambda x: np.tanh(x), (X,), vjp=WRONG_FORM[message])


def test_a_missing_nested_gradient_is_named():
    with pytest.raises(GradientError, match=r"gives no gradient for args\[0\]\['bias'\]\[0\] \(params\)"):
        compare(affine, (PARAMS, X), vjp=lambda f, p, x: (f(p, x), lambda u: ({"weight": p["weight"]}, x)))


def test_it_depends_on_numpy_alone():
    others = "{'refnp', 'torch', 'jax', 'scipy', 'mpmath'}"
    code = f"import sys, gradcheck, gradcheck.table; assert not {others} & set(sys.modules), sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(gradcheck.__file__).parents[1])


def test_what_the_package_offers():
    assert all(hasattr(gradcheck, name) for name in gradcheck.__all__)


def test_empty_arrays_beside_others():
    """They have no element to compare; a value without any is refused, with no warning of NumPy's."""
    vjp = lambda f, x, y: (f(x, y), lambda u: (u * x * 2, np.zeros_like(y)))
    assert check(lambda x, y: x * x + y.sum(), (X, np.ones((0, 3))), vjp=vjp).digits > 12
    with pytest.raises(
        ValueError, match=r"^f returns no number at args, only empty arrays; pass arguments at which it"
    ):
        check(lambda x, y: x[:0], (X, np.ones(0)), vjp=vjp)
