"""Judge a function that is not refnp's: the cases of a layer, the function's answers, and what deviates, by its cause.

    report = refnp.judge("attention", my_attention)                      the framework is found out
    report = refnp.judge("layer_norm", my_layer_norm, gradients=True)    and its gradients, by the framework's autodiff
    report.holds;  print(report);  report.require();  report.rows

A case whose options the function does not take is skipped, and the report says so.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refnp.verify.asking import Asked, hints, names
from refnp.verify.calling import defaults
from refnp.verify.case import Case
from refnp.verify.conventions import chosen_layouts, chosen_mask
from refnp.verify.findings import Report
from refnp.verify.frameworks import PAGES
from refnp.verify.layer_names import closest, named_cases
from refnp.verify.layers import cases
from refnp.verify.precision import policy
from refnp.verify.record import DTYPES


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
    dtypes: str | Sequence[str] = DTYPES,
    precision: str | None = None,
    formats: Mapping[str, str] | None = None,
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
    excused     known defects that the function may have, by their names ("pytorch/pytorch#101967") or the framework's
    only        a pattern of the names of cases;  skip  patterns of cases that are not asked
    dtypes      "float32", "float64", or one of them
    precision   in place of dtypes, where the function rounds: "bfloat16", "bfloat16 in and out, float32 inside", … as
                in docs/precision.md; it is given arrays of the stored format's type
    formats     of arguments that are stored in another format than that: {"gain": "float32"}

    An argument reaches the parameter that is called like it, or as frameworks call it, else by its place. Cases that
    set what the function does not take are skipped, as are those in which it raises NotImplementedError; the report
    says so. Raises ValueError for names that do not exist, with the closest ones, and if there is nothing to judge.
    """
    if not callable(function) or inspect.isclass(function):
        what = "a class; pass an instance" if callable(function) else "no function"
        raise ValueError(f"function: {function!r} is {what}")
    if vjp is not None and not callable(vjp):
        raise ValueError(f"vjp: {vjp!r} is no function; it is vjp(function, *arrays) → (output, pullback)")
    named = named_cases(name)
    dtypes = chosen_dtypes(dtypes) if precision is None else (policy(precision).name,)
    arguments, options = (mapping_of(*given) for given in (("arguments", arguments), ("options", options)))
    if (gradients or vjp is not None) and named[0].layer.whole:
        raise ValueError(f"gradients: those of whole models have no bound; judge the output of {named[0].layer.name}")
    check_excused(excused)
    asked = Asked(
        function,
        with_options(named, options),
        only=only,
        skip=(skip,) if isinstance(skip, str) else skip,
        stated=options,
        excused=excused,
        gradients=gradients or vjp is not None,
        vjp=vjp,
        framework=framework,
        device=device,
        arguments=arguments,
        formats=formats,
        layouts=chosen_layouts(layout, named),
        mask=chosen_mask(mask, named),
    )
    report = asked.report(name, dtypes)
    if not report.holds:
        report.hints = hints(asked, report)
    return report


def chosen_dtypes(dtypes: str | Sequence[str]) -> tuple[str, ...]:
    """The precisions that are named; ValueError for one that does not exist, or for none."""
    chosen = (dtypes,) if isinstance(dtypes, str) else tuple(dtypes)
    if not chosen:
        raise ValueError(f"dtypes: none is named; name {', '.join(DTYPES)}")
    for dtype in chosen:
        if dtype not in DTYPES:
            raise ValueError(f"dtypes: there is no {dtype!r}; name {', '.join(DTYPES)}, or a precision=")
    return chosen


def mapping_of(option: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an option maps; ValueError for what is no mapping."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"{option}: {given!r} is no dict; write {{name: …}}")
    return dict(given or {})


def with_options(named: list[Case], options: dict[str, Any]) -> list[Case]:
    """The cases with these options; ValueError for an option that the layer does not have."""
    known = {name for case in named for name in (*case.options, *defaults(case))}
    for name in options:
        if name not in known:
            raise ValueError(f"options: {named[0].layer.name} has no option {name!r}{closest(name, known)}")
    return [replace(case, options={**case.options, **options}) for case in named]


def check_excused(excused: Sequence[str]) -> None:
    """ValueError unless every name is that of a known defect."""
    if isinstance(excused, str):
        raise ValueError(f"excused: pass a sequence of names, ({excused!r},)")
    if not excused:  # all cases are many
        return
    known = [defect for case in cases() for defect in case.known_defects]
    known += [defect for page in PAGES.values() for defect in page.KNOWN]
    for issue in excused:
        if not any(names(issue, other) for other in known):
            there = closest(issue, {other.issue for other in known})
            raise ValueError(f"excused: no known defect is called {issue!r}{there}")
