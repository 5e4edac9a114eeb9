"""What the pages of the ledger share: an action, models in the precision of their inputs, names of subgroups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import Array
from refnp.claims.row import Trial
from refnp.layers.module import Module
from refnp.numbers.kinds import kind_of
from refnp.symmetry import Action, Claim, Trivial, equivariant
from refnp.symmetry.actions import Arrays, AxisAction

Of = TypeVar("Of", bound=Module)


def generator(seed: int = 0) -> np.random.Generator:
    """The source of random weights: every model of the ledger is made with a seed of its own."""
    return np.random.default_rng(seed)


def enlarged(model: Of, factor: float = 1.0, seed: int = 0) -> Of:
    """The model with N(0, factor²) added to every parameter, so that no bias and no table is zero or small."""
    rng = generator(seed)
    for _, parameter in model.named_parameters():
        parameter.data = parameter.data + factor * rng.standard_normal(parameter.shape)
    return model


def in_precision_of(model: Of) -> Callable[..., Of]:
    """(arrays) → the model with its parameters in the precision of these arrays, made once for each.

    Beside unknown numbers, of which a claim is proved, parameters stay as they are: they stand for any.
    """
    state, models = model.state_dict(), dict[np.dtype, Of]()

    def of(*arrays: Any) -> Of:
        if kind_of(arrays) is not None:
            return model
        dtype = np.result_type(*(a for a in arrays if np.asarray(a).dtype.kind == "f"))
        if dtype not in models:
            models[dtype] = model.bind({name: array.astype(dtype) for name, array in state.items()})
        return models[dtype]

    return of


def bound_in(model: Of) -> Callable[[DTypeLike], Of]:
    """dtype → the model with its parameters in that precision, for inputs that have none, such as token ids."""
    of = in_precision_of(model)
    return lambda dtype: of(np.empty(0, dtype))


def multiples(k: int) -> str:
    """The name of a subgroup of shifts."""
    return f"multiples of {k}"


def parts_of(claim: Callable[[int], Claim], steps: tuple[int, ...]) -> Mapping[str, Claim]:
    """The subgroups of multiples of these steps, each a multiple of the one before, as the parts of a trial."""
    return {multiples(k): claim(k) for k in steps}


@dataclass(frozen=True)
class Repeat(AxisAction):
    """Every entry of an axis k times, one after the other; the element is k. There is no way back."""

    group = "copies"

    def moved(self, g: int, name: str, array: Array) -> Array:
        for axis in self.axes(name, array):
            array = np.repeat(array, g, axis)
        return array

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.integers(1, 4))

    def identity(self, arrays: Arrays) -> int:
        return 1

    def compose(self, g: int, h: int) -> int:
        return g * h

    def elements(self, arrays: Arrays) -> list[int]:
        return [1, 2, 3]

    def simpler(self, g: int) -> Iterator[int]:
        yield from range(2, g)

    def describe(self, g: int) -> str:
        return f"everything {g} times"

    def __str__(self) -> str:
        return f"copies of {self.where()}"


def everywhere(*actions: Action) -> Action:
    """Several actions at once."""
    first, *others = actions
    for other in others:
        first = first * other
    return first


@dataclass(frozen=True)
class Flip(AxisAction):
    """The order of an axis reversed, or left: the group {1, −1} of `Negate`, on places instead of values."""

    group = "signs"

    def moved(self, g: int, name: str, array: Array) -> Array:
        return np.flip(array, self.axes(name, array)) if g < 0 else array.copy()

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.choice((1, -1)))

    def identity(self, arrays: Arrays) -> int:
        return 1

    def compose(self, g: int, h: int) -> int:
        return g * h

    def elements(self, arrays: Arrays) -> list[int]:
        return [1, -1]

    def describe(self, g: int) -> str:
        return "reversed" if g < 0 else "as it is"

    def __str__(self) -> str:
        return f"the order of {self.where()} reversed"


def tried(
    f: Callable[..., Any],
    action: Action,
    out: Action | None = None,
    *,
    draw: Callable[..., Mapping[str, Any]],
    sizes: Mapping[str, Sequence[int]],
    **others: Any,
) -> Callable[[], Trial]:
    """The trial of f(g·x) = g·f(x), or of f(g·x) = f(x) without `out`."""
    return lambda: Trial(equivariant(f, action, out or Trivial()), draw, sizes, **others)
