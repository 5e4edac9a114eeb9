"""Every claim that the texts make in prose: what is measured for it and against it, and the verdict that follows.

    python -m refnp.claims.sentences [NAME ...]      what is found for these rows, or for all
    python -m refnp.claims.sentences --write         docs/claims.md

A row is a function that measures; each of its findings is of one kind:

    holds      the claim, measured where it should be true
    fails      the claim, measured where it is not true
    control    what makes it true is taken away, or a wrong formula is mended: the finding must turn round

A row is met if every finding is as expected, and its verdict says which kinds there are: "true" has no failure, "true
if" both, "false" failures only. So has "not reproduced", where a few trained models were asked and others may answer
otherwise. The equations of the texts are in docs/equations.md, symmetries of all layers and models in docs/ledger.md;
here are the sentences between the equations.
"""

from refnp.claims.sentences import attention, convcnp, neural_processes, positions, transformer
from refnp.claims.sentences.register import CONDITION, FALSE, TRUE, UNSEEN, Finding, Sentence, control, fails, holds

PAGES = (attention, positions, transformer, neural_processes, convcnp)

__all__ = [name for name, value in vars().items() if not (name[0] == "_" or hasattr(value, "__spec__"))]


def __dir__() -> list[str]:
    return __all__
