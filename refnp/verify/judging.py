"""Judge a function that is not refnp's: the cases of a layer, the function's answers, and what deviates, by its cause.

    report = refnp.judge("attention", my_attention)                      the framework is found out
    report = refnp.judge("layer_norm", my_layer_norm, gradients=True)    and its gradients, by the framework's autodiff
    report.holds;  print(report);  report.require();  report.rows

A case whose options the function does not take is skipped, and the report says so.
"""

import contextlib
import copy
import inspect
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from refnp.verify.calling import (
    LAYOUTS,
    MASKS,
    Binding,
    Call,
    Parameters,
    adapted,
    call_of,
    chosen_layouts,
    chosen_mask,
    closest,
    defaults,
)
from refnp.verify.case import Answer, Case, Convention, KnownDefect, Layer, NotOfferedError, Problem
from refnp.verify.frameworks import PAGES, inspection
from refnp.verify.frameworks.native import NUMPY, Native
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, SKIPPED, WITHIN, Judgement, failed, judged, matches
from refnp.verify.layers import cases
from refnp.verify.mutants import Cause, causes
from refnp.verify.precision import policy
from refnp.verify.record import DTYPES
from refnp.verify.report import exactly, number, ratio_of
from refnp.verify.rounding import judging_precision

OTHER_NAMES = {  # what a layer is called elsewhere, or as a class of refnp, where no rule of spelling finds it
    "MultiHeadAttention": "multi_head",
    "EncoderDecoder": "transformer",
    "similarity_attention": "attention",
    "scaled_dot_product_attention": "attention",
    "dot_product_attention": "attention",
    "TransformerEncoderLayer": "encoder_layer",
    "TransformerDecoderLayer": "decoder_layer",
    "Dense": "linear",
    "swish": "silu",
    "conv": "convolution",
    "conv_transpose": "convolution_transpose",
    "avg_pool": "average_pool",
    "adaptive_avg_pool": "adaptive_average_pool",
    "nll_loss": "cross_entropy",
    "mse_loss": "mse",
    "huber_loss": "huber",
    "interpolate": "upsample",
}
SAID_BY_NAME = {"causal_attention": {"causal": True}}  # what a layer's name says, an option of the layer it is kin to
Key = tuple[str, str, str]  # the case, the precision and the quantity of a row
TRIED = 3  # cases, to see whether another convention makes them right
KIN = {"attention": ("softcap_attention", "window_attention", "causal_attention")}


@dataclass
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

    def __post_init__(self) -> None:
        self.problems = self.problems or [problem for problem, _ in self.answers]

    @property
    def holds(self) -> bool:
        """Whether nothing deviates."""
        return not self.deviations

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
        if not self.holds:
            raise AssertionError(str(self))
        return self

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


def judge(
    name: str,
    function: Callable,
    *,
    gradients: bool = False,
    vjp: Callable | None = None,
    framework: str | None = None,
    device: str | None = None,
    arguments: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    layout: str | Sequence[str] | None = None,
    mask: str | None = None,
    excused: Sequence[str] = (),
    only: str | None = None,
    skip: Sequence[str] = (),
    dtypes: Sequence[str] = DTYPES,
    precision: str | None = None,
) -> Report:
    """Is `function` right? It is asked on every case of the layer `name`, and each answer is held against its bound.

    name        a layer of refnp, "attention", or what others call it, "nn.LayerNorm"; `refnp judge --list` has them all
    function    of arrays of NumPy, PyTorch, JAX or another framework; or a module, whose parameters each case sets
    gradients   also those of every argument, by the framework's own automatic differentiation, or by `vjp`
    vjp         vjp(function, *arrays) → (output, pullback), the form of `jax.vjp`; it is given the options it takes
    framework   "PyTorch", "torch", …, where it is not to be found out;  device  as the framework names it, "cuda:0"
    arguments   {refnp's name: the function's}, where they differ: {"query": "q", "causal": "is_causal"}
    options     values that the function computes with, in every case: {"eps": 1e-6}; it need not take them
    layout      "BHND", "BNHD" (attention, with four axes), "NBD" (tokens), "channels_last", "HWIO" (kernels),
                "out_in" (weights), or several of these
    mask        "true_may_attend" (default), "true_is_hidden", "additive"
    excused     known defects by their names, such as "pytorch/pytorch#101967", that the function may have
    only        a pattern of the names of cases;  skip  patterns of cases that are not asked
    dtypes      "float32", "float64", or one of them
    precision   in place of dtypes, where the function rounds: "bfloat16", "bfloat16 in and out, float32 inside", … as
                in docs/precision.md; it is given arrays of the stored format's type

    An argument reaches the parameter that is called like it, or as frameworks call it, else by its place. Cases that
    set what the function does not take are skipped, as are those in which it raises NotImplementedError; the report
    says so. Raises ValueError for names that do not exist, with the closest ones, and if there is nothing to judge.
    """
    if not callable(function) or inspect.isclass(function):
        what = "a class; pass an instance" if callable(function) else "no function"
        raise ValueError(f"function: {function!r} is {what}")
    named = named_cases(name)
    if precision is not None:
        dtypes = (policy(precision).name,)
    for dtype in dtypes:
        if precision is None and dtype not in DTYPES:
            raise ValueError(f"dtypes: there is no {dtype!r}; name {', '.join(DTYPES)}")
    check_excused(excused)
    asked = Asked(
        function,
        with_options(named, dict(options or {})),
        only=only,
        skip=(skip,) if isinstance(skip, str) else skip,
        stated=dict(options or {}),
        excused=excused,
        gradients=gradients or vjp is not None,
        vjp=vjp,
        framework=framework,
        device=device,
        arguments=arguments,
        layouts=chosen_layouts(layout),
        mask=chosen_mask(mask),
    )
    report = asked.report(name, dtypes)
    if not report.holds:
        report.hints = hints(asked, report)
    return report


def hints(asked: "Asked", report: "Report") -> list[str]:
    """The conventions with which the first cases that deviate would hold, output alone."""
    deviating = list(dict.fromkeys(row.case for row in report.deviations if row.quantity == "output"))[:TRIED]
    if not deviating:
        return []
    few = [case for case in asked.cases if case.name in deviating]
    masks = [] if not any(name.endswith("mask") for case in few for name in case.options) else MASKS
    ways: list[dict[str, Any]] = [
        {"layouts": (*asked.layouts, layout)} for layout in LAYOUTS if layout not in asked.layouts
    ]
    ways += [{"mask": mask} for mask in masks if mask != asked.mask]
    found = []
    for way in ways:
        if "layouts" in way and not all(changes(way["layouts"][-1], case) for case in few):
            continue
        if asked.holds_with(few, report.judgements[0].dtype, **way):
            option = f"layout={way['layouts'][-1]!r}" if "layouts" in way else f"mask={way['mask']!r}"
            found.append(f"with {option} the output is right in {'; '.join(deviating)}")
    return found


def changes(layout: str, case: Case) -> bool:
    """Whether a layout changes anything of a case."""
    return bool(LAYOUTS[layout](case, {name: array.ndim for name, array in case.problem("float64").arrays.items()}))


def chosen(named: list[Case], only: str | None, skip: Sequence[str]) -> list[Case]:
    """The cases whose names match `only` and no pattern of `skip`; ValueError for a pattern that matches none."""
    for option, pattern in [("only", only), *(("skip", pattern) for pattern in skip)]:
        if pattern is not None and not any(matches(case.name, pattern) for case in named):
            there = "; ".join(case.name for case in named)
            raise ValueError(f"{option}={pattern!r} matches no case; there are {there}")
    found = [case for case in named if only is None or matches(case.name, only)]
    found = [case for case in found if not any(matches(case.name, pattern) for pattern in skip)]
    if not found:
        raise ValueError(f"only={only!r}, skip={tuple(skip)!r}: no case is left")
    return found


def with_options(named: list[Case], options: dict[str, Any]) -> list[Case]:
    """The cases with these options; ValueError for an option that the layer does not have."""
    known = {name for case in named for name in (*case.options, *defaults(case))}
    for name in options:
        if name not in known:
            raise ValueError(f"options: {named[0].layer.name} has no option {name!r}{closest(name, known)}")
    return [replace(case, options={**case.options, **options}) for case in named]


def excusing(known: Sequence[KnownDefect], excused: Sequence[str], who: str) -> tuple[KnownDefect, ...]:
    """The known defects that are excused, as those of this function, and every convention."""
    own = [d for d in known if isinstance(d, Convention) or any(names(e, d.issue) for e in excused)]
    return tuple(replace(d, framework=who) for d in own)


def names(issue: str, known: str) -> bool:
    """Whether an issue is the known one, or its number: "pytorch/pytorch#101967" in a longer name."""
    return issue == known or ("#" in issue and re.search(re.escape(issue) + r"(?!\d)", known) is not None)


def check_excused(excused: Sequence[str]) -> None:
    """ValueError unless every name is that of a known defect."""
    if isinstance(excused, str):
        raise ValueError(f"excused: pass a sequence of names, ({excused!r},)")
    known = {defect.issue for case in cases() for defect in case.known_defects}
    known |= {defect.issue for page in PAGES.values() for defect in page.KNOWN}
    for issue in excused:
        if not any(names(issue, other) for other in known):
            raise ValueError(f"excused: no known defect is called {issue!r}{closest(issue, known)}")


# Names


def beyond_range(problem: Problem) -> bool:
    """Whether a number of the case is infinite in the format that it is stored in, and finite in float64."""
    wide = problem.case.problem("float64").arrays
    return any((np.isinf(array) & np.isfinite(wide[name])).any() for name, array in problem.arrays.items())


def named_cases(name: str) -> list[Case]:
    """The cases of the layer that is called so by refnp or by a framework; ValueError with the closest names.

    "conv2d", "MaxPool1d" and the like name the cases of that many axes of space.
    """
    every = cases()
    layers = {case.layer.name: case.layer for case in reversed(every)}
    if of_space := re.fullmatch(r"(.*?)_?([123])[dD]", name):
        layer = layers[layer_name(of_space.group(1), layers)]
        own = [case for case in every if case.layer is layer and axes_of_space(case) == int(of_space.group(2))]
        if own:
            return own
    layer = layers[layer_name(name, layers)]
    kin = [other.name for other in layers.values() if are_kin(layer, other, every)]
    return [case for case in every if case.layer.name == layer.name] + [
        case for case in every if case.layer.name in kin and case.layer.name != layer.name
    ]


def layer_name(name: str, layers: Mapping[str, Layer]) -> str:
    """The layer's own name, from any of its names."""
    if name in layers:
        return name
    spelled = {plain(other): other for other in layers}
    spelled |= {plain(other): layer for other, layer in OTHER_NAMES.items() if layer in layers}
    for layer in layers.values():
        for theirs in (layer.torch, layer.jax):
            if isinstance(theirs, str):
                spelled.setdefault(plain(theirs.rpartition(".")[2]), layer.name)
    word = name.rpartition(".")[2]
    if plain(word) in spelled:
        return spelled[plain(word)]
    if covered := [layer.name for layer in list(layers.values())[::-1] if word in layer.names]:
        raise ValueError(f"name={name!r} is judged by its parts; name {' or '.join(map(repr, covered))}")
    raise ValueError(f"name={name!r}: there is no such layer{closest(name, [*layers, *OTHER_NAMES])}")


def plain(name: str) -> str:
    """LayerNorm, layer_norm, layernorm → layernorm."""
    return "".join(c for c in name.lower() if c.isalnum())


def axes_of_space(case: Case) -> int:
    """Of a convolution, a pool or a norm of channels; a norm without any counts as one of signals."""
    arrays = case.problem("float64").arrays
    kernel = arrays.get("weight", arrays.get("x"))
    return 0 if kernel is None else max(kernel.ndim - 2, 1)


def are_kin(layer: Layer, other: Layer, every: Iterable[Case]) -> bool:
    """Whether a function of one layer can be asked the cases of the other: the same function of refnp and arguments."""
    if other.name in KIN.get(layer.name, ()):
        return True
    first = next(case for case in every if case.layer.name == layer.name)
    second = next(case for case in every if case.layer.name == other.name)
    return layer.function is other.function and required_inputs(first) == required_inputs(second)


def required_inputs(case: Case) -> list[str]:
    """The names of the inputs, without an additive bias, which a case may leave out."""
    return [name for name in case.inputs if name != "bias"]


# The function, asked


class Asked:
    """A function and how it is asked: its framework, which of its parameters is which argument, and conventions."""

    def __init__(
        self,
        function: Callable,
        named: list[Case],
        *,
        only: str | None,
        skip: Sequence[str],
        stated: Mapping[str, Any],
        excused: Sequence[str],
        gradients: bool,
        vjp: Callable | None,
        framework: str | None,
        device: str | None,
        arguments: Mapping[str, str] | None,
        layouts: Sequence[str],
        mask: str,
    ):
        self.who = name_of(function)
        self.excused = excused
        self.layer = named[0].layer
        self.function, self.cases, self.vjp, self.device = function, named, vjp, device
        self.gradients, self.layouts, self.mask, self.stated = gradients, layouts, mask, stated
        guess = inspection.named(framework) if framework else inspection.of_object(function)
        inside = None if guess is None else inspection.parameters_of(guess, function)
        taken = function if inside is None or guess is None else inspection.forward_of(guess, function)
        self.inside = inside
        also = [
            name
            for case in named
            if case.layer.name != self.layer.name
            for name in SAID_BY_NAME.get(case.layer.name, ())
        ]
        self.binding = Binding(self.who, taken, named, arguments, inside, stated, also)
        self.cases = chosen(self.cases, only, skip)
        self.native = guess or inspection.found_out(function, self.attempt)
        if device is not None:
            self.check_device(device)
        if gradients and vjp is None and self.native is NUMPY:
            self.native = self.differentiable()

    def check_device(self, device: str) -> None:
        """ValueError unless the framework can put arrays on it."""
        try:
            self.native.array(np.zeros(1, np.float32), device)
        except Exception as wrong:  # as each framework says it
            raise ValueError(f"device={device!r}: {self.native.name}: {first_line(wrong)}") from wrong

    def differentiable(self) -> Native:
        """refnp's autodiff, if the function computes with Tensors as well; ValueError otherwise."""
        try:
            if inspection.REFNP.owns(self.attempt(inspection.TENSORS)):
                return inspection.REFNP
        except Exception:  # it does not
            pass
        raise ValueError(
            f"gradients: {self.who} computes with NumPy, which differentiates nothing; give its gradient as "
            "vjp(function, *arrays) → (output, pullback), or write it with operations of refnp.autograd"
        )

    def attempt(self, native: Native) -> Any:
        """What the function makes of the first case that it can be asked, as it comes."""
        for case in self.cases:
            try:
                own = self.adapted(case)
            except NotOfferedError:
                continue
            problem = own.problem("float32")
            call = self.call(problem)
            with quiet():
                convert = lambda x: native.array(x, self.device)
                return call.asked(self.function, convert, None)(*map(convert, call.arrays))
        raise NotOfferedError("no case")

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
        self.version = inspection.version_of(self.native)
        about = f"{self.who}, {self.version}, {' and '.join(dtypes)}, against {judging_precision()}"
        report = Report(name, self.who, [], assumed=self.assumed(), about=about)
        notes: Counter[str] = Counter()
        for case in self.cases:
            try:
                own = self.adapted(case)
                for dtype in dtypes:
                    self.judge_one(own, dtype, report, notes)
            except NotOfferedError as reason:
                report.skipped.setdefault(str(reason), []).append(case.name)
        if not report.judgements:
            why = "; ".join(f"{reason} ({len(names)} cases)" for reason, names in report.skipped.items())
            raise ValueError(
                f"{self.who} can be judged on no case of {name}: {why}. options={{…: …}} says what it computes with, "
                "arguments={…: …} what it calls an argument"
            )
        report.assumed += [f"{note}, {count} times" for note, count in notes.items()]
        return report

    def judge_one(self, case: Case, dtype: str, report: Report, notes: Counter) -> None:
        """One case in one precision; NotOfferedError if it cannot be asked."""
        with quiet():
            problem = replace(case, known_defects=()).problem(dtype)
            if policy(dtype).narrow and beyond_range(problem):
                raise NotOfferedError(f"some of its numbers are beyond the range of {policy(dtype).narrow}")
            try:
                reference = problem.reference()
                problem.bounds  # noqa: B018  # computed here, where an option that refnp refuses shows
            except (ValueError, TypeError) as wrong:
                raise NotOfferedError(f"refnp cannot compute it with these options: {first_line(wrong)}") from wrong
            try:
                answer, note = self.answer(problem)
            except NotImplementedError as reason:
                raise NotOfferedError(f"NotImplementedError: {first_line(reason)}") from reason
            except NotOfferedError:
                raise
            except Exception as failure:  # whatever it is, it is no answer
                if any(isinstance(value, list) for value in case.options.values()):
                    raise NotOfferedError(f"{self.who} does not take options as refnp writes them") from failure
                report.judgements += self.without_gradients(problem, reference, failure)
                report.problems.append(problem)
                return
            known = excusing(self.known(case), self.excused, self.who)
            found = judged(problem, answer, reference, self.who, self.version, known=known)
            report.judgements += found
            report.known |= self.known_of(case, found)
            report.answers.append((problem, answer))
            report.problems.append(problem)
            notes.update(note)

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
        return of_output if of_output[0].why else [*of_output, replace(row, quantity="gradients")]

    def holds_with(self, few: list[Case], dtype: str, **way: Any) -> bool:
        """Whether the outputs of these cases would be right in another convention."""
        other = copy.copy(self)
        other.__dict__.update(way, gradients=False)
        try:
            report = Report("", self.who, [])
            for case in few:
                other.judge_one(other.adapted(case), dtype, report, Counter())
        except NotOfferedError:
            return False
        return report.holds

    def known(self, case: Case) -> tuple[KnownDefect, ...]:
        """What is known of frameworks in a case: what stands in it, and on the page of the function's framework."""
        page = PAGES.get(self.native.name)
        return case.known_defects + (() if page is None else page.KNOWN)

    def known_of(self, case: Case, rows: list[Judgement]) -> dict[Key, str]:
        """What is known of the function's framework where a row deviates."""
        found = {}
        for row in rows:
            for defect in self.known(case) if row.verdict == DEVIATES else ():
                if not isinstance(defect, Convention) and defect.covers(
                    self.native.name, row.dtype, row.quantity, case.name
                ):
                    says = f"known of {defect.framework}: {defect.why}; excused=({defect.issue!r},) excuses it"
                    found[row.case, row.dtype, row.quantity] = says
        return found

    def answer(self, problem: Problem) -> tuple[Answer, list[str]]:
        """The function's output and gradients in refnp's conventions, and what there is to say about them."""
        call, form = self.call(problem), policy(problem.dtype)
        module = (
            None
            if self.inside is None
            else inspection.with_parameters(self.native, self.function, form.narrow or form.dtype, self.device)
        )
        asked = call.asked(self.function, lambda x: self.native.array(x, self.device), module)
        wanted = [i for i, name in enumerate(call.names) if f"gradient of {name}" in problem.case.quantities]
        arrays = list(map(form.typed, call.arrays))
        cotangent = form.typed(np.array(call.output.there(problem.cotangent), order="C")) if wanted else None
        try:
            if self.vjp is None:
                output, gradients = self.native.run(asked, arrays, cotangent, wanted, self.device)
            else:
                output, gradients = self.by_vjp(call, asked, cotangent, wanted)
        except Exception as failure:
            if not isinstance(failure, NotOfferedError) and (why := self.misfit(call, failure)):
                raise NotOfferedError(why) from failure
            raise
        another = not form.narrow and output.dtype != form.dtype
        notes = [f"{output.dtype} comes back for {form.dtype}"] if another else []
        if call.results > 1:
            notes.append(f"the first of {call.results} results is judged")
        answer = {"output": call.output.back(np.asarray(output))}
        for index, gradient in zip(wanted, gradients, strict=True):
            name = call.names[index]
            turned = call.turns[name].back(np.asarray(gradient)) if name in call.turns else np.asarray(gradient)
            answer[f"gradient of {name}"] = turned
        return answer, notes

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

    def by_vjp(
        self, call: Call, asked: Callable, cotangent: np.ndarray | None, wanted: Sequence[int]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """By the function that claims the gradients."""
        assert self.vjp is not None
        convert, back = lambda x: self.native.array(x, self.device), self.native.numpy
        takes = Parameters.of(self.vjp).takes
        options = {name: value for name, value in call.converted(convert).items() if takes(name)}
        output, pullback = self.vjp(asked, *map(convert, call.arrays), **options)
        if cotangent is None:
            return back(output), []
        bars = pullback(convert(cotangent))
        bars = bars if isinstance(bars, (tuple, list)) else (bars,)
        if len(bars) != len(call.arrays):
            raise ValueError(f"vjp: its pullback gives {len(bars)} gradients for {len(call.arrays)} arguments")
        zero = lambda i: np.zeros_like(call.arrays[i])
        return back(output), [zero(i) if bars[i] is None else back(bars[i]) for i in wanted]

    def assumed(self) -> list[str]:
        """What the report says of the way the function is asked."""
        found = self.binding.assumed()
        if self.stated:
            found.append(f"computed with {', '.join(f'{name}={value!r}' for name, value in self.stated.items())}")
        masks = [n for n in self.binding.options if n.endswith("mask") and self.binding.takes(n)]
        if masks:
            meaning = {
                MASKS[0]: "True may attend",
                MASKS[1]: "True is hidden",
                MASKS[2]: "0 may attend, -inf is hidden",
            }[self.mask]
            found.append(f"{self.binding.places.get(masks[0], masks[0])}: {meaning}")
        return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Warnings off: many inputs are meant to overflow."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def name_of(function: Any) -> str:
    """What a function or a module is called."""
    name = getattr(function, "__name__", "") or getattr(getattr(function, "func", None), "__name__", "")
    return {"<lambda>": "the function", "": type(function).__name__}.get(name, name)


def first_line(wrong: BaseException) -> str:
    """The first line of an exception's message."""
    return (str(wrong).splitlines() or [type(wrong).__name__])[0]


# Causes and text


def causes_of(report: Report) -> list[Cause]:
    """The rows that deviate, grouped: what was wrong before there were numbers, known mistakes, known defects."""
    rows = {key_of(row): row for row in report.deviations}
    failures = grouped({key: row.why for key, row in rows.items() if row.why}, rows)
    with quiet():
        found = causes(report.answers, [row for row in rows.values() if not row.why])
    left = {key: report.known[key] for cause in found if not cause.says for key in cause.rows if key in report.known}
    named = []
    for cause in found:
        own = tuple(key for key in cause.rows if key not in left)
        says = f"as if {cause.says}" if cause.says else ""
        known = {report.known.get(key, "") for key in own}
        if says and len(known) == 1 and "" not in known:
            if known & set(left.values()):  # the same elsewhere, where no mistake fits: then it is that
                left |= {key: report.known[key] for key in own}
                continue
            says += f"; {known.pop()}"
        if own == cause.rows:
            named.append(replace(cause, says=says))
        elif own:
            named.append(Cause("", own, max(ratio_of(rows[key]) for key in own), math.nan))
    everything = [*failures, *named, *grouped(left, rows)]
    return sorted(everything, key=lambda cause: (not cause.says, -len(cause.rows)))


def grouped(says: Mapping[Key, str], rows: Mapping[Key, Judgement]) -> list[Cause]:
    """A cause for each thing that is said of rows, whatever numbers are in it."""
    groups: dict[str, list[Key]] = {}
    for key, text in says.items():
        groups.setdefault(re.sub(r"\d+", "0", text), []).append(key)
    worst = lambda keys: max(ratio_of(rows[key]) for key in keys)
    return [Cause(says[keys[0]], tuple(keys), worst(keys), math.nan) for keys in groups.values()]


def key_of(row: Judgement) -> Key:
    """What names a row in a report."""
    return row.case, row.dtype, row.quantity


def text_of(report: Report) -> str:
    """The verdict in a line, a paragraph for each cause, then what was skipped and assumed."""
    lines = [headline(report), f"judged: {report.about}"]
    for index, cause in enumerate(report.causes, 1):
        lines += ["", *paragraph(report, index, cause)]
    lines.append("")
    lines += [f"hint: {hint}" for hint in report.hints]
    lines += [*excused_lines(report), *skipped_lines(report), *(f"assumed: {what}" for what in report.assumed)]
    return "\n".join(lines).rstrip()


def excused_lines(report: Report) -> list[str]:
    """Each known defect that is excused and each convention that another function follows, in a line."""
    counts = Counter((r.verdict, r.issue, r.why) for r in report.judgements if r.verdict in (KNOWN, CONVENTION))
    return [f"{verdict}: {issue}, {plural(n, 'row')}: {why}" for (verdict, issue, why), n in counts.items()]


def skipped_lines(report: Report) -> list[str]:
    """Why cases were skipped: options that the function does not take in one line, other reasons each in its own."""
    reasons = {why: list(names) for why, names in report.skipped.items()}
    for row in report.judgements:
        if row.verdict == SKIPPED and row.case not in reasons.setdefault(row.why, []):
            reasons[row.why].append(row.case)
    start = f"{report.who} takes no "
    options = {why.removeprefix(start): len(reasons.pop(why)) for why in list(reasons) if why.startswith(start)}
    lines = [f"skipped: {plural(len(n), 'case')}, {why}: {'; '.join(shortened(n))}" for why, n in reasons.items()]
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
        return f"{report.name} holds: {within} within bound, the worst {number(worst)} of it{rest}"
    worst = max(map(ratio_of, report.deviations))
    size = "no number at all" if math.isinf(worst) else f"{number(worst)} times its bound"
    count = f"{verdicts[DEVIATES]} of {plural(verdicts.total() - verdicts[SKIPPED], 'row')}"
    deviate = "deviates" if verdicts[DEVIATES] == 1 else "deviate"
    return f"{report.name} does not hold: {count} {deviate}{rest}, the worst {size}"


def paragraph(report: Report, index: int, cause: Cause) -> list[str]:
    """A cause with one row worked out: what came, what is right, and how to have the inputs."""
    rows = [row for row in report.deviations if key_of(row) in cause.rows]
    names = list(dict.fromkeys(row.case for row in rows))
    says = cause.says or "no known mistake fits"
    says += "".join(f", or {other}" for other in cause.others)
    if not math.isnan(cause.after) and cause.says:
        says += f" (error over bound falls from {number(cause.before)} to {number(cause.after)})"
    says += f", {cause.pattern}" if cause.pattern else ""
    row = max(rows, key=ratio_of)
    example = f"{row.case}, {row.dtype}, {row.quantity}"
    if not (math.isnan(row.claimed) and math.isnan(row.right)):
        claimed, right = exactly(row.claimed, row.right)
        example += f": {claimed} where {right} is right"
    if math.isfinite(row.error_over_bound):
        example += f", {number(row.error_over_bound)} times its bound"
    lines = [f"{index}. {says}: {plural(len(rows), 'row')} of {plural(len(names), 'case')}", f"   {example}"]
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
