"""refnp.tolerance and refnp.assert_close: bounds for the numbers of one's own test."""

import numpy as np
import pytest

import gradcheck
import refnp
from refnp import autograd, layers, symmetry
from refnp.autograd import vjp
from refnp.autograd.declaration import Declaration
from refnp.layers import convolution, layer_norm, softmax
from refnp.numbers.precision import policy
from refnp.verify import items
from refnp.verify.tolerances import problem_of

RNG = np.random.default_rng(0)
X, GAIN, SHIFT = RNG.normal(size=(4, 6)).astype("f4"), RNG.normal(size=6).astype("f4"), RNG.normal(size=6).astype("f4")
GIVEN = {"x": X, "gain": GAIN, "shift": SHIFT}
FUSED = "bfloat16 in and out, float32 inside"


def test_a_tolerance_for_each_element():
    allowed = refnp.tolerance("layer_norm", GIVEN)
    assert allowed.shape == X.shape
    assert (allowed > 0).all()
    assert allowed.max() < 1e-4
    np.testing.assert_array_equal(refnp.tolerance("LayerNorm", [X, GAIN, SHIFT]), allowed)
    assert (
        refnp.tolerance("layer_norm", {n: a.astype(float) for n, a in GIVEN.items()}, precision="float64") < 1e-13
    ).all()


def test_options_count():
    small = {**GIVEN, "x": X * np.float32(1e-3)}
    answer = layer_norm(small["x"], GAIN, SHIFT, eps=1e-6)
    refnp.assert_close("layer_norm", answer, small, eps=1e-6)
    with pytest.raises(
        AssertionError, match=r"layer_norm in float32:\n  output: .* times what rounding allows, .* is right"
    ):
        refnp.assert_close("layer_norm", answer, small)


def test_gradients_are_tested_with_a_cotangent():
    y, pullback = refnp.vjp(layer_norm, X, GAIN, SHIFT)
    bar = RNG.normal(size=X.shape).astype("f4")
    got = dict(zip(["output", *(f"gradient of {n}" for n in GIVEN)], [y, *pullback(bar)], strict=True))
    refnp.assert_close("layer_norm", got, GIVEN, cotangent=bar)
    assert set(refnp.tolerance("layer_norm", GIVEN, cotangent=bar)) == set(got)
    with pytest.raises(AssertionError, match="gradient of gain: "):
        refnp.assert_close(
            "layer_norm", got | {"gradient of gain": got["gradient of gain"] * 1.001}, GIVEN, cotangent=bar
        )


def test_the_mistake_is_named():
    centred = X - X.mean(-1, keepdims=True)
    answer = centred / np.sqrt((centred**2).sum(-1, keepdims=True) / np.float32(5) + np.float32(1e-5)) * GAIN + SHIFT
    with pytest.raises(AssertionError, match="\n  as if the variance were divided by n − 1"):
        refnp.assert_close("layer_norm", answer, GIVEN)


def test_low_precision():
    x = policy(FUSED).given(X)
    right = policy(FUSED).given(softmax(x))
    refnp.assert_close("softmax", right, [x], precision=FUSED)
    with pytest.raises(AssertionError, match="softmax in bfloat16 in and out"):
        refnp.assert_close("softmax", right * np.float32(1 + 2.0**-6), [x], precision=FUSED)


def test_arrays_of_a_framework():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X).bfloat16()
    refnp.assert_close("softmax", torch.softmax(x, -1), [x], precision=FUSED)


def test_what_an_equation_may_do_without_may_be_left_out():
    x, weight = (RNG.normal(size=shape).astype("f4") for shape in ((1, 2, 5), (3, 2, 3)))
    refnp.assert_close("conv1d", convolution(x, weight), [x, weight])


def test_infinite_inputs_need_no_warnings():
    """Nor are there any where warnings are errors, as in this suite."""
    assert np.isfinite(refnp.tolerance("softmax", [np.array([-np.inf, 1], "f4")])).all()
    assert (refnp.tolerance("softmax", [np.array([np.inf, 1], "f4")]) == np.inf).all()


class Empty:
    """An array without data, as PyTorch's on its device "meta"."""

    def __array__(self, *args, **options):
        raise NotImplementedError("no data")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: refnp.tolerance("layer_nrm", GIVEN), "did you mean 'layer_norm'"),
        (lambda: refnp.tolerance("layer_norm", [X]), r"there are 1 inputs; those of layer_norm are \(x, gain, shift\)"),
        (lambda: refnp.tolerance("softmax", {"y": X}), r"inputs are \(y\); those of softmax are \(x\)"),
        (lambda: refnp.tolerance("softmax", [X], precision="bfloat16"), "x has numbers that bfloat16 does not hold"),
        (lambda: refnp.tolerance("softmax", [X.astype(float) / 3]), 'does not hold; pass precision="float64"'),
        (lambda: refnp.tolerance("softmax", [X], precision="bf16"), "precision is 'bf16'; name a format"),
        (lambda: refnp.tolerance("softmax", [X], cotangent=X[0]), r"cotangent has shape .*; the output has .*"),
        (lambda: refnp.assert_close("softmax", {"y": X}, [X], cotangent=X), "got has 'y'; its quantities are output"),
        (lambda: refnp.assert_close("softmax", {"y": X}, [X]), "got has 'y'; its quantities are output"),
        (lambda: refnp.assert_close("softmax", {}, [X], cotangent=X), "got is empty; its quantities are output, grad"),
        (lambda: refnp.assert_close("softmax", None, [X]), "output of got: object is no type of real numbers"),
        (lambda: refnp.assert_close("softmax", Empty(), [X]), "output of got: no data; give an array of real numbers"),
        (lambda: refnp.assert_close("softmax", X * 1j, [X]), "output of got: complex64 is no type of real numbers"),
        (lambda: refnp.tolerance("softmax", [X * 1j]), "inputs: x: complex64 is no type of real numbers"),
        (lambda: refnp.tolerance("softmax", X), r"give a dict or a tuple of arrays; those of softmax are \(x\)"),
        (lambda: refnp.tolerance("softmax", [X], axis=7), r"softmax of x \(4, 6\): softmax: axis 7 is out of range"),
        (lambda: refnp.tolerance("softmax", [X], along=1), "unexpected keyword argument 'along'"),
        (lambda: refnp.tolerance("attention", [X, X, X[:2]]), r"value has shape \(2, 6\).*key has M = 4"),
        (lambda: refnp.tolerance("softmax", [X], precision=None), "precision is 'None'; name a format"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


MANY = np.arange(1e5).reshape(100, 1000)
IN_A_WRONG_PLACE = {
    "layer": lambda: refnp.assert_close(MANY, "softmax", {"x": MANY}),
    "precision": lambda: refnp.tolerance("softmax", {"x": MANY}, precision=MANY),
    "formats": lambda: refnp.tolerance("softmax", {"x": MANY}, formats=MANY),
    "function": lambda: refnp.judge("softmax", MANY),
    "cases": lambda: refnp.judge("softmax", softmax, skip=MANY),
    "layout": lambda: refnp.judge("softmax", softmax, layout=MANY),
    "options": lambda: refnp.judge("softmax", softmax, options=MANY),
    "digits": lambda: gradcheck.check(softmax, (MANY,), vjp=vjp, digits=MANY),
    "draw": lambda: symmetry.search(symmetry.invariant(softmax, symmetry.Permute("x")), MANY),
    "where": lambda: symmetry.invariant(softmax, symmetry.Permute("x"), where=MANY),
}


@pytest.mark.parametrize("place", IN_A_WRONG_PLACE)
def test_an_array_in_a_wrong_place_is_named_and_not_written_out(place):
    with pytest.raises((TypeError, ValueError)) as wrong:
        IN_A_WRONG_PLACE[place]()
    assert "9.9900e+02" not in str(wrong.value)  # an end of a row
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("own", [True, False])
def test_items_asked_one_by_one_have_the_bounds_and_values_that_they_have_together(monkeypatch, own):
    """With axes in front that broadcast, and a mask for all items."""
    rng = np.random.default_rng(0)
    fronts = [(2, 3), (2, 3), (2, 3)] if own else [(2, 1), (1, 3), (2, 3)]
    query, key, value = (rng.integers(-9, 9, (*front, 20, 4)) / 4 for front in fronts)
    inputs = {"query": query, "key": key, "value": value}
    found, options = {}, {"mask": np.tri(20, dtype=bool), "softcap": 2.0}
    for least in (1, 2**62):
        monkeypatch.setattr(items, "LEAST", least)
        problem = problem_of("test", "attention", inputs, "float32", None, options)
        assert (items.independent(problem.case, problem.arrays | options) is None) == (least > 1)
        found[least] = problem.bounds["output"], problem.reference()["output"], problem.answer()["output"]
    (one, right, answer), (all_, right_of_all, answer_of_all) = found.values()
    np.testing.assert_array_equal(one.value, all_.value)
    np.testing.assert_array_equal(right, right_of_all)
    np.testing.assert_allclose(answer, answer_of_all, 0, 1e-6)
    np.testing.assert_allclose(one.error, all_.error, 1e-6)
    np.testing.assert_array_equal(one.lost, all_.lost)
    assert right.shape == (2, 3, 20, 4)


def test_no_option_of_a_function_of_items_is_an_axis():
    """An axis in front could be meant, along which items are not independent."""
    declared = [f.takes for module in (layers, autograd) for f in vars(module).values() if hasattr(f, "takes")]
    of_items = [one for one in declared if isinstance(one, Declaration) and items.OF_ITEMS.fullmatch(one.result)]
    assert len(of_items) > 20
    assert not [one.name for one in of_items for option in one.options.values() if "ax" in option.text]
