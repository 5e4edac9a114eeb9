"""One way from the names of a published state dict to refnp's: rules, each a pattern and what stands in its place.

A linear map of PyTorch keeps Wᵀ, (out, in), refnp W, (in, out): matrices are transposed. Convolutions, vectors and
length scales are the same in both. PyTorch is not needed: state dicts are mappings of arrays.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from refnp.autograd.tensor import ArrayLike

State = dict[str, np.ndarray]
Rule = tuple[str, str | Callable[[re.Match], str]]


def renamed(state: Mapping[str, ArrayLike], rules: Iterable[Rule], *, no_place: str = "") -> State:
    """All arrays under their names here: on each name the rules act in their order, then matrices are transposed.

    A name that no rule changes has no place here. It stays, and `load_state_dict` names it, with all that is missing;
    if `no_place` is given, ValueError with that message, in which {} is the name.
    """
    found = {}
    for there, array in state.items():
        name = there
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
        if no_place and name == there:
            raise ValueError(no_place.format(there))
        array = np.asarray(array)
        found[name] = array.T if array.ndim == 2 else array
    return found


def layer(path: str) -> Callable[[re.Match], str]:
    """A layer of an MLP: activations are numbered too, so that layer i is number 2 i there."""
    return lambda found: f"{path}.layers.{int(found[1]) // 2}."


def part(state: Mapping[str, ArrayLike], prefix: str) -> dict[str, ArrayLike]:
    """The entries under `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
