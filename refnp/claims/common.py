"""What the pages of the ledger share: an action, models in the precision of their inputs, names of subgroups."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from refnp.claims.row import Trial
from refnp.layers.module import Module
from refnp.numbers.kinds import kind_of
from refnp.symmetry import Action, Claim, Trivial, equivariant

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
