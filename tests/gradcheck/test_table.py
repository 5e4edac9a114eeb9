"""The table of operations and the command that prints it."""

import functools
import importlib
import json
import sys
import types
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest

from gradcheck import Exact
from gradcheck import __main__ as command
from gradcheck.exact import EXACT
from gradcheck.precision import wider
from gradcheck.table import cast, line, summary, table
from tests.gradcheck import claims
from tests.gradcheck.claims import vjp_of, wrong

X = np.random.default_rng(0).normal(size=(2, 3))
LONGDOUBLE = wider(np.float64) is not None


@dataclass(frozen=True)
class Operation:
    name: str
    function: Any
    args: tuple
    analytic: bool = True
    order2: bool = True
    model: bool = False
    equation: Any = None
    exact: Any = None


def vjp(claim, *args):
    """In these tests an operation's function is its claim, and gives value and pullback when asked by vjp."""
    return claim.claim(*args)


def operation(claim, args, **options):
    def function(*args):
        return claim(*args)[0]

    function.claim = claim
    return Operation(options.pop("name", None) or claim.__name__, function, args, **options)


RIGHT = [
    operation(claims.softmax, (X,)),
    operation(claims.relu, (X,), order2=False),
    operation(claims.absolute, (X,), analytic=False, order2=False),
]
WRONG = operation(wrong(claims.tanh, lambda g, u: [g[0] * (1 + 1e-7)]), (X,))


def broken(x):
    raise RuntimeError("out of order")


def test_rows_of_every_order_and_dtype():
    rows = list(table(RIGHT, vjp=vjp))
    assert [(r.dtype, r.order) for r in rows if r.name == "softmax"][:3] == [
        ("float64", 1),
        ("float64", 2),
        ("float32", 1),
    ]
    assert [r.order for r in rows if r.name == "relu" and r.dtype == "float64"] == [1]
    assert any(r.dtype == "longdouble" for r in rows) == LONGDOUBLE
    assert all(r.holds for r in rows)
    assert min(r.digits for r in rows if r.dtype == "float64") >= 13
    assert {r.method for r in rows if r.name == "absolute" and r.dtype == "float64"} == {"Richardson differences"}


def test_a_whole_model_is_checked_once():
    (row,) = table([operation(claims.softmax, (X,), model=True)], vjp=vjp)
    assert (row.dtype, row.order, row.holds) == ("float64", 1, True)
    (row,) = table([operation(wrong(claims.tanh, lambda g, u: [g[0] * (1 + 1e-7)]), (X,), model=True)], vjp=vjp)
    assert not row.holds


def product_of_maps(count):
    """x W₁ W₂ …, with `count` arrays and the gradient of each; `error` is added to the one that is named."""

    def claim(*args, error=None):
        sums = [args[0]]
        for w in args[1:]:
            sums.append(sums[-1] @ w)

        def pullback(u):
            found = []
            for before, w in zip(reversed(sums[:-1]), reversed(args[1:]), strict=True):
                found.append(before.T @ u)
                u = u @ w.T
            gradients = [u, *reversed(found)]
            if error is not None:
                place, index, size = error
                gradients[place][index] += size * np.abs(gradients[place]).max()
            return gradients

        return sums[-1], pullback

    rng = np.random.default_rng(0)
    return claim, (rng.normal(size=(2, 3)), *rng.normal(size=(count - 1, 3, 3)))


def test_a_model_of_many_arrays_is_checked_in_projections_that_cover_every_element():
    claim, args = product_of_maps(10)
    (row,) = table([operation(claim, args, model=True)], vjp=vjp)
    assert (row.elements, row.projected, row.derivatives, row.holds) == (0, 6 + 9 * 9, 87, True)
    assert row.note == "87 in projections"
    for place in range(10):
        for index in np.ndindex(args[place].shape):
            spoilt = operation(functools.partial(claim, error=(place, index, 1e-9)), args, model=True, name="spoilt")
            (row,) = table([spoilt], vjp=vjp)
            assert not row.holds
            assert f"argument {place} at [{index[0]}, {index[1]}]" in row.note
    few = operation(*product_of_maps(9), model=True)
    assert [row.elements for row in table([few], vjp=vjp)] == [6 + 8 * 9]


def test_an_operation_with_an_equation_is_counted_element_by_element():
    def equation(x):
        e = np.array([mpmath.exp(v) for v in x], object)
        return e / e.sum()

    exact = Exact(equation, mpmath.mpf, mpmath.workdps)
    easy, hard = (
        operation(claims.softmax, (np.array(x),), equation=equation, exact=exact) for x in ([0.0, 1.0], [0.0, -40.0])
    )
    rows = list(table([easy, RIGHT[0], hard], vjp=vjp))
    assert [(r.dtype, r.method, r.holds) for r in rows if r.method == EXACT] == [
        ("float64", EXACT, True),
        ("float32", EXACT, True),
        ("float64", EXACT, False),
        ("float32", EXACT, False),
    ]
    assert "element by element 0.0 (softmax); 2 below the bar" in summary(rows)
    assert list(table([operation(claims.softmax, (X,), equation=equation)], vjp=vjp)) == []


def test_a_wrong_operation_and_a_broken_one_are_rows_below_the_bar():
    rows = list(table([WRONG, Operation("broken", broken, (X,)), RIGHT[0]], vjp=vjp))
    below = [r for r in rows if not r.holds]
    assert {r.name for r in below} == {"tanh", "broken"}
    assert "RuntimeError: out of order" in next(r for r in rows if r.name == "broken").note
    assert "BELOW THE BAR" in line(below[0], 8)
    assert f"{len(below)} below the bar" in summary(rows)


def test_calling_analytic_what_is_not_is_below_the_bar():
    row = next(table([operation(claims.absolute, (X,))], vjp=vjp))
    assert not row.holds
    assert "method is 'complex_step' but" in row.note


def test_a_pullback_that_writes_is_below_the_bar():
    def writes(x):
        y, pullback = claims.relu(x)

        def spoiling(u):
            u *= x > 0
            return pullback(u)

        return y, spoiling

    row = next(table([operation(writes, (X,))], vjp=vjp))
    assert (row.holds, row.note) == (False, "the pullback writes into its cotangent; let it work on a copy")


def test_kinks_are_noted():
    x = X.copy()
    x[0, 0] = 0
    row = next(table([operation(claims.relu, (x,))], vjp=vjp))
    assert row.holds
    assert row.note == "1 kinks"
    rows = list(table([operation(claims.relu, (x,))], vjp=vjp))
    assert [r.note for r in rows if r.order == 2] == ["1 kinks; 1 left out"]


def test_arguments_are_cast_and_constants_left_alone():
    args = (X, {"n": np.arange(3), "mask": X > 0, "none": None, "eps": 0.5, "how": "sum"})
    x, rest = cast(args, np.dtype(np.float32))
    assert x.dtype == np.float32
    assert rest["eps"].dtype == np.float32
    assert rest["n"].dtype.kind == "i"
    assert rest["mask"].dtype == bool
    assert rest["none"] is None
    assert rest["how"] == "sum"


@pytest.fixture
def library(monkeypatch):
    """A library with the two names the command asks refnp for."""

    for name in ("verify.record", "pieces"):  # which write the file and share the work, whatever library is shown
        importlib.import_module(f"refnp.{name}")

    def install(operations):
        for name, content in (
            ("refnp", {}),
            ("refnp.autograd", {"vjp": vjp}),
            ("refnp.verify", {}),
            ("refnp.verify.layers", {"gradient_inputs": lambda: operations}),
        ):
            module = types.ModuleType(name)
            module.__dict__.update(content)
            monkeypatch.setitem(sys.modules, name, module)

    return install


def test_the_command_prints_the_table_and_writes_it(library, tmp_path, capsys):
    library(RIGHT)
    file = tmp_path / "rows.json"
    assert command.main(["--json", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    rows = json.loads(file.read_text())["rows"]
    assert len(printed) == len(rows) + 2
    assert len({len(text) for text in printed[:-1]}) == 1
    assert printed[0].split() == ["operation", "dtype", "order", "method", "elements", "digits"]
    assert all(list(row) == ["name", "dtype", "order", "method", "elements", "digits", "projected"] for row in rows)
    assert "every bar holds" in printed[-1]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.json"]


def test_the_command_says_what_it_leaves_out(library, capsys):
    library([RIGHT[0], operation(claims.softmax, (X,), equation=claims.softmax)])
    assert command.main([]) == 0
    assert "1 operations are left out" in capsys.readouterr().out.splitlines()[0]


def test_the_command_fails_when_a_bar_does_not_hold(library, tmp_path):
    library([RIGHT[0], WRONG])
    assert command.main([]) == 1
    assert command.main(["--only", "soft"]) == 0
    assert command.main(["--only", "t*h"]) == 1
    assert command.main(["--digits", "6.5", "--only", "softmax"]) == 0


@pytest.mark.parametrize(
    "argv",
    [
        ["--only", "nothing of that name"],
        ["--digits", "40"],
        ["--digits", "x"],
        ["--what"],
        ["--json", "/no/such/folder/rows.json"],
        ["--json", "."],
    ],
)
def test_bad_usage_ends_with_status_2(library, argv, capsys):
    library(RIGHT)
    with pytest.raises(SystemExit) as ended:
        command.main(argv)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_without_refnp_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "refnp.autograd", None)
    with pytest.raises(SystemExit) as ended:
        command.main([])
    assert ended.value.code == 2
    assert "refnp cannot be imported" in capsys.readouterr().err


def test_the_claims_of_this_test_are_a_vjp():
    value, pullback = vjp_of(claims.softmax)(None, X)
    assert value.shape == pullback(np.ones_like(X))[0].shape
