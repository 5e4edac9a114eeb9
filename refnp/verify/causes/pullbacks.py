"""Mistaken walks back: what becomes of the incoming gradient where the output is right."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from refnp.autograd import primitive, vjp
from refnp.verify.case import Layer
from refnp.verify.edits.mutant import Mutant

WHOLE = 2000  # elements of which each has a walk back of its own

Pullback = Callable[[np.ndarray], tuple[np.ndarray, ...]]
Change = Callable[[Pullback, np.ndarray, Sequence[np.ndarray]], Sequence[np.ndarray]]


def with_pullback(layer: Layer, names: Collection[str], change: Change) -> Callable:
    """The layer's function whose gradients of these arguments are `change(pullback, ȳ, arrays)`, others as they are."""
    own = layer.function
    places = {i for i, name in enumerate(arguments_of(layer)) if name in names}

    def function(*arrays: Any, **options: Any) -> Any:
        @primitive
        def mistaken(*given):
            y, pullback = vjp(lambda *x: own(*x, **options), *given)

            def back(y_bar):
                right, wrong = pullback(y_bar), change(pullback, y_bar, given)
                return tuple(w if i in places else r for i, (r, w) in enumerate(zip(right, wrong, strict=True)))

            return np.asarray(y), back

        return mistaken(*arrays)

    return function


def arguments_of(layer: Layer) -> list[str]:
    """The names of the arguments by place."""
    from refnp.verify.layer_names import cases_named

    longest = max((case.inputs for case in cases_named(layer.name)), key=len)
    return list(longest)


def scaled_gradients(layer: Layer, names: Collection[str], c: Callable[[Any], float]) -> Callable:
    """The function whose gradients are c times what is right."""
    return with_pullback(layer, names, lambda pullback, bar, x: [g * c(x) for g in pullback(bar)])


def of_pullbacks(layer: Layer, which: str, names: list[str]) -> Iterator[Mutant]:
    """Mistakes of the walk back that have a name."""
    for says, change in CHANGES.items():
        yield Mutant(says.format(which), (layer.name,), with_pullback(layer, names, change), cancels=True)
    arguments = arguments_of(layer)
    for place, other in enumerate(arguments):
        if len(names) == 1 and other != names[0]:
            taken = lambda pullback, bar, x, place=place: [pullback(bar)[place]] * len(x)
            yield Mutant(f"the {which} were that of {other}", (layer.name,), with_pullback(layer, names, taken))


def ignored(pullback: Pullback, bar: np.ndarray, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Of ȳ = 1."""
    return pullback(np.ones_like(bar))


def squared(pullback: Pullback, bar: np.ndarray, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Of ȳ²."""
    return pullback(bar * bar)


def averaged(pullback: Pullback, bar: np.ndarray, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Of the mean of ȳ over all rows, the last axis."""
    return pullback(np.broadcast_to(bar.mean(-1, keepdims=True), bar.shape).copy())


def first_row(pullback: Pullback, bar: np.ndarray, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Of ȳ of the first item alone."""
    kept = np.zeros_like(bar)
    kept[:1] = bar[:1]
    return pullback(kept)


def last_row(pullback: Pullback, bar: np.ndarray, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Of ȳ of the last item alone."""
    kept = np.zeros_like(bar)
    kept[-1:] = bar[-1:]
    return pullback(kept)


def diagonal(pullback: Pullback, bar: np.ndarray, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """ȳᵢ ∂yᵢ/∂xᵢ, for arguments of the output's shape; where there are many elements, if rows know of their own alone.

    Raises ValueError for an argument of another shape.
    """
    if not any(x.shape == bar.shape for x in arrays):
        raise ValueError("no argument has the shape of the output")
    found = [np.zeros_like(x) for x in arrays]
    rows = (
        [np.ones(bar.shape[:-1], bool)]
        if bar.size > WHOLE
        else [_unit(bar.shape[:-1], r) for r in np.ndindex(bar.shape[:-1])]
    )
    for row in rows:
        for j in range(bar.shape[-1] if bar.ndim else 1):
            unit = np.zeros_like(bar)
            unit[..., j] = np.where(row, 1, 0)
            for total, g in zip(found, pullback(unit), strict=True):
                if total.shape == bar.shape:
                    total += g * unit * bar
    return found


def _unit(shape: tuple[int, ...], place: tuple[int, ...]) -> np.ndarray:
    """True at one place."""
    found = np.zeros(shape, bool)
    found[place] = True
    return found


CHANGES: dict[str, Change] = {
    "the incoming gradient ȳ were ignored in the {}, and 1 in its place": ignored,
    "of the Jacobian the diagonal alone were in the {}, x̄ᵢ = ȳᵢ ∂yᵢ/∂xᵢ": diagonal,
    "the incoming gradient ȳ were squared in the {}": squared,
    "the {} were those of the first item alone": first_row,
    "the {} were those of the last item alone": last_row,
    "the incoming gradient ȳ were averaged over its last axis in the {}": averaged,
}
