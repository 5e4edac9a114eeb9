"""Mistaken walks back: what becomes of the incoming gradient where the output is right."""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd import primitive, vjp
from refnp.verify.case import Layer
from refnp.verify.edits.mutant import Mutant

WHOLE = 2000  # elements of which each has a walk back of its own

Gradients = Sequence[np.ndarray]


@dataclass(frozen=True)
class Back:
    """A walk back as it is right: the function, its arguments and result y, ȳ, and the pullback."""

    function: Callable
    arrays: Gradients
    y: np.ndarray
    bar: np.ndarray
    pullback: Callable[[np.ndarray], Gradients]

    def at(self, *arrays: np.ndarray) -> Gradients:
        """The gradients at other arguments."""
        return vjp(self.function, *arrays)[1](self.bar)


Change = Callable[[Back], Gradients]


def with_pullback(layer: Layer, names: Collection[str], change: Change) -> Callable:
    """The layer's function whose gradients of these arguments are those of a change, others as they are."""
    own = layer.function
    places = {i for i, name in enumerate(arguments_of(layer)) if name in names}

    def function(*arrays: Any, **options: Any) -> Any:
        @primitive
        def mistaken(*given):
            applied = lambda *x: own(*x, **options)
            y, pullback = vjp(applied, *given)

            def back(y_bar):
                right, wrong = pullback(y_bar), change(Back(applied, given, np.asarray(y), y_bar, pullback))
                return tuple(w if i in places else r for i, (r, w) in enumerate(zip(right, wrong, strict=True)))

            return np.asarray(y), back

        return mistaken(*arrays)

    return function


def arguments_of(layer: Layer) -> list[str]:
    """The names of the arguments by place; of an equation in place of a layer, which has no cases, its own."""
    from refnp.verify.layer_names import cases_named

    if layer.whole:
        return list(inspect.signature(layer.equation).parameters)
    longest = max((case.inputs for case in cases_named(layer.name)), key=len)
    return list(longest)


def scaled_gradients(layer: Layer, names: Collection[str], c: Callable[[Any], float]) -> Callable:
    """The function whose gradients are c times what is right."""
    return with_pullback(layer, names, lambda b: [g * c(b.arrays) for g in b.pullback(b.bar)])


def of_pullbacks(layer: Layer, which: str, names: list[str]) -> Iterator[Mutant]:
    """Mistakes of the walk back that have a name."""
    for says, change in CHANGES.items():
        yield Mutant(says.format(which), with_pullback(layer, names, change), cancels=True)
    for says, slope in SLOPES.items():
        of_slope = lambda b, slope=slope: [b.bar * slope(x, b.y) if x.shape == b.y.shape else x for x in b.arrays]
        yield Mutant(f"the {which} were ȳ {says}", with_pullback(layer, names, of_slope))
    arguments = arguments_of(layer)
    for place, other in enumerate(arguments):
        if len(names) == 1 and other != names[0]:
            taken = lambda b, place=place: [b.pullback(b.bar)[place]] * len(b.arrays)
            yield Mutant(f"the {which} were that of {other}", with_pullback(layer, names, taken))
        for words, moved in MOVED.items():
            at = lambda b, i=place, moved=moved: b.at(*b.arrays[:i], moved(b, b.arrays[i]), *b.arrays[i + 1 :])
            says = f"the {which} were taken where {other} is {words}"
            yield Mutant(says, with_pullback(layer, names, at))


def of_bar(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """The gradients of another ȳ."""
    return lambda b: b.pullback(change(b.bar))


def of_gradient(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """The gradients, changed."""
    return lambda b: [change(g) for g in b.pullback(b.bar)]


def at_places(place: slice, axes: Callable[[int], int]) -> Callable[[np.ndarray], np.ndarray]:
    """An array that is kept at one end of its first axes, and 0 elsewhere."""

    def kept(bar: np.ndarray) -> np.ndarray:
        found, where = np.zeros_like(bar), (place,) * axes(bar.ndim)
        found[where] = bar[where]
        return found

    return kept


def diagonal(b: Back) -> Gradients:
    """ȳᵢ ∂yᵢ/∂xᵢ, for arguments of the output's shape; where there are many elements, if rows know of their own alone.

    Raises ValueError for an argument of another shape.
    """
    bar = b.bar
    if not any(x.shape == bar.shape for x in b.arrays):
        raise ValueError("no argument has the shape of the output")
    found = [np.zeros_like(x) for x in b.arrays]
    rows = (
        [np.ones(bar.shape[:-1], bool)]
        if bar.size > WHOLE
        else [_unit(bar.shape[:-1], r) for r in np.ndindex(bar.shape[:-1])]
    )
    for row in rows:
        for j in range(bar.shape[-1] if bar.ndim else 1):
            unit = np.zeros_like(bar)
            unit[..., j] = np.where(row, 1, 0)
            for total, g in zip(found, b.pullback(unit), strict=True):
                if total.shape == bar.shape:
                    total += g * unit * bar
    return found


def _unit(shape: tuple[int, ...], place: tuple[int, ...]) -> np.ndarray:
    """True at one place."""
    found = np.zeros(shape, bool)
    found[place] = True
    return found


FIRST, LAST = slice(None, 1), slice(-1, None)
CHANGES: dict[str, Change] = {
    "the incoming gradient ȳ were ignored in the {}, and 1 in its place": of_bar(np.ones_like),
    "of the Jacobian the diagonal alone were in the {}, x̄ᵢ = ȳᵢ ∂yᵢ/∂xᵢ": diagonal,
    "the incoming gradient ȳ were squared in the {}": of_bar(np.square),
    "the {} were those of the first item alone": of_bar(at_places(FIRST, lambda axes: 1)),
    "the {} were those of the last item alone": of_bar(at_places(LAST, lambda axes: 1)),
    "the {} were those of the last row alone": of_bar(at_places(LAST, lambda axes: axes - 1)),
    "the incoming gradient ȳ were averaged over its last axis in the {}": of_bar(
        lambda bar: np.broadcast_to(bar.mean(-1, keepdims=True), bar.shape).copy()
    ),
    "the {} were transposed": of_gradient(lambda g: g.swapaxes(-1, -2)),
    "the {} were flipped along the last axis": of_gradient(lambda g: g[..., ::-1]),
    "the {} were flipped along all axes but the first two": of_gradient(lambda g: np.flip(g, tuple(range(2, g.ndim)))),
}
MOVED: dict[str, Callable[[Back, np.ndarray], np.ndarray]] = {
    "of the other sign": lambda b, x: -x,
    "y": lambda b, x: b.y,
    "one more": lambda b, x: x + 1,
    "2 times what it is": lambda b, x: 2 * x,
}
SLOPES: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "": lambda x, y: 1,
    "y": lambda x, y: y,
    "(1 − y)": lambda x, y: 1 - y,
    "(1 + y)": lambda x, y: 1 + y,
    "y²": lambda x, y: y * y,
    "(1 − y²)": lambda x, y: 1 - y * y,
    "(1 + y²)": lambda x, y: 1 + y * y,
    "y (1 − y)": lambda x, y: y * (1 - y),
    "y (1 + y)": lambda x, y: y * (1 + y),
    "x": lambda x, y: x,
    "x (1 − x)": lambda x, y: x * (1 - x),
    "(1 − x²)": lambda x, y: 1 - x * x,
    "/x": lambda x, y: 1 / x,
    "/y": lambda x, y: 1 / y,
}
