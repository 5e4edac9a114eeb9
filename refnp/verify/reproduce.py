"""`refnp verify --reproduce CASE FRAMEWORK`: a short script that shows a defect with that framework alone.

The script has inputs, the call, what came and what is right; it ends with status 1 as long as the defect is there. The
call is what the adapter of the framework does, as `refnp.verify.tracing` saw it.
"""

import difflib
from collections.abc import Callable
from functools import partial
from operator import attrgetter

from refnp.verify.case import Case, FailedError, NotOfferedError
from refnp.verify.frameworks import NATIVES, RUNTIMES, Framework, framework_of, installed, named_function
from refnp.verify.judge import BEYOND, CONVENTION, Judgement, crashed, judged
from refnp.verify.layers import cases
from refnp.verify.record import DTYPES
from refnp.verify.reproduce_models import NUMPY, with_model
from refnp.verify.scripts import LINES, Inputs, Language, Shown, heading, inputs_of, shows, verdict, wrapped
from refnp.verify.tracing import Trace

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
    language, parts_of = (NUMPY, with_model) if framework in RUNTIMES else (LANGUAGES[framework], with_function)
    longer = []
    for inputs in inputs_of(asked.posed(case.problem(row.dtype)), language):
        if (shown := shows(inputs.problem, asked, row)) is not None:
            parts = parts_of(inputs, asked, row, shown)
            texts = ["\n".join(line for long in part for line in wrapped(long)) for part in parts]
            for between in ("\n\n", "\n"):
                text = between.join(texts) + "\n"
                if len(text.splitlines()) <= LINES:
                    return text
            longer.append(text)
    return min(longer, key=len, default="")


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
    wrong = [row for row in rows if row.verdict in BEYOND]
    if not wrong:
        raise ValueError(f"--reproduce: {framework.name} {framework.version} is right in {case.name!r}")
    return min(wrong, key=lambda row: (row.verdict == CONVENTION, row.quantity != "output", -row.error_over_bound))


def with_function(inputs: Inputs, framework: Framework, row: Judgement, shown: Shown) -> list[list[str]]:
    """The parts of a script: imports, arrays, the function, the call and the verdict."""
    problem, language = inputs.problem, LANGUAGES[framework.name]
    argument = row.quantity.removeprefix("gradient of ") if row.quantity != "output" else ""
    if shown.place is None and isinstance(shown.claimed, str):  # the call fails, or its gradient
        argument = next(iter(problem.case.quantities[1:]), "").removeprefix("gradient of ")
    place = list(problem.arrays).index(argument) if argument else 0
    names = {"x": inputs.names[place], "i": place, "args": inputs.parameters, "g": "g"}
    asked = (language.gradient if argument else language.output).format(**names).splitlines()
    return [
        [*heading(problem, framework, row), *language.imports],
        [*inputs.lines, *([f"g = {inputs.cotangent}"] if argument else [])],
        [f"def f({inputs.parameters}):", *function_lines(inputs, framework.name)],
        [*asked, *verdict(shown)],
    ]


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
