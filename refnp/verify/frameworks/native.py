"""Frameworks that compute with arrays of their own and differentiate functions of them: one `Native` for each.

Nothing here knows a layer or a case. `run` calls any function of the framework's arrays, and takes its gradients by the
framework's own automatic differentiation; arrays of NumPy go in and come out.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from refnp.numbers.precision import Stored, format_of, in_own_type, stored_in
from refnp.verify.case import NotOfferedError

Run = Callable[
    [Callable, Sequence[np.ndarray], np.ndarray | None, Sequence[int], str | None], tuple[np.ndarray, list[np.ndarray]]
]


@dataclass(frozen=True)
class Native:
    """A framework with arrays of its own. None of its functions imports it before it has to.

    `array(x, device)` is a NumPy array as the framework's, and `numpy(array)` the way back. `owns(thing)` says whether
    an array or a module is the framework's; False where it is not imported. `run(function, arrays, cotangent, wanted,
    device)` returns the function's output and, for each index in `wanted`, the gradient of Σ output·cotangent with
    respect to that argument; no gradients if the output is not of the shape of the cotangent, which may be None where
    none is wanted. A device is named as the framework names it ("cuda:0"), and None is the framework's default.
    """

    name: str  # "PyTorch"
    package: str  # "torch": to be imported
    array: Callable[[np.ndarray, str | None], Any]
    numpy: Callable[[Any], np.ndarray]
    owns: Callable[[Any], bool]
    run: Run
    modules: tuple[str, ...] = ()  # parts of the package that importing it leaves out

    def module(self) -> ModuleType:
        """The package, imported."""
        for name in self.modules:
            importlib.import_module(name)
        return importlib.import_module(self.package)


def made_by(*packages: str) -> Callable[[Any], bool]:
    """Whether the class of a thing, or one that it inherits from, is defined in one of the packages."""

    def owns(thing: Any) -> bool:
        return any(kind.__module__.partition(".")[0] in packages for kind in type(thing).__mro__)

    return owns


def only_the_processor(name: str, device: str | None) -> None:
    """ValueError for a device where there is but one."""
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r}: {name} computes on the processor; leave device away")


def of_chosen(function: Callable, given: Sequence[Any], wanted: Sequence[int]) -> Callable:
    """The function of those arguments alone that a gradient is wanted of, at the others as they are given."""

    def call(*own: Any) -> Any:
        everything = list(given)
        for index, array in zip(wanted, own, strict=True):
            everything[index] = array
        return function(*everything)

    return call


# NumPy


def numpy_array(x: np.ndarray, device: str | None = None) -> np.ndarray:
    """A copy, so that no function can change the inputs of a case."""
    only_the_processor("NumPy", device)
    return np.array(in_own_type(x))


def run_numpy(
    function: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: np.ndarray | None,
    wanted: Sequence[int],
    device: str | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """NumPy does not differentiate: ValueError if a gradient is wanted."""
    if wanted:
        raise ValueError("gradients: NumPy does not differentiate a function; give its pullback as vjp=")
    return np.asarray(function(*(numpy_array(x, device) for x in arrays))), []


# PyTorch


def torch_array(x: np.ndarray, device: str | None = None) -> Any:
    """A tensor of its own memory, also in formats for which NumPy has no type."""
    import torch

    kind = getattr(torch, x.format) if isinstance(x, Stored) and x.format else None
    return torch.from_numpy(np.array(x)).to(device or "cpu", kind)


def torch_numpy(tensor: Any) -> np.ndarray:
    """The numbers of a tensor on any device, whether or not it is on a tape; what is none, as NumPy takes it."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        return stored_in(str(tensor.dtype).removeprefix("torch."), torch_numpy(tensor.float()))
    return tensor.detach().cpu().resolve_conj().resolve_neg().numpy()


def run_torch(
    function: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: np.ndarray | None,
    wanted: Sequence[int],
    device: str | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """On one thread: cases are small, and on a busy machine threads would wait for each other most of the time."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        inputs = [torch_array(x, device) for x in arrays]
        for index in wanted:
            inputs[index].requires_grad_()
        with torch.set_grad_enabled(bool(wanted)):
            output = function(*inputs)
        if wanted and not isinstance(output, torch.Tensor):
            raise TypeError(f"{type(output).__name__} comes back, and no tensor: it has no gradient")
        if not wanted or output.shape != np.asarray(cotangent).shape:
            return torch_numpy(output), []
        chosen, along = [inputs[index] for index in wanted], torch_array(np.asanyarray(cotangent), device)
        gradients = torch.autograd.grad(output, chosen, along, materialize_grads=True)
        return torch_numpy(output), [torch_numpy(gradient) for gradient in gradients]
    finally:
        torch.set_num_threads(threads)


# JAX


def jax_array(x: np.ndarray, device: str | None = None) -> Any:
    """An array in the precision of `x`, float64 as well; "cuda:1" is the second device of JAX's backend "cuda"."""
    import jax

    with jax.enable_x64(True):
        x = in_own_type(x)
        if device is None:
            return jax.numpy.asarray(x)
        platform, _, number = device.partition(":")
        return jax.device_put(x, jax.devices(platform)[int(number or 0)])


def run_jax(
    function: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: np.ndarray | None,
    wanted: Sequence[int],
    device: str | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compiled, and with float64 switched on for the call alone; as it stands if it cannot be traced."""
    import jax

    chosen = list(wanted)

    def both(given: list, along: Any) -> Any:
        if not chosen:
            return function(*given), ()
        output, pullback = jax.vjp(of_chosen(function, given, chosen), *(given[index] for index in chosen))
        return output, pullback(along.astype(output.dtype)) if output.shape == along.shape else ()

    with jax.enable_x64(True):
        given = [jax_array(x, device) for x in arrays]
        along = jax_array(np.asanyarray(cotangent), device) if chosen else None
        try:
            output, gradients = jax.jit(both)(given, along)
        except jax.errors.JAXTypeError:  # its steps depend on values
            output, gradients = both(given, along)
    return np.asarray(output), [np.asarray(gradient) for gradient in gradients]


# MLX


def mlx_array(x: np.ndarray, device: str | None = None) -> Any:
    """An array in the precision of `x`; float64 is there on the processor alone, where everything is run."""
    import mlx.core

    only_the_processor("MLX", device)
    with mlx.core.stream(mlx.core.cpu):
        return mlx.core.array(np.array(x, order="C"), dtype=getattr(mlx.core, format_of(x)))


def run_mlx(
    function: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: np.ndarray | None,
    wanted: Sequence[int],
    device: str | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """On the processor, where float64 is."""
    import mlx.core

    with mlx.core.stream(mlx.core.cpu):
        given = [mlx_array(x, device) for x in arrays]
        if not wanted:
            return np.array(function(*given)), []

        along = mlx_array(np.asanyarray(cotangent), device)
        if (output := function(*given)).shape != along.shape:
            return np.array(output), []
        try:
            inner = of_chosen(function, given, wanted)
            chosen = [given[index] for index in wanted]
            (output,), gradients = mlx.core.vjp(lambda *own: [inner(*own)], chosen, [along])
            return np.array(output), [np.array(gradient) for gradient in gradients]
        except ValueError as refusal:
            if "unsupported data type" in str(refusal):
                raise NotOfferedError(f"MLX: {refusal}") from None
            raise


# PaddlePaddle


def paddle_array(x: np.ndarray, device: str | None = None) -> Any:
    """A tensor that no gradient is taken of."""
    import paddle

    return paddle.to_tensor(in_own_type(x), place=device or "cpu")


def run_paddle(
    function: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: np.ndarray | None,
    wanted: Sequence[int],
    device: str | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Eagerly; an argument that the output does not depend on has gradient 0."""
    import paddle

    before = paddle.device.get_device()
    paddle.device.set_device(device or "cpu")
    try:
        inputs = [paddle_array(x, device) for x in arrays]
        for index in wanted:
            inputs[index].stop_gradient = False
        output = function(*inputs)
        if not wanted or tuple(output.shape) != np.asarray(cotangent).shape:
            return output.numpy(), []
        along = paddle_array(np.asanyarray(cotangent), device)
        gradients = paddle.grad([output], [inputs[index] for index in wanted], [along], allow_unused=True)
        zeros = [np.zeros_like(arrays[index]) for index in wanted]
        return output.numpy(), [z if g is None else g.numpy() for z, g in zip(zeros, gradients, strict=True)]
    except RuntimeError as refusal:
        if "is not registered" in str(refusal):
            raise NotOfferedError(f"Paddle: {str(refusal).strip().splitlines()[-1]}") from None
        raise
    finally:
        paddle.device.set_device(before)


# TensorFlow, and Keras on top of it


def tensorflow_array(x: np.ndarray, device: str | None = None) -> Any:
    """A tensor on a device, the processor by default."""
    import tensorflow

    with tensorflow.device(device or "cpu"):
        return tensorflow.constant(in_own_type(x))


def run_tensorflow(
    function: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: np.ndarray | None,
    wanted: Sequence[int],
    device: str | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Eagerly, on a tape; an argument that the output does not depend on has gradient 0."""
    import tensorflow

    try:
        with tensorflow.device(device or "cpu"), tensorflow.GradientTape() as tape:
            inputs = [tensorflow_array(x, device) for x in arrays]
            chosen = [inputs[index] for index in wanted]
            for tensor in chosen:
                tape.watch(tensor)
            output = tensorflow.convert_to_tensor(function(*inputs))
        if not wanted or tuple(output.shape) != np.asarray(cotangent).shape:
            return output.numpy(), []
        along = tensorflow_array(np.asanyarray(cotangent), device)
        zero = tensorflow.UnconnectedGradients.ZERO
        gradients = tape.gradient(output, chosen, along, unconnected_gradients=zero)
        return output.numpy(), [tensorflow.convert_to_tensor(gradient).numpy() for gradient in gradients]
    except tensorflow.errors.OpError as failure:
        if "not in the list of allowed values" in failure.message:
            raise NotOfferedError(f"TensorFlow: {failure.message}".splitlines()[0]) from None
        raise RuntimeError(failure.message) from None


def run_keras(*arguments: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """As TensorFlow, which is Keras' own first choice."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise NotOfferedError(f"Keras: judged with TensorFlow behind it, not with {keras.backend.backend()}")
    return run_tensorflow(*arguments)


# tinygrad


def tinygrad_array(x: np.ndarray, device: str | None = None) -> Any:
    """A tensor on a device, that of tinygrad's DEV by default."""
    import tinygrad

    return tinygrad.Tensor(np.array(in_own_type(x), order="C"), device=device)


def run_tinygrad(
    function: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: np.ndarray | None,
    wanted: Sequence[int],
    device: str | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compiled for each shape, about half a second of a processor for an answer with its gradients."""
    inputs = [tinygrad_array(x, device) for x in arrays]
    output = function(*inputs)
    if not wanted or output.shape != np.asarray(cotangent).shape:
        return output.numpy(), []
    along = tinygrad_array(np.asanyarray(cotangent), device)
    gradients = output.gradient(*(inputs[index] for index in wanted), gradient=along)
    return output.numpy(), [gradient.numpy() for gradient in gradients]


IS_NUMPY = lambda thing: isinstance(thing, np.ndarray)
NUMPY = Native("NumPy", "numpy", numpy_array, np.asarray, IS_NUMPY, run_numpy)
PYTORCH = Native("PyTorch", "torch", torch_array, torch_numpy, made_by("torch"), run_torch)
JAX = Native("JAX", "jax", jax_array, np.asarray, made_by("jax", "jaxlib", "flax", "equinox"), run_jax)
MLX = Native("MLX", "mlx", mlx_array, np.array, made_by("mlx"), run_mlx, ("mlx.core", "mlx.nn"))
PADDLE = Native("Paddle", "paddle", paddle_array, lambda tensor: tensor.numpy(), made_by("paddle"), run_paddle)
TENSORFLOW = Native(
    "TensorFlow", "tensorflow", tensorflow_array, lambda tensor: tensor.numpy(), made_by("tensorflow"), run_tensorflow
)
KERAS = Native("Keras", "keras", tensorflow_array, lambda tensor: tensor.numpy(), made_by("keras"), run_keras)
TINYGRAD = Native(
    "tinygrad", "tinygrad", tinygrad_array, lambda tensor: tensor.numpy(), made_by("tinygrad"), run_tinygrad
)
NATIVES = {native.name: native for native in (NUMPY, PYTORCH, JAX, MLX, PADDLE, TENSORFLOW, KERAS, TINYGRAD)}
