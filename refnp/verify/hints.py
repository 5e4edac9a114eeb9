"""With what a function would hold that deviates: another convention, another reduction, other arguments."""

import copy
import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.verify.asking import TRIED, Asked
from refnp.verify.calling import defaults
from refnp.verify.case import Case
from refnp.verify.conventions import LAYOUTS, MASKS, changes
from refnp.verify.findings import Report
from refnp.verify.layer_names import cases_named
from refnp.verify.layers.elsewhere import variants
from refnp.verify.signatures import root

ALIKE = 1e-9  # what two functions may differ by that are the same on paper
REDUCTIONS = ("none", "sum", "mean", "batchmean", "rows")


def hints(asked: Asked, report: Report) -> list[str]:
    """With what the first cases that deviate would hold; a RuntimeWarning where looking for it ends in an error."""
    found = []
    for of_kind in (of_conventions, of_other_arguments):
        try:
            found += of_kind(asked, report)
        except Exception as failure:  # which is none of the function's
            warnings.warn(f"no hint: {type(failure).__name__}: {failure}", RuntimeWarning, stacklevel=1)
    return found


def of_conventions(asked: Asked, report: Report) -> list[str]:
    """The conventions with which the first cases that deviate would hold, output alone."""
    outputs = [row for row in report.deviations if row.quantity == "output"]
    if not outputs:
        return []
    dtype = outputs[0].dtype
    deviating = list(dict.fromkeys(row.case for row in outputs if row.dtype == dtype))[:TRIED]
    few = [case for case in asked.cases if case.name in deviating]
    if asked.holds_with(few, dtype):  # by what is known of frameworks, which other rows contradict
        return []
    masks = MASKS if any(map(has_mask, few)) else []
    ways: list[dict[str, Any]] = [
        {"layouts": (*asked.layouts, layout)} for layout in LAYOUTS if layout not in asked.layouts
    ]
    ways += [{"mask": mask} for mask in masks if mask != asked.mask]
    right = {row.case for row in report.judgements} - {row.case for row in report.deviations}
    found = []
    for way in ways:
        is_layout = "layouts" in way
        concerns = functools.partial(changes, way["layouts"][-1]) if is_layout else has_mask
        if is_layout and not all(map(concerns, few)):
            continue
        also = [case for case in asked.cases if case.name in right and concerns(case)][:TRIED]  # are to stay right
        if asked.holds_with([*few, *also], dtype, **way):
            option = f"layout={way['layouts'][-1]!r}" if is_layout else f"mask={way['mask']!r}"
            found.append(f"with {option} the output is right in {'; '.join(deviating)}")
    reductions = [] if asked.binding.takes("reduction") else REDUCTIONS
    reductions = [
        r for r in reductions if "reduction" in defaults(few[0]) and few[0].options.get("reduction", "mean") != r
    ]
    for reduction in reductions:
        others = [replace(case, options={**case.options, "reduction": reduction}) for case in few]
        binding = copy.copy(asked.binding)
        binding.stated = binding.stated | {"reduction"}
        if asked.holds_with(others, dtype, binding=binding):
            found.append(f"with options={{'reduction': {reduction!r}}} the output is right in {'; '.join(deviating)}")
    return found


def has_mask(case: Case) -> bool:
    """Whether something is hidden, or might be."""
    return any(name.endswith("mask") for name in case.options)


def of_other_arguments(asked: Asked, report: Report) -> list[str]:
    """With which other arguments a function would hold that deviates: a variance in place of a deviation."""
    wrong = [row.dtype for row in report.deviations if row.quantity == "output"]
    right = asked.layer.function
    first, *others = family_of(asked.layer.name)
    own = cases_named(first)[0]
    found = []
    for layer in others if wrong else ():
        every = cases_named(layer)
        if len(every[0].inputs) != len(own.inputs):
            continue
        pairs = zip(own.inputs, every[0].inputs, strict=True)
        places = {new: asked.binding.places[old] for old, new in pairs if old in asked.binding.places}
        try:
            other = asked.like(every, places)
        except ValueError:
            continue
        few = other.offered(every)
        if few and other.holds_with(few, wrong[0]) and not all(map(functools.partial(is_same_of, right), few)):
            changed = {new: theirs for new, theirs in places.items() if new not in own.inputs}
            found.append(f"with arguments={changed!r} the output is right in {'; '.join(case.name for case in few)}")
    return found


def is_same_of(function: Callable, case: Case) -> bool:
    """Whether a function gives the same where a case has other arguments in the place of its own, and takes them."""
    problem = case.problem("float64")
    with np.errstate(all="ignore"):
        try:
            given = function(*problem.arrays.values(), **case.options)
        except ValueError:  # such as a negative deviation
            return False
    right = case.layer.function(*problem.arrays.values(), **case.options)
    return np.shape(given) == np.shape(right) and bool(np.allclose(given, right, rtol=ALIKE, atol=ALIKE))


@functools.cache
def family_of(layer: str) -> dict[str, list[str]]:
    """{layer: its arguments} of a layer, that one first, and of the same of other arguments."""
    others = [name for base, found in variants().items() for name in (base, *found) if layer in (base, *found)]
    names = dict.fromkeys([layer, *(name for name in others if root(name) == root(layer))])
    return {name: [n for case in cases_named(name) for n in (*case.inputs, *case.options)] for name in names}
