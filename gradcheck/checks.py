"""`check` a gradient, or `compare` it and read the report: the two functions this package is for.

    from gradcheck import check
    check(softmax, (x,), vjp=refnp.autograd.vjp)                     # raises GradientError unless 12 digits agree

The gradient is claimed in one form, that of `jax.vjp` and `torch.func.vjp`:

    vjp(f, *args) → (value, pullback)        pullback(cotangent) → tuple of gradients, one for each argument

Any library fits, with an adapter of a few lines; f is evaluated on NumPy arrays and its results go through np.asarray:

    def torch_f(x, w):                                               # the function, on arrays
        return torch_layer(torch.as_tensor(x), torch.as_tensor(w)).numpy()

    def torch_vjp(_, *args):                                         # its gradient, likewise
        value, pullback = torch.func.vjp(torch_layer, *map(torch.as_tensor, args))
        return value.numpy(), lambda u: tuple(g.numpy() for g in pullback(torch.as_tensor(u)))

    check(torch_f, (x, w), vjp=torch_vjp)

    check(jax_f, (x, w), vjp=jax.vjp)                                # JAX takes NumPy arrays; enable jax_enable_x64

With an equation in arbitrary precision, every element is counted by its own digits (`gradcheck.exact` says why):

    def equation(x):                                                 # object arrays of mpmath numbers in and out
        e = np.array([mpmath.exp(v) for v in x], object)
        return e / e.sum()

    check(softmax, (x,), vjp=vjp, exact=Exact(equation, mpmath.mpf, mpmath.workdps))
"""

import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import ParamSpec

import numpy as np

from gradcheck.adapters import Claim, arguments, remedy
from gradcheck.exact import Exact, element_wise
from gradcheck.first_order import FirstOrder, along, beside_larger_ones, covering, draw_cotangents, first_order
from gradcheck.flat import ClaimedGradient, FlatFunction
from gradcheck.joint import has_slope_of_its_own, judge_joint, with_slopes_beside
from gradcheck.kinks import Slopes, find_kinks, judge_kinks, slopes_at, with_kinks
from gradcheck.numerical import Method, choose, differences_precision
from gradcheck.precision import dtype_name, roundoff, scaled, wider, working
from gradcheck.report import Kink, Report
from gradcheck.second_order import SecondOrder, second_order

P = ParamSpec("P")


def compare(
    f: Callable | Claim,
    args: tuple,
    *,
    vjp: Callable | None = None,
    order: int = 1,
    digits: float = 12.0,
    method: str = "auto",
    hvp: Callable | None = None,
    exact: Exact | None = None,
    argnums: int | Iterable[int] | None = None,
    seed: int = 0,
    name: str | None = None,
    max_elements: int = 40,
    projections: int = 8,
    cotangents: int = 2,
) -> Report:
    """How well the claimed gradient of f at args agrees with a numerical one that shares no code with it.

    f(*args) returns an array, or tuples, lists and dicts of arrays; each argument may be nested in the same way.
    Floating arrays are differentiated; integers, booleans, strings and None are constants.

    vjp           the claim: vjp(f, *args) → (value, pullback), pullback(cotangent) → tuple of gradients, None for 0;
                  where f is a `Claim` (`forward_backward`, `torch`), its own by default
    order         1 for the gradient; 2 for the Hessian-vector products that follow from it, which does not repeat
                  order 1
    digits        asked in float64; other dtypes are asked for the same share of theirs (float32: 5.3 for 12)
    method        "complex_step", "richardson", "longdouble"; or "auto", the complex step where f is analytic and else
                  Richardson differences in the widest precision f computes in
    hvp           a claimed Hessian-vector product for order 2, hvp(f, args, tangents, cotangent) → tuple like args;
                  where f is a `Claim` that has one (`torch`), its own by default
    exact         an `Exact` equation of f in arbitrary precision: every element is counted by its own digits, against
                  the derivative of the equation in place of a numerical one of f (`method` is not used); order 1
    argnums       the number, or numbers, of the arguments to differentiate, from 0; all by default
    seed          of all that is drawn
    name          of f in the report; its own by default
    max_elements  of each array are compared one by one; of a larger one, every other element is in a projection; with
                  0 all are, which is enough for a model whose layers are checked by themselves
    projections   along random directions, at most so many for each array
    cotangents    u that are drawn; each comparison is of ⟨u, J v⟩

    Where f has a kink, the claim must be finite and lie between the slopes of its two sides (`gradcheck.kinks`), also
    along directions through several of them (`gradcheck.joint`); `report.kinks` names these elements. What could not
    be judged is counted in `report.left_out`. A derivative below a rounding of f, for a step as large as x, passes
    with any claim as small, and a remark; so do small outputs beside a large one. A pullback that writes into its
    cotangent, the arguments or the value, returns what a later call changes, or is not linear in its cotangent,
    disagrees: that is `report.fault`.

    Raises ValueError or TypeError for arguments, functions and claims that cannot be checked, GradientError for a claim
    of wrong value or shapes.
    """
    if order not in (1, 2):
        raise ValueError(f"order is {reprlib.repr(order)}; it must be 1 or 2")
    _at_least(0, digits=digits)
    _at_least(0, max_elements=max_elements)
    _at_least(1, projections=projections, cotangents=cotangents)
    rng = np.random.default_rng(seed)
    if exact is not None and (order != 1 or not isinstance(exact, Exact)):
        raise ValueError(f"exact is a {type(exact).__name__} at order {order}; it must be gradcheck.Exact, at order 1")
    function, args, vjp, own = arguments(f, args, vjp, argnums)
    problem = FlatFunction(function, args, argnums)
    claim = ClaimedGradient(vjp, problem)
    report = Report(
        name=name or str(getattr(function, "__name__", type(function).__name__)),
        dtype=dtype_name(problem.dtype),
        order=order,
        asked=scaled(digits, problem.dtype if order == 1 else working(problem.dtype)),
        seed=seed,
    )
    if (fault := claim.fault(draw_cotangents(problem, 1, np.random.default_rng(seed))[0])) is not None:
        return replace(report, fault=fault, disagrees=True)
    if exact is not None:
        none = np.zeros(0, np.intp)
        covered = covering(problem, none, max_elements, projections, rng, by_differences=False)
        singles = [d for d in covered if len(d.support) == 1]
        u = draw_cotangents(problem, cotangents, rng)
        return element_wise(report, claim, exact, u, [int(d.support[0]) for d in singles])
    precision = differences_precision(problem)
    suspects, left_out = find_kinks(problem, precision, rng)
    if left_out:
        remark = f"{len(left_out)} elements seem to have kinks too and were left out"
        report = replace(report, left_out=len(left_out), remarks=(remark,))
    smooth = np.setdiff1d(np.arange(problem.x.size), [*suspects, *left_out])
    chosen = Method("Richardson differences", precision)
    if smooth.size:
        all_of_them, kinked = along(problem, smooth, rng), along(problem, np.array(suspects, np.intp), rng, problem.own)
        ways = [all_of_them, *beside_larger_ones(claim, smooth, np.random.default_rng(seed))]
        vectors = [way.vector(problem.x.size) for way in ways]
        chosen = choose(problem, method, precision, vectors, kinked.vector(problem.x.size))
    slopes = slopes_at(problem, chosen, precision, suspects)
    kinks = np.array([*[at.element for at in slopes], *left_out], dtype=np.intp)
    smooth = np.setdiff1d(np.arange(problem.x.size), kinks)
    u = draw_cotangents(problem, cotangents, rng)
    report = replace(
        report,
        method=chosen.name,
        precision=dtype_name(chosen.arithmetic),
        remarks=report.remarks + tuple(_remarks(problem, claim, chosen)),
    )
    if order == 2:
        left_out_kinks = tuple(Kink(*problem.place_of(at.element), jumps=bool(np.any(at.jumps))) for at in slopes)
        report = replace(report, kinks=left_out_kinks, left_out=report.left_out + len(slopes))
        if not smooth.size:
            return replace(report, remarks=(*report.remarks, "f has a kink at every element; choose another point"))
        forced = method == "complex_step"
        return second_order(report, SecondOrder(claim, chosen, u, smooth, rng, hvp, own, forced=forced))
    here = FirstOrder(claim, chosen, u)
    by_differences = chosen.name != "complex step"

    def judged(slopes: list[Slopes]) -> Report:
        kinks = np.array([*[at.element for at in slopes], *left_out], dtype=np.intp)
        smooth = list(covering(problem, kinks, max_elements, projections, rng, by_differences=by_differences))
        found = first_order(report, here, smooth) if smooth else report
        return with_kinks(found, judge_kinks(claim, slopes, u, here.gradients, report.asked))

    found = judged(slopes)
    if found.disagrees or has_slope_of_its_own(here, along(problem, smooth, rng)):
        worst = None if found.worst is None else found.worst.place
        more = with_slopes_beside(problem, chosen, precision, rng, slopes, worst)
        found, slopes = (found if more is slopes else judged(more)), more
    return judge_joint(found, claim, slopes, here, precision)


def _with_arguments_of(other: Callable[P, Report]) -> Callable[[Callable[..., Report]], Callable[P, Report]]:
    """For a function that hands all its arguments on to another: its signature is that of the other."""

    def named(function: Callable[..., Report]) -> Callable[P, Report]:
        function.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return function

    return named


@_with_arguments_of(compare)
def check(*args, **options):
    """`compare`, and raise GradientError where the claimed gradient and the numerical one disagree.

    The message names the argument, the element, both values and the digits of agreement; everything is seeded, so the
    same call fails in the same way. The parameters, and the report that is returned, are those of `compare`.
    """
    __tracebackhide__ = True
    return compare(*args, **options).require()


def _remarks(problem: FlatFunction, claim: ClaimedGradient, chosen: Method) -> Iterator[str]:
    if chosen.remark:
        yield chosen.remark
    if chosen.name != "complex step" and problem.noise(chosen.precision).is_coarse(np.float64):
        returned = problem(problem.x.astype(chosen.precision)).dtype
        if roundoff(returned) > roundoff(np.float64):
            yield f"f computes in {dtype_name(returned)}; make it float64 by {remedy(problem.f, claim.vjp)}"
        else:
            yield (
                "the values of f at neighbouring points scatter more than in float64: terms cancel in it, or it "
                f"computes in float32; then make it float64 by {remedy(problem.f, claim.vjp)}"
            )
    if wider(problem.dtype) is None and problem.dtype == np.float64:
        yield "longdouble is float64 on this platform: nothing wider gave a second opinion"


def _at_least(least: int, **settings: float) -> None:
    for setting, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
            raise ValueError(f"{setting} is {reprlib.repr(value)}; it must be a number, at least {least}")
