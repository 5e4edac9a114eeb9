"""With what a function would hold that deviates: another convention, another reduction, other arguments."""

import copy
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from refnp.verify.asking import TRIED, Asked
from refnp.verify.calling import defaults
from refnp.verify.case import Case
from refnp.verify.conventions import AS_IT_IS, LAYOUTS, MASKS, Layout, Turn, changes, turned_by
from refnp.verify.findings import Report
from refnp.verify.layer_names import cases_named
from refnp.verify.layers.elsewhere import variants
from refnp.verify.signatures import root

ALIKE = 1e-9  # what two functions may differ by that are the same on paper
OTHER_HEADS = {"BHND": "BNHD", "BNHD": "BHND"}
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


class Way(NamedTuple):
    """Another convention: what is said of it, how a function is asked in it, and whether it changes a case."""

    words: str
    asked: dict[str, Any]
    concerns: Callable[[Case], bool]


def of_conventions(asked: Asked, report: Report) -> list[str]:
    """The conventions with which the first cases that deviate would hold, output alone."""
    outputs = [row for row in report.deviations if row.quantity == "output"]
    if not outputs:
        return []
    dtype = outputs[0].dtype
    names = {row.case for row in outputs if row.dtype == dtype}
    deviating = [case for case in asked.cases if case.name in names]
    few = deviating[:TRIED]
    if asked.holds_with(few, dtype):  # by what is known of frameworks, which other rows contradict
        return []
    right = {row.case for row in report.judgements} - {row.case for row in report.deviations}
    holds = lambda cases, **way: all(asked.holds_with(cases, dtype, **way) for _ in range(2))  # and keeps nothing
    found = []
    alike = by_axes(deviating)  # a function of images is wrong of signals in any layout
    for words, way, concerns in [*of_layouts(asked, few[0]), *of_masks(asked, few)]:
        also = [case for case in asked.cases if case.name in right and concerns(case)][:TRIED]  # are to stay right
        asked_so = [group for group in (alike if "layouts" in way else [few]) if all(map(concerns, group))]
        held = [case for group in asked_so if holds([*group, *also], **way) for case in group]
        if held:
            found.append(f"{words} the output is right in {listed(held)}")
    reductions = [] if asked.binding.takes("reduction") else REDUCTIONS
    reductions = [
        r for r in reductions if "reduction" in defaults(few[0]) and few[0].options.get("reduction", "mean") != r
    ]
    for reduction in reductions:
        others = [replace(case, options={**case.options, "reduction": reduction}) for case in few]
        binding = copy.copy(asked.binding)
        binding.stated = binding.stated | {"reduction"}
        if holds(others, binding=binding):
            found.append(f"with options={{'reduction': {reduction!r}}} the output is right in {listed(few)}")
    return found


def listed(cases: Sequence[Case]) -> str:
    """The names of the first, and how many more there are."""
    names = [case.name for case in cases]
    return "; ".join([*names[:TRIED], *([f"{len(names) - TRIED} more"] if len(names) > TRIED else [])])


def of_layouts(asked: Asked, case: Case) -> list[Way]:
    """One layout more or another, one less, or the output in another than the arguments."""
    found = []
    for layout in LAYOUTS:
        concerns = functools.partial(changes, layout)
        named = [other for other in asked.layouts if isinstance(other, str)]
        gone = [other for other in named if other == layout or turned_by(other, case) & turned_by(layout, case)]
        others = tuple(other for other in asked.layouts if other not in gone)
        if layout not in named:
            instead = f" in place of {gone[0]!r}" if gone else ""
            found.append(Way(f"with layout={layout!r}{instead}", {"layouts": (*others, layout)}, concerns))
        else:
            other = OTHER_HEADS.get(layout, "")
            of_output = f", and {other!r} of the output," if other else " alone"
            way = {"layouts": (*others, of_arguments(layout, other))}
            found.append(Way(f"without layout={layout!r}", {"layouts": others}, concerns))
            found.append(Way(f"with layout={layout!r} of the arguments{of_output}", way, concerns))
    return found


def of_arguments(layout: str, other: str) -> Layout:
    """The arguments in one layout, the output in another, or as it is."""

    def turns(case: Case, ndims: Mapping[str, int]) -> dict[str, Turn]:
        output = LAYOUTS[other](case, ndims)["output"] if other else AS_IT_IS
        return {**LAYOUTS[layout](case, ndims), "output": output}

    return turns


def by_axes(cases: Sequence[Case]) -> list[list[Case]]:
    """The first cases with as many axes."""
    found: dict[tuple[int, ...], list[Case]] = {}
    for case in cases:
        found.setdefault(tuple(array.ndim for array in case.problem("float64").arrays.values()), []).append(case)
    return [group[:TRIED] for group in found.values()]


def of_masks(asked: Asked, few: Sequence[Case]) -> list[Way]:
    """The other masks, if something is hidden."""
    masks = MASKS if any(map(has_mask, few)) else []
    return [Way(f"with mask={mask!r}", {"mask": mask}, has_mask) for mask in masks if mask != asked.mask]


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
            found.append(f"with arguments={changed!r} the output is right in {listed(few)}")
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
