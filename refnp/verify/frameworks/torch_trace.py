"""A model of PyTorch again in refnp's operations, in the widest precision, on a tape: what `judge_model` judges by.

While the model runs, every function of PyTorch that it calls is repeated on numbers of refnp, which stand beside its
tensors. A layer that refnp has an equation of is repeated as a whole, by refnp's layer, whatever its own code does.
What the model does between layers is repeated as it is done: sums of branches, products, masks, reshapings. A function
that is not in the table leaves its result unknown, and a model that needs it is not traced.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.tensor import Tensor
from refnp.verify.frameworks.torch_modules import READERS, NoEquationError, Part, Reading, kind_of
from refnp.verify.frameworks.torch_run import arguments_of, array_of, fresh, layer_by_layer, preserved, tensors_in
from refnp.verify.propagation import wide

WHOLE = ("TransformerEncoderLayer", "TransformerDecoderLayer")  # judged as a whole too, but repeated part by part


class NotTracedError(Exception):
    """What the model does cannot be repeated; the message says why."""


class Trace:
    """The numbers of refnp beside the tensors of a run."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, Any, int]] = {}  # by id: the tensor, which stays alive; refnp's; its version
        self.unknown: dict[int, tuple[Any, str]] = {}
        self.inside = 0  # layers that are repeated as a whole

    def of(self, value: Any) -> Any:
        """refnp's numbers for a tensor of floats, given ones if no function made it; other things as they are.

        NotTracedError for the result of an unknown function, and for a tensor that was changed by another name.
        """
        if not is_tensor(value):
            return value
        if not value.is_floating_point():
            return array_of(value)
        if id(value) in self.known:
            _, found, version = self.known[id(value)]
            if version != value._version:
                raise NotTracedError("a tensor is changed in place where another name of it is used later")
            return found
        if id(value) in self.unknown:
            raise NotTracedError(self.unknown[id(value)][1])
        self.put(value, wide(array_of(value)))
        return self.known[id(value)][1]

    def found(self, tensor: Any) -> Any:
        """refnp's numbers for a tensor, or why there are none."""
        try:
            return self.of(tensor)
        except NotTracedError as why:
            return str(why)

    def put(self, tensor: Any, found: Any) -> None:
        """The numbers of a tensor."""
        if tuple(found.shape) != tuple(tensor.shape):
            raise NotTracedError(f"a result has shape {tuple(tensor.shape)}, in refnp {tuple(found.shape)}")
        self.unknown.pop(id(tensor), None)
        self.known[id(tensor)] = tensor, found, tensor._version

    def lose(self, output: Any, why: str) -> None:
        """Results that cannot be repeated."""
        for tensor in tensors_in(output):
            self.known.pop(id(tensor), None)
            self.unknown[id(tensor)] = tensor, why

    def first_loss(self, arguments: Any) -> str:
        """Why one of some tensors cannot be repeated; "" if all can."""
        return next((self.unknown[id(one)][1] for one in tensors_in(arguments) if id(one) in self.unknown), "")

    def called(self, function: Callable, arguments: tuple, options: dict) -> Any:
        """Call a function of PyTorch, and repeat it."""
        if self.inside:
            return function(*arguments, **options)
        name, why = name_of(function), ""
        try:
            repeat = None if name in CREATED else self.repetition(name, function, arguments, options)
        except NotTracedError as lost:
            repeat, why = None, str(lost)
        output = function(*arguments, **options)
        results = tensors_in(output)
        if not results or name in CREATED:
            return output
        if repeat is None:
            self.lose(output, why or self.first_loss(arguments) or f"refnp has no operation for {name} of PyTorch")
            return output
        try:
            found = repeat()
            for tensor, own in zip(results, found if isinstance(found, list) else [found], strict=True):
                self.put(tensor, own)
        except (NotTracedError, TypeError, ValueError, KeyError) as lost:
            self.lose(output, f"{name} of PyTorch: {lost}")
        return output

    def repetition(self, name: str, function: Callable, arguments: tuple, options: dict) -> Callable | None:
        """What repeats a call, from the numbers that its arguments have now; None for an unknown function."""
        if name in MOVED:
            return self.moving(function, arguments, options)
        if name in OPERATIONS:
            given = [self.each(value) for value in arguments]
            named = {key: self.each(value) for key, value in options.items() if value is not None}
            return lambda: OPERATIONS[name](*given, **named)
        return None

    def each(self, value: Any) -> Any:
        """refnp's numbers for every tensor of a list."""
        return [self.of(one) for one in value] if isinstance(value, (list, tuple)) else self.of(value)

    def moving(self, function: Callable, arguments: tuple, options: dict) -> Callable:
        """A function that only moves numbers, or puts zeros between: done to their places, counted from 1."""
        import torch
        from torch.utils._pytree import tree_map

        flat: list[Any] = [wide(np.zeros(1))]
        first = [1]

        def places(value: Any) -> Any:
            if not (is_tensor(value) and value.is_floating_point()):
                return value
            flat.append(ag.reshape(self.of(value), -1))
            start = first[0]
            first[0] += value.numel()
            return torch.arange(start, first[0]).reshape(value.shape)

        moved = function(*tree_map(places, list(arguments)), **tree_map(places, options))
        numbers = ag.concatenate(flat)
        results = [moved] if is_tensor(moved) else list(moved)
        return lambda: [numbers[array_of(place).astype(int)] for place in results]

    # ---- layers as a whole

    def layer(self, reading: Reading, arguments: list, output: Any) -> None:
        """Repeat a layer by refnp's."""
        output, *others = output if isinstance(output, (tuple, list)) else [output]
        self.lose(others, "refnp repeats the first output of a layer alone, and not its attention weights")
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

    @contextlib.contextmanager
    def watched(self, module: Any, reader: Callable) -> Iterator[None]:
        """Within this block every call of a layer is repeated as a whole."""
        begun: list[tuple[Reading, list] | str | None] = []

        def before(module: Any, inputs: tuple, options: dict) -> None:
            self.inside += 1
            begun.append(None)
            if self.inside > 1:
                return
            try:
                reading = reader(module, *inputs, **options)
                begun[-1] = reading, list(map(self.part, reading.parts.values()))
            except NotTracedError as why:
                begun[-1] = str(why)
            except (NoEquationError, TypeError):  # repeated function by function
                self.inside = 0

        def after(module: Any, inputs: tuple, options: dict, output: Any) -> None:
            now = begun.pop()
            if isinstance(now, str):
                self.lose(output, now)
            elif now is not None:
                self.layer(*now, output)
            self.inside = max(self.inside - 1, 0)

        handles = [
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, with_kwargs=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def traced(
    module: Any, inputs: Any, readers: Mapping[str, Callable | None]
) -> tuple[list[np.ndarray], list[Tensor | str]]:
    """The floating outputs of a model as it answers without gradients, and the same of refnp, on a tape.

    Without gradients PyTorch takes fused functions that pass over what the layers inside say. In place of an output
    that cannot be repeated stands why.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    trace = Trace()

    class Repeating(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return trace.called(function, args, kwargs or {})

    given, options = arguments_of(module, inputs, False)
    run = lambda: tensors_in(module(*map(fresh, given), **{name: fresh(value) for name, value in options.items()}))
    with preserved(module), torch.no_grad():
        answers = [array_of(tensor) for tensor in run()]
    with preserved(module), layer_by_layer(), contextlib.ExitStack() as hooks, torch.no_grad():
        for path, part in module.named_modules():
            kind = kind_of(part)
            reader = readers.get(path) or (READERS.get(kind or "") if kind not in WHOLE else None)
            if reader is not None and not (path in readers and readers[path] is None):
                hooks.enter_context(trace.watched(part, reader))
        with Repeating():
            outputs = run()
    return answers, [trace.found(tensor) for tensor in outputs]


def is_tensor(value: Any) -> bool:
    """True for a tensor of PyTorch."""
    import torch

    return isinstance(value, torch.Tensor)


def name_of(function: Callable) -> str:
    """ "add" of x + y, 1 + x, x.add(y), x.add_(y) and torch.add(x, y); "mT" of x.mT."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        return function.__self__.__name__  # type: ignore[attr-defined]
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        return OPERATORS.get(name, name)
    return name.rstrip("_") if name.rstrip("_") in OPERATIONS else name


OPERATORS = {
    "radd": "add",
    "iadd": "add",
    "rmul": "mul",
    "imul": "mul",
    "isub": "sub",
    "truediv": "div",
    "itruediv": "div",
}
CREATED = {  # numbers that are given, in whatever shape
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "empty", "empty_like", "arange", "linspace", "eye",
    "tensor", "as_tensor", "from_numpy", "new_zeros", "new_ones", "new_full", "new_tensor", "randn", "rand",
}  # fmt: skip
MOVED = {
    "view", "reshape", "view_as", "reshape_as", "transpose", "permute", "t", "T", "mT", "swapaxes", "swapdims",
    "movedim", "moveaxis", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "expand_as", "contiguous", "clone",
    "detach", "chunk", "split", "tensor_split", "unbind", "narrow", "select", "getitem", "index_select", "flip", "roll",
    "repeat", "repeat_interleave", "tile", "broadcast_to", "diagonal", "tril", "triu", "cat", "concat", "concatenate",
    "stack", "gather",
}  # fmt: skip


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    """Linear above a threshold."""
    return layers.softplus(x, beta=float(beta), threshold=float(threshold))


def attended(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
) -> Any:
    """scaled_dot_product_attention: a mask is True where a query may attend, or numbers that are added."""
    if dropout_p:
        raise NotTracedError("dropout of attention weights")
    mask, bias = (None, attn_mask) if isinstance(attn_mask, Tensor) else (attn_mask, None)
    mask = layers.masks.causal(query.shape[-2], key.shape[-2]) if is_causal else mask
    return layers.attention(query, key, value, bias, mask=mask, scale=scale)


def normalised(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Over the last axes."""
    gain, shift = 1.0 if weight is None else weight, 0.0 if bias is None else bias
    return layers.layer_norm(x, gain, shift, axis=last(shape), eps=eps)


def root_normalised(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    """RMSNorm over the last axes; its ε depends on the precision unless it is given."""
    if eps is None:
        raise NotTracedError("rms_norm without eps")
    return layers.rms_norm(x, 1.0 if weight is None else weight, axis=last(shape), eps=eps)


def last(shape: Any) -> Any:
    """The last axis, or the last axes."""
    return -1 if len(shape) == 1 else tuple(range(-len(shape), 0))


def without_dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Nothing is dropped in evaluation."""
    if training and p:
        raise NotTracedError("dropout in training")
    return x


def reduced(operation: Callable) -> Callable:
    """sum or mean over `dim`."""
    return lambda x, dim=None, keepdim=False, dtype=None: operation(
        x, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim
    )


def scaled(term: Any, alpha: float) -> Any:
    """alpha · term."""
    return term if alpha == 1 else term * alpha


def implicit(x: Any, dim: int | None) -> int:
    """The axis of a softmax that is told none: the first of one or three, else the second."""
    return dim if dim is not None else 0 if x.ndim in (0, 1, 3) else 1


def variance(x: Any, dim: Any = None, unbiased: bool = True, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Σ (x − μ)²/(n − correction)."""
    axis = tuple(dim) if isinstance(dim, list) else dim
    away = x - ag.mean(x, axis=axis, keepdims=True)
    count = x.size if axis is None else math.prod(x.shape[i] for i in ((axis,) if isinstance(axis, int) else axis))
    taken = correction if correction is not None else int(unbiased)
    return ag.sum(away * away, axis=axis, keepdims=keepdim) / float(count - taken)


def convolved(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """A convolution of zeros around x."""
    options = {"stride": several(stride), "dilation": several(dilation), "groups": groups}
    return layers.convolution(x, weight, bias, padding=0 if padding == "valid" else several(padding), **options)


def several(value: Any) -> Any:
    """A tuple in place of a list."""
    return tuple(value) if isinstance(value, list) else value


def max_pooled(
    x: Any,
    size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest number of each window."""
    walk = {"stride": several(stride) or None, "padding": several(padding), "dilation": several(dilation)}
    return layers.max_pool(x, several(size), ceil_mode=ceil_mode, **walk)


def group_normalised(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Over groups of channels."""
    return layers.group_norm(
        x, 1.0 if weight is None else weight, 0.0 if bias is None else bias, groups=groups, eps=eps
    )


def normalised_to_length(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """x over its length, or over ε."""
    if p != 2:
        raise NotTracedError("normalize with another p than 2")
    return x / ag.maximum(ag.sqrt(ag.sum(x * x, axis=dim, keepdims=True)), eps)


def same(x: Any, *_: Any, **__: Any) -> Any:
    """The numbers as they are: another type rounds, which is an error of the model and not of refnp's."""
    return x


OPERATIONS: dict[str, Callable] = {
    "add": lambda x, y, alpha=1: ag.add(x, scaled(y, alpha)),
    "sub": lambda x, y, alpha=1: ag.subtract(x, scaled(y, alpha)),
    "rsub": lambda x, y, alpha=1: ag.subtract(y, x),
    "mul": ag.multiply,
    "div": lambda x, y: ag.divide(x, y),
    **dict.fromkeys(("rdiv", "rtruediv"), lambda x, y: ag.divide(y, x)),
    "neg": ag.negative,
    "pow": ag.power,
    "rpow": lambda x, y: ag.power(y, x),
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / ag.sqrt(x),
    **{name: getattr(ag, name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "sin", "cos")},
    "abs": ag.absolute,
    **{name: getattr(ag, name) for name in ("maximum", "minimum", "where")},
    "clamp": lambda x, min=None, max=None: ag.clip(x, min, max),
    "masked_fill": lambda x, mask, value: ag.where(mask, value, x),
    **dict.fromkeys(("matmul", "bmm", "mm", "mv", "dot"), ag.matmul),
    "addmm": lambda x, y, z: x + ag.matmul(y, z),
    "baddbmm": lambda x, y, z: x + ag.matmul(y, z),
    "outer": ag.outer,
    "einsum": lambda subscripts, *operands: ag.einsum(
        subscripts, *(operands[0] if isinstance(operands[0], list) else operands)
    ),
    "linear": lambda x, weight, bias=None: ag.linear(x, ag.transpose(weight), bias),
    "sum": reduced(ag.sum),
    "mean": reduced(ag.mean),
    "var": variance,
    "std": lambda x, *dim, **options: ag.sqrt(variance(x, *dim, **options)),
    "softmax": lambda x, dim=None, _stacklevel=3, dtype=None: layers.softmax(x, axis=implicit(x, dim)),
    "log_softmax": lambda x, dim=None, _stacklevel=3, dtype=None: layers.log_softmax(x, axis=implicit(x, dim)),
    "relu": lambda x, inplace=False: layers.relu(x),
    "leaky_relu": lambda x, negative_slope=0.01, inplace=False: layers.leaky_relu(x, slope=negative_slope),
    "elu": lambda x, alpha=1.0, inplace=False: layers.elu(x, alpha=alpha),
    "gelu": layers.gelu,
    "silu": lambda x, inplace=False: layers.silu(x),
    "sigmoid": layers.sigmoid,
    "softplus": softplus,
    "layer_norm": normalised,
    "rms_norm": root_normalised,
    "scaled_dot_product_attention": attended,
    "group_norm": group_normalised,
    "normalize": normalised_to_length,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolved),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), max_pooled),
    "hardtanh": lambda x, min_val=-1.0, max_val=1.0, inplace=False: ag.clip(x, float(min_val), float(max_val)),
    "relu6": lambda x, inplace=False: ag.clip(x, 0.0, 6.0),
    "embedding": lambda tokens, weight, padding_idx=None, *_: layers.embedding(tokens, weight),
    "dropout": without_dropout,
    **dict.fromkeys(("to", "type_as", "float", "double", "bfloat16", "half", "cpu", "alias", "requires_grad_"), same),
}
