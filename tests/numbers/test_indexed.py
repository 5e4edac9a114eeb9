"""Indexed expressions: each rule is checked on drawn numbers, and nothing that is false is proved."""

import random
import warnings
from fractions import Fraction

import numpy as np
import pytest

from refnp import layers
from refnp.numbers.indexed.arrays import Indexed, mask, symbol
from refnp.numbers.indexed.expressions import Expression, atom
from refnp.numbers.indexed.functions import derivative
from refnp.numbers.indexed.proving import gradients, permuted, same, text
from refnp.numbers.indexed.sizes import Size
from refnp.numbers.indexed.terms import NoRule, assuming, canonical
from refnp.numbers.words import constant, erf, erfc, largest, less_log1p, normal_cdf, peak, pi, root, shares
from tests.numbers.indexed_values import Values

B, N, D = map(Size, "BND")
X, Y, W = symbol("x", N, D), symbol("y", N, D), symbol("w", D)
SIZES = {"N": 3, "D": 4, "B": 2}
WORDS = {"np": np, "erf": erf, "erfc": erfc, "softmax": lambda x: layers.softmax.page(x)[0], "shares": shares,
         "peak": peak, "less_log1p": less_log1p, "largest": largest, "root": root, "pi": pi,
         "constant": constant}  # fmt: skip


def numbers(seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(3, 4)), "y": rng.normal(size=(3, 4)), "w": rng.normal(size=4)}


# One rule, one sentence, one test


RULES = {  # what is written, and what else it is equal to: both are the same expression, with the value that NumPy has
    "products are multiplied out": ("(x + y) * w", "x * w + y * w"),
    "powers of the same are joined": ("x**2 * x**3 / x", "x**4"),
    "what is not summed over is counted": ("(w + 0 * x).sum(0)", "w * x.shape[0]"),
    "sums do not depend on their order": ("(x.sum(-1).sum(0) * y).sum(0)", "(x.sum(0).sum(-1) * y).sum(0)"),
    "the largest is an entry": ("np.where(largest(x), x, 0).sum(-1)", "x.max(-1)"),
    "a number of things, or 1": (
        "np.maximum((x > 0).sum(-1), 1)",
        "np.where((x > 0).any(-1), (x > 0).sum(-1), 1)",
    ),
    "the largest of copies": ("np.repeat(x, x.shape[0], 0).max(0)", "x.max(0)"),
    "a sum of copies": ("np.repeat(x, x.shape[0], 0).sum(0)", "x.shape[0] * x.sum(0)"),
    "where a positive multiple is largest": (
        "largest(np.exp(x + y.sum(-1, keepdims=True))) * y",
        "largest(np.exp(x)) * y",
    ),
    "the mean of a mean": ("x.mean(-1, keepdims=True).mean(-1)", "x.sum(-1) / x.shape[-1]"),
    "exp of a sum": ("np.exp(x + 2 * y - 1)", "np.exp(x) * np.exp(y) ** 2 / np.exp(1 + 0 * x)"),
    "exp of log": ("np.exp(2 * np.log(x) + y)", "x * x * np.exp(y)"),
    "log of exp": ("np.log(np.exp(x) * 3 / np.exp(y))", "x - y + np.log(3 + 0 * x)"),
    "log of odd powers": ("np.log(x**3)", "3 * np.log(x)"),
    "shares have sum 1": ("shares(np.exp(x)).sum(-1)", "1 + 0 * x.sum(-1)"),
    "a numerator over its denominator": ("(x + np.exp(y)) / (np.exp(y) + x)", "1 + 0 * x"),
    "what is left of a numerator": ("x / (x + y)", "1 - y / (x + y)"),
    "a denominator with another sign": ("x / (x - y)", "-x / (y - x)"),
    "two ways to write the logistic function": ("1 / (1 + np.exp(-x))", "np.exp(x) / (1 + np.exp(x))"),
    "its slope": ("np.exp(x) / (1 + np.exp(x)) / (1 + np.exp(x))", "np.exp(-x) / (1 + np.exp(-x)) ** 2"),
    "tanh": ("np.tanh(x)", "(np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x))"),
    "tanh is odd": ("np.tanh(-x)", "-np.tanh(x)"),
    "a root squared": ("np.sqrt(x + y) ** 2", "x + y"),
    "a root and its inverse": ("np.sqrt(x + y) / (x + y)", "1 / np.sqrt(x + y)"),
    "what is positive leaves a root": ("np.sqrt(12 * np.exp(2 * x) * y)", "2 * root(3) * np.exp(x) * np.sqrt(y)"),
    "roots of numbers": ("x * root(2) * root(2) / root(constant(1) / 9)", "6 * x"),
    "sin of a sum": ("np.sin(x - y)", "np.sin(x) * np.cos(y) - np.cos(x) * np.sin(y)"),
    "cos squared": ("np.cos(x) ** 2", "1 - np.sin(x) ** 2"),
    "erf is odd": ("erf(y - x)", "-erf(x - y)"),
    "erfc": ("erfc(x)", "1 - erf(x)"),
    "running sums from both ends": (
        "(np.cumsum(x, -1) * y).sum(-1)",
        "(x * np.flip(np.cumsum(np.flip(y, -1), -1), -1)).sum(-1)",
    ),
    "read backwards twice": ("np.flip(np.flip(x, -1), -1)", "1 * x"),
    "a sum read backwards": ("(np.flip(x, -1) * np.flip(y, -1)).sum(-1)", "(x * y).sum(-1)"),
    "arctan is odd": ("np.arctan(x - y)", "-np.arctan(y - x)"),
    "x − log(1 + x)": ("less_log1p(x * x) + np.log(1 + x * x)", "x * x"),
    "a remainder": ("x - np.remainder(x, y)", "y * np.floor_divide(x.real, y.real)"),
    "conditions in functions": ("np.exp(np.where(x > 0, x, y))", "np.where(x > 0, np.exp(x), np.exp(y))"),
    "one side or the other": ("np.where(x > y, 1, 0) + np.where(y > x, 1, 0)", "1 + 0 * x"),
    "a scale does not matter to a sign": ("np.where(2 * x > 0, x, 0)", "np.where(x * np.exp(y) > 0, x, 0)"),
    "the absolute value": ("np.abs(x) * np.abs(x)", "x**2"),
    "maximum": ("np.maximum(x, y) + np.minimum(x, y)", "x + y"),
    "numbers of the formula": ("constant(0.5) * x * pi / pi", "x / 2"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_holds_for_drawn_numbers_and_makes_two_forms_one(rule):
    """Both forms are proved equal, and both are what NumPy computes, for positive numbers and for any."""
    one, other = RULES[rule]
    of = lambda form, arrays: eval(form, WORDS | arrays)
    indexed = {"x": X, "y": Y, "w": W}
    assert same(lambda: of(one, indexed), lambda: of(other, indexed)), rule
    for seed in range(3):
        arrays = {name: np.abs(a) + 0.1 if seed else a for name, a in numbers(seed).items()}
        with np.errstate(all="ignore"):
            known = of(one, arrays)
        if np.isfinite(known).all():
            values = Values(SIZES, arrays)
            np.testing.assert_allclose(values.array(of(one, indexed)), known, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(values.array(of(other, indexed)), known, rtol=1e-9, atol=1e-12)


# Programs that are drawn


def program(rng, depth):
    """A drawn formula of x, y and w, as text."""
    a, b = (program(rng, depth - 1) if depth > 1 else rng.choice(["x", "y", "w", "x", "2", "-0.5"]) for _ in range(2))
    ways = ["({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} / (2 + {b} * {b}))", "({a} / {b})", "np.exp({a} / 4)",
            "np.tanh({a})", "np.sqrt(1 + {a} * {a})", "np.sqrt({a} * {a} + 0 * x)", "np.log(1 + np.exp({a} + 0 * x))",
            "np.log(({a} + 0 * x) ** 2)", "np.sin({a} + 0 * x)", "np.cos({a} + 0 * x)", "erf({a} + 0 * x)",
            "np.where(({a} + 0 * x) > {b}, {a}, {b})", "np.maximum({a} + 0 * x, {b})", "np.abs({a} + 0 * x)",
            "({a} + 0 * x).sum(-1, keepdims=True)", "({a} + 0 * x).mean(0)", "softmax({a} + 0 * x)",
            "({a} + x).max(-1, keepdims=True)", "({a} + 0 * x) @ (({b} + 0 * y).mT @ ({a} + 0 * x))",
            "np.where(largest({a} + x), {b}, 0)", "({a} + 0 * x) ** 2", "shares(np.exp({a} / 2 + 0 * x))"]  # fmt: skip
    return rng.choice(ways).format(a=a, b=b)


def evaluated(form, arrays):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(form, WORDS | arrays) + 0 * arrays["x"]


@pytest.mark.parametrize("seed", range(40))
def test_a_drawn_program_is_worth_what_numpy_computes_and_has_its_derivative(seed):
    """The rules keep the value, and the derivative term by term is that of the complex step."""
    rng = random.Random(seed)
    tried = 0
    while tried < 3:
        form = program(rng, rng.choice([1, 2, 2, 3]))
        arrays = numbers(seed)
        known = evaluated(form, arrays)
        if not np.isfinite(known).all() or np.abs(known).max() > 1e6:
            continue
        tried += 1
        try:
            with assuming():
                x = eval(form, WORDS | {"x": X, "y": Y, "w": W}) + 0 * X
                e = x.at(("i0", "i1"))
                slope = derivative(e, "x", ("i2", "i3"))
        except (NoRule, RecursionError):
            continue
        values = Values(SIZES, arrays)
        np.testing.assert_allclose(values.array(x), known, rtol=1e-7, atol=1e-9, err_msg=form)
        if any(word in form for word in ("erf", "abs", "maximum", ">", "max", "largest")):
            continue  # the complex step of these is not NumPy's
        moved = evaluated(form, arrays | {"x": arrays["x"] + 1e-30j * (np.arange(12).reshape(3, 4) == 5)})
        found = [[values.of(slope, {"i0": n, "i1": d, "i2": 1, "i3": 1}) for d in range(4)] for n in range(3)]
        np.testing.assert_allclose(found, moved.imag / 1e-30, rtol=1e-6, atol=1e-8, err_msg=form)


@pytest.mark.parametrize("seed", range(30))
def test_of_two_drawn_programs_that_differ_none_is_proved_the_other(seed):
    """One operation is exchanged; what is then proved to be the same has the same value."""
    rng = random.Random(1000 + seed)
    for _ in range(5):
        form = program(rng, rng.choice([1, 2, 2, 3]))
        places = [k for k, letter in enumerate(form) if letter in "+-*/xyw2"]
        k = rng.choice(places)
        other = form[:k] + rng.choice("xyw2" if form[k] in "xyw2" else "+-*/") + form[k + 1 :]
        try:
            f, g = (compile(text, "drawn", "eval") for text in (form, other))
            proof = same(*(lambda f=f: eval(f, WORDS | {"x": X, "y": Y, "w": W}) + 0 * X for f in (f, g)))
        except SyntaxError:
            continue
        if proof:
            for draw in range(3):
                arrays = numbers(draw)
                one, two = evaluated(form, arrays), evaluated(other, arrays)
                both = np.isfinite(one) & np.isfinite(two)
                np.testing.assert_allclose(one[both], two[both], rtol=1e-7, atol=1e-9, err_msg=f"{form}  {other}")


# What must not be proved


FALSE = {
    "a running sum is not one from the other end": ("np.cumsum(x, -1)", "np.flip(np.cumsum(np.flip(x, -1), -1), -1)"),
    "nor a sum": ("np.cumsum(x, -1)", "x.sum(-1, keepdims=True) + 0 * x"),
    "read backwards": ("np.flip(x, -1)", "x"),
    "read backwards along another axis": ("np.flip(x, -1)", "np.flip(x, 0)"),
    "arctan of a product": ("np.arctan(x * y)", "np.arctan(x) * np.arctan(y)"),
    "a remainder is not all": ("np.remainder(x, y)", "x"),
    "a root is not its negative": ("np.sqrt(x * x)", "-x"),
    "a root of a square is not x": ("np.sqrt(x * x)", "x"),
    "nor a power of a half": ("(x**2) ** 0.5", "x"),
    "nor a root of a product": ("np.sqrt(x * y)", "np.sqrt(x) * np.sqrt(y)"),
    "nor the root of a square of a sum": ("np.sqrt((x + y) ** 2)", "x + y"),
    "log of a square": ("np.log(x * x)", "2 * np.log(x)"),
    "log of a product": ("np.log(x * y)", "np.log(x) + np.log(y)"),
    "−∞ is not 0": ("np.where(m, x, -np.inf)", "m * x"),
    "−∞ is not −∞ elsewhere": ("np.where(m, x, -np.inf)", "np.where(m, y, -np.inf)"),
    "exp under a mask": ("np.exp(np.where(m, x, -np.inf))", "np.exp(x)"),
    "0/0": ("(x - x) / (y - y)", "1 + 0 * x"),
    "0/0 of a sum": ("(x - x).sum(-1) / (x - x).sum(-1)", "1 + 0 * x.sum(-1)"),
    "0 times what is divided by 0": ("0 * (x / (y - y))", "0 * x"),
    "log 0": ("0 * np.log(x - x)", "0 * x"),
    "a size is not 1": ("(1 + 0 * x).sum(-1)", "1 + 0 * x.sum(-1)"),
    "a size is not another": ("x * x.shape[0]", "x * x.shape[1]"),
    "a mean is not a sum": ("x.mean(-1)", "x.sum(-1)"),
    "an entry is not another": ("x.mT @ x", "x.mT @ y"),
    "a condition is not its opposite": ("np.where(x > 0, x, 0)", "np.where(x < 0, x, 0)"),
    "one branch is not all": ("np.where(x > 0, x, 0)", "x"),
    "a mask is not another": ("np.where(m, x, 0)", "np.where(k, x, 0)"),
    "a mask of rows is none of columns": ("np.where(m, x, 0)", "np.where(m.any(-1)[..., None], x, 0)"),
    "the largest is not the largest of another": ("x.max(-1)", "y.max(-1)"),
    "nor of the negative": ("x.max(-1)", "-(-x).max(-1)"),
    "nor the first": ("np.where(largest(x), x, 0)", "np.where(largest(y), x, 0)"),
    "shapes that are too small": ("x.sum(-1, keepdims=True)", "x.sum(-1)"),
    "a smaller shape": ("x * 0 + 1", "1 + 0 * w"),
    "exp of a product": ("np.exp(x * y)", "np.exp(x) * np.exp(y)"),
    "sums of products": ("(x * y).sum(-1)", "x.sum(-1) * y.sum(-1)"),
    "a square of a sum": ("(x * x).sum(-1)", "x.sum(-1) ** 2"),
    "a row is not a column": ("x / x.sum(-1, keepdims=True)", "x / x.sum(0)"),
    "NaN": ("x * np.nan", "x * np.nan"),
    "infinity": ("x + np.inf", "x + np.inf"),
}


@pytest.mark.parametrize("why", FALSE)
def test_what_is_false_or_has_no_value_is_not_proved(why):
    names = WORDS | {"x": X, "y": Y, "w": W, "m": mask("m", N, D), "k": mask("k", N, D)}
    one, other = FALSE[why]
    proof = same(lambda: eval(one, names), lambda: eval(other, names))
    assert not proof, proof
    assert proof.missing


WRONG = {  # a page, and a gradient that is not its derivative
    "too small": lambda x: (x.sum(), lambda g: (g,)),
    "of one row": lambda x: (x.sum(0), lambda g: (g[None],)),
    "without the axis that was summed": lambda x: (x.sum(-1, keepdims=True), lambda g: (g,)),
    "of another branch": lambda x: (np.where(x > 0, x, 0), lambda g: (np.where(x < 0, g, 0),)),
    "of both branches": lambda x: (np.where(x > 0, x, 0), lambda g: (g,)),
    "to all and not to the largest": lambda x: (x.max(-1), lambda g: (g[..., None] + 0 * x,)),
    "of a root": lambda x: (np.sqrt(x), lambda g: (g / np.sqrt(x),)),
    "of a power": lambda x: (x**0.5, lambda g: (0 * x * g,)),
    "of an inverse": lambda x: (x**-1, lambda g: (g / x**2,)),
    "with another sign": lambda x: (np.sqrt((x + 1) ** 2), lambda g: (-g,)),
    "of a mean, of which the size is left out": lambda x: (x.mean(-1, keepdims=True), lambda g: (g + 0 * x,)),
    "of a mask": lambda x: (np.where(mask("m", N, D), x, 0), lambda g: (g,)),
    "of −∞": lambda x: (np.exp(np.where(mask("m", N, D), x, -np.inf)), lambda g: (g * np.exp(x),)),
    "a real part": lambda x: (x * 2, lambda g: (g * (2 + 0 * x.real),)),
}


@pytest.mark.parametrize("why", WRONG)
def test_a_wrong_gradient_is_not_proved(why):
    assert not gradients(WRONG[why], {"x": X})["x"]


def test_what_has_no_rule_is_refused_by_name():
    proof = gradients(lambda x: (np.arcsinh(x), lambda g: (g,)), {"x": X})["x"]
    assert not proof
    assert "no rule for arcsinh" in proof.missing
    assert "N" in same(lambda: X + symbol("z", B, D), lambda: X).missing
    assert "split" in same(lambda: X.reshape(D, N), lambda: X).missing
    assert "power that is an array" in same(lambda: X**Y, lambda: X).missing


def test_assumptions_are_told_with_a_theorem_and_kept_for_its_next_use():
    """Also when an array was worked out in another theorem before."""
    ratio = X / Y
    for _ in range(2):
        proof = same(lambda: ratio * Y, lambda: X)
        assert proof.assumptions == ("y[i,j] ≠ 0",)
    assert "x[i,j] ≠ 0" in same(lambda: np.where(X > 0, X, X), lambda: X).assumptions
    assert not same(lambda: np.exp(X) / np.exp(X), lambda: 1 + 0 * X).assumptions
    assert same(lambda: np.sqrt(X) ** 2, lambda: X).assumptions == ("x[i,j] ≥ 0",)
    assert "N ≠ D" in same(lambda: X * (X.shape[0] == X.shape[1]), lambda: 0 * X).assumptions


def test_a_branch_that_hangs_on_a_number_is_taken_as_it_is_asked():
    """Whichever sign the condition is kept with; and what hangs on an array is refused."""
    for sign in (1, -1):
        proof = same(lambda sign=sign: X if sign * X.sum() > 0 else Y, lambda: X)
        assert proof
        assert any(assumption.removeprefix("not ").endswith("> 0]") for assumption in proof.assumptions)
    assert same(lambda: X if X.sum() * 0 > 1 else Y, lambda: Y).assumptions == ()
    assert same(lambda: X if (X * 0).sum() + 2 > 1 else Y, lambda: X).assumptions == ()
    assert same(lambda: X if symbol("w") == 1 else Y, lambda: Y).assumptions == ("w − 1 ≠ 0",)
    assert "hangs on the value" in same(lambda: X if X.sum(0) > 0 else Y, lambda: X).missing


def test_a_size_that_may_be_1_stands_beside_itself_alone():
    assert not same(lambda: X + symbol("z", B, D), lambda: X + symbol("z", B, D))
    assert same(lambda: X + symbol("z", 1, D), lambda: symbol("z", 1, D) + X)


def test_bijections_move_what_is_summed_and_what_is_largest():
    assert same(lambda: permuted(X, 0).sum(0), lambda: X.sum(0))
    assert same(lambda: permuted(X, 1).max(-1), lambda: X.max(-1))
    assert same(lambda: largest(permuted(X, 1)), lambda: permuted(largest(X) * 1, 1))
    assert not same(lambda: permuted(X, 0).sum(1), lambda: X.sum(1))
    assert not same(lambda: permuted(X, 0), lambda: X)


def test_the_text_is_the_formula():
    softmax = layers.softmax.page(symbol("x", B, D))[0]
    assert text(softmax.at(("i1", "i2"))) == "(Σ_k exp(x[i,k]))^-1 exp(x[i,j])"
    assert text(Expression()) == "0"


def test_bound_letters_are_no_free_ones():
    """Σ_j x_ij times Σ_j x_ij has two letters; equal sums are written alike, however they were made."""
    e = X.sum(-1).at(("i0",))
    assert canonical(e * e) == canonical(X.sum(-1).at(("i0",)) * e)
    assert len(next(iter(e * e))[0]) == 2
    assert atom("x", "x", ("i0",)) != atom("x", "x", ("i1",))
    with pytest.raises(NoRule, match="divided by 0"):
        (X / (X - X)).at(("i0", "i1"))
    assert isinstance(normal_cdf(X)[0], Indexed)
    assert Fraction(1) in X.at(("i0", "i1")).values()


# Pages


EPS = symbol("ε")
PAGES = [
    (layers.softmax, {"x": (B, D)}, {}),
    (layers.log_softmax, {"x": (B, D)}, {}),
    (layers.layer_norm, {"x": (B, D), "gain": (D,), "shift": (D,)}, {"eps": EPS}),
    (layers.layer_norm, {"x": (B, N, D), "gain": (D,), "shift": ()}, {"eps": 0.0}),
    (layers.rms_norm, {"x": (B, D), "gain": (D,)}, {"eps": EPS}),
]


@pytest.mark.parametrize(("page", "shapes", "options"), PAGES)
def test_the_gradient_on_a_page_is_proved_for_every_size(page, shapes, options):
    proofs = gradients(page.page, {name: symbol(name, *shape) for name, shape in shapes.items()}, **options)
    assert set(proofs) == set(shapes)
    assert all(proofs.values()), proofs


def test_softmax_has_its_symmetries_and_not_others():
    softmax, c = (lambda x: layers.softmax.page(x)[0]), symbol("c", N, 1)
    assert same(lambda: softmax(X + c), lambda: softmax(X))
    assert same(lambda: softmax(X).sum(-1), lambda: 1 + 0 * X.sum(-1))
    assert same(lambda: softmax(permuted(X, 1)), lambda: permuted(softmax(X), 1))
    assert same(lambda: np.exp(layers.log_softmax.page(X)[0]), lambda: softmax(X))
    assert not same(lambda: softmax(2 * X), lambda: softmax(X))
    assert not same(lambda: softmax(X * c), lambda: softmax(X))
    assert not same(lambda: softmax(permuted(X, 1)), lambda: softmax(X))
