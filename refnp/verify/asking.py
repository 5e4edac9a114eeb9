"""A function that is not refnp's, asked: its framework, its arguments, and its answers to the cases of a layer."""

import contextlib
import copy
import inspect
import os
import re
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd.errors import shown
from refnp.numbers.precision import Policy, checked_formats, format_of, policy
from refnp.numbers.rounding import judging_precision
from refnp.verify.calling import (
    Binding,
    Call,
    adapted,
    call_of,
)
from refnp.verify.case import Answer, Case, Convention, KnownDefect, NotOfferedError, Problem, quiet
from refnp.verify.conventions import AS_IT_IS, MASKS, Layout
from refnp.verify.excuses import Given, contradicts, explaining
from refnp.verify.findings import RAISES, Report, first_line
from refnp.verify.foreign import ForeignError, in_child, is_foreign
from refnp.verify.frameworks import PACKAGES, PAGES, inspection, module_parameters
from refnp.verify.frameworks.native import NUMPY, Native, Question
from refnp.verify.judge import CONVENTION, DEVIATES, WITHIN, Judgement, Key, failed, judged, matches
from refnp.verify.layer_names import SAID_BY_NAME
from refnp.verify.modules import (
    OF_ROWS,
    SIZED,
    check_no_dropout,
    in_precision,
    of_own_sizes,
    rows_of,
    sizes_of,
    statistics_of,
)
from refnp.verify.parameters import Parameters
from refnp.verify.record import DTYPES
from refnp.verify.views import COTANGENT, run_on_views, said_of_views, view_of

NO_KERNEL = re.compile(r"(not implemented for|not support\w*|unsupported)\W.*(Half|BFloat16|Float8|float16|precision)")
BROKEN = (ArithmeticError, AttributeError, LookupError, MemoryError, NameError, RecursionError)  # no refusals
REFUSALS = (NotImplementedError, ValueError, AssertionError)  # what a function raises for a case that it is not for
TRIED = 3  # cases, to see whether another convention makes them right
GRADIENTS = "gradients"  # the quantity of a row that says that these failed, where the output came


class Asked:
    """A function and how it is asked: its framework, which of its parameters is which argument, and conventions."""

    def __init__(
        self,
        function: Callable,
        named: list[Case],
        *,
        made: Callable[[Callable[[str], bool]], list[Case]],
        only: str | None,
        skip: Sequence[str],
        stated: Mapping[str, Any],
        excused: Sequence[str],
        gradients: bool,
        vjp: Callable | None,
        framework: str | None,
        device: str | None,
        arguments: Mapping[str, str] | None,
        formats: Mapping[str, str] | None,
        layouts: Sequence[str],
        mask: str,
        order: Sequence[str] = (),
        own: Mapping[str, Any] | None = None,
    ):
        self.who = name_of(function)
        self.excused = excused
        self.layer, self.is_foreign = named[0].layer, is_foreign(function)
        self.function, self.cases, self.vjp, self.device = function, named, vjp, device
        self.gradients, self.mask, self.stated = gradients, mask, stated
        self.layouts: Sequence[str | Layout] = layouts
        guess = inspection.named(framework) if framework else inspection.of_object(function)
        inside = None if guess is None else module_parameters.parameters_of(guess, function)
        taken = function if inside is None or guess is None else module_parameters.forward_of(guess, function)
        if inside is not None:
            check_no_dropout(self.who, function)
            inside |= statistics_of(function)
        self.inside, self.taken, self.own = inside, taken, own
        self.vain: Counter[str] = Counter()  # how often what is known explained nothing
        self.items: int | None = None  # axes of one item, where the function is of one; found out by trying
        also = [
            name
            for case in named
            if case.layer.name != self.layer.name
            for name in SAID_BY_NAME.get(case.layer.name, ())
        ]
        self.binding = Binding(self.who, taken, named, arguments, inside, stated, also, order, own)
        self.table = [*self.cases, *made(lambda name: self.binding.takes(name) and name not in stated)]
        self.cases = self.of_own_sizes(layouts)
        self.formats = checked_formats("judge", formats, self.layer.name, self.binding.arrays)
        self.chosen = lambda cases: [replace(case, formats=self.formats) for case in chosen(cases, only, skip)]
        self.cases = self.chosen(self.cases)
        self.native, self.is_guessed = guess or inspection.found_out(function, self.attempt), guess is None
        if device is not None:
            self.check_device(device)
        if gradients and vjp is None and self.native is NUMPY:
            self.native = self.differentiable()
        self.cases = [case for case in self.cases if self.native.has_views or not case.views]

    def of_own_sizes(self, layouts: Sequence[str | Layout]) -> list[Case]:
        """The cases with the sizes of the module, if it is one with sizes of its own."""
        shapes, names = dict(self.inside or {}), dict(self.binding.inside)
        if self.inside is not None and not names:  # without parameters
            shapes = {"": size} if (size := sizes_of(self.function)) else {}
            names = dict.fromkeys([name for name in SIZED if shapes and name in self.binding.arrays], "")
        several = [shapes[theirs] for theirs in names.values() if len(shapes[theirs]) > 1]
        self.layouts = (*layouts, rows_of(several[0])) if several and self.layer.name in OF_ROWS else layouts
        found = of_own_sizes(self.table, names, shapes, self.layouts) if names else []
        if names and not found and not layouts and self.layer.name == "linear":
            self.layouts = ("out_in",)  # as PyTorch's modules keep it
            found = of_own_sizes(self.table, names, shapes, self.layouts)
        return found or self.table

    def changed(self, **attributes: Any) -> "Asked":
        """The same, asked otherwise."""
        other = copy.copy(self)
        other.__dict__.update(attributes)
        return other

    def turned(self, layouts: Sequence[str]) -> "Asked":
        """The same module asked in other layouts."""
        other = self.changed()
        other.cases = other.chosen(other.of_own_sizes(layouts))
        return other

    def offered(self, cases: Sequence[Case]) -> list[Case]:
        """The first cases of those that the function can be asked."""
        found = []
        for case in cases:
            with contextlib.suppress(NotOfferedError):
                self.adapted(case)
                found.append(case)
        return found[:TRIED]

    def like(self, cases: list[Case], arguments: Mapping[str, str]) -> "Asked":
        """The same function asked the cases of another layer."""
        binding = Binding(self.who, self.taken, cases, arguments, self.inside, self.binding.stated, (), (), self.own)
        return self.changed(layer=cases[0].layer, cases=cases, binding=binding)

    def check_device(self, device: str) -> None:
        """ValueError unless the framework can put arrays on it."""
        try:
            self.native.array(np.zeros(1, np.float32), device)
        except Exception as wrong:  # as each framework says it
            raise ValueError(f"device={shown(device)}: {self.native.name}: {first_line(wrong)}") from wrong

    def check_formats(self, dtypes: Sequence[str]) -> None:
        """ValueError unless the framework takes numbers of all formats that it will be given, and gives them back."""
        for name in (*dtypes, *self.formats.values()):
            form, given = policy(name), policy(name).typed(np.zeros(1, policy(name).dtype))
            option = f"dtypes: {name}" if name in DTYPES else f"precision={name!r}"
            try:
                came = format_of(self.native.numpy(self.native.array(given, self.device)))
            except Exception as wrong:  # as each framework says it
                raise ValueError(f"{option}: {self.native.name}: {first_line(wrong)}; or name another") from wrong
            if came != form.stored.name:
                raise ValueError(f"{option}: {self.native.name} makes {came} of {form.stored.name}; name another")

    def differentiable(self) -> Native:
        """refnp's autodiff, if the function computes with Tensors as well; ValueError otherwise."""
        try:
            if inspection.REFNP.owns(self.attempt(inspection.TENSORS)):
                return inspection.REFNP
        except Exception:  # it does not
            pass
        try:
            self.attempt(NUMPY)
        except Exception as failure:
            raise ValueError(
                f"{self.who} could not be judged: its framework is not found out: arrays of each that is tried end "
                f"in an error, those of NumPy in {type(failure).__name__}: {first_line(failure)}"
                f'{place_of(failure, self.function)}; framework="torch" and the like says which it is'
            ) from failure
        raise ValueError(
            f"gradients: {self.who} computes with NumPy, which differentiates nothing; give its gradient as "
            "vjp(function, *arrays) → (output, pullback), or write it with operations of refnp.autograd"
        )

    def attempt(self, native: Native) -> Any:
        """What the function makes of the first case that it can be asked and does not refuse, as it comes."""
        refusal: Exception | None = None
        for case in self.cases:
            try:
                own = self.adapted(case)
            except NotOfferedError:
                continue
            problem = replace(own, options=in_precision(own.options, "float32")).problem("float32")
            call = self.call(problem)
            with quiet():
                convert = lambda x: native.array(x, self.device)
                try:
                    return call.asked(self.function, convert, None)(*map(convert, call.arrays))
                except REFUSALS as failure:
                    refusal = refusal or failure
        raise refusal or NotOfferedError("no case")

    def adapted(self, case: Case) -> Case:
        """The case as this function can be asked; options of another layer only if the function has their names."""
        passed = self.passed(case)
        if case.layer.function is not self.layer.function:
            for name in (*passed, *case.options):
                if name not in self.binding.places:
                    raise NotOfferedError(f"{self.who} takes no {name}")
        return adapted(self.binding, case, gradients=self.gradients, additive=self.mask == "additive")

    def passed(self, case: Case) -> dict[str, Any]:
        """The options that say what the name of the case's layer says, in a layer of another name."""
        other = case.layer.name != self.layer.name
        return SAID_BY_NAME.get(case.layer.name, {}) if other else {}

    def call(self, problem: Problem) -> Call:
        """The call of the function for a problem."""
        return call_of(self.binding, problem, self.layouts, self.mask, self.passed(problem.case))

    def report(self, name: str, dtypes: Sequence[str]) -> Report:
        """Every case in every precision."""
        self.check_formats(dtypes)
        self.version = inspection.version_of(self.native)
        about = f"{self.who}, {self.version}, {' and '.join(dtypes)}, against {judging_precision()}"
        report = Report(name, self.who, [], assumed=self.assumed(), about=about, ask=self.output)
        self.raised: dict[str, Exception] = {}  # by the names of cases
        self.known_in: dict[str, tuple[KnownDefect, ...]] = {}
        notes: Counter[str] = Counter()
        for case in self.cases:
            try:
                own = self.adapted(case)
                for dtype in dtypes:
                    self.judge_one(own, dtype, report, notes)
            except NotOfferedError as reason:
                report.skipped.setdefault(str(reason), []).append(case.name)
        if not report.answers and self.raised:
            self.could_not_be_judged(report)
        report.judgements = self.tried_again(report)
        report.judgements = self.with_views_named(self.without_conventions(report), report)
        if not report.judgements:
            why = "; ".join(f"{reason} ({len(names)} cases)" for reason, names in report.skipped.items())
            raise ValueError(
                f"{self.who} can be judged on no case of {name}: {why}. options={{…: …}} says what it computes with, "
                "arguments={…: …} what it calls an argument"
            )
        report.assumed += [f"{note}, {count} times" for note, count in notes.items()]
        given = self.binding.completed.items()
        report.assumed += [f"cases without {name} are asked with {value}" for name, value in given]
        every = {id(d): d for case in self.cases for d in self.known(case)}.values()
        of_frameworks = {name.lower() for name in (*PACKAGES, *PAGES)}
        others = [issue for issue in self.excused if issue.lower() not in of_frameworks]
        idle = [issue for issue in others if not any(names(issue, defect) for defect in every)]
        report.assumed += [f"excused names {issue}, which nothing that is asked here is known for" for issue in idle]
        return report

    def judge_one(self, case: Case, dtype: str, report: Report, notes: Counter) -> None:
        """One case in one precision; NotOfferedError if it cannot be asked."""
        with quiet():
            case = replace(case, options=in_precision(case.options, dtype))
            problem = replace(case, known_defects=()).problem(dtype)
            if policy(dtype).narrow and beyond_range(problem):
                raise NotOfferedError(f"some of its numbers are beyond the range of {policy(dtype).narrow}")
            try:
                reference = problem.reference()
                problem.bounds  # noqa: B018  # computed here, where an option that refnp refuses shows
                call = self.call(problem)
            except (ValueError, TypeError) as wrong:
                raise NotOfferedError(f"refnp cannot compute it with these options: {first_line(wrong)}") from wrong
            try:
                answer, note = self.answer(problem, call)
            except NotImplementedError as reason:
                raise NotOfferedError(f"NotImplementedError: {first_line(reason)}") from reason
            except NotOfferedError:
                raise
            except Exception as failure:  # whatever it is, it is no answer
                if policy(dtype).narrow and NO_KERNEL.search(str(failure)):
                    raise NotOfferedError(f"{self.native.name}: {first_line(failure)}") from failure
                if (case.made or case.views) and not (call.answered or isinstance(failure, BROKEN)):
                    raise NotOfferedError(f"{RAISES} {type(failure).__name__}: {first_line(failure)}") from failure
                if any(isinstance(value, list) for value in case.options.values()):
                    raise NotOfferedError(f"{self.who} does not take options as refnp writes them") from failure
                self.raised[case.name] = failure
                report.judgements += self.without_gradients(problem, reference, failure)
                report.problems.append(problem)
                return
            known_here = self.known_in[case.name] = self.known(case)
            known = excusing(known_here, self.excused, self.who)
            found = judged(problem, answer, reference, self.who, self.version, known=known, vain=self.vain)
            report.judgements += found
            report.known |= self.known_of(known_here, problem, answer, found)
            report.answers.append((problem, answer))
            report.problems.append(problem)
            notes.update(dict.fromkeys(note, 1))

    def without_conventions(self, report: Report) -> list[Judgement]:
        """The rows, judged again where a convention explains them that others do not follow: it is none of theirs.

        A known defect may be what keeps others from following it.
        """
        followed = {row.issue for row in report.judgements if row.verdict == CONVENTION}
        wrong = {row.key for row in report.deviations if not row.why} - report.known.keys()
        known = lambda problem: self.known_in[problem.case.name]
        broken = {
            defect.issue
            for problem, answer in report.answers
            if (problem.case.name, problem.dtype, "output") in wrong
            for defect in known(problem)
            if defect.issue in followed and contradicts(defect, Given(problem, "output", np.asarray(answer["output"])))
        }
        own = {row.key for row in report.judgements if row.verdict == CONVENTION and row.issue in broken}
        return self.judged_again(report, own, lambda defect: defect.issue not in broken)

    def tried_again(self, report: Report) -> list[Judgement]:
        """The rows, judged again where what explains others was not tried, for it had explained nothing until then."""
        explains = {issue for issue, count in self.vain.items() if count < 0}
        left = {row.key for row in report.deviations if not row.why and explains}
        return self.judged_again(report, left, lambda defect: defect.issue in explains)

    def judged_again(self, report: Report, keys: set[Key], is_meant: Callable[[KnownDefect], bool]) -> list[Judgement]:
        """The rows, of which some are judged by a part of what is known."""
        again: dict[Key, Judgement] = {}
        for problem, answer in report.answers:
            if any((problem.case.name, problem.dtype, quantity) in keys for quantity in answer):
                known = [defect for defect in self.known_in[problem.case.name] if is_meant(defect)]
                excused, vain = excusing(known, self.excused, self.who), Counter({d.issue: -1 for d in known})
                with quiet():
                    right = problem.reference()
                    rows = judged(problem, answer, right, self.who, self.version, known=excused, vain=vain)
                    report.known |= self.known_of(known, problem, answer, [row for row in rows if row.key in keys])
                again |= {row.key: row for row in rows}
        return [again[row.key] if row.key in keys else row for row in report.judgements]

    def with_views_named(self, rows: list[Judgement], report: Report) -> list[Judgement]:
        """The rows, and which views make those deviate of which the same numbers in arrays of their own do not."""
        verdicts = {row.key: row.verdict for row in rows}
        why: dict[Key, str] = {}
        for problem, answer in report.answers:
            case = problem.case
            keys = [(case.name, problem.dtype, quantity) for quantity in answer]
            found = [key for key in keys if verdicts.get(key) == DEVIATES]
            if case.views and found and all(verdicts.get((case.of_numbers, *key[1:])) == WITHIN for key in found):
                given = self.views_of(case)
                own = [name for name in given if self.deviates_on(problem, name)] or given
                if not self.deviates_on(problem):  # asked once more
                    why |= dict.fromkeys(found, said_of_views(own))
        return [replace(row, why=why.get(row.key, row.why)) for row in rows]

    def views_of(self, case: Case) -> list[str]:
        """What is given as a view: parameters are as a module keeps them, and without gradients is no cotangent."""
        own = [name for name in case.views if name not in self.binding.inside]
        return [name for name in own if name != COTANGENT or len(case.quantities) > 1]

    def deviates_on(self, problem: Problem, *views: str) -> bool:
        """Whether anything is wrong where these alone are views; where it is refused, nothing is known."""
        alone = replace(problem.case, views=views).problem(problem.dtype)
        alone.bounds  # noqa: B018  # with which the cotangent is drawn
        try:
            answer, _ = self.answer(alone)
        except Exception:  # whatever it is, it is no answer
            return False
        rows = judged(alone, answer, alone.reference(), self.who, self.version)
        return any(row.verdict == DEVIATES for row in rows)

    def could_not_be_judged(self, report: Report) -> None:
        """ValueError if every call raised the same, with where it did."""
        alike = lambda failure: re.sub(r"\d+(, \d+)*,?", "0", first_line(failure))  # but for numbers and shapes
        kinds = {(type(failure), alike(failure)) for failure in self.raised.values()}
        failure = next(iter(self.raised.values()))
        if len(kinds) == 1 and all(row.why.startswith(f"{type(failure).__name__}: ") for row in report.judgements):
            said = f'; it is given arrays of {self.native.name}, and framework="…" says which it takes'
            raise ValueError(
                f"{self.who} could not be judged: every call ends in {type(failure).__name__}: {first_line(failure)}"
                f"{place_of(failure, self.function)}{said if self.is_guessed else ''}"
            ) from failure

    def without_gradients(self, problem: Problem, reference: Answer, failure: Exception) -> list[Judgement]:
        """What is said of a call that failed: its failure, and where gradients failed alone, the output by itself."""
        case = problem.case
        row = failed("frameworks", case.name, self.who, self.version, problem.dtype, failure)
        if not case.gradients:
            return [row]
        alone = replace(case, gradients=()).problem(problem.dtype)
        try:
            answer, _ = self.answer(alone)
        except Exception:  # it was not the gradients
            return [row]
        of_output = judged(alone, answer, reference, self.who, self.version)
        return of_output if of_output[0].why else [*of_output, replace(row, quantity=GRADIENTS)]

    def of_items(self, dtype: str) -> "Asked":
        """The same, asked item by item with as many axes as make it right, or as it does not refuse."""
        ways = [self, self.turned(("out_in",))] if self.layer.name == "linear" else [self]
        found = []
        for way in ways:
            for axes in (None, 1, 2, 3, 0):
                other, report = way.changed(items=axes, raised={}, version=""), Report("", self.who, [])
                for case in other.offered(other.cases):
                    with contextlib.suppress(NotOfferedError):
                        other.judge_one(other.adapted(case), dtype, report, Counter())
                if report.judgements and report.holds:
                    return other
                found += [other] if report.judgements and not other.raised else []
        return [*found, self][0]

    def holds_with(self, few: list[Case], dtype: str, **way: Any) -> bool:
        """Whether the outputs of these cases would be right in another convention."""
        other = self.changed(**way, gradients=False, raised={})

        def holds() -> bool:
            report = Report("", self.who, [])
            for case in few:
                other.judge_one(other.adapted(case), dtype, report, Counter())
            return report.holds

        try:
            return self.apart(holds)
        except (NotOfferedError, ForeignError):
            return False

    def apart(self, call: Callable[[], Any]) -> Any:
        """call(), which asks what is none of the cases: in a process of its own if the function calls C."""
        if not self.is_foreign:
            return call()
        if self.native is not NUMPY:  # others have threads, without which their copy would wait for ever
            raise ForeignError(f"{self.who} calls C")
        return in_child(call)

    def known(self, case: Case) -> tuple[KnownDefect, ...]:
        """What is known of frameworks in a case: what stands in it, and on the page of the function's framework."""
        page = PAGES.get(self.native.name)
        return case.known_defects + (() if page is None else page.KNOWN)

    def known_of(
        self, known: Sequence[KnownDefect], problem: Problem, answer: Answer, rows: list[Judgement]
    ) -> dict[Key, str]:
        """What is known of the function's framework, of each row that deviates and has the numbers of that."""
        found = {}
        for row in rows if known else ():
            if row.verdict != DEVIATES or row.why:
                continue
            name, given = self.native.name, Given(problem, row.quantity, answer[row.quantity], row.dtype, self.version)
            own = [d for d in known if not isinstance(d, Convention)]
            own = [d for d in own if d.covers(name, row.dtype, row.quantity, row.case)]
            defect = explaining(own, given, self.vain)
            if defect is not None:
                says = f"known of {defect.framework}: {defect.why}; excused=({defect.issue!r},) excuses it"
                found[row.key] = says
        return found

    def answer(self, problem: Problem, call: Call | None = None) -> tuple[Answer, list[str]]:
        """The function's output and gradients in refnp's conventions, and what there is to say about them.

        Of an output of another shape there are no gradients, as no cotangent fits it.
        """
        call, form = call or self.call(problem), policy(problem.dtype)
        module = (
            None
            if self.inside is None
            else module_parameters.with_parameters(self.native, self.function, form.narrow or form.dtype, self.device)
        )
        if module is not None and self.items is not None:
            one, axes = module, self.items
            module = lambda values: module_parameters.over_items(one(values), axes)
        asked = call.asked(self.function, lambda x: self.native.array(x, self.device), module)
        changed: set[int] = set()
        asked = noting_changes(asked, changed) if self.native is NUMPY else asked
        wanted = [i for i, name in enumerate(call.names) if f"gradient of {name}" in problem.case.quantities]
        own_form = {name: problem.case.form(name, problem.dtype) for name in call.names}
        arrays = [own_form[name].typed(array) for name, array in zip(call.names, call.arrays, strict=True)]
        cotangent = form.typed(np.array(call.output.there(problem.cotangent), order="C")) if wanted else None
        try:
            question = Question(asked, arrays, cotangent, wanted, self.device)
            given = self.views_of(problem.case)
            views = {call.names.index(name) if name in call.names else name for name in given}
            if self.vjp is not None:
                output, gradients = self.by_vjp(call, question, views)
            else:
                output, gradients = run_on_views(self.native.run, question, views)
        except Exception as failure:
            if not isinstance(failure, NotOfferedError) and (why := self.misfit(call, failure)):
                raise NotOfferedError(why) from failure
            raise
        output, gradients = real(output), list(map(real, gradients))
        notes = [another_format(output, form)]
        notes += [another_format(g, own_form[call.names[i]]) for i, g in zip(wanted, gradients, strict=False)]
        notes += [f"{call.names[i]} is changed in place" for i in sorted(changed)]
        notes = [note for note in notes if note]
        if call.results > 1:
            notes.append(f"the first of {call.results} results is judged")
        answer = {"output": call.output.back(output)}
        if cotangent is not None and output.shape != cotangent.shape:
            if answer["output"].shape != problem.cotangent.shape:
                return answer, notes
            raise ValueError(f"shape {output.shape} comes back where {cotangent.shape} is right")
        for index, gradient in zip(wanted, gradients, strict=True):
            name = call.names[index]
            answer[f"gradient of {name}"] = call.turns.get(name, AS_IT_IS).back(gradient)
        return answer, notes

    def output(self, problem: Problem) -> Answer:
        """The function's output, and the gradients that are asked for, to a problem that is none of its cases."""
        other = self.changed(gradients=False, vjp=None) if problem.case.gradients == () else self
        with quiet():
            return self.apart(lambda: other.answer(problem)[0])

    def misfit(self, call: Call, failure: Exception) -> str:
        """Why the function cannot be asked this case; "" if there is no reason but its own failure.

        A module has parameters of other shapes than the case's, or a function that does not say what it takes does not
        take an option.
        """
        unexpected = re.search(r"unexpected keyword argument '(\w+)'", str(failure))
        if self.binding.parameters.names is None and isinstance(failure, TypeError) and unexpected:
            return f"{self.who} takes no {unexpected.group(1)}"
        for name, theirs in call.binding.inside.items():
            if name in call.names and call.arrays[call.names.index(name)].shape != (self.inside or {})[theirs]:
                return f"{self.who} was made for {theirs} of shape {(self.inside or {})[theirs]}"
        return ""

    def by_vjp(self, call: Call, asked: Question, views: Collection[int | str]) -> tuple[np.ndarray, list[np.ndarray]]:
        """By the function that claims the gradients; what is in `views`, by place or COTANGENT, is given as views."""
        assert self.vjp is not None
        convert, back = lambda x: self.native.array(x, self.device), self.native.numpy
        takes = Parameters.of(self.vjp).takes
        options = {name: value for name, value in call.converted(convert).items() if takes(name)}
        given = [view_of(x, convert) if i in views else convert(x) for i, x in enumerate(asked.arrays)]
        both = self.vjp(asked.function, *given, **options)
        call.answered = True  # whether or not by the function
        output, pullback = both
        if asked.cotangent is None or back(output).shape != asked.cotangent.shape:
            return back(output), []
        turned = COTANGENT in views
        bars = pullback(view_of(asked.cotangent, convert) if turned else convert(asked.cotangent))
        bars = bars if isinstance(bars, (tuple, list)) else (bars,)
        if len(bars) != len(call.arrays):
            raise ValueError(f"vjp: its pullback gives {len(bars)} gradients for {len(call.arrays)} arguments")
        zero = lambda i: np.zeros_like(call.arrays[i])
        return back(output), [zero(i) if bars[i] is None else back(bars[i]) for i in asked.wanted]

    def assumed(self) -> list[str]:
        """What the report says of the way the function is asked."""
        found = self.binding.assumed()
        if self.stated:
            values = in_precision(self.stated, "float32")
            found.append(f"computed with {', '.join(f'{name}={value!r}' for name, value in values.items())}")
        if named := [layout for layout in self.layouts if isinstance(layout, str)]:
            found.append(f"laid out as {', '.join(named)}")
        if self.items is not None:
            found.append(f"{self.who} is of one item of {self.items} axes, of which jax.vmap makes several")
        if self.inside is not None and not getattr(self.function, "training", True):
            found.append(f"{self.who} is in evaluation mode")
        masks = [n for n in self.binding.options if n.endswith("mask") and self.binding.takes(n)]
        if masks:
            meaning = {
                MASKS[0]: "True may attend",
                MASKS[1]: "True is hidden",
                MASKS[2]: "0 may attend, -inf is hidden",
            }[self.mask]
            found.append(f"{self.binding.places.get(masks[0], masks[0])}: {meaning}")
        return found


def place_of(failure: Exception, function: Any) -> str:
    """ " (line 4 of own.py, in softmax: return y.foo)": the innermost line in the file of the function, if any is."""
    frames = traceback.extract_tb(failure.__traceback__)
    code = getattr(inspect.unwrap(function), "__code__", None) or getattr(type(function).__call__, "__code__", None)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    if not own:
        return ""
    line = f": {own[-1].line}" if own[-1].line else ""
    return f" (line {own[-1].lineno} of {os.path.basename(own[-1].filename)}, in {own[-1].name}{line})"


def noting_changes(function: Callable, changed: set[int]) -> Callable:
    """The function, noting the places of arrays that hold other numbers after it than before."""

    def noted(*arrays: np.ndarray, **options: Any) -> Any:
        before = [*map(np.array, arrays)]
        found = function(*arrays, **options)
        same = [np.array_equal(*pair, equal_nan=True) for pair in zip(before, arrays, strict=True)]
        changed.update(i for i, is_same in enumerate(same) if not is_same)
        return found

    return noted


def beyond_range(problem: Problem) -> bool:
    """Whether a number of the case is infinite in the format that it is stored in, and finite in float64."""
    wide = problem.case.problem("float64").arrays
    return any((np.isinf(array) & np.isfinite(wide[name])).any() for name, array in problem.arrays.items())


def chosen(named: list[Case], only: str | None, skip: Sequence[str]) -> list[Case]:
    """The cases whose names match `only` and no pattern of `skip`; ValueError for a pattern that matches none."""
    for option, pattern in [("only", only), *(("skip", pattern) for pattern in skip)]:
        if not isinstance(pattern, str | None):
            raise ValueError(f"{option}={shown(pattern)} is {type(pattern).__name__}; pass one pattern, a string")
        if pattern is not None and not any(matches(c.name, pattern) for c in named):
            there = "; ".join(case.name for case in named)
            raise ValueError(f"{option}={shown(pattern)} matches no case; there are {there}")
    found = [case for case in named if only is None or matches(case.name, only)]
    found = [case for case in found if not any(matches(case.name, pattern) for pattern in skip)]
    if not found:
        raise ValueError(f"only={shown(only)}, skip={shown(tuple(skip))}: no case is left")
    return found


def excusing(known: Sequence[KnownDefect], excused: Sequence[str], who: str) -> tuple[KnownDefect, ...]:
    """The known defects that are excused, as those of this function, and every convention."""
    own = [d for d in known if isinstance(d, Convention) or any(names(e, d) for e in excused)]
    return tuple(replace(d, framework=who, of=d.of or d.framework) for d in own)


def names(issue: str, known: KnownDefect) -> bool:
    """Whether this is the known defect's name, its number in a longer name, or the framework that has it."""
    numbered = "#" in issue and re.search(re.escape(issue) + r"(?!\d)", known.issue) is not None
    return numbered or issue.lower() in (known.issue.lower(), known.framework.lower())


def real(result: Any) -> np.ndarray:
    """A result as an array of real numbers; TypeError for anything else."""
    array = np.asanyarray(result)
    if array.dtype.kind not in "fiubV":  # V: types of ml_dtypes
        raise TypeError(f"{array.dtype} is no type of real numbers")
    return array


def another_format(array: np.ndarray, form: Policy) -> str:
    """ "float64 comes back for float32"; "" for what comes in the format that it was asked for."""
    came = format_of(array)
    return "" if came == form.stored.name else f"{came} comes back for {form.stored.name}"


def name_of(function: Any) -> str:
    """What a function or a module is called."""
    name = getattr(function, "__name__", "") or getattr(getattr(function, "func", None), "__name__", "")
    return {"<lambda>": "the function", "": type(function).__name__}.get(name, name)
