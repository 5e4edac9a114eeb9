"""`refnp prove`: that the gradient on each page is the derivative of its value, for every size or at those of cases.

A theorem is about arrays whose sizes are letters (theorems.py). A proof in a case is one by numbers of a finite field
(refnp/numbers/proving.py), at the sizes of the case and on the branches that its numbers take, but for a chance of
1e-20. Both are of real arithmetic; rounding is another matter, which bounds are for.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from refnp import layers
from refnp.numbers.indexed.proving import Theorem
from refnp.numbers.proving import Proof, vjp_is_derivative
from refnp.verify import theorems
from refnp.verify.case import Case, Layer
from refnp.verify.layers import cases_to_ask
from refnp.verify.made import made_cases

LARGEST = 1_500  # numbers of a case
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
    def for_every_size(self) -> str:
        """In how many forms it is proved for every size, and in what time."""
        if not self.theorems:
            return "no rule"
        took = 1e3 * sum(theorem.seconds for theorem in self.theorems.values())
        return f"{self.forms_proved:d} of {len(self.theorems):<3d}{took:7.0f} ms"


@functools.cache
def pages() -> dict[str, list[Case]]:
    """The cases, listed and made, of every layer that is a page or made of pages; none larger than need be."""
    listed: dict[str, list[Case]] = {}
    for case in cases_to_ask():
        if form_of(case.layer) is not None and not case.layer.whole:
            listed.setdefault(case.layer.name, []).append(case)
    every = {name: [*cases, *made_cases(cases[0].layer, cases)] for name, cases in listed.items()}

    def is_asked(case: Case) -> bool:
        """Whether it is small enough, and asked for a gradient that is meant to be the derivative."""
        other = getattr(case.layer.equation, "other_gradient", ())
        arrays = case.problem("float64").arrays.values()
        longest = max((n for a in arrays for n in a.shape), default=0)
        small = sum(a.size for a in arrays) <= LARGEST and not (case.made and longest > LONGEST)
        has_gradient = any(quantity.startswith("gradient of") for quantity in case.quantities)
        return small and has_gradient and case.options.keys().isdisjoint(other)

    asked = {name: list(filter(is_asked, cases)) for name, cases in every.items()}
    return {name: cases for name, cases in asked.items() if cases}


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
    return {} if form is None or function is None else theorems.proofs(form, function, cases)


def rows(name: str | None = None) -> Iterator[Row]:
    """A row for every gradient of every page, or of the page of that name; the time is the page's, shared out."""
    for page, cases in pages().items():
        if name not in (None, page):
            continue
        known = theorems_of(cases[0].layer, cases)
        start = time.perf_counter()
        found = {case.name: proofs_of(case) for case in cases}
        arguments = dict.fromkeys(argument for proofs in found.values() for argument in proofs)
        took = 1e3 * (time.perf_counter() - start) / max(len(arguments), 1)
        for argument in arguments:
            own = {case: proofs[argument] for case, proofs in found.items() if argument in proofs}
            lacking = {case: proof.why or "wrong" for case, proof in own.items() if not proof.holds}
            yield Row(page, argument, len(own) - len(lacking), len(own), lacking, took, known.get(argument, {}))


def prove(name: str | None = None, *, assumptions: bool = False) -> int:
    """Print the table, with what theorems assume if that is asked; 1 if a gradient is not the derivative.

    ValueError for a name that is no page.
    """
    names = list(pages())
    if name is not None and name not in names:
        raise ValueError(f"{name} is no page; those that are: {', '.join(names)}")
    wrong = 0
    print(f"{'page':32s}{'gradient of':14s}for every size: forms      in a field: cases")
    for row in rows(name):
        cases = f"{row.proved:4d} of {row.cases:<4d}{row.milliseconds:6.0f} ms"
        print(f"{row.page:32s}{row.argument:14s}{row.for_every_size:>20s}    {cases}")
        lacking: dict[str, list[str]] = {}
        for form, theorem in row.theorems.items():
            if not theorem.proved:
                lacking.setdefault(theorem.missing, []).append(form)
            elif assumptions:
                assumed = "; ".join(theorem.assumptions) or "sizes are at least 1"
                print(f"    for every size, {form}: proved if {assumed}")
        for missing, forms in lacking.items():
            print(f"    for every size, {', '.join(forms)}: not proved: {missing}")
        for case, why in row.not_proved.items():
            print(f"    {case}: {why}")
        wrong += "wrong" in row.not_proved.values()
    print("of real arithmetic; for every size of at least 1, under what --assumptions shows; in a field at the sizes")
    print("of each case and on the branches that its numbers take, but for a chance of 1e-20")
    return int(wrong > 0)
