"""What a function declares that it takes is what it takes: right arguments are computed, wrong ones refused by name."""

import inspect
import itertools
import re

import numpy as np
import pytest

from docs.site import api
from refnp import layers
from refnp.autograd.declaration import Declaration, takes
from refnp.layers import Normal, attention, positions
from tests import declared
from tests.helpers import REAL

every = pytest.mark.parametrize("name", declared.every())
every_class = pytest.mark.parametrize("name", declared.constructors())


LENGTHS = {  # what the options that are left at their defaults ask for
    "similarity_attention": {"d": 3, "d_k": 3},
    "grouped_attention": {"d": 3, "d_k": 3},
    "set_convolution": {"dx": 2},
    "rotate": {"D": 4, "K": 2, "*R": (5,), "N": 5},
}
OPTIONS = {"upsample": {"factor": 2}}
OF_CLASSES = {
    "SetConvolution": {"length_scale": 0.5},
    "Mixture": {"components": Normal(np.zeros(2), 1.0)},
}  # what a constructor must be given beside options


def calls(name):
    """Drawn arguments: without axes in front, with some, and without what may be left out."""
    declaration, rng = declared.every()[name].takes, np.random.default_rng(0)
    optional = [n for n, argument in declaration.arguments.items() if argument.optional]
    exceptions = {"lengths": LENGTHS.get(name), "options": OPTIONS.get(name)}
    for front in ((), (2,), (2, 3)):
        yield declared.Drawn(declaration, rng, front=front, **exceptions)
    if optional and name != "rotate":  # which needs places or sines and cosines
        yield declared.Drawn(declaration, rng, left_out=optional, **exceptions)


UNDECLARED = {"components", "dtype", "length_scale", "parameters", "positions"}  # no arrays alone, and no options


@pytest.mark.parametrize("name", [*declared.every(), *declared.constructors()])
def test_all_of_a_signature_is_declared_and_shown(name):
    """A declaration says nothing that the signature has not (`Declaration` refuses it), and leaves out nothing."""
    thing = declared.every().get(name) or declared.constructors()[name].__init__
    said, parameters = thing.takes, [n for n in inspect.signature(thing).parameters if n != "self"]
    assert {*parameters} <= {*said.arguments, *said.options, *(["axis"] if said.moved else []), *UNDECLARED}
    home = "refnp.layers" if name in layers.__all__ else "refnp.autograd"
    assert f"`{said}`." in api.page(home)


@every
def test_what_fits_is_computed_and_left_as_it_is(name):
    function = declared.every()[name]
    for drawn in calls(name):
        before = {n: array.copy() for n, array in drawn.arrays.items()}
        declared.called(function, drawn.arrays, drawn.options)
        assert all(np.array_equal(before[n], array) for n, array in drawn.arrays.items())


@every
def test_arrays_that_do_not_fit_are_refused_by_name(name):
    function = declared.every()[name]
    for drawn in calls(name):
        for argument, wrong, error in declared.wrong_arrays(drawn):
            with pytest.raises(error, match=rf"^{name}: ({'|'.join(drawn.arrays)}|the axes in front of) ") as caught:
                declared.called(function, drawn.arrays | {argument: wrong}, drawn.options)
            assert argument in str(caught.value) or error is ValueError  # of two that disagree one is named


@every
def test_numbers_that_an_array_cannot_hold_are_refused_by_name(name):
    function = declared.every()[name]
    for drawn in calls(name):
        for argument, number, arrays in declared.wrong_numbers(drawn):
            with pytest.raises((ValueError, IndexError), match=rf"^{name}: (.* )?{argument}s? .*{number}"):
                declared.called(function, arrays, drawn.options)


OF_ELEMENTS = [name for name, function in declared.every().items() if str(function.takes).startswith("x (...) → (...)")]


@pytest.mark.parametrize("name", OF_ELEMENTS)
@pytest.mark.parametrize("dtype", REAL)
def test_nan_stays_where_it_is(name, dtype):
    """Of functions of one number."""
    x = {"x": np.array([1.0, np.nan, -1.0], dtype)}
    y = declared.called(declared.every()[name], x, next(calls(name)).options)
    assert np.isnan(y).tolist() == [False, True, False]


@every
def test_what_is_remembered_is_what_a_check_says(name):
    """With another length in a call, after others that fitted: 1, 0, or one that no call had."""
    declaration = declared.every()[name].takes

    def message(ask, *arguments):
        try:
            ask(*arguments)
        except (TypeError, ValueError) as error:
            return str(error)

    for drawn in calls(name) if not declaration.numbered else ():
        for n, axis in ((n, axis) for n, array in drawn.arrays.items() for axis in range(array.ndim)):
            for length in (11, 1, 0):
                shape = [length if k == axis else m for k, m in enumerate(drawn.arrays[n].shape)]
                given = drawn.arrays | {n: np.resize(drawn.arrays[n], shape)} | drawn.options
                assert message(declaration.fitted, (), {**given}) == message(declaration.check, given)


@every
def test_options_outside_their_domain_are_refused_by_name(name):
    function = declared.every()[name]
    drawn = next(calls(name))
    for option, value, error in declared.wrong_options(function.takes):
        with pytest.raises(error, match=rf"^{name}: (.* and )?{option} is {re.escape(repr(value)[:20])}"):
            declared.called(function, drawn.arrays, drawn.options | {option: value})


@every_class
def test_options_of_a_class_are_refused_by_name(name):
    kind = declared.constructors()[name]
    for option, value, error in declared.wrong_options(kind.__init__.takes):
        right = {n: o for n, o in sizes_of(kind).items() if n != option}
        with pytest.raises(error, match=rf"^{name}: {option} is"):
            kind(**right, **OF_CLASSES.get(name, {}), **{option: value})


def sizes_of(kind):
    """Values for what a constructor must be given."""
    declaration = kind.__init__.takes
    needed = [n for n in declaration.options if n not in declaration.defaults]
    return {n: declared.right_value(declaration.options[n]) for n in needed}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x (N)", {"scale": "small"}, "takes: scale is 'small'; write names between"),
        ("x (N)", {"other": "positive"}, "takes: f has no parameter other"),
        ("x odd (N)", {}, "takes: x is 'odd .*in front of it one of"),
    ],
)
def test_declarations_that_cannot_be_read(text, options, message):
    with pytest.raises(ValueError, match=message):
        takes(text, **options)(f)


def f(x, scale=1.0):
    """A function without a declaration."""
    return x * scale


@pytest.mark.parametrize(
    ("text", "shape", "words"),
    [
        ("x (N, D)", (2, 3), None),
        ("x (N, D)", (3,), r"^f: x has shape \(3,\); it must be \(N, D\)$"),
        (
            "x (N, N)",
            (2, 3),
            r"^f: x has shape \(2, 3\); it must be \(N, N\), and its axes N are 2 and 3; make them agree$",
        ),
        ("x (..., D ≥ 1)", (2, 0), r"^f: x has shape \(2, 0\); its axis D must not be empty$"),
        ("x (B, *L, 2)", (4, 5, 6, 2), None),
        ("x (B, *L, 2)", (4, 5, 6, 3), r"^f: x has shape \(4, 5, 6, 3\); it must be \(B, \*L, 2\)"),
        ("x (D) or ()", (), None),
        ("x (D) or ()", (1, 1), r"it must be \(D,\) or \(\)$"),
    ],
)
def test_shapes_as_they_are_written(text, shape, words):
    checked = takes(text)(f)
    if words is None:
        assert checked(np.ones(shape)).shape == shape
    else:
        with pytest.raises(ValueError, match=words):
            checked(np.ones(shape))


@pytest.mark.parametrize(
    ("text", "given", "found"),
    [
        ("whole ≥ 1 per axis of L", 2, (2, 2)),
        ("whole ≥ 1 per axis of L", [2, np.int64(3)], (2, 3)),
        ("whole ≥ 0 or (before, after) per axis of L", (1, [0, 2]), ((1, 1), (0, 2))),
        ("whole ≥ 0 or (before, after) per axis of L", 1, ((1, 1), (1, 1))),
        ("whole ≥ 0 or None per axis of L", (None, 2), (None, 2)),
        ("same | whole ≥ 0 per axis of L", "same", "same"),
        ("whole ≥ 1 per axis of L?", None, None),
        ("whole ≥ 1 per axis", 2, 2),
        ("odd per axis", [3], (3,)),
        ("even, 1 or more", range(2, 7, 2), (2, 4, 6)),
    ],
)
def test_an_option_with_one_for_each_axis_comes_as_a_tuple(text, given, found):
    checked = takes("x (B, *L)", size=text)(lambda x, size=5: size)
    assert checked.takes.options["size"].run == ("*L" if " of L" in text else "")
    for _ in range(2):  # the second call is remembered
        assert checked(np.ones((2, 7, 7)), given) == checked(np.ones((2, 7, 7)), size=given) == found


def test_runs_in_large_and_small_letters_have_as_many_axes():
    checked = takes("x (B, *L) or (*L), kernel (O, *l)")(lambda x, kernel: x.ndim)
    assert checked(np.ones((2, 5)), np.ones((3, 3))) == checked(np.ones((5, 6)), np.ones((3, 2, 2))) == 2
    with pytest.raises(ValueError, match=r"x has shape \(5,\); it must be .*, and kernel has shape \(3, 2, 2\); make"):
        checked(np.ones(5), np.ones((3, 2, 2)))


def test_an_option_may_be_a_multiple_of_another():
    checked = takes("", width="whole ≥ 1, a multiple of heads", heads="whole ≥ 1?")(lambda width, heads=None: width)
    assert (checked(6, heads=3), checked(5), checked(6, 3), checked(5, heads=5)) == (6, 5, 6, 5)
    with pytest.raises(ValueError, match=r": width is 5; it must be a multiple of heads, 3"):
        checked(5, 3)


@pytest.mark.parametrize(
    ("needs", "right", "wrong", "words"),
    [
        ("b with c", {"b": 1, "c": 2}, {"b": 1}, "b is 1, c is None; pass b and c, or neither"),
        ("either b or c", {"c": 0}, {"b": 1, "c": 0}, "b is 1, c is 0; pass b or c, one of them"),
        ("N = M if b = on, pass as many", {"b": "off"}, {"b": "on"},
         "x has N = 2, y has M = 3, b is 'on'; pass as many"),
        ("b is a multiple of c and b ≤ N, pass less", {"b": 2, "c": 1}, {"b": 4, "c": 2},
         "b is 4, c is 2, x has N = 2; pass less"),
        ("c is given if y = whole, pass c", {"c": 0}, {}, "c is None, y holds whole numbers; pass c"),
    ],
)  # fmt: skip
def test_what_arguments_need_of_each_other(needs, right, wrong, words):
    """What is found is remembered of these values alone; a letter that is not known asks nothing."""
    options = {"b": "on | off", "c": "whole?"} if " on" in needs else {"b": "whole?", "c": "whole?"}
    checked = takes("x (N), y whole (M) or probability (M, K)?", needs=needs, **options)(
        lambda x, y=None, b=None, c=None: x
    )
    x, y = np.ones(2), np.ones(3, int)
    for _ in range(2):
        checked(x, y, **right)
        with pytest.raises(ValueError, match=f"^<lambda>: {re.escape(words)}$"):
            checked(x, y, **wrong)
    if "N = M" in needs or "y =" in needs:
        checked(x, None, **wrong)


def needs():
    """(declaration, need) of all that is declared of functions, constructors and methods."""
    things = [thing for package in (layers, positions) for thing in vars(package).values()]
    things += [method for kind in things if isinstance(kind, type) for method in vars(kind).values()]
    found = {thing.takes for thing in things if isinstance(getattr(thing, "takes", None), Declaration)}
    return [(one, need) for one in sorted(found, key=lambda one: one.name) for need in one.needs]


def values_of(declaration, name):
    """What stands for an argument, an option or the length of a letter in what is needed."""
    if name in declaration.options:
        option = declaration.options[name]
        numbers = () if option.choices else (value for value in (0, 1, 2, 3, 12) if option.domain.holds(value))
        return (*option.choices, *((None,) if option.optional else ()), *numbers)
    if name in declaration.arguments:
        kinds = {shape.kind for shape in declaration.arguments[name].shapes}
        return ("whole", "probability") if kinds == {"whole", "probability"} else (None, 1)
    return 1, 2, 3, 4


@pytest.mark.parametrize(("declaration", "need"), needs(), ids=lambda one: getattr(one, "text", None))
def test_what_is_needed_is_asked_and_what_lacks_is_told(declaration, need):
    """Of small numbers and of names, some are as they are needed, and others are refused with what is to be done."""
    told = set()
    for values in itertools.product(*(values_of(declaration, name) for name in need.names)):
        given = dict(zip(need.names, values, strict=True))
        try:
            need.check("f", given, {}, {name: kind for name, kind in given.items() if kind in ("whole", "probability")})
            told.add("")
        except ValueError as refused:
            told.add(str(refused).partition("; ")[2])
    assert told == {"", need.remedy}


def test_a_word_in_place_of_a_letter_is_an_attribute():
    class Table:
        def __init__(self, rows, each=()):
            self.rows, self.each = rows, each

        @takes("x (..., *each, rows), places whole < rows (K)?")
        def read(self, x, places=None):
            return x

    table = Table(3)
    for _ in range(2):
        assert table.read(np.ones((4, 3)), [0, 2]).shape == Table(3, (4,)).read(np.ones((4, 3))).shape == (4, 3)
        with pytest.raises(
            ValueError, match=r"read: x has shape \(4,\); it must be .*, and rows is 3; make them agree$"
        ):
            table.read(np.ones(4))
        with pytest.raises(ValueError, match=r"read: x has shape \(4, 3\); .*, and each is \(5,\); make them agree$"):
            Table(3, (5,)).read(np.ones((4, 3)))
        with pytest.raises(IndexError, match=r"read: places holds 3 at \[1\], and rows is 3; use 0 to 2$"):
            table.read(np.ones(3), [0, 3])
        table.rows = 4
        assert table.read(np.ones(4), [3]).shape == (4,)
        table.rows = 3


def test_what_cannot_be_read_is_refused():
    for needs, why in (
        ("b =< c, pass less", "b =< c', which cannot be read"),
        ("b ≤ c", "b ≤ c'; write behind a comma"),
    ):
        with pytest.raises(ValueError, match=f"takes: needs is '{why}"):
            takes("", b="whole", c="whole", needs=needs)(lambda b, c: b)


def test_a_python_number_for_an_array_keeps_the_precision_of_the_others():
    query, key, value = (np.ones((n, d), np.float32) for n, d in ((5, 2), (3, 2), (3, 4)))
    mask = np.ones((5, 3), bool)
    for bias in (0.5, 1, np.float32(0.5), np.full((), 0.5, np.float32)):
        for method in ("full", "blocks"):
            assert attention(query, key, value, bias, mask=mask, method=method).dtype == np.float32
