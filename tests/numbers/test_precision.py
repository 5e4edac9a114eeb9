"""Policies of precision: formats round as their hardware does, and the bound of a policy holds for what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.numbers import rounding
from refnp.numbers.precision import FORMATS, Policy, policy
from refnp.numbers.rounding import Rounded, arithmetic, contract, exact, tolerance
from refnp.verify.frameworks import NATIVES, ask, installed
from refnp.verify.layers import cases
from tests.helpers import seeds

EAGER = ("bfloat16", "float16", "float8_e4m3fn")


def numbers_of(rng, count):
    """Numbers of all sizes, of both signs, and those that no rounding likes."""
    with np.errstate(over="ignore"):
        x = (rng.standard_normal(count) * 10.0 ** rng.uniform(-46, 39, count)).astype(np.float32)
    return np.concatenate([x, np.float32([0, -0.0, np.inf, -np.inf, 1, 65504, 65520, 2.0**-24, 2.0**-25])])


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@given(seed=seeds)
def test_a_format_rounds_as_its_type_does(name, seed):
    if name != "float16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.float16 if name == "float16" else getattr(ml_dtypes, name)
    x = numbers_of(np.random.default_rng(seed), 300)
    with np.errstate(over="ignore", invalid="ignore"):
        right = x.astype(kind).astype(np.float64)
    found = FORMATS[name].rounded(x).astype(np.float64)
    finite = np.isfinite(right)  # float8_e4m3fn has NaN for what is too large
    np.testing.assert_array_equal(found[finite], right[finite])
    assert np.isinf(found[~finite]).all()
    assert np.isnan(FORMATS[name].rounded(np.nan))


def test_tf32_and_the_widest_type():
    assert FORMATS["tf32"].rounded(1 + 2.0**-11) == 1, "a tie goes to the even number"
    assert FORMATS["tf32"].rounded(1 + 3 * 2.0**-11) == 1 + 2.0**-9
    assert policy(np.longdouble).inside.u == np.finfo(np.longdouble).eps / 2
    for kind in (np.float32, np.float64):
        assert float(policy(kind).inside.u) == np.finfo(kind).eps / 2
        assert float(policy(kind).inside.lost) == np.finfo(kind).tiny


def test_names_say_what_is_judged():
    assert policy("bfloat16").every
    assert policy("bfloat16").inside.name == "float32"
    fused = policy("bfloat16 in and out, float32 inside, bfloat16 products")
    assert (fused.stored.name, fused.inside.name, fused.products.name, fused.every) == (
        "bfloat16", "float32", "bfloat16", False
    )  # fmt: skip
    assert policy("float32,  tf32 products".replace("  ", " ")).products.name == "tf32"
    assert isinstance(policy(fused), Policy)
    assert (policy("float32").narrow, policy("float16").narrow) == ("", "float16")


@pytest.mark.parametrize("name", ["bf16", "tf32", "float32 inside", 3.5, "float16 in and out, tf16 inside"])
def test_a_name_that_there_is_not_is_refused(name):
    with pytest.raises((ValueError, TypeError), match=r"precision|data type"):
        policy(name)


def test_what_is_inside_is_no_narrower():
    with pytest.raises(ValueError, match="must not be narrower"):
        policy("float32 in and out, bfloat16 inside")


# The bound of a policy, on programs in which every rounding is done by hand


class Stored:
    """Numbers of a format, with each result rounded to `inside` and then to `stored`, as eager code has it."""

    def __init__(self, values, form):
        self.values, self.form = np.asarray(values, np.longdouble), form

    def of(self, values):
        inner = self.form.inside.rounded(values)
        return Stored(self.form.stored.rounded(inner) if self.form.every else inner, self.form)

    def __add__(self, other):
        return self.of(self.values + other.values)

    def __sub__(self, other):
        return self.of(self.values - other.values)

    def __mul__(self, other):
        return self.of(self.values * other.values)

    def __truediv__(self, other):
        return self.of(self.values / other.values)

    def exp(self):
        return self.of(np.exp(self.values))

    def total(self):
        """The sum of the rows, one after the other in the inner format, and stored at the end."""
        sums = np.zeros(self.values.shape[1:], np.longdouble)
        for row in self.values:
            sums = self.form.inside.rounded(sums + row)
        return self.of(sums)

    def times(self, other):
        """Σ_k x_ik y_kj, factors rounded first."""
        x, y = self.values, other.values
        if self.form.products is not None:
            x, y = self.form.products.rounded(x), self.form.products.rounded(y)
        sums = np.zeros((len(x), y.shape[1]), np.longdouble)
        for k in range(x.shape[1]):
            sums = self.form.inside.rounded(sums + self.form.inside.rounded(x[:, k, None] * y[k]))
        return self.of(sums)


PROGRAMS = {
    "x + y": (lambda x, y: x + y, lambda x, y: x + y),
    "a difference of products": (lambda x, y: x * y - y * y, lambda x, y: x * y - y * y),
    "x / y": (lambda x, y: x / y, lambda x, y: x / y),
    "exp": (lambda x, y: x.exp() * y, lambda x, y: rounding.exp(x) * y),
    "sum": (lambda x, y: (x * y).total(), lambda x, y: (x * y).sum((0,))),
    "product": (lambda x, y: x.times(y), lambda x, y: contract("ij,jk->ik", x, y)),
    "product of what was computed": (
        lambda x, y: x.exp().times(y - x),
        lambda x, y: contract("ij,jk->ik", rounding.exp(x), y - x),
    ),
}
POLICIES = (*EAGER, "bfloat16 in and out, float32 inside", "float16 in and out, float32 inside, float16 products",
            "float32, tf32 products", "float8_e5m2 in and out, float32 inside, float8_e5m2 products")  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", POLICIES)
@given(seed=seeds)
def test_the_bound_of_a_policy_holds_for_it(program, name, seed):
    form, rng = policy(name), np.random.default_rng(seed)
    by_hand, in_bounds = PROGRAMS[program]
    x, y = (form.given(rng.standard_normal((5, 5))) for _ in "xy")
    with np.errstate(divide="ignore", invalid="ignore"):  # a small y may be 0 in a narrow format
        found = by_hand(Stored(x, form), Stored(y, form)).values
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = in_bounds(*(exact(a, arithmetic(name)) for a in (x, y)))
        error = np.abs(form.stored.rounded(found) - bound.value)
        assert (error <= tolerance(bound, name)).all() or not np.isfinite(found).all()


@pytest.mark.parametrize("name", ["bfloat16", "bfloat16 in and out, float32 inside"])
def test_a_format_with_two_digits_fewer_is_beyond_the_bound(name):
    rng = np.random.default_rng(0)
    x, y = (policy(name).given(rng.standard_normal((5, 5))) for _ in "xy")
    bound = contract("ij,jk->ik", *(exact(a, arithmetic(name)) for a in (x, y)))
    coarse = (x.astype(np.longdouble) @ y) * (1 + 2.0**-6)
    assert (np.abs(coarse - bound.value) > tolerance(bound, name)).any()


def test_beyond_the_range_of_a_format_nothing_is_judged():
    x = exact(np.array([300.0]), arithmetic("float16"))
    assert np.isinf(tolerance(x * x, "float16")), "90000 is infinite in float16"
    assert np.isinf(tolerance(Rounded(90000.0, 0), "float16 in and out, float32 inside"))
    assert np.isfinite(tolerance(exact(np.array([300.0]), arithmetic("bfloat16")) * x, "bfloat16"))


def test_constants_are_stored_too():
    """Beside a bfloat16 number some frameworks round ε and √2 to bfloat16, others to float32."""
    x = exact(np.array([1.0]), arithmetic("bfloat16"))
    right, rounded = 1 + 1 / np.longdouble(3), FORMATS["bfloat16"].rounded(1 / np.longdouble(3)) + 1
    bound = x + rounding.constant(1 / np.longdouble(3))
    assert np.abs(FORMATS["bfloat16"].rounded(rounded) - right) <= tolerance(bound, "bfloat16")


@pytest.mark.parametrize("framework", ["PyTorch", "JAX"])
@given(chosen=st.sampled_from([c for c in cases() if c.layer.name in ("softmax", "matmul", "gelu", "tanh")]))
def test_a_framework_is_asked_in_the_stored_format(framework, chosen):
    """Its answers are numbers of the format."""
    if not installed(framework):
        pytest.skip(f"{framework} is not installed")
    pytest.importorskip("ml_dtypes")
    name = "bfloat16 in and out, float32 inside"
    problem = chosen.problem(name)
    for array in (*problem.arrays.values(), *ask(NATIVES[framework], problem).values()):
        finite = np.asarray(array, np.float64)[np.isfinite(array)]
        np.testing.assert_array_equal(FORMATS["bfloat16"].rounded(finite), finite)
