"""Why answers deviate: which mistake gives the same answers, and in which of them.

answered     what was answered to a case, and whether a mistake explains it
cause        what is said of rows
search       which mistakes fit, source by source, and what is said where none does
options      the layer's own options and arguments, at other values
numbers      one number that is off, and `closed_forms` of it
page_edits   a line of the page that is another
narrower     a narrower precision at one place
pullbacks    mistaken walks back
clock        how long they are looked for
seen         what the function is seen to do, where nothing fits
matrices     what each result takes from each number, forward and back
curves       the curve of a function of elements, and the statistics of a norm
whole        a whole model with one edit
"""

from refnp.verify.causes.cause import Cause
from refnp.verify.causes.clock import SECONDS, Clock
from refnp.verify.causes.search import causes

__all__ = ["SECONDS", "Cause", "Clock", "causes"]


def __dir__() -> list[str]:
    return __all__
