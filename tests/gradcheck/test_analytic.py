"""The complex step is trusted where f is analytic and nowhere else."""

import numpy as np
import pytest

from gradcheck import compare
from tests.gradcheck.claims import vjp_of

X = np.array([0.5, -1.5, 2.0])


def reason(f, x=X):
    """Why the complex step was not used for f, or None where it was; f = x² in effect, so the claim is 2xu."""

    def claim(x):
        return f(x), lambda u: (2 * x * u,)

    report = compare(f, (x,), vjp=vjp_of(claim))
    assert report.agrees, report
    return None if report.method == "complex step" else next(r for r in report.remarks if "no complex step" in r)


def test_analytic_code_is_differentiated_by_the_complex_step():
    assert reason(lambda x: x * x) is None
    assert reason(lambda x: np.where(x.real > 0, x, -x) ** 2) is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.abs(x) ** 2,
        lambda x: x * np.conj(x),
        lambda x: (x * x).real,
        lambda x: x.real * x,
        lambda x: x * x + 1e-6 * (np.abs(x) - np.sqrt(x.real**2)),
    ],
)
def test_code_that_drops_the_imaginary_part_is_found_out(f):
    found = reason(f)
    assert found is None or "not its derivative" in found


SAID = {
    "a little abs": (lambda x: x * x - 1e-6 * x + 1e-6 * np.sign(x.real) * np.abs(x), "not its derivative"),
    "one element": (lambda x: np.concatenate([x[:2] ** 2, np.abs(x[2:]) ** 2]), "not its derivative"),
    "a cast that discards": (lambda x: x.astype(float) ** 2, "ComplexWarning"),
    "a refusal": (lambda x: np.hypot(x, 0) ** 2, "does not take complex numbers there (TypeError"),
    "a branch for complex numbers": (lambda x: x * x + (1 if np.iscomplexobj(x) else 0), "real part"),
}


@pytest.mark.parametrize("what", SAID)
def test_why_the_complex_step_is_not_trusted_is_said(what):
    f, words = SAID[what]
    assert words in reason(f)


def test_asking_for_the_complex_step_of_what_is_not_analytic_is_an_error():
    with pytest.raises(ValueError, match=r"method is 'complex_step' but .* pass method='auto'"):
        compare(np.abs, (X,), vjp=lambda f, x: (f(x), lambda u: (u * np.sign(x),)), method="complex_step")


def judged(f, x, gradient):
    return compare(f, (x,), vjp=lambda _, x: (f(x), lambda u: (u * gradient,)))


@pytest.mark.parametrize("scale", [1e-3, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize(
    ("g", "slope"),
    [
        (lambda z: np.exp(-np.abs(z)), lambda z: -np.sign(z) * np.exp(-np.abs(z))),
        (lambda z: np.tanh(z.real), lambda z: 1 / np.cosh(np.minimum(np.abs(z), 300)) ** 2),
        (lambda z: np.abs(z) / (np.abs(z) + 1), lambda z: np.sign(z) / (np.abs(z) + 1) ** 2),
    ],
)
def test_what_is_not_analytic_near_a_small_element_alone_is_found_out(g, slope, scale):
    """Steps as long as the array see a plateau there, which is no evidence of a derivative of 0."""
    x = np.array([0.7 * scale, -1.0])
    right = slope(x / scale) / scale
    assert judged(lambda x: g(x / scale).sum(), x, right).agrees
    for wrong in (0 * x, right * [0, 1], right * [1 + 1e-9, 1]):
        assert judged(lambda x: g(x / scale).sum(), x, wrong).disagrees


@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e-9])
def test_what_is_not_analytic_in_a_part_that_hardly_shows_is_found_out(factor):
    f = lambda x: x[0] ** 2 + factor * np.abs(x[1])
    x = np.array([2.0, -1.0])
    assert judged(f, x, np.array([4, -factor])).agrees
    assert judged(f, x, np.array([4.0, 0])).disagrees


@pytest.mark.parametrize("large", [1e2, 1e6, 1e10])
@pytest.mark.parametrize("sign", [-1, 1])
def test_beside_a_bend_analytic_code_is_so(large, sign):
    """Steps as long as the array cross it: that does not show that f uses abs, conj or .real."""
    x, weights = np.array([large, sign / large]), np.array([1.0, large])
    right = weights * (x > 0)
    report = judged(lambda x: (weights * np.maximum(x, 0)).sum(), x, right)
    assert report.agrees
    assert report.method == "complex step"
    assert judged(lambda x: (weights * np.maximum(x, 0)).sum(), x, right + np.array([0, large])).disagrees


def test_where_differences_resolve_nothing_the_complex_step_is_taken_if_it_is_asked_for():
    f = lambda x: (1e14 + np.sin(x.astype(complex if x.dtype.kind == "c" else float))) - 1e14
    vjp = lambda _, x: (f(x), lambda u: (u * np.cos(x),))
    assert "differences do not resolve" in str(compare(f, (X,), vjp=vjp))
    assert compare(f, (X,), vjp=vjp, method="complex_step").agrees
