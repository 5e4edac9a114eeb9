"""A whole model with one edit: which gives what was answered, and which the inputs do not tell from the right."""

import functools
import itertools
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd.backward import tape_of
from refnp.numbers.rounding import WIDE, Rounded, tolerance
from refnp.verify.causes.whole_edits import LOSS, Answers, Arrays, Edit, Model, Taped, edits_of, pairs_of
from refnp.verify.propagation import Loss, error_of, local_errors
from refnp.verify.report import number

PLACES, FAR = 8, 1e3  # elements at which answers are compared; beyond so many times the bound it does not matter
APART = 1e-2  # of the largest element: gradients that differ by more are not those of an edit
NAMED = 3  # edits that fit alike
FACTORS = (1e-2, 1e2, 1e-4)  # of inputs and parameters, tried for those that show an edit


@dataclass(frozen=True)
class Fit:
    """An edit that gives what was answered, and the error over bound beside it."""

    says: str
    after: float
    of_all: bool = True  # of the gradients as well; else of the outputs alone

    def __str__(self) -> str:
        of = "error over bound" if self.of_all else "the output's error over bound, and not that of the gradients,"
        return f"{self.says} ({of} falls to {number(self.after)})"


@dataclass(frozen=True)
class Unseen:
    """An edit that moves the answer by less than its bound, and inputs that show it; "" if none was found."""

    says: str
    moved: float
    shown_by: str

    def __str__(self) -> str:
        shown = f"{self.shown_by} show it" if self.shown_by else "no inputs that were tried show it"
        return f"{self.says}: that moves the answer by {self.moved:.2g} of its bound; {shown}"


class Compared:
    """Answers of a model and of edits of it, compared in units of the bounds of the right ones; gradients likewise."""

    def __init__(self, model: Model, arrays: Arrays):
        self.model, self.arrays, self.right = model, arrays, model(arrays)
        outputs = [output for name, output in self.right.outputs.items() if name != LOSS]
        self.errors = {node: local_errors(node) for node in tape_of(outputs)}
        self.allowed = functools.cache(self.allowed_at)

    @functools.cached_property
    def loss(self) -> Loss:
        """The loss, which bounds gradients."""
        return self.model.loss(self.arrays)

    def allowed_at(self, name: str, place: int) -> float:
        """What one number may be off."""
        if name in self.right.outputs:
            output = self.right.outputs[name]
            bound = Rounded(output.data.ravel()[place], *error_of(output, place, self.errors))
        else:
            found = self.loss.bounded(self.named[name], np.array([place]))
            bound = found.moved(lambda a: a.ravel()[place])
        return float(tolerance(bound, self.model.dtype))

    @functools.cached_property
    def named(self) -> dict[str, Any]:
        """The parameters by the names of their gradients."""
        return {f"gradient of {name}": name for name in self.right.leaves}

    def ratio(self, one: Answers, other: Answers, places: int = PLACES) -> float:
        """The largest difference of answers over its bound, at some places of each where they differ most."""
        worst = 0.0
        for name in one:
            away = np.abs(one[name].astype(WIDE) - other[name]).ravel()
            for place in np.argsort(-np.where(np.isnan(away), np.inf, away), kind="stable")[:places]:
                if away[place] != 0:
                    worst = max(worst, float(away[place] / self.allowed(name, int(place))))
                if not worst <= FAR:
                    return math.inf
        return worst

    def ratio_of_gradients(self, one: Answers, other: Answers) -> float:
        """The same of gradients, each at one place, those that differ most first; ∞ where they differ by a part."""
        largest = max((np.abs(other[name]).max(initial=0) for name in one), default=0)
        apart = {}
        for name in one:
            size = max(np.abs(other[name]).max(initial=0), APART * largest)
            apart[name] = np.abs(one[name].astype(WIDE) - other[name]).max(initial=0) / size if size else 0
        if not all(part <= APART for part in apart.values()):
            return math.inf
        return self.ratio({name: one[name] for name in sorted(apart, key=lambda name: -apart[name])}, other, 1)

    def away(self, given: Answers, edited: Taped) -> tuple[float, float]:
        """How far outputs, and gradients, are from those of an edited model; gradients only where outputs are near."""
        own = {name: answer for name, answer in given.items() if name in edited.answers}
        of_outputs = self.ratio(own, edited.answers)
        gradients = {name: array for name, array in given.items() if name not in own}
        if not gradients or not of_outputs <= 1:
            return of_outputs, 0.0
        try:
            return of_outputs, self.ratio_of_gradients(gradients, edited.gradients)
        except Exception:  # an edit that has no gradient
            return of_outputs, math.inf

    def gaps(self, given: Answers, edited: Taped) -> dict[str, float]:
        """The largest difference of every answer from that of an edited model."""
        try:
            own = edited.answers | edited.gradients
        except Exception:  # an edit that has no gradient
            own = edited.answers
        return {name: float(np.abs(array - own[name]).max(initial=0)) for name, array in given.items() if name in own}


def fitting(model: Model, arrays: Arrays, given: Answers) -> list[Fit]:
    """The edits that give what was answered, the nearest first; those of one operation alone where no other does.

    Where no edit gives outputs and gradients, those that give the outputs that deviate.
    """
    found: list[Fit] = []
    compared, right = Compared(model, arrays), model(arrays)
    shapes = {name: array.shape for name, array in (right.answers | right.gradients).items()}
    if any(array.shape != shapes[name] for name, array in given.items()):
        return []
    outputs_deviate, gradients_deviate = (away > 1 for away in compared.away(given, right))
    if not outputs_deviate and not gradients_deviate:
        return []
    near: list[str] = []
    gaps = compared.gaps(given, right)

    def pairs() -> Iterator[Edit]:
        if not any(fit.of_all for fit in found):
            yield from pairs_of(model, arrays, near)

    for edit in itertools.chain(edits_of(model, arrays), pairs()):
        places = {place_of(fit.says) for fit in found if fit.of_all}
        if edit.alone and places and place_of(edit.says) not in places:
            continue  # of those in the same call, the nearest
        if (edited := tried(edit, model, arrays)) is None:
            continue
        of_outputs, of_gradients = compared.away(given, edited)
        after, of_all = (max(of_outputs, of_gradients), True) if of_gradients <= 1 else (of_outputs, False)
        explains = after <= 1 and (of_all or outputs_deviate)
        if explains and all(f"{after:.2g}" != f"{other.after:.2g}" for other in found):  # the same by another name
            found.append(Fit(edit.says, after, of_all))
        if not edit.alone and any(gap < gaps[name] / 2 for name, gap in compared.gaps(given, edited).items()):
            near.append(edit.says)
    best = [fit for fit in found if fit.of_all] or found
    return sorted(best, key=lambda fit: fit.after)[:NAMED]


def place_of(says: str) -> str:
    """In which call an edit is, as it is said."""
    return says.rpartition(", in ")[2]


def unseen(model: Model, arrays: Arrays, names: Collection[str]) -> list[Unseen]:
    """The edits that these inputs do not tell from the right model, though they are another function.

    `names` are those of what is judged: outputs, and gradients.
    """
    inputs = [name for name in arrays if name not in model.parameters]
    by = lambda f, chosen: {name: a * f if name in chosen else a for name, a in arrays.items()}
    others = [(f"inputs times {f:g}", by(f, inputs)) for f in FACTORS] if inputs else []
    others += [(f"parameters times {f:g}", by(f, model.parameters)) for f in FACTORS]
    finer = np.finfo(model.dtype).eps / np.finfo(WIDE).eps  # less than its own rounding is no other function
    at = functools.cache(lambda k: Compared(model, others[k][1] if k >= 0 else arrays))

    def is_taken(k: int) -> bool:
        try:
            return bool(at(k).right.answers)
        except ValueError:  # a deviation that becomes 0, say
            return False

    others = [other for k, other in enumerate(others) if is_taken(k)]
    at.cache_clear()

    def moved(edit: Edit, k: int) -> float:
        edited = tried(edit, model, at(k).arrays)
        right = at(k).right.answers | at(k).right.gradients
        return 0 if edited is None else max(at(k).away({name: right[name] for name in names}, edited))

    found = []
    for edit in itertools.takewhile(lambda edit: not edit.alone, edits_of(model, arrays)):
        if tried(edit, model, arrays) is None or not (own := moved(edit, -1)) <= 1:
            continue
        shown, differs = "", own * finer > 1
        for k, (says, _) in enumerate(others):
            away = moved(edit, k)
            differs = differs or away * finer > 1
            if away > 1:
                shown = says
                break
        if differs:
            found.append(Unseen(edit.says, own, shown))
    return found


def tried(edit: Edit, model: Model, arrays: Arrays) -> Taped | None:
    """An edited model; None where it cannot be computed, or answers with other shapes."""
    right = model(arrays).outputs
    try:
        edited = edit.run(model, arrays)
    except Exception:  # an edit that fits no call
        return None
    return edited if all(edited.outputs[name].shape == output.shape for name, output in right.items()) else None
