"""Symmetry: is this function invariant or equivariant, and if not, what is the smallest input that shows it?

    claim = equivariant(attention_layer, Permute("x", -2), Permute(axis=-2))
    print(search(claim, draw, sizes={"n": range(8)}))

Actions of groups, claims about functions of arrays, and a search for counter-examples. It takes any callable, knows no
model and needs NumPy alone. docs/symmetry.md says what a verdict rests on.
"""

from refnp.symmetry.action import Action, Product, Trivial
from refnp.symmetry.claim import Claim, equivariant, invariant
from refnp.symmetry.permute import Permute, Select
from refnp.symmetry.roll import Roll, Slide
from refnp.symmetry.rotate import Rotate, RotateGrid
from refnp.symmetry.scale import Negate, Scale
from refnp.symmetry.search import search
from refnp.symmetry.translate import Translate
from refnp.symmetry.verdict import CounterExample, Counts, SymmetryError, Verdict

__all__ = [
    "Action",
    "Claim",
    "CounterExample",
    "Counts",
    "Negate",
    "Permute",
    "Product",
    "Roll",
    "Rotate",
    "RotateGrid",
    "Scale",
    "Select",
    "Slide",
    "SymmetryError",
    "Translate",
    "Trivial",
    "Verdict",
    "equivariant",
    "invariant",
    "search",
]
