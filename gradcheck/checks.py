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
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradcheck.first_order import Effort, along, find_kinks, first_order
from gradcheck.flat import Claim, FlatFunction
from gradcheck.numerical import Method, choose, differences_precision
from gradcheck.precision import called, roundoff, scaled, wider, working
from gradcheck.report import Kink, Report
from gradcheck.second_order import second_order


def check(
    f: Callable,
    args: tuple,
    *,
    vjp: Callable,
    order: int = 1,
    digits: float = 12.0,
    method: str = "auto",
    hvp: Callable | None = None,
    argnums: int | Iterable[int] | None = None,
    seed: int = 0,
    name: str | None = None,
    max_elements: int = 40,
    projections: int = 8,
    cotangents: int = 2,
) -> Report:
    """`compare`, and raise GradientError where the claimed gradient and the numerical one disagree.

    The message names the argument, the element, both values and the digits of agreement; everything is seeded, so the
    same call fails in the same way. The parameters, and the report that is returned, are those of `compare`.
    """
    return compare(
        f,
        args,
        vjp=vjp,
        order=order,
        digits=digits,
        method=method,
        hvp=hvp,
        argnums=argnums,
        seed=seed,
        name=name,
        max_elements=max_elements,
        projections=projections,
        cotangents=cotangents,
    ).require()


def compare(
    f: Callable,
    args: tuple,
    *,
    vjp: Callable,
    order: int = 1,
    digits: float = 12.0,
    method: str = "auto",
    hvp: Callable | None = None,
    argnums: int | Iterable[int] | None = None,
    seed: int = 0,
    name: str | None = None,
    max_elements: int = 40,
    projections: int = 8,
    cotangents: int = 2,
) -> Report:
    """How well the claimed gradient of f at args agrees with a numerical one that shares no code with it.

    f(*args) returns an array, or tuples, lists and dicts of arrays; each argument may be nested in the same way.
    Floating arrays are differentiated; integers, booleans, strings and None are constants, as is what `argnums` leaves
    out.

    order         1 for the gradient; 2 for the Hessian-vector products that follow from it (`gradcheck.second_order`),
                  which does not repeat order 1
    digits        asked in float64; other dtypes are asked for the same share of theirs (float32: 5.3 for 12)
    method        "complex_step", "richardson", "longdouble"; or "auto", the complex step where f is analytic
                  (`gradcheck.numerical`) and else Richardson differences in the widest precision f computes in
    hvp           a claimed Hessian-vector product for order 2, hvp(f, args, tangents, cotangent) → tuple like args
    max_elements, projections, cotangents
                  how much is drawn (`gradcheck.first_order`): every element of an array of up to 40 is compared by
                  itself; of a larger one, a sample of 40 is, and every other element in one of 8 projections

    Elements at which f has a kink are named in `report.kinks` and not compared. Raises ValueError or TypeError for
    arguments, functions and claims that cannot be checked, GradientError for a claim of wrong value or shapes.
    """
    if order not in (1, 2):
        raise ValueError(f"order is {order!r}; it must be 1 or 2")
    _at_least(
        digits=(digits, 0), max_elements=(max_elements, 1), projections=(projections, 1), cotangents=(cotangents, 1)
    )
    rng = np.random.default_rng(seed)
    problem = FlatFunction(f, args, argnums)
    claim = Claim(vjp, problem)
    effort = Effort(max_elements, projections, cotangents)
    asked = scaled(digits, problem.dtype)
    kinks = find_kinks(problem, differences_precision(problem), rng)
    smooth = np.setdiff1d(np.arange(problem.x.size), kinks)

    called_f = name or str(getattr(f, "__name__", type(f).__name__))

    def report(
        how: str, arithmetic: str, elements: int, projected: int, digits: float, agrees: bool, **rest: Any
    ) -> Report:
        return Report(
            called_f,
            called(problem.dtype),
            order,
            how,
            arithmetic,
            elements,
            projected,
            digits,
            asked,
            agrees,
            seed,
            kinks=_named(problem, kinks),
            **rest,
        )

    if smooth.size == 0:
        return report("none", "none", 0, 0, 0.0, False)
    chosen = choose(problem, method, along(problem, smooth, rng).vector(problem.x.size))
    remarks = _remarks(problem, chosen)
    if order == 1:
        found = first_order(problem, claim, chosen, kinks, asked, effort, rng)
        how, arithmetic = chosen.name, chosen.arithmetic
    else:
        asked = scaled(digits, working(problem.dtype))
        found, how, arithmetic = second_order(
            problem, claim, chosen, kinks, asked, effort, rng, hvp, forced=method == "complex_step"
        )
    return report(
        how,
        called(arithmetic),
        found.elements,
        found.projected,
        found.digits,
        found.agrees,
        worst=found.worst,
        remarks=remarks + found.remarks,
    )


def _at_least(**settings: tuple[float, float]) -> None:
    for setting, (value, least) in settings.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
            raise ValueError(f"{setting} is {value!r}; it must be a number, at least {least}")


def _named(problem: FlatFunction, kinks: np.ndarray) -> tuple[Kink, ...]:
    places = [problem.leaf_of(int(j)) for j in kinks]
    return tuple(Kink(leaf.place(index), leaf.path[0], index) for leaf, index in places)


def _remarks(problem: FlatFunction, chosen: Method) -> tuple[str, ...]:
    remarks = [chosen.remark] if chosen.remark else []
    given, returned = called(problem.dtype), called(problem.y.dtype)
    if roundoff(problem.y.dtype) > roundoff(problem.dtype):
        remarks.append(f"f returns {returned} for {given} arguments, and no gradient can be better than that")
    if wider(problem.dtype) is None and problem.dtype == np.float64:
        remarks.append("longdouble is float64 on this platform: nothing wider gave a second opinion")
    return tuple(remarks)
