"""Every gradient of every page is proved, in every case that is small enough; and a wrong one is told."""

import numpy as np
import pytest

from refnp import cli
from refnp.verify import proofs
from refnp.verify.case import Case, Layer

PAGES = proofs.pages()


@pytest.mark.parametrize("page", PAGES)
def test_every_gradient_of_a_page_is_proved(page):
    found = list(proofs.rows(page))
    assert found
    for row in found:
        assert row.proved == row.cases > 5, row.not_proved


def test_a_wrong_gradient_is_told(monkeypatch, capsys):
    wrong = lambda x: None
    wrong.page = lambda x: (x * x, lambda y_bar: (y_bar * x,))
    case = Case(Layer("square", wrong, None), "of two", {"x": np.array([1.0, 2.0])})
    monkeypatch.setattr(proofs, "pages", lambda: {"square": [case]})
    assert proofs.prove() == 1
    assert "square/of two: wrong" in capsys.readouterr().out


def test_the_command_proves_a_page(capsys):
    assert cli.main(["prove", "softmax"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:2] == ["softmax", "x"]
    assert "chance of 1e-20" in out
    assert cli.main(["prove", "nothing"]) == cli.WRONG
