"""The ledger of symmetries: what each layer and model of refnp should have and lack, and what is found.

    refnp claims [--only WORDS] [--json FILE] [--html FILE]

A page for each family of subjects holds its rows (row.py), decision.py decides one, ledger.py all of them.
docs/ledger.md is the table that comes of it.
"""

from refnp.claims.decision import Found, decide
from refnp.claims.ledger import FAMILIES, decided, rows
from refnp.claims.row import APPROXIMATE, BROKEN, EXACT, ON_SUBGROUP, UNDECIDED, Refinement, Row, Trial

__all__ = [name for name, value in vars().items() if not (name[0] == "_" or hasattr(value, "__spec__"))]


def __dir__() -> list[str]:
    return __all__
