"""What came of a judgement: the report, why rows deviate, and the text."""

import html
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from refnp.autograd.declaration import Declaration
from refnp.autograd.errors import closest
from refnp.numbers.rounding import ASSUMED
from refnp.verify.case import Answer, Problem
from refnp.verify.causes import SECONDS, Cause, Clock, causes
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, NOT_JUDGED, SKIPPED, WITHIN, Judgement, Key
from refnp.verify.record import DTYPES
from refnp.verify.report import came, number, ratio_of

RAISES, ENDS = "it raises", "it ends with"  # in front of what a function, or a program, says of cases that it refuses


@dataclass(repr=False)
class Report:
    """What came of a judgement. `str(report)` is its text; `rows` are those of `refnp verify --json`."""

    name: str
    who: str
    judgements: list[Judgement]
    answers: list[tuple[Problem, Answer]] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)  # why: the cases
    assumed: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # also those without an answer
    about: str = ""  # who was judged, in which precisions, and against what
    known: dict[Key, str] = field(default_factory=dict)  # what is known of such rows of the framework
    hints: list[str] = field(default_factory=list)  # conventions with which it would hold
    ask: Callable[[Problem], Answer] | None = None  # the function, asked another problem
    seconds: float | None = SECONDS  # of computing that causes are looked for
    told: Callable[[str], None] | None = None  # is told at what the search is
    every: list[Any] = field(default_factory=list)  # what came of all numbers, where those were asked

    def __post_init__(self) -> None:
        self.problems = self.problems or [problem for problem, _ in self.answers]

    @property
    def holds(self) -> bool:
        """Whether something is judged, and nothing deviates."""
        return not self.deviations and any(row.verdict != NOT_JUDGED for row in self.judgements)

    def __bool__(self) -> bool:
        return self.holds

    @property
    def deviations(self) -> list[Judgement]:
        """The judgements of what deviates."""
        return [row for row in self.judgements if row.verdict == DEVIATES]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each quantity of each case in each precision, as `refnp verify --json` writes it."""
        return [row.as_json() for row in self.judgements]

    @cached_property
    def causes(self) -> list[Cause]:
        """The rows that deviate, grouped by cause, the most rows first."""
        return causes_of(self)

    def require(self) -> "Report":
        """AssertionError with the text of the report unless it holds; the report itself otherwise."""
        __tracebackhide__ = True  # for pytest, which then shows the line of the test
        if not self.holds:
            raise AssertionError(str(self))
        return self

    @property
    def judged(self) -> list[Problem]:
        """The problems of which any number was judged."""
        names = {(row.case, row.dtype) for row in self.judgements if row.verdict not in (NOT_JUDGED, SKIPPED)}
        return [problem for problem in self.problems if (problem.case.name, problem.dtype) in names]

    def problem(self, case: str, dtype: str | None = None) -> Problem:
        """The case with its inputs: `arrays` by name, `cotangent`, `reference()`, `bounds`, `case.options`.

        In the precision named, or the first one that was judged. ValueError if there is no such case in this report.
        """
        for problem in self.problems:
            if problem.case.name == case and dtype in (None, problem.dtype):
                return problem
        names = {problem.case.name for problem in self.problems}
        raise ValueError(f"problem: the report has no case {case!r}{closest(case, names)}")

    def __str__(self) -> str:
        return text_of(self)

    def __repr__(self) -> str:
        wrong = f", {len(self.deviations)} of them deviate" if self.deviations else ""
        return f"<{type(self).__name__} of {self.who or self.name} as {self.name}: {len(self.judgements)} rows{wrong}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def causes_of(report: Report, *, of_one: bool = True) -> list[Cause]:
    """The rows that deviate, grouped: what was wrong before there were numbers, mistakes, known defects.

    In a whole model the rows are not `of_one` function.
    """
    rows = {row.key: row for row in report.deviations}
    clock = Clock(report.seconds, report.told)
    found = causes(report.answers, rows.values(), report.known, of_one=of_one, ask=report.ask, clock=clock)
    explained = {key for cause in found for key in cause.rows}
    failures = grouped({key: row.why for key, row in rows.items() if row.why and key not in explained}, rows)
    left = {key: report.known[key] for cause in found if not cause.says for key in cause.rows if key in report.known}
    named = []
    for cause in found:
        own = tuple(key for key in cause.rows if key not in left)
        says = f"as if {cause.says}" if cause.says else ""
        known = [report.known[key] for key in own if key in report.known]
        finite = all(math.isfinite(ratio_of(rows[key])) for key in own if key not in report.known)
        if says and finite and 2 * len(known) >= len(own):  # the defect is the mistake, if not NaN says more
            if len(known) == len(own) and set(known) <= set(
                left.values()
            ):  # the same where no mistake fits: it is that
                left |= {key: report.known[key] for key in own}
                continue
            says += "".join(f"; {what}" for what in dict.fromkeys(known))
        if own == cause.rows:
            named.append(replace(cause, says=says))
        elif own:
            worst = max(ratio_of(rows[key]) for key in own)
            named.append(replace(cause, says="", rows=own, before=worst, after=worst, others=(), where=""))
    everything = [replace(cause, layer=report.name) for cause in (*failures, *grouped(left, rows))] + named
    return sorted(everything, key=lambda cause: (not cause.says, -len(cause.rows)))


def grouped(says: Mapping[Key, str], rows: Mapping[Key, Judgement]) -> list[Cause]:
    """A cause for each thing that is said of rows, whatever numbers are in it."""
    groups: dict[str, list[Key]] = {}
    for key, text in says.items():
        groups.setdefault(re.sub(r"\d+", "0", text), []).append(key)
    worst = lambda keys: max(ratio_of(rows[key]) for key in keys)
    return [Cause(says[keys[0]], tuple(keys), worst(keys), math.nan) for keys in groups.values()]


def text_of(report: Report) -> str:
    """The verdict in a line, a paragraph for each cause, then what was skipped and assumed."""
    asked = [line for found in report.every for line in found.lines] or [f"asked: {asked_of(report.judged)}"]
    lines = [headline(report), f"judged: {report.about}", *asked]
    for index, cause in enumerate(report.causes, 1):
        lines += ["", *paragraph(report, index, cause)]
    lines.append("")
    lines += [f"hint: {hint}" for hint in report.hints]
    lines += [*excused_lines(report), *unjudged_lines(report), *skipped_lines(report)]
    lines += [*(f"assumed: {what}" for what in report.assumed)]
    if all(row.dtype in DTYPES for row in report.judgements):  # policies of low precision assume what they say
        lines += ["", "the bounds assume:", *(f"    {words}" for words in ASSUMED)]
    return "\n".join(lines).rstrip()


def excused_lines(report: Report) -> list[str]:
    """Each known defect that is excused and each convention that another function follows, in a line."""
    counts = Counter((r.verdict, r.issue, r.why) for r in report.judgements if r.verdict in (KNOWN, CONVENTION))
    return [f"{verdict}: {issue}, {plural(n, 'row')}: {why}" for (verdict, issue, why), n in counts.items()]


def unjudged_lines(report: Report) -> list[str]:
    """How many numbers have no bound, in a line; all numbers of a format have lines of their own."""
    rows = [row for row in report.judgements if row.without_bound and not report.every]
    names = list(dict.fromkeys(row.case for row in rows))
    counts = f"{sum(row.without_bound for row in rows)} of {sum(row.size for row in rows)} numbers"
    where = f"{plural(len(rows), 'row')} of {plural(len(names), 'case')}"
    return [f"not judged: {counts} in {where}, which have no bound: {'; '.join(shortened(names))}"] if rows else []


def skipped_lines(report: Report) -> list[str]:
    """Why cases were skipped: options that the function does not take in one line, other reasons each in its own."""
    reasons = {why: list(names) for why, names in report.skipped.items()}
    for row in report.judgements:
        if row.verdict == SKIPPED and row.case not in reasons.setdefault(row.why, []):
            reasons[row.why].append(row.case)
    start = f"{report.who} takes no "
    options = {why.removeprefix(start): len(reasons.pop(why)) for why in list(reasons) if why.startswith(start)}
    alike: dict[str, tuple[str, list[str]]] = {}  # but for numbers in what is said
    for why, names in reasons.items():
        alike.setdefault(re.sub(r"\d+", "0", why), (why, []))[1].extend(names)
    lines = [f"skipped: {plural(len(n), 'case')}, {why}: {'; '.join(shortened(n))}" for why, n in alike.values()]
    if options:
        of_each = ", ".join(f"{name} ({count})" for name, count in options.items())
        total = plural(sum(options.values()), "case")
        lines.append(f"skipped: {total} with what {report.who} does not take: {of_each}")
    return lines


def headline(report: Report) -> str:
    """Whether it holds, and by how much."""
    verdicts = Counter(row.verdict for row in report.judgements)
    others = {verdict: n for verdict, n in verdicts.items() if verdict not in (WITHIN, DEVIATES, SKIPPED)}
    rest = "".join(f", {n} {verdict}" for verdict, n in others.items())
    if report.holds:
        worst = max((row.error_over_bound for row in report.judgements if row.verdict == WITHIN), default=0.0)
        within = plural(verdicts[WITHIN], "row")
        refused = sum(len(cases) for why, cases in report.skipped.items() if why.startswith((RAISES, ENDS)))
        rest += f"; it refuses {plural(refused, 'case')}" if refused else ""
        return f"{report.name} holds: {within} within bound, the worst {number(worst)} of it{rest}"
    if not report.deviations:
        return f"{report.name} is not judged: no number has a bound"
    worst = max(map(ratio_of, report.deviations))
    size = "no number at all" if math.isinf(worst) else f"{number(worst)} times its bound"
    count = f"{verdicts[DEVIATES]} of {plural(verdicts.total() - verdicts[SKIPPED] - verdicts[NOT_JUDGED], 'row')}"
    deviate = "deviates" if verdicts[DEVIATES] == 1 else "deviate"
    return f"{report.name} does not hold: {count} {deviate}{rest}, the worst {size}"


def paragraph(report: Report, index: int, cause: Cause) -> list[str]:
    """A cause with one row worked out: what came, what is right, and how to have the inputs."""
    rows = [row for row in report.deviations if row.key in cause.rows]
    names = list(dict.fromkeys(row.case for row in rows))
    says = cause.says or cause.seen or "no known mistake fits"
    says += "".join(f", or {other}" for other in cause.others)
    if not math.isnan(cause.after) and cause.says:
        says += f" (error over bound falls from {number(cause.before)} to {number(cause.after)})"
    says += f", {cause.pattern}" if cause.pattern else ""
    row = max(rows, key=ratio_of)
    example = f"{row.case}, {row.dtype}, {row.quantity}"
    example += f": {numbers}" if (numbers := came(row)) else ""
    if math.isfinite(row.error_over_bound):
        example += f", {number(row.error_over_bound)} times its bound"
    lines = [f"{index}. {says}: {plural(len(rows), 'row')} of {plural(len(names), 'case')}"]
    lines += [f"   {cause.where}"] if cause.where else []
    lines.append(f"   {example}")
    problem = next((p for p in report.problems if (p.case.name, p.dtype) == (row.case, row.dtype)), None)
    if problem is not None:
        lines.append(f'   report.problem("{row.case}", "{row.dtype}").arrays: {summary_of(problem)}')
    if len(names) > 1:
        lines.append(f"   also: {'; '.join(shortened([n for n in names if n != row.case]))}")
    return lines


def summary_of(problem: Problem) -> str:
    """The arrays of a problem by name, shape and range, and its options."""
    found = [f"{name} {described(array)}" for name, array in list(problem.arrays.items())[:5]]
    if len(problem.arrays) > 5:
        found.append(f"{len(problem.arrays) - 5} more")
    for name, value in problem.case.options.items():
        found.append(f"{name} {value.shape}" if isinstance(value, np.ndarray) else f"{name}={value!r}")
    return ", ".join(found)


def described(array: np.ndarray) -> str:
    """Shape and range: "(5, 16) from -2.5 to 3"."""
    seen = array[np.isfinite(array)]
    span = f" from {number(float(seen.min()))} to {number(float(seen.max()))}" if seen.size else ""
    rest = "" if seen.size == array.size else " with NaN or infinity"
    return f"{array.shape}{span}{rest}"


def shortened(names: Sequence[str], most: int = 6) -> list[str]:
    """The first names, and how many more there are."""
    return [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]


def plural(count: int, word: str) -> str:
    """ "1 row", "2 rows"."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def first_line(wrong: BaseException) -> str:
    """The first line of an exception's message."""
    return (str(wrong).splitlines() or [type(wrong).__name__])[0]


# ---- what the cases of a report asked


def asked_of(problems: Sequence[Problem]) -> str:
    """In a line: "46 cases, N to 1027, M to 67, 2 to 4 axes, options mask and scale in all pairs, NaN hidden"."""
    by_name = {problem.case.name: problem for problem in problems}
    found = list(by_name.values())
    parts = [f"{len(found)} case{'s' * (len(found) != 1)}"]
    parts += [f"{letter} to {n}" if n > 1 else f"{letter} = 1" for letter, n in longest(found).items()]
    parts += [axes_of(found), options_of(found), hidden_in(found)]
    return ", ".join(filter(None, parts))


def longest(problems: Sequence[Problem]) -> dict[str, int]:
    """The largest length of each letter of the declaration; without one, of any axis."""
    largest: dict[str, int] = {}
    for problem in problems:
        for letter, n in lengths(problem).items():
            letter = letter.lstrip("*")
            largest[letter] = max(largest.get(letter, 0), *np.atleast_1d(n)) if np.size(n) else largest.get(letter, 0)
    if len(largest) > 1:
        largest.pop("axes", None)  # of those that declare nothing
    return {letter: int(n) for letter, n in largest.items() if n}


def lengths(problem: Problem) -> dict[str, Any]:
    """The lengths of the letters, as the function that is asked declares them."""
    takes = getattr(problem.case.layer.function, "takes", None)
    if isinstance(takes, Declaration) and not takes.takes_any_array:
        found = takes.sizes(dict(problem.arrays) | dict(problem.case.options))
        return {letter: n for letter, n in found.items() if letter != "..."}
    return {"axes": max((n for array in problem.arrays.values() for n in array.shape), default=0)}


def axes_of(problems: Sequence[Problem]) -> str:
    """How many axes the first argument had."""
    counts = {next(iter(problem.arrays.values())).ndim for problem in problems if problem.arrays}
    least, most = min(counts, default=0), max(counts, default=0)
    return f"{least} to {most} axes" if least < most else f"{most} {'axis' if most == 1 else 'axes'}"


def options_of(problems: Sequence[Problem]) -> str:
    """The options that were set, and whether every two of them stood together."""
    chosen = [frozenset(problem.case.options) for problem in problems]
    names = list(dict.fromkeys(name for problem in problems for name in problem.case.options))
    if not names:
        return ""
    pairs = set(itertools.combinations(names, 2))
    together = {pair for pair in pairs if any({*pair} <= names for names in chosen)}
    *first, last = names
    listed = f"options {', '.join(first)} and {last}" if first else f"option {last}"
    return f"{listed} in all pairs" if pairs and together == pairs else listed


def hidden_in(problems: Sequence[Problem]) -> str:
    """Whether an argument held NaN or infinity."""
    numbers = [array for problem in problems for array in problem.arrays.values() if array.dtype.kind == "f"]
    kinds = {"NaN": np.isnan, "infinity": np.isinf}
    found = [name for name, test in kinds.items() if any(test(array).any() for array in numbers)]
    return f"{' and '.join(found)} among the inputs" if found else ""
