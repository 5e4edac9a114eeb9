"""Everything that can be measured, in the order of the report."""

from __future__ import annotations

from benchmarks import attention, convcnp, convolutions, encoder, growth, rows, sets, tape, tnp, transformer
from benchmarks.timing import Work


def all_works() -> list[Work]:
    families = (encoder, transformer, tnp, convcnp, convolutions, rows, attention, sets, tape)
    return [work for family in families for work in family.works()]


def find(name: str, dtype: str) -> Work:
    """The work of that name and dtype; those of growth.py too."""
    return next(work for work in [*all_works(), *growth.works()] if (work.name, work.dtype) == (name, dtype))
