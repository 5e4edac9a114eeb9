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


@dataclass(frozen=True)
class Question:
    """The output of `function` of `arrays`, on a device named as the framework names it ("cuda:0").

    For each index in `wanted` also the gradient of Σ output·cotangent with respect to that argument; the cotangent may
    be None where none is wanted, and the device None, the framework's default.
    """

    function: Callable
    arrays: Sequence[np.ndarray]
    cotangent: np.ndarray | None
    wanted: Sequence[int]
    device: str | None = None

    def has_gradients(self, output: Any) -> bool:
        """Whether gradients are wanted, and the output has the shape of the cotangent."""
        return bool(self.wanted) and tuple(output.shape) == np.asarray(self.cotangent).shape

    def along(self, array: Callable) -> Any:
        """The cotangent as an `array` of the framework."""
        return array(np.asanyarray(self.cotangent), self.device)

    def chosen(self, inputs: Sequence[Any]) -> list:
        """Those of the inputs that a gradient is wanted of."""
        return [inputs[index] for index in self.wanted]

    def of_chosen(self, inputs: Sequence[Any]) -> Callable:
        """The function of those arguments alone that a gradient is wanted of, at the others as they are given."""

        def call(*own: Any) -> Any:
            everything = list(inputs)
            for index, array in zip(self.wanted, own, strict=True):
                everything[index] = array
            return self.function(*everything)

        return call


Answer = tuple[np.ndarray, list[np.ndarray]]  # the output, and the gradients that are wanted if it has the right shape


@dataclass(frozen=True)
class Native:
    """A framework with arrays of its own. None of its functions imports it before it has to.

    `array(x, device)` is a NumPy array as the framework's, and `numpy(array)` the way back. `owns(thing)` says whether
    an array or a module is the framework's; False where it is not imported. `run` answers what it is asked. Slices are
    views, whose strides a function may read wrongly, where the framework `has_views`.
    """

    name: str  # "PyTorch"
    package: str  # "torch": to be imported
    array: Callable[[np.ndarray, str | None], Any]
    numpy: Callable[[Any], np.ndarray]
    owns: Callable[[Any], bool]
    run: Callable[[Question], Answer]
    modules: tuple[str, ...] = ()  # parts of the package that importing it leaves out
    has_views: bool = False

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


# NumPy


def numpy_array(x: np.ndarray, device: str | None = None) -> np.ndarray:
    """A copy, so that no function can change the inputs of a case."""
    only_the_processor("NumPy", device)
    return np.array(in_own_type(x))


def run_numpy(asked: Question) -> Answer:
    """NumPy does not differentiate: ValueError if a gradient is wanted."""
    if asked.wanted:
        raise ValueError("gradients: NumPy does not differentiate a function; give its pullback as vjp=")
    return np.asarray(asked.function(*(numpy_array(x, asked.device) for x in asked.arrays))), []


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


def run_torch(asked: Question) -> Answer:
    """On one thread: cases are small, and on a busy machine threads would wait for each other most of the time."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        inputs = [torch_array(x, asked.device) for x in asked.arrays]
        for tensor in asked.chosen(inputs):
            tensor.requires_grad_()
        with torch.set_grad_enabled(bool(asked.wanted)):
            output = asked.function(*inputs)
        if asked.wanted and not isinstance(output, torch.Tensor):
            raise TypeError(f"{type(output).__name__} comes back, and no tensor: it has no gradient")
        if not asked.has_gradients(output):
            return torch_numpy(output), []
        gradients = torch.autograd.grad(output, asked.chosen(inputs), asked.along(torch_array), materialize_grads=True)
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


def run_jax(asked: Question) -> Answer:
    """Compiled, and with float64 switched on for the call alone; as it stands if it cannot be traced."""
    import jax

    def both(given: list, along: Any) -> Any:
        if not asked.wanted:
            return asked.function(*given), ()
        output, pullback = jax.vjp(asked.of_chosen(given), *asked.chosen(given))
        return output, pullback(along.astype(output.dtype)) if output.shape == along.shape else ()

    with jax.enable_x64(True):
        given = [jax_array(x, asked.device) for x in asked.arrays]
        along = asked.along(jax_array) if asked.wanted else None
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


def run_mlx(asked: Question) -> Answer:
    """On the processor, where float64 is."""
    import mlx.core

    with mlx.core.stream(mlx.core.cpu):
        given = [mlx_array(x, asked.device) for x in asked.arrays]
        if not asked.has_gradients(output := asked.function(*given)):
            return np.array(output), []
        inner = asked.of_chosen(given)
        try:
            (output,), gradients = mlx.core.vjp(
                lambda *own: [inner(*own)], asked.chosen(given), [asked.along(mlx_array)]
            )
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


def run_paddle(asked: Question) -> Answer:
    """Eagerly; an argument that the output does not depend on has gradient 0."""
    import paddle

    before = paddle.device.get_device()
    paddle.device.set_device(asked.device or "cpu")
    try:
        inputs = [paddle_array(x, asked.device) for x in asked.arrays]
        for tensor in asked.chosen(inputs):
            tensor.stop_gradient = False
        output = asked.function(*inputs)
        if not asked.has_gradients(output):
            return output.numpy(), []
        gradients = paddle.grad([output], asked.chosen(inputs), [asked.along(paddle_array)], allow_unused=True)
        zeros = map(np.zeros_like, asked.chosen(asked.arrays))
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


def run_tensorflow(asked: Question) -> Answer:
    """Eagerly, on a tape; an argument that the output does not depend on has gradient 0."""
    import tensorflow

    try:
        with tensorflow.device(asked.device or "cpu"), tensorflow.GradientTape() as tape:
            inputs = [tensorflow_array(x, asked.device) for x in asked.arrays]
            for tensor in asked.chosen(inputs):
                tape.watch(tensor)
            output = tensorflow.convert_to_tensor(asked.function(*inputs))
        if not asked.has_gradients(output):
            return output.numpy(), []
        zero, along = tensorflow.UnconnectedGradients.ZERO, asked.along(tensorflow_array)
        gradients = tape.gradient(output, asked.chosen(inputs), along, unconnected_gradients=zero)
        return output.numpy(), [tensorflow.convert_to_tensor(gradient).numpy() for gradient in gradients]
    except tensorflow.errors.OpError as failure:
        if "not in the list of allowed values" in failure.message:
            raise NotOfferedError(f"TensorFlow: {failure.message}".splitlines()[0]) from None
        raise RuntimeError(failure.message) from None


def run_keras(asked: Question) -> Answer:
    """As TensorFlow, which is Keras' own first choice."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise NotOfferedError(f"Keras: judged with TensorFlow behind it, not with {keras.backend.backend()}")
    return run_tensorflow(asked)


# tinygrad


def tinygrad_array(x: np.ndarray, device: str | None = None) -> Any:
    """A tensor on a device, that of tinygrad's DEV by default."""
    import tinygrad

    return tinygrad.Tensor(np.array(in_own_type(x), order="C"), device=device)


def run_tinygrad(asked: Question) -> Answer:
    """Compiled for each shape, about half a second of a processor for an answer with its gradients."""
    inputs = [tinygrad_array(x, asked.device) for x in asked.arrays]
    output = asked.function(*inputs)
    if not asked.has_gradients(output):
        return output.numpy(), []
    gradients = output.gradient(*asked.chosen(inputs), gradient=asked.along(tinygrad_array))
    return output.numpy(), [gradient.numpy() for gradient in gradients]


IS_NUMPY = lambda thing: isinstance(thing, (np.ndarray, np.generic))
NUMPY = Native("NumPy", "numpy", numpy_array, np.asarray, IS_NUMPY, run_numpy, has_views=True)
PYTORCH = Native("PyTorch", "torch", torch_array, torch_numpy, made_by("torch"), run_torch, has_views=True)
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
