"""What is verified of a layer: its equation, cases for every framework, small inputs for gradcheck, known defects."""

import contextlib
import fnmatch
import functools
import hashlib
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from gradcheck import Exact
from refnp.autograd import vjp
from refnp.layers.module import Module
from refnp.numbers.arrays import larger, within
from refnp.numbers.exact import Number
from refnp.numbers.parts import Parts, with_parts
from refnp.numbers.precision import Policy, policy
from refnp.numbers.rounded import noting_long_means
from refnp.numbers.rounding import WIDE, Arithmetic, Rounded, arithmetic, exact, tolerance
from refnp.verify.items import by_item

Draw = Callable[[np.random.Generator], np.ndarray]
NONE: Mapping = MappingProxyType({})
Answer = dict[str, np.ndarray]  # "output", and "gradient of x" for every argument x


class NotOfferedError(Exception):
    """The framework has no function for this case; the message says what it lacks."""


class FailedError(Exception):
    """The framework gave no answer where it should have: it crashed, or took too long; the message says which."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Warnings off: many inputs are meant to overflow."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0) -> Draw:
    """Normal numbers with standard deviation `scale` around `shift`."""
    return lambda rng: rng.standard_normal(shape) * scale + shift


def uniform(*shape: int, low: float, high: float) -> Draw:
    """Numbers spread evenly from `low` to `high`."""
    return lambda rng: rng.uniform(low, high, shape)


@dataclass(frozen=True, eq=False)  # equal if it is the same one: what it has tried has no hash
class Layer:
    """A function of refnp, the same in `Rounded` numbers, and the same in other frameworks.

    `torch` and `jax` name a function of theirs that takes the same arguments, such as "nn.functional.relu". Where
    conventions differ they are an adapter instead: a function of the framework's module and the arguments. None where
    the framework has no such function. `names` are the public names of refnp that compute by this equation, if it is
    not the one that is spelled like `name` ("layer_norm" is LayerNorm as well). A `whole` model
    is no layer that frameworks have: judged are refnp's and whose `refnp.judge` is given, by their outputs alone
    (`refnp.verify.layers.whole_models`). `inner` is the layer whose function this is of other arguments, and what makes
    a function of that layer's arguments one of these; its mutants are this one's. `tried` has the values of options,
    axes in front or structures in cases that are made, where they are others, and `known` is what is known of
    frameworks in these alone. `shapes` are those of the arguments, and options behind a semicolon, in each form of a
    call, where the function declares none: for them gradients are proved. Lines of the `formula` are edited where the
    function has none of its own, as a class, or an optimiser, which changes what it holds.
    """

    name: str
    function: Callable
    equation: Callable
    torch: str | Callable | None = None
    jax: str | Callable | None = None
    names: tuple[str, ...] = ()
    whole: bool = False
    tried: Mapping[str, tuple] = field(default_factory=dict)
    inner: "tuple[Layer, Callable] | None" = None
    known: "tuple[KnownDefect, ...]" = ()
    shapes: Mapping[str, str] = field(default_factory=dict)
    formula: Callable | None = None


@functools.cache
def is_of_numbers(layer: Layer, count: int) -> bool:
    """Whether each number of the result is the same function of one number of each argument: found out by trying."""
    x = [np.array([0.75, -0.5, 0.25, 0.5]) + k for k in range(count)]
    try:
        with quiet():
            together = np.asarray(layer.function(*x))
            apart = [np.asarray(layer.function(*(a[i : i + 1] for a in x))) for i in range(4)]
    except Exception:  # whatever a function of matrices, rows or lists makes of them
        return False
    return together.shape == (4,) and np.array_equal(together, np.concatenate(apart), equal_nan=True)


@dataclass(frozen=True, eq=False)  # equal if it is the same one; options have no hash
class KnownDefect:
    """What a framework is known to get wrong, where it was reported, where it shows, and the formula that makes it.

    It is shown with the claimed and the right value, and never hidden; where it no longer shows, the verdict is
    "within bound". It excuses an answer within the bound of its formula, and no number, shape, NaN or infinity that
    the formula does not give. The formula is an `equation` with the arguments of the layer's, or the layer's own,
    with other `options`, with other `parts` (`refnp.numbers.parts`), in a lower precision (`computed_in`), or with
    a result that is off by no more than a number that is known (`off_by`). Where no formula is known the defect is
    seen and not explained: it excuses the very numbers that were seen (`refnp.verify.excuses`). With `fails` it
    excuses none, but a crash or an exception.
    """

    framework: str
    issue: str  # "pytorch/pytorch#113708", or a few words where we found no report
    why: str
    quantities: tuple[str, ...] = ()  # all if empty
    dtypes: tuple[str, ...] = ()  # all if empty; float32 stands for narrower ones too
    cases: tuple[str, ...] = ()  # patterns of names; all if empty
    computed_in: str = ""  # "float32", where a framework computes float64 in it
    fails: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: NONE)
    equation: Callable | None = None
    parts: Parts = field(default_factory=lambda: NONE)
    off_by: float = 0.0
    of: str = ""  # the framework that is known for it, if `framework` is another

    @property
    def has_formula(self) -> bool:
        """Whether it is known what makes it."""
        return bool(self.computed_in or self.options or self.equation or self.parts or self.off_by)

    def covers(self, framework: str, dtype: str, quantity: str, case: str = "") -> bool:
        """Whether this may explain a deviation of `quantity` in `case`, computed by `framework` in `dtype`."""
        narrow = policy(dtype).narrow
        wide = "float32" if narrow else dtype  # as in float32, unless it is known otherwise
        return (
            framework == self.framework
            and (not self.quantities or quantity in self.quantities)
            and (not self.dtypes or wide in self.dtypes or narrow in self.dtypes)
            and (not self.cases or any(fnmatch.fnmatchcase(case, pattern) for pattern in self.cases))
        )

    def bounds(self, problem: "Problem", dtype: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By its formula, the value of every quantity, and what an answer in `dtype` may be off from it."""
        precision = self.computed_in or dtype
        key = (self.equation, id(self.options), id(self.parts), precision, bool(self.computed_in))
        if key not in problem.formulas:
            judged = arithmetic(precision)
            narrows = policy(precision).stored.bits < policy(dtype).stored.bits
            given = functools.partial(narrowed if narrows else exact, arithmetic=judged)
            equation = with_parts(self.equation or problem.case.layer.equation, self.parts)
            y, pullback = equation(*map(given, problem.arrays.values()), **{**problem.case.options, **self.options})
            found = problem.selected(y, lambda: pullback(given(problem.cotangent)))
            problem.formulas[key] = {q: (r.value, tolerance(r, precision)) for q, r in found.items()}
        return {q: (value, allowed + self.off_by) for q, (value, allowed) in problem.formulas[key].items()}


def narrowed(value: np.ndarray, arithmetic: Arithmetic) -> Rounded:
    """An input of a computation in a precision that is lower than its own."""
    given = exact(value, arithmetic)
    return Rounded(given.value, np.where(np.isfinite(given.value), np.abs(given.value), 0), given.lost, arithmetic)


def beside(defect: KnownDefect, *others: KnownDefect) -> tuple[KnownDefect, ...]:
    """The defect where another one, or a convention, shows in the same numbers: one formula for both."""
    both = lambda own, more: {**own, **more} if own or more else NONE
    return tuple(
        KnownDefect(
            defect.framework,
            defect.issue,
            defect.why,
            dtypes=defect.dtypes,
            cases=other.cases or defect.cases,
            computed_in=defect.computed_in,
            options=both(other.options, defect.options),
            equation=other.equation or defect.equation,
            parts=both(other.parts, defect.parts),
            off_by=max(other.off_by, defect.off_by),
        )
        for other in others
    )


class Convention(KnownDefect):
    """Where a framework computes another function than refnp, and is right by that function's own bound.

    `issue` is its name here, such as "a fully masked row gives the mean of the values".
    """


@dataclass(frozen=True)
class Case:
    """`layer` with inputs drawn by name, and options.

    `inputs` are arrays, or functions that draw them from a generator seeded with the name of the case. `cotangent` is
    drawn if it is not given. `gradients` names the inputs with a gradient (all, unless told otherwise). `formats` names
    those of inputs that are stored in another format than the precision says: {"gain": "float32"}. A case that is
    `made` follows from a declaration (refnp.verify.made), and a function may refuse it. `views` names what is given as
    a view of a larger array (refnp.verify.views): inputs, and the cotangent.
    """

    layer: Layer
    variant: str
    inputs: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    known_defects: tuple[KnownDefect, ...] = ()
    gradients: tuple[str, ...] | None = None
    cotangent: Any = None
    formats: Mapping[str, str] = field(default_factory=dict)
    made: bool = False
    views: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """ "layer/variant", of which there is one."""
        return f"{self.of_numbers}, as views" if self.views else self.of_numbers

    @property
    def of_numbers(self) -> str:
        """The name of the case that has the same numbers, of which they are drawn."""
        return f"{self.layer.name}/{self.variant}"

    @property
    def quantities(self) -> list[str]:
        """What is judged: "output", and "gradient of x" for each input x with a gradient."""
        named = self.inputs if self.gradients is None else self.gradients
        return ["output", *(f"gradient of {name}" for name in self.inputs if name in named)]

    def problem(self, dtype: str) -> "Problem":
        """The case in one precision, a type or a policy: inputs rounded to it, and exact from there on."""
        rng = np.random.default_rng(zlib.crc32(self.of_numbers.encode()))
        drawn = {k: np.asarray(v(rng) if callable(v) else v, float) for k, v in self.inputs.items()}
        given = {k: self.form(k, dtype).given(v) for k, v in drawn.items()}
        views = {k: larger(given[k])[within(given[k])] for k in given if k in self.views}
        return Problem(self, dtype, given | views, rng)

    def form(self, name: str, dtype: str) -> Policy:
        """Where an input is stored: in a format of its own, or as the precision says."""
        return policy(self.formats.get(name, dtype))


MOST_KEPT = 256
KEPT: dict[tuple, tuple] = {}  # cotangent, bounds, reference and lengths of means of made cases


@dataclass
class Problem:
    """A case with numbers: `arrays` by name, and the cotangent ȳ, all of one dtype, which may be a policy's name."""

    case: Case
    dtype: str
    arrays: dict[str, np.ndarray]
    rng: np.random.Generator
    formulas: dict[Any, Any] = field(default_factory=dict)  # what known defects would give, once each
    long_means: list[int] = field(default_factory=list)  # whose bounds depend on blocks, once bounds are known

    @cached_property
    def textbook(self) -> tuple[Rounded, Any]:
        """The equation's value with its error bound, and its pullback, None where no gradient is judged."""
        with noting_long_means() as noted:
            found = self.equation(arithmetic(self.dtype))
        self.long_means += noted
        return found

    def equation(self, judged: Arithmetic) -> tuple[Rounded, Any]:
        """The equation's value and pullback, None where no gradient is judged, with the bounds of an arithmetic."""
        equation = lambda *arrays, **options: self.case.layer.equation(*(exact(x, judged) for x in arrays), **options)
        if len(self.case.quantities) > 1:
            return equation(*self.arrays.values(), **self.case.options)
        output = lambda *arrays, **options: equation(*arrays, **options)[0]
        return by_item(output, self.case, [*self.arrays.values()]), None

    @cached_property
    def cotangent(self) -> np.ndarray:
        """ȳ, of the shape of the output."""
        if self.case.cotangent is not None:
            return policy(self.dtype).given(np.asarray(self.case.cotangent, float))
        return policy(self.dtype).given(np.asarray(self.rng.standard_normal(self.textbook[0].shape)))

    @cached_property
    def bounds(self) -> dict[str, Rounded]:
        """The textbook's value of the output and of every gradient and, in units of u, what rounding may do to it.

        Those of a case that is made are kept: several functions are asked it in one program, and it may be a long one.
        """
        return self.kept[0] if self.case.made else self.bounds_in_any_order

    @cached_property
    def kept(self) -> tuple[dict[str, Rounded], Any]:
        """The bounds of a case that is made, and the answer in the widest precision, from an earlier call if it was."""
        key = self.key
        if key not in KEPT:
            found = self.bounds_in_any_order
            del self.textbook  # whose pullback holds what is as long as queries times keys
            if len(KEPT) >= MOST_KEPT:
                KEPT.clear()
            KEPT[key] = self.cotangent, found, None if self.of_same_lines else self.answer(WIDE), self.long_means
        self.cotangent, found, reference, self.long_means = KEPT[key]
        return found, reference

    @cached_property
    def bounds_in_any_order(self) -> dict[str, Rounded]:
        """The bounds, computed; and whether sums in blocks have others."""
        textbook = self.textbook
        with noting_long_means() as noted:
            found = self.bounds_of(arithmetic(self.dtype), *textbook)
        self.long_means += noted
        return found

    @property
    def key(self) -> tuple:
        """What the bounds of a case that is made hang on: its name says what its inputs are."""
        of = lambda value: value.tobytes() if isinstance(value, np.ndarray) else repr(value)
        options = tuple((name, of(value)) for name, value in sorted(self.case.options.items()))
        formats = tuple(sorted(self.case.formats.items()))
        return self.case.layer.equation, self.case.of_numbers, self.case.gradients, self.dtype, options, formats

    @cached_property
    def blocked_bounds(self) -> dict[str, Rounded]:
        """The same for implementations that add up the rows of a mean in blocks, as refnp does."""
        bounds = self.bounds
        if self.case.layer.whole or not self.long_means:  # the bound knows no classes of implementations
            return bounds
        judged = arithmetic(self.dtype, blocked=True)
        return self.bounds_of(judged, *self.equation(judged))

    def precision(self, quantity: str) -> Policy:
        """Where a quantity rounds: the gradient of an input with a format of its own is stored in that."""
        own = self.case.formats.get(quantity.removeprefix("gradient of "))
        return policy(self.dtype) if own is None else policy(self.dtype).of_gradient(own)

    def largest(self, quantity: str, right: np.ndarray) -> float:
        """The size of the largest number that is given or right; at least the smallest normal one."""
        given = [*self.arrays.values(), right, *([] if quantity == "output" else [self.cotangent])]
        sizes = (np.abs(array[np.isfinite(array)]).max(initial=0) for array in given)
        return max(float(np.finfo(np.float32).tiny), *map(float, sizes))

    def bounds_of(self, judged: Arithmetic, output: Rounded, pullback: Any) -> dict[str, Rounded]:
        """Output and gradients by quantity."""
        return self.selected(output, lambda: pullback(exact(self.cotangent, judged)))

    def selected(self, output: Rounded | np.ndarray, gradients: Callable[[], Any]) -> dict[str, Any]:
        """{quantity: …} for what is judged of the case, from the output and, only if any is, from all gradients."""
        found = {"output": output}
        if len(self.case.quantities) > 1:
            by_name = dict(zip(self.arrays, gradients(), strict=True))
            found |= {q: by_name[q.removeprefix("gradient of ")] for q in self.case.quantities[1:]}
        return found

    def answer(self, dtype: DTypeLike | None = None) -> Answer:
        """refnp's output and gradients in the precision of the problem, or in another one."""
        dtype = dtype or policy(self.dtype).dtype
        arrays = [array.astype(dtype) for array in self.arrays.values()]
        output, pullback = vjp(lambda *given: self.case.layer.function(*given, **self.case.options), *arrays)
        return self.selected(np.asarray(output), lambda: pullback(self.cotangent.astype(dtype)))

    @property
    def of_same_lines(self) -> bool:
        """Whether the bounds have the value of refnp's function in the widest precision, and no gradient is judged."""
        return self.case.quantities == ["output"] and hasattr(self.case.layer.equation, "page")

    def reference(self) -> Answer:
        """refnp's output and gradients in the widest precision of the machine."""
        if self.of_same_lines:
            return {"output": self.bounds["output"].value}
        return self.kept[1] if self.case.made else self.answer(WIDE)

    def checksum(self) -> str:
        """A fingerprint of inputs, cotangent and options: a recording made from others is of no use."""
        digest = hashlib.sha256()
        parts = [*self.arrays.items(), ("cotangent", self.cotangent), *sorted(self.case.options.items())]
        for name, value in parts:
            digest.update(name.encode())
            if isinstance(value, np.ndarray):
                digest.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
            else:
                digest.update(repr(value).encode())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class GradientInputs:
    """A differentiable function and small arguments on which its gradient is checked, in the form gradcheck takes.

    A `model` is made of functions that stand in the table themselves, and is checked once: in float64, first order.
    `names` are the public names of refnp whose gradient is checked by it. All are `analytic`: the complex step may be
    taken.
    """

    name: str
    function: Callable
    args: tuple
    model: bool = False
    names: tuple[str, ...] = ()  # the words of `name` if empty
    equation: Callable | None = None
    analytic: ClassVar[bool] = True

    @property
    def exact(self) -> Exact | None:
        """The equation in arbitrary precision; None where there is none, or mpmath is not installed."""
        return None if self.equation is None else exactly(self.equation)

    @property
    def is_judged(self) -> bool:
        """False where mpmath is not installed and nothing else judges the gradient."""
        return self.equation is None or self.exact is not None


@dataclass(frozen=True)
class Without:
    """Public names of refnp that lack one of the things that are verified of a layer, and why."""

    what: str  # one of LACKING
    names: tuple[str, ...]
    why: str


LACKING = ("equation", "cases", "gradient inputs", "transcription")


def gradient_of(
    name: str, function: Callable, *args: Any, names: tuple[str, ...] = (), **options: Any
) -> GradientInputs:
    """Gradient inputs of `function(*args, **options)`, where options have no gradient."""
    return GradientInputs(name, lambda *a: function(*a, **options), args, names=names)


def gradient_of_case(case: Case) -> GradientInputs:
    """Gradient inputs of the layer's function: the arrays of a case, each of which has a gradient."""
    names = case.layer.names or (case.layer.name,)
    args = case.problem("float64").arrays.values()
    return gradient_of(case.name, case.layer.function, *args, names=names, **case.options)


def exact_gradient(
    name: str, function: Callable, equation: Callable, *args: Any, names: tuple[str, ...] = (), **options: Any
) -> GradientInputs:
    """Gradient inputs of `function(*args, **options)` that are hard, checked element by element against the equation.

    The equation takes the same arguments and options.
    """
    of = lambda *a: equation(*a, **options)
    return GradientInputs(name, lambda *a: function(*a, **options), args, names=names, equation=of)


def exactly(equation: Callable) -> Exact | None:
    """An equation in `Rounded` numbers as gradcheck takes it; None where mpmath is not installed."""
    try:
        import mpmath
    except ImportError:
        return None

    def value(*args: Any) -> np.ndarray:
        return equation(*(exact(a) if isinstance(a, np.ndarray) else a for a in args))[0].value

    return Exact(value, lambda integer: Number(mpmath.mpf(integer)), mpmath.workdps)


def module_gradient(
    name: str, module: Module, *args: Any, names: tuple[str, ...] = (), **options: Any
) -> GradientInputs:
    """Gradient inputs of `module(*args, **options)`; its parameters are one more argument, at the end."""
    function = lambda *a: module.bind(a[-1])(*a[:-1], **options)
    return gradient_of(name, function, *args, module.state_dict(), names=names)
