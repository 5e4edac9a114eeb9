"""`refnp verify --reproduce CASE FRAMEWORK`: a short script that shows a defect with that framework alone.

The script has inputs, the call, what came and what is right; it ends with status 1 as long as the defect is there. The
inputs are those of the case, in three digits if that shows it too; or, if they are many, drawn from a seed. The call is
what the adapter of the framework does, as `refnp.verify.tracing` saw it.
"""

import dataclasses
import difflib
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from refnp.numbers.rounding import tolerance
from refnp.verify.bounds import deviation
from refnp.verify.case import Case, FailedError, NotOfferedError, Problem
from refnp.verify.frameworks import NATIVES, RUNTIMES, Framework, framework_of, installed, named_function
from refnp.verify.judge import CONVENTION, WITHIN, Judgement, crashed, judged
from refnp.verify.layers import cases
from refnp.verify.record import DTYPES
from refnp.verify.tracing import Trace, literal

FEW = 60  # numbers that are written out
MANY = 6  # arrays that have names of their own
SEEDS = range(20)
LINES, WIDTH = 24, 120


@dataclass(frozen=True)
class Language:
    """How a script asks a framework: {x} the gradient's argument, {i} its place, {args} all, {g} the cotangent."""

    imports: tuple[str, ...]
    array: str  # of {numbers} and {dtype}
    output: str
    gradient: str


LANGUAGES = {
    "PyTorch": Language(
        ("import torch",),
        "torch.tensor({numbers}, dtype=torch.{dtype})",
        "with torch.no_grad():\n    claimed = f({args}).numpy()",
        "{x}.requires_grad_()\nclaimed = torch.autograd.grad(f({args}), {x}, {g}, materialize_grads=True)[0].numpy()",
    ),
    "JAX": Language(
        ("import jax", "import jax.scipy.special", 'jax.config.update("jax_enable_x64", True)'),
        'jax.numpy.array({numbers}, "{dtype}")',
        "claimed = np.asarray(jax.jit(f)({args}))",
        "claimed = np.asarray(jax.vjp(jax.jit(f), {args})[1]({g})[{i}])",
    ),
    "MLX": Language(
        ("import mlx.core", "import mlx.nn", "mlx.core.set_default_device(mlx.core.cpu)"),
        "mlx.core.array({numbers}, dtype=mlx.core.{dtype})",
        "claimed = np.array(f({args}))",
        "claimed = np.array(mlx.core.vjp(lambda *arrays: [f(*arrays)], [{args}], [{g}])[1][{i}])",
    ),
    "TensorFlow": Language(
        ("import tensorflow",),
        'tensorflow.constant({numbers}, "{dtype}")',
        "claimed = f({args}).numpy()",
        "with tensorflow.GradientTape() as tape:\n    tape.watch({x})\n    y = f({args})\n"
        "claimed = tensorflow.convert_to_tensor(tape.gradient(y, {x}, {g})).numpy()",
    ),
    "Paddle": Language(
        ("import paddle",),
        'paddle.to_tensor({numbers}, dtype="{dtype}", place="cpu")',
        "claimed = f({args}).numpy()",
        "{x}.stop_gradient = False\nbar = paddle.grad([f({args})], [{x}], [{g}], allow_unused=True)[0]\n"
        "claimed = np.zeros({x}.shape) if bar is None else bar.numpy()",
    ),
}


def script(name: str, framework: str) -> str:
    """The script for the worst that a case shows of a framework.

    ValueError for another case or framework, one that is not installed, or that is right in this case.
    """
    case, framework = case_of(name), framework_named(framework)
    asked = framework_of(framework)
    row = worst(case, asked)
    if framework in RUNTIMES:
        from refnp.verify.reproduce_models import model_script

        return model_script(case, asked, row)
    found = ""
    for inputs in inputs_of(case.problem(row.dtype), LANGUAGES[framework]):
        if (shown := shows(inputs.problem, asked, row)) is not None:
            for spaced in (True, False):
                text = written(inputs, asked, row, shown, spaced=spaced)
                if len(text.splitlines()) <= LINES:
                    return text
            if not found or len(text) < len(found):
                found = text
    return found


def case_of(name: str) -> Case:
    """The case of that name; ValueError, with the most similar ones, if there is none."""
    by_name = {case.name: case for case in cases()}
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, 3, 0.3)
        raise ValueError(f"--reproduce: there is no case {name!r}; similar are {', '.join(map(repr, near)) or 'none'}")
    return by_name[name]


def framework_named(name: str) -> str:
    """The framework of that name, whatever its capitals; ValueError if a script cannot be made of it here."""
    known = (*LANGUAGES, *RUNTIMES)
    found = {each.lower(): each for each in known}.get(name.lower())
    if found is None:
        raise ValueError(f"--reproduce: there are no scripts for {name!r}; name {', '.join(known)}")
    if not installed(found):
        raise ValueError(f"--reproduce: {found} is not installed, and a script is tried before it is shown: install it")
    return found


def worst(case: Case, framework: Framework) -> Judgement:
    """The row that shows most: what is wrong before another convention, the output before gradients."""
    rows: list[Judgement] = []
    for dtype in DTYPES:
        problem = framework.posed(case.problem(dtype))
        try:
            answer = framework.answer(problem)
        except FailedError as failure:
            return crashed(problem, framework, failure)
        except NotOfferedError as reason:
            if rows:  # it lacks the second precision alone
                continue
            raise ValueError(f"--reproduce: {reason}") from None
        known = framework.known_defects
        rows += judged(problem, answer, problem.reference(), framework.name, framework.version, known=known)
    wrong = [row for row in rows if row.verdict != WITHIN]
    if not wrong:
        raise ValueError(f"--reproduce: {framework.name} {framework.version} is right in {case.name!r}")
    return min(wrong, key=lambda row: (row.verdict == CONVENTION, row.quantity != "output", -row.error_over_bound))


@dataclass(frozen=True)
class Shown:
    """What came and what is right at one place, and by how much it may be off; or two shapes."""

    claimed: Any
    right: Any
    allowed: float
    place: tuple | None  # None where shapes differ or no answer came


def shows(problem: Problem, framework: Framework, row: Judgement) -> Shown | None:
    """The defect of `row` with other inputs; None if it does not show."""
    try:
        right, bound = problem.reference()[row.quantity], problem.bounds[row.quantity]
    except ValueError:  # refnp refuses such inputs
        return None
    try:
        claimed = framework.answer(problem)[row.quantity]
    except FailedError as failure:
        return Shown(str(failure), right.shape, 0.0, None)
    if claimed.shape != right.shape:
        return Shown(claimed.shape, right.shape, 0.0, None)
    allowed = tolerance(bound, problem.dtype)
    ratio, _, place = deviation(claimed, right, allowed, problem.dtype)
    if ratio <= 1 or place is None:
        return None
    return Shown(claimed[place], right[place], float(allowed[place]), tuple(int(i) for i in place))


@dataclass(frozen=True)
class Inputs:
    """A problem whose inputs are short to write: `lines` write them, `names` are their names after that."""

    problem: Problem
    lines: list[str]
    names: list[str]
    parameters: str  # how the function takes them, and is given them: "x, y" or "*p"
    cotangent: str


def inputs_of(problem: Problem, language: Language) -> Iterator[Inputs]:
    """Problems like this one whose inputs are short to write; at last this one."""
    arrays = problem.arrays | {"cotangent": problem.cotangent}
    short = {name: shortened(array) for name, array in arrays.items()}
    if sum(array.size for array in arrays.values()) <= FEW:
        yield with_names(problem, short, {}, language)
    for seed in SEEDS:
        of_seed = many if len(problem.arrays) > MANY else some
        yield of_seed(problem, short, seed, language)
    yield with_names(problem, arrays, {}, language)


def some(problem: Problem, short: dict[str, np.ndarray], seed: int, language: Language) -> Inputs:
    """Larger arrays of finite numbers drawn, with about the mean and deviation they have; positive ones evenly."""
    rng, drawn, texts = np.random.default_rng(seed), dict(short), {}
    for name, array in short.items():
        if array.size > 8 and np.isfinite(array).all():
            even = array.min() >= 0
            kind = "uniform" if even else "normal"
            one, two = (float(f"{of():.1g}") for of in ((array.min, array.max) if even else (array.mean, array.std)))
            drawn[name] = getattr(rng, kind)(one, two, array.shape).astype(array.dtype)
            texts[name] = f"rng.{kind}({one:g}, {two:g}, {array.shape})"
    return with_names(problem, drawn, texts, language, [f"rng = np.random.default_rng({seed})"] if texts else [])


def many(problem: Problem, short: dict[str, np.ndarray], seed: int, language: Language) -> Inputs:
    """All arrays drawn in one line, p[0], p[1], …, and the cotangent after them."""
    rng = np.random.default_rng(seed)
    drawn = {name: rng.normal(0, 0.5, array.shape).astype(array.dtype) for name, array in short.items()}
    of = lambda shape: language.array.format(numbers=f"rng.normal(0, 0.5, {shape})", dtype=problem.dtype)
    shapes = ", ".join(str(array.shape) for array in problem.arrays.values())
    lines = [f"rng = np.random.default_rng({seed})", f"p = [{of('shape')} for shape in ({shapes})]"]
    names = [f"p[{i}]" for i in range(len(problem.arrays))]
    return Inputs(fixed(problem, drawn), lines, names, "*p", of(short["cotangent"].shape))


def with_names(
    problem: Problem,
    arrays: dict[str, np.ndarray],
    texts: dict[str, str],
    language: Language,
    first: Sequence[str] = (),
) -> Inputs:
    """Every array on a line of its own: as a literal, or as `texts` say."""
    of = lambda name: language.array.format(numbers=texts.get(name) or literal(arrays[name]), dtype=problem.dtype)
    names = [name.replace(".", "_") for name in problem.arrays]
    lines = [*first, *(f"{short} = {of(name)}" for short, name in zip(names, problem.arrays, strict=True))]
    return Inputs(fixed(problem, arrays), lines, names, ", ".join(names), of("cotangent"))


def shortened(array: np.ndarray) -> np.ndarray:
    """Three significant digits."""
    return np.array([float(f"{x:.3g}") for x in array.ravel()], array.dtype).reshape(array.shape)


def fixed(problem: Problem, arrays: dict[str, np.ndarray]) -> Problem:
    """The problem with these inputs and this cotangent."""
    inputs = {name: arrays[name] for name in problem.arrays}
    return dataclasses.replace(problem.case, inputs=inputs, cotangent=arrays["cotangent"]).problem(problem.dtype)


def written(inputs: Inputs, framework: Framework, row: Judgement, shown: Shown, *, spaced: bool) -> str:
    """The script, with empty lines between its parts if it is `spaced`."""
    problem, language = inputs.problem, LANGUAGES[framework.name]
    argument = row.quantity.removeprefix("gradient of ") if row.quantity != "output" else ""
    if shown.place is None and isinstance(shown.claimed, str):  # the call fails, or its gradient
        argument = next(iter(problem.case.quantities[1:]), "").removeprefix("gradient of ")
    head = textwrap.wrap(
        f"{framework.name} {framework.version}, {problem.dtype}, {row.quantity}. {row.issue}: {row.why}",
        117,
        initial_indent="# ",
        subsequent_indent="# ",
    )
    place = list(problem.arrays).index(argument) if argument else 0
    names = {"x": inputs.names[place], "i": place, "args": inputs.parameters, "g": "g"}
    asked = (language.gradient if argument else language.output).format(**names).splitlines()
    parts = [
        [*head, "import numpy as np", *language.imports],
        [*inputs.lines, *([f"g = {inputs.cotangent}"] if argument else [])],
        [f"def f({inputs.parameters}):", *function_lines(inputs, framework.name)],
        [*asked, *verdict(shown)],
    ]
    texts = ["\n".join(line for long in part for line in wrapped(long)) for part in parts]
    return ("\n\n" if spaced else "\n").join(texts) + "\n"


def function_lines(inputs: Inputs, framework: str) -> list[str]:
    """The body of the function, from a call of the framework's adapter that is traced."""
    native, trace, problem = NATIVES[framework], Trace(), inputs.problem
    found = named_function(problem.case.layer, framework)
    module = trace.named(native.package, native.module())
    named = zip(inputs.names, problem.arrays.values(), strict=True)
    arrays = [trace.named(name, native.array(x, None)) for name, x in named]
    call: Callable = attrgetter(found)(module) if isinstance(found, str) else partial(found, module)  # type: ignore[misc,arg-type]
    statements, result = trace.lines(call(*arrays, **problem.case.options))
    return [*(f"    {line}" for line in statements), f"    return {result}"]


def verdict(shown: Shown) -> list[str]:
    """What came, what is right, and the status."""
    if shown.place is None:
        return [
            f'print(f"claimed {{claimed.shape}}, right {shown.right}")',
            f"raise SystemExit(claimed.shape != {shown.right})",
        ]
    right = f"{float(shown.right)}".replace("inf", "np.inf").replace("nan", "np.nan")
    if np.isfinite(shown.right):
        right = np.format_float_scientific(shown.right, precision=20, trim="-")
    index = f"[{', '.join(map(str, shown.place))}]" if shown.place else ""
    return [
        f"claimed, right, allowed = float(claimed{index}), {right}, {shown.allowed:.2g}",
        'print(f"claimed {claimed}, right {right}, rounding allows {allowed}")',
        "raise SystemExit(not (claimed == right or abs(claimed - right) <= allowed))",
    ]


def wrapped(line: str) -> list[str]:
    """A line in as many as it takes."""
    if line.startswith("#") or len(line) <= WIDTH:
        return [line]
    own = " " * (len(line) - len(line.lstrip()))
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(line.lstrip(), WIDTH, initial_indent=own, subsequent_indent=f"{own}    ", **options)
