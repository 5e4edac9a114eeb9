"""Every edit of a page that makes it another function breaks a law: tests/mutants.py, here on some pages."""

import numpy as np
import pytest

from tests.mutants import Law, pages, survivors

PAGES = pages()
LIVES = {  # edits that no law tells, and why
    "leaky_relu": ("np.where(x >= 0, y_bar, a * y_bar)", "at the kink, another subgradient"),
}
SOME = ("layer_norm", "softmax", "leaky_relu", "mse", "attention_scores", "cholesky_solve")


@pytest.mark.parametrize("name", SOME)
def test_what_is_another_function_is_found_out(name):
    found, left, _ = survivors(PAGES[name])
    known, _ = LIVES.get(name, ("", ""))
    assert found >= 100
    assert [line for line in left if not known or known not in line] == []


def test_without_its_transcription_a_constant_lives():
    """And with it, it does not; a VJP that is not the derivative is found out either way."""

    def page(x):
        return x * x, lambda bar: (2 * x * bar,)

    x = np.linspace(-1, 1, 5).astype(np.longdouble)
    another, wrong = lambda x: (x * x + 1, page(x)[1]), lambda x: (x * x, lambda bar: (x * bar,))
    alone, beside = Law(page, [x], {}), Law(page, [x], {}, x**2, np.zeros(5))
    assert [law.breaks(page) for law in (alone, beside)] == [False, False]
    assert [law.breaks(another) for law in (alone, beside)] == [False, True]
    assert [law.breaks(wrong) for law in (alone, beside)] == [True, True]
    assert alone.tells(another)
    assert not alone.tells(page)
