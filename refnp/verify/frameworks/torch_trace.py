"""A model of PyTorch again in refnp's operations, in the widest precision, on a tape: what `judge_model` judges by.

While the model runs, every operation of PyTorch that its functions come down to is repeated on numbers of refnp, which
stand beside the memory of its tensors (`torch_memory`). A layer that refnp has an equation of is repeated as a whole,
by refnp's layer, whatever its own code does. What the model does between layers is repeated as it is done:
`torch_pages` says by which page. Whole numbers and conditions are taken as the model made them. An operation that
nothing repeats leaves its result unknown, and a model that needs it is not traced.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.tensor import Tensor
from refnp.verify.frameworks.torch_memory import Memory, has_floats, is_tensor, memory_of, outside, real_of, tensors_of
from refnp.verify.frameworks.torch_modules import READERS, NoEquationError, Part, Reading, kind_of
from refnp.verify.frameworks.torch_pages import CHOSEN, DECIDED, MOVED, PAGES, VALUES, NotTracedError
from refnp.verify.frameworks.torch_run import (
    arguments_of,
    array_of,
    dtype_of,
    fresh,
    hooked,
    layer_by_layer,
    preserved,
    tensors_in,
)
from refnp.verify.propagation import wide

WHOLE = ("TransformerEncoderLayer", "TransformerDecoderLayer")  # judged as a whole too, but repeated part by part


class Trace(Memory):
    """What repeats the operations of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = [""]  # the paths of the modules that run
        self.lower: dict[str, dict[str, None]] = {}  # by precision: in which modules numbers were made so low

    def called(self, mode: Any, function: Any, arguments: tuple, options: dict) -> Any:
        """Call an operation of PyTorch, and repeat it."""
        values = bound(function, arguments, options)
        name, floats = name_of(function, values), [t for t in tensors_of(values) if has_floats(t)]
        for tensor in floats:
            with outside():
                self.known(real_of(tensor))
        if name == "_local_scalar_dense":
            self.leave(floats)
        if floats and (steps := self.steps(name, function)):
            with mode:
                return steps(*arguments, **options)
        written = [values[a.name] for a in function._schema.arguments if a.alias_info and a.alias_info.is_write]
        try:
            repeat, why = self.repetition(name, function, values), ""
        except NotTracedError as lost:
            repeat, why = None, str(lost)
        output = function(*arguments, **options)
        made = [t for t in tensors_of(written or output) if has_floats(t)]
        if floats and any(bits(t) < bits(floats[0]) for t in made):
            self.lower.setdefault(dtype_of(made[0]), {})[self.inside[-1] or "(the model)"] = None
        if not written:  # views have the numbers that they show
            made = [t for t in made if not any(memory_of(t) == memory_of(own) for own in floats)]
        try:
            if repeat is None and (why or floats) and made:
                raise NotTracedError(why or f"refnp has no operation for {name} of PyTorch")
            for tensor, own in zip(made, repeat(output) if repeat and made else [], strict=False):
                self.put(tensor, own)
                made = made[1:]
            self.lose(made if repeat else [], f"refnp repeats the first result of {name} alone")
        except (NotTracedError, TypeError, ValueError, KeyError, IndexError, RuntimeError) as lost:
            self.lose(made, str(lost) if isinstance(lost, NotTracedError) else f"{name} of PyTorch: {lost}")
        return output

    def steps(self, name: str, function: Any) -> Callable | None:
        """What PyTorch itself takes an operation apart into, for one that stands in no table."""
        import torch
        from torch._decomp import decomposition_table

        if drawn(function) or any(name in table for table in (PAGES, MOVED, DECIDED, CHOSEN)):
            return None
        composite = torch._C.DispatchKey.CompositeImplicitAutograd
        own = function.decompose if function.has_kernel_for_dispatch_key(composite) else None
        return decomposition_table.get(function, own)

    def repetition(self, name: str, function: Any, values: dict[str, Any]) -> Callable | None:
        """What repeats a call, a function of its output: a list of results; None for an unknown operation."""
        if drawn(function):
            raise NotTracedError(f"{name} of PyTorch draws numbers")
        if not any(map(has_floats, tensors_of(values))):  # what comes of whole numbers is given
            return None
        if name in MOVED:
            return self.moving(function, values)
        if name in DECIDED:
            return lambda output: [wide(array_of(one)) for one in tensors_of(output)]
        if name in CHOSEN and "dim" in values:
            given = called_there(CHOSEN[name], {key: self.each(value) for key, value in values.items()})
            keep = values.get("keepdim", True)
            return lambda output: [chosen(given["x"], given.get("axis", -1), array_of(output[1]), keep)]
        if name in PAGES:
            page, names = PAGES[name]
            given = called_there(names, {key: self.each(value) for key, value in values.items()})
            return lambda output: [page(**given)]
        return None

    def each(self, value: Any) -> Any:
        """refnp's numbers for a tensor, or for every tensor of a list; a list as a tuple."""
        return tuple(map(self.of, value)) if isinstance(value, (list, tuple)) else self.of(value)

    def moving(self, function: Any, values: dict[str, Any]) -> Callable:
        """An operation that only moves numbers, or puts given ones between: done to their places, counted from 1."""
        import torch

        flat: list[Any] = [wide(np.zeros(1))]
        first = [1]

        def places(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [places(one) for one in value]
            if not isinstance(value, (int, float)) and not is_tensor(value):
                return value
            numbers = self.of(value) if is_tensor(value) else written_down(value)
            flat.append(ag.reshape(numbers if isinstance(numbers, Tensor) else wide(numbers), -1))
            start = first[0]
            first[0] += flat[-1].size
            if not is_tensor(value):
                return float(start)
            found = torch.arange(start, first[0], dtype=torch.float64).reshape(numbers.shape)
            return torch.view_as_complex(found) if value.is_complex() else found

        if values.get("reduce") is not None:
            raise NotTracedError("scatter with a reduction")
        given = {name: places(value) if name in VALUES else value for name, value in values.items()}
        given = {name: value for name, value in given.items() if not is_type(value)}
        numbers = ag.concatenate(flat)
        read = lambda place: numbers[array_of(real_of(place)).astype(int)]
        return lambda output: list(map(read, tensors_of(function(**given))))

    # ---- layers as a whole

    def layer(self, reading: Reading, arguments: list, output: Any) -> None:
        """Repeat the first output of a layer by refnp's."""
        output = output[0] if isinstance(output, (tuple, list)) else output
        found = reading.layer.function(*arguments, **reading.options)
        order = reading.turned(np.arange(output.numel()).reshape(tuple(output.shape)))
        back = ag.reshape(found, -1)[np.argsort(order, axis=None)]
        self.put(output, ag.reshape(back, tuple(output.shape)))

    def part(self, part: Part) -> Any:
        """An argument of a layer in refnp's layout."""
        if isinstance(part.tensor, np.ndarray):
            return wide(part.turned(part.tensor))
        found = self.of(part.tensor)
        places = np.arange(found.size).reshape(found.shape)
        turned = part.turned(places)
        same = turned.shape == places.shape and (turned == places).all()
        return found if same else ag.reshape(found, -1)[turned]

    def named(self, path: str, module: Any) -> contextlib.AbstractContextManager[None]:
        """Within this block it is known which module runs."""
        return hooked(module, lambda *_: self.inside.append(path), lambda *_: self.inside.__delitem__(-1))

    def watched(self, module: Any, reader: Callable) -> contextlib.AbstractContextManager[None]:
        """Within this block every call of a layer is repeated as a whole."""
        begun: list[tuple[Reading, list] | str | None] = []

        def before(module: Any, inputs: tuple, options: dict) -> None:
            with outside():
                try:
                    reading = reader(module, *inputs, **options)
                    begun.append((reading, list(map(self.part, reading.parts.values()))))
                except NotTracedError as why:
                    begun.append(str(why))
                except (NoEquationError, TypeError, ValueError):  # repeated operation by operation
                    begun.append(None)

        def after(module: Any, inputs: tuple, options: dict, output: Any) -> None:
            now = begun.pop()
            if isinstance(now, str):
                self.lose(tensors_in(output), now)
            elif now is not None:
                with outside(), contextlib.suppress(TypeError, ValueError, IndexError):  # which stay as they are
                    self.layer(*now, output)

        return hooked(module, before, after)


def traced(
    module: Any, inputs: Any, readers: Mapping[str, Callable | None]
) -> tuple[list[np.ndarray], list[Tensor | str], str]:
    """The floating outputs of a model as it answers without gradients, and the same of refnp, on a tape.

    Without gradients PyTorch takes fused functions that pass over what the layers inside say. In place of an output
    that cannot be repeated stands why. Third where it computes in a lower precision than it has.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    trace = Trace()

    class Repeating(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunction():
                return trace.called(self, function, args, kwargs or {})

    class Leaving(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if getattr(function, "__name__", "") in ("numpy", "__array__", "tolist"):
                trace.leave(tensors_in(args))
            return function(*args, **(kwargs or {}))

    given, options = arguments_of(module, inputs, False)
    run = lambda: tensors_in(module(*map(fresh, given), **{name: fresh(value) for name, value in options.items()}))
    with preserved(module), torch.no_grad():
        answers = [array_of(tensor) for tensor in run()]
    with preserved(module), layer_by_layer(), contextlib.ExitStack() as hooks, torch.no_grad():
        for path, part in module.named_modules():
            hooks.enter_context(trace.named(path, part))
            kind = kind_of(part)
            reader = readers.get(path) or (READERS.get(kind or "") if kind not in WHOLE else None)
            if reader is not None and not (path in readers and readers[path] is None):
                hooks.enter_context(trace.watched(part, reader))
        hooks.enter_context(sdpa_kernel(SDPBackend.MATH))
        hooks.enter_context(torch.backends.mkldnn.flags(enabled=False))
        hooks.enter_context(Leaving())
        hooks.enter_context(Repeating())
        outputs = run()
    lower = "; ".join(f"it computes in {dtype} in {few(paths)}" for dtype, paths in trace.lower.items())
    return answers, [trace.found(tensor) for tensor in outputs], lower


def few(paths: Collection[str]) -> str:
    """Some of these paths."""
    return ", ".join([*paths][:4]) + (f" and {len(paths) - 4} others" if len(paths) > 4 else "")


# ---- calls


def bound(function: Any, arguments: tuple, options: dict) -> dict[str, Any]:
    """The values of an operation's arguments by name, in their order."""
    places = function._schema.arguments
    values = {place.name: place.default_value for place in places if place.has_default_value()}
    values |= dict(zip((place.name for place in places), arguments, strict=False)) | options
    return {place.name: values[place.name] for place in places}


def name_of(function: Any, values: dict[str, Any]) -> str:
    """ "add" of x + y, x.add_(y) and torch.add(x, y); "complex add" of complex numbers."""
    name = function._schema.name.rpartition("::")[2]
    name = name.rstrip("_") if any(a.alias_info and a.alias_info.is_write for a in function._schema.arguments) else name
    is_complex = any(tensor.is_complex() for tensor in tensors_of(values))
    return f"complex {name}" if is_complex and name not in MOVED else name


def called_there(names: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values as a page calls them, without those that are none."""
    pairs = zip(names.split(), values.values(), strict=False)
    none = lambda value: value is None or (isinstance(value, tuple) and not value) or is_type(value)
    return {name: value for name, value in pairs if name != "_" and not none(value)}


def written_down(number: float) -> Any:
    """A number of the formula, which is rounded once unless it is a whole one."""
    return wide(np.ones(())) * number if np.isfinite(number) else wide(number)


def chosen(x: Any, axis: int, places: np.ndarray, keeps_axis: bool) -> Any:
    """The elements of x at the places that were chosen along an axis."""
    if keeps_axis:
        return ag.take_along_axis(x, places, axis)
    return ag.squeeze(ag.take_along_axis(x, np.expand_dims(places, axis), axis), axis)


def drawn(function: Any) -> bool:
    """Whether an operation draws numbers."""
    import torch

    return torch.Tag.nondeterministic_seeded in function.tags


def bits(tensor: Any) -> int:
    """How many bits a number has."""
    import torch

    return torch.finfo(tensor.dtype).bits


def is_type(value: Any) -> bool:
    """True for what says how numbers are stored."""
    import torch

    return isinstance(value, (torch.dtype, torch.layout, torch.device, torch.memory_format))
