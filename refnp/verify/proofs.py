"""`refnp prove`: that the gradient on each page is the derivative of its value, for every size or at those of cases.

A theorem is about arrays whose sizes are letters (theorems.py). A proof in a case is one by numbers of a finite field
(refnp/numbers/proving.py), at the sizes of the case and on the branches that its numbers take, but for a chance of
1e-20. Both are of real arithmetic; rounding is another matter, which bounds are for.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from refnp import layers
from refnp.autograd.errors import closest
from refnp.numbers.indexed.proving import Theorem
from refnp.numbers.proving import Proof, vjp_is_derivative
from refnp.pieces import HERE, Workers, in_order, workers_for
from refnp.verify import theorems
from refnp.verify.case import Case, Layer
from refnp.verify.layers import cases_to_ask
from refnp.verify.made import made_cases

LARGEST = 1_500  # numbers of a case
OF_LARGEST = ("max", "min", "maximum", "minimum", "max_pool")
LONGEST = 64  # an axis of a made case; longer ones are past the blocks of kernels, of which a page has none


class Row(NamedTuple):
    """What is known of one gradient: in how many cases it is proved, what is not, and the milliseconds it took.

    `theorems` are those for every size, by the form in which the page is called.
    """

    page: str
    argument: str
    proved: int
    cases: int
    not_proved: dict[str, str]  # the case, and why
    milliseconds: float
    theorems: dict[str, Theorem]

    @property
    def forms_proved(self) -> int:
        """In how many forms it is proved for every size."""
        return sum(theorem.proved for theorem in self.theorems.values())

    @property
    def lacking(self) -> dict[str, list[str]]:
        """What is missing for every size, and the forms in which it is."""
        found: dict[str, list[str]] = {}
        for form, theorem in self.theorems.items():
            if not theorem.proved:
                found.setdefault(theorem.missing, []).append(form)
        return found

    @property
    def is_proved(self) -> bool:
        """Whether it is proved for every size, in every form."""
        return self.forms_proved == len(self.theorems) > 0


@functools.cache
def pages() -> dict[str, list[Case]]:
    """The cases, listed and made, of every layer that is a page or made of pages; none larger than need be."""
    asked = {name: cases_of_page(name) for name in listed()}
    return {name: cases for name, cases in asked.items() if cases}


@functools.cache
def listed() -> dict[str, list[Case]]:
    """The cases of these layers that are listed."""
    found: dict[str, list[Case]] = {}
    for case in cases_to_ask():
        if form_of(case.layer) is not None and not case.layer.whole:
            found.setdefault(case.layer.name, []).append(case)
    return found


@functools.cache
def cases_of_page(name: str) -> list[Case]:
    """Those of one layer, listed and made, that are asked."""
    cases = listed()[name]
    return list(filter(is_asked, [*cases, *made_cases(cases[0].layer, cases)]))


def is_asked(case: Case) -> bool:
    """Whether it is small enough, and asked for a gradient that is meant to be the derivative."""
    other = getattr(case.layer.equation, "other_gradient", ())
    arrays = case.problem("float64").arrays.values()
    longest = max((n for a in arrays for n in a.shape), default=0)
    tied = case.name.endswith("/equal numbers") and case.layer.name in OF_LARGEST  # where none is the derivative
    small = sum(a.size for a in arrays) <= LARGEST and not (case.made and longest > LONGEST)
    has_gradient = any(quantity.startswith("gradient of") for quantity in case.quantities)
    return small and has_gradient and not tied and case.options.keys().isdisjoint(other)


def form_of(layer: Layer) -> Callable | None:
    """The page that a layer is, or what it computes by pages, on a tape or not; None if neither."""
    return getattr(layer.function, "page", getattr(layer.equation, "page", None))


def proofs_of(case: Case) -> dict[str, Proof]:
    """The proof of each gradient that is asked of a case: of all at once, by one identity; one by one if it fails."""
    arrays = case.problem("float64").arrays
    form, places = form_of(case.layer), {name: i for i, name in enumerate(arrays)}
    assert form is not None
    of = lambda names: vjp_is_derivative(
        form, list(arrays.values()), among=[places[name] for name in names], **case.options
    )
    asked = [name for name in arrays if f"gradient of {name}" in case.quantities]
    together = of(asked) if len(asked) > 1 else Proof(None)
    return {name: together if together.holds else of([name]) for name in asked}


def theorems_of(layer: Layer, cases: Sequence[Case] = ()) -> dict[str, dict[str, Theorem]]:
    """What is known for every size: of the page of this name in refnp.layers, or else of what the layer computes."""
    own: Any = getattr(layers, layer.name, None)
    if own is not None and hasattr(own, "page"):
        return theorems.proofs(own.page, own, cases if layer.shapes else ())
    form, function = form_of(layer), layer.function
    if form is None or function is None:
        return {}
    key = form, tuple(layer.shapes.items())
    if key not in _of_shapes or not layer.shapes:
        _of_shapes[key] = theorems.proofs(form, function, cases)
    return _of_shapes[key]


_of_shapes: dict[tuple, dict[str, dict[str, Theorem]]] = {}  # shapes that are written may be those of several layers


def rows(name: str | None = None, workers: Workers = HERE) -> Iterator[Row]:
    """A row for every gradient of every page, or of the page of that name, here or by several workers."""
    for own in in_order(rows_of, [page for page in pages() if name in (None, page)], workers):
        yield from own


def rows_of(page: str) -> list[Row]:
    """A row for every gradient of a page; the time is the page's, shared out."""
    cases, found = pages()[page], []
    known = theorems_of(cases[0].layer, cases)
    start = time.perf_counter()
    proofs = {case.name: proofs_of(case) for case in cases}
    arguments = dict.fromkeys(argument for proved in proofs.values() for argument in proved)
    took = 1e3 * (time.perf_counter() - start) / max(len(arguments), 1)
    for argument in arguments:
        own = {case: proved[argument] for case, proved in proofs.items() if argument in proved}
        lacking = {case: proof.why or "wrong" for case, proof in own.items() if not proof.holds}
        found.append(Row(page, argument, len(own) - len(lacking), len(own), lacking, took, known.get(argument, {})))
    return found


def prove(
    name: str | None = None, *, assumptions: bool = False, jobs: int | None = 1, cluster: str | None = None
) -> int:
    """Print the table, with what theorems assume if that is asked; 1 if a gradient is not the derivative.

    ValueError for a name that is no page.
    """
    names = list(pages())
    if name is not None and name not in names:
        raise ValueError(f"{name} is no page{closest(name, names)}")
    found = []
    print(f"{'page':32s}{'for every size: forms':25s}{'in a field: cases':24s}gradients of")
    workers = workers_for(1 if name else len(names), jobs, cluster)
    for _, of_page in itertools.groupby(rows(name, workers), lambda row: row.page):
        alike: dict[str, list[Row]] = {}
        for row in of_page:
            found.append(row)
            known = row.forms_proved, list(row.theorems), row.lacking, row.proved, row.cases, row.not_proved
            alike.setdefault(repr(known), []).append(row)
        for group in alike.values():
            print("\n".join(lines_of(group, assumptions)))
    every = sum(row.is_proved for row in found)
    print(f"{every} of {len(found)} gradients are proved for every size of at least 1, in every form of a call, and")
    print(f"{sum(not row.not_proved for row in found)} in a field at the sizes of each case, on the branches that its")
    print("numbers take, but for a chance of 1e-20; of real arithmetic, under what --assumptions shows")
    return int(any("wrong" in row.not_proved.values() for row in found))


def lines_of(group: list[Row], assumptions: bool) -> Iterator[str]:
    """What is known of gradients of which the same is known, with the reasons why some are not proved."""
    row, took = group[0], 1e3 * sum(theorem.seconds for row in group for theorem in row.theorems.values())
    forms = f"{row.forms_proved:4d} of {len(row.theorems):<3d}{took:7.0f} ms" if row.theorems else "        no rule"
    cases = f"{row.proved:4d} of {row.cases:<4d}{sum(row.milliseconds for row in group):6.0f} ms"
    yield f"{row.page:32s}{forms:25s}{cases:24s}{', '.join(row.argument for row in group)}"
    for form, theorem in row.theorems.items():
        if theorem.proved and assumptions:
            assumed = "; ".join(theorem.assumptions) or "sizes are at least 1"
            by = f" by the chain rule from {', '.join(theorem.rests_on)}" if theorem.rests_on else ""
            yield f"    for every size, {form}: proved{by} if {assumed}"
    for missing, without in row.lacking.items():
        yield f"    for every size, {', '.join(without)}: not proved: {missing}"
    for case, why in row.not_proved.items():
        yield f"    {case}: {why}"
