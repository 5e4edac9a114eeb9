"""The walk back along the tape.

For y = f_n(… f_2(f_1(x))), with J_k the matrix of derivatives of step k, the gradient of x is

    x̄ = J₁ᵀ J₂ᵀ … J_nᵀ ȳ,        multiplied from the right, so that only vectors are ever formed.

Nodes are numbered as they are made; a node's arguments were made before it, so descending numbers are a topological
order: no recursion, and the same order (the same bits) every time. A value that was used several times gets the sum
of what comes back, complete before it is passed on.
Source: Griewank & Walther (2008), ch. 3.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from refnp.autograd.tensor import Node, Tensor, sum_to


def backward(tensor: Tensor, cotangent: Any = None, *, keep_tape: bool = False) -> None:
    """Add to `.grad` of every leaf x behind `tensor` the gradient x̄ = Jᵀ ȳ, with ȳ = `cotangent` (1 for a scalar).

    The tape is freed on the way unless `keep_tape`. No leaf changes if anything fails, but the tape is used up.
    Raises ValueError without a cotangent for a non-scalar or with one of another shape, RuntimeError if
    nothing needs a gradient or the tape was already freed.
    """
    found = gradients_of([tensor], [start_of(tensor, cotangent)], keep_tape=keep_tape)
    totals = [gradient if leaf.grad is None else np.asarray(leaf.grad + gradient) for leaf, gradient in found]
    for (leaf, _), total in zip(found, totals, strict=True):
        leaf.grad = total


def start_of(tensor: Tensor, cotangent: Any = None) -> Any:
    """The cotangent to walk back with: the one given, or 1 for a scalar. Raises as `backward` does."""
    if not tensor.requires_grad:
        raise RuntimeError("backward: nothing behind this tensor needs a gradient; make a leaf with requires_grad=True")
    if cotangent is None and tensor.size != 1:
        raise ValueError(
            f"backward: a tensor of shape {tensor.shape} needs a cotangent of that shape; only a scalar has 1"
        )
    return np.ones(tensor.shape, tensor.dtype) if cotangent is None else cotangent


def gradients_of(
    outputs: list[Tensor],
    cotangents: list[Any],
    *,
    keep_tape: bool = False,
    seen: dict[Node, list] | None = None,
) -> list[tuple[Tensor, np.ndarray]]:
    """Carry `cotangents` back from `outputs`; return (leaf, gradient) in the order the leaves are reached.

    Every gradient returned is an array of its own, which the caller may change in place.
    `seen`, if given, is filled with the gradient of every result of every node on the way.
    """
    totals: dict[tuple[int, int], Total] = {}  # by (id of leaf, 0) or (id of node, number of its result)
    leaves: dict[int, Tensor] = {}
    queue: list[tuple[int, Node]] = []

    def send(tensor: Tensor, gradient: np.ndarray, own: bool) -> None:
        holder = tensor if tensor.node is None else tensor.node
        place = (id(holder), tensor.slot)
        if place in totals:
            totals[place].add(gradient, own)
            return
        totals[place] = Total(gradient, own)
        if isinstance(holder, Tensor):
            leaves[id(holder)] = holder
        elif not any((id(holder), k) in totals for k in range(len(holder.outputs)) if k != tensor.slot):
            heapq.heappush(queue, (-holder.step, holder))

    for tensor, cotangent in zip(outputs, cotangents, strict=True):
        cotangent = np.asarray(cotangent.data if isinstance(cotangent, Tensor) else cotangent)
        if cotangent.shape != tensor.shape:
            raise ValueError(f"backward: cotangent has shape {cotangent.shape}, the result has {tensor.shape}")
        if tensor.requires_grad:
            send(tensor, fitted(cotangent, tensor), own=False)

    while queue:
        _, node = heapq.heappop(queue)
        waiting = [totals.pop((id(node), k), None) for k in range(len(node.outputs))]
        # a result that nobody used has gradient 0
        bars = [np.zeros(*node.outputs[k]) if t is None else t.array for k, t in enumerate(waiting)]
        if seen is not None:
            seen[node] = bars
        kept = [owner(bar) for bar in bars]  # memory that a rule passes on, or gives twice, is nobody's own
        for argument, gradient in back_through(node, bars):
            own = gradient.flags.writeable and not any(owner(gradient) is memory for memory in kept)
            kept.append(owner(gradient))
            send(argument, gradient, own)
        if not keep_tape:
            node.free()
    return [(leaf, totals[key, 0].finished()) for key, leaf in leaves.items()]


def tape_of(tensors: list[Tensor]) -> list[Node]:
    """The nodes behind `tensors`, in the order in which they were made."""
    found: dict[int, Node] = {}
    ahead = [tensor.node for tensor in tensors]
    while ahead:
        node = ahead.pop()
        if node is not None and node.step not in found:
            found[node.step] = node
            ahead.extend(a.node for a in node.arguments or () if isinstance(a, Tensor))
    return [found[step] for step in sorted(found)]


def back_through(node: Node, bars: list[np.ndarray]) -> list[tuple[Tensor, np.ndarray]]:
    """One step back by the node's rule: the arguments that need a gradient, each with its own.

    All are complete before the first is passed on, which may then be added to in place.
    """
    name = node.operation.__name__
    if node.vjp is None or node.arguments is None:
        raise RuntimeError(
            f"backward: the tape behind {name} was used by an earlier backward and freed; "
            "pass keep_tape=True to that one, or compute the value again"
        )
    gradients = node.vjp(*bars)
    if not isinstance(gradients, tuple):
        raise TypeError(f"backward: the rule of {name} returned {type(gradients).__name__}; it must return a tuple")
    pairs = []
    for place, argument in enumerate(node.arguments):
        if not (isinstance(argument, Tensor) and argument.requires_grad):
            continue
        if place >= len(gradients):
            raise TypeError(f"backward: {name} has no gradient for argument {place}; pass it as an array, or detach it")
        gradient = gradients[place]() if callable(gradients[place]) else gradients[place]
        if gradient is not None:
            pairs.append((argument, fitted(gradient, argument)))
    return pairs


class Total:
    """A sum of gradients. Arrays of its own are added to in place; one that is used elsewhere too is left as it is."""

    __slots__ = ("array", "own")

    def __init__(self, array: np.ndarray, own: bool):
        self.array, self.own = array, own

    def add(self, array: np.ndarray, own: bool) -> None:
        if self.own and self.array.dtype == array.dtype:
            self.array += array
        elif own and self.array.dtype == array.dtype:
            array += self.array
            self.array = array
        else:
            self.array = np.asarray(self.array + array)
        self.own = True

    def finished(self) -> np.ndarray:
        return self.array if self.own else self.array.copy()


def owner(array: np.ndarray) -> Any:
    """The object whose memory an array looks at: itself, or what it is a view of."""
    return array if array.base is None else array.base


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
