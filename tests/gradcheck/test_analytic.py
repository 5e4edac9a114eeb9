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
    "a refusal": (lambda x: np.hypot(x, 0) ** 2, "does not take complex arguments (TypeError"),
    "a branch for complex numbers": (lambda x: x * x + (1 if np.iscomplexobj(x) else 0), "real part"),
}


@pytest.mark.parametrize("what", SAID)
def test_why_the_complex_step_is_not_trusted_is_said(what):
    f, words = SAID[what]
    assert words in reason(f)


def test_asking_for_the_complex_step_of_what_is_not_analytic_is_an_error():
    with pytest.raises(ValueError, match=r"method is 'complex_step' but .* pass method='auto'"):
        compare(np.abs, (X,), vjp=lambda f, x: (f(x), lambda u: (u * np.sign(x),)), method="complex_step")
