"""Arguments may be arrays, or dicts, lists and tuples of them to any depth; a path names one array inside.

    tree = {"weight": W, "layers": [A, B]}        leaves: (("weight",), W), (("layers", 0), A), (("layers", 1), B)

Anything that is not a dict, list or tuple is a leaf. A path is the sequence of keys that leads to it.
"""

from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path, depth first, in the order the containers hold them."""
    if isinstance(tree, dict):
        for key, branch in tree.items():
            yield from leaves(branch, (*path, key))
    elif isinstance(tree, (list, tuple)):
        for key, branch in enumerate(tree):
            yield from leaves(branch, (*path, key))
    else:
        yield path, tree


def replace(tree: Any, new: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """The same containers with `new(path, leaf)` in place of every leaf. Nothing is changed in `tree` itself."""
    if isinstance(tree, dict):
        return {key: replace(branch, new, (*path, key)) for key, branch in tree.items()}
    if isinstance(tree, (list, tuple)):
        branches = [replace(branch, new, (*path, key)) for key, branch in enumerate(tree)]
        if hasattr(tree, "_fields"):  # a named tuple takes its fields one by one
            return type(tree)(*branches)
        return branches if isinstance(tree, list) else tuple(branches)
    return new(path, tree)


def at(tree: Any, path: Path) -> Any:
    """The branch or leaf that `path` leads to; raises KeyError, IndexError or TypeError where there is none."""
    for key in path:
        tree = tree[key]
    return tree


def written(path: Path) -> str:
    """A path as Python would write it: ("weight", 2) → "['weight'][2]"."""
    return "".join(f"[{key!r}]" for key in path)
