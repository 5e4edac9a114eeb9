"""A page: one function of NumPy's words, its value and its VJP, as an operation on everything that calculates.

    @page("x (..., *n) → (..., *n)", axis="axes of x", kernel=kernels.softmax)
    def softmax(x):
        p = shares(np.exp(x - peak(x)))
        def vjp(p_bar):
            x_bar = softmax_vjp(p, p_bar)
            return (x_bar,)
        return p, vjp

The page is what is read, judges others and is proved: it runs on arrays of any precision, and on every kind of number
(refnp/numbers). On arrays of float16, float32 and float64 the kernel stands in its place, if there is one: the same
function, written for speed and for extreme inputs. `softmax.page` is the page itself, `softmax.kernel` the kernel, and
within `plain()` pages run alone. A page uses another as `softmax.page(x)`, which returns value and VJP.

What is common to all is done here: the declaration is checked (`takes`), and what arrays hold; axes that are named by
`axis` are brought to the end and made one, options come as one for each axis, an x without a batch becomes a batch of
one, float16 is computed in float32, and value and gradients become what the arguments are. The walk back sums gradients
over broadcast axes.
"""

import contextlib
import contextvars
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from refnp.autograd.declaration import Declaration, takes
from refnp.autograd.primitives import Operation, primitive
from refnp.kernels.blocks import in_float32
from refnp.numbers.arrays import axes_last, floating, in_order, normalize_axes
from refnp.numbers.duals import Array, Dual
from refnp.numbers.kinds import Kind, kind_of
from refnp.numbers.parts import Parts, part, with_parts
from refnp.numbers.within import within


class Page(Operation, Protocol):
    """An operation made of a page: `page` is the page itself, on any kind of number, and returns (value, vjp).

    `around` makes of a form, page or kernel, one in front of which hidden numbers are set apart.
    """

    page: Callable
    kernel: Callable | None
    around: Callable | None


_plain = contextvars.ContextVar("plain", default=False)
FLOAT = np.dtype(float)
HOLDS = {  # how every number of an argument lies to 0, how to what, and what it must be
    "positive": (np.greater, np.less, np.inf, "it must be positive and finite"),
    "nonnegative": (np.greater_equal, np.less, np.inf, "it must be finite and not negative"),
    "weights": (np.greater_equal, np.less, np.inf, "it must be finite and not negative"),
    "probability": (np.greater_equal, np.less_equal, 1, "a probability lies in [0, 1]"),
}
WITHOUT_KERNEL = "gFDG"  # longdouble and complex numbers: kernels are written for floats alone


def plain() -> contextlib.AbstractContextManager[Any]:
    """Within this block pages run alone, without kernels: for reading, and for judging a kernel.

    A page computes what is written on it. It does not promise what kernels, and what stands around both, do: squares
    that overflow, constant rows whose mean is rounded, numbers of which only some rows may know (NaN behind a mask of a
    few queries), speed and memory.
    """
    return within(_plain, True)


def page(
    text: str,
    named: Mapping[str, str] | None = None,
    /,
    *,
    kernel: Callable | Parts | None = None,
    of_every_array: bool = False,
    check: Callable | None = None,
    around: Callable | None = None,
    **options: str,
) -> Callable[[Callable], Page]:
    """Make a function of arrays, which returns its value and its VJP, an operation; `takes` says how `text` is written.

    With the option axis="axes of x" the page is about the last axis of x, and the operation about any, −1 unless told.
    Where x is written (B, …) or (…), as in `x (B, C, *L) or (C, *L)`, page and kernel are about x with a batch; options
    of which there is one per axis come to them as tuples.
    `kernel` is called as the operation is, with an axis too, or it is {part: kernel} of parts of the page; for
    longdouble and complex numbers if it is a kernel `of_every_array`, which keeps a promise that the page does not
    make. A kernel that returns None leaves these arguments to the page.
    What is declared to be positive, not negative or a probability is held to it, number by number but for what a mask
    hides. `check`, called as the operation is, refuses what a declaration cannot say.
    Options come to all of these with the page's defaults, which they need not say again.
    Options that are called as these are stand in `named`.
    """
    options = {**(named or {}), **options}

    def made(function: Callable) -> Page:
        declaration = Declaration(along_axes(function) if "axis" in options else function, text, options)
        form = part(along_axes(function) if "axis" in options else of_each_axis(function, declaration))
        discrete = {i for i, argument in declaration.by_place.items() if argument.may_be_discrete}
        on_arrays = in_own_types(form, discrete)
        every = declaration.arguments.values()
        held = {a.name: HOLDS[shape.kind] for a in every for shape in a.shapes if shape.kind in HOLDS}
        behind = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        defaults = {p.name: p.default for p in behind if p.default is not p.empty}
        fast: Callable | None
        if isinstance(kernel, Mapping):
            fast = in_own_types(with_parts(form, kernel), discrete)
        else:
            fast = kernel and of_each_axis(kernel, declaration, fitted=True)

        def by_kernel(*arrays: Any, **given: Any) -> tuple:
            halves = getattr(arrays[0], "dtype", FLOAT).char == "e" and are_halves(arrays)
            found = in_float32(fast, *arrays, **given) if halves else fast(*arrays, **given)  # type: ignore
            return on_arrays(*arrays, **given) if found is None else found

        fast_apart, page_apart = (one if around is None else around(one) for one in (by_kernel, on_arrays))

        @functools.wraps(form)
        def rule(*arrays: Any, **given: Any) -> tuple:
            floats, own, given = True, False, {**defaults, **given}
            if not are_plain(arrays):
                floats = are_floats(arrays)
                own = not floats and kind_of(arrays) is not None
                arrays = arrays if own else as_floats(arrays, discrete)
            if held and not own:
                refuse_numbers(declaration, held, arrays, given)
            if check is not None:
                check(*arrays, **given)
            if own or _plain.get():
                return (form if own else on_arrays)(*arrays, **given)
            return (fast_apart if fast and (floats or of_every_array) else page_apart)(*arrays, **given)

        operation: Any = primitive(takes(text, **options)(rule))
        operation.page, operation.kernel, operation.around = form, fast, around
        return operation

    return made


def refuse_numbers(declaration: Declaration, held: dict, arrays: tuple, options: dict) -> None:
    """ValueError naming the first number of an array that is not what it is declared to be, and that no mask hides."""
    given = dict(zip(declaration.places, arrays, strict=False)) | options
    masks = [(given.get(name), a.hides) for name, a in declaration.arguments.items() if a.hides]
    for name, (from_0, to, most, must) in held.items():
        x = np.real(np.asarray(given.get(name, 1)))
        if given.get(name) is None or (x.dtype.kind != "f" and declaration.arguments[name].may_be_discrete):
            continue
        wrong = np.asarray(~(from_0(x, 0) & to(x, most)))
        if wrong.any():
            for mask in (mask for mask, hidden in masks if mask is not None and name in hidden):
                wrong, x, _ = np.broadcast_arrays(wrong & mask, x, mask)
            if wrong.any():
                raise ValueError(f"{declaration.name}: {name} holds {x[wrong].flat[0]}; {must}")


def are_plain(arguments: tuple) -> bool:
    """Whether all are arrays of float32 or float64, as they mostly are: then nothing else need be asked."""
    for a in arguments:  # noqa: SIM110  (all(…) takes longer)
        if a.__class__ is not np.ndarray or a.dtype.char not in "fd":
            return False
    return True


def are_floats(arguments: tuple) -> bool:
    """Whether no array is of complex numbers or longdouble, nor of dual numbers or another kind."""
    for a in arguments:
        if a.__class__ is np.ndarray:
            if a.dtype.char in WITHOUT_KERNEL:
                return False
        elif isinstance(a, (list, tuple)):
            if kind_of(a) is not None:
                return False
        elif isinstance(a, (Dual, Kind)) or getattr(a, "dtype", FLOAT).char in WITHOUT_KERNEL:
            return False
    return True


def as_floats(arrays: tuple, discrete: set[int]) -> tuple:
    """Integers and booleans as floats of 64 bits, but for those that may be `discrete`; all else as it is."""
    whole = [i for i, a in enumerate(arrays) if getattr(a, "dtype", FLOAT).kind in "biu" and i not in discrete]
    return tuple(floating(a) if i in whole else a for i, a in enumerate(arrays)) if whole else arrays


def along_axes(function: Callable) -> Callable:
    """A page about the last axis, for any axis or several, which are brought to the end and made one.

    An argument beside x that has the shape of these axes is made one axis, too, and so are gradients on their way back.
    """

    @functools.wraps(function)
    def along(x: Any, *others: Any, axis: int | tuple[int, ...] = -1, **options: Any) -> tuple:
        if axis == -1:
            return function(x, *others, **options)
        axes = normalize_axes(function.__name__, axis, x.ndim)
        order, before = axes_last(axes, x.ndim)
        moved = x.transpose(order)
        front, run = moved.shape[: x.ndim - len(axes)], moved.shape[x.ndim - len(axes) :]
        length = math.prod(run)
        as_one = lambda a: a.reshape(*a.shape[: a.ndim - len(run)], length) if len(run) > 1 else a
        back = lambda a: a.reshape(*a.shape[:-1], *run) if len(run) > 1 and a.shape[-1:] == (length,) else a
        flat = [as_one(a) if getattr(a, "shape", ()) == run else a for a in others]
        y, vjp = function(as_one(moved), *flat, **options)
        kept = y.ndim == len(front) + 1  # a sum over the axis has lost it

        def moved_vjp(y_bar: Any) -> tuple:
            x_bar, *bars = vjp(as_one(y_bar.transpose(order)) if kept else y_bar)
            return back(x_bar).transpose(before), *map(back, bars)

        return back(y).transpose(before) if kept else y, moved_vjp

    parameters = inspect.signature(function).parameters.values()
    axis = inspect.Parameter("axis", inspect.Parameter.KEYWORD_ONLY, default=-1)
    places = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    along.__signature__ = inspect.Signature([*places, axis, *(p for p in parameters if p.kind is p.KEYWORD_ONLY)])  # type: ignore[attr-defined]
    return along


def of_each_axis(function: Callable, declaration: Declaration, *, fitted: bool = False) -> Callable:
    """A page or a kernel about x with a batch, and options with one for each axis, for those that are not `fitted` yet.

    A function without options per axis is as it is.
    """
    if not any(option.run for option in declaration.several):
        return function
    written = [list(shape.axes) for shape in declaration.by_place[0].shapes]
    batched = len(written) == 2 and written[0][1:] == written[1]

    @functools.wraps(function)
    def form(*arguments: Any, **options: Any) -> tuple:
        if not fitted:
            arguments = declaration.fitted(arguments, options)
        given = (*arguments[1:], *(options[option.name] for option in declaration.several if option.name in options))
        count = next((len(several) for several in given if isinstance(several, tuple)), None)
        x, *others = arguments
        if not batched or count is None or x.ndim - count == len(written[0]) - 1:  # none: Python says what is missing
            return function(x, *others, **options)
        y, vjp = function(x[None], *others, **options)

        def vjp_of_one(*y_bars: Any) -> tuple:
            x_bar, *bars = vjp(*(y_bar[None] for y_bar in y_bars))
            return (lambda: x_bar()[0]) if callable(x_bar) else x_bar[0], *bars

        return tuple(one[0] for one in y) if isinstance(y, tuple) else y[0], vjp_of_one

    return form


def are_halves(arguments: tuple) -> bool:
    """Whether all floats among the arguments are float16, in which sums, squares and counts soon are ∞."""
    return {a.dtype.char for a in arguments if hasattr(a, "dtype") and a.dtype.kind == "f"} == {"e"}


def in_own_types(form: Callable, discrete: set[int]) -> Callable:
    """A page on arrays, whose values have the type of the arguments; what is float16 is computed in float32.

    Arguments that may be `discrete`, by their places, stay integers or booleans.
    """

    @functools.wraps(form)
    def typed(*arguments: Any, **options: Any) -> tuple:
        if isinstance(arguments[0], tuple):  # those behind it may be sizes
            arguments = (np.asarray(arguments[0]), *arguments[1:])
        given, arrays = list(arguments), []
        for i, a in enumerate(arguments):
            if hasattr(a, "dtype") and not (i in discrete and a.dtype.kind in "biu"):
                arrays.append(i)
        dtype = np.result_type(*(arguments[i].dtype for i in arrays)) if arrays else FLOAT
        inside = np.dtype(np.float32) if dtype == np.float16 else dtype
        for i, a in enumerate(arguments):
            if i in arrays:
                given[i] = in_order(a.astype(inside, copy=False))
            elif type(a) in (int, float) and i not in discrete:
                given[i] = np.asarray(a, inside)
        with np.errstate(all="ignore"):  # what overflows is seen in the result
            y, vjp = form(*given, **options)

        def in_type(y: Any) -> Any:
            y = y if y is None else np.asanyarray(y)
            return y if y is None or y.dtype.kind in "iu" else y.astype(dtype, copy=False)  # places are integers

        def typed_vjp(*y_bars: Array) -> tuple:
            wide = (in_order(bar.astype(inside, copy=False) if bar.dtype.char == "e" else bar) for bar in y_bars)
            with np.errstate(all="ignore"):
                bars = vjp(*wide)
            return tuple(map(in_type, bars))

        return tuple(map(in_type, y)) if isinstance(y, tuple) else in_type(y), typed_vjp

    return typed
