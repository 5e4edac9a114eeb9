"""The search: many inputs, many elements, one verdict.

    verdict = search(equivariant(f, Permute("x", -2), Permute(axis=-2)), draw, sizes={"n": range(8)})
    print(verdict)                  holds, fails with a counter-example, or undecided, and in which exact sense
    verdict.require()               raises unless it holds; so does `assert verdict`

For every input that is drawn all elements of the group are tried if there are at most 120, and otherwise its generators
and three that are drawn; for those on which structure is imposed (structure.py) a few of them. The first violation ends
the search and is made as simple as possible (shrink.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import ArrayLike
from refnp.progress import Progress
from refnp.symmetry.actions import Arrays, Element
from refnp.symmetry.claim import Claim, cast, check_functions, dtype_name
from refnp.symmetry.inputs import KINDS, Domain, Draw, Input, Scales, Sizes
from refnp.symmetry.judge import Bound
from refnp.symmetry.neighbours import Neighbours
from refnp.symmetry.proving import is_of_sizes, prove
from refnp.symmetry.shrink import SCALES, SIMPLIFIED
from refnp.symmetry.trials import Trials, dtype_of, scope
from refnp.symmetry.verdict import Counts, Verdict


def search(
    claim: Claim,
    draw: Draw,
    *,
    sizes: Sizes | None = None,
    dtypes: Sequence[DTypeLike] = (np.float64, np.float32),
    scales: Scales | None = None,
    where: Callable[..., ArrayLike] | None = None,
    bound: Bound | None = None,
    inner_precision: str | None = None,
    digits: float | None = None,
    structures: Sequence[str] = KINDS,
    count: int = 80,
    simplify: int = 1000,
    seed: int = 0,
    shapes: str | None = None,
) -> Verdict:
    """Look for an input and an element that contradict `claim`; the same call gives the same verdict.

    draw      (rng, **sizes) → dict of arrays, the arguments of f; None for one that is left out
    sizes     name → the values it may have, range(9) for example; 0 and 1 belong there if f allows them
    dtypes    of the inputs, in turn
    scales    what real inputs are multiplied by, each array by its own: 1, 2⁻¹⁰ and 2¹⁰, but for what all draws have
              in common; a mapping from names scales only those; (1,) leaves inputs as they are drawn
    where     (**inputs) → whether the claim is made about these inputs: `where=lambda x: x > 0`. What all draws have in
              common (symmetric, rows of sum 1, sorted, one sign, a mask that matches …) need not be said: it is kept
    bound     (inputs, g, dtype) → what f(g·x) and g·f(x) may differ by: a number, an array that broadcasts to every
              output, or a mapping of these by output; by default the rounding error is estimated (judge.py)
    inner_precision  the coarsest precision in which f computes inside, whatever it takes and gives: "float64",
              "float32", "tfloat32", "float16" or "bfloat16"; its rounding is allowed for, and what is larger is a
              violation. By default a discrepancy that such a precision could leave is "undecided", unless f is seen
              not to compute in it, which takes about half of the time; "longdouble" says that f computes in the
              precision of its inputs throughout
    digits    a violation of 10^−digits of the output must be visible in at least half of the pairs, or the verdict is
              "undecided"; by default 9, or as many as 100 roundings leave: 5.2 in float32
    structures  kinds of structure that are imposed on two of three inputs, such as "a repeated item" or "zeros"; all
              are in `refnp.symmetry.inputs.KINDS`. () leaves every input as it is drawn
    count     how many inputs, besides those with each kind of structure at the two smallest sizes
    simplify  how many inputs may be tried to make a counter-example simpler; with 0 it is given as it was found
    seed      of everything that is drawn
    shapes    of the arguments, "x (n, d)": with them a proof for every size is tried first (`prove`). A claim that is
              not proved is searched, and its verdict says what is missing; so is one that is proved if something is
              true of its numbers, which those that are drawn need not be: it is proved only if the search finds it to
              hold

    Raises ValueError for no input, an unknown precision, a negative `simplify`, actions that do not fit the arrays, or
    if f gives arrays whose shapes depend on numbers; TypeError for a `draw` that is no function, takes other sizes or
    gives no dict of arrays of numbers, or if f gives something that is no array; whatever `draw` and `where` raise.
    """
    check_functions("search", draw=draw, where=where)
    if count < 1 or not dtypes:
        raise ValueError(f"search: count is {count} and dtypes {dtypes}; there must be something to try")
    if simplify < 0:
        raise ValueError(f"search: simplify is {simplify}; it must be 0, for the counter-example as found, or more")
    for name, values in (sizes or {}).items():
        if not isinstance(values, Iterable):
            raise TypeError(f"search: sizes[{name!r}] is {values!r}; give the values to try, such as range(6)")
    proof = None if shapes is None else prove(claim, shapes)
    proved = None
    if proof is not None and proof.proved:
        assumed = "; ".join(proof.assumptions)
        proved = Verdict("proved", str(claim), f"{proof.sizes}, {shapes}", assumed, Counts(), 0.0, {}, 0.0)
        if all(is_of_sizes(assumption, proof.shapes) for assumption in proof.assumptions):
            return proved
    types = [np.dtype(dtype) for dtype in dtypes]
    if unknown := [kind for kind in structures if kind not in KINDS]:
        raise ValueError(f"search: there is no structure {unknown[0]!r}; there are {', '.join(KINDS)}")
    domain = Domain(draw, sizes or {}, _both(where, claim.where), structures, claim.action)
    learns = bool(structures) or scales is None or simplify > 0
    domain = domain.learned(seed, (1.0,) if scales is None else scales) if learns else domain
    scaled = SCALES if scales is None else scales
    trials = Trials(claim, domain, bound, inner_precision, digits, seed)
    violation = None
    with Progress() as progress:
        for i, x in enumerate(domain.inputs(types, scaled, count, seed, trials.moves)):
            violation = trials.violation(x)
            progress.show(f"{i + 1} of {count} inputs, {trials.counts['pairs']} pairs")
            if violation or trials.not_repeatable:
                break
        told = lambda budget: progress.show(f"a counter-example; {budget} more inputs to make it simpler")
        counterexample = None if violation is None else trials.counterexample(violation, simplify, told)
    sense = scope(trials, types, scaled, seed)
    if proved is not None:
        sense += f"; proved for {proved.sense}, if {proved.reason}"
    elif proof is not None:
        sense += f"; not proved: {proof.missing}"
    if violation is None or counterexample is None:
        found = trials.verdict(sense, counterexample)
        return found if proved is None or not found.holds else replace(proved, counts=found.counts)
    options = {"bound": bound, "inner_precision": inner_precision, "digits": digits, "seed": seed}
    printed = Input(counterexample.sizes, violation.input.dtype, {}, counterexample.inputs, SIMPLIFIED)
    refuting = ((violation.input, violation.element), (printed, counterexample.element))
    near = Neighbours(claim, domain, refuting, types, scaled, count, options)
    return trials.verdict(sense, counterexample, near)


def _both(
    where: Callable[..., ArrayLike] | None, other: Callable[..., ArrayLike] | None
) -> Callable[..., ArrayLike] | None:
    """The inputs that both allow."""
    if where is None or other is None:
        return where or other
    return lambda **inputs: bool(np.all(where(**inputs))) and bool(np.all(other(**inputs)))


def check(
    claim: Claim,
    inputs: Arrays,
    g: Element,
    *,
    bound: Bound | None = None,
    inner_precision: str | None = None,
    digits: float | None = None,
    seed: int = 0,
) -> Verdict:
    """The verdict on `claim` at one pair, these inputs and this element, by the same rule as in `search`.

        check(equivariant(f, Permute("x", 0), Permute(axis=0)), {"x": array}, (1, 0, 2)).require()

    `bound`, `inner_precision` and `digits` are those of `search`, `seed` that of the perturbations from which rounding
    errors are estimated. Inputs are rounded to the coarser of the two precisions that are compared, so that both have
    the same numbers: to float32 where f has float32 and float64. The counter-example shows what was computed with.

    Raises ValueError for what is no element, for one that cannot act on these inputs, and for inputs that the claim is
    not about; TypeError if f gives something that is no array.
    """
    claim.action.refuse_others(g)
    if not claim.action.fits(g, inputs):
        raise ValueError(
            f"check: {claim.action.describe(g)} cannot act on these inputs; the claim is about {claim.action}"
        )
    if claim.where is not None and not np.all(claim.where(**inputs)):
        raise ValueError("check: the claim is not about these inputs; its where= is False for them")
    dtype = dtype_of(inputs)
    trials = Trials(claim, Domain(lambda rng: inputs, {}), bound, inner_precision, digits, seed)
    violation = trials.violation(Input({}, dtype, {}, cast(inputs, dtype)), [g])
    counterexample = None if violation is None else trials.counterexample(violation, simplify=0)
    return trials.verdict(f"one pair: {claim.action.describe(g)}; {dtype_name(dtype)}", counterexample)
