"""Which mistakes give the answers that deviate: sources in their order, the most certain first.

    known mistakes of the layer           each explains every row, alone
    its own options at other values       `options`
    one number                            `numbers`
    known mistakes of rounding            also with sums in another order; two mistakes at once;
                                          everything inside in a lower precision

A hypothesis explains a kind of row (outputs, gradients, or both), and then every row of that kind that deviates, in
every precision, and contradicts no row that is right. Of known mistakes one may explain some rows and others the rest,
or say how many of how many it explains; what changes a row that is left, and does not explain it, is not said.
NaN and infinity explain nothing by themselves: a row of nothing else is explained where others are. Outputs of another
shape come last: what explains others explains them, or a mistake or an option that gives all of these shapes.
"""

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from refnp.verify.case import Answer, Layer, Problem, quiet
from refnp.verify.causes import narrower, numbers, options, page_edits
from refnp.verify.causes.answered import Answered, Row
from refnp.verify.causes.cause import Cause, fits_some, pattern
from refnp.verify.causes.clock import OF_SEARCH, Clock, OutOfTime, running
from refnp.verify.causes.curves import is_rough
from refnp.verify.causes.matrices import Ask
from refnp.verify.causes.seen import seen
from refnp.verify.edits.edited import line_of
from refnp.verify.edits.mutant import Mutant
from refnp.verify.judge import DEVIATES, Judgement
from refnp.verify.mutants import mutants_of

GIVEN_UP = 6  # cases that a mistake changes and does not explain, before it explains any
FIRST = 4  # cases, the smallest, that every mistake is tried on before any is on all
NAMED = 3  # hypotheses that no row tells apart
MISSED = 0.25  # of the rows of a kind may be off for another reason, and the report says which
NEARLY = 8  # times its bound a mistake of rounding may be off where sums are in another order

Source = Callable[[Layer, Sequence[Answered]], Iterable[Mutant]]
OF_OUTPUTS: tuple[Source, ...] = (
    options.of_outputs,
    numbers.of_outputs,
    page_edits.of_outputs,
    page_edits.numbers_of_outputs,
    narrower.of_storage,
    narrower.of_lines,
    narrower.of_places,
)
OF_PAIRS: tuple[Source, ...] = (page_edits.pairs_of_outputs,)
OF_GRADIENTS: tuple[Source, ...] = (numbers.of_gradients, page_edits.of_gradients, narrower.of_storage)


def causes(
    answers: Iterable[tuple[Problem, Answer]],
    rows: Iterable[Judgement],
    known: Iterable[Row] = (),
    *,
    of_one: bool = True,
    ask: Ask | None = None,
    clock: Clock | None = None,
) -> list[Cause]:
    """What explains the rows that deviate: mistakes, each with its rows, and for the rest that none fits.

    `answers` are all that were given, right or wrong; `rows` those of a report, of which only those that deviate count,
    and of those of which it is said why, only outputs of another shape.
    Rows that are `known` for another reason need no explanation.
    Where the answers are not `of_one` function, what is right in one says nothing of another. `ask` has the function
    answer another problem, to see what it does where nothing fits. When the seconds of a `clock` are over, or at
    Ctrl-C, what was found until then is said, and at what the search was ended. A stage that ends in an error names no
    cause, and a RuntimeWarning says so.
    """
    clock = clock or Clock()
    wrong = {row.key: row.why for row in rows if row.verdict == DEVIATES}
    by_layer: dict[str, list[Answered]] = {}
    for problem, answer in answers:
        by_layer.setdefault(problem.case.layer.name, []).append(Answered(problem, answer))
    found = []
    with quiet(), running(clock):
        for answered in by_layer.values():
            rows_of = lambda a: {row for row in a.rows & wrong.keys() if not wrong[row] or a.is_misshapen}
            if own := {row for a in answered for row in rows_of(a)}:
                found += Search(answered, own, set(known), of_one, clock).causes(ask)
    for what in clock.broken:
        warnings.warn(f"no cause was looked for among {what}", RuntimeWarning, stacklevel=1)
    return found


@dataclass
class Explanation:
    """A mistake with the rows that it explains: {row: error over its bound}; and with the cases that it does not."""

    mutant: Mutant
    rows: dict[Row, float]
    simplicity: int
    loosely: bool = False
    contradictions: int = 0
    failed: tuple[Answered, ...] = ()
    where: str = ""


Covered = tuple[list[list[Explanation]], set[Row]]  # groups that no row tells apart, and the rows that are left


class Search:
    """The rows of one layer that deviate, and what explains them."""

    def __init__(self, answered: list[Answered], wrong: set[Row], known: set[Row], of_one: bool, clock: Clock):
        self.answered, self.wrong, self.known, self.clock = answered, wrong, known, clock
        self.stopped = ""  # at what, if not all was tried
        self.begun: dict[tuple[Mutant, bool], Explanation] = {}  # of the first cases
        self.layer = answered[0].problem.case.layer
        deviating = sorted((a for a in answered if a.rows & wrong), key=lambda a: a.size)
        self.misshapen = [a for a in deviating if a.is_misshapen]
        self.deviating = [a for a in deviating if not a.is_misshapen]
        self.right = [a for a in answered if of_one and not a.rows & wrong]
        self.before = {row: a.wrong.get(row[2], math.inf) for a in deviating for row in a.rows & wrong}
        self.every = {row for a in self.deviating for row in a.rows & wrong}
        self.telling = {a.row(q) for a in self.deviating for q in a.answer if a.row(q) in wrong and a.tells(q)}

    def causes(self, ask: Ask | None) -> list[Cause]:
        """The causes, and one without a name for the rows that are left, with what is seen there."""
        chosen, left = self.best()
        kept = [group for group in self._kept(chosen, left) if ask is None or self._is_seen(group[0], ask)]
        kept = self._with_shapes(kept)
        explained = {row for group in kept for row in group[0].rows}
        found = [self._cause(group, self.every - explained - self.known) for group in kept]
        rest = self.every - {row for cause in found for row in cause.rows}  # another shape says enough
        for rows, what in self._seen_of(rest, ask):
            worst = max(self.before[row] for row in rows)
            lacks = [f"and the search was ended at {self.stopped}"] if self.stopped else []
            lacks += [f"and none was looked for among {stage}" for stage in self.clock.broken]
            says = ", ".join(filter(None, [pattern(rows, self.answered), *lacks]))
            found.append(Cause("", _sorted(rows), worst, worst, self.layer.name, (), says, seen=what))
        return found

    def _seen_of(self, rest: set[Row], ask: Ask | None) -> list[tuple[set[Row], str]]:
        """Rows that are left, with what is seen there: of wrong outputs, and of wrong gradients of right ones."""
        if not rest:
            return []
        told = rest - self.known or rest  # what is known of a framework says nothing of another mistake
        own = [(a.only({row[2] for row in a.rows & told}), a.rows & rest) for a in self.deviating if a.rows & told]
        parts = [[pair for pair in own if ("output" in pair[0].wrong) is wrong] for wrong in (True, False)]
        whats = ["" if ask is None or not part else self._seen([a for a, _ in part], ask) for part in parts]
        if not all(parts) or len({*whats}) == 1:
            return [(rest, whats[0] or whats[1])]
        of_gradients = {row for _, rows in parts[1] for row in rows}
        return [(rest - of_gradients, whats[0]), (of_gradients, whats[1])]

    def _with_shapes(self, groups: list[list[Explanation]]) -> list[list[Explanation]]:
        """The same with outputs of another shape: what these mistakes explain, then what explains all that are left."""
        self.clock.stage, left = "outputs of another shape", self.misshapen
        explain = lambda mutant, cases: {a.row("output"): r for a in cases if (r := a.shaped(mutant)) is not None}
        for best, *_ in groups:
            best.rows |= explain(best.mutant, left)
            left = [a for a in left if not a.rows & best.rows.keys()]
        if not left or self.stopped:
            return groups
        with self.clock.unless_broken(), contextlib.suppress(KeyboardInterrupt):
            for mutant in (*mutants_of(self.layer), *options.of_outputs(self.layer, left)):
                self.clock.tick()
                rows = explain(mutant, left[:1]) and explain(mutant, left)
                if len(rows) == len(left) and not any(a.contradicts(mutant) for a in (*self.deviating, *self.right)):
                    return [*groups, [Explanation(mutant, rows, 0)]]
        return groups

    def _is_seen(self, e: Explanation, ask: Ask) -> bool:
        """Whether errors of outputs are rough, if they are to be those of rounding at a place that is not known."""
        own = [a for a in self.deviating if "output" in a.wrong and a.row("output") in e.rows]
        found = e.mutant.says != narrower.SOMETHING or not own
        with self.clock.unless_broken(), contextlib.suppress(KeyboardInterrupt):
            found = found or any(is_rough(a, ask) for a in own[:FIRST])
        return found

    def _seen(self, own: list[Answered], ask: Ask) -> str:
        """What is seen of the function, in the seconds that are left for it."""
        self.clock.stage, self.clock.share = "what the function does", 1.0

        def asked(problem: Problem) -> Answer:
            self.clock.tick()
            return ask(problem)

        try:
            with self.clock.unless_broken():
                return seen(own, asked)
        except KeyboardInterrupt:
            pass
        finally:
            self.clock.share = OF_SEARCH
        return ""

    def best(self) -> Covered:
        """Explanations that cover the rows, and the rows that are left: the first source that leaves none."""
        best: Covered = [], self.every
        try:
            for stage, of_several, covered in self._stages():
                self.clock.stage, self.left = stage, best[1]
                if best[1] or (of_several and len(best[0]) > 1):
                    with self.clock.unless_broken():
                        best = min((covered(), best) if of_several else (best, covered()), key=self._worth)
        except OutOfTime:
            self.stopped = f"{self.clock.stage}, after {self.clock.seconds:g} s"
        except KeyboardInterrupt:
            self.stopped, self.clock.seconds = self.clock.stage, 0
        return best

    def _stages(self) -> Iterator[tuple[str, bool, Callable[[], Covered]]]:
        """What is tried one after the other, whether also in place of several mistakes that explain all, and how."""
        mutants = lambda: mutants_of(self.layer)
        narrow = lambda: [mutant for mutant in mutants() if mutant.narrow]
        found: list[Explanation] = []

        def with_found(more: Callable[[], list[Explanation]]) -> Callable[[], Covered]:
            def covered() -> Covered:
                found.extend(more())
                return self._cover(found)

            return covered

        yield "known mistakes", True, lambda: self._cover(self._of_all_rows(mutants()))
        yield "edits of lines", True, self._whole
        yield "known mistakes of some rows", True, with_found(lambda: self._singles(mutants()))
        yield "known mistakes of rounding", False, with_found(lambda: self._singles(narrow(), loosely=True))
        yield "everything in float32", False, with_found(lambda: self._singles(narrower.of_precision(self.layer)))
        yield "pairs of known mistakes", False, with_found(lambda: self._pairs(mutants()))
        yield "pairs of edits", False, lambda: self._whole(OF_PAIRS)

    def _worth(self, covered: Covered) -> tuple[int, int, int]:
        """Less left is better, and then fewer mistakes."""
        return len(covered[1] - self.known), len(covered[1]), len(covered[0])

    def _whole(self, sources: tuple[Source, ...] = OF_OUTPUTS) -> Covered:
        """Hypotheses that explain all outputs that deviate, and their gradients; then those of gradients alone."""
        groups: list[list[Explanation]] = []
        left = set(self.every)
        outputs = {row for row in left if row[2] == "output"}
        if outputs:
            for source, fitting in self._wholly_first(sources, outputs, {"output"}):
                if source is narrower.of_places and len(fitting) == NAMED:  # perhaps more: no place is known
                    something = replace(fitting[0].mutant, says=narrower.SOMETHING, where="")
                    fitting = [replace(fitting[0], mutant=something)]
                both = (
                    [e for e in (self._complete(e.mutant, left, None) for e in fitting) if e] if left > outputs else []
                )
                if group := (both or fitting)[:NAMED]:
                    group[0].where = line_of(group[0].mutant) or self._line(outputs)
                    groups.append(group)
                    left -= group[0].rows.keys()
                    break
        if sources is OF_PAIRS and not groups:
            return groups, left  # gradients alone were tried with the sources before
        for quantities in self._sets_of_gradients(left):
            rows = {row for row in left if row[2] in quantities}
            for _, fitting in self._wholly_first(OF_GRADIENTS, rows, quantities) if rows else ():
                if group := fitting[:NAMED]:
                    groups.append(group)
                    left -= group[0].rows.keys()
                    break
        return groups, left

    def _line(self, outputs: set[Row]) -> str:
        """The line of a page, edited, that gives the same as a number or an option."""
        fitting = self._fitting(page_edits.of_outputs, outputs, {"output"})
        return fitting[0].mutant.where if fitting else ""

    def _sets_of_gradients(self, left: set[Row]) -> list[set[str]]:
        """All gradients that deviate, and each by itself."""
        quantities = dict.fromkeys(row[2] for row in sorted(left) if row[2] != "output")
        return [set(quantities), *({q} for q in quantities)] if len(quantities) > 1 else [{q} for q in quantities]

    def _wholly_first(
        self, sources: Iterable[Source], rows: set[Row], quantities: set[str]
    ) -> Iterator[tuple[Source, list[Explanation]]]:
        """Sources with what fits: those of which something explains all rows, then those that leave a few."""
        partly = []
        for source in sources:
            fitting: list[Explanation] = []
            with self.clock.unless_broken():
                fitting = self._fitting(source, rows, quantities)
            if fitting and self._is_whole(fitting[0], rows):
                yield source, fitting
            elif fitting:
                partly.append((source, fitting))
        yield from partly

    def _is_whole(self, e: Explanation, rows: set[Row]) -> bool:
        """Whether a hypothesis leaves none of these rows."""
        return not rows - e.rows.keys() - self.known

    def _fitting(self, source: Source, rows: set[Row], quantities: set[str]) -> list[Explanation]:
        """The hypotheses of a source that explain these rows, or where none does, all but a few of them."""
        own = [a.only(quantities) for a in self.deviating if a.rows & rows]
        telling = [a for a in own if a.rows & self.telling]
        if not telling:
            return []
        whole: list[Explanation] = []
        partly: list[Explanation] = []
        for mutant in source(self.layer, telling):
            found = [e.mutant.says for e in (*whole, *partly)]
            if mutant.says not in found and (e := self._complete(mutant, rows, quantities)):
                (whole if self._is_whole(e, rows) else partly).append(e)
                if len(whole) == NAMED:
                    break
        return whole or partly

    def _complete(self, mutant: Mutant, rows: set[Row], quantities: set[str] | None) -> Explanation | None:
        """What a hypothesis explains, if that is all of these rows, and it contradicts no row that is right."""
        part = lambda a: a if quantities is None else a.only(quantities)
        explained: dict[Row, float] = {}
        missed: set[Row] = set()
        by_chance: dict[Row, float] = {}  # errors that rounding makes smaller or larger by chance, if others show it
        small = 0
        chosen = lambda a, found: {a.row(q): after for q, after in (found or {}).items() if a.row(q) in rows}
        for a in self.deviating:
            if not (own := a.rows & rows):
                continue
            found = part(a).explained(mutant)
            if not found and (mutant.narrow or mutant.rounded) and small < MISSED * len(self.deviating):
                small += 1
                by_chance |= chosen(a, part(a).explained(mutant, known=True))
                if own - by_chance.keys() - self.known:
                    return None
                continue
            explained |= chosen(a, found)
            missed |= own - explained.keys() - self.known
            few = len(missed) <= MISSED * len(rows) and not mutant.rounded and not mutant.narrow
            if missed and not (few and part(a).is_nearer(mutant)):
                return None
        if not explained.keys() & self.telling:
            return None
        explained |= by_chance
        explained |= self._hidden_by_rounding(mutant, missed, part)
        if mutant.cancels and not any(part(a).tells_from_right(mutant) for a in self.deviating if a.rows & rows):
            return None
        others = [part(a) for a in (*self.deviating, *self.right) if not a.rows & rows]
        is_refused = False
        for a in others:
            agrees = a.agrees(mutant) if a.answer else True
            if agrees is False or (agrees is None and line_of(mutant)):  # an option may be refused
                return None
            is_refused |= agrees is None
        if is_refused:
            mutant = replace(mutant, says=mutant.says.replace(options.ALWAYS, ", where that can be computed"))
        if quantities is not None and not self._others_agree(mutant, quantities):
            which = " and ".join(sorted(quantities))
            mutant = replace(mutant, says=f"{mutant.says}, in the {which} alone")
        found = Explanation(mutant, explained, 0)
        return None if self._is_of_zero_alone(found) else found

    def _others_agree(self, mutant: Mutant, quantities: set[str]) -> bool:
        """Whether the gradients that are right beside these may be so with a mistake in a line that they share."""
        others = (a.only(a.answer.keys() - quantities - {"output"}) for a in self.deviating)
        return "output" in quantities or not any(a.contradicts(mutant) for a in others if a.answer)

    def _hidden_by_rounding(
        self, mutant: Mutant, rows: set[Row], part: Callable[[Answered], Answered] = lambda a: a
    ) -> dict[Row, float]:
        """Of rows that a mistake, which others show, does not explain, those in which its rounding hides its change."""
        narrow = replace(mutant, narrow=True)
        found: dict[Row, float] = {}
        for a in self.deviating if rows else ():
            if a.rows & rows:
                explained = part(a).explained(narrow, known=True) or {}
                found |= {row: after for q, after in explained.items() if (row := a.row(q)) in rows}
        return found

    def _is_of_zero_alone(self, e: Explanation) -> bool:
        """Whether it explains divisions by 0, beside which any mistake may stand, and changes nothing by itself."""
        cases = [a for a in self.deviating if a.rows & e.rows.keys()]
        return all(a.divides_by_zero for a in cases) and not any(a.is_changed_by_itself(e.mutant) for a in cases)

    def _kept(self, chosen: list[list[Explanation]], left: set[Row]) -> list[list[Explanation]]:
        """Explanations without those that rows which are left contradict; a mistake of rounding may be off by more."""
        left = (left - self.known) & self.telling
        chosen = [group for group in chosen if not self._few(group[0]) or self._in_every_precision(group[0])]
        if not left:
            return chosen
        kept = []
        for group in chosen:
            best = group[0]
            against = [a for a in best.failed if a.rows & left and not (best.mutant.narrow and self._nearly(a, best))]
            if not against and not (best.mutant.narrow and self._few(best)):
                kept.append(group)
        return kept

    def _few(self, e: Explanation) -> bool:
        """Whether it explains so few of the rows that it may fit by chance."""
        return 2 * len(e.rows) <= len(self.every)

    def _in_every_precision(self, e: Explanation) -> bool:
        """Whether it explains a case that it explains in every precision in which that deviates."""
        pairs = {(case, quantity) for case, _, quantity in e.rows}
        siblings = {row for row in self.every & self.telling if (row[0], row[2]) in pairs}
        return siblings - self.known <= e.rows.keys()

    def _nearly(self, a: Answered, e: Explanation) -> bool:
        """Whether an answer is not much farther off than a mistake's own rounding, or its sums are in another order."""
        found = a.ratios(e.mutant)
        return found is not None and max(found.values(), default=0.0) <= NEARLY

    def _cause(self, group: list[Explanation], left: set[Row]) -> Cause:
        best, *others = group
        rows = _sorted(best.rows)
        quantities = {row[2] for row in rows}
        return Cause(
            best.mutant.says,
            rows,
            max(self.before[row] for row in rows),
            max(best.rows.values()),
            self.layer.name,
            tuple(dict.fromkeys(e.mutant.says for e in others if e.mutant.says != best.mutant.says)),
            fits_some(rows, {row for row in left if row[2] in quantities}),
            best.where or line_of(best.mutant),
        )

    def _of_all_rows(self, mutants: list[Mutant], *, loosely: bool = False) -> list[Explanation]:
        """The mistakes that explain everything, of those that explain all of the smallest cases."""
        first, rest = self.deviating[:FIRST], self.deviating[FIRST:]
        own = self.wrong & {row for a in first for row in a.rows}
        for i, mutant in enumerate(mutants):
            if (mutant, loosely) not in self.begun:
                self.begun[mutant, loosely] = e = self._explanation(Explanation(mutant, {}, i, loosely), first)
                self._with_hidden(e, own)
                if e.rows.keys() == own:
                    self._with_hidden(self._explanation(e, rest), self.every)
        found = [self.begun[mutant, loosely] for mutant in mutants]
        return [e for e in found if e.rows.keys() == self.every]

    def _with_hidden(self, e: Explanation, rows: set[Row]) -> None:
        """Count to a mistake the few of these rows in which its rounding hides what it changes."""
        left = rows - e.rows.keys()
        if len(left) <= MISSED * len(rows) and not e.mutant.narrow and not e.mutant.rounded:
            e.rows |= self._hidden_by_rounding(e.mutant, left)

    def _singles(self, mutants: list[Mutant], *, loosely: bool = False) -> list[Explanation]:
        """What each mistake explains; only those that explain everything, if there are such."""
        if all_of_it := self._of_all_rows(mutants, loosely=loosely):
            return all_of_it
        first, rest = self.deviating[:FIRST], self.deviating[FIRST:]
        own = self.wrong & {row for a in first for row in a.rows}
        found = [self.begun[mutant, loosely] for mutant in mutants]
        for e in found:
            if not e.rows.keys() >= own:
                self._explanation(e, rest)
        return [e for e in found if e.rows.keys() & self.telling]

    def _explanation(self, e: Explanation, deviating: list[Answered]) -> Explanation:
        """The explanation with what its mistake explains of these cases too."""
        for a in deviating:
            found = a.explained(e.mutant, loosely=e.loosely)
            e.rows |= {row: after for q, after in (found or {}).items() if (row := a.row(q)) in self.wrong}
            if found == {}:
                e.failed = (*e.failed, a)
                if len(e.failed) == GIVEN_UP and not e.rows:
                    break
        return e

    def _pairs(self, mutants: list[Mutant]) -> list[Explanation]:
        """The pairs that explain something of a small case that is left, or of a larger one, with all they explain.

        Only those of which each alone changes something in that case.
        """
        found = []
        left = [a for a in self.deviating if a.rows & self.left]
        tried = tuple(dict.fromkeys((left[0], left[len(left) // 3], left[2 * len(left) // 3])))
        changed = {id(mutant): {a for a in tried if a.is_changed_by(mutant)} for mutant in mutants}
        both = ((i, one, other) for i, (one, other) in enumerate(itertools.combinations(mutants, 2)))
        for i, one, other in both:
            in_both = changed[id(one)] & changed[id(other)]
            pair = one.together(other) if in_both else None
            if pair is not None and any(a.explained(pair) for a in tried if a in in_both):
                found.append(self._explanation(Explanation(pair, {}, len(mutants) + i), self.deviating))
        return [e for e in found if e.rows.keys() & self.telling]

    def _cover(self, explanations: list[Explanation]) -> Covered:
        """Groups of explanations that no row tells apart, those with most rows first; and the rows that none explains.

        What changes a row that is right, and would not be right there, is no explanation.
        """
        left, chosen, usable = set(self.every), [], list(explanations)
        while left:
            most = max((len(left & e.rows.keys()) for e in usable), default=0)
            if not most:
                break
            best = [e for e in usable if len(left & e.rows.keys()) == most]
            contradicted = [
                e
                for e in best
                if self._is_of_zero_alone(e) or any(a.contradicts(e.mutant) for a in self.against(e.mutant))
            ]
            if contradicted:
                usable = [e for e in usable if e not in contradicted]
                continue
            best = [e for e in best if not e.mutant.inside] or best  # a value that fits says more than a precision
            if len(best) > 1:
                for e in best:
                    e.contradictions = sum(a.is_changed_by(e.mutant) for a in self.right)
                fewest = min(e.contradictions for e in best)
                best = [e for e in best if e.contradictions == fewest]
            best.sort(key=lambda e: (len(e.mutant.switches), e.simplicity))
            simplest = len(best[0].mutant.switches)
            own = best[0].rows.keys()
            group = [e for e in best if e.rows.keys() == own and len(e.mutant.switches) == simplest]
            chosen.append(group)
            left = self._absorbed(group, left - own)
        return chosen, left

    def against(self, mutant: Mutant) -> list[Answered]:
        """What may contradict a mistake: rows that are right, of one of rounding also those that are not."""
        return [*self.deviating, *self.right] if mutant.narrow else self.right

    def _absorbed(self, group: list[Explanation], left: set[Row]) -> set[Row]:
        """What is left when the rows that the rounding of a chosen mistake explains are counted to it."""
        mutant = group[0].mutant
        narrow = replace(mutant, narrow=True)
        for a in self.deviating:
            found = a.explained(narrow, loosely=mutant.narrow, known=True) if a.rows & left else {}
            absorbed = {a.row(q): after for q, after in (found or {}).items()}
            for e in group:
                e.rows |= {row: after for row, after in absorbed.items() if row in left}
            left = left - absorbed.keys()
        return left


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows))
