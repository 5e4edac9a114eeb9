"""What a model of PyTorch does in one run, layer by layer: inputs, parameters, outputs, cotangents and gradients.

    run = recorded(module, (x,), gradients=True, readers={})
    run.calls        one `Call` for every layer that refnp has an equation of, in the order in which they ended
    run.not_judged   {path: why} of modules that hold parameters or arithmetic of their own and have no equation

A hook before each layer gives it aliases of its inputs and parameters, a hook after it takes the output. The gradient
of an alias is what this call alone adds to the gradient of the tensor behind it, also where a parameter serves twice.
What a module computes is said by `refnp.verify.frameworks.torch_modules`.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refnp.numbers.precision import policy
from refnp.verify.case import Answer, Case, Layer, Problem
from refnp.verify.frameworks.torch_modules import DROPOUTS, READERS, NoEquationError, Reading, kind_of


@dataclass
class Call:
    """One layer in one run, all in refnp's layout: what went in, what came out and, where asked for, the way back."""

    path: str  # "layers.2.norm1"
    kind: str  # "LayerNorm"
    layer: Layer
    options: Mapping[str, Any]
    arrays: dict[str, np.ndarray]
    dtypes: set[str]  # of everything that went in or came out
    is_of_torch: bool = False  # the module's class is one of torch.nn itself
    first: tuple[Layer, tuple[int, ...]] | None = None  # the layer of distinct arguments, some of which are one here
    output: np.ndarray = field(default_factory=lambda: np.zeros(0))
    cotangent: np.ndarray | None = None
    gradients: dict[str, np.ndarray] = field(default_factory=dict)

    def problem(self, dtype: str) -> Problem:
        """The call as a problem in the precision of the model."""
        named = tuple(self.gradients) if self.cotangent is not None else ()
        case = Case(self.layer, self.path, self.arrays, self.options, gradients=named, cotangent=self.cotangent)
        arrays = {name: policy(dtype).given(array) for name, array in self.arrays.items()}
        return Problem(case, dtype, arrays, np.random.default_rng(0))

    def spread(self, problem: Problem, answer: Answer) -> tuple[Problem, Answer]:
        """The same with one tensor that serves as query, key and value as three, of which no gradient is known."""
        if self.first is None:
            return problem, answer
        layer, places = self.first
        names = list(problem.arrays)
        count = max(places) + 1
        arrays = {f"{names[place]} {i}": problem.arrays[names[place]] for i, place in enumerate(places)}
        rest = {name: problem.arrays[name] for name in names[count:]}
        own = tuple(name for name in self.gradients if name in rest) if self.cotangent is not None else ()
        case = replace(problem.case, layer=layer, inputs=arrays | rest, gradients=own)
        spread = Problem(case, problem.dtype, arrays | rest, np.random.default_rng(0))
        return spread, {quantity: answer[quantity] for quantity in case.quantities}

    @property
    def answer(self) -> Answer:
        """What the framework answered."""
        found = {"output": self.output}
        if self.cotangent is not None:
            found |= {f"gradient of {name}": array for name, array in self.gradients.items()}
        return found


@dataclass
class Run:
    """One run of a model: its calls, what is not judged and why, and the precision of most of its parameters."""

    dtype: str
    version: str
    calls: list[Call] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)  # those of floats
    not_judged: dict[str, str] = field(default_factory=dict)
    watched: list[Any] = field(default_factory=list)  # tensors whose gradients are taken down


def is_module(thing: Any) -> bool:
    """Whether something is a module of PyTorch, which is imported then."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def checked(module: Any) -> list[str]:
    """The paths of all modules of a model; TypeError for what is none, ValueError where it drops units at random."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"judge_model: module is a {type(module).__name__}, not a torch.nn.Module; give like= for others"
        )
    for path, part in module.named_modules():
        rate = getattr(part, "p", 0) if kind_of(part) in DROPOUTS else getattr(part, "dropout", 0)
        if part.training and isinstance(rate, float) and rate > 0:
            raise ValueError(
                f"judge_model: {path or 'module'} drops units at random ({rate}); call module.eval() first"
            )
    return [path for path, _ in module.named_modules()]


def arguments_of(module: Any, inputs: Any, gradients: bool) -> tuple[tuple, dict[str, Any]]:
    """Inputs as a module is called with them: tensors, of floats in its precision; by position or by name."""
    import torch

    named = isinstance(inputs, Mapping)
    values = inputs if named else dict(enumerate(inputs if isinstance(inputs, (tuple, list)) else (inputs,)))
    tensors = {name: tensor_of(value) for name, value in values.items()}
    dtype = getattr(torch, precision_of(module, tuple(tensors.values())))
    device = next((parameter.device for parameter in module.parameters()), None)
    there = {n: t.to(device) if isinstance(t, torch.Tensor) and device else t for n, t in tensors.items()}
    given = {
        name: value.detach().to(dtype).requires_grad_(gradients) if is_float(value) else value
        for name, value in there.items()
    }
    return ((), {str(name): value for name, value in given.items()}) if named else (tuple(given.values()), {})


def tensor_of(value: Any) -> Any:
    """An array as a tensor; anything else as it is."""
    import torch

    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def is_float(value: Any) -> bool:
    """True for a tensor of floats."""
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def recorded(module: Any, inputs: Any, *, gradients: bool, readers: Mapping[str, Callable | None]) -> Run:
    """Run a model once, and once back from drawn cotangents, and take down every call of a layer.

    `readers` gives by path another reader than that of READERS, or None for what shall not be judged.
    """
    import torch

    given, options = arguments_of(module, inputs, gradients)
    everything = (*given, *options.values())
    run = Run(precision_of(module, everything), torch.__version__)
    backwards: list[Callable[[], None]] = []
    with preserved(module), layer_by_layer(), contextlib.ExitStack() as hooks, torch.set_grad_enabled(gradients):
        for path, part in module.named_modules():
            reader = reader_of(run, path, part, readers)
            if reader is not None:
                hooks.enter_context(watched(run, path, part, reader, backwards))
        output = module(*map(fresh, given), **{name: fresh(value) for name, value in options.items()})
    run.outputs = [array_of(tensor) for tensor in tensors_in(output)]
    if gradients:
        leaves = [*everything, *module.parameters(), *run.watched]
        walk_back(output[0] if kind_of(module) == "MultiheadAttention" else output, leaves)
        for finish in backwards:
            finish()
    return run


@contextlib.contextmanager
def hooked(module: Any, before: Callable, after: Callable, **options: bool) -> Iterator[None]:
    """Within this block these two are called before and after every call of a module, with its inputs and options."""
    handles = [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, with_kwargs=True, **options),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def layer_by_layer() -> Iterator[None]:
    """Within this block no fused function of PyTorch takes the place of layers."""
    import torch

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def preserved(module: Any) -> Iterator[None]:
    """Within this block a model may keep statistics: its buffers are what they were afterwards, but for caches."""
    state = module.state_dict(keep_vars=True)
    kept = [(buffer, buffer.clone()) for name, buffer in module.named_buffers() if name in state]
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.data.copy_(value)


def reader_of(run: Run, path: str, module: Any, readers: Mapping[str, Callable | None]) -> Callable | None:
    """How a module is read; None for one without arithmetic, or without equation, which is noted in the run."""
    if path in readers:
        if readers[path] is None:
            run.not_judged[path] = "as asked"
        return readers[path]
    kind = kind_of(module)
    if kind in READERS:
        return READERS[kind]
    if kind is None:
        own = [name for name, parameter in module._parameters.items() if parameter is not None]
        if own:
            run.not_judged[path] = f"{type(module).__name__}: parameters of its own ({', '.join(own)})"
        elif not any(True for _ in module.children()):
            run.not_judged[path] = f"{type(module).__name__}: arithmetic of its own"
    return None


def fresh(value: Any) -> Any:
    """A copy of a tensor of floats that layers may change in place; anything else as it is."""
    return value.clone() if is_float(value) else value


@contextlib.contextmanager
def watched(run: Run, path: str, module: Any, reader: Callable, backwards: list) -> Iterator[None]:
    """Within this block every call of the module is taken down."""
    began: list[tuple[Call, Reading] | None] = []
    originals: list[list[tuple[dict, str, Any]]] = []

    def before(module: Any, inputs: tuple, options: dict) -> tuple[tuple, dict]:
        copies: dict[int, Any] = {}
        inputs = tuple(alias(value, copies) for value in inputs)
        options = {name: alias(value, copies) for name, value in options.items()}
        originals.append(alias_parameters(module, copies))
        try:
            reading = reader(module, *inputs, **options)
            began.append((begun(run, path, module, reading, backwards), reading))
        except NoEquationError as why:
            run.not_judged[path] = f"{type(module).__name__}: {why}"
            began.append(None)
        except TypeError as why:
            run.not_judged[path] = f"{type(module).__name__}: it is called otherwise than in torch.nn ({why})"
            began.append(None)
        return inputs, options

    def after(module: Any, inputs: tuple, options: dict, output: Any) -> None:
        for parameters, name, original in originals.pop():
            parameters[name] = original
        if (now := began.pop()) is not None:
            ended(run, *now, output, backwards)
            run.calls.append(now[0])

    try:
        with hooked(module, before, after, always_call=True):
            yield
    finally:
        for parameters, name, original in (entry for entries in originals for entry in entries):
            parameters[name] = original


def alias(value: Any, copies: dict[int, Any]) -> Any:
    """The same numbers under another name, whose gradient is its own; one alias for each tensor."""
    import torch

    if not (isinstance(value, torch.Tensor) and value.requires_grad):
        return value
    return copies.setdefault(id(value), value.view_as(value))


def alias_parameters(module: Any, copies: dict[int, Any]) -> list[tuple[dict, str, Any]]:
    """Put aliases in place of all parameters of a module; returns where the originals belong."""
    places = []
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None and parameter.requires_grad:
                places.append((part._parameters, name, parameter))
                part._parameters[name] = alias(parameter, copies)
    return places


def begun(run: Run, path: str, module: Any, reading: Reading, backwards: list) -> Call:
    """A call with its arguments, whose gradients will be taken down."""
    import torch

    tensors = {name: part.tensor for name, part in reading.parts.items()}
    try:
        arrays = {name: part.turned(array_of(part.tensor)) for name, part in reading.parts.items()}
    except ValueError as why:
        raise NoEquationError(f"it is given what {reading.layer.name} does not take ({why})") from why
    kinds = {dtype_of(t) for t in tensors.values() if isinstance(t, torch.Tensor)}
    earlier = sum(call.path.partition(", call ")[0] == path for call in run.calls)
    path = f"{path}, call {earlier + 1}" if earlier else path
    of_torch = type(module).__module__.startswith("torch.nn.")
    call = Call(path, type(module).__name__, reading.layer, reading.options, arrays, kinds, of_torch, reading.first)
    watch = [n for n, t in tensors.items() if n not in reading.without_gradient and getattr(t, "requires_grad", False)]
    came: dict[str, Any] = {}
    for name in watch if torch.is_grad_enabled() else ():
        keep(tensors[name], came, name)
        run.watched.append(tensors[name])
    before = {name: tensors[name]._version for name in watch}

    def finish() -> None:
        """What did not come is 0, but for a tensor that the layer has written into."""
        for name in watch:
            if name in came or tensors[name]._version == before[name]:
                bar = came.get(name, torch.zeros_like(tensors[name]))
                call.gradients[name] = reading.parts[name].turned(array_of(bar))

    backwards.append(finish)
    return call


def ended(run: Run, call: Call, reading: Reading, output: Any, backwards: list) -> None:
    """The output, the first of several, and its cotangent, if the others have none; drawn if the layer cuts it off."""
    import torch

    output, *others = output if isinstance(output, (tuple, list)) else [output]
    call.output = reading.turned(array_of(output))
    call.dtypes.add(dtype_of(output))
    needed = any(getattr(part.tensor, "requires_grad", False) for part in reading.parts.values())
    if not needed or not torch.is_grad_enabled():
        return
    if not output.requires_grad:
        call.cotangent = reading.turned(array_of(drawn_like(output, 0)))
        return
    came: dict[int, Any] = {}
    for name, value in enumerate([output, *others]):
        if getattr(value, "requires_grad", False):
            keep(value, came, name)

    def finish() -> None:
        if set(came) == {0}:  # what comes back to attention weights as well is none of the equation's
            call.cotangent = reading.turned(array_of(came[0]))
        elif not came:
            run.not_judged[f"{call.path}, gradients"] = "nothing came back to its output"

    backwards.append(finish)


def keep(tensor: Any, found: dict[Any, Any], name: Any) -> None:
    """Put the gradient of a tensor, as it is now, among `found` on the way back."""

    def hook(gradient: Any) -> None:
        found[name] = gradient.detach().clone()

    tensor.register_hook(hook)


def walk_back(output: Any, leaves: list) -> None:
    """Gradients of everything from cotangents that are drawn for every output."""
    import torch

    outputs = [value for value in tensors_in(output) if value.requires_grad]
    wanted = [value for value in leaves if isinstance(value, torch.Tensor) and value.requires_grad]
    if outputs and wanted:
        cotangents = [drawn_like(value, i) for i, value in enumerate(outputs)]
        torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True)


def tensors_in(output: Any) -> list[Any]:
    """The tensors of floats in an output, in nested lists and dicts too."""
    from torch.utils._pytree import tree_leaves

    return [value for value in tree_leaves(output) if is_float(value)]


def drawn_like(tensor: Any, seed: int) -> Any:
    """Normal numbers of the shape, type and device of a tensor."""
    import torch

    numbers = np.random.default_rng(seed).standard_normal(tuple(tensor.shape))
    return torch.as_tensor(numbers).to(tensor)


def array_of(value: Any) -> np.ndarray:
    """A tensor's numbers, copied; bfloat16 and float16 in float32, which is exact."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if not hasattr(value, "detach"):
        raise TypeError(f"{value!r} is no tensor")
    value = value.detach().cpu()
    return np.array(value.float().numpy() if value.element_size() < 4 and value.is_floating_point() else value.numpy())


def dtype_of(tensor: Any) -> str:
    """ "float32", not "torch.float32"."""
    return str(tensor.dtype).removeprefix("torch.")


def precision_of(module: Any, inputs: tuple) -> str:
    """The precision of most of a model's parameters, or of its inputs if it has none."""
    counts: dict[str, int] = {}
    for tensor in module.parameters():
        if tensor.is_floating_point():
            counts[dtype_of(tensor)] = counts.get(dtype_of(tensor), 0) + tensor.numel()
    for tensor in inputs if not counts else ():
        if getattr(tensor, "is_floating_point", bool)():
            counts[dtype_of(tensor)] = 1
    return max(counts, key=lambda name: counts[name], default="float32")
