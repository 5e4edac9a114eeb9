"""A case of many large items, such as the heads of attention, asked item by item and on several threads.

Items are what stands behind the axes in front, `...` in a declaration. By it, each item of the result follows from the
same item of the arguments alone; so asked one by one they give the same, sooner, for arrays of one item fit into the
cache of a processor.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refnp.kernels.blocks import run_all
from refnp.numbers.arrays import broadcast_shapes

OF_ITEMS = re.compile(r"\(\.\.\., [^()]*\)")  # one result, with the axes in front
LEAST = 2**14  # numbers in the arrays of an item; to call a function takes longer than to compute with fewer


def by_item(function: Callable, case: Any, arrays: Sequence[np.ndarray]) -> Any:
    """function(*arrays, **options) of a case, by items where they are large and independent of each other."""
    given = {**dict(zip(case.inputs, arrays, strict=True)), **case.options}
    fronts = independent(case, given)
    if fronts is None:
        return function(*arrays, **case.options)
    front = broadcast_shapes(*fronts.values())
    for name, own in fronts.items():
        given[name] = np.broadcast_to(given[name], (*front, *given[name].shape[len(own) :]))
    places: list[Any] = list(np.ndindex(front))
    found: list[Any] = [None] * len(places)

    def work(i: int) -> None:
        of_item = {name: value[places[i]] if name in fronts else value for name, value in given.items()}
        item = [of_item.pop(name) for name in case.inputs]
        found[i] = function(*item, **of_item)

    run_all(work, len(places))
    return np.stack(found).reshape(front + found[0].shape)


def independent(case: Any, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]] | None:
    """The axes in front of each array; None where items are small, or not known to be independent."""
    takes = getattr(case.layer.function, "takes", None)
    if takes is None or not OF_ITEMS.fullmatch(takes.result):
        return None
    fronts: dict[str, tuple[int, ...]] = {}
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            shapes: tuple = takes.arguments[name].shapes if name in takes.arguments else ()
            if len(shapes) != 1 or not shapes[0].batch or shapes[0].run:
                return None
            fronts[name] = value.shape[: max(value.ndim - len(shapes[0].axes), 0)]
        elif not isinstance(value, int | float | str | None):
            return None
    items = math.prod(broadcast_shapes(*fronts.values()))
    return fronts if items > 1 and sum(given[name].size for name in fronts) >= items * LEAST else None
