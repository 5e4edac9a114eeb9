"""The fuzzer: it finds planted defects of every kind, covers all that is public, and finds nothing else."""

import itertools
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import is_recording
from tests.fuzz import Violation, readers
from tests.fuzz.calls import Call
from tests.fuzz.declarations import of_text
from tests.fuzz.open import OPEN
from tests.fuzz.properties import SENTENCES, given, outcome
from tests.fuzz.rows import ROWS, WITHOUT
from tests.fuzz.run import drawn, judge, run
from tests.fuzz.smaller import code, reproduce
from tests.fuzz.subjects import CHAPTERS, Row, Subject, Unknown, public, row_of, subjects, unknown
from tests.helpers import laid_out

ROOT = Path(__file__).parents[1]

# ---- Functions with a defect each, and one without


@primitive
def double(x):
    """y = 2x, as it should be."""
    try:
        return 2.0 * np.asarray(x), lambda bar: (2.0 * bar,)
    except (TypeError, ValueError) as wrong:
        raise TypeError(f"double: x is {type(x).__name__}; pass an array of numbers") from wrong


def refuses_by_accident(x):
    return {}[np.ndim(x)]


def says_nothing(x):
    raise ValueError("bad input")


def names_no_argument(x):
    raise ValueError("double: bad input")


def warns(x):
    np.log(np.zeros(1))
    return double(x)


@primitive
def upcasts(x):
    return np.asarray(x) * np.float64(2) * np.ones(1), lambda bar: (bar,)


@primitive
def another_shape(x):
    return np.zeros((*np.shape(x), 1), np.result_type(x, 0.0)), lambda bar: (bar[..., 0],)


@primitive
def infinite_slope(x):
    return 2.0 * np.asarray(x), lambda bar: (np.full(np.shape(x), np.inf, bar.dtype),)


def modifies(x):
    if x.flags.writeable:
        x *= 2
    return 2.0 * x, lambda bar: (bar,)


modifies.__module__ = "refnp"  # what is not refnp's could not write
modifies = primitive(modifies)


@primitive
def depends_on_layout(x):
    seen = x.size > 1 and not x.flags.c_contiguous
    return 2.0 * x + 1e-3 * seen, lambda bar: (2.0 * bar,)


@primitive
def remembers(x):
    """The gradient is another one each time."""
    return 1.0 * x, lambda bar: (bar * float(next(CALLS)),)


CALLS = itertools.count()


def multiplies_by_mask(x, mask):
    """0 times NaN is no mask."""
    return ag.multiply(x, mask.astype(np.asarray(getattr(x, "data", x)).dtype))


def leaks_in_the_gradient(x, mask):
    return masked_square(x, mask=mask)


@primitive
def masked_square(x, *, mask):
    with np.errstate(all="ignore"):
        return np.where(mask, x * x, 0), lambda bar: (bar * 2 * x,)


@primitive
def lies_elsewhere(x, *, mask):
    """Right numbers, in another order in memory where something is hidden."""
    order = "F" if np.where(mask, 0, x).any() else "C"
    return np.array(np.where(mask, x, 0), order=order), lambda bar: (np.where(mask, bar, 0),)


def empty_einsum(x):
    np.einsum("i->", np.zeros(0))
    return double(x)


@primitive
def makes_nan(x):
    with np.errstate(all="ignore"):
        return np.asarray(x) * 0 / 0, lambda bar: (bar,)


def always_a_tensor(x):
    return ag.Tensor(double(x))


def never_a_tensor(x):
    return double(getattr(x, "data", x))


MASKED = of_text("x (*), mask boolean (*)", masks={"mask": ("x",)})


def depends_on_the_tape(x):
    return x if is_recording() else np.zeros_like(x)


def underflows(x):
    np.float64(1e-300) * np.float64(1e-300)
    return x


PLANTED = [
    ("a", refuses_by_accident, of_text("x (*)")),
    ("a", says_nothing, of_text("x (*)")),
    ("a", names_no_argument, of_text("value (*)", call=lambda value: names_no_argument(value))),
    ("a", warns, of_text("x (*)")),
    ("b", upcasts, of_text("x (*)")),
    ("b", another_shape, of_text("x (*) → (*)")),
    ("c", infinite_slope, of_text("x (*)")),
    ("d", modifies, of_text("x (*)")),
    ("e", depends_on_layout, of_text("x (*)")),
    ("e", remembers, of_text("x (*)")),
    ("f", multiplies_by_mask, MASKED),
    ("f", leaks_in_the_gradient, MASKED),
    ("f", lambda x, mask: lies_elsewhere(x, mask=mask), MASKED),
    ("g", empty_einsum, of_text("x (*)")),
    ("h", makes_nan, of_text("x (*)")),
    ("i", always_a_tensor, of_text("x (*)")),
    ("i", never_a_tensor, of_text("x (*)")),
    ("j", depends_on_the_tape, of_text("x (*)")),
    ("j", underflows, of_text("x (*)")),
]


def planted(function, row):
    return Subject("planted", "tests", function, replace(row, call=row.call or function))


@pytest.mark.parametrize(("letter", "function", "row"), PLANTED, ids=lambda part: getattr(part, "__name__", None))
def test_a_planted_defect_is_found(letter, function, row):
    outcome = run(300, table={"planted": planted(function, row)}, most=50)
    assert outcome.kinds["planted", letter] >= 3
    assert any(f"property ({letter})" in failure for failure in outcome.failures)


def test_every_property_has_a_planted_defect():
    assert {letter for letter, _, _ in PLANTED} == set(SENTENCES)


def test_a_right_function_has_none():
    outcome = run(500, table={"planted": planted(double, of_text("x (*) → (*)", names=("double",)))})
    assert not outcome.failures
    assert sum(n for (_, _, how), n in outcome.counts.items() if how == "kept") > 300


@pytest.mark.parametrize(
    ("name", "defect"),
    [
        ("softmax", lambda true, x, **more: true(x, **more) + 0 * np.log(-1.0)),
        ("relu", lambda true, x: true(ag.divide(x, 1.0)) if np.size(x) != 3 else ag.Tensor(np.zeros(3))),
    ],
)
def test_a_defect_in_a_layer_is_found(name, defect, monkeypatch):
    true = getattr(layers, name)
    spoilt = Subject(
        name, "refnp.layers", true, Row(**{**vars(row_of(name, true)), "call": lambda x, **o: defect(true, x, **o)})
    )
    assert run(300, table={name: spoilt}).failures


# ---- What is covered


def test_everything_public_is_called():
    """A name of which too little is known fails here with what to add."""
    assert unknown() == []
    assert len(subjects()) > 200
    for chapter in CHAPTERS:
        for name in getattr(chapter, "__all__", ()):
            assert name in subjects() or name in WITHOUT or not callable(getattr(chapter, name)), name


def test_a_new_name_needs_a_declaration_or_a_row():
    assert [*row_of("matmul", ag.matmul).shapes] == ["x", "y"]
    with pytest.raises(Unknown, match=r"odd does not declare what it takes: write so .*, add a row to ROWS of"):
        row_of("odd", lambda x, curvature: x)


def test_rows_and_reasons_are_of_names_that_exist():
    known = {name for name, _, _ in public()}
    assert set(ROWS) <= known
    everywhere = {name for chapter in CHAPTERS for name in dir(chapter)}
    assert set(WITHOUT) <= everywhere
    assert all(letter in SENTENCES for _, letter in OPEN)


def test_all_that_distributions_say_is_called():
    kinds = [getattr(layers, name) for name in layers.__all__ if hasattr(getattr(layers, name), "log_prob")]
    assert len(kinds) > 4
    for kind in kinds:
        for method, thing in vars(kind).items():
            if method[0] != "_" and (callable(thing) or isinstance(thing, property)):
                assert f"{kind.__name__}.{method}" in subjects()


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_found(part):
    outcome = run(2000, seed=1, start=part, step=4)
    assert not outcome.failures, "\n\n".join(outcome.failures)


def test_ordinary_calls_are_not_refused():
    """A function that refuses what it is given is not tested."""
    for name, subject in subjects().items():
        calls = [drawn(subject, np.random.default_rng(seed)) for seed in range(26)]
        ordinary = [call for call, mode in calls if mode == "ordinary"]
        with np.errstate(all="ignore"):
            refused = sum(outcome(call, lambda call=call: [call.subject(given(call))]) is None for call in ordinary)
        assert refused <= 0.7 * len(ordinary), name


# ---- Its parts


@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed", "read-only", "broadcast"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (1, 0, 2)])
def test_layouts_keep_the_values(layout, shape):
    x = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
    np.testing.assert_array_equal(laid_out(x, layout), x)
    assert laid_out(x, layout).shape == shape
    assert laid_out(np.ones((3, 2)), "broadcast").strides[0] == 0


def test_what_a_mask_hides():
    subject = subjects()["attention"]
    arguments = {"query": np.ones((2, 3)), "key": np.ones((2, 3)), "value": np.ones((2, 1)), "bias": np.ones((2, 2))}
    arguments["mask"] = np.array([[True, False], [True, False]])
    call = Call(subject, arguments, {}, dict(subject.shapes), {"N": 2, "M": 2, "d": 3, "e": 1})
    np.testing.assert_array_equal(call.hidden("key"), [[False] * 3, [True] * 3])
    np.testing.assert_array_equal(call.hidden("value"), [[False], [True]])
    np.testing.assert_array_equal(call.hidden("bias"), ~arguments["mask"])
    assert not np.any(call.hidden("query"))
    arguments["key"] = np.stack([arguments["key"]] * 2)
    arguments["mask"] = np.array([[[True, False]], [[False, True]]])
    np.testing.assert_array_equal(call.hidden("key")[..., 0], [[False, True], [True, False]])
    np.testing.assert_array_equal(call.hidden("value")[..., 0], [False, False])  # both batches have the same values


def test_a_reproduction_is_small_and_runs(monkeypatch):
    function = planted(leaks_in_the_gradient, MASKED)
    monkeypatch.setitem(subjects(), "planted", function)
    outcome = run(300, table={"planted": function}, most=1)
    program = outcome.failures[0]
    with pytest.raises(Violation, match=r"\(f\) what is hidden changes the result"):
        exec(program, {})
    size = program.count("np.nan") + program.count("1.0") + program.count("0.0")
    assert size <= 3, program


def test_reproductions_of_all_kinds_of_arguments(monkeypatch):
    for name in ("set_convolution", "dropout", "concatenate", "einsum", "Linear", "KeyValueCache"):
        if name in subjects():
            call = subjects()[name].draw(np.random.default_rng(0))
            program = reproduce(call, Violation("c", "nothing"))
            exec(program, {})


def test_a_call_is_the_same_again():
    for seed in range(20):
        first, second = (subjects()["attention"].draw(np.random.default_rng(seed)) for _ in range(2))
        assert {name: code(a) for name, a in first.arguments.items()} == {
            name: code(a) for name, a in second.arguments.items()
        }


def test_judge_takes_the_arguments_that_are_printed():
    assert judge("softmax", {"x": np.ones((2, 3), np.float32)}) == "kept"
    assert judge("softmax", {"x": "text"}, wrong="x") == "refused"


def test_the_command(tmp_path):
    command = [sys.executable, "-m", "tests.fuzz", "--calls", "40", "--only", "softmax", "--processes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 calls of 1 functions, seed 0" in done.stdout


def test_damaged_files_are_read_or_refused():
    """`python -m tests.fuzz.readers` tries more."""
    counts, wrong = readers.run(12)
    assert not wrong
    assert {how for _, how in counts} == {"read", "refused"}
    assert len({name for name, _ in counts}) >= 10


def test_a_reader_that_ends_in_anything_else_is_found(tmp_path):
    def read(path):
        text = path.read_text()
        return {"hang": lambda: time.sleep(0.01), "take": lambda: bytes(1 << 26), "fall": lambda: [][0]}[text]()

    reader = readers.Reader("file", b"", read, (ValueError,))
    assert readers.fault(reader, b"fall", tmp_path) == "IndexError: list index out of range"
    assert "bytes of memory for 4" in readers.fault(reader, b"take", tmp_path)
    assert readers.fault(reader, b"hang", tmp_path) == "read"
    assert readers.fault(reader, b"else", tmp_path).startswith("KeyError")
