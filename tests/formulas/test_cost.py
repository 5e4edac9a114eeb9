"""The polynomials of a cost are what is counted when a page runs on numbers."""

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest

from benchmarks import costs
from refnp import cli, layers
from refnp.formulas.cost import cost
from refnp.formulas.lines import usual_form
from refnp.verify.theorems import numbers_of

KINDS = {np.exp: "exponentials", np.multiply: "multiplications", np.square: "multiplications"}
COUNTED = ["attention", "attention_scores", "layer_norm", "mse", "positive_features", "rms_norm", "softmax"]


class Counting(np.ndarray):
    """An array that counts what is computed of it."""

    counts: ClassVar[Counter] = Counter()

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        plain = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
        found = getattr(ufunc, method)(*plain, **options)
        size = np.size(found)
        if ufunc is np.matmul:
            Counting.counts["multiplications"] += size * inputs[0].shape[-1]
        elif method == "__call__" and np.ndim(found) and not any(np.ndim(x) == 0 and abs(x) == 1 for x in plain):
            Counting.counts[KINDS.get(ufunc, ufunc.__name__)] += size * (
                bool not in {getattr(x, "dtype", 0) for x in plain}
            )
        return np.asarray(found).view(Counting)

    def __array_function__(self, function, types, arguments, options):
        found = super().__array_function__(function, types, arguments, options)
        return found.view(Counting) if isinstance(found, np.ndarray) else found


def counted(of):
    """What is counted while something runs, and what it returns."""
    Counting.counts = Counter()
    found = of()
    return Counting.counts, found


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", COUNTED)
def test_polynomials_are_what_is_counted_in_numbers(name, seed):
    operation = getattr(layers, name)
    form, of = usual_form(operation), cost(operation)
    arguments, options = numbers_of(form, seed, longest=4, least=2)
    shapes = ((x.shape, np.shape(arguments[k])) for k, x in form.arguments.items() if x is not None)
    sizes = {str(n): length for shape, lengths in shapes for n, length in zip(shape, lengths, strict=True)}
    arrays = [x if x is None else np.asarray(x).view(Counting) for x in arguments.values()]
    forward, (y, vjp) = counted(lambda: operation.page.__wrapped__(*arrays, **options))
    back, _ = counted(lambda: vjp(np.ones(np.shape(y)).view(Counting)))
    for found, counts in ((forward, of.forward), (back, of.gradient)):
        for kind in ("multiplications", "exponentials"):
            assert found[kind] == (of.at(counts[kind], **sizes) if kind in counts else 0), (kind, counts, sizes)


def test_what_is_kept_is_what_the_vjp_closes_over():
    of = cost(layers.attention)
    assert of.text(of.kept) == "B N M + B N d_v"  # the weights and the output
    assert of.text(of.forward["multiplications"]) == "B N M d + B N M d_v + B N M"
    of = cost(layers.layer_norm)
    assert of.text(of.kept) == "B D + B"  # x̂ and s


def test_the_command(capsys):
    assert cli.main(["prove", "softmax", "--cost"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "softmax",
        "    value     divisions        B n",
        "    value     exponentials     B n",
    ]
    assert cli.main(["prove", "nothing", "--cost"]) == cli.WRONG


def test_the_page_of_benchmarks_has_them():
    text = costs.PAGE.read_text(encoding="utf-8")
    assert costs.brought_up_to_date(text) == text, "python -m benchmarks.costs --write"
