"""For pytest: tests of claims in one line, and strategies of hypothesis for their inputs.

    def test_order():
        assert_equivariant(layer, Permute("x", 0), Permute(axis=0), draw, sizes={"n": range(6)})

    @given(sets(), st.data())
    def test_order_of_sets(inputs, data):
        g = data.draw(elements(Permute("x", 0), inputs))
        assert_equivariant(layer, Permute("x", 0), Permute(axis=0), inputs, g)

A test that fails prints the report and the counter-example as code that can be run. Strategies give dicts of arrays, as
claims take them, whose real numbers are numbers of float32; hypothesis is imported when one is made, and not before.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

import numpy as np
from numpy.typing import DTypeLike

from refnp.symmetry.actions import SMALL, Action, Arrays, Element, Product, Trivial
from refnp.symmetry.claim import Claim, ClaimOptions, Function, equivariant
from refnp.symmetry.inputs import Draw
from refnp.symmetry.searches import check, search
from refnp.symmetry.trials import dtype_of
from refnp.symmetry.verdict import SymmetryError, Verdict

__all__ = [
    "assert_equivariant",
    "assert_invariant",
    "elements",
    "images",
    "masks",
    "sequences",
    "sets",
    "tasks",
]

P = ParamSpec("P")
Size = int | tuple[int, int]  # a number, or the smallest and the largest
LARGEST = 16.0  # number that a strategy gives, unless told
OF_CHECK = {"bound", "inner_precision", "digits", "seed"}  # options of `check`


def assert_equivariant(
    f: Function,
    action_in: Action,
    action_out: Action,
    inputs: Draw | Arrays,
    g: Element = None,
    **options: Any,
) -> Verdict:
    """The verdict that f(g·x) = g·f(x) holds; raises SymmetryError, with the counter-example as code, if it does not.

    inputs   `draw` of `search`, (rng, **sizes) → dict of arrays: the claim must hold in a search
             or one dict of arrays: the claim must not fail there. With `g` for this element; otherwise for all of
             the group, if there are at most 120, or its generators and three that are drawn
    g        an element; only with one dict of arrays
    options  of the claim, as `equivariant` has them: on, read, in_precision, name, border, where; and of `search`, with
             its defaults; with one dict of arrays those of `check`: bound, inner_precision, digits and seed

    With one dict of arrays the test also passes where nothing moves, and where rounding is too large to tell:
    hypothesis finds such inputs, and they say nothing about f. It fails if f raises an error or is random.
    Raises TypeError for `g` with `draw`, and for options that there are not.
    """
    of_claim: Any = {name: options.pop(name) for name in ClaimOptions.__annotations__ if name in options}
    claim = equivariant(f, action_in, action_out, **of_claim)
    if callable(inputs):
        if g is not None:
            raise TypeError(f"assert_equivariant: g is {g!r}, but inputs are drawn; give one dict of arrays with it")
        verdict = search(claim, inputs, **options)
        good = verdict.holds
    else:
        if unknown := sorted(options.keys() - OF_CHECK):
            raise TypeError(f"assert_equivariant: {', '.join(unknown)} is for a search; give `draw` in place of inputs")
        verdict = check(claim, inputs, g, **options) if g is not None else _at(claim, inputs, options)
        good = not verdict.fails and verdict.counts.inputs > 0
    if not good:
        raise SymmetryError(f"{verdict}{_as_code(claim, verdict)}")
    return verdict


def assert_invariant(f: Function, action: Action, inputs: Draw | Arrays, g: Element = None, **options: Any) -> Verdict:
    """The verdict that f(g·x) = f(x) holds; all else as in `assert_equivariant`."""
    return assert_equivariant(f, action, Trivial(), inputs, g, **options)


def _at(claim: Claim, inputs: Arrays, options: Mapping[str, Any]) -> Verdict:
    """The verdict at one input as it is, for many elements."""
    as_it_is: dict[str, Any] = {
        "dtypes": [dtype_of(inputs)],
        "scales": (1.0,),
        "structures": (),
        "count": 1,
        "simplify": 0,
    }
    return search(claim, lambda rng: inputs, **as_it_is, **options)


def _as_code(claim: Claim, verdict: Verdict) -> str:
    """The counter-example as Python, with the check that fails as its last line where the claim can be written down."""
    found = verdict.counterexample
    if found is None:
        return ""
    lines = ["", "", "# the counter-example as code; f is the function under test", found.code()]
    if claim.read is None or not callable(claim.read):
        actions = [_action_code(action) for action in (claim.action, claim.action_out)]
        if all(actions):
            options = "".join(
                f", {option}={value!r}"
                for option, value in (("read", claim.read), ("border", claim.border))
                if value is not None
            )
            lines += [
                "",
                "from refnp.symmetry import *",
                f"check(equivariant(f, {', '.join(actions)}{options}), inputs, {found.element!r}).require()",
            ]
    return "\n".join(lines)


def _action_code(action: Action) -> str:
    """An action as code, or nothing if it is one of the user's or has functions or arrays in it."""
    if isinstance(action, Product):
        parts = list(map(_action_code, action.parts))
        return " * ".join(parts) if all(parts) else ""
    written = repr(action)
    ours = type(action).__module__.startswith("refnp.symmetry.")
    return written if ours and "<" not in written and "array(" not in written else ""


# ---- strategies of hypothesis


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise ImportError(
            "refnp.symmetry.testing: sets, tasks, masks, sequences, images and elements are strategies of hypothesis, "
            "which is not installed: pip install hypothesis"
        ) from error
    return strategies


def _strategy(build: Callable[Concatenate[Any, P], Any]) -> Callable[P, Any]:
    """What makes a strategy of the values of `build(draw, …)`; hypothesis is imported when one is made."""

    @functools.wraps(build)
    def made(*args: P.args, **options: P.kwargs) -> Any:
        return _strategies().composite(build)(*args, **options)

    _, *others = inspect.signature(build).parameters.values()
    made.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
    return made


@_strategy
def sets(
    draw: Any,
    points: Size = (0, 6),
    features: Size = (1, 3),
    *,
    name: str = "x",
    mask: str | None = None,
    batch: tuple[int, ...] = (),
    largest: float = LARGEST,
    dtype: DTypeLike = np.float64,
) -> Any:
    """A strategy of sets of points: {name: (*batch, N, D)}, and with `mask="mask"` which are present, (*batch, N).

    Points may be equal, and are in part of the examples. Shrinks to few points, and to zeros.
    """
    shape = (*batch, draw(_size(points)), draw(_size(features)))
    found = {name: draw(_rows(shape, largest, dtype))}
    return found if mask is None else {**found, mask: draw(_booleans(shape[:-1]))}


@_strategy
def tasks(
    draw: Any,
    context: Size = (0, 5),
    target: Size = (1, 3),
    *,
    dx: Size = 1,
    dy: Size = 1,
    mask: bool = False,
    batch: tuple[int, ...] = (),
    largest: float = LARGEST,
    dtype: DTypeLike = np.float64,
) -> Any:
    """A strategy of tasks of a neural process: context_x (*batch, N, dx), context_y (*batch, N, dy), target_x.

    With `mask` also context_mask (*batch, N), True where a point is present. Places may be equal.
    """
    n, m, places, values = (draw(_size(size)) for size in (context, target, dx, dy))
    found = {
        "context_x": draw(_rows((*batch, n, places), largest, dtype)),
        "context_y": draw(_numbers((*batch, n, values), largest, dtype)),
        "target_x": draw(_rows((*batch, m, places), largest, dtype)),
    }
    return {**found, "context_mask": draw(_booleans((*batch, n)))} if mask else found


@_strategy
def masks(
    draw: Any,
    queries: Size = (1, 5),
    keys: Size | None = None,
    *,
    name: str = "mask",
    empty_rows: bool = True,
    batch: tuple[int, ...] = (),
) -> Any:
    """A strategy of attention masks: {name: (*batch, N, M)}, True = may attend; M = N if `keys` is None.

    Without `empty_rows` each query may attend to at least one key, itself or the first. Shrinks to all False.
    """
    n = draw(_size(queries))
    shape = (*batch, n, n if keys is None else draw(_size(keys)))
    mask = draw(_booleans(shape))
    if not empty_rows and shape[-1]:
        one = np.eye(n, shape[-1], dtype=bool) | (np.arange(n)[:, None] >= shape[-1]) & (np.arange(shape[-1]) == 0)
        mask = mask | (one & ~mask.any(-1, keepdims=True))
    return {name: mask}


@_strategy
def sequences(
    draw: Any,
    length: Size = (0, 8),
    features: Size = (1, 3),
    *,
    vocabulary: int | None = None,
    name: str = "x",
    batch: tuple[int, ...] = (),
    largest: float = LARGEST,
    dtype: DTypeLike = np.float64,
) -> Any:
    """A strategy of sequences: {name: (*batch, N, D)}, or with `vocabulary` of token ids (*batch, N) below it."""
    n = draw(_size(length))
    if vocabulary is None:
        return {name: draw(_numbers((*batch, n, draw(_size(features))), largest, dtype))}
    return {name: draw(_filled((*batch, n), np.int64, _size((0, vocabulary - 1))))}


@_strategy
def images(
    draw: Any,
    channels: Size = 1,
    height: Size = (1, 6),
    width: Size | None = None,
    *,
    name: str = "x",
    batch: tuple[int, ...] = (1,),
    largest: float = LARGEST,
    dtype: DTypeLike = np.float64,
) -> Any:
    """A strategy of images {name: array} with channels, rows and columns last; square ones if `width` is None."""
    c, rows = draw(_size(channels)), draw(_size(height))
    columns = rows if width is None else draw(_size(width))
    return {name: draw(_numbers((*batch, c, rows, columns), largest, dtype))}


def elements(action: Action, inputs: Any) -> Any:
    """A strategy of elements of an action for one dict of arrays; for a strategy of these, of pairs (inputs, g).

        g = data.draw(elements(Permute("x", 0), inputs))
        @given(elements(Permute("x", 0), sets()))

    All elements of a group of at most 120, otherwise the identity, generators, and elements that `action.draw` gives,
    made simpler or not. Shrinks to the identity.
    """
    st = _strategies()
    if not isinstance(inputs, Mapping):
        return inputs.flatmap(lambda arrays: elements(action, arrays).map(lambda g: (arrays, g)))
    every = action.elements(inputs)
    if every is not None and len(every) <= SMALL:
        e = action.identity(inputs)
        return st.sampled_from(sorted(every, key=lambda g: g != e))
    return _element(action, inputs)


@_strategy
def _element(draw: Any, action: Action, inputs: Arrays) -> Any:
    """The identity or a generator, or an element that is drawn, made simpler or not."""
    simple = [action.identity(inputs), *action.generators(inputs)]
    number = draw(_size((0, 2 * len(simple) + 2)))
    if number < len(simple):
        return simple[number]
    g = action.draw(np.random.default_rng(draw(_size((0, 2**16)))), inputs)
    for _ in range(draw(_size((0, 3)))):
        g = next(iter(action.simpler(g)), g)
    return g


def _size(size: Size) -> Any:
    """Whole numbers between two, or one number."""
    st = _strategies()
    return st.just(size) if isinstance(size, int) else st.integers(*size)


def _filled(shape: tuple[int, ...], dtype: DTypeLike, values: Any) -> Any:
    from hypothesis.extra.numpy import arrays

    return arrays(np.dtype(dtype), shape, elements=values)


def _numbers(shape: tuple[int, ...], largest: float, dtype: DTypeLike) -> Any:
    """Arrays of numbers of float32, no subnormal ones, of which one may fill the rest."""
    st = _strategies()
    numbers = st.floats(-largest, largest, width=32, allow_subnormal=False)
    return _filled(shape, dtype, numbers.map(lambda v: v + 0.0))  # no −0


def _booleans(shape: tuple[int, ...]) -> Any:
    return _filled(shape, bool, _strategies().booleans())


def _rows(shape: tuple[int, ...], largest: float, dtype: DTypeLike) -> Any:
    """Arrays (..., N, D), in part of the examples with rows that are equal."""
    plain = _numbers(shape, largest, dtype)
    return _strategies().one_of(plain, _repeated(plain, shape[-2])) if shape[-2] > 1 else plain


@_strategy
def _repeated(draw: Any, rows: Any, n: int) -> Any:
    """Arrays with rows of others at other places, of which some may be left out."""
    x = draw(rows)
    return x[..., draw(_strategies().lists(_size((0, n - 1)), min_size=n, max_size=n)), :]
