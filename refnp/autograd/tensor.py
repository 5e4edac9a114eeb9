"""Tensor: a NumPy array that remembers how it was computed, and the walk back along that memory.

Reverse-mode differentiation of y = f_n(… f_2(f_1(x))): every step writes a `Node` that can carry a gradient of
its result back to its arguments (its VJP, v ↦ Jᵀv). `gradients_of` visits the nodes from the last to the first:

    x̄ = J₁ᵀ J₂ᵀ … J_nᵀ ȳ,        multiplied from the right, so that only vectors are ever formed.

This page knows no operation. Nodes are numbered as they are made; a node's arguments were made before it, so
descending numbers are a topological order: no recursion, and the same order (the same bits) every time.
Source: Griewank & Walther, Evaluating Derivatives, 2nd ed. (2008), ch. 3.
"""

from __future__ import annotations

import contextlib
import contextvars
import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

_steps = itertools.count()
_recording = contextvars.ContextVar("recording", default=True)


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Within this block nothing is written to the tape: values only, no memory kept for gradients."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    """True outside `no_grad`."""
    return _recording.get()


class Node:
    """One step on the tape: which operation, on what, and its VJP.

    `arguments` are the operation's positional arguments as given (Tensors and constants), `outputs` one
    (shape, dtype) per result, `vjp` takes one gradient per result and returns one per argument.
    Both are dropped once a gradient has passed through.
    """

    __slots__ = ("arguments", "operation", "outputs", "step", "vjp")

    def __init__(self, operation: Callable, arguments: tuple, outputs: list, vjp: Callable):
        self.operation = operation
        self.arguments: tuple | None = arguments
        self.outputs = outputs
        self.vjp: Callable | None = vjp
        self.step = next(_steps)

    def free(self) -> None:
        self.arguments = self.vjp = None


class Tensor:
    """An array and, if it was computed from something that needs a gradient, the node that made it.

    `Tensor(value, requires_grad=True)` is a leaf: after `backward()` on a result its gradient stands in `.grad`.
    Gradients are added up over several backward passes; set `.grad = None` to start afresh.
    The array is shared, not copied: changing it in place between forward and backward spoils the gradient.

    Raises TypeError for integers, booleans or objects with requires_grad=True: only real and complex
    numbers have gradients. For complex values the gradient is that of a holomorphic function, x̄ = Jᵀȳ with no
    conjugate (PyTorch conjugates, JAX does not); this is what makes the complex step possible.
    """

    __slots__ = ("__weakref__", "data", "grad", "node", "requires_grad", "slot")
    __array_ufunc__ = None  # ndarray + Tensor asks Tensor.__radd__, instead of making an array of objects

    def __init__(self, value: Any, *, requires_grad: bool = False, dtype: Any = None):
        if isinstance(value, Tensor):
            value = value.data
        self.data: np.ndarray = np.asarray(value, dtype)
        if self.data.dtype == object:
            raise TypeError(f"Tensor: value has no common numeric type ({type(value).__name__}); pass numbers only")
        if requires_grad and self.data.dtype.kind not in "fc":
            raise TypeError(
                f"Tensor: requires_grad needs a floating type, value is {self.data.dtype}; pass dtype=np.float64"
            )
        self.grad: np.ndarray | None = None
        self.requires_grad = requires_grad
        self.node: Node | None = None
        self.slot = 0

    @classmethod
    def result(cls, value: Any, node: Node | None = None, slot: int = 0) -> Tensor:
        """A computed value: result number `slot` of `node`, or a constant if there is no node."""
        tensor = cls.__new__(cls)
        tensor.data = np.asarray(value)
        tensor.grad = None
        tensor.requires_grad = node is not None
        tensor.node = node
        tensor.slot = slot
        return tensor

    shape = property(lambda self: self.data.shape, doc="Lengths of the axes.")
    ndim = property(lambda self: self.data.ndim, doc="Number of axes.")
    size = property(lambda self: self.data.size, doc="Number of elements.")
    dtype = property(lambda self: self.data.dtype, doc="Type of the elements; every result keeps it.")

    def numpy(self) -> np.ndarray:
        """The array itself, without history."""
        return self.data

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self.data.item()

    def detach(self) -> Tensor:
        """The same values as a constant: no gradient flows through it."""
        return Tensor.result(self.data)

    def backward(self, cotangent: Any = None, *, keep_tape: bool = False) -> None:
        """Add to `.grad` of every leaf x the gradient x̄ = Jᵀ ȳ, with ȳ = `cotangent` (1 for a scalar).

        The tape is freed on the way unless `keep_tape`. No leaf changes if anything fails.
        Raises ValueError without a cotangent for a non-scalar or with one of another shape, RuntimeError if
        nothing needs a gradient or the tape was already freed.
        """
        if not self.requires_grad:
            raise RuntimeError("backward: nothing behind this tensor requires a gradient; make a leaf with it")
        if cotangent is None:
            if self.size != 1:
                raise ValueError(
                    f"backward: a tensor of shape {self.shape} needs a cotangent of that shape; only a scalar has 1"
                )
            cotangent = np.ones(self.shape, self.dtype)
        for leaf, gradient in gradients_of([self], [cotangent], keep_tape=keep_tape):
            # a copy, since the arrays on the way may be shared with another leaf
            leaf.grad = np.array(gradient) if leaf.grad is None else leaf.grad + gradient

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("a Tensor is not turned into an array silently, for its history would be lost; use .numpy()")

    def __repr__(self) -> str:
        values = np.array2string(self.data, precision=6, threshold=20, separator=", ", prefix="Tensor(")
        made = f", from {self.node.operation.__name__}" if self.node else ", leaf" if self.requires_grad else ""
        return f"Tensor({values}, {self.dtype}{made})"

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len: a Tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __int__(self) -> int:
        return int(self.data)

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # operators.py, which knows the operations, gives a Tensor its arithmetic and its methods
        __add__: Any
        __radd__: Any
        __sub__: Any
        __rsub__: Any
        __mul__: Any
        __rmul__: Any
        __truediv__: Any
        __rtruediv__: Any
        __pow__: Any
        __rpow__: Any
        __matmul__: Any
        __rmatmul__: Any
        __neg__: Any
        __abs__: Any
        __getitem__: Any
        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any

        def __getattr__(self, name: str) -> Any: ...


class Parameter(Tensor):
    """A leaf that belongs to a module and is trained; its array is its own copy."""

    __slots__ = ()

    def __init__(self, value: Any, *, dtype: Any = None):
        super().__init__(np.array(value, dtype), requires_grad=True)


def gradients_of(
    outputs: list[Tensor],
    cotangents: list[Any],
    *,
    keep_tape: bool = False,
    seen: dict[Node, list] | None = None,
) -> list[tuple[Tensor, np.ndarray]]:
    """Carry `cotangents` back from `outputs`; return (leaf, gradient) in the order the leaves are reached.

    `seen`, if given, is filled with the gradient of every result of every node on the way.
    """
    leaves: dict[int, tuple[Tensor, np.ndarray]] = {}
    waiting: dict[Node, list] = {}  # gradients of a node's results, complete once every later node is done
    owned: set[int] = set()  # arrays made here, which may be added to in place
    queue: list[tuple[int, Node]] = []

    def add(total: np.ndarray | None, gradient: np.ndarray) -> np.ndarray:
        if total is None:
            return gradient
        if id(total) in owned and total.dtype == gradient.dtype:
            total += gradient
            return total
        owned.discard(id(total))
        total = np.asarray(total + gradient)
        owned.add(id(total))
        return total

    def send(tensor: Tensor, gradient: np.ndarray) -> None:
        node = tensor.node
        if node is None:
            before = leaves.get(id(tensor))
            leaves[id(tensor)] = (tensor, add(before[1] if before else None, gradient))
            return
        if node not in waiting:
            waiting[node] = [None] * len(node.outputs)
            heapq.heappush(queue, (-node.step, node))
        slots = waiting[node]
        slots[tensor.slot] = add(slots[tensor.slot], gradient)

    for tensor, cotangent in zip(outputs, cotangents, strict=True):
        cotangent = np.asarray(cotangent)
        if cotangent.shape != tensor.shape:
            raise ValueError(f"backward: cotangent has shape {cotangent.shape}, the result has {tensor.shape}")
        if tensor.requires_grad:
            send(tensor, fitted(cotangent, tensor))

    while queue:
        _, node = heapq.heappop(queue)
        if node.vjp is None or node.arguments is None:
            raise RuntimeError(
                f"backward: the tape behind {node.operation.__name__} was used by an earlier backward and freed; "
                "pass keep_tape=True to that one, or compute the value again"
            )
        bars = waiting.pop(node)
        owned.difference_update(map(id, bars))  # a rule may pass them on as they are, to several arguments
        if seen is not None:
            seen[node] = list(bars)
        if len(bars) == 1:
            gradients = node.vjp(bars[0])
        else:  # a result that nobody used has gradient 0
            gradients = node.vjp(
                *(np.zeros(*node.outputs[k]) if bar is None else bar for k, bar in enumerate(bars))
            )
        for argument, gradient in zip(node.arguments, gradients):  # noqa: B905  options have no gradient
            if gradient is not None and isinstance(argument, Tensor) and argument.requires_grad:
                send(argument, fitted(gradient() if callable(gradient) else gradient, argument))
        if not keep_tape:
            node.free()
    return list(leaves.values())


def fitted(gradient: Any, argument: Tensor) -> np.ndarray:
    """The gradient in its argument's shape (summed over broadcast axes) and dtype.

    A complex gradient of a real argument stays complex: its imaginary part is the complex step's derivative.
    """
    gradient = sum_to(gradient, argument.shape)
    if gradient.shape != argument.shape:
        raise ValueError(f"backward: a rule returned shape {gradient.shape} for an argument of {argument.shape}")
    if gradient.dtype == argument.dtype or gradient.dtype.kind == "c" != argument.dtype.kind:
        return gradient
    return gradient.astype(argument.dtype)


def sum_to(array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Sum over the axes that broadcasting `shape` to `array.shape` repeated: the adjoint of broadcasting."""
    array = np.asarray(array)
    if array.shape == shape:
        return array
    array = array.sum(tuple(range(array.ndim - len(shape))))
    repeated = tuple(i for i, n in enumerate(shape) if n == 1 != array.shape[i])
    return array.sum(repeated, keepdims=True) if repeated else array
