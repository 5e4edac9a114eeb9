"""The numbers of refnp beside the memory of PyTorch's tensors.

A view of a tensor is a view of its numbers, and what is written through one name is read through all: numbers are kept
by memory, in the order in which they lie there, and a tensor's are read by its strides.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.tensor import Tensor
from refnp.verify.frameworks.torch_pages import NotTracedError
from refnp.verify.frameworks.torch_run import array_of
from refnp.verify.propagation import wide


class Memory:
    """refnp's numbers for every tensor of a run."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[Any, Any]] = {}  # by memory: a tensor that keeps it, and its numbers or why none
        self.taken = ""  # why nothing that follows is known

    def of(self, tensor: Any) -> Any:
        """refnp's numbers for a tensor, given ones if no operation made it; whole numbers and conditions as they are.

        NotTracedError for the result of an operation that is not repeated.
        """
        if not is_tensor(tensor):
            return tensor
        with outside():
            if not has_floats(tensor):
                return array_of(tensor)
            real = real_of(tensor)
            numbers = self.known(real)
            if isinstance(numbers, str):
                raise NotTracedError(numbers)
            found = strided(numbers, real)
            return found * np.array([1, -1]) if tensor.is_conj() else found

    def known(self, real: Any) -> Any:
        """The numbers of a tensor's memory in their order, or why there are none."""
        key = real.untyped_storage()._cdata
        if key not in self.numbers:
            self.numbers[key] = real, wide(array_of(real.as_strided((size_of_memory(real),), (1,), 0)))
        return self.taken or self.numbers[key][1]

    def put(self, tensor: Any, found: Any) -> None:
        """Write the numbers of a tensor into its memory."""
        with outside():
            real = real_of(tensor)
            if tuple(found.shape) != tuple(real.shape):
                raise NotTracedError(f"a result has shape {tuple(real.shape)}, in refnp {tuple(found.shape)}")
            places, count = places_of(real), size_of_memory(real)
            new: Any = ag.reshape(found if isinstance(found, Tensor) else wide(found), -1)
            if len(places) < count:
                numbers = self.known(real)
                if isinstance(numbers, str):
                    raise NotTracedError(numbers)
                index = np.arange(count)
                index[places] = count + np.arange(len(places))
                new = ag.concatenate([numbers, new])[index]
            elif (places != np.arange(count)).any():
                new = new[np.argsort(places)]
            self.numbers[real.untyped_storage()._cdata] = real, new

    def lose(self, tensors: list[Any], why: str) -> None:
        """Results that cannot be repeated."""
        for tensor in tensors:
            with outside():
                real = real_of(tensor)
                self.numbers[real.untyped_storage()._cdata] = real, why

    def found(self, tensor: Any) -> Any:
        """refnp's numbers for a tensor, or why there are none."""
        try:
            return self.of(tensor)
        except NotTracedError as why:
            return str(why)

    def leave(self, tensors: list[Any]) -> None:
        """Numbers that operations have made leave the tensors: what becomes of them is not seen."""
        found = [self.found(tensor) for tensor in tensors]
        if any(isinstance(one, str) or one.node is not None for one in found):
            self.taken = "numbers are taken out of a tensor, by item(), numpy() or the like"


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Within this block operations of PyTorch are not repeated."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def tensors_of(values: Any) -> list[Any]:
    """All tensors in nested lists and dicts."""
    from torch.utils._pytree import tree_leaves

    return [value for value in tree_leaves(values) if is_tensor(value)]


def is_tensor(value: Any) -> bool:
    """True for a tensor of PyTorch."""
    import torch

    return isinstance(value, torch.Tensor)


def has_floats(tensor: Any) -> bool:
    """Whether a tensor holds numbers that are rounded."""
    return tensor.is_floating_point() or tensor.is_complex()


def real_of(tensor: Any) -> Any:
    """Complex numbers as pairs."""
    import torch

    return torch.view_as_real(tensor.conj() if tensor.is_conj() else tensor) if tensor.is_complex() else tensor


def memory_of(tensor: Any) -> int:
    """What two views of the same numbers share."""
    return tensor.untyped_storage()._cdata


def size_of_memory(real: Any) -> int:
    """How many numbers there are."""
    return real.untyped_storage().nbytes() // real.element_size()


def places_of(real: Any) -> np.ndarray:
    """Where the elements of a tensor lie in its memory."""
    places = np.full(tuple(real.shape), real.storage_offset())
    for axis, (n, stride) in enumerate(zip(real.shape, real.stride(), strict=True)):
        places += np.reshape(stride * np.arange(n), [-1 if i == axis else 1 for i in range(real.ndim)])
    return places.ravel()


def strided(numbers: Any, real: Any) -> Any:
    """The numbers of a tensor out of those of its memory."""
    shape, places = tuple(real.shape), places_of(real)
    if len(places) == numbers.size and (places == np.arange(numbers.size)).all():
        return ag.reshape(numbers, shape)
    order = sorted(range(len(shape)), key=lambda axis: -real.stride(axis))
    dense = np.transpose(places.reshape(shape), order)
    if dense.size == numbers.size and (dense.ravel() == np.arange(numbers.size)).all():
        return ag.transpose(ag.reshape(numbers, dense.shape), tuple(np.argsort(order)))
    return numbers[places.reshape(shape)]
