"""What came of a model: rows of layers and of the whole, its verdict, and its text."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.autograd.tensor import Tensor
from refnp.numbers.rounding import ASSUMED, WIDE, Rounded, judging_precision, tolerance
from refnp.verify.bounds import deviation
from refnp.verify.case import Layer
from refnp.verify.causes import Cause
from refnp.verify.causes.whole import Fit, Unseen, fitting, unseen
from refnp.verify.causes.whole_edits import Answers, Arrays, Model
from refnp.verify.findings import Report, causes_of, excused_lines
from refnp.verify.frameworks.torch_run import Call
from refnp.verify.judge import DEVIATES, WITHIN, Judgement
from refnp.verify.propagation import bounded
from refnp.verify.report import came, number

END_TO_END = "end to end"
HOLDS, NOT_JUDGED = "holds", "not judged"
PLACES = 16  # elements of an output that are judged: those that are furthest off


@dataclass(repr=False)
class ModelReport(Report):
    """What came of a model: a row for each output and gradient of each layer, in the order in which layers ended, and
    at the end those of the whole. `not_judged` is {path: why} of what has no equation, `waived` what of it is accepted.
    """

    dtype: str = ""
    calls: list[Call] = field(default_factory=list)
    not_judged: dict[str, str] = field(default_factory=dict)
    waived: tuple[str, ...] = ()
    beside: tuple[Model, Arrays, Answers] | None = None  # `like`, its arrays, and what was answered
    unseen_in_step: Callable[[], list[Unseen]] = list

    @functools.cached_property
    def edits(self) -> list[Fit]:
        """The edits of `like` that give what was answered, where the whole deviates."""
        deviates = self.beside is not None and any(path_of(row) == END_TO_END for row in self.deviations)
        return fitting(*self.beside) if deviates and self.beside else []

    @functools.cached_property
    def unseen(self) -> list[Unseen]:
        """The edits of `like`, and of a step, that these inputs do not tell from it, where all that is judged holds."""
        return [*unseen(*self.beside), *self.unseen_in_step()] if self.beside and not self.deviations else []

    @property
    def verdict(self) -> str:
        """ "holds", "deviates", or "not judged": nothing is beyond its bound, and the whole was not judged.

        A layer that is not judged by itself is judged with the whole.
        """
        if self.deviations:
            return DEVIATES
        open_ends = [path for path in self.not_judged if path.startswith(END_TO_END) and path not in self.waived]
        return NOT_JUDGED if open_ends or not self.judgements else HOLDS

    @property
    def holds(self) -> bool:
        """Whether the whole is judged, unless that is waived, and nothing deviates."""
        return self.verdict == HOLDS

    @property
    def first(self) -> str | None:
        """The path of the first layer beyond its bound; None if there is none."""
        return next((path_of(row) for row in self.judgements if row.verdict == DEVIATES), None)

    @functools.cached_property
    def causes(self) -> list[Cause]:
        """The rows of layers that deviate, grouped by cause, the most rows first; a layer inside another says why."""
        inner = innermost({path_of(row) for row in self.deviations}) - {END_TO_END}
        with_equations = [call for call in self.calls if not of_operations(call.layer)]
        answers = [call.spread(*answered) for call, answered in zip(with_equations, self.answers, strict=True)]
        named = {(problem.case.name, quantity) for problem, answer in answers for quantity in answer}
        rows = [row for row in self.judgements if path_of(row) in inner and (row.case, row.quantity) in named]
        return causes_of(Report(self.name, self.who, rows, answers), of_one=False)

    def __str__(self) -> str:
        assumed = ["the bounds assume:", *(f"    {words}" for words in ASSUMED)]
        return "\n".join(
            [*self._heading(), *self._deviations(), "", *self._table(), *self._unseen(), *self._not_judged(), *assumed]
        )

    def _heading(self) -> list[str]:
        layers = f", {len(self.calls)} calls of layers" if self.calls else ""
        return [f"{self.name} in {self.who}, {self.dtype}{layers}, judged against {judging_precision()}"]

    def _deviations(self) -> list[str]:
        if not self.deviations:
            within = "everything that is judged is within its bound" if self.judgements else "nothing is judged"
            return [within, *([] if self.verdict == HOLDS else ["the whole is not judged: nothing says that it holds"])]
        named = path_of(self.deviations[0])
        after = "; what follows inherits it"
        if named == END_TO_END:
            after = "; no layer is beyond its own, so it is what stands between them" if self.calls else ""
        lines = [f"{named}: the first beyond its bound ({number(self.deviations[0].error_over_bound)}){after}"]
        for cause in self.causes if self.calls else ():
            paths = ", ".join(dict.fromkeys(case.partition("/")[2] for case, *_ in cause.rows))
            falls = "" if math.isnan(cause.after) else f" (error over bound falls to {number(cause.after)})"
            lines += [f"  {cause.says}{falls}: {paths}"] if cause.says else []
        for edit in self.edits:
            lines.append(f"  as if {edit}")
        for row in self.deviations:
            text = f"  {path_of(row)}, {row.quantity}: {number(row.error_over_bound)} times its bound"
            if math.isfinite(row.claimed) and math.isfinite(row.right):
                text += f", {came(row)}"
            lines.append(text + (f" ({row.why})" if row.why and path_of(row) == END_TO_END else ""))
        return lines

    def _table(self) -> list[str]:
        paths = dict.fromkeys(map(path_of, self.judgements))
        kinds = {call.path or "(the model)": call.kind for call in self.calls}
        width, kind_width = (max(map(len, names), default=0) for names in (paths, kinds.values()))
        lines = [f"{'layer':{width}}  {'':{kind_width}}  {'output':>8}  {'gradients':>9}"]
        for path in paths:
            own = [row for row in self.judgements if path_of(row) == path]
            gradients = [row for row in own if row.quantity.startswith("gradient of ")]
            output = [row for row in own if row not in gradients]
            cells = [number(max(r.error_over_bound for r in rows)) if rows else "" for rows in (output, gradients)]
            beyond = "  beyond its bound" if any(row.verdict == DEVIATES for row in own) else ""
            lines.append(f"{path:{width}}  {kinds.get(path, ''):{kind_width}}  {cells[0]:>8}  {cells[1]:>9}{beyond}")
        return lines

    def _unseen(self) -> list[str]:
        lines = [f"    {edit}" for edit in self.unseen]
        return ["these inputs would not show it if", *lines] if lines else []

    def _not_judged(self) -> list[str]:
        alone = lambda path: "not judged" if path.startswith(END_TO_END) else "not judged by itself"
        lines = [f"{alone(path)}: {path or '(the model)'}: {why}" for path, why in self.not_judged.items()]
        return [f"hint: {hint}" for hint in self.hints] + excused_lines(self) + lines


def path_of(row: Judgement) -> str:
    """The path of the layer that a row is about."""
    return row.case.partition("/")[2] or "(the model)"


def innermost(paths: set[str]) -> set[str]:
    """The paths of layers that contain no other."""
    return {path for path in paths if not any(other.startswith(f"{path}.") for other in paths)}


def of_operations(layer: Layer) -> bool:
    """Whether a user said it in operations of refnp, and there is no equation in numbers that carry their error."""
    return layer.equation is layer.function


# ---- the whole


def end_to_end(
    what: str, report: ModelReport, quantity: str, given: np.ndarray, right: Tensor, dtype: str, but: Any = False
) -> Judgement:
    """One output of the whole model, at the places where it is furthest off, `but` some rows."""
    return furthest(what, report, quantity, given, right.data, dtype, lambda at: bounded([right], [at])[0], but)


def furthest(
    what: str,
    report: ModelReport,
    quantity: str,
    given: np.ndarray,
    right: np.ndarray,
    dtype: str,
    bound: Callable[[np.ndarray], Rounded],
    but: Any = False,
    count: int = PLACES,
) -> Judgement:
    """An array at the places where it is furthest off, `but` some rows, by a bound of its elements at places."""
    framework, _, version = report.who.partition(" ")
    common = ("frameworks", f"{what}/{END_TO_END}", framework, version, dtype, quantity)
    if given.shape != right.shape:
        why = f"shape {given.shape} where {right.shape} is right"
        return Judgement(*common, math.inf, math.inf, DEVIATES, why=why)
    error = np.abs(given.astype(WIDE) - right)
    error = np.where(np.asarray(but)[..., None], -1, np.where(np.isnan(error), np.inf, error)).ravel()
    places = np.argsort(-error, kind="stable")[:count]
    places = places[error[places] >= 0]
    rounded = bound(places)
    allowed = tolerance(rounded, dtype).ravel()[places]
    ratio, ulps, worst = deviation(given.ravel()[places], rounded.value.ravel()[places], allowed, dtype)
    if ratio <= 1:
        return Judgement(*common, ratio, ulps, WITHIN)
    at = places[worst[0]] if worst else 0
    return Judgement(*common, ratio, ulps, DEVIATES, "", float(given.ravel()[at]), float(rounded.value.ravel()[at]))


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal arrays, NaN for NaN."""
    return first.shape == second.shape and np.array_equal(first, second, equal_nan=True)
