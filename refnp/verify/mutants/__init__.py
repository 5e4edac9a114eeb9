"""Known mistakes, a page for each family of layers, and which of them explains answers that deviate.

general      mistakes that any layer may make
mutant       what a mutant is, and what all are made of
search       which mutants fit, and what is said where none does
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from refnp.verify.case import Answer, Layer, Problem
from refnp.verify.mutants import (
    activations,
    attention,
    convolution,
    distributions,
    linear,
    losses,
    multi_head,
    normalization,
    pooling,
    positions,
    set_convolution,
    similarities,
    softmax,
)
from refnp.verify.mutants.general import of_precision
from refnp.verify.mutants.mutant import Mutant
from refnp.verify.mutants.search import Cause, causes_among

PAGES = (
    normalization, softmax, attention, multi_head, activations, linear, losses, distributions, convolution, pooling,
    set_convolution, positions, similarities,
)  # fmt: skip

MUTANTS: list[Mutant] = [mutant for page in PAGES for mutant in page.MUTANTS]


def mutants_of(layer: Layer) -> list[Mutant]:
    """Every mutant of a layer, the simplest first; the mistakes of precision that any layer may make come last."""
    own = [mutant for mutant in MUTANTS if layer.name in mutant.layers]
    if layer.inner is not None:
        base, turned = layer.inner
        of_base = [mutant for mutant in MUTANTS if base.name in mutant.layers]
        own += [replace(m, layers=(layer.name,), template=turned(m.template)) for m in of_base]
    return own + of_precision(layer)


def causes(answers: Iterable[tuple[Problem, Answer]], rows: Iterable[Any]) -> list[Cause]:
    """What explains the rows that deviate: known mistakes, each with its rows, and for the rest that none fits.

    `answers` are all that were given, right or wrong; `rows` those of a report, `Judgement`s or the mappings of
    `--json`, of which only those that deviate count.
    """
    return causes_among(mutants_of, answers, rows)


__all__ = ["MUTANTS", "Cause", "Mutant", "causes", "mutants_of"]


def __dir__() -> list[str]:
    return __all__
