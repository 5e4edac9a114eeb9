"""`refnp prove`: that the gradient on each page is the derivative of its value, at the sizes of every case.

A proof is one by numbers of a finite field (refnp/numbers/proving.py): of real arithmetic, at the sizes of a case and
on the branches that its numbers take, but for a chance of 1e-20. Rounding is another matter, which bounds are for.
"""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from refnp.numbers.proving import Proof, vjp_is_derivative
from refnp.verify.case import Case, Layer
from refnp.verify.layers import cases_to_ask
from refnp.verify.made import made_cases

LARGEST = 4_000  # numbers of a case


class Row(NamedTuple):
    """What is known of one gradient: in how many cases it is proved, what is not, and the milliseconds it took."""

    page: str
    argument: str
    proved: int
    cases: int
    not_proved: dict[str, str]  # the case, and why
    milliseconds: float


def pages() -> dict[str, list[Case]]:
    """The cases, listed and made, of every layer that is a page or made of pages; none above LARGEST."""
    listed: dict[str, list[Case]] = {}
    for case in cases_to_ask():
        if form_of(case.layer) is not None and not case.layer.whole:
            listed.setdefault(case.layer.name, []).append(case)
    every = {name: [*cases, *made_cases(cases[0].layer, cases)] for name, cases in listed.items()}

    def is_asked(case: Case) -> bool:
        """Whether it is small enough, and its gradient meant to be the derivative."""
        other = getattr(case.layer.equation, "other_gradient", ())
        small = sum(a.size for a in case.problem("float64").arrays.values()) <= LARGEST
        return small and case.options.keys().isdisjoint(other)

    return {name: list(filter(is_asked, cases)) for name, cases in every.items()}


def form_of(layer: Layer) -> Callable | None:
    """The page that a layer is, or what it computes by pages on a tape; None if neither."""
    return getattr(layer.function, "page", layer.equation if hasattr(layer.equation, "other_gradient") else None)


def proof_of(case: Case, argument: str) -> Proof:
    """The proof of one gradient in one case."""
    arrays = case.problem("float64").arrays
    form = form_of(case.layer)
    assert form is not None
    return vjp_is_derivative(form, list(arrays.values()), among=[list(arrays).index(argument)], **case.options)


def rows(name: str | None = None) -> Iterator[Row]:
    """A row for every gradient of every page, or of the page of that name."""
    for page, cases in pages().items():
        if name not in (None, page):
            continue
        for argument in dict.fromkeys(name for case in cases for name in case.inputs):
            asked = [c for c in cases if f"gradient of {argument}" in c.quantities]
            start = time.perf_counter()
            found = {case.name: proof_of(case, argument) for case in asked}
            lacking = {case: proof.why or "wrong" for case, proof in found.items() if not proof.holds}
            took = 1e3 * (time.perf_counter() - start)
            yield Row(page, argument, len(found) - len(lacking), len(found), lacking, took)


def prove(name: str | None = None) -> int:
    """Print the table; 1 if a gradient is not the derivative. ValueError for a name that is no page."""
    names = list(pages())
    if name is not None and name not in names:
        raise ValueError(f"{name} is no page; those that are: {', '.join(names)}")
    wrong = 0
    print(f"{'page':26s}{'gradient of':14s}proved in cases     time")
    for row in rows(name):
        print(f"{row.page:26s}{row.argument:14s}{row.proved:6d} of {row.cases:<6d}{row.milliseconds:8.0f} ms")
        for case, why in row.not_proved.items():
            print(f"    {case}: {why}")
        wrong += "wrong" in row.not_proved.values()
    print("of real arithmetic, at the sizes of each case and on the branches that its numbers take,")
    print("but for a chance of 1e-20 that a false identity holds at a random point of a finite field")
    return int(wrong > 0)
