"""Symmetry: is this function invariant or equivariant, and if not, what is the smallest input that shows it?

    claim = equivariant(attention_layer, Permute("x", -2), Permute(axis=-2))
    print(search(claim, draw, sizes={"n": range(8)}))

Actions of groups, claims about functions of arrays, and a search for counter-examples. It takes any callable,
and imports no layer or model. docs/symmetry.md explains what a verdict rests on.
"""

from refnp.symmetry.actions import Action, Product, Trivial
from refnp.symmetry.audits import Audit, audit
from refnp.symmetry.claim import Claim, equivariant, invariant
from refnp.symmetry.frameworks import in_jax, in_torch
from refnp.symmetry.geometry import Negate, Rotate, RotateGrid, Scale, Translate
from refnp.symmetry.inverse import Inverse
from refnp.symmetry.matrices import MatrixGroup, RotateSpace
from refnp.symmetry.places import Flip, Permute, Prefix, Repeat, Select
from refnp.symmetry.proving import Proof, prove, prove_equal, prove_independent
from refnp.symmetry.searches import check, search
from refnp.symmetry.shifts import Roll, Shift, Slide
from refnp.symmetry.subgroup import Subgroup, find_subgroup
from refnp.symmetry.verdict import CounterExample, Counts, SymmetryError, Verdict

# fmt: off
__all__ = [
    "Action", "Audit", "Claim", "CounterExample", "Counts", "Flip", "Inverse", "MatrixGroup", "Negate", "Permute",
    "Prefix", "Product", "Proof", "Repeat", "Roll", "Rotate", "RotateGrid", "RotateSpace", "Scale", "Select",
    "Shift", "Slide", "Subgroup", "SymmetryError", "Translate", "Trivial", "Verdict", "audit", "check",
    "equivariant", "find_subgroup", "in_jax", "in_torch", "invariant", "prove", "prove_equal", "prove_independent",
    "search",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
