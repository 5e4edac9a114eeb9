"""All cases, layer by layer. A case is a function, its inputs and a cotangent, in float32 and float64."""

from __future__ import annotations

from refnp.verify.case import Case
from refnp.verify.cases import (
    activations,
    attention,
    convolution,
    defects,
    distributions,
    linear,
    losses,
    multi_head,
    pooling,
    rows,
    set_convolution,
    transformer,
)


def cases() -> list[Case]:
    """Every case once; names are unique. Those made to show a known defect come first."""
    rows_and_maps = (activations, rows, linear, attention, multi_head, transformer)
    pages = (defects, *rows_and_maps, convolution, pooling, set_convolution, losses, distributions)
    return [case for page in pages for case in page.cases()]
