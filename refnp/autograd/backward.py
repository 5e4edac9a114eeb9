"""The walk back along the tape.

For y = f_n(… f_2(f_1(x))), with J_k the matrix of derivatives of step k, the gradient of x is

    x̄ = J₁ᵀ J₂ᵀ … J_nᵀ ȳ,        multiplied from the right, so that only vectors are formed.

Nodes are numbered as they are made; a node's arguments were made before it, so descending numbers are a topological
order: no recursion, and the same order (the same bits) every time. A value that was used several times gets the sum
of the gradients of its uses, complete before it is passed on.
Source: Griewank & Walther (2008), ch. 3.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import zip_longest
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array, ArrayLike, Node, Tensor
from refnp.numbers import duals
from refnp.numbers.arrays import sum_to
from refnp.numbers.duals import Cotangent, has_nan, wrapped


def backward(tensor: Tensor, cotangent: ArrayLike | None = None, *, keep_tape: bool = False) -> None:
    """Add to `.grad` of every leaf x behind `tensor` the gradient x̄ = Jᵀ ȳ, with ȳ = `cotangent` (1 for a scalar).

    The tape is freed on the way unless `keep_tape`. No leaf changes if anything fails, but the tape is used up.
    Raises ValueError without a cotangent for a non-scalar or with one of another shape, RuntimeError if
    nothing needs a gradient or the tape was already freed.
    """
    found = gradients_of([tensor], [starting_cotangent(tensor, cotangent)], keep_tape=keep_tape)
    totals = [gradient if leaf.grad is None else np.asarray(leaf.grad + gradient) for leaf, gradient in found]
    for (leaf, _), total in zip(found, totals, strict=True):
        leaf.grad = total


def gradients_of(
    outputs: list[Tensor],
    cotangents: list[ArrayLike],
    *,
    keep_tape: bool = False,
    record: dict[Node, list[Array]] | None = None,
) -> list[tuple[Tensor, Array]]:
    """Carry `cotangents` back from `outputs`; return (leaf, gradient) in the order in which the leaves are reached.

    Every gradient returned is an array of its own, which the caller may change in place.
    `record`, if given, is filled with the gradient of every result of every node on the way.
    If a NaN arrives, the walk is done again with 0 · anything = 0 (duals.py).
    """
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        found, walked = walk_back(outputs, cotangents, record, careful=False)
        arrived = [gradient for _, gradient in found]
        if has_nan(arrived) or (record is not None and has_nan([bar for bars in record.values() for bar in bars])):
            found, walked = walk_back(outputs, cotangents, record, careful=True)
    if not keep_tape:
        for node in walked:
            node.arguments = node.options = node.vjp = None
    return found


def walk_back(outputs: list[Tensor], cotangents: list[ArrayLike], record: dict | None, *, careful: bool) -> tuple:
    """The (leaf, gradient) pairs, and the nodes that were passed."""
    walked = []
    gradients = Accumulator()
    pairs = start(outputs, cotangents)
    gradients.add(pairs, [cotangent for _, cotangent in pairs])
    for node, bars in gradients.nodes():
        walked.append(node)
        if record is not None:
            record[node] = bars
        gradients.add(back_through(node, bars, careful=careful), bars)
    return gradients.of_leaves(), walked


class Accumulator:
    """The gradients of a walk back: a sum for every value that was reached, and which sums own their memory.

    A rule may pass on the gradient that it was given, a view of it, or the same array twice. So a sum is added to in
    place only if nothing else uses its memory: neither what the rule was given, nor another gradient from that rule.
    """

    def __init__(self) -> None:
        self.sums: dict[Any, list[Any]] = {}  # by node, or id of a leaf: for each result (sum, whether it is owned)
        self.leaves: dict[int, Tensor] = {}
        self.queue: list[tuple[int, Node]] = []

    def add(self, gradients: list[tuple[Tensor, Array]], given: list[Array]) -> None:
        """Add each (tensor, gradient) to the sum of its tensor; the rule that made them was `given` some arrays."""
        used = [id(array if array.base is None else array.base) for array in given]  # ids of what owns memory
        for tensor, gradient in gradients:
            owner = id(gradient if gradient.base is None else gradient.base)
            own = owner not in used
            used.append(owner)
            key = tensor.node or id(tensor)
            sums = self.sums.get(key) or self.first(tensor, key)
            before = sums[tensor.slot]
            if before is not None:
                gradient, own = summed(before[0], before[1], gradient, own), True
            sums[tensor.slot] = gradient, own

    def first(self, tensor: Tensor, key: Any) -> list:
        """Empty sums for a leaf, or for the results of a node, which is put in the queue."""
        node = tensor.node
        if node is None:
            self.leaves[key] = tensor
            sums = self.sums[key] = [None]
        else:
            heappush(self.queue, (-node.step, node))
            sums = self.sums[key] = [None] * len(node.outputs)
        return sums

    def nodes(self) -> Iterator[tuple[Node, list[Array]]]:
        """The nodes that were reached, the last one made first, until there is none, each with the gradients of its
        results, which are complete; 0 for a result that was not used.
        """
        while self.queue:
            _, node = heappop(self.queue)
            sums = self.sums.pop(node)
            if len(sums) == 1:
                yield node, [sums[0][0]]
            else:
                yield node, [np.zeros(*node.outputs[k]) if one is None else one[0] for k, one in enumerate(sums)]

    def of_leaves(self) -> list[tuple[Tensor, Array]]:
        """(leaf, gradient), copied where the gradient does not own its memory, in the order in which it lies there."""
        totals = [(leaf, *self.sums[key][0]) for key, leaf in self.leaves.items()]
        return [
            (leaf, total if own and total.flags.writeable else total.copy("C" if 0 in total.strides else "K"))
            for leaf, total, own in totals
        ]


def summed(total: Array, total_own: bool, gradient: Array, gradient_own: bool) -> Array:
    """total + gradient, in the memory of the one that owns it; in an array of its own otherwise."""
    if total_own and total.dtype == gradient.dtype and total.flags.writeable:
        total += gradient
        return total
    if gradient_own and total.dtype == gradient.dtype and gradient.flags.writeable:
        gradient += total
        return gradient
    return np.asarray(total + gradient)


def starting_cotangent(tensor: Tensor, cotangent: ArrayLike | None = None) -> ArrayLike:
    """The cotangent to walk back with: the one given, or 1 for a scalar.

    Raises RuntimeError if nothing behind the tensor needs a gradient, ValueError for a non-scalar without a cotangent.
    """
    if not tensor.requires_grad:
        raise RuntimeError("backward: nothing behind this tensor needs a gradient; make a leaf with requires_grad=True")
    if cotangent is None and tensor.size != 1:
        raise ValueError(
            f"backward: a tensor of shape {tensor.shape} needs a cotangent of that shape; only a scalar has 1"
        )
    return np.ones(tensor.shape, tensor.dtype) if cotangent is None else cotangent


def start(outputs: list[Tensor], cotangents: list[ArrayLike]) -> list[tuple[Tensor, Array]]:
    """(output, cotangent) for every output that needs a gradient; ValueError for a cotangent of another shape."""
    pairs = []
    for tensor, cotangent in zip(outputs, cotangents, strict=True):
        array = np.asarray(cotangent.data if isinstance(cotangent, Tensor) else cotangent)
        if array.shape != tensor.shape:
            raise ValueError(f"backward: cotangent has shape {array.shape}, the result has {tensor.shape}")
        if tensor.requires_grad:
            pairs.append((tensor, fitted(array, tensor)))
    return pairs


def back_through(node: Node, bars: list[Array], *, careful: bool = False) -> list[tuple[Tensor, Array]]:
    """One step back by the node's rule: the arguments that need a gradient, each with its own.

    All are complete before the first is passed on, which may then be added to in place. A `careful` step computes with
    0 · anything = 0.   Raises TypeError or ValueError that names the operation if its rule returns no gradient for an
    argument that needs one, or one of another shape.
    """
    if node.vjp is None or node.arguments is None:
        raise RuntimeError(
            f"backward: the tape behind {node.operation.__name__} was used by an earlier backward and freed; "
            "pass keep_tape=True to that one, or compute the value again"
        )
    gradients = node.vjp(*bars) if not careful else _careful(node, bars)
    if not isinstance(gradients, tuple):
        name = node.operation.__name__
        raise TypeError(f"backward: the rule of {name} returned {type(gradients).__name__}; it must return a tuple")
    pairs = []
    for argument, gradient in zip_longest(node.arguments, gradients):
        if isinstance(argument, Tensor) and argument.requires_grad:
            if callable(gradient):
                gradient = gradient()
            if gradient is None:
                _refuse_missing(node, argument)
            data = argument.data
            if gradient.__class__ is not np.ndarray or gradient.dtype is not data.dtype or gradient.shape != data.shape:
                gradient = fitted(gradient, argument, node.operation.__name__)
            pairs.append((argument, gradient))
    return pairs


def _refuse_missing(node: Node, argument: Tensor) -> None:
    """TypeError for a rule that left out the gradient of an argument that needs one."""
    place = next(k for k, other in enumerate(node.arguments or ()) if other is argument)
    name = node.operation.__name__
    raise TypeError(f"backward: {name} has no gradient for argument {place}; pass it as an array, or detach it")


def _careful(node: Node, bars: list[Array]) -> tuple:
    """The gradients with 0 · anything = 0: of the finite part of ȳ, and of ±∞ in it as t times ±1 for t → ∞."""

    def computed(parts: list[Array]) -> list:
        gradients = node.vjp(*(wrapped(np.asarray(part), Cotangent) for part in parts))  # type: ignore[misc]
        needed = (isinstance(a, Tensor) and a.requires_grad for a in node.arguments or ())
        pairs = zip(gradients, needed, strict=False)
        gradients = [g() if wanted and callable(g) else g if wanted else None for g, wanted in pairs]
        return [None if g is None else np.asarray(g) for g in gradients]

    infinite = [duals.infinite_part(bar) for bar in bars]
    found = computed([np.where(signs != 0, 0, bar) for signs, bar in zip(infinite, bars, strict=True)])
    if not any(map(np.any, infinite)):
        return tuple(found)
    slopes = computed(infinite)
    return tuple(
        None if x is None else np.asarray(x + duals.times_infinity(s)) for x, s in zip(found, slopes, strict=True)
    )


def fitted(gradient: Array, argument: Tensor, name: str = "cotangent") -> Array:
    """The gradient in its argument's shape (summed over broadcast axes) and dtype.

    A complex gradient of a real argument stays complex: its imaginary part is the complex step's derivative.
    """
    gradient = sum_to(gradient, argument.shape)
    if gradient.shape != argument.shape:
        raise ValueError(
            f"backward: the rule of {name} returned shape {gradient.shape} for an argument of {argument.shape}"
        )
    if gradient.dtype == argument.dtype or gradient.dtype.kind == "c" != argument.dtype.kind:
        return gradient
    return gradient.astype(argument.dtype)


def tape_of(tensors: list[Tensor]) -> list[Node]:
    """The nodes behind `tensors`, in the order in which they were made."""
    found: dict[int, Node] = {}
    waiting = [tensor.node for tensor in tensors]
    while waiting:
        node = waiting.pop()
        if node is not None and node.step not in found:
            found[node.step] = node
            waiting.extend(a.node for a in node.arguments or () if isinstance(a, Tensor))
    return [found[step] for step in sorted(found)]
