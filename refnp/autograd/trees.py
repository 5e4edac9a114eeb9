"""Nested dicts, lists and tuples of arrays: the parameters of a model, or the results of a function, as one thing.

A leaf is whatever is not a dict, list or tuple. The order of leaves is that in which the nesting is written down.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Tensor


def leaves_of(tree: Any) -> list:
    """The leaves of nested dicts, lists and tuples, in order."""
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in leaves_of(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for branch in tree for leaf in leaves_of(branch)]
    return [tree]


def map_leaves(function: Callable, tree: Any, *others: Any) -> Any:
    """The same nesting with function(leaf, …) in place of each leaf.

    `others` give further arguments to `function`. Raises ValueError where they are not nested as `tree` is.
    """
    if isinstance(tree, dict):
        for other in others:
            if not isinstance(other, dict) or other.keys() != tree.keys():
                raise ValueError(f"nesting differs: a dict with keys {list(tree)} is paired with {_nesting(other)}")
        return {key: map_leaves(function, tree[key], *(other[key] for other in others)) for key in tree}
    if isinstance(tree, (list, tuple)):
        for other in others:
            if not isinstance(other, (list, tuple)) or len(other) != len(tree):
                raise ValueError(f"nesting differs: {len(tree)} branches are paired with {_nesting(other)}")
        branches = [map_leaves(function, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*branches) if hasattr(tree, "_fields") else type(tree)(branches)
    return function(tree, *others)


def _nesting(tree: Any) -> str:
    if isinstance(tree, dict):
        return f"a dict with keys {list(tree)}"
    return f"{len(tree)} branches" if isinstance(tree, (list, tuple)) else f"one {type(tree).__name__}"


def rebuilt(tree: Any, leaves: Iterable) -> Any:
    """The same nesting with other leaves, given in order: rebuilt(tree, leaves_of(tree)) is `tree`."""
    remaining = iter(leaves)
    return map_leaves(lambda _: next(remaining), tree)


def is_differentiable(leaf: Any) -> bool:
    """True for real and complex numbers and arrays of them; integers, booleans and None have no gradient."""
    kinds = (Tensor, np.ndarray, np.generic, float, complex)
    return isinstance(leaf, kinds) and np.asarray(raw(leaf)).dtype.kind in "fc"
