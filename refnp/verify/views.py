"""Arguments as views of larger arrays: their numbers do not stand side by side in memory.

A function that walks through memory without the strides of its arguments is right for whole arrays alone. So it is
asked one case once more, where each argument is every second number, along every axis, of an array that holds each of
them twice, and where the cotangent of a matrix is the transpose of an array.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.numbers.arrays import larger, within
from refnp.verify.case import Case
from refnp.verify.frameworks.native import Answer, Question
from refnp.verify.made import BLOCK

COTANGENT = "the cotangent"


def on_views(cases: Sequence[Case]) -> list[Case]:
    """The plainest cases of a matrix and of three axes, or of what there is, with views: first of few rows."""
    shapes = {case.name: next(iter(case.problem("float64").arrays.values())).shape for case in cases}
    is_of = lambda case, axes: len(shapes[case.name]) >= axes and min(shapes[case.name]) > 1
    by_axes = ([case for case in cases if is_of(case, axes)] for axes in (2, 3))
    plainness = lambda case: (max(shapes[case.name]) > BLOCK, case.variant.count(","))
    plainest = [min(of, key=plainness) for of in by_axes if of] or [cases[0]]
    found = {case.name: replace(case, views=(*case.inputs, COTANGENT)) for case in plainest}
    return [*found.values()]


def said_of_views(names: Sequence[str]) -> str:
    """Why what deviates does so where these are views."""
    *first, last = names
    are = f"{', '.join(first)} and {last} are views" if first else f"{last} is a view"
    return f"{are} of a larger array: where the same numbers stand side by side in memory, it is right"


def view_of(x: np.ndarray, array: Callable[[np.ndarray], Any]) -> Any:
    """The numbers of x within a larger `array` of a framework."""
    return array(larger(x))[within(x)]


def run_on_views(run: Callable[[Question], Answer], asked: Question, views: Collection[int | str]) -> Answer:
    """What `run` answers where the arguments at the places in `views` are views, and COTANGENT if it is among them."""
    if not views:
        return run(asked)
    places = {i: within(x) for i, x in enumerate(asked.arrays) if i in views}
    own = lambda i, x: x[places[i]] if i in places else x
    turned = COTANGENT in views and asked.cotangent is not None and np.ndim(asked.cotangent) > 1

    def function(*given: Any) -> Any:
        y = asked.function(*(own(i, x) for i, x in enumerate(given)))
        return y.mT if turned and y.ndim > 1 else y

    arrays = [larger(x) if i in places else x for i, x in enumerate(asked.arrays)]
    cotangent = np.array(asked.cotangent.mT, order="C") if turned else asked.cotangent  # type: ignore[union-attr]
    output, gradients = run(replace(asked, function=function, arrays=arrays, cotangent=cotangent))
    output = output.mT if turned and output.ndim > 1 else output
    return output, [own(i, gradient) for i, gradient in zip(asked.wanted, gradients, strict=False)]
