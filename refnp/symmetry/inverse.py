"""The inverse of an action, for outputs that move the other way."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import Action, Arrays, Element, Names


@dataclass(frozen=True)
class Inverse(Action):
    """Moves by g⁻¹ where `action` moves by g: for an output that goes the other way.

        equivariant(np.flip, Roll("m"), Inverse(Roll()))            a signal turned round, and shifted the other way

    An element is one of `action`. Raises ValueError when an element has no inverse, as with selections.
    """

    action: Action

    @property
    def an_element(self) -> str:  # type: ignore[override]
        return self.action.an_element

    @property
    def group(self) -> Any:
        return self.action.group

    def is_element(self, g: Element) -> bool:
        return self.action.is_element(g)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Element:
        return self.action.draw(rng, arrays)

    def identity(self, arrays: Arrays) -> Element:
        return self.action.identity(arrays)

    def identity_like(self, g: Element) -> Element:
        return self.action.identity_like(g)

    def compose(self, g: Element, h: Element) -> Element:
        return self.action.compose(h, g)

    def inverse(self, g: Element) -> Element | None:
        return self.action.inverse(g)

    def _undone(self, g: Element) -> Element:
        self.refuse_others(g)
        undone = self.action.inverse(g)
        if undone is None and g is not None:
            raise ValueError(f"Inverse: {self.action} have no inverse")
        return undone

    def act(self, g: Element, arrays: Arrays) -> dict[str, Any]:
        return self.action.act(self._undone(g), arrays)

    def over(self, names: Names) -> Self:
        return replace(self, action=self.action.over(names))

    def generators(self, arrays: Arrays) -> list[Element]:
        return self.action.generators(arrays)

    def elements(self, arrays: Arrays) -> list[Element] | None:
        return self.action.elements(arrays)

    def fits(self, g: Element, arrays: Arrays) -> bool:
        return self.action.fits(self._undone(g), arrays)

    @property
    def has_edges(self) -> bool:
        return self.action.has_edges

    @property
    def moves_along_axes(self) -> bool:
        return self.action.moves_along_axes

    def moved_axes(self, name: str, array: Array) -> tuple[int, ...]:
        return self.action.moved_axes(name, array)

    def moved_masks(self, g: Element, masks: Mapping[str, Array]) -> dict[str, Array]:
        return self.action.moved_masks(self._undone(g), masks)

    def describe(self, g: Element) -> str:
        return f"the inverse of {self.action.describe(g)}"

    def __str__(self) -> str:
        return f"the inverse of {self.action}"
