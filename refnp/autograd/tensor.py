"""Tensor: a NumPy array with the record of how it was computed.

Every operation on a Tensor that needs a gradient records a `Node`: which operation, on what, and how a gradient of its
result becomes gradients of its arguments. The nodes behind a result are its tape; backward.py walks along it.

No operation is imported here: operators.py gives a Tensor its operators and methods.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.numbers.kinds import Kind
from refnp.numbers.within import within

_steps = itertools.count()
recording = contextvars.ContextVar("recording", default=True)
_differentiated = contextvars.ContextVar("differentiated", default=False)
_stepping = contextvars.ContextVar["Step | None"]("stepping", default=None)
_call = contextvars.ContextVar["Call | None"]("call", default=None)


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Within this block nothing is recorded on the tape: values only, no memory kept for gradients.

    A derivative that is asked for inside (grad, vjp and the like) records what it needs by itself.
    """
    token = recording.set(False)
    try:
        yield
    finally:
        recording.reset(token)


def recorded(function: Callable, *arguments: Any) -> Any:
    """function(*arguments), with the tape written, inside `no_grad` too."""
    with within(recording, True), within(_differentiated, True):
        return function(*arguments)


class Step:
    """A complex step on its way through a program; `branched` once it met a branch point, as √ has one at 0."""

    branched = False


def stepping() -> contextlib.AbstractContextManager[Step]:
    """Within this block imaginary parts are derivatives, which a constant (.numpy(), .detach()) has not."""
    return within(_stepping, Step())


def is_recording() -> bool:
    """True outside `no_grad`."""
    return recording.get()


def is_stepping() -> bool:
    """True inside `stepping`."""
    return _stepping.get() is not None


def branch_point_at_0(x: Any) -> None:
    """Notes that a function with a branch point at 0 is asked for a step from there: x = 0 + i h v."""
    step = _stepping.get()
    if step is not None and isinstance(x, np.ndarray) and x.dtype.kind == "c":
        step.branched = step.branched or bool(((x.real == 0) & (x.imag != 0)).any())


class OffTape:
    """Arrays that a module computed from arrays, without a tape: no gradient reaches its parameters through them."""

    def __init__(self) -> None:
        self.modules: dict[int, tuple[weakref.ref, Any]] = {}  # by id of the array

    def add(self, arrays: list, module: Any) -> None:
        """Remember which module gave them, as long as they live."""
        for array in arrays:
            if isinstance(array, np.ndarray):
                forget = functools.partial(self.modules.pop, id(array))
                self.modules[id(array)] = weakref.ref(array, forget), module

    def refuse(self, name: str, arguments: tuple) -> None:
        """TypeError if an operation on the tape is given one of them, and its module has something to train."""
        for argument in arguments:
            found = self.modules.get(id(argument))
            if found is not None and found[0]() is argument and found[1].parameters():
                kind = type(found[1]).__name__
                raise TypeError(
                    f"{name}: an array here is what {kind} gave for arrays, and no gradient would reach its "
                    f"parameters; call it as {kind}(…)(Tensor(x)), or inside no_grad() for a constant"
                )


off_tape = OffTape()


class Call:
    """A call of a module that writes on the tape, and the call around it: nodes say in which one they were made.

    In the outermost an underflow is no error, whatever NumPy is told to raise, nor in those inside.
    """

    __slots__ = ("flags", "inside", "module", "token")

    def __init__(self, module: Any):
        self.module = module
        self.inside: Call | None = _call.get()
        self.flags = np.errstate(under="ignore") if self.inside is None else None

    def __enter__(self) -> None:
        if self.flags is not None:
            self.flags.__enter__()
        self.token = _call.set(self)

    def __exit__(self, *error: Any) -> None:
        _call.reset(self.token)
        if self.flags is not None:
            self.flags.__exit__(*error)


class Node:
    """One step on the tape: which operation, on what, and its VJP.

    `arguments` are the operation's positional arguments as given (Tensors and constants), `options` those by name,
    `vjp` takes one gradient per result and returns one per argument. `outputs` has a (shape, dtype) for each of several
    results, and None for a single one, whose Tensor is there wherever the node is met. `call` is the innermost call of
    a module around it. All but the outputs and the call are dropped once a gradient has passed through.
    """

    __slots__ = ("arguments", "call", "operation", "options", "outputs", "step", "vjp")

    def __init__(self, operation: Callable, arguments: tuple, options: dict, vjp: Callable, outputs: tuple = (None,)):
        self.operation = operation
        self.arguments: tuple | None = arguments
        self.options: dict | None = options
        self.outputs = outputs
        self.vjp: Callable | None = vjp
        self.call: Call | None = _call.get()
        self.step = next(_steps)


class Tensor:
    """An array and, if it was computed from something that needs a gradient, the node that made it.

    `Tensor(value, requires_grad=True)` is a leaf: after `backward()` on a result its gradient stands in `.grad`.
    Gradients are added up over several backward passes; set `.grad = None` to start afresh.
    The array is shared, not copied: changing it in place between forward and backward makes the gradient wrong.
    A Tensor made from a Tensor takes its values only, without history.

    `==` and the other comparisons give a boolean array, element by element, as in NumPy; so ask for one Tensor in a
    list with `any(t is x for x in tensors)`, not with `t in tensors`.

    Raises TypeError for what is not numbers, and for integers and booleans with requires_grad=True: only real and
    complex numbers have gradients. For complex values the gradient is that of a holomorphic function, x̄ = Jᵀȳ with
    no conjugate (PyTorch conjugates, JAX does not); this is what makes the complex step possible.
    """

    __slots__ = ("__weakref__", "data", "grad", "node", "requires_grad", "slot")

    def __init__(self, value: ArrayLike, *, requires_grad: bool = False, dtype: DTypeLike | None = None):
        if isinstance(value, Tensor):
            value = value.data
        self.data: Array = array_of("Tensor", value, dtype)
        if self.data.dtype.kind not in "biufc":
            raise TypeError(f"Tensor: value is {self.data.dtype} ({type(value).__name__}); pass numbers only")
        if requires_grad and self.data.dtype.kind not in "fc":
            raise TypeError(
                f"Tensor: requires_grad needs a floating type, value is {self.data.dtype}; pass dtype=np.float64"
            )
        self.grad: Array | None = None
        self.requires_grad = requires_grad
        self.node: Node | None = None
        self.slot = 0

    shape = property(lambda self: self.data.shape, doc="Lengths of the axes.")
    ndim = property(lambda self: self.data.ndim, doc="Number of axes.")
    size = property(lambda self: self.data.size, doc="Number of elements.")
    dtype = property(lambda self: self.data.dtype, doc="Type of the elements; every result keeps it.")

    def numpy(self) -> Array:
        """The array itself, not a copy, without history: a constant."""
        return self.data.real if is_stepping() else self.data

    def item(self) -> Any:
        """The only element, as a Python number without history; TypeError inside a function that is differentiated.

        float(), int(), complex() and functions of math, which do the same unseen, are refused wherever a gradient is
        recorded.
        """
        return self._number(".item()") if _differentiated.get() else self.data.item()

    def detach(self) -> Tensor:
        """The same values, the array shared, as a constant: no gradient flows through it."""
        return result(self.numpy())

    def _number(self, way: str) -> Any:
        """The only element; TypeError if its history would be lost: if it is on a tape that was not used yet."""
        on_tape = self.requires_grad and (self.node is None or self.node.vjp is not None)
        if on_tape and recording.get():
            raise TypeError(
                f"{way} of a Tensor that a gradient is recorded for gives a number without history; compute with "
                "refnp's operations, or write .numpy() for a constant"
            )
        return self.data.item()

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError(
            "a Tensor is not turned into an array silently, for its history would be lost; use .numpy(), "
            "or refnp's stack for a list of Tensors"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.node is not None:
            raise TypeError("a Tensor with history is neither copied nor pickled; use .detach(), which has its values")
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        values = np.array2string(self.data, precision=6, threshold=20, separator=", ", prefix="Tensor(")
        made = f", from {self.node.operation.__name__}" if self.node else ", leaf" if self.requires_grad else ""
        return f"Tensor({values}, {self.dtype}{made})"

    def __format__(self, form: str) -> str:
        return format(self.data.item(), form) if form else str(self)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len: a Tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.data)

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # operators.py, which knows the operations, gives a Tensor its arithmetic and its methods
        _operator: Any = None
        __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = __matmul__ = _operator
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = __rmatmul__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __getitem__ = _operator

        def __getattr__(self, name: str) -> Any: ...


def result(value: Any, node: Node | None = None, slot: int = 0) -> Tensor:
    """A computed value as a Tensor: result number `slot` of `node`, or a constant if there is no node."""
    tensor = _new(Tensor)
    tensor.data = value
    tensor.grad = None
    tensor.requires_grad = node is not None
    tensor.node = node
    tensor.slot = slot if node else 0
    return tensor


_new = object.__new__  # without the checks of Tensor(value)
Array = np.ndarray  # what functions compute with; they return `Array`, or `Tensor` if they were given one
NoTensor = Array | np.generic | complex | Sequence | np.random.Generator | Callable | None  # what gives no Tensor
ArrayLike = Array | Tensor | np.generic | complex | Sequence  # what functions accept; complex stands for int, float too


class Parameter(Tensor):
    """A leaf that belongs to a module and is trained; its array is its own copy.

    With trainable=False it is frozen: stored and loaded with the others, but without gradient, and no optimiser has it.
    """

    __slots__ = ()

    def __init__(self, value: ArrayLike, *, dtype: DTypeLike | None = None, trainable: bool = True):
        super().__init__(array_of("Parameter", value, dtype).copy(), requires_grad=trainable)


def array_of(name: str, value: Any, dtype: DTypeLike | None) -> Any:
    """The value as an array, of another kind of number too; ValueError that names it where NumPy cannot make one."""
    try:
        return value if isinstance(value, Kind) else np.asarray(value, dtype)
    except (ValueError, OverflowError) as wrong:
        raise ValueError(f"{name}: value is a {type(value).__name__} that is no array of numbers ({wrong})") from wrong
