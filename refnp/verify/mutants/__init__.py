"""Known mistakes, a page for each family of layers."""

from dataclasses import replace

from refnp.verify.case import Layer
from refnp.verify.edits.mutant import Mutant
from refnp.verify.mutants import (
    activations,
    attention,
    convolution,
    distributions,
    layer_norm,
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

PAGES = (
    layer_norm, normalization, softmax, attention, multi_head, activations, linear, losses, distributions, convolution,
    pooling, set_convolution, positions, similarities,
)  # fmt: skip

MUTANTS: list[Mutant] = [mutant for page in PAGES for mutant in page.MUTANTS]


def mutants_of(layer: Layer) -> list[Mutant]:
    """Every mutant of a layer, the simplest first."""
    own = [mutant for mutant in MUTANTS if layer.name in mutant.layers]
    if layer.inner is not None:
        base, turned = layer.inner
        of_base = [mutant for mutant in MUTANTS if base.name in mutant.layers]
        own += [replace(m, layers=(layer.name,), template=turned(m.template)) for m in of_base]
    return own


__all__ = ["MUTANTS", "Mutant", "mutants_of"]


def __dir__() -> list[str]:
    return __all__
