"""Judge a function that is not refnp's: the cases of a layer, the function's answers, and what deviates, by its cause.

    report = refnp.judge("attention", my_attention)                      the framework is found out
    report = refnp.judge("layer_norm", my_layer_norm, gradients=True)    and its gradients, by the framework's autodiff
    report.holds;  print(report);  report.require();  report.rows

A case whose options the function does not take is skipped, and the report says so.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd.errors import closest, shown
from refnp.autograd.notation import is_number
from refnp.numbers.precision import policy
from refnp.verify import equations
from refnp.verify.asking import BROKEN, GRADIENTS, Asked, name_of, names
from refnp.verify.calling import defaults
from refnp.verify.case import Case
from refnp.verify.causes import SECONDS
from refnp.verify.conventions import OF_CHANNELS, changes, chosen_layouts, chosen_mask
from refnp.verify.every.asking import cases_of_every, precision_of, report_of_every
from refnp.verify.findings import Report, first_line
from refnp.verify.frameworks import PAGES, inspection, module_parameters
from refnp.verify.hints import family_of, hints
from refnp.verify.judge import matches
from refnp.verify.layer_names import axes_of_space, meaning, named_cases, with_kin
from refnp.verify.layers import cases_to_ask
from refnp.verify.made import made_cases, with_conventions
from refnp.verify.modules import is_plain, made_with, of_classes, statistics_of
from refnp.verify.parameters import Parameters
from refnp.verify.record import DTYPES
from refnp.verify.signatures import CALLED, Meant, as_refnp_writes, known, nearest, root, words
from refnp.verify.views import on_views

OF_AXES = r"too many indices|tuple index out of range|axis -?\d+ is out of bounds"  # what Python and NumPy say of them
FEW = 12  # cases, of which two are to hold in a layout
OF_MORE_AXES = ("BHND", "BNHD")  # layouts that give arrays of two axes those of batch and heads


def judge(
    name: Any,
    function: Callable,
    inputs: Any = None,
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
    dtypes: str | Sequence[str] = DTYPES,
    precision: str | None = None,
    formats: Mapping[str, str] | None = None,
    seconds: float | None = SECONDS,
    every: str | None = None,
    results: str | None = None,
) -> Report:
    """Is `function` right? It is asked on every case of the layer `name`, and each answer is held against its bound.

    name        a layer of refnp, "attention", or what others call it, "nn.LayerNorm"; `refnp judge --list` has them all
                or an equation in its place, a function of refnp's operations: lambda x, w: refnp.autograd.tanh(x @ w)
    function    of arrays of NumPy, PyTorch, JAX or another framework; or a module, whose parameters each case sets
    inputs      of an equation: a dict or sequence of arrays, a list of these, or a function of a generator
    gradients   also those of every argument, by the framework's own automatic differentiation, or by `vjp`
    vjp         vjp(function, *arrays) → (output, pullback), the form of `jax.vjp`; it is given the options it takes,
                and `function` has them already
    framework   "PyTorch", "torch", …, where it is not to be found out;  device  as the framework names it, "cuda:0"
    arguments   {refnp's name: the function's}, where they differ: {"query": "q", "causal": "is_causal"}
    options     values that the function computes with, in every case: {"eps": 1e-6}; it need not take them
    layout      "BHND", "BNHD" (attention, with four axes), "NBD" (tokens), "channels_last", "HWIO" (kernels),
                "out_in" (weights), or several of these
    mask        "true_may_attend" (default), "true_is_hidden", "additive"
    excused     known defects that the function may have, by their names ("pytorch/pytorch#101967") or the framework's
    only        a pattern of the names of cases;  skip  patterns of cases that are not asked
    dtypes      "float32", "float64", or one of them
    precision   in place of dtypes, where the function rounds: "bfloat16", "bfloat16 in and out, float32 inside", … as
                in docs/precision.md; it is given arrays of the stored format's type
    formats     of arguments that are stored in another format than that: {"gain": "float32"}
    seconds     of computing in which `report.causes` are looked for, 20 unless told; None for as long as it takes.
                When they are over, or at Ctrl-C, the report says what was found until then
    every       "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float32": in place of the cases all numbers of
                that format, for a function of single numbers; all pairs of 8 bits for one of two. float32 takes minutes
    results     a file that keeps what came of each part of float32: the next call goes on from there

    An argument reaches the parameter that is called like it, or as frameworks call it, else by its place. Cases that
    set what the function does not take are skipped, as are those in which it raises NotImplementedError; the report
    says so. Raises ValueError for names that do not exist, with the closest ones, and if there is nothing to judge.
    """
    if not callable(function) or inspect.isclass(function):
        what = "a class; pass an instance" if callable(function) else "no function"
        raise ValueError(f"function: {shown(function)} is {what}")
    if vjp is not None and not callable(vjp):
        raise ValueError(f"vjp: {shown(vjp)} is no function; it is vjp(function, *arrays) → (output, pullback)")
    with_gradients = gradients or vjp is not None
    if equations.is_equation(name):
        named, meant = equations.cases_of(name, inputs, gradients=with_gradients), Meant("")
    elif inputs is not None:
        raise ValueError("inputs: those of a layer are its cases; refnp.assert_close judges an answer to given inputs")
    else:
        named, meant = cases_for(name, function, framework, arguments or {})
    if seconds is not None and not (is_number(seconds) and seconds >= 0):
        raise ValueError(f"seconds: {shown(seconds)} is no number of seconds; None for as long as it takes")
    if every is not None:
        precision = precision_of(every, precision)
        named = cases_of_every(named[0].layer, named, every)
    dtypes = chosen_dtypes(dtypes) if precision is None else (policy(precision).name,)
    arguments, options = (mapping_of(*given) for given in (("arguments", arguments), ("options", options)))
    if not equations.is_equation(name) and with_gradients and named[0].layer.whole:
        raise ValueError(f"gradients: those of whole models have no bound; judge the output of {named[0].layer.name}")
    check_excused(excused)
    stated, own = split(named, dict(meant.options) | made(named, function, framework) | options, function, framework)
    classes = np.shape(stated.get("class_weights", 0))  # a weight for each, if there are any

    def fitted(cases: list[Case]) -> list[Case]:
        return with_options(of_classes(cases, *classes) if len(classes) == 1 else cases, stated)

    def made_for(takes: Callable[[str], bool]) -> list[Case]:
        if every is not None or equations.is_equation(name):
            return []
        own = [case for case in named if case.layer.name == named[0].layer.name]
        follow = suited(made_cases(own[0].layer, own, takes), meant, [named[0]], name, name_of(function))
        return fitted([*follow, *on_views(follow or own)])

    asked = Asked(
        function,
        fitted(named if equations.is_equation(name) else with_conventions(named)),
        made=made_for,
        only=only,
        skip=(skip,) if isinstance(skip, str) else skip,
        stated=stated,
        excused=excused,
        gradients=gradients or vjp is not None,
        vjp=vjp,
        framework=framework,
        device=device,
        arguments=arguments,
        formats=formats,
        layouts=chosen_layouts(layout, named) if layout is not None else meant.layouts,
        mask=chosen_mask(mask, named),
        order=meant.order,
        own=own,
    )
    if formats and precision is None:
        raise ValueError("formats: they are those of arguments beside a precision; give precision='bfloat16', say, too")
    if every is not None:
        report = report_of_every(asked, name, dtypes, every, results)
        report.seconds = seconds
        return report
    if equations.is_equation(name):
        return equations.completed(asked.report(named[0].layer.name, dtypes), name)
    if module_parameters.acts_on_one(function):
        asked = asked.of_items(dtypes[0])
    report = asked.report(name, dtypes)
    if not report.holds and layout is None and asked.inside and named[0].layer.name == "linear":
        turned = asked.turned(("out_in",))  # as modules keep it that are written like PyTorch's
        if (other := turned.report(name, dtypes)).holds:
            return other
    if not report.holds and layout is None:
        report = of_axes_taken(asked, report, name, dtypes)
    if not report.holds:
        report.hints = hints(asked, report)
    report.seconds = seconds
    return report


def chosen_dtypes(dtypes: str | Sequence[str]) -> tuple[str, ...]:
    """The precisions that are named; ValueError for one that does not exist, or for none."""
    chosen = (dtypes,) if isinstance(dtypes, str) else tuple(dtypes)
    if not chosen:
        raise ValueError(f"dtypes: none is named; name {', '.join(DTYPES)}")
    for dtype in chosen:
        if dtype not in DTYPES:
            raise ValueError(f"dtypes: there is no {shown(dtype)}; name {', '.join(DTYPES)}, or a precision=")
    return chosen


def mapping_of(option: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an option maps; ValueError for what is no mapping."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"{option}: {shown(given)} is no dict; write {{name: …}}")
    return dict(given or {})


def cases_for(
    name: str, function: Callable, framework: str | None, arguments: Mapping[str, str]
) -> tuple[list[Case], Meant]:
    """The cases that a function of that name is asked, and what its name and its framework say of it.

    A loss of other arguments than refnp's, such as a variance, is found by where the function is, by the names of
    `arguments`, or by those of its parameters; "kl_div of two log-probabilities" says itself which it is.
    """
    found = known(function)
    try:
        named, said = named_cases(name), meaning_of(name)
    except ValueError:
        if found is None:
            raise
        named, said = with_kin(found.layer), found
    layer = said.layer
    is_said = " of " in name and name == layer
    if found is not None:
        layer = found.layer if root(found.layer) == root(layer) and not is_said else layer
        options = {**said.options, **found.options}
        without = (*said.without, *found.without)
        said = Meant(layer, found.order or said.order, found.layouts or said.layouts, options, without)
    if not is_said and (found is None or layer != found.layer):
        parameters, inside = parameters_taken(function, framework)
        family = family_of(layer)
        layer = nearest(family, [*parameters, *inside], arguments if isinstance(arguments, Mapping) else ())
    if layer != named[0].layer.name:
        named = with_kin(layer)
    return suited(named, said, named, name, name_of(function)), said


def suited(cases: list[Case], said: Meant, known: list[Case], *names: str) -> list[Case]:
    """The cases that a name means, and of them those of so many axes of space as one of the names says.

    That is left alone where none of the cases that are `known` has so many.
    """
    cases = [case for case in cases if not any(matches(case.name, pattern) for pattern in said.without)]
    asked = [int(found.group(1)) for name in names if (found := re.search(r"([123])[dD]$", name))]
    has = [case for case in known if case.layer.name in OF_CHANNELS and axes_of_space(case) in asked[:1]]
    return [case for case in cases if axes_of_space(case) in asked[:1]] if has else cases


def meaning_of(name: str) -> Meant:
    """What a name means, that of a function of so many axes of space as well."""
    try:
        return meaning(name)
    except ValueError:
        return meaning(re.sub(r"_?[123][dD]$", "", name))


def parameters_taken(function: Callable, framework: str | None) -> tuple[list[str], list[str]]:
    """The names of a function's parameters, and of those that stand in a module."""
    native = inspection.named(framework) if framework else inspection.of_object(function)
    inside = None if native is None else module_parameters.parameters_of(native, function)
    if inside is None or native is None:
        return Parameters.of(function).names or [], []
    return Parameters.of(module_parameters.forward_of(native, function)).names or [], [
        *inside,
        *statistics_of(function),
    ]


def made(named: list[Case], function: Callable, framework: str | None) -> dict[str, Any]:
    """The options that a module was made with, or that a partial function has."""
    own = [case for case in named if case.layer.name == named[0].layer.name]
    options = dict.fromkeys(name for case in own for name in (*options_of(case), *case.options))
    if isinstance(function, functools.partial):
        given = {o: function.keywords[w] for o in options for w in words(o) if w in function.keywords}
        return {option: as_refnp_writes(option, value) for option, value in given.items() if is_plain(value)}
    native = inspection.named(framework) if framework else inspection.of_object(function)
    if native is None or native is inspection.REFNP or module_parameters.parameters_of(native, function) is None:
        return {}
    takes = Parameters.of(module_parameters.forward_of(native, function)).takes
    return made_with(function, list(options), takes)


def options_of(case: Case) -> list[str]:
    """The options of a layer's equation."""
    taken = inspect.signature(case.layer.equation).parameters.values()
    is_option = lambda p: p.kind is p.KEYWORD_ONLY or p.default not in (p.empty, None)
    return [p.name for p in taken if is_option(p) and p.name not in case.inputs]


def split(
    named: list[Case], options: dict[str, Any], function: Callable, framework: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the layer by refnp's names, and values for parameters of the function that are none of these."""
    known = {name for case in named for name in (*case.options, *defaults(case), *options_of(case))}
    parameters, _ = parameters_taken(function, framework)
    stated, own = {}, {}
    for name, value in options.items():
        layers = next((option for option in known if name in CALLED.get(option, ())), name)
        if name in known or (layers in known and layers not in parameters):
            stated[name if name in known else layers] = value
        elif name in parameters:
            own[name] = value
        else:
            raise ValueError(f"options: {named[0].layer.name} has no option {name!r}{closest(name, known)}")
    return stated, own


def with_options(named: list[Case], options: dict[str, Any]) -> list[Case]:
    """The cases with these options."""
    return [replace(case, options={**case.options, **options}) for case in named]


def check_excused(excused: Sequence[str]) -> None:
    """ValueError unless every name is that of a known defect."""
    if isinstance(excused, str):
        raise ValueError(f"excused: pass a sequence of names, ({excused!r},)")
    if not excused:  # all cases are many
        return
    known = [defect for case in cases_to_ask() for defect in (*case.known_defects, *case.layer.known)]
    known += [defect for page in PAGES.values() for defect in page.KNOWN]
    for issue in excused:
        if not any(names(issue, other) for other in known):
            there = closest(issue, {other.issue for other in known})
            raise ValueError(f"excused: no known defect is called {issue!r}{there}")


# Of how many axes a function takes its arrays, found out by trying where it raises an error for others


def is_mistake(failure: Exception) -> bool:
    """Whether an error is no refusal of so many axes, but a mistake inside of the function."""
    return isinstance(failure, BROKEN) and not re.search(OF_AXES, str(failure))


def of_axes_taken(asked: Asked, report: Report, name: str, dtypes: Sequence[str]) -> Report:
    """The report, or one in which the function is asked arrays of as many axes as it takes, if that can be found out.

    It can if the function raises for every case of some numbers of axes, and answers those of the others. In a layout
    with more axes it is asked all cases, where that makes some right for which it raised; else the others alone, and
    the report says what was left out.
    """
    raised = asked.raised
    axes_of = {problem.case.name: next(iter(problem.arrays.values())).ndim for problem in report.problems}
    taken = {axes for case, axes in axes_of.items() if case not in raised}
    answered = {row.case for row in report.deviations if row.quantity == GRADIENTS}
    if not raised or not taken or taken & {axes_of[case] for case in raised}:
        return report
    if raised.keys() & answered or any(map(is_mistake, raised.values())):
        return report
    few = [case for case in asked.cases if case.name in raised][:FEW]
    for layout in OF_MORE_AXES:
        if sum(changes(layout, case) and asked.holds_with([case], dtypes[0], layouts=(layout,)) for case in few) > 1:
            found = asked.changed(layouts=(layout,)).report(name, dtypes)
            found.assumed.append(f"laid out as {layout}, for it raises an error for arrays of other axes")
            return found
    failure = next(iter(raised.values()))
    why = f"{type(failure).__name__}: {first_line(failure)}"
    report.judgements = [row for row in report.judgements if row.case not in raised]
    report.problems = [problem for problem in report.problems if problem.case.name not in raised]
    listed = " or ".join(map(str, sorted(taken)))
    report.skipped[f"{asked.who} takes arrays of {listed} axes alone, and raises {why} for others"] = list(raised)
    report.__dict__.pop("causes", None)
    return report
